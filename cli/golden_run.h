/* cli/golden_run.h - the state of one file's check, shared by golden*.c. */
#ifndef BRASA_CLI_GOLDEN_RUN_H
#define BRASA_CLI_GOLDEN_RUN_H

#include "cli/golden.h"

#include <jansson.h>

/* Computes the loss from the outputs and the file's labels; returns NULL for the loss "none". */
typedef br_tensor *(*golden_loss)(golden_run *run);
/* Returns the loss with that name; NULL with an error if there is none. */
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

    /* The inputs and outputs of the current pass. */
    br_named_tensor inputs[GOLDEN_MAX_NAMES], outputs[GOLDEN_MAX_NAMES];
    int n_inputs, n_outputs;

    /* Layers that forward creates: the prefix of their tensors in the file for this pass, and the
     * number created so far. */
    char fresh_prefix[48];
    int n_fresh;
    bool fresh_random; /* their initial values are generated from fresh_seed */
    int64_t fresh_seed;
};

/* Compares with the file's tensor of that name, using its tolerance. */
void golden_compare(golden_run *run, const char *name, br_tensor *got);
/* Compares random initial values in the same way, with a tolerance of 5e-7. */
void golden_compare_random(golden_run *run, const char *name, br_tensor *got);
/* Returns NULL with an error if the model has no such output. */
br_tensor *golden_get_output(golden_run *run, const char *name);

#endif
