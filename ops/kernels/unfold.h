/* ops/kernels/unfold.h - the values that a convolution's kernel meets as rows of a matrix, and the
 * adjoint. */
#ifndef BR_KERNELS_UNFOLD_H
#define BR_KERNELS_UNFOLD_H

#include <stdint.h>

/* One plane [size[0], size[1]] under a kernel; pairs are for rows and columns. Position (y, x) of
 * the result meets, at tap (i, j) of the kernel, element (y stride[0] - before[0] + i dilation[0],
 * ...) of the plane, which is 0 outside. */
typedef struct br_columns {
    int64_t size[2], kernel[2], stride[2], dilation[2], before[2];
    int64_t first_row, rows, columns; /* the result's rows that are wanted, and its columns */
    int64_t tap; /* elements from one tap's row of the matrix to the next one's */
} br_columns;

/* What a tap meets: of a row of the plane, from column `start` on, positions lo .. hi-1 lie inside.
 */
typedef struct br_kernel_tap {
    int64_t row, start, lo, hi;
} br_kernel_tap;

static inline br_kernel_tap br__tap_at(const br_columns *u, int64_t t)
{
    int64_t stride = u->stride[1], size = u->size[1];
    br_kernel_tap at = { .row = t / u->kernel[1] * u->dilation[0] - u->before[0],
                         .start = t % u->kernel[1] * u->dilation[1] - u->before[1] };
    int64_t first = at.start < 0 ? (-at.start + stride - 1) / stride : 0;
    int64_t end = at.start < size ? (size - 1 - at.start) / stride + 1 : 0;
    at.hi = end < u->columns ? end : u->columns;
    at.lo = first < at.hi ? first : at.hi;
    return at;
}

/* matrix[tap number * tap + position] = what the tap meets there. */
void br__unfold_f32(const br_columns *u, const void *plane, void *matrix);
void br__unfold_f64(const br_columns *u, const void *plane, void *matrix);
/* Adds the matrix to the plane's elements that it was taken from, taps in their order. */
void br__fold_f32(const br_columns *u, const void *matrix, void *plane);
void br__fold_f64(const br_columns *u, const void *matrix, void *plane);

#endif
