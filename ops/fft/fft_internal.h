/* ops/fft/fft_internal.h - shared by the operations on complex tensors and the Fourier transforms.
 */
#ifndef BR_FFT_INTERNAL_H
#define BR_FFT_INTERNAL_H

#include "ops/ops_internal.h"

/* Returns true if t is a complex tensor, as fft.h says; fails otherwise. br__has_parts() takes any
 * dtype. */
bool br__is_complex(const char *op, const char *name, const br_tensor *t);
bool br__has_parts(const char *op, const char *name, const br_tensor *t);
/* Makes a dimension of x, which does not count the parts of a complex one, not negative. Fails if
 * it is out of range; the message calls it `name`. */
bool br__wrap_fft_dim(const char *op, const char *name, const br_tensor *x, bool is_complex,
                      int64_t *dim);

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
