/* tensor/device.c - devices: their names, the default one, and copies between them. */
#include "tensor/tensor_internal.h"

#include <pthread.h>

/* ---- The list of devices --------------------------------------------------------------------- */

enum { MAX_PRIVATE = 16 };

/* Devices are added before they are used, and never removed. */
static struct {
    pthread_mutex_t lock;
    const br_backend *devices[MAX_PRIVATE];
} private_devices = { .lock = PTHREAD_MUTEX_INITIALIZER };

bool br__register_backend(const br_backend *backend)
{
    const br_device device = backend->device;
    bool free_place = false;
    pthread_mutex_lock(&private_devices.lock);
    if (device.type == BR_PRIVATE && device.index >= 0 && device.index < MAX_PRIVATE) {
        free_place = !private_devices.devices[device.index];
        if (free_place)
            private_devices.devices[device.index] = backend;
    }
    pthread_mutex_unlock(&private_devices.lock);
    if (!free_place)
        br_fail(BR_ERROR_ARGUMENT, "register_backend",
                "%s has type %d and index %d: the type must be %d, and the index free and at most "
                "%d",
                backend->name, (int)device.type, device.index, BR_PRIVATE, MAX_PRIVATE - 1);
    return free_place;
}

static const br_backend *cpu_at(int index)
{
    return index == 0 ? &br__cpu_backend : NULL;
}

static const br_backend *private_at(int index)
{
    if (index >= MAX_PRIVATE)
        return NULL;
    pthread_mutex_lock(&private_devices.lock);
    const br_backend *backend = private_devices.devices[index];
    pthread_mutex_unlock(&private_devices.lock);
    return backend;
}

/* The types of devices. `at` returns the device of an index, at least 0, or NULL. */
static const struct {
    const char *name;
    const br_backend *(*at)(int index);
} types[] = {
    [BR_CPU] = { "BR_CPU", cpu_at },
    [BR_PRIVATE] = { "BR_PRIVATE", private_at },
};

static bool is_type(br_device_type type)
{
    return (unsigned)type < sizeof types / sizeof *types;
}

static const br_backend *backend_at(br_device device)
{
    return is_type(device.type) && device.index >= 0 ? types[device.type].at(device.index) : NULL;
}

int br_device_count(br_device_type type)
{
    int n = 0;
    while (backend_at((br_device){ type, n }))
        n++;
    return n;
}

const br_backend *br__find_backend(const char *op, br_device device)
{
    const br_backend *backend = backend_at(device);
    if (backend)
        return backend;
    const int n = br_device_count(device.type);
    const char *type = is_type(device.type) ? types[device.type].name : "an unknown type";
    return br_fail(BR_ERROR_ARGUMENT, op,
                   "there is no device %d of type %d (%s): this process has %d of that type",
                   device.index, (int)device.type, type, n);
}

const char *br_device_name(br_device device)
{
    const br_backend *backend = br__find_backend("device_name", device);
    return backend ? backend->name : NULL;
}

br_device br_device_of(const br_tensor *t)
{
    return BR_LIVE_ANY("device_of", t) ? br__backend_of(t)->device : br__cpu_backend.device;
}

br_device br_get_default_device(void)
{
    return br__default_backend()->device;
}

br_device br_set_default_device(br_device device)
{
    const br_device before = br_get_default_device();
    const br_backend *backend = br__find_backend("set_default_device", device);
    if (backend)
        br__thread.backend = backend;
    return before;
}

bool br_synchronize(br_device device)
{
    const br_backend *backend = br__find_backend("synchronize", device);
    return backend && (!backend->synchronize || backend->synchronize(backend));
}

/* ---- Copies between devices ------------------------------------------------------------------ */

/* Returns src if it is contiguous and has dst's shape and dtype; else such a copy on src's device,
 * in the innermost scope. */
static const br_tensor *dense_like(const char *op, const br_tensor *dst, const br_tensor *src)
{
    if (src->contiguous && src->dtype == dst->dtype && br__same_shape(src, dst))
        return src;
    br_tensor *dense = br__new_on(op, src, dst->ndim, dst->sizes, dst->dtype);
    if (dense)
        br__copy(dense, src);
    return dense;
}

/* Copies a contiguous src to a contiguous dst on another device, where one of them is the host. */
static bool move_dense(const br_tensor *dst, const br_tensor *src)
{
    if (src->numel == 0)
        return true;
    return br__is_on_host(src) ? br__backend_of(dst)->upload(dst, src->data)
                               : br__backend_of(src)->download(dst->data, src);
}

bool br__transfer(const char *op, const br_tensor *dst, const br_tensor *src)
{
    if (br__backend_of(dst) == br__backend_of(src)) {
        br__copy(dst, src);
        return true;
    }
    br_scope *scope = br_scope_begin();
    const br_tensor *from = scope ? dense_like(op, dst, src) : NULL;
    if (from && !br__is_on_host(dst) && !br__is_on_host(src)) {
        br_tensor *host = br__new_on_host(op, dst->ndim, dst->sizes, dst->dtype);
        from = host && move_dense(host, from) ? host : NULL;
    }
    const br_tensor *to = dst;
    if (from && !dst->contiguous)
        to = br__new_on(op, dst, dst->ndim, dst->sizes, dst->dtype);
    bool ok = from && to && move_dense(to, from);
    if (ok && to != dst)
        br__copy(dst, to);
    br_scope_end(scope);
    return ok;
}

static br_tensor *copy_at(const char *op, const br_backend *backend, const br_tensor *t)
{
    br_tensor *copy = br__new_at(op, backend, t->ndim, t->sizes, t->dtype);
    return copy && br__transfer(op, copy, t) ? copy : NULL;
}

br_tensor *br__on_host(const char *op, const br_tensor *t)
{
    return !t || br__is_on_host(t) ? (br_tensor *)(uintptr_t)t : copy_at(op, &br__cpu_backend, t);
}

br_tensor *br__placed(const char *op, const br_backend *backend, br_tensor *t)
{
    return !t || br__backend_of(t) == backend ? t : copy_at(op, backend, t);
}

bool br__read_element(const br_tensor *t, int64_t offset, void *element)
{
    const size_t size = br__dtype_size(t->dtype);
    if (br__is_on_host(t)) {
        memcpy(element, t->data + offset * (int64_t)size, size);
        return true;
    }
    const br_tensor one = br__window_element(t, offset);
    return br__backend_of(t)->download(element, &one);
}
