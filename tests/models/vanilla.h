/* tests/models/vanilla.h - shared by the tests of Vanilla Transformer: a tiny model and its inputs.
 */
#ifndef BR_TESTS_VANILLA_H
#define BR_TESTS_VANILLA_H

#include "tests/models/models.h"

enum { B = 2, S = 4, T = 3, D = 4 };

/* The dropout is high, so that its gradient is clearly visible. */
static inline br_vanilla_config tiny(bool intended)
{
    return (br_vanilla_config){ .embed_dim = D,
                                .n_heads = 2,
                                .ff_hid_dim = 3,
                                .n_layers = 2,
                                .max_length = 5,
                                .vocab_size = 7,
                                .src_vocab_size = 7,
                                .trg_vocab_size = 6,
                                .src_pad_idx = 0,
                                .trg_pad_idx = 1,
                                .n_classes = 3,
                                .pad_idx = 0,
                                .dropout = 0.4,
                                .scale_by_head_dim = intended,
                                .infinite_fill = intended,
                                .sublayer_dropout = intended,
                                .use_joint_attention = intended,
                                .use_norm_3 = intended,
                                .max_over_tokens = intended };
}

/* Returns ids in which the first entry ends with padding. */
static inline br_tensor *src_ids(void)
{
    return br_from_i64(BR_SHAPE(B, S), (int64_t[]){ 3, 5, 2, 0, 1, 6, 4, 2 });
}

static inline br_tensor *trg_ids(void)
{
    return br_from_i64(BR_SHAPE(B, T), (int64_t[]){ 2, 5, 1, 4, 3, 2 });
}

#endif
