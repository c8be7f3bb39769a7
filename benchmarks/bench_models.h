/* benchmarks/bench_models.h - the models that `brasa bench models` and `brasa bench ranks` train.
 */
#ifndef BR_BENCH_MODELS_H
#define BR_BENCH_MODELS_H

#include "benchmarks/bench.h"

enum { BENCH_BATCH = 5 }; /* maximum number of tensors of a batch */

typedef struct bench_model {
    const char *name;
    br_module *(*make)(void);
    void (*make_batch)(br_tensor **batch);
    /* Returns the loss, or NULL with an error. */
    br_tensor *(*loss)(br_module *module, br_tensor *const *batch);
    bool has_dropout;
    /* NULL: a training step is forward and backward only. */
    br_optim *(*optimizer)(br_module *module);
} bench_model;

/* Returns the model of that name, or NULL. */
const bench_model *bench_find_model(const char *name);

#endif
