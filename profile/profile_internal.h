/* profile/profile_internal.h - the struct of a profile, shared by the files of profile/. */
#ifndef BR_PROFILE_INTERNAL_H
#define BR_PROFILE_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/profile.h>

enum { BR_EVENT_CHUNK = 1024 };

typedef struct br_event {
    br_profile_event seen; /* the public part; its duration is -1 while the event is open */
    uint32_t module;       /* index of the label */
} br_event;

/* A string, stored only once; label 0 is "". A module's text is the class of its root followed by
 * its path. */
typedef struct br_label {
    char *text;
    int64_t parent; /* index of the enclosing module's label; -1: none */
} br_label;

/* Work of another thread. Its texts are indices of labels; `start` counts from the beginning of the
 * profile. */
typedef struct br_span {
    int64_t track, name, start, duration;
} br_span;

struct br_profile {
    uint32_t serial; /* distinguishes its events from those of other profiles */
    bool running;
    bool incomplete;   /* memory ran out: events are missing */
    int64_t began;     /* start time, moved forward by the pauses */
    int64_t paused;    /* start of the pause; 0: not paused */
    int64_t count;     /* number of events, which are in chunks that never move */
    int64_t innermost; /* the innermost open event; -1: none */
    br_event **chunks;
    int64_t n_chunks, chunk_capacity;
    br_span *spans;
    int64_t n_spans, span_capacity;
    br_label *labels;
    int64_t n_labels, label_capacity;
    uint32_t *slots; /* hash table of label index + 1; 0: free */
    int64_t n_slots; /* a power of two */
};

static inline br_event *br__event_of(const br_profile *p, int64_t i)
{
    return &p->chunks[i / BR_EVENT_CHUNK][i % BR_EVENT_CHUNK];
}

/* Returns true if the profile can be read; otherwise records an error. */
bool br__profile_readable(const char *op, const br_profile *profile);

#endif
