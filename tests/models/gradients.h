/* tests/models/gradients.h - two numbers for the gradients of all parameters of a model, which the
 * recorders compute in the same way. */
#ifndef BR_TEST_GRADIENTS_H
#define BR_TEST_GRADIENTS_H

#include "tests/support.h"

/* Returns cos(0), cos(1), ..., cos(n - 1) in f64. */
static inline br_tensor *cosines(int64_t n)
{
    return br_cos(br_arange(0, (double)n, 1, BR_F64));
}

/* Returns the sum of the products of t's elements with cosines. */
static inline br_tensor *weighted(br_tensor *t)
{
    return br_sum(br_mul(br_reshape(t, BR_SHAPE(-1)), cosines(br_numel(t))));
}

/* Compares the sum of all gradients, weighted within each parameter, and the sum of their squares
 * with the two numbers in `expected`. */
static inline void check_gradients(const char *name, br_module *model, br_tensor *expected)
{
    double sum = 0, squares = 0;
    br_named_list *list = br_parameters(model);
    for (int64_t i = 0; i < list->count; i++) {
        br_tensor *g = br_grad_of(list->items[i].tensor);
        if (!g)
            continue;
        sum += br_item(weighted(g));
        squares += br_item(br_sum(br_mul(g, g)));
    }
    br_named_list_free(list);
    double wanted = br_at(expected, BR_DIMS(0)), wanted_squares = br_at(expected, BR_DIMS(1));
    cr_assert(fabs(squares - wanted_squares) <= 1e-9 * wanted_squares, "%s: %.17g, %.17g", name,
              squares, wanted_squares);
    cr_assert(fabs(sum - wanted) <= 1e-9 * sqrt(wanted_squares), "%s: %.17g, %.17g", name, sum,
              wanted);
}

#endif
