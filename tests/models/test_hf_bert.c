/* Hugging Face's BERT: results compared with transformers', f64 gradients compared with finite
 * differences, keys, taps, and invalid arguments. */
#include "tests/models/hf_bert.h"

#include "tests/memory.h"
#include "tests/models/models.h"

TestSuite(hf_bert, .init = check_begin, .fini = check_end);

enum { LAYERS = 2 };
static const char expected_path[] = HF_BERT "/expected.safetensors";

/* For sums of 24 products of about size 1, in f32 and in f64. */
static const double TOLERANCE = 4e-6;

static br_tensor *recorded(const char *name)
{
    return recorded_in(expected_path, name);
}

static void check_recorded(br_tensor *t, const char *name)
{
    double d = difference(t, recorded(name));
    cr_assert(d <= TOLERANCE, "%s is off by %g", name, d);
}

static br_hf_bert_options recorded_options(void)
{
    return *BR_OPTIONS(br_hf_bert, .attention_mask = recorded("attention_mask"),
                       .token_type_ids = recorded("token_type_ids"));
}

/* ---- Numbers --------------------------------------------------------------------------------- */

Test(hf_bert, model_equals_transformers)
{
    br_scope *scope = br_scope_begin();
    br_hf_bert *bert = load_recorded(HF_BERT "/pretraining", "BertModel");
    br_tensor *hidden[LAYERS + 1], *attentions[LAYERS], *pooled;
    br_hf_bert_options o = recorded_options();
    o.hidden_states = hidden;
    o.pooler_output = &pooled;
    for (int open = 0; open < 2; open++) {
        o.attentions = open ? attentions : NULL;
        br_tensor *last = br_hf_bert_forward(bert, recorded("input_ids"), &o);
        check_recorded(br_stack(LAYERS + 1, hidden, 0), "hidden_states");
        check_recorded(pooled, "pooler_output");
        cr_assert_eq(last, hidden[LAYERS]);
    }
    check_recorded(br_stack(LAYERS, attentions, 0), "attentions");
    check_recorded(br_hf_bert_forward(bert, recorded("input_ids"), NULL), "no_mask");
    br_module_free(bert);
    br_scope_end(scope);
}

/* Equivalent masks of bool and f32, and one with a row for each query, have the same effect. */
Test(hf_bert, masks_of_every_kind)
{
    br_scope *scope = br_scope_begin();
    br_hf_bert *bert = load_recorded(HF_BERT "/pretraining", "BertModel");
    br_tensor *pooled = NULL, *ids = recorded("input_ids"), *mask = recorded("attention_mask");
    br_tensor *rows = br_expand(br_unsqueeze(mask, 1), BR_SHAPE(3, 9, 9));
    br_tensor *masks[] = { br_ne_scalar(mask, 0), br_to(mask, BR_F32), rows };
    for (int i = 0; i < 3; i++) {
        br_hf_bert_options o = recorded_options();
        o.attention_mask = masks[i];
        o.pooler_output = &pooled;
        br_hf_bert_forward(bert, ids, &o);
        check_recorded(pooled, "pooler_output");
    }
    br_module_free(bert);
    br_scope_end(scope);
}

/* If every key is masked, both implementations of attention give the same finite result. */
Test(hf_bert, all_keys_are_masked)
{
    br_scope *scope = br_scope_begin();
    br_hf_bert *bert = load_recorded(HF_BERT "/pretraining", "BertModel");
    br_tensor *ids = recorded("input_ids"), *attentions[LAYERS];
    br_hf_bert_options o =
        *BR_OPTIONS(br_hf_bert, .attention_mask = br_zeros(BR_SHAPE(3, 9), BR_I64));
    br_tensor *fused = br_hf_bert_forward(bert, ids, &o);
    o.attentions = attentions;
    cr_assert(difference(fused, br_hf_bert_forward(bert, ids, &o)) <= TOLERANCE);
    cr_assert_eq(br_item(br_sum(attentions[0])), 0);
    br_module_free(bert);
    br_scope_end(scope);
}

Test(hf_bert, heads_equal_transformers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *ids = recorded("input_ids"), *prediction, *relationship;
    br_hf_bert_options o = recorded_options();
    static const char *const classes[] = { "BertForPreTraining", "BertForMaskedLM",
                                           "BertForNextSentencePrediction" };
    for (int i = 0; i < 3; i++) {
        br_hf_bert_pretraining *model = load_recorded(HF_BERT "/pretraining", classes[i]);
        cr_assert_str_eq(br_module_class(br_base(model)), classes[i]);
        cr_assert(br_hf_bert_pretraining_forward(model, ids, &o, &prediction, &relationship));
        cr_assert_eq(prediction != NULL, i != 2);
        cr_assert_eq(relationship != NULL, i != 1);
        if (prediction)
            check_recorded(prediction, "prediction_logits");
        if (relationship)
            check_recorded(relationship, "relationship_logits");
        cr_assert(br_hf_bert_pretraining_forward(model, ids, &o, NULL, NULL));
        br_module_free(model);
    }
    br_hf_bert_classifier *classifier = load_recorded(HF_BERT "/classifier", NULL);
    check_recorded(br_hf_bert_classifier_forward(classifier, ids, &o), "logits");
    br_module_free(classifier);
    br_scope_end(scope);
}

/* ---- Modules --------------------------------------------------------------------------------- */

static br_hf_bert_config tiny(void)
{
    return (br_hf_bert_config){ .vocab_size = 9,
                                .hidden_size = 6,
                                .num_hidden_layers = 2,
                                .num_attention_heads = 2,
                                .intermediate_size = 5,
                                .max_position_embeddings = 5,
                                .type_vocab_size = 2,
                                .num_labels = 3,
                                .hidden_dropout_prob = 0.4,
                                .attention_probs_dropout_prob = 0.4,
                                .classifier_dropout = 0.4,
                                .layer_norm_eps = 1e-12,
                                .initializer_range = 0.5,
                                .hidden_act = "gelu" };
}

/* The keys are those of transformers' BertForPreTraining, in the same order. */
Test(hf_bert, keys_of_transformers)
{
    static const char *const layer[] = {
        "attention.self.query.weight",
        "attention.self.query.bias",
        "attention.self.key.weight",
        "attention.self.key.bias",
        "attention.self.value.weight",
        "attention.self.value.bias",
        "attention.output.dense.weight",
        "attention.output.dense.bias",
        "attention.output.LayerNorm.weight",
        "attention.output.LayerNorm.bias",
        "intermediate.dense.weight",
        "intermediate.dense.bias",
        "output.dense.weight",
        "output.dense.bias",
        "output.LayerNorm.weight",
        "output.LayerNorm.bias",
    };
    static const char *const before[] = {
        "bert.embeddings.word_embeddings.weight",
        "bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight",
        "bert.embeddings.LayerNorm.weight",
        "bert.embeddings.LayerNorm.bias",
    };
    static const char *const behind[] = {
        "bert.pooler.dense.weight",
        "bert.pooler.dense.bias",
        "cls.predictions.bias",
        "cls.predictions.transform.dense.weight",
        "cls.predictions.transform.dense.bias",
        "cls.predictions.transform.LayerNorm.weight",
        "cls.predictions.transform.LayerNorm.bias",
        "cls.predictions.decoder.weight",
        "cls.predictions.decoder.bias",
        "cls.seq_relationship.weight",
        "cls.seq_relationship.bias",
    };
    br_hf_bert_config c = tiny();
    br_hf_bert_pretraining *model = br_hf_bert_for_pretraining_new(&c);
    br_named_list *keys = br_state_dict(br_base(model));
    int64_t n = 0;
    for (int i = 0; i < 5; i++)
        cr_assert_str_eq(keys->items[n++].name, before[i]);
    for (int l = 0; l < LAYERS; l++)
        for (int i = 0; i < 16; i++) {
            char name[80];
            snprintf(name, sizeof name, "bert.encoder.layer.%d.%s", l, layer[i]);
            cr_assert_str_eq(keys->items[n++].name, name);
        }
    for (int i = 0; i < 11; i++)
        cr_assert_str_eq(keys->items[n++].name, behind[i]);
    cr_assert_eq(keys->count, n);
    br_named_list_free(keys);
    br_module_free(model);
}

/* Biases are 0, norms 1, the row of padding 0; other weights have the configured standard
 * deviation, and are the same for the same seed. */
Test(hf_bert, first_values)
{
    br_scope *scope = br_scope_begin();
    br_hf_bert_config c = tiny();
    c.vocab_size = 4000;
    br_manual_seed(3);
    br_hf_bert *bert = br_hf_bert_new(&c);
    br_tensor *words = bert->embeddings->word_embeddings->weight;
    check_close(sqrt(br_item(br_mean(br_mul(words, words)))), 0.5, 0.01);
    cr_assert_eq(br_item(br_sum(br_abs(br_select(words, 0, 0)))), 0);
    cr_assert_eq(br_item(br_sum(br_abs(bert->pooler->dense->bias))), 0);
    cr_assert_eq(br_item(br_sum(bert->embeddings->LayerNorm->weight)), 6);
    br_manual_seed(3);
    br_hf_bert *again = br_hf_bert_new(&c);
    cr_assert_eq(difference(words, again->embeddings->word_embeddings->weight), 0);
    br_module_free(again);
    br_module_free(bert);
    br_scope_end(scope);
}

Test(hf_bert, each_dropout_has_its_own_probability)
{
    br_hf_bert_config c = tiny();
    c.classifier_dropout = 0.2;
    c.hidden_dropout_prob = 0.3;
    c.attention_probs_dropout_prob = 0.1;
    br_hf_bert_classifier *model = br_hf_bert_for_sequence_classification_new(&c);
    cr_assert_eq(model->dropout->p, 0.2);
    /* In the embeddings, and at the ends of both halves of a layer. */
    cr_assert_eq(check_dropouts(br_base(model->bert), 0.3), 1 + 2 * c.num_hidden_layers);
    for (int64_t i = 0; i < c.num_hidden_layers; i++) {
        const br_hf_bert_layer *layer = br_module_list_at(model->bert->encoder->layer, i);
        cr_assert_eq(layer->attention->self->dropout_p, 0.1);
    }
    br_module_free(model);
}

Test(hf_bert, taps)
{
    br_scope *scope = br_scope_begin();
    br_hf_bert *bert = load_recorded(HF_BERT "/pretraining", "BertModel");
    br_hf_bert_options o = recorded_options();
    br_recorder *recorder = br_recorder_begin();
    br_tensor *last = br_hf_bert_forward(bert, recorded("input_ids"), &o);
    cr_assert_eq(br_recorder_get(recorder, "encoder.layer.1.hidden_state"), last);
    br_tensor *second = br_recorder_get(recorder, "encoder.layer.1.attention.self.attention");
    cr_assert(difference(second, br_select(recorded("attentions"), 0, 1)) <= TOLERANCE);
    br_tensor *q = br_recorder_get(recorder, "encoder.layer.0.attention.self.query");
    cr_assert(br_ndim(q) == 4 && br_size(q, 1) == 4 && br_size(q, 3) == 4);
    cr_assert_eq(br_recorder_count(recorder), 5 * LAYERS);
    br_recorder_end(recorder);
    br_module_free(bert);
    br_scope_end(scope);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static br_tensor *ids(void)
{
    return br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 1, 4, 8, 0, 1, 5, 4, 3 });
}

/* Returns the sum of all outputs, without and with requested attentions. */
static br_tensor *run_pretraining(br_tensor *const *in, int n, void *model)
{
    (void)in;
    (void)n;
    br_hf_bert_pretraining *self = model;
    br_tensor *prediction, *relationship, *attentions[LAYERS];
    br_hf_bert_options o = *BR_OPTIONS(br_hf_bert, .attention_mask = br_ne_scalar(ids(), 0));
    br_tensor *sum = NULL;
    for (int open = 0; open < 2; open++) {
        o.attentions = open ? attentions : NULL;
        br_hf_bert_pretraining_forward(self, ids(), &o, &prediction, &relationship);
        br_tensor *s = br_add(br_mean(br_tanh(prediction)), br_sum(relationship));
        sum = open ? br_add(sum, s) : s;
    }
    return sum;
}

static br_tensor *run_classifier(br_tensor *const *in, int n, void *model)
{
    (void)in;
    (void)n;
    br_tensor *types = br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 0, 0, 1, 1, 0, 1, 1, 1 });
    return br_hf_bert_classifier_forward(model, ids(),
                                         BR_OPTIONS(br_hf_bert, .token_type_ids = types));
}

Test(hf_bert, gradients)
{
    br_hf_bert_config c = tiny();
    c.pad_token_id = -1;
    for (int training = 0; training < 2; training++) {
        br_manual_seed((uint64_t)training + 1);
        br_scope *scope = br_scope_begin();
        br_module *models[] = { (br_module *)br_hf_bert_for_pretraining_new(&c),
                                (br_module *)br_hf_bert_for_sequence_classification_new(&c) };
        for (int i = 0; i < 2; i++) {
            br_train(models[i], training);
            check_gradients(i ? run_classifier : run_pretraining, models[i], 0, NULL);
            br_module_free(models[i]);
        }
        br_scope_end(scope);
    }
}

/* ---- Invalid arguments ----------------------------------------------------------------------- */

Test(hf_bert, bad_configurations)
{
    static const struct {
        int64_t vocab_size, hidden_size;
        const char *hidden_act, *message;
        double dropout, eps, range;
    } bad[] = {
        { 0, 6, "gelu", "vocab_size is 0", 0, 1, 1 },
        { 9, 7, "gelu", "hidden_size 7 is not divisible by num_attention_heads 2", 0, 1, 1 },
        { 9, 6, "geglu", "hidden_act is geglu", 0, 1, 1 },
        { 9, 6, NULL, "hidden_act is NULL", 0, 1, 1 },
        { 9, 6, "gelu", "attention_probs_dropout_prob is 2", 2, 1, 1 },
        { 9, 6, "gelu", "layer_norm_eps is 0", 0, 0, 1 },
        { 9, 6, "gelu", "initializer_range is nan", 0, 1, (double)NAN },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        br_hf_bert_config c = tiny();
        c.vocab_size = bad[i].vocab_size;
        c.hidden_size = bad[i].hidden_size;
        c.hidden_act = bad[i].hidden_act;
        c.attention_probs_dropout_prob = bad[i].dropout;
        c.layer_norm_eps = bad[i].eps;
        c.initializer_range = bad[i].range;
        br_hf_bert_pretraining *model = br_hf_bert_for_pretraining_new(&c);
        cr_assert(br_failed());
        cr_assert(strstr(br_error_message(), bad[i].message), "%s", br_error_message());
        br_clear_error();
        br_module_free(model);
    }
}

/* Those of transformers' BertConfig(). */
Test(hf_bert, default_config)
{
    br_hf_bert_config c = br_hf_bert_config_default();
    cr_assert(c.vocab_size == 30522 && c.hidden_size == 768 && c.intermediate_size == 3072);
    cr_assert(c.num_hidden_layers == 12 && c.num_attention_heads == 12 && c.num_labels == 2);
    cr_assert(c.max_position_embeddings == 512 && c.type_vocab_size == 2);
    cr_assert(c.hidden_dropout_prob == 0.1 && c.attention_probs_dropout_prob == 0.1);
    cr_assert(c.classifier_dropout == 0.1, "transformers' None stands for hidden_dropout_prob");
    cr_assert(c.layer_norm_eps == 1e-12 && c.initializer_range == 0.02 && !c.untied);
    cr_assert_str_eq(c.hidden_act, "gelu");
}

Test(hf_bert, bad_inputs)
{
    br_scope *scope = br_scope_begin();
    br_hf_bert_config c = tiny();
    br_hf_bert *bert = br_hf_bert_new(&c);
    br_tensor *good = ids(), *row = br_zeros(BR_SHAPE(4), BR_I64),
              *wide = br_zeros(BR_SHAPE(2, 6), BR_I64);
    br_hf_bert_options mask = *BR_OPTIONS(br_hf_bert, .attention_mask = wide),
                       types = *BR_OPTIONS(br_hf_bert, .token_type_ids = wide),
                       rows = *BR_OPTIONS(br_hf_bert,
                                          .attention_mask = br_zeros(BR_SHAPE(2, 4, 3), BR_I64));
    check_fails(br_hf_bert_forward(bert, NULL, NULL), "input_ids");
    check_fails(br_hf_bert_forward(bert, row, NULL), "[4] must have 2 dimensions");
    check_fails(br_hf_bert_forward(bert, wide, NULL),
                "6 tokens, more than the model's 5 positions");
    check_fails(br_hf_bert_forward(bert, good, &mask), "attention_mask [2, 6] must be [2, 4]");
    check_fails(br_hf_bert_forward(bert, good, &rows), "[2, 4, 3] must be");
    check_fails(br_hf_bert_forward(bert, good, &types), "token_type_ids [2, 6]");
    check_fails(br_hf_bert_forward(NULL, good, NULL), "NULL");
    br_module_free(bert);
    br_scope_end(scope);
}

/* The outputs are not NULL before: a program may use its variables again. */
Test(hf_bert, outputs_are_null_after_a_failure)
{
    br_hf_bert_config c = tiny();
    br_hf_bert_pretraining *model = br_hf_bert_for_pretraining_new(&c);
    br_scope *scope = br_scope_begin();
    br_tensor *bad[] = { br_full(BR_SHAPE(1, 1), 9, BR_I64), br_zeros(BR_SHAPE(4), BR_I64) };
    for (int k = 0; k < 2; k++) {
        br_tensor *hidden[LAYERS + 1], *attentions[LAYERS];
        br_tensor *pooled = bad[k], *prediction = bad[k], *relationship = bad[k];
        for (int i = 0; i <= LAYERS; i++)
            hidden[i] = bad[k];
        for (int i = 0; i < LAYERS; i++)
            attentions[i] = bad[k];
        br_hf_bert_options o = *BR_OPTIONS(br_hf_bert, .hidden_states = hidden,
                                           .attentions = attentions, .pooler_output = &pooled);
        check_fails(br_hf_bert_pretraining_forward(model, bad[k], &o, &prediction, &relationship),
                    k == 0 ? "9" : "2 dimensions");
        cr_expect(!pooled && !prediction && !relationship, "input %d", k);
        for (int i = 0; i <= LAYERS; i++)
            cr_expect(!hidden[i] && (i == LAYERS || !attentions[i]), "input %d, output %d", k, i);
    }
    br_scope_end(scope);
    br_module_free(model);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool train_a_step(void)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(1);
    br_hf_bert_config c = tiny();
    br_hf_bert_pretraining *model = br_hf_bert_for_pretraining_new(&c);
    br_optim *adam = br_adam(br_base(model), NULL);
    br_tensor *hidden[LAYERS + 1], *attentions[LAYERS], *pooled, *prediction, *relationship;
    br_hf_bert_options o =
        *BR_OPTIONS(br_hf_bert, .attention_mask = br_ne_scalar(ids(), 0), .hidden_states = hidden,
                    .attentions = attentions, .pooler_output = &pooled);
    br_hf_bert_pretraining_forward(model, ids(), &o, &prediction, &relationship);
    br_backward(br_add(br_mean(prediction), br_sum(relationship)));
    bool ok = br_optim_step(adam);
    br_optim_free(adam);
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(hf_bert, memory_runs_out_everywhere)
{
    fail_in_turn(train_a_step, "a step");
}
