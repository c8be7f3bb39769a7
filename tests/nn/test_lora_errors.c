/* tests/nn/test_lora_errors.c - what br_lora_add() refuses, without a change of the model. */
#include "tests/allocations.h"
#include "tests/nn/lora_net.h"

TestSuite(lora_errors, .init = check_begin, .fini = check_end);

/* Checks that a call with the options fails with this message, and that the model is unchanged. */
static void refused(net *model, const br_lora_options *o, const char *message)
{
    br_named_list *before = br_state_dict(br_base(model));
    int64_t n = before->count, trained_before = br_count_parameters(br_base(model), true);
    br_named_list_free(before);
    check_fails(br_lora_add(br_base(model), o), message);
    br_named_list *after = br_state_dict(br_base(model));
    cr_assert_eq(after->count, n);
    br_named_list_free(after);
    cr_assert_eq(br_count_parameters(br_base(model), true), trained_before);
}

Test(lora_errors, wrong_options_are_refused)
{
    br_scope *scope = br_scope_begin();
    net *model = net_new();
    static const char *const q[] = { "q_proj" }, *const typo[] = { "q_proj", "v_porj" };
    static const char *const norm[] = { "norm" }, *const head[] = { "clasifier" };
    static const char *const part[] = { "proj" };
    static const char *const null[] = { NULL }, *const classifier[] = { "classifier" };
    static const br_lora_pattern bad[] = { { "q_proj", 0 } };
#define Q .n_target_modules = 1, .target_modules = q
    refused(model, NULL, "lora_add: target_modules is empty");
    refused(model, BR_OPTIONS(br_lora, Q, .r = 0), "lora_add: r is 0, must be at least 1");
    refused(model, BR_OPTIONS(br_lora, Q, .lora_dropout = 1),
            "lora_dropout is 1, must be at least 0 and less than 1");
    refused(model, BR_OPTIONS(br_lora, Q, .lora_dropout = -0.1), "lora_dropout is -0.1");
    refused(model, BR_OPTIONS(br_lora, Q, .lora_alpha = NAN), "lora_alpha is nan, must be finite");
    refused(model, BR_OPTIONS(br_lora, Q, .adapter_name = "a.b"),
            "adapter_name is 'a.b', must be a name without dots");
    refused(model, BR_OPTIONS(br_lora, Q, .adapter_name = ""), "adapter_name is ''");
    refused(model, BR_OPTIONS(br_lora, Q, .bias = (br_lora_bias)3), "bias is 3");
    refused(model, BR_OPTIONS(br_lora, Q, .init_lora_weights = (br_lora_init)7),
            "init_lora_weights is 7");
    refused(model, BR_OPTIONS(br_lora, .n_target_modules = -1), "n_target_modules is -1");
    refused(model, BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = null),
            "target_modules 0 is NULL");
    refused(
        model, BR_OPTIONS(br_lora, .n_target_modules = 2, .target_modules = typo),
        "target_modules: no module of net matches 'v_porj'; the most similar layers are v_proj, "
        "q_proj");
    refused(model, BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = part),
            "no module of net matches 'proj'"); /* a part of a component */
    refused(model, BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = norm),
            "layers.0.norm is a LayerNorm, which cannot have an adapter: it must be a Linear");
    refused(model, BR_OPTIONS(br_lora, Q, .n_exclude_modules = 1, .exclude_modules = q),
            "no layer of net is left");
    refused(model, BR_OPTIONS(br_lora, Q, .n_modules_to_save = 1, .modules_to_save = head),
            "modules_to_save: no module of net with parameters matches 'clasifier'");
    refused(model,
            BR_OPTIONS(br_lora, .n_target_modules = 1, .target_modules = classifier,
                       .n_modules_to_save = 1, .modules_to_save = classifier),
            "no layer of net is left");
    refused(model, BR_OPTIONS(br_lora, Q, .n_rank_pattern = 1, .rank_pattern = bad),
            "rank_pattern[0].value is 0, must be at least 1");
    cr_assert(br_lora_add(br_base(model), BR_OPTIONS(br_lora, Q)));
    refused(model, BR_OPTIONS(br_lora, Q), "net already has an adapter named 'default'");
    check_fails(br_lora_add(br_module_find(br_base(model), "layers.0"), BR_OPTIONS(br_lora, Q)),
                "net '' has adapters: pass it instead of block");
    cr_assert(br_lora_merge(br_base(model)));
    refused(model, BR_OPTIONS(br_lora, Q, .adapter_name = "b"),
            "the adapter 'default' is merged: call br_lora_unmerge() first");
    br_module_free(model);
    br_scope_end(scope);
}

Test(lora_errors, layers_that_cannot_have_an_adapter)
{
    br_scope *scope = br_scope_begin();
    br_embedding *table = br_embedding_new(5, 3, -1);
    table->max_norm = 1;
    br_linear *normed = br_linear_new(3, 3, true);
    br_weight_norm(br_base(normed), "weight", &normed->weight, 0);
    br_sequential *model = br_sequential_new(
        BR_MODULES(table, br_conv1d_new(3, 3, 2, true, BR_OPTIONS(br_conv, .dilation = { 2, 1 })),
                   br_conv1d_new(4, 4, 2, true, BR_OPTIONS(br_conv, .groups = 2)), normed));
    static const char *const names[][1] = { { "0" }, { "1" }, { "2" }, { "3" } };
    static const char *const messages[] = {
        "0 has a max_norm", "1 has a dilation",
        "r is 3, must be a multiple of the groups of 2, which are 2",
        "3 is a Linear with a parametrized weight, which cannot have an adapter"
    };
    for (int i = 0; i < 4; i++)
        check_fails(br_lora_add(br_base(model), BR_OPTIONS(br_lora, .r = 3, .n_target_modules = 1,
                                                           .target_modules = names[i])),
                    messages[i]);
    check_fails(
        br_lora_add(br_base(model), BR_OPTIONS(br_lora, .r = 2, .n_target_modules = 1,
                                               .target_modules = names[2], .use_dora = true)),
        "use_dora does not support 2, which has 2 groups");
    cr_assert_null(br_lora_active_adapter(br_base(model)));
    check_fails(br_lora_adapter_at(br_base(model), 0), "index 0 is out of range");
    br_module_free(model);
    br_scope_end(scope);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Makes a model, adds an adapter, merges, switches and runs it. A failure leaves no adapter or a
 * whole one. */
static bool use_adapter(uint64_t *digest)
{
    static const char *const layers[] = { "q_proj", "embed" }, *const head[] = { "classifier" };
    br_scope *scope = br_scope_begin();
    net *model = net_new();
    br_module *m = br_base(model);
    bool added =
        br_lora_add(m, BR_OPTIONS(br_lora, .r = 2, .n_target_modules = 2, .target_modules = layers,
                                  .use_dora = true, .lora_dropout = 0.1, .n_modules_to_save = 1,
                                  .modules_to_save = head));
    cr_assert_eq(br_lora_num_adapters(m), added);
    if (added && br_lora_merge(m) && br_lora_set_adapter(m, NULL))
        br_lora_set_adapter(m, "default");
    br_tensor *y = br_forward(model, ids());
    *digest = y ? (uint64_t)br_numel(y) : 0;
    if (y && !br_lora_merge_and_unload(m))
        cr_assert_eq(br_lora_num_adapters(m), 1);
    bool ok = y && !br_failed();
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

Test(lora_errors, every_allocation_may_fail)
{
    if (allocations_can_fail())
        allocations_fail_in_turn(use_adapter, "adapter");
}
