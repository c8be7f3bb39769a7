/* cli/golden_nn.c - golden-file rows for the attention and Transformer modules of torch.nn. */
#include "cli/golden.h"

/* ---- Attention ------------------------------------------------------------------------------- */

static void *build_attention(golden_run *run)
{
    br_multihead_attention_options options =
        *BR_OPTIONS(br_multihead_attention, .dropout = golden_number(run, "dropout"),
                    .bias = !(golden_option(run, "no_bias", false)),
                    .add_bias_kv = golden_option(run, "add_bias_kv", false),
                    .add_zero_attn = golden_option(run, "add_zero_attn", false),
                    .kdim = golden_size_or(run, "kdim", 0), .vdim = golden_size_or(run, "vdim", 0),
                    .batch_first = golden_option(run, "batch_first", false));
    return br_multihead_attention_new(golden_size(run, "embed_dim"), golden_size(run, "num_heads"),
                                      &options);
}

static void attention(golden_run *run, void *module)
{
    br_tensor *query = golden_input(run, "query"), *key = golden_input(run, "key");
    br_tensor *value = golden_input(run, "value"), *weights = NULL;
    bool needs_weights = golden_option(run, "weights", false);
    key = key ? key : query;
    br_multihead_attention_inputs inputs = {
        .key_padding_mask = golden_input(run, "key_padding_mask"),
        .attn_mask = golden_input(run, "attn_mask"),
        .is_causal = golden_option(run, "causal", false),
        .weights = needs_weights ? &weights : NULL,
        .weights_per_head = golden_option(run, "per_head", false),
    };
    golden_output(run, "0",
                  br_multihead_attention_forward(module, query, key, value ? value : key, &inputs));
    golden_output(run, "weights", weights);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static br_transformer_options layer_options(golden_run *run)
{
    return *BR_OPTIONS(br_transformer, .dim_feedforward = golden_size(run, "dim_feedforward"),
                       .dropout = golden_number(run, "dropout"),
                       .gelu = golden_option(run, "gelu", false),
                       .layer_norm_eps = golden_number(run, "eps"),
                       .batch_first = golden_option(run, "batch_first", false),
                       .norm_first = golden_option(run, "norm_first", false),
                       .bias = !(golden_option(run, "no_bias", false)));
}

static br_transformer_masks masks(golden_run *run)
{
    return (br_transformer_masks){
        .src_mask = golden_input(run, "src_mask"),
        .tgt_mask = golden_input(run, "tgt_mask"),
        .memory_mask = golden_input(run, "memory_mask"),
        .src_key_padding_mask = golden_input(run, "src_key_padding_mask"),
        .tgt_key_padding_mask = golden_input(run, "tgt_key_padding_mask"),
        .memory_key_padding_mask = golden_input(run, "memory_key_padding_mask"),
    };
}

static void *build_encoder_layer(golden_run *run)
{
    br_transformer_options o = layer_options(run);
    return br_transformer_encoder_layer_new(golden_size(run, "d_model"), golden_size(run, "nhead"),
                                            &o);
}

static void encoder_layer(golden_run *run, void *module)
{
    br_transformer_masks m = masks(run);
    golden_output(run, "0",
                  br_transformer_encoder_layer_forward(module, golden_input(run, "src"), m.src_mask,
                                                       m.src_key_padding_mask, false));
}

static void *build_decoder_layer(golden_run *run)
{
    br_transformer_options o = layer_options(run);
    return br_transformer_decoder_layer_new(golden_size(run, "d_model"), golden_size(run, "nhead"),
                                            &o);
}

static void decoder_layer(golden_run *run, void *module)
{
    br_transformer_masks m = masks(run);
    golden_output(run, "0",
                  br_transformer_decoder_layer_forward(module, golden_input(run, "tgt"),
                                                       golden_input(run, "memory"), &m));
}

/* ---- Stacks ---------------------------------------------------------------------------------- */

static void *build_encoder(golden_run *run)
{
    br_transformer_options o = layer_options(run);
    return br_transformer_encoder_new(golden_size(run, "d_model"), golden_size(run, "nhead"),
                                      golden_size(run, "num_layers"), true, &o);
}

static void encoder(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_transformer_encoder_forward(module, golden_input(run, "src"),
                                                 golden_input(run, "mask"),
                                                 golden_input(run, "src_key_padding_mask"), false));
}

static void *build_decoder(golden_run *run)
{
    br_transformer_options o = layer_options(run);
    return br_transformer_decoder_new(golden_size(run, "d_model"), golden_size(run, "nhead"),
                                      golden_size(run, "num_layers"), false, &o);
}

static void decoder(golden_run *run, void *module)
{
    br_transformer_masks m = masks(run);
    golden_output(run, "0",
                  br_transformer_decoder_forward(module, golden_input(run, "tgt"),
                                                 golden_input(run, "memory"), &m));
}

static void *build_transformer(golden_run *run)
{
    br_transformer_options o = layer_options(run);
    return br_transformer_new(golden_size(run, "d_model"), golden_size(run, "nhead"),
                              golden_size(run, "num_encoder_layers"),
                              golden_size(run, "num_decoder_layers"), &o);
}

static void transformer(golden_run *run, void *module)
{
    br_transformer_masks m = masks(run);
    golden_output(
        run, "0",
        br_transformer_forward(module, golden_input(run, "src"), golden_input(run, "tgt"), &m));
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
