/* Packed batches of BERT and its relatives: results of each text are those of the text alone, and
 * do not depend on the other texts, to the bit. */
#include "tests/models/packed_texts.h"

TestSuite(packed, .init = check_begin, .fini = check_end);

static const char *const types[] = { "bert",       "roberta", "xlm-roberta", "camembert",
                                     "distilbert", "electra", "albert",      "mpnet" };
enum { N_TYPES = sizeof types / sizeof *types };

static br_hf_bert_config config_of(const char *type)
{
    br_hf_bert_config c = br_hf_bert_config_default();
    c.model_type = type;
    c.vocab_size = 50;
    c.hidden_size = 64;
    c.num_hidden_layers = 2;
    c.num_attention_heads = 4;
    c.intermediate_size = 96;
    c.max_position_embeddings = 40;
    c.num_labels = PACKED_LABELS;
    c.pad_token_id = 1;
    c.relative_attention_num_buckets = strcmp(type, "mpnet") == 0 ? 32 : 0;
    return c;
}

static br_tensor *run_base(br_hf_bert *base, packed_texts t)
{
    br_tensor *y = br_hf_bert_forward(
        base, t.ids, BR_OPTIONS(br_hf_bert, .token_type_ids = t.types, .cu_seqlens = t.starts));
    cr_assert(y, "%s", br_error_message());
    return y;
}

static br_tensor *run(void *model, packed_texts t, bool logits)
{
    br_hf_bert_classifier *classifier = model;
    if (!logits)
        return run_base(classifier->bert, t);
    br_tensor *y = br_hf_bert_classifier_forward(
        classifier, t.ids,
        BR_OPTIONS(br_hf_bert, .token_type_ids = t.types, .cu_seqlens = t.starts));
    cr_assert(y, "%s", br_error_message());
    return y;
}

static void check_type(const char *type)
{
    br_manual_seed(3);
    const br_hf_bert_config c = config_of(type);
    br_hf_bert_classifier *classifier = br_hf_bert_for_sequence_classification_new(&c);
    cr_assert(classifier, "%s: %s", type, br_error_message());
    br_eval(br_base(classifier));
    check_packed(run, classifier, type);
    br_module_free(classifier);
}

Test(packed, texts_equal_single_texts)
{
    for (int i = 0; i < N_TYPES; i++)
        check_type(types[i]);
}

Test(packed, gradients_equal_those_of_padded_texts)
{
    const br_hf_bert_config c = config_of("bert");
    br_hf_bert *base = br_hf_bert_new(&c);
    cr_assert(base, "%s", br_error_message());
    br_eval(br_base(base));
    br_scope *scope = br_scope_begin();
    br_tensor *x = base->embeddings->word_embeddings->weight, *packed, *alone;
    packed_texts t = pack(2, (int[]){ 3, 4 }), first = pack(1, (int[]){ 3 }),
                 second = pack(1, (int[]){ 4 });
    first.starts = second.starts = NULL;
    br_tensor *y = br_sum(br_pow_scalar(run_base(base, t), 3));
    br_tensor *z = br_add(br_sum(br_pow_scalar(run_base(base, first), 3)),
                          br_sum(br_pow_scalar(run_base(base, second), 3)));
    cr_assert(br_grad(1, &y, 1, &x, &packed, NULL) && br_grad(1, &z, 1, &x, &alone, NULL));
    cr_assert_leq(difference(packed, alone), 1e-5 * br_item(br_max(br_abs(alone))));
    br_scope_end(scope);
    br_module_free(base);
}

static br_tensor *forward(br_hf_bert *model, br_tensor *ids, br_tensor *starts)
{
    return br_hf_bert_forward(model, ids, BR_OPTIONS(br_hf_bert, .cu_seqlens = starts));
}

Test(packed, refused_batches)
{
    br_hf_bert_config c = config_of("bert");
    br_hf_bert *model = br_hf_bert_new(&c);
    br_scope *scope = br_no_grad_begin();
    br_tensor *ids = br_zeros(BR_SHAPE(1, 6), BR_I64);
    br_tensor *starts = br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 2, 6 });
    check_fails(forward(model, ids, starts), "cannot be combined with dropout of the attention");
    br_eval(br_base(model));
    cr_assert(forward(model, ids, starts));
    check_fails(forward(model, br_zeros(BR_SHAPE(2, 3), BR_I64), starts),
                "input_ids [2, 3] must be [1, tokens]");
    check_fails(forward(model, ids, br_to(starts, BR_F32)), "cu_seqlens is f32 [3], must be i64");
    check_fails(forward(model, ids, br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, 5 })),
                "ends with 5, must begin with 0 and end with the number of tokens, which is 6");
    check_fails(forward(model, ids, br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 6, 6 })),
                "cu_seqlens[2] is 6, must be greater than 6");
    check_fails(forward(model, br_zeros(BR_SHAPE(1, 50), BR_I64),
                        br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 9, 50 })),
                "text 1 of a packed batch has 41 tokens, more than the model's 40 positions");
    check_fails(br_hf_bert_forward(model, ids,
                                   BR_OPTIONS(br_hf_bert, .cu_seqlens = starts,
                                              .attention_mask = br_ones_like(ids))),
                "cannot be combined with attention_mask");
    br_tensor *attentions[2];
    check_fails(
        br_hf_bert_forward(model, ids,
                           BR_OPTIONS(br_hf_bert, .cu_seqlens = starts, .attentions = attentions)),
        "cannot be combined with attentions");
    br_scope_end(scope);
    br_module_free(model);
}
