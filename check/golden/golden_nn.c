/* check/golden/golden_nn.c - golden-file rows for the attention and Transformer modules of
 * torch.nn. */
#include "check/golden/golden.h"

/* ---- Attention ------------------------------------------------------------------------------- */

static void *build_attention(br_check *check)
{
    br_multihead_attention_options options = *BR_OPTIONS(
        br_multihead_attention, .dropout = br_check_number(check, "dropout"),
        .bias = !(br_check_option(check, "no_bias", false)),
        .add_bias_kv = br_check_option(check, "add_bias_kv", false),
        .add_zero_attn = br_check_option(check, "add_zero_attn", false),
        .kdim = br_check_size_or(check, "kdim", 0), .vdim = br_check_size_or(check, "vdim", 0),
        .batch_first = br_check_option(check, "batch_first", false));
    return br_multihead_attention_new(br_check_size(check, "embed_dim"),
                                      br_check_size(check, "num_heads"), &options);
}

static void attention(br_check *check, void *module)
{
    br_tensor *query = br_check_input(check, "query"), *key = br_check_input(check, "key");
    br_tensor *value = br_check_input(check, "value"), *weights = NULL;
    bool needs_weights = br_check_option(check, "weights", false);
    key = key ? key : query;
    br_multihead_attention_inputs inputs = {
        .key_padding_mask = br_check_input(check, "key_padding_mask"),
        .attn_mask = br_check_input(check, "attn_mask"),
        .is_causal = br_check_option(check, "causal", false),
        .weights = needs_weights ? &weights : NULL,
        .weights_per_head = br_check_option(check, "per_head", false),
    };
    br_check_output(
        check, "0",
        br_multihead_attention_forward(module, query, key, value ? value : key, &inputs));
    br_check_output(check, "weights", weights);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static br_transformer_options layer_options(br_check *check)
{
    return *BR_OPTIONS(br_transformer, .dim_feedforward = br_check_size(check, "dim_feedforward"),
                       .dropout = br_check_number(check, "dropout"),
                       .gelu = br_check_option(check, "gelu", false),
                       .layer_norm_eps = br_check_number(check, "eps"),
                       .batch_first = br_check_option(check, "batch_first", false),
                       .norm_first = br_check_option(check, "norm_first", false),
                       .bias = !(br_check_option(check, "no_bias", false)));
}

static br_transformer_masks masks(br_check *check)
{
    return (br_transformer_masks){
        .src_mask = br_check_input(check, "src_mask"),
        .tgt_mask = br_check_input(check, "tgt_mask"),
        .memory_mask = br_check_input(check, "memory_mask"),
        .src_key_padding_mask = br_check_input(check, "src_key_padding_mask"),
        .tgt_key_padding_mask = br_check_input(check, "tgt_key_padding_mask"),
        .memory_key_padding_mask = br_check_input(check, "memory_key_padding_mask"),
    };
}

static void *build_encoder_layer(br_check *check)
{
    br_transformer_options o = layer_options(check);
    return br_transformer_encoder_layer_new(br_check_size(check, "d_model"),
                                            br_check_size(check, "nhead"), &o);
}

static void encoder_layer(br_check *check, void *module)
{
    br_transformer_masks m = masks(check);
    br_check_output(check, "0",
                    br_transformer_encoder_layer_forward(module, br_check_input(check, "src"),
                                                         m.src_mask, m.src_key_padding_mask,
                                                         false));
}

static void *build_decoder_layer(br_check *check)
{
    br_transformer_options o = layer_options(check);
    return br_transformer_decoder_layer_new(br_check_size(check, "d_model"),
                                            br_check_size(check, "nhead"), &o);
}

static void decoder_layer(br_check *check, void *module)
{
    br_transformer_masks m = masks(check);
    br_check_output(check, "0",
                    br_transformer_decoder_layer_forward(module, br_check_input(check, "tgt"),
                                                         br_check_input(check, "memory"), &m));
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static void *build_encoder(br_check *check)
{
    br_transformer_options o = layer_options(check);
    return br_transformer_encoder_new(br_check_size(check, "d_model"),
                                      br_check_size(check, "nhead"),
                                      br_check_size(check, "num_layers"), true, &o);
}

static void encoder(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_transformer_encoder_forward(
                        module, br_check_input(check, "src"), br_check_input(check, "mask"),
                        br_check_input(check, "src_key_padding_mask"), false));
}

static void *build_decoder(br_check *check)
{
    br_transformer_options o = layer_options(check);
    return br_transformer_decoder_new(br_check_size(check, "d_model"),
                                      br_check_size(check, "nhead"),
                                      br_check_size(check, "num_layers"), false, &o);
}

static void decoder(br_check *check, void *module)
{
    br_transformer_masks m = masks(check);
    br_check_output(check, "0",
                    br_transformer_decoder_forward(module, br_check_input(check, "tgt"),
                                                   br_check_input(check, "memory"), &m));
}

static void *build_transformer(br_check *check)
{
    br_transformer_options o = layer_options(check);
    return br_transformer_new(br_check_size(check, "d_model"), br_check_size(check, "nhead"),
                              br_check_size(check, "num_encoder_layers"),
                              br_check_size(check, "num_decoder_layers"), &o);
}

static void transformer(br_check *check, void *module)
{
    br_transformer_masks m = masks(check);
    br_check_output(check, "0",
                    br_transformer_forward(module, br_check_input(check, "src"),
                                           br_check_input(check, "tgt"), &m));
}

const golden_model golden_nn_models[] = {
    { "nn.MultiheadAttention", build_attention, attention },
    { "nn.TransformerEncoderLayer", build_encoder_layer, encoder_layer },
    { "nn.TransformerDecoderLayer", build_decoder_layer, decoder_layer },
    { "nn.TransformerEncoder", build_encoder, encoder },
    { "nn.TransformerDecoder", build_decoder, decoder },
    { "nn.Transformer", build_transformer, transformer },
    { NULL, NULL, NULL },
};
