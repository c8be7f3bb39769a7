/* tensor/handles.h - handles: their kinds, and the check that a handle is live.
 *
 * A handle is a pointer to an object of the library, such as a tensor, a scope, a module or an
 * optimizer. Each object has a mark that says whether it is live. A freed object is set aside, and
 * its memory is reused only after more objects were freed, so a stale pointer usually still points
 * to the mark of a freed object, and using it is an error. The debug mode (tensor/debug.h) sets far
 * more objects aside and remembers where each was created and freed. */
#ifndef BR_HANDLES_H
#define BR_HANDLES_H

#include "tensor/storage.h"

/* The kinds of handles: the C type, the name of the kind, and its name in messages. A new kind
 * needs one line here, BR_NEW() where its objects are created, and BR_END() and BR_FREE() where
 * they are freed. */
#define BR_HANDLES(X)                                                        \
    X(br_tensor, tensor, "a tensor")                                         \
    X(br_scope, scope, "a scope")                                            \
    X(struct br_autocast, autocast, "a region of mixed precision")           \
    X(struct br_module, module, "a module")                                  \
    X(struct br_named_list, list, "a list")                                  \
    X(struct br_optim, optim, "an optimizer")                                \
    X(struct br_scheduler, scheduler, "a scheduler")                         \
    X(struct br_averaged_model, averaged, "an averaged model")               \
    X(struct br_grad_scaler, grad_scaler, "a gradient scaler")               \
    X(struct br_recorder, recorder, "a recorder")                            \
    X(struct br_profile, profile, "a profile")                               \
    X(struct br_dataset, dataset, "a dataset")                               \
    X(struct br_loader, loader, "a loader")                                  \
    X(struct br_vocab, vocab, "a vocabulary")                                \
    X(struct br_tokenizer, tokenizer, "a tokenizer")                         \
    X(struct br_decode_stream, stream, "a decode stream")                    \
    X(struct br_chat_template, chat, "a chat template")                      \
    X(struct br_python_random, random, "a Python generator")                 \
    X(struct br_safetensors, safetensors, "a safetensors file")              \
    X(struct br_gguf, gguf, "a GGUF file")                                   \
    X(struct br_auto_config, config, "a configuration")                      \
    X(struct br_generation_config, generation, "a generation configuration") \
    X(struct br_sentence_transformer, sentence, "a sentence transformer")    \
    X(struct br_pipeline, pipeline, "a pipeline")                            \
    X(struct br_cache, cache, "a key-value cache")                           \
    X(struct br_attention, attention, "an attention record")                 \
    X(struct br_summary_writer, writer, "a summary writer")                  \
    X(struct br_check, check, "a recorded file's check")                     \
    X(struct br_dist_group, group, "a group of ranks")                       \
    X(struct br_data_parallel, parallel, "a data-parallel module")           \
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

/* Precedes in memory each object of br__handle_new(), which are all kinds except tensors and
 * scopes. */
typedef struct br_handle_mark {
    _Alignas(max_align_t) uint32_t mark; /* a br_mark */
    br_handle kind;
} br_handle_mark;

static inline br_handle_mark *br__mark_of(const void *object)
{
    return (br_handle_mark *)(void *)object - 1;
}

/* Returns whether the object, which is not a scope, has the mark of a live object of that kind. The
 * objects of the debug mode do not have it. */
static inline bool br__is_marked(br_handle kind, const void *object)
{
    if (kind == BR_HANDLE_tensor)
        return ((const br_tensor *)object)->mark == BR_MARK_LIVE;
    const br_handle_mark *mark = br__mark_of(object);
    return mark->mark == BR_MARK_LIVE && mark->kind == kind;
}

/* Returns true if `object`, which is neither NULL nor a scope, is a live handle of that kind.
 * Otherwise records an error with the prefix "op: name". br__check_handle() decides what the mark
 * leaves open: a list that the program made itself has none, and in the debug mode, where an object
 * of another kind must be recognized, nothing in front of an object is read.
 */
bool br__check_handle(const char *op, const char *name, br_handle kind, const void *object);
static inline bool br__is_live(const char *op, const char *name, br_handle kind, const void *object)
{
    const bool may_have_mark = kind == BR_HANDLE_tensor || (kind != BR_HANDLE_list && !br__debug);
    return (may_have_mark && __builtin_expect(br__is_marked(kind, object), 1)) ||
           br__check_handle(op, name, kind, object);
}

/* True if the object is not NULL and is live: for functions that accept NULL. */
#define BR_LIVE(op, object) ((object) && br__is_live((op), #object, BR_HANDLE_OF(object), (object)))

/* For constructors and destructors of opaque types. BR_NEW(type) returns a zeroed object, or NULL
 * and an error if memory runs out. BR_END(op, object) is true if the object is not NULL and is
 * live: its parts may then be freed. BR_FREE(object) frees its memory. */
#define BR_NEW(type) ((type *)br__handle_new(sizeof(type), BR_HANDLE_OF((type *)0), NULL))
#define BR_END(op, object) \
    ((object) && br__handle_end((op), #object, BR_HANDLE_OF(object), (object)))
#define BR_FREE(object) br__handle_free((object), sizeof *(object))
/* `name`, which may be NULL, is the object's class, such as "Linear" for a module. */
void *br__handle_new(size_t size, br_handle kind, const char *name);
bool br__handle_end(const char *op, const char *name, br_handle kind, void *object);
void br__handle_free(void *object, size_t size);
/* Frees the memory of ended objects that is set aside. */
void br__handles_flush(void);

/* Parts of messages: the kind with its article, such as "a tensor"; how an object ended; and what
 * to do about it. */
const char *br__kind_name(br_handle kind);
const char *br__how_ended(br_handle kind, bool by_scope);
#define BR_HOW_TO_KEEP ": use br_scope_return() or br_retain() to keep a tensor"
#define BR_SEE_DEBUG   "run with BRASA_DEBUG=1 to see where it was created and freed"

#endif
