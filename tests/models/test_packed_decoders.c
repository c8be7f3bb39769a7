/* tests/models/test_packed_decoders.c - decoders on packed batches: the logits, losses and
 * gradients of texts in one row equal the results of the texts one by one. */
#include "tests/io/files.h"
#include "tests/models/gradients.h"
#include "tests/models/recorded.h"

#include <math.h>
#include <string.h>

TestSuite(packed_decoders, .init = files_begin, .fini = files_end);

enum { TEXTS = 4, TOKENS = 20, MOST_PARAMETERS = 200 };
static const int64_t uneven[TEXTS + 1] = { 0, 7, 8, 15, TOKENS };
/* For phi3, which has other rotary positions if the longest text of a batch is long. */
static const int64_t even[TEXTS + 1] = { 0, 5, 10, 15, TOKENS };

typedef struct tested {
    const char *type;
    const br_model_class *class;
    br_module *model;
    br_tensor *ids; /* [1, TOKENS] */
    const int64_t *starts;
} tested;

static br_tensor *some_ids(void)
{
    int64_t ids[TOKENS];
    for (int64_t i = 0; i < TOKENS; i++)
        ids[i] = 2 + i * i % 13;
    return br_from_i64(BR_SHAPE(1, TOKENS), ids);
}

static br_module *finished(br_module *model)
{
    cr_assert(model, "%s", br_error_message());
    br_module_to(model, BR_F64);
    return br_eval(model), model;
}

/* The i-th recorded model of a type. */
static tested load(const char *type, int i)
{
    char dir[500];
    tested t = { type, br_model_class_for(br_model_family_find(type), BR_TASK_CAUSAL_LM), NULL,
                 some_ids(), strcmp(type, "phi3") == 0 ? even : uneven };
    snprintf(dir, sizeof dir, BRASA_TEST_DIR "/models/decoders/%s%d", type, i);
    t.model = finished(
        br_auto_model_load(dir, BR_OPTIONS(br_auto_model, .class_name = t.class->name), NULL));
    return t;
}

static br_tensor *run(const tested *t, br_tensor *ids, br_tensor *cu_seqlens)
{
    br_model_input input = { .batch.ids = ids, .cu_seqlens = cu_seqlens };
    br_tensor *logits = t->class->forward(t->model, &input);
    cr_assert(logits, "%s: %s", t->type, br_error_message());
    return logits;
}

static br_tensor *starts_of(const tested *t)
{
    return br_from_i64(BR_SHAPE(TEXTS + 1), t->starts);
}

/* Returns the sum of the losses of all tokens of the packed batch. */
static br_tensor *packed_loss(const tested *t)
{
    br_tensor *labels = br_index_fill(t->ids, 1, br_from_i64(BR_SHAPE(TEXTS), t->starts), -100);
    br_model_input input = { .batch.ids = t->ids, .cu_seqlens = starts_of(t) };
    return br_mul_scalar(t->class->loss(t->model, &input, labels), TOKENS - TEXTS);
}

/* The same of the texts one by one. */
static br_tensor *summed_loss(const tested *t)
{
    br_tensor *total = br_scalar(0, BR_F64);
    for (int i = 0; i < TEXTS; i++) {
        const int64_t n = t->starts[i + 1] - t->starts[i];
        br_tensor *ids = br_narrow(t->ids, 1, t->starts[i], n);
        if (n > 1) /* else nothing is predicted */
            total = br_add(
                total, br_mul_scalar(br_causal_lm_loss(run(t, ids, NULL), ids), (double)(n - 1)));
    }
    return total;
}

/* Stores a number for the gradient of each parameter; returns how many there are. */
static int64_t gradients_of(const tested *t, br_tensor *loss, double *numbers)
{
    cr_assert(br_backward(loss), "%s: %s", t->type, br_error_message());
    br_named_list *list = br_parameters(t->model);
    const int64_t n = list->count;
    cr_assert(n <= MOST_PARAMETERS);
    for (int64_t i = 0; i < n; i++) {
        br_tensor *g = br_grad_of(list->items[i].tensor);
        numbers[i] = g ? br_item(weighted(g)) : 0;
    }
    br_named_list_free(list);
    br_zero_grad(t->model);
    return n;
}

static void check(const tested *t)
{
    br_scope *scope = br_scope_begin();
    br_tensor *packed = run(t, t->ids, starts_of(t));
    for (int i = 0; i < TEXTS; i++) {
        const int64_t n = t->starts[i + 1] - t->starts[i];
        br_tensor *alone = run(t, br_narrow(t->ids, 1, t->starts[i], n), NULL);
        double d = br_item(br_max(br_abs(br_sub(br_narrow(packed, 1, t->starts[i], n), alone))));
        cr_assert(d <= 1e-12 * (1 + br_item(br_max(br_abs(alone)))), "%s: text %d is off by %g",
                  t->type, i, d);
    }
    br_scope_end(scope);
}

static void check_gradients_of(const tested *t)
{
    double one_by_one[MOST_PARAMETERS], packed[MOST_PARAMETERS];
    br_scope *scope = br_scope_begin();
    br_tensor *a = summed_loss(t), *b = packed_loss(t);
    cr_assert(fabs(br_item(a) - br_item(b)) <= 1e-12 * (1 + br_item(a)),
              "%s: loss %.17g, not %.17g", t->type, br_item(b), br_item(a));
    const int64_t n = gradients_of(t, a, one_by_one);
    gradients_of(t, b, packed);
    for (int64_t i = 0; i < n; i++)
        cr_assert(fabs(one_by_one[i] - packed[i]) <= 1e-11 * (1 + fabs(one_by_one[i])),
                  "%s: the gradient of parameter %lld is off by %g", t->type, (long long)i,
                  fabs(one_by_one[i] - packed[i]));
    br_scope_end(scope);
}

/* Checks gradients also with activation checkpoints, which run each layer again. */
static void check_all(tested *t, bool has_routers)
{
    check(t);
    /* The loss of routers is a mean over the tokens of a batch. */
    for (int checkpoints = 0; checkpoints < 2 && !has_routers; checkpoints++) {
        br_module_checkpoint(t->model, checkpoints);
        check_gradients_of(t);
    }
    br_module_free(t->model);
}

static void check_type(const char *type)
{
    for (int i = 0; i < 3; i++) {
        br_scope *scope = br_scope_begin();
        tested t = load(type, i);
        check_all(&t, strcmp(type, "qwen3_moe") == 0);
        br_scope_end(scope);
    }
}

Test(packed_decoders, equal_the_texts_one_by_one)
{
    for_each_decoder(check_type);
}

static tested new_gpt2(void)
{
    br_auto_config *config = br_auto_config_from_json(
        "{\"model_type\": \"gpt2\", \"vocab_size\": 24, \"n_positions\": 8, \"n_embd\": 8, "
        "\"n_layer\": 2, \"n_head\": 2}");
    br_manual_seed(1);
    tested t = { "gpt2", br_model_class_for(br_model_family_find("gpt2"), BR_TASK_CAUSAL_LM),
                 finished(br_auto_model_new(config, "GPT2LMHeadModel")), some_ids(), uneven };
    br_auto_config_free(config);
    return t;
}

Test(packed_decoders, gpt2_equals_the_texts_one_by_one)
{
    br_scope *scope = br_scope_begin();
    tested t = new_gpt2();
    check_all(&t, false);
    br_scope_end(scope);
}

/* The windows of the recorded models are as long as the texts or longer in part of the cases. */
Test(packed_decoders, a_window_shorter_than_the_texts)
{
    br_scope *scope = br_scope_begin();
    br_auto_config *config = br_auto_config_from_json(
        "{\"model_type\": \"mistral\", \"vocab_size\": 24, \"hidden_size\": 8, "
        "\"intermediate_size\": 12, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
        "\"num_key_value_heads\": 1, \"sliding_window\": 3}");
    br_manual_seed(1);
    tested t = { "mistral", br_model_class_for(br_model_family_find("mistral"), BR_TASK_CAUSAL_LM),
                 finished(br_auto_model_new(config, "MistralForCausalLM")), some_ids(), uneven };
    br_auto_config_free(config);
    check_all(&t, false);
    br_scope_end(scope);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(packed_decoders, wrong_arguments)
{
    br_scope *scope = br_scope_begin();
    tested t = new_gpt2();
    br_gpt2_lm *model = (br_gpt2_lm *)t.model;
    br_gpt2_options o = br_gpt2_defaults();
    o.cu_seqlens = br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, TOKENS });
    check_fails(br_gpt2_lm_forward(model, t.ids, &o),
                "a text of a packed batch has 20 tokens, more than the model's 8");
    o.cu_seqlens = br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, 5 });
    check_fails(br_gpt2_lm_forward(model, t.ids, &o),
                "ends with 5, must begin with 0 and end with the number of tokens");
    o.cu_seqlens = br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 0, TOKENS });
    check_fails(br_gpt2_lm_forward(model, t.ids, &o), "cu_seqlens[1] is 0, must be greater than 0");
    o.cu_seqlens = starts_of(&t);
    check_fails(br_gpt2_lm_forward(model, br_reshape(t.ids, BR_SHAPE(2, TOKENS / 2)), &o),
                "must be [1, tokens]");
    o.attention_mask = br_ones_like(t.ids);
    check_fails(br_gpt2_lm_forward(model, t.ids, &o),
                "cu_seqlens cannot be combined with attention_mask");
    o.attention_mask = NULL;
    o.position_ids = t.ids;
    check_fails(br_gpt2_lm_forward(model, t.ids, &o),
                "cannot be combined with position_ids: each text begins at 0");
    o.position_ids = NULL;
    o.cache = br_cache_new();
    check_fails(br_gpt2_lm_forward(model, t.ids, &o), "cannot be combined with a cache");
    br_cache_free(o.cache);
    o.cache = NULL;
    br_recorder *recorder = br_recorder_begin();
    check_fails(br_gpt2_lm_forward(model, t.ids, &o), "cannot be combined with an open recorder");
    br_recorder_end(recorder);
    br_module_free(t.model);
    br_scope_end(scope);
}
