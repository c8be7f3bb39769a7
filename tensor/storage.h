/* tensor/storage.h - a tensor's struct and its storage; views, references, and shapes. */
#ifndef BR_TENSOR_STORAGE_H
#define BR_TENSOR_STORAGE_H

#include "tensor/dtype.h"

#include <brasa/tensor.h>
#include <stdatomic.h>
#include <string.h>

/* Where a storage keeps its elements. */
typedef enum br_memory {
    BR_INLINE, /* directly after the struct: a small tensor needs one block, cached by its thread */
    BR_BLOCK,  /* in a block from br__block_alloc() */
    BR_BORROWED, /* the program's memory; `destroy` (or NULL) frees it */
    BR_DEVICE,   /* memory of the backend */
} br_memory;

/* The extent that a large block was cut from; NULL for small blocks. */
typedef struct br_extent br_extent;

/* The memory of a tensor and its views. */
typedef struct br_storage {
    atomic_int refs;
    br_memory memory;
    atomic_uint_fast64_t version; /* number of in-place changes */
    const char *writer;           /* the operation that made the last in-place change */
    size_t bytes;                 /* requested size */
    char *data;                   /* an address that means something only to the backend */
    union {
        br_extent *extent;
        void (*destroy)(void *context);
    };
    void *context;
    const struct br_backend *backend;
} br_storage;
_Static_assert(sizeof(br_storage) == 64, "the elements of a small tensor begin at a cache line");

/* The first member of autograd's data for a tensor. */
typedef struct br_meta {
    void (*destroy)(struct br_meta *meta);
} br_meta;

/* Whether an object is live (tensor/handles.h). Other memory is unlikely to have one of these
 * values. */
enum br_mark {
    BR_MARK_LIVE = 0xB5A1,
    BR_MARK_REGISTERED = 0xB5A2, /* created in the debug mode, whose registry knows more */
    BR_MARK_QUANTIZED = 0xB5A3,  /* live, but only few functions take it (tensor/quantized.h) */
    BR_MARK_FREED = 0xDE4D,
    BR_MARK_SCOPE_ENDED = 0xDE4E, /* a tensor that its scope freed */
};

/* Three cache lines: what every operation uses, the sizes, and the strides. */
struct br_tensor {
    atomic_int refs;
    br_dtype dtype;
    int ndim;
    bool contiguous : 1, is_view : 1;
    bool untracked : 1;  /* a view created without grad mode, or a view of such a view: it has no
                            base */
    bool hides_grad : 1; /* untracked, and the tensor that was viewed required grad */
    bool is_grad : 1;    /* is, or was, the gradient of a tensor */
    uint8_t block_type;  /* of a tensor of BR_QUANTIZED: a br_block_type */
    uint16_t mark;       /* a br_mark */
    unsigned changes; /* number of recorded in-place changes; for a view, of those of its base that
                         it has seen */
    uint32_t slot;    /* index on the thread's stack of tensors, or BR_NO_SLOT */
    int64_t numel;
    char *data; /* first element, inside storage */
    br_storage *storage;
    br_tensor *base; /* the tensor that autograd treats as a view's base, owned; NULL for others. In
                        a freed tensor: the tensor that was freed next (tensor/objects.c) */
    br_meta *meta;   /* NULL if autograd does not know the tensor */
    int64_t sizes[BR_MAX_DIMS];
    int64_t strides[BR_MAX_DIMS]; /* in elements */
};
#define BR_NO_SLOT UINT32_MAX
_Static_assert(sizeof(br_tensor) <= 192, "a tensor must fit into three cache lines");

/* Returns a view of t's storage that begins at element `offset` of t, counted in memory, owned by
 * the innermost scope. Computes numel and contiguity. In grad mode the view holds t, or the base of
 * t, as its base. The view is not recorded for autograd: operations do that themselves. */
br_tensor *br__view_of(br_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                       int64_t offset);
/* The same for a window of t (tensor/window.h). */
br_tensor *br__view_at(br_tensor *t, const br_tensor *window);
/* Returns the position of t's first element relative to that of `base`, in elements. */
int64_t br__offset_in(const br_tensor *base, const br_tensor *t);
/* Returns whether all elements of a view are between the first and the last one of its base. They
 * may not be after one of both was resized. */
bool br__is_inside_base(const br_tensor *view);
/* Returns the position of t's first element in its storage, in elements, or -1 if it is between two
 * elements. */
int64_t br__storage_offset(const br_tensor *t);
/* Returns the number of elements of t's dtype that its storage has room for. */
int64_t br__storage_numel(const br_tensor *t);
/* Returns a tensor that shares t's elements, but that autograd treats as an ordinary tensor, not as
 * a view. */
br_tensor *br__detached(const br_tensor *t);
/* Marks a view so that autograd treats it as an ordinary tensor. */
void br__drop_base(br_tensor *t);
/* Returns another tensor object that shares t's elements and belongs to no scope: the caller owns
 * its only reference. */
br_tensor *br__alias(const br_tensor *t);
/* Puts a new tensor on the innermost scope, which takes over its only reference. Returns false and
 * records an error if memory runs out; the caller then still owns the reference. */
bool br__scope_add(br_tensor *t);
/* Releases the reference of a scope that ends. */
void br__release_of_scope(br_tensor *t);
/* Returns an owned reference. If t belongs to the innermost scope, takes over the scope's
 * reference, which costs nothing; otherwise retains t. */
br_tensor *br__take(br_tensor *t);
/* Returns an owned reference. If t belongs to any scope of this thread, or to the tensors outside
 * every scope, takes over that reference; otherwise retains t. */
br_tensor *br__take_over(br_tensor *t);
/* Return a tensor with the given shape and new contiguous storage: on the thread's default device,
 * on that of t, or in the memory of a given backend. `op` is the prefix of error messages. */
br_tensor *br__new(const char *op, int ndim, const int64_t *sizes, br_dtype dtype);
br_tensor *br__new_on(const char *op, const br_tensor *t, int ndim, const int64_t *sizes,
                      br_dtype dtype);
br_tensor *br__new_at(const char *op, const struct br_backend *backend, int ndim,
                      const int64_t *sizes, br_dtype dtype);
/* Same as br__new_at() for sizes that have been checked, and whose product is numel. */
br_tensor *br__new_dense(const char *op, const struct br_backend *backend, int ndim,
                         const int64_t *sizes, br_dtype dtype, int64_t numel);
/* Same as br__new_on() with the shape of t, which was checked when t was created. */
static inline br_tensor *br__new_like(const char *op, const br_tensor *t, br_dtype dtype)
{
    return br__dtype_size(dtype) <= br__dtype_size(t->dtype)
               ? br__new_dense(op, t->storage->backend, t->ndim, t->sizes, dtype, t->numel)
               : br__new_on(op, t, t->ndim, t->sizes, dtype);
}
/* Same as br__new_on(), but the dimensions except the last are in the memory order of `like`, if it
 * has the same ndim. Attention heads that were split by a view can then be joined again without a
 * copy. */
br_tensor *br__new_in_order(const char *op, const br_tensor *like, int ndim, const int64_t *sizes,
                            br_dtype dtype);
/* Stores the dimensions in memory order, outermost first, as PyTorch's iterators order them. */
void br__memory_order(const br_tensor *t, int *order);
/* Returns a copy of t's header with its dimensions in that order, for reading. */
br_tensor br__reordered(const br_tensor *t, const int *order);
/* Same as br__new_on(), with dimensions in that memory order. */
br_tensor *br__new_reordered(const char *op, const br_tensor *t, int ndim, const int64_t *sizes,
                             br_dtype dtype, const int *order);
/* Swaps the elements and dtypes of two tensors of the same shape; the tensor objects stay the same.
 * Counts as an in-place change of `a` by `op`. */
void br__swap_data(const char *op, br_tensor *a, br_tensor *b);
/* Counts an in-place change of t by the operation `writer`, which backward names if it needs the
 * old values. */
void br__changed_by(br_tensor *t, const char *writer);
/* Returns true if only this tensor object uses the storage, and the object has one reference. */
bool br__is_exclusive(const br_tensor *t);
/* Same as br_may_overwrite() with a given scope, which may be NULL, instead of the innermost. */
bool br__may_overwrite(const br_scope *scope, const br_tensor *t);

/* Same as br_same_shape(), but also for headers, which are not handles. */
static inline bool br__same_shape(const br_tensor *a, const br_tensor *b)
{
    if (!a || !b || a->ndim != b->ndim)
        return false;
    for (int i = 0; i < a->ndim; i++) /* a call of memcmp() takes longer than most shapes */
        if (a->sizes[i] != b->sizes[i])
            return false;
    return true;
}
/* Returns the backend that has the memory of a tensor or a window. */
static inline const struct br_backend *br__backend_of(const br_tensor *t)
{
    return t->storage->backend;
}
/* Returns the address of element `from` of a contiguous tensor, or NULL if t is NULL. */
static inline void *br__element(const br_tensor *t, int64_t from)
{
    if (!t)
        return NULL;
    return t->data + from * (int64_t)br__dtype_size(t->dtype);
}

#endif
