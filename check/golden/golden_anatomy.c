/* check/golden/golden_anatomy.c - golden-file rows for the classes of Transformer Anatomy and,
 * under separate names, of Transformers from Scratch. */
#include "check/golden/golden.h"

#include <math.h>

/* The notebook's fields are required; those that select the intended variant are optional. */
static br_anatomy_config config(br_check *check)
{
    return (br_anatomy_config){
        .vocab_size = br_check_size(check, "vocab_size"),
        .hidden_size = br_check_size(check, "hidden_size"),
        .num_hidden_layers = br_check_size(check, "num_hidden_layers"),
        .num_attention_heads = br_check_size(check, "num_attention_heads"),
        .intermediate_size = br_check_size(check, "intermediate_size"),
        .max_position_embeddings = br_check_size(check, "max_position_embeddings"),
        .num_labels = br_check_size(check, "num_labels"),
        .hidden_dropout_prob = br_check_number(check, "hidden_dropout_prob"),
        .mask_padding = br_check_option(check, "mask_padding", false),
        .attention_dropout = br_check_option(check, "attention_dropout", false),
        .final_norm = br_check_option(check, "final_norm", false),
        .small_eps = br_check_option(check, "small_eps", false),
    };
}

/* ---- Attention ------------------------------------------------------------------------------- */

static void *build_simplified(br_check *check)
{
    return br_anatomy_simplified_attention_new(br_check_size(check, "vocab_size"),
                                               br_check_size(check, "hidden_size"));
}

static void simplified(br_check *check, void *module)
{
    br_anatomy_simplified_steps s =
        br_anatomy_simplified_attention_forward(module, br_check_input(check, "input_ids"));
    br_check_output(check, "inputs_embeds", s.inputs_embeds);
    br_check_output(check, "scores", s.scores);
    br_check_output(check, "weights", s.weights);
    br_check_output(check, "attn_outputs", s.attn_outputs);
}

static void attention(br_check *check, void *module)
{
    (void)module;
    br_check_output(check, "0",
                    br_anatomy_scaled_dot_product_attention(
                        br_check_input(check, "query"), br_check_input(check, "key"),
                        br_check_input(check, "value"), br_check_input(check, "mask")));
}

static void *build_head(br_check *check)
{
    return br_anatomy_attention_head_new(br_check_size(check, "embed_dim"),
                                         br_check_size(check, "head_dim"));
}

static void head(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_anatomy_attention_head_forward(module, br_check_input(check, "hidden_state"),
                                                      br_check_input(check, "mask")));
}

static void *build_mha(br_check *check)
{
    br_anatomy_config c = config(check);
    return br_anatomy_multi_head_attention_new(&c);
}

static void mha(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_anatomy_multi_head_attention_forward(module,
                                                            br_check_input(check, "hidden_state"),
                                                            br_check_input(check, "mask")));
}

/* Runs the cells that create and apply the mask, followed by softmax. */
static void causal_mask(br_check *check, void *module)
{
    (void)module;
    br_tensor *scores = br_check_input(check, "scores");
    br_tensor *mask = br_anatomy_causal_mask(br_size(scores, -1));
    br_tensor *masked_scores = br_masked_fill(scores, br_eq_scalar(mask, 0), -INFINITY);
    br_check_output(check, "mask", mask);
    br_check_output(check, "masked_scores", masked_scores);
    br_check_output(check, "weights", br_softmax(masked_scores, -1));
}

/* ---- Encoder --------------------------------------------------------------------------------- */

static void *build_feed_forward(br_check *check)
{
    br_anatomy_config c = config(check);
    return br_anatomy_feed_forward_new(&c);
}

static void feed_forward(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_anatomy_feed_forward_forward(module, br_check_input(check, "x")));
}

static void *build_layer(br_check *check)
{
    br_anatomy_config c = config(check);
    return br_anatomy_encoder_layer_new(&c);
}

static void layer(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_anatomy_encoder_layer_forward(module, br_check_input(check, "x"),
                                                     br_check_input(check, "mask")));
}

static void *build_embeddings(br_check *check)
{
    br_anatomy_config c = config(check);
    return br_anatomy_embeddings_new(&c);
}

static void embeddings(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_anatomy_embeddings_forward(module, br_check_input(check, "input_ids")));
}

static void *build_encoder(br_check *check)
{
    br_anatomy_config c = config(check);
    return br_anatomy_encoder_new(&c);
}

static void encoder(br_check *check, void *module)
{
    br_check_output(check, "0", br_anatomy_encoder_forward(module, br_check_input(check, "x")));
}

static void *build_classifier(br_check *check)
{
    br_anatomy_config c = config(check);
    return br_anatomy_classifier_new(&c);
}

static void classifier(br_check *check, void *module)
{
    br_check_output(check, "0", br_anatomy_classifier_forward(module, br_check_input(check, "x")));
}

const golden_model golden_anatomy_models[] = {
    { "anatomy.simplified_attention", build_simplified, simplified },
    { "anatomy.scaled_dot_product_attention", NULL, attention },
    { "anatomy.AttentionHead", build_head, head },
    { "anatomy.MultiHeadAttention", build_mha, mha },
    { "anatomy.FeedForward", build_feed_forward, feed_forward },
    { "anatomy.TransformerEncoderLayer", build_layer, layer },
    { "anatomy.Embeddings", build_embeddings, embeddings },
    { "anatomy.TransformerEncoder", build_encoder, encoder },
    { "anatomy.TransformerForSequenceClassification", build_classifier, classifier },
    { "anatomy.causal_mask", NULL, causal_mask },
    { "scratch.simplified_attention", build_simplified, simplified },
    { "scratch.scaled_dot_product_attention", NULL, attention },
    { "scratch.AttentionHead", build_head, head },
    { "scratch.MultiHeadAttention", build_mha, mha },
    { NULL, NULL, NULL },
};
