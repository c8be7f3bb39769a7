/* backends/backend.h - the seam between the library and a device.
 *
 * An operation checks its arguments, makes its results, describes the work, calls an entry of the
 * backend, and records itself on the tape. Only the backend reads and writes elements, and only it
 * divides work among threads. Operands are tensors or windows of tensors (tensor/window.h), whose
 * memory only the backend interprets. Entries do not check their arguments, do not fail unless
 * their comment says so, and do not report to the profile.
 *
 * A device may queue the work of an entry and run it later, in order. The entry must then have
 * copied the description of the work, headers of tensors and numbers in the host's memory when it
 * returns, and memory that queued work uses must stay until it has run, also after `deallocate`.
 * `upload`, `download` and `synchronize` wait. */
#ifndef BR_BACKEND_H
#define BR_BACKEND_H

#include "backends/attention.h"
#include "backends/conv.h"
#include "backends/fft.h"
#include "backends/index.h"
#include "backends/linalg.h"
#include "backends/loss.h"
#include "backends/matmul.h"
#include "backends/norm.h"
#include "backends/optim.h"
#include "backends/pointwise.h"
#include "backends/pool.h"
#include "backends/recurrent.h"
#include "backends/reduce.h"
#include "backends/resample.h"
#include "backends/vector_norm.h"

#include <brasa/tensor.h>

/* What a device can do. An entry that is NULL means "not on this device". */
typedef struct br_backend br_backend;
struct br_backend {
    const char *name; /* "cpu", "guarded:1" */
    br_device device;

    /* Memory. The host's is allocated by tensor/blocks.c, so that the CPU backend leaves the first
     * two NULL. `allocate` returns an address that only the backend interprets, or NULL with an
     * error if memory runs out; `bytes` may be 0. */
    void *(*allocate)(const char *op, const br_backend *self, size_t bytes);
    void (*deallocate)(const br_backend *self, void *memory, size_t bytes);
    /* Copy a contiguous tensor from and to the host's memory. The copy has been made when they
     * return. They return false with an error if the device fails. */
    bool (*upload)(const br_tensor *dst, const void *elements);
    bool (*download)(void *elements, const br_tensor *src);
    /* Sets all elements to a copy of one in the host's memory. They are dense in memory, in any
     * order of the dimensions. */
    void (*fill)(const br_tensor *t, const void *element);
    /* Waits for all work. Returns false with an error if some of it has failed. */
    bool (*synchronize)(const br_backend *self);

    /* Whether `pointwise` has a kernel for the dtype. */
    bool (*has_pointwise)(br_pointwise kernel, br_dtype dtype);
    /* Computes operand 0 from the others, 1 to 3 of them, which broadcast to its shape. The dtype
     * of the last operand chooses the kernel. An operand without a storage is one number in the
     * host's memory. `params` belongs to the kernel. */
    bool (*pointwise)(br_pointwise kernel, int n, const br_tensor *const *operands,
                      const void *params);
    /* Copies src, which broadcasts to dst, into dst and converts the dtype. Reports to the profile.
     */
    void (*copy)(const br_tensor *dst, const br_tensor *src);

    /* Concatenates n contiguous tensors along a dimension. Returns false, and does nothing, if
     * copies of the single tensors are as fast. */
    bool (*cat)(const br_tensor *y, int n, br_tensor *const *tensors, int64_t dim);
    /* Sets the elements of contiguous matrices above the diagonal to 0, or, for the upper triangle,
     * those below it. `diagonal` counts from the main one upwards. y is not empty. */
    void (*triangle)(const br_tensor *y, int64_t diagonal, bool upper);

    /* Writes the bits of dropout for n elements, each of which is dropped with probability p, 0 < p
     * < 1: one bit for each element, 0 if it is dropped, from the lowest bit of the first word on;
     * the word after the last is 0. `bits` is i64 and contiguous. The bits come from the thread's
     * generator as br_get_dropout_rng() says. */
    void (*dropout_bits)(const br_tensor *bits, int64_t n, double p);
    /* y = x scale, or 0 where the element's bit is 0. y and x are contiguous. Returns false with an
     * error if memory runs out. */
    bool (*dropout)(const br_tensor *y, const br_tensor *x, const br_tensor *bits, double scale);

    /* Returns the positions, i64 [n, ndim], at which a contiguous bool tensor, viewed with the
     * given sizes, is true; NULL with an error if memory runs out. */
    br_tensor *(*nonzero)(const char *op, const br_tensor *mask, int ndim, const int64_t *sizes);
    /* y[i] = x[index[i]] along a dimension. The tensors have the same number of dimensions, y and
     * the index, which is i64, have the same sizes, and x may be larger. Indices are in range. */
    void (*gather)(const br_tensor *y, const br_tensor *x, const br_tensor *index, int dim);
    /* x[index[i]] = combine(x[index[i]], y[i]) along a dimension, in the index's order; the roles
     * of the tensors' sizes are those of `gather`. Indices equal to `skip` are ignored. */
    void (*scatter)(const br_tensor *x, const br_tensor *y, const br_tensor *index, int dim,
                    int64_t skip, br_combine combine);

    /* Reduces x over the dimensions whose bits are set in `dims`. Indices are positions among the
     * reduced elements, in memory order, which is row-major order if x is contiguous. Returns false
     * with an error if memory runs out. */
    bool (*reduce)(const char *op, const br_tensor *x, unsigned dims, const br_reducer *reducer);
    /* Computes y from x, both contiguous, of the same shape and, unless y has positions, of the
     * same dtype, and not empty. With positions, also writes work->values. Floats are accumulated
     * in double; integers wrap around. Returns false with an error if memory runs out. */
    bool (*scan)(const br_tensor *y, const br_tensor *x, const br_scan_work *work);
    /* Writes to y, i64, how many elements of a sorted sequence are less than each value, or, if
     * `right`, less than or equal to it. NaN is greater than all others. `sorted` is the only
     * sequence, of one dimension, or has the dimensions of `values` except for the size of the
     * last, in which the sequences lie. All are contiguous; the dtype is f32, f64 or i64; y is not
     * empty. */
    void (*search)(const br_tensor *y, const br_tensor *sorted, const br_tensor *values,
                   bool right);
    /* Weighted sums of neighbours along a dimension, and the adjoint, which adds to dx, which the
     * caller has set to 0. The tensors are contiguous, of one dtype, f32 or f64, and not empty. */
    void (*resample)(const br_tensor *y, const br_tensor *x, const br_resampling *work);
    void (*resample_grad)(const br_tensor *dx, const br_tensor *dy, const br_resampling *work);
    /* Writes to `indices`, i64 and contiguous, the order of a contiguous x along a dimension. Its
     * size along this dimension is `count`. Returns false with an error if memory runs out. */
    bool (*sort)(const char *op, const br_tensor *indices, const br_tensor *x,
                 const br_order *order);
    /* Writes to `order`, i64 [n], the lexicographic order of the rows of [n, width], which is
     * contiguous and not empty. The sort is stable. Returns false with an error if memory runs out.
     */
    bool (*sort_rows)(const char *op, const br_tensor *order, const br_tensor *rows);

    /* Softmax, or log softmax, along a dimension, and their gradients from the result y. All
     * tensors are contiguous, of one shape, and not empty. A 0-d tensor is one element. Both return
     * false with an error if memory runs out. */
    bool (*softmax)(const br_tensor *y, const br_tensor *x, int64_t dim, bool log_of);
    bool (*softmax_grad)(const br_tensor *dx, const br_tensor *y, const br_tensor *dy, int64_t dim,
                         bool log_of);
    /* y is not empty. Both return false with an error if memory runs out. */
    bool (*layer_norm)(const br_layer_norm_tensors *work);
    bool (*layer_norm_grad)(const char *op, const br_layer_norm_tensors *work);
    /* x is not empty. Returns false with an error if memory runs out. */
    bool (*channel_norm)(const char *op, const br_channel_norm_work *work);
    /* Whether the dtype can represent the coefficients of the gradient, such as rstd^3. */
    bool (*channel_norm_fits)(const br_tensor *rstd);
    bool (*channel_norm_grad)(const char *op, const br_channel_norm_work *work);

    /* Convolutions of contiguous tensors, whose result is not empty. Each computes the first tensor
     * from the others: y, to which the bias is added unless it is NULL, x or weight. The last two
     * are also the gradients of the first. They return false with an error if memory runs out. */
    bool (*convolution)(const br_convolution *work, const br_tensor *y, const br_tensor *x,
                        const br_tensor *weight, const br_tensor *bias);
    bool (*convolution_input)(const br_convolution *work, const br_tensor *x,
                              const br_tensor *weight, const br_tensor *y);
    bool (*convolution_weight)(const br_convolution *work, const br_tensor *weight,
                               const br_tensor *x, const br_tensor *y);

    /* Pooling of contiguous tensors that are not empty. All return false with an error if memory
     * runs out. `indices`, i64, gets the index of each maximum within its plane: of the first one
     * among equal elements; a NaN counts as the largest. */
    bool (*max_pool)(const br_pool_geometry *work, const br_tensor *y, const br_tensor *indices,
                     const br_tensor *x);
    /* Averages, accumulated in double. */
    bool (*avg_pool)(const br_pool_geometry *work, const br_tensor *y, const br_tensor *x);
    /* Adds the gradient of the averages to dx. */
    bool (*avg_pool_grad)(const br_pool_geometry *work, const br_tensor *dx, const br_tensor *dy);

    /* A recurrent layer over a sequence, and its gradient. y of the first is not empty. Both return
     * false with an error if memory runs out. */
    bool (*recurrent)(const br_recurrent_tensors *work);
    bool (*recurrent_grad)(const br_recurrent_tensors *work);

    /* Computes `out` and `sums`. Returns false with an error if memory runs out. */
    bool (*attention)(const char *op, const br_attention_tensors *work);
    /* Computes the gradients. The gradient of an operand that is broadcast is summed. Returns false
     * with an error if memory runs out. */
    bool (*attention_grad)(const char *op, const br_attention_tensors *work);
    /* Rotates the pairs of the last dimension of x: (y1, y2) = (x1 cos - x2 sin, x2 cos + x1 sin).
     * A pair is two adjacent elements if `interleaved`, otherwise an element of the first half and
     * the same of the second. cos and sin broadcast to the pairs. All have one dtype.
     * Returns false with an error if memory runs out. */
    bool (*rotate)(const br_tensor *y, const br_tensor *x, const br_tensor *cos,
                   const br_tensor *sin, bool interleaved);

    /* Computes C. Returns false with an error if memory runs out. */
    bool (*matmul)(const br_matmul_tensors *work);
    /* Dequantizes rows of x, which has the dtype BR_QUANTIZED: y [.., columns], contiguous and of
     * any floating-point dtype, gets the rows of the indices, i64 and contiguous, or all rows if
     * `rows` is NULL. Indices are in range. A device with this entry has quantized operands in
     * `matmul` and in `linear_cross_entropy`, too. */
    void (*dequantize)(const br_tensor *y, const br_tensor *x, const br_tensor *rows);

    /* Factorizes matrices and solves systems of equations. Returns false with an error if the
     * library that computes is missing, or cannot process matrices of this size, or if memory runs
     * out. */
    bool (*linalg)(const char *op, const br_linalg_work *work);

    /* Computes Fourier transforms. Returns false with an error if memory runs out, or if the
     * library that computes is missing. */
    bool (*fft)(const char *op, const br_fft_work *work);

    /* Computes the losses, sums, `reduced`, and the sums of weights in *loss; and dscores from the
     * scores, sums and dy. Both return false with an error if memory runs out. */
    bool (*cross_entropy)(br_class_loss *loss, const br_cross_entropy_tensors *work);
    bool (*cross_entropy_grad)(const br_class_loss *loss, const br_cross_entropy_tensors *work);
    /* Computes the losses, `reduced`, the sums of weights in *loss, and the gradients. Returns
     * false with an error if memory runs out. */
    bool (*linear_cross_entropy)(const char *op, br_class_loss *loss,
                                 const br_linear_cross_entropy_tensors *work);

    /* Whether `update` has the rule. */
    bool (*has_update)(br_update_rule rule);
    /* Updates n parameters, which may have several dtypes. `spans` has n elements. */
    void (*update)(int64_t n, const br_update *updates, br_loop_span *spans);
    /* Computes the norm of each of n tensors, which may have several dtypes. `spans` and `norms`
     * have n elements. Returns false with an error if memory runs out. */
    bool (*norms)(const char *op, int64_t n, const br_tensor *const *tensors, br_loop_span *spans,
                  br_vector_norm norm, double *norms);
    /* Replaces each element x of n tensors by kernel(x), or, unless `scalar` is NULL, by kernel(x,
     * scalar), with the scalar rounded to the tensor's dtype. The kernel has `params`. */
    void (*pointwise_each)(br_pointwise kernel, int64_t n, const br_tensor *const *tensors,
                           br_loop_span *spans, const double *scalar, const void *params);

    /* Returns the kinds of values in a floating-point tensor that are not finite: BR_HAS_NAN,
     * BR_HAS_INFINITY. */
    unsigned (*nonfinite)(const br_tensor *x);
};

/* The host's processor and memory. */
extern const br_backend br__cpu_backend;

/* Adds a device, whose type and index must be free. Returns false with an error if they are not. */
bool br__register_backend(const br_backend *backend);

/* ---- Work ------------------------------------------------------------------------------------ */

/* Returns the backend that has t's memory if it has the entry. Otherwise fails with a message that
 * names the operation and the device, and returns NULL. */
#define BR_BACKEND(op, t, entry) \
    (br__backend_of(t)->entry ? br__backend_of(t) : br__no_kernel(op, t))
const br_backend *br__no_kernel(const char *op, const br_tensor *t);

/* These call the backend of operand 0, of dst or of x. */

bool br__pointwise(br_pointwise kernel, int n, const br_tensor *const *operands,
                   const void *params);
void br__copy(const br_tensor *dst, const br_tensor *src);
bool br__reduce(const char *op, const br_tensor *x, unsigned dims, const br_reducer *reducer);

/* These have the arguments of the entries, for tensors that may be on several devices: they call a
 * backend for each run of tensors on the same device. The second and the third fail, and do
 * nothing, if one of the backends lacks the entry. */

void br__update(int64_t n, const br_update *updates, br_loop_span *spans);
bool br__norms(const char *op, int64_t n, const br_tensor *const *tensors, br_loop_span *spans,
               br_vector_norm norm, double *norms);
bool br__pointwise_each(const char *op, br_pointwise kernel, int64_t n,
                        const br_tensor *const *tensors, br_loop_span *spans, const double *scalar,
                        const void *params);

#endif
