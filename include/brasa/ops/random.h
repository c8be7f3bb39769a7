/* brasa/ops/random.h - random tensors whose distribution depends on tensors, and noise for
 * training; part of brasa/ops.h. Implemented in ops/random/; br_rand() and its kin are in
 * brasa/tensor.h.
 *
 * All functions use this thread's generator, and return the numbers that PyTorch returns on the CPU
 * for the same seed. PyTorch built with MKL may generate exponential numbers and those of
 * br_bernoulli_() with MKL on Intel's processors: there other numbers are possible, also in
 * br_multinomial() without replacement and in br_gumbel_softmax(), which use exponential numbers.
 * The gradient with respect to the arguments of a distribution is 0. Floating-point arguments are
 * f32, f64, bf16 or f16. An invalid argument is an error, before a number is generated.
 */
#ifndef BRASA_OPS_RANDOM_H
#define BRASA_OPS_RANDOM_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Distributions (ops/random/distributions.c) ---------------------------------------------- */

/* Return a tensor with the sizes, the dtype, the device and the memory order of x: uniform numbers
 * on [0, 1), standard normal numbers, and uniform integers in [low, high). The first two take
 * floating-point dtypes. br_randint_like() takes every dtype, but each integer in [low, high) must
 * be representable in it. */
BR_API br_tensor *br_rand_like(const br_tensor *x);
BR_API br_tensor *br_randn_like(const br_tensor *x);
BR_API br_tensor *br_randint_like(const br_tensor *x, int64_t low, int64_t high);

/* Returns for each probability in p, which is floating-point, 1 with this probability and 0
 * otherwise, in p's dtype. */
BR_API br_tensor *br_bernoulli(br_tensor *p);
/* Fill t, of any dtype, with 1 with probability p and 0 otherwise, and return it. The tensor p
 * broadcasts to t's shape. Elements are set in memory order. */
BR_API br_tensor *br_bernoulli_(br_tensor *t, double p);
BR_API br_tensor *br_bernoulli_tensor_(br_tensor *t, br_tensor *p);
/* Fills t, which is floating-point, with numbers of the density lambd exp(-lambd x), x >= 0, in
 * memory order, and returns it. lambd must be greater than 0; PyTorch's default is 1. */
BR_API br_tensor *br_exponential_(br_tensor *t, double lambd);

/* Return normal numbers with the given mean and standard deviation, which must be at least 0.
 * Tensors must have the same floating-point dtype, which is the result's; two tensors broadcast.
 * br_normal_mean() takes the mean, br_normal_std() the standard deviation as a tensor; PyTorch's
 * defaults of the numbers are std 1 and mean 0. With two numbers, br_normal_() fills an empty
 * tensor. */
BR_API br_tensor *br_normal(br_tensor *mean, br_tensor *std);
BR_API br_tensor *br_normal_mean(br_tensor *mean, double std);
BR_API br_tensor *br_normal_std(double mean, br_tensor *std);
/* Returns for each element of rate, which must be at least 0 and finite, a number of the Poisson
 * distribution with this mean, in rate's dtype. */
BR_API br_tensor *br_poisson(br_tensor *rate);

/* Returns num_samples indices (i64) for each row of `weights` [categories] or [rows, categories],
 * drawn with probabilities proportional to the weights: shape [num_samples] or [rows, num_samples].
 * Weights are finite and at least 0, and a row's sum is greater than 0. Without replacement, which
 * is PyTorch's default, the indices of a row differ, and num_samples is at most the number of
 * categories. */
BR_API br_tensor *br_multinomial(br_tensor *weights, int64_t num_samples, bool replacement);

/* ---- Noise for training (ops/random/noise.c) ------------------------------------------------- */

/* Gumbel-softmax, Jang et al., 2016: returns softmax((logits + g) / tau) along dim, with g from
 * the standard Gumbel distribution. If `hard`, the result is the one-hot vector of the largest
 * element, and its gradient is that of the softmax. PyTorch's defaults are tau = 1, hard = false
 * and dim = -1. */
BR_API br_tensor *br_gumbel_softmax(br_tensor *logits, double tau, bool hard, int64_t dim);
/* Returns x where x > 0, and slope * x elsewhere. If `training`, each of these elements has a
 * uniform random slope in [lower, upper); otherwise the slope is (lower + upper) / 2. The bounds
 * are finite, and lower is at most upper. PyTorch's defaults are 1.0 / 8, 1.0 / 3 and false. f32,
 * f64, bf16; f16 as well, which PyTorch's CPU kernel lacks. */
BR_API br_tensor *br_f_rrelu(br_tensor *x, double lower, double upper, bool training);

/* ---- Kinds of dropout (ops/random/feature_dropout.c) ----------------------------------------- */

/* Return x itself unless `training`. p is in 0 .. 1; PyTorch's default is 0.5. The generator is
 * the one that br_set_dropout_rng() chooses.
 *
 * br_f_alpha_dropout(), Klambauer et al., 2017: sets elements to SELU's limit -1.7581 with
 * probability p, and scales and shifts all so that mean 0 and variance 1 stay as they are.
 *
 * br_f_dropout1d(), br_f_dropout2d() and br_f_dropout3d() drop whole channels, and multiply the
 * others by 1 / (1 - p). x is [batch, channels, ...] with 1, 2 or 3 dimensions after the channels.
 * br_f_dropout1d() and br_f_dropout3d() also take x without the batch. As in PyTorch,
 * br_f_dropout2d() reads an x of three dimensions as [batch, channels, length], and
 * br_f_dropout2d() and br_f_dropout3d() take every other x of at least two dimensions.
 *
 * br_f_feature_alpha_dropout() is the alpha dropout of whole channels; x is [batch, channels,
 * ...]. */
BR_API br_tensor *br_f_alpha_dropout(br_tensor *x, double p, bool training);
BR_API br_tensor *br_f_dropout1d(br_tensor *x, double p, bool training);
BR_API br_tensor *br_f_dropout2d(br_tensor *x, double p, bool training);
BR_API br_tensor *br_f_dropout3d(br_tensor *x, double p, bool training);
BR_API br_tensor *br_f_feature_alpha_dropout(br_tensor *x, double p, bool training);

#ifdef __cplusplus
}
#endif

#endif
