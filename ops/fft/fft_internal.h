/* ops/fft/fft_internal.h - shared by the operations on complex tensors and the Fourier transforms.
 */
#ifndef BR_FFT_INTERNAL_H
#define BR_FFT_INTERNAL_H

#include "ops/ops_internal.h"

/* Returns true if t is f32 or f64; fails otherwise. */
bool br__fft_dtype(const char *op, const char *name, const br_tensor *t);
/* Returns true if t is a complex tensor, as fft.h says; fails otherwise. */
bool br__is_complex(const char *op, const char *name, const br_tensor *t);

/* A transform of one dimension. */
typedef struct br_transform {
    br_fft_kind kind;
    bool forward;
    int dim; /* of the complex tensor */
    int64_t n;
    double scale, inner; /* as in a br_fft_work */
} br_transform;

/* Returns the transform of x, whose size along the dimension is n, or n / 2 + 1 for C2R, and
 * records it. `op` is the prefix of error messages. */
br_tensor *br__transform(const char *op, br_tensor *x, const br_transform *t);

#endif
