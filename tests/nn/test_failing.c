/* tests/nn/test_failing.c - makes every allocation of the module functions fail in turn. */
#include "tensor/tensor_internal.h"
#include "tests/memory.h"

#include <brasa/nn.h>

TestSuite(nn_failing, .init = check_begin, .fini = check_end);

typedef struct {
    br_module base;
    br_module_list *layers;
    br_tensor *scale;
} model;

static model *model_new(void)
{
    br_scope *scope = br_scope_begin();
    model *self = br_module_new(model);
    self->layers = br_child(self, "layers", br_module_list_new());
    br_module_list_append(self->layers, br_embedding_new(3, 2, 0));
    br_module_list_append(self->layers, br_linear_new(2, 2, true));
    br_module_list_append(self->layers, br_layer_norm_new(2, NULL));
    br_module_list_append(self->layers, br_sequential_new(BR_MODULES(br_relu_new())));
    self->scale = br_parameter(self, "scale", br_ones(BR_SHAPE(2), BR_F32));
    br_buffer(self, "count", br_zeros(BR_SCALAR, BR_I64));
    br_scope_end(scope);
    return self;
}

static br_tensor *model_forward(model *self, br_tensor *x)
{
    br_enter(self);
    for (int64_t i = 0; i < br_module_list_size(self->layers); i++)
        x = br_forward(br_module_list_at(self->layers, i), x);
    return br_leave(self, br_mul(x, self->scale));
}

static bool construct(void)
{
    model *m = model_new();
    cr_assert_not_null(m);
    if (br_failed()) {
        br_clear_error(); /* even with memory available again, forward must fail */
        counted.left = INT64_MAX;
        br_scope *scope = br_scope_begin();
        br_tensor *index = br_zeros(BR_SHAPE(1), BR_I64);
        cr_assert_null(model_forward(m, index));
        br_scope_end(scope);
        br_clear_error();
        br_raise(BR_ERROR_MEMORY, "the constructor failed");
    }
    br_module_free(m);
    return !br_failed();
}

Test(nn_failing, constructors)
{
    fail_in_turn(construct, "construct");
}

/* The constructor also fails if an allocation fails after the weight was registered: here, when row
 * 0 is set to zero. */
static bool construct_layer(void)
{
    br_embedding *e = br_embedding_new(3, 2, 0);
    if (br_failed()) {
        br_clear_error();
        counted.left = INT64_MAX;
        br_scope *scope = br_scope_begin();
        cr_assert_null(br_embedding_forward(e, br_zeros(BR_SHAPE(1), BR_I64)));
        cr_assert_neq(br_error_code(), BR_ERROR_MEMORY);
        br_scope_end(scope);
        br_clear_error();
        br_raise(BR_ERROR_MEMORY, "the constructor failed");
    }
    br_module_free(e);
    return !br_failed();
}

Test(nn_failing, layers)
{
    fail_in_turn(construct_layer, "construct layer");
}

static bool run_forward(void)
{
    model *m = model_new();
    br_scope *scope = br_scope_begin();
    br_recorder *recorder = br_recorder_begin();
    br_tensor *y = br_tap("y", model_forward(m, br_zeros(BR_SHAPE(1), BR_I64)));
    cr_assert_eq(y != NULL, !br_failed(), "%s", br_error_message());
    br_recorder_end(recorder);
    br_scope_end(scope);
    br_module_free(m);
    return !br_failed();
}

Test(nn_failing, forward)
{
    fail_in_turn(run_forward, "run forward");
}

/* A module enters itself recursively. If an inner br_module_enter() cannot allocate its scope, the
 * outer scope must stay open. */
static bool run_nested(void)
{
    br_module *m = br_module_create(sizeof *m, "nested");
    if (br_module_enter(m)) {
        const br_scope *outer = br__thread.scope;
        for (int i = 0; i < 2; i++) {
            if (br_module_enter(m)) {
                if (br_module_enter(m))
                    cr_assert_null(br_module_leave(m, NULL));
                cr_assert_null(br_module_leave(m, NULL));
            }
            cr_assert_eq(br__thread.scope, outer);
        }
        br_module_leave(m, NULL);
    }
    cr_assert_null(br__thread.scope);
    br_module_free(m);
    return !br_failed();
}

Test(nn_failing, nested_forward)
{
    fail_in_turn(run_nested, "run nested");
}

static bool run_lists(void)
{
    model *m = model_new();
    br_named_list *list = br_state_dict(br_base(m));
    br_load_report report = { 0 };
    br_load_state_dict(br_base(m), list, true, &report);
    br_load_report_clear(&report);
    br_named_list_free(list);
    br_module_requires_grad(br_base(m), "layers.*", false);
    br_free(br_summary(br_base(m)));
    br_module_to(br_base(m), BR_F64);
    br_module_free(m);
    return !br_failed();
}

Test(nn_failing, lists_and_reports)
{
    fail_in_turn(run_lists, "run lists");
}

Test(nn_failing, a_struct_too_large_is_refused)
{
    typedef struct {
        br_module base;
        char more[BR_MODULE_MAX_SIZE];
    } giant;
    giant *g = br_module_new(giant);
    cr_assert_not_null(g);
    cr_assert(strstr(br_error_message(), "struct giant has 4104 bytes, must have 8 .. 4096"));
    br_clear_error();
    cr_assert_not(br_module_enter(br_base(g)));
    cr_assert(strstr(br_error_message(), "the module cannot be used: its constructor failed"));
    br_clear_error();
    br_module_free(g);
}

Test(nn_failing, a_module_created_under_a_pending_error_is_empty)
{
    br_raise(BR_ERROR_ARGUMENT, "an earlier error");
    br_linear *linear = br_linear_new(2, 3, true);
    cr_assert_not_null(linear);
    cr_assert_null(linear->weight);
    cr_assert_str_eq(br_error_message(), "an earlier error");
    br_clear_error();
    cr_assert_eq(br_count_parameters(br_base(linear), false), 0);
    check_fails(br_linear_forward(linear, NULL), "Linear is incomplete: its constructor failed");
    br_module_free(linear);
}
