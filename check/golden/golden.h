/* check/golden/golden.h - the models that `brasa check` can build from a golden-1 file
 * (brasa/check.h).
 *
 * Each model has one row {name, build, forward} in its notebook's table. */
#ifndef BRASA_CHECK_GOLDEN_H
#define BRASA_CHECK_GOLDEN_H

#include "check/mode.h"

#include <brasa/brasa.h>

typedef struct golden_model {
    const char *name; /* 'model' in the metadata */
    /* Creates the module with the sizes of br_check_size(). NULL if the row is a function, which
     * has no parameters. */
    void *(*build)(br_check *check);
    br_check_forward_fn forward;
} golden_model;

/* The tables; each ends with a row whose name is NULL. */
extern const golden_model golden_anatomy_models[];
extern const golden_model golden_architecture_models[];
extern const golden_model golden_bert_models[];
extern const golden_model golden_nn_models[];
extern const golden_model golden_vanilla_models[];

/* Checks one file with the row for its `model`, in the dtypes of the mode. Returns false with an
 * error if there is no such row, if the file cannot be read, or if only one of PyTorch and Brasa
 * has a tensor. */
bool golden_check(const char *path, br_check_mode mode, br_check_result *result);

#endif
