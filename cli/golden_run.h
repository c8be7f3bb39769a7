/* cli/golden_run.h - the state of one file's check, which the files golden*.c share. */
#ifndef BRASA_CLI_GOLDEN_RUN_H
#define BRASA_CLI_GOLDEN_RUN_H

#include "cli/golden.h"

#include <jansson.h>

/* The loss from the outputs and the file's labels; NULL for the loss "none". */
typedef br_tensor *(*golden_loss)(golden_run *run);
/* NULL and an error for an unknown name. */
golden_loss golden_find_loss(const char *name);

enum { GOLDEN_MAX_NAMES = 16 };

struct golden_run {
    br_safetensors *file;
    const golden_model *model;
    golden_loss loss;
    bool training, trajectory;
    double rtol, atol;
    int64_t ignore_index; /* of cross_entropy_ignore */
    json_t *config, *tol, *init, *optimizer, *loss_of, *no_grad, *noise;
    br_module *module; /* NULL for a function */
    br_optim *optim;
    golden_result *result;

    /* What the pass that runs has taken and made. */
    br_named_tensor inputs[GOLDEN_MAX_NAMES], outputs[GOLDEN_MAX_NAMES];
    int n_inputs, n_outputs;

    /* Layers that forward makes: where this pass's are recorded, and how many it made. */
    char fresh_prefix[48];
    int n_fresh;
    bool fresh_drawn; /* they are what their constructors draw from fresh_seed on */
    int64_t fresh_seed;
};

/* Compares with the file's tensor of that name, within its tolerance. */
void golden_compare(golden_run *run, const char *name, br_tensor *got);
/* The same for freshly drawn values, which agree to the last digit or so. */
void golden_compare_drawn(golden_run *run, const char *name, br_tensor *got);
/* NULL and an error if the model gave no such output. */
br_tensor *golden_get_output(golden_run *run, const char *name);

#endif
