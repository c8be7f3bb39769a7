/* tests/autograd/test_hook_lists.c - hooks that add or remove hooks of the list that is being
 * called: hooks of tensors, post-accumulate-grad hooks, and hooks of modules. */
#include "tests/ops/values.h"

#include <brasa/nn.h>

TestSuite(hook_lists, .init = check_begin, .fini = check_end);

/* ---- Hooks that log a letter and change their list ------------------------------------------- */

/* A list of hooks under test. Every hook that is called appends its letter to `calls`. */
typedef struct list {
    br_tensor *tensor; /* the hooks' owner; either this or `module` is NULL */
    br_module *module;
    uint64_t (*add)(struct list *list, const char *letter);
    uint64_t handles[5];
    char calls[32];
} list;

static list *current;

static void remove_from(list *l, uint64_t handle)
{
    if (l->tensor)
        br_remove_hook(l->tensor, handle);
    else
        br_module_remove_hook(l->module, handle);
}

/* Hook 'a' removes itself. 'b' removes itself and the next one, 'c'. 'd' adds 'e'. */
static void called(const char *letter)
{
    list *l = current;
    strncat(l->calls, letter, 1);
    if (*letter == 'a' || *letter == 'b')
        remove_from(l, l->handles[*letter - 'a']);
    if (*letter == 'b')
        remove_from(l, l->handles[2]);
    if (*letter == 'd' && !l->handles[4])
        l->handles[4] = l->add(l, "e");
}

static void check_list(list *l, void (*run)(list *))
{
    current = l;
    for (int i = 0; i < 4; i++)
        l->handles[i] = l->add(l, &"abcd"[i]);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            cr_assert_neq(l->handles[i], l->handles[k]);
    run(l);
    cr_assert_str_eq(l->calls, "abd", "hooks called: %s", l->calls);
    l->calls[0] = '\0';
    run(l);
    cr_assert_str_eq(l->calls, "de", "hooks called: %s", l->calls);
    /* Handles are never reused, so removing one a second time removes no other hook. */
    remove_from(l, l->handles[3]);
    remove_from(l, l->handles[4]);
    l->handles[2] = l->add(l, "c");
    for (int i = 0; i < 5; i++)
        if (i != 2)
            remove_from(l, l->handles[i]);
    l->calls[0] = '\0';
    run(l);
    cr_assert_str_eq(l->calls, "c", "hooks called: %s", l->calls);
    remove_from(l, l->handles[2]);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static br_tensor *on_gradient(br_tensor *grad, void *context)
{
    called(context);
    return br_mul_scalar(grad, 1);
}

static void on_accumulated(br_tensor *t, void *context)
{
    (void)t;
    called(context);
}

static uint64_t add_gradient_hook(list *l, const char *letter)
{
    return br_register_hook(l->tensor, on_gradient, (void *)letter);
}

static uint64_t add_accumulated_hook(list *l, const char *letter)
{
    return br_register_post_accumulate_grad_hook(l->tensor, on_accumulated, (void *)letter);
}

static void run_backward(list *l)
{
    br_scope *scope = br_scope_begin();
    cr_assert(br_backward_with(br_sum(br_mul(l->tensor, l->tensor)),
                               BR_OPTIONS(br_backward, .retain_graph = true)));
    br_scope_end(scope);
}

Test(hook_lists, hooks_of_leaves_and_results)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(iota(BR_SHAPE(2), BR_F64));
    check_list(&(list){ .tensor = x, .add = add_gradient_hook }, run_backward);
    check_list(&(list){ .tensor = br_mul_scalar(x, 2), .add = add_gradient_hook }, run_backward);
    check_list(&(list){ .tensor = x, .add = add_accumulated_hook }, run_backward);
    br_scope_end(scope);
    check_ok();
}

static br_tensor *fail_on_gradient(br_tensor *grad, void *context)
{
    br_raise(BR_ERROR_STATE, "the first hook failed");
    return context ? NULL : grad;
}

static void fail_on_accumulated(br_tensor *t, void *context)
{
    (void)fail_on_gradient(t, context);
}

/* After a hook that fails, no other hook runs, and its error stays. */
Test(hook_lists, hooks_after_one_that_failed)
{
    static list l;
    current = &l;
    for (int kind = 0; kind < 3; kind++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf(iota(BR_SHAPE(2), BR_F64)), *y = br_mul_scalar(x, 2);
        if (kind < 2) {
            br_register_hook(kind ? y : x, fail_on_gradient, NULL);
            br_register_hook(kind ? y : x, on_gradient, "x");
        } else {
            br_register_post_accumulate_grad_hook(x, fail_on_accumulated, NULL);
        }
        br_register_post_accumulate_grad_hook(x, on_accumulated, "x");
        check_fails(br_backward(br_sum(y)), "the first hook failed");
        cr_assert_str_eq(l.calls, "", "kind %d: %s", kind, l.calls);
        br_scope_end(scope);
    }
}

static br_tensor *detach(br_tensor *grad, void *context)
{
    called("x");
    br_detach_(context);
    return grad;
}

/* A hook detaches its own leaf, which frees the list that is being called, or another leaf whose
 * hooks have not yet run. */
Test(hook_lists, hooks_that_detach)
{
    list l = { .calls = "" };
    current = &l;
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(iota(BR_SHAPE(2), BR_F64)), *y = leaf(iota(BR_SHAPE(2), BR_F64));
    br_register_hook(x, detach, x);
    br_register_hook(x, on_gradient, "d");
    cr_assert(br_backward(br_sum(br_mul(x, x))));
    cr_assert_str_eq(l.calls, "x");
    cr_assert_not(br_requires_grad(x));
    br_set_requires_grad(x, true);
    br_register_hook(x, detach, y);
    br_register_hook(y, detach, x);
    cr_assert(br_backward(br_sum(br_mul(x, y))));
    cr_assert_str_eq(l.calls, "xx", "the other leaf's hook must not run");
    br_scope_end(scope);
    check_ok();
}

/* ---- Modules --------------------------------------------------------------------------------- */

static br_tensor *on_module(br_module *module, br_tensor *t, void *context)
{
    called(context);
    return module ? NULL : t;
}

static br_tensor *on_module_backward(br_module *module, br_tensor *grad_input,
                                     br_tensor *grad_output, void *context)
{
    called(context);
    return module && grad_output ? NULL : grad_input;
}

static uint64_t add_pre_hook(list *l, const char *letter)
{
    return br_module_register_forward_pre_hook(l->module, on_module, (void *)letter);
}

static uint64_t add_forward_hook(list *l, const char *letter)
{
    return br_module_register_forward_hook(l->module, on_module, (void *)letter);
}

static uint64_t add_backward_pre_hook(list *l, const char *letter)
{
    return br_module_register_full_backward_pre_hook(l->module, on_module, (void *)letter);
}

static uint64_t add_backward_hook(list *l, const char *letter)
{
    return br_module_register_full_backward_hook(l->module, on_module_backward, (void *)letter);
}

static void run_module(list *l)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(br_ones(BR_SHAPE(1, 2), BR_F32));
    cr_assert(br_backward(br_sum(br_forward(l->module, x))));
    br_scope_end(scope);
}

Test(hook_lists, hooks_of_modules)
{
    br_linear *linear = br_linear_new(2, 2, true);
    uint64_t (*const adds[])(list *, const char *) = { add_pre_hook, add_forward_hook,
                                                       add_backward_pre_hook, add_backward_hook };
    for (int i = 0; i < 4; i++)
        check_list(&(list){ .module = br_base(linear), .add = adds[i] }, run_module);
    br_module_free(linear);
    check_ok();
}
