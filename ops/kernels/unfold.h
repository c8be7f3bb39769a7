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

/* matrix[tap number * tap + position] = what the tap meets there. */
void br__unfold_f32(const br_columns *u, const void *plane, void *matrix);
void br__unfold_f64(const br_columns *u, const void *plane, void *matrix);
/* Adds the matrix to the plane's elements that it was taken from, taps in their order. */
void br__fold_f32(const br_columns *u, const void *matrix, void *plane);
void br__fold_f64(const br_columns *u, const void *matrix, void *plane);

#endif
