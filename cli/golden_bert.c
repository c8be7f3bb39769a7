/* cli/golden_bert.c - golden-file rows for BERT's classes. They use the variant as written unless
 * `config` has "as_written": false. */
#include "cli/golden.h"

static br_bert_config config(golden_run *run)
{
    br_bert_config c = { .as_written = golden_option(run, "as_written", true) };
    const char *name;
    for (int i = 0; (name = br_bert_config_field_name(i)); i++)
        *br_bert_config_field(&c, name) = golden_size(run, name);
    return c;
}

static void record_fresh(golden_run *run, br_bert_mha *mha)
{
    if (!mha)
        return;
    mha->on_new_layers = golden_fresh;
    mha->on_new_layers_context = run;
}

/* ---- Functions ------------------------------------------------------------------------------- */

static void gelu(golden_run *run, void *module)
{
    (void)module;
    golden_output(run, "0", br_bert_gelu(golden_input(run, "x")));
}

static void pad_mask(golden_run *run, void *module)
{
    (void)module;
    golden_output(run, "0",
                  br_bert_pad_mask(golden_input(run, "seq_q"), golden_input(run, "seq_k")));
}

static void attention(golden_run *run, void *module)
{
    (void)module;
    br_tensor *attn = NULL;
    golden_output(run, "context",
                  br_bert_attention(golden_input(run, "Q"), golden_input(run, "K"),
                                    golden_input(run, "V"), golden_input(run, "attn_mask"), &attn));
    golden_output(run, "attn", attn);
}

/* ---- Classes --------------------------------------------------------------------------------- */

static void *build_embedding(golden_run *run)
{
    br_bert_config c = config(run);
    return br_bert_embedding_new(&c);
}

static void embedding(golden_run *run, void *module)
{
    golden_output(
        run, "0",
        br_bert_embedding_forward(module, golden_input(run, "x"), golden_input(run, "seg")));
}

static void *build_mha(golden_run *run)
{
    br_bert_config c = config(run);
    br_bert_mha *mha = br_bert_mha_new(&c);
    record_fresh(run, mha);
    return mha;
}

static void mha(golden_run *run, void *module)
{
    br_tensor *attn = NULL;
    golden_output(run, "output",
                  br_bert_mha_forward(module, golden_input(run, "Q"), golden_input(run, "K"),
                                      golden_input(run, "V"), golden_input(run, "attn_mask"),
                                      &attn));
    golden_output(run, "attn", attn);
}

static void *build_ffn(golden_run *run)
{
    br_bert_config c = config(run);
    return br_bert_ffn_new(&c);
}

static void ffn(golden_run *run, void *module)
{
    golden_output(run, "0", br_bert_ffn_forward(module, golden_input(run, "x")));
}

static void *build_layer(golden_run *run)
{
    br_bert_config c = config(run);
    br_bert_layer *layer = br_bert_layer_new(&c);
    record_fresh(run, layer->enc_self_attn);
    return layer;
}

static void layer(golden_run *run, void *module)
{
    br_tensor *attn = NULL;
    golden_output(run, "output",
                  br_bert_layer_forward(module, golden_input(run, "enc_inputs"),
                                        golden_input(run, "enc_self_attn_mask"), &attn));
    golden_output(run, "attn", attn);
}

static void *build_bert(golden_run *run)
{
    br_bert_config c = config(run);
    br_bert *bert = br_bert_new(&c);
    for (int64_t i = 0; i < bert->config.n_layers && !br_failed(); i++) {
        br_bert_layer *l = br_module_list_at(bert->layers, i);
        record_fresh(run, l ? l->enc_self_attn : NULL);
    }
    return bert;
}

static void bert(golden_run *run, void *module)
{
    br_tensor *logits_clsf = NULL;
    golden_output(run, "logits_lm",
                  br_bert_forward(module, golden_input(run, "input_ids"),
                                  golden_input(run, "segment_ids"), golden_input(run, "masked_pos"),
                                  &logits_clsf));
    golden_output(run, "logits_clsf", logits_clsf);
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
