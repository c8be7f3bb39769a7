/* brasa/profile.h - records where time is spent: by operation, by module, and over time.
 *
 *     br_profile *profile = br_profile_begin();
 *     ... some training steps ...
 *     br_profile_end(profile);
 *     br_profile_print(stdout, profile, NULL);
 *     br_profile_write_trace(profile, "trace.json");
 *     br_profile_free(profile);
 *
 * A profile records the thread that began it: each operation, each forward of a module, each
 * gradient (with the module whose forward it belongs to) and each optimizer step. While a profile
 * is running, each event costs about 150 nanoseconds; otherwise each operation spends about two
 * nanoseconds on checking whether one is running. */
#ifndef BRASA_PROFILE_H
#define BRASA_PROFILE_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_profile br_profile;

/* ---- Recording ----------------------------------------------------------------------------- */

/* Starts recording this thread. Returns NULL and records an error if a profile is already running
 * in it. */
BR_API br_profile *br_profile_begin(void);
/* Pause and resume the recording, in the thread that began it; the time in between is not counted.
 * Return false and record an error if the profile is not running in this thread, or not paused. */
BR_API bool br_profile_pause(br_profile *profile);
BR_API bool br_profile_resume(br_profile *profile);
/* Ends the recording, paused or not, in the thread that began it. Returns false and records an
 * error if the profile is not running in this thread, or if memory ran out and events are missing:
 * such a profile can only be freed. */
BR_API bool br_profile_end(br_profile *profile);
/* Frees a profile, which is ended first if it is still running in this thread. NULL is ignored. */
BR_API void br_profile_free(br_profile *profile);

/* Begins a user-defined range, such as "load batch"; the name is copied. Returns the range's
 * number, or 0 if no profile is running. br_profile_range_end() ends the range and everything still
 * open inside it, and ignores 0. */
BR_API uint64_t br_profile_range_begin(const char *name);
BR_API void br_profile_range_end(uint64_t range);

/* Adds work that another thread did for this one, such as a transfer, to the trace: a span on a
 * track of that name, which events and tables do not contain. The times are nanoseconds of
 * CLOCK_MONOTONIC; the strings are copied. Does nothing if no profile is running in this thread. */
BR_API void br_profile_add_span(const char *track, const char *name, int64_t begin, int64_t end);

/* ---- Events -------------------------------------------------------------------------------- */

typedef enum br_profile_kind {
    BR_PROFILE_OP, /* an operation, a gradient, or an optimizer step */
    BR_PROFILE_MODULE,
    BR_PROFILE_RANGE, /* the whole profile, a call of br_backward(), or a user's range */
} br_profile_kind;

typedef enum br_profile_phase {
    BR_PROFILE_FORWARD, /* everything that is neither backward nor optimizer */
    BR_PROFILE_BACKWARD,
    BR_PROFILE_OPTIMIZER,
} br_profile_phase;

/* Times are in nanoseconds; `start` counts from the beginning of the profile. The profile owns the
 * strings. */
typedef struct br_profile_event {
    const char *name;   /* the operation's name as in error messages, or the module's class */
    const char *module; /* "BERT.layers.0": root class and path; "" outside modules */
    br_profile_kind kind;
    br_profile_phase phase;
    int64_t parent; /* index of the enclosing event; -1 for event 0, the whole profile */
    int64_t start, duration, inner; /* `inner`: time spent in child events */
    int64_t flops;                  /* 2 n m k per matrix product; 0 for memory-bound operations */
    int64_t bytes;                  /* bytes read and written: each element of each operand once */
    int ndim; /* number of dimensions of the result (for a gradient, of the forward operation's
                 result); -1 if unknown */
    int64_t sizes[BR_MAX_DIMS];
} br_profile_event;

/* Return the number of events, and event i. Events are sorted by start time, so a parent precedes
 * its children. A parent's FLOPs and bytes do not include those of its children. Return -1 or NULL
 * and record an error if the profile is running or incomplete, or i is out of range. */
BR_API int64_t br_profile_count(const br_profile *profile);
BR_API const br_profile_event *br_profile_event_at(const br_profile *profile, int64_t i);

/* ---- Tables -------------------------------------------------------------------------------- */

typedef enum br_profile_by {
    BR_PROFILE_BY_OP,     /* operations, each followed by the operations it is composed of */
    BR_PROFILE_BY_MODULE, /* the tree of modules */
} br_profile_by;

typedef enum br_profile_sort {
    BR_PROFILE_SORT_TIME, /* total time, including children */
    BR_PROFILE_SORT_SELF, /* time without children */
    BR_PROFILE_SORT_FLOPS,
    BR_PROFILE_SORT_BYTES,
    BR_PROFILE_SORT_CALLS,
    BR_PROFILE_SORT_ORDER, /* in the order of first occurrence */
} br_profile_sort;

/* One row of a table. Its children follow it, one level deeper. The `self` times of all rows add up
 * to the total time of the profile. */
typedef struct br_profile_row {
    const char *name; /* the operation, or the module's path; owned by the profile */
    int depth;
    br_profile_phase phase; /* of an operation; by module, always forward */
    int64_t calls;          /* 0 for time between operations or outside modules */
    double self, total;     /* seconds */
    double phases[3];       /* total time by phase */
    double flops, bytes;    /* including children */
} br_profile_row;

/* Returns an array of rows, to be freed with br_free(), and stores their number in *count. Rows
 * with the same parent are sorted by `sort`, largest first. */
BR_API br_profile_row *br_profile_rows(const br_profile *profile, br_profile_by by,
                                       br_profile_sort sort, int64_t *count);

/* The machine's limits, in FLOPs and bytes per second. */
typedef struct br_peak {
    double flops, bytes;
} br_peak;
/* Measures the limits with br_get_num_threads() threads, in less than a second. `dtype` is f32 or
 * f64. Other load on the machine has little effect on the result. FLOPs are measured with
 * multiply-adds of the widest vectors, or, for f32, with those of the unit for bf16 if
 * br_set_float32_matmul_precision() lets products use it. What that unit does not compute, such as
 * products that are too small for it, then stays far below the limit. Bytes are measured with the
 * triad a = b + s c over 384 MiB of memory, which br_empty_cache() returns to the system. */
BR_API bool br_measure_peak(br_dtype dtype, br_peak *peak);

typedef struct br_profile_print_options {
    size_t struct_size;
    br_profile_by by;
    br_profile_sort sort;
    int64_t steps; /* divide the numbers by this many steps; 0: numbers of the whole profile */
    int depth;     /* number of levels to print; 0: all */
    double min_fraction; /* omit rows with a smaller share of the time; 0.1 is 10 % */
    const br_peak *peak; /* limits for the last column; NULL: no such column */
} br_profile_print_options;
#define br_profile_print_default_fields .struct_size = sizeof(br_profile_print_options)
BR_API br_profile_print_options br_profile_print_defaults(void);

/* Prints a table; NULL options mean the defaults. The last column is the share of the machine's
 * limit that was reached: of its FLOPs ("F") or of its memory bandwidth ("M"), whichever is the
 * tighter limit. A share above 100 % means that data came from the caches, or that products were
 * rounded to bf16, since the limit is that of f32. */
BR_API bool br_profile_print(FILE *stream, const br_profile *profile,
                             const br_profile_print_options *options);

/* Writes a trace in JSON for chrome://tracing or ui.perfetto.dev. */
BR_API bool br_profile_write_trace(const br_profile *profile, const char *path);

#ifdef __cplusplus
}
#endif
#endif
