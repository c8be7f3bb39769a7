/* backends/reduce.h - work that goes along dimensions: reductions, cumulative sums and products,
 * sorting. */
#ifndef BR_BACKEND_REDUCE_H
#define BR_BACKEND_REDUCE_H

#include <brasa/tensor.h>

/* ---- Reductions ------------------------------------------------------------------------------ */

#define BR_FOLD(name) BR_FOLD_##name
typedef enum br_fold_kind {
    BR_FOLD_sum,    /* initial value 0 */
    BR_FOLD_nansum, /* the same; NaN counts as 0; floats only */
    BR_FOLD_max,    /* initial value -INFINITY; NaN counts as largest */
    BR_FOLD_argmax, /* the same, with the first position of the maximum as index */
    BR_FOLD_min,    /* initial value INFINITY; NaN counts as smallest */
    BR_FOLD_argmin,
    BR_FOLD_prod, /* initial value 1 */
    BR_FOLDS
} br_fold_kind;

typedef struct br_reducer {
    br_fold_kind kind;
    double start;   /* 0, 1, -INFINITY or INFINITY; integers use their smallest or largest value for
                       infinities */
    double divisor; /* floating-point results are divided by this */
    br_tensor *values, *indices; /* outputs, or NULL; contiguous, with the kept dimensions only */
} br_reducer;

/* Kinds of values that are not finite, as bits. */
enum { BR_HAS_NAN = 1, BR_HAS_INFINITY = 2 };

/* ---- Scans ----------------------------------------------------------------------------------- */

typedef enum br_scan_kind {
    BR_SCAN_SUM,
    BR_SCAN_PROD,
    BR_SCAN_LOGSUMEXP, /* floats only */
    BR_SCAN_ARGMAX,    /* the position of the largest element so far, of the last among equal ones;
                          NaN counts as largest. The result is i64 */
    BR_SCAN_ARGMIN,    /* the same for the smallest element; NaN counts as smallest */
    BR_SCANS
} br_scan_kind;

typedef struct br_scan_work {
    int dim;
    bool reverse; /* from the last element to the first; not for positions */
    br_scan_kind kind;
    const br_tensor *values; /* for positions: the elements there, of x's shape and dtype */
} br_scan_work;

/* ---- Sorting --------------------------------------------------------------------------------- */

/* NaN is the largest value; 0 and -0 are equal; equal elements keep their order. */
typedef struct br_order {
    int64_t dim, count; /* the indices of the first `count` elements in sorted order */
    bool descending;
    bool median; /* instead, the index of the median, the lower of two, or of the first NaN */
} br_order;

#endif
