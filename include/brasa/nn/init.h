/* brasa/nn/init.h - initial values, as in torch.nn.init; part of brasa/nn.h. Functions that take a
 * tensor fill it in place, without recording, and return it. */
#ifndef BRASA_NN_INIT_H
#define BRASA_NN_INIT_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

BR_API br_tensor *br_init_uniform_(br_tensor *t, double a, double b);
BR_API br_tensor *br_init_normal_(br_tensor *t, double mean, double std);
BR_API br_tensor *br_init_constant_(br_tensor *t, double value);
BR_API br_tensor *br_init_zeros_(br_tensor *t);
BR_API br_tensor *br_init_ones_(br_tensor *t);
BR_API br_tensor *br_init_eye_(br_tensor *t);
/* Glorot and Bengio, 2010: values from U(+-gain sqrt(6 / (fan_in + fan_out))) or N(0, gain^2 2 /
 * (fan_in + fan_out)). */
BR_API br_tensor *br_init_xavier_uniform_(br_tensor *t, double gain);
BR_API br_tensor *br_init_xavier_normal_(br_tensor *t, double gain);
/* He et al., 2015, for fan_in and a leaky ReLU of negative slope a. With gain = sqrt(2 / (1 +
 * a^2)), the uniform bound is gain sqrt(3 / fan_in), and the normal standard deviation gain /
 * sqrt(fan_in). */
BR_API br_tensor *br_init_kaiming_uniform_(br_tensor *t, double a);
BR_API br_tensor *br_init_kaiming_normal_(br_tensor *t, double a);
/* Like the two functions above, but use fan_in or fan_out, and the gain
 * br_init_calculate_gain(nonlinearity, a). fan_out preserves the magnitude of the gradients instead
 * of that of the activations. */
typedef enum br_fan_mode { BR_FAN_IN, BR_FAN_OUT } br_fan_mode;
BR_API br_tensor *br_init_kaiming_uniform_for_(br_tensor *t, double a, br_fan_mode mode,
                                               const char *nonlinearity);
BR_API br_tensor *br_init_kaiming_normal_for_(br_tensor *t, double a, br_fan_mode mode,
                                              const char *nonlinearity);
/* Fills t [n, m] with N(0, std^2), and sets a random fraction `sparsity` of each column to 0. */
BR_API br_tensor *br_init_sparse_(br_tensor *t, double sparsity, double std);
/* Fills a kernel [out, in, sizes...] with 1 to 3 sizes so that a convolution copies input channel i
 * of each group to output channel i of the group, as far as the group has both. */
BR_API br_tensor *br_init_dirac_(br_tensor *t, int64_t groups);
/* Fills t, viewed as a matrix [first size, product of the others], with orthogonal rows or columns,
 * whichever are fewer, of norm `gain`. Saxe, McClelland and Ganguli, 2014. */
BR_API br_tensor *br_init_orthogonal_(br_tensor *t, double gain);
/* Returns the gain that nn.init recommends for a function: "linear", "sigmoid", "tanh", "relu",
 * "selu", or "leaky_relu" with negative slope `param`. Returns NaN and sets an error for any other
 * name. */
BR_API double br_init_calculate_gain(const char *nonlinearity, double param);
/* Fills t with normal values truncated to [low, high], as in PyTorch 2.15: generates values outside
 * the interval again or, if that would take too long, accepts uniform values with a probability
 * proportional to the normal density. */
BR_API br_tensor *br_init_trunc_normal_(br_tensor *t, double mean, double std, double low,
                                        double high);

#ifdef __cplusplus
}
#endif
#endif
