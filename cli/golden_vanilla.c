/* cli/golden_vanilla.c - golden-file rows for the classes of Vanilla Transformer. */
#include "cli/golden.h"

/* ---- Configuration --------------------------------------------------------------------------- */

/* The arguments of a class are required; the options of the intended variant are optional. */
static br_vanilla_config attention_config(golden_run *run)
{
    return (br_vanilla_config){
        .embed_dim = golden_size(run, "embed_dim"),
        .n_heads = golden_size(run, "n_heads"),
        .dropout = golden_number(run, "dropout"),
        .scale_by_head_dim = golden_option(run, "scale_by_head_dim", false),
        .infinite_fill = golden_option(run, "infinite_fill", false),
        .sublayer_dropout = golden_option(run, "sublayer_dropout", false),
        .use_joint_attention = golden_option(run, "use_joint_attention", false),
        .use_norm_3 = golden_option(run, "use_norm_3", false),
        .max_over_tokens = golden_option(run, "max_over_tokens", false),
    };
}

static br_vanilla_config layer_config(golden_run *run)
{
    br_vanilla_config c = attention_config(run);
    c.ff_hid_dim = golden_size(run, "ff_hid_dim");
    return c;
}

static br_vanilla_config model_config(golden_run *run)
{
    br_vanilla_config c = layer_config(run);
    c.n_layers = golden_size(run, "n_layers");
    c.max_length = golden_size(run, "max_length");
    return c;
}

static br_vanilla_config block_config(golden_run *run)
{
    br_vanilla_config c = model_config(run);
    c.vocab_size = golden_size(run, "vocab_size");
    return c;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static void *build_attention(golden_run *run)
{
    br_vanilla_config c = attention_config(run);
    return br_vanilla_multi_head_attention_new(&c);
}

static void attention(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_vanilla_multi_head_attention_forward(
                      module, golden_input(run, "q"), golden_input(run, "k"),
                      golden_input(run, "v"), golden_input(run, "mask")));
}

static void *build_encoder_layer(golden_run *run)
{
    br_vanilla_config c = layer_config(run);
    return br_vanilla_encoder_layer_new(&c);
}

static void encoder_layer(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_vanilla_encoder_layer_forward(module, golden_input(run, "src"),
                                                   golden_input(run, "mask")));
}

static void *build_decoder_layer(golden_run *run)
{
    br_vanilla_config c = layer_config(run);
    return br_vanilla_decoder_layer_new(&c);
}

static void decoder_layer(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_vanilla_decoder_layer_forward(
                      module, golden_input(run, "trg"), golden_input(run, "src"),
                      golden_input(run, "trg_mask"), golden_input(run, "src_mask")));
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void *build_encoder(golden_run *run)
{
    br_vanilla_config c = block_config(run);
    return br_vanilla_encoder_new(&c);
}

static void encoder(golden_run *run, void *module)
{
    golden_output(
        run, "0",
        br_vanilla_encoder_forward(module, golden_input(run, "src"), golden_input(run, "mask")));
}

static void *build_decoder(golden_run *run)
{
    br_vanilla_config c = block_config(run);
    return br_vanilla_decoder_new(&c);
}

static void decoder(golden_run *run, void *module)
{
    golden_output(
        run, "0",
        br_vanilla_decoder_forward(module, golden_input(run, "trg"), golden_input(run, "src"),
                                   golden_input(run, "trg_mask"), golden_input(run, "src_mask")));
}

/* ---- Models ---------------------------------------------------------------------------------- */

static void masks(golden_run *run, void *module)
{
    (void)module;
    golden_output(run, "src_mask",
                  br_vanilla_src_mask(golden_input(run, "src"), golden_size(run, "src_pad_idx")));
    golden_output(run, "trg_mask",
                  br_vanilla_trg_mask(golden_input(run, "trg"), golden_size(run, "trg_pad_idx")));
}

static void *build_transformer(golden_run *run)
{
    br_vanilla_config c = model_config(run);
    c.src_vocab_size = golden_size(run, "src_vocab_size");
    c.trg_vocab_size = golden_size(run, "trg_vocab_size");
    c.src_pad_idx = golden_size(run, "src_pad_idx");
    c.trg_pad_idx = golden_size(run, "trg_pad_idx");
    return br_vanilla_transformer_new(&c);
}

static void transformer(golden_run *run, void *module)
{
    golden_output(
        run, "0",
        br_vanilla_transformer_forward(module, golden_input(run, "src"), golden_input(run, "trg")));
}

static void *build_classifier(golden_run *run)
{
    br_vanilla_config c = block_config(run);
    c.n_classes = golden_size(run, "n_classes");
    c.pad_idx = golden_size(run, "pad_idx");
    return br_vanilla_encoder_classifier_new(&c);
}

static void classifier(golden_run *run, void *module)
{
    golden_output(run, "0", br_vanilla_encoder_classifier_forward(module, golden_input(run, "x")));
}

const golden_model golden_vanilla_models[] = {
    { "vanilla.MultiHeadAttention", build_attention, attention },
    { "vanilla.EncoderLayer", build_encoder_layer, encoder_layer },
    { "vanilla.DecoderLayer", build_decoder_layer, decoder_layer },
    { "vanilla.Encoder", build_encoder, encoder },
    { "vanilla.Decoder", build_decoder, decoder },
    { "vanilla.Transformer.src_mask, vanilla.Transformer.trg_mask", NULL, masks },
    { "vanilla.Transformer", build_transformer, transformer },
    { "vanilla.EncoderClassifier", build_classifier, classifier },
    { NULL, NULL, NULL },
};
