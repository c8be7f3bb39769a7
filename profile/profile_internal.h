/* profile/profile_internal.h - a profile, as the files of profile/ see it. */
#ifndef BR_PROFILE_INTERNAL_H
#define BR_PROFILE_INTERNAL_H

#include "tensor/tensor_internal.h"

#include <brasa/profile.h>

enum { BR_EVENT_CHUNK = 1024 };

typedef struct br_event {
    br_profile_event seen; /* what users see; its duration is -1 while it is open */
    uint32_t module;       /* number of the label */
} br_event;

/* A text, kept once; number 0 is "". A module's is its path behind the class of the root. */
typedef struct br_label {
    char *text;
    int64_t parent; /* number of the label of the module above, -1: none */
} br_label;

struct br_profile {
    uint32_t serial; /* tells its events from those of other profiles */
    bool running;
    bool incomplete;   /* memory failed: events are missing */
    int64_t began;     /* on the clock, less the pauses */
    int64_t paused;    /* when the pause began; 0: there is none */
    int64_t count;     /* events, in chunks that never move */
    int64_t innermost; /* of those that are open, -1: none */
    br_event **chunks;
    int64_t n_chunks, chunk_room;
    br_label *labels;
    int64_t n_labels, label_room;
    uint32_t *slots; /* hash table of the labels' numbers + 1; 0: free */
    int64_t n_slots; /* a power of two */
};

static inline br_event *br__event_of(const br_profile *p, int64_t i)
{
    return &p->chunks[i / BR_EVENT_CHUNK][i % BR_EVENT_CHUNK];
}

/* True if the profile can be read; else an error. */
bool br__profile_readable(const char *op, const br_profile *profile);

#endif
