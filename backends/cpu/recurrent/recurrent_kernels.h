/* backends/cpu/recurrent/recurrent_kernels.h - work for the kernels of recurrent steps,
 * recurrent.h. */
#ifndef BR_RECURRENT_KERNELS_H
#define BR_RECURRENT_KERNELS_H

#include "backends/recurrent.h"

/* Work for a step of `rows` sequences (recurrent/recurrent.h); all arrays are contiguous rows. gi
 * and gh are the parts of the gates that depend on the input and on the previous state; h and c are
 * the previous state. */
typedef struct br_recurrent_work {
    br_recurrent_kind kind;
    int64_t rows, size;
    const void *gi, *gh, *h, *c;
    void *out, *c_out, *kept; /* the new state, and saved values; the gradient reads them */
    void *dh, *dc; /* gradients of the new state; dc (LSTM) and dh (GRU) are overwritten by those of
                      the previous state, without the part through gh */
    void *dgi, *dgh; /* dgh is for a GRU only; for others it equals dgi */
} br_recurrent_work;

#endif
