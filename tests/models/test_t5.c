/* Hugging Face's T5: results, gradients and generated tokens compared with transformers', f64
 * gradients compared with finite differences, keys, the cache, and invalid arguments. */
#include "tests/memory.h"
#include "tests/models/models.h"
#include "tests/models/recorded.h"

TestSuite(t5, .init = check_begin, .fini = check_end);

#define T5 BRASA_TEST_DIR "/models/t5"
enum { LAYERS = 2 };

/* For logits, which are sums of products of size up to 10, in f32 and in f64. */
static const double TOLERANCE = 3e-5;
static const char *const variants[] = { "relu", "gated" };

static br_tensor *recorded(const char *name)
{
    return recorded_in(T5 "/expected.safetensors", name);
}

static br_tensor *recorded_of(const char *form, const char *name)
{
    char whole[80];
    snprintf(whole, sizeof whole, "%s.%s", form, name);
    return recorded(whole);
}

static br_t5 *load(const char *form)
{
    char dir[256];
    snprintf(dir, sizeof dir, "%s/%s", T5, form);
    return load_recorded(dir, NULL);
}

static void check_near(br_tensor *t, br_tensor *want, const char *name)
{
    double d = difference(t, want);
    cr_assert(d <= TOLERANCE, "%s is off by %g", name, d);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static br_tensor *logits_of(br_t5 *model, br_tensor *ids, br_tensor *mask, br_tensor *decoder_ids)
{
    br_t5_options o = *BR_OPTIONS(br_t5, .attention_mask = mask);
    br_tensor *memory = br_t5_encode(model, ids, mask);
    return br_t5_logits(model, br_t5_decode(model, decoder_ids, memory, &o));
}

static br_tensor *loss_of(br_tensor *logits, br_tensor *labels)
{
    return br_cross_entropy(br_flatten(logits, 0, 1), br_reshape(labels, BR_SHAPE(-1)), NULL);
}

Test(t5, logits_equal_transformers)
{
    for (int f = 0; f < 2; f++)
        for (int open = 0; open < 2; open++) {
            br_scope *scope = br_scope_begin();
            br_t5 *model = load(variants[f]);
            br_recorder *recorder = open ? br_recorder_begin() : NULL;
            br_tensor *labels = recorded("labels");
            br_tensor *logits = logits_of(model, recorded("input_ids"), recorded("attention_mask"),
                                          br_t5_shift_right(model, labels));
            check_near(logits, recorded_of(variants[f], "logits"), variants[f]);
            check_near(loss_of(logits, labels), recorded_of(variants[f], "loss"), "loss");
            br_tensor *ids = recorded_of(variants[f], "long_ids"),
                      *turned = br_flip(ids, BR_DIMS(1));
            logits = br_slice(logits_of(model, ids, NULL, turned), 1, 0, BR_ALL, 5);
            check_near(logits, recorded_of(variants[f], "long_logits"), "long_logits");
            br_recorder_end(recorder);
            br_module_free(model);
            br_scope_end(scope);
        }
}

Test(t5, encoder_and_taps)
{
    br_scope *scope = br_scope_begin();
    br_t5 *model = load("relu");
    cr_assert_str_eq(br_module_class(br_base(model)), "T5ForConditionalGeneration");
    br_recorder *recorder = br_recorder_begin();
    br_tensor *mask = br_to(recorded("attention_mask"), BR_F32);
    logits_of(model, recorded("input_ids"), mask, br_t5_shift_right(model, recorded("labels")));
    br_tensor *cross =
        br_recorder_get(recorder, "decoder.block.1.layer.1.EncDecAttention.cross_attention");
    check_near(cross, recorded("cross_attention"), "cross_attention");
    check_near(br_recorder_get(recorder, "decoder.block.1.layer.0.SelfAttention.attention"),
               recorded("attention"), "attention");
    br_recorder_end(recorder);
    br_tensor *encoded = br_t5_encode(model, recorded("input_ids"), mask);
    br_tensor *tokens = br_unsqueeze(mask, -1);
    check_near(br_mul(encoded, tokens), br_mul(recorded("encoder"), tokens), "encoder");
    br_module_free(model);
    br_scope_end(scope);
}

Test(t5, gradients_equal_transformers)
{
    br_scope *scope = br_scope_begin();
    br_t5 *model = load("relu");
    br_tensor *labels = recorded("labels");
    br_backward(loss_of(logits_of(model, recorded("input_ids"), recorded("attention_mask"),
                                  br_t5_shift_right(model, labels)),
                        labels));
    br_named_list *list = br_parameters(br_base(model));
    cr_assert_gt(list->count, 30);
    for (int64_t i = 0; i < list->count; i++) {
        char name[120];
        snprintf(name, sizeof name, "grad.%s", list->items[i].name);
        check_near(br_grad_of(list->items[i].tensor), recorded(name), name);
    }
    br_named_list_free(list);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

Test(t5, tokens_equal_transformers)
{
    static const int64_t eos[] = { 1 };
    for (int f = 0; f < 2; f++) {
        br_scope *scope = br_no_grad_begin();
        br_t5 *model = load(variants[f]);
        br_tensor *mask = recorded("attention_mask");
        br_t5_source source = { model, br_t5_encode(model, recorded("input_ids"), mask), mask };
        br_language_model lm = br_t5_language_model(&source);
        br_generate_options o =
            *BR_OPTIONS(br_generate, .max_new_tokens = 12, .n_eos = 1, .eos_token_ids = eos);
        o.pad_token_id = 0;
        cr_assert(br_equal(br_generate(&lm, br_t5_start(model, 3), &o),
                           recorded_of(variants[f], "greedy")));
        o.do_sample = true;
        o.top_k = 8;
        br_manual_seed(3);
        cr_assert(br_equal(br_generate(&lm, br_t5_start(model, 3), &o),
                           recorded_of(variants[f], "sampled")));
        br_module_free(model);
        br_scope_end(scope);
    }
}

Test(t5, cached_equals_uncached)
{
    br_scope *scope = br_no_grad_begin();
    br_t5 *model = load("relu");
    br_tensor *ids = recorded("relu.long_ids"), *memory = br_t5_encode(model, ids, NULL);
    br_tensor *all = br_t5_decode(model, ids, memory, NULL);
    static const int64_t cuts[] = { 0, 4, 5, 30, 70 };
    br_cache *cache = br_cache_new();
    br_t5_options o = *BR_OPTIONS(br_t5, .cache = cache);
    for (int i = 0; i < 4; i++) {
        br_tensor *part = br_slice(ids, 1, cuts[i], cuts[i + 1], 1);
        br_tensor *want = br_slice(all, 1, cuts[i], cuts[i + 1], 1);
        check_near(br_t5_decode(model, part, memory, &o), want, "a part");
        cr_assert_eq(br_cache_length(cache), cuts[i + 1]);
    }
    br_cache_free(cache);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Modules --------------------------------------------------------------------------------- */

static br_t5_config tiny(void)
{
    return (br_t5_config){ .vocab_size = 9,
                           .d_model = 6,
                           .d_kv = 2,
                           .d_ff = 5,
                           .num_layers = 1,
                           .num_decoder_layers = 2,
                           .num_heads = 2,
                           .relative_attention_num_buckets = 4,
                           .relative_attention_max_distance = 5,
                           .dropout_rate = 0.3,
                           .layer_norm_epsilon = 1e-6,
                           .initializer_factor = 0.8,
                           .activation = "gelu_new" };
}

/* In training, each stack ends with dropout: elements of its result are exactly 0. */
Test(t5, stacks_end_with_dropout)
{
    br_scope *scope = br_scope_begin();
    br_t5_config c = tiny();
    br_t5 *model = br_t5_new(&c);
    br_tensor *ids = br_randint(0, 9, BR_SHAPE(20, 5));
    for (int training = 0; training < 2; training++) {
        br_train(br_base(model), training);
        br_tensor *memory = br_t5_encode(model, ids, NULL);
        br_tensor *states[] = { memory, br_t5_decode(model, ids, memory, NULL) };
        for (int i = 0; i < 2; i++) {
            cr_assert(states[i], "%s", br_error_message());
            double zeros = br_item(br_mean(br_to(br_eq_scalar(states[i], 0), BR_F64)));
            cr_assert(training ? fabs(zeros - 0.3) < 0.1 : zeros == 0, "%g", zeros);
        }
    }
    br_module_free(model);
    br_scope_end(scope);
}

/* The model has every key of the file, and the file every parameter, including names of tied
 * weights. */
Test(t5, keys_of_transformers)
{
    br_t5_config c = tiny();
    br_t5 *model = br_t5_for_conditional_generation_new(&c);
    br_named_list *keys = br_state_dict(br_base(model));
    static const char *const some[] = {
        "shared.weight",
        "encoder.embed_tokens.weight",
        "encoder.block.0.layer.0.SelfAttention.q.weight",
        "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        "encoder.block.0.layer.1.DenseReluDense.wi.weight",
        "encoder.block.0.layer.1.layer_norm.weight",
        "encoder.final_layer_norm.weight",
        "decoder.block.1.layer.1.EncDecAttention.o.weight",
        "decoder.block.1.layer.2.DenseReluDense.wo.weight",
        "lm_head.weight",
    };
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        cr_assert(br_named_list_get(keys, some[i]), "%s", some[i]);
    br_tensor *shared = br_named_list_get(keys, "shared.weight");
    cr_assert_eq(shared, br_named_list_get(keys, "lm_head.weight"));
    cr_assert_eq(shared, br_named_list_get(keys, "decoder.embed_tokens.weight"));
    br_named_list_free(keys);
    br_module_free(model);
    br_auto_model_report report;
    model = br_auto_model_load(T5 "/gated", NULL, &report);
    cr_assert(model && report.missing == 0 && report.unexpected == 0, "%s", br_error_message());
    cr_assert_neq(model->lm_head->weight, model->shared->weight);
    br_auto_model_report_clear(&report);
    br_module_free(model);
}

static br_tensor *ids(void)
{
    return br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 1, 4, 8, 0, 1, 5, 4, 3 });
}

static br_tensor *run_model(br_tensor *const *in, int n, void *model)
{
    (void)in;
    (void)n;
    br_tensor *mask = br_ne_scalar(ids(), 0), *sum = NULL;
    for (int open = 0; open < 2; open++) {
        br_recorder *recorder = open ? br_recorder_begin() : NULL;
        br_tensor *loss = loss_of(logits_of(model, ids(), mask, ids()), ids());
        sum = open ? br_add(sum, loss) : loss;
        br_recorder_end(recorder);
    }
    return sum;
}

Test(t5, gradients)
{
    br_t5_config c = tiny();
    for (int gated = 0; gated < 2; gated++) {
        br_manual_seed((uint64_t)gated + 1);
        c.gated = c.untied = c.unscaled = gated;
        br_scope *scope = br_scope_begin();
        br_t5 *model = br_t5_for_conditional_generation_new(&c);
        br_eval(br_base(model));
        check_gradients(run_model, model, 0, NULL);
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* ---- Invalid arguments ----------------------------------------------------------------------- */

/* Those of transformers' T5Config(). */
Test(t5, default_config)
{
    br_t5_config c = br_t5_config_default();
    cr_assert(c.vocab_size == 32128 && c.d_model == 512 && c.d_kv == 64 && c.d_ff == 2048);
    cr_assert(c.num_layers == 6 && c.num_decoder_layers == 6 && c.num_heads == 8);
    cr_assert_eq(c.relative_attention_num_buckets, 32);
    cr_assert_eq(c.relative_attention_max_distance, 128);
    cr_assert(c.pad_token_id == 0 && c.decoder_start_token_id == 0);
    cr_assert(c.dropout_rate == 0.1 && c.layer_norm_epsilon == 1e-6 && c.initializer_factor == 1);
    cr_assert_str_eq(c.activation, "relu");
    cr_assert(!c.gated && !c.untied && !c.unscaled);
}

Test(t5, bad_configurations)
{
    static const struct {
        int64_t d_kv, buckets, distance;
        const char *act, *message;
        double dropout, eps, factor;
    } bad[] = {
        { 0, 4, 5, "relu", "d_kv is 0", 0, 1, 1 },
        { 2, 3, 5, "relu", "num_buckets is 3", 0, 1, 1 },
        { 2, 4, 2, "relu", "max_distance is 2, must be 3", 0, 1, 1 },
        { 2, 4, 5, "prelu", "activation is prelu, which has weights", 0, 1, 1 },
        { 2, 4, 5, "relu", "dropout_rate is 2", 2, 1, 1 },
        { 2, 4, 5, "relu", "layer_norm_epsilon is 0", 0, 0, 1 },
        { 2, 4, 5, "relu", "initializer_factor is nan", 0, 1, (double)NAN },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        br_t5_config c = tiny();
        c.d_kv = bad[i].d_kv;
        c.relative_attention_num_buckets = bad[i].buckets;
        c.relative_attention_max_distance = bad[i].distance;
        c.activation = bad[i].act;
        c.dropout_rate = bad[i].dropout;
        c.layer_norm_epsilon = bad[i].eps;
        c.initializer_factor = bad[i].factor;
        br_t5 *model = br_t5_new(&c);
        cr_assert(br_failed());
        cr_assert(strstr(br_error_message(), bad[i].message), "%s", br_error_message());
        br_clear_error();
        br_module_free(model);
    }
}

/* As in transformers, a model whose ids are not in the vocabulary is an error only when a decoder's
 * input needs them. */
Test(t5, bad_ids)
{
    br_scope *scope = br_scope_begin();
    br_t5_config c = tiny();
    c.pad_token_id = 9;
    br_t5 *model = br_t5_for_conditional_generation_new(&c);
    cr_assert(br_t5_shift_right(model, ids()), "%s", br_error_message());
    check_fails(br_t5_shift_right(model, br_full(BR_SHAPE(1, 3), -100, BR_I64)),
                "the configuration's pad_token_id is 9, but vocab_size is 9: must be 0 .. 8");
    br_module_free(model);
    c.decoder_start_token_id = -1;
    model = br_t5_for_conditional_generation_new(&c);
    cr_assert(logits_of(model, ids(), NULL, ids()), "%s", br_error_message());
    const char *message = "decoder_start_token_id is -1, but vocab_size is 9: must be 0 .. 8";
    check_fails(br_t5_shift_right(model, ids()), message);
    check_fails(br_t5_start(model, 2), message);
    br_module_free(model);
    br_scope_end(scope);
}

Test(t5, bad_inputs)
{
    br_scope *scope = br_scope_begin();
    br_t5_config c = tiny();
    br_t5 *model = br_t5_new(&c);
    br_tensor *row = br_zeros(BR_SHAPE(4), BR_I64), *wide = br_zeros(BR_SHAPE(2, 6), BR_I64);
    br_tensor *memory = br_t5_encode(model, ids(), NULL);
    br_t5_options mask = *BR_OPTIONS(br_t5, .attention_mask = wide),
                  own = *BR_OPTIONS(br_t5, .decoder_attention_mask = wide);
    check_fails(br_t5_encode(model, NULL, NULL), "input_ids");
    check_fails(br_t5_encode(model, row, NULL), "input_ids [4] must have 2 dimensions");
    check_fails(br_t5_encode(model, ids(), wide), "attention_mask [2, 6] must be [2, 4]");
    check_fails(br_t5_decode(model, row, memory, NULL), "decoder_input_ids [4]");
    check_fails(br_t5_decode(model, ids(), NULL, NULL), "memory");
    check_fails(br_t5_decode(model, ids(), wide, NULL), "memory [2, 6] must be [2, S, 6]");
    check_fails(br_t5_decode(model, ids(), memory, &mask), "attention_mask [2, 6]");
    check_fails(br_t5_decode(model, ids(), memory, &own), "decoder_attention_mask [2, 6]");
    check_fails(br_t5_logits(model, memory), "no lm_head");
    check_fails(br_t5_encode(NULL, ids(), NULL), "NULL");
    check_fails(br_t5_shift_right(NULL, ids()), "self is NULL");
    br_module_free(model);
    br_scope_end(scope);
}

static bool train_a_step(void)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(1);
    br_t5_config c = tiny();
    br_t5 *model = br_t5_for_conditional_generation_new(&c);
    br_optim *adam = br_adam(br_base(model), NULL);
    br_tensor *mask = br_ne_scalar(ids(), 0);
    br_backward(loss_of(logits_of(model, ids(), mask, br_t5_shift_right(model, ids())), ids()));
    bool ok = br_optim_step(adam);
    br_optim_free(adam);
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(t5, memory_runs_out_everywhere)
{
    fail_in_turn(train_a_step, "a step");
}
