/* tensor/device.h - devices: the default one, and elements on their way between a device and the
 * host. */
#ifndef BR_TENSOR_DEVICE_H
#define BR_TENSOR_DEVICE_H

#include "backends/backend.h"
#include "tensor/storage.h"
#include "tensor/thread_state.h"

static inline const br_backend *br__default_backend(void)
{
    return br__thread.backend ? br__thread.backend : &br__cpu_backend;
}
static inline bool br__is_on_host(const br_tensor *t)
{
    return br__backend_of(t) == &br__cpu_backend;
}
static inline br_tensor *br__new_on_host(const char *op, int ndim, const int64_t *sizes,
                                         br_dtype dtype)
{
    return br__new_at(op, &br__cpu_backend, ndim, sizes, dtype);
}
/* The same with all elements 0. */
br_tensor *br__zeros_on_host(const char *op, int ndim, const int64_t *sizes, br_dtype dtype);
/* Returns the backend of a device, or NULL with an error if there is none. */
const br_backend *br__find_backend(const char *op, br_device device);
/* Returns t, whose strides may be any, if it is in the host's memory; else a contiguous copy there,
 * in the innermost scope. NULL stays NULL. The copy is not recorded for autograd. */
br_tensor *br__on_host(const char *op, const br_tensor *t);
/* Returns a copy, on another device, of a contiguous tensor that was just made in the host's
 * memory, or t itself if that is the device. NULL stays NULL. The copy is not recorded. */
br_tensor *br__placed(const char *op, const br_backend *backend, br_tensor *t);
/* Same as br__copy(), but dst and src may be on different devices. Returns false with an error if
 * memory runs out. */
bool br__transfer(const char *op, const br_tensor *dst, const br_tensor *src);
/* Copies the element that is `offset` elements after t's first one in memory to `element`. Returns
 * false with an error if the device fails. */
bool br__read_element(const br_tensor *t, int64_t offset, void *element);

#endif
