/* brasa/profile.h - where time goes: by operation, by module, and on a time line.
 *
 *     br_profile *profile = br_profile_begin();
 *     ... some training steps ...
 *     br_profile_end(profile);
 *     br_profile_print(stdout, profile, NULL);
 *     br_profile_write_trace(profile, "trace.json");
 *     br_profile_free(profile);
 *
 * A profile records what its own thread does: each operation, each forward of a module, each
 * gradient (with the module whose forward it belongs to), each optimizer's step. While none runs an
 * operation pays some branches for it, two nanoseconds in all; while one does, 150 or so an event.
 */
#ifndef BRASA_PROFILE_H
#define BRASA_PROFILE_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_profile br_profile;

/* ---- Recording ----------------------------------------------------------------------------- */

/* Begins to record this thread; one profile at a time. NULL and an error if one runs already. */
BR_API br_profile *br_profile_begin(void);
/* Leaves out what comes until br_profile_resume(), its time too, in the thread that began. False
 * and an error if the profile does not run there, or is not paused. */
BR_API bool br_profile_pause(br_profile *profile);
BR_API bool br_profile_resume(br_profile *profile);
/* Ends the recording, paused or not, in the thread that began it. False and an error if it does not
 * run there, or if memory failed and events are missing: such a profile is only good to be freed.
 */
BR_API bool br_profile_end(br_profile *profile);
/* NULL is ignored. One that still runs in this thread is ended. */
BR_API void br_profile_free(br_profile *profile);

/* A stretch of your own, as "load batch"; the name is copied. Returns its number, 0 if no profile
 * runs; br_profile_range_end() ends it and whatever is still open inside, and ignores a 0. */
BR_API uint64_t br_profile_range_begin(const char *name);
BR_API void br_profile_range_end(uint64_t range);

/* ---- Events -------------------------------------------------------------------------------- */

typedef enum br_profile_kind {
    BR_PROFILE_OP, /* an operation, a gradient, or an optimizer's step */
    BR_PROFILE_MODULE,
    BR_PROFILE_RANGE, /* the whole, a call of br_backward(), and your own */
} br_profile_kind;

typedef enum br_profile_phase {
    BR_PROFILE_FORWARD, /* all that is neither of the others */
    BR_PROFILE_BACKWARD,
    BR_PROFILE_OPTIMIZER,
} br_profile_phase;

/* Times are nanoseconds, the start since the profile's begin. Strings are the profile's. */
typedef struct br_profile_event {
    const char *name;   /* an operation's, as messages have it; a module's class */
    const char *module; /* "BERT.layers.0", the class of the root before the path; "" outside */
    br_profile_kind kind;
    br_profile_phase phase;
    int64_t parent; /* number of the event around it; -1 for number 0, which is the whole */
    int64_t start, duration, inner; /* `inner`: the part of the duration that its parts took */
    int64_t flops; /* of matrix products, exactly: 2 n m k; the rest is bound by memory */
    int64_t bytes; /* that it must read and write: each element of each operand once */
    int ndim;      /* of the result, -1: none is known. A gradient has the operation's */
    int64_t sizes[BR_MAX_DIMS];
} br_profile_event;

/* Events in the order of their starts, so that a parent comes before its parts; without their
 * parts' FLOPs and bytes. -1 and NULL, and an error, if the profile runs or is incomplete. */
BR_API int64_t br_profile_count(const br_profile *profile);
BR_API const br_profile_event *br_profile_event_at(const br_profile *profile, int64_t i);

/* ---- Tables -------------------------------------------------------------------------------- */

typedef enum br_profile_by {
    BR_PROFILE_BY_OP,     /* operations, below each those that it is composed of */
    BR_PROFILE_BY_MODULE, /* the tree of modules */
} br_profile_by;

typedef enum br_profile_sort {
    BR_PROFILE_SORT_TIME, /* with what is inside */
    BR_PROFILE_SORT_SELF, /* without */
    BR_PROFILE_SORT_FLOPS,
    BR_PROFILE_SORT_BYTES,
    BR_PROFILE_SORT_CALLS,
    BR_PROFILE_SORT_ORDER, /* as they came first */
} br_profile_sort;

/* One row; rows inside it follow, one deeper. The times of all rows' `self` add up to the whole. */
typedef struct br_profile_row {
    const char *name; /* the operation, or the module's path; the profile's */
    int depth;
    br_profile_phase phase; /* of an operation */
    int64_t calls;          /* 0: time between operations, or outside modules */
    double self, total;     /* seconds */
    double phases[3];       /* total by phase */
    double flops, bytes;    /* in total */
} br_profile_row;

/* The rows, for br_free(), and their number; largest first among those of one parent. */
BR_API br_profile_row *br_profile_rows(const br_profile *profile, br_profile_by by,
                                       br_profile_sort sort, int64_t *count);

/* What the machine can do in a second. */
typedef struct br_peak {
    double flops, bytes;
} br_peak;
/* Measures it with the threads of br_get_num_threads(), in half a second or so: multiply-adds of
 * the widest vectors, and a triad a = b + s c over 384 MiB, which br_empty_cache() gives back. */
BR_API bool br_measure_peak(br_dtype dtype, br_peak *peak);

typedef struct br_profile_print_options {
    br_profile_by by;
    br_profile_sort sort;
    int64_t steps;       /* numbers are for one of so many steps; 0: for the whole */
    int depth;           /* deepest level of rows to print, 0: all */
    double least;        /* rows of less than this share of the time are left out; 0.1 is 10 % */
    const br_peak *peak; /* for shares of it; NULL: none */
} br_profile_print_options;

/* Prints a table; NULL options give their zeros. The last column is the share of the machine's
 * limit, of its FLOPs ("F") or its memory's bandwidth ("M"), whichever allows less: above 100 % it
 * was the caches that served. */
BR_API bool br_profile_print(FILE *stream, const br_profile *profile,
                             const br_profile_print_options *options);

/* Writes a trace for chrome://tracing or ui.perfetto.dev, as JSON. */
BR_API bool br_profile_write_trace(const br_profile *profile, const char *path);

#ifdef __cplusplus
}
#endif
#endif
