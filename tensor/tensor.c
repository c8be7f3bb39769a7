/* tensor/tensor.c - the tensor object: its life, its views, and looking at it. */
#include "tensor/tensor_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *br_version(void)
{
#define TEXT(x)  #x
#define QUOTE(x) TEXT(x)
    return QUOTE(BR_VERSION_MAJOR) "." QUOTE(BR_VERSION_MINOR) "." QUOTE(BR_VERSION_PATCH);
#undef QUOTE
#undef TEXT
}

static bool is_dtype(br_dtype dtype)
{
    return dtype >= BR_F32 && dtype <= BR_BOOL;
}

size_t br_dtype_size(br_dtype dtype)
{
    return is_dtype(dtype) ? br__dtype_size(dtype) : 0;
}

const char *br_dtype_name(br_dtype dtype)
{
    static const char *const names[] = {
        [BR_F32] = "f32", [BR_F64] = "f64", [BR_I64] = "i64", [BR_BOOL] = "bool"
    };
    return is_dtype(dtype) ? names[dtype] : "(no dtype)";
}

/* ---- Life ------------------------------------------------------------------------------------ */

void br__default_strides(int ndim, const int64_t *sizes, int64_t *strides)
{
    int64_t step = 1;
    for (int i = ndim - 1; i >= 0; i--) {
        strides[i] = step;
        step *= sizes[i] > 0 ? sizes[i] : 1;
    }
}

/* Works out numel and whether elements lie in row-major order without gaps. */
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

static size_t storage_size(const br_storage *storage)
{
    return sizeof *storage + (storage->memory == BR_INLINE ? storage->bytes : 0);
}

/* `tensors` are counted with it: those that go or come together with the storage. */
static void free_storage(br_storage *storage, int64_t tensors)
{
    br__count(tensors, storage->memory == BR_INLINE ? -(int64_t)storage->bytes : 0);
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
    }
    br__object_free(storage, storage_size(storage));
}

/* Takes one reference away; true if it was the last. Who holds the only one shares it with nobody,
 * so that there is nothing to be counted atomically. */
static bool is_last(atomic_int *refs)
{
    return atomic_load_explicit(refs, memory_order_acquire) == 1 || atomic_fetch_sub(refs, 1) == 1;
}

/* Of a tensor that goes with its reference. */
static void release_storage(br_storage *storage)
{
    if (is_last(&storage->refs))
        free_storage(storage, -1);
    else
        br__count(-1, 0);
}

/* The tensor that it is made for is counted with it. */
static br_storage *new_storage(const char *op, size_t bytes)
{
    bool is_inline = bytes <= BR_MAX_OBJECT - sizeof(br_storage) && br__inline_storage();
    br_storage *storage = br__object_alloc(sizeof *storage + (is_inline ? bytes : 0));
    if (!storage)
        return NULL;
    *storage = (br_storage){ .bytes = bytes, .memory = is_inline ? BR_INLINE : BR_BLOCK };
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

/* A tensor object over `storage`, of which it takes one reference over, with one reference, counted
 * already; shape and strides are left to be filled in. */
static br_tensor *make(br_storage *storage, br_dtype dtype, int ndim, char *data)
{
    br_tensor *t = br__object_alloc(sizeof *t);
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
    t->is_view = t->untracked = false;
    t->changes = 0;
    t->slot = SIZE_MAX;
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

static br_tensor *own_or_release(br_tensor *t)
{
    if (t && !br__own(t)) {
        br_release(t);
        return NULL;
    }
    if (t && BR_PROFILING)
        br__event_made(t);
    return t;
}

/* A new tensor of good sizes, whose product is numel. */
static br_tensor *make_dense(const char *op, int ndim, const int64_t *sizes, br_dtype dtype,
                             int64_t numel)
{
    br_storage *storage = new_storage(op, (size_t)numel * br__dtype_size(dtype));
    br_tensor *t = storage ? make(storage, dtype, ndim, storage->data) : NULL;
    if (!t)
        return NULL;
    for (int i = 0; i < ndim; i++)
        t->sizes[i] = sizes[i];
    br__default_strides(ndim, sizes, t->strides);
    t->numel = numel;
    t->contiguous = true;
    return own_or_release(t);
}

br_tensor *br__new(const char *op, int ndim, const int64_t *sizes, br_dtype dtype)
{
    int64_t numel;
    if (!br__check_sizes(op, ndim, sizes, dtype, &numel))
        return NULL;
    return make_dense(op, ndim, sizes, dtype, numel);
}

br_tensor *br__new_like(const char *op, const br_tensor *t, br_dtype dtype)
{
    return br__dtype_size(dtype) <= br__dtype_size(t->dtype)
               ? make_dense(op, t->ndim, t->sizes, dtype, t->numel)
               : br__new(op, t->ndim, t->sizes, dtype);
}

/* Whether all that `like` has is in places of its own, the last dimension's side by side. */
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
    br_tensor *t = br__new(op, ndim, sizes, dtype);
    if (!t || like->contiguous || like->ndim != ndim || !has_order(like))
        return t;
    int order[BR_MAX_DIMS]; /* dimensions by their steps, ascending; the last is first */
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

br_tensor *br_borrow(int ndim, const int64_t *sizes, br_dtype dtype, void *data,
                     void (*destroy)(void *context), void *context)
{
    int64_t numel, strides[BR_MAX_DIMS];
    if (!br__check_sizes("borrow", ndim, sizes, dtype, &numel))
        return NULL;
    if (!data && numel > 0)
        return br__fail(BR_ERROR_ARGUMENT, "borrow", "data is NULL for shape %s",
                        br__shape_of(ndim, sizes));
    if ((uintptr_t)data % br_dtype_size(dtype) != 0)
        return br__fail(BR_ERROR_ARGUMENT, "borrow", "data is not aligned to %zu bytes for %s",
                        br_dtype_size(dtype), br_dtype_name(dtype));
    br__default_strides(ndim, sizes, strides);
    br_storage *storage = br__object_alloc(sizeof *storage);
    if (!storage)
        return NULL;
    *storage = (br_storage){ .bytes = (size_t)numel * br_dtype_size(dtype),
                             .data = data,
                             .memory = BR_BORROWED };
    atomic_init(&storage->refs, 1);
    br_tensor *t = own_or_release(make_strided(storage, dtype, ndim, sizes, strides, data));
    if (t) { /* only now: on failure the memory stays the caller's */
        storage->destroy = destroy;
        storage->context = context;
    }
    return t;
}

static br_tensor *make_view(const br_tensor *t, int ndim, const int64_t *sizes,
                            const int64_t *strides, char *data)
{
    atomic_fetch_add(&t->storage->refs, 1);
    br_tensor *view = make_strided(t->storage, t->dtype, ndim, sizes, strides, data);
    if (view)
        view->is_view = true;
    return own_or_release(view);
}

/* Without grad mode nothing holds the base, so that what is nobody else's can be told. */
br_tensor *br__view_of(br_tensor *t, int ndim, const int64_t *sizes, const int64_t *strides,
                       char *data)
{
    br_tensor *view = make_view(t, ndim, sizes, strides, data);
    if (!view)
        return NULL;
    view->untracked = t->untracked || br__thread.no_grad;
    if (view->untracked)
        return view;
    view->base = br_retain(t->base ? t->base : t);
    view->changes = view->base->changes;
    return view;
}

br_tensor *br__detached(const br_tensor *t)
{
    return make_view(t, t->ndim, t->sizes, t->strides, t->data);
}

void br__leave_base(br_tensor *t)
{
    br_release(t->base);
    t->base = NULL;
    t->untracked = false;
    t->changes = 0;
}

br_tensor *br__alias(const br_tensor *t)
{
    atomic_fetch_add(&t->storage->refs, 1);
    return make_strided(t->storage, t->dtype, t->ndim, t->sizes, t->strides, t->data);
}

#define SWAP(type, a, b) \
    do {                 \
        type kept = (a); \
        (a) = (b);       \
        (b) = kept;      \
    } while (0)

void br__swap_data(const char *op, br_tensor *a, br_tensor *b)
{
    uint64_t version = br_tensor_version(a) + br_tensor_version(b) + 1;
    SWAP(br_dtype, a->dtype, b->dtype);
    SWAP(bool, a->contiguous, b->contiguous);
    SWAP(bool, a->is_view, b->is_view);
    SWAP(bool, a->untracked, b->untracked);
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
    if (t)
        atomic_fetch_add(&t->refs, 1);
    return t;
}

void br_release(br_tensor *t)
{
    if (!t || !is_last(&t->refs))
        return;
    if (t->meta)
        t->meta->destroy(t->meta);
    if (t->base)
        br_release(t->base);
    release_storage(t->storage);
    br__object_free(t, sizeof *t);
}

int64_t br_live_tensors(void)
{
    int64_t tensors, bytes;
    br__live(&tensors, &bytes);
    return tensors;
}

/* ---- Looking at tensors ---------------------------------------------------------------------- */

int br_ndim(const br_tensor *t)
{
    return t ? t->ndim : -1;
}

/* As br__wrap_dim(), but a 0-d tensor has no dimension to ask for. */
static bool has_dim(const char *op, const br_tensor *t, int64_t *dim)
{
    if (t && t->ndim > 0)
        return br__wrap_dim(op, "dim", t, dim);
    if (t)
        br__fail(BR_ERROR_INDEX, op, "dim is %" PRId64 ", but t is 0-d: it has no dimensions",
                 *dim);
    return false;
}

int64_t br_size(const br_tensor *t, int64_t dim)
{
    return has_dim("size", t, &dim) ? t->sizes[dim] : -1;
}

int64_t br_stride(const br_tensor *t, int64_t dim)
{
    return has_dim("stride", t, &dim) ? t->strides[dim] : -1;
}

const int64_t *br_sizes(const br_tensor *t)
{
    return t ? t->sizes : NULL;
}

const int64_t *br_strides(const br_tensor *t)
{
    return t ? t->strides : NULL;
}

int64_t br_numel(const br_tensor *t)
{
    return t ? t->numel : -1;
}

br_dtype br_dtype_of(const br_tensor *t)
{
    return t ? t->dtype : BR_F32;
}

bool br_is_floating(const br_tensor *t)
{
    return t && (t->dtype == BR_F32 || t->dtype == BR_F64);
}

bool br_is_contiguous(const br_tensor *t)
{
    return t && t->contiguous;
}

bool br_same_shape(const br_tensor *a, const br_tensor *b)
{
    return a && b && a->ndim == b->ndim &&
           memcmp(a->sizes, b->sizes, (size_t)a->ndim * sizeof *a->sizes) == 0;
}

bool br_shares_storage(const br_tensor *a, const br_tensor *b)
{
    return a && b && a->storage == b->storage;
}

uint64_t br_tensor_version(const br_tensor *t)
{
    return t ? atomic_load(&t->storage->version) : 0;
}

void br_bump_version(br_tensor *t)
{
    if (!t)
        return;
    /* Only views of one storage can be written by several threads at a time. */
    atomic_uint_fast64_t *version = &t->storage->version;
    if (atomic_load_explicit(&t->storage->refs, memory_order_relaxed) > 1)
        atomic_fetch_add(version, 1);
    else
        atomic_store_explicit(version, atomic_load_explicit(version, memory_order_relaxed) + 1,
                              memory_order_relaxed);
}

void *br_data(const br_tensor *t)
{
    return br__required("data", "t", t) ? t->data : NULL;
}

static void *checked_data(const char *op, const br_tensor *t, br_dtype dtype)
{
    if (!br__has_dtype(op, "t", t, dtype))
        return NULL;
    if (!t->contiguous)
        return br__fail(BR_ERROR_ARGUMENT, op,
                        "t %s is not contiguous: use br_contiguous() or br_copy_out()",
                        br__shape(t));
    return t->data;
}

float *br_data_f32(const br_tensor *t)
{
    return checked_data("data_f32", t, BR_F32);
}

double *br_data_f64(const br_tensor *t)
{
    return checked_data("data_f64", t, BR_F64);
}

int64_t *br_data_i64(const br_tensor *t)
{
    return checked_data("data_i64", t, BR_I64);
}

bool *br_data_bool(const br_tensor *t)
{
    return checked_data("data_bool", t, BR_BOOL);
}

static double load(const char *p, br_dtype dtype)
{
    switch (dtype) {
    case BR_F32:
        return (double)*(const float *)p;
    case BR_F64:
        return *(const double *)p;
    case BR_I64:
        return (double)*(const int64_t *)p;
    case BR_BOOL:
        return (double)*(const bool *)p;
    }
    return NAN;
}

static bool one_element(const char *op, const br_tensor *t)
{
    if (!br__required(op, "t", t))
        return false;
    if (t->numel != 1)
        br__fail(BR_ERROR_SHAPE, op, "t %s has %" PRId64 " elements, must have one", br__shape(t),
                 t->numel);
    return t->numel == 1;
}

double br_item(const br_tensor *t)
{
    return one_element("item", t) ? load(t->data, t->dtype) : NAN;
}

int64_t br_item_i64(const br_tensor *t)
{
    if (!one_element("item_i64", t))
        return 0;
    if (t->dtype == BR_I64)
        return *(const int64_t *)(const void *)t->data;
    double value = load(t->data, t->dtype);
    if (!(value >= -0x1p63 && value < 0x1p63)) {
        br__fail(BR_ERROR_ARGUMENT, "item_i64", "%g is not representable as an integer", value);
        return 0;
    }
    return (int64_t)value;
}

double br_at(const br_tensor *t, int ndim, const int64_t *index)
{
    if (!br__required("at", "t", t))
        return NAN;
    if (ndim != t->ndim || (ndim > 0 && !index)) {
        br__fail(BR_ERROR_INDEX, "at", "%d indices for t %s", ndim, br__shape(t));
        return NAN;
    }
    int64_t offset = 0;
    for (int i = 0; i < ndim; i++) {
        int64_t k = index[i] < 0 ? index[i] + t->sizes[i] : index[i];
        if (k < 0 || k >= t->sizes[i]) {
            br__fail(BR_ERROR_INDEX, "at", "index %" PRId64 " of dimension %d is outside t %s",
                     index[i], i, br__shape(t));
            return NAN;
        }
        offset += k * t->strides[i];
    }
    return load(t->data + offset * (int64_t)br_dtype_size(t->dtype), t->dtype);
}

bool br_copy_out(const br_tensor *t, void *out, size_t bytes)
{
    if (!br__required("copy_out", "t", t))
        return false;
    size_t size = (size_t)t->numel * br_dtype_size(t->dtype);
    if (bytes != size || (!out && size > 0)) {
        br__fail(BR_ERROR_ARGUMENT, "copy_out", "t %s of %s has %zu bytes, out has room for %zu",
                 br__shape(t), br_dtype_name(t->dtype), size, out ? bytes : 0);
        return false;
    }
    if (t->contiguous) {
        if (size > 0)
            memcpy(out, t->data, size);
        return true;
    }
    /* The copy loops want a tensor to write to. */
    br_scope *scope = br_scope_begin();
    br_tensor *dense = br__new("copy_out", t->ndim, t->sizes, t->dtype);
    if (dense) {
        br__copy(dense, t);
        memcpy(out, dense->data, size);
    }
    br_scope_end(scope);
    return dense != NULL;
}
