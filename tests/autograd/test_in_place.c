/* tests/autograd/test_in_place.c - recorded in-place operations on views and on tensors that have
 * views: compares first- and second-order gradients with PyTorch's (record_in_place.py), and tests
 * errors and lifetimes. */
#include "tensor/tensor_internal.h"
#include "tests/autograd/in_place_values.h"
#include "tests/memory.h"

#include <brasa/ops.h>

TestSuite(recorded_in_place, .init = check_begin, .fini = check_end);

/* ---- Against PyTorch ------------------------------------------------------------------------- */

static br_tensor *row_of(br_tensor *t, int64_t i)
{
    return br_select(t, 0, i);
}

static br_tensor *sum_of_squares(br_tensor *t)
{
    return br_sum(br_mul(t, t));
}

static br_tensor *sum_of_cubes(br_tensor *t)
{
    return br_sum(br_mul(br_mul(t, t), t));
}

static br_tensor *change_view(br_tensor *x, br_tensor *w)
{
    br_tensor *y = br_mul_scalar(x, 2);
    br_mul_(row_of(y, 1), w);
    return sum_of_squares(y);
}

static br_tensor *change_base(br_tensor *x, br_tensor *w)
{
    br_tensor *y = br_mul_scalar(x, 2), *turned = br_transpose(y, 0, 1);
    br_mul_(y, w);
    return sum_of_cubes(turned);
}

static br_tensor *fill_rows(br_tensor *x, br_tensor *w)
{
    br_tensor *rows = br_zeros(BR_SHAPE(3, 4), BR_F64);
    for (int i = 0; i < 3; i++)
        br_copy_(row_of(rows, i), br_mul(row_of(x, i), w));
    return sum_of_cubes(rows);
}

static br_tensor *change_overlapping_views(br_tensor *x, br_tensor *w)
{
    br_tensor *y = br_mul_scalar(x, 2);
    br_tensor *columns = br_slice(y, 1, 1, 3, 1), *row = row_of(y, 0);
    br_sin_(columns);
    br_mul_(row, w);
    return br_add(br_add(sum_of_squares(columns), br_sum(br_mul(row, w))), sum_of_squares(y));
}

static br_tensor *change_view_of_view(br_tensor *x, br_tensor *w)
{
    br_tensor *y = br_sin(x), *part = br_slice(br_transpose(y, 0, 1), 0, 1, 3, 1);
    br_mul_(row_of(part, 0), br_slice(w, 0, 0, 3, 1));
    br_add_scalar_(part, 1);
    br_mul_(part, br_clone(part));
    return sum_of_cubes(y);
}

static br_tensor *forget(br_tensor *x, br_tensor *w)
{
    br_tensor *y = br_mul(x, x);
    br_zero_(row_of(y, 1));
    br_fill_(br_diagonal(y, 0, 0, 1), 3);
    br_mul_(br_select(y, 1, 2), br_clone(br_select(y, 1, 1)));
    return br_sum(br_mul(br_mul(y, w), y));
}

static br_tensor *look_through_expanded(br_tensor *x, br_tensor *w)
{
    br_tensor *y = br_mul_scalar(x, 2);
    br_tensor *wide = br_expand(br_slice(y, 0, 0, 1, 1), BR_SHAPE(3, 4));
    br_tensor *windows = br_unfold(br_reshape(y, BR_SHAPE(12)), 0, 4, 2);
    br_mul_(y, w);
    return br_add(br_sum(br_mul(br_mul(wide, wide), x)),
                  br_sum(br_mul(br_mul(windows, windows), w)));
}

static br_tensor *begin_without_gradients(br_tensor *x, br_tensor *w)
{
    br_tensor *y = br_ones(BR_SHAPE(3, 4), BR_F64), *row = row_of(y, 0), *before = row_of(y, 1);
    br_mul_(row, w);
    br_mul_(br_select(y, 1, 1), br_select(x, 1, 0));
    return br_add(sum_of_squares(y), br_sum(br_mul(row, before)));
}

static br_tensor *change_detached(br_tensor *x, br_tensor *w)
{
    br_tensor *y = br_detach(br_mul_scalar(x, 2));
    br_mul_(row_of(y, 2), w);
    br_mul_(y, x);
    return sum_of_squares(y);
}

static br_tensor *filled(int ndim, const int64_t *sizes, double (*f)(double), double offset)
{
    br_tensor *t = br_empty(ndim, sizes, BR_F64);
    for (int64_t i = 0; i < br_numel(t); i++)
        br_data_f64(t)[i] = f((double)i + offset);
    return br_set_requires_grad(t, true);
}

static void check_values(const char *name, const double **want, br_tensor *got)
{
    got = br_contiguous(br_detach(got));
    check_ok();
    for (int64_t i = 0; i < br_numel(got); i++, (*want)++)
        cr_assert(fabs(br_data_f64(got)[i] - **want) <= 1e-13 * (1 + fabs(**want)),
                  "%s: %.17g, expected %.17g", name, br_data_f64(got)[i], **want);
}

static void check_case(const char *name, br_tensor *(*f)(br_tensor *, br_tensor *),
                       const double *want)
{
    br_scope *scope = br_scope_begin();
    br_tensor *inputs[] = { filled(BR_SHAPE(3, 4), sin, 1), filled(BR_SHAPE(4), cos, 0) };
    br_tensor *first[2], *second[2], *out = f(inputs[0], inputs[1]);
    check_values(name, &want, out);
    br_grad(1, &out, 2, inputs, first, BR_OPTIONS(br_grad, .create_graph = true));
    for (int i = 0; i < 2; i++)
        check_values(name, &want, first[i]);
    br_tensor *squares = br_add(sum_of_squares(first[0]), sum_of_squares(first[1]));
    br_grad(1, &squares, 2, inputs, second, BR_OPTIONS(br_grad, .materialize_grads = true));
    for (int i = 0; i < 2; i++)
        check_values(name, &want, second[i]);
    br_scope_end(scope);
}

#define CASE(name)                 \
    {                              \
#        name, name, name##_values \
    }
static const struct {
    const char *name;
    br_tensor *(*f)(br_tensor *x, br_tensor *w);
    const double *values;
} cases[] = {
    CASE(change_view),
    CASE(change_base),
    CASE(fill_rows),
    CASE(change_overlapping_views),
    CASE(change_view_of_view),
    CASE(forget),
    CASE(look_through_expanded),
    CASE(begin_without_gradients),
    CASE(change_detached),
};
enum { CASES = sizeof cases / sizeof *cases };

Test(recorded_in_place, gradients_equal_pytorch)
{
    for (int i = 0; i < CASES; i++)
        check_case(cases[i].name, cases[i].f, cases[i].values);
}

static int failing_case;

static bool run_case(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(3, 4), BR_F64), true);
    br_tensor *w = br_set_requires_grad(br_ones(BR_SHAPE(4), BR_F64), true);
    bool ok = br_backward(cases[failing_case].f(x, w));
    br_scope_end(scope);
    return ok;
}

Test(recorded_in_place, failing_allocations)
{
    for (failing_case = 0; failing_case < CASES; failing_case++)
        fail_in_turn(run_case, cases[failing_case].name);
}

/* ---- Histories ------------------------------------------------------------------------------- */

static br_tensor *leaf(void)
{
    return br_set_requires_grad(br_ones(BR_SHAPE(2, 2), BR_F64), true);
}

/* A view requires grad as soon as its base does. */
Test(recorded_in_place, views_follow_their_base)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *y = br_zeros(BR_SHAPE(2, 2), BR_F64), *row = row_of(y, 0);
    br_tensor *apart = br_detach(y);
    cr_assert_not(br_requires_grad(row));
    br_add_(row_of(y, 1), row_of(x, 0));
    cr_assert(br_requires_grad(row) && br_requires_grad(y) && !br_requires_grad(apart));
    cr_assert_not(br_is_leaf(row));
    br_retain_grad(row);
    br_backward(br_sum(br_mul(row, br_select(y, 1, 0))));
    check_ok();
    cr_assert_eq(br_at(br_grad_of(row), BR_DIMS(1)), 1);
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(0, 0)), 0);
    br_scope_end(scope);
}

/* A view remains usable after the scope of its base has ended. */
Test(recorded_in_place, a_view_outlives_its_base)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *row = NULL;
    br_scope *inner = br_scope_begin();
    row = br_scope_return(inner, row_of(br_mul_scalar(x, 3), 0));
    br_scope_end(inner);
    br_mul_(row, row_of(x, 1));
    br_backward(br_sum(row));
    check_ok();
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(0, 0)), 3);
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(1, 1)), 3);
    br_scope_end(scope);
}

Test(recorded_in_place, changing_a_saved_value_is_an_error)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *y = br_exp(x);
    br_add_scalar_(row_of(y, 0), 1);
    check_fails(br_backward(br_sum(y)),
                "exp: a value [2, 2] needed for its gradient was changed in place by add_scalar_: "
                "change a copy (br_clone()), or use an operation that is not in place; "
                "br_set_detect_anomaly(BR_ANOMALY_NAN) before forward adds the name of the module "
                "to this message");
    br_scope_end(scope);
}

Test(recorded_in_place, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *w = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F64), true);
    check_fails(br_add_scalar_(row_of(x, 0), 1), "a [2] is a view of a leaf that requires grad");
    br_tensor *y = br_mul_scalar(x, 2);
    br_scope *no_grad = br_no_grad_begin();
    br_tensor *hidden = br_scope_return(no_grad, row_of(y, 0));
    cr_assert_not_null(br_add_scalar_(row_of(x, 0), 1));
    br_scope_end(no_grad);
    check_fails(br_mul_(hidden, w), "made in a no-grad scope");
    check_fails(br_mul_(br_slice(hidden, 0, 0, 2, 1), w), "made in a no-grad scope");
    br_tensor *turned = br_detach(br_transpose(y, 0, 1));
    check_fails(br_mul_(row_of(turned, 0), w), "which is not contiguous");
    check_fails(br_before_in_place("own", NULL, 0, NULL), "own: t is NULL");
    check_fails(br_before_in_place("own", x, BR_INPUTS(x)), "own: t [2, 2] is a leaf");
    br_scope_end(scope);
}

/* ---- Views made in a no-grad scope ----------------------------------------------------------- */

/* Each kind of view of a [2, 2]. */
static br_tensor *view_of(br_tensor *x, int kind)
{
    br_tensor *parts[2] = { NULL };
    switch (kind) {
    case 0:
        return br_slice(x, 0, 0, 2, 1);
    case 1:
        return br_select(x, 1, 0);
    case 2:
        return br_narrow(x, 0, 1, 1);
    case 3:
        return br_transpose(x, 0, 1);
    case 4:
        return br_t(x);
    case 5:
        return br_permute(x, BR_DIMS(1, 0));
    case 6:
        return br_movedim(x, BR_DIMS(0), BR_DIMS(1));
    case 7:
        return br_view(x, BR_SHAPE(4));
    case 8:
        return br_reshape(x, BR_SHAPE(1, 4));
    case 9:
        return br_flatten(x, 0, -1);
    case 10:
        return br_unflatten(x, 0, BR_SHAPE(2, 1));
    case 11:
        return br_unsqueeze(x, 0);
    case 12:
        return br_squeeze(x, 0);
    case 13:
        return br_squeeze_dims(x, BR_DIMS(0, 1));
    case 14:
        return br_unfold(x, 0, 1, 1);
    case 15:
        return br_diagonal(x, 0, 0, 1);
    case 16:
        return br_expand(x, BR_SHAPE(2, 2));
    case 17:
        return br_split(x, 1, 0, 2, parts) == 2 ? parts[1] : NULL;
    case 18:
        return br_chunk(x, 2, 1, 2, parts) == 2 ? parts[1] : NULL;
    case 19:
        return br_unbind(x, 0, 2, parts) == 2 ? parts[1] : NULL;
    }
    return NULL;
}

enum { VIEWS = 20 };

/* Each in-place operation on a view. `c` is a constant of the same shape. */
static br_tensor *changed_by(br_tensor *v, int operation)
{
    static br_tensor *(*const unary[])(br_tensor *) = {
        br_neg_,   br_abs_,   br_sign_,   br_floor_,      br_ceil_,    br_round_, br_trunc_,
        br_exp_,   br_exp2_,  br_expm1_,  br_log_,        br_log2_,    br_log10_, br_log1p_,
        br_sqrt_,  br_rsqrt_, br_square_, br_reciprocal_, br_sin_,     br_cos_,   br_tan_,
        br_asin_,  br_acos_,  br_atan_,   br_sinh_,       br_cosh_,    br_tanh_,  br_asinh_,
        br_acosh_, br_atanh_, br_erf_,    br_erfc_,       br_sigmoid_, br_relu_,  br_silu_,
        br_zero_,  br_sinc_,
    };
    static br_tensor *(*const binary[])(br_tensor *, br_tensor *) = {
        br_add_,   br_sub_,  br_mul_,       br_div_,          br_pow_,   br_atan2_,
        br_hypot_, br_fmod_, br_remainder_, br_floor_divide_, br_xlogy_, br_copy_,
    };
    static br_tensor *(*const scalar[])(br_tensor *, double) = {
        br_add_scalar_, br_sub_scalar_, br_mul_scalar_, br_div_scalar_, br_pow_scalar_, br_fill_,
    };
    const int n_unary = sizeof unary / sizeof *unary, n_binary = sizeof binary / sizeof *binary;
    const int n_scalar = sizeof scalar / sizeof *scalar;
    if (operation < n_unary)
        return unary[operation](v);
    operation -= n_unary;
    br_tensor *c = br_full(br_ndim(v), br_sizes(v), 0.5, BR_F64),
              *index = br_zeros(br_ndim(v), br_sizes(v), BR_I64);
    if (operation < n_binary)
        return binary[operation](v, c);
    operation -= n_binary;
    if (operation < n_scalar)
        return scalar[operation](v, 0.5);
    switch (operation - n_scalar) {
    case 0:
        return br_gelu_(v, BR_GELU_TANH);
    case 1:
        return br_clamp_(v, 0, 1);
    case 2:
        return br_lerp_(v, c, c);
    case 3:
        return br_addcmul_(v, c, c, 2);
    case 4:
        return br_addcdiv_(v, c, c, 2);
    case 5:
        return br_masked_fill_(v, br_ge(c, c), 7);
    case 6:
        return br_scatter_(v, 0, index, c);
    case 7:
        return br_scatter_scalar_(v, 0, index, 7);
    case 8:
        return br_scatter_add_(v, 0, index, c);
    case 9:
        return br_index_fill_(v, 0, br_zeros(BR_SHAPE(1), BR_I64), 7);
    case 10:
        return br_index_copy_(v, 0, br_zeros(BR_SHAPE(1), BR_I64), br_narrow(c, 0, 0, 1));
    case 11:
        return br_uniform_(v, 0, 1);
    case 12:
        return br_normal_(v, 0, 1);
    case 13:
        return br_ndim(v) == 2 ? br_fill_diagonal_(v, 7, true) : br_fill_(v, 7);
    }
    return NULL;
}

enum { OPERATIONS = 36 + 12 + 6 + 14 };

/* PyTorch refuses every change of such a view in grad mode if the viewed tensor requires grad: the
 * tensor would change without a change of its gradient. */
Test(recorded_in_place, views_made_without_grad_mode)
{
    for (int of_leaf = 0; of_leaf < 2; of_leaf++)
        for (int kind = 0; kind < VIEWS; kind++)
            for (int operation = 0; operation < OPERATIONS; operation++) {
                br_scope *scope = br_scope_begin();
                br_tensor *x = leaf(), *y = of_leaf ? x : br_mul_scalar(x, 1);
                br_scope *no_grad = br_no_grad_begin();
                br_tensor *v = br_scope_return(no_grad, view_of(y, kind));
                br_scope_end(no_grad);
                br_tensor *before = br_clone(v);
                check_ok();
                if (operation % 2)
                    v = br_slice(v, 0, 0, br_size(v, 0), 1); /* a view of the view */
                uint64_t version = br_tensor_version(y);
                br_tensor *changed = changed_by(v, operation);
                cr_assert(!changed && br_failed(), "view %d, operation %d", kind, operation);
                cr_assert(strstr(br_error_message(), "is a view made in a no-grad scope"), "%s",
                          br_error_message());
                br_clear_error();
                cr_assert_eq(br_tensor_version(y), version);
                cr_assert(br_equal(v, before), "view %d, operation %d has written", kind,
                          operation);
                no_grad = br_no_grad_begin();
                cr_assert_not_null(changed_by(v, operation), "%s", br_error_message());
                br_scope_end(no_grad);
                br_scope_end(scope);
            }
}

/* A view of a constant may change, but not by an operation that is recorded; nothing is written
 * then. */
Test(recorded_in_place, views_of_constants_made_without_grad_mode)
{
    br_scope *scope = br_scope_begin();
    br_tensor *w = leaf(), *c = br_ones(BR_SHAPE(2, 2), BR_F64),
              *index = br_zeros(BR_SHAPE(2, 2), BR_I64);
    br_scope *no_grad = br_no_grad_begin();
    br_tensor *v = br_scope_return(no_grad, br_transpose(c, 0, 1));
    br_scope_end(no_grad);
    cr_assert_not_null(br_add_scalar_(v, 1));
    check_fails(br_add_(v, w), "is a view made in a no-grad scope");
    check_fails(br_mul_(v, w), "is a view made in a no-grad scope");
    check_fails(br_div_(v, w), "is a view made in a no-grad scope");
    check_fails(br_copy_(v, w), "is a view made in a no-grad scope");
    check_fails(br_lerp_(v, v, w), "is a view made in a no-grad scope");
    check_fails(br_addcmul_(v, v, w, 1), "is a view made in a no-grad scope");
    check_fails(br_addcdiv_(v, w, v, 1), "is a view made in a no-grad scope");
    check_fails(br_scatter_(v, 0, index, w), "is a view made in a no-grad scope");
    check_fails(br_scatter_add_(v, 0, index, w), "is a view made in a no-grad scope");
    check_fails(br_index_copy_(v, 0, br_arange(0, 2, 1, BR_I64), w),
                "is a view made in a no-grad scope");
    cr_assert_eq(br_item(br_sum(c)), 8);
    br_scope_end(scope);
}

/* Random numbers do not depend on the old elements, and a leaf that requires grad keeps its own. */
Test(recorded_in_place, random_numbers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *y = br_mul_scalar(x, 3);
    check_fails(br_uniform_(x, 0, 1), "uniform_: t [2, 2] is a leaf that requires grad");
    check_fails(br_normal_(x, 0, 1), "normal_: t [2, 2] is a leaf that requires grad");
    br_uniform_(row_of(y, 0), 0, 1);
    br_normal_(br_select(row_of(y, 1), 0, 1), 0, 1);
    br_backward(br_sum(y));
    check_ok();
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(0, 0)), 0);
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(0, 1)), 0);
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(1, 0)), 3);
    cr_assert_eq(br_at(br_grad_of(x), BR_DIMS(1, 1)), 0);
    br_scope_end(scope);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* A view whose base was changed gets its new history only when an operation uses it. Reading
 * whether it requires grad records nothing. */
Test(recorded_in_place, getters_record_nothing)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(3), BR_F64), true);
    br_tensor *base = br_zeros(BR_SHAPE(2, 3), BR_F64), *view = row_of(base, 0);
    br_mul_(row_of(base, 1), br_ones(BR_SHAPE(3), BR_F64));
    cr_assert(!br_requires_grad(view) && br_is_leaf(view));
    br_add_(base, x);
    cr_assert(br_requires_grad(view) && !br_is_leaf(view));
    cr_assert_null(br_grad_of(view));
    cr_assert_str_eq(br_op_name(base), "add_");
    cr_assert_null(view->meta);
    cr_assert_str_eq(br_op_name(view), "view_in_place"); /* this one needs the history */
    cr_assert(br_backward(sum_of_squares(view)));
    for (int64_t i = 0; i < 3; i++)
        cr_assert_eq(br_at(br_grad_of(x), BR_SHAPE(i)), 2);
    br_scope_end(scope);
}
