/* tensor/host.h - elements in the host's memory, for operations that must know or choose them. */
#ifndef BR_TENSOR_HOST_H
#define BR_TENSOR_HOST_H

#include "tensor/storage.h"

/* Returns the elements of t, which is i64, in row-major order in the host's memory, or NULL with an
 * error. They are valid until the innermost scope ends. */
const int64_t *br__host_i64(const br_tensor *t);
/* Returns a new i64 tensor in the host's memory. Its elements, contiguous and not initialized, are
 * returned in *elements for the caller to set, before br__placed() copies it to a device. Returns
 * NULL with an error and sets *elements to NULL if memory runs out. */
br_tensor *br__new_host_i64(const char *op, int ndim, const int64_t *sizes, int64_t **elements);
/* The same for f64. */
br_tensor *br__new_host_f64(const char *op, int ndim, const int64_t *sizes, double **elements);
/* Returns the element of an i64 scalar that stays in the host's memory, such as a counter. */
static inline int64_t *br__host_counter(const br_tensor *t)
{
    return (int64_t *)(void *)t->data;
}
/* The same for an f32 scalar. */
static inline float *br__host_f32(const br_tensor *t)
{
    return (float *)(void *)t->data;
}
/* Makes *t a header of the number that `number` points to, as an operand of a backend: it has no
 * storage. `number` must outlive it. The fields are set in place: copying a header waits until its
 * single fields have been written. */
static inline void br__host_number(br_tensor *t, br_dtype dtype, void *number)
{
    memset(t, 0, sizeof *t);
    t->dtype = dtype;
    t->contiguous = true;
    t->numel = 1;
    t->data = number;
}

#endif
