/* ops/kernels/pool.c - pooling of planes: one window per output position, row by row. */
#include "ops/kernels/pool.h"

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
    void br__max_pool_##suffix(const br_pool_work *p, const void *plane, void *out,   \
                               int64_t *indices)                                      \
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

static double divisor(const br_pool_work *p, int64_t y, int64_t x)
{
    return p->divisor != 0 ? p->divisor : p->rows[y].count * p->columns[x].count;
}

#define AVG_POOL(type, suffix)                                                           \
    void br__avg_pool_##suffix(const br_pool_work *p, const void *plane, void *out)      \
    {                                                                                    \
        type *to = out;                                                                  \
        for (int64_t y = 0; y < p->out[0]; y++)                                          \
            for (int64_t x = 0; x < p->out[1]; x++) {                                    \
                const br_pool_window *r = &p->rows[y], *c = &p->columns[x];              \
                double sum = 0;                                                          \
                for (int64_t i = r->start; i < r->end; i++)                              \
                    for (int64_t k = c->start; k < c->end; k++)                          \
                        sum += (double)((const type *)plane)[i * p->size[1] + k];        \
                *to++ = (type)(sum / divisor(p, y, x));                                  \
            }                                                                            \
    }                                                                                    \
    void br__avg_pool_back_##suffix(const br_pool_work *p, const void *out, void *plane) \
    {                                                                                    \
        const type *from = out;                                                          \
        for (int64_t y = 0; y < p->out[0]; y++)                                          \
            for (int64_t x = 0; x < p->out[1]; x++) {                                    \
                const br_pool_window *r = &p->rows[y], *c = &p->columns[x];              \
                const type each = (type)((double)*from++ / divisor(p, y, x));            \
                for (int64_t i = r->start; i < r->end; i++)                              \
                    for (int64_t k = c->start; k < c->end; k++)                          \
                        ((type *)plane)[i * p->size[1] + k] += each;                     \
            }                                                                            \
    }
AVG_POOL(float, f32)
AVG_POOL(double, f64)
