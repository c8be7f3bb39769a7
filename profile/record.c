/* profile/record.c - records a profile: its lifetime, its events, and its texts.
 *
 * Events are in chunks that never move, in the order of their starts; the open events are linked by
 * their parents. The number that callers get for an event combines the profile's serial number with
 * the event's index + 1. So events of other profiles, and events that have ended, are
 * recognized. */
#include "nn/nn_internal.h"
#include "profile/profile_internal.h"
#include "tensor/min_max.h"

#include <string.h>
#include <time.h>
#include <xxhash.h>

static atomic_uint serials;
static _Thread_local br_profile *running; /* the thread's running profile, or NULL */

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* Returns the slot of the text, or the free slot for it. */
static uint32_t *slot_of(const br_profile *p, const char *text)
{
    uint64_t i = XXH3_64bits(text, strlen(text));
    for (;; i++) {
        uint32_t *slot = &p->slots[i & (uint64_t)(p->n_slots - 1)];
        if (*slot == 0 || strcmp(p->labels[*slot - 1].text, text) == 0)
            return slot;
    }
}

/* Keeps the table at most half full. */
static bool widen_table(br_profile *p)
{
    if (2 * (p->n_labels + 1) <= p->n_slots)
        return true;
    int64_t wider = p->n_slots ? 2 * p->n_slots : 64;
    uint32_t *slots = br_calloc((size_t)wider, sizeof *slots);
    if (!slots)
        return false;
    br_free(p->slots);
    p->slots = slots;
    p->n_slots = wider;
    for (int64_t i = 0; i < p->n_labels; i++)
        *slot_of(p, p->labels[i].text) = (uint32_t)i + 1;
    return true;
}

/* Returns the text's index, or -1 and an error if there is no memory for it. */
static int64_t label(br_profile *p, const char *text)
{
    if (!widen_table(p))
        return -1;
    uint32_t *slot = slot_of(p, text);
    if (*slot)
        return (int64_t)*slot - 1;
    br_label *labels = br__grow(p->labels, &p->label_capacity, p->n_labels, sizeof *labels);
    if (!labels)
        return -1;
    p->labels = labels;
    char *copy = br_strdup(text);
    if (!copy)
        return -1;
    labels[p->n_labels] = (br_label){ copy, -1 };
    *slot = (uint32_t)++p->n_labels;
    return p->n_labels - 1;
}

/* Returns the label of a module, and creates those of the enclosing modules. */
static int64_t module_label(br_profile *p, const br_module_state *state)
{
    char text[512];
    const br_module_state *root = state;
    while (root->parent)
        root = root->parent;
    int n = snprintf(text, sizeof text, "%s%s", root->class_name, state->parent ? "." : "");
    if (n > 0 && (size_t)n < sizeof text)
        br_module_path(state->module, text + n, sizeof text - (size_t)n);
    int64_t above = -1;
    for (char *end = text; *end; *end = '.', end++) {
        end = strchrnul(end, '.');
        bool last = *end == '\0';
        *end = '\0';
        int64_t module = label(p, text);
        if (module < 0)
            return -1;
        p->labels[module].parent = above;
        above = module;
        if (last)
            break;
    }
    return above;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static uint64_t number_of(const br_profile *p, int64_t i)
{
    return (uint64_t)p->serial << 32 | (uint64_t)(i + 1);
}

/* Makes room for one more event. */
static bool reserve(br_profile *p)
{
    if (p->count < p->n_chunks * BR_EVENT_CHUNK)
        return true;
    if (p->count == UINT32_MAX - 1) {
        br_fail(BR_ERROR_MEMORY, "profile",
                "the profile is full: it must have fewer than 2^32 events");
        return false;
    }
    br_event **chunks = br__grow(p->chunks, &p->chunk_capacity, p->n_chunks, sizeof *chunks);
    if (!chunks)
        return false;
    p->chunks = chunks;
    chunks[p->n_chunks] = br_malloc(BR_EVENT_CHUNK * sizeof **chunks);
    if (!chunks[p->n_chunks])
        return false;
    p->n_chunks++;
    return true;
}

/* Begins an event inside the open one, with the same module and phase. Returns NULL and records an
 * error if memory runs out; no further events are recorded then. */
static br_event *begin(br_profile *p, br_profile_kind kind, const char *name)
{
    if (p->incomplete)
        return NULL;
    if (!name || !reserve(p)) {
        p->incomplete = true;
        return NULL;
    }
    int64_t parent = p->innermost;
    p->innermost = p->count++;
    br_event *e = br__event_of(p, p->innermost), *outer = br__event_of(p, br__max(parent, 0));
    e->module = parent < 0 ? 0 : outer->module;
    e->seen = (br_profile_event){ .name = name,
                                  .module = p->labels[e->module].text,
                                  .kind = kind,
                                  .phase = parent < 0 ? BR_PROFILE_FORWARD : outer->seen.phase,
                                  .parent = parent,
                                  .duration = -1,
                                  .ndim = -1 };
    e->seen.start = now() - p->began; /* last, to exclude the time of the code above */
    return e;
}

static uint64_t begin_in_phase(br_profile_kind kind, br_profile_phase phase, const char *name)
{
    br_profile *p = running;
    br_event *e = begin(p, kind, name);
    if (!e)
        return 0;
    e->seen.phase = phase;
    return number_of(p, p->innermost);
}

/* Ends the innermost event. */
static void end_innermost(br_profile *p, int64_t time)
{
    br_profile_event *e = &br__event_of(p, p->innermost)->seen;
    e->duration = time - e->start;
    p->innermost = e->parent;
    if (e->parent >= 0)
        br__event_of(p, e->parent)->seen.inner += e->duration;
}

static br_profile_event *innermost(void)
{
    const br_profile *p = running;
    return &br__event_of(p, p->innermost)->seen;
}

/* ---- Functions for the layers below, called while a profile is running ----------------------- */

static uint64_t event_op(const char *name)
{
    br_profile *p = running;
    return begin(p, BR_PROFILE_OP, name) ? number_of(p, p->innermost) : 0;
}

static uint64_t event_optimizer(const char *name)
{
    return begin_in_phase(BR_PROFILE_OP, BR_PROFILE_OPTIMIZER, name);
}

static uint64_t event_backward(void)
{
    return begin_in_phase(BR_PROFILE_RANGE, BR_PROFILE_BACKWARD, "backward");
}

static void set_module(br_profile *p, br_event *e, uint32_t module)
{
    e->module = module;
    e->seen.module = p->labels[module].text;
}

static uint64_t event_module(const void *owner)
{
    br_profile *p = running;
    const br_module_state *state = owner;
    int64_t module = p->incomplete ? -1 : module_label(p, state);
    int64_t name = module < 0 ? -1 : label(p, state->class_name);
    br_event *e = begin(p, BR_PROFILE_MODULE, name < 0 ? NULL : p->labels[name].text);
    if (!e)
        return 0;
    set_module(p, e, (uint32_t)module);
    return number_of(p, p->innermost);
}

static uint64_t event_gradient(const char *name, uint64_t place, int ndim, const int64_t *sizes)
{
    br_profile *p = running;
    br_event *e = begin(p, BR_PROFILE_OP, name);
    if (!e)
        return 0;
    e->seen.phase = BR_PROFILE_BACKWARD;
    if (place >> 32 == p->serial)
        set_module(p, e, (uint32_t)place);
    e->seen.ndim = ndim;
    memcpy(e->seen.sizes, sizes, (size_t)ndim * sizeof *sizes);
    return number_of(p, p->innermost);
}

static void event_end(uint64_t event)
{
    br_profile *p = running;
    if (!p || event >> 32 != p->serial)
        return;
    int64_t i = (int64_t)(event & UINT32_MAX) - 1, time = now() - p->began;
    if (br__event_of(p, i)->seen.duration >= 0)
        return;
    while (p->innermost != i)
        end_innermost(p, time);
    end_innermost(p, time);
}

static uint64_t event_location(void)
{
    const br_profile *p = running;
    return (uint64_t)p->serial << 32 | br__event_of(p, p->innermost)->module;
}

static void event_result(const br_tensor *t)
{
    br_profile_event *e = innermost();
    if (e->kind != BR_PROFILE_OP || !t)
        return;
    e->ndim = t->ndim;
    memcpy(e->sizes, t->sizes, (size_t)t->ndim * sizeof *t->sizes);
}

static void event_created(const br_tensor *t)
{
    if (innermost()->ndim < 0)
        event_result(t);
}

static void event_work(int64_t flops, int64_t bytes)
{
    br_profile_event *e = innermost();
    e->flops += flops;
    e->bytes += bytes;
}

static void event_traffic(int n, const br_tensor *const *operands)
{
    for (int i = 0; i < n; i++) {
        const br_tensor *t = operands[i];
        int64_t bytes = t ? (int64_t)br_dtype_size(t->dtype) : 0;
        if (t && br__is_quantized(t))
            innermost()->bytes += (int64_t)br__tensor_bytes(t);
        for (int d = 0; t && d < t->ndim; d++)
            bytes *= t->strides[d] == 0 && t->sizes[d] > 0 ? 1 : t->sizes[d];
        innermost()->bytes += bytes;
    }
}

static const br_event_functions functions = { event_op,       event_optimizer, event_backward,
                                              event_module,   event_gradient,  event_end,
                                              event_location, event_result,    event_created,
                                              event_work,     event_traffic };

/* Sets the profile that runs in this thread, or none. */
static void set_running(br_profile *p)
{
    running = p;
    br__thread.events = p ? &functions : NULL;
}

/* ---- Lifetime -------------------------------------------------------------------------------- */

br_profile *br_profile_begin(void)
{
    if (br_failed())
        return NULL;
    if (running)
        return br_fail(BR_ERROR_STATE, "profile_begin",
                       "a profile is already running in this thread");
    br_profile *p = BR_NEW(br_profile);
    if (!p)
        return NULL;
    p->serial = atomic_fetch_add(&serials, 1) + 1;
    p->running = true;
    p->innermost = -1;
    p->began = now();
    if (label(p, "") < 0 || !begin(p, BR_PROFILE_RANGE, "profile")) {
        br_profile_free(p);
        return NULL;
    }
    set_running(p);
    return p;
}

/* Same as br__required(), but also while an error is pending: a profile can be ended then. */
static bool is_profile(const char *op, const br_profile *profile)
{
    if (!profile)
        br_fail(BR_ERROR_ARGUMENT, op, "profile is NULL, but it is required");
    return BR_LIVE(op, profile);
}

static bool runs_here(const char *op, const br_profile *p)
{
    if (!is_profile(op, p))
        return false;
    if (running != p)
        br_fail(BR_ERROR_STATE, op, "the profile is not running in this thread");
    return running == p;
}

bool br_profile_pause(br_profile *profile)
{
    if (!runs_here("profile_pause", profile))
        return false;
    profile->paused = now();
    set_running(NULL);
    return true;
}

/* Resumes the clock where it stopped. */
static void go_on(br_profile *p)
{
    p->began += now() - p->paused;
    p->paused = 0;
    set_running(p);
}

bool br_profile_resume(br_profile *profile)
{
    if (!is_profile("profile_resume", profile))
        return false;
    if (profile->paused && !running) {
        go_on(profile);
        return true;
    }
    br_fail(BR_ERROR_STATE, "profile_resume",
            profile->paused ? "a profile is already running in this thread"
                            : "the profile is not paused");
    return false;
}

bool br_profile_end(br_profile *profile)
{
    br_profile *p = profile;
    if (!is_profile("profile_end", p))
        return false;
    if (p->paused && !running)
        go_on(p);
    if (!runs_here("profile_end", p))
        return false;
    int64_t time = now() - p->began;
    while (p->innermost >= 0)
        end_innermost(p, time);
    p->running = false;
    set_running(NULL);
    return !br_failed() && br__profile_readable("profile_end", p);
}

void br_profile_free(br_profile *profile)
{
    if (!BR_END("profile_free", profile))
        return;
    if (running == profile)
        set_running(NULL);
    for (int64_t i = 0; i < profile->n_chunks; i++)
        br_free(profile->chunks[i]);
    for (int64_t i = 0; i < profile->n_labels; i++)
        br_free(profile->labels[i].text);
    br_free(profile->chunks);
    br_free(profile->spans);
    br_free(profile->labels);
    br_free(profile->slots);
    BR_FREE(profile);
}

uint64_t br_profile_range_begin(const char *name)
{
    br_profile *p = running;
    if (!p || p->incomplete)
        return 0;
    int64_t copy = label(p, name ? name : "");
    return begin(p, BR_PROFILE_RANGE, copy < 0 ? NULL : p->labels[copy].text)
               ? number_of(p, p->innermost)
               : 0;
}

void br_profile_range_end(uint64_t range)
{
    br__event_cleanup(&range);
}

void br_profile_add_span(const char *track, const char *name, int64_t begin, int64_t end)
{
    br_profile *p = running;
    if (!p || p->incomplete)
        return;
    br_span *spans = br__grow(p->spans, &p->span_capacity, p->n_spans, sizeof *spans);
    if (spans)
        p->spans = spans;
    br_span span = { .track = spans ? label(p, track ? track : "") : -1,
                     .name = spans ? label(p, name ? name : "") : -1,
                     .start = begin - p->began,
                     .duration = end - begin };
    p->incomplete = span.track < 0 || span.name < 0;
    if (!p->incomplete)
        p->spans[p->n_spans++] = span;
}

/* ---- Reading --------------------------------------------------------------------------------- */

bool br__profile_readable(const char *op, const br_profile *profile)
{
    if (!br__required(op, "profile", profile))
        return false;
    if (profile->running)
        br_fail(BR_ERROR_STATE, op, "the profile is still running: call br_profile_end() first");
    else if (profile->incomplete)
        br_fail(BR_ERROR_MEMORY, op, "memory ran out after %lld events: later ones are missing",
                (long long)profile->count);
    return !br_failed();
}

int64_t br_profile_count(const br_profile *profile)
{
    return br__profile_readable("profile_count", profile) ? profile->count : -1;
}

const br_profile_event *br_profile_event_at(const br_profile *profile, int64_t i)
{
    if (!br__profile_readable("profile_event_at", profile))
        return NULL;
    if (i < 0 || i >= profile->count)
        return br_fail(BR_ERROR_INDEX, "profile_event_at",
                       "i is %lld, must be in 0 .. %lld: the profile has %lld events", (long long)i,
                       (long long)profile->count - 1, (long long)profile->count);
    return &br__event_of(profile, i)->seen;
}
