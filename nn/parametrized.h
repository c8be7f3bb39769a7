/* nn/parametrized.h - parametrized parameters: parametrize.c registers them, forward.c computes
 * their values. */
#ifndef BR_PARAMETRIZED_H
#define BR_PARAMETRIZED_H

#include "nn/nn_internal.h"

enum { BR_MAX_ORIGINALS = 8 };

/* PyTorch's ParametrizationList: its entries are the originals, and its children are the
 * parametrizations. */
typedef struct br_parametrization_list {
    br_module base;
    br_module_run_fn forward; /* of the first child; NULL: br_forward() */
    int n_originals;
} br_parametrization_list;

/* One parametrized parameter of a module. */
struct br_parametrized {
    br_parametrized *next;
    br_tensor **field;
    br_parametrization_list *list;
    br_tensor *value; /* owned, while a forward runs */
};

/* Drops the value, if there is one. */
static inline void br__parametrized_clear(br_parametrized *p)
{
    if (p->field)
        *p->field = NULL;
    br_release(p->value);
    p->value = NULL;
}

/* Runs the first parametrization of a list; `forward` is that of the list. */
br_tensor *br__run_first_parametrization(br_module_run_fn forward, br_module *first,
                                         br_tensor *const *originals);
/* Computes the parameter from the originals. */
br_tensor *br__compute_parametrized(br_parametrization_list *list);

#endif
