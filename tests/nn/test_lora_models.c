/* tests/nn/test_lora_models.c - the adapters of a model: what is trained, switching, modules that
 * are trained whole, other paths of a forward, and errors. test_lora.c compares numbers with
 * peft's. */
#include "tests/nn/lora_net.h"

TestSuite(lora_models, .init = check_begin, .fini = check_end);

/* Adds an adapter to layers of these names; B is random, so that it changes the result. */
static bool add_named(net *model, const char *name, const char *const *names, int64_t n)
{
    return br_lora_add(br_base(model),
                       BR_OPTIONS(br_lora, .r = 2, .adapter_name = name, .target_modules = names,
                                  .n_target_modules = n, .init_lora_weights = BR_LORA_INIT_FALSE));
}

static bool add(net *model, const char *target)
{
    return add_named(model, "default", &target, 1);
}

/* Returns the names of the parameters that require grad, joined by spaces. */
static const char *trained(net *model)
{
    static char names[2048];
    names[0] = '\0';
    br_named_list *list = br_parameters(br_base(model));
    for (int64_t i = 0; i < list->count; i++) {
        size_t n = strlen(names);
        if (br_requires_grad(list->items[i].tensor))
            snprintf(names + n, sizeof names - n, "%s%s", n ? " " : "", list->items[i].name);
    }
    br_named_list_free(list);
    return names;
}

static bool same(br_tensor *a, br_tensor *b)
{
    return br_allclose(a, b, 1e-6, 1e-6);
}

/* ---- What is trained ------------------------------------------------------------------------- */

Test(lora_models, only_the_adapter_is_trained)
{
    br_scope *scope = br_scope_begin();
    net *model = net_new();
    int64_t before = br_count_parameters(br_base(model), false);
    cr_assert(add(model, "v_proj"));
    cr_assert_str_eq(trained(model), "layers.0.v_proj.lora_A.default.weight "
                                     "layers.0.v_proj.lora_B.default.weight "
                                     "layers.1.v_proj.lora_A.default.weight "
                                     "layers.1.v_proj.lora_B.default.weight");
    cr_assert_eq(br_count_parameters(br_base(model), true), 2 * 2 * (6 + 4));
    cr_assert_eq(br_count_parameters(br_base(model), false), before + 2 * 2 * (6 + 4));
    br_backward(br_sum(br_forward(model, ids())));
    cr_assert_null(br_grad_of(model->embed->weight));
    cr_assert_null(br_grad_of(model->classifier->weight));
    br_tensor *a = br_module_get(br_base(model), "layers.0.v_proj.lora_A.default.weight");
    cr_assert(br_grad_of(a) && br_item(br_norm(br_grad_of(a), 2)) > 0);
    br_module_free(model);
    br_scope_end(scope);
}

Test(lora_models, biases_that_are_trained)
{
    static const char *const names[] = { "q_proj" };
    br_scope *scope = br_scope_begin();
    net *model = net_new();
    cr_assert(br_lora_add(br_base(model),
                          BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = names,
                                     .r = 1, .bias = BR_LORA_BIAS_LORA_ONLY)));
    cr_assert(br_requires_grad(br_module_get(br_base(model), "layers.0.q_proj.bias")));
    cr_assert(!br_requires_grad(br_module_get(br_base(model), "layers.0.norm.bias")));
    br_module_free(model);
    model = net_new();
    cr_assert(br_lora_add(br_base(model),
                          BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = names,
                                     .r = 1, .bias = BR_LORA_BIAS_ALL)));
    cr_assert(br_requires_grad(br_module_get(br_base(model), "layers.0.norm.bias")));
    cr_assert(!br_requires_grad(br_module_get(br_base(model), "layers.0.norm.weight")));
    check_fails(br_lora_add(br_base(model),
                            BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = names,
                                       .adapter_name = "b", .bias = BR_LORA_BIAS_ALL)),
                "bias must be BR_LORA_BIAS_NONE for a second adapter");
    br_module_free(model);
    br_scope_end(scope);
}

/* Returns the bytes that a recorded forward keeps for backward. */
static int64_t bytes_of_forward(net *model, br_tensor *x)
{
    int64_t before = br_live_bytes();
    br_scope *scope = br_scope_begin();
    br_tensor *y = br_sum(br_forward(model, x));
    int64_t bytes = br_live_bytes() - before;
    cr_assert(br_requires_grad(y));
    br_scope_end(scope);
    return bytes;
}

/* The input of a frozen Linear, Conv2d or Embedding is not saved. */
Test(lora_models, frozen_weights_save_no_inputs)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(64, 64, false);
    br_conv *conv = br_conv2d_new(1, 1, 3, 3, false, BR_OPTIONS(br_conv, .padding = { 1, 1 }));
    br_set_requires_grad(linear->weight, false);
    br_set_requires_grad(conv->weight, false);
    br_tensor *x = br_randn(BR_SHAPE(256, 64), BR_F32);
    br_set_requires_grad(x, true);
    int64_t before = br_live_bytes(), size = 256 * 64 * 4;
    br_scope *inner = br_scope_begin();
    br_tensor *h = br_mul_scalar(x, 2), *y = br_linear_forward(linear, h);
    y = br_mul_scalar(y, 2);
    y = br_conv_forward(conv, br_view(y, BR_SHAPE(1, 1, 256, 64)));
    br_tensor *loss = br_sum(y);
    br_retain(loss);
    br_scope_end(inner);
    int64_t kept = br_live_bytes() - before;
    cr_assert(kept < size, "%lld bytes are kept", (long long)kept);
    br_release(loss);
    br_module_free(linear);
    br_module_free(conv);
    br_scope_end(scope);
}

Test(lora_models, an_optimizer_has_no_state_for_frozen_weights)
{
    br_scope *scope = br_scope_begin();
    net *model = net_new();
    cr_assert(add(model, "q_proj"));
    br_optim *adamw = br_adamw(br_base(model), NULL);
    int64_t before = br_live_bytes();
    br_backward(br_sum(br_forward(model, ids())));
    br_zero_grad(br_base(model));
    br_backward(br_sum(br_forward(model, ids())));
    br_optim_step(adamw);
    check_ok();
    br_tensor *frozen = br_module_get(br_base(model), "layers.0.v_proj.weight");
    cr_assert_null(br_grad_of(frozen));
    cr_assert(br_live_bytes() > before);
    br_optim_free(adamw);
    cr_assert(bytes_of_forward(model, ids()) > 0);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Names ----------------------------------------------------------------------------------- */

/* Returns how many layers get an adapter with the options. */
static int64_t layers_with(const br_lora_options *o)
{
    net *model = net_new();
    cr_assert(br_lora_add(br_base(model), o), "%s", br_error_message());
    br_named_list *list = br_parameters(br_base(model));
    int64_t n = 0;
    for (int64_t i = 0; i < list->count; i++)
        n += strstr(list->items[i].name, "lora_A") != NULL;
    br_named_list_free(list);
    br_module_free(model);
    return n;
}

Test(lora_models, names_match_as_in_peft)
{
    br_scope *scope = br_scope_begin();
    static const char *const all[] = { "all-linear" }, *const one[] = { "0.q_proj" };
    static const char *const glob[] = { "layers.?.*_proj" }, *const q[] = { "q_proj" };
    static const int64_t second[] = { 1 };
    cr_assert_eq(layers_with(BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = all)), 4);
    cr_assert_eq(layers_with(BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = one)), 1);
    cr_assert_eq(layers_with(BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = glob)),
                 4);
    cr_assert_eq(layers_with(BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = all,
                                        .n_exclude_modules = 1, .exclude_modules = q)),
                 2);
    br_module *model = br_base(net_new());
    check_fails(
        br_lora_add(model, BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = q,
                                      .n_layers_to_transform = 1, .layers_to_transform = second)),
        "no layer of net is left"); /* peft counts only numbers behind two components */
    br_sequential *outer = br_sequential_new(BR_MODULES(model));
    br_module_set_forward(br_base(outer), NULL);
    cr_assert(br_lora_add(br_base(outer),
                          BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = q,
                                     .n_layers_to_transform = 1, .layers_to_transform = second)));
    cr_assert(br_lora_is_adapted(br_module_find(model, "layers.1.q_proj")));
    cr_assert(!br_lora_is_adapted(br_module_find(model, "layers.0.q_proj")));
    br_module_free(outer);
    br_scope_end(scope);
}

/* ---- Several adapters ------------------------------------------------------------------------ */

Test(lora_models, adapters_are_switched)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(2);
    net *model = net_new();
    br_module *m = br_base(model);
    br_tensor *plain = br_forward(model, ids());
    static const char *const q[] = { "q_proj" }, *const v[] = { "v_proj", "embed" };
    cr_assert(add_named(model, "a", q, 1));
    br_tensor *with_a = br_forward(model, ids());
    cr_assert(add_named(model, "b", v, 2));
    cr_assert_str_eq(br_lora_active_adapter(m), "a");
    cr_assert_eq(br_lora_num_adapters(m), 2);
    cr_assert_str_eq(br_lora_adapter_at(m, 1), "b");
    cr_assert(same(br_forward(model, ids()), with_a));
    cr_assert_null(strstr(trained(model), ".b"));
    cr_assert(br_lora_set_adapter(m, "b"));
    br_tensor *with_b = br_forward(model, ids());
    cr_assert(!same(with_a, plain) && !same(with_b, plain) && !same(with_a, with_b));
    cr_assert_null(strstr(trained(model), ".a"));
    cr_assert_not_null(strstr(trained(model), "embed.lora_embedding_A.b"));
    cr_assert(br_lora_set_adapter(m, NULL));
    cr_assert_null(br_lora_active_adapter(m));
    cr_assert_str_eq(trained(model), "");
    cr_assert(br_equal(br_forward(model, ids()), plain));
    cr_assert(br_lora_set_adapter(m, "a") && br_lora_merge(m) && br_lora_merge(m));
    cr_assert(same(br_forward(model, ids()), with_a));
    cr_assert(br_lora_set_adapter(m, "b")); /* unmerges a */
    cr_assert(same(br_forward(model, ids()), with_b));
    cr_assert(br_lora_delete_adapter(m, "a"));
    cr_assert(same(br_forward(model, ids()), with_b));
    check_fails(br_lora_set_adapter(m, "a"), "adapter_name is 'a', must be one of: b");
    cr_assert(br_lora_merge_and_unload(m));
    cr_assert(same(br_forward(model, ids()), with_b));
    cr_assert_eq(br_lora_num_adapters(m), 0);
    br_named_list *state = br_state_dict(m);
    for (int64_t i = 0; i < state->count; i++)
        cr_assert_null(strstr(state->items[i].name, "lora"), "%s", state->items[i].name);
    br_named_list_free(state);
    check_fails(br_lora_merge(m), "lora_merge: net has no adapters: call br_lora_add() first");
    br_module_free(model);
    br_scope_end(scope);
}

/* Appends the paths of the modules below m, and the names of its parameters. */
static void add_tree(br_module *m, char *text, size_t size)
{
    char path[128];
    for (int64_t i = 0; i < br_module_num_children(m); i++) {
        br_module *child = br_module_child_at(m, i);
        size_t n = strlen(text);
        snprintf(text + n, size - n, "%s\n", br_module_path(child, path, sizeof path));
        add_tree(child, text, size);
    }
}

static const char *tree(net *model)
{
    static char texts[2][4096];
    static int next;
    char *text = texts[next ^= 1];
    text[0] = '\0';
    add_tree(br_base(model), text, sizeof texts[0]);
    br_named_list *list = br_parameters(br_base(model));
    for (int64_t i = 0; i < list->count; i++) {
        size_t n = strlen(text);
        snprintf(text + n, sizeof texts[0] - n, "%s\n", list->items[i].name);
    }
    br_named_list_free(list);
    return text;
}

/* Layers of each kind: parts of a linear layer are modules, those of an embedding parameters. */
static net *net_with(int n, const char *const *adapters)
{
    static const char *const layers[] = { "embed", "q_proj", "classifier" };
    net *model = net_new();
    for (int i = 0; i < n; i++)
        cr_assert(
            br_lora_add(br_base(model), BR_OPTIONS(br_lora, .r = 2, .adapter_name = adapters[i],
                                                   .target_modules = layers, .n_target_modules = 3,
                                                   .use_dora = true)),
            "%s", br_error_message());
    return model;
}

Test(lora_models, a_deleted_adapter_leaves_nothing)
{
    static const char *const names[] = { "a", "b", "c" };
    br_scope *scope = br_scope_begin();
    for (int gone = 0; gone < 3; gone++) {
        net *all = net_with(3, names), *rest = net_with(0, NULL);
        const char *others[] = { names[gone == 0], names[gone == 2 ? 1 : 2] };
        for (int left = 2; left >= 0; left--) {
            cr_assert(br_lora_delete_adapter(br_base(all), left == 2 ? names[gone] : others[left]));
            br_module_free(rest);
            rest = net_with(left, others);
            cr_expect_str_eq(tree(all), tree(rest), "without %s, %d left", names[gone], left);
        }
        br_module_free(all);
        br_module_free(rest);
    }
    br_scope_end(scope);
}

/* The head has other values for each adapter, and its own ones without. */
Test(lora_models, saved_modules_have_values_for_each_adapter)
{
    br_scope *scope = br_scope_begin();
    static const char *const q[] = { "q_proj" }, *const head[] = { "classifier" };
    net *model = net_new();
    br_module *m = br_base(model);
    br_scope *copies = br_no_grad_begin();
    br_tensor *start = br_scope_return(copies, br_clone(model->classifier->bias));
    br_scope_end(copies);
    cr_assert(br_lora_add(m, BR_OPTIONS(br_lora, .r = 1, .n_target_modules = 1, .target_modules = q,
                                        .n_modules_to_save = 1, .modules_to_save = head)));
    cr_assert_not_null(strstr(trained(model), "classifier.weight classifier.bias"));
    br_scope *changes = br_no_grad_begin();
    br_fill_(model->classifier->bias, 5);
    br_scope_end(changes);
    cr_assert(br_lora_set_adapter(m, NULL));
    br_scope *views = br_no_grad_begin();
    cr_assert(br_equal(model->classifier->bias, start));
    br_scope_end(views);
    cr_assert(!br_requires_grad(model->classifier->bias));
    cr_assert(br_module_to(m, BR_F64)); /* the values of the adapter follow when it is active */
    cr_assert(br_lora_set_adapter(m, "default"));
    cr_assert_eq(br_dtype_of(model->classifier->bias), BR_F64);
    cr_assert_eq(br_at(model->classifier->bias, BR_DIMS(0)), 5);
    cr_assert(br_requires_grad(model->classifier->bias));
    cr_assert(br_lora_merge_and_unload(m));
    cr_assert_eq(br_at(model->classifier->bias, BR_DIMS(0)), 5);
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Other paths of a forward ---------------------------------------------------------------- */

static br_tensor *times_ten(br_module *module, br_tensor *t, void *context)
{
    (void)module;
    (void)context;
    return br_mul_scalar(t, 10);
}

Test(lora_models, hooks_see_the_input_and_the_result_of_the_adapter)
{
    br_scope *scope = br_scope_begin();
    br_sequential *model = br_sequential_new(BR_MODULES(br_linear_new(4, 3, false)));
    static const char *const names[] = { "0" };
    cr_assert(br_lora_add(br_base(model), BR_OPTIONS(br_lora, .r = 2, .n_target_modules = 1,
                                                     .target_modules = names,
                                                     .init_lora_weights = BR_LORA_INIT_FALSE)));
    br_module *layer = br_module_child_at(br_base(model), 0);
    br_tensor *x = br_randn(BR_SHAPE(2, 4), BR_F32), *y = br_forward(model, x);
    uint64_t hook = br_module_register_forward_pre_hook(layer, times_ten, NULL);
    cr_assert(br_allclose(br_forward(model, x), br_mul_scalar(y, 10), 1e-5, 1e-5));
    br_module_remove_hook(layer, hook);
    br_module_register_forward_hook(layer, times_ten, NULL);
    cr_assert(br_allclose(br_forward(model, x), br_mul_scalar(y, 10), 1e-5, 1e-5));
    br_module_free(model);
    br_scope_end(scope);
}

static br_tensor *run_gradcheck(br_tensor *const *inputs, int n, void *model)
{
    (void)n;
    return br_forward(model, inputs[0]);
}

/* DoRA's norms are constants of its gradient, so finite differences of A and B differ there, as in
 * peft. */
Test(lora_models, gradients_equal_finite_differences)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(4);
    br_sequential *model = br_sequential_new(
        BR_MODULES(br_conv1d_new(2, 4, 2, true, NULL), br_linear_new(3, 2, true)));
    br_module_to(br_base(model), BR_F64);
    static const char *const names[] = { "0", "1" };
    cr_assert(br_lora_add(br_base(model), BR_OPTIONS(br_lora, .r = 2, .n_target_modules = 2,
                                                     .target_modules = names,
                                                     .init_lora_weights = BR_LORA_INIT_FALSE)));
    br_tensor *x = br_randn(BR_SHAPE(2, 2, 4), BR_F64);
    br_set_requires_grad(x, true);
    cr_assert(br_module_gradcheck(br_base(model), run_gradcheck, model, 1, &x, TIGHTLY), "%s",
              br_error_message());
    br_module_free(model);
    br_scope_end(scope);
}

/* Returns the gradient of a part of the adapter after one pass. */
static br_tensor *gradient(net *model)
{
    br_zero_grad(br_base(model));
    br_backward(br_sum(br_square(br_forward(model, ids()))));
    check_ok();
    br_tensor *a = br_module_get(br_base(model), "layers.0.q_proj.lora_A.default.weight");
    return br_clone(br_grad_of(a));
}

Test(lora_models, checkpoints_and_dropout)
{
    br_scope *scope = br_scope_begin();
    static const char *const names[] = { "q_proj" };
    net *model = net_new();
    cr_assert(br_lora_add(br_base(model), BR_OPTIONS(br_lora, .r = 2, .n_target_modules = 1,
                                                     .target_modules = names, .lora_dropout = 0.5,
                                                     .init_lora_weights = BR_LORA_INIT_FALSE)));
    br_manual_seed(7);
    br_tensor *want = gradient(model);
    br_module_checkpoint(br_base(model->layers), true);
    br_manual_seed(7);
    cr_assert(br_equal(gradient(model), want));
    br_manual_seed(8);
    cr_assert(!br_equal(gradient(model), want)); /* another dropout */
    br_eval(br_base(model));
    br_tensor *still = gradient(model);
    cr_assert(br_equal(gradient(model), still));
    br_module_free(model);
    br_scope_end(scope);
}

/* A dropout of DoRA's input also drops what the weight sees beside the result. */
Test(lora_models, dora_with_dropout_trains)
{
    br_scope *scope = br_scope_begin();
    static const char *const names[] = { "q_proj", "v_proj" };
    net *model = net_new();
    br_tensor *plain = br_forward(model, ids());
    cr_assert(br_lora_add(br_base(model), BR_OPTIONS(br_lora, .r = 2, .n_target_modules = 2,
                                                     .target_modules = names, .lora_dropout = 0.5,
                                                     .use_dora = true)));
    /* the first magnitudes are the norms, and B is 0: nothing changes, whatever is dropped */
    cr_assert(br_allclose(br_forward(model, ids()), plain, 1e-5, 1e-5));
    br_backward(br_sum(br_square(br_forward(model, ids()))));
    check_ok();
    cr_assert_not_null(br_grad_of(
        br_module_get(br_base(model), "layers.1.q_proj.lora_magnitude_vector.default.weight")));
    br_module_free(model);
    br_scope_end(scope);
}

/* With twice the norms as magnitudes and B = 0, DoRA adds W dropout(x), without the bias, to the
 * layer's result. */
Test(lora_models, dora_scales_what_dropout_left)
{
    br_scope *scope = br_scope_begin();
    static const char *const names[] = { "0" };
    br_linear *linear = br_linear_new(4, 3, true);
    br_module *model = br_base(br_sequential_new(BR_MODULES(linear)));
    cr_assert(br_lora_add(model, BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = names,
                                            .use_dora = true, .lora_dropout = 0.5)));
    br_tensor *magnitude = br_module_get(model, "0.lora_magnitude_vector.default.weight");
    br_scope *changes = br_no_grad_begin();
    br_mul_scalar_(magnitude, 2);
    br_scope_end(changes);
    br_tensor *x = br_randn(BR_SHAPE(5, 4), BR_F32);
    br_manual_seed(3);
    br_tensor *y = br_forward(model, x);
    br_manual_seed(3);
    br_tensor *left = br_f_linear(br_f_dropout(x, 0.5, true), linear->weight, NULL);
    cr_assert(same(y, br_add(br_f_linear(x, linear->weight, linear->bias), left)));
    br_module_free(model);
    br_scope_end(scope);
}

Test(lora_models, autocast_keeps_the_dtype_of_the_result)
{
    br_scope *scope = br_scope_begin();
    net *model = net_new();
    cr_assert(add(model, "all-linear"));
    br_tensor *want = br_detach(br_forward(model, ids()));
    br_scope *region = br_scope_begin();
    br_autocast_begin(BR_BF16);
    br_tensor *y = br_linear_forward(model->classifier, br_embedding_forward(model->embed, ids()));
    br_tensor *all = br_forward(model, ids());
    cr_assert_eq(br_dtype_of(y), BR_BF16);
    cr_assert(br_allclose(br_to(br_detach(all), BR_F32), want, 0.1, 0.1));
    br_scope_end(region);
    br_module_free(model);
    br_scope_end(scope);
}

/* The loss of a Linear reads its weight, so it must notice an adapter. */
Test(lora_models, linear_cross_entropy_uses_the_adapter)
{
    br_scope *scope = br_scope_begin();
    br_linear_cross_entropy_loss *loss =
        br_linear_cross_entropy_loss_new(4, 5, 0, NULL, true, NULL);
    static const char *const names[] = { "linear" };
    cr_assert(br_lora_add(br_base(loss), BR_OPTIONS(br_lora, .r = 2, .n_target_modules = 1,
                                                    .target_modules = names,
                                                    .init_lora_weights = BR_LORA_INIT_FALSE)));
    br_tensor *x = br_randn(BR_SHAPE(3, 4), BR_F32);
    br_tensor *target = br_from_i64(BR_SHAPE(3), (const int64_t[]){ 0, 4, 2 });
    br_tensor *want = br_cross_entropy(br_linear_forward(loss->linear, x), target, NULL);
    cr_assert(same(br_linear_cross_entropy_loss_forward(loss, x, target), want));
    cr_assert(br_lora_merge(br_base(loss)));
    cr_assert(same(br_linear_cross_entropy_loss_forward(loss, x, target), want));
    br_module_free(loss);
    br_scope_end(scope);
}

Test(lora_models, a_tied_weight_is_not_merged)
{
    br_scope *scope = br_scope_begin();
    br_linear *a = br_linear_new(3, 3, false), *b = br_linear_new(3, 3, false);
    b->weight = br_module_replace_parameter(br_base(b), "weight", a->weight);
    br_sequential *model = br_sequential_new(BR_MODULES(a, b));
    static const char *const names[] = { "0" };
    cr_assert(br_lora_add(br_base(model), BR_OPTIONS(br_lora, .r = 1, .n_target_modules = 1,
                                                     .target_modules = names)));
    check_fails(br_lora_merge(br_base(model)), "lora_merge: 0.weight is tied to 1.weight");
    check_fails(br_lora_merge_and_unload(br_base(model)), "0.weight is tied to 1.weight");
    cr_assert_eq(br_lora_num_adapters(br_base(model)), 1);
    br_module_free(model);
    br_scope_end(scope);
}
