/* ops/recurrent_internal.h - a recurrent layer over whole sequences, for nn/. */
#ifndef BR_RECURRENT_INTERNAL_H
#define BR_RECURRENT_INTERNAL_H

#include "ops/ops_internal.h"

/* gi [L, N, gates * H] is the input's part of the gates, h0 and c0 [N, H] the state before, c0 of
 * an LSTM alone; weight [gates * H, H] and bias [gates * H] or NULL make the state's part. Gives
 * the states [L, N, H], of an LSTM the last cell [N, H] in *c_n. In reverse the last step comes
 * first. L is at least 1; shapes and dtypes have been checked. */
br_tensor *br__recurrent(br_recurrent_kind kind, bool reverse, br_tensor *gi, br_tensor *h0,
                         br_tensor *c0, br_tensor *weight, br_tensor *bias, br_tensor **c_n);

/* The same, composed of operations that the tape sees. */
typedef struct br_recurrent_steps {
    br_recurrent_kind kind;
    bool reverse;
    br_tensor *gi, *h, *c;    /* as above; h and c become the last states */
    br_tensor *weight, *bias; /* as above, [gates * H, P] where states are projected */
    br_tensor *projection;    /* of an LSTM: [P, H], and the states are [N, P]; or NULL */
    br_tensor *there;         /* bool [L, N, 1]: a state passes by steps where its sequence is not,
                                 whose results are 0; or NULL */
} br_recurrent_steps;
br_tensor *br__recurrent_steps(br_recurrent_steps *s);

#endif
