/* backends/cpu/wide_math.h - functions of one or two floats that are computed in double; part of
 * variant.c.
 *
 * A double has 29 bits more than a float, so a polynomial with a relative error of 1e-9 and plain
 * formulas give results whose error exceeds that of the final rounding by less than a twentieth.
 * Like the functions of math.h they have no branches, so that loops over them can be vectorized;
 * fit_math.py prints the coefficients. The wide_… functions have double arguments:
 *
 *     exp x = 2^n exp r                    r = x - n ln 2
 *     log(1 + x) = n ln 2 + log(1 + f)     1 + x = 2^n (1 + f)
 *     sin x = +- sin r or +- cos r         r = x - n pi / 2, with pi / 2 in two parts
 *     asin x = pi / 2 - 2 asin s           s^2 = (1 - x) / 2, for x > 1/2
 *     atan t = pi / 4 + atan s             s = (t - 1) / (t + 1), for t > tan(pi / 8)
 *     erfc t = u P(u) exp(-t^2)            u = 2 / (2 + t)
 *
 * For f64, the functions call libm. */
#ifndef BR_WIDE_MATH_H
#define BR_WIDE_MATH_H

#include "backends/cpu/math.h"

#ifdef BR_KERNEL_F64

#    define BY_LIBM(name)                          \
        ALWAYS_INLINE double real_##name(double x) \
        {                                          \
            return name(x);                        \
        }
BY_LIBM(exp2)
BY_LIBM(expm1)
BY_LIBM(log2)
BY_LIBM(log10)
BY_LIBM(sinh)
BY_LIBM(cosh)
BY_LIBM(asinh)
BY_LIBM(acosh)
BY_LIBM(atanh)
BY_LIBM(asin)
BY_LIBM(acos)
BY_LIBM(atan)
BY_LIBM(erfc)

ALWAYS_INLINE double any_log1p(double x)
{
    return log1p(x);
}

ALWAYS_INLINE double real_hypot(double a, double b)
{
    return hypot(a, b);
}

/* Returns log(exp(a) + exp(b)). */
ALWAYS_INLINE double real_logaddexp(double a, double b)
{
    const double more = a > b ? a : b;
    return fabs(more) == INFINITY && a == b ? a : more + log1p(exp(-fabs(a - b)));
}

#else

/* ---- Exponentials and logarithms ------------------------------------------------------------- */

ALWAYS_INLINE double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

ALWAYS_INLINE uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Returns exp(x) - 1, and sets *power to 2^n and *part to exp(x) / 2^n - 1. Beyond 200, where
 * floats are infinite or 0, x counts as 200. */
ALWAYS_INLINE double wide_expm1(double x, double *power, double *part)
{
    const double shift = 0x1.8p52 + 1023;
    x = x > 200 ? 200 : x;
    x = x < -200 ? -200 : x;
    const double shifted = x * 0x1.71547652b82fep0 + shift;
    const double r = x - (shifted - shift) * 0x1.62e42fefa39efp-1;
    double p = 2.4867869860332152e-05;
    p = p * r + 0.00019907581989957057;
    p = p * r + 0.0013888839117251891;
    p = p * r + 0.0083332835198905737;
    p = p * r + 0.041666666786198889;
    p = p * r + 0.16666666786375128;
    p = p * r + 0.49999999999955214;
    p = p * r + 0.99999999999550593;
    *power = double_of(double_bits(shifted) << 52);
    *part = p * r;
    return (*power - 1) + *power * *part;
}

ALWAYS_INLINE double wide_exp(double x)
{
    double power, part;
    wide_expm1(x, &power, &part);
    return power + power * part;
}

/* Returns log(1 + f) for 1 + f in [sqrt 1/2, sqrt 2). */
ALWAYS_INLINE double wide_log_part(double f)
{
    double p = 0.052359393842136441;
    p = p * f - 0.09804458451007568;
    p = p * f + 0.10047199190334152;
    p = p * f - 0.099459868300649082;
    p = p * f + 0.11006037907506649;
    p = p * f - 0.124954361559447;
    p = p * f + 0.14290811811733256;
    p = p * f - 0.16667024539772607;
    p = p * f + 0.19999888136988181;
    p = p * f - 0.24999992728950937;
    p = p * f + 0.33333334249244445;
    p = p * f - 0.50000000035949699;
    p = p * f + 0.99999999998746436;
    return f * p;
}

/* Splits x = 2^n (1 + f), for positive and finite x, and returns n. 0x3fe6a09e667f3bcd are the bits
 * of sqrt 1/2. n + 1023, an integer, becomes the low bits of 2^52 + n + 1023. */
ALWAYS_INLINE double wide_split(double x, double *f)
{
    const uint64_t bits = double_bits(x);
    const uint64_t exponent = (bits - 0x3fe6a09e667f3bcd + ((uint64_t)1023 << 52)) >> 52;
    *f = double_of(bits - (exponent << 52) + ((uint64_t)1023 << 52)) - 1;
    return double_of(exponent | 0x4330000000000000) - (0x1p52 + 1023);
}

/* The parts of the line of numbers where a logarithm is finite, infinite or NaN. */
ALWAYS_INLINE double limits_of_log(double x, double zero, double y)
{
    y = x < INFINITY ? y : x;
    return x > zero ? y : (x == zero ? -INFINITY : NAN);
}

ALWAYS_INLINE double wide_log1p(double x)
{
    const bool near = x > -0.29 && x < 0.41; /* where 1 + x would lose digits of x */
    double f, n = wide_split(1 + x, &f);
    n = near ? 0 : n;
    f = near ? x : f;
    return limits_of_log(x, -1, n * 0x1.62e42fefa39efp-1 + wide_log_part(f));
}

/* Returns log(x) times `factor`. */
ALWAYS_INLINE double wide_log(double x, double factor)
{
    double f;
    const double n = wide_split(x, &f);
    return limits_of_log(x, 0, n * (factor * 0x1.62e42fefa39efp-1) + factor * wide_log_part(f));
}

ALWAYS_INLINE float real_expm1(float x)
{
    double power, part;
    return copysignf((float)wide_expm1((double)x, &power, &part), x);
}

ALWAYS_INLINE float real_exp2(float x)
{
    return (float)wide_exp((double)x * 0x1.62e42fefa39efp-1);
}

ALWAYS_INLINE float real_log2(float x)
{
    return (float)wide_log((double)x, 0x1.71547652b82fep0);
}

ALWAYS_INLINE float real_log10(float x)
{
    return (float)wide_log((double)x, 0x1.bcb7b1526e50ep-2);
}

/* real_log1p() of math.h is only for x >= 0. */
ALWAYS_INLINE float any_log1p(float x)
{
    return copysignf((float)wide_log1p((double)x), x);
}

/* ---- Hyperbolic functions -------------------------------------------------------------------- */

/* (exp x - exp -x) / 2, with m = exp(|x|) - 1. */
ALWAYS_INLINE float real_sinh(float x)
{
    double power, part;
    const double m = wide_expm1(fabs((double)x), &power, &part);
    return copysignf((float)(0.5 * (m + m / (m + 1))), x);
}

ALWAYS_INLINE float real_cosh(float x)
{
    const double e = wide_exp(fabs((double)x));
    return (float)(0.5 * (e + 1 / e));
}

/* log(x + sqrt(x^2 + 1)) for |x|. */
ALWAYS_INLINE float real_asinh(float x)
{
    const double t = fabs((double)x), z = t * t;
    const double y = wide_log1p(t + z / (1 + sqrt(1 + z)));
    return copysignf((float)(t < INFINITY ? y : t), x);
}

/* log(x + sqrt(x^2 - 1)), with t = x - 1. */
ALWAYS_INLINE float real_acosh(float x)
{
    const double t = (double)x - 1, y = wide_log1p(t + sqrt(t * (t + 2)));
    return (float)(t < 0 ? NAN : t < INFINITY ? y : t);
}

/* log((1 + x) / (1 - x)) / 2 for |x|. */
ALWAYS_INLINE float real_atanh(float x)
{
    const double t = fabs((double)x);
    return copysignf((float)(0.5 * wide_log1p(2 * t / (1 - t))), x);
}

/* ---- Trigonometric functions ----------------------------------------------------------------- */

/* sin r and cos r for x = r + n pi / 2 with |r| <= pi / 4, and n modulo 4, in -2 .. 2. The products
 * of n with the first part of pi / 2, of 33 bits, are exact for |x| <= SIN_MOST. */
typedef struct angle {
    double sine, cosine, quarter;
} angle;

#    define SIN_MOST 1e6f

ALWAYS_INLINE angle reduce_angle(double x)
{
    const double shift = 0x1.8p52;
    const double n = (x * 0x1.45f306dc9c883p-1 + shift) - shift;
    const double r = (x - n * 0x1.921fb544p0) - n * 0x1.0b4611a626331p-34, z = r * r;
    double s = -2.4805817746053506e-08;
    s = s * z + 2.7555994456294415e-06;
    s = s * z - 0.00019841266940423945;
    s = s * z + 0.0083333333311406323;
    s = s * z - 0.16666666666664393;
    double c = -2.7237080954388797e-07;
    c = c * z + 2.4799861444507423e-05;
    c = c * z - 0.0013888885088260724;
    c = c * z + 0.041666666637345529;
    c = c * z - 0.4999999999996364;
    return (angle){ r * (1 + z * s), 1 + z * c, n - 4 * ((n * 0.25 + shift) - shift) };
}

ALWAYS_INLINE float sin_ordinary(float x)
{
    const angle a = reduce_angle((double)x);
    const double y = fabs(a.quarter) == 1 ? a.cosine : a.sine;
    return (float)(a.quarter < 0 || a.quarter == 2 ? -y : y);
}

ALWAYS_INLINE float cos_ordinary(float x)
{
    const angle a = reduce_angle((double)x);
    const double y = fabs(a.quarter) == 1 ? a.sine : a.cosine;
    return (float)(a.quarter > 0 || a.quarter == -2 ? -y : y);
}

ALWAYS_INLINE float tan_ordinary(float x)
{
    const angle a = reduce_angle((double)x);
    const bool odd = fabs(a.quarter) == 1;
    const double above = odd ? -a.cosine : a.sine, below = odd ? a.sine : a.cosine;
    return (float)(above / below);
}

#    define PI 3.14159265358979323846

/* Returns asin(t) for 0 <= t <= 1/2, and else asin(sqrt((1 - t) / 2)) = acos(t) / 2. */
ALWAYS_INLINE double asin_part(double t)
{
    const double half = (1 - t) * 0.5;
    const double s = t < 0.5 ? t : sqrt(half), z = t < 0.5 ? t * t : half;
    double p = 0.027914667129516603;
    p = p * z - 0.0029494047164916951;
    p = p * z + 0.015680811740457996;
    p = p * z + 0.013186393375508492;
    p = p * z + 0.017441764834279633;
    p = p * z + 0.022366037286482777;
    p = p * z + 0.030382184517662392;
    p = p * z + 0.044642852386881406;
    p = p * z + 0.075000000036149622;
    p = p * z + 0.16666666666663127;
    return s + s * z * p;
}

ALWAYS_INLINE float real_asin(float x)
{
    const double t = fabs((double)x), y = asin_part(t);
    return copysignf((float)(t < 0.5 ? y : PI / 2 - 2 * y), x);
}

ALWAYS_INLINE float real_acos(float x)
{
    const double t = fabs((double)x), y = asin_part(t);
    const double near = PI / 2 - (x < 0 ? -y : y), far = x < 0 ? PI - 2 * y : 2 * y;
    return (float)(t < 0.5 ? near : far);
}

/* Returns atan(a / b) for 0 <= a <= b. */
ALWAYS_INLINE double wide_atan(double a, double b)
{
    const bool far = a > 0.41421356237309503 * b;
    const double t = (far ? a - b : a) / (far ? a + b : b), z = t * t;
    double p = -0.040430275068173038;
    p = p * z + 0.071352311065662533;
    p = p * z - 0.090289667824763276;
    p = p * z + 0.11107493770855373;
    p = p * z - 0.14285612460961894;
    p = p * z + 0.19999998916585898;
    p = p * z - 0.33333333331438442;
    return (far ? PI / 4 : 0) + (t + t * z * p);
}

ALWAYS_INLINE float real_atan(float x)
{
    const double t = fabs((double)x), y = wide_atan(t > 1 ? 1 / t : t, 1);
    return copysignf((float)(t > 1 ? PI / 2 - y : y), x);
}

/* Returns atan2(a, b) if is_angle(a, b). */
ALWAYS_INLINE float atan2_ordinary(float a, float b)
{
    const double t = fabs((double)a), u = fabs((double)b);
    double y = wide_atan(t > u ? u : t, t > u ? t : u);
    y = t > u ? PI / 2 - y : y;
    return copysignf((float)(b < 0 ? PI - y : y), a);
}

/* ---- Powers --------------------------------------------------------------------------------- */

/* Returns |a|^b = 2^(b log2 |a|) if is_power(a, b), with the sign of a if b is odd. For negative a
 * it is NaN unless b is an integer. log2(1 + f) = f P(f). 2^200 and 2^-200 are far outside the
 * range of a float. */
ALWAYS_INLINE float pow_ordinary(float a, float b)
{
    float part;
    const double n = split_bits(bits_of(a) & 0x7fffffff, &part), f = (double)part;
    double p = 0.075538629265134105;
    p = p * f - 0.14144842885723941;
    p = p * f + 0.14495044497117845;
    p = p * f - 0.14349026041432361;
    p = p * f + 0.15878356324351897;
    p = p * f - 0.18027103759186008;
    p = p * f + 0.20617283328859878;
    p = p * f - 0.24045433650842007;
    p = p * f + 0.28853739433674924;
    p = p * f - 0.36067365532290319;
    p = p * f + 0.48089836017677523;
    p = p * f - 0.72134752096312893;
    p = p * f + 1.4426950408708785;
    double x = (double)b * (n + f * p);
    x = x > 200 ? 200 : x;
    x = x < -200 ? -200 : x;
    const double shift = 0x1.8p52 + 1023;
    const double shifted = x + shift, r = x - (shifted - shift);
    p = 0.00015461444724808513;
    p = p * r + 0.0013400428177711937;
    p = p * r + 0.0096180566784320395;
    p = p * r + 0.055503272266698947;
    p = p * r + 0.24022650922289554;
    p = p * r + 0.69314720670283292;
    p = p * r + 1;
    const double power = double_of(double_bits(shifted) << 52);
    /* Adding the shift rounds to an integer. Beyond 2^24 all floats are even. */
    const float y = (float)(p * power);
    const double whole = (double)b, half = 0.5 * whole, round = 0x1.8p52;
    const bool is_even = (fabsf(b) >= 0x1p24f) | ((half + round) - round == half);
    const bool is_odd = !is_even & ((whole + round) - round == whole);
    return a > 0 || is_even ? y : is_odd ? -y : NAN;
}

/* The arguments of these functions. */
ALWAYS_INLINE bool is_power(float a, float b)
{
    return (fabsf(a) >= 0x1p-126f) & (fabsf(a) < INFINITY) & (fabsf(b) < INFINITY);
}

ALWAYS_INLINE bool is_angle(float a, float b)
{
    return (fabsf(a) > 0) & (fabsf(a) < INFINITY) & (fabsf(b) > 0) & (fabsf(b) < INFINITY);
}

ALWAYS_INLINE bool is_quotient(float a, float b)
{
    return (fabsf(a) < 0x1p28f * fabsf(b)) & (fabsf(b) < INFINITY);
}

/* ---- Others ---------------------------------------------------------------------------------- */

/* Returns exp(s^2) erfc(s) for 0 <= s <= 12. */
ALWAYS_INLINE double scaled_erfc(double s)
{
    const double u = 2 / (2 + s);
    double p = -0.0048595377049791685;
    p = p * u + 0.0030786999623401237;
    p = p * u + 0.12406541979932117;
    p = p * u - 0.53692948631546566;
    p = p * u + 1.0240537348587595;
    p = p * u - 1.0147099163301305;
    p = p * u + 0.51702460947015805;
    p = p * u - 0.23672543019155606;
    p = p * u + 0.14853867110666094;
    p = p * u + 0.1640395465340829;
    p = p * u + 0.24833845757843254;
    p = p * u + 0.2819870315200157;
    p = p * u + 0.28209819965092209;
    return u * p;
}

/* For x < 0, 2 - erfc(-x). */
ALWAYS_INLINE float real_erfc(float x)
{
    const double t = fabs((double)x), s = t > 12 ? 12 : t;
    const double y = scaled_erfc(s) * wide_exp(-s * s);
    return (float)(x < 0 ? 2 - y : y);
}

ALWAYS_INLINE float real_hypot(float a, float b)
{
    const double t = fabs((double)a), u = fabs((double)b), y = sqrt(t * t + u * u);
    return (float)(t == INFINITY || u == INFINITY ? INFINITY : y);
}

/* log(exp(a) + exp(b)) = max + log(1 + e), where e is in [0, 1] */
ALWAYS_INLINE float real_logaddexp(float a, float b)
{
    const double t = a, u = b, more = t > u ? t : u, e = wide_exp(-fabs(t - u));
    const bool near = e < 0.41;
    const double y = wide_log_part(near ? e : (e - 1) / 2) + (near ? 0 : 0x1.62e42fefa39efp-1);
    return (float)(more + (t == u ? 0x1.62e42fefa39efp-1 : y)); /* also for two infinities */
}

/* Returns fmod(a, b) if is_quotient(a, b). The quotient has at most 29
 * bits, so the products are exact; it may be 1 too large or too small. */
ALWAYS_INLINE float fmod_ordinary(float a, float b)
{
    const double t = fabs((double)a), u = fabs((double)b), q = t / u + 0x1p52 - 0x1p52;
    double rest = t - q * u;
    rest = rest < 0 ? rest + u : rest;
    return copysignf((float)rest, a);
}

#endif
#endif
