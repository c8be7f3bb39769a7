/* tests/ops/matmul/test_matmul_precision.c - br_set_float32_matmul_precision(): matrix products and
 * convolutions whose operands are rounded to bf16. The references are f64 products of operands that
 * plain C has rounded. */
#include "backends/cpu/gemm/gemm_kernels.h"
#include "backends/cpu/kernels.h"
#include "tests/ops/matmul/bf16_rounding.h"
#include "tests/ops/matmul/bf16_units.h"
#include "tests/same_bits.h"
#include "tests/support.h"

#include <brasa/brasa.h>

static void precision_end(void)
{
    br_set_float32_matmul_precision("highest");
    next_unit(UNITS);
    check_end();
}

TestSuite(matmul_precision, .init = check_begin, .fini = precision_end);

static void set_precision(const char *name)
{
    cr_assert(br_set_float32_matmul_precision(name), "%s", br_error_message());
    cr_assert_str_eq(br_get_float32_matmul_precision(), name);
}

/* ---- The setting ----------------------------------------------------------------------------- */

Test(matmul_precision, names)
{
    cr_assert_str_eq(br_get_float32_matmul_precision(), "highest");
    set_precision("medium");
    set_precision("high");
    set_precision("highest");
    check_fails(br_set_float32_matmul_precision("mediun"),
                "set_float32_matmul_precision: precision is 'mediun', must be highest, high or "
                "medium");
    check_fails(br_set_float32_matmul_precision(""), "precision is '', must be highest");
    check_fails(br_set_float32_matmul_precision("HIGH"), "precision is 'HIGH', must be highest");
    check_fails(br_set_float32_matmul_precision(NULL), "precision is NULL, must be highest");
    cr_assert_str_eq(br_get_float32_matmul_precision(), "highest", "an error changes nothing");
}

/* The variable is read at the first product, which a wrong value fails. */
Test(matmul_precision, environment)
{
    setenv("BRASA_FLOAT32_MATMUL_PRECISION", "low", true);
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_ones(BR_SHAPE(64, 64), BR_F32);
    check_fails(br_mm(a, a),
                "BRASA_FLOAT32_MATMUL_PRECISION is 'low', must be highest, high or medium");
    check_close(br_at(br_mm(a, a), BR_DIMS(3, 5)), 64, 0);
    br_scope_end(scope);
}

Test(matmul_precision, environment_sets_the_initial_precision)
{
    setenv("BRASA_FLOAT32_MATMUL_PRECISION", "medium", true);
    cr_assert_str_eq(br_get_float32_matmul_precision(), "medium");
    set_precision("highest");
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Returns the elements, rounded to bf16, in f64. */
static br_tensor *rounded(br_tensor *t)
{
    br_tensor *r = br_contiguous(br_to(t, BR_F64));
    for (int64_t i = 0; i < br_numel(r); i++)
        br_data_f64(r)[i] = (double)nearest_bf16((float)br_data_f64(r)[i]);
    return r;
}

/* Checks a result of sums of k products, given the same result `want` and the sum of the products'
 * absolute values, both in f64 from rounded operands. Each of the k additions in f32 rounds by half
 * a unit in the last place, and so do those of the bias and of the k-blocks. */
static void check_sums(br_tensor *got, br_tensor *want, br_tensor *magnitude, int64_t k)
{
    check_ok();
    cr_assert(br_same_shape(got, want));
    got = br_contiguous(br_to(got, BR_F64));
    want = br_contiguous(want);
    magnitude = br_contiguous(magnitude);
    for (int64_t i = 0; i < br_numel(got); i++) {
        const double bound =
            (double)(k + k / 300 + 3) * FLT_EPSILON / 2 * br_data_f64(magnitude)[i];
        cr_assert(fabs(br_data_f64(got)[i] - br_data_f64(want)[i]) <= bound,
                  "k %lld: element %lld is %.9g, expected %.9g +- %.2g", (long long)k, (long long)i,
                  br_data_f64(got)[i], br_data_f64(want)[i], bound);
    }
}

/* Returns the bf16 numbers nearest to what rounding leaves, in f64. */
static br_tensor *remainders(br_tensor *t)
{
    return rounded(br_to(br_sub(br_to(t, BR_F64), rounded(t)), BR_F32));
}

typedef enum layout { DENSE, TRANSPOSED, STRIDED, LAYOUTS } layout;

/* Returns random values of shape [.., rows, columns] in the given layout. */
static br_tensor *operand(int ndim, const int64_t *sizes, layout how)
{
    int64_t s[BR_MAX_DIMS];
    memcpy(s, sizes, (size_t)ndim * sizeof *s);
    if (how == TRANSPOSED) {
        s[ndim - 2] = sizes[ndim - 1];
        s[ndim - 1] = sizes[ndim - 2];
        return br_transpose(br_randn(ndim, s, BR_F32), -1, -2);
    }
    s[ndim - 1] *= how == STRIDED ? 3 : 1;
    return br_slice(br_randn(ndim, s, BR_F32), -1, 0, BR_ALL, how == STRIDED ? 3 : 1);
}

/* Checks the product in that precision, given the sum of `terms` products and the sum of their
 * absolute values, and that it has the same bits for 1, 2 and 3 threads. */
static void check_threads(const char *precision, br_tensor *a, br_tensor *b, br_tensor *want,
                          br_tensor *magnitude, int64_t terms)
{
    br_tensor *first = NULL;
    set_precision(precision);
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        br_tensor *c = br_matmul(a, b);
        if (first)
            cr_assert(same_bits(first, c), "%d threads change the result", threads);
        else
            check_sums(c, want, magnitude, terms);
        first = c;
    }
    set_precision("highest");
    cr_assert(!same_bits(first, br_matmul(a, b)), "the product was not computed in bf16");
}

static void check_matmul(br_tensor *a, br_tensor *b)
{
    br_tensor *ra = rounded(a), *rb = rounded(b);
    check_threads("medium", a, b, br_matmul(ra, rb), br_matmul(br_abs(ra), br_abs(rb)),
                  br_size(a, -1));
}

/* In "high" a product is the sum of three products of bf16 numbers. */
static void check_split_matmul(br_tensor *a, br_tensor *b)
{
    br_tensor *ra = rounded(a), *rb = rounded(b), *la = remainders(a), *lb = remainders(b);
    br_tensor *want = br_add(br_matmul(ra, rb), br_add(br_matmul(ra, lb), br_matmul(la, rb)));
    br_tensor *magnitude =
        br_matmul(br_add(br_abs(ra), br_abs(la)), br_add(br_abs(rb), br_abs(lb)));
    check_threads("high", a, b, want, magnitude, 3 * br_size(a, -1));
}

/* Partial tiles, several k-blocks, odd k, and several blocks of packed rows. */
static const int64_t shapes[][3] = {
    { 41, 41, 41 },   { 6, 700, 63 },    { 7, 609, 65 },    { 100, 64, 100 },
    { 100, 100, 64 }, { 333, 257, 131 }, { 601, 1217, 90 }, { 1300, 610, 97 },
};

static void check_products(void)
{
    br_manual_seed(1);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int how = 0; how < LAYOUTS * LAYOUTS; how++) {
            const layout of_a = (layout)(how / LAYOUTS), of_b = (layout)(how % LAYOUTS);
            const int64_t *n = shapes[s];
            if (n[0] <= 12 && of_a != TRANSPOSED && of_b == TRANSPOSED)
                continue; /* computed by dot products, in f32 */
            if (n[0] > 400 && of_a != of_b)
                continue; /* takes long */
            br_scope *scope = br_scope_begin();
            br_tensor *a = operand(BR_SHAPE(n[0], n[1]), of_a);
            br_tensor *b = operand(BR_SHAPE(n[1], n[2]), of_b);
            check_matmul(a, b);
            if (br__gemm_bf16_kernels(BR_MATMUL_HIGH))
                check_split_matmul(a, b);
            br_scope_end(scope);
        }
}

Test(matmul_precision, products)
{
    need_unit(precision_end);
    FOR_EACH_UNIT(unit)
    {
        check_products();
    }
}

static void check_batches_broadcast(void)
{
    static const struct {
        int a_ndim, b_ndim;
        int64_t a[4], b[4];
    } cases[] = {
        { 3, 3, { 9, 50, 64 }, { 9, 64, 50 } },
        { 4, 4, { 3, 1, 45, 46 }, { 1, 2, 46, 47 } },
        { 3, 2, { 3, 45, 70 }, { 70, 100 } },
        { 2, 3, { 45, 70 }, { 4, 70, 33 } },
    };
    br_manual_seed(2);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int how = 0; how < LAYOUTS; how++) {
            br_scope *scope = br_scope_begin();
            check_matmul(operand(cases[i].a_ndim, cases[i].a, (layout)how),
                         operand(cases[i].b_ndim, cases[i].b, (layout)((how + 1) % LAYOUTS)));
            br_scope_end(scope);
        }
}

Test(matmul_precision, batches_broadcast)
{
    need_unit(precision_end);
    FOR_EACH_UNIT(unit)
    {
        check_batches_broadcast();
    }
}

/* Returns the root of the mean square of the difference of two tensors. */
static double distance(br_tensor *x, br_tensor *y)
{
    br_tensor *d = br_sub(br_to(x, BR_F64), br_to(y, BR_F64));
    return sqrt(br_item(br_mean(br_mul(d, d))));
}

/* Three products have a 30th of the error of one, or less. */
static void check_errors(void)
{
    br_manual_seed(7);
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_randn(BR_SHAPE(200, 500), BR_F32), *b = br_randn(BR_SHAPE(500, 120), BR_F32);
    br_tensor *exact = br_mm(br_to(a, BR_F64), br_to(b, BR_F64));
    set_precision("medium");
    const double medium = distance(br_mm(a, b), exact);
    set_precision("high");
    const double high = distance(br_mm(a, b), exact);
    check_ok();
    cr_assert(high <= medium / 30, "the error is %g, that of medium %g", high, medium);
    br_scope_end(scope);
}

Test(matmul_precision, high_has_a_thirtieth_of_the_error)
{
    need_unit(precision_end);
    FOR_EACH_UNIT(unit)
    {
        check_errors();
    }
}

/* Returns the precisions that have kernels for bf16 numbers, and in *count their number. */
static const char *const *bf16_precisions(int *count)
{
    static const char *const names[] = { "medium", "high" };
    *count = br__gemm_bf16_kernels(BR_MATMUL_HIGH) ? 2 : 1;
    return names;
}

/* Checks a result of sums of k products of precision "medium" or "high", given the results of the
 * nearest bf16 numbers (`want`) and of the unrounded operands (`exact`). "high" leaves out the
 * product of two remainders, which is at most 2^-16 of a term, and rounds both remainders, by as
 * much. */
static void check_precision(const char *precision, br_tensor *got, br_tensor *want,
                            br_tensor *exact, br_tensor *magnitude, int64_t k)
{
    if (strcmp(precision, "medium") == 0) {
        check_sums(got, want, magnitude, k);
        return;
    }
    check_sums(got, exact, magnitude, 3 * k + (int64_t)ceil(3 * 0x1p-16 / (FLT_EPSILON / 2)));
}

/* The bias is not rounded. One that is not contiguous is added by accumulation. */
static void check_linear(void)
{
    br_manual_seed(3);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(3, 50, 701), BR_F32), *w = br_randn(BR_SHAPE(70, 701), BR_F32);
    br_tensor *twice = br_randn(BR_SHAPE(140), BR_F32);
    br_tensor *biases[] = { br_narrow(twice, 0, 0, 70), br_slice(twice, 0, 0, BR_ALL, 2) };
    br_tensor *rx = rounded(x), *rw = rounded(w);
    int count;
    const char *const *precisions = bf16_precisions(&count);
    for (int i = 0; i < 2 * count; i++) {
        set_precision(precisions[i / 2]);
        br_tensor *y = br_f_linear(x, w, biases[i % 2]), *bias = br_to(biases[i % 2], BR_F64);
        check_precision(precisions[i / 2], y, br_f_linear(rx, rw, bias),
                        br_f_linear(br_to(x, BR_F64), br_to(w, BR_F64), bias),
                        br_f_linear(br_abs(rx), br_abs(rw), br_abs(bias)), 701);
    }
    br_scope_end(scope);
}

Test(matmul_precision, linear)
{
    need_unit(precision_end);
    FOR_EACH_UNIT(unit)
    {
        check_linear();
    }
}

/* Convolutions pack listed elements of a padded copy. */
static void check_convolution(const char *precision, int64_t channels, int stride)
{
    br_scope *scope = br_scope_begin();
    const br_conv_options *options =
        BR_OPTIONS(br_conv, .stride = { stride, stride }, .padding = { 1, 2 });
    br_tensor *x = br_randn(BR_SHAPE(2, channels, 21, 18), BR_F32);
    br_tensor *w = br_randn(BR_SHAPE(17, channels, 3, 3), BR_F32);
    br_tensor *rx = rounded(x), *rw = rounded(w);
    set_precision(precision);
    br_tensor *y = br_f_conv2d(x, w, NULL, options);
    check_precision(precision, y, br_f_conv2d(rx, rw, NULL, options),
                    br_f_conv2d(br_to(x, BR_F64), br_to(w, BR_F64), NULL, options),
                    br_f_conv2d(br_abs(rx), br_abs(rw), NULL, options), channels * 9);
    set_precision("highest");
    cr_assert(!same_bits(y, br_f_conv2d(x, w, NULL, options)), "not computed in bf16");
    br_scope_end(scope);
}

Test(matmul_precision, convolutions)
{
    need_unit(precision_end);
    FOR_EACH_UNIT(unit)
    {
        int count;
        const char *const *precisions = bf16_precisions(&count);
        br_manual_seed(4);
        for (int i = 0; i < count; i++)
            for (int stride = 1; stride <= 2; stride++) {
                check_convolution(precisions[i], 13, stride);
                check_convolution(precisions[i], 70, stride); /* two k-blocks */
            }
    }
}

/* ---- Rounding -------------------------------------------------------------------------------- */

enum { SIDE = 64 };

/* A column of values times a row of ones: each row of the product is a rounded value. */
static void check_rounding(void)
{
    const float e = 0x1p-8f; /* half of the distance of bf16 numbers above 1 */
    const float values[] = {
        0,
        1,
        1 + e,
        1 + 3 * e,
        1 + e + 0x1p-23f,
        1 + e - 0x1p-23f,
        -1 - e,
        -1 - 3 * e,
        2 - e,
        NAN,
        -NAN,
        INFINITY,
        -INFINITY,
        FLT_MAX,
        -FLT_MAX, /* FLT_MAX is rounded to infinity */
        0x1.fep127f,
        0x1.feffffp127f,
        0x1.ffp127f, /* bf16's largest, just below and at its tie */
        FLT_MIN,
        -FLT_MIN,
        FLT_MIN / 2,
        -FLT_MIN / 2,
        0x1.fffffcp-127f,
        0x1p-149f, /* denormals */
        3.14159265f,
        1e30f,
        -1e-30f,
        0x1.00fffep-126f,
    };
    enum { VALUES = sizeof values / sizeof *values };
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_zeros(BR_SHAPE(SIDE, SIDE), BR_F32), *one = br_zeros_like(a);
    for (int i = 0; i < SIDE; i++) {
        br_data_f32(a)[i * SIDE] = values[i % VALUES];
        br_data_f32(one)[i] = 1;
    }
    set_precision("medium");
    br_tensor *rows = br_mm(a, one), *columns = br_mm(br_t(one), br_t(a));
    check_ok();
    for (int64_t i = 0; i < SIDE * SIDE; i++) {
        const float x = values[i / SIDE % VALUES], want = nearest_bf16(x);
        const float got = br_data_f32(rows)[i];
        const float transposed = br_data_f32(columns)[i % SIDE * SIDE + i / SIDE];
        cr_assert(isnan(want) ? isnan(got) : got == want, "%a becomes %a, expected %a", (double)x,
                  (double)got, (double)want);
        cr_assert(isnan(want) ? isnan(transposed) : transposed == want,
                  "%a becomes %a in the right operand, expected %a", (double)x, (double)transposed,
                  (double)want);
    }
    br_scope_end(scope);
}

Test(matmul_precision, rounding)
{
    need_unit(precision_end);
    FOR_EACH_UNIT(unit)
    {
        check_rounding();
    }
}

/* ---- Products that do not change ------------------------------------------------------------- */

/* Returns the products of one pair of operands with every precision. */
static void multiply_each(br_tensor *a, br_tensor *b, br_tensor *c[4])
{
    static const char *const names[] = { "highest", "medium", "high", "highest" };
    for (int i = 0; i < 4; i++) {
        set_precision(names[i]);
        c[i] = br_mm(a, b);
    }
    check_ok();
}

/* "high" is f32 except with AMX. */
Test(matmul_precision, a_precision_ends_with_its_setting)
{
    br_manual_seed(5);
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_randn(BR_SHAPE(90, 130), BR_F32), *b = br_randn(BR_SHAPE(130, 70), BR_F32);
    br_tensor *c[4];
    multiply_each(a, b, c);
    cr_assert(same_bits(c[0], c[3]));
    cr_assert_eq(same_bits(c[0], c[1]), strcmp(br_get_float32_matmul_unit(), "f32") == 0);
    cr_assert_eq(same_bits(c[0], c[2]), strcmp(br_get_float32_matmul_unit(), "amx") != 0);
    br_scope_end(scope);
}

/* f64, small products, a single row, and kernels without a unit for bf16. */
Test(matmul_precision, exceptions_are_not_rounded)
{
    static const int64_t small[][3] = { { 32, 32, 32 }, { 5, 300, 300 }, { 1, 700, 700 } };
    br_manual_seed(6);
    br_scope *scope = br_scope_begin();
    br_tensor *c[4];
    for (size_t i = 0; i < sizeof small / sizeof *small; i++) {
        const int64_t *n = small[i];
        multiply_each(br_randn(BR_SHAPE(n[0], n[1]), BR_F32),
                      br_randn(BR_SHAPE(n[1], n[2]), BR_F32), c);
        cr_assert(same_bits(c[0], c[1]));
    }
    br_tensor *a = br_randn(BR_SHAPE(90, 130), BR_F64), *b = br_randn(BR_SHAPE(130, 70), BR_F64);
    multiply_each(a, b, c);
    cr_assert(same_bits(c[0], c[1]));
    static const char *const others[] = { "avx512", "avx2", "baseline" };
    for (int i = 0; i < 3; i++) {
        if (!br__force_kernels(others[i]))
            continue;
        cr_assert_str_eq(br_get_cpu_capability(), others[i]);
        cr_assert_str_eq(br_get_float32_matmul_unit(), "f32");
        multiply_each(br_to(a, BR_F32), br_to(b, BR_F32), c);
        cr_assert(same_bits(c[0], c[1]), "%s", others[i]);
    }
    br__force_kernels(NULL);
    br_scope_end(scope);
}
