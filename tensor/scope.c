/* tensor/scope.c - scopes: marks on the thread's stack of tensors.
 *
 * A thread's tensors are on one stack in the order of their creation, except those moved by
 * br_scope_return(). A scope is the part from its mark to the next scope's mark, so opening,
 * closing and returning need no allocation. */
#include "tensor/autocast.h"
#include "tensor/tensor_internal.h"

_Thread_local br_thread br__thread;

/* Ended scopes are a queue: the scope that ended first is reused first, and the queue has several
 * from the beginning, so a stale pointer is unlikely to point to an open scope. */
static inline void add_spare(br_scope *scope)
{
    br_thread *th = &br__thread;
    if (th->newest_spare)
        th->newest_spare->outer = scope;
    else
        th->spare = scope;
    th->newest_spare = scope;
}

/* Makes a scope when the thread has no spare one, as always in the debug mode, or only one. */
static __attribute__((noinline, cold)) br_scope *new_scope(void)
{
    enum { SPARE = 16 };
    br__list_thread(); /* so that the scopes are freed when the thread ends */
    for (int i = br__debug || br__thread.spare ? SPARE : 0; i < SPARE; i++) {
        br_scope *spare = br__object_alloc(sizeof *spare);
        if (!spare)
            return NULL;
        add_spare(spare);
    }
    br_scope *scope = br__object_alloc(sizeof *scope);
    if (scope && br__debug)
        br__debug_register(BR_HANDLE_scope, scope, NULL);
    return scope;
}

br_scope *br__scope_begin_for(const void *owner)
{
    br_thread *th = &br__thread;
    br_scope *scope = th->spare;
    if (scope == th->newest_spare)
        scope = new_scope();
    else
        th->spare = scope->outer;
    if (!scope)
        return NULL;
    scope->outer = th->scope;
    scope->start = th->top;
    scope->serial = ++th->n_scopes;
    scope->owner = owner;
    scope->prev_grad_mode = !th->no_grad;
    scope->event = owner && BR_PROFILING ? br__thread.events->module(owner) : 0;
    th->scope = scope;
    return scope;
}

br_scope *br_scope_begin(void)
{
    return br__scope_begin_for(NULL);
}

/* Frees the tensors from index `start` on. Freeing one may run code that uses the stack, so each is
 * popped before it is freed. */
static inline void pop_to(size_t start)
{
    br_thread *th = &br__thread;
    while (th->top > start) {
        br_tensor *t = th->stack[--th->top];
        if (!t) /* taken by br__take() */
            continue;
        t->slot = BR_NO_SLOT;
        br__release_of_scope(t);
    }
}

static bool is_open(const br_scope *scope)
{
    for (const br_scope *s = br__thread.scope; s; s = s->outer)
        if (s == scope)
            return true;
    return false;
}

/* Closes the innermost scope, whose tensors were freed, and keeps it for reuse. In the debug mode
 * it is not reused, since a stale pointer must not close another scope. */
static inline void close_innermost(void)
{
    br_thread *th = &br__thread;
    br_scope *scope = th->scope;
    if (__builtin_expect(th->autocast != NULL, 0))
        br__autocast_leave(scope);
    th->scope = scope->outer;
    th->no_grad = !scope->prev_grad_mode;
    br__event_cleanup(&scope->event);
    if (__builtin_expect(br__debug, 0)) {
        if (br__debug_end("scope_end", "scope", BR_HANDLE_scope, scope))
            br__debug_quarantine(scope, sizeof *scope);
        return;
    }
    add_spare(scope);
}

/* Sets an error if a module's scope is among those inside `scope`: br_leave() was forgotten. After
 * an error, forward functions may return early. */
static void check_left(const br_scope *scope)
{
    char path[256];
    for (const br_scope *s = br__thread.scope; s != scope && !br__failed(); s = s->outer)
        if (s->owner) {
            br__current_module_path(path, sizeof path);
            br_fail(BR_ERROR_STATE, "scope_end",
                    "the forward of %s%s%s was entered by br_enter(), but not left by br_leave()",
                    br__owner_class ? br__owner_class(s->owner) : "a module", path[0] ? " " : "",
                    path);
        }
}

/* Records the error about a scope that is not open in this thread. Its memory may have been freed,
 * so only the debug mode can tell why. */
static __attribute__((noinline, cold)) void refuse_closed(const char *op, const br_scope *scope)
{
    if (!br__debug)
        br_fail(BR_ERROR_STATE, op,
                "scope has already ended, or was opened by another thread; " BR_SEE_DEBUG);
    else if (br__debug_is_live(op, "scope", BR_HANDLE_scope, scope))
        br_fail(BR_ERROR_STATE, op,
                "scope is open in another thread: end it in the thread that opened it");
}

/* Ends a scope that is not the innermost one, with those inside it. */
static __attribute__((noinline, cold)) void end_outer(br_scope *scope)
{
    if (!scope)
        return;
    if (!is_open(scope)) {
        refuse_closed("scope_end", scope);
        return;
    }
    check_left(scope);
    pop_to(scope->start);
    while (br__thread.scope != scope)
        close_innermost();
    close_innermost();
}

br_scope *br_scope_current(void)
{
    return br__thread.scope;
}

void br_scope_end(br_scope *scope)
{
    if (!scope || scope != br__thread.scope) {
        end_outer(scope);
        return;
    }
    pop_to(scope->start);
    close_innermost();
}

void br__scope_free_from(br_scope *scope, size_t start)
{
    if (!is_open(scope))
        return;
    while (br__thread.scope != scope)
        br_scope_end(br__thread.scope);
    pop_to(start);
}

br_tensor *br_scope_return(br_scope *scope, br_tensor *t)
{
    br_thread *th = &br__thread;
    if (!scope)
        scope = th->scope;
    else if (!is_open(scope)) {
        refuse_closed("scope_return", scope);
        return NULL;
    }
    if (!BR_LIVE_ANY("scope_return", t))
        return NULL;
    if (!scope)
        return t;
    /* Moves t out of its own scope, then out of each enclosing scope up to and including `scope`.
     * Adjacent scopes share a boundary: t leaves a scope by swapping places with the scope's first
     * tensor and moving the scope's mark up by one. */
    for (br_scope *s = th->scope; s != scope->outer; s = s->outer) {
        size_t slot = t->slot, first = s->start;
        if (slot < first)
            continue;
        if (slot >= th->top || th->stack[slot] != t)
            return t;
        br_tensor *other = th->stack[first];
        th->stack[slot] = other;
        if (other)
            other->slot = (uint32_t)slot;
        th->stack[first] = t;
        t->slot = (uint32_t)first;
        s->start = first + 1;
    }
    return t;
}

br_tensor *br__take(br_tensor *t)
{
    br_thread *th = &br__thread;
    if (!t || !th->scope || t->slot < th->scope->start || t->slot >= th->top ||
        th->stack[t->slot] != t)
        return br_retain(t);
    if (t->slot == th->top - 1)
        th->top--;
    else
        th->stack[t->slot] = NULL;
    t->slot = BR_NO_SLOT;
    return t;
}

br_tensor *br__take_over(br_tensor *t)
{
    br_thread *th = &br__thread;
    if (!t || t->slot >= th->top || th->stack[t->slot] != t)
        return br_retain(t);
    th->stack[t->slot] = NULL;
    t->slot = BR_NO_SLOT;
    size_t bottom = th->scope ? th->scope->start : 0;
    while (th->top > bottom && !th->stack[th->top - 1])
        th->top--;
    return t;
}

bool br__may_overwrite(const br_scope *scope, const br_tensor *t)
{
    const br_thread *th = &br__thread;
    return t && scope && th->no_grad && !t->meta && !t->is_view && t->slot >= scope->start &&
           t->slot < th->top && th->stack[t->slot] == t && br__is_exclusive(t);
}

bool br_may_overwrite(const br_tensor *t)
{
    return BR_LIVE_ANY("may_overwrite", t) && br__may_overwrite(br__thread.scope, t);
}

br_tensor *br_scope_replace(br_tensor *t, br_tensor *by)
{
    if (by && !BR_LIVE_ANY("scope_replace", by))
        return NULL;
    if (t != by)
        br_release(br__take(t));
    return by;
}

bool br__scope_add(br_tensor *t)
{
    br_thread *th = &br__thread;
    if (th->top == th->capacity) {
        size_t capacity = th->capacity ? 2 * th->capacity : 256;
        br__list_thread(); /* so that the stack is freed when the thread ends */
        br_tensor **stack =
            br__realloc(th->stack, th->capacity * sizeof *stack, capacity * sizeof *stack);
        if (!stack)
            return false;
        th->stack = stack;
        th->capacity = capacity;
    }
    t->slot = (uint32_t)th->top;
    th->stack[th->top++] = t;
    return true;
}

void br_thread_cleanup(void)
{
    br_thread *th = &br__thread;
    while (th->scope)
        br_scope_end(th->scope);
    pop_to(0);
    for (br_scope *s = th->spare, *next; s; s = next) {
        next = s == th->newest_spare ? NULL : s->outer;
        br__object_free(s, sizeof *s);
    }
    br_free(th->stack);
    *th = (br_thread){ .cold_data = th->cold_data,
                       .generator = th->generator,
                       .error = th->error,
                       .backend = th->backend };
    br__objects_flush();
}
