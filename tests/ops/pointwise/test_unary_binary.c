/* tests/ops/pointwise/test_unary_binary.c - compares unary functions with PyTorch and libm, and the
 * pointwise kernels across instruction sets, layouts, and numbers of threads. */
#include "ops/ops_internal.h"
#include "tests/ops/pointwise/accuracy.h"
#include "tests/ops/values.h"

#include <stdio.h>
#include <stdlib.h>

TestSuite(pointwise, .init = check_begin, .fini = check_end);

/* ---- Functions ------------------------------------------------------------------------------- */

static br_tensor *gelu(br_tensor *x)
{
    return br_gelu(x, BR_GELU_ERF);
}

static br_tensor *gelu_tanh(br_tensor *x)
{
    return br_gelu(x, BR_GELU_TANH);
}

static br_tensor *leaky_relu(br_tensor *x)
{
    return br_leaky_relu(x, 0.25);
}

static br_tensor *elu(br_tensor *x)
{
    return br_elu(x, 1.5);
}

static br_tensor *softplus(br_tensor *x)
{
    return br_softplus(x, 2, 20);
}

static br_tensor *clamp(br_tensor *x)
{
    return br_clamp(x, -1.5, 2);
}

/* The largest allowed error of each function, in ulps of the result. With `of_x` it is in ulps of
 * the argument, since gelu is only as accurate as 1 + erf. The ulp is at least that of `floor`. */
static const struct function {
    const char *name;
    br_tensor *(*f)(br_tensor *x);
    double units;
    bool of_x;
    double floor;
} functions[] = {
    { "exp", br_exp, 1, false, 0 },
    { "log", br_log, 1, false, 0 },
    { "sqrt", br_sqrt, 1, false, 0 },
    { "erf", br_erf, 2, false, 0 },
    { "tanh", br_tanh, 2, false, 0 },
    { "sigmoid", br_sigmoid, 2.5, false, 1e-31 },
    { "relu", br_relu, 0, false, 0 },
    { "gelu", gelu, 2, true, 0 },
    { "gelu_tanh", gelu_tanh, 2, true, 0 },
    { "neg", br_neg, 0, false, 0 },
    { "rsqrt", br_rsqrt, 1.5, false, 0 },
    { "sin", br_sin, 1, false, 0 },
    { "cos", br_cos, 1, false, 0 },
    { "sinc", br_sinc, 2, false, 0.5 },
    { "abs", br_abs, 0, false, 0 },
    { "sign", br_sign, 0, false, 0 },
    { "floor", br_floor, 0, false, 0 },
    { "ceil", br_ceil, 0, false, 0 },
    { "round", br_round, 0, false, 0 },
    { "silu", br_silu, 2.5, false, 1e-31 },
    { "leaky_relu", leaky_relu, 1, false, 0 },
    { "elu", elu, 3, false, 0 },
    { "softplus", softplus, 3, false, 1e-31 },
    { "clamp", clamp, 0, false, 0 },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* ---- Signs of zero --------------------------------------------------------------------------- */

static br_tensor *clamp_from_zero(br_tensor *x)
{
    return br_clamp(x, 0, 1);
}

static br_tensor *clamp_to_negative_zero(br_tensor *x)
{
    return br_clamp(x, -1, -0.0);
}

static br_tensor *hardtanh_from_zero(br_tensor *x)
{
    return br_hardtanh(x, 0, 1);
}

static br_tensor *fmod_of_two(br_tensor *x)
{
    return br_fmod(x, br_full(BR_SHAPE(1), 2, br_dtype_of(x)));
}

static br_tensor *remainder_of_two(br_tensor *x)
{
    return br_remainder(x, br_full(BR_SHAPE(1), 2, br_dtype_of(x)));
}

/* Functions for which PyTorch's zeros have the same sign in f32 and f64, and in full and partial
 * vectors. */
static const struct zeros {
    br_tensor *(*f)(br_tensor *x);
    const char *signs; /* of f(0) and f(-0) */
} zeros[] = {
    { br_abs, "++" },
    { br_sign, "++" },
    { br_neg, "-+" },
    { br_relu, "+-" },
    { br_relu6, "+-" },
    { clamp_from_zero, "+-" },
    { leaky_relu, "+-" },
    { hardtanh_from_zero, "+-" },
    { clamp_to_negative_zero, "+-" },
    { elu, "+-" },
    { br_selu, "+-" },
    { br_hardswish, "+-" },
    { br_silu, "+-" },
    { br_mish, "+-" },
    { br_softsign, "+-" },
    { br_tanhshrink, "++" },
    { br_frac, "++" },
    { fmod_of_two, "+-" },
    { br_sqrt, "+-" },
    { br_expm1, "+-" },
    { br_log1p, "+-" },
    { br_tanh, "+-" },
    { br_sin, "+-" },
    { br_round, "+-" },
    { br_floor, "+-" },
    { br_ceil, "+-" },
    { br_trunc, "+-" },
    { br_atan, "+-" },
    { br_asinh, "+-" },
    { remainder_of_two, "+-" },
};

enum { ZEROS = 41 };

/* Returns 0 and -0 alternately, starting with -0 if `first` is 1. */
static br_tensor *zeros_by_turns(int first, int64_t n, br_dtype dtype)
{
    br_tensor *t = br_zeros(BR_SHAPE(n), BR_F64);
    for (int64_t i = 0; i < n; i++)
        br_data_f64(t)[i] = (i + first) % 2 ? -0.0 : 0.0;
    return br_to(t, dtype);
}

static void check_turns(const br_tensor *t, const char *signs)
{
    char want[ZEROS + 1];
    for (int i = 0; i < ZEROS; i++)
        want[i] = signs[i % 2];
    want[br_numel(t)] = 0;
    check_signs(t, want);
}

static void signs_of_zero(void)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)
        for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
            for (int64_t n = 1; n <= ZEROS; n += 8) {
                br_scope *scope = br_scope_begin();
                check_turns(zeros[i].f(zeros_by_turns(0, n, dtype)), zeros[i].signs);
                br_scope_end(scope);
            }
}

Test(pointwise, signs_of_zero)
{
    with_every_variant(signs_of_zero);
}

/* For 0 and -0, the first operand is both the maximum and the minimum, at any position. PyTorch
 * agrees only for elements that do not fill a vector; in full vectors it returns the second
 * operand. */
static void first_zero_is_extreme(void)
{
    for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)
        for (int64_t n = 1; n <= ZEROS; n += 8) {
            br_scope *scope = br_scope_begin();
            br_tensor *a = zeros_by_turns(0, n, dtype), *b = zeros_by_turns(1, n, dtype);
            check_turns(br_maximum(a, b), "+-");
            check_turns(br_maximum(b, a), "-+");
            check_turns(br_minimum(a, b), "+-");
            check_turns(br_minimum(b, a), "-+");
            check_turns(br_clamp_tensor(a, b, NULL), "+-");
            check_turns(br_clamp_tensor(a, NULL, b), "+-");
            br_tensor *both[] = { a, b }, *pairs = br_stack(2, both, 0);
            check_turns(br_max_dim(pairs, 0, false, NULL), "+-");
            check_turns(br_min_dim(pairs, 0, false, NULL), "+-");
            br_scope_end(scope);
        }
}

Test(pointwise, first_zero_is_extreme)
{
    with_every_variant(first_zero_is_extreme);
}

/* ---- Accuracy -------------------------------------------------------------------------------- */

/* PyTorch's gradient of gelu with tanh computes 1 - tanh^2, which loses digits for tanh near 1. */
static const double pytorch_error = 2e-14;

static void check_case(const struct function *f, const double *want, br_dtype dtype)
{
    double x = want[0];
    br_scope *scope = br_scope_begin();
    br_tensor *leaf_x = leaf(br_scalar(x, dtype));
    br_tensor *y = f->f(leaf_x);
    br_backward(y);
    check_ok();

    double size = fmax(fabs(f->of_x ? x : want[1]), f->floor);
    double tolerance = f->units * resolution(size, dtype);
    cr_expect(agrees(br_item(y), want[1], tolerance, dtype), "%s(%a) of %s is %a, expected %a",
              f->name, x, br_dtype_name(dtype), br_item(y), want[1]);

    double slope = br_item(br_grad_of(leaf_x));
    tolerance = 4 * resolution(fmax(fabs(want[2]), 1), dtype) + pytorch_error;
    bool limit = isinf(x) && isnan(want[2]); /* PyTorch's formula computes inf * 0 there */
    cr_expect(limit || agrees(slope, want[2], tolerance, dtype),
              "the gradient of %s at %a of %s is %a, expected %a", f->name, x, br_dtype_name(dtype),
              slope, want[2]);
    br_scope_end(scope);
}

Test(pointwise, equal_pytorch)
{
    FILE *cases = fopen(BRASA_TEST_DIR "/ops/pointwise_cases.txt", "r");
    cr_assert_not_null(cases);
    char line[512], name[32], text[3][64];
    int seen[FUNCTIONS] = { 0 };
    while (fgets(line, sizeof line, cases)) {
        if (sscanf(line, "%31s %63s %63s %63s", name, text[0], text[1], text[2]) != 4)
            continue;
        for (int i = 0; i < FUNCTIONS; i++) {
            if (strcmp(functions[i].name, name) != 0)
                continue;
            double want[] = { atof(text[0]), atof(text[1]), atof(text[2]) };
            check_case(&functions[i], want, BR_F32);
            check_case(&functions[i], want, BR_F64);
            seen[i]++;
        }
    }
    fclose(cases);
    for (int i = 0; i < FUNCTIONS; i++)
        cr_assert_gt(seen[i], 100, "%d cases of %s", seen[i], functions[i].name);
}

static double logistic(double x)
{
    return 1 / (1 + exp(-x));
}

static double gelu_of(double x)
{
    return 0.5 * x * erfc(-x / sqrt(2));
}

static double rsqrt_of(double x)
{
    return 1 / sqrt(x);
}

/* The argument of the sine is rounded to f32. */
static double sinc_of(double x)
{
    const double t = (float)M_PI * (float)x;
    return x == 0 ? 1 : sin(t) / t;
}

static double silu_of(double x)
{
    return x / (1 + exp(-x));
}

static double elu_of(double x)
{
    return x < 0 ? 1.5 * expm1(x) : x;
}

static double softplus_of(double x)
{
    return 2 * x > 20 ? x : log1p(exp(2 * x)) / 2;
}

/* Compares f32 results for floats of every magnitude and sign, including NaN and infinities, with
 * libm in f64. */
Test(pointwise, accuracy)
{
    static double (*const exact[FUNCTIONS])(double) = {
        exp, log,     sqrt, erf,  tanh,  logistic, NULL, gelu_of, NULL, NULL,   rsqrt_of,   sin,
        cos, sinc_of, fabs, NULL, floor, ceil,     rint, silu_of, NULL, elu_of, softplus_of
    };
    enum { STEP = 16381, COUNT = (int)(UINT32_MAX / STEP) };
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)i * STEP;
        memcpy(&x[i], &bits, sizeof bits);
    }
    for (int k = 0; k < FUNCTIONS; k++) {
        const struct function *f = &functions[k];
        if (!exact[k])
            continue;
        br_scope *scope = br_scope_begin();
        br_copy_out(f->f(br_from_f32(BR_SHAPE(COUNT), x)), y, sizeof y);
        check_ok();
        for (int i = 0; i < COUNT; i++) {
            double want = exact[k]((double)x[i]);
            double size = fmax(fabs(f->of_x ? (double)x[i] : want), f->floor);
            cr_assert(agrees((double)y[i], want, f->units * resolution(size, BR_F32), BR_F32),
                      "%s(%a) is %a, expected %a", f->name, (double)x[i], (double)y[i], want);
        }
        br_scope_end(scope);
    }
}

/* Compares powers of floats of every magnitude and sign with libm in f64. */
Test(pointwise, accuracy_of_pow)
{
    enum { STEP = 65521, COUNT = (int)(UINT32_MAX / STEP) };
    static const float exponents[] = { 0,      1,     -1,       2,        3,
                                       -2,     0.5f,  1 / 3.0f, -1.7f,    7.3f,
                                       41,     1e-3f, 1e9f,     -1e-40f,  88.7f,
                                       -0.99f, NAN,   0x1p127f, INFINITY, -INFINITY };
    static float a[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)i * STEP;
        memcpy(&a[i], &bits, sizeof bits);
        if (i % 2 || isnan(a[i])) /* half of them near 1, where large exponents matter */
            a[i] = 0.5f + (float)i / COUNT;
    }
    for (size_t k = 0; k < sizeof exponents / sizeof *exponents; k++) {
        br_scope *scope = br_scope_begin();
        br_tensor *b = br_full(BR_SHAPE(COUNT), (double)exponents[k], BR_F32);
        br_copy_out(br_pow(br_from_f32(BR_SHAPE(COUNT), a), b), y, sizeof y);
        check_ok();
        for (int i = 0; i < COUNT; i++) {
            double want = pow((double)a[i], (double)exponents[k]);
            cr_assert(agrees((double)y[i], want, resolution(want, BR_F32), BR_F32),
                      "%a to the power %a is %a, expected %a", (double)a[i], (double)exponents[k],
                      (double)y[i], want);
        }
        br_scope_end(scope);
    }
}

/* Tests every significand with an even and an odd exponent, numbers on both sides of the threshold
 * below which roots are computed differently, the largest numbers, and denormal and negative ones.
 */
Test(pointwise, roots_are_rounded_to_nearest)
{
    enum { COUNT = 1 << 22 };
    static const uint32_t starts[] = { 0,          0x0d400000, 0x0d800000, 0x3f800000, 0x3fc00000,
                                       0x40000000, 0x40400000, 0x7f400000, 0x80000000 };
    static float x[COUNT], y[COUNT];
    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++) {
        for (uint32_t i = 0; i < COUNT; i++)
            memcpy(&x[i], &(uint32_t){ starts[k] + i }, sizeof *x);
        br_scope *scope = br_scope_begin();
        br_copy_out(br_sqrt(br_from_f32(BR_SHAPE(COUNT), x)), y, sizeof y);
        check_ok();
        for (int i = 0; i < COUNT; i++)
            cr_assert(agrees((double)y[i], (double)sqrtf(x[i]), 0, BR_F32),
                      "sqrt(%a) is %a, expected %a", (double)x[i], (double)y[i],
                      (double)sqrtf(x[i]));
        br_scope_end(scope);
    }
}

/* The relative error is small in the negative tail, where 1 + erf(x / sqrt 2) would lose its
 * digits. */
Test(pointwise, gelu_tail)
{
    br_scope *scope = br_scope_begin();
    for (double x = -5; x < 0; x += 0.25) {
        double want = 0.5 * x * erfc(-x / sqrt(2));
        double got = br_item(gelu(br_scalar(x, BR_F32)));
        cr_assert(fabs(got - want) <= 3e-3 * -want, "gelu(%g) is %g, expected %g", x, got, want);
    }
    br_scope_end(scope);
}

Test(pointwise, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *integers = br_zeros(BR_SHAPE(2, 3), BR_I64);
    cr_assert_eq(br_dtype_of(br_exp(integers)), BR_F32, "as in PyTorch");
    check_fails(br_silu(integers), "silu: x [2, 3] is i64, must be a floating-point dtype");
    check_fails(br_relu(NULL), "relu: x is NULL");
    check_fails(br_gelu(br_scalar(1, BR_F32), (br_gelu_approximate)7), "gelu: approximate is 7");
    check_fails(br_neg(br_zeros(BR_SHAPE(1), BR_BOOL)), "neg: x [1] is bool, must be one of: f32");
    br_scope_end(scope);
}

Test(pointwise, clamp)
{
    const double nan = NAN, inf = INFINITY;
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f64(BR_SHAPE(5), (double[]){ -inf, -2, 0.5, inf, nan });
    check_equals(br_clamp(x, -1, inf), -1, -1, 0.5, inf, nan);
    check_equals(br_clamp(x, -inf, 1), -inf, -2, 0.5, 1, nan);
    check_equals(br_clamp(x, 2, 1), 1, 1, 1, 1, nan); /* max wins */
    check_equals(br_clamp(x, nan, 1), nan, nan, nan, nan, nan);
    br_tensor *i = br_from_i64(BR_SHAPE(3), (int64_t[]){ INT64_MIN, 3, INT64_MAX });
    check_equals(br_clamp(i, -4, 2), -4, 2, 2);
    check_same_bits(br_clamp(i, -inf, inf), i);
    check_fails(br_clamp(i, 0, 0.5), "clamp: 0.5 cannot be represented as i64");
    check_fails(br_clamp(i, nan, 1), "clamp: nan cannot be represented as i64");
    br_scope_end(scope);
}

/* INT64_MIN has no positive counterpart, so its absolute value and its quotient by -1 wrap around.
 */
Test(pointwise, integers)
{
    br_scope *scope = br_scope_begin();
    br_tensor *i = br_from_i64(BR_SHAPE(4), (int64_t[]){ INT64_MIN, -3, 0, INT64_MAX });
    check_equals(br_abs(i), (double)INT64_MIN, 3, 0, (double)INT64_MAX);
    check_equals(br_sign(i), -1, -1, 0, 1);
    check_same_bits(br_floor(i), i);
    check_same_bits(br_round(i), i);
    br_tensor *minus = br_from_i64(BR_SHAPE(1), (int64_t[]){ -1 });
    check_equals(br_floor_divide(i, minus), (double)INT64_MIN, 3, 0, -(double)INT64_MAX);
    check_equals(br_remainder(i, minus), 0, 0, 0, 0);
    check_equals(br_fmod(i, minus), 0, 0, 0, 0);
    br_scope_end(scope);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static br_tensor *call_function(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    return ((const struct function *)context)->f(inputs[0]);
}

Test(pointwise, gradients)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = values(BR_SHAPE(3, 4), 5, BR_F64);
        bool positive =
            functions[i].f == br_log || functions[i].f == br_sqrt || functions[i].f == br_rsqrt;
        x = leaf(br_detach(positive ? br_add_scalar(br_mul(x, x), 0.5) : x));
        check_gradient(call_function, (void *)&functions[i], 1, &x);
        check_second_gradient(call_function, (void *)&functions[i], 1, &x);
        br_scope_end(scope);
    }
}

Test(pointwise, fused_and_composed_gradients_agree)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf(values(BR_SHAPE(101), 0, BR_F64)), *fused, *composed;
        br_tensor *y = functions[i].f(br_add_scalar(x, 4)), *dy = values(BR_SHAPE(101), 1, BR_F64);
        br_grad(1, &y, 1, &x, &fused, BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true));
        br_grad(1, &y, 1, &x, &composed,
                BR_OPTIONS(br_grad, .gradients = &dy, .create_graph = true));
        check_ok();
        cr_assert(br_allclose(fused, composed, 1e-13, 1e-14), "%s", functions[i].name);
        br_scope_end(scope);
    }
}

/* ---- Kernels --------------------------------------------------------------------------------- */

typedef struct kernel {
    const char *name;
    br_pointwise kernel;
    int operands;
    bool compares;
} kernel;

#define UNARY_KERNEL(name, ...)          { #name, BR_POINTWISE(name), 1, false },
#define BINARY_KERNEL(name, ...)         { #name, BR_POINTWISE(name), 2, false },
#define COMPARE_KERNEL(name, expression) { #name, BR_POINTWISE(name), 2, true },

static const kernel kernels[] = { BR_POINTWISE_KERNELS(UNARY_KERNEL, BINARY_KERNEL,
                                                       COMPARE_KERNEL) /**/
                                  UNARY_KERNEL(exp, 0) UNARY_KERNEL(log, 0) };
enum { KERNELS = sizeof kernels / sizeof *kernels };

/* Of isclose, and what nan_to_num writes; all kernels get them. */
static const double numbers[] = { 1e-5, 1e-8, -1 };

static br_tensor *run(const kernel *k, br_tensor *a, br_tensor *b)
{
    br_tensor *y = br_empty(br_ndim(a), br_sizes(a), k->compares ? BR_BOOL : br_dtype_of(a));
    br__pointwise(k->kernel, 1 + k->operands, (const br_tensor *[]){ y, a, b }, numbers);
    return y;
}

/* The results of instruction sets may differ only because some fuse multiplications with
 * additions. */
Test(pointwise, instruction_sets_agree)
{
    static const char *const variants[] = { "avx2", "avx512" };
    for (int i = 0; i < KERNELS; i++) {
        for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
            br_scope *scope = br_scope_begin();
            br_tensor *a = values(BR_SHAPE(1003), 3, dtype), *b = values(BR_SHAPE(1003), 8, dtype);
            cr_assert(br__force_kernels("baseline"));
            br_tensor *want = run(&kernels[i], a, b);
            for (int v = 0; v < 2; v++) {
                if (!br__force_kernels(variants[v]))
                    continue;
                br_tensor *got = run(&kernels[i], a, b), *both_nan = NULL;
                if (!kernels[i].compares) { /* both being NaN counts as equal */
                    both_nan = br_logical_and(br_ne(got, got), br_ne(want, want));
                    got = br_masked_fill(got, both_nan, 0);
                }
                br_tensor *expected = both_nan ? br_masked_fill(want, both_nan, 0) : want;
                double units = dtype == BR_F32 ? 4 * 0x1p-24 : 8 * 0x1p-53;
                bool close = kernels[i].compares ? br_equal(got, expected)
                                                 : br_allclose(got, expected, units, units);
                cr_assert(close, "%s of %s, %s", kernels[i].name, br_dtype_name(dtype),
                          variants[v]);
            }
            br_scope_end(scope);
        }
    }
    cr_assert(br__force_kernels(NULL));
    cr_assert_not(br__force_kernels("no such set"));
}

/* Dense, strided and scalar operands give the same bits. */
Test(pointwise, layouts_agree)
{
    for (int i = 0; i < KERNELS; i++) {
        for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++) {
            br_scope *scope = br_scope_begin();
            br_tensor *a = values(BR_SHAPE(203), 3, dtype), *b = values(BR_SHAPE(203), 8, dtype);
            br_tensor *one = br_scalar(0.75, dtype), *ones = br_full(BR_SHAPE(203), 0.75, dtype);
            br_tensor *wide_a = br_select(br_stack(BR_INPUTS(a, b, a), 1), 1, 2);
            br_tensor *wide_b = br_select(br_stack(BR_INPUTS(a, b), 1), 1, 1);
            check_same_bits(run(&kernels[i], wide_a, wide_b), run(&kernels[i], a, b));
            check_same_bits(run(&kernels[i], a, one), run(&kernels[i], a, ones));
            check_same_bits(run(&kernels[i], br_expand(one, BR_SHAPE(203)), b),
                            run(&kernels[i], ones, b));
            br_scope_end(scope);
        }
    }
}

Test(pointwise, does_not_depend_on_threads)
{
    for (int i = 0; i < KERNELS; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *a = values(BR_SHAPE(3, 70001), 3, BR_F32),
                  *b = values(BR_SHAPE(70001), 8, BR_F32);
        br_set_num_threads(1);
        br_tensor *want = run(&kernels[i], a, b);
        for (int threads = 2; threads <= 3; threads++) {
            br_set_num_threads(threads);
            check_same_bits(run(&kernels[i], a, b), want);
        }
        br_scope_end(scope);
    }
}

/* At the bounds the gradient is 0, as in PyTorch, also if it is recorded. */
Test(pointwise, gradient_of_clamp_at_its_bounds)
{
    for (int create_graph = 0; create_graph < 2; create_graph++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf(br_from_f64(BR_SHAPE(3), (double[]){ 0, 0.5, 1 })), *dx;
        br_tensor *sum = br_sum(br_clamp(x, 0, 1));
        cr_assert(br_grad(1, &sum, 1, &x, &dx, BR_OPTIONS(br_grad, .create_graph = create_graph)));
        check_equals(dx, 0, 1, 0);
        br_scope_end(scope);
    }
}
