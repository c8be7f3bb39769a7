/* tests/ops/reduce/test_folds.c - products, minima, counts, all and any of every dtype, compared
 * with plain loops, for lengths around those of vectors, blocks and bytes that count. */
#include "tensor/dtype.h"
#include "tests/ops/values.h"

TestSuite(folds, .init = check_begin, .fini = check_end);

static const int64_t lengths[] = { 0, 1, 7, 8, 9, 31, 63, 64, 65, 255, 256, 257, 1000, 30000 };
enum { LENGTHS = sizeof lengths / sizeof *lengths, MOST = 3 * 30000 };

/* Element `at` of line l is values[l + at * LINES]. */
enum { LINES = 3 };
static double numbers[MOST];

/* Returns [n, LINES], a view of layout 0 .. 3: contiguous, contiguous along the lines, every second
 * row, or every second column. */
static br_tensor *laid_out(int64_t n, br_dtype dtype, int layout)
{
    br_tensor *x = br_to(br_from_f64(BR_SHAPE(n, LINES), numbers), dtype);
    if (layout == 1)
        return br_t(br_contiguous(br_t(x)));
    if (layout == 2) {
        br_tensor *wide = br_full(BR_SHAPE(2 * n, LINES), 1, dtype);
        return br_copy_(br_slice(wide, 0, 0, BR_ALL, 2), x);
    }
    if (layout == 3) {
        br_tensor *wide = br_full(BR_SHAPE(n, 2 * LINES), 1, dtype);
        return br_copy_(br_slice(wide, 1, 0, BR_ALL, 2), x);
    }
    return x;
}

typedef struct expected {
    double product, min, count;
    int64_t first;
} expected;

/* Folds every `step`-th number, n of them. */
static expected fold(const double *x, int64_t n, int64_t step)
{
    expected e = { 1, INFINITY, 0, 0 };
    for (int64_t i = 0; i < n; i++) {
        const double v = x[i * step];
        e.product *= v;
        e.count += v != 0;
        if (isnan(e.min) || v >= e.min)
            continue;
        e.min = v;
        e.first = i;
    }
    return e;
}

static double of(br_tensor *t, int64_t line)
{
    return br_at(t, BR_DIMS(line));
}

/* Checks the folds along dimension 0 and of all elements. */
static void check_folds(int64_t n, br_dtype dtype, int layout)
{
    br_tensor *x = laid_out(n, dtype, layout), *place = NULL;
    br_tensor *product = br_prod_dim(x, 0, false), *count = br_count_nonzero(x, BR_DIMS(0));
    br_tensor *some = br_any_dim(x, BR_DIMS(0), false), *all = br_all_dim(x, BR_DIMS(0), false);
    br_tensor *least = n > 0 ? br_min_dim(x, 0, false, &place) : NULL;
    br_tensor *alone = n > 0 ? br_amin(x, BR_DIMS(0), false) : NULL;
    check_ok();
    for (int64_t line = 0; line < LINES; line++) {
        const expected e = fold(numbers + line, n, LINES);
        const char *about = br_dtype_name(dtype);
        cr_assert_eq(of(product, line), e.product, "%s, %d rows, layout %d: %g, expected %g", about,
                     (int)n, layout, of(product, line), e.product);
        cr_assert_eq(of(count, line), e.count, "%s, %d rows, layout %d", about, (int)n, layout);
        cr_assert_eq(of(some, line), e.count > 0);
        cr_assert_eq(of(all, line), (int64_t)e.count == n);
        if (n == 0)
            continue;
        const double found = of(least, line);
        cr_assert(found == e.min || (isnan(found) && isnan(e.min)), "%s, %d rows, layout %d", about,
                  (int)n, layout);
        cr_assert(of(alone, line) == found || isnan(found), "%s, %d rows, layout %d", about, (int)n,
                  layout);
        cr_assert_eq(of(place, line), (double)e.first, "%s, %d rows, layout %d", about, (int)n,
                     layout);
    }
    const expected whole = fold(numbers, n * LINES, 1);
    cr_assert_eq(br_item(br_count_nonzero(x, 0, NULL)), whole.count);
    cr_assert_eq(br_item(br_any(x)), whole.count > 0);
    cr_assert_eq(br_item(br_all(x)), (int64_t)whole.count == n * LINES);
    check_ok();
}

static void check_all_dtypes(int64_t n)
{
    for (int i = 0; i < BR_DTYPES * 4; i++) {
        br_scope *scope = br_scope_begin();
        check_folds(n, (br_dtype)(i / 4), i % 4);
        br_scope_end(scope);
    }
}

/* Ones, and a single 0 in line 1: in each place of short lines, and near the ends of long ones. */
Test(folds, a_zero_in_any_place)
{
    for (int k = 0; k < LENGTHS; k++) {
        const int64_t n = lengths[k];
        for (int64_t i = 0; i < MOST; i++)
            numbers[i] = 1;
        check_all_dtypes(n);
        for (int64_t at = 0; at < n; at += n < 70 || at < 3 || at >= n - 3 ? 1 : n - 6) {
            numbers[at * LINES + 1] = 0;
            check_all_dtypes(n);
            numbers[at * LINES + 1] = 1;
        }
    }
}

/* Zeros, and a single 1. */
Test(folds, a_one_in_any_place)
{
    for (int k = 0; k < LENGTHS; k++) {
        const int64_t n = lengths[k];
        memset(numbers, 0, sizeof numbers);
        check_all_dtypes(n);
        for (int64_t at = 0; at < n; at += n < 70 || at < 3 || at >= n - 3 ? 1 : n - 6) {
            numbers[at * LINES + 1] = 1;
            check_all_dtypes(n);
            numbers[at * LINES + 1] = 0;
        }
    }
}

static const br_dtype floats[] = { BR_F32, BR_F64, BR_BF16, BR_F16 };
enum { FLOATS = sizeof floats / sizeof *floats };

/* Powers of two, whose products are exact, with every sign. */
Test(folds, products_of_floats)
{
    for (int k = 0; k < LENGTHS * FLOATS * 4; k++) {
        for (int64_t i = 0; i < MOST; i++)
            numbers[i] = ldexp(i % 5 == 2 ? -1 : 1, (int)((i / LINES * 7 + i % LINES) % 3 - 1));
        br_scope *scope = br_scope_begin();
        check_folds(lengths[k / FLOATS / 4], floats[k / 4 % FLOATS], k % 4);
        br_scope_end(scope);
    }
}

/* NaN is the least element, wherever it is; the first of several is found. */
Test(folds, minima_with_nan)
{
    for (int k = 0; k < LENGTHS * FLOATS * 4; k++) {
        const int64_t n = lengths[k / FLOATS / 4];
        for (int64_t i = 0; i < MOST; i++)
            numbers[i] = (double)((i * 7919 + 13) % 23 - 11);
        if (n > 0)
            numbers[n / 2 * LINES] = numbers[(n - 1) * LINES + 1] = numbers[1] = NAN;
        br_scope *scope = br_scope_begin();
        br_tensor *x = laid_out(n, floats[k / 4 % FLOATS], k % 4), *place = NULL;
        br_tensor *least = n > 0 ? br_min_dim(x, 0, false, &place) : NULL;
        br_tensor *alone = n > 0 ? br_amin(x, BR_DIMS(0), false) : NULL;
        for (int64_t line = 0; least && line < LINES; line++) {
            const expected e = fold(numbers + line, n, LINES);
            double want = line < 2 ? NAN : e.min;
            cr_assert(of(least, line) == want || (line < 2 && isnan(of(least, line))));
            cr_assert(of(alone, line) == want || (line < 2 && isnan(of(alone, line))));
            cr_assert_eq(of(place, line), line == 0 ? (double)(n / 2) : line == 1 ? 0 : e.first);
        }
        br_scope_end(scope);
        check_ok();
    }
}

/* More columns than are combined at a time, and more rows than a byte counts. */
Test(folds, many_columns)
{
    static const br_dtype dtypes[] = { BR_BOOL, BR_I64, BR_F32, BR_BF16 };
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_lt_scalar(
            br_remainder(iota(BR_SHAPE(700, 1031), BR_I64), br_scalar(1013, BR_I64)), 900);
        br_index_fill_(x, 1, br_from_i64(BR_SHAPE(2), (int64_t[]){ 0, 1030 }), 1);
        br_index_fill_(x, 1, br_from_i64(BR_SHAPE(2), (int64_t[]){ 300, 1029 }), 0);
        x = br_to(x, dtypes[i]);
        br_tensor *rows = br_contiguous(br_t(x)), *a = NULL, *b = NULL;
        check_same_bits(br_sum_dim(x, BR_DIMS(0), false), br_sum_dim(rows, BR_DIMS(1), false));
        check_same_bits(br_any_dim(x, BR_DIMS(0), false), br_any_dim(rows, BR_DIMS(1), false));
        check_same_bits(br_all_dim(x, BR_DIMS(0), false), br_all_dim(rows, BR_DIMS(1), false));
        check_same_bits(br_amax(x, BR_DIMS(0), false), br_amax(rows, BR_DIMS(1), false));
        check_same_bits(br_amin(x, BR_DIMS(0), false), br_amin(rows, BR_DIMS(1), false));
        check_same_bits(br_max_dim(x, 0, false, &a), br_max_dim(rows, 1, false, &b));
        check_same_bits(a, b);
        check_same_bits(br_min_dim(x, 0, false, &a), br_min_dim(rows, 1, false, &b));
        check_same_bits(a, b);
        cr_assert_eq(br_item(br_sum(br_any_dim(x, BR_DIMS(0), false))), 1029);
        cr_assert_eq(br_item(br_sum(br_all_dim(x, BR_DIMS(0), false))), 2);
        br_scope_end(scope);
        check_ok();
    }
}

/* Neither the number of threads nor the instruction set changes a bit of a product or a minimum. */
Test(folds, threads_and_instruction_sets_agree)
{
    static const char *const variants[] = { "baseline", "avx2", "avx512" };
    static const int64_t sizes[][2] = { { 70001, 1 }, { 301, 1999 }, { 5000, 70 } };
    for (int i = 0; i < 3 * 2; i++) {
        br_tensor *first[4] = { NULL };
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_exp(br_mul_scalar(values(2, sizes[i / 2], 4, BR_F64), 0.01));
        x = br_to(br_contiguous(x), i % 2 ? BR_F32 : BR_F64);
        for (int v = 0; v < 3 * 3; v++) {
            if (!br__force_kernels(variants[v / 3]))
                continue;
            br_set_num_threads(1 + v % 3);
            br_tensor *results[] = { br_prod_dim(x, 0, false), br_prod_dim(x, 1, false),
                                     br_amin(x, BR_DIMS(0), false), br_amax(x, BR_DIMS(0), false) };
            for (int k = 0; k < 4; k++) {
                first[k] = first[k] ? first[k] : results[k];
                check_same_bits(first[k], results[k]);
            }
        }
        br_scope_end(scope);
    }
    cr_assert(br__force_kernels(NULL));
    check_ok();
}

Test(folds, a_large_integer_is_not_zero)
{
    for (int64_t n = 1; n < 40; n++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_full(BR_SHAPE(n), (double)(INT64_C(1) << 40), BR_I64);
        cr_assert_eq(br_item(br_count_nonzero(x, 0, NULL)), (double)n);
        cr_assert_eq(br_item(br_any(br_narrow(x, 0, n - 1, 1))), 1);
        br_scope_end(scope);
    }
}

/* Running maxima along lines and columns of every dtype; the last of equal elements is found, and
 * NaN stays. */
Test(folds, running_maxima)
{
    for (int k = 0; k < LENGTHS * BR_DTYPES; k++) {
        const int64_t n = lengths[k / BR_DTYPES];
        const br_dtype dtype = (br_dtype)(k % BR_DTYPES);
        br_scope *scope = br_scope_begin();
        for (int64_t i = 0; i < MOST; i++)
            numbers[i] = dtype == BR_BOOL ? i % 7 == 3 : (double)((i * 7919 + 13) % 101);
        if (dtype == BR_F32 && n > 5)
            numbers[5 * LINES] = NAN;
        br_tensor *x = br_to(br_from_f64(BR_SHAPE(n, LINES), numbers), dtype), *place, *across;
        br_tensor *y = br_cummax(x, 0, &place),
                  *line = br_cummax(br_contiguous(br_t(x)), 1, &across);
        check_ok();
        check_same_bits(y, br_contiguous(br_t(line)));
        check_same_bits(place, br_contiguous(br_t(across)));
        double *got = malloc((size_t)(n * LINES + 1) * sizeof *got);
        br_copy_out(br_to(y, BR_F64), got, (size_t)(n * LINES) * sizeof *got);
        for (int64_t l = 0; l < LINES; l++) {
            double best = -1;
            for (int64_t i = 0; i < n; i++) {
                const double v = numbers[i * LINES + l];
                best = v >= best || isnan(v) ? v : best;
                cr_assert(got[i * LINES + l] == best || (isnan(best) && isnan(got[i * LINES + l])));
            }
        }
        free(got);
        check_same_bits(br_gather(x, 0, place), y);
        br_scope_end(scope);
        check_ok();
    }
}

/* The last bin includes the upper end; numbers outside of the range and NaN are in no bin. */
Test(folds, histogram_of_numbers_at_the_ends)
{
    br_tensor *x =
        br_from_f64(BR_SHAPE(9), (double[]){ -1, 0, 0.5, 1, 3.99, 4, 4.01, NAN, INFINITY });
    for (int k = 0; k < FLOATS; k++)
        if (floats[k] != BR_BF16) /* which rounds 3.99 to 4 */
            check_equals(br_histc(br_to(x, floats[k]), 4, 0, 4), 2, 1, 0, 2);
    check_equals(br_histc(br_full(BR_SHAPE(3), 7, BR_F32), 2, 0, 4), 0, 0);
    check_equals(br_histc(br_reshape(br_arange(0, 6, 1, BR_F32), BR_SHAPE(2, 3)), 3, 0, 0), 2, 2,
                 2);
}

/* One index that is negative or too large, among many that are in range. */
Test(folds, an_index_out_of_range_is_found_anywhere)
{
    br_tensor *x = br_zeros(BR_SHAPE(5), BR_F32);
    for (int64_t n = 1; n < 200; n += 9)
        for (int64_t at = 0; at < n; at += 5)
            for (int high = 0; high < 2; high++) {
                br_scope *scope = br_scope_begin();
                br_tensor *index =
                    br_remainder(br_arange(0, (double)n, 1, BR_I64), br_scalar(5, BR_I64));
                check_ok();
                br_fill_(br_narrow(index, 0, at, 1), high ? 5 : -1);
                check_fails(br_gather(x, 0, index), high ? "index 5 at" : "index -1 at");
                br_scope_end(scope);
            }
}

/* The largest or a negative number at any place. */
Test(folds, bincount_at_any_place)
{
    for (int64_t n = 1; n < 8; n++)
        for (int64_t at = 0; at < n; at++) {
            br_scope *scope = br_scope_begin();
            br_tensor *x = br_ones(BR_SHAPE(n), BR_I64), *place = br_narrow(x, 0, at, 1);
            br_fill_(place, 9);
            br_tensor *y = br_bincount(x, NULL, 0);
            check_shape(y, BR_SHAPE(10));
            cr_assert_eq(br_at(y, BR_DIMS(1)), (double)(n - 1));
            cr_assert_eq(br_at(y, BR_DIMS(9)), 1);
            br_fill_(place, -3);
            check_fails(br_bincount(x, NULL, 0), "bincount: value -3 at position");
            br_scope_end(scope);
        }
    check_shape(br_bincount(br_zeros(BR_SHAPE(0), BR_I64), NULL, 0), BR_SHAPE(0));
}
