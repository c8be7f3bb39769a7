/* check/golden/golden_vanilla.c - golden-file rows for the classes of Vanilla Transformer. */
#include "check/golden/golden.h"

/* ---- Configuration --------------------------------------------------------------------------- */

/* The arguments of a class are required; the options of the intended variant are optional. */
static br_vanilla_config attention_config(br_check *check)
{
    return (br_vanilla_config){
        .embed_dim = br_check_size(check, "embed_dim"),
        .n_heads = br_check_size(check, "n_heads"),
        .dropout = br_check_number(check, "dropout"),
        .scale_by_head_dim = br_check_option(check, "scale_by_head_dim", false),
        .infinite_fill = br_check_option(check, "infinite_fill", false),
        .sublayer_dropout = br_check_option(check, "sublayer_dropout", false),
        .use_joint_attention = br_check_option(check, "use_joint_attention", false),
        .use_norm_3 = br_check_option(check, "use_norm_3", false),
        .max_over_tokens = br_check_option(check, "max_over_tokens", false),
    };
}

static br_vanilla_config layer_config(br_check *check)
{
    br_vanilla_config c = attention_config(check);
    c.ff_hid_dim = br_check_size(check, "ff_hid_dim");
    return c;
}

static br_vanilla_config model_config(br_check *check)
{
    br_vanilla_config c = layer_config(check);
    c.n_layers = br_check_size(check, "n_layers");
    c.max_length = br_check_size(check, "max_length");
    return c;
}

static br_vanilla_config block_config(br_check *check)
{
    br_vanilla_config c = model_config(check);
    c.vocab_size = br_check_size(check, "vocab_size");
    return c;
}

/* ---- Layers ---------------------------------------------------------------------------------- */

static void *build_attention(br_check *check)
{
    br_vanilla_config c = attention_config(check);
    return br_vanilla_multi_head_attention_new(&c);
}

static void attention(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_vanilla_multi_head_attention_forward(
                        module, br_check_input(check, "q"), br_check_input(check, "k"),
                        br_check_input(check, "v"), br_check_input(check, "mask")));
}

static void *build_encoder_layer(br_check *check)
{
    br_vanilla_config c = layer_config(check);
    return br_vanilla_encoder_layer_new(&c);
}

static void encoder_layer(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_vanilla_encoder_layer_forward(module, br_check_input(check, "src"),
                                                     br_check_input(check, "mask")));
}

static void *build_decoder_layer(br_check *check)
{
    br_vanilla_config c = layer_config(check);
    return br_vanilla_decoder_layer_new(&c);
}

static void decoder_layer(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_vanilla_decoder_layer_forward(
                        module, br_check_input(check, "trg"), br_check_input(check, "src"),
                        br_check_input(check, "trg_mask"), br_check_input(check, "src_mask")));
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

static void *build_encoder(br_check *check)
{
    br_vanilla_config c = block_config(check);
    return br_vanilla_encoder_new(&c);
}

static void encoder(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_vanilla_encoder_forward(module, br_check_input(check, "src"),
                                               br_check_input(check, "mask")));
}

static void *build_decoder(br_check *check)
{
    br_vanilla_config c = block_config(check);
    return br_vanilla_decoder_new(&c);
}

static void decoder(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_vanilla_decoder_forward(
                        module, br_check_input(check, "trg"), br_check_input(check, "src"),
                        br_check_input(check, "trg_mask"), br_check_input(check, "src_mask")));
}

/* ---- Models ---------------------------------------------------------------------------------- */

static void masks(br_check *check, void *module)
{
    (void)module;
    br_check_output(
        check, "src_mask",
        br_vanilla_src_mask(br_check_input(check, "src"), br_check_size(check, "src_pad_idx")));
    br_check_output(
        check, "trg_mask",
        br_vanilla_trg_mask(br_check_input(check, "trg"), br_check_size(check, "trg_pad_idx")));
}

static void *build_transformer(br_check *check)
{
    br_vanilla_config c = model_config(check);
    c.src_vocab_size = br_check_size(check, "src_vocab_size");
    c.trg_vocab_size = br_check_size(check, "trg_vocab_size");
    c.src_pad_idx = br_check_size(check, "src_pad_idx");
    c.trg_pad_idx = br_check_size(check, "trg_pad_idx");
    return br_vanilla_transformer_new(&c);
}

static void transformer(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_vanilla_transformer_forward(module, br_check_input(check, "src"),
                                                   br_check_input(check, "trg")));
}

static void *build_classifier(br_check *check)
{
    br_vanilla_config c = block_config(check);
    c.n_classes = br_check_size(check, "n_classes");
    c.pad_idx = br_check_size(check, "pad_idx");
    return br_vanilla_encoder_classifier_new(&c);
}

static void classifier(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_vanilla_encoder_classifier_forward(module, br_check_input(check, "x")));
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
