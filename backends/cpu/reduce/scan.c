/* backends/cpu/reduce/scan.c - cumulative sums and products.
 *
 * y[i] = x[0] + ... + x[i], or from the last element down if `reverse` is set. Up to BR_SCAN_TILE
 * columns advance together, row by row, so that memory is read in order even if a column's elements
 * are far apart; their running totals stay in the L1 cache. The totals of floats are doubles, and
 * each y is a rounded total. Additions are in the order of the elements, so the results do not
 * depend on the number of threads. Integers wrap around. */
#include "backends/cpu/reduce/scan.h"

/* Defines the kernel `name` for an element type and an operator, which is why it is a macro.
 * `wide` is the type of the running totals. */
#define SCAN(name, type, wide, start, operator)                     \
    static void name(const br_scan *w)                              \
    {                                                               \
        wide running[BR_SCAN_TILE];                                 \
        for (int64_t j = 0; j < w->columns; j++)                    \
            running[j] = start;                                     \
        for (int64_t i = 0; i < w->n; i++) {                        \
            int64_t at = (w->reverse ? w->n - 1 - i : i) * w->step; \
            const type *x = (const type *)w->x + at;                \
            type *y = (type *)w->y + at;                            \
            for (int64_t j = 0; j < w->columns; j++) {              \
                running[j] = running[j] operator(wide) x[j];        \
                y[j] = (type)running[j];                            \
            }                                                       \
        }                                                           \
    }

SCAN(cumsum_f32, float, double, 0, +)
SCAN(cumsum_f64, double, double, 0, +)
SCAN(cumsum_i64, int64_t, uint64_t, 0, +)
SCAN(cumprod_f32, float, double, 1, *)
SCAN(cumprod_f64, double, double, 1, *)
SCAN(cumprod_i64, int64_t, uint64_t, 1, *)

const br_scan_kernel br__cumsum[BR_DTYPES] = {
    [BR_F32] = cumsum_f32, [BR_F64] = cumsum_f64, [BR_I64] = cumsum_i64
};
const br_scan_kernel br__cumprod[BR_DTYPES] = {
    [BR_F32] = cumprod_f32, [BR_F64] = cumprod_f64, [BR_I64] = cumprod_i64
};
