/* cli/golden.h - golden-1 files: a model's parameters, inputs, outputs, loss and gradients as
 * PyTorch has them, and how they are compared with Brasa's.
 *
 * A model is known by one row {name, build, forward} of its notebook's table. The row says how the
 * file's inputs become outputs; all else is in golden.c. */
#ifndef BRASA_CLI_GOLDEN_H
#define BRASA_CLI_GOLDEN_H

#include <brasa/brasa.h>

typedef struct golden_run golden_run;

typedef struct golden_model {
    const char *name; /* the metadata's `model` */
    /* Makes the module from golden_size(); NULL for a function, which has no parameters. */
    void *(*build)(golden_run *run);
    /* Calls the module, NULL for a function, with golden_input() and hands what it returns to
     * golden_output(). */
    void (*forward)(golden_run *run, void *module);
} golden_model;

/* The tables, each ended by a row without a name. */
extern const golden_model golden_anatomy_models[];
extern const golden_model golden_architecture_models[];
extern const golden_model golden_bert_models[];
extern const golden_model golden_nn_models[];
extern const golden_model golden_vanilla_models[];

/* A size of the file's `config`. -1 and an error if it is not there or no integer; golden_number(),
 * which takes any number, gives 0 then; golden_option() and golden_size_or() give `otherwise` for
 * what is not there. */
int64_t golden_size(golden_run *run, const char *name);
int64_t golden_size_or(golden_run *run, const char *name, int64_t otherwise);
double golden_number(golden_run *run, const char *name);
bool golden_option(golden_run *run, const char *name, bool otherwise);
/* The argument of forward under that name, NULL (no error) if the file has none. */
br_tensor *golden_input(golden_run *run, const char *name);
/* Keeps a result under its name; `name` must be a constant. */
void golden_output(golden_run *run, const char *name, br_tensor *t);
/* For layers that are made during forward: checks what they drew, where the file says from which
 * seed, and gives them the recorded values. `run` is a golden_run. */
void golden_fresh(void *run, br_linear *linear, br_layer_norm *norm);

/* The largest difference found, in units of what is allowed: up to 1 the file agrees. */
typedef struct golden_result {
    double excess;
    char where[256]; /* the tensor with that difference; "" if nothing was compared */
} golden_result;

/* Checks one file. False and an error pending if it cannot be read or built, or if something is
 * missing on either side. */
bool golden_check(const char *path, golden_result *result);

#endif
