/* ops/kernels/depthwise.h - convolutions of one plane by one kernel, and their adjoints; part of
 * variant.c. Taps are gone through a few rows of the result at a time, which stay in the
 * first-level cache; products are added as the taps come. */
#ifndef BR_KERNELS_DEPTHWISE_H
#define BR_KERNELS_DEPTHWISE_H

#include "ops/kernels/kernels.h"
#include "ops/kernels/loops.h"

enum { DEPTHWISE_BLOCK = 4096 }; /* elements of the result, about */

typedef void depthwise_row(const br_kernel_tap *tap, int64_t stride, real *plane, real *weight,
                           real *result);

/* Calls `work` with each tap and each row that it meets: the plane's, its weight and the result's.
 */
__attribute__((always_inline)) static inline void for_each_tap(const br_columns *u, void *plane,
                                                               void *weight, void *result,
                                                               depthwise_row *work)
{
    const int64_t taps = u->kernel[0] * u->kernel[1], stride = u->stride[1];
    const int64_t most = u->columns < DEPTHWISE_BLOCK ? DEPTHWISE_BLOCK / u->columns : 1;
    for (int64_t first = 0; first < u->rows; first += most) {
        const int64_t end = u->rows - first < most ? u->rows : first + most;
        for (int64_t t = 0; t < taps; t++) {
            const br_kernel_tap tap = br__tap_at(u, t);
            for (int64_t y = first; y < end; y++) {
                const int64_t row = y * u->stride[0] + tap.row;
                if (row >= 0 && row < u->size[0])
                    work(&tap, stride, (real *)plane + row * u->size[1] + tap.start,
                         (real *)weight + t, (real *)result + y * u->columns);
            }
        }
    }
}

static inline void add_row(const br_kernel_tap *tap, int64_t stride, real *plane, real *weight,
                           real *result)
{
    const real w = *weight;
    if (stride == 1) {
        INDEPENDENT
        for (int64_t x = tap->lo; x < tap->hi; x++)
            result[x] += w * plane[x];
        return;
    }
    for (int64_t x = tap->lo; x < tap->hi; x++)
        result[x] += w * plane[x * stride];
}

static inline void add_row_back(const br_kernel_tap *tap, int64_t stride, real *plane, real *weight,
                                real *result)
{
    const real w = *weight;
    if (stride == 1) {
        INDEPENDENT
        for (int64_t x = tap->lo; x < tap->hi; x++)
            plane[x] += w * result[x];
        return;
    }
    for (int64_t x = tap->lo; x < tap->hi; x++)
        plane[x * stride] += w * result[x];
}

static inline void add_row_product(const br_kernel_tap *tap, int64_t stride, real *plane,
                                   real *weight, real *result)
{
    real sum = 0;
    if (stride == 1) {
#pragma omp simd reduction(+ : sum)
        for (int64_t x = tap->lo; x < tap->hi; x++)
            sum += plane[x] * result[x];
    } else {
        for (int64_t x = tap->lo; x < tap->hi; x++)
            sum += plane[x * stride] * result[x];
    }
    *weight += sum;
}

static void depthwise(const br_columns *u, void *plane, void *weight, void *result)
{
    for_each_tap(u, plane, weight, result, add_row);
}

static void depthwise_back(const br_columns *u, void *plane, void *weight, void *result)
{
    for_each_tap(u, plane, weight, result, add_row_back);
}

static void depthwise_weight(const br_columns *u, void *plane, void *weight, void *result)
{
    for_each_tap(u, plane, weight, result, add_row_product);
}

#endif
