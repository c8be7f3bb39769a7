/* tensor/tensor_internal.h - what the layers above may know of tensors: their struct, the thread's
 * state, memory, failing, views, and loops over strided memory. */
#ifndef BR_TENSOR_INTERNAL_H
#define BR_TENSOR_INTERNAL_H

#include "tensor/loop.h"

#include <brasa/tensor.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

/* ---- Storage and tensors --------------------------------------------------------------------- */

/* Where the elements of a storage are. */
typedef enum br_memory {
    BR_INLINE,   /* behind the struct: a small tensor costs one block, kept by its thread */
    BR_BLOCK,    /* in a block from br__block_alloc() */
    BR_BORROWED, /* the program's; `destroy`, which may be NULL, is called at the end */
} br_memory;

/* What a large block was cut from; NULL for small ones. */
typedef struct br_extent br_extent;

/* Memory that tensors are views of. */
typedef struct br_storage {
    atomic_int refs;
    atomic_uint_fast64_t version; /* counts in-place changes */
    const char *writer;           /* the operation that made the last one */
    size_t bytes;                 /* asked for */
    char *data;
    union {
        br_extent *extent;
        void (*destroy)(void *context);
    };
    void *context;
    br_memory memory;
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
    bool untracked; /* a view made without grad mode, or of one: it has no base */
    unsigned
        changes; /* recorded ones in place: of a base, or those that a view knows of its base */
    int64_t numel;
    int64_t sizes[BR_MAX_DIMS];
    int64_t strides[BR_MAX_DIMS]; /* in elements */
    char *data;                   /* first element, inside storage */
    br_storage *storage;
    br_tensor *base; /* held: what a view is one of, for the tape; NULL for others */
    br_meta *meta;   /* NULL while the tape has nothing to do with the tensor */
    size_t slot;     /* place on its scope's stack */
};

/* A new tensor of the innermost scope over a view of t's storage; contiguity and numel are worked
 * out. `data` is its first element. In grad mode it holds t, or what that is a view of, as its
 * base. The tape is not told: ops record views themselves. */
br_tensor *br__view_of(br_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                       char *data);
/* The same elements as a tensor that the tape takes for no view. */
br_tensor *br__detached(const br_tensor *t);
/* Makes a view one that the tape takes for none. */
void br__leave_base(br_tensor *t);
/* A second tensor object over the same elements that belongs to no scope: the caller holds its one
 * reference. */
br_tensor *br__alias(const br_tensor *t);
/* Puts a new tensor on the innermost scope, which takes over its one reference; false and an error
 * if memory fails: the caller still holds it. */
bool br__own(br_tensor *t);
/* A reference of the caller's own: the innermost scope's if t belongs to it, which costs nothing
 * and leaves t nobody else's, or one more. */
br_tensor *br__take(br_tensor *t);
/* A tensor with the given shape and fresh contiguous storage. `op` begins error messages. */
br_tensor *br__new(const char *op, int ndim, const int64_t *sizes, br_dtype dtype);
/* The same for the shape of t, which was checked when t was made. */
br_tensor *br__new_like(const char *op, const br_tensor *t, br_dtype dtype);
/* br__new() with strides of another order: dimensions but the last lie in memory as `like`'s do, if
 * it has as many. What is computed from heads that were taken apart then joins without a copy. */
br_tensor *br__new_in_order(const char *op, const br_tensor *like, int ndim, const int64_t *sizes,
                            br_dtype dtype);
/* Exchanges the elements and dtypes of two tensors of one shape, which stay the same objects to
 * whoever holds them. It counts as a change of `a` in place, made by `op`. */
void br__swap_data(const char *op, br_tensor *a, br_tensor *b);
/* True if the storage is seen by this tensor object alone, and the object held once. */
bool br__is_exclusive(const br_tensor *t);
/* br_may_overwrite() with a scope in place of the innermost; it may be NULL. */
bool br__may_overwrite(const br_scope *scope, const br_tensor *t);

/* ---- Failing --------------------------------------------------------------------------------- */

/* Records the error, "op: message" behind the module path, and returns NULL. */
__attribute__((cold)) void *br__fail(br_error code, const char *op, const char *format, ...)
    BR_PRINTF(3, 4);
/* The same with "op: path: message", the path as br__printable() has it. */
__attribute__((cold)) void *br__fail_file(br_error code, const char *op, const char *path,
                                          const char *format, ...) BR_PRINTF(4, 5);
/* The same of what is wrong with a file's contents, as BR_ERROR_FORMAT; false. */
__attribute__((cold)) bool br__refuse_file(const char *op, const char *path, const char *format,
                                           va_list args) BR_PRINTF(3, 0);
/* A message's buffers for shapes: br__shape(t) gives "[2, 3]" in one of the thread's 8 rotating
 * buffers. */
const char *br__shape(const br_tensor *t);
const char *br__shape_of(int ndim, const int64_t *sizes);

/* `text` as a message or a terminal may show it: control and format characters and bytes that are
 * not UTF-8 are escaped, long text is cut. In one of the thread's rotating buffers, good for 4
 * calls. */
const char *br__printable(const char *text);

/* Argument checks that fail with the op's and the argument's name; all are false while an error is
 * pending. `required`: the argument, a tensor or anything else, is not NULL. */
bool br__required(const char *op, const char *name, const void *argument);
bool br__floating(const char *op, const char *name, const br_tensor *t);
bool br__has_dtype(const char *op, const char *name, const br_tensor *t, br_dtype dtype);
static inline bool br__same_dtype(const char *op, const char *a_name, const br_tensor *a,
                                  const char *b_name, const br_tensor *b);
/* Turns a dimension of -ndim .. ndim-1 into 0 .. ndim-1. A 0-d tensor takes -1 and 0. */
bool br__wrap_dim(const char *op, const char *name, const br_tensor *t, int64_t *dim);
/* The shape that a and b broadcast to; messages call them a and b, or by names of their own. */
bool br__broadcast(const char *op, const br_tensor *a, const br_tensor *b, int *ndim,
                   int64_t *sizes);
bool br__broadcast_named(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                         const br_tensor *b, int *ndim, int64_t *sizes);
/* Checks sizes and gives their product; false with a message on overflow or a bad size. */
bool br__check_sizes(const char *op, int ndim, const int64_t *sizes, br_dtype dtype,
                     int64_t *numel);
/* Row-major strides. */
void br__default_strides(int ndim, const int64_t *sizes, int64_t *strides);

/* ---- Memory ---------------------------------------------------------------------------------- */

enum { BR_HUGE_PAGE = 2 << 20 }; /* bytes; of blocks aligned to it huge pages are asked for */

/* The user's allocator, or malloc and its kin. */
void *br__allocate(size_t size, size_t alignment);
void br__deallocate(void *block);
/* Small blocks through the user's allocator; NULL and a pending error on failure. br__malloc(0)
 * gives a block. */
void *br__malloc(size_t size);
void *br__calloc(size_t count, size_t size);
void *br__realloc(void *block, size_t old_size, size_t size);
/* Makes room for one more of `count` items, and for `first` to begin with; returns the array, which
 * may have moved, or NULL and an error, with the old one untouched. */
void *br__grow_from(int64_t first, void *items, int64_t *room, int64_t count, size_t item_size);
static inline void *br__grow(void *items, int64_t *room, int64_t count, size_t item_size)
{
    return br__grow_from(4, items, room, count, item_size);
}
char *br__strdup(const char *text);
/* A formatted string from br__malloc. */
char *br__format(const char *format, ...) BR_PRINTF(1, 2);
/* A block with an alignment of its own; 0 is that of any object. br_free() frees it. */
void *br__malloc_aligned(size_t size, size_t alignment);
/* What a thread keeps and counts (tensor/objects.c). Objects come and go with every operation: they
 * have at most BR_MAX_OBJECT bytes, in whole cache lines, and wait here for reuse. */
enum { BR_MAX_OBJECT = 1024, BR_LINE = 64, BR_OBJECT_CLASSES = BR_MAX_OBJECT / BR_LINE };
typedef struct br_objects {
    void *kept[BR_OBJECT_CLASSES]; /* each begins with a pointer to the next */
    int room[BR_OBJECT_CLASSES];   /* for so many more */
    /* Alive: tensors, and bytes of inline storage; and the most bytes for which a peak was noted.
     * Only their thread writes them. */
    atomic_int_fast64_t tensors, bytes, high;
    bool listed;                     /* in the list of all threads' */
    struct br_objects *next, **link; /* there; other threads change them under its lock */
} br_objects;
extern _Thread_local br_objects br__objects;

static inline size_t br__object_class(size_t size)
{
    return (size + BR_LINE - 1) / BR_LINE - 1;
}

/* Where none is kept, and where there is no room to keep one. */
void *br__object_alloc_new(size_t size);
void br__object_free_last(void *object, size_t size);

/* A block for `size` bytes, which is the same when it is freed. NULL and a pending error. */
static inline void *br__object_alloc(size_t size)
{
    size_t class = br__object_class(size);
    void *object = class < BR_OBJECT_CLASSES ? br__objects.kept[class] : NULL;
    if (!object)
        return br__object_alloc_new(size);
    br__objects.kept[class] = *(void **)object;
    br__objects.room[class]++;
    return object;
}

static inline void br__object_free(void *object, size_t size)
{
    size_t class = br__object_class(size);
    if (class >= BR_OBJECT_CLASSES || br__objects.room[class] == 0) {
        br__object_free_last(object, size);
        return;
    }
    *(void **)object = br__objects.kept[class];
    br__objects.kept[class] = object;
    br__objects.room[class]--;
}

/* Frees what this thread keeps. */
void br__objects_flush(void);
/* Puts this thread into the list of those whose end frees what they have; false where its end could
 * not be told. */
bool br__list_thread(void);
/* Whether threads keep objects: not where a program has an allocator of its own, nor for the
 * address sanitizer. */
void br__keep_objects(bool keep);
bool br__keeps_objects(void);
/* Whether there is a limit of memory, which only blocks are held to. */
void br__limit_objects(bool limit);
/* Whether a small tensor's elements may stand in its storage object. */
bool br__inline_storage(void);

/* Adds to the thread's counters; the rare part is a new thread, or a new peak. */
void br__count_slowly(int64_t tensors, int64_t bytes);
static inline void br__count(int64_t tensors, int64_t bytes)
{
    br_objects *o = &br__objects;
    int64_t now = atomic_load_explicit(&o->bytes, memory_order_relaxed) + bytes;
    if (!o->listed || now > atomic_load_explicit(&o->high, memory_order_relaxed)) {
        br__count_slowly(tensors, bytes);
        return;
    }
    atomic_store_explicit(&o->bytes, now, memory_order_relaxed);
    tensors += atomic_load_explicit(&o->tensors, memory_order_relaxed);
    atomic_store_explicit(&o->tensors, tensors, memory_order_relaxed);
}
/* The sums over all threads. */
void br__live(int64_t *tensors, int64_t *bytes);
/* Lets the next byte that any thread counts note the peak. */
void br__watch_peak(void);
void br__note_peak(void);
/* Storage blocks, cached and counted; aligned to 64 bytes, fresh ones of 2 MiB and more to 2 MiB.
 * *extent goes back to br__block_free(). */
void *br__block_alloc(const char *op, size_t bytes, br_extent **extent);
void br__block_free(void *block, size_t bytes, br_extent *extent);
/* Bytes that the block really has. */
size_t br__block_size(size_t bytes, const br_extent *extent);

/* ---- Thread state and scopes ----------------------------------------------------------------- */

struct br_scope {
    br_scope *outer;
    size_t start;      /* first tensor of this scope on the thread's stack */
    const void *owner; /* the module whose forward it is, or NULL */
    bool grad_before;  /* grad mode to restore */
    uint64_t event;    /* of the profile: the module's forward */
};

typedef struct br_thread {
    br_scope *scope; /* innermost, NULL outside every scope */
    br_scope *spare; /* closed scopes, for reuse */
    br_tensor **stack;
    size_t top, capacity;
    bool no_grad;
    br_error error;
    struct br_profile *profile; /* the one that runs, or NULL */
    struct br_rare *rare;       /* br__rare()'s; NULL before */
    struct br_generator *generator;
    int anomaly;                 /* br_anomaly: what is looked for */
    const char *given;           /* the operation whose scalar is not finite, or NULL */
    struct br_node *gradient_of; /* with `anomaly`: the node whose gradient runs, or NULL */
    struct br_walk *walk;        /* whose gradient runs, or NULL */
    bool runs_again; /* the function of a checkpoint, for its gradients: taps do not see it */
    void *recorder;  /* of taps */
    struct br_frame *frame; /* the checkpoint whose function runs, or NULL */
} br_thread;

extern _Thread_local br_thread br__thread;

/* What a thread wants only at times. It is no part of what each thread has (tensor/rare.c). */
enum {
    BR_MESSAGE_SIZE = 1024,
    BR_SHAPE_SIZE = BR_MAX_DIMS * 22 + 3,
    BR_TEXT_SIZE = 256,
    BR_SHAPES = 8,
    BR_TEXTS = 4,
};
typedef struct br_rare {
    char message[BR_MESSAGE_SIZE];           /* of the error */
    char shapes[BR_SHAPES][BR_SHAPE_SIZE];   /* for messages, in turn */
    char texts[BR_TEXTS][BR_TEXT_SIZE];      /* the same, of any text */
    unsigned shape, text;                    /* the next one's number */
    _Alignas(max_align_t) char module[4096]; /* nn's dead one */
} br_rare;
/* Never NULL: threads that get no memory for it share one. */
br_rare *br__rare(void);
/* Frees what the thread, which ends, has of br__rare() and its generator. */
void br__rare_free(void);

/* br_failed(), br_dtype_size() and a check for what every operation runs through. */
static inline bool br__failed(void)
{
    return br__thread.error != BR_OK;
}
/* False, with the error, where br__same_dtype() is. */
__attribute__((cold)) bool br__refuse_dtypes(const char *op, const char *a_name, const br_tensor *a,
                                             const char *b_name, const br_tensor *b);
static inline bool br__same_dtype(const char *op, const char *a_name, const br_tensor *a,
                                  const char *b_name, const br_tensor *b)
{
    return (a && b && a->dtype == b->dtype && !br__failed()) ||
           br__refuse_dtypes(op, a_name, a, b_name, b);
}
static inline size_t br__dtype_size(br_dtype dtype)
{
    static const unsigned char sizes[] = { [BR_F32] = sizeof(float),
                                           [BR_F64] = sizeof(double),
                                           [BR_I64] = sizeof(int64_t),
                                           [BR_BOOL] = sizeof(bool) };
    return sizes[dtype];
}

/* The path of the innermost module that runs, "" for a root; false if none does. */
bool br__where(char *buffer, size_t size);

/* Opens a scope that belongs to a module's forward. */
br_scope *br__scope_begin_for(const void *owner);
/* Ends the scopes inside `scope` that are open, and frees its tensors from place `start` of the
 * thread's stack on: for what would else open a scope again and again. */
void br__scope_free_from(br_scope *scope, size_t start);
/* Gives the path of a scope's owner; nn sets it. */
extern char *(*br__owner_path)(const void *owner, char *buffer, size_t size);

/* ---- Profiling ------------------------------------------------------------------------------- */

/* profile/record.c has the functions. They are called only while a profile runs in the thread;
 * while none does, all there is of it is this branch. */
#define BR_PROFILING __builtin_expect(br__thread.profile != NULL, 0)

/* The same for what br_set_detect_anomaly() asks for. */
#define BR_ANOMALY __builtin_expect(br__thread.anomaly != 0, 0)

/* Each begins an event inside the one that is open, and returns its number; 0 if there is no memory
 * for it, which is an error. br__event_end() ends it and what is still open inside. */
uint64_t br__event_op(const char *name);
uint64_t br__event_optimizer(const char *name);
uint64_t br__event_backward(void);
uint64_t br__event_module(const void *owner);
/* The gradient of an operation whose forward was recorded at `place`, with an output of the sizes.
 */
uint64_t br__event_gradient(const char *name, uint64_t place, int ndim, const int64_t *sizes);
void br__event_end(uint64_t event);
/* Where the open event is: what br__event_gradient() takes. */
uint64_t br__event_place(void);
/* The result of the operation that is open, and a new tensor in it: the first one is taken for the
 * result where no other is told. */
void br__event_result(const br_tensor *t);
void br__event_made(const br_tensor *t);
/* Adds to the open event floating-point operations of products, and bytes read and written: given,
 * or each element of the operands once. */
void br__event_work(int64_t flops, int64_t bytes);
void br__event_traffic(int n, const br_tensor *const *operands);

static inline void br__event_cleanup(const uint64_t *event)
{
    if (__builtin_expect(*event != 0, 0))
        br__event_end(*event);
}

/* An event from here to the end of the block. */
#define BR_EVENT(begin)                                                            \
    __attribute__((cleanup(br__event_cleanup), unused)) const uint64_t br__event = \
        BR_PROFILING ? (begin) : 0
/* First in every operation: that is all a profile needs of it. Where code is compiled for size, two
 * functions look whether a profile runs. */
uint64_t br__event_enter(const char *op);
void br__event_leave(const uint64_t *event);
#ifdef __OPTIMIZE_SIZE__
#    define BR_OP(name)                                                              \
        __attribute__((cleanup(br__event_leave), unused)) const uint64_t br__event = \
            br__event_enter(name)
#else
#    define BR_OP(name) BR_EVENT(br__event_op(name))
#endif
/* Where an operation walks memory by a loop of its own. */
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

/* Calls task(context, i) for i of 0 .. n-1, by the threads of br_set_num_threads(). What task i
 * does must not depend on who runs it. Runs serially inside another parallel loop. */
void br__parallel(int64_t n, void (*task)(void *context, int64_t i), void *context);
/* For a thread that works beside the program's own: its loops run in it alone from now on, and
 * never keep those of others from being shared. */
void br__work_alone(void);
/* For a thread that waits for another: between its looks, of which this is number i, it pauses, and
 * after many of them gives way to others. */
void br__linger(int i);
/* Elements that one task should take of a loop whose elements are cheap. */
enum { BR_GRAIN = 32768 };
/* More memory than the caches keep for whoever comes next. */
enum { BR_FAR_BYTES = 8 << 20 };
/* What pieces of rows are a multiple of, in elements: whole vectors and cache lines. */
enum { BR_PIECE_UNIT = 64 };
/* How many of n pieces of work a task takes, at most `most`, then rounded up to a multiple of
 * `unit`, a power of 2: an even number of tasks that are alike, so that two threads, or a few more,
 * end at one time. */
int64_t br__even_part(int64_t n, int64_t most, int64_t unit);

/* ---- Loops over strided memory --------------------------------------------------------------- */

/* Runs `loop` over operands that broadcast to operand 0's shape: dimensions that lie behind each
 * other in all operands are merged, the innermost goes to `loop`, large ones are shared among
 * threads. */
void br__for_each(int n_operands, const br_tensor *const *operands, br_loop loop,
                  const void *params);
/* The same with `grain` elements to a task, and untold to the profile. */
void br__for_each_strided(int n_operands, const br_tensor *const *operands, br_loop loop,
                          const void *params, int64_t grain);

/* A copy of t's header, to be narrowed by hand and given to br__copy() or br__for_each(); it does
 * not claim to be contiguous. It holds no reference and costs no allocation: use it while t lives,
 * and hand it to nobody. */
br_tensor br__window(const br_tensor *t);
/* Gives a window other sizes and strides. */
void br__window_reshape(br_tensor *window, int ndim, const int64_t *sizes, const int64_t *strides);
/* Narrows a window to `length` elements of a dimension, `step` apart, from `start` on. */
void br__window_slice(br_tensor *window, int dim, int64_t start, int64_t length, int64_t step);

/* Copies src, which broadcasts to dst, into dst, converting the dtype. */
void br__copy(const br_tensor *dst, const br_tensor *src);

#endif
