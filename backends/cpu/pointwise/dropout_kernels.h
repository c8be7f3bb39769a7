/* backends/cpu/pointwise/dropout_kernels.h - work for the kernels of dropout, dropout.h. */
#ifndef BR_DROPOUT_KERNELS_H
#define BR_DROPOUT_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

/* Dropout: element i is dropped if bit i is 0, and multiplied by `scale` otherwise. */
typedef struct br_dropout_work {
    const uint64_t *bits; /* the lowest bit is the first element's; NULL: nothing is dropped */
    double scale;
} br_dropout_work;

#endif
