/* tests/models/packed_texts.h - texts for packed batches of encoders, and the check that the
 * results of a text are those of the text alone, and do not depend on the other texts, to the bit.
 */
#ifndef BR_TESTS_PACKED_TEXTS_H
#define BR_TESTS_PACKED_TEXTS_H

#include "tests/models/recorded.h"
#include "tests/same_bits.h"

enum { PACKED_TEXTS = 6, PACKED_LABELS = 3 };

typedef struct packed_texts {
    br_tensor *ids, *types, *starts;
} packed_texts;

/* The number of tokens of each text. The last text is the longest. */
static const int64_t packed_lengths[PACKED_TEXTS] = { 1, 3, 20, 7, 13, 33 };

/* Returns n texts, chosen by their numbers. The ids of a text depend on its number only, and one of
 * them is 1, which may be padding. */
static inline packed_texts pack(int n, const int *chosen)
{
    int64_t id[200], type[200], starts[PACKED_TEXTS + 1] = { 0 }, at = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < packed_lengths[chosen[i]]; k++, at++) {
            id[at] = k == 2 ? 1 : 2 + (chosen[i] * 17 + k * 7) % 47;
            type[at] = k > 4;
        }
        starts[i + 1] = at;
    }
    return (packed_texts){ br_from_i64(BR_SHAPE(1, at), id), br_from_i64(BR_SHAPE(1, at), type),
                           br_from_i64(BR_SHAPE(n + 1), starts) };
}

/* Runs a classifier. Returns its logits [texts, PACKED_LABELS], or else the hidden states [1,
 * tokens, size] of its base model. */
typedef br_tensor *packed_run(void *model, packed_texts t, bool logits);

/* Compares text i of `all` with the text alone, without padding, and beside another one. */
static inline void check_packed_text(packed_run *run, void *model, const char *name, br_tensor *all,
                                     bool logits, int i, int64_t start)
{
    br_scope *scope = br_scope_begin();
    const int64_t n = packed_lengths[i];
    br_tensor *own = logits ? br_narrow(all, 0, i, 1) : br_narrow(all, 1, start, n);
    packed_texts alone = pack(1, (int[]){ i }), beside = pack(2, (int[]){ i, PACKED_TEXTS - 1 });
    alone.starts = NULL;
    cr_assert_leq(difference(run(model, alone, logits), own), 1e-5, "%s, text %d", name, i);
    br_tensor *other = run(model, beside, logits);
    other = logits ? br_narrow(other, 0, 0, 1) : br_narrow(other, 1, 0, n);
    cr_assert(same_bits(other, own), "%s, text %d: off by %g", name, i, difference(other, own));
    br_scope_end(scope);
}

static inline void check_packed(packed_run *run, void *model, const char *name)
{
    br_scope *scope = br_no_grad_begin();
    packed_texts t = pack(PACKED_TEXTS, (int[]){ 0, 1, 2, 3, 4, 5 });
    br_tensor *states = run(model, t, false), *logits = run(model, t, true);
    cr_assert(br_size(states, 1) == br_size(t.ids, 1) && br_size(logits, 0) == PACKED_TEXTS);
    for (int64_t i = 0, start = 0; i < PACKED_TEXTS; start += packed_lengths[i++]) {
        check_packed_text(run, model, name, states, false, (int)i, start);
        check_packed_text(run, model, name, logits, true, (int)i, start);
    }
    br_scope_end(scope);
}

#endif
