/* tensor/debug.h - the debug mode: a registry of handles, which makes misuse of a handle an error
 * instead of undefined behaviour.
 *
 * The mode is off by default; BRASA_DEBUG=1 in the environment or the build option BRASA_DEBUG
 * turns it on before main(). While it is off, only the marks of tensor/handles.h are checked. */
#ifndef BR_DEBUG_H
#define BR_DEBUG_H

#include "tensor/handles.h"

/* Turns the mode on or off, for tests. Must be called before the first object is created. */
void br__debug_set(bool on);

/* Registers a new object. `name`, which may be NULL, is its class, such as "Linear" for a
 * module. */
void br__debug_register(br_handle kind, const void *object, const char *name);
/* Returns true if `object` is a live handle of that kind; otherwise records an error with the
 * prefix "op: name". */
bool br__debug_is_live(const char *op, const char *name, br_handle kind, const void *object);
/* Returns the kind of the live handle at that address, or BR_HANDLE_NONE. */
br_handle br__debug_kind_of(const void *object);
/* Writes where a live handle was created, "by br_randn() < program+0x2b38", and returns the text.
 */
enum { BR_DEBUG_PLACE = 400 };
const char *br__debug_place(const void *object, char text[BR_DEBUG_PLACE]);
/* Same as br__debug_is_live(), and marks the handle as ended. */
bool br__debug_end(const char *op, const char *name, br_handle kind, const void *object);
/* Records that a tensor, whose mark says how, has ended, and keeps its memory. */
void br__debug_quarantine_tensor(br_tensor *t);
/* Keeps the memory of an ended handle, so that stale pointers to it are recognized. `object_size`
 * is the size given to br__object_alloc(), or 0 if the object is of br__handle_new(). */
void br__debug_quarantine(void *object, size_t object_size);
/* Frees the memory kept by br__debug_quarantine(), and forgets those handles. */
void br__debug_empty_quarantine(void);

#endif
