/* tests/models/architecture.h - shared by the tests of Transformers Architecture: a small model of
 * each variant, its inputs, and calls of it as a br_function. */
#ifndef BR_TESTS_MODELS_ARCHITECTURE_H
#define BR_TESTS_MODELS_ARCHITECTURE_H

#include "tests/models/models.h"

enum { B = 2, S = 4, T = 3, HIDDEN = 6, HEADS = 2 };

/* The dropout is high, so that its gradient is clearly visible. */
static inline br_architecture_config tiny(bool intended)
{
    return (br_architecture_config){ .hidden_size = HIDDEN,
                                     .intermediate_size = 5,
                                     .num_hidden_layers = 2,
                                     .vocab_size = 9,
                                     .max_position_embeddings = 5,
                                     .hidden_dropout_prob = 0.4,
                                     .num_attention_heads = HEADS,
                                     .num_labels = 3,
                                     .add_attention = intended,
                                     .pre_norm = intended,
                                     .mask_source = intended,
                                     .mask_padding = intended,
                                     .dropout_once = intended,
                                     .embedding_dropout = intended,
                                     .small_eps = intended };
}

/* Returns ids in which the first entry ends with padding. */
static inline br_tensor *source_ids(void)
{
    return br_from_i64(BR_SHAPE(B, S), (int64_t[]){ 1, 4, 8, 0, 1, 5, 4, 3 });
}

static inline br_tensor *target_ids(void)
{
    return br_from_i64(BR_SHAPE(B, T), (int64_t[]){ 1, 2, 7, 1, 4, 4 });
}

static inline br_tensor *source_mask(void)
{
    return br_architecture_source_mask(source_ids());
}

static inline br_tensor *target_mask(void)
{
    return br_architecture_create_mask(B, T);
}

static inline br_tensor *hidden(int64_t length)
{
    return br_randn(BR_SHAPE(B, length, HIDDEN), BR_F64);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static inline br_tensor *run_encoder(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_architecture_encoder_forward(module, source_ids(), source_mask());
}

static inline br_tensor *run_decoder_block(br_tensor *const *in, int n, void *module)
{
    (void)n;
    return br_architecture_decoder_block_forward(module, in[0], in[1], source_mask(),
                                                 target_mask());
}

static inline br_tensor *run_encoder_decoder(br_tensor *const *in, int n, void *module)
{
    (void)in, (void)n;
    return br_architecture_encoder_decoder_forward(module, source_ids(), target_ids(),
                                                   source_mask(), target_mask());
}

/* Returns the loss of the dataset's first batch, computed as in the notebook's loop. */
static inline br_tensor *first_loss(br_architecture_encoder_decoder *model, br_dataset *dataset)
{
    br_loader *loader = br_loader_new(dataset, BR_OPTIONS(br_loader, .batch_size = 2));
    br_tensor *f[BR_ARCHITECTURE_FIELDS] = { 0 };
    br_loader_begin(loader);
    br_loader_next(loader, f);
    br_loader_free(loader);
    br_tensor *out = br_architecture_encoder_decoder_forward(
        model, f[BR_ARCHITECTURE_SOURCE], f[BR_ARCHITECTURE_TARGET], f[BR_ARCHITECTURE_SOURCE_MASK],
        f[BR_ARCHITECTURE_TARGET_MASK]);
    return br_cross_entropy(br_flatten(out, 0, 1), br_flatten(f[BR_ARCHITECTURE_TARGET_Y], 0, -1),
                            NULL);
}

#endif
