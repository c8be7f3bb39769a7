/* cli/golden.h - compares Brasa with golden-1 files, which hold a model's parameters, inputs,
 * outputs, loss and gradients as computed by PyTorch.
 *
 * Each model has one row {name, build, forward} in its notebook's table. The row computes the
 * outputs from the file's inputs; golden.c does the rest. */
#ifndef BRASA_CLI_GOLDEN_H
#define BRASA_CLI_GOLDEN_H

#include <brasa/brasa.h>

typedef struct golden_run golden_run;

typedef struct golden_model {
    const char *name; /* 'model' in the metadata */
    /* Creates the module with the sizes of golden_size(). NULL if the row is a function, which has
     * no parameters. */
    void *(*build)(golden_run *run);
    /* Runs the module (NULL for a function) on golden_input() and passes the results to
     * golden_output(). */
    void (*forward)(golden_run *run, void *module);
} golden_model;

/* The tables; each ends with a row whose name is NULL. */
extern const golden_model golden_anatomy_models[];
extern const golden_model golden_architecture_models[];
extern const golden_model golden_bert_models[];
extern const golden_model golden_nn_models[];
extern const golden_model golden_vanilla_models[];

/* Return a value of the file's `config`. golden_size() returns -1 with an error if the value is
 * missing or not an integer, golden_number() 0 with an error if it is missing or not a number.
 * golden_size_or() and golden_option() return `otherwise` if it is missing. */
int64_t golden_size(golden_run *run, const char *name);
int64_t golden_size_or(golden_run *run, const char *name, int64_t otherwise);
double golden_number(golden_run *run, const char *name);
bool golden_option(golden_run *run, const char *name, bool otherwise);
/* Returns the argument of forward with this name; NULL without an error if the file does not have
 * it. */
br_tensor *golden_input(golden_run *run, const char *name);
/* Stores a result under its name; the string must stay valid. */
void golden_output(golden_run *run, const char *name, br_tensor *t);
/* Call this for layers that are created during forward: checks their random initial values if the
 * file has the seed, and then sets the recorded values. `run` is a golden_run. */
void golden_fresh(void *run, br_linear *linear, br_layer_norm *norm);

/* The largest difference, as a multiple of the tolerance; the file agrees if it is at most 1. */
typedef struct golden_result {
    double excess;
    char where[256]; /* the tensor with that difference; "" if nothing was compared */
} golden_result;

/* Checks one file. Returns false with an error if it cannot be read, if the model cannot be built,
 * or if PyTorch or Brasa has a tensor that the other does not have. */
bool golden_check(const char *path, golden_result *result);

#endif
