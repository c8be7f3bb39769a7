/* backends/cpu/shape/padding.h - zero-padded planes in a layout for convolutions. */
#ifndef BR_KERNELS_PADDING_H
#define BR_KERNELS_PADDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A plane [size[0], size[1]] at (before[0], before[1]) of a larger plane of zeros. `rows` rows and
 * all columns of the larger plane are stored. Each row is stored as `fold` runs of `columns`
 * elements, one for each remainder of the column modulo `fold`. So a kernel with stride `fold`
 * reads contiguous elements. */
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

/* Copies a plane of elements of 4 or 8 bytes into the padded plane. The surrounding zeros are
 * written only if `clear` is true. */
void br__pad(size_t element_size, const br_padding *p, bool clear, const void *plane, void *padded);

#endif
