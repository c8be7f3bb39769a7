/* Packed batches of BERT and its relatives: results of each text are those of the text alone, and
 * do not depend on the other texts, to the bit. */
#include "tests/models/recorded.h"
#include "tests/same_bits.h"

TestSuite(packed, .init = check_begin, .fini = check_end);

static const char *const types[] = { "bert",       "roberta", "xlm-roberta", "camembert",
                                     "distilbert", "electra", "albert",      "mpnet" };
enum { N_TYPES = sizeof types / sizeof *types, SIZE = 64, LABELS = 3, TEXTS = 6, FILLER = 5 };

/* The number of tokens of each text; FILLER is the number of the last text, which is the longest.
 */
static const int64_t lengths[TEXTS] = { 1, 3, 20, 7, 13, 33 };

static br_hf_bert_config config_of(const char *type)
{
    br_hf_bert_config c = br_hf_bert_config_default();
    c.model_type = type;
    c.vocab_size = 50;
    c.hidden_size = SIZE;
    c.num_hidden_layers = 2;
    c.num_attention_heads = 4;
    c.intermediate_size = 96;
    c.max_position_embeddings = 40;
    c.num_labels = LABELS;
    c.pad_token_id = 1;
    c.relative_attention_num_buckets = strcmp(type, "mpnet") == 0 ? 32 : 0;
    return c;
}

typedef struct packed_texts {
    br_tensor *ids, *types, *starts;
} packed_texts;

/* Returns n texts, chosen by their numbers. The ids of a text depend on its number only, and one of
 * them is that of padding. */
static packed_texts pack(int n, const int *chosen)
{
    int64_t id[200], type[200], starts[TEXTS + 1] = { 0 }, at = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t k = 0; k < lengths[chosen[i]]; k++, at++) {
            id[at] = k == 2 ? 1 : 2 + (chosen[i] * 17 + k * 7) % 47;
            type[at] = k > 4;
        }
        starts[i + 1] = at;
    }
    return (packed_texts){ br_from_i64(BR_SHAPE(1, at), id), br_from_i64(BR_SHAPE(1, at), type),
                           br_from_i64(BR_SHAPE(n + 1), starts) };
}

/* Runs the base model or, if there is one, the classifier. */
static br_tensor *run(br_hf_bert *base, br_hf_bert_classifier *classifier, packed_texts t)
{
    const br_hf_bert_options o =
        *BR_OPTIONS(br_hf_bert, .token_type_ids = t.types, .cu_seqlens = t.starts);
    br_tensor *y = classifier ? br_hf_bert_classifier_forward(classifier, t.ids, &o)
                              : br_hf_bert_forward(base, t.ids, &o);
    cr_assert(y, "%s", br_error_message());
    return y;
}

/* Compares text i of `all` with the text alone, without padding, and with the text beside another
 * one. */
static void check_text(const char *type, br_hf_bert *base, br_hf_bert_classifier *classifier,
                       br_tensor *all, int i, int64_t start)
{
    br_scope *scope = br_scope_begin();
    const int64_t n = lengths[i];
    br_tensor *own = classifier ? br_narrow(all, 0, i, 1) : br_narrow(all, 1, start, n);
    packed_texts alone = pack(1, (int[]){ i }), beside = pack(2, (int[]){ i, FILLER });
    alone.starts = NULL;
    cr_assert_leq(difference(run(base, classifier, alone), own), 1e-5, "%s, text %d", type, i);
    br_tensor *other = run(base, classifier, beside);
    other = classifier ? br_narrow(other, 0, 0, 1) : br_narrow(other, 1, 0, n);
    cr_assert(same_bits(other, own), "%s, text %d: off by %g", type, i, difference(other, own));
    br_scope_end(scope);
}

static void check_type(const char *type)
{
    br_manual_seed(3);
    const br_hf_bert_config c = config_of(type);
    br_hf_bert *base = br_hf_bert_new(&c), *none = NULL;
    br_hf_bert_classifier *classifier = br_hf_bert_for_sequence_classification_new(&c);
    cr_assert(base && classifier, "%s: %s", type, br_error_message());
    br_eval(br_base(base));
    br_eval(br_base(classifier));
    br_scope *scope = br_no_grad_begin();
    packed_texts t = pack(TEXTS, (int[]){ 0, 1, 2, 3, 4, 5 });
    br_tensor *states = run(base, NULL, t), *logits = run(none, classifier, t);
    cr_assert(br_size(states, 1) == br_size(t.ids, 1) && br_size(logits, 0) == TEXTS);
    for (int64_t i = 0, start = 0; i < TEXTS; start += lengths[i++]) {
        check_text(type, base, NULL, states, (int)i, start);
        check_text(type, none, classifier, logits, (int)i, start);
    }
    br_scope_end(scope);
    br_module_free(base);
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
    br_tensor *y = br_sum(br_pow_scalar(run(base, NULL, t), 3));
    br_tensor *z = br_add(br_sum(br_pow_scalar(run(base, NULL, first), 3)),
                          br_sum(br_pow_scalar(run(base, NULL, second), 3)));
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
