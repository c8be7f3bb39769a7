/* Hugging Face's GPT-2: results and gradients compared with transformers', f64 gradients compared
 * with finite differences, keys, taps, and invalid arguments. test_generate.c tests generation. */
#include "tests/memory.h"
#include "tests/models/models.h"
#include "tests/models/recorded.h"

TestSuite(gpt2, .init = check_begin, .fini = check_end);

#define GPT2 BRASA_TEST_DIR "/models/gpt2"
enum { LAYERS = 2 };

/* For sums of 16 to 64 products of about size 1, in f32 and in f64. */
static const double TOLERANCE = 6e-6;

static br_tensor *recorded(const char *name)
{
    return recorded_in(GPT2 "/expected.safetensors", name);
}

static void check_recorded(br_tensor *t, const char *name)
{
    double d = difference(t, recorded(name));
    cr_assert(d <= TOLERANCE, "%s is off by %g", name, d);
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* Sets padding to 0, so that only tokens are compared: queries of padding attend to nothing in
 * Brasa, and to some keys in transformers. */
static br_tensor *tokens_only(br_tensor *t, int64_t dim)
{
    br_tensor *mask = br_to(recorded("attention_mask"), BR_F32);
    for (int64_t i = 0; i < dim; i++)
        mask = br_unsqueeze(mask, 1 + (dim == 1 ? 1 : 0));
    return br_mul(t, dim == 1 ? mask : br_unsqueeze(mask, -1));
}

Test(gpt2, logits_equal_transformers)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    cr_assert_str_eq(br_module_class(br_base(model)), "GPT2LMHeadModel");
    br_tensor *hidden[LAYERS + 1], *attentions[LAYERS];
    for (int open = 0; open < 2; open++) {
        br_gpt2_options o =
            *BR_OPTIONS(br_gpt2, .attention_mask = recorded("attention_mask"),
                        .hidden_states = hidden, .attentions = open ? attentions : NULL);
        br_tensor *logits = br_gpt2_lm_forward(model, recorded("input_ids"), &o);
        cr_assert(difference(tokens_only(logits, 1), tokens_only(recorded("logits"), 1)) <=
                  TOLERANCE);
        for (int64_t i = 0; i <= LAYERS; i++) {
            br_tensor *want = br_select(recorded("hidden_states"), 0, i);
            cr_assert(difference(tokens_only(hidden[i], 1), tokens_only(want, 1)) <= TOLERANCE);
        }
        br_tensor *loss = br_causal_lm_loss(logits, recorded("labels"));
        check_close(br_item(loss), br_item(recorded("loss")), TOLERANCE);
    }
    for (int64_t i = 0; i < LAYERS; i++) {
        br_tensor *want = br_select(recorded("attentions"), 0, i);
        cr_assert(difference(tokens_only(attentions[i], 2), tokens_only(want, 2)) <= TOLERANCE);
    }
    br_module_free(model);
    br_scope_end(scope);
}

Test(gpt2, positions_and_types_are_given)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_tensor *ids = recorded("input_ids");
    br_tensor *rows[] = { br_select(ids, 0, 2), br_select(ids, 0, 1), br_select(ids, 0, 0) };
    br_gpt2_options o = *BR_OPTIONS(
        br_gpt2, .position_ids = br_rsub_scalar(br_unsqueeze(br_arange(0, 9, 1, BR_I64), 0), 8),
        .token_type_ids = br_stack(3, rows, 0));
    check_recorded(br_gpt2_lm_forward(model, ids, &o), "placed_logits");
    br_module_free(model);
    br_scope_end(scope);
}

/* Untied weights, another feed-forward network, scores divided by the layer's number. */
Test(gpt2, other_variants)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/forms", NULL);
    cr_assert_neq(model->lm_head->weight, model->transformer->wte->weight);
    check_recorded(br_gpt2_lm_forward(model, recorded("input_ids"), NULL), "forms_logits");
    br_recorder *recorder = br_recorder_begin();
    check_recorded(br_gpt2_lm_forward(model, recorded("input_ids"), NULL), "forms_logits");
    br_recorder_end(recorder);
    br_module_free(model);
    br_scope_end(scope);
}

/* Trains a step with the loss of all logits, or with that in chunks. */
static void check_a_step(bool chunked)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_gpt2_options o = *BR_OPTIONS(br_gpt2, .attention_mask = recorded("attention_mask"));
    br_tensor *ids = recorded("input_ids"), *labels = recorded("labels");
    br_tensor *loss = chunked ? br_gpt2_lm_loss(model, ids, labels, &o)
                              : br_causal_lm_loss(br_gpt2_lm_forward(model, ids, &o), labels);
    check_close(br_item(loss), br_item(recorded("loss")), TOLERANCE);
    br_backward(loss);
    br_named_list *list = br_parameters(br_base(model));
    cr_assert_eq(list->count, 28);
    for (int64_t i = 0; i < list->count; i++) {
        char name[80];
        snprintf(name, sizeof name, "grad.%s", list->items[i].name);
        check_recorded(br_grad_of(list->items[i].tensor), name);
    }
    br_named_list_free(list);
    br_module_free(model);
    br_scope_end(scope);
}

Test(gpt2, gradients_equal_transformers)
{
    check_a_step(false);
    check_a_step(true);
}

/* Labels of -100 do not count, however many there are: the loss and the gradient of the embeddings
 * are those of all logits. */
Test(gpt2, labels_that_do_not_count)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_lm *model = load_recorded(GPT2 "/lm", NULL);
    br_module_to(br_base(model), BR_F64);
    br_tensor *ids = recorded("input_ids"), *weight = model->transformer->wte->weight;
    const int64_t n = br_size(ids, 1);
    for (int64_t n_counted = 0; n_counted < n; n_counted++) {
        br_tensor *labels = br_clone(ids), *grads[2];
        br_fill_(br_narrow(labels, 1, 0, n - n_counted), -100);
        double losses[2];
        for (int i = 0; i < 2; i++) {
            br_zero_grad(br_base(model));
            br_tensor *loss = i ? br_gpt2_lm_loss(model, ids, labels, NULL)
                                : br_causal_lm_loss(br_gpt2_lm_forward(model, ids, NULL), labels);
            losses[i] = br_item(loss);
            br_backward(loss);
            grads[i] = br_clone(br_grad_of(weight));
        }
        check_ok();
        if (n_counted == 0) { /* a mean of nothing, as in PyTorch */
            cr_assert(isnan(losses[0]) && isnan(losses[1]));
            continue;
        }
        cr_assert(fabs(losses[1] - losses[0]) < 1e-12, "%lld", (long long)n_counted);
        cr_assert(br_allclose(grads[1], grads[0], 1e-10, 1e-12), "%lld", (long long)n_counted);
    }
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Loads the base model from keys with the prefix, and the language model from keys without it. */
Test(gpt2, prefix_present_or_absent)
{
    br_scope *scope = br_scope_begin();
    br_gpt2 *base = load_recorded(GPT2 "/lm", "GPT2Model");
    char dir[] = "/tmp/brasa-gpt2-XXXXXX", config[64], weights[64];
    cr_assert(mkdtemp(dir));
    snprintf(config, sizeof config, "%s/config.json", dir);
    snprintf(weights, sizeof weights, "%s/model.safetensors", dir);
    FILE *file = fopen(config, "w");
    fputs("{\"model_type\": \"gpt2\", \"vocab_size\": 40, \"n_positions\": 24, \"n_embd\": 16, "
          "\"n_layer\": 2, \"n_head\": 4}",
          file);
    fclose(file);
    br_named_list *keys = br_state_dict(br_base(base));
    cr_assert(br_safetensors_save(weights, keys, 0, NULL), "%s", br_error_message());
    br_named_list_free(keys);
    br_auto_model_report report;
    br_gpt2_lm *model = br_auto_model_load(
        dir, BR_OPTIONS(br_auto_model, .class_name = "GPT2LMHeadModel"), &report);
    cr_assert(model, "%s", br_error_message());
    cr_assert(report.matched == 28 && report.renamed == 28 && report.missing == 0);
    br_auto_model_report_clear(&report);
    br_gpt2_options o = *BR_OPTIONS(br_gpt2, .attention_mask = recorded("attention_mask"));
    br_tensor *loss =
        br_causal_lm_loss(br_gpt2_lm_forward(model, recorded("input_ids"), &o), recorded("labels"));
    check_close(br_item(loss), br_item(recorded("loss")), TOLERANCE);
    remove(config);
    remove(weights);
    remove(dir);
    br_module_free(model);
    br_module_free(base);
    br_scope_end(scope);
}

static br_gpt2_config tiny(void)
{
    return (br_gpt2_config){ .vocab_size = 9,
                             .n_positions = 6,
                             .n_embd = 6,
                             .n_layer = LAYERS,
                             .n_head = 2,
                             .n_inner = 5,
                             .embd_pdrop = 0.4,
                             .attn_pdrop = 0.4,
                             .resid_pdrop = 0.4,
                             .layer_norm_epsilon = 1e-5,
                             .initializer_range = 0.5,
                             .activation_function = "gelu_new" };
}

/* The keys are those of transformers' GPT2LMHeadModel, in the same order. */
Test(gpt2, keys_of_transformers)
{
    static const char *const layer[] = {
        "ln_1.weight",        "ln_1.bias",        "attn.c_attn.weight", "attn.c_attn.bias",
        "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight",        "ln_2.bias",
        "mlp.c_fc.weight",    "mlp.c_fc.bias",    "mlp.c_proj.weight",  "mlp.c_proj.bias",
    };
    br_gpt2_config c = tiny();
    br_gpt2_lm *model = br_gpt2_lm_new(&c);
    br_named_list *keys = br_state_dict(br_base(model));
    cr_assert_eq(keys->count, 2 + 12 * LAYERS + 3);
    cr_assert_str_eq(keys->items[0].name, "transformer.wte.weight");
    cr_assert_str_eq(keys->items[1].name, "transformer.wpe.weight");
    for (int i = 0; i < 12 * LAYERS; i++) {
        char name[80];
        snprintf(name, sizeof name, "transformer.h.%d.%s", i / 12, layer[i % 12]);
        cr_assert_str_eq(keys->items[2 + i].name, name);
    }
    cr_assert_str_eq(keys->items[keys->count - 1].name, "lm_head.weight");
    br_tensor *wide = br_named_list_get(keys, "transformer.h.0.attn.c_attn.weight");
    cr_assert(br_size(wide, 0) == 6 && br_size(wide, 1) == 18);
    br_named_list_free(keys);
    br_module_free(model);
}

/* Each value that changes no shape is compared before a model is saved. */
Test(gpt2, keys_that_differ)
{
    const br_gpt2_config a = tiny();
    br_gpt2_config b[] = { a, a, a, a, a };
    static const char *const keys[] = { "n_head", "layer_norm_epsilon", "scale_attn_weights",
                                        "scale_attn_by_inverse_layer_idx", "activation_function" };
    b[0].n_head = 3, b[1].layer_norm_epsilon = 1, b[2].unscaled = true;
    b[3].scale_by_layer = true, b[4].activation_function = "relu";
    const br_model_family *family = br_model_family_find("gpt2");
    br_gpt2 *first = br_gpt2_new(&a);
    cr_assert_null(family->differing_key(br_base(first), br_base(first)));
    for (size_t i = 0; i < sizeof b / sizeof *b; i++) {
        br_gpt2 *other = br_gpt2_new(&b[i]);
        const char *key = family->differing_key(br_base(first), br_base(other));
        cr_assert(key && strcmp(key, keys[i]) == 0, "%s: %s", keys[i], key ? key : "none");
        br_module_free(other);
    }
    br_module_free(first);
}

/* Biases are 0, norms 1; weights have the configured standard deviation, and a smaller one in the
 * output projections of a block. */
Test(gpt2, first_values)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_config c = tiny();
    c.n_embd = 60;
    c.vocab_size = 400;
    br_gpt2 *model = br_gpt2_new(&c);
    br_gpt2_block *block = br_module_list_at(model->h, 1);
    check_close(br_item(br_std(model->wte->weight, 1)), 0.5, 0.01);
    check_close(br_item(br_std(block->attn->c_attn->weight, 1)), 0.5, 0.01);
    check_close(br_item(br_std(block->attn->c_proj->weight, 1)), 0.25, 0.02);
    cr_assert_eq(br_item(br_sum(br_abs(block->mlp->c_fc->bias))), 0);
    cr_assert_eq(br_item(br_sum(block->ln_2->weight)), 60);
    br_module_free(model);
    br_scope_end(scope);
}

Test(gpt2, taps)
{
    br_scope *scope = br_scope_begin();
    br_gpt2 *model = load_recorded(GPT2 "/lm", "GPT2Model");
    br_gpt2_options o = *BR_OPTIONS(br_gpt2, .attention_mask = recorded("attention_mask"));
    br_recorder *recorder = br_recorder_begin();
    br_gpt2_forward(model, recorded("input_ids"), &o);
    br_tensor *second = br_recorder_get(recorder, "h.1.attn.attention");
    br_tensor *want = br_select(recorded("attentions"), 0, 1);
    cr_assert(difference(tokens_only(second, 2), tokens_only(want, 2)) <= TOLERANCE);
    br_tensor *q = br_recorder_get(recorder, "h.0.attn.query");
    cr_assert(br_ndim(q) == 4 && br_size(q, 1) == 4 && br_size(q, 3) == 4);
    cr_assert(br_recorder_get(recorder, "h.0.hidden_state"));
    cr_assert_eq(br_recorder_count(recorder), 5 * LAYERS);
    br_recorder_end(recorder);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static br_tensor *ids(void)
{
    return br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 1, 4, 8, 0, 1, 5, 4, 3 });
}

/* Returns the sum of the losses without and with requested attentions. */
static br_tensor *run_lm(br_tensor *const *in, int n, void *model)
{
    (void)in;
    (void)n;
    br_tensor *attentions[LAYERS], *sum = NULL;
    br_gpt2_options o = *BR_OPTIONS(br_gpt2, .attention_mask = br_ne_scalar(ids(), 0));
    for (int open = 0; open < 2; open++) {
        o.attentions = open ? attentions : NULL;
        br_tensor *loss = br_causal_lm_loss(br_gpt2_lm_forward(model, ids(), &o), ids());
        sum = open ? br_add(sum, loss) : loss;
    }
    return sum;
}

Test(gpt2, gradients)
{
    br_gpt2_config c = tiny();
    for (int training = 0; training < 2; training++) {
        br_manual_seed((uint64_t)training + 1);
        br_scope *scope = br_scope_begin();
        br_gpt2_lm *model = br_gpt2_lm_new(&c);
        br_train(br_base(model), training);
        check_gradients(run_lm, model, 0, NULL);
        br_module_free(model);
        br_scope_end(scope);
    }
}

/* Without recording, activations overwrite their input; the result must be the same. */
Test(gpt2, each_activation_unrecorded)
{
    static const char *const names[] = { "gelu",  "gelu_new", "gelu_pytorch_tanh", "relu", "silu",
                                         "swish", "tanh" };
    br_tensor *before = NULL;
    br_scope *scope = br_scope_begin();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        br_gpt2_config c = tiny();
        c.activation_function = names[i];
        br_manual_seed(3);
        br_gpt2_lm *model = br_gpt2_lm_new(&c);
        br_eval(br_base(model));
        br_tensor *want = br_detach(br_gpt2_lm_forward(model, ids(), NULL));
        cr_assert_not_null(want, "%s", br_error_message());
        if (before && i != 2 && i != 5) /* aliases of the activation before */
            cr_assert_not(br_equal(want, before), "%s", names[i]);
        before = want;
        br_scope *unrecorded = br_no_grad_begin();
        cr_assert(br_equal(br_gpt2_lm_forward(model, ids(), NULL), want), "%s", names[i]);
        br_scope_end(unrecorded);
        br_module_free(model);
    }
    br_scope_end(scope);
}

/* ---- Invalid arguments ----------------------------------------------------------------------- */

Test(gpt2, bad_configurations)
{
    static const struct {
        int64_t vocab_size, n_embd, n_inner;
        const char *act, *message;
        double dropout, eps, range;
    } bad[] = {
        { 0, 6, 0, "gelu", "vocab_size is 0", 0, 1, 1 },
        { 9, 7, 0, "gelu", "n_embd 7 is not divisible by n_head 2", 0, 1, 1 },
        { 9, 6, -1, "gelu", "n_inner is -1", 0, 1, 1 },
        { 9, INT32_MAX - 1, 0, "gelu", "4 n_embd", 0, 1, 1 },
        { 9, 6, 0, "geglu", "activation_function is geglu", 0, 1, 1 },
        { 9, 6, 0, NULL, "activation_function is NULL", 0, 1, 1 },
        { 9, 6, 0, "gelu", "attn_pdrop is 2", 2, 1, 1 },
        { 9, 6, 0, "gelu", "layer_norm_epsilon is 0", 0, 0, 1 },
        { 9, 6, 0, "gelu", "initializer_range is nan", 0, 1, (double)NAN },
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        br_gpt2_config c = tiny();
        c.vocab_size = bad[i].vocab_size;
        c.n_embd = bad[i].n_embd;
        c.n_inner = bad[i].n_inner;
        c.activation_function = bad[i].act;
        c.attn_pdrop = bad[i].dropout;
        c.layer_norm_epsilon = bad[i].eps;
        c.initializer_range = bad[i].range;
        br_gpt2_lm *model = br_gpt2_lm_new(&c);
        cr_assert(br_failed());
        cr_assert(strstr(br_error_message(), bad[i].message), "%s", br_error_message());
        br_clear_error();
        br_module_free(model);
    }
}

/* Those of transformers' GPT2Config(). */
Test(gpt2, default_config)
{
    br_gpt2_config c = br_gpt2_config_default();
    cr_assert(c.vocab_size == 50257 && c.n_positions == 1024 && c.n_embd == 768);
    cr_assert(c.n_layer == 12 && c.n_head == 12 && c.n_inner == 0);
    cr_assert(c.embd_pdrop == 0.1 && c.attn_pdrop == 0.1 && c.resid_pdrop == 0.1);
    cr_assert(c.layer_norm_epsilon == 1e-5 && c.initializer_range == 0.02);
    cr_assert_str_eq(c.activation_function, "gelu_new");
}

Test(gpt2, bad_inputs)
{
    br_scope *scope = br_scope_begin();
    br_gpt2_config c = tiny();
    br_gpt2_lm *model = br_gpt2_lm_new(&c);
    br_tensor *good = ids(), *row = br_zeros(BR_SHAPE(4), BR_I64),
              *wide = br_zeros(BR_SHAPE(2, 7), BR_I64);
    br_gpt2_options mask = *BR_OPTIONS(br_gpt2, .attention_mask = wide),
                    types = *BR_OPTIONS(br_gpt2, .token_type_ids = wide),
                    places = *BR_OPTIONS(br_gpt2, .position_ids = wide);
    check_fails(br_gpt2_lm_forward(model, NULL, NULL), "input_ids");
    check_fails(br_gpt2_lm_forward(model, row, NULL), "[4] must have 2 dimensions");
    check_fails(br_gpt2_lm_forward(model, wide, NULL),
                "[2, 7] after 0 cached tokens exceed the model's 6 positions");
    check_fails(br_gpt2_lm_forward(model, good, &mask), "attention_mask [2, 7] must be [2, 4]");
    check_fails(br_gpt2_lm_forward(model, good, &types), "token_type_ids [2, 7]");
    check_fails(br_gpt2_lm_forward(model, good, &places), "position_ids [2, 7] must be [2, 4]");
    check_fails(br_gpt2_lm_forward(NULL, good, NULL), "NULL");
    check_fails(br_causal_lm_loss(br_zeros(BR_SHAPE(2, 4, 9), BR_F32), wide), "labels [2, 7]");
    check_fails(br_gpt2_lm_loss(model, good, wide, NULL),
                "labels [2, 7] must have the shape of input_ids, [2, 4]");
    check_fails(br_gpt2_lm_loss(model, good, NULL, NULL), "labels");
    check_fails(br_gpt2_lm_loss(model, wide, wide, NULL), "exceed the model's 6 positions");
    check_fails(br_gpt2_lm_loss(NULL, good, good, NULL), "NULL");
    br_module_free(model);
    br_scope_end(scope);
}

/* The outputs are not NULL before: a program may use its array again. */
Test(gpt2, outputs_are_null_after_a_failure)
{
    br_gpt2_config c = tiny();
    br_gpt2_lm *model = br_gpt2_lm_new(&c);
    br_scope *scope = br_scope_begin();
    br_tensor *bad[] = { br_full(BR_SHAPE(1, 1), 9, BR_I64), br_zeros(BR_SHAPE(4), BR_I64) };
    for (int k = 0; k < 2; k++) {
        br_tensor *hidden[LAYERS + 1], *attentions[LAYERS];
        for (int i = 0; i <= LAYERS; i++)
            hidden[i] = bad[k];
        for (int i = 0; i < LAYERS; i++)
            attentions[i] = bad[k];
        br_gpt2_options o = *BR_OPTIONS(br_gpt2, .hidden_states = hidden, .attentions = attentions);
        check_fails(br_gpt2_lm_forward(model, bad[k], &o), k == 0 ? "9" : "2 dimensions");
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
    br_gpt2_config c = tiny();
    br_gpt2_lm *model = br_gpt2_lm_new(&c);
    br_optim *adam = br_adam(br_base(model), NULL);
    br_tensor *hidden[LAYERS + 1], *attentions[LAYERS];
    br_gpt2_options o = *BR_OPTIONS(br_gpt2, .attention_mask = br_ne_scalar(ids(), 0),
                                    .hidden_states = hidden, .attentions = attentions);
    br_backward(br_causal_lm_loss(br_gpt2_lm_forward(model, ids(), &o), ids()));
    br_backward(br_gpt2_lm_loss(model, ids(), ids(), &o));
    bool ok = br_optim_step(adam);
    br_optim_free(adam);
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(gpt2, memory_runs_out_everywhere)
{
    fail_in_turn(train_a_step, "a step");
}
