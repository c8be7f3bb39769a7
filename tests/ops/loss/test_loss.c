/* tests/ops/loss/test_loss.c - cross entropy. */
#include "ops/loss/loss_internal.h"
#include "tests/ops/torch_rows.h"
#include "tests/ops/values.h"

TestSuite(loss, .init = check_begin, .fini = check_end);

static const double tolerance[] = { [BR_F32] = 3e-6, [BR_F64] = 1e-14 };

static void check_recorded(br_tensor *input, br_tensor *target, br_cross_entropy_options options,
                           int64_t n, const double *loss, const double *dx)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_tensor *x = leaf(br_to(br_clone(input), dtype)), *grad;
        br_tensor *y = br_cross_entropy(x, target, &options);
        check_values(y, n, loss, tolerance[dtype]);
        br_tensor *dy = values(br_ndim(y), br_sizes(y), 9, dtype);
        for (int composed = 0; composed < 2; composed++) {
            br_grad(1, &y, 1, &x, &grad,
                    BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true,
                               .create_graph = composed));
            check_values(grad, br_numel(x), dx, tolerance[dtype]);
        }
    }
}

static void recorded(void)
{
    br_tensor *target = br_from_i64(BR_SHAPE(4), (int64_t[]){ 2, -100, 0, 4 });
    check_recorded(values(BR_SHAPE(4, 5), 5, BR_F64), target, br_cross_entropy_defaults(), 1,
                   cross_entropy_mean, cross_entropy_mean_dx);
    br_tensor *input = values(BR_SHAPE(2, 3, 4), 6, BR_F64);
    target = br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 0, 2, 1, 1, 2, 2, 0, 1 });
    check_recorded(input, target, *BR_OPTIONS(br_cross_entropy, .reduction = BR_REDUCTION_SUM), 1,
                   cross_entropy_sum, cross_entropy_sum_dx);
    check_recorded(input, target,
                   *BR_OPTIONS(br_cross_entropy, .reduction = BR_REDUCTION_NONE, .ignore_index = 1),
                   8, cross_entropy_none, cross_entropy_none_dx);
    check_recorded(values(BR_SHAPE(5), 7, BR_F64), br_scalar(3, BR_I64),
                   br_cross_entropy_defaults(), 1, cross_entropy_one, cross_entropy_one_dx);
}

Test(loss, equals_pytorch)
{
    with_every_variant(recorded);
}

/* Computes the mean of -log_softmax at the targets with elementary operations. */
static br_tensor *composed_loss(br_tensor *x, br_tensor *target)
{
    br_tensor *picked = br_gather(br_log_softmax(x, 1), 1, br_unsqueeze(target, 1));
    return br_neg(br_mean(picked));
}

static void composed(void)
{
    br_tensor *x = leaf(values(BR_SHAPE(37, 2100), 1, BR_F32));
    br_tensor *target = br_empty(BR_SHAPE(37), BR_I64);
    for (int64_t i = 0; i < 37; i++)
        br_data_i64(target)[i] = i * 53 % 2100;
    br_tensor *y = br_cross_entropy(x, target, NULL), *dx, *want_dx;
    br_tensor *exact = leaf(br_to(br_detach(x), BR_F64)), *want = composed_loss(exact, target);
    check_close(br_item(y), br_item(want), 2e-6);
    br_grad(1, &y, 1, &x, &dx, NULL);
    br_grad(1, &want, 1, &exact, &want_dx, NULL);
    check_ok();
    cr_assert(br_allclose(br_to(dx, BR_F64), want_dx, 3e-6, 1e-12));
}

Test(loss, equals_elementary_operations)
{
    with_every_variant(composed);
}

/* Scores that are a transposed view of [n, d, c] give the same loss and gradient as contiguous
 * ones. */
Test(loss, transposed_scores)
{
    br_tensor *x = leaf(values(BR_SHAPE(2, 4, 3), 6, BR_F64)), *scores = br_transpose(x, 1, 2);
    br_tensor *target = br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 0, 2, 1, 1, 2, 2, 0, 1 });
    br_tensor *dense = leaf(br_clone(br_detach(scores)));
    br_tensor *a = br_cross_entropy(scores, target, NULL);
    br_tensor *b = br_cross_entropy(dense, target, NULL), *da, *db;
    check_same_bits(a, b);
    br_grad(1, &a, 1, &x, &da, NULL);
    br_grad(1, &b, 1, &dense, &db, NULL);
    check_same_bits(da, br_contiguous(br_transpose(db, 1, 2)));
}

Test(loss, ignored_targets_and_empty_inputs)
{
    br_tensor *x = leaf(values(BR_SHAPE(2, 3), 1, BR_F32)), *dx;
    br_tensor *y = br_cross_entropy(x, br_full(BR_SHAPE(2), -100, BR_I64), NULL);
    cr_assert(isnan(br_item(y)));
    br_grad(1, &y, 1, &x, &dx, NULL);
    check_equals(dx, 0, 0, 0, 0, 0, 0);
    br_tensor *empty = br_zeros(BR_SHAPE(0, 3), BR_F32), *none = br_zeros(BR_SHAPE(0), BR_I64);
    cr_assert(isnan(br_item(br_cross_entropy(empty, none, NULL))));
    check_equals(
        br_cross_entropy(empty, none, BR_OPTIONS(br_cross_entropy, .reduction = BR_REDUCTION_SUM)),
        0);
}

/* Class indices in u8 are those in i64. With ignore_index 255 a mask of pixels may leave some out.
 */
Test(loss, targets_of_bytes)
{
    br_tensor *x = leaf(values(BR_SHAPE(2, 3, 4), 1, BR_F32)), *dx[2];
    br_tensor *t = br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 0, 2, 255, 1, 1, 255, 0, 2 });
    br_tensor *bytes = br_to(t, BR_U8);
    const br_cross_entropy_options *o =
        BR_OPTIONS(br_cross_entropy, .ignore_index = 255,
                   .weight = br_from_f32(BR_SHAPE(3), (float[]){ 1, 2, 3 }));
    br_tensor *losses[] = { br_cross_entropy(x, t, o), br_cross_entropy(x, bytes, o) };
    for (int i = 0; i < 2; i++)
        br_grad(1, &losses[i], 1, &x, &dx[i], NULL);
    check_same_bits(losses[0], losses[1]);
    check_same_bits(br_contiguous(dx[0]), br_contiguous(dx[1]));
    check_same_bits(br_nll_loss(x, t, o), br_nll_loss(x, bytes, o));
    br_tensor *rows = values(BR_SHAPE(8, 5), 1, BR_F32),
              *weight = values(BR_SHAPE(3, 5), 1, BR_F32);
    const br_linear_cross_entropy_options *linear =
        BR_OPTIONS(br_linear_cross_entropy, .ignore_index = 255);
    check_same_bits(br_linear_cross_entropy(rows, weight, br_flatten(t, 0, 1), linear),
                    br_linear_cross_entropy(rows, weight, br_flatten(bytes, 0, 1), linear));
    check_fails(br_cross_entropy(x, bytes, NULL),
                "target 255 at position [0, 2] is outside 0 .. 2 and is not ignore_index -100");
    check_fails(br_cross_entropy(x, br_to(t, BR_I32), NULL),
                "cross_entropy: target [2, 4] is i32, must be i64 or u8 (convert it with br_to())");
    check_fails(br_nll_loss(x, br_to(t, BR_BOOL), NULL), "nll_loss: target [2, 4] is bool");
}

Test(loss, errors)
{
    br_tensor *x = values(BR_SHAPE(2, 3, 4), 1, BR_F32), *t = br_zeros(BR_SHAPE(2, 4), BR_I64);
    check_fails(
        br_cross_entropy(x, br_t(t), NULL),
        "cross_entropy: input [2, 3, 4] and target [4, 2]: must be [n, c, d...] and [n, d...]");
    check_fails(br_cross_entropy(x, br_to(t, BR_F32), NULL), "target [2, 4] is f32, must be i64");
    check_fails(br_cross_entropy(t, t, NULL), "input [2, 4] is i64");
    check_fails(br_cross_entropy(br_scalar(1, BR_F32), br_scalar(1, BR_I64), NULL), "input []");
    check_fails(br_cross_entropy(x, NULL, NULL), "target is NULL");
    br_data_i64(t)[6] = 3;
    check_fails(br_cross_entropy(x, t, NULL),
                "target 3 at position [1, 2] is outside 0 .. 2 and is not ignore_index -100");
    br_data_i64(t)[6] = -1;
    check_fails(br_cross_entropy(x, t, NULL), "target -1 at position [1, 2]");
    check_fails(
        br_cross_entropy(x, br_zeros_like(x), BR_OPTIONS(br_cross_entropy, .ignore_index = 0)),
        "ignore_index is 0, but the target holds probabilities");
}

static br_tensor *large(int threads, br_tensor **dx)
{
    br_set_num_threads(threads);
    br_tensor *x = leaf(values(BR_SHAPE(300, 1700), 1, BR_F32));
    br_tensor *y = br_cross_entropy(x, br_to(iota(BR_SHAPE(300), BR_F32), BR_I64), NULL);
    br_grad(1, &y, 1, &x, dx, NULL);
    return y;
}

Test(loss, does_not_depend_on_threads)
{
    br_tensor *dx, *other, *y = large(1, &dx);
    for (int threads = 2; threads <= 3; threads++) {
        check_same_bits(y, large(threads, &other));
        check_same_bits(dx, other);
    }
}

typedef struct loss_case {
    br_tensor *target;
    br_reduction reduction;
} loss_case;

static br_tensor *loss(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    const loss_case *c = context;
    return br_cross_entropy(
        inputs[0], c->target,
        BR_OPTIONS(br_cross_entropy, .reduction = c->reduction, .ignore_index = 7));
}

Test(loss, gradients)
{
    br_tensor *x = leaf(values(BR_SHAPE(2, 3, 4), 6, BR_F64));
    loss_case c = { .target = br_from_i64(BR_SHAPE(2, 4), (int64_t[]){ 0, 2, 7, 1, 2, 2, 0, 1 }) };
    for (c.reduction = BR_REDUCTION_MEAN; c.reduction <= BR_REDUCTION_NONE; c.reduction++) {
        check_gradient(loss, &c, 1, &x);
        check_second_gradient(loss, &c, 1, &x);
    }
}

/* The fused and the composed variant agree in value and gradients, also with class weights and
 * label smoothing. */
static void check_agreement(const br_cross_entropy_options *options)
{
    br_tensor *x = leaf(values(BR_SHAPE(5, 7, 3), 6, BR_F64)), *dx[2], *y[2], *ddx[2];
    br_tensor *target =
        br_from_i64(BR_SHAPE(5, 3), (int64_t[]){ 0, 2, 7, 1, 2, 6, 0, 1, 7, 3, 4, 5, 6, 0, 2 });
    for (int composed = 0; composed < 2; composed++) {
        y[composed] =
            (composed ? br__cross_entropy_composed : br_cross_entropy)(x, target, options);
        br_tensor *sum = br_sum(y[composed]), *twice;
        br_grad(1, &sum, 1, &x, &dx[composed], BR_OPTIONS(br_grad, .retain_graph = true));
        br_grad(1, &sum, 1, &x, &twice, BR_OPTIONS(br_grad, .create_graph = true));
        br_grad(1, (br_tensor *[]){ br_sum(br_mul(twice, twice)) }, 1, &x, &ddx[composed], NULL);
    }
    check_ok();
    cr_assert_str_eq(br_op_name(y[0]), "cross_entropy");
    cr_assert_str_neq(br_op_name(y[1]), "cross_entropy");
    cr_assert(br_allclose(y[0], y[1], 1e-13, 1e-13) && br_allclose(dx[0], dx[1], 1e-13, 1e-13));
    cr_assert(br_allclose(ddx[0], ddx[1], 1e-12, 1e-13));
}

Test(loss, fused_and_composed_agree)
{
    br_tensor *weight = br_from_f64(BR_SHAPE(7), (double[]){ 1, 0.5, 2, 0.25, 3, 1.5, 0.75 });
    for (int i = 0; i < 12; i++)
        check_agreement(
            BR_OPTIONS(br_cross_entropy, .ignore_index = 7, .reduction = (br_reduction)(i / 4),
                       .weight = i & 1 ? weight : NULL, .label_smoothing = i & 2 ? 0.3 : 0));
}

/* The targets are compared with ignore_index as integers, in all functions and gradients. */
Test(loss, large_ignore_index)
{
    static const int64_t ignored[] = { INT64_MAX, INT64_MIN, (INT64_C(1) << 53) + 1 };
    for (int i = 0; i < 3; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf(br_from_f64(BR_SHAPE(3, 2), (double[]){ 1, 2, 3, 4, 7, 5 }));
        br_tensor *target = br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, ignored[i], 1 });
        const br_cross_entropy_options *o =
            BR_OPTIONS(br_cross_entropy, .reduction = BR_REDUCTION_SUM, .ignore_index = ignored[i]);
        br_tensor *nll = br_nll_loss(x, target, o), *dx;
        cr_assert(nll, "%s", br_error_message());
        cr_assert_eq(br_item(nll), -1 - 5);
        br_tensor *loss = br_cross_entropy(x, target, o);
        check_close(br_item(loss), log(1 + exp(1)) + log(1 + exp(2)), 1e-14);
        for (int twice = 0; twice < 2; twice++) {
            cr_assert(br_grad(1, &loss, 1, &x, &dx, BR_OPTIONS(br_grad, .create_graph = !twice)));
            cr_assert_eq(br_item(br_sum(br_abs(br_select(dx, 0, 1)))), 0);
            cr_assert_gt(br_item(br_sum(br_abs(dx))), 1);
        }
        target = br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, INT64_C(1) << 53, 1 });
        check_fails(br_nll_loss(x, target, o),
                    "target 9007199254740992 at position [1] is outside");
        br_scope_end(scope);
    }
}
