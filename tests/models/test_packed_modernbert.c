/* Packed batches of ModernBERT, whose local layers attend to nearby tokens: results of each text
 * are those of the text alone, and do not depend on the other texts, to the bit. */
#include "tests/models/packed_texts.h"

#include <brasa/models/modernbert.h>

TestSuite(packed_modernbert, .init = check_begin, .fini = check_end);

/* Scales the positions of texts of more than 10 tokens. */
static void set_rope(br_rope_options *rope, br_rope_type type)
{
    rope->type = type;
    rope->factor = 2;
    rope->original_max_position_embeddings = 10;
    rope->n_factors = type == BR_ROPE_LONGROPE ? 8 : 0;
    for (int64_t i = 0; i < rope->n_factors; i++) {
        rope->short_factor[i] = 1;
        rope->long_factor[i] = 3;
    }
}

static br_modernbert_classifier *new_classifier(const char *pooling, int64_t local_attention,
                                                br_rope_type type)
{
    br_modernbert_config c = br_modernbert_config_default();
    c.vocab_size = 50;
    c.hidden_size = 64;
    c.num_hidden_layers = 3;
    c.global_attn_every_n_layers = 2;
    c.num_attention_heads = 4;
    c.intermediate_size = 96;
    c.local_attention = local_attention;
    c.num_labels = PACKED_LABELS;
    c.pad_token_id = 1;
    c.classifier_pooling = pooling;
    set_rope(&c.global_rope, type);
    set_rope(&c.local_rope, type);
    br_modernbert_classifier *model = br_modernbert_for_sequence_classification_new(&c);
    cr_assert(model, "%s", br_error_message());
    br_eval(br_base(model));
    return model;
}

static br_tensor *run(void *model, packed_texts t, bool logits)
{
    br_modernbert_classifier *classifier = model;
    const br_modernbert_options o = *BR_OPTIONS(br_modernbert, .cu_seqlens = t.starts);
    br_tensor *y = logits ? br_modernbert_classifier_forward(classifier, t.ids, &o)
                          : br_modernbert_forward(classifier->model, t.ids, &o);
    cr_assert(y, "%s", br_error_message());
    return y;
}

Test(packed_modernbert, texts_equal_single_texts)
{
    const struct {
        const char *pooling;
        int64_t local_attention; /* the local layers see all of some texts, of none, or of all */
        br_rope_type rope;       /* the rates of the last two depend on the length of the text */
    } models[] = { { "cls", 16, BR_ROPE_DEFAULT },
                   { "mean", 2, BR_ROPE_DYNAMIC },
                   { "mean", 128, BR_ROPE_LONGROPE } };
    for (int k = 0; k < 3; k++) {
        br_modernbert_classifier *model =
            new_classifier(models[k].pooling, models[k].local_attention, models[k].rope);
        check_packed(run, model, models[k].pooling);
        br_module_free(model);
    }
}

Test(packed_modernbert, refused_batches)
{
    br_modernbert_classifier *model = new_classifier("cls", 16, BR_ROPE_DEFAULT);
    br_scope *scope = br_no_grad_begin();
    packed_texts t = pack(2, (int[]){ 1, 3 });
    br_tensor *attentions[3];
    check_fails(br_modernbert_forward(model->model, t.ids,
                                      BR_OPTIONS(br_modernbert, .cu_seqlens = t.starts,
                                                 .attention_mask = br_ones_like(t.ids))),
                "modernbert: cu_seqlens cannot be combined with attention_mask");
    check_fails(br_modernbert_forward(
                    model->model, t.ids,
                    BR_OPTIONS(br_modernbert, .cu_seqlens = t.starts, .attentions = attentions)),
                "cannot be combined with attentions");
    check_fails(
        br_modernbert_forward(model->model, t.ids,
                              BR_OPTIONS(br_modernbert, .cu_seqlens = br_to(t.starts, BR_F32))),
        "cu_seqlens is f32 [3], must be i64");
    br_scope_end(scope);
    br_module_free(model);
}
