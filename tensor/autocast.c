/* tensor/autocast.c - regions of mixed precision: a stack for each thread. ops/autocast.c converts
 * the operands. */
#include "tensor/autocast.h"
#include "tensor/tensor_internal.h"

br_autocast *br_autocast_begin(br_dtype dtype)
{
    static const char op[] = "autocast_begin";
    if (br_failed())
        return NULL;
    if (!br__is_floating(dtype) || !br__is_narrow(dtype))
        return br_fail(BR_ERROR_DTYPE, op,
                       "dtype is %s, must be bf16, f16, or f32 to convert nothing",
                       br_dtype_name(dtype));
    br_autocast *cast = BR_NEW(br_autocast);
    if (!cast)
        return NULL;
    cast->outer = br__thread.autocast;
    cast->scope = br__thread.scope;
    cast->dtype = dtype;
    br__thread.autocast = cast;
    return cast;
}

/* Ends the innermost region. */
static void end_innermost(void)
{
    br_autocast *cast = br__thread.autocast;
    br__thread.autocast = cast->outer;
    for (int64_t i = 0; i < cast->count; i++) {
        br_release(cast->casts[i].of);
        br_release(cast->casts[i].copy);
    }
    br_free(cast->casts);
    BR_FREE(cast);
}

bool br_autocast_end(br_autocast *cast)
{
    static const char op[] = "autocast_end";
    if (!cast)
        return true;
    if (cast != br__thread.autocast) {
        if (br__is_live(op, "cast", BR_HANDLE_autocast, cast))
            br_fail(BR_ERROR_STATE, op,
                    "cast is not the innermost region of this thread: end regions in the thread "
                    "that began them, the last one first");
        return false;
    }
    if (!BR_END(op, cast))
        return false;
    end_innermost();
    return true;
}

void br__autocast_leave(const br_scope *scope)
{
    while (br__thread.autocast && br__thread.autocast->scope == scope &&
           BR_END("scope_end", br__thread.autocast))
        end_innermost();
}

br_dtype br_autocast_dtype(void)
{
    return br__thread.autocast ? br__thread.autocast->dtype : BR_F32;
}
