/* cli/golden_architecture.c - golden-file rows for the classes of Transformers Architecture. */
#include "cli/golden.h"

/* The notebook's fields are required, num_labels only for the classifier. Those that select the
 * intended variant are optional. */
static br_architecture_config config(golden_run *run)
{
    return (br_architecture_config){
        .hidden_size = golden_size(run, "hidden_size"),
        .intermediate_size = golden_size(run, "intermediate_size"),
        .num_hidden_layers = golden_size(run, "num_hidden_layers"),
        .vocab_size = golden_size(run, "vocab_size"),
        .max_position_embeddings = golden_size(run, "max_position_embeddings"),
        .hidden_dropout_prob = golden_number(run, "hidden_dropout_prob"),
        .num_attention_heads = golden_size(run, "num_attention_heads"),
        .add_attention = golden_option(run, "add_attention", false),
        .pre_norm = golden_option(run, "pre_norm", false),
        .mask_source = golden_option(run, "mask_source", false),
        .mask_padding = golden_option(run, "mask_padding", false),
        .dropout_once = golden_option(run, "dropout_once", false),
        .embedding_dropout = golden_option(run, "embedding_dropout", false),
        .small_eps = golden_option(run, "small_eps", false),
    };
}

/* ---- Attention ------------------------------------------------------------------------------- */

static void attention(golden_run *run, void *module)
{
    (void)module;
    golden_output(run, "0",
                  br_architecture_scaled_dot_product_attention(
                      golden_input(run, "query"), golden_input(run, "key"),
                      golden_input(run, "value"), golden_input(run, "mask"), NULL));
}

static void *build_mha(golden_run *run)
{
    br_architecture_config c = config(run);
    return br_architecture_multi_head_attention_new(&c);
}

static void mha(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_architecture_multi_head_attention_forward(
                      module, golden_input(run, "query"), golden_input(run, "key"),
                      golden_input(run, "value"), golden_input(run, "mask")));
}

/* ---- Encoder --------------------------------------------------------------------------------- */

static void *build_feed_forward(golden_run *run)
{
    br_architecture_config c = config(run);
    return br_architecture_feed_forward_new(&c);
}

static void feed_forward(golden_run *run, void *module)
{
    golden_output(run, "0", br_architecture_feed_forward_forward(module, golden_input(run, "x")));
}

static void *build_encoder_block(golden_run *run)
{
    br_architecture_config c = config(run);
    return br_architecture_encoder_block_new(&c);
}

static void encoder_block(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_architecture_encoder_block_forward(module, golden_input(run, "x"),
                                                        golden_input(run, "mask")));
}

static void *build_embeddings(golden_run *run)
{
    br_architecture_config c = config(run);
    return br_architecture_embeddings_new(&c);
}

static void embeddings(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_architecture_embeddings_forward(module, golden_input(run, "input_ids")));
}

static void *build_encoder(golden_run *run)
{
    br_architecture_config c = config(run);
    return br_architecture_encoder_new(&c);
}

static void encoder(golden_run *run, void *module)
{
    golden_output(
        run, "0",
        br_architecture_encoder_forward(module, golden_input(run, "x"), golden_input(run, "mask")));
}

static void *build_classifier(golden_run *run)
{
    br_architecture_config c = config(run);
    c.num_labels = golden_size(run, "num_labels");
    return br_architecture_classifier_new(&c);
}

static void classifier(golden_run *run, void *module)
{
    golden_output(run, "0", br_architecture_classifier_forward(module, golden_input(run, "x")));
}

/* ---- Decoder --------------------------------------------------------------------------------- */

static void *build_decoder_block(golden_run *run)
{
    br_architecture_config c = config(run);
    return br_architecture_decoder_block_new(&c);
}

static void decoder_block(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_architecture_decoder_block_forward(
                      module, golden_input(run, "x"), golden_input(run, "encoder_output"),
                      golden_input(run, "source_mask"), golden_input(run, "target_mask")));
}

static void *build_decoder(golden_run *run)
{
    br_architecture_config c = config(run);
    return br_architecture_decoder_new(&c);
}

static void decoder(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_architecture_decoder_forward(
                      module, golden_input(run, "input_ids"), golden_input(run, "encoder_output"),
                      golden_input(run, "source_mask"), golden_input(run, "target_mask")));
}

static void *build_encoder_decoder(golden_run *run)
{
    br_architecture_config c = config(run);
    return br_architecture_encoder_decoder_new(&c);
}

static void encoder_decoder(golden_run *run, void *module)
{
    golden_output(run, "0",
                  br_architecture_encoder_decoder_forward(
                      module, golden_input(run, "input_ids"), golden_input(run, "target_ids"),
                      golden_input(run, "source_mask"), golden_input(run, "target_mask")));
}

/* ---- Masks ----------------------------------------------------------------------------------- */

static void create_mask(golden_run *run, void *module)
{
    (void)module;
    golden_output(run, "0",
                  br_architecture_create_mask(golden_size(run, "batch_size"),
                                              golden_size(run, "seq_length")));
}

/* Creates the masks of one sample. */
static void dataset_masks(golden_run *run, void *module)
{
    (void)module;
    br_tensor *target = golden_input(run, "target");
    golden_output(run, "subsequent_mask", br_architecture_subsequent_mask(br_size(target, -1)));
    golden_output(run, "target_mask", br_architecture_make_std_mask(target, 0));
    golden_output(run, "source_mask", br_architecture_source_mask(target));
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
