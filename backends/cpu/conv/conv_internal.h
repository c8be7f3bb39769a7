/* backends/cpu/conv/conv_internal.h - the backend's entries for convolutions and
 * pooling. */
#ifndef BR_CPU_CONV_INTERNAL_H
#define BR_CPU_CONV_INTERNAL_H

#include "tensor/tensor_internal.h"

bool br__cpu_convolution(const br_convolution *g, const br_tensor *y, const br_tensor *x,
                         const br_tensor *weight, const br_tensor *bias);
bool br__cpu_convolution_input(const br_convolution *g, const br_tensor *x, const br_tensor *weight,
                               const br_tensor *y);
bool br__cpu_convolution_weight(const br_convolution *g, const br_tensor *weight,
                                const br_tensor *x, const br_tensor *y);
bool br__cpu_max_pool(const br_pool_geometry *p, const br_tensor *y, const br_tensor *indices,
                      const br_tensor *x);
bool br__cpu_avg_pool(const br_pool_geometry *p, const br_tensor *y, const br_tensor *x);
bool br__cpu_avg_pool_grad(const br_pool_geometry *p, const br_tensor *dx, const br_tensor *dy);

#endif
