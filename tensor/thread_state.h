/* tensor/thread_state.h - a thread's scopes, pending error and rarely used data. The state of other
 * layers is in their own thread-local variables: of the tape in autograd/tape.h, of taps in
 * nn/taps.c, and of the profiler in profile/record.c. */
#ifndef BR_TENSOR_THREAD_STATE_H
#define BR_TENSOR_THREAD_STATE_H

#include <brasa/tensor.h>
#include <stddef.h>

struct br_scope {
    br_scope *outer;
    size_t start;        /* index of its first tensor on the thread's stack */
    uint64_t serial;     /* number of the scope among those of its thread, from 1 */
    const void *owner;   /* the module whose forward opened it, or NULL */
    br_tensor *input;    /* if it has an owner: the forward's input, or NULL; borrowed */
    bool prev_grad_mode; /* grad mode to restore */
    uint64_t event;      /* profile event of the module's forward */
};

typedef struct br_thread {
    br_scope *scope;                /* innermost scope; NULL outside every scope */
    br_scope *spare, *newest_spare; /* queue of ended scopes for reuse, linked by `outer` */
    uint64_t n_scopes;              /* scopes that were ever opened */
    br_tensor **stack;
    size_t top, capacity;
    bool no_grad;
    bool in_callback;    /* the error callback is running */
    bool rounds_to_bf16; /* see br__round_to_bf16() */
    br_error error;
    const char *gradient_of; /* the operation whose gradient function runs, for errors; or NULL */
    const struct br_event_functions *events; /* the profiler's while a profile runs, else NULL */
    struct br_thread_cold *cold_data;        /* see br__thread_cold(); NULL until first needed */
    struct br_generator *generator;
    const struct br_backend *backend; /* of the default device; NULL: the CPU */
    struct br_autocast *autocast;     /* innermost region of mixed precision, or NULL */
} br_thread;

extern _Thread_local br_thread br__thread;

/* An inline variant of br_failed(). */
static inline bool br__failed(void)
{
    return br__thread.error != BR_OK;
}
/* The library's own checks do not count as the program handling the error. */
#define br_failed() br__failed()

/* Stores the path of the innermost running module, "" for a root. Returns false if no module is
 * running. */
bool br__current_module_path(char *buffer, size_t size);

/* Opens a scope for a module's forward. */
br_scope *br__scope_begin_for(const void *owner);
/* Ends the open scopes inside `scope`, and frees its tensors from index `start` of the thread's
 * stack on. Avoids opening a new scope in each iteration of a loop. */
void br__scope_free_from(br_scope *scope, size_t start);

/* An unhandled error, in the list of all threads' unhandled errors (tensor/report.c). */
typedef struct br_unhandled_error {
    struct br_unhandled_error *next, **link; /* link is NULL if not in the list */
    const char *message;
    uint64_t number; /* sequence number of the error */
    int process;     /* process ID: a forked child inherits the list */
} br_unhandled_error;

/* A thread's rarely used data, kept out of br_thread because thread-local space is limited
 * (tensor/thread_data.c). */
enum {
    BR_MESSAGE_SIZE = 1024,
    BR_SHAPE_SIZE = BR_MAX_DIMS * 22 + 3,
    BR_TEXT_SIZE = 256,
    BR_SHAPES = 8,
    BR_TEXTS = 4,
};
typedef struct br_thread_cold {
    char message[BR_MESSAGE_SIZE];                /* the pending error's message */
    br_unhandled_error unhandled;                 /* the same error while it is unhandled */
    char shapes[BR_SHAPES][BR_SHAPE_SIZE];        /* rotating buffers for messages */
    char texts[BR_TEXTS][BR_TEXT_SIZE];           /* rotating buffers of br_printable() */
    unsigned shape, text;                         /* the next buffers' numbers */
    _Alignas(max_align_t) char module[4096 + 64]; /* nn's placeholder module and its mark */
} br_thread_cold;
/* Returns the thread's data, never NULL: threads for which allocation fails share one. */
br_thread_cold *br__thread_cold(void);
/* Frees the data of br__thread_cold() and the generator when the thread ends. */
void br__thread_cold_free(void);

#endif
