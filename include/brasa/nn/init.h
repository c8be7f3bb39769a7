/* brasa/nn/init.h - initial values, as torch.nn.init; part of brasa/nn.h. All fill t in place,
 * unrecorded, and return it. */
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
/* Glorot and Bengio, 2010: U(+-gain sqrt(6 / (fan_in + fan_out))), N(0, gain^2 2 / (fan_in +
 * fan_out)). */
BR_API br_tensor *br_init_xavier_uniform_(br_tensor *t, double gain);
BR_API br_tensor *br_init_xavier_normal_(br_tensor *t, double gain);
/* He et al., 2015, by fan_in for a leaky ReLU of slope a: bound gain sqrt(3 / fan_in), deviation
 * gain / sqrt(fan_in), gain = sqrt(2 / (1 + a^2)). */
BR_API br_tensor *br_init_kaiming_uniform_(br_tensor *t, double a);
BR_API br_tensor *br_init_kaiming_normal_(br_tensor *t, double a);
/* The same by fan_in or, to keep the gradients' size, by fan_out, and with the gain behind another
 * function: br_init_calculate_gain(nonlinearity, a). */
typedef enum br_fan_mode { BR_FAN_IN, BR_FAN_OUT } br_fan_mode;
BR_API br_tensor *br_init_kaiming_uniform_for_(br_tensor *t, double a, br_fan_mode mode,
                                               const char *nonlinearity);
BR_API br_tensor *br_init_kaiming_normal_for_(br_tensor *t, double a, br_fan_mode mode,
                                              const char *nonlinearity);
/* Columns of t [n, m] with N(0, std^2), in which a random `sparsity` of the elements is 0. */
BR_API br_tensor *br_init_sparse_(br_tensor *t, double sparsity, double std);
/* A kernel [out, in, sizes...] of 1 to 3 such sizes that hands its inputs through, as far as there
 * are as many outputs in each of the groups. */
BR_API br_tensor *br_init_dirac_(br_tensor *t, int64_t groups);
/* Rows or columns, whichever are fewer, that are orthogonal, of length `gain`; t as a matrix [first
 * size, the rest]. Saxe, McClelland and Ganguli, 2014. */
BR_API br_tensor *br_init_orthogonal_(br_tensor *t, double gain);
/* The gain that nn.init recommends behind a function: "linear", "sigmoid", "tanh", "relu", "selu",
 * or "leaky_relu" of the slope `param`. NaN and an error for another name. */
BR_API double br_init_calculate_gain(const char *nonlinearity, double param);
/* Normal values cut to [low, high]: those outside are drawn again or, where that would hardly ever
 * end, uniform ones are taken with a probability that follows the density; as PyTorch 2.15. */
BR_API br_tensor *br_init_trunc_normal_(br_tensor *t, double mean, double std, double low,
                                        double high);

#ifdef __cplusplus
}
#endif
#endif
