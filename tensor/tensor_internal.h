/* tensor/tensor_internal.h - internals of tensors for the layers above: the tensor struct, thread
 * state, memory, errors, views, and loops over strided memory. */
#ifndef BR_TENSOR_INTERNAL_H
#define BR_TENSOR_INTERNAL_H

#include "tensor/debug.h"
#include "tensor/loop.h"

#include <brasa/tensor.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

/* ---- Storage and tensors --------------------------------------------------------------------- */

/* Where a storage keeps its elements. */
typedef enum br_memory {
    BR_INLINE, /* directly after the struct: a small tensor needs one block, cached by its thread */
    BR_BLOCK,  /* in a block from br__block_alloc() */
    BR_BORROWED, /* the program's memory; `destroy` (or NULL) frees it */
} br_memory;

/* The extent that a large block was cut from; NULL for small blocks. */
typedef struct br_extent br_extent;

/* The memory of a tensor and its views. */
typedef struct br_storage {
    atomic_int refs;
    atomic_uint_fast64_t version; /* number of in-place changes */
    const char *writer;           /* the operation that made the last in-place change */
    size_t bytes;                 /* requested size */
    char *data;
    union {
        br_extent *extent;
        void (*destroy)(void *context);
    };
    void *context;
    br_memory memory;
} br_storage;

/* The first member of autograd's data for a tensor. */
typedef struct br_meta {
    void (*destroy)(struct br_meta *meta);
} br_meta;

struct br_tensor {
    atomic_int refs;
    br_dtype dtype;
    int ndim;
    bool contiguous, is_view;
    bool untracked; /* a view created without grad mode, or a view of such a view: it has no base */
    bool hides_grad;  /* untracked, and the tensor that was viewed required grad */
    bool is_grad;     /* is, or was, the gradient of a tensor */
    unsigned changes; /* number of recorded in-place changes; for a view, of those of its base that
                         it has seen */
    int64_t numel;
    int64_t sizes[BR_MAX_DIMS];
    int64_t strides[BR_MAX_DIMS]; /* in elements */
    char *data;                   /* first element, inside storage */
    br_storage *storage;
    br_tensor *base; /* the tensor that autograd treats as a view's base, owned; NULL for others */
    br_meta *meta;   /* NULL if autograd does not know the tensor */
    size_t slot;     /* index on the thread's stack of tensors */
};

/* Returns a view of t's storage that begins at `data`, owned by the innermost scope. Computes numel
 * and contiguity. In grad mode the view holds t, or the base of t, as its base. The view is not
 * recorded for autograd: operations do that themselves. */
br_tensor *br__view_of(br_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                       char *data);
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
/* Returns a tensor with the given shape and new contiguous storage. `op` is the prefix of error
 * messages. */
br_tensor *br__new(const char *op, int ndim, const int64_t *sizes, br_dtype dtype);
/* Same as br__new() with the shape of t, which was checked when t was created. */
br_tensor *br__new_like(const char *op, const br_tensor *t, br_dtype dtype);
/* Same as br__new(), but the dimensions except the last are in the memory order of `like`, if it
 * has the same ndim. Attention heads that were split by a view can then be joined again without a
 * copy. */
br_tensor *br__new_in_order(const char *op, const br_tensor *like, int ndim, const int64_t *sizes,
                            br_dtype dtype);
/* Stores the dimensions in memory order, outermost first, as PyTorch's iterators order them. */
void br__memory_order(const br_tensor *t, int *order);
/* Returns a copy of t's header with its dimensions in that order, for reading. */
br_tensor br__reordered(const br_tensor *t, const int *order);
/* Same as br__new(), with dimensions in that memory order. */
br_tensor *br__new_reordered(const char *op, int ndim, const int64_t *sizes, br_dtype dtype,
                             const int *order);
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

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Records the error "op: message", with the module path prepended, and returns NULL. */
__attribute__((cold)) void *br__fail(br_error code, const char *op, const char *format, ...)
    BR_PRINTF(3, 4);
/* Same as br__fail() with the message "op: path: message"; the path is escaped by
 * br__printable(). */
__attribute__((cold)) void *br__fail_file(br_error code, const char *op, const char *path,
                                          const char *format, ...) BR_PRINTF(4, 5);
/* Records a BR_ERROR_FORMAT "op: path: message" about the contents of a file. Returns false. */
__attribute__((cold)) bool br__refuse_file(const char *op, const char *path, const char *format,
                                           va_list args) BR_PRINTF(3, 0);
/* Makes an error pending that was already raised and announced in another thread. */
void br__set_error(br_error code, const char *message);
/* Report the pending error, or a warning, to the error callback, and on stderr if BRASA_ERRORS says
 * so (tensor/report.c). */
void br__notify_error(void);
void br__notify_warning(const char *message);
/* Mark the pending error as unhandled, as handled, and as left unhandled by a thread that ends. The
 * report at exit prints the earliest error that was never handled. */
void br__mark_error_unhandled(void);
void br__mark_error_handled(void);
void br__keep_error_at_thread_exit(void);
/* Returns a shape such as "[2, 3]" for a message, in one of the thread's 8 rotating buffers. */
const char *br__shape(const br_tensor *t);
const char *br__shape_of(int ndim, const int64_t *sizes);

/* Returns `text` made safe for messages and terminals: control and format characters and invalid
 * UTF-8 are escaped, and long text is truncated. The result is in one of the thread's 4 rotating
 * buffers. */
const char *br__printable(const char *text);

/* Returns the given options, or the defaults if `nonfinite_op` is NULL. Records an error if
 * `nonfinite_op` was not initialized by BR_OPTIONS() or the defaults function. The defaults are
 * returned in that case, too, and the caller continues until it checks br_failed(). */
#define BR_OPTIONS_OF(op, name, nonfinite_op)                                                 \
    ((const name##_options *)br__options_of(op, #name, nonfinite_op,                          \
                                            &(const name##_options){ name##_default_fields }, \
                                            sizeof(name##_options)))
const void *br__options_of(const char *op, const char *name, const void *nonfinite_op,
                           const void *defaults, size_t size);
/* Defines the defaults function: BR_DEFINE_DEFAULTS(br_adam) defines br_adam_defaults(). */
#define BR_DEFINE_DEFAULTS(name)                          \
    name##_options name##_defaults(void)                  \
    {                                                     \
        return (name##_options){ name##_default_fields }; \
    }

/* Argument checks. All return false while an error is pending; if a check fails, they record an
 * error with the names of the operation and of the argument, and return false. br__required(): the
 * argument, a tensor or any other pointer, must not be NULL and, in the debug mode, must be live if
 * it is a handle. */
#define br__required(op, name, argument) \
    br__required_handle(op, name, argument, BR_HANDLE_OF(argument))
bool br__required_handle(const char *op, const char *name, const void *argument, br_handle kind);
bool br__floating(const char *op, const char *name, const br_tensor *t);
bool br__has_dtype(const char *op, const char *name, const br_tensor *t, br_dtype dtype);
static inline bool br__same_dtype(const char *op, const char *a_name, const br_tensor *a,
                                  const char *b_name, const br_tensor *b);
/* Converts a dimension in -ndim .. ndim-1 to 0 .. ndim-1. A 0-d tensor allows -1 and 0. */
bool br__wrap_dim(const char *op, const char *name, const br_tensor *t, int64_t *dim);
/* Computes the shape that a and b broadcast to. Error messages call them a and b, or use the given
 * names. */
bool br__broadcast(const char *op, const br_tensor *a, const br_tensor *b, int *ndim,
                   int64_t *sizes);
bool br__broadcast_named(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                         const br_tensor *b, int *ndim, int64_t *sizes);
/* Checks sizes and stores their product. Returns false and records an error on overflow or an
 * invalid size. */
bool br__check_sizes(const char *op, int ndim, const int64_t *sizes, br_dtype dtype,
                     int64_t *numel);
/* Computes row-major strides. */
void br__default_strides(int ndim, const int64_t *sizes, int64_t *strides);

/* ---- Memory ---------------------------------------------------------------------------------- */

enum { BR_HUGE_PAGE = 2 << 20 }; /* bytes; huge pages are requested for blocks aligned to this */

/* Allocate and free with the user's allocator, or the system's. */
void *br__allocate(size_t size, size_t alignment);
void br__deallocate(void *block);
/* Allocate small blocks with the user's allocator; return NULL and record an error on failure.
 * br__malloc(0) returns a block. */
void *br__malloc(size_t size);
void *br__calloc(size_t count, size_t size);
void *br__realloc(void *block, size_t old_size, size_t size);
/* Returns the array, grown if necessary so that it has room for more than `count` items; it may
 * have moved. An empty array gets room for `first` items. Returns NULL and records an error on
 * failure; the old array is then unchanged. */
void *br__grow_from(int64_t first, void *items, int64_t *capacity, int64_t count, size_t item_size);
static inline void *br__grow(void *items, int64_t *capacity, int64_t count, size_t item_size)
{
    return br__grow_from(4, items, capacity, count, item_size);
}
char *br__strdup(const char *text);
/* Returns a formatted string, allocated by br__malloc(). */
char *br__format(const char *format, ...) BR_PRINTF(1, 2);
/* Same as br__malloc() with an alignment; 0 means one that suits any object. Free it with
 * br_free(). */
void *br__malloc_aligned(size_t size, size_t alignment);
/* A thread's cache of objects and its counters (tensor/objects.c). Every operation allocates and
 * frees objects: they have at most BR_MAX_OBJECT bytes, rounded up to whole cache lines, and are
 * cached here for reuse. */
enum { BR_MAX_OBJECT = 1024, BR_LINE = 64, BR_OBJECT_CLASSES = BR_MAX_OBJECT / BR_LINE };
typedef struct br_objects {
    void *free_list[BR_OBJECT_CLASSES]; /* free lists: each object begins with a pointer to the next
                                         */
    int free_slots[BR_OBJECT_CLASSES];  /* number of objects that still fit */
    /* Live tensors, bytes of inline storage, and the highest number of bytes for which a peak was
     * recorded. Only the owning thread writes them. */
    atomic_int_fast64_t tensors, bytes, high_water;
    bool listed;                     /* is in the list of all threads */
    struct br_objects *next, **link; /* links of that list, protected by its lock */
} br_objects;
extern _Thread_local br_objects br__objects;

static inline size_t br__object_class(size_t size)
{
    return (size + BR_LINE - 1) / BR_LINE - 1;
}

/* The slow paths: no cached object, and no room to cache one. */
void *br__object_alloc_slow(size_t size);
void br__object_free_slow(void *object, size_t size);

/* Returns a block of `size` bytes; pass the same size when it is freed. Returns NULL and records an
 * error on failure. */
static inline void *br__object_alloc(size_t size)
{
    size_t class = br__object_class(size);
    void *object = class < BR_OBJECT_CLASSES ? br__objects.free_list[class] : NULL;
    if (!object)
        return br__object_alloc_slow(size);
    br__objects.free_list[class] = *(void **)object;
    br__objects.free_slots[class]++;
    return object;
}

static inline void br__object_free(void *object, size_t size)
{
    size_t class = br__object_class(size);
    if (class >= BR_OBJECT_CLASSES || br__objects.free_slots[class] == 0) {
        br__object_free_slow(object, size);
        return;
    }
    *(void **)object = br__objects.free_list[class];
    br__objects.free_list[class] = object;
    br__objects.free_slots[class]--;
}

/* Frees this thread's cached objects. */
void br__objects_flush(void);
/* Registers this thread for cleanup when it ends. Returns false if that is not possible. */
bool br__list_thread(void);
/* Set and return whether threads cache objects. They never do with a program's own allocator or
 * with AddressSanitizer. */
void br__cache_objects(bool keep);
bool br__caches_objects(void);
/* Sets whether there is a memory limit. It is checked only when a block is allocated, so elements
 * are not stored inline while there is one. */
void br__limit_objects(bool limit);
/* Returns whether a small tensor's elements may be stored inline, in its storage object. */
bool br__inline_storage(void);

/* Adds to the thread's counters. br__count_slow() handles the rare cases: a new thread or a new
 * peak. */
void br__count_slow(int64_t tensors, int64_t bytes);
static inline void br__count(int64_t tensors, int64_t bytes)
{
    br_objects *o = &br__objects;
    int64_t now = atomic_load_explicit(&o->bytes, memory_order_relaxed) + bytes;
    if (!o->listed || now > atomic_load_explicit(&o->high_water, memory_order_relaxed)) {
        br__count_slow(tensors, bytes);
        return;
    }
    atomic_store_explicit(&o->bytes, now, memory_order_relaxed);
    tensors += atomic_load_explicit(&o->tensors, memory_order_relaxed);
    atomic_store_explicit(&o->tensors, tensors, memory_order_relaxed);
}
/* Returns the sums over all threads. */
void br__live_totals(int64_t *tensors, int64_t *bytes);
/* Makes every thread check for a new peak the next time its bytes increase. */
void br__watch_for_peak(void);
void br__record_peak(void);
/* Allocate and free storage blocks, which are cached and counted. They are aligned to 64 bytes;
 * blocks of 2 MiB and more that come from the allocator, not from the arena, are aligned to 2 MiB.
 * Pass *extent to br__block_free(). */
void *br__block_alloc(const char *op, size_t bytes, br_extent **extent);
void br__block_free(void *block, size_t bytes, br_extent *extent);
/* Returns the actual size of the block in bytes. */
size_t br__block_size(size_t bytes, const br_extent *extent);

/* ---- Thread state and scopes ----------------------------------------------------------------- */

struct br_scope {
    br_scope *outer;
    size_t start;        /* index of its first tensor on the thread's stack */
    const void *owner;   /* the module whose forward opened it, or NULL */
    bool prev_grad_mode; /* grad mode to restore */
    uint64_t event;      /* profile event of the module's forward */
};

typedef struct br_thread {
    br_scope *scope;       /* innermost scope; NULL outside every scope */
    br_scope *free_scopes; /* closed scopes for reuse */
    br_tensor **stack;
    size_t top, capacity;
    bool no_grad;
    bool in_callback; /* the error callback is running */
    br_error error;
    struct br_profile *profile;       /* the running profile, or NULL */
    struct br_thread_cold *cold_data; /* see br__thread_cold(); NULL until first needed */
    struct br_generator *generator;
    int anomaly;                   /* br_anomaly flags: what to detect */
    const char *nonfinite_op;      /* the operation that was given a non-finite scalar, or NULL */
    struct br_node *gradient_node; /* with `anomaly`: the node of the running gradient, or NULL */
    struct br_walk *walk;          /* the backward walk in progress, or NULL */
    bool recomputing;       /* a checkpoint is being recomputed for backward: taps ignore it */
    void *recorder;         /* the open recorder of taps */
    struct br_frame *frame; /* the checkpoint whose function is running, or NULL */
} br_thread;

extern _Thread_local br_thread br__thread;

/* An unhandled error, in the list of all threads' unhandled errors (tensor/report.c). */
typedef struct br_unhandled_error {
    struct br_unhandled_error *next, **link; /* link is NULL if not in the list */
    const char *message;
    uint64_t number; /* sequence number of the error */
    int process;     /* process ID: a forked child inherits the list */
} br_unhandled_error;

/* A thread's rarely used data, kept out of br_thread because thread-local space is limited
 * (tensor/rare.c). */
enum {
    BR_MESSAGE_SIZE = 1024,
    BR_SHAPE_SIZE = BR_MAX_DIMS * 22 + 3,
    BR_TEXT_SIZE = 256,
    BR_SHAPES = 8,
    BR_TEXTS = 4,
};
typedef struct br_thread_cold {
    char message[BR_MESSAGE_SIZE];           /* the pending error's message */
    br_unhandled_error unhandled;            /* the same error while it is unhandled */
    char shapes[BR_SHAPES][BR_SHAPE_SIZE];   /* rotating buffers for messages */
    char texts[BR_TEXTS][BR_TEXT_SIZE];      /* rotating buffers of br__printable() */
    unsigned shape, text;                    /* the next buffers' numbers */
    _Alignas(max_align_t) char module[4096]; /* nn's placeholder module */
} br_thread_cold;
/* Returns the thread's data, never NULL: threads for which allocation fails share one. */
br_thread_cold *br__thread_cold(void);
/* Frees the data of br__thread_cold() and the generator when the thread ends. */
void br__thread_cold_free(void);

/* Inline variants of br_failed(), br_dtype_size() and a check that every operation performs. */
static inline bool br__failed(void)
{
    return br__thread.error != BR_OK;
}
/* The library's own checks do not count as the program handling the error. */
#define br_failed() br__failed()
/* The slow path of br__same_dtype(), which records the error. */
__attribute__((cold)) bool br__compare_dtypes(const char *op, const char *a_name,
                                              const br_tensor *a, const char *b_name,
                                              const br_tensor *b);
static inline bool br__same_dtype(const char *op, const char *a_name, const br_tensor *a,
                                  const char *b_name, const br_tensor *b)
{
    return (a && b && a->dtype == b->dtype && !br__failed() && !br__debug) ||
           br__compare_dtypes(op, a_name, a, b_name, b);
}
/* Same as br_same_shape(), but also for headers, which are not handles. */
static inline bool br__same_shape(const br_tensor *a, const br_tensor *b)
{
    return a && b && a->ndim == b->ndim &&
           memcmp(a->sizes, b->sizes, (size_t)a->ndim * sizeof *a->sizes) == 0;
}
static inline size_t br__dtype_size(br_dtype dtype)
{
    static const unsigned char sizes[] = { [BR_F32] = sizeof(float),
                                           [BR_F64] = sizeof(double),
                                           [BR_I64] = sizeof(int64_t),
                                           [BR_BOOL] = sizeof(bool) };
    return sizes[dtype];
}

/* Stores the path of the innermost running module, "" for a root. Returns false if no module is
 * running. */
bool br__current_module_path(char *buffer, size_t size);

/* Opens a scope for a module's forward. */
br_scope *br__scope_begin_for(const void *owner);
/* Ends the open scopes inside `scope`, and frees its tensors from index `start` of the thread's
 * stack on. Avoids opening a new scope in each iteration of a loop. */
void br__scope_free_from(br_scope *scope, size_t start);
/* Returns the path of a scope's owner; set by nn. */
extern char *(*br__owner_path)(const void *owner, char *buffer, size_t size);

/* ---- Profiling ------------------------------------------------------------------------------- */

/* These functions are in profile/record.c. They are called only while a profile is running in the
 * thread; otherwise this branch is the only cost. */
#define BR_PROFILING __builtin_expect(br__thread.profile != NULL, 0)

/* The same branch for br_set_detect_anomaly(). */
#define BR_ANOMALY __builtin_expect(br__thread.anomaly != 0, 0)

/* Begin an event inside the open one and return its number. Return 0 and record an error if memory
 * runs out. br__event_end() ends the event and those still open inside it. */
uint64_t br__event_op(const char *name);
uint64_t br__event_optimizer(const char *name);
uint64_t br__event_backward(void);
uint64_t br__event_module(const void *owner);
/* Begins an event for the gradient of an operation. Its forward was recorded at `place`, and its
 * output has the given sizes. */
uint64_t br__event_gradient(const char *name, uint64_t place, int ndim, const int64_t *sizes);
void br__event_end(uint64_t event);
/* Returns the place of the open event (its profile and module), for br__event_gradient(). */
uint64_t br__event_location(void);
/* Set the result of the open operation, and report a tensor that was created in it: the first such
 * tensor counts as the result unless br__event_result() sets another. */
void br__event_result(const br_tensor *t);
void br__event_created(const br_tensor *t);
/* Add to the open event: FLOPs of matrix products and bytes read and written. br__event_traffic()
 * counts each element of the operands once. */
void br__event_work(int64_t flops, int64_t bytes);
void br__event_traffic(int n, const br_tensor *const *operands);

static inline void br__event_cleanup(const uint64_t *event)
{
    if (__builtin_expect(*event != 0, 0))
        br__event_end(*event);
}

/* Opens an event that lasts until the end of the block. */
#define BR_EVENT(begin)                                                            \
    __attribute__((cleanup(br__event_cleanup), unused)) const uint64_t br__event = \
        BR_PROFILING ? (begin) : 0
/* Must be the first statement of every operation; profiling requires nothing else from it. */
#define BR_OP(name) BR_EVENT(br__event_op(name))
/* Report the work of an operation that loops over memory itself instead of calling
 * br__for_each(). */
#define BR_WORK(flops, bytes)                 \
    do {                                      \
        if (BR_PROFILING)                     \
            br__event_work((flops), (bytes)); \
    } while (0)
#define BR_TRAFFIC(...)                                                                          \
    do {                                                                                         \
        if (BR_PROFILING)                                                                        \
            br__event_traffic(                                                                   \
                (int)(sizeof((const br_tensor *[]){ __VA_ARGS__ }) / sizeof(const br_tensor *)), \
                (const br_tensor *[]){ __VA_ARGS__ });                                           \
    } while (0)

/* ---- Parallel loops -------------------------------------------------------------------------- */

/* Calls task(context, i) for i in 0 .. n-1 on up to br_get_num_threads() threads. The effect of a
 * task must not depend on the thread that runs it. Runs serially inside another parallel loop. */
void br__parallel(int64_t n, void (*task)(void *context, int64_t i), void *context);
/* Makes all further loops of the calling thread run serially. Background threads of the library
 * call it, so that their loops never keep loops of the program's threads from running in
 * parallel. */
void br__run_loops_serially(void);
/* Pauses in iteration i of a spin loop; after many iterations, yields to other threads. */
void br__spin_pause(int i);
/* Elements per task for a loop with cheap elements. */
enum { BR_GRAIN = 32768 };
/* Operands of at least this size are too large to stay in the caches until a later operation. */
enum { BR_STREAMING_BYTES = 8 << 20 };
/* Pieces of rows are multiples of this many elements: whole vectors and cache lines. */
enum { BR_PIECE_UNIT = 64 };
/* Returns how many of n items one task should process: at most `max_size`, then rounded up to a
 * multiple of `unit`, a power of 2. Yields an even number of equal tasks, so that two threads, or a
 * few more, finish at the same time. */
int64_t br__piece_size(int64_t n, int64_t max_size, int64_t unit);

/* ---- Loops over strided memory --------------------------------------------------------------- */

/* Runs `loop` over operands that broadcast to operand 0's shape. Adjacent dimensions are coalesced
 * where all operands allow it, `loop` processes the innermost dimension, and large loops run on
 * several threads. */
void br__for_each(int n_operands, const br_tensor *const *operands, br_loop loop,
                  const void *params);
/* Same as br__for_each() with `grain` elements per task, and without reporting to the profile. */
void br__for_each_strided(int n_operands, const br_tensor *const *operands, br_loop loop,
                          const void *params, int64_t grain);

/* Returns a copy of t's header, to be narrowed and passed to br__copy() or br__for_each(); it is
 * not marked as contiguous. It holds no reference and needs no allocation: use it only while t is
 * alive, and do not pass it on as a tensor. */
br_tensor br__window(const br_tensor *t);
/* Sets a window's sizes and strides. */
void br__window_reshape(br_tensor *window, int ndim, const int64_t *sizes, const int64_t *strides);
/* Narrows a window to `length` elements of a dimension from `start` on, `step` apart. */
void br__window_slice(br_tensor *window, int dim, int64_t start, int64_t length, int64_t step);

/* Copies src, which must broadcast to dst, into dst and converts the dtype. */
void br__copy(const br_tensor *dst, const br_tensor *src);

#endif
