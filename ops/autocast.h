/* ops/autocast.h - conversion of operands in a region of mixed precision. */
#ifndef BR_OPS_AUTOCAST_H
#define BR_OPS_AUTOCAST_H

#include "ops/ops_internal.h"
#include "tensor/autocast.h"

/* At the beginning of an operation: in a region, returns `call`, the same operation of converted
 * operands, which runs outside of the region. LOWER(t) is t in the region's dtype, and RAISE(t) is
 * t in f32. */
#define BR_AUTOCAST(call)                                      \
    if (__builtin_expect(br__casts(br__thread.autocast), 0)) { \
        br_autocast *const cast = br__thread.autocast;         \
        br_scope *scope = br_scope_begin();                    \
        br__thread.autocast = NULL;                            \
        br_tensor *y = call;                                   \
        br__thread.autocast = cast;                            \
        return br__composed(scope, y);                         \
    }
#define LOWER(t) br__lowered(cast, (t))
#define RAISE(t) br__raised(t)

/* Return t converted, or t itself: NULL, f64, integers and bool stay as they are. */
br_tensor *br__lowered(br_autocast *cast, br_tensor *t);
br_tensor *br__raised(br_tensor *t);

#endif
