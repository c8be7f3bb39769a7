/* check/golden/golden_bert.c - golden-file rows for BERT's classes. They use the variant as written
 * unless `config` has "as_written": false. */
#include "check/check_internal.h"
#include "check/golden/golden.h"

static br_bert_config config(br_check *check)
{
    br_bert_config c = { .as_written = br_check_option(check, "as_written", true) };
    const char *name;
    for (int i = 0; (name = br_bert_config_field_name(i)); i++)
        *br_bert_config_field(&c, name) = br_check_size(check, name);
    return c;
}

static void record_fresh(br_check *check, br_bert_mha *mha)
{
    if (!mha)
        return;
    mha->on_new_layers = br__check_fresh;
    mha->on_new_layers_context = check;
}

/* ---- Functions ------------------------------------------------------------------------------- */

static void gelu(br_check *check, void *module)
{
    (void)module;
    br_check_output(check, "0", br_bert_gelu(br_check_input(check, "x")));
}

static void pad_mask(br_check *check, void *module)
{
    (void)module;
    br_check_output(
        check, "0",
        br_bert_pad_mask(br_check_input(check, "seq_q"), br_check_input(check, "seq_k")));
}

static void attention(br_check *check, void *module)
{
    (void)module;
    br_tensor *attn = NULL;
    br_check_output(check, "context",
                    br_bert_attention(br_check_input(check, "Q"), br_check_input(check, "K"),
                                      br_check_input(check, "V"),
                                      br_check_input(check, "attn_mask"), &attn));
    br_check_output(check, "attn", attn);
}

/* ---- Classes --------------------------------------------------------------------------------- */

static void *build_embedding(br_check *check)
{
    br_bert_config c = config(check);
    return br_bert_embedding_new(&c);
}

static void embedding(br_check *check, void *module)
{
    br_check_output(check, "0",
                    br_bert_embedding_forward(module, br_check_input(check, "x"),
                                              br_check_input(check, "seg")));
}

static void *build_mha(br_check *check)
{
    br_bert_config c = config(check);
    br_bert_mha *mha = br_bert_mha_new(&c);
    record_fresh(check, mha);
    return mha;
}

static void mha(br_check *check, void *module)
{
    br_tensor *attn = NULL;
    br_check_output(check, "output",
                    br_bert_mha_forward(module, br_check_input(check, "Q"),
                                        br_check_input(check, "K"), br_check_input(check, "V"),
                                        br_check_input(check, "attn_mask"), &attn));
    br_check_output(check, "attn", attn);
}

static void *build_ffn(br_check *check)
{
    br_bert_config c = config(check);
    return br_bert_ffn_new(&c);
}

static void ffn(br_check *check, void *module)
{
    br_check_output(check, "0", br_bert_ffn_forward(module, br_check_input(check, "x")));
}

static void *build_layer(br_check *check)
{
    br_bert_config c = config(check);
    br_bert_layer *layer = br_bert_layer_new(&c);
    record_fresh(check, layer->enc_self_attn);
    return layer;
}

static void layer(br_check *check, void *module)
{
    br_tensor *attn = NULL;
    br_check_output(check, "output",
                    br_bert_layer_forward(module, br_check_input(check, "enc_inputs"),
                                          br_check_input(check, "enc_self_attn_mask"), &attn));
    br_check_output(check, "attn", attn);
}

static void *build_bert(br_check *check)
{
    br_bert_config c = config(check);
    br_bert *bert = br_bert_new(&c);
    for (int64_t i = 0; i < bert->config.n_layers && !br_failed(); i++) {
        br_bert_layer *l = br_module_list_at(bert->layers, i);
        record_fresh(check, l ? l->enc_self_attn : NULL);
    }
    return bert;
}

static void bert(br_check *check, void *module)
{
    br_tensor *logits_clsf = NULL;
    br_check_output(check, "logits_lm",
                    br_bert_forward(module, br_check_input(check, "input_ids"),
                                    br_check_input(check, "segment_ids"),
                                    br_check_input(check, "masked_pos"), &logits_clsf));
    br_check_output(check, "logits_clsf", logits_clsf);
}

const golden_model golden_bert_models[] = {
    { "bert.gelu", NULL, gelu },
    { "bert.get_attn_pad_masked", NULL, pad_mask },
    { "bert.ScaledDotProductAttention", NULL, attention },
    { "bert.Embedding", build_embedding, embedding },
    { "bert.MultiHeadAttention", build_mha, mha },
    { "bert.PoswiseFeedForward", build_ffn, ffn },
    { "bert.EncoderLayer", build_layer, layer },
    { "bert.BERT", build_bert, bert },
    { NULL, NULL, NULL },
};
