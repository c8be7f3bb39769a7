/* backends/cpu/pointwise/special.c - special functions of one double: log gamma and its
 * derivatives, and the inverse of the error function.
 *
 * Formulas: Abramowitz and Stegun, 1964, chapters 6 and 23. */
#include "backends/cpu/pointwise/special.h"

#include <float.h>
#include <math.h>

double br__lgamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* ---- Derivatives of log gamma ---------------------------------------------------------------- */

/* B(2k) / (2k)! for k = 1, 2, ..., with the Bernoulli numbers B. */
static const double bernoulli[] = {
    1.0 / 12,
    -1.0 / 720,
    1.0 / 30240,
    -1.0 / 1209600,
    1.0 / 47900160,
    -691.0 / 1307674368000,
    1.0 / 74724249600,
    -3617.0 / 10670622842880000,
    43867.0 / 5109094217170944000,
    -174611.0 / 802857662698291200000.0,
    77683.0 / 14101100039391805440000.0,
    -236364091.0 / 1693824136731743669452800000.0,
};
enum { TERMS = sizeof bernoulli / sizeof *bernoulli };

/* psi(x) = psi(x + 1) - 1 / x moves x beyond 10, where the asymptotic series converges. Negative x
 * are reflected: psi(x) = psi(1 - x) - pi / tan(pi x). */
double br__digamma(double x)
{
    double sum = 0;
    if (x == 0)
        return copysign(INFINITY, -x);
    if (x < 0) {
        const double part = fmod(x, 1);
        if (part == 0 || isinf(x))
            return NAN;
        sum = -M_PI / tan(M_PI * part);
        x = 1 - x;
    }
    for (; x < 10; x++)
        sum -= 1 / x;
    const double z = 1 / (x * x);
    const double series =
        z *
        (1.0 / 12 -
         z * (1.0 / 120 -
              z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return isinf(x) ? x : sum + log(x) - 0.5 / x - series;
}

/* Returns the Hurwitz zeta function, the sum of (q + i)^-s over i >= 0, for s > 1: by the
 * Euler-Maclaurin formula after ten terms. It is infinite if q is 0 or a negative integer, and NaN
 * if q is negative and s is not an integer. */
static double zeta(double s, double q)
{
    if (q <= 0 && q == floor(q))
        return INFINITY;
    if (q <= 0 && s != floor(s))
        return NAN;
    double sum = pow(q, -s), term = 0, w = q;
    for (int i = 0; i < 9 || w <= 9; i++) {
        w += 1;
        term = pow(w, -s);
        sum += term;
        if (fabs(term) < DBL_EPSILON / 2 * fabs(sum))
            return sum;
    }
    sum += term * w / (s - 1) - 0.5 * term;
    double factor = s * term / w;
    for (int k = 0; k < TERMS; k++) {
        const double next = factor * bernoulli[k];
        sum += next;
        if (fabs(next) < DBL_EPSILON / 2 * fabs(sum))
            break;
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / (w * w);
    }
    return sum;
}

double br__polygamma(double n, double x)
{
    if (n == 0)
        return br__digamma(x);
    const double size = exp(br__lgamma(n + 1)) * zeta(n + 1, x);
    return fmod(n, 2) == 1 ? size : -size;
}

/* ---- The inverse of the error function ------------------------------------------------------- */

/* An approximation with a relative error of 0.002 (Winitzki, 2008) is improved by steps of Halley's
 * method, each of which triples the number of correct digits. Beyond 1/2, the equation is that of
 * erfc, because 1 - y has no rounding error there. */
double br__erfinv(double y)
{
    const double size = fabs(y), rest = 1 - size;
    if (!(size < 1))
        return size == 1 ? copysign(INFINITY, y) : NAN;
    if (size < 1e-8)
        return y * (0.5 * 1.77245385090551602730);
    const double a = 0.147, log_of = log1p(-size * size), middle = 2 / (M_PI * a) + log_of / 2;
    double x = sqrt(sqrt(middle * middle - log_of / a) - middle);
    for (int i = 0; i < 2; i++) {
        const double error = size < 0.5 ? erf(x) - size : rest - erfc(x);
        const double step = error / (1.12837916709551257390 * exp(-x * x));
        x -= step / (1 + x * step);
    }
    return copysign(x, y);
}
