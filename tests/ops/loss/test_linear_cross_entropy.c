/* tests/ops/loss/test_linear_cross_entropy.c - the loss in chunks of the rows, compared with the
 * loss from all scores at once. PyTorch's results are compared by tests/op_db. */
#include "tests/ops/values.h"

TestSuite(linear_cross_entropy, .init = check_begin, .fini = check_end);

static const double tolerance[] = { [BR_F32] = 3e-6, [BR_F64] = 1e-14 };

enum { ROWS = 5, IN = 4, CLASSES = 7 };

static br_tensor *some_targets(void)
{
    return br_from_i64(BR_SHAPE(ROWS), (int64_t[]){ 3, 0, 6, 2, 6 });
}

/* Asserts that y has the value and the gradients of want with respect to the inputs that require
 * grad. */
static void check_equal_losses(br_tensor *y, br_tensor *want, int n, br_tensor *const *inputs)
{
    check_ok();
    const double bound = tolerance[br_dtype_of(y)];
    br_tensor *dy = values(br_ndim(y), br_sizes(y), 9, br_dtype_of(y)), *dx[3], *want_dx[3];
    cr_assert(br_allclose(y, want, bound, bound));
    br_grad(1, &y, n, inputs, dx, BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true));
    br_grad(1, &want, n, inputs, want_dx,
            BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true));
    check_ok();
    for (int i = 0; i < n; i++)
        cr_assert(br_allclose(dx[i], want_dx[i], 4 * bound, 4 * bound), "gradient %d", i);
}

/* Every reduction, chunk size, dtype and combination of options. */
static void chunks_and_options(void)
{
    for (int i = 0; i < 2 * 3 * 16; i++) {
        const br_dtype dtype = i & 1 ? BR_F64 : BR_F32;
        br_tensor *x = leaf(values(BR_SHAPE(ROWS, IN), 1, dtype));
        br_tensor *w = leaf(values(BR_SHAPE(CLASSES, IN), 2, dtype));
        br_tensor *b = leaf(values(BR_SHAPE(CLASSES), 3, dtype));
        br_linear_cross_entropy_options o = br_linear_cross_entropy_defaults();
        o.linear_bias = i & 2 ? b : NULL;
        o.weight = i & 4 ? br_add_scalar(br_abs(values(BR_SHAPE(CLASSES), 4, dtype)), 0.5) : NULL;
        o.label_smoothing = i & 8 ? 0.3 : 0;
        o.ignore_index = i & 16 ? 6 : -100;
        o.reduction = (br_reduction)(i / 32);
        for (o.batch_chunk_size = 0; o.batch_chunk_size <= ROWS + 1; o.batch_chunk_size++) {
            br_linear_cross_entropy_options whole = o;
            whole.batch_chunk_size = 0;
            o.chunked = true;
            br_tensor *y = br_linear_cross_entropy(x, w, some_targets(), &o);
            cr_assert_str_eq(br_op_name(y), "linear_cross_entropy");
            check_equal_losses(y, br_linear_cross_entropy(x, w, some_targets(), &whole),
                               o.linear_bias ? 3 : 2, (br_tensor *[]){ x, w, b });
        }
    }
}

Test(linear_cross_entropy, chunks_give_the_same_loss)
{
    with_every_variant(chunks_and_options);
}

/* Operands that are not contiguous, and those that do not require grad. */
Test(linear_cross_entropy, layouts_and_frozen_operands)
{
    br_tensor *x = br_t(values(BR_SHAPE(IN, ROWS), 1, BR_F64));
    br_tensor *w = br_t(values(BR_SHAPE(IN, CLASSES), 2, BR_F64));
    br_tensor *b = br_select(values(BR_SHAPE(CLASSES, 2), 3, BR_F64), 1, 1);
    br_tensor *target =
        br_slice(br_repeat_interleave_scalar(some_targets(), 2, 0), 0, 0, BR_ALL, 2);
    for (int trained = 1; trained < 8; trained++) {
        br_tensor *all[] = { x, w, b }, *inputs[3];
        int n = 0;
        for (int i = 0; i < 3; i++) {
            all[i] = br_set_requires_grad(br_detach(all[i]), trained >> i & 1);
            if (trained >> i & 1)
                inputs[n++] = all[i];
        }
        br_linear_cross_entropy_options o =
            *BR_OPTIONS(br_linear_cross_entropy, .linear_bias = all[2]);
        br_tensor *want = br_linear_cross_entropy(all[0], all[1], target, &o);
        o.chunked = true;
        o.batch_chunk_size = 2;
        br_tensor *y = br_linear_cross_entropy(all[0], all[1], target, &o);
        check_equal_losses(y, want, n, inputs);
    }
}

/* A row without the dimension n, and several classes for each row. */
Test(linear_cross_entropy, other_shapes)
{
    br_tensor *x = leaf(values(BR_SHAPE(ROWS, IN), 1, BR_F64)), *row = br_select(x, 0, 1);
    br_tensor *w = leaf(values(BR_SHAPE(CLASSES, IN), 2, BR_F64));
    br_tensor *scores = br_select(br_f_linear(x, w, NULL), 0, 1), *class = br_scalar(3, BR_I64);
    for (br_reduction r = BR_REDUCTION_MEAN; r <= BR_REDUCTION_NONE; r++) {
        br_tensor *want =
            br_cross_entropy(scores, class, BR_OPTIONS(br_cross_entropy, .reduction = r));
        for (int chunked = 0; chunked < 2; chunked++)
            check_equal_losses(
                br_linear_cross_entropy(
                    row, w, class,
                    BR_OPTIONS(br_linear_cross_entropy, .reduction = r, .chunked = chunked)),
                want, 2, (br_tensor *[]){ x, w });
    }
    br_tensor *wide = leaf(values(BR_SHAPE(3, 2, 4, IN), 2, BR_F64));
    br_tensor *bias = leaf(values(BR_SHAPE(3, 2, 4), 5, BR_F64));
    br_tensor *targets = br_to(br_gt_scalar(values(BR_SHAPE(ROWS, 2, 4), 6, BR_F32), 0), BR_I64);
    br_tensor *flat = br_f_linear(x, br_flatten(wide, 0, 2), br_flatten(bias, 0, -1));
    for (int chunked = 0; chunked < 2; chunked++)
        check_equal_losses(
            br_linear_cross_entropy(
                x, wide, targets,
                BR_OPTIONS(br_linear_cross_entropy, .linear_bias = bias, .chunked = chunked)),
            br_cross_entropy(br_reshape(flat, BR_SHAPE(ROWS, 3, 2, 4)), targets, NULL), 3,
            (br_tensor *[]){ x, wide, bias });
}

/* Probabilities as targets, and class weights that are trained, have no chunks. */
Test(linear_cross_entropy, variants_without_chunks)
{
    br_tensor *x = leaf(values(BR_SHAPE(ROWS, IN), 1, BR_F64));
    br_tensor *w = leaf(values(BR_SHAPE(CLASSES, IN), 2, BR_F64));
    br_tensor *p = leaf(br_detach(br_softmax(values(BR_SHAPE(ROWS, CLASSES), 3, BR_F64), 1)));
    br_tensor *weight = leaf(br_ones(BR_SHAPE(CLASSES), BR_F64));
    br_tensor *scores = br_f_linear(x, w, NULL);
    check_equal_losses(
        br_linear_cross_entropy(x, w, p, BR_OPTIONS(br_linear_cross_entropy, .chunked = true)),
        br_cross_entropy(scores, p, NULL), 3, (br_tensor *[]){ x, w, p });
    check_equal_losses(
        br_linear_cross_entropy(x, w, some_targets(),
                                BR_OPTIONS(br_linear_cross_entropy, .weight = weight,
                                           .reduction = BR_REDUCTION_SUM, .chunked = true)),
        br_cross_entropy(
            scores, some_targets(),
            BR_OPTIONS(br_cross_entropy, .weight = weight, .reduction = BR_REDUCTION_SUM)),
        3, (br_tensor *[]){ x, w, weight });
}

/* The gradients that forward computed can be used again, and are not changed by backward. */
Test(linear_cross_entropy, backward_twice)
{
    for (br_reduction r = BR_REDUCTION_MEAN; r <= BR_REDUCTION_NONE; r++) {
        br_tensor *x = leaf(values(BR_SHAPE(ROWS, IN), 1, BR_F32));
        br_tensor *w = leaf(values(BR_SHAPE(CLASSES, IN), 2, BR_F32));
        br_tensor *inputs[] = { x, w }, *first[2], *second[2];
        br_tensor *y = br_linear_cross_entropy(
            x, w, some_targets(),
            BR_OPTIONS(br_linear_cross_entropy, .reduction = r, .chunked = true));
        br_tensor *dy = values(br_ndim(y), br_sizes(y), 9, BR_F32);
        br_grad(1, &y, 2, inputs, first,
                BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true));
        br_grad(1, &y, 2, inputs, second, BR_OPTIONS(br_grad, .gradients = &dy));
        for (int i = 0; i < 2; i++)
            check_same_bits(first[i], second[i]);
        check_fails(br_grad(1, &y, 2, inputs, second, BR_OPTIONS(br_grad, .gradients = &dy)),
                    "was freed by an earlier backward");
    }
}

static br_tensor *failing_hook(br_tensor *grad, void *context)
{
    (void)grad;
    (void)context;
    return br_fail(BR_ERROR_STATE, "hook", "fails");
}

/* Backward overwrites the gradients of forward. If it fails later, they must not be used again. */
Test(linear_cross_entropy, backward_after_a_failure)
{
    br_tensor *x = leaf(values(BR_SHAPE(ROWS, IN), 1, BR_F32));
    br_tensor *w = leaf(values(BR_SHAPE(CLASSES, IN), 2, BR_F32)), *doubled = br_mul_scalar(x, 2);
    br_register_hook(doubled, failing_hook, NULL);
    br_tensor *y = br_linear_cross_entropy(doubled, w, some_targets(),
                                           BR_OPTIONS(br_linear_cross_entropy, .chunked = true));
    check_fails(br_backward(y), "fails");
    check_fails(br_backward(y), "or that backward failed");
}

Test(linear_cross_entropy, rows_without_targets)
{
    br_tensor *x = leaf(values(BR_SHAPE(2, IN), 1, BR_F32)), *dx[2];
    br_tensor *w = leaf(values(BR_SHAPE(CLASSES, IN), 2, BR_F32)), *inputs[] = { x, w };
    const br_linear_cross_entropy_options *chunked =
        BR_OPTIONS(br_linear_cross_entropy, .chunked = true);
    br_tensor *y = br_linear_cross_entropy(x, w, br_full(BR_SHAPE(2), -100, BR_I64), chunked);
    cr_assert(isnan(br_item(y)));
    br_grad(1, &y, 2, inputs, dx, NULL);
    cr_assert(br_equal(dx[0], br_zeros_like(x)) && br_equal(dx[1], br_zeros_like(w)));
    inputs[0] = leaf(br_zeros(BR_SHAPE(0, IN), BR_F32));
    y = br_linear_cross_entropy(inputs[0], w, br_zeros(BR_SHAPE(0), BR_I64), chunked);
    cr_assert(isnan(br_item(y)));
    br_grad(1, &y, 2, inputs, dx, NULL);
    cr_assert(br_equal(dx[1], br_zeros_like(w)));
    check_shape(dx[0], BR_SHAPE(0, IN));
}

static br_tensor *large(int threads, br_tensor **dx)
{
    br_set_num_threads(threads);
    br_tensor *inputs[] = { leaf(values(BR_SHAPE(300, 40), 1, BR_F32)),
                            leaf(values(BR_SHAPE(1700, 40), 2, BR_F32)) };
    br_tensor *y = br_linear_cross_entropy(
        inputs[0], inputs[1], br_to(iota(BR_SHAPE(300), BR_F32), BR_I64),
        BR_OPTIONS(br_linear_cross_entropy, .chunked = true, .batch_chunk_size = 64));
    br_grad(1, &y, 2, inputs, dx, NULL);
    return y;
}

Test(linear_cross_entropy, does_not_depend_on_threads)
{
    br_tensor *dx[2], *other[2], *y = large(1, dx);
    for (int threads = 2; threads <= 3; threads++) {
        check_same_bits(y, large(threads, other));
        check_same_bits(dx[0], other[0]);
        check_same_bits(dx[1], other[1]);
    }
}

/* Trains a step, and returns the most bytes that tensors had in addition to those before. */
static int64_t peak_of(const br_linear_cross_entropy_options *options)
{
    enum { N = 600, WIDE = 8, MANY = 5000 };
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(values(BR_SHAPE(N, WIDE), 1, BR_F32));
    br_tensor *w = leaf(values(BR_SHAPE(MANY, WIDE), 2, BR_F32));
    br_tensor *target = br_to(iota(BR_SHAPE(N), BR_F32), BR_I64);
    const int64_t before = br_live_bytes();
    br_reset_peak_bytes();
    br_backward(br_linear_cross_entropy(x, w, target, options));
    check_ok();
    const int64_t peak = br_peak_bytes() - before;
    br_scope_end(scope);
    return peak;
}

/* Without chunks, scores and their gradient have 12 MB each. Chunks of 60 rows have 1.2 MB. The
 * weight's gradient has 160 kB and exists once. */
Test(linear_cross_entropy, chunks_need_little_memory)
{
    cr_assert_gt(peak_of(NULL), 24000000);
    cr_assert_lt(
        peak_of(BR_OPTIONS(br_linear_cross_entropy, .chunked = true, .batch_chunk_size = 60)),
        1500000);
}

/* The number of rows is chosen such that the scores of a chunk have at most 2^26 elements, if that
 * is 256 rows or more. Here the 300 rows make two chunks. */
Test(linear_cross_entropy, rows_of_a_chunk_are_chosen)
{
    enum { N = 300, MANY = 300000 };
    br_tensor *x = br_ones(BR_SHAPE(N, 1), BR_F32), *w = br_zeros(BR_SHAPE(MANY, 1), BR_F32);
    br_tensor *target = br_to(iota(BR_SHAPE(N), BR_F32), BR_I64);
    const int64_t before = br_live_bytes();
    br_reset_peak_bytes();
    br_tensor *y =
        br_linear_cross_entropy(x, w, target, BR_OPTIONS(br_linear_cross_entropy, .chunked = true));
    check_close(br_item(y), log(MANY), 1e-5);
    const int64_t scores = (int64_t)N / 2 * MANY * (int64_t)sizeof(float);
    const int64_t peak = br_peak_bytes() - before;
    cr_assert(peak >= scores && peak < scores + 100000, "%lld bytes", (long long)peak);
}

Test(linear_cross_entropy, errors)
{
    br_tensor *x = values(BR_SHAPE(ROWS, IN), 1, BR_F32), *target = some_targets();
    br_tensor *w = values(BR_SHAPE(CLASSES, IN), 2, BR_F32);
    br_tensor *cube = br_zeros(BR_SHAPE(2, 3, IN), BR_F32);
    check_fails(br_linear_cross_entropy(NULL, w, target, NULL), "input is NULL");
    check_fails(br_linear_cross_entropy(x, NULL, target, NULL), "linear_weight is NULL");
    check_fails(br_linear_cross_entropy(x, w, NULL, NULL), "target is NULL");
    check_fails(br_linear_cross_entropy(target, w, target, NULL), "input [5] is i64");
    check_fails(br_linear_cross_entropy(x, br_to(w, BR_F64), target, NULL), "linear_weight");
    check_fails(br_linear_cross_entropy(cube, w, target, NULL),
                "input [2, 3, 4] must be [in_features] or [n, in_features]: flatten");
    check_fails(br_linear_cross_entropy(x, br_t(w), target, NULL),
                "linear_weight [4, 7] for input [5, 4] must be [classes, in_features]");
    check_fails(br_linear_cross_entropy(br_select(x, 0, 0), cube, target, NULL),
                "linear_weight [2, 3, 4] for input [4]");
    check_fails(br_linear_cross_entropy(x, w, br_slice(target, 0, 0, 4, 1), NULL),
                "target [4] for input [5, 4] and linear_weight [7, 4] must be [n, d...]");
    check_fails(br_linear_cross_entropy(x, cube, target, NULL),
                "target [5] for input [5, 4] and linear_weight [2, 3, 4] must be [n, d...]");
    check_fails(br_linear_cross_entropy(x, w, br_to(target, BR_F32), NULL),
                "because it holds probabilities; convert classes with br_to(target, BR_I64)");
    check_fails(br_linear_cross_entropy(x, w, br_to(target, BR_BOOL), NULL), "target [5] is bool");
    check_fails(br_linear_cross_entropy(x, w, target,
                                        BR_OPTIONS(br_linear_cross_entropy, .linear_bias = target)),
                "linear_bias");
    check_fails(
        br_linear_cross_entropy(
            x, w, target, BR_OPTIONS(br_linear_cross_entropy, .linear_bias = br_select(x, 0, 0))),
        "linear_bias [4] must have the sizes of linear_weight [7, 4] without the last");
    check_fails(
        br_linear_cross_entropy(x, w, target,
                                BR_OPTIONS(br_linear_cross_entropy, .weight = br_select(x, 0, 0))),
        "weight [4] for linear_weight [7, 4]: must have one element for each class");
    check_fails(br_linear_cross_entropy(
                    x, w, target,
                    BR_OPTIONS(br_linear_cross_entropy, .chunked = true, .batch_chunk_size = -1)),
                "batch_chunk_size is -1, must be at least 0");
    check_fails(br_linear_cross_entropy(x, w, target,
                                        BR_OPTIONS(br_linear_cross_entropy, .batch_chunk_size = 2)),
                "batch_chunk_size is 2, but chunked is false: set both");
    check_fails(br_linear_cross_entropy(
                    x, w, target, BR_OPTIONS(br_linear_cross_entropy, .label_smoothing = NAN)),
                "label_smoothing is nan, must be in 0 .. 1");
    check_fails(
        br_linear_cross_entropy(
            x, w, target, BR_OPTIONS(br_linear_cross_entropy, .reduction = BR_REDUCTION_BATCHMEAN)),
        "reduction is 3, must be mean, sum or none");
    check_fails(br_linear_cross_entropy(x, w, br_zeros(BR_SHAPE(ROWS, CLASSES), BR_F32),
                                        BR_OPTIONS(br_linear_cross_entropy, .ignore_index = -1)),
                "ignore_index is -1, but the target holds probabilities");
    for (int chunked = 0; chunked < 2; chunked++)
        check_fails(
            br_linear_cross_entropy(x, w, br_add_scalar(target, 1),
                                    BR_OPTIONS(br_linear_cross_entropy, .chunked = chunked)),
            "linear_cross_entropy: target 7 at position [2] is outside 0 .. 6 and is not "
            "ignore_index -100");
}
