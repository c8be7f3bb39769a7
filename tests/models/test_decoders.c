/* Llama, the decoders that are built like it, and GPT-NeoX: hidden states, logits, gradients and
 * generated tokens of every family, compared with those of transformers. record_decoders.py wrote
 * the models and the results. */
#include "tests/io/files.h"
#include "tests/models/gradients.h"
#include "tests/models/recorded.h"

TestSuite(decoders, .init = files_begin, .fini = files_end);

#define DECODERS BRASA_TEST_DIR "/models/decoders/"

/* ---- Cases ----------------------------------------------------------------------------------- */

enum { FOLDERS_PER_FAMILY = 3, NEW_TOKENS = 9 };

static br_tensor *recorded(const char *type, int i, const char *what)
{
    char name[100];
    snprintf(name, sizeof name, "%s%d.%s", type, i, what);
    return recorded_in(DECODERS "expected.safetensors", name);
}

static br_module *load(const char *type, int i, br_model_task task, br_dtype dtype)
{
    char dir[500];
    snprintf(dir, sizeof dir, DECODERS "%s%d", type, i);
    const br_model_class *class = br_model_class_for(br_model_family_find(type), task);
    br_auto_model_options o = *BR_OPTIONS(br_auto_model, .class_name = class->name, .dtype = dtype);
    br_auto_model_report report = { 0 };
    br_module *model = br_auto_model_load(dir, &o, &report);
    cr_assert(model, "%s: %s", class->name, br_error_message());
    cr_assert_eq(report.missing, 0, "%s: %s", class->name, report.missing_names);
    br_auto_model_report_clear(&report);
    cr_assert_str_eq(br_module_class(model), class->name);
    return br_eval(model), model;
}

static br_tensor *run(const char *type, br_module *model, br_model_task task,
                      const br_model_input *input)
{
    const br_model_class *class = br_model_class_for(br_model_family_find(type), task);
    br_tensor *y = class->forward(model, input);
    cr_assert(y, "%s: %s", class->name, br_error_message());
    br_tensor *seen = br_to(br_unsqueeze(input->batch.attention_mask, -1), br_dtype_of(y));
    return br_mul(y, seen);
}

static void check_equals(const char *what, br_tensor *y, br_tensor *expected, double tolerance)
{
    double size = br_item(br_max(br_abs(expected)));
    double d = br_item(br_max(br_abs(br_sub(br_to(y, BR_F64), expected))));
    cr_assert(d <= tolerance * (1 + size), "%s is off by %g of %g", what, d, size);
}

static br_model_input recorded_input(const char *type, int i)
{
    br_model_input input = { 0 };
    input.batch.ids = recorded(type, i, "input_ids");
    input.batch.attention_mask = recorded(type, i, "attention_mask");
    return input;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static void check_numbers(const char *type, int i)
{
    br_scope *scope = br_scope_begin();
    char name[60];
    snprintf(name, sizeof name, "%s%d", type, i);
    br_model_input input = recorded_input(type, i);
    br_module *base = load(type, i, BR_TASK_BASE, BR_F64);
    br_tensor *hidden = run(type, base, BR_TASK_BASE, &input);
    check_equals(name, hidden, recorded(type, i, "hidden"), 1e-9);
    br_module_free(base);
    br_module *model = load(type, i, BR_TASK_CAUSAL_LM, BR_F32);
    br_tensor *logits = run(type, model, BR_TASK_CAUSAL_LM, &input);
    check_equals(name, logits, recorded(type, i, "logits"), 1e-4);
    br_module_free(model);
    model = load(type, i, BR_TASK_CAUSAL_LM, BR_F64);
    logits = run(type, model, BR_TASK_CAUSAL_LM, &input);
    check_equals(name, logits, recorded(type, i, "logits"), 1e-9);
    cr_assert(br_backward(weighted(logits)), "%s", br_error_message());
    check_gradients(name, model, recorded(type, i, "gradients"));
    br_module_free(model);
    br_scope_end(scope);
}

/* Generates from two prompts, of which one has padding. */
static void check_tokens(const char *type, int i)
{
    br_scope *scope = br_scope_begin();
    br_module *model = load(type, i, BR_TASK_CAUSAL_LM, BR_F64);
    const br_model_class *class = br_model_class_for(br_model_family_find(type), BR_TASK_CAUSAL_LM);
    br_language_model lm = class->language_model(&(br_model_source){ .model = model });
    lm.max_length = 0; /* some positions are beyond the model's */
    br_model_input input = recorded_input(type, i);
    br_tensor *ids = br_narrow(input.batch.ids, 0, 0, 2);
    br_tensor *tokens =
        br_generate(&lm, ids,
                    BR_OPTIONS(br_generate, .max_new_tokens = NEW_TOKENS, .pad_token_id = 0,
                               .attention_mask = br_narrow(input.batch.attention_mask, 0, 0, 2)));
    cr_assert(tokens, "%s", br_error_message());
    cr_assert(br_equal(tokens, recorded(type, i, "tokens")), "%s%d generates other tokens", type,
              i);
    br_module_free(model);
    br_scope_end(scope);
}

/* Mixed precision: products round to bf16, and rotary positions are f32, as in transformers. */
static void check_autocast(const char *type, int i)
{
    br_scope *scope = br_scope_begin();
    br_module *model = load(type, i, BR_TASK_CAUSAL_LM, BR_F32);
    const br_model_class *class = br_model_class_for(br_model_family_find(type), BR_TASK_CAUSAL_LM);
    br_model_input input = recorded_input(type, i);
    br_autocast *cast = br_autocast_begin(BR_BF16);
    br_tensor *logits = run(type, model, BR_TASK_CAUSAL_LM, &input);
    br_tensor *loss = class->loss(model, &input, input.batch.ids);
    br_language_model lm = class->language_model(&(br_model_source){ .model = model });
    br_tensor *ids = br_generate(&lm, br_narrow(input.batch.ids, 1, 0, 2),
                                 BR_OPTIONS(br_generate, .max_new_tokens = 3));
    br_autocast_end(cast);
    cr_assert(ids && br_backward(loss), "%s%d: %s", type, i, br_error_message());
    if (i == 0) {
        char name[60];
        snprintf(name, sizeof name, "%s0", type);
        br_tensor *wanted = recorded_in(DECODERS "autocast.safetensors", name);
        cr_assert(br_dtype_of(logits) == br_dtype_of(wanted));
        br_tensor *d = br_abs(br_sub(br_to(logits, BR_F64), br_to(wanted, BR_F64)));
        /* A rounding of bf16 that goes the other way changes a token much if the token then gets
         * another expert. */
        double mean = br_item(br_mean(d)) / br_item(br_to(br_max(br_abs(wanted)), BR_F64));
        cr_assert(mean < 0.01, "%s: %g", name, mean);
    }
    br_module_free(model);
    br_scope_end(scope);
}

static void check_family(const char *type)
{
    for (int i = 0; i < FOLDERS_PER_FAMILY; i++) {
        check_numbers(type, i);
        check_tokens(type, i);
        check_autocast(type, i);
    }
}

/* A family's own test is a line here. */
#define FAMILY(type)                           \
    Test(decoders, type##_equals_transformers) \
    {                                          \
        check_family(#type);                   \
    }
FAMILY(llama)
FAMILY(mistral)
FAMILY(smollm3)
FAMILY(granite)
FAMILY(phi3)
FAMILY(gpt_neox)
FAMILY(qwen2)
FAMILY(qwen3)
FAMILY(gemma2)
FAMILY(gemma3_text)

/* The loss of a model with experts, that of its routers, and their gradients. */
static void check_balance(int i)
{
    br_scope *scope = br_scope_begin();
    br_model_input input = recorded_input("qwen3_moe", i);
    br_module *module = load("qwen3_moe", i, BR_TASK_CAUSAL_LM, BR_F64);
    br_llama_lm *model = (br_llama_lm *)module;
    br_tensor *labels = recorded("qwen3_moe", i, "labels");
    br_tensor *expected = recorded("qwen3_moe", i, "losses"), *aux = NULL, *loss;
    cr_assert_eq(model->model->config.output_router_logits, i != 0);
    br_llama_options o =
        *BR_OPTIONS(br_llama, .attention_mask = input.batch.attention_mask, .aux_loss = &aux);
    loss = br_llama_lm_loss(model, input.batch.ids, labels, &o);
    cr_assert(loss && aux, "%s", br_error_message());
    check_equals("aux_loss", aux, br_select(expected, 0, 1), 1e-9);
    if (i == 0)
        loss = br_add(loss, br_mul_scalar(aux, model->model->config.router_aux_loss_coef));
    check_equals("loss", loss, br_select(expected, 0, 0), 1e-9);
    cr_assert(br_backward(loss), "%s", br_error_message());
    check_gradients("loss", module, recorded("qwen3_moe", i, "loss_gradients"));
    br_module_free(module);
    br_scope_end(scope);
}

Test(decoders, qwen3_moe_equals_transformers)
{
    check_family("qwen3_moe");
    for (int i = 0; i < FOLDERS_PER_FAMILY; i++)
        check_balance(i);
}

/* ---- Options and memory ---------------------------------------------------------------------- */

static br_llama_config small(void)
{
    br_llama_config c = br_llama_config_default();
    c.vocab_size = 13, c.hidden_size = 8, c.intermediate_size = 10, c.num_hidden_layers = 3;
    c.num_attention_heads = 4, c.num_key_value_heads = 2, c.head_dim = 4;
    c.sliding_window = 3, c.layers[1] = BR_LLAMA_WINDOW, c.layers[2] = BR_LLAMA_NO_ROPE;
    return c;
}

static br_tensor *some_ids(void)
{
    return br_from_i64(BR_SHAPE(1, 7), (int64_t[]){ 3, 1, 12, 0, 5, 5, 9 });
}

/* Token by token, in pieces and all at once, a text has the same hidden states; and the outputs are
 * those of the layers. */
Test(decoders, cache_and_outputs)
{
    br_llama_config c = small();
    br_manual_seed(1);
    br_llama *model = br_llama_new(&c);
    br_module_to(br_base(model), BR_F64);
    br_eval(br_base(model));
    br_scope *scope = br_no_grad_begin();
    br_tensor *hidden[4], *attentions[3], *ids = some_ids();
    br_tensor *whole = br_llama_forward(
        model, ids, BR_OPTIONS(br_llama, .hidden_states = hidden, .attentions = attentions));
    cr_assert(whole, "%s", br_error_message());
    cr_assert(br_equal(hidden[3], whole) && br_size(attentions[2], 1) == 4);
    cr_assert_eq(br_at(attentions[1], BR_DIMS(0, 0, 6, 3)), 0);
    cr_assert_neq(br_at(attentions[1], BR_DIMS(0, 0, 6, 4)), 0);
    cr_assert_neq(br_at(attentions[0], BR_DIMS(0, 0, 6, 3)), 0);
    static const int64_t pieces[][3] = { { 4, 1, 2 }, { 1, 5, 1 }, { 6, 1, 0 } };
    for (int i = 0; i < 3; i++) {
        br_cache *cache = br_cache_new();
        for (int64_t k = 0, at = 0; k < 3; at += pieces[i][k++]) {
            if (pieces[i][k] == 0)
                continue;
            br_tensor *part = br_llama_forward(model, br_narrow(ids, 1, at, pieces[i][k]),
                                               BR_OPTIONS(br_llama, .cache = cache));
            br_tensor *wanted = br_narrow(whole, 1, at, pieces[i][k]);
            cr_assert(difference(part, wanted) < 1e-12, "piece %ld of cut %d", k, i);
        }
        br_cache_free(cache);
    }
    br_scope_end(scope);
    br_module_free(model);
}

/* The row of padding is 0 in a new model. */
Test(decoders, padding_of_new_models)
{
    br_llama_config c = small();
    c.pad_token_id = 3;
    br_llama_lm *model = br_llama_lm_new(&c);
    check_ok();
    br_scope *scope = br_no_grad_begin();
    br_tensor *weight = br_abs(model->model->embed_tokens->weight);
    cr_assert_eq(br_item(br_max(br_select(weight, 0, 3))), 0);
    cr_assert_gt(br_item(br_max(br_select(weight, 0, 2))), 0);
    br_scope_end(scope);
    br_module_free(model);
}

/* Activation checkpoints and the loss in pieces change no gradient; capped and divided logits
 * count.
 */
Test(decoders, loss)
{
    br_llama_config c = small();
    for (int i = 0; i < 3; i++) {
        c.final_logit_softcapping = i == 1 ? 0.5 : 0;
        c.logits_scaling = i == 2 ? 3 : 1;
        br_manual_seed(1);
        br_llama_lm *model = br_llama_lm_new(&c);
        br_module_to(br_base(model), BR_F64);
        br_scope *scope = br_scope_begin();
        br_tensor *ids = some_ids();
        br_tensor *loss = br_causal_lm_loss(br_llama_lm_forward(model, ids, NULL), ids);
        cr_assert(br_backward(loss));
        br_tensor *weight = model->model->embed_tokens->weight;
        br_tensor *gradient = br_clone(br_grad_of(weight));
        br_zero_grad(br_base(model));
        for (int64_t k = 0; k < c.num_hidden_layers; k++)
            br_module_checkpoint(br_module_list_at(model->model->layers, k), true);
        br_tensor *again = br_llama_lm_loss(model, ids, ids, NULL);
        cr_assert(br_backward(again), "%s", br_error_message());
        cr_assert(difference(loss, again) < 1e-12);
        cr_assert(difference(gradient, br_grad_of(weight)) < 1e-12);
        br_scope_end(scope);
        br_module_free(model);
    }
}

/* In bf16 the numbers are those of f64 but for rounding; transformers is off by 0.02 (1 + size). */
Test(decoders, half_precision)
{
    br_scope *scope = br_no_grad_begin();
    br_model_input input = recorded_input("qwen3", 1);
    br_module *model = load("qwen3", 1, BR_TASK_CAUSAL_LM, BR_BF16);
    br_tensor *logits = run("qwen3", model, BR_TASK_CAUSAL_LM, &input);
    cr_assert_eq(br_dtype_of(logits), BR_BF16);
    check_equals("bf16", logits, recorded("qwen3", 1, "logits"), 0.02);
    br_module_free(model);
    br_scope_end(scope);
}

/* With a probability of 1, nothing is added to the embeddings in training. */
Test(decoders, dropout_of_results)
{
    br_llama_config c = small();
    c.resid_pdrop = 1;
    br_llama *model = br_llama_new(&c);
    br_scope *scope = br_no_grad_begin();
    br_tensor *hidden[4], *other[4];
    br_llama_forward(model, some_ids(), BR_OPTIONS(br_llama, .hidden_states = hidden));
    cr_assert(br_equal(hidden[0], hidden[2]), "%s", br_error_message());
    br_eval(br_base(model));
    br_llama_forward(model, some_ids(), BR_OPTIONS(br_llama, .hidden_states = other));
    cr_assert(br_equal(hidden[0], other[0]) && !br_equal(hidden[0], other[1]));
    br_scope_end(scope);
    br_module_free(model);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* A saved folder has the same logits, and one of another model is refused by the key. */
static void check_saved(const char *type, int i)
{
    char dir[500], other[500];
    br_scope *scope = br_no_grad_begin();
    snprintf(dir, sizeof dir, DECODERS "%s%d", type, i);
    snprintf(other, sizeof other, DECODERS "%s%d", type, (i + 1) % FOLDERS_PER_FAMILY);
    br_model_input input = recorded_input(type, i);
    br_module *model = load(type, i, BR_TASK_CAUSAL_LM, BR_F32);
    const char *saved = files_path("saved");
    cr_assert(br_auto_model_save(saved, model, BR_OPTIONS(br_auto_model_save, .from = dir)), "%s",
              br_error_message());
    br_module *again = br_auto_model_load(saved, NULL, NULL);
    cr_assert(again, "%s", br_error_message());
    br_eval(again);
    cr_assert(br_equal(run(type, again, BR_TASK_CAUSAL_LM, &input),
                       run(type, model, BR_TASK_CAUSAL_LM, &input)));
    check_fails(br_auto_model_save(saved, model, BR_OPTIONS(br_auto_model_save, .from = other)),
                other);
    br_module_free(again);
    br_module_free(model);
    br_scope_end(scope);
}

static void check_saved_family(const char *type)
{
    for (int i = 0; i < FOLDERS_PER_FAMILY; i++)
        check_saved(type, i);
}

Test(decoders, saved_folders)
{
    for_each_decoder(check_saved_family);
}

/* Each value that changes no shape is compared before a model is saved. */
Test(decoders, keys_that_differ)
{
    static const struct {
        const char *from, *to, *key;
    } rows[] = {
        { "\"num_attention_heads\": 2", "\"num_attention_heads\": 1", "num_attention_heads" },
        { "\"rms_norm_eps\": 1e-6", "\"rms_norm_eps\": 1e-5", "rms_norm_eps" },
        { "\"factor\": 2", "\"factor\": 3", "rope_parameters" },
        { "\"sliding_window\": 4", "\"sliding_window\": 5", "sliding_window" },
        { "\"sliding_attention\"]", "\"full_attention\"]", "layer_types" },
        { "\"query_pre_attn_scalar\": 9", "\"query_pre_attn_scalar\": 8", "query_pre_attn_scalar" },
        { "\"attn_logit_softcapping\": 5", "\"attn_logit_softcapping\": 6",
          "attn_logit_softcapping" },
        { "\"final_logit_softcapping\": 5", "\"final_logit_softcapping\": 6",
          "final_logit_softcapping" },
        { "\"hidden_activation\": \"gelu_pytorch_tanh\"", "\"hidden_activation\": \"relu\"",
          "hidden_act" },
    };
    static const char text[] =
        "{\"model_type\": \"gemma2\", \"vocab_size\": 7, \"hidden_size\": 4, "
        "\"intermediate_size\": 5, \"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
        "\"num_key_value_heads\": 1, \"head_dim\": 4, \"rms_norm_eps\": 1e-6, "
        "\"rope_parameters\": {\"rope_type\": \"linear\", \"rope_theta\": 99.0, \"factor\": 2}, "
        "\"sliding_window\": 4, \"layer_types\": [\"sliding_attention\", "
        "\"sliding_attention\"], \"query_pre_attn_scalar\": 9, \"attn_logit_softcapping\": 5, "
        "\"final_logit_softcapping\": 5, \"hidden_activation\": \"gelu_pytorch_tanh\"}";
    const br_model_family *family = br_model_family_find("gemma2");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *at = strstr(text, rows[i].from);
        cr_assert(at, "%s", rows[i].from);
        char changed[1000];
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, rows[i].to,
                 at + strlen(rows[i].from));
        br_module *models[2];
        for (int k = 0; k < 2; k++) {
            files_write(files_path("config.json"), k ? changed : text, strlen(k ? changed : text));
            br_auto_config *config = br_auto_config_load(files_path("config.json"));
            models[k] = family->classes->make(config);
            cr_assert(!br_failed(), "%s", br_error_message());
            br_auto_config_free(config);
        }
        cr_assert_null(family->differing_key(models[0], models[0]));
        const char *key = family->differing_key(models[0], models[1]);
        cr_assert(key && strcmp(key, rows[i].key) == 0, "%s: %s", rows[i].key, key ? key : "none");
        br_module_free(models[0]);
        br_module_free(models[1]);
    }
}

/* The factors of Granite. */
Test(decoders, factors_that_differ)
{
    const br_model_family *family = br_model_family_find("granite");
    for (int i = 0; i < 4; i++) {
        br_llama_config a = small();
        a.attention_multiplier = 0.5;
        br_llama_config b = a;
        const struct {
            double *factor;
            const char *key;
        } rows[] = { { &b.attention_multiplier, "attention_multiplier" },
                     { &b.embedding_scale, "embedding_multiplier" },
                     { &b.residual_multiplier, "residual_multiplier" },
                     { &b.logits_scaling, "logits_scaling" } };
        *rows[i].factor = 3;
        br_llama *first = br_llama_new(&a), *other = br_llama_new(&b);
        check_ok();
        const char *key = family->differing_key(br_base(first), br_base(other));
        cr_assert(key && strcmp(key, rows[i].key) == 0, "%s: %s", rows[i].key, key ? key : "none");
        br_module_free(first);
        br_module_free(other);
    }
}

/* Two models whose positions differ. */
static void check_positions_differ(const br_llama_config *a, const br_llama_config *b,
                                   const char *expected)
{
    br_llama *first = br_llama_new(a), *other = br_llama_new(b);
    check_ok();
    const br_model_family *family = br_model_family_find("phi3");
    cr_assert_null(family->differing_key(br_base(first), br_base(first)));
    const char *key = family->differing_key(br_base(first), br_base(other));
    cr_assert(key && strcmp(key, expected) == 0, "%s: %s", expected, key ? key : "none");
    br_module_free(first);
    br_module_free(other);
}

Test(decoders, positions_that_differ)
{
    br_llama_config a = small(), b = a;
    a.rotary_dim = 2;
    check_positions_differ(&a, &b, "partial_rotary_factor");
    a.rope = *BR_OPTIONS(br_rope, .type = BR_ROPE_LONGROPE, .n_factors = 1, .short_factor = { 1 },
                         .long_factor = { 2 }, .original_max_position_embeddings = 4);
    b = a;
    b.rope.long_factor[0] = 3;
    check_positions_differ(&a, &b, "rope_parameters");
    b.rope.long_factor[0] = 2;
    b.rope.short_factor[0] = 3;
    check_positions_differ(&a, &b, "rope_parameters");
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void check_refused(br_llama_config c, const char *message)
{
    br_llama *model = br_llama_new(&c);
    check_fails(!br_failed(), message);
    br_module_free(model);
}

Test(decoders, invalid_configurations)
{
    br_llama_config c = small();
    c.model_type = "lama";
    check_refused(c, "model_type is 'lama', must be llama, mistral, smollm3, granite, phi3, qwen2, "
                     "qwen3, qwen3_moe, gemma2 or gemma3_text");
    c = small();
    c.num_key_value_heads = 3;
    check_refused(c, "num_attention_heads");
    c = small();
    c.head_dim = 3;
    check_refused(c, "head_dim is 3, must be even and at least 2");
    c = small();
    c.rotary_dim = 3;
    check_refused(c, "rotary_dim is 3, must be even and at most head_dim = 4");
    c.rotary_dim = 6;
    check_refused(c, "rotary_dim is 6, must be even and at most head_dim = 4");
    c = small();
    c.resid_pdrop = 2;
    check_refused(c, "resid_pdrop");
    c = small();
    c.num_hidden_layers = 300;
    check_refused(c, "num_hidden_layers is 300, must be at most 256");
    c = small();
    c.layers[2] = 8;
    check_refused(c, "layers[2] is 8, must be a sum of br_llama_layer_flags");
    c = small();
    c.sliding_window = 0;
    check_refused(c, "sliding_window is 0");
    c = small();
    c.pad_token_id = 13;
    check_refused(c, "pad_token_id is 13, must be -1 .. vocab_size - 1");
    c = small();
    c.residual_multiplier = 0;
    check_refused(c, "residual_multiplier is 0, must be positive");
    c = small();
    c.attention_multiplier = -1;
    check_refused(c, "attention_multiplier is -1, must be at least 0");
    c = small();
    c.rope.theta = -1;
    check_refused(c, "theta is -1, must be positive");
    c = small();
    c.local_rope.type = BR_ROPE_YARN;
    check_refused(c, "original_max_position_embeddings is 0");
    br_llama *none = br_llama_new(NULL);
    check_fails(!br_failed(), "config");
    br_module_free(none);
}

Test(decoders, bad_inputs)
{
    br_llama_config c = small();
    br_llama_lm *model = br_llama_lm_new(&c);
    br_scope *scope = br_no_grad_begin();
    br_tensor *flat = br_zeros(BR_SHAPE(4), BR_I64), *ids = some_ids();
    check_fails(br_llama_lm_forward(model, flat, NULL), "input_ids [4] must have 2 dimensions");
    check_fails(br_llama_lm_forward(
                    model, ids, BR_OPTIONS(br_llama, .attention_mask = ids, .position_ids = flat)),
                "position_ids [4] must be [1, 7] or [1, 7]");
    check_fails(
        br_llama_lm_forward(
            model, ids, BR_OPTIONS(br_llama, .attention_mask = br_ones(BR_SHAPE(1, 6), BR_I64))),
        "attention_mask [1, 6] must be [1, 7]");
    check_fails(br_llama_lm_loss(model, ids, flat, NULL), "labels [4] must have the shape");
    br_scope_end(scope);
    br_module_free(model);
}

/* A part of a head that is no even number, and types of positions that a Phi-3 cannot have, are
 * refused. */
Test(decoders, bad_files_of_phi3)
{
    static const char *const rows[][2] = {
        { "\"partial_rotary_factor\": 0.1", "rope: " },
        { "\"rope_parameters\": {\"partial_rotary_factor\": 0.8}",
          "partial_rotary_factor (partial_rotary_factor) is 0.8: it must be a part of a head of "
          "4" },
        { "\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}",
          "rope_scaling.type is \"linear\", must be one of \"default\", \"longrope\", \"su\"" },
        { "\"attention_bias\": true", "attention_bias is true, must be false" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300];
        snprintf(text, sizeof text,
                 "{\"model_type\": \"phi3\", \"hidden_size\": 8, \"num_attention_heads\": 2, %s}",
                 rows[i][0]);
        files_write(files_path("config.json"), text, strlen(text));
        br_auto_config *config = br_auto_config_load(files_path("config.json"));
        cr_assert(config, "%s", br_error_message());
        check_fails(br_llama_config_from(config).vocab_size != 0, rows[i][1]);
        br_auto_config_free(config);
    }
}

/* What config.json says of rotary positions and layers is read whole, or refused. */
Test(decoders, bad_files)
{
    static const struct {
        const char *more, *message;
    } rows[] = {
        { "\"rope_parameters\": {\"rope_type\": \"su\"}",
          "rope_parameters.rope_type is \"su\", must be one of \"default\", \"linear\"" },
        { "\"rope_parameters\": {\"rope_type\": \"linear\"}", "rope_parameters.factor is missing" },
        { "\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, \"x\"]}",
          "rope_scaling.short_factor[1] is the string \"x\", must be a number" },
        { "\"rope_parameters\": {\"rope_type\": \"longrope\", \"short_factor\": [1], "
          "\"long_factor\": [1, 2]}",
          "rope_parameters.short_factor has 1 numbers and long_factor has 2: they must have one" },
        { "\"rope_scaling\": {\"type\": \"llama3\", \"factor\": 2, \"low_freq_factor\": 1}",
          "rope_scaling.high_freq_factor is missing" },
        { "\"rope_scaling\": 4", "rope_scaling is 4, must be an object" },
        { "\"rope_parameters\": [4]", "rope_parameters is an array, must be an object" },
        { "\"rope_theta\": \"x\"", "rope_theta is the string \"x\", must be a number" },
        { "\"partial_rotary_factor\": 0.5", "partial_rotary_factor is the number 0.5" },
        { "\"num_hidden_layers\": 257", "num_hidden_layers is 257, must be at most 256" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[300];
        snprintf(text, sizeof text, "{\"model_type\": \"llama\", %s}", rows[i].more);
        files_write(files_path("config.json"), text, strlen(text));
        br_auto_config *config = br_auto_config_load(files_path("config.json"));
        cr_assert(config, "%s", br_error_message());
        br_llama_config c = br_llama_config_from(config);
        check_fails(c.vocab_size != 0, rows[i].message);
        br_auto_config_free(config);
    }
}
