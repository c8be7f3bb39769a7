/* backends/recurrent.h - work of recurrent layers. */
#ifndef BR_BACKEND_RECURRENT_H
#define BR_BACKEND_RECURRENT_H

#include <brasa/tensor.h>

typedef enum br_recurrent_kind { BR_RNN_TANH, BR_RNN_RELU, BR_LSTM, BR_GRU } br_recurrent_kind;

/* Return the sizes of a step's gates, and of the values saved for its gradient, as multiples of the
 * state's size. */
static inline int64_t br__gates_of(br_recurrent_kind kind)
{
    return kind == BR_LSTM ? 4 : kind == BR_GRU ? 3 : 1;
}
static inline int64_t br__kept_of(br_recurrent_kind kind)
{
    return kind == BR_LSTM || kind == BR_GRU ? 4 : 0;
}

/* A layer over a sequence of L steps, N rows at a time, with states of size H. A step adds gi, the
 * contribution of the input to the gates, and gh = h weight^T + bias, where h is the previous
 * state, and applies a sigmoid or, for the candidate, tanh. A GRU multiplies the candidate's part
 * of gh by the reset gate before the addition. A plain RNN has one gate, the new state. The order
 * of the gates is i, f, g, o for an LSTM and r, z, m for a GRU. All tensors but dy are contiguous;
 * all have one dtype. */
typedef struct br_recurrent_tensors {
    br_recurrent_kind kind;
    bool reverse;                   /* from the last step to the first */
    const br_tensor *gi;            /* [L, N, gates * H] */
    const br_tensor *h0, *c0;       /* [N, H]; c0 is for an LSTM only, NULL otherwise */
    const br_tensor *weight, *bias; /* [gates * H, H], and [gates * H] or NULL */
    /* The results, which the gradient reads: the states and, for an LSTM, the cell states,
     * [L, N, H]; and values of the backend's choice for the gradient, [L, N, br__kept_of() * H],
     * NULL if there are none. */
    const br_tensor *y, *cells, *kept;
    const br_tensor *dy; /* the gradient of the states, with any strides, or NULL */
    /* Results of the gradient. dh begins as 0 and becomes the gradient of h0. dc begins as the
     * gradient of the last cell state and becomes that of c0. dgi and dgh are the gradients of gi
     * and of gh, of all steps; they must be the same tensor unless the layer is a GRU. dweight
     * begins as 0; it may be NULL. */
    const br_tensor *dh, *dc, *dgi, *dgh, *dweight;
} br_recurrent_tensors;

#endif
