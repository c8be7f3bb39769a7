/* tensor/events.h - what operations report to the profiler. The lower layers know the profiler only
 * as a table of functions, which profile/record.c makes the thread's while a profile runs. */
#ifndef BR_TENSOR_EVENTS_H
#define BR_TENSOR_EVENTS_H

#include "tensor/thread_state.h"

/* True while a profile is running in the thread. While none is, profiling costs only this
 * branch. */
#define BR_PROFILING __builtin_expect(br__thread.events != NULL, 0)

/* The profiler's functions, which are called only if BR_PROFILING. The functions that begin an
 * event inside the open one return its number; they return 0 and record an error if memory runs
 * out. */
typedef struct br_event_functions {
    uint64_t (*op)(const char *name);
    uint64_t (*optimizer)(const char *name);
    uint64_t (*backward)(void);
    uint64_t (*module)(const void *owner);
    /* The gradient of an operation. Its forward was recorded at `place`, and its output has the
     * given sizes. */
    uint64_t (*gradient)(const char *name, uint64_t place, int ndim, const int64_t *sizes);
    /* Ends an event and those still open inside it. */
    void (*end)(uint64_t event);
    /* Returns the place of the open event (its profile and module), for `gradient`. */
    uint64_t (*location)(void);
    /* Set the result of the open operation, and report a tensor that was created in it: the first
     * such tensor counts as the result unless `result` sets another. */
    void (*result)(const br_tensor *t);
    void (*created)(const br_tensor *t);
    /* Add to the open event: FLOPs of matrix products and bytes read and written. `traffic` counts
     * each element of the operands once. */
    void (*work)(int64_t flops, int64_t bytes);
    void (*traffic)(int n, const br_tensor *const *operands);
} br_event_functions;

static inline void br__event_cleanup(const uint64_t *event)
{
    if (__builtin_expect(*event != 0, 0) && br__thread.events)
        br__thread.events->end(*event);
}

/* Opens an event that lasts until the end of the block. */
#define BR_EVENT(begin)                                                            \
    __attribute__((cleanup(br__event_cleanup), unused)) const uint64_t br__event = \
        BR_PROFILING ? (begin) : 0
/* Must be the first statement of every operation; profiling requires nothing else from it. */
#define BR_OP(name) BR_EVENT(br__thread.events->op(name))
/* Report the work of an operation that calls an entry of the backend. br__pointwise(), br__copy()
 * and br__reduce() report theirs. */
#define BR_WORK(flops, bytes)                          \
    do {                                               \
        if (BR_PROFILING)                              \
            br__thread.events->work((flops), (bytes)); \
    } while (0)
#define BR_TRAFFIC(...)                                                                          \
    do {                                                                                         \
        if (BR_PROFILING)                                                                        \
            br__thread.events->traffic(                                                          \
                (int)(sizeof((const br_tensor *[]){ __VA_ARGS__ }) / sizeof(const br_tensor *)), \
                (const br_tensor *[]){ __VA_ARGS__ });                                           \
    } while (0)

#endif
