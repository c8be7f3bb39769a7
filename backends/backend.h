/* backends/backend.h - the seam between the library and a device.
 *
 * An operation checks its arguments, makes its results, describes the work, calls an entry of the
 * backend, and records itself on the tape. Only the backend reads and writes elements, and only it
 * divides work among threads. Operands are tensors or windows of tensors (tensor/window.h), whose
 * memory only the backend interprets. Entries do not check their arguments, do not fail unless
 * their comment says so, and do not report to the profile. */
#ifndef BR_BACKEND_H
#define BR_BACKEND_H

#include "backends/pointwise.h"

#include <brasa/tensor.h>

/* What a device can do. An entry that is NULL means "not on this device". */
typedef struct br_backend {
    const char *name; /* "cpu" */

    /* Whether `pointwise` has a kernel for the dtype. */
    bool (*has_pointwise)(br_pointwise kernel, br_dtype dtype);
    /* Computes operand 0 from the others, 1 to 3 of them, which broadcast to its shape. The dtype
     * of the last operand chooses the kernel. An operand without a storage is one number in the
     * host's memory. `params` belongs to the kernel. */
    bool (*pointwise)(br_pointwise kernel, int n, const br_tensor *const *operands,
                      const void *params);
    /* Copies src, which broadcasts to dst, into dst and converts the dtype. Reports to the profile.
     */
    void (*copy)(const br_tensor *dst, const br_tensor *src);
} br_backend;

/* The host's processor and memory. */
extern const br_backend br__cpu_backend;

/* ---- Work ------------------------------------------------------------------------------------ */

/* These call the backend of operand 0 or of dst. */

bool br__pointwise(br_pointwise kernel, int n, const br_tensor *const *operands,
                   const void *params);
void br__copy(const br_tensor *dst, const br_tensor *src);

#endif
