/* backends/cpu/pointwise/special_kernels.h - kernels of special functions; part of variant.c. */
#ifndef BR_SPECIAL_KERNELS_H
#define BR_SPECIAL_KERNELS_H

#include "backends/cpu/pointwise/special.h"
#include "backends/cpu/wide_math.h"

/* Returns the inverse of the error function. For f32, this is x times a polynomial in w = -log(1 -
 * x^2), or in its root for x near 1 (Giles, 2012). */
ALWAYS_INLINE real real_erfinv(real x)
{
#ifdef BR_KERNEL_F64
    return br__erfinv(x);
#else
    const real w = -real_log((1 - x) * (1 + x));
    const real a = w - 2.5F, b = real_sqrt(w) - 3;
    real near_0 = 2.81022636e-08F, near_1 = -0.000200214257F;
    near_0 = 3.43273939e-07F + near_0 * a;
    near_0 = -3.5233877e-06F + near_0 * a;
    near_0 = -4.39150654e-06F + near_0 * a;
    near_0 = 0.00021858087F + near_0 * a;
    near_0 = -0.00125372503F + near_0 * a;
    near_0 = -0.00417768164F + near_0 * a;
    near_0 = 0.246640727F + near_0 * a;
    near_0 = 1.50140941F + near_0 * a;
    near_1 = 0.000100950558F + near_1 * b;
    near_1 = 0.00134934322F + near_1 * b;
    near_1 = -0.00367342844F + near_1 * b;
    near_1 = 0.00573950773F + near_1 * b;
    near_1 = -0.0076224613F + near_1 * b;
    near_1 = 0.00943887047F + near_1 * b;
    near_1 = 1.00167406F + near_1 * b;
    near_1 = 2.83297682F + near_1 * b;
    const real y = (w < 5 ? near_0 : near_1) * x;
    return (1 - x) * (1 + x) == 0 ? x * (real)INFINITY : y;
#endif
}

/* Returns exp(x^2) erfc(x) by the asymptotic series (Abramowitz and Stegun, 7.1.23). The first term
 * left out is 3e-11 of the sum for x = 8, and 3e-19 for x = 26. */
ALWAYS_INLINE double erfcx_of_large(double x)
{
    const double z = 1 / (2 * x * x);
    double series = 1 - 13 * z;
    series = 1 - 11 * z * series;
    series = 1 - 9 * z * series;
    series = 1 - 7 * z * series;
    series = 1 - 5 * z * series;
    series = 1 - 3 * z * series;
    series = 1 - z * series;
    return 0.56418958354775628695 * series / x; /* 1 / sqrt(pi) */
}

/* Returns exp(x^2) erfc(x). In f64, x^2 is computed in two parts, since the exponential multiplies
 * its rounding error; from 26 on, erfc(x) is denormal. In f32, the value for x < 0 is 2 exp(x^2)
 * minus the one for -x. */
ALWAYS_INLINE real real_erfcx(real x)
{
#ifdef BR_KERNEL_F64
    if (x >= 26)
        return erfcx_of_large(x);
    if (x < -27)
        return INFINITY;
    const double square = x * x, rest = fma(x, x, -square);
    const double y = exp(square) * erfc(x);
    return y + y * rest;
#else
    const double t = fabs((double)x), s = t > 8 ? 8 : t, large = t > 8 ? t : 8;
    const double y = t > 8 ? erfcx_of_large(large) : scaled_erfc(s);
    return (float)(x < 0 ? 2 * wide_exp(t * t) - y : y);
#endif
}

/* Returns min if x is less, max if x is larger, else x, which may be NaN. */
ALWAYS_INLINE real between(real x, real min, real max)
{
    const real y = x > max ? max : x;
    return x < min ? min : y;
}

/* Returns log(x / (1 - x)). Near 1/2, where the logarithm loses digits, this is log(1 + (2 x - 1) /
 * (1 - x)), in which 2 x - 1 is exact. */
ALWAYS_INLINE real logit(real x)
{
#ifdef BR_KERNEL_F64
    return x > 0.25 && x < 0.75 ? log1p((2 * x - 1) / (1 - x)) : log(x / (1 - x));
#else
    const double t = x;
    return (float)wide_log(t / (1 - t), 1);
#endif
}

/* ---- Log gamma and its derivatives ----------------------------------------------------------- */

#ifdef BR_KERNEL_F64

ALWAYS_INLINE double real_lgamma(double x)
{
    return br__lgamma(x);
}

ALWAYS_INLINE double real_digamma(double x)
{
    return br__digamma(x);
}

#else

/* sin(pi r) = r P(r^2) for |r| <= 1/2 */
ALWAYS_INLINE double sine_of_turn(double r)
{
    const double z = r * r;
    double p = -0.0070283036523809033;
    p = p * z + 0.082050350031446839;
    p = p * z - 0.5992521864819006;
    p = p * z + 2.5501633179323688;
    p = p * z - 5.1677127645927206;
    p = p * z + 3.1415926535361289;
    return r * p;
}

/* Returns x minus the nearest integer. Floats below -2^24 are integers. */
ALWAYS_INLINE double part_of_turn(double x)
{
    const double bounded = x < -0x1p24 ? -0x1p24 : x;
    return bounded - (bounded + 0x1.8p52 - 0x1.8p52);
}

/* log |gamma(x)| by Stirling's series for x >= 4. Smaller x are moved there:
 *
 *     gamma(x) = gamma(x + 4) / (x (x + 1) (x + 2) (x + 3))
 *     gamma(x) = pi / (sin(pi x) gamma(1 - x))                  x < 0
 *
 * Near its roots 1 and 2, log gamma(x) is (x - 1) (x - 2) P(x - 1.625). */
ALWAYS_INLINE float real_lgamma(float x)
{
    const double t = x, w = t < 0 ? 1 - t : t, d = w - 1.625;
    double p = 0.00010123634422852096;
    p = p * d - 0.00017392648338078017;
    p = p * d + 9.1902329457221922e-06;
    p = p * d - 1.964314721884073e-05;
    p = p * d + 0.00037540379595237878;
    p = p * d - 0.00066133291418705021;
    p = p * d + 0.00097950371502459081;
    p = p * d - 0.0017732875627373939;
    p = p * d + 0.0033205496381377023;
    p = p * d - 0.0062210515701005952;
    p = p * d + 0.011991679419036713;
    p = p * d - 0.0241940323844104;
    p = p * d + 0.052579431105887357;
    p = p * d - 0.13157899963173841;
    p = p * d + 0.46580963736232717;
    const bool near = w > 0.75 && w < 2.5, moved = w < 4 && !near;
    const double v = w * (w + 3), z = w < 4 ? w + 4 : w, u = 1 / (z * z);
    double series = 1.0 / 156;
    series = 691.0 / 360360 - series * u;
    series = 1.0 / 1188 - series * u;
    series = 1.0 / 1680 - series * u;
    series = 1.0 / 1260 - series * u;
    series = 1.0 / 360 - series * u;
    series = 1.0 / 12 - series * u;
    const double half_log_2_pi = 0.91893853320467274, log_pi = 1.1447298858494002;
    const double far = (z - 0.5) * (wide_log(z, 1) - 1) + (half_log_2_pi - 0.5) + series * u * z;
    const double y = near ? (w - 1) * (w - 2) * p : far, divisor = moved ? fabs(v * (v + 2)) : 1;
    const double sine = fabs(sine_of_turn(part_of_turn(t)));
    const double share = wide_log((t < 0 ? sine : 1) / divisor, 1) + y;
    return (float)(fabs(t) == INFINITY ? INFINITY : t < 0 ? log_pi - share : share);
}

/* The derivative of log gamma(x). Its values for x < 8 follow from those of larger ones:
 *
 *     psi(x) = psi(x + 8) - 1 / x - 1 / (x + 1) - ... - 1 / (x + 7)
 *     psi(x) = psi(1 - x) - pi / tan(pi x)                             x < 0
 *
 * With v = x (x + 7), 1 / (x + i) + 1 / (x + 7 - i) = (2 x + 7) / (v + i (7 - i)). */
ALWAYS_INLINE float real_digamma(float x)
{
    const double t = x, w = t < 0 ? 1 - t : t, v = w * (w + 7);
    const double below = (2 * v + 6) / (v * (v + 6)) + (2 * v + 22) / ((v + 10) * (v + 12));
    const double z = w < 8 ? w + 8 : w, u = 1 / (z * z);
    double series = 691.0 / 32760 - u / 12;
    series = 1.0 / 132 - series * u;
    series = 1.0 / 240 - series * u;
    series = 1.0 / 252 - series * u;
    series = 1.0 / 120 - series * u;
    series = 1.0 / 12 - series * u;
    const double far = wide_log(z, 1) - 0.5 / z - series * u;
    const double y = far - (w < 8 ? (2 * w + 7) * below : 0);
    const double r = part_of_turn(t), sine = sine_of_turn(r);
    const double turned = PI * sine_of_turn(0.5 - fabs(r)) / sine;
    return (float)(t < 0 ? (sine == 0 ? NAN : y - turned) : y);
}

#endif

/* The second derivative of log gamma(x), given sin(pi x): (pi / sin(pi x))^2 - psi'(1 - x) for x <
 * 1/2. The series and its length are PyTorch's, which leave a relative error of 1e-9. */
ALWAYS_INLINE real trigamma(real x, real sine)
{
    const bool turned = x < (real)0.5;
    const double w = turned ? 1 - (double)x : (double)x, slope = M_PI / (double)sine;
    const double z = w + 6, u = 1 / (z * z);
    const double sum = 1 / (w * w) + 1 / ((w + 1) * (w + 1)) + 1 / ((w + 2) * (w + 2)) +
                       1 / ((w + 3) * (w + 3)) + 1 / ((w + 4) * (w + 4)) + 1 / ((w + 5) * (w + 5));
    const double y = sum + (1 + 1 / (2 * z) + u * (1.0 / 6 - u * (1.0 / 30 - u / 42))) / z;
    return (real)(turned ? slope * slope - y : y);
}

/* ---- Others ---------------------------------------------------------------------------------- */

/* Returns sin(pi x) / (pi x), given its sine, which has the rounding of pi x that PyTorch has. */
ALWAYS_INLINE real sinc(real x, real sine)
{
    const real y = sine / ((real)M_PI * x);
    return x == 0 ? 1 : y;
}

/* Returns x, or the number that replaces a NaN, infinity or -infinity. */
ALWAYS_INLINE real nan_to_num(real x, real nan, real above, real below)
{
    return x != x ? nan : x == (real)INFINITY ? above : x == (real)-INFINITY ? below : x;
}

#endif
