/* backends/cpu/reduce/reduce_internal.h - the backend's entries for work along dimensions. */
#ifndef BR_CPU_REDUCE_INTERNAL_H
#define BR_CPU_REDUCE_INTERNAL_H

#include "backends/cpu/reduce/reduce_kernels.h"
#include "tensor/tensor_internal.h"

bool br__cpu_reduce(const char *op, const br_tensor *x, unsigned dims, const br_reducer *reducer);
void br__cpu_scan(const br_tensor *y, const br_tensor *x, const br_scan_work *work);
void br__cpu_search(const br_tensor *y, const br_tensor *sorted, const br_tensor *values,
                    bool right);
void br__cpu_resample(const br_tensor *y, const br_tensor *x, const br_resampling *work);
void br__cpu_resample_grad(const br_tensor *dx, const br_tensor *dy, const br_resampling *work);
bool br__cpu_sort(const char *op, const br_tensor *indices, const br_tensor *x,
                  const br_order *order);
bool br__cpu_sort_rows(const char *op, const br_tensor *order, const br_tensor *rows);
unsigned br__cpu_nonfinite(const br_tensor *x);

/* Kernels of bools, for the table in integer.c. */
void br__bool_sum(const br_fold *f);
void br__bool_max(const br_fold *f);
void br__bool_min(const br_fold *f);
void br__bool_argmax(const br_fold *f);
void br__bool_argmin(const br_fold *f);

#endif
