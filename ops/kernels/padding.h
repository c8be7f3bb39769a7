/* ops/kernels/padding.h - planes among zeros, laid out for convolutions. */
#ifndef BR_KERNELS_PADDING_H
#define BR_KERNELS_PADDING_H

#include <stdbool.h>
#include <stdint.h>

/* A plane [size[0], size[1]] that begins at (before[0], before[1]) of a larger one of zeros, of
 * which `rows` rows and all columns are wanted. Of each row, columns that leave the same remainder
 * when divided by `fold` lie side by side, in `fold` runs of `columns` elements: what a kernel that
 * is moved by `fold` meets in turn. */
typedef struct br_padding {
    int64_t size[2], before[2];
    int64_t rows, columns, fold;
} br_padding;

static inline int64_t br__padded_size(const br_padding *p)
{
    return p->rows * p->fold * p->columns;
}

static inline int64_t br__padded_at(const br_padding *p, int64_t row, int64_t column)
{
    return (row * p->fold + column % p->fold) * p->columns + column / p->fold;
}

/* Copies a plane; zeros around it stay as they were unless it is told to clear them. */
void br__pad_f32(const br_padding *p, bool clear, const void *plane, void *padded);
void br__pad_f64(const br_padding *p, bool clear, const void *plane, void *padded);

#endif
