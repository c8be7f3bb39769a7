/* tensor/tensor_internal.h - what the layers above may know of tensors: their struct, the thread's
 * state, memory, failing, views, and loops over strided memory. */
#ifndef BR_TENSOR_INTERNAL_H
#define BR_TENSOR_INTERNAL_H

#include "tensor/loop.h"

#include <brasa/tensor.h>
#include <stdatomic.h>

/* ---- Storage and tensors --------------------------------------------------------------------- */

/* A block of memory that tensors are views of. */
typedef struct br_storage {
    atomic_int refs;
    atomic_uint_fast64_t version; /* counts in-place changes */
    const char *writer;           /* the operation that made the last one */
    atomic_int views;             /* tensors made by br__view_of() that are alive */
    size_t bytes, capacity;       /* asked for, and what the block has */
    char *data;
    void (*destroy)(void *context); /* borrowed memory: called at the end, may be NULL */
    void *context;
    bool borrowed;
} br_storage;

/* What the tape hangs on a tensor; the tape's own struct begins with it. */
typedef struct br_meta {
    void (*destroy)(struct br_meta *meta);
} br_meta;

struct br_tensor {
    atomic_int refs;
    br_dtype dtype;
    int ndim;
    bool contiguous, is_view;
    int64_t numel;
    int64_t sizes[BR_MAX_DIMS];
    int64_t strides[BR_MAX_DIMS]; /* in elements */
    char *data;                   /* first element, inside storage */
    br_storage *storage;
    br_meta *meta; /* NULL while the tape has nothing to do with the tensor */
    size_t slot;   /* place on its scope's stack */
};

/* A new tensor of the innermost scope over a view of t's storage; contiguity and numel are worked
 * out. `data` is its first element. The tape is not told: ops record views themselves. */
br_tensor *br__view_of(const br_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                       char *data);
/* A second tensor object over the same elements that belongs to no scope: the caller holds its one
 * reference. */
br_tensor *br__alias(const br_tensor *t);
/* Puts a new tensor on the innermost scope, which takes over its one reference; false and an error
 * if memory fails: the caller still holds it. */
bool br__own(br_tensor *t);
/* A tensor with the given shape and fresh contiguous storage. `op` begins error messages. */
br_tensor *br__new(const char *op, int ndim, const int64_t *sizes, br_dtype dtype);
/* Exchanges the elements and dtypes of two tensors of one shape, which stay the same objects to
 * whoever holds them. It counts as a change of `a` in place, made by `op`. */
void br__swap_data(const char *op, br_tensor *a, br_tensor *b);
/* True if the storage is seen by this tensor object alone, and the object held once. */
bool br__is_exclusive(const br_tensor *t);

/* ---- Failing --------------------------------------------------------------------------------- */

/* Records the error, "op: message" behind the module path, and returns NULL. */
void *br__fail(br_error code, const char *op, const char *format, ...) BR_PRINTF(3, 4);
/* A message's buffers for shapes: br__shape(t) gives "[2, 3]" in one of the thread's 8 rotating
 * buffers. */
const char *br__shape(const br_tensor *t);
const char *br__shape_of(int ndim, const int64_t *sizes);

/* Argument checks that fail with the op's and the argument's name; all are false while an error is
 * pending. `required`: t is not NULL. */
bool br__required(const char *op, const char *name, const br_tensor *t);
bool br__floating(const char *op, const char *name, const br_tensor *t);
bool br__has_dtype(const char *op, const char *name, const br_tensor *t, br_dtype dtype);
bool br__same_dtype(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                    const br_tensor *b);
/* Turns a dimension of -ndim .. ndim-1 into 0 .. ndim-1. A 0-d tensor takes -1 and 0. */
bool br__wrap_dim(const char *op, const char *name, const br_tensor *t, int64_t *dim);
/* The shape that a and b broadcast to. */
bool br__broadcast(const char *op, const br_tensor *a, const br_tensor *b, int *ndim,
                   int64_t *sizes);
/* Checks sizes and gives their product; false with a message on overflow or a bad size. */
bool br__check_sizes(const char *op, int ndim, const int64_t *sizes, br_dtype dtype,
                     int64_t *numel);
/* Row-major strides. */
void br__default_strides(int ndim, const int64_t *sizes, int64_t *strides);

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Small blocks through the user's allocator; NULL and a pending error on failure. br__malloc(0)
 * gives a block. */
void *br__malloc(size_t size);
void *br__calloc(size_t count, size_t size);
void *br__realloc(void *block, size_t old_size, size_t size);
char *br__strdup(const char *text);
/* A formatted string from br__malloc. */
char *br__format(const char *format, ...) BR_PRINTF(1, 2);
/* Storage blocks, cached and counted; aligned to 64 bytes, large ones to 2 MiB. *capacity, what the
 * block really has, goes back to br__block_free(). */
void *br__block_alloc(const char *op, size_t bytes, size_t *capacity);
void br__block_free(void *block, size_t bytes, size_t capacity);

/* ---- Thread state and scopes ----------------------------------------------------------------- */

struct br_scope {
    br_scope *outer;
    size_t start;      /* first tensor of this scope on the thread's stack */
    const void *owner; /* the module whose forward it is, or NULL */
    bool grad_before;  /* grad mode to restore */
};

typedef struct br_thread {
    br_scope *scope; /* innermost, NULL outside every scope */
    br_scope *spare; /* closed scopes, for reuse */
    br_tensor **stack;
    size_t top, capacity;
    bool no_grad;
    br_error error;
    char message[1024];
    void *recorder; /* of taps */
} br_thread;

extern _Thread_local br_thread br__thread;

/* Opens a scope that belongs to a module's forward. */
br_scope *br__scope_begin_for(const void *owner);
/* Gives the path of a scope's owner; nn sets it. */
extern char *(*br__owner_path)(const void *owner, char *buffer, size_t size);
/* Called by br_thread_cleanup() for what higher layers keep in a thread. */
extern void (*br__thread_cleanup_hook)(void);

/* ---- Parallel loops -------------------------------------------------------------------------- */

/* Calls task(context, i) for i of 0 .. n-1, by the threads of br_set_num_threads(). What task i
 * does must not depend on who runs it. Runs serially inside another parallel loop. */
void br__parallel(int64_t n, void (*task)(void *context, int64_t i), void *context);
/* Elements that one task should take of a loop whose elements are cheap. */
enum { BR_GRAIN = 32768 };

/* ---- Loops over strided memory --------------------------------------------------------------- */

/* Runs `loop` over operands that broadcast to operand 0's shape: dimensions that lie behind each
 * other in all operands are merged, the innermost goes to `loop`, large ones are shared among
 * threads. */
void br__for_each(int n_operands, const br_tensor *const *operands, br_loop loop,
                  const void *params);

/* A copy of t's header, to be narrowed by hand and given to br__copy() or br__for_each(). It holds
 * no reference and costs no allocation: use it while t lives, and hand it to nobody. */
static inline br_tensor br__window(const br_tensor *t)
{
    return *t;
}
/* Narrows a window to `length` elements of a dimension, `step` apart, from `start` on. */
void br__window_slice(br_tensor *window, int dim, int64_t start, int64_t length, int64_t step);

/* Copies src, which broadcasts to dst, into dst, converting the dtype. */
void br__copy(const br_tensor *dst, const br_tensor *src);

#endif
