/* tensor/scope.c - scopes: marks on the thread's stack of tensors.
 *
 * A thread's tensors stand on one stack in the order they were made, but for those that were handed
 * out; a scope is the part from its mark to the next one's, so opening, closing and handing out
 * cost no allocation. */
#include "tensor/tensor_internal.h"

_Thread_local br_thread br__thread;

br_scope *br__scope_begin_for(const void *owner)
{
    br_thread *th = &br__thread;
    br_scope *scope = th->spare;
    if (scope)
        th->spare = scope->outer;
    else if (!(scope = br__object_alloc(sizeof *scope)))
        return NULL;
    scope->outer = th->scope;
    scope->start = th->top;
    scope->owner = owner;
    scope->grad_before = !th->no_grad;
    scope->event = owner && BR_PROFILING ? br__event_module(owner) : 0;
    th->scope = scope;
    return scope;
}

br_scope *br_scope_begin(void)
{
    return br__scope_begin_for(NULL);
}

/* Frees the tensors from `start` up. Freeing one may run code that looks at the stack, so each is
 * taken off before it goes. */
static void pop_to(size_t start)
{
    br_thread *th = &br__thread;
    while (th->top > start) {
        br_tensor *t = th->stack[--th->top];
        if (!t) /* taken */
            continue;
        t->slot = SIZE_MAX;
        br_release(t);
    }
}

static bool is_open(const br_scope *scope)
{
    for (const br_scope *s = br__thread.scope; s; s = s->outer)
        if (s == scope)
            return true;
    return false;
}

void br_scope_end(br_scope *scope)
{
    br_thread *th = &br__thread;
    if (!scope || !is_open(scope))
        return;
    pop_to(scope->start);
    br_scope *s;
    do {
        s = th->scope;
        th->scope = s->outer;
        th->no_grad = !s->grad_before;
        br__event_cleanup(&s->event);
        s->outer = th->spare;
        th->spare = s;
    } while (s != scope);
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
    if (!t || !scope || !is_open(scope))
        return t;
    /* Where one scope ends the next begins: t leaves a scope by trading places with its first
     * tensor and moving its mark up, from the scope it is in out to `scope`. */
    for (br_scope *s = th->scope; s != scope->outer; s = s->outer) {
        size_t slot = t->slot, first = s->start;
        if (slot < first)
            continue;
        if (slot >= th->top || th->stack[slot] != t)
            return t;
        br_tensor *other = th->stack[first];
        th->stack[slot] = other;
        if (other)
            other->slot = slot;
        th->stack[first] = t;
        t->slot = first;
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
    t->slot = SIZE_MAX;
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
    return br__may_overwrite(br__thread.scope, t);
}

br_tensor *br_scope_replace(br_tensor *t, br_tensor *by)
{
    if (t != by)
        br_release(br__take(t));
    return by;
}

/* Puts a new tensor on the stack of the innermost scope. */
bool br__own(br_tensor *t)
{
    br_thread *th = &br__thread;
    if (th->top == th->capacity) {
        size_t capacity = th->capacity ? 2 * th->capacity : 256;
        br_tensor **stack =
            br__realloc(th->stack, th->capacity * sizeof *stack, capacity * sizeof *stack);
        if (!stack)
            return false;
        th->stack = stack;
        th->capacity = capacity;
    }
    t->slot = th->top;
    th->stack[th->top++] = t;
    return true;
}

void br_thread_cleanup(void)
{
    br_thread *th = &br__thread;
    while (th->scope)
        br_scope_end(th->scope);
    pop_to(0);
    while (th->spare) {
        br_scope *s = th->spare;
        th->spare = s->outer;
        br__object_free(s, sizeof *s);
    }
    br_free(th->stack);
    *th = (br_thread){ .rare = th->rare, .generator = th->generator };
    br__objects_flush();
}
