/* backends/cpu/conv/pool_kernels.c - max and average pooling of planes.
 *
 * The windows of the output's rows and columns are given, already cut off at the borders of the
 * plane, so the loops have no branches for padding. The output is computed row by row; for each
 * position, the loops run over the window's rows and columns. Averages are summed in double. The
 * gradient of an average adds the same share to each element of the window, in the order of the
 * windows; that of a maximum, in ops/conv/pool.c, adds at the indices. One call processes a whole
 * plane, so the results do not depend on the number of threads. There is one build for all
 * instruction sets. */
#include "backends/cpu/conv/pool_kernels.h"

/* Defines max_suffix() for a type, which is why it is a macro. `best` starts at the first
 * element of the window; x != x holds for NaN only. */
#define MAX_POOL(type, suffix)                                                        \
    static int64_t largest_##suffix(const br_pool_work *p, const type *plane,         \
                                    const br_pool_window *r, const br_pool_window *c) \
    {                                                                                 \
        int64_t best = r->start * p->size[1] + c->start;                              \
        for (int64_t y = r->start; y < r->end; y += p->step[0])                       \
            for (int64_t x = c->start; x < c->end; x += p->step[1]) {                 \
                int64_t at = y * p->size[1] + x;                                      \
                if (plane[at] > plane[best] || plane[at] != plane[at])                \
                    best = at;                                                        \
            }                                                                         \
        return best;                                                                  \
    }                                                                                 \
    static void max_##suffix(const br_pool_work *p, const void *plane, void *out,     \
                             int64_t *indices)                                        \
    {                                                                                 \
        type *to = out;                                                               \
        for (int64_t y = 0; y < p->out[0]; y++)                                       \
            for (int64_t x = 0; x < p->out[1]; x++) {                                 \
                int64_t at = largest_##suffix(p, plane, &p->rows[y], &p->columns[x]); \
                *indices++ = at;                                                      \
                *to++ = ((const type *)plane)[at];                                    \
            }                                                                         \
    }
MAX_POOL(float, f32)
MAX_POOL(double, f64)
MAX_POOL(int64_t, i64)

/* Returns the divisor of the average at output position (y, x). */
static double divisor(const br_pool_work *p, int64_t y, int64_t x)
{
    return p->divisor != 0 ? p->divisor : p->rows[y].count * p->columns[x].count;
}

/* Defines average_suffix() and average_back_suffix() for a type. */
#define AVG_POOL(type, suffix)                                                             \
    static void average_##suffix(const br_pool_work *p, const void *plane, void *out)      \
    {                                                                                      \
        type *to = out;                                                                    \
        for (int64_t y = 0; y < p->out[0]; y++)                                            \
            for (int64_t x = 0; x < p->out[1]; x++) {                                      \
                const br_pool_window *r = &p->rows[y], *c = &p->columns[x];                \
                double sum = 0;                                                            \
                for (int64_t i = r->start; i < r->end; i++)                                \
                    for (int64_t k = c->start; k < c->end; k++)                            \
                        sum += (double)((const type *)plane)[i * p->size[1] + k];          \
                *to++ = (type)(sum / divisor(p, y, x));                                    \
            }                                                                              \
    }                                                                                      \
    static void average_back_##suffix(const br_pool_work *p, const void *out, void *plane) \
    {                                                                                      \
        const type *from = out;                                                            \
        for (int64_t y = 0; y < p->out[0]; y++)                                            \
            for (int64_t x = 0; x < p->out[1]; x++) {                                      \
                const br_pool_window *r = &p->rows[y], *c = &p->columns[x];                \
                const type each = (type)((double)*from++ / divisor(p, y, x));              \
                for (int64_t i = r->start; i < r->end; i++)                                \
                    for (int64_t k = c->start; k < c->end; k++)                            \
                        ((type *)plane)[i * p->size[1] + k] += each;                       \
            }                                                                              \
    }
AVG_POOL(float, f32)
AVG_POOL(double, f64)

const br_pool_kernels br__pool_kernels[BR_DTYPES] = {
    [BR_F32] = { max_f32, average_f32, average_back_f32 },
    [BR_F64] = { max_f64, average_f64, average_back_f64 },
    [BR_I64] = { max_i64, NULL, NULL },
};
