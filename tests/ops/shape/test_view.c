/* tests/ops/shape/test_view.c - shapes and views: which operations share storage, which copy, and
 * errors.
 */
#include "tensor/tensor_internal.h"
#include "tests/ops/values.h"

TestSuite(view, .init = check_begin, .fini = check_end);

static br_tensor *x234(void)
{
    return iota(BR_SHAPE(2, 3, 4), BR_F32);
}

Test(view, reshape_shares_storage_if_strides_allow)
{
    br_tensor *x = x234();
    br_tensor *y = br_reshape(x, BR_SHAPE(6, -1));
    check_shape(y, BR_SHAPE(6, 4));
    cr_assert(br_shares_storage(x, y));
    /* Dimensions 0 and 1 of the transpose cannot be merged, but the last can be split. */
    br_tensor *t = br_transpose(x, 0, 1);
    br_tensor *split = br_reshape(t, BR_SHAPE(3, 2, 2, 2));
    cr_assert(br_shares_storage(x, split));
    cr_assert_eq(br_at(split, BR_DIMS(1, 1, 0, 1)), 17);
    br_tensor *merged = br_reshape(t, BR_SHAPE(6, 4));
    cr_assert(!br_shares_storage(x, merged));
    check_equals(merged, 0, 1, 2, 3, 12, 13, 14, 15, 4, 5, 6, 7, 16, 17, 18, 19, 8, 9, 10, 11, 20,
                 21, 22, 23);
}

Test(view, reshape_sizes)
{
    br_tensor *x = x234(), *scalar = br_scalar(7, BR_I64),
              *empty = br_zeros(BR_SHAPE(0, 3), BR_F64);
    check_shape(br_reshape(x, BR_SHAPE(-1)), BR_SHAPE(24));
    check_shape(br_reshape(scalar, BR_SHAPE(1, 1)), BR_SHAPE(1, 1));
    check_shape(br_reshape(br_ones(BR_SHAPE(1, 1), BR_F32), BR_SCALAR), BR_SCALAR);
    check_shape(br_reshape(empty, BR_SHAPE(5, 0, 2)), BR_SHAPE(5, 0, 2));
    check_shape(br_reshape(empty, BR_SHAPE(-1, 3)), BR_SHAPE(0, 3));
    check_fails(br_reshape(x, BR_SHAPE(5, 5)), "reshape: cannot reshape x [2, 3, 4] to [5, 5]: x "
                                               "has 24 elements, but the new shape has 25");
    check_fails(
        br_reshape(x, BR_SHAPE(-1, 7)),
        "cannot reshape x [2, 3, 4] to [-1, 7]: 24 elements are not a multiple of 7, the product");
    check_fails(br_reshape(x, BR_SHAPE(-1, -1)), "only one size may be -1");
    check_fails(br_reshape(x, BR_SHAPE(-2, -12)), "is negative");
    check_fails(br_reshape(empty, BR_SHAPE(0, -1)), "the size for -1 is ambiguous");
    check_fails(br_reshape(x, 9, (int64_t[9]){ 0 }), "ndim is 9, must be 0 .. 8");
    check_fails(br_reshape(NULL, BR_SHAPE(1)), "x is NULL");
}

Test(view, view_never_copies)
{
    br_tensor *t = br_transpose(x234(), 1, 2);
    check_shape(br_view(t, BR_SHAPE(2, 2, 2, 3)), BR_SHAPE(2, 2, 2, 3));
    check_fails(
        br_view(t, BR_SHAPE(24)),
        "view: x [2, 4, 3] with strides [12, 1, 4] cannot be viewed as [24] without a copy");
}

Test(view, flatten_unsqueeze_squeeze)
{
    br_tensor *x = x234();
    check_shape(br_flatten(x, 0, -1), BR_SHAPE(24));
    check_shape(br_flatten(x, 1, 2), BR_SHAPE(2, 12));
    check_shape(br_flatten(x, 1, 1), BR_SHAPE(2, 3, 4));
    check_shape(br_flatten(br_scalar(1, BR_F32), 0, 0), BR_SHAPE(1));
    check_fails(br_flatten(x, 2, 1), "start 2 comes after end 1");
    check_shape(br_unflatten(x, 2, BR_SHAPE(2, -1)), BR_SHAPE(2, 3, 2, 2));
    check_shape(br_unflatten(x, 1, BR_SHAPE(-1)), BR_SHAPE(2, 3, 4));
    check_fails(br_unflatten(x, 1, 0, br_sizes(x)), "cannot become 0 dimensions: must be 1 .. 6");
    check_shape(br_unsqueeze(x, 0), BR_SHAPE(1, 2, 3, 4));
    check_shape(br_unsqueeze(x, -1), BR_SHAPE(2, 3, 4, 1));
    check_fails(br_unsqueeze(x, 4), "dim is 4, must be in -4 .. 3 for x [2, 3, 4]");
    br_tensor *ones = br_unsqueeze(br_unsqueeze(x, 1), -1);
    check_shape(br_squeeze(ones, 1), BR_SHAPE(2, 3, 4, 1));
    check_shape(br_squeeze(ones, 0), BR_SHAPE(2, 1, 3, 4, 1));
    check_shape(br_squeeze(ones, BR_ALL), BR_SHAPE(2, 3, 4));
    cr_assert(br_shares_storage(x, br_squeeze(ones, BR_ALL)));
    check_fails(br_squeeze(x, 3), "dim is 3, must be in -3 .. 2");
}

/* Messages state the range of a dimension: -n .. n - 1 of the result's n dimensions. */
Test(view, messages_state_the_range_of_a_dimension)
{
    br_tensor *x = br_zeros(BR_SHAPE(2, 3), BR_F32), *parts[2];
    check_fails(br_diagonal(x, 0, 2, 1), "dim1 is 2, must be in -2 .. 1 for x of shape [2, 3]");
    check_fails(br_diagonal(x, 0, 0, -3), "dim2 is -3, must be in -2 .. 1");
    check_fails(br_diag_embed(x, 0, 3, 0), "dim1 is 3, must be in -3 .. 2");
    check_fails(br_stack(1, &x, 3), "dim is 3, must be in -3 .. 2");
    check_fails(br_cat(1, &x, 2), "dim is 2, must be in -2 .. 1");
    check_fails(br_unsqueeze(x, -4), "dim is -4, must be in -3 .. 2");
    check_fails(br_select(x, 2, 0), "dim is 2, must be in -2 .. 1");
    check_fails(br_slice(x, -3, 0, 1, 1), "dim is -3, must be in -2 .. 1");
    check_fails(br_softmax(x, 2), "dim is 2, must be in -2 .. 1");
    check_fails(br_sum_dim(x, BR_DIMS(2), false), "dims is 2, must be in -2 .. 1");
    check_fails(br_transpose(x, 0, 2), "is 2, must be in -2 .. 1");
    check_fails(br_split(x, 1, 2, 2, parts) > 0, "dim is 2, must be in -2 .. 1");
    check_fails(br_softmax(br_scalar(1, BR_F32), 1), "dim is 1, must be in -1 .. 0");
}

/* The places after the last part are NULL, also if the call fails. */
Test(view, places_without_a_part)
{
    enum { PLACES = 6 };
    br_tensor *x = br_zeros(BR_SHAPE(2, 3), BR_F32), *parts[PLACES];
    const int64_t sizes[] = { 1, 2 };
    for (int call = 0; call < 5; call++) {
        for (int i = 0; i < PLACES; i++)
            parts[i] = x;
        int n = call == 0   ? br_split(x, 2, 1, PLACES, parts)
                : call == 1 ? br_chunk(x, 3, 1, PLACES, parts)
                : call == 2 ? br_unbind(x, 1, PLACES, parts)
                : call == 3 ? br_split_with_sizes(x, 2, sizes, 1, parts)
                            : br_split(x, 0, 1, PLACES, parts);
        cr_assert_eq(n, call == 4 ? -1 : call % 3 ? 3 - call / 3 : 2, "call %d: %d parts", call, n);
        cr_assert_eq(br_failed(), call == 4);
        br_clear_error();
        for (int i = n < 0 ? 0 : n; i < PLACES && call != 3; i++)
            cr_assert_null(parts[i], "call %d, place %d", call, i);
        for (int i = 0; i < n; i++)
            cr_assert(parts[i] && parts[i] != x, "call %d, part %d", call, i);
    }
}

/* A tensor with the maximum number of dimensions gets no further one. */
Test(view, no_operation_adds_a_ninth_dimension)
{
    const int64_t sizes[BR_MAX_DIMS] = { 1, 1, 1, 1, 1, 1, 1, 2 };
    br_tensor *x = br_zeros(BR_MAX_DIMS, sizes, BR_F32), *ids = br_to(x, BR_I64);
    check_fails(br_unsqueeze(x, 0), "maximum number of dimensions");
    check_fails(br_unfold(x, 7, 1, 1), "maximum number of dimensions");
    check_fails(br_diag_embed(x, 0, 0, 1), "maximum number of dimensions");
    check_fails(br_stack(1, &x, 0), "ndim is 9, must be 0 .. 8");
    check_fails(br_one_hot(ids, 3), "ndim is 9, must be 0 .. 8");
    check_fails(br_unflatten(x, 7, BR_SHAPE(2, 1)), "cannot become 2 dimensions: must be 1 .. 1");
    br_tensor *seven = br_select(x, 0, 0);
    cr_assert(br_unsqueeze(seven, 0) && br_unfold(seven, 6, 1, 1) && br_stack(1, &seven, 0));
    cr_assert(br_diag_embed(seven, 0, 0, 1) && br_one_hot(br_select(ids, 0, 0), 3));
}

Test(view, transpose_and_permute)
{
    br_tensor *x = x234(), *p = br_permute(x, BR_DIMS(2, 0, -2));
    check_shape(p, BR_SHAPE(4, 2, 3));
    cr_assert(br_shares_storage(x, p));
    cr_assert_eq(br_at(p, BR_DIMS(3, 1, 2)), 23);
    cr_assert_eq(br_at(br_transpose(x, -1, 0), BR_DIMS(3, 2, 1)), 23);
    check_equals(br_t(iota(BR_SHAPE(2, 3), BR_I64)), 0, 3, 1, 4, 2, 5);
    check_shape(br_t(br_zeros(BR_SHAPE(3), BR_F32)), BR_SHAPE(3));
    check_fails(br_t(x), "t: x [2, 3, 4] has 3 dimensions, must have at most 2");
    check_fails(br_permute(x, BR_DIMS(0, 1)),
                "2 dims for x [2, 3, 4], must name each of its 3 dimensions once");
    check_fails(br_permute(x, BR_DIMS(0, 1, -2)), "name dimension 1 twice");
    check_fails(br_permute(x, BR_DIMS(0, 1, 3)), "dims is 3, must be in -3 .. 2");
    check_fails(br_transpose(x, 0, -4), "dim1 is -4");
}

Test(view, expand)
{
    br_tensor *x = iota(BR_SHAPE(3, 1), BR_F32), *y = br_expand(x, BR_SHAPE(2, -1, 4));
    check_shape(y, BR_SHAPE(2, 3, 4));
    cr_assert(br_shares_storage(x, y));
    cr_assert_eq(br_stride(y, 0), 0);
    cr_assert_eq(br_at(y, BR_DIMS(1, 2, 3)), 2);
    check_shape(br_expand_as(x, y), BR_SHAPE(2, 3, 4));
    check_shape(br_expand(x, BR_SHAPE(3, 0)), BR_SHAPE(3, 0));
    check_fails(
        br_expand(x, BR_SHAPE(2, 4)),
        "expand: cannot expand x [3, 1] to [2, 4]: size 3 of dimension -2 must be 1 or equal to 2");
    check_fails(br_expand(x, BR_SHAPE(3)),
                "cannot expand x [3, 1] to [3]: the new shape must have 2 .. 8 dimensions");
    check_fails(br_expand(x, BR_SHAPE(-1, 3, 1)), "is negative");
}

Test(view, repeat)
{
    br_tensor *x = iota(BR_SHAPE(2, 2), BR_I64);
    check_equals(br_repeat(x, BR_DIMS(1, 3)), 0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3);
    check_equals(br_repeat(x, BR_DIMS(2, 2, 1)), 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
    check_shape(br_repeat(x, BR_DIMS(5, 0, 1)), BR_SHAPE(5, 0, 2));
    check_shape(br_repeat(br_scalar(1, BR_F32), BR_DIMS(3)), BR_SHAPE(3));
    check_fails(br_repeat(x, BR_DIMS(2)),
                "repeat: counts [2] for x [2, 2]: must have 2 .. 8 entries");
    check_fails(br_repeat(x, BR_DIMS(1, -1)), "count -1 of dimension 1 is negative");
    check_fails(br_repeat(x, BR_DIMS(INT64_MAX, 1)), "too large");
}

Test(view, slice)
{
    br_tensor *x = iota(BR_SHAPE(10), BR_F32);
    check_equals(br_slice(x, 0, 2, 8, 3), 2, 5);
    check_equals(br_slice(x, 0, -3, BR_ALL, 1), 7, 8, 9);
    check_equals(br_slice(x, 0, 0, -8, 1), 0, 1);
    check_equals(br_slice(x, 0, -99, 99, 9), 0, 9);
    check_equals(br_slice(x, 0, 9, BR_ALL, INT64_MAX), 9);
    check_shape(br_slice(x, 0, 5, 3, 1), BR_SHAPE(0));
    check_shape(br_slice(x, 0, 99, BR_ALL, 1), BR_SHAPE(0));
    cr_assert(br_shares_storage(x, br_slice(x, 0, 2, 8, 3)));
    check_fails(br_slice(x, 0, 0, 5, 0), "slice: step is 0, must be at least 1");
    check_fails(br_slice(x, 1, 0, 5, 1), "dim is 1, must be in -1 .. 0");
    check_fails(br_slice(br_scalar(1, BR_F32), 0, 0, 1, 1),
                "x [] has no dimensions, must have at least one");
}

Test(view, select_and_narrow)
{
    br_tensor *x = iota(BR_SHAPE(3, 4), BR_F32);
    check_equals(br_select(x, 1, -1), 3, 7, 11);
    check_equals(br_select(x, 0, 1), 4, 5, 6, 7);
    check_equals(br_narrow(x, 1, 1, 2), 1, 2, 5, 6, 9, 10);
    check_equals(br_narrow(x, 0, -1, 1), 8, 9, 10, 11);
    check_shape(br_narrow(x, 0, 3, 0), BR_SHAPE(0, 4));
    check_fails(br_select(x, 1, 4), "select: index 4 is out of range for dimension 1 of x [3, 4]");
    check_fails(br_select(x, 0, -4), "index -4 is out of range for dimension 0");
    check_fails(br_narrow(x, 1, 2, 3), "start 2 and length 3 exceed dimension 1 of x [3, 4]");
    check_fails(br_narrow(x, 1, 0, -1), "length -1");
}

Test(view, contiguous_and_clone)
{
    br_tensor *x = x234();
    cr_assert_eq(br_contiguous(x), x);
    br_tensor *t = br_transpose(x, 0, 2), *c = br_contiguous(t), *k = br_clone(x);
    cr_assert(br_is_contiguous(c) && !br_shares_storage(c, x) && !br_shares_storage(k, x));
    check_equals(br_select(br_select(c, 0, 1), 0, 2), 9, 21);
    check_same_bits(k, x);
}

/* Tests transposed copies of every dtype, with 1 to 3 threads. The sizes are not multiples of the
 * tile size. */
Test(view, large_transposed_copies)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_I64, BR_BOOL };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = iota(BR_SHAPE(3, 515, 130), dtypes[i]);
        br_tensor *t = br_permute(x, BR_DIMS(2, 0, 1)), *first = NULL;
        for (int threads = 1; threads <= 3; threads++) {
            br_set_num_threads(threads);
            br_tensor *c = br_contiguous(t);
            first = first ? first : c;
            check_same_bits(first, c);
        }
        for (int64_t a = 0; a < 130; a += 43)
            for (int64_t b = 0; b < 3; b++)
                for (int64_t d = 0; d < 515; d += 2)
                    cr_assert_eq(br_at(first, BR_DIMS(a, b, d)), br_at(x, BR_DIMS(b, d, a)));
        br_scope_end(scope);
    }
}

/* Makes a transposed copy of x, which holds two matrices and is larger than the caches, and
 * compares it with transposed copies of parts that fit into the caches. */
static void check_transposed(br_tensor *x)
{
    br_tensor *t = br_transpose(x, 1, 2), *whole = br_contiguous(t);
    cr_assert_geq(br_numel(x) * (int64_t)br_dtype_size(br_dtype_of(x)), BR_STREAMING_BYTES);
    for (int64_t first = 0; first < br_size(t, 1); first += 149) {
        br_scope *scope = br_scope_begin();
        br_tensor *part = br_contiguous(br_slice(t, 1, first, first + 149, 1));
        check_same_bits(br_contiguous(br_slice(whole, 1, first, first + 149, 1)), part);
        br_scope_end(scope);
    }
    /* Copy into unaligned rows, along a dimension that is not the last. */
    br_tensor *wide = br_full(BR_SHAPE(2, br_size(t, 1), br_size(t, 2) + 2), -1, br_dtype_of(x));
    br_tensor *inside = br_slice(wide, 2, 1, -1, 1);
    br_copy_(br_transpose(inside, 1, 2), x);
    check_same_bits(br_contiguous(inside), whole);
    for (int64_t end = 0; end <= 1; end++)
        cr_assert_eq(br_item(br_max(br_select(wide, 2, -end))), -1);
}

/* Large copies use non-temporal stores. Tests rows that are and are not whole cache lines, elements
 * of both sizes, rows and columns that do not fill tiles, and 1 and 3 threads. */
Test(view, transposed_copies_with_non_temporal_stores)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)
        for (int threads = 1; threads <= 3; threads += 2) {
            br_set_num_threads(threads);
            br_scope *scope = br_scope_begin();
            check_transposed(iota(BR_SHAPE(2, 1040, 1043), dtype));
            check_transposed(iota(BR_SHAPE(2, 1043, 1040), dtype));
            check_transposed(iota(BR_SHAPE(2, 301, 4011), dtype));
            br_scope_end(scope);
        }
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static br_tensor *every_view(br_tensor *const *inputs, int n, void *context)
{
    (void)n, (void)context;
    br_tensor *x = inputs[0]; /* [4, 3, 2] */
    x = br_permute(x, BR_DIMS(1, 2, 0));
    x = br_reshape(x, BR_SHAPE(6, 4)); /* a copy */
    x = br_slice(x, 0, 1, BR_ALL, 2);  /* [3, 4] */
    x = br_unsqueeze(br_transpose(x, 0, 1), 1);
    x = br_expand(x, BR_SHAPE(2, 4, 5, 3));
    x = br_flatten(x, 1, 2); /* [2, 20, 3] */
    x = br_narrow(x, 1, -7, 6);
    x = br_squeeze(br_view(br_contiguous(x), BR_SHAPE(2, 1, 6, 3)), 1);
    x = br_select(x, 2, 1);                /* [2, 6] */
    return br_repeat(x, BR_DIMS(3, 1, 2)); /* [3, 2, 12] */
}

Test(view, gradients)
{
    check_gradient(every_view, NULL, 1,
                   (br_tensor *[]){ leaf(values(BR_SHAPE(4, 3, 2), 1, BR_F64)) });
}

Test(view, gradients_of_gradients)
{
    check_second_gradient(every_view, NULL, 1,
                          (br_tensor *[]){ leaf(values(BR_SHAPE(4, 3, 2), 1, BR_F64)) });
}

/* Tests negative padding that removes more elements than there are, and circular padding that would
 * repeat removed elements. */
Test(view, pad_errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = iota(BR_SHAPE(1, 4), BR_F32);
    for (int mode = BR_PAD_CONSTANT; mode <= BR_PAD_CIRCULAR; mode++) {
        check_fails(br_pad(x, BR_DIMS(INT64_MIN, 0), (br_pad_mode)mode, 0),
                    "remove more elements than");
        check_fails(br_pad(x, BR_DIMS(0, INT64_MIN), (br_pad_mode)mode, 0),
                    "remove more elements than");
        check_fails(br_pad(x, BR_DIMS(INT64_MIN, INT64_MIN), (br_pad_mode)mode, 0),
                    "remove more elements than");
        check_fails(br_pad(x, BR_DIMS(INT64_MIN, 1), (br_pad_mode)mode, 0), "pad: ");
    }
    check_fails(br_pad(x, BR_DIMS(-3, 2), BR_PAD_CIRCULAR, 0),
                "pad: padding 2 at dimension 1 of x [1, 4]: circular padding must be at most the "
                "dimension's size after the negative padding on the other side");
    check_fails(br_pad(x, BR_DIMS(5, 0), BR_PAD_CIRCULAR, 0),
                "must be at most the dimension's size");
    br_scope_end(scope);
}

/* Shifts are taken modulo the size, even INT64_MIN, whose negative is not representable. */
Test(view, roll_by_any_shift)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(iota(BR_SHAPE(3), BR_F64)), *weight = iota(BR_SHAPE(3), BR_F64);
    br_tensor *y = br_roll(x, 1, (int64_t[]){ INT64_MIN }, BR_DIMS(0)); /* -2 modulo 3 */
    check_equals(y, 2, 0, 1);
    cr_assert(br_backward(br_sum(br_mul(y, weight))));
    check_equals(br_grad_of(x), 1, 2, 0);
    check_equals(br_roll(x, 1, (int64_t[]){ INT64_MAX }, BR_DIMS(0)), 2, 0, 1);
    br_scope_end(scope);
}

/* Dimensions with equal strides and sizes keep their order, as in PyTorch. */
Test(view, results_of_overlapping_slices_are_in_order)
{
    br_scope *scope = br_scope_begin();
    br_tensor *y = br_neg(br_unfold(br_arange(0, 5, 1, BR_F32), 0, 3, 1));
    cr_assert_eq(br_stride(y, 0), 3);
    cr_assert_eq(br_stride(y, 1), 1);
    cr_assert_eq(br_at(y, BR_DIMS(2, 1)), -3);
    br_scope_end(scope);
}

/* Fewer counts than dimensions are those of the last dimensions. */
Test(view, tile_with_fewer_counts)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_reshape(br_arange(0, 6, 1, BR_F32), BR_SHAPE(2, 3));
    br_tensor *y = br_tile(x, BR_DIMS(2));
    cr_assert_str_eq(br_shape_text(y), "[2, 6]");
    cr_assert(br_equal(y, br_cat(BR_INPUTS(x, x), 1)));
    br_scope_end(scope);
}

/* Every entry of a list of results is NULL after a failure, also the last one. */
Test(view, lists_of_results_are_null_after_a_failure)
{
    br_tensor *x = iota(BR_SHAPE(6, 2), BR_F32), *y = iota(BR_SHAPE(5), BR_F32), *list[3];
    br_tensor *const tensors[] = { x, x, y };
    for (int i = 0; i < 16; i++) {
        list[0] = list[1] = list[2] = x;
        int n = i == 0    ? br_broadcast_tensors(3, tensors, list)
                : i == 1  ? br_meshgrid(3, tensors, BR_INDEXING_IJ, list)
                : i == 2  ? br_split(x, 2, 2, 3, list)
                : i == 3  ? br_split(x, 1, 0, 3, list) /* 6 parts */
                : i == 4  ? br_split_with_sizes(x, 3, (int64_t[]){ 1, 2, 4 }, 0, list)
                : i == 5  ? br_chunk(x, 0, 0, 3, list)
                : i == 6  ? br_chunk(x, 6, 0, 3, list)
                : i == 7  ? br_unbind(x, 3, 3, list)
                : i == 8  ? br_unbind(x, 0, 3, list)
                : i == 9  ? br_tensor_split(x, 4, 0, 3, list)
                : i == 10 ? br_tensor_split(x, 0, 0, 3, list)
                : i == 11 ? br_tensor_split_indices(x, 2, NULL, 0, list)
                : i == 12 ? br_tensor_split_indices(x, 2, (int64_t[]){ 1, 2 }, 2, list)
                : i == 13 ? br_hsplit(x, 3, 3, list)
                : i == 14 ? br_vsplit_indices(y, 2, (int64_t[]){ 1, 2 }, list)
                          : br_dsplit(x, 1, 3, list);
        cr_expect_eq(n, -1, "call %d", i);
        cr_expect(br_failed(), "call %d", i);
        for (int k = 0; k < 3; k++)
            cr_expect_null(list[k], "call %d, result %d", i, k);
        br_clear_error();
    }
}

/* A tensor of shape [0] is an empty row. PyTorch's gradient does not count it. */
Test(view, block_diag_with_an_empty_row)
{
    br_scope *scope = br_scope_begin();
    br_tensor *none = leaf(br_zeros(BR_SHAPE(0), BR_F64)), *x = leaf(iota(BR_SHAPE(2), BR_F64));
    br_tensor *y = br_block_diag(BR_INPUTS(none, x));
    check_shape(y, BR_SHAPE(2, 2));
    check_equals(y, 0, 0, 0, 1);
    br_backward(br_sum(br_mul(y, iota(BR_SHAPE(2, 2), BR_F64))));
    check_equals(br_grad_of(x), 2, 3);
    check_shape(br_grad_of(none), BR_SHAPE(0));
    check_fails(br_block_diag(BR_INPUTS(br_zeros(BR_SHAPE(1, 1, 1), BR_F32))),
                "block_diag: tensor 0 is [1, 1, 1], must have at most two dimensions");
    check_fails(br_block_diag(-1, &x), "block_diag: got -1 tensors");
    br_scope_end(scope);
}
