/* ops/autocast.c - conversion of operands in a region of mixed precision, and the copies of
 * parameters that a region keeps. */
#include "ops/autocast.h"
#include "autograd/tape.h"

/* Returns whether a region converts tensors of the dtype: floats that f32 includes. */
static bool is_eligible(const br_tensor *t)
{
    return t && t->mark == BR_MARK_LIVE && !br__failed() && br__is_floating(t->dtype) &&
           br__is_narrow(t->dtype);
}

static br_autocast *outermost(br_autocast *cast)
{
    while (cast->outer)
        cast = cast->outer;
    return cast;
}

/* Returns the copy of t in the dtype, or NULL. A copy that was made without a gradient is of no use
 * where gradients are recorded. */
static br_cached_cast *find(const br_autocast *region, const br_tensor *t, br_dtype dtype)
{
    for (int64_t i = 0; i < region->count; i++) {
        br_cached_cast *c = &region->casts[i];
        if (c->of == t && c->copy->dtype == dtype)
            return c;
    }
    return NULL;
}

static bool is_valid(const br_cached_cast *c)
{
    return c->version == br_tensor_version(c->of) &&
           (br_requires_grad(c->copy) || !br_grad_enabled());
}

static void keep(br_autocast *region, br_tensor *t, br_tensor *copy)
{
    br_cached_cast *casts =
        br__grow(region->casts, &region->capacity, region->count, sizeof *casts);
    if (!casts)
        return;
    region->casts = casts;
    casts[region->count++] =
        (br_cached_cast){ br_retain(t), br_retain(copy), br_tensor_version(t) };
}

/* Parameters are converted once in a region: leaves that require a gradient, and are no views. */
br_tensor *br__lowered(br_autocast *cast, br_tensor *t)
{
    if (!is_eligible(t) || t->dtype == cast->dtype)
        return t;
    if (br__is_stored(t->dtype) || !br_requires_grad(t) || !br_is_leaf(t) || t->is_view)
        return br_to(t, cast->dtype);
    br_autocast *region = outermost(cast);
    br_cached_cast *kept = find(region, t, cast->dtype);
    if (kept && is_valid(kept))
        return kept->copy;
    br_tensor *copy = br_to(t, cast->dtype);
    if (kept && copy) {
        br_release(kept->copy);
        kept->copy = br_retain(copy);
        kept->version = br_tensor_version(t);
    } else if (copy) {
        keep(region, t, copy);
    }
    return copy;
}

br_tensor *br__raised(br_tensor *t)
{
    return is_eligible(t) ? br_to(t, BR_F32) : t;
}
