/* check/golden/golden_architecture.c - golden-file rows for the classes of Transformers
 * Architecture. */
#include "check/golden/golden.h"

/* The notebook's fields are required, num_labels only for the classifier. Those that select the
 * intended variant are optional. */
static br_architecture_config config(br_check *check)
{
    return (br_architecture_config){
        .hidden_size = br_check_size(check, "hidden_size"),
        .intermediate_size = br_check_size(check, "intermediate_size"),
        .num_hidden_layers = br_check_size(check, "num_hidden_layers"),
        .vocab_size = br_check_size(check, "vocab_size"),
        .max_position_embeddings = br_check_size(check, "max_position_embeddings"),
        .hidden_dropout_prob = br_check_number(check, "hidden_dropout_prob"),
        .num_attention_heads = br_check_size(check, "num_attention_heads"),
        .add_attention = br_check_option(check, "add_attention", false),
        .pre_norm = br_check_option(check, "pre_norm", false),
        .mask_source = br_check_option(check, "mask_source", false),
        .mask_padding = br_check_option(check, "mask_padding", false),
        .dropout_once = br_check_option(check, "dropout_once", false),
        .embedding_dropout = br_check_option(check, "embedding_dropout", false),
        .small_eps = br_check_option(check, "small_eps", false),
    };
}

/* ---- Attention ------------------------------------------------------------------------------- */

static void attention(br_check *check, void *module)
{
    (void)module;
    br_check_output(check, "0",
                    br_architecture_scaled_dot_product_attention(
                        br_check_input(check, "query"), br_check_input(check, "key"),
                        br_check_input(check, "value"), br_check_input(check, "mask"), NULL));
}

static void *build_mha(br_check *check)
{
    br_architecture_config c = config(check);
    return br_architecture_multi_head_attention_new(&c);
}

static void mha(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_architecture_multi_head_attention_forward(
                        module, br_check_input(check, "query"), br_check_input(check, "key"),
                        br_check_input(check, "value"), br_check_input(check, "mask")));
}

/* ---- Encoder --------------------------------------------------------------------------------- */

static void *build_feed_forward(br_check *check)
{
    br_architecture_config c = config(check);
    return br_architecture_feed_forward_new(&c);
}

static void feed_forward(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_architecture_feed_forward_forward(module, br_check_input(check, "x")));
}

static void *build_encoder_block(br_check *check)
{
    br_architecture_config c = config(check);
    return br_architecture_encoder_block_new(&c);
}

static void encoder_block(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_architecture_encoder_block_forward(module, br_check_input(check, "x"),
                                                          br_check_input(check, "mask")));
}

static void *build_embeddings(br_check *check)
{
    br_architecture_config c = config(check);
    return br_architecture_embeddings_new(&c);
}

static void embeddings(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_architecture_embeddings_forward(module, br_check_input(check, "input_ids")));
}

static void *build_encoder(br_check *check)
{
    br_architecture_config c = config(check);
    return br_architecture_encoder_new(&c);
}

static void encoder(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_architecture_encoder_forward(module, br_check_input(check, "x"),
                                                    br_check_input(check, "mask")));
}

static void *build_classifier(br_check *check)
{
    br_architecture_config c = config(check);
    c.num_labels = br_check_size(check, "num_labels");
    return br_architecture_classifier_new(&c);
}

static void classifier(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_architecture_classifier_forward(module, br_check_input(check, "x")));
}

/* ---- Decoder --------------------------------------------------------------------------------- */

static void *build_decoder_block(br_check *check)
{
    br_architecture_config c = config(check);
    return br_architecture_decoder_block_new(&c);
}

static void decoder_block(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_architecture_decoder_block_forward(module, br_check_input(check, "x"),
                                                          br_check_input(check, "encoder_output"),
                                                          br_check_input(check, "source_mask"),
                                                          br_check_input(check, "target_mask")));
}

static void *build_decoder(br_check *check)
{
    br_architecture_config c = config(check);
    return br_architecture_decoder_new(&c);
}

static void decoder(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_architecture_decoder_forward(module, br_check_input(check, "input_ids"),
                                                    br_check_input(check, "encoder_output"),
                                                    br_check_input(check, "source_mask"),
                                                    br_check_input(check, "target_mask")));
}

static void *build_encoder_decoder(br_check *check)
{
    br_architecture_config c = config(check);
    return br_architecture_encoder_decoder_new(&c);
}

static void encoder_decoder(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_architecture_encoder_decoder_forward(
                        module, br_check_input(check, "input_ids"),
                        br_check_input(check, "target_ids"), br_check_input(check, "source_mask"),
                        br_check_input(check, "target_mask")));
}

/* ---- Masks ----------------------------------------------------------------------------------- */

static void create_mask(br_check *check, void *module)
{
    (void)module;
    br_check_output(check, "0",
                    br_architecture_create_mask(br_check_size(check, "batch_size"),
                                                br_check_size(check, "seq_length")));
}

/* Creates the masks of one sample. */
static void dataset_masks(br_check *check, void *module)
{
    (void)module;
    br_tensor *target = br_check_input(check, "target");
    br_check_output(check, "subsequent_mask", br_architecture_subsequent_mask(br_size(target, -1)));
    br_check_output(check, "target_mask", br_architecture_make_std_mask(target, 0));
    br_check_output(check, "source_mask", br_architecture_source_mask(target));
}

const golden_model golden_architecture_models[] = {
    { "architecture.scaled_dot_product_attention", NULL, attention },
    { "architecture.MultiHeadAttention", build_mha, mha },
    { "architecture.FeedForward", build_feed_forward, feed_forward },
    { "architecture.TransformerEncoderBlock", build_encoder_block, encoder_block },
    { "architecture.Embeddings", build_embeddings, embeddings },
    { "architecture.TransformerEncoder", build_encoder, encoder },
    { "architecture.TransformerForSequenceClassification", build_classifier, classifier },
    { "architecture.TransformerDecoderBlock", build_decoder_block, decoder_block },
    { "architecture.TransformerDecoder", build_decoder, decoder },
    { "architecture.EncoderDecoder", build_encoder_decoder, encoder_decoder },
    { "architecture.create_mask", NULL, create_mask },
    { "architecture.RandomDataset", NULL, dataset_masks },
    { NULL, NULL, NULL },
};
