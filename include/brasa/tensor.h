/* brasa/tensor.h - tensors, scopes, errors, memory, random numbers, threads.
 *
 * Ownership: a tensor belongs to the innermost scope that is open in its thread when the tensor is
 * created, and is freed when that scope ends. br_scope_return() moves a tensor to the outer scope;
 * br_retain() and br_release() hold one independently of scopes. A function borrows the tensors
 * that are passed to it. Using a tensor or another object after it was freed is an error, unless
 * its memory has been reused since; BRASA_DEBUG=1 in the environment finds the other cases, too.
 *
 * Errors: a call that fails returns NULL (or false, or -1) and records the first error of its
 * thread. While an error is pending, every operation returns at once, so a program needs to check
 * br_failed() only where it matters. A NULL for an optional argument therefore always means
 * "absent" and never an earlier failure; a NULL for a required argument is itself an error. */
#ifndef BRASA_TENSOR_H
#define BRASA_TENSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#    define BR_API               __attribute__((visibility("default")))
#    define BR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#    define BR_API
#    define BR_PRINTF(fmt, args)
#endif

#include <brasa/tensor/dtype.h>
#include <brasa/tensor/lists.h>
#include <brasa/tensor/options.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ------------------------------------------------------------------------------- */

#define BR_VERSION_MAJOR 0
#define BR_VERSION_MINOR 1
#define BR_VERSION_PATCH 0

/* Returns the version of the library at run time, such as "0.1.0", to compare with the header's
 * macros. */
BR_API const char *br_version(void);

/* ---- Types --------------------------------------------------------------------------------- */

typedef struct br_tensor br_tensor;
typedef struct br_scope br_scope;

enum { BR_MAX_DIMS = 8 };

/* Expands to the two arguments that functions take for a shape or a list of dimensions, a count and
 * a pointer: br_zeros(BR_SHAPE(2, 3), BR_F32) is br_zeros(2, (int64_t[]){2, 3}, BR_F32). */
#define BR_SHAPE(...) BR__LIST(int64_t, __VA_ARGS__)
#define BR_DIMS(...)  BR__LIST(int64_t, __VA_ARGS__)
#define BR_SCALAR     0, NULL /* the shape [] */

/* As a dimension: all dimensions (PyTorch's dim=None). As the end of a slice: up to and including
 * the last element. */
#define BR_ALL INT64_MAX

/* Returns the size of one element in bytes. */
BR_API size_t br_dtype_size(br_dtype dtype);
/* Returns "f32", "f64", "i64" or "bool". */
BR_API const char *br_dtype_name(br_dtype dtype);
/* Sets *dtype to the dtype of that name: Brasa's ("bf16"), PyTorch's ("bfloat16") or safetensors'
 * ("BF16"). Returns false without an error if there is none. */
BR_API bool br_dtype_named(const char *name, br_dtype *dtype);
/* Returns true for f32, f64, bf16 and f16. */
BR_API bool br_dtype_is_floating(br_dtype dtype);

/* ---- Errors -------------------------------------------------------------------------------- */

typedef enum br_error {
    BR_OK,
    BR_ERROR_ARGUMENT, /* a value out of range, or a required NULL */
    BR_ERROR_SHAPE,
    BR_ERROR_DTYPE,
    BR_ERROR_INDEX,   /* an index out of bounds of its dimension */
    BR_ERROR_MEMORY,  /* allocation failed, or the memory limit was reached */
    BR_ERROR_STATE,   /* invalid in the current state: graph freed, saved value changed */
    BR_ERROR_IO,      /* a file could not be opened, read, written or renamed */
    BR_ERROR_FORMAT,  /* a file's content violates its format */
    BR_ERROR_ANOMALY, /* a NaN or infinity was found: br_set_detect_anomaly() */
    BR_WARNING,       /* not an error: a warning for the error callback, never pending */
} br_error;

/* Returns true while an error is pending in this thread. */
BR_API bool br_failed(void);
/* Same as br_failed(), but the error stays unhandled (br_set_exit_report()). For modules and
 * operations, which return early while an error is pending, and leave it to their caller. */
BR_API bool br_error_pending(void);
BR_API br_error br_error_code(void);
/* Returns the pending error as "module.path: op: what was wrong", with "gradient of OP: " before it
 * if a gradient function failed, or "" if there is none. Valid until the next br_clear_error() or
 * br_raise() in this thread. */
BR_API const char *br_error_message(void);
BR_API void br_clear_error(void);
/* Prints the pending error and a newline, clears the error, and returns EXIT_FAILURE. Without a
 * pending error, prints nothing and returns EXIT_SUCCESS. Intended for "return
 * br_report(stderr);". */
BR_API int br_report(FILE *stream);
/* Records an error, for code outside the library: custom operations, modules and loaders. The first
 * error is kept and later ones are dropped. The path of the running module, and "gradient of OP" in
 * a gradient function, are prepended to the message. If code is BR_WARNING, nothing is recorded:
 * the message is passed to the error callback as a warning, even while an error is pending. The
 * library's own errors go through this function, too, so "break br_raise" in a debugger stops at
 * every error. */
BR_API void br_raise(br_error code, const char *format, ...) BR_PRINTF(2, 3);
/* Same as br_raise(), for callers that cannot pass variable arguments. */
BR_API void br_raise_text(br_error code, const char *text);

/* Same as br_raise() with the message "op: message", where `op` is the function or module that
 * fails. Returns NULL, so that a function can end with `return br_fail(...)`. */
BR_API void *br_fail(br_error code, const char *op, const char *format, ...) BR_PRINTF(3, 4);
/* Return true if the argument is not NULL and no error is pending; br_require_tensor() also checks
 * in the debug mode that the tensor is live. Otherwise they return false and set the error "op:
 * name is NULL, but it is required". */
BR_API bool br_require(const char *op, const char *name, const void *argument);
BR_API bool br_require_tensor(const char *op, const char *name, const br_tensor *t);
/* Returns a shape such as "[2, 3]" for a message, in one of the thread's 8 rotating buffers. */
BR_API const char *br_shape_text(const br_tensor *t);
/* Returns `text` made safe for messages and terminals: control and format characters and invalid
 * UTF-8 are escaped, and long text is truncated. The result is in one of the thread's 4 rotating
 * buffers. */
BR_API const char *br_printable(const char *text);

/* Called in the raising thread for every error and every warning (BR_WARNING). The message is valid
 * until the callback returns or clears the error. */
typedef void (*br_error_callback)(br_error code, const char *message, void *context);
/* Sets the process-wide error callback; NULL removes it. The callback is called once for each
 * recorded error, when that error is already pending. It is not called for errors that are dropped
 * because one is pending, nor for errors that the callback itself causes.
 *
 * The environment variable BRASA_ERRORS has a similar effect without changing the program. It is
 * read at the first error or warning: "print" prints each error and warning to stderr when it is
 * raised, "abort" also calls abort() at the first error, and "silent" turns off the report at
 * exit. */
BR_API void br_set_error_callback(br_error_callback callback, void *context);
/* Sets whether the process prints the first unhandled error to stderr at exit (default: true). An
 * error is handled if br_report(), br_error_message() or br_clear_error() was called in its thread,
 * if br_failed() or br_error_code() returned it, or if a callback or BRASA_ERRORS=print received
 * it. */
BR_API void br_set_exit_report(bool report);

/* ---- Scopes and ownership ------------------------------------------------------------------ */

/* Opens a scope: tensors created in this thread from now on belong to it. Returns NULL and records
 * an error if memory runs out; closing that NULL does nothing. */
BR_API br_scope *br_scope_begin(void);
/* Closes the scope and any scopes still open inside it, and frees their tensors. NULL is ignored;
 * a scope that has already ended is an error. */
BR_API void br_scope_end(br_scope *scope);
/* Returns the innermost scope that is open in this thread, or NULL. After br_enter() it is the
 * module's, from which br_scope_return() moves further results to the outer scope. */
BR_API br_scope *br_scope_current(void);
/* Moves t to the scope that encloses `scope` (NULL: the innermost scope) and returns t. A tensor
 * that does not belong to `scope` stays where it is. */
BR_API br_tensor *br_scope_return(br_scope *scope, br_tensor *t);
/* Returns `by` and drops t before its scope closes, like reassigning a variable: x =
 * br_scope_replace(x, layer(x)). t is freed if it belongs to the innermost scope and nothing else,
 * such as a graph, holds it; otherwise it is kept. If t is NULL or the same as `by`, nothing is
 * dropped. */
BR_API br_tensor *br_scope_replace(br_tensor *t, br_tensor *by);
/* Returns true if changing t in place cannot be observed: grad mode is off (br_no_grad_begin()), t
 * belongs to the innermost scope, and nothing else, such as a hook that keeps its argument, holds t
 * or shares its storage. An operation whose input is no longer needed can then avoid an allocation:
 * h = br_may_overwrite(h) ? br_relu_(h) : br_relu(h). */
BR_API bool br_may_overwrite(const br_tensor *t);
/* Holds t beyond its scope and returns it. Match every br_retain() with one br_release(). Both
 * accept NULL. */
BR_API br_tensor *br_retain(br_tensor *t);
BR_API void br_release(br_tensor *t);
/* Ends this thread's open scopes, and frees its thread-local state and the tensors that it created
 * outside every scope. A pending error stays. Called automatically when a thread returns from its
 * function or calls pthread_exit(); use br_retain() for tensors that other threads use after that.
 */
BR_API void br_thread_cleanup(void);

/* Returns the number of live tensors in the process, including views and values saved for
 * backward. */
BR_API int64_t br_live_tensors(void);
/* Return the bytes of live tensor storage in the process, and their peak since the start or the
 * last br_reset_peak_bytes(). */
BR_API int64_t br_live_bytes(void);
BR_API int64_t br_peak_bytes(void);
BR_API void br_reset_peak_bytes(void);

/* ---- Memory -------------------------------------------------------------------------------- */

/* The library allocates tensors and all its other objects with these functions; internal state of
 * threads and of the debug mode comes from the C library's allocator. `allocate` returns NULL on
 * failure; alignment is a power of two up to 2 MiB. Both may be called from several threads at
 * once. */
typedef struct br_allocator {
    void *(*allocate)(void *context, size_t size, size_t alignment);
    void (*deallocate)(void *context, void *block);
    void *context;
} br_allocator;

/* Replaces the system's allocator; NULL restores it. Fails (false and an error) while a scope of
 * this thread is open or tensors, modules, lists or strings of the library are live. */
BR_API bool br_set_allocator(const br_allocator *allocator);
/* Sets the limit for live tensor storage in bytes; 0 means no limit. An allocation beyond it fails
 * with BR_ERROR_MEMORY and changes nothing. */
BR_API void br_set_memory_limit(size_t bytes);
/* Sets how many bytes of freed blocks may be cached for reuse (default: no limit); 0 turns the
 * cache off. With a program's own allocator, free parts of a block stay cached while other parts of
 * that block are in use. */
BR_API void br_set_cache_limit(size_t bytes);
/* Returns cached memory to the system. With a program's own allocator, only whole blocks are
 * returned, not free parts of blocks that are partly in use. */
BR_API void br_empty_cache(void);
/* Returns the bytes of freed blocks that are cached for reuse. */
BR_API int64_t br_cached_bytes(void);

/* ---- Threads ------------------------------------------------------------------------------- */

/* Set and return the number of threads that an operation may use, 1 .. 1024. The default is the
 * number of processors that the process may run on. Results do not depend on the number of
 * threads. */
BR_API void br_set_num_threads(int n);
BR_API int br_get_num_threads(void);
/* Sets whether operations of the calling thread, and tasks that other threads run for it, flush
 * denormal numbers (below 1.2e-38 in f32) to 0, both operands and results. The default is false,
 * except in matrix products and scaled_dot_product_attention, which always flush them: processors
 * are about a hundred times slower with denormal numbers, and these are too small to matter in a
 * gradient. This is a mode of the processor and so affects the thread's own code as well. Returns
 * false and does nothing if the processor has no such mode. */
BR_API bool br_set_flush_denormal(bool flush);
/* Returns the instruction set of the kernels: "avx512", "avx2" or "baseline". It is the best that
 * the processor supports, or the one that the environment variable BRASA_CPU_CAPABILITY allows when
 * the first operation runs: "amx", "avx512_bf16", "avx512", "avx2" or "baseline". Each name allows
 * what comes after it, too. The first two stand for the kernels of "avx512" with that unit for
 * products of precision "medium"; with "avx512" there is no such unit. Results differ by rounding
 * between instruction sets. */
BR_API const char *br_get_cpu_capability(void);
/* Set and return the precision of matrix products of f32 tensors in this process: "highest" (the
 * default), "high" or "medium". All threads read it at each product: mm, matmul, linear, einsum,
 * scaled_dot_product_attention, convolutions, recurrent layers and their gradients. Products of f64
 * tensors do not depend on it.
 *
 *   highest  f32.
 *   high     With AMX both operands are split into two bf16 numbers each, the nearest and the
 *            remainder, and three products of these are summed in f32. The error is less than a
 *            30th of that of "medium". Values beyond bf16's largest become infinite; remainders
 *            that are denormal numbers are lost. Attention, and products on other processors, are
 *            computed in f32: with AVX512-BF16 three products take longer than one in f32.
 *   medium   Both operands are rounded to bf16, which has 8 significant bits: to the nearest,
 *            ties to even. Values beyond bf16's largest become infinite, NaN stays NaN, and
 *            denormal numbers are flushed to 0, as in all matrix products. Products are summed in
 *            f32. Small products, and all products on a processor without a unit for bf16, are
 *            computed in f32.
 *
 * Results do not depend on the number of threads in any precision. The environment variable
 * BRASA_FLOAT32_MATMUL_PRECISION sets the initial precision. It is read when the first product is
 * computed or the precision is queried, which fails if the value is wrong. An unknown name is
 * BR_ERROR_ARGUMENT, returns false and leaves the precision as it is. */
BR_API bool br_set_float32_matmul_precision(const char *precision);
BR_API const char *br_get_float32_matmul_precision(void);
/* Returns the unit that computes products of precision "medium": "amx", "avx512_bf16", or "f32" if
 * the processor has no such unit or BRASA_CPU_CAPABILITY does not allow it. On a processor with AMX
 * the first call, or the first product of precision "medium" or "high", asks the operating system
 * for permission to use it. If that is refused, the unit is "avx512_bf16". Linux refuses if a
 * thread has a signal stack (sigaltstack) too small for AMX's 8 KiB of registers, and after it has
 * given the permission, it accepts no such stack. */
BR_API const char *br_get_float32_matmul_unit(void);

/* ---- Creating tensors ---------------------------------------------------------------------- */

/* These create tensors on the thread's default device (br_set_default_device()), or on the device
 * of the tensor that they take.
 *
 * br_empty() leaves the values undefined, and so does br_empty_strided(), whose elements lie in
 * memory as the strides, in elements, say. Every size must be at least 0, and ndim at most
 * BR_MAX_DIMS. */
BR_API br_tensor *br_empty(int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_empty_strided(int ndim, const int64_t *sizes, const int64_t *strides,
                                   br_dtype dtype);
BR_API br_tensor *br_zeros(int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_ones(int ndim, const int64_t *sizes, br_dtype dtype);
/* A value is a double: for an i64 larger than 2^53, use br_from_i64(). */
BR_API br_tensor *br_full(int ndim, const int64_t *sizes, double value, br_dtype dtype);
BR_API br_tensor *br_empty_like(const br_tensor *t);
BR_API br_tensor *br_zeros_like(const br_tensor *t);
BR_API br_tensor *br_ones_like(const br_tensor *t);
BR_API br_tensor *br_full_like(const br_tensor *t, double value);
/* The same on t's device, as x.new_zeros() in PyTorch: for tensors that an operation or a module
 * needs beside its arguments. br_new_arange() is torch.arange() with x.device. */
BR_API br_tensor *br_new_empty(const br_tensor *t, int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_new_zeros(const br_tensor *t, int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_new_ones(const br_tensor *t, int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_new_full(const br_tensor *t, int ndim, const int64_t *sizes, double value,
                              br_dtype dtype);
BR_API br_tensor *br_new_arange(const br_tensor *t, double start, double end, double step,
                                br_dtype dtype);
/* Returns a 0-d tensor. */
BR_API br_tensor *br_scalar(double value, br_dtype dtype);
/* Returns start, start + step, ... up to but excluding `end`: ceil((end - start) / step) elements.
 * The result is bit-identical to PyTorch's AVX2 kernel on one thread. */
BR_API br_tensor *br_arange(double start, double end, double step, br_dtype dtype);
/* Returns `steps` evenly spaced values from start to end, both included, bit-identical to
 * PyTorch's. For i64, start, end and the values are truncated. */
BR_API br_tensor *br_linspace(double start, double end, int64_t steps, br_dtype dtype);
/* Returns `base` to the power of each value of br_linspace(), as br_logspace(start, end, steps, 10,
 * dtype). */
BR_API br_tensor *br_logspace(double start, double end, int64_t steps, double base, br_dtype dtype);
/* Return n values of a window function, of a floating-point dtype. With `periodic`, PyTorch's
 * default, they are the first n of n + 1 symmetric ones. PyTorch's defaults are alpha 0.54 and beta
 * 0.46, and 12 for the beta of br_kaiser_window(). */
BR_API br_tensor *br_bartlett_window(int64_t n, bool periodic, br_dtype dtype);
BR_API br_tensor *br_hann_window(int64_t n, bool periodic, br_dtype dtype);
BR_API br_tensor *br_hamming_window(int64_t n, bool periodic, double alpha, double beta,
                                    br_dtype dtype);
BR_API br_tensor *br_blackman_window(int64_t n, bool periodic, br_dtype dtype);
BR_API br_tensor *br_kaiser_window(int64_t n, bool periodic, double beta, br_dtype dtype);
/* Returns the n x m matrix with ones on its diagonal. */
BR_API br_tensor *br_eye(int64_t n, int64_t m, br_dtype dtype);
/* Copy a C array in row-major order into a new tensor. */
BR_API br_tensor *br_from_f32(int ndim, const int64_t *sizes, const float *values);
BR_API br_tensor *br_from_f64(int ndim, const int64_t *sizes, const double *values);
BR_API br_tensor *br_from_i64(int ndim, const int64_t *sizes, const int64_t *values);
BR_API br_tensor *br_from_bool(int ndim, const int64_t *sizes, const bool *values);
/* Copies an array of any dtype into a new tensor; `values` need not be aligned. */
BR_API br_tensor *br_from_data(int ndim, const int64_t *sizes, br_dtype dtype, const void *values);
/* Returns a tensor on the CPU over the caller's memory, which must be aligned for its dtype and
 * stay valid until `destroy(context)` is called (NULL: no call). On failure `destroy` is not
 * called. */
BR_API br_tensor *br_borrow(int ndim, const int64_t *sizes, br_dtype dtype, void *data,
                            void (*destroy)(void *context), void *context);

/* ---- Inspecting tensors -------------------------------------------------------------------- */

/* All of these accept NULL. They then return -1 (so that a loop ends and a division does not trap),
 * NULL or false; br_dtype_of() returns BR_F32, and br_tensor_version() returns 0. */
BR_API int br_ndim(const br_tensor *t);
/* Returns the size of a dimension; a negative `dim` counts from the end. Returns -1 and records an
 * error if `dim` is out of range. */
BR_API int64_t br_size(const br_tensor *t, int64_t dim);
/* Returns the stride of a dimension, in elements. */
BR_API int64_t br_stride(const br_tensor *t, int64_t dim);
/* Return the ndim sizes or strides; valid as long as t is. */
BR_API const int64_t *br_sizes(const br_tensor *t);
BR_API const int64_t *br_strides(const br_tensor *t);
BR_API int64_t br_numel(const br_tensor *t);
BR_API br_dtype br_dtype_of(const br_tensor *t);
BR_API bool br_is_floating(const br_tensor *t);
/* Returns the type of the blocks of a tensor of BR_QUANTIZED, such as "Q4_K"; NULL for others. */
BR_API const char *br_quantized_type(const br_tensor *t);
/* Returns true if the elements are in row-major order without gaps. */
BR_API bool br_is_contiguous(const br_tensor *t);
/* Returns true if both have the same number of dimensions and the same sizes. */
BR_API bool br_same_shape(const br_tensor *a, const br_tensor *b);
/* Returns true if both are views of the same storage. */
BR_API bool br_shares_storage(const br_tensor *a, const br_tensor *b);
/* Returns the number of in-place changes of t's storage. */
BR_API uint64_t br_tensor_version(const br_tensor *t);

/* Returns a pointer to the first element; br_stride() gives the distances to the others. Writes
 * through the pointer do not increment the version: call br_bump_version() if backward may need the
 * old values. Returns NULL while an error is pending, and fails if t is on another device than the
 * host: copy it with br_to_device(). */
BR_API void *br_data(const br_tensor *t);
/* Same as br_data(), but t must have this dtype and be contiguous: the elements are p[0] to
 * p[numel-1]. */
BR_API float *br_data_f32(const br_tensor *t);
BR_API double *br_data_f64(const br_tensor *t);
BR_API int64_t *br_data_i64(const br_tensor *t);
BR_API bool *br_data_bool(const br_tensor *t);
BR_API void br_bump_version(br_tensor *t);

/* Returns the value of a tensor with one element. Returns NAN (br_item_i64(): 0) while an error is
 * pending. br_item() and br_at() round an i64 larger than 2^53 to the nearest double. */
BR_API double br_item(const br_tensor *t);
BR_API int64_t br_item_i64(const br_tensor *t);
/* Returns the element at the given index. */
BR_API double br_at(const br_tensor *t, int ndim, const int64_t *index);
/* Copies the elements in row-major order to `out`. Fails unless `bytes` is exactly numel times the
 * dtype's size. */
BR_API bool br_copy_out(const br_tensor *t, void *out, size_t bytes);

/* Returns t as text in PyTorch's format, including "tensor(": "tensor([[1., 2.]])". Large tensors
 * are summarised. The caller frees it with br_free(). Returns NULL on error. */
BR_API char *br_to_string(const br_tensor *t);
/* Prints br_to_string() and a newline. */
BR_API void br_print(FILE *stream, const br_tensor *t);
/* Writes the shape as "[2, 3, 4]" into `buffer`, truncated to `size` bytes, and returns buffer. */
BR_API char *br_shape_string(const br_tensor *t, char *buffer, size_t size);
/* Frees memory that the library returned to the caller. */
BR_API void br_free(void *block);
/* Allocate memory for objects of your own as the library does, with br_set_allocator()'s functions.
 * br_calloc() clears it; br_strdup() copies a text and br_format() formats one. Free it with
 * br_free(). Return NULL and set an error on failure. br_malloc(0) returns a block. */
BR_API void *br_malloc(size_t size);
BR_API void *br_calloc(size_t count, size_t size);
BR_API char *br_strdup(const char *text);
BR_API char *br_format(const char *format, ...) BR_PRINTF(1, 2);

/* ---- Random numbers ------------------------------------------------------------------------ */

/* Each thread has its own generator, a Mersenne Twister like PyTorch's CPU generator: after
 * br_manual_seed(s), the functions below return the numbers that PyTorch returns after
 * torch.manual_seed(s). A thread that sets no seed starts from PyTorch's default seed,
 * 67280421310721. Only the lower 32 bits of the seed matter, as in PyTorch. While an error is
 * pending, no random numbers are generated. */
BR_API void br_manual_seed(uint64_t seed);
BR_API uint64_t br_initial_seed(void);

/* Return tensors of uniform numbers on [0, 1), standard normal numbers, uniform integers in [low,
 * high) (i64), and a random permutation of 0 .. n-1 (i64). br_rand() and br_randn() take f32 or
 * f64. */
BR_API br_tensor *br_rand(int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_randn(int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_randint(int64_t low, int64_t high, int ndim, const int64_t *sizes);
BR_API br_tensor *br_randperm(int64_t n);
/* Return 32 or 64 random bits, or a uniform double on [0, 1) with 53 bits; 0 while an error is
 * pending. */
BR_API uint32_t br_random_u32(void);
BR_API uint64_t br_random_u64(void);
BR_API double br_random_double(void);

/* The source of random numbers for dropout, in br_f_dropout(), in attention and in every module
 * with dropout. It is a setting of the thread and part of br_rng_state; br_manual_seed() does not
 * change it.
 *
 * BR_DROPOUT_PYTORCH, the default: same as PyTorch's bernoulli_() on the CPU. Each element consumes
 * 64 bits from the generator, in memory order. Training drops the same elements as PyTorch, and
 * leaves the generator in the same state. PyTorch itself does so only on processors that are not
 * Intel's; there it generates the mask with MKL, and drops other elements.
 *
 * BR_DROPOUT_FAST: 64 bits from the generator seed a counter-based generator, which is faster
 * because several threads can run it in parallel. The dropped elements differ from PyTorch's. */
typedef enum br_dropout_rng { BR_DROPOUT_PYTORCH, BR_DROPOUT_FAST } br_dropout_rng;
BR_API void br_set_dropout_rng(br_dropout_rng rng);
BR_API br_dropout_rng br_get_dropout_rng(void);

/* The complete state of the generator, to resume a run with the same numbers. */
#define BR_RNG_STATE_WORDS 632
typedef struct br_rng_state {
    uint32_t words[BR_RNG_STATE_WORDS];
} br_rng_state;
BR_API void br_get_rng_state(br_rng_state *state);
/* Restores a state. Returns false and records an error if it is not valid. */
BR_API bool br_set_rng_state(const br_rng_state *state);

#ifdef __cplusplus
}
#endif

#include <brasa/tensor/autocast.h>
#include <brasa/tensor/device.h>

#endif
