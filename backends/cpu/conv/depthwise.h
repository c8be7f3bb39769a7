/* backends/cpu/conv/depthwise.h - depthwise convolution of one zero-padded plane with one kernel,
 * and the gradient of the kernel; part of variant.c. Uses the vectors of gemm_tile.h.
 *
 * y[p] = sum over the taps t of weight[t] x[p + at[t]] is computed directly. VECTORS_AT_ONCE output
 * vectors, from one row or from consecutive rows, are accumulated in registers while the loop runs
 * over the taps, so each tap costs one unaligned load and one multiplication for each vector, and y
 * is written once. Short rows are efficient, too, since the vectors may come from several rows. The
 * padding makes every tap readable, so there are no branches at the borders; only the store at the
 * end of a row is partial. The gradient of the kernel instead keeps TAPS_AT_ONCE taps in registers
 * while the loop runs over all positions, and adds up the lanes at the end. Each y is the sum of
 * its taps in the order of the taps, wherever it is. */
#ifndef BR_KERNELS_DEPTHWISE_H
#define BR_KERNELS_DEPTHWISE_H

#include "backends/cpu/conv/depthwise_kernels.h"
#include "backends/cpu/gemm/gemm_tile.h"

enum {
    VECTORS_AT_ONCE = 8, /* enough independent sums to hide the latency of an addition */
    TAPS_AT_ONCE = 5,    /* two groups cover a 3 x 3 kernel */
};

typedef BY_TYPE(int32_t, int64_t) lane_index __attribute__((vector_size(VECTOR_BYTES)));

/* The output positions of one vector. Successive vectors cover the output row by row. */
typedef struct spot {
    int64_t y, x, count;
} spot;

static inline spot spot_at(const br_depthwise *w, int64_t y, int64_t x)
{
    const int64_t left = w->columns - x;
    return (spot){ y, x, left < VECTOR ? left : VECTOR };
}

static inline spot next_spot(const br_depthwise *w, spot s)
{
    return s.x + VECTOR < w->columns ? spot_at(w, s.y, s.x + VECTOR) : spot_at(w, s.y + 1, 0);
}

static void put_spot(const br_depthwise *w, spot s, vec sum, real *to)
{
    to += s.y * w->to_row + s.x * w->to_step;
    if (w->to_step == 1) {
        store_part(to, w->accumulate ? load_part(to, s.count) + sum : sum, s.count);
        return;
    }
    for (int64_t i = 0; i < s.count; i++)
        to[i * w->to_step] = w->accumulate ? to[i * w->to_step] + sum[i] : sum[i];
}

/* Writes or adds the convolution of a plane; kernels.h describes the arguments. */
static void depthwise(const br_depthwise *w, const void *plane, const void *weight, void *result)
{
    for (spot next = spot_at(w, 0, 0); next.y < w->rows;) {
        const real *from[VECTORS_AT_ONCE];
        spot spots[VECTORS_AT_ONCE];
        int n = 0;
        for (; n < VECTORS_AT_ONCE && next.y < w->rows; n++, next = next_spot(w, next))
            spots[n] = next;
        for (int i = 0; i < VECTORS_AT_ONCE;
             i++) { /* with fewer vectors, the last one is computed again */
            const spot s = spots[i < n ? i : n - 1];
            from[i] = (const real *)plane + s.y * w->row_step + s.x;
        }
        vec sums[VECTORS_AT_ONCE];
        UNROLLED
        for (int i = 0; i < VECTORS_AT_ONCE; i++)
            sums[i] = (vec){ 0 };
        for (int64_t t = 0; t < w->taps; t++) {
            const int64_t at = w->at[t];
            const real factor = ((const real *)weight)[w->which[t]];
            UNROLLED
            for (int i = 0; i < VECTORS_AT_ONCE; i++)
                sums[i] += factor * *(const vec_at *)(from[i] + at);
        }
        for (int i = 0; i < n; i++)
            put_spot(w, spots[i], sums[i], result);
    }
}

/* Adds the products of tap at[i] over all positions to sums[i]. Elements beyond the end of a row
 * are masked out, even if they are NaN. */
static void add_tap_products(const br_depthwise *w, const int64_t *at, const real *plane,
                             const real *result, vec_at *sums)
{
    vec sum[TAPS_AT_ONCE];
    lane_index index;
    UNROLLED
    for (int i = 0; i < VECTOR; i++)
        index[i] = i;
    UNROLLED
    for (int i = 0; i < TAPS_AT_ONCE; i++)
        sum[i] = sums[i];
    for (spot s = spot_at(w, 0, 0); s.y < w->rows; s = next_spot(w, s)) {
        const lane_index kept = index < (BY_TYPE(int32_t, int64_t))s.count;
        const vec y = load_part(result + s.y * w->to_row + s.x, s.count);
        const real *from = plane + s.y * w->row_step + s.x;
        UNROLLED
        for (int i = 0; i < TAPS_AT_ONCE; i++)
            sum[i] += y * (vec)((lane_index) * (const vec_at *)(from + at[i]) & kept);
    }
    UNROLLED
    for (int i = 0; i < TAPS_AT_ONCE; i++)
        sums[i] = sum[i];
}

/* Adds up the gradient of the kernel, TAPS_AT_ONCE taps at a time. A last group with fewer taps
 * computes its first tap again into the spare sums, which nothing reads. */
static void depthwise_weight(const br_depthwise *w, const void *plane, const void *result,
                             void *sums, void *weight)
{
    for (int64_t t = 0; t < w->taps; t += TAPS_AT_ONCE) {
        const int64_t left = w->taps - t;
        int64_t at[TAPS_AT_ONCE];
        for (int i = 0; i < TAPS_AT_ONCE; i++)
            at[i] = w->at[i < left ? t + i : t];
        add_tap_products(w, at, plane, result, (vec_at *)sums + t);
    }
    for (int64_t t = 0; t < w->taps && weight; t++) {
        vec_at *sum = (vec_at *)sums + t;
        for (int i = 0; i < VECTOR; i++)
            ((real *)weight)[w->which[t]] += (*sum)[i];
        *sum = (vec){ 0 };
    }
}

#endif
