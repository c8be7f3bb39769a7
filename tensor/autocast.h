/* tensor/autocast.h - a thread's regions of mixed precision. */
#ifndef BR_TENSOR_AUTOCAST_H
#define BR_TENSOR_AUTOCAST_H

#include "tensor/dtype.h"

#include <brasa/tensor.h>

/* A parameter and its copy in a region's dtype, which is valid as long as the parameter has this
 * version. Both are retained. */
typedef struct br_cached_cast {
    br_tensor *of, *copy;
    uint64_t version;
} br_cached_cast;

struct br_autocast {
    br_autocast *outer;
    br_scope *scope; /* in which the region began, or NULL */
    br_dtype dtype;
    /* In the outermost region, the copies of all regions. */
    br_cached_cast *casts;
    int64_t count, capacity;
};

/* Returns whether a region converts operands: not one of f32. */
static inline bool br__casts(const br_autocast *cast)
{
    return cast && br__is_stored(cast->dtype);
}

/* Ends the regions that began in this scope, which is ending. */
void br__autocast_leave(const br_scope *scope);

#endif
