/* tensor/handles.c - the objects of handles other than tensors and scopes, and the errors about
 * ended handles outside the debug mode. */
#include "tensor/tensor_internal.h"

#include <pthread.h>

/* ---- Messages -------------------------------------------------------------------------------- */

const char *br__kind_name(br_handle kind)
{
    static const char *const names[] = { "a handle",
#define BR_NAME(type, name, text) text,
                                         BR_HANDLES(BR_NAME)
#undef BR_NAME
    };
    return names[kind];
}

const char *br__how_ended(br_handle kind, bool by_scope)
{
    return by_scope                  ? "was freed when its scope ended"
           : kind == BR_HANDLE_scope ? "has already ended"
                                     : "was already freed";
}

/* Returns the shape and the dtype of an ended tensor with a space at the end, or "" if its memory
 * has been written to since. */
static const char *describe_ended(const br_tensor *t, char *text, size_t size)
{
    text[0] = '\0';
    if (t->ndim >= 0 && t->ndim <= BR_MAX_DIMS && br_dtype_size(t->dtype) > 0)
        snprintf(text, size, "%s (%s) ", br__shape(t), br_dtype_name(t->dtype));
    return text;
}

static void refuse_ended(const char *op, const char *name, br_handle kind, const void *object,
                         uint32_t mark)
{
    char what[96] = "";
    const bool by_scope = mark == BR_MARK_SCOPE_ENDED;
    if (kind == BR_HANDLE_tensor)
        describe_ended(object, what, sizeof what);
    br_fail(BR_ERROR_STATE, op, "%s is %s %sthat %s%s; " BR_SEE_DEBUG, name, br__kind_name(kind),
            what, br__how_ended(kind, by_scope), by_scope ? BR_HOW_TO_KEEP : "");
}

/* ---- Ended objects --------------------------------------------------------------------------- */

/* The latest ended objects, whose memory is not reused yet. */
enum { SET_ASIDE = 256 };
static struct {
    pthread_mutex_t lock;
    br_handle_mark *objects[SET_ASIDE]; /* a ring; NULL before it is full */
    size_t oldest;
} ended = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void set_aside(br_handle_mark *object)
{
    pthread_mutex_lock(&ended.lock);
    br_handle_mark *oldest = ended.objects[ended.oldest];
    ended.objects[ended.oldest] = object;
    ended.oldest = (ended.oldest + 1) % SET_ASIDE;
    pthread_mutex_unlock(&ended.lock);
    br_free(oldest);
}

static bool is_set_aside(const br_handle_mark *object)
{
    bool found = false;
    pthread_mutex_lock(&ended.lock);
    for (size_t i = 0; i < SET_ASIDE && !found; i++)
        found = ended.objects[i] == object;
    pthread_mutex_unlock(&ended.lock);
    return found;
}

void br__handles_flush(void)
{
    for (size_t i = 0; i < SET_ASIDE; i++)
        set_aside(NULL);
}

/* ---- Checks ---------------------------------------------------------------------------------- */

static __attribute__((cold)) bool refuse_quantized(const char *op, const char *name,
                                                   const br_tensor *t)
{
    br_fail(BR_ERROR_DTYPE, op,
            "%s %s is quantized (%s): only br_f_linear(), br_f_embedding() and "
            "br_linear_cross_entropy() take it, as their weight; br_to(x, BR_F32) converts it, and "
            "a model that is loaded with dtype f32 has no such weights",
            name, br__shape(t), br__block_info(t)->name);
    return false;
}

static bool is_live(const char *op, const char *name, br_handle kind, const void *object)
{
    if (br__debug)
        return br__debug_is_live(op, name, kind, object);
    /* A list is a public struct: a program may have made it itself, without a mark. */
    if (kind == BR_HANDLE_list && !is_set_aside(br__mark_of(object)))
        return true;
    const uint32_t mark =
        kind == BR_HANDLE_tensor ? ((const br_tensor *)object)->mark : br__mark_of(object)->mark;
    if (mark == BR_MARK_QUANTIZED && kind == BR_HANDLE_tensor)
        return true;
    if (mark == BR_MARK_REGISTERED) /* the debug mode has ended, since memory ran out */
        return true;
    if (mark == BR_MARK_FREED || mark == BR_MARK_SCOPE_ENDED)
        refuse_ended(op, name, kind, object, mark);
    else
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s must be %s, but it is something else, or was freed long ago; " BR_SEE_DEBUG,
                name, br__kind_name(kind));
    return false;
}

bool br__check_handle(const char *op, const char *name, br_handle kind, const void *object)
{
    if (!is_live(op, name, kind, object))
        return false;
    return kind != BR_HANDLE_tensor || !br__is_quantized(object) ||
           refuse_quantized(op, name, object);
}

bool br__check_any_tensor(const char *op, const char *name, const br_tensor *t)
{
    return is_live(op, name, BR_HANDLE_tensor, t);
}

/* ---- Creation and end ------------------------------------------------------------------------ */

void *br__handle_new(size_t size, br_handle kind, const char *name)
{
    br_handle_mark *mark = br_calloc(1, sizeof *mark + size);
    if (!mark)
        return NULL;
    *mark = (br_handle_mark){ .mark = br__debug ? BR_MARK_REGISTERED : BR_MARK_LIVE, .kind = kind };
    if (br__debug)
        br__debug_register(kind, mark + 1, name);
    return mark + 1;
}

bool br__handle_end(const char *op, const char *name, br_handle kind, void *object)
{
    const bool live = br__debug
                          ? br__debug_end(op, name, kind, object)
                          : br__is_marked(kind, object) || br__check_handle(op, name, kind, object);
    if (!live)
        return false;
    br__mark_of(object)->mark = BR_MARK_FREED;
    return true;
}

void br__handle_free(void *object, size_t size)
{
    memset(object, 0, size); /* code that reads it without a check sees zeros */
    if (br__debug)
        br__debug_quarantine(object, 0);
    else if (br__caches_objects())
        set_aside(br__mark_of(object));
    else
        br_free(br__mark_of(object));
}
