/* ops/recurrent/recurrent_internal.h - recurrent layers over whole sequences, for nn/. */
#ifndef BR_RECURRENT_INTERNAL_H
#define BR_RECURRENT_INTERNAL_H

#include "ops/ops_internal.h"

/* Runs a recurrent layer. gi [L, N, gates * H] is the input's contribution to the gates; weight
 * [gates * H, H] and bias, which is [gates * H] or NULL, compute the state's contribution. h0 and,
 * for an LSTM only, c0 [N, H] are the initial states. Returns the states [L, N, H] and, for an
 * LSTM, the last cell state [N, H] in *c_n. With `reverse` the sequence is processed from its end.
 * L must be at least 1; shapes and dtypes must have been checked. */
br_tensor *br__recurrent(br_recurrent_kind kind, bool reverse, br_tensor *gi, br_tensor *h0,
                         br_tensor *c0, br_tensor *weight, br_tensor *bias, br_tensor **c_n);

/* The same, composed of recorded operations. */
typedef struct br_recurrent_steps {
    br_recurrent_kind kind;
    bool reverse;
    br_tensor *gi, *h, *c;    /* as above; h and c are updated to the last states */
    br_tensor *weight, *bias; /* as above; weight is [gates * H, P] with a projection */
    br_tensor *projection;    /* LSTM only: [P, H], and the states are [N, P]; or NULL */
    br_tensor
        *valid; /* bool [L, N, 1] or NULL; where false, the state is kept and the result is 0 */
} br_recurrent_steps;
br_tensor *br__recurrent_steps(br_recurrent_steps *s);

#endif
