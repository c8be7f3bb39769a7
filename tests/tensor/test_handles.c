/* tests/tensor/test_handles.c - without the debug mode, too, the use of an ended handle is an
 * error, as long as its memory has not been used for something else. */
#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <brasa/brasa.h>

/* AddressSanitizer must see every block when it is freed. It then reports the use itself. */
static void begin(void)
{
    if (!br__caches_objects())
        cr_skip_test("AddressSanitizer reports the use of freed memory");
    br__debug_set(false);
    check_begin();
}

TestSuite(handles, .init = begin, .fini = check_end);

static const int64_t two[] = { 2 };

static br_tensor *ended_tensor(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_ones(1, two, BR_F32);
    br_scope_end(scope);
    return t;
}

Test(handles, operations_name_a_tensor_whose_scope_has_ended)
{
    br_tensor *x = br_ones(1, two, BR_F32), *gone = ended_tensor();
    check_fails(br_add(x, gone),
                "add: b is a tensor [2] (f32) that was freed when its scope ended");
    check_fails(br_add(gone, x), "use br_scope_return() or br_retain() to keep a tensor");
    check_fails(br_matmul(gone, gone), "matmul: ");
    check_fails(br_sum(gone), "sum: ");
    check_fails(br_reshape(gone, 1, two), "reshape: ");
    check_fails(br_cat(2, (br_tensor *[]){ x, gone }, 0), "cat: tensor 1 is a tensor [2] (f32)");
    check_fails(br_stack(2, (br_tensor *[]){ gone, x }, 0), "stack: tensor 0 is a tensor");
    check_fails(br_add_(x, gone), "add_: ");
    check_fails(br_retain(gone), "retain: ");
    check_fails(br_scope_return(NULL, gone), "scope_return: ");
    check_fails(br_tensor_dataset_new(2, (br_tensor *[]){ x, gone }),
                "tensor_dataset: tensor 1 is a tensor");
    cr_assert_eq(br_data_f32(x)[1], 1.0F);
}

Test(handles, accessors_refuse_a_tensor_whose_scope_has_ended)
{
    br_tensor *gone = ended_tensor();
    check_fails(br_data(gone), "data: t is a tensor [2] (f32) that was freed when its scope ended");
    check_fails(br_data_f32(gone), "data_f32: ");
    check_fails(br_sizes(gone), "sizes: ");
    check_fails(br_numel(gone) >= 0, "numel: ");
    check_fails(br_ndim(gone) >= 0, "ndim: ");
    check_fails(br_size(gone, 0) >= 0, "size: ");
    check_fails(br_item(gone) == 1, "item: ");
    check_fails(br_at(gone, BR_DIMS(0)) == 1, "at: ");
    check_fails(br_grad_of(gone), "grad_of: ");
    check_fails(br_set_requires_grad(gone, true), "requires_grad: ");
    br_print(stdout, gone);
    check_fails(false, "print: ");
}

Test(handles, autograd_and_modules_refuse_a_tensor_whose_scope_has_ended)
{
    br_linear *linear = br_linear_new(2, 1, true);
    br_tensor *x = br_ones(1, two, BR_F32);
    br_scope *scope = br_scope_begin();
    br_tensor *loss = br_sum(br_linear_forward(linear, x)), *hidden = br_ones(1, two, BR_F32);
    br_scope_end(scope);
    br_backward(loss);
    check_fails(false, "backward: ");
    cr_assert_null(br_grad_of(linear->weight));
    check_fails(br_linear_forward(linear, hidden), "was freed when its scope ended");
    check_fails(br_forward(linear, hidden), "was freed when its scope ended");
    br_module_free(linear);
}

Test(handles, a_tensor_is_released_more_often_than_retained)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(1, two, BR_F32);
    br_release(x);
    check_fails(false, "release: t [2] was released more often than retained");
    br_tensor *mine = br_retain(x);
    br_scope_end(scope);
    br_release(mine);
    br_release(mine);
    check_fails(false, "release: t is a tensor [2] (f32) that was already freed");
    check_fails(br_neg(mine), "neg: ");
}

/* A tensor that the program keeps from one step to the next is recognized although each step makes
 * other tensors first. */
Test(handles, the_memory_of_a_tensor_is_not_reused_at_once)
{
    br_tensor *gone = NULL;
    for (int step = 0; step < 100; step++) {
        br_scope *scope = br_scope_begin();
        for (int i = 0; i < BR_SET_ASIDE / 2; i++)
            br_ones(1, two, BR_F32);
        if (gone)
            check_fails(br_neg(gone), "was freed when its scope ended");
        gone = br_ones(1, two, BR_F32);
        br_scope_end(scope);
    }
}

/* ---- Scopes ---------------------------------------------------------------------------------- */

Test(handles, a_scope_ends_twice)
{
    br_scope *scope = br_scope_begin();
    br_scope_end(scope);
    br_scope *open[8];
    for (int i = 0; i < 8; i++)
        open[i] = br_scope_begin();
    br_tensor *x = br_ones(1, two, BR_F32);
    br_scope_end(scope);
    check_fails(false, "scope_end: scope ");
    cr_assert_eq(br_data_f32(x)[1], 1.0F);
    check_fails(br_scope_return(scope, x), "scope_return: scope ");
    cr_assert_eq(br_scope_current(), open[7]);
    br_scope_end(open[0]);
    br_scope_end(open[3]);
    check_fails(false, "scope_end: scope ");
}

/* ---- Other objects --------------------------------------------------------------------------- */

/* Frees an object twice and asserts that the second call names it. */
#define FREED_TWICE(object, end, text) \
    do {                               \
        void *freed = (object);        \
        cr_assert_not_null(freed);     \
        end(freed);                    \
        cr_assert(!br_failed());       \
        end(freed);                    \
        check_fails(false, text);      \
    } while (0)

Test(handles, objects_are_freed_twice)
{
    br_linear *model = br_linear_new(2, 2, true);
    FREED_TWICE(br_linear_new(2, 2, true), br_module_free,
                "module_free: module is a module that was already freed");
    br_optim *optim = br_adam(br_base(model), NULL);
    FREED_TWICE(br_step_lr(optim, 1, 0.5), br_scheduler_free,
                "scheduler_free: s is a scheduler that was already freed");
    FREED_TWICE(optim, br_optim_free, "optim_free: optim is an optimizer that was already freed");
    FREED_TWICE(br_averaged_model_new(br_base(model), 0.5), br_averaged_model_free,
                "averaged_model_free: ");
    FREED_TWICE(br_parameters(br_base(model)), br_named_list_free,
                "named_list_free: list is a list that was already freed");
    FREED_TWICE(br_vocab_new(), br_vocab_free, "vocab_free: ");
    FREED_TWICE(br_cache_new(), br_cache_free, "cache_free: ");
    FREED_TWICE(br_python_random_new(1), br_python_random_free, "python_random_free: ");
    br_tensor *x = br_ones(1, two, BR_F32);
    br_dataset *data = br_tensor_dataset_new(1, &x);
    FREED_TWICE(br_loader_new(data, NULL), br_loader_free, "loader_free: ");
    FREED_TWICE(data, br_dataset_free, "dataset_free: ");
    FREED_TWICE(br_profile_begin(), br_profile_free, "profile_free: ");
    FREED_TWICE(br_recorder_begin(), br_recorder_end, "recorder_end: ");
    FREED_TWICE(br_dist_split(NULL, 0, 0), br_dist_group_free, "dist_group_free: ");
    br_module_free(model);
}

Test(handles, freed_objects_are_used)
{
    br_linear *model = br_linear_new(2, 2, true);
    br_optim *optim = br_adam(br_base(model), NULL);
    br_named_list *list = br_parameters(br_base(model));
    br_named_list_free(list);
    check_fails(br_named_list_get(list, "weight"), "named_list_get: list is a list that was");
    check_fails(br_adam_new(list, NULL), "is a list that was already freed");
    br_optim_free(optim);
    br_optim_step(optim);
    check_fails(false, "is an optimizer that was already freed");
    br_module_free(model);
    check_fails(br_forward(model, br_ones(1, two, BR_F32)), "is a module that was already freed");
    check_fails(br_parameters(br_base(model)), "is a module that was already freed");
    check_fails(br_adam(br_base(model), NULL), "is a module that was already freed");
}

Test(handles, children_are_freed_with_their_parent)
{
    br_linear *child = br_linear_new(2, 2, true);
    br_module_list *parent = br_module_list_new();
    br_module_list_append(parent, child);
    br_module_free(parent);
    check_fails(br_forward(child, br_ones(1, two, BR_F32)), "is a module that was already freed");
    br_module_free(child);
    check_fails(false, "module_free: module is a module that was already freed");
}

Test(handles, objects_of_another_kind)
{
    br_linear *model = br_linear_new(2, 2, true);
    br_optim *optim = br_adam(br_base(model), NULL);
    check_fails(br_forward(optim, br_ones(1, two, BR_F32)), "module must be a module, but it is");
    br_module_free(optim);
    check_fails(false, "module_free: module must be a module, but it is");
    br_optim_free(optim);
    br_module_free(model);
}
