/* backends/vector_norm.h - the arithmetic of norms of vectors, as in torch.linalg.vector_norm.
 *
 * A norm of order INFINITY is the largest absolute value, that of order -INFINITY the smallest,
 * that of order 0 the number of elements that are not 0, and any other (sum |x|^order)^(1/order).
 * Each norm is the root of a total, to which the elements' terms are added one by one. */
#ifndef BR_BACKEND_VECTOR_NORM_H
#define BR_BACKEND_VECTOR_NORM_H

#include <math.h>

/* Elements are divided by `unit` before their powers are added, so that powers of large numbers do
 * not overflow. */
typedef struct br_vector_norm {
    double order, unit;
} br_vector_norm;

/* Returns the total of no elements. */
static inline double br__norm_neutral(double order)
{
    return order == -(double)INFINITY ? (double)INFINITY : 0;
}

/* Returns what x contributes to the total. */
static inline double br__norm_term(double order, double x)
{
    if (order == 2)
        return x * x;
    if (order == 0)
        return x != 0;
    return order == 1 || isinf(order) ? fabs(x) : pow(fabs(x), order);
}

/* Adds a term, or the total of other elements, to the total; NaN stays. */
static inline void br__norm_fold(double order, double *total, double term)
{
    if (!isinf(order))
        *total += term;
    else if (!isnan(*total) && !(order > 0 ? term <= *total : term >= *total))
        *total = term;
}

static inline double br__norm_root(double order, double total)
{
    if (order == 2)
        return sqrt(total);
    return order == 0 || order == 1 || isinf(order) ? total : pow(total, 1 / order);
}

#endif
