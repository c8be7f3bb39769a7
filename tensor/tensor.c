/* tensor/tensor.c - tensor objects: their lifetime and their views. */
#include "tensor/tensor_internal.h"

const char *br_version(void)
{
#define TEXT(x)  #x
#define QUOTE(x) TEXT(x)
    return QUOTE(BR_VERSION_MAJOR) "." QUOTE(BR_VERSION_MINOR) "." QUOTE(BR_VERSION_PATCH);
#undef QUOTE
#undef TEXT
}

/* ---- Lifetime -------------------------------------------------------------------------------- */

void br__default_strides(int ndim, const int64_t *sizes, int64_t *strides)
{
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = step;
        step *= sizes[i] > 0 ? sizes[i] : 1;
    }
}

/* Computes numel and `contiguous` from the sizes and strides. */
static void describe(br_tensor *t)
{
    t->numel = 1;
    for (int i = 0; i < t->ndim; i++)
        t->numel *= t->sizes[i];
    t->contiguous = true;
    int64_t step = 1;
    for (int i = t->ndim - 1; i >= 0 && t->numel > 0; i--) {
        if (t->sizes[i] != 1 && t->strides[i] != step)
            t->contiguous = false;
        step *= t->sizes[i];
    }
}

/* Whether the bytes are not counted by tensor/blocks.c. */
static bool counts_own_bytes(const br_storage *storage)
{
    return storage->memory == BR_INLINE || storage->memory == BR_DEVICE;
}

static size_t storage_size(const br_storage *storage)
{
    return sizeof *storage + (storage->memory == BR_INLINE ? storage->bytes : 0);
}

/* Frees a storage and adds `tensors` to the count of live tensors in the same step. */
static void free_storage(br_storage *storage, int64_t tensors)
{
    br__count(tensors, counts_own_bytes(storage) ? -(int64_t)storage->bytes : 0);
    switch (storage->memory) {
    case BR_INLINE:
        break;
    case BR_BLOCK:
        br__block_free(storage->data, storage->bytes, storage->extent);
        break;
    case BR_BORROWED:
        if (storage->destroy)
            storage->destroy(storage->context);
        break;
    case BR_DEVICE:
        storage->backend->deallocate(storage->backend, storage->data, storage->bytes);
        break;
    }
    br__object_free(storage, storage_size(storage));
}

/* Drops a reference; returns true if it was the last one. If there is only one reference, no other
 * thread can copy it, so no atomic decrement is needed. */
static bool is_last(atomic_int *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire) == 1 || atomic_fetch_sub(refs, 1) == 1;
}

/* Releases the storage of a tensor that is being freed, and decrements the number of live
 * tensors. */
static void release_storage(br_storage *storage)
{
    if (is_last(&storage->refs))
        free_storage(storage, -1);
    else
        br__count(-1, 0);
}

/* Same as new_storage() for the memory of a device that is not the host. */
static br_storage *new_device_storage(const char *op, const br_backend *backend, size_t bytes)
{
    br_storage *storage = br__object_alloc(sizeof *storage);
    if (!storage)
        return NULL;
    *storage = (br_storage){ .bytes = bytes, .memory = BR_DEVICE, .backend = backend };
    atomic_init(&storage->refs, 1);
    storage->data = backend->allocate(op, backend, bytes);
    if (storage->data) {
        br__count(1, (int64_t)bytes);
        return storage;
    }
    br__object_free(storage, sizeof *storage);
    return NULL;
}

/* Creates a storage, and increments the number of live tensors for the tensor that will use it. */
static br_storage *new_storage(const char *op, const br_backend *backend, size_t bytes)
{
    if (__builtin_expect(backend != &br__cpu_backend, 0))
        return new_device_storage(op, backend, bytes);
    bool is_inline = bytes <= BR_MAX_OBJECT - sizeof(br_storage) && br__inline_storage();
    br_storage *storage = br__object_alloc(sizeof *storage + (is_inline ? bytes : 0));
    if (!storage)
        return NULL;
    *storage = (br_storage){ .bytes = bytes,
                             .memory = is_inline ? BR_INLINE : BR_BLOCK,
                             .backend = &br__cpu_backend };
    atomic_init(&storage->refs, 1);
    if (is_inline) {
        storage->data = (char *)(storage + 1);
        br__count(1, (int64_t)bytes);
        return storage;
    }
    storage->data = br__block_alloc(op, bytes, &storage->extent);
    if (storage->data) {
        br__count(1, 0);
        return storage;
    }
    br__object_free(storage, sizeof *storage);
    return NULL;
}

/* Returns a tensor object with one reference. Takes over one reference of `storage`; the tensor
 * must be counted already. The caller sets the shape and the strides. */
static inline br_tensor *make(br_storage *storage, br_dtype dtype, int ndim, char *data)
{
    br_tensor *t = br__tensor_object_alloc();
    if (!t) {
        release_storage(storage);
        return NULL;
    }
    atomic_init(&t->refs, 1);
    t->dtype = dtype;
    t->ndim = ndim;
    t->data = data;
    t->storage = storage;
    t->meta = NULL;
    t->base = NULL;
    t->is_view = t->untracked = t->hides_grad = t->is_grad = false;
    t->changes = 0;
    t->slot = BR_NO_SLOT;
    t->block_type = 0;
    t->mark = BR_MARK_LIVE;
    if (__builtin_expect(br__debug, 0)) {
        t->mark = BR_MARK_REGISTERED;
        br__debug_register(BR_HANDLE_tensor, t, NULL);
    }
    return t;
}

static br_tensor *make_strided(br_storage *storage, br_dtype dtype, int ndim, const int64_t *sizes,
                               const int64_t *strides, char *data)
{
    br__count(1, 0);
    br_tensor *t = make(storage, dtype, ndim, data);
    if (!t)
        return NULL;
    for (int i = 0; i < ndim; i++) {
        t->sizes[i] = sizes[i];
        t->strides[i] = strides[i];
    }
    describe(t);
    return t;
}

static br_tensor *add_to_scope_or_release(br_tensor *t)
{
    if (t && !br__scope_add(t)) {
        br_release(t);
        return NULL;
    }
    if (t && BR_PROFILING)
        br__thread.events->created(t);
    return t;
}

br_tensor *br__new_dense(const char *op, const br_backend *backend, int ndim, const int64_t *sizes,
                         br_dtype dtype, int64_t numel)
{
    br_storage *storage = new_storage(op, backend, (size_t)numel * br__dtype_size(dtype));
    br_tensor *t = storage ? make(storage, dtype, ndim, storage->data) : NULL;
    if (!t)
        return NULL;
    for (int i = 0; i < ndim; i++)
        t->sizes[i] = sizes[i];
    br__default_strides(ndim, sizes, t->strides);
    t->numel = numel;
    t->contiguous = true;
    return add_to_scope_or_release(t);
}

br_tensor *br__new_at(const char *op, const br_backend *backend, int ndim, const int64_t *sizes,
                      br_dtype dtype)
{
    int64_t numel;
    if (!br__check_sizes(op, ndim, sizes, dtype, &numel))
        return NULL;
    return br__new_dense(op, backend, ndim, sizes, dtype, numel);
}

br_tensor *br__new(const char *op, int ndim, const int64_t *sizes, br_dtype dtype)
{
    return br__new_at(op, br__default_backend(), ndim, sizes, dtype);
}

br_tensor *br__new_on(const char *op, const br_tensor *t, int ndim, const int64_t *sizes,
                      br_dtype dtype)
{
    return br__new_at(op, br__backend_of(t), ndim, sizes, dtype);
}

/* Returns whether no elements of `like` share memory and its last dimension is contiguous. */
static bool has_order(const br_tensor *like)
{
    for (int i = 0; i < like->ndim; i++)
        if (like->sizes[i] > 1 && like->strides[i] < 1)
            return false;
    return like->ndim > 0 &&
           (like->sizes[like->ndim - 1] == 1 || like->strides[like->ndim - 1] == 1);
}

br_tensor *br__new_in_order(const char *op, const br_tensor *like, int ndim, const int64_t *sizes,
                            br_dtype dtype)
{
    br_tensor *t = br__new_on(op, like, ndim, sizes, dtype);
    if (!t || like->contiguous || like->ndim != ndim || !has_order(like))
        return t;
    int order[BR_MAX_DIMS]; /* dimensions by ascending stride; the last dimension is first */
    int64_t step = 1;
    order[0] = ndim - 1;
    for (int i = 1; i < ndim; i++) {
        int d = ndim - 1 - i, at = i;
        for (; at > 1 && like->strides[order[at - 1]] > like->strides[d]; at--)
            order[at] = order[at - 1];
        order[at] = d;
    }
    for (int i = 0; i < ndim; i++) {
        t->strides[order[i]] = step;
        step *= sizes[order[i]] > 0 ? sizes[order[i]] : 1;
    }
    describe(t);
    return t;
}

/* Returns 1 if dimension a is inside b, -1 if it is outside, and 0 if strides and sizes do not
 * decide it. */
static int lies_inside(const br_tensor *t, int a, int b)
{
    const int64_t step_a = t->strides[a], step_b = t->strides[b];
    if (step_a == 0 || step_b == 0)
        return 0;
    if (step_a != step_b)
        return step_a < step_b ? 1 : -1;
    return t->sizes[b] > t->sizes[a] ? 1 : 0;
}

void br__memory_order(const br_tensor *t, int *order)
{
    for (int i = 0; i < t->ndim; i++)
        order[i] = i;
    for (int i = t->ndim - 2; i >= 0; i--) {
        for (int at = i, next = i + 1; next < t->ndim; next++) {
            const int inside = lies_inside(t, order[at], order[next]);
            if (inside < 0)
                break;
            if (inside == 0)
                continue;
            const int d = order[at];
            order[at] = order[next];
            order[next] = d;
            at = next;
        }
    }
}

br_tensor br__reordered(const br_tensor *t, const int *order)
{
    br_tensor header = *t;
    for (int i = 0; i < t->ndim; i++) {
        header.sizes[i] = t->sizes[order[i]];
        header.strides[i] = t->strides[order[i]];
    }
    describe(&header);
    return header;
}

br_tensor *br__new_reordered(const char *op, const br_tensor *t, int ndim, const int64_t *sizes,
                             br_dtype dtype, const int *order)
{
    br_tensor *y = br__new_on(op, t, ndim, sizes, dtype);
    int64_t step = 1;
    for (int i = ndim - 1; y && i >= 0; i--) {
        y->strides[order[i]] = step;
        step *= sizes[order[i]] > 0 ? sizes[order[i]] : 1;
    }
    if (y)
        describe(y);
    return y;
}

br_tensor *br_borrow(int ndim, const int64_t *sizes, br_dtype dtype, void *data,
                     void (*destroy)(void *context), void *context)
{
    int64_t numel, strides[BR_MAX_DIMS];
    if (!br__check_sizes("borrow", ndim, sizes, dtype, &numel))
        return NULL;
    if (!data && numel > 0)
        return br_fail(BR_ERROR_ARGUMENT, "borrow", "data is NULL, but shape %s has elements",
                       br__shape_of(ndim, sizes));
    if ((uintptr_t)data % br_dtype_size(dtype) != 0)
        return br_fail(BR_ERROR_ARGUMENT, "borrow",
                       "data is not aligned to %zu bytes, which %s requires", br_dtype_size(dtype),
                       br_dtype_name(dtype));
    br__default_strides(ndim, sizes, strides);
    br_storage *storage = br__object_alloc(sizeof *storage);
    if (!storage)
        return NULL;
    *storage = (br_storage){ .bytes = (size_t)numel * br_dtype_size(dtype),
                             .data = data,
                             .memory = BR_BORROWED,
                             .backend = &br__cpu_backend };
    atomic_init(&storage->refs, 1);
    br_tensor *t =
        add_to_scope_or_release(make_strided(storage, dtype, ndim, sizes, strides, data));
    if (t) { /* only now: on failure the caller keeps its memory */
        storage->destroy = destroy;
        storage->context = context;
    }
    return t;
}

/* Gives a new object the type of the blocks that it shares with t. Returns the object. */
static br_tensor *copy_type(const br_tensor *t, br_tensor *alias)
{
    if (!alias || __builtin_expect(t->dtype != BR_QUANTIZED, 1))
        return alias;
    alias->block_type = t->block_type;
    if (alias->mark == BR_MARK_LIVE)
        alias->mark = BR_MARK_QUANTIZED;
    return alias;
}

static br_tensor *make_view(const br_tensor *t, int ndim, const int64_t *sizes,
                            const int64_t *strides, char *data)
{
    atomic_fetch_add(&t->storage->refs, 1);
    br_tensor *view = copy_type(t, make_strided(t->storage, t->dtype, ndim, sizes, strides, data));
    if (view)
        view->is_view = true;
    return add_to_scope_or_release(view);
}

/* Without grad mode a view does not hold its base, so that br__is_exclusive() remains accurate. */
static br_tensor *view_of(br_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                          char *data)
{
    br_tensor *view = make_view(t, ndim, sizes, strides, data);
    if (!view)
        return NULL;
    view->untracked = t->untracked || br__thread.no_grad;
    view->hides_grad = t->hides_grad;
    if (view->untracked)
        return view;
    view->base = br_retain(t->base ? t->base : t);
    view->changes = view->base->changes;
    return view;
}

br_tensor *br__view_of(br_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                       int64_t offset)
{
    return view_of(t, ndim, sizes, strides, br__element(t, offset));
}

br_tensor *br__view_at(br_tensor *t, const br_tensor *window)
{
    return view_of(t, window->ndim, window->sizes, window->strides, window->data);
}

int64_t br__offset_in(const br_tensor *base, const br_tensor *t)
{
    return (t->data - base->data) / (ptrdiff_t)br__dtype_size(t->dtype);
}

/* Returns the distance of the last element from the first one. */
static int64_t reach_of(const br_tensor *t)
{
    int64_t reach = 0;
    for (int d = 0; d < t->ndim; d++)
        reach += (t->sizes[d] - 1) * t->strides[d];
    return reach;
}

bool br__is_inside_base(const br_tensor *view)
{
    const br_tensor *base = view->base;
    if (view->storage != base->storage)
        return false;
    const int64_t first = br__offset_in(base, view);
    return view->numel == 0 ||
           (base->numel > 0 && first >= 0 && first + reach_of(view) <= reach_of(base));
}

int64_t br__storage_offset(const br_tensor *t)
{
    const ptrdiff_t bytes = t->data - t->storage->data, size = (ptrdiff_t)br__dtype_size(t->dtype);
    return bytes % size == 0 ? bytes / size : -1;
}

int64_t br__storage_numel(const br_tensor *t)
{
    return (int64_t)(t->storage->bytes / br__dtype_size(t->dtype));
}

br_tensor *br__detached(const br_tensor *t)
{
    return make_view(t, t->ndim, t->sizes, t->strides, t->data);
}

void br__drop_base(br_tensor *t)
{
    br_release(t->base);
    t->base = NULL;
    t->untracked = t->hides_grad = false;
    t->changes = 0;
}

br_tensor *br__alias(const br_tensor *t)
{
    atomic_fetch_add(&t->storage->refs, 1);
    return copy_type(t, make_strided(t->storage, t->dtype, t->ndim, t->sizes, t->strides, t->data));
}

#define SWAP(type, a, b)  \
    do {                  \
        type saved = (a); \
        (a) = (b);        \
        (b) = saved;      \
    } while (0)

void br__swap_data(const char *op, br_tensor *a, br_tensor *b)
{
    uint64_t version = atomic_load(&a->storage->version) + atomic_load(&b->storage->version) + 1;
    SWAP(br_dtype, a->dtype, b->dtype);
    SWAP(uint8_t, a->block_type, b->block_type);
    if (a->mark != b->mark) /* one of them is quantized */
        SWAP(uint16_t, a->mark, b->mark);
    SWAP(bool, a->contiguous, b->contiguous);
    SWAP(bool, a->is_view, b->is_view);
    SWAP(bool, a->untracked, b->untracked);
    SWAP(bool, a->hides_grad, b->hides_grad);
    SWAP(br_tensor *, a->base, b->base);
    SWAP(unsigned, a->changes, b->changes);
    SWAP(char *, a->data, b->data);
    SWAP(br_storage *, a->storage, b->storage);
    for (int i = 0; i < a->ndim; i++)
        SWAP(int64_t, a->strides[i], b->strides[i]);
    atomic_store(&a->storage->version, version);
    a->storage->writer = op;
}

bool br__is_exclusive(const br_tensor *t)
{
    return atomic_load(&t->refs) == 1 && atomic_load(&t->storage->refs) == 1 &&
           t->storage->memory != BR_BORROWED;
}

br_tensor *br_retain(br_tensor *t)
{
    if (!BR_LIVE_ANY("retain", t))
        return NULL;
    atomic_fetch_add(&t->refs, 1);
    return t;
}

static void release(br_tensor *t, bool by_scope)
{
    if (!is_last(&t->refs))
        return;
    if (t->meta)
        t->meta->destroy(t->meta);
    if (t->base)
        br_release(t->base);
    br_storage *storage = t->storage;
    t->mark = by_scope ? BR_MARK_SCOPE_ENDED : BR_MARK_FREED;
    br__tensor_object_free(t);
    release_storage(storage);
}

/* Returns whether the tensor's only reference belongs to a scope. Releasing it would leave a
 * dangling pointer in the scope. */
static inline bool only_its_scope_holds(const br_tensor *t)
{
    return t->slot != BR_NO_SLOT && atomic_load_explicit(&t->refs, memory_order_relaxed) == 1;
}

static __attribute__((noinline, cold)) void release_checked(br_tensor *t)
{
    if (!BR_LIVE_ANY("release", t))
        return;
    if (only_its_scope_holds(t))
        br_fail(BR_ERROR_STATE, "release",
                "t %s was released more often than retained: its last reference belongs to its "
                "scope",
                br__shape(t));
    else
        release(t, false);
}

void br_release(br_tensor *t)
{
    if (!t)
        return;
    if (__builtin_expect(t->mark != BR_MARK_LIVE || only_its_scope_holds(t), 0))
        release_checked(t);
    else
        release(t, false);
}

void br__release_of_scope(br_tensor *t)
{
    release(t, true);
}

void br_bump_version(br_tensor *t)
{
    if (!BR_LIVE("bump_version", t))
        return;
    /* Only a storage with views can have several concurrent writers. */
    atomic_uint_fast64_t *version = &t->storage->version;
    if (atomic_load_explicit(&t->storage->refs, memory_order_relaxed) > 1)
        atomic_fetch_add(version, 1);
    else
        atomic_store_explicit(version, atomic_load_explicit(version, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

void br__changed_by(br_tensor *t, const char *writer)
{
    t->storage->writer = writer;
    br_bump_version(t);
}

int64_t br_live_tensors(void)
{
    int64_t tensors, bytes;
    br__live_totals(&tensors, &bytes);
    return tensors;
}
