/* autograd/hook_list.c - lists of hooks. */
#include "autograd/hook_list.h"

#include "tensor/tensor_internal.h"

static atomic_uint_fast64_t newest;

uint64_t br__hook_append(br_hook_link **list, br_hook_link *hook)
{
    hook->next = NULL;
    hook->handle = atomic_fetch_add(&newest, 1) + 1;
    while (*list)
        list = &(*list)->next;
    *list = hook;
    return hook->handle;
}

void br__hook_remove(br_hook_link **list, uint64_t handle)
{
    while (*list && (*list)->handle != handle)
        list = &(*list)->next;
    if (!*list)
        return;
    br_hook_link *gone = *list;
    *list = gone->next;
    br_free(gone);
}

void br__hooks_free(br_hook_link **list)
{
    while (*list) {
        br_hook_link *gone = *list;
        *list = gone->next;
        br_free(gone);
    }
}

uint64_t br__hook_newest(void)
{
    return atomic_load(&newest);
}

br_hook_link *br__hook_after(br_hook_link *list, uint64_t last, uint64_t newest_handle)
{
    while (list && list->handle <= last)
        list = list->next;
    return list && list->handle <= newest_handle ? list : NULL;
}
