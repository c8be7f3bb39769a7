/* tests/autograd/test_functional.c - compares vjp, jvp, hvp, Jacobians and Hessians with
 * torch.autograd.functional, and runs gradgradcheck on every operation. */
#include "tests/autograd/functional_values.h"
#include "tests/ops/cases.h"

#include <brasa/brasa.h>

TestSuite(functional, .init = check_begin, .fini = check_end);

/* ---- The functions of record_functional.py --------------------------------------------------- */

typedef struct point {
    br_tensor *at[2], *along[2], *vy;
} point;

static point make_point(void)
{
    return (point){
        .at = { br_from_f64(BR_SHAPE(2, 3), (double[]){ 0.3, -0.7, 1.1, 0.5, 0.9, -0.2 }),
                br_from_f64(BR_SHAPE(3, 2), (double[]){ 0.4, -0.6, 1.2, 0.1, -0.3, 0.8 }) },
        .along = { br_from_f64(BR_SHAPE(2, 3), (double[]){ 1, -2, 0.5, 0.25, 3, -1 }),
                   br_from_f64(BR_SHAPE(3, 2), (double[]){ -1, 0.5, 2, -0.75, 0.1, 1.5 }) },
        .vy = br_from_f64(BR_SHAPE(2, 2), (double[]){ 0.2, -1.3, 0.7, 2.1 }),
    };
}

static br_tensor *layer(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    br_tensor *y = br_mm(in[0], in[1]);
    return br_mul(br_softmax(y, -1), br_sin(y));
}

static br_tensor *energy(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    br_tensor *y = br_tanh(br_mm(in[0], in[1]));
    return br_add(br_sum(br_mul(y, br_mul(y, y))), br_prod(br_mul(in[0], in[0])));
}

/* Asserts that the elements of all tensors, concatenated, are these numbers. */
static void check_values(int n, br_tensor *const *tensors, const double *want)
{
    for (int i = 0; i < n; i++) {
        cr_assert_not_null(tensors[i], "%d: %s", i, br_error_message());
        br_tensor *flat = br_flatten(br_detach(tensors[i]), 0, -1);
        for (int64_t k = 0; k < br_numel(flat); k++, want++)
            check_close(br_at(flat, BR_SHAPE(k)), *want, 1e-14);
    }
}

static void check_shape(const br_tensor *t, const char *want)
{
    char shape[64];
    cr_assert_str_eq(br_shape_string(t, shape, sizeof shape), want);
}

Test(functional, vjp)
{
    br_scope *scope = br_scope_begin();
    point p = make_point();
    br_tensor *products[2], *y = br_vjp(layer, NULL, 2, p.at, p.vy, products, NULL);
    check_values(2, products, want_vjp);
    double values[4];
    cr_assert(br_copy_out(layer(p.at, 2, NULL), values, sizeof values));
    check_values(1, &y, values);
    cr_assert(!br_requires_grad(y) && !br_requires_grad(p.at[0]) && !br_grad_of(p.at[0]));
    br_scope_end(scope);
}

Test(functional, jvp)
{
    br_scope *scope = br_scope_begin();
    point p = make_point();
    br_tensor *product;
    cr_assert_not_null(br_jvp(layer, NULL, 2, p.at, p.along, &product, NULL));
    check_values(1, &product, want_jvp);
    br_scope_end(scope);
}

Test(functional, jacobian)
{
    br_scope *scope = br_scope_begin();
    point p = make_point();
    br_tensor *jacobians[2];
    cr_assert_not_null(br_jacobian(layer, NULL, 2, p.at, jacobians, NULL));
    check_values(2, jacobians, want_jacobian);
    check_shape(jacobians[0], "[2, 2, 2, 3]");
    br_scope_end(scope);
}

Test(functional, hvp_and_hessian)
{
    br_scope *scope = br_scope_begin();
    point p = make_point();
    br_tensor *products[2], *hessians[4];
    cr_assert_not_null(br_hvp(energy, NULL, 2, p.at, p.along, products, NULL));
    check_values(2, products, want_hvp);
    cr_assert_not_null(br_hessian(energy, NULL, 2, p.at, hessians, NULL));
    check_values(4, hessians, want_hessian);
    check_shape(hessians[1], "[2, 3, 3, 2]");
    br_scope_end(scope);
}

/* ---- Edge cases ------------------------------------------------------------------------------ */

static br_tensor *identity(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return in[0];
}

static br_tensor *constant(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return br_ones_like(in[0]);
}

static br_tensor *chosen_sum(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return br_sum(br_index_select(in[0], 0, in[1]));
}

static br_tensor *second_squared(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return br_mul(in[1], in[1]);
}

/* If the result does not depend on an input, the next input is still multiplied by its own v. */
Test(functional, jvp_of_a_function_that_ignores_an_input)
{
    br_scope *scope = br_scope_begin();
    br_tensor *in[] = { br_from_f64(BR_SHAPE(2), (double[]){ 1, 2 }),
                        br_from_f64(BR_SHAPE(2), (double[]){ 3, 4 }) };
    br_tensor *v[] = { br_from_f64(BR_SHAPE(2), (double[]){ 5, 6 }),
                       br_from_f64(BR_SHAPE(2), (double[]){ 7, -8 }) };
    br_tensor *product;
    cr_assert_not_null(br_jvp(second_squared, NULL, 2, in, v, &product, NULL));
    check_values(1, &product, (double[]){ 2 * 3 * 7, 2 * 4 * -8 });
    br_scope_end(scope);
}

Test(functional, linear_and_constant_functions_and_empty_inputs)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f64(BR_SHAPE(2), (double[]){ 3, 4 }), *v = br_neg(x), *j, *h[4], *in[2];
    cr_assert_not_null(br_jvp(identity, NULL, 1, &x, &v, &j, NULL), "%s", br_error_message());
    check_values(1, &j, (double[]){ -3, -4 });
    cr_assert_not_null(br_jacobian(identity, NULL, 1, &x, &j, NULL));
    check_values(1, &j, (double[]){ 1, 0, 0, 1 });
    cr_assert_not_null(br_jacobian(constant, NULL, 1, &x, &j, NULL));
    check_values(1, &j, (double[]){ 0, 0, 0, 0 });
    cr_assert_not_null(br_jvp(constant, NULL, 1, &x, &v, &j, NULL));
    check_values(1, &j, (double[]){ 0, 0 });
    in[0] = x;
    in[1] = br_from_i64(BR_SHAPE(2), (int64_t[]){ 1, 1 }); /* an index has no gradient */
    cr_assert_not_null(br_jacobian(chosen_sum, NULL, 2, in, h, NULL));
    check_values(1, h, (double[]){ 0, 2 });
    cr_assert_null(h[1]);
    cr_assert_not_null(br_hessian(chosen_sum, NULL, 2, in, h, NULL), "%s", br_error_message());
    check_values(1, h, (double[]){ 0, 0, 0, 0 });
    br_tensor *empty = br_zeros(BR_SHAPE(0, 3), BR_F64);
    cr_assert_not_null(br_jacobian(identity, NULL, 1, &empty, &j, NULL));
    check_shape(j, "[0, 3, 0, 3]");
    br_scope_end(scope);
}

/* For y = x^2 and its Jacobian J, the gradient of |Jv|^2 with respect to x is 8 x v^2. */
static br_tensor *square(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return br_mul(in[0], in[0]);
}

Test(functional, results_can_be_differentiated)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_from_f64(BR_SHAPE(1), (double[]){ 3 }), true);
    br_tensor *v = br_from_f64(BR_SHAPE(1), (double[]){ 2 }), *product;
    br_functional_options o = *BR_OPTIONS(br_functional, .create_graph = true);
    br_scope *inner = br_scope_begin();
    br_jvp(square, NULL, 1, &x, &v, &product, &o);
    br_scope_return(inner, product);
    br_scope_end(inner);
    cr_assert(br_backward(br_sum(br_mul(product, product))), "%s", br_error_message());
    check_close(br_item(br_grad_of(x)), 8 * 3 * 4, 0);
    br_set_grad(x, NULL);
    br_tensor *j, *h;
    br_jacobian(square, NULL, 1, &x, &j, &o);
    cr_assert(br_backward(br_sum(j)));
    check_close(br_item(br_grad_of(x)), 2, 0);
    br_jvp(square, NULL, 1, &x, &v, &product, NULL);
    cr_assert_not(br_requires_grad(product));
    br_hessian(square, NULL, 1, &x, &h, &o);
    check_close(br_item(h), 2, 0);
    br_scope_end(scope);
}

static br_tensor *nothing(br_tensor *const *in, int n, void *context)
{
    (void)in;
    (void)n;
    (void)context;
    return NULL;
}

Test(functional, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(2), BR_F64), *wrong = br_ones(BR_SHAPE(3), BR_F64), *r;
    check_fails(br_vjp(square, NULL, 1, &x, NULL, &r, NULL), "vjp: v is NULL");
    check_fails(br_vjp(square, NULL, 1, &x, wrong, &r, NULL),
                "vjp: v is [3] f64, but must be [2] f64 like the function's result");
    check_fails(br_jvp(square, NULL, 1, &x, &wrong, &r, NULL),
                "jvp: v is [3] f64, but must be [2] f64 like its input");
    check_fails(br_jvp(square, NULL, 1, &x, NULL, &r, NULL), "jvp: v is NULL");
    check_fails(br_hessian(square, NULL, 1, &x, &r, NULL),
                "hessian: the function returned shape [2], expected one element");
    check_fails(br_jacobian(nothing, NULL, 1, &x, &r, NULL), "returned NULL");
    check_fails(br_jacobian(square, NULL, 0, &x, &r, NULL), "at least one input");
    br_tensor *deep = br_ones(BR_SHAPE(1, 1, 1, 1, 1), BR_F64);
    check_fails(br_jacobian(square, NULL, 1, &deep, &r, NULL), "would have 10 dimensions");
    cr_assert_null(r);
    br_scope_end(scope);
}

/* ---- gradgradcheck --------------------------------------------------------------------------- */

typedef struct wrong {
    double factor;
} wrong;

static void wrong_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    const wrong *w = br_params(node);
    br_tensor *x = br_saved(node, 0);
    dx[0] = br_mul(dy, br_mul_scalar(br_exp(x), 1));
    if (w->factor != 1) /* the same value, but its own gradient is wrong */
        dx[0] =
            br_add(br_mul_scalar(dx[0], w->factor), br_mul_scalar(br_detach(dx[0]), 1 - w->factor));
}

static const br_op wrong_op = { "wrong", wrong_backward, false };

static br_tensor *exponential(br_tensor *const *in, int n, void *context)
{
    (void)n;
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = br_scope_return(scope, br_exp(in[0]));
    br_scope_end(scope);
    br_save(br_record(&wrong_op, y, BR_INPUTS(in[0]), context, sizeof(wrong)), 0, in[0]);
    return y;
}

Test(functional, gradgradcheck_finds_a_wrong_second_order_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_from_f64(BR_SHAPE(2), (double[]){ 0.3, -0.4 }), true);
    wrong right = { 1 }, half = { 0.5 };
    cr_assert(br_gradgradcheck(exponential, &right, 1, &x, TIGHTLY), "%s", br_error_message());
    cr_assert(br_gradcheck(exponential, &half, 1, &x, TIGHTLY), "%s", br_error_message());
    check_fails(br_gradgradcheck(exponential, &half, 1, &x, TIGHTLY), "gradcheck: input 0");
    check_fails(br_gradgradcheck(nothing, NULL, 1, &x, TIGHTLY), "returned NULL");
    br_scope_end(scope);
}

static br_tensor *call_seeded(br_tensor *const *x, int n, void *context)
{
    const op_case *c = context;
    if (c->random)
        br_manual_seed(7);
    return c->call(x, n, NULL);
}

Test(functional, every_operation_has_a_correct_second_order_gradient)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        if (c->no_gradient)
            continue;
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS];
        br_manual_seed(7);
        for (int i = 0; i < case_num_inputs(c); i++) {
            x[i] = case_input(c, i, &letters, BR_F64);
            if (br_is_floating(x[i]))
                br_set_requires_grad(x[i], true);
        }
        cr_expect(br_gradgradcheck(call_seeded, (void *)c, case_num_inputs(c), x, TIGHTLY),
                  "%s: %s", c->label, br_error_message());
        br_clear_error();
        br_scope_end(scope);
    }
}
