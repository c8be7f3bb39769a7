/* distributed/distributed_internal.h - groups, the progress thread, the exchange of messages, and
 * the agreement that begins every collective.
 *
 * This folder uses Brasa's public headers, like a program's own code, the registry of handles, the
 * checks of in-place changes, and the host as a device: for its memory and for sums. After the
 * start, the functions of the transport are called by one thread at a time: the progress thread,
 * or, without one, the caller. */
#ifndef BR_DISTRIBUTED_INTERNAL_H
#define BR_DISTRIBUTED_INTERNAL_H

#include "tensor/debug.h"
#include "tensor/device.h"

#include <brasa/distributed.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>

struct br_dist_group {
    int rank, size;
    int *world;                         /* the ranks' numbers among all ranks */
    int64_t identity;                   /* a number that no other group of these ranks has */
    struct br_dist_wire *notes;         /* of the last agreement, one per rank */
    struct br_dist_transfer *transfers; /* [2 size], for the exchange that is being prepared */
};

/* Returns true if the group is NULL, which stands for all ranks, or is live. */
#define BR_LIVE_GROUP(op, group) (!(group) || BR_LIVE((op), (group)))
/* Returns the group, or all ranks if it is NULL. Returns NULL if br_dist_init() was not called or
 * failed; collectives then have nothing to do. */
const br_dist_group *br__dist_group(const br_dist_group *group);

/* ---- Jobs ------------------------------------------------------------------------------------ */

enum { BR_DIST_TEXT = 400 };

/* A piece of communication. `run` makes MPI calls; it sets an error with br__dist_job_fail(). */
typedef struct br_dist_job {
    struct br_dist_job *next;
    void (*run)(struct br_dist_job *job);
    const char *op;       /* name of the function, for messages; static */
    int64_t begun, ended; /* nanoseconds of CLOCK_MONOTONIC */
    bool done;
    bool failed;
    bool in_step; /* it failed on every rank, at the same place: communication may go on */
    char error[BR_DIST_TEXT];
} br_dist_job;

/* Queues a job. Jobs run one after the other in the order in which they were queued. The job must
 * stay valid until br__dist_wait() returned. */
void br__dist_start(br_dist_job *job);
/* Waits until a job is done. If it failed, records its error, unless one is pending, and returns
 * false. */
bool br__dist_wait(br_dist_job *job);
/* Like br__dist_wait(), but does not record the error. */
bool br__dist_join(br_dist_job *job);

/* Starts and stops the thread. Without it, br__dist_start() runs the job at once. */
bool br__dist_start_thread(void);
void br__dist_stop_thread(void);

/* Return the time of a monotonic clock. */
double br__dist_seconds(void);
int64_t br__dist_nanoseconds(void);

/* ---- For jobs -------------------------------------------------------------------------------- */

/* Sets the job's error if it has none. Returns false. */
bool br__dist_job_fail(br_dist_job *job, const char *format, ...) BR_PRINTF(2, 3);

/* A message to or from a rank. */
typedef struct br_dist_transfer {
    int peer; /* among all ranks */
    bool sends;
    char *data;
    size_t bytes;  /* that are not complete */
    size_t piece;  /* bytes of the request: a large message is cut into several */
    void *request; /* of the transport; NULL if none is under way */
} br_dist_transfer;

enum { BR_DIST_COLLECTIVES, BR_DIST_MESSAGES }; /* channels of the transport */

/* Messages that are exchanged at the same time. br__dist_exchange() begins one without messages,
 * br__dist_send_to() and br__dist_recv_from() add at most two messages per rank of the group, and
 * br__dist_complete() starts all and waits for them. Messages without bytes are not sent. Of two
 * messages in the same direction, the first has at most 1024 bytes, so that it is not cut. */
typedef struct br_dist_exchange {
    br_dist_job *job;
    const br_dist_group *g;
    int channel, n;
} br_dist_exchange;
br_dist_exchange br__dist_exchange(br_dist_job *job, const br_dist_group *g);
void br__dist_send_to(br_dist_exchange *x, int rank, const void *data, size_t bytes);
void br__dist_recv_from(br_dist_exchange *x, int rank, void *data, size_t bytes);
/* Returns false and sets the job's error if a message fails, if a rank of the group has died, or if
 * the time limit passes. The requests are then abandoned. */
bool br__dist_complete(br_dist_exchange *x);
/* Gives `bytes` bytes of every rank to all ranks: all[r * bytes ..] are rank r's. This rank's own
 * must be in place. */
bool br__dist_gather_bytes(br_dist_job *job, const br_dist_group *g, void *all, size_t bytes);

/* Sets and returns bit i of a set, which has 8 bits in each byte. */
static inline void br__dist_put_bit(uint8_t *set, int64_t i)
{
    set[i / 8] |= (uint8_t)(1 << (i % 8));
}
static inline bool br__dist_get_bit(const uint8_t *set, int64_t i)
{
    return set[i / 8] >> (i % 8) & 1;
}

/* What a rank tells the others before a collective. */
typedef struct br_dist_note {
    const char *op; /* name of the function */
    br_dtype dtype;
    int ndim;
    int64_t sizes[BR_MAX_DIMS];
    int64_t argument;          /* another value that must be the same on all ranks */
    const char *argument_name; /* for messages */
    const char *subject;       /* what the tensor is, such as "parameter encoder.weight"; or NULL */
    const char *error;         /* the rank's pending error, or NULL */
    uint64_t flags;            /* may differ between the ranks */
    const uint8_t *bits;       /* n_bits bits that may differ between the ranks */
    int n_bits;
} br_dist_note;
enum { BR_DIST_MAX_BITS = 1024 };

/* Exchanges notes with all ranks of the group. Returns false and sets the job's error on every
 * rank if the notes do not agree or if one of them has an error. */
bool br__dist_agree(br_dist_job *job, const br_dist_group *g, const br_dist_note *note);
/* A note as it is sent. Its layout may change only with the library's version. */
typedef struct br_dist_wire {
    char op[32], argument_name[32], subject[96], error[BR_DIST_TEXT];
    int64_t group, step, dtype, ndim, sizes[BR_MAX_DIMS], argument;
    uint64_t flags;
    uint8_t bits[BR_DIST_MAX_BITS / 8];
} br_dist_wire;
/* Return the flags and the bits that a rank sent with the last agreement. */
uint64_t br__dist_flags(const br_dist_group *g, int rank);
bool br__dist_bit(const br_dist_group *g, int rank, int i);

/* ---- State ----------------------------------------------------------------------------------- */

/* A rank's process. */
typedef struct br_dist_process {
    int process; /* its ID */
    bool here;   /* it runs on this machine, and the ID is valid in this process */
    char machine[HOST_NAME_MAX + 1];
} br_dist_process;

typedef struct br_dist_state {
    bool initialized;
    br_comm comm;
    bool connected; /* there is a transport; otherwise this process is the only rank */
    double timeout, watch_limit;
    br_dist_group all;
    int64_t splits; /* this rank's calls of br_dist_split(), for the identities of groups */
    br_dist_process *processes;       /* of all ranks */
    struct br_dist_message *messages; /* that arrived while others were wanted */
    bool broken;                      /* a job failed: no more communication */
    char reason[BR_DIST_TEXT];
} br_dist_state;
extern br_dist_state br__dist;

/* Opens the transport of the launcher that started this process. Sets `connected` to false if
 * there is no launcher. Returns false and records an error on failure (distributed/open.c). */
bool br__dist_open(br_comm *comm, bool *connected);

/* Creates the arrays of a group of `size` ranks. world[] is not set. */
bool br__dist_group_begin(br_dist_job *job, br_dist_group *g, int rank, int size);
/* Frees them. */
void br__dist_group_end(br_dist_group *g);
/* Frees the messages that were not received by the program. */
void br__dist_drop_messages(void);
/* Returns memory, or NULL and an error. Free it with free(). */
void *br__dist_malloc(size_t bytes);
/* Returns memory for data of a collective, or NULL and an error. Release it with br_release(). It
 * comes from the cache of tensors: malloc() returns large blocks to the system, which clears their
 * pages again each time, and that takes longer than the sums. */
br_tensor *br__dist_buffer(size_t bytes);
/* Like br__dist_buffer(), for a job: sets the job's error instead. */
br_tensor *br__dist_job_buffer(br_dist_job *job, size_t bytes);

/* br_dist_broadcast() of what `subject` names in error messages; it may be NULL. */
bool br__dist_broadcast(br_tensor *t, int source, br_dist_group *group, const char *subject);
/* Copies the received elements to t, unless `copy` has t's memory, and gives t a new version. */
bool br__dist_written(const char *op, br_tensor *t, br_tensor *copy);

/* ---- Reductions ------------------------------------------------------------------------------ */

/* Computes to[i] = to[i] + from[i], or the maximum or minimum, for n elements. */
void br__dist_combine(br_dtype dtype, br_dist_reduction reduction, void *to, const void *from,
                      int64_t n);
/* Divides n floating-point elements. */
void br__dist_divide(br_dtype dtype, void *to, int64_t n, double by);

/* The elements of an array that belong to a rank. */
typedef struct br_dist_part {
    int64_t begin, end;
} br_dist_part;
/* Cuts n elements into parts of whole cache lines, in the order of the ranks. */
void br__dist_even_parts(int64_t n, int size, br_dist_part *parts);
/* In the functions below, parts[r] is rank r's. The parts do not overlap and may be in any order.
 *
 * Sends part r of `data` to rank r, and receives the elements of this rank's part from every rank:
 * received[r * part .. ] are rank r's. */
bool br__dist_exchange_parts(br_dist_job *job, const br_dist_group *g, br_dtype dtype,
                             const void *data, const br_dist_part *parts, void *received);
/* Gives every rank's part of `data` to all ranks, in place. */
bool br__dist_gather_parts(br_dist_job *job, const br_dist_group *g, br_dtype dtype, void *data,
                           const br_dist_part *parts);
/* Copies bytes from one rank to all. The source sends each byte once: every rank receives a part
 * from it, and gives it to the others. */
bool br__dist_broadcast_bytes(br_dist_job *job, const br_dist_group *g, char *data, int64_t bytes,
                              int source);
/* Gives every rank's part to one rank. `part` points to this rank's elements; `data` is for the
 * destination. */
bool br__dist_collect_parts(br_dist_job *job, const br_dist_group *g, br_dtype dtype,
                            const void *part, void *data, const br_dist_part *parts,
                            int destination);

#endif
