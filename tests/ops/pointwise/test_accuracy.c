/* tests/ops/pointwise/test_accuracy.c - compares f32 functions that are computed in double with
 * libm in f64. */
#include "tests/ops/pointwise/accuracy.h"
#include "tests/ops/values.h"

TestSuite(accuracy, .init = check_begin, .fini = check_end);

static double erfcx_of(double x)
{
    const double z = 1 / (2 * x * x);
    return x < 20 ? exp(x * x) * erfc(x)
                  : (1 - z * (1 - 3 * z * (1 - 5 * z * (1 - 7 * z)))) / (x * sqrt(M_PI));
}

static br_tensor *logit(br_tensor *x)
{
    return br_logit(x, BR_NONE_F64);
}

static double logit_of(double x)
{
    return x > 0.25 && x < 0.75 ? log1p((2 * x - 1) / (1 - x)) : log(x / (1 - x));
}

/* The functions that are computed in double, and the largest error in ulps: libm's error for large
 * angles, else little more than half an ulp. */
static const struct {
    const char *name;
    br_tensor *(*f)(br_tensor *x);
    double (*exact)(double x);
    double units;
} in_double[] = {
    { "sin", br_sin, sin, 0.6 },        { "cos", br_cos, cos, 0.6 },
    { "tan", br_tan, tan, 1.1 },        { "asin", br_asin, asin, 0.51 },
    { "acos", br_acos, acos, 0.51 },    { "atan", br_atan, atan, 0.51 },
    { "sinh", br_sinh, sinh, 0.51 },    { "cosh", br_cosh, cosh, 0.51 },
    { "asinh", br_asinh, asinh, 0.51 }, { "acosh", br_acosh, acosh, 0.51 },
    { "atanh", br_atanh, atanh, 0.51 }, { "exp2", br_exp2, exp2, 0.51 },
    { "expm1", br_expm1, expm1, 0.51 }, { "log2", br_log2, log2, 0.51 },
    { "log10", br_log10, log10, 0.51 }, { "log1p", br_log1p, log1p, 0.51 },
    { "erfc", br_erfc, erfc, 0.51 },    { "erfcx", br_erfcx, erfcx_of, 0.51 },
    { "logit", logit, logit_of, 0.51 },
};

/* Half of the arguments are floats of every magnitude and sign, the others are in -4 .. 4. */
Test(accuracy, of_one)
{
    enum { STEP = 16381, COUNT = (int)(UINT32_MAX / STEP) };
    static float x[COUNT], y[COUNT];
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)i * STEP;
        memcpy(&x[i], &bits, sizeof bits);
        if (i % 2)
            x[i] = 8 * (float)i / COUNT - 4;
    }
    x[1] = -0.0F;
    for (size_t k = 0; k < sizeof in_double / sizeof *in_double; k++) {
        br_scope *scope = br_scope_begin();
        br_copy_out(in_double[k].f(br_from_f32(BR_SHAPE(COUNT), x)), y, sizeof y);
        check_ok();
        for (int i = 0; i < COUNT; i++) {
            const double want = in_double[k].exact((double)x[i]);
            cr_assert(
                agrees((double)y[i], want, in_double[k].units * resolution(want, BR_F32), BR_F32) &&
                    (want != 0 || !signbit(want) == !signbit(y[i])),
                "%s(%a) is %a, expected %a", in_double[k].name, (double)x[i], (double)y[i], want);
        }
        br_scope_end(scope);
    }
}

static double logaddexp_of(double a, double b)
{
    const double more = a > b ? a : b;
    return a == b ? a + M_LN2 : isnan(a) ? a : more + log1p(exp(-fabs(a - b)));
}

static double remainder_of(double a, double b)
{
    const double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

static const struct {
    const char *name;
    br_tensor *(*f)(br_tensor *a, br_tensor *b);
    double (*exact)(double a, double b);
    double units;
} pairs[] = {
    { "atan2", br_atan2, atan2, 0.51 }, { "hypot", br_hypot, hypot, 0.51 },
    { "fmod", br_fmod, fmod, 0 },       { "remainder", br_remainder, remainder_of, 0.51 },
    { "pow", br_pow, pow, 0.54 },       { "logaddexp", br_logaddexp, logaddexp_of, 0.51 },
};

/* A third of the pairs are floats of every magnitude, a third are in -8 .. 8, and a third are small
 * integers. */
Test(accuracy, of_pairs)
{
    enum { COUNT = 99999 };
    static float a[COUNT], b[COUNT], y[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t first = i * 2654435761U, second = (i + 1) * 2246822519U;
        memcpy(&a[i], &first, sizeof first);
        memcpy(&b[i], &second, sizeof second);
        if (i % 3 == 1) {
            a[i] = (float)first * 0x1p-28F - 8;
            b[i] = (float)second * 0x1p-28F - 8;
        } else if (i % 3 == 2) {
            a[i] = (float)(first >> 27) - 16;
            b[i] = (float)(second >> 28) - 8;
        }
    }
    a[0] = INFINITY, b[0] = NAN, a[3] = 5, b[3] = -INFINITY, a[6] = b[6] = -INFINITY;
    for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
        br_scope *scope = br_scope_begin();
        br_copy_out(pairs[k].f(br_from_f32(BR_SHAPE(COUNT), a), br_from_f32(BR_SHAPE(COUNT), b)), y,
                    sizeof y);
        check_ok();
        for (int i = 0; i < COUNT; i++) {
            const double want = pairs[k].exact((double)a[i], (double)b[i]);
            cr_assert(agrees((double)y[i], want, pairs[k].units * resolution(want, BR_F32), BR_F32),
                      "%s(%a, %a) is %a, expected %a", pairs[k].name, (double)a[i], (double)b[i],
                      (double)y[i], want);
        }
        br_scope_end(scope);
    }
}

static br_tensor *trigamma(br_tensor *x)
{
    return br_polygamma(1, x);
}

/* Log gamma and its derivatives in f32 against f64. Near roots of digamma and negative roots of
 * lgamma, the terms of a sum cancel. trigamma rounds pi x to f32 for x < 1/2, as PyTorch does; its
 * arguments are above. */
static const struct {
    const char *name;
    br_tensor *(*f)(br_tensor *x);
    double least, cancels_below;
} gammas[] = { { "lgamma", br_lgamma, -INFINITY, 0 },
               { "digamma", br_digamma, -INFINITY, INFINITY },
               { "trigamma", trigamma, 0.5, -INFINITY } };

/* Half of the arguments are floats of every magnitude and sign, a fourth is in -6 .. 6, and a
 * fourth near small integers. */
Test(accuracy, of_gamma)
{
    enum { STEP = 16381, COUNT = (int)(UINT32_MAX / STEP) };
    static float x[COUNT], y[COUNT];
    static double want[COUNT];
    for (int i = 0; i < COUNT; i++) {
        uint32_t bits = (uint32_t)i * STEP;
        memcpy(&x[i], &bits, sizeof bits);
        if (i % 4 == 1)
            x[i] = 12 * (float)i / COUNT - 6;
        if (i % 4 == 3)
            x[i] = (float)(i % 13 - 6) + (float)(i - COUNT / 2) * 0x1p-23F;
    }
    x[1] = -0.0F, x[3] = 0, x[5] = -INFINITY, x[7] = -3, x[11] = 1, x[15] = 2;
    for (size_t k = 0; k < sizeof gammas / sizeof *gammas; k++) {
        br_scope *scope = br_scope_begin();
        br_tensor *t = br_from_f32(BR_SHAPE(COUNT), x);
        t = br_masked_fill(t, br_lt_scalar(t, gammas[k].least), 1);
        br_copy_out(t, x, sizeof x);
        br_copy_out(gammas[k].f(t), y, sizeof y);
        br_copy_out(gammas[k].f(br_to(t, BR_F64)), want, sizeof want);
        check_ok();
        for (int i = 0; i < COUNT; i++) {
            const double at = (double)x[i], cancelled = 2e-10 * (1 + log(2 + fabs(at)));
            const double tolerance =
                0.53 * resolution(want[i], BR_F32) + (at < gammas[k].cancels_below ? cancelled : 0);
            cr_assert(agrees((double)y[i], want[i], tolerance, BR_F32), "%s(%a) is %a, expected %a",
                      gammas[k].name, at, (double)y[i], want[i]);
        }
        br_scope_end(scope);
    }
}
