/* ops/kernels/scan.c - cumulative sums and products. */
#include "ops/kernels/scan.h"

#define SCAN(name, type, wide, start, operator)                     \
    static void name##_scan(const br_scan *w)                       \
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
    }                                                               \
    const br_scan_kernel br__##name = name##_scan;

SCAN(cumsum_f32, float, double, 0, +)
SCAN(cumsum_f64, double, double, 0, +)
SCAN(cumsum_i64, int64_t, uint64_t, 0, +)
SCAN(cumprod_f32, float, double, 1, *)
SCAN(cumprod_f64, double, double, 1, *)
SCAN(cumprod_i64, int64_t, uint64_t, 1, *)
