/* brasa/tensor.h - tensors, scopes, errors, memory, random numbers, threads.
 *
 * Ownership in one rule: a tensor belongs to the innermost scope that was open in its thread when
 * it was made, and goes when that scope closes. br_scope_return() hands one to the scope outside,
 * br_retain() / br_release() hold one beyond scopes. A function that takes a tensor borrows it.
 *
 * Errors in one rule: a call that fails returns NULL (or false, or -1) and records the first error
 * of its thread. While an error is pending every operation returns at once, so a program checks
 * br_failed() once where it matters. Hence a NULL for an optional argument means "absent" and can
 * not be confused with a failure; a NULL for a required one is itself an error. */
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

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ------------------------------------------------------------------------------- */

#define BR_VERSION_MAJOR 0
#define BR_VERSION_MINOR 1
#define BR_VERSION_PATCH 0

/* "0.1.0": the version of the library that runs, to compare with the header's macros. */
BR_API const char *br_version(void);

/* ---- Types --------------------------------------------------------------------------------- */

typedef struct br_tensor br_tensor;
typedef struct br_scope br_scope;

/* Element types. Tensor-tensor operations want equal dtypes; br_to() converts. */
typedef enum br_dtype {
    BR_F32,  /* float */
    BR_F64,  /* double */
    BR_I64,  /* int64_t */
    BR_BOOL, /* one byte, 0 or 1 */
} br_dtype;

enum { BR_MAX_DIMS = 8 };

/* Spells a shape, or a list of dimensions, as the pair (int count, const int64_t *values) that
 * functions take: br_zeros(BR_SHAPE(2, 3), BR_F32) is br_zeros(2, (int64_t[]){2, 3}, BR_F32). */
#define BR_SHAPE(...)                                                        \
    (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]) \
    {                                                                        \
        __VA_ARGS__                                                          \
    }
#define BR_DIMS(...) BR_SHAPE(__VA_ARGS__)
#define BR_SCALAR    0, NULL /* the shape [] */

/* As a dimension: all of them (PyTorch's dim=None). As the end of a slice: to the last element. */
#define BR_ALL INT64_MAX

/* Bytes of one element. */
BR_API size_t br_dtype_size(br_dtype dtype);
/* "f32", "f64", "i64", "bool". */
BR_API const char *br_dtype_name(br_dtype dtype);

/* ---- Errors -------------------------------------------------------------------------------- */

typedef enum br_error {
    BR_OK,
    BR_ERROR_ARGUMENT, /* a value outside what the function takes, or a required NULL */
    BR_ERROR_SHAPE,
    BR_ERROR_DTYPE,
    BR_ERROR_INDEX,  /* an index outside the dimension it indexes */
    BR_ERROR_MEMORY, /* the system, the user's allocator or the memory limit said no */
    BR_ERROR_STATE,  /* the call does not fit what happened before: graph freed, saved value changed
                      */
    BR_ERROR_IO,     /* a file could not be opened, read, written or renamed */
    BR_ERROR_FORMAT, /* a file's content breaks its format's rules */
    BR_ERROR_ANOMALY, /* a NaN or an infinity came up: br_set_detect_anomaly() */
} br_error;

/* True while an error is pending in this thread. */
BR_API bool br_failed(void);
BR_API br_error br_error_code(void);
/* The pending error as "module.path: op: what was wrong", or "" if there is none. Valid until the
 * next br_clear_error() or br_raise() of this thread. */
BR_API const char *br_error_message(void);
BR_API void br_clear_error(void);
/* Prints the pending error with a newline, clears it, and returns EXIT_FAILURE; without a pending
 * error prints nothing and returns EXIT_SUCCESS. Made for "return br_report(stderr);". */
BR_API int br_report(FILE *stream);
/* Records an error for code outside the library: users' own ops, modules, loaders. The first error
 * stays, later ones are dropped. The module path is put in front. */
BR_API void br_raise(br_error code, const char *format, ...) BR_PRINTF(2, 3);
/* br_raise() for callers that cannot pass variable arguments. */
BR_API void br_raise_text(br_error code, const char *text);

/* ---- Scopes and ownership ------------------------------------------------------------------ */

/* Opens a scope: tensors made from now on in this thread belong to it. NULL and an error if memory
 * fails; closing that NULL does nothing. */
BR_API br_scope *br_scope_begin(void);
/* Closes the scope and any left open inside it, and frees their tensors. NULL is ignored. */
BR_API void br_scope_end(br_scope *scope);
/* Hands t to the scope outside `scope` (NULL: the innermost) and returns it. A tensor that does not
 * belong to `scope` stays where it is. */
BR_API br_tensor *br_scope_return(br_scope *scope, br_tensor *t);
/* Returns `by` and gives up t before its scope closes, as a variable that is assigned anew gives up
 * what it held: x = br_scope_replace(x, layer(x)). A tensor that does not belong to the innermost
 * scope stays, and so does what something else holds, such as a graph; where nothing does, t is
 * gone. NULL as t, or t itself as `by`: nothing is given up. */
BR_API br_tensor *br_scope_replace(br_tensor *t, br_tensor *by);
/* True if t may be changed in place without anybody's noticing: nothing is recorded
 * (br_no_grad_begin()), t belongs to the innermost scope, and nothing else holds it or shares its
 * elements, such as a hook that keeps what it saw. What makes a tensor out of one that it does not
 * want any more then needs no memory: h = br_may_overwrite(h) ? br_relu_(h) : br_relu(h). */
BR_API bool br_may_overwrite(const br_tensor *t);
/* Holds t beyond its scope; each br_retain() wants one br_release(). Both accept NULL. */
BR_API br_tensor *br_retain(br_tensor *t);
BR_API void br_release(br_tensor *t);
/* Frees what this thread made outside every scope, and the thread's own state. */
BR_API void br_thread_cleanup(void);

/* Tensors alive in the process, views and values saved for backward included. */
BR_API int64_t br_live_tensors(void);
/* Bytes of tensor storage alive in the process, and the most there ever were since the start or
 * the last br_reset_peak_bytes(). */
BR_API int64_t br_live_bytes(void);
BR_API int64_t br_peak_bytes(void);
BR_API void br_reset_peak_bytes(void);

/* ---- Memory -------------------------------------------------------------------------------- */

/* Where the library gets all its memory. `allocate` returns NULL on failure; alignment is a power
 * of two up to 2 MiB. Both may be called from several threads at once. */
typedef struct br_allocator {
    void *(*allocate)(void *context, size_t size, size_t alignment);
    void (*deallocate)(void *context, void *block);
    void *context;
} br_allocator;

/* Replaces the system's allocator; NULL brings it back. Refused (false, an error) while tensors
 * are alive. */
BR_API bool br_set_allocator(const br_allocator *allocator);
/* The most bytes of tensor storage that may be alive, 0 for no limit. A request beyond it fails
 * with BR_ERROR_MEMORY and leaves everything as it was. */
BR_API void br_set_memory_limit(size_t bytes);
/* The most bytes of freed blocks that are kept for reuse (default: no limit); 0 turns the cache
 * off. Of a program's own allocator's, parts of a block of which others are in use are kept all the
 * same. */
BR_API void br_set_cache_limit(size_t bytes);
/* Gives what is kept for reuse back to the system; to a program's own allocator whole blocks, but
 * not parts of which others are in use. */
BR_API void br_empty_cache(void);
/* Bytes of freed blocks kept for reuse. */
BR_API int64_t br_cached_bytes(void);

/* ---- Threads ------------------------------------------------------------------------------- */

/* Threads that an operation may use, 1 .. 1024; the default is the number of processors that the
 * process may run on. Results do not depend on it. */
BR_API void br_set_num_threads(int n);
BR_API int br_get_num_threads(void);
/* Whether operations of the calling thread, and tasks that other threads run for it, take denormal
 * numbers (in f32 those below 1.2e-38) for 0, as operands and as results. They do not unless told
 * to, but for matrix products and scaled_dot_product_attention, which always do: processors are a
 * hundred times slower with denormal numbers, and no gradient is told apart by them. It is a mode
 * of the processor, and so that of the thread's own code as well. False, and nothing done, where
 * the processor has no such mode. */
BR_API bool br_set_flush_denormal(bool flush);
/* The instruction set of the kernels: "avx512", "avx2" or "baseline"; the best that the processor
 * runs, or the one that the environment variable BRASA_CPU_CAPABILITY names when the first
 * operation runs. Results differ by rounding from one to another. */
BR_API const char *br_get_cpu_capability(void);

/* ---- Making tensors ------------------------------------------------------------------------ */

/* Values undefined. Sizes are at least 0; at most BR_MAX_DIMS of them. */
BR_API br_tensor *br_empty(int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_zeros(int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_ones(int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_full(int ndim, const int64_t *sizes, double value, br_dtype dtype);
BR_API br_tensor *br_empty_like(const br_tensor *t);
BR_API br_tensor *br_zeros_like(const br_tensor *t);
BR_API br_tensor *br_ones_like(const br_tensor *t);
/* A 0-d tensor. */
BR_API br_tensor *br_scalar(double value, br_dtype dtype);
/* start, start + step, ... below end (above it for a negative step): ceil((end - start) / step)
 * elements. */
BR_API br_tensor *br_arange(double start, double end, double step, br_dtype dtype);
/* `steps` values from start to end, both included. */
BR_API br_tensor *br_linspace(double start, double end, int64_t steps, br_dtype dtype);
/* The n x m matrix with ones on its diagonal. */
BR_API br_tensor *br_eye(int64_t n, int64_t m, br_dtype dtype);
/* Copies of C arrays, in row-major order. */
BR_API br_tensor *br_from_f32(int ndim, const int64_t *sizes, const float *values);
BR_API br_tensor *br_from_f64(int ndim, const int64_t *sizes, const double *values);
BR_API br_tensor *br_from_i64(int ndim, const int64_t *sizes, const int64_t *values);
BR_API br_tensor *br_from_bool(int ndim, const int64_t *sizes, const bool *values);
/* The same for any dtype; `values` need not be aligned. */
BR_API br_tensor *br_from_data(int ndim, const int64_t *sizes, br_dtype dtype, const void *values);
/* A tensor over memory of the caller's, which must be aligned to its dtype and stay valid until
 * `destroy(context)` is called (NULL: nothing to call). On failure `destroy` is not called. */
BR_API br_tensor *br_borrow(int ndim, const int64_t *sizes, br_dtype dtype, void *data,
                            void (*destroy)(void *context), void *context);

/* ---- Looking at tensors -------------------------------------------------------------------- */

/* All of these accept NULL: the numbers are then -1 (so that a loop over them ends and a division
 * does not trap), pointers NULL, truths false. */
BR_API int br_ndim(const br_tensor *t);
/* Size of a dimension; negative ones count from the end. -1 and an error outside the range. */
BR_API int64_t br_size(const br_tensor *t, int64_t dim);
/* Distance of neighbours along a dimension, in elements. */
BR_API int64_t br_stride(const br_tensor *t, int64_t dim);
/* The ndim sizes, strides; valid as long as t is. */
BR_API const int64_t *br_sizes(const br_tensor *t);
BR_API const int64_t *br_strides(const br_tensor *t);
BR_API int64_t br_numel(const br_tensor *t);
BR_API br_dtype br_dtype_of(const br_tensor *t);
BR_API bool br_is_floating(const br_tensor *t);
/* True if elements lie in row-major order without gaps. */
BR_API bool br_is_contiguous(const br_tensor *t);
/* True if both have the same number of dimensions and the same sizes. */
BR_API bool br_same_shape(const br_tensor *a, const br_tensor *b);
/* True if both are views of the same storage. */
BR_API bool br_shares_storage(const br_tensor *a, const br_tensor *b);
/* Counts the in-place changes of the storage that t is a view of. */
BR_API uint64_t br_tensor_version(const br_tensor *t);

/* First element; the others follow by br_stride(). Writing through it is not seen by the version
 * counter: call br_bump_version() if backward may need the old values. NULL while an error is
 * pending. */
BR_API void *br_data(const br_tensor *t);
/* The same with the dtype checked and contiguity required: the elements are p[0] to p[numel-1]. */
BR_API float *br_data_f32(const br_tensor *t);
BR_API double *br_data_f64(const br_tensor *t);
BR_API int64_t *br_data_i64(const br_tensor *t);
BR_API bool *br_data_bool(const br_tensor *t);
BR_API void br_bump_version(br_tensor *t);

/* The value of a tensor with one element. NAN (0 for the integer) while an error is pending. */
BR_API double br_item(const br_tensor *t);
BR_API int64_t br_item_i64(const br_tensor *t);
/* The element at the given index. */
BR_API double br_at(const br_tensor *t, int ndim, const int64_t *index);
/* Copies the elements in row-major order to `out`, which has room for exactly `bytes` bytes =
 * numel x dtype size; another number is an error. */
BR_API bool br_copy_out(const br_tensor *t, void *out, size_t bytes);

/* t in the form PyTorch prints, without "tensor(" counts as part of it: "tensor([[1., 2.]])".
 * Large tensors are summarised. The caller frees it with br_free(). NULL on error. */
BR_API char *br_to_string(const br_tensor *t);
/* Prints br_to_string() and a newline. */
BR_API void br_print(FILE *stream, const br_tensor *t);
/* "[2, 3, 4]" in `buffer`, cut to `size`; returns buffer. */
BR_API char *br_shape_string(const br_tensor *t, char *buffer, size_t size);
/* Frees memory that the library handed to the caller. */
BR_API void br_free(void *block);

/* ---- Random numbers ------------------------------------------------------------------------ */

/* The generator is the Mersenne Twister of PyTorch's CPU generator, one per thread: after
 * br_manual_seed(s) the calls below give the numbers PyTorch gives after torch.manual_seed(s).
 * A thread that never seeds starts from PyTorch's default seed, 67280421310721. Of the seed the
 * lower 32 bits count, as in PyTorch. While an error is pending nothing is drawn. */
BR_API void br_manual_seed(uint64_t seed);
BR_API uint64_t br_initial_seed(void);

/* Uniform on [0, 1), standard normal, uniform integers of [low, high) (always i64), and a random
 * order of 0 .. n-1 (i64). f32 or f64 for the first two. */
BR_API br_tensor *br_rand(int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_randn(int ndim, const int64_t *sizes, br_dtype dtype);
BR_API br_tensor *br_randint(int64_t low, int64_t high, int ndim, const int64_t *sizes);
BR_API br_tensor *br_randperm(int64_t n);
/* Fill t (f32 or f64) in place, as Tensor.uniform_ and Tensor.normal_ do; return t. low is at most
 * high, std at least 0. A view that is not contiguous is filled in the order of its memory. */
BR_API br_tensor *br_uniform_(br_tensor *t, double low, double high);
BR_API br_tensor *br_normal_(br_tensor *t, double mean, double std);
/* One draw: 32 and 64 random bits, and a double on [0, 1) of 53 bits. 0 if an error is pending. */
BR_API uint32_t br_random_u32(void);
BR_API uint64_t br_random_u64(void);
BR_API double br_random_double(void);

/* The generator's whole state, to continue a run with the same numbers. */
#define BR_RNG_STATE_WORDS 632
typedef struct br_rng_state {
    uint32_t words[BR_RNG_STATE_WORDS];
} br_rng_state;
BR_API void br_get_rng_state(br_rng_state *state);
/* False and an error if the words cannot be a generator's state. */
BR_API bool br_set_rng_state(const br_rng_state *state);

#ifdef __cplusplus
}
#endif
#endif
