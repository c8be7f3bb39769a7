/* metrics/checks.h - checks of arguments that are classes. */
#ifndef BR_METRICS_CHECKS_H
#define BR_METRICS_CHECKS_H

#include "ops/ops_internal.h"
#include "tensor/host.h"

#include <brasa/metrics.h>

/* Returns true if t is a tensor of integers. Otherwise records an error and returns false. */
static inline bool br__required_classes(const char *op, const char *name, const br_tensor *t)
{
    if (!br__required(op, name, t))
        return false;
    if (t->dtype != BR_BOOL && !br_is_floating(t) && t->dtype != BR_QUANTIZED)
        return true;
    br_fail(BR_ERROR_DTYPE, op, "%s is %s, must be integers", name, br_dtype_name(t->dtype));
    return false;
}

#endif
