/* tensor/debug.h - the debug mode: a registry of handles, which makes misuse of a handle an error
 * instead of undefined behaviour.
 *
 * A handle is a pointer to an object of the library, such as a tensor, a scope, a module or an
 * optimizer. The mode is off by default; BRASA_DEBUG=1 in the environment or the build option
 * BRASA_DEBUG turns it on before main(). While it is off, each check costs one test of
 * br__debug. */
#ifndef BR_DEBUG_H
#define BR_DEBUG_H

#include <brasa/tensor.h>

/* The kinds of handles: the C type, the name of the kind, and its name in messages. A new kind
 * needs one line here, a call of br__debug_register() where its objects are created, and a call of
 * br__debug_end() where they are freed. */
#define BR_HANDLES(X)                                              \
    X(br_tensor, tensor, "a tensor")                               \
    X(br_scope, scope, "a scope")                                  \
    X(struct br_module, module, "a module")                        \
    X(struct br_named_list, list, "a list")                        \
    X(struct br_optim, optim, "an optimizer")                      \
    X(struct br_scheduler, scheduler, "a scheduler")               \
    X(struct br_averaged_model, averaged, "an averaged model")     \
    X(struct br_recorder, recorder, "a recorder")                  \
    X(struct br_profile, profile, "a profile")                     \
    X(struct br_dataset, dataset, "a dataset")                     \
    X(struct br_loader, loader, "a loader")                        \
    X(struct br_vocab, vocab, "a vocabulary")                      \
    X(struct br_tokenizer, tokenizer, "a tokenizer")               \
    X(struct br_python_random, random, "a Python generator")       \
    X(struct br_safetensors, safetensors, "a safetensors file")    \
    X(struct br_auto_config, config, "a configuration")            \
    X(struct br_cache, cache, "a key-value cache")                 \
    X(struct br_attention, attention, "an attention record")       \
    X(struct br_check, check, "a recorded file's check")           \
    X(struct br_dist_group, group, "a group of ranks")             \
    X(struct br_data_parallel, parallel, "a data-parallel module") \
    X(struct br_sharded_optim, sharded, "a sharded optimizer")

typedef enum br_handle {
    BR_HANDLE_NONE, /* not a handle: a path, an array, a struct of options */
#define BR_ENTRY(type, name, text) BR_HANDLE_##name,
    BR_HANDLES(BR_ENTRY)
#undef BR_ENTRY
        BR_HANDLES_END
} br_handle;

/* The kind of handle that an argument's type denotes. */
#define BR_CASE(type, name, text) type * : BR_HANDLE_##name, const type * : BR_HANDLE_##name,
#define BR_HANDLE_OF(argument)    _Generic((argument), BR_HANDLES(BR_CASE) default : BR_HANDLE_NONE)

/* True while the debug mode is on. After the first object was created, it changes only if memory
 * for a record runs out, which turns the mode off. */
extern bool br__debug;

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
/* Writes where a live handle was created, "by br_randn() < main+0x2c", and returns the text. */
enum { BR_DEBUG_PLACE = 256 };
const char *br__debug_place(const void *object, char text[BR_DEBUG_PLACE]);
/* Same as br__debug_is_live(), and marks the handle as ended. */
bool br__debug_end(const char *op, const char *name, br_handle kind, const void *object);
/* Marks a tensor as ended after its last reference was released. `by_scope` is true if the end of
 * its scope released it. */
void br__debug_end_tensor(const br_tensor *t, bool by_scope);
/* Keeps the memory of an ended handle, so that stale pointers to it are recognized. `object_size`
 * is the size given to br__object_alloc(), or 0 if br_free() frees the memory. */
void br__debug_quarantine(void *object, size_t object_size);
/* Frees the memory kept by br__debug_quarantine(), and forgets those handles. */
void br__debug_empty_quarantine(void);

/* True if the object is not NULL and, in the debug mode, live: for functions that accept NULL. */
#define BR_LIVE(op, object)                          \
    ((object) && (!__builtin_expect(br__debug, 0) || \
                  br__debug_is_live((op), #object, BR_HANDLE_OF(object), (object))))

/* For constructors and destructors of opaque types, in every mode. BR_NEW(type) returns a zeroed
 * object, or NULL and an error if memory runs out. BR_END(op, object) is true if the object is not
 * NULL and is live: its parts may then be freed. BR_FREE(object) frees its memory. */
#define BR_NEW(type) ((type *)br__handle_new(sizeof(type), BR_HANDLE_OF((type *)0)))
#define BR_END(op, object) \
    ((object) && (!br__debug || br__debug_end((op), #object, BR_HANDLE_OF(object), (object))))
#define BR_FREE(object) br__handle_free((object), sizeof *(object))
void *br__handle_new(size_t size, br_handle kind);
void br__handle_free(void *object, size_t size);

#endif
