/* backends/cpu/stored.h - entries of the CPU backend for operands of storage dtypes. */
#ifndef BR_CPU_STORED_H
#define BR_CPU_STORED_H

#include "backends/backend.h"

/* The entries of br_backend with these names, for operands of any dtype. */
bool br__stored_dropout(const br_tensor *y, const br_tensor *x, const br_tensor *bits,
                        double scale);
bool br__stored_scan(const br_tensor *y, const br_tensor *x, const br_scan_work *work);
bool br__stored_softmax(const br_tensor *y, const br_tensor *x, int64_t dim, bool log_of);
bool br__stored_softmax_grad(const br_tensor *dx, const br_tensor *y, const br_tensor *dy,
                             int64_t dim, bool log_of);
bool br__stored_layer_norm(const br_layer_norm_tensors *given);
bool br__stored_layer_norm_grad(const char *op, const br_layer_norm_tensors *given);
bool br__stored_channel_norm(const char *op, const br_channel_norm_work *given);
bool br__stored_channel_norm_grad(const char *op, const br_channel_norm_work *given);
bool br__stored_convolution(const br_convolution *work, const br_tensor *y, const br_tensor *x,
                            const br_tensor *weight, const br_tensor *bias);
bool br__stored_convolution_input(const br_convolution *work, const br_tensor *x,
                                  const br_tensor *weight, const br_tensor *y);
bool br__stored_convolution_weight(const br_convolution *work, const br_tensor *weight,
                                   const br_tensor *x, const br_tensor *y);
bool br__stored_max_pool(const br_pool_geometry *work, const br_tensor *y, const br_tensor *indices,
                         const br_tensor *x);
bool br__stored_avg_pool(const br_pool_geometry *work, const br_tensor *y, const br_tensor *x);
bool br__stored_avg_pool_grad(const br_pool_geometry *work, const br_tensor *dx,
                              const br_tensor *dy);
bool br__stored_recurrent(const br_recurrent_tensors *given);
bool br__stored_recurrent_grad(const br_recurrent_tensors *given);
bool br__stored_attention(const char *op, const br_attention_tensors *given);
bool br__stored_attention_grad(const char *op, const br_attention_tensors *given);
bool br__stored_rotate(const br_tensor *y, const br_tensor *x, const br_tensor *cos,
                       const br_tensor *sin, bool interleaved);
bool br__stored_integer_matmul(const br_matmul_tensors *given);
bool br__stored_cross_entropy(br_class_loss *loss, const br_cross_entropy_tensors *given);
bool br__stored_cross_entropy_grad(const br_class_loss *loss,
                                   const br_cross_entropy_tensors *given);
bool br__stored_linear_cross_entropy(const char *op, br_class_loss *loss,
                                     const br_linear_cross_entropy_tensors *given);

#endif
