/* nn/taps.c - taps, which record named tensors inside a forward pass.
 *
 * The recorders of a thread form a stack; the innermost one records. */
#include "autograd/tape.h"
#include "nn/nn_internal.h"

#include <inttypes.h>

struct br_recorder {
    br_recorder *outer;
    br_named_list *list; /* holds references to its tensors */
};

/* The thread's innermost recorder, or NULL. */
static _Thread_local br_recorder *innermost;

bool br_recorder_is_open(void)
{
    return innermost != NULL;
}

br_recorder *br_recorder_begin(void)
{
    if (br_failed())
        return NULL;
    br_named_list *list = br__named_list_new(true);
    br_recorder *recorder = list ? BR_NEW(br_recorder) : NULL;
    if (!recorder) {
        br_named_list_free(list);
        return NULL;
    }
    *recorder = (br_recorder){ innermost, list };
    innermost = recorder;
    return recorder;
}

void br_recorder_end(br_recorder *recorder)
{
    if (!BR_END("recorder_end", recorder))
        return;
    br_recorder *r = innermost;
    if (r == recorder)
        innermost = recorder->outer;
    for (; r; r = r->outer)
        if (r->outer == recorder)
            r->outer = recorder->outer;
    br_named_list_free(recorder->list);
    BR_FREE(recorder);
}

/* Writes "module.path.name", with "#1", "#2", ... appended if the name is taken. */
static bool write_name(br__text *text, const br_named_list *list, const char *name)
{
    char path[512];
    const br_scope *scope = br__thread.scope;
    while (scope && !scope->owner)
        scope = scope->outer;
    br_module_path(scope ? ((const br_module_state *)scope->owner)->module : NULL, path,
                   sizeof path);
    if (!br__text_add(text, "%s%s%s", path, path[0] ? "." : "", name))
        return false;
    size_t length = text->length;
    for (int64_t n = 1; br__named_list_find(list, text->data, 0) >= 0; n++) {
        br__text_truncate(text, length);
        if (!br__text_add(text, "#%" PRId64, n))
            return false;
    }
    return true;
}

br_tensor *br_tap(const char *name, br_tensor *t)
{
    br_recorder *recorder = innermost;
    if (!recorder || br__tape.recomputing || !t || br_failed())
        return t;
    br__text text = { 0 };
    bool ok = write_name(&text, recorder->list, name ? name : "") &&
              br__named_list_add(recorder->list, text.data, t);
    br_free(text.data);
    return ok ? t : NULL;
}

br_tensor *br_tap_attention(br_tensor *query, br_tensor *key, br_tensor *weights, bool cross)
{
    br_tap("query", query);
    br_tap("key", key);
    return br_tap(cross ? "cross_attention" : "attention", weights);
}

int64_t br_recorder_count(const br_recorder *recorder)
{
    return BR_LIVE("recorder_count", recorder) ? recorder->list->count : 0;
}

static const br_named_tensor *item(const br_recorder *recorder, int64_t i)
{
    int64_t n = br_recorder_count(recorder);
    if (i >= 0 && i < n)
        return &recorder->list->items[i];
    return br_fail(BR_ERROR_INDEX, "recorder",
                   "index %" PRId64 " is out of range for %" PRId64 " taps", i, n);
}

const char *br_recorder_name(const br_recorder *recorder, int64_t i)
{
    const br_named_tensor *tap = item(recorder, i);
    return tap ? tap->name : NULL;
}

br_tensor *br_recorder_tensor(const br_recorder *recorder, int64_t i)
{
    const br_named_tensor *tap = item(recorder, i);
    return tap ? tap->tensor : NULL;
}

br_tensor *br_recorder_get(const br_recorder *recorder, const char *name)
{
    return BR_LIVE("recorder_get", recorder) ? br_named_list_get(recorder->list, name) : NULL;
}
