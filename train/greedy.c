/* train/greedy.c - greedy decoding. */
#include "train/greedy.h"

br_tensor *greedy_decode(greedy_logits_fn logits, void *context, int64_t batch, int64_t first,
                         int64_t length)
{
    br_scope *scope = br_scope_begin();
    br_tensor *ids = br_full(BR_SHAPE(batch, 1), (double)first, BR_I64);
    for (int64_t i = 1; i < length && !br_failed(); i++) {
        br_tensor *last = br_select(logits(context, ids), 1, -1);
        ids = br_cat(BR_INPUTS(ids, br_argmax(last, -1, true)), 1);
    }
    ids = br_scope_return(scope, ids);
    br_scope_end(scope);
    return ids;
}
