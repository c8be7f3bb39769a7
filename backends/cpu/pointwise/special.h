/* backends/cpu/pointwise/special.h - special functions of one double, for the kernels of f32 and
 * f64. */
#ifndef BR_SPECIAL_H
#define BR_SPECIAL_H

/* Returns log |gamma(x)|. */
double br__lgamma(double x);
/* Returns the derivative of log gamma(x): NaN for negative integers and -infinity, and -infinity or
 * infinity for 0 and -0. */
double br__digamma(double x);
/* Returns the derivative of br__digamma() of order n, n = 0 or n >= 2. */
double br__polygamma(double n, double x);
/* Returns the inverse of the error function. */
double br__erfinv(double y);

#endif
