/* backends/pointwise.h - the list of pointwise kernels. */
#ifndef BR_POINTWISE_H
#define BR_POINTWISE_H

/* ---- Kernels by formula ---------------------------------------------------------------------- */

/* One line per kernel: its name, and an element of its result in terms of the operand x, or of a
 * and b. The lists generate the enum below, and the loops and tables of the CPU.
 * Results have the type of the operands, or bool for COMPARE. PARAM(i) is parameter i of the loop,
 * a double, converted to the operands' type; the i64 clamp instead takes int64_t parameters. */
/* clang-format off */

/* Kernels that the compiler vectorizes. ARITHMETIC also has loops for a scalar operand. In
 * relu_grad, a is dy and b is the output. */
#define BR_PLAIN_KERNELS(UNARY, BINARY, ARITHMETIC, COMPARE)        \
    UNARY(copy, x)                                                  \
    UNARY(neg, -x)                                                  \
    UNARY(abs, x < 0 ? -x : x + 0)                                  \
    UNARY(relu, x < 0 ? 0 : x)                                      \
    UNARY(reciprocal, 1 / x)                                        \
    UNARY(square, x *x)                                             \
    UNARY(power_3, x *x *x)                                         \
    ARITHMETIC(add, a + b)                                          \
    ARITHMETIC(sub, a - b)                                          \
    ARITHMETIC(mul, a * b)                                          \
    ARITHMETIC(div, a / b)                                          \
    BINARY(relu_grad, b <= 0 ? 0 : a)                               \
    BINARY(fmax, a >= b || b != b ? a : b)                          \
    BINARY(fmin, a <= b || b != b ? a : b)                          \
    BINARY(copysign, REAL(copysign)(a, b))                          \
    COMPARE(eq, a == b)                                             \
    COMPARE(lt, a < b)                                              \
    COMPARE(le, a <= b)

/* For f32 these use our own functions and process whole vectors only. For f64 they call libm for
 * each element. In a gradient, a is dy; b is the output for tanh and sigmoid, and x for the others.
 */
#define BR_WHOLE_KERNELS(UNARY, BINARY)                                  \
    UNARY(floor, real_floor(x))                                          \
    UNARY(ceil, real_ceil(x))                                            \
    UNARY(round, real_round(x))                                          \
    UNARY(trunc, REAL(trunc)(x))                                         \
    UNARY(sign, (real)((x > 0) - (x < 0)))                               \
    UNARY(rsqrt, 1 / real_sqrt(x))                                       \
    UNARY(clamp, real_minimum(real_maximum(x, PARAM(0)), PARAM(1)))      \
    UNARY(leaky_relu, leaky(x, x, PARAM(0)))                             \
    UNARY(nan_to_num, nan_to_num(x, PARAM(0), PARAM(1), PARAM(2)))       \
    UNARY(softsign, x / (1 + REAL(fabs)(x)))                             \
    UNARY(exp2, real_exp2(x))                                            \
    UNARY(expm1, real_expm1(x))                                          \
    UNARY(log2, real_log2(x))                                            \
    UNARY(log10, real_log10(x))                                          \
    UNARY(log1p, any_log1p(x))                                           \
    UNARY(asin, real_asin(x))                                            \
    UNARY(acos, real_acos(x))                                            \
    UNARY(atan, real_atan(x))                                            \
    UNARY(sinh, real_sinh(x))                                            \
    UNARY(cosh, real_cosh(x))                                            \
    UNARY(asinh, real_asinh(x))                                          \
    UNARY(acosh, real_acosh(x))                                          \
    UNARY(atanh, real_atanh(x))                                          \
    UNARY(erf, real_erf(x))                                              \
    UNARY(erfc, real_erfc(x))                                            \
    UNARY(erfcx, real_erfcx(x))                                          \
    UNARY(erfinv, real_erfinv(x))                                        \
    UNARY(logit, logit(between(x, PARAM(0), PARAM(1))))                  \
    UNARY(tanh, real_tanh(x))                                            \
    UNARY(sigmoid, real_sigmoid(x))                                      \
    UNARY(gelu_erf, gelu_erf(x))                                         \
    UNARY(gelu_tanh, gelu_tanh(x))                                       \
    UNARY(silu, silu(x))                                                 \
    UNARY(hardsigmoid, hardsigmoid(x))                                   \
    UNARY(hardswish, x * hardsigmoid(x))                                 \
    UNARY(elu, elu(x, PARAM(0)))                                         \
    UNARY(softplus, softplus(x, PARAM(0), PARAM(1)))                     \
    UNARY(logsigmoid, -softplus(-x, 1, (real)INFINITY))                  \
    UNARY(lgamma, real_lgamma(x))                                        \
    UNARY(digamma, real_digamma(x))                                      \
    BINARY(smooth_l1, smooth_l1(a - b, PARAM(0)))                        \
    BINARY(huber, huber(a - b, PARAM(0)))                                \
    BINARY(prelu, leaky(a, a, b))                                        \
    BINARY(maximum, real_maximum(a, b))                                  \
    BINARY(minimum, real_minimum(a, b))                                  \
    BINARY(hypot, real_hypot(a, b))                                      \
    BINARY(logaddexp, real_logaddexp(a, b))                              \
    BINARY(trunc_divide, REAL(trunc)(a / b))                             \
    BINARY(xlogy, xlogy(a, b))                                           \
    BINARY(clamp_grad, inside(b, PARAM(0), PARAM(1)) ? a : 0)            \
    BINARY(hardtanh_grad, outside(b, PARAM(0), PARAM(1)) ? 0 : a)        \
    BINARY(leaky_relu_grad, leaky(a, b, PARAM(0)))                       \
    BINARY(tanh_grad, a * (1 - b * b))                                   \
    BINARY(sigmoid_grad, a * (1 - b) * b)                                \
    BINARY(gelu_erf_grad, a * gelu_erf_slope(b))                         \
    BINARY(gelu_tanh_grad, a * gelu_tanh_slope(b))                       \
    BINARY(silu_grad, a * silu_slope(b))                                 \
    BINARY(hardsigmoid_grad, b > -3 && b < 3 ? a / 6 : 0)                \
    BINARY(hardswish_grad, a * hardswish_slope(b))                       \
    BINARY(elu_grad, a * elu_slope(b, PARAM(0)))                         \
    BINARY(softplus_grad, a * softplus_slope(b, PARAM(0), PARAM(1)))     \
    BINARY(logsigmoid_grad, a * real_sigmoid(-b))                        \
    BINARY(smooth_l1_slope, smooth_l1_slope(a - b, PARAM(0)))            \
    BINARY(huber_slope, huber_slope(a - b, PARAM(0)))                    \
    BINARY(logistic_loss, logistic_loss(a, b))                           \
    BINARY(logistic_loss_slope, logistic_loss_slope(a, b))

/* For f32 these compute all elements as if they were ordinary, and then those that are not by the
 * function of libm, which f64 always uses: its call, the function of ordinary elements, and the
 * condition for them, which has no branches. */
#define BR_ORDINARY_KERNELS(UNARY, BINARY)                                                        \
    UNARY(sin, REAL(sin)(x), sin_ordinary(x), fabsf(x) <= SIN_MOST)                               \
    UNARY(cos, REAL(cos)(x), cos_ordinary(x), fabsf(x) <= SIN_MOST)                               \
    UNARY(tan, REAL(tan)(x), tan_ordinary(x), fabsf(x) <= SIN_MOST)                               \
    UNARY(sinc, sinc(x, REAL(sin)((real)M_PI * x)), sinc(x, sin_ordinary((real)M_PI * x)),        \
          fabsf(x) <= SIN_MOST / 4)                                                               \
    UNARY(trigamma, trigamma(x, REAL(sin)((real)M_PI * x)),                                       \
          trigamma(x, sin_ordinary((real)M_PI * x)), fabsf(x) <= SIN_MOST / 4)                    \
    BINARY(pow, REAL(pow)(a, b), pow_ordinary(a, b), is_power(a, b))                              \
    BINARY(atan2, REAL(atan2)(a, b), atan2_ordinary(a, b), is_angle(a, b))                        \
    BINARY(fmod, REAL(fmod)(a, b), fmod_ordinary(a, b), is_quotient(a, b))                        \
    BINARY(remainder, floor_rest(REAL(fmod)(a, b), b), floor_rest(fmod_ordinary(a, b), b),        \
           is_quotient(a, b))                                                                     \
    BINARY(floor_divide, floor_divide_of(REAL(fmod)(a, b), a, b),                                 \
           floor_divide_of(fmod_ordinary(a, b), a, b), is_quotient(a, b))

/* This calls a function of one double for both types. */
#define BR_LIBM_KERNELS(UNARY) UNARY(polygamma, (real)br__polygamma((double)PARAM(0), (double)x))

#define BR_POINTWISE_KERNELS(UNARY, BINARY, COMPARE) \
    BR_PLAIN_KERNELS(UNARY, BINARY, BINARY, COMPARE) \
    BR_WHOLE_KERNELS(UNARY, BINARY)                  \
    BR_ORDINARY_KERNELS(UNARY, BINARY)               \
    BR_LIBM_KERNELS(UNARY)
/* clang-format on */

/* ---- Kernels with loops of their own --------------------------------------------------------- */

/* In this order: a != b, a > b, a >= b; |a - b| <= atol + rtol |b|, with the parameters rtol and
 * atol; x tanh(softplus(x)), exp(x), log(x), sqrt(x); condition ? a : b, with a bool condition;
 * start + weight (end - start); a + value b c and a + value b / c, with the parameter value; logic
 * of bool operands; bits of integers; and the greatest common divisor and the least common multiple
 * of integers. */
/* clang-format off */
#define BR_OTHER_KERNELS(KERNEL)                                                   \
    KERNEL(ne) KERNEL(gt) KERNEL(ge) KERNEL(close)                                 \
    KERNEL(mish) KERNEL(exp) KERNEL(log) KERNEL(sqrt)                              \
    KERNEL(where) KERNEL(lerp) KERNEL(addcmul) KERNEL(addcdiv)                     \
    KERNEL(logical_and) KERNEL(logical_or) KERNEL(logical_xor) KERNEL(logical_not) \
    KERNEL(bitwise_and) KERNEL(bitwise_or) KERNEL(bitwise_xor) KERNEL(bitwise_not) \
    KERNEL(left_shift) KERNEL(right_shift)                                         \
    KERNEL(gcd) KERNEL(lcm)
/* clang-format on */

/* ---- Names ----------------------------------------------------------------------------------- */

#define BR_POINTWISE(name)  BR_POINTWISE_##name
#define BR_ENTRY(name, ...) BR_POINTWISE(name),
typedef enum br_pointwise {
    BR_POINTWISE_KERNELS(BR_ENTRY, BR_ENTRY, BR_ENTRY) BR_OTHER_KERNELS(BR_ENTRY)
        BR_POINTWISES /* their number */
} br_pointwise;
#undef BR_ENTRY

#endif
