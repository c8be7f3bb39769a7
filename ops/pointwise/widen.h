/* ops/pointwise/widen.h - conversions at the start and end of an operation: compositions that
 * compute in f32 for bf16 and f16, indices that are not i64, and operands that must be
 * floating-point. */
#ifndef BR_WIDEN_H
#define BR_WIDEN_H

#include "ops/ops_internal.h"

/* ---- Compositions of bf16 and f16 ------------------------------------------------------------ */

/* A composition of several operations would round each intermediate result to bf16 or f16. Instead,
 * it converts its operands once, and its result back:
 *
 *     br_scope *scope = br_scope_begin();
 *     const br_rounding rounding = BR_WIDEN(&x, &weight);
 *     return br__composed(scope, br__narrowed(rounding, br_mul(br_exp(x), weight)));
 *
 * The conversions are recorded, so that gradients are also rounded once. */
static inline bool br__is_half(const br_tensor *t)
{
    return t && br__is_stored(t->dtype) && br__is_floating(t->dtype);
}
typedef struct br_rounding {
    bool any;       /* operands were converted */
    br_dtype dtype; /* then the dtype of the result */
} br_rounding;

/* If the operands, which may be NULL, have the result type bf16 or f16, converts those of bf16 and
 * f16 to f32. */
#define BR_WIDEN(...)                                                            \
    br__widen_operands(sizeof((br_tensor **[]){ __VA_ARGS__ }) / sizeof(void *), \
                       (br_tensor * *[]){ __VA_ARGS__ })
br_rounding br__widen_operands(size_t n, br_tensor **const *operands);
/* Returns y in the result type of the operands that were converted, or y itself. */
br_tensor *br__narrowed(br_rounding rounding, br_tensor *y);

/* ---- Other dtypes of operands ---------------------------------------------------------------- */

/* Returns t, or its values in f32 if they are integers or bool: some functions of these have f32
 * results, as in PyTorch. */
br_tensor *br__as_floating(br_tensor *t);
/* Returns whether t is a live tensor of integers. */
static inline bool br__is_whole(const br_tensor *t)
{
    return t && t->mark == BR_MARK_LIVE && br__is_kind(t->dtype, BR_KIND_INTEGER) && !br__failed();
}
/* Fails if t is bool. */
bool br__is_number(const char *op, const char *name, const br_tensor *t);
/* Checks the device and dtype of a parameter of a norm of x: x's dtype, or the dtype in which x is
 * computed. */
bool br__fits_norm(const char *op, const br_tensor *x, const char *name, const br_tensor *t);
/* Returns true for an index that the operation must convert to i64 and then call itself: an i32,
 * or no elements of another integer dtype. These are the indices that PyTorch accepts. */
bool br__is_short_index(const br_tensor *index);

#endif
