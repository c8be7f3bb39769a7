/* autograd/hook_list.h - lists of the hooks of tensors and modules, in ascending order of their
 * handles.
 *
 * Hooks may add and remove hooks, themselves included, and may free the list. So a loop over a list
 * keeps a handle instead of a pointer: it looks up the first hook after the handle `last`, and ends
 * at the hook that was the newest when the loop began. */
#ifndef BR_HOOK_LIST_H
#define BR_HOOK_LIST_H

#include <stdint.h>

typedef struct br_hook_link {
    struct br_hook_link *next;
    uint64_t handle; /* never reused */
} br_hook_link;

/* Appends the hook and returns its handle. */
uint64_t br__hook_append(br_hook_link **list, br_hook_link *hook);
/* Removes the hook and frees it; does nothing if the hook is not in the list. */
void br__hook_remove(br_hook_link **list, uint64_t handle);
void br__hooks_free(br_hook_link **list);
/* Returns the handle of the newest hook in the process. */
uint64_t br__hook_newest(void);
/* Returns the first hook whose handle is greater than `last` and at most `newest`, or NULL. */
br_hook_link *br__hook_after(br_hook_link *list, uint64_t last, uint64_t newest);

#endif
