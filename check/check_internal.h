/* check/check_internal.h - the state of one file's check, shared by check.c, parts.c and compare.c.
 */
#ifndef BR_CHECK_INTERNAL_H
#define BR_CHECK_INTERNAL_H

#include "check/mode.h"
#include "tensor/tensor_internal.h"

#include <brasa/check.h>
#include <brasa/io.h>
#include <brasa/optim.h>
#include <jansson.h>

/* Computes the loss from the outputs and the file's labels; returns NULL for the loss "none". */
typedef br_tensor *(*br_check_loss)(br_check *check);
/* Returns the loss with that name; NULL with an error if there is none. */
br_check_loss br__check_find_loss(const char *name);

enum { BR_CHECK_MAX_NAMES = 16 };

/* An intermediate result: the module whose forward hook compares it. */
typedef struct br_check_tap {
    br_check *check;
    const char *name; /* in the file, "tap/PATH" */
    br_module *module;
    uint64_t hook;
    bool seen; /* only the module's first result was recorded */
} br_check_tap;

struct br_check {
    br_safetensors *file;
    br_check_loss loss;
    br_check_forward_fn forward;
    bool training, trajectory, seeded;
    double rtol, atol;
    br_check_mode mode;
    int64_t ignore_index; /* of cross_entropy_ignore */
    json_t *config, *tol, *init, *optimizer, *loss_of, *no_grad, *noise;
    br_module *module; /* NULL for a function */
    br_optim *optim;
    br_check_result *result;
    br_check_tap *taps;
    int64_t n_taps;

    /* The inputs and outputs of the current pass. */
    br_named_tensor inputs[BR_CHECK_MAX_NAMES], outputs[BR_CHECK_MAX_NAMES];
    int n_inputs, n_outputs;

    /* Layers that forward creates: the prefix of their tensors in the file for this pass, and the
     * number created so far. */
    char fresh_prefix[48];
    int n_fresh;
    bool fresh_random; /* their initial values are generated from fresh_seed */
    int64_t fresh_seed;
};

/* Sets the mode. Call it before br_check_run(). */
void br__check_compute_in(br_check *check, br_check_mode mode);

/* Compares with the file's tensor of that name, using its tolerance. */
void br__check_compare(br_check *check, const char *name, br_tensor *got);
/* Compares random initial values in the same way, with a tolerance of 5e-7. */
void br__check_compare_random(br_check *check, const char *name, br_tensor *got);
/* Returns NULL with an error if the model has no such output. */
br_tensor *br__check_get_output(br_check *check, const char *name);
/* For layers that are created during forward: checks their random initial values if the file has
 * the seed, and then sets the recorded values. `check` is a br_check. */
void br__check_fresh(void *check, br_linear *linear, br_layer_norm *norm);

#endif
