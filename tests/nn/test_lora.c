/* tests/nn/test_lora.c - LoRA adapters of layers, compared with peft's (record_lora.py): training,
 * merging and initial values. test_lora_models.c tests the adapters of a model. */
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(lora, .init = check_begin, .fini = check_end);

enum { STEPS = 20 };

static br_safetensors *open_recorded(void)
{
    br_safetensors *file =
        br_safetensors_open(BRASA_TEST_DIR "/nn/recorded/lora.safetensors", NULL);
    check_ok();
    return file;
}

/* Returns the recorded tensor CASE.GROUP.NAME, on the default device. */
static br_tensor *recorded(br_safetensors *file, const char *test, const char *name)
{
    char key[160];
    snprintf(key, sizeof key, "%s.%s", test, name);
    br_tensor *t = br_to_device(br_safetensors_get(file, key), br_get_default_device());
    check_ok();
    return t;
}

/* Calls `use` with each recorded tensor whose key begins with "CASE.GROUP.", and the rest of the
 * key. Returns their number. */
static int each(br_safetensors *file, const char *test, const char *group, br_module *model,
                void (*use)(br_tensor *own, br_tensor *value, const char *name))
{
    char start[80];
    snprintf(start, sizeof start, "%s.%s%s", test, group, *group ? "." : "");
    int n = 0;
    for (int64_t i = 0; i < br_safetensors_count(file); i++) {
        const char *key = br_safetensors_name(file, i), *name = key + strlen(start);
        if (strncmp(key, start, strlen(start)) != 0)
            continue;
        use(br_module_get(model, name), recorded(file, test, key + strlen(test) + 1), name);
        check_ok();
        n++;
    }
    return n;
}

static void set(br_tensor *own, br_tensor *value, const char *name)
{
    cr_assert(br_same_shape(own, value), "%s", name);
    br_scope *scope = br_no_grad_begin();
    br_copy_(own, value);
    br_scope_end(scope);
}

static double tolerance;

static void compare(br_tensor *own, br_tensor *value, const char *name)
{
    cr_assert(br_same_shape(own, value), "%s has another shape", name);
    cr_assert_eq(br_dtype_of(own), br_dtype_of(value), "%s has another dtype", name);
    br_tensor *distance =
        br_max(br_abs(br_sub(br_to(br_detach(own), BR_F64), br_to(value, BR_F64))));
    double size = br_item(br_max(br_abs(br_to(value, BR_F64))));
    cr_assert(br_item(distance) <= tolerance * (1 + size), "%s differs by %g of %g", name,
              br_item(distance), size);
}

typedef struct recorded_case {
    const char *name;
    void *(*make)(void);
    br_lora_options options;
    int n_layers;
} recorded_case;

static void *linears(void)
{
    return br_sequential_new(
        BR_MODULES(br_linear_new(4, 6, true), br_tanh_new(), br_linear_new(6, 3, false)));
}

static void *table(void)
{
    return br_sequential_new(BR_MODULES(br_embedding_new(7, 4, 1), br_linear_new(4, 2, true)));
}

static void *table_by_freq(void)
{
    br_embedding *self = br_embedding_new(7, 4, -1);
    self->scale_grad_by_freq = true;
    return br_sequential_new(BR_MODULES(self, br_linear_new(4, 2, true)));
}

static void *convolution(void)
{
    return br_sequential_new(BR_MODULES(br_conv2d_new(
        4, 6, 3, 3, true, BR_OPTIONS(br_conv, .stride = { 2, 2 }, .padding = { 1, 1 }))));
}

static void *grouped(void)
{
    return br_sequential_new(BR_MODULES(
        br_conv2d_new(4, 6, 3, 3, true,
                      BR_OPTIONS(br_conv, .stride = { 2, 2 }, .padding = { 1, 1 }, .groups = 2))));
}

static void *series(void)
{
    return br_sequential_new(BR_MODULES(br_conv1d_new(4, 3, 2, true, NULL)));
}

static const char *const both[] = { "0", "2" }, *const first[] = { "0" };
static const br_lora_pattern ranks[] = { { "2", 3 } }, alphas[] = { { "0", 5 } };

#define LORA(...)                                                                  \
    {                                                                              \
        .struct_size = sizeof(br_lora_options), .adapter_name = "default", .r = 2, \
        .lora_alpha = 3, __VA_ARGS__                                               \
    }
#define BOTH  .n_target_modules = 2, .target_modules = both
#define FIRST .n_target_modules = 1, .target_modules = first

static const recorded_case cases[] = {
    { "lora", linears, LORA(BOTH), 2 },
    { "rslora", linears, LORA(BOTH, .use_rslora = true), 2 },
    { "dora", linears, LORA(BOTH, .use_dora = true), 2 },
    { "patterns", linears,
      LORA(BOTH, .n_rank_pattern = 1, .rank_pattern = ranks, .n_alpha_pattern = 1,
           .alpha_pattern = alphas),
      2 },
    { "embedding", table, LORA(FIRST), 1 },
    { "embedding_dora", table, LORA(FIRST, .use_dora = true), 1 },
    { "embedding_by_freq", table_by_freq, LORA(FIRST), 1 },
    { "conv", convolution, LORA(FIRST), 1 },
    { "conv_dora", convolution, LORA(FIRST, .use_dora = true), 1 },
    { "conv_groups", grouped, LORA(FIRST), 1 },
    { "conv1d_dora", series, LORA(FIRST, .use_dora = true), 1 },
};
enum { N_CASES = sizeof cases / sizeof *cases };

/* Makes the model of a case, with the recorded values of the model and of its adapter. */
static br_module *make(const recorded_case *c, br_safetensors *file)
{
    br_module *model = c->make();
    each(file, c->name, "base", model, set);
    br_lora_add(model, &c->options);
    check_ok();
    int parts = each(file, c->name, "start", model, set);
    cr_assert_eq(parts, c->n_layers * (c->options.use_dora ? 3 : 2));
    return model;
}

static void train(br_module *model, const recorded_case *c, br_safetensors *file)
{
    br_optim *adamw = br_adamw(model, BR_OPTIONS(br_adamw, .lr = 0.02));
    br_tensor *losses = recorded(file, c->name, "losses");
    for (int step = 0; step < STEPS; step++) {
        br_scope *scope = br_scope_begin();
        br_optim_zero_grad(adamw);
        br_tensor *y = br_forward(model, recorded(file, c->name, "x"));
        br_tensor *loss = br_mse_loss(y, recorded(file, c->name, "target"), BR_REDUCTION_MEAN);
        br_backward(loss);
        br_optim_step(adamw);
        check_ok();
        check_close(br_item(loss), br_at(losses, BR_DIMS(step)), 1e-5);
        br_scope_end(scope);
    }
    br_optim_free(adamw);
}

Test(lora, training_equals_pefts)
{
    br_safetensors *file = open_recorded();
    for (int i = 0; i < N_CASES; i++) {
        const recorded_case *c = &cases[i];
        br_scope *scope = br_scope_begin();
        br_module *model = make(c, file);
        train(model, c, file);
        tolerance = 1e-6;
        each(file, c->name, "end", model, compare);
        tolerance = 0; /* the model itself is frozen */
        each(file, c->name, "base", model, compare);
        tolerance = 1e-5;
        compare(br_forward(model, recorded(file, c->name, "x")), recorded(file, c->name, "result"),
                c->name);
        br_module_free(model);
        br_scope_end(scope);
    }
    br_safetensors_close(file);
}

Test(lora, merged_weights_equal_pefts)
{
    br_safetensors *file = open_recorded();
    for (int i = 0; i < N_CASES; i++) {
        const recorded_case *c = &cases[i];
        br_scope *scope = br_scope_begin();
        br_module *model = make(c, file);
        each(file, c->name, "end", model, set);
        if (strcmp(c->name, "conv_groups") == 0) {
            check_fails(br_lora_merge(model), "lora_merge: 0 has groups: use the adapter unmerged");
            tolerance = 0;
        } else {
            cr_assert(br_lora_merge(model));
            cr_assert(!br_lora_is_adapted(br_module_child_at(model, 0)));
            tolerance = 1e-6;
            cr_assert_eq(each(file, c->name, "merged", model, compare), c->n_layers);
            tolerance = 1e-5;
            compare(br_forward(model, recorded(file, c->name, "x")),
                    recorded(file, c->name, "result"), c->name);
            cr_assert(br_lora_unmerge(model));
            cr_assert(br_lora_is_adapted(br_module_child_at(model, 0)));
            tolerance = 1e-6;
        }
        each(file, c->name, "base", model, compare);
        br_module_free(model);
        br_scope_end(scope);
    }
    br_safetensors_close(file);
}

/* The adapter is f32 beside bf16, its product is rounded once, and a merged weight is rounded. */
Test(lora, bf16_equals_pefts)
{
    br_scope *scope = br_scope_begin();
    br_safetensors *file = open_recorded();
    br_module *model = linears();
    br_module_to(model, BR_BF16);
    each(file, "bf16", "base", model, set);
    br_lora_add(model, &cases[0].options);
    br_tensor *a = br_module_get(model, "0.lora_A.default.weight");
    cr_assert(br_equal(a, br_to(br_to(a, BR_BF16), BR_F32))); /* rounded, as in peft */
    tolerance = INFINITY;
    cr_assert_eq(each(file, "bf16", "start", model, compare), 4); /* shapes and dtypes */
    each(file, "bf16", "start", model, set);
    tolerance = 0.02;
    compare(br_forward(model, br_to(recorded(file, "lora", "x"), BR_BF16)),
            recorded(file, "bf16", "result"), "result");
    tolerance = 0;
    cr_assert(br_lora_merge(model));
    cr_assert_eq(each(file, "bf16", "merged", model, compare), 2);
    cr_assert(br_lora_unmerge(model));
    cr_assert_eq(each(file, "bf16", "unmerged", model, compare), 2);
    br_module_free(model);
    br_safetensors_close(file);
    br_scope_end(scope);
}

/* An adapter that is converted with its model has bf16 matrices. Their product is computed in f32
 * and rounded once, as in peft. */
Test(lora, the_product_of_a_converted_adapter_is_rounded_once)
{
    br_scope *scope = br_no_grad_begin();
    br_manual_seed(5);
    br_linear *layer = br_linear_new(6, 5, false);
    const char *const all[] = { "all-linear" };
    br_sequential *model = br_sequential_new(BR_MODULES(layer));
    cr_assert(
        br_lora_add(br_base(model), BR_OPTIONS(br_lora, .n_target_modules = 1,
                                               .target_modules = all, .r = 4, .lora_alpha = 3)),
        "%s", br_error_message());
    br_module_to(br_base(model), BR_BF16);
    br_tensor *a = br_module_get(br_base(model), "0.lora_A.default.weight");
    br_tensor *b = br_module_get(br_base(model), "0.lora_B.default.weight");
    cr_assert_eq(br_dtype_of(a), BR_BF16);
    br_copy_(b, br_randn(BR_SHAPE(5, 4), BR_F32));
    br_copy_(a, br_randn(BR_SHAPE(4, 6), BR_F32));
    br_tensor *product = br_mm(br_to(b, BR_F32), br_to(a, BR_F32));
    product = br_to(br_mul_scalar(product, 0.75), BR_BF16);
    br_tensor *expected = br_add(layer->weight, product);
    cr_assert(br_lora_merge(br_base(model)));
    cr_assert(br_equal(layer->weight, expected));
    br_module_free(model);
    br_scope_end(scope);
}

Test(lora, initial_values_are_pefts)
{
    br_scope *scope = br_scope_begin();
    br_safetensors *file = open_recorded();
    br_manual_seed(5);
    br_module *model =
        br_base(br_sequential_new(BR_MODULES(br_embedding_new(7, 4, -1), br_linear_new(4, 6, true),
                                             br_conv1d_new(4, 3, 2, true, NULL))));
    static const char *const names[] = { "0", "1", "2" };
    cr_assert(br_lora_add(model, BR_OPTIONS(br_lora, .r = 2, .use_dora = true,
                                            .n_target_modules = 3, .target_modules = names)));
    tolerance = 1e-6;
    cr_assert_eq(each(file, "initial", "", model, compare), 9);
    br_module_free(model);
    br_manual_seed(5);
    model = linears();
    cr_assert(br_lora_add(
        model, BR_OPTIONS(br_lora, .r = 2, FIRST, .init_lora_weights = BR_LORA_INIT_GAUSSIAN)));
    cr_assert_eq(each(file, "gaussian", "", model, compare), 2);
    br_module_free(model);
    br_safetensors_close(file);
    br_scope_end(scope);
}
