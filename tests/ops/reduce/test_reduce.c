/* tests/ops/reduce/test_reduce.c - sums, means and maxima: compared with plain loops for every
 * layout and set of dimensions; accuracy, special values, gradients, and errors. */
#include "ops/ops_internal.h"
#include "tests/ops/values.h"

#include <stdlib.h>

TestSuite(reduce, .init = check_begin, .fini = check_end);

/* ---- Comparison with plain loops ------------------------------------------------------------- */

/* Computes the index of element number i in row-major order. */
static void unravel(int64_t i, int ndim, const int64_t *sizes, int64_t *index)
{
    for (int d = ndim - 1; d >= 0; d--) {
        index[d] = i % sizes[d];
        i /= sizes[d];
    }
}

/* Computes the sum, the maximum and the position of the first maximum of x over the dimensions in
 * `bits`, for the element of the result at index `place`, whose reduced dimensions are ignored. */
static void reduce_at(const br_tensor *x, unsigned bits, const int64_t *place, double *sum,
                      double *max, int64_t *first)
{
    int64_t index[BR_MAX_DIMS], position = 0;
    *sum = 0;
    *max = -INFINITY;
    *first = 0;
    for (int64_t i = 0; i < br_numel(x); i++) {
        unravel(i, br_ndim(x), br_sizes(x), index);
        bool here = true;
        for (int d = 0; d < br_ndim(x); d++)
            here &= (bits >> d & 1) || index[d] == place[d];
        if (!here)
            continue;
        double v = br_at(x, br_ndim(x), index);
        *sum += v;
        if (v > *max) {
            *max = v;
            *first = position;
        }
        position++;
    }
}

/* Checks sum, mean, maximum and its position over the dimensions in `bits`. x must contain small
 * integers, so that sums and maxima are exact. */
static void check_dims(br_tensor *x, unsigned bits)
{
    int n = br_ndim(x), count = 0;
    int64_t dims[BR_MAX_DIMS], place[BR_MAX_DIMS], first;
    for (int d = n - 1; d >= 0; d--)
        if (bits >> d & 1)
            dims[count++] = d - n;
    double sum, max;
    br_scope *scope = br_scope_begin();
    br_tensor *sums = br_sum_dim(x, count, dims, true);
    bool floating = br_is_floating(x), one = count == 1;
    br_tensor *means = floating ? br_mean_dim(x, count, dims, true) : NULL;
    br_tensor *index = NULL, *maxima = one ? br_max_dim(x, dims[0], true, &index) : NULL;
    br_tensor *positions = one ? br_argmax(x, dims[0], true) : NULL;
    check_ok();
    cr_assert_eq(br_ndim(sums), n);
    for (int64_t i = 0; i < br_numel(sums); i++) {
        unravel(i, n, br_sizes(sums), place);
        reduce_at(x, bits, place, &sum, &max, &first);
        cr_assert_eq(br_at(sums, n, place), sum, "dims %#x, element %lld: %g, expected %g", bits,
                     (long long)i, br_at(sums, n, place), sum);
        if (floating) {
            double mean = sum / ((double)br_numel(x) / (double)br_numel(sums));
            check_close(br_at(means, n, place), mean, 1e-6 * fabs(mean));
        }
        if (one) {
            cr_assert_eq(br_at(maxima, n, place), max);
            cr_assert_eq(br_at(index, n, place), (double)first);
            cr_assert_eq(br_at(positions, n, place), (double)first);
        }
    }
    br_scope_end(scope);
}

static br_tensor *small_integers(int ndim, const int64_t *sizes, br_dtype dtype)
{
    br_tensor *t = iota(ndim, sizes, BR_F64);
    for (int64_t i = 0; i < br_numel(t); i++)
        br_data_f64(t)[i] = (double)((i * 7919 + 13) % 23 - 11);
    return br_to(t, dtype);
}

static void check_every_dim(br_tensor *x)
{
    for (unsigned bits = 1; bits < 1u << br_ndim(x); bits++)
        check_dims(x, bits);
}

Test(reduce, every_layout_and_dimension)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_I64, BR_BOOL };
    for (int i = 0; i < 4; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = small_integers(BR_SHAPE(3, 4, 5), dtypes[i]);
        check_every_dim(x);
        check_every_dim(br_permute(x, BR_DIMS(2, 0, 1)));
        check_every_dim(br_permute(x, BR_DIMS(0, 2, 1)));
        check_every_dim(br_slice(x, 2, 0, BR_ALL, 2));
        check_every_dim(br_select(x, 1, 2));
        check_every_dim(br_expand(br_slice(x, 1, 0, 1, 1), BR_SHAPE(2, 3, 4, 5)));
        check_every_dim(small_integers(BR_SHAPE(1, 6, 1, 2), dtypes[i]));
        br_scope_end(scope);
    }
}

/* Lengths with full blocks, full vectors and remaining elements. */
Test(reduce, long_rows_and_columns)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        for (int64_t n = 1; n < 3000; n = n * 3 / 2 + 1) {
            br_scope *scope = br_scope_begin();
            br_tensor *x = small_integers(BR_SHAPE(2, n), dtype);
            check_dims(x, 2);
            check_dims(br_t(x), 1);
            br_tensor *tall = small_integers(BR_SHAPE(n, 2), dtype);
            check_dims(tall, 1);
            br_scope_end(scope);
        }
    }
}

/* Shapes that are split into chunks, columns and tiles. The total of the partial sums shows whether
 * every element was counted exactly once. */
Test(reduce, large)
{
    static const int64_t sizes[][3] = {
        { 1, 1, 300001 }, { 40000, 3, 1 }, { 3, 40000, 1 }, { 7, 5000, 6 }, { 300, 1, 1030 },
    };
    for (int i = 0; i < 5; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_add_scalar(small_integers(3, sizes[i], BR_F32), 1);
        double total = 0, most = -INFINITY;
        for (int64_t k = 0; k < br_numel(x); k++) {
            total += (double)br_data_f32(x)[k];
            most = fmax(most, (double)br_data_f32(x)[k]);
        }
        cr_assert_eq(br_item(br_sum(x)), total);
        cr_assert_eq(br_item(br_max(x)), most);
        for (int64_t d = 0; d < 3; d++) {
            cr_assert_eq(br_item(br_sum(br_sum_dim(x, 1, &d, false))), total);
            cr_assert_eq(br_item(br_max(br_max_dim(x, d, false, NULL))), most);
        }
        br_scope_end(scope);
    }
}

/* Tests sums over rows of tensors that are larger than the caches. Rows are added in groups of
 * eight; here some are left over. */
Test(reduce, rows_larger_than_the_caches)
{
    static const int64_t sizes[][3] = { { 1, 2101, 1003 }, { 197, 11, 1003 }, { 23333, 3, 31 } };
    for (int i = 0; i < 3; i++) {
        br_scope *scope = br_scope_begin();
        const int64_t outer = sizes[i][0], rows = sizes[i][1], columns = sizes[i][2];
        br_tensor *x = small_integers(3, sizes[i], BR_F32),
                  *sums = br_sum_dim(x, BR_DIMS(1), false);
        cr_assert_geq(br_numel(x) * 4, BR_STREAMING_BYTES);
        for (int64_t o = 0; o < outer; o++) {
            for (int64_t j = 0; j < columns; j++) {
                float sum = 0;
                for (int64_t row = 0; row < rows; row++)
                    sum += br_data_f32(x)[(o * rows + row) * columns + j];
                cr_assert_eq(br_data_f32(sums)[o * columns + j], sum);
            }
        }
        br_scope_end(scope);
    }
}

/* argmax returns the first of equal maxima, even if they are in different chunks. */
Test(reduce, first_maximum)
{
    br_scope *scope = br_scope_begin();
    for (int64_t at = 17; at < 400000; at = at * 5 + 1) {
        br_tensor *x = br_zeros(BR_SHAPE(400000), BR_F32);
        br_data_f32(x)[at] = br_data_f32(x)[399999] = 2;
        cr_assert_eq(br_item_i64(br_argmax(x, 0, false)), at);
        br_tensor *columns = br_expand(br_unsqueeze(x, 1), BR_SHAPE(400000, 2));
        check_equals(br_argmax(br_contiguous(columns), 0, false), (double)at, (double)at);
    }
    br_tensor *none = br_full(BR_SHAPE(400000), -INFINITY, BR_F64);
    cr_assert_eq(br_item_i64(br_argmax(none, 0, false)), 0);
    br_scope_end(scope);
}

/* There are enough rows to be reduced in chunks, whose results are merged. The maximum of each
 * column is in a different chunk. */
Test(reduce, positions_of_columns_reduced_in_chunks)
{
    enum { MANY = 200000 };
    static const int64_t most[] = { 199990, 77, 100001 };
    for (br_dtype dtype = BR_F32; dtype <= BR_I64; dtype++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_zeros(BR_SHAPE(MANY, 3), dtype), *places;
        for (int64_t j = 0; j < 3; j++)
            br_fill_(br_select(br_select(x, 0, most[j]), 0, j), (double)(j + 1));
        check_equals(br_argmax(x, 0, false), 199990, 77, 100001);
        check_equals(br_max_dim(x, 0, false, &places), 1, 2, 3);
        check_equals(places, 199990, 77, 100001);
        check_equals(br_argmin(br_neg(x), 0, false), 199990, 77, 100001);
        br_scope_end(scope);
    }
}

Test(reduce, argmax_of_everything_counts_in_row_major_order)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f32(BR_SHAPE(2, 3), (float[]){ 1, 5, 2, 0, 4, 3 });
    cr_assert_eq(br_item_i64(br_argmax(x, BR_ALL, false)), 1);
    cr_assert_eq(br_item_i64(br_argmax(br_t(x), BR_ALL, false)), 2);
    check_shape(br_argmax(x, BR_ALL, true), BR_SHAPE(1, 1));
    check_equals(br_argmax(br_scalar(3, BR_F32), BR_ALL, false), 0);
    br_scope_end(scope);
}

/* ---- Accuracy -------------------------------------------------------------------------------- */

/* Sums ten million elements of 0.1f: all of them, each column, and each row. A sequential f32 sum
 * would be off by more than 8%. */
Test(reduce, accuracy)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_full(BR_SHAPE(5000, 2000), 0.1, BR_F32);
    double want = (double)0.1f * 1e7;
    check_close(br_item(br_sum(x)), want, 1e-7 * want);
    check_close(br_item(br_mean(x)), (double)0.1f, 0);
    check_close(br_at(br_sum_dim(x, BR_DIMS(0), false), BR_SHAPE(1999)), want / 2000, 4e-5);
    check_close(br_at(br_sum_dim(x, BR_DIMS(1), false), BR_SHAPE(4999)), want / 5000, 2e-5);
    br_scope_end(scope);
}

/* At most eight values are added in f32 before they are accumulated in f64. So large values that
 * cancel can only affect the few values that are added to them in f32. */
Test(reduce, cancellation)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_full(BR_SHAPE(100000), 1, BR_F32);
    br_data_f32(x)[10] = 1e9f;
    br_data_f32(x)[99999] = -1e9f;
    check_close(br_item(br_sum(x)), 99998, 14);
    br_scope_end(scope);
}

Test(reduce, does_not_depend_on_threads)
{
    static const int64_t sizes[][2] = {
        { 1, 1000003 }, { 600, 3072 }, { 3072, 600 }, { 100003, 7 }, { 7, 100003 }
    };
    for (int i = 0; i < 5; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = values(2, sizes[i], 4, BR_F32);
        br_set_num_threads(1);
        br_tensor *all = br_sum(x), *rows = br_sum_dim(x, BR_DIMS(1), false);
        br_tensor *columns = br_mean_dim(x, BR_DIMS(0), false);
        br_tensor *places = br_argmax(x, 0, false);
        for (int threads = 2; threads <= 3; threads++) {
            br_set_num_threads(threads);
            check_same_bits(br_sum(x), all);
            check_same_bits(br_sum_dim(x, BR_DIMS(1), false), rows);
            check_same_bits(br_mean_dim(x, BR_DIMS(0), false), columns);
            check_same_bits(br_argmax(x, 0, false), places);
        }
        br_scope_end(scope);
    }
}

/* Every instruction set gives the same bits, since sums have no multiplications to fuse. */
Test(reduce, instruction_sets_agree)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = values(BR_SHAPE(301, 1999), 4, dtype);
        cr_assert(br__force_kernels("baseline"));
        br_tensor *rows = br_sum_dim(x, BR_DIMS(1), false), *most = br_max_dim(x, 0, false, NULL);
        br_tensor *columns = br_sum_dim(x, BR_DIMS(0), false), *place = br_argmax(x, 1, false);
        static const char *const variants[] = { "avx2", "avx512" };
        for (int v = 0; v < 2; v++) {
            if (!br__force_kernels(variants[v]))
                continue;
            check_same_bits(br_sum_dim(x, BR_DIMS(1), false), rows);
            check_same_bits(br_sum_dim(x, BR_DIMS(0), false), columns);
            check_same_bits(br_max_dim(x, 0, false, NULL), most);
            check_same_bits(br_argmax(x, 1, false), place);
        }
        br_scope_end(scope);
    }
    cr_assert(br__force_kernels(NULL));
}

/* ---- Special values -------------------------------------------------------------------------- */

Test(reduce, empty)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_zeros(BR_SHAPE(2, 0, 3), BR_F32);
    check_equals(br_sum(x), 0);
    check_equals(br_mean(x), NAN);
    check_equals(br_sum_dim(x, BR_DIMS(1), false), 0, 0, 0, 0, 0, 0);
    check_equals(br_mean_dim(x, BR_DIMS(1), true), NAN, NAN, NAN, NAN, NAN, NAN);
    check_shape(br_sum_dim(x, BR_DIMS(0), false), BR_SHAPE(0, 3));
    check_shape(br_max_dim(x, 0, false, NULL), BR_SHAPE(0, 3));
    check_shape(br_argmax(x, -1, true), BR_SHAPE(2, 0, 1));
    check_fails(br_max(x), "max: x [2, 0, 3] has no elements");
    check_fails(br_max_dim(x, 1, false, NULL), "max: x [2, 0, 3] has no elements");
    check_fails(br_argmax(x, BR_ALL, false), "argmax: x [2, 0, 3] has no elements");
    br_scope_end(scope);
}

Test(reduce, scalars)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(br_scalar(3, BR_F32)), *index;
    check_equals(br_sum(x), 3);
    check_equals(br_sum_dim(x, BR_DIMS(-1), true), 3);
    check_equals(br_mean_dim(x, 0, NULL, false), 3);
    check_equals(br_max_dim(x, 0, true, &index), 3);
    check_equals(index, 0);
    br_tensor *y = br_add(br_max_dim(x, 0, false, NULL), br_add(br_max(x), br_mean(x)));
    cr_assert(br_backward(y));
    check_equals(br_grad_of(x), 3);
    br_scope_end(scope);
}

Test(reduce, nan_is_largest)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
        for (int64_t n = 3; n < 5000; n *= 3) {
            br_scope *scope = br_scope_begin();
            br_tensor *x = br_to(iota(BR_SHAPE(n, 2), BR_F32), dtype), *index;
            br_fill_(br_select(br_select(x, 1, 0), 0, n / 2), NAN);
            br_fill_(br_select(br_select(x, 1, 0), 0, n - 1), NAN);
            check_equals(br_max(x), NAN);
            check_equals(br_max_dim(x, 0, false, &index), NAN, 2 * (double)n - 1);
            check_equals(index, (double)(n / 2), (double)(n - 1));
            br_tensor *rows = br_contiguous(br_t(x));
            check_equals(br_max_dim(rows, 1, false, &index), NAN, 2 * (double)n - 1);
            check_equals(index, (double)(n / 2), (double)(n - 1));
            cr_assert_eq(br_item_i64(br_argmax(rows, BR_ALL, false)), n / 2);
            check_equals(br_sum_dim(rows, BR_DIMS(1), false), NAN, (double)n * (double)n);
            br_scope_end(scope);
        }
    }
}

Test(reduce, integers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_i64(BR_SHAPE(2), (int64_t[]){ INT64_MIN, INT64_MIN + 1 });
    cr_assert_eq(br_item_i64(br_max(x)), INT64_MIN + 1);
    cr_assert_eq(br_item_i64(br_argmax(br_slice(x, 0, 0, 1, 1), 0, false)), 0);
    cr_assert_eq(br_item_i64(br_sum(x)), 1);
    br_tensor *truths = br_ones(BR_SHAPE(300), BR_BOOL);
    cr_assert_eq(br_item_i64(br_sum(truths)), 300);
    cr_assert_eq(br_dtype_of(br_sum(truths)), BR_I64);
    cr_assert_eq(br_dtype_of(br_max(truths)), BR_BOOL);
    br_scope_end(scope);
}

/* ---- Without NaN ----------------------------------------------------------------------------- */

/* The sum of no numbers is 0; their mean and its gradient are NaN, as in PyTorch. Infinity is a
 * number. */
Test(reduce, without_nan)
{
    br_scope *scope = br_scope_begin();
    const double elements[] = { NAN, 1, 5, NAN, NAN, NAN, INFINITY, 2, NAN };
    br_tensor *x = leaf(br_from_f64(BR_SHAPE(3, 3), elements));
    br_tensor *sum = br_nansum_dim(x, BR_DIMS(-1), true),
              *mean = br_nanmean_dim(x, BR_DIMS(1), false);
    check_shape(sum, BR_SHAPE(3, 1));
    check_equals(sum, 6, 0, INFINITY);
    check_equals(mean, 3, NAN, INFINITY);
    br_backward(br_sum(sum));
    check_equals(br_grad_of(x), 0, 1, 1, 0, 0, 0, 1, 1, 0);
    br_zero_(br_grad_of(x));
    br_backward(br_sum(mean));
    check_equals(br_grad_of(x), 0, 0.5, 0.5, NAN, NAN, NAN, 0.5, 0.5, 0);
    check_equals(br_nansum(br_zeros(BR_SHAPE(0), BR_F32)), 0);
    check_equals(br_nanmean(br_zeros(BR_SHAPE(0), BR_F32)), NAN);
    check_equals(br_nansum(br_scalar(NAN, BR_F32)), 0);
    cr_assert_eq(br_dtype_of(br_nansum(br_ones(BR_SHAPE(2), BR_U8))), BR_I64);
    /* Infinities of both signs in one of many parts; and columns, rows and steps. */
    br_tensor *large = br_full(BR_SHAPE(300, 1000), NAN, BR_F32);
    br_fill_(br_narrow(br_narrow(large, 0, 0, 300), 1, 500, 250), 2);
    check_equals(br_nansum(large), 150000);
    check_values(br_nansum_dim(br_narrow(large, 1, 490, 20), BR_DIMS(0), false), 20,
                 (double[]){ 0,   0,   0,   0,   0,   0,   0,   0,   0,   0,
                             600, 600, 600, 600, 600, 600, 600, 600, 600, 600 },
                 0);
    check_equals(
        br_nansum_dim(br_slice(br_narrow(large, 0, 0, 2), 1, 0, BR_ALL, 3), BR_DIMS(1), false), 166,
        166);
    check_equals(br_nansum_dim(br_to(br_narrow(large, 0, 0, 2), BR_BF16), BR_DIMS(1), false), 500,
                 500);
    br_fill_(br_select(br_select(large, 0, 7), 0, 0), INFINITY);
    br_fill_(br_select(br_select(large, 0, 7), 0, 9), -INFINITY);
    check_equals(br_nansum(large), NAN);
    /* More numbers than f16 can count. */
    check_equals(br_nanmean(br_ones(BR_SHAPE(70000), BR_F16)), 1);
    check_fails(br_nanmean(br_ones(BR_SHAPE(2), BR_I64)),
                "nanmean: x [2] is i64, must be a floating-point dtype");
    check_fails(br_nansum_dim(x, BR_DIMS(2), false), "nansum: dims is 2, must be in -2 .. 1");
    br_scope_end(scope);
}

/* PyTorch subtracts the ends from twice the sum, which is NaN. */
Test(reduce, integral_of_infinite_ends)
{
    check_equals(br_trapezoid(br_from_f64(BR_SHAPE(3), (double[]){ INFINITY, 1, 2 }), NULL, 1, 0),
                 INFINITY);
    check_equals(br_trapezoid(br_from_f64(BR_SHAPE(3), (double[]){ 1e16, 1, -1e16 }), NULL, 2, 0),
                 2);
    check_fails(br_trapezoid(br_zeros(BR_SHAPE(2, 3), BR_F32), br_zeros(BR_SHAPE(2), BR_F32), 1, 1),
                "trapezoid: x [2] must have one element for each of dimension 1 of y [2, 3]");
}

/* ---- sum_to_size ----------------------------------------------------------------------------- */

Test(reduce, sum_to_size)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = iota(BR_SHAPE(2, 2, 3), BR_F32);
    check_equals(br_sum_to_size(x, BR_SHAPE(3)), 18, 22, 26);
    check_equals(br_sum_to_size(x, BR_SHAPE(2, 1)), 24, 42);
    check_shape(br_sum_to_size(x, BR_SHAPE(1, 2, 1)), BR_SHAPE(1, 2, 1));
    check_equals(br_sum_to_size(x, BR_SCALAR), 66);
    cr_assert_eq(br_sum_to_size(x, BR_SHAPE(2, 2, 3)), x);
    check_fails(br_sum_to_size(x, BR_SHAPE(2, 3, 3)),
                "sum_to_size: [2, 3, 3] does not broadcast to "
                "x [2, 2, 3]");
    check_fails(br_sum_to_size(x, BR_SHAPE(1, 2, 2, 3)), "sum_to_size: [1, 2, 2, 3]");
    br_scope_end(scope);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static br_tensor *sums(br_tensor *const *x, int n, void *context)
{
    (void)n, (void)context;
    br_tensor *y = br_mul(x[0], x[0]);
    br_tensor *z = br_add(br_sum_dim(y, BR_DIMS(0, 2), false), br_sum_dim(y, BR_DIMS(2, 0), false));
    z = br_add(z, br_mul(br_sum(y), br_mean(y)));
    z = br_add(z, br_sum_to_size(y, BR_SHAPE(3, 1)));
    br_tensor *means = br_mean_dim(br_permute(y, BR_DIMS(1, 2, 0)), BR_DIMS(-2), true);
    return br_add(br_unsqueeze(z, -1), means);
}

static br_tensor *maxima(br_tensor *const *x, int n, void *context)
{
    (void)n, (void)context;
    br_tensor *y = br_mul(x[0], x[0]);
    br_tensor *z = br_add(br_max_dim(y, 1, true, NULL), br_max(y));
    return br_mul(z, br_unsqueeze(br_max_dim(y, -1, false, NULL), -1));
}

Test(reduce, gradients)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(br_mul_scalar(values(BR_SHAPE(2, 3, 4), 1, BR_F64), 0.3));
    check_gradient(sums, NULL, 1, &x);
    check_second_gradient(sums, NULL, 1, &x);
    check_gradient(maxima, NULL, 1, &x);
    check_second_gradient(maxima, NULL, 1, &x);
    br_scope_end(scope);
}

/* max distributes its gradient evenly between equal maxima; max_dim passes it to the first. */
Test(reduce, gradient_of_equal_maxima)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(br_from_f32(BR_SHAPE(2, 2), (float[]){ 4, 4, 1, 4 })), *index;
    cr_assert(br_backward(br_mul_scalar(br_max(x), 6)));
    check_equals(br_grad_of(x), 2, 2, 0, 2);
    br_set_grad(x, NULL);
    cr_assert(br_backward(br_sum(br_max_dim(x, 1, false, &index))));
    check_equals(br_grad_of(x), 1, 0, 0, 1);
    cr_assert_not(br_requires_grad(index));
    br_tensor *y = leaf(br_from_f32(BR_SHAPE(3), (float[]){ 1, NAN, NAN }));
    cr_assert(br_backward(br_max(y)));
    check_equals(br_grad_of(y), 0, 0.5, 0.5);
    br_scope_end(scope);
}

Test(reduce, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_zeros(BR_SHAPE(2, 3), BR_F32), *index = x;
    check_fails(br_sum_dim(x, BR_DIMS(0, -2), false),
                "sum: dimension 0 of x [2, 3] is given twice");
    check_fails(br_sum_dim(x, BR_DIMS(2), false), "sum: dims is 2, must be in -2 .. 1");
    check_fails(br_sum_dim(x, 1, NULL, false), "sum: ndims is 1 and dims is NULL");
    check_fails(br_sum_dim(x, -1, NULL, false), "sum: ndims is -1");
    check_fails(br_mean(br_zeros(BR_SHAPE(2), BR_I64)),
                "mean: x [2] is i64, must be a floating-point dtype");
    check_fails(br_max_dim(x, -3, false, &index), "max: dim is -3");
    cr_assert_null(index);
    check_fails(br_max(NULL), "max: x is NULL");
    check_fails(br_argmax(x, 2, false), "argmax: dim is 2");
    br_scope_end(scope);
}

Test(reduce, an_empty_list_of_dimensions_means_all)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = iota(BR_SHAPE(2, 3), BR_F32);
    check_equals(br_sum_dim(x, 0, NULL, false), 15);
    check_shape(br_mean_dim(x, 0, NULL, true), BR_SHAPE(1, 1));
    br_scope_end(scope);
}

/* ---- Numbers that are not floating-point ----------------------------------------------------- */

static br_tensor *product(br_tensor *x)
{
    return br_prod(x);
}

static br_tensor *largest(br_tensor *x)
{
    return br_amax(x, 0, NULL, false);
}

static br_tensor *smallest(br_tensor *x)
{
    return br_amin(x, 0, NULL, false);
}

static br_tensor *place_of_largest(br_tensor *x)
{
    return br_argmax(x, BR_ALL, false);
}

static br_tensor *place_of_smallest(br_tensor *x)
{
    return br_argmin(x, BR_ALL, false);
}

static br_tensor *how_many(br_tensor *x)
{
    return br_count_nonzero(x, 0, NULL);
}

/* The elements of a view with gaps are reduced row by row, in several calls of a kernel. */
Test(reduce, views_of_all_dtypes)
{
    static const struct {
        const char *name;
        br_tensor *(*function)(br_tensor *x);
        bool of_bool;
    } cases[] = {
        { "sum", br_sum, true },
        { "prod", product, true },
        { "any", br_any, true },
        { "all", br_all, true },
        { "amax", largest, true },
        { "amin", smallest, true },
        { "argmax", place_of_largest, false },
        { "argmin", place_of_smallest, false },
        { "count_nonzero", how_many, true },
    };
    static const br_dtype dtypes[] = { BR_F32, BR_F64,  BR_BF16, BR_F16, BR_I64,
                                       BR_I32, BR_BOOL, BR_U8,   BR_I8 };
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        br_scope *scope = br_scope_begin();
        br_manual_seed(6);
        /* Numbers of which a few are not 1; the largest and the smallest are in the first row. */
        br_tensor *all = br_ones(BR_SHAPE(3, 4, 5), BR_F32);
        br_data_f32(all)[1] = 3, br_data_f32(all)[2] = 0.25f, br_data_f32(all)[47] = 2;
        for (int zero = 0; zero < 2; zero++) {
            br_data_f32(all)[1] = zero ? 0 : 3;
            br_tensor *x = br_narrow(br_to(all, dtypes[d]), 2, 1, 3);
            br_tensor *views[] = { x, br_transpose(x, 0, 1), br_narrow(x, 1, 0, 2) };
            for (int v = 0; v < 3; v++)
                for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
                    if (dtypes[d] == BR_BOOL && !cases[i].of_bool)
                        continue;
                    br_tensor *got = cases[i].function(views[v]);
                    br_tensor *want = cases[i].function(br_contiguous(views[v]));
                    check_ok();
                    cr_expect(br_equal(got, want), "%s of %s, view %d: %g, not %g", cases[i].name,
                              br_dtype_name(dtypes[d]), v, br_item(got), br_item(want));
                }
        }
        br_scope_end(scope);
    }
}
