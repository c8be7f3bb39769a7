/* cli/golden_anatomy.c - golden-file rows for the classes of Transformer Anatomy and, under
 * separate names, of Transformers from Scratch. */
#include "cli/golden.h"

#include <math.h>

/* The notebook's fields are required; those that select the intended variant are optional. */
static br_anatomy_config config(golden_run *run)
{
    return (br_anatomy_config){
        .vocab_size = golden_size(run, "vocab_size"),
        .hidden_size = golden_size(run, "hidden_size"),
        .num_hidden_layers = golden_size(run, "num_hidden_layers"),
        .num_attention_heads = golden_size(run, "num_attention_heads"),
        .intermediate_size = golden_size(run, "intermediate_size"),
        .max_position_embeddings = golden_size(run, "max_position_embeddings"),
        .num_labels = golden_size(run, "num_labels"),
        .hidden_dropout_prob = golden_number(run, "hidden_dropout_prob"),
        .mask_padding = golden_option(run, "mask_padding", false),
        .attention_dropout = golden_option(run, "attention_dropout", false),
        .final_norm = golden_option(run, "final_norm", false),
        .small_eps = golden_option(run, "small_eps", false),
    };
}

/* ---- Attention ------------------------------------------------------------------------------- */

static void *build_simplified(golden_run *run)
{
    return br_anatomy_simplified_attention_new(golden_size(run, "vocab_size"),
                                               golden_size(run, "hidden_size"));
}

static void simplified(golden_run *run, void *module)
{
    br_anatomy_simplified_steps s =
        br_anatomy_simplified_attention_forward(module, golden_input(run, "input_ids"));
    golden_output(run, "inputs_embeds", s.inputs_embeds);
    golden_output(run, "scores", s.scores);
    golden_output(run, "weights", s.weights);
    golden_output(run, "attn_outputs", s.attn_outputs);
}

static void attention(golden_run *run, void *module)
{
    (void)module;
    golden_output(run, "0",
                  br_anatomy_scaled_dot_product_attention(
                      golden_input(run, "query"), golden_input(run, "key"),
                      golden_input(run, "value"), golden_input(run, "mask")));
}

static void *build_head(golden_run *run)
{
    return br_anatomy_attention_head_new(golden_size(run, "embed_dim"),
                                         golden_size(run, "head_dim"));
}

static void head(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_anatomy_attention_head_forward(module, golden_input(run, "hidden_state"),
                                                    golden_input(run, "mask")));
}

static void *build_mha(golden_run *run)
{
    br_anatomy_config c = config(run);
    return br_anatomy_multi_head_attention_new(&c);
}

static void mha(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_anatomy_multi_head_attention_forward(module, golden_input(run, "hidden_state"),
                                                          golden_input(run, "mask")));
}

/* Runs the cells that create and apply the mask, followed by softmax. */
static void causal_mask(golden_run *run, void *module)
{
    (void)module;
    br_tensor *scores = golden_input(run, "scores");
    br_tensor *mask = br_anatomy_causal_mask(br_size(scores, -1));
    br_tensor *masked_scores = br_masked_fill(scores, br_eq_scalar(mask, 0), -INFINITY);
    golden_output(run, "mask", mask);
    golden_output(run, "masked_scores", masked_scores);
    golden_output(run, "weights", br_softmax(masked_scores, -1));
}

/* ---- Encoder --------------------------------------------------------------------------------- */

static void *build_feed_forward(golden_run *run)
{
    br_anatomy_config c = config(run);
    return br_anatomy_feed_forward_new(&c);
}

static void feed_forward(golden_run *run, void *module)
{
    golden_output(run, "0", br_anatomy_feed_forward_forward(module, golden_input(run, "x")));
}

static void *build_layer(golden_run *run)
{
    br_anatomy_config c = config(run);
    return br_anatomy_encoder_layer_new(&c);
}

static void layer(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_anatomy_encoder_layer_forward(module, golden_input(run, "x"),
                                                   golden_input(run, "mask")));
}

static void *build_embeddings(golden_run *run)
{
    br_anatomy_config c = config(run);
    return br_anatomy_embeddings_new(&c);
}

static void embeddings(golden_run *run, void *module)
{
    golden_output(run, "0", br_anatomy_embeddings_forward(module, golden_input(run, "input_ids")));
}

static void *build_encoder(golden_run *run)
{
    br_anatomy_config c = config(run);
    return br_anatomy_encoder_new(&c);
}

static void encoder(golden_run *run, void *module)
{
    golden_output(run, "0", br_anatomy_encoder_forward(module, golden_input(run, "x")));
}

static void *build_classifier(golden_run *run)
{
    br_anatomy_config c = config(run);
    return br_anatomy_classifier_new(&c);
}

static void classifier(golden_run *run, void *module)
{
    golden_output(run, "0", br_anatomy_classifier_forward(module, golden_input(run, "x")));
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
