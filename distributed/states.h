/* distributed/states.h - the states of a data-parallel module's parameters and buckets on this
 * rank.
 *
 * Only br__param_moves() and br__bucket_moves() change a state. They follow the two tables below. A
 * move that is in neither table is an error, which names the parameter or the bucket. */
#ifndef BR_STATES_H
#define BR_STATES_H

#include <stdbool.h>

struct br_parallel_param;
struct br_bucket;

/* ---- Parameters ------------------------------------------------------------------------------ */

typedef enum br_param_state {
    BR_PARAM_SYNCED,    /* its gradient, if there is one, is equal on all ranks */
    BR_PARAM_UNSYNCED,  /* its gradient includes passes that were not reduced */
    BR_PARAM_EARLY,     /* a part of this pass's gradient was copied into its bucket, to be sent */
    BR_PARAM_ARRIVED,   /* this pass's gradient was copied into its bucket */
    BR_PARAM_CORRECTED, /* it was early, and its complete gradient is known, too */
    BR_PARAM_STATES
} br_param_state;

typedef enum br_param_event {
    BR_PARAM_KEEPS,     /* a pass without reduction has added to its gradient */
    BR_PARAM_SENDS,     /* a pass has a part of its gradient, which is sent early */
    BR_PARAM_ARRIVES,   /* a pass has its complete gradient */
    BR_PARAM_PASS_ENDS, /* the gradients of all ranks were reduced */
    BR_PARAM_FAILS,     /* the pass ended with an error */
    BR_PARAM_EVENTS
} br_param_event;

/* state, event, next state */
#define BR_PARAM_MOVES(M)           \
    M(SYNCED, KEEPS, UNSYNCED)      \
    M(SYNCED, SENDS, EARLY)         \
    M(SYNCED, ARRIVES, ARRIVED)     \
    M(SYNCED, PASS_ENDS, SYNCED)    \
    M(SYNCED, FAILS, SYNCED)        \
    M(UNSYNCED, KEEPS, UNSYNCED)    \
    M(UNSYNCED, ARRIVES, ARRIVED)   \
    M(UNSYNCED, PASS_ENDS, SYNCED)  \
    M(UNSYNCED, FAILS, UNSYNCED)    \
    M(EARLY, ARRIVES, CORRECTED)    \
    M(EARLY, PASS_ENDS, SYNCED)     \
    M(EARLY, FAILS, SYNCED)         \
    M(ARRIVED, PASS_ENDS, SYNCED)   \
    M(ARRIVED, FAILS, SYNCED)       \
    M(CORRECTED, PASS_ENDS, SYNCED) \
    M(CORRECTED, FAILS, SYNCED)

/* Changes the parameter's state. Returns false and records an error if the table has no such
 * move. */
bool br__param_moves(struct br_parallel_param *q, br_param_event event);

/* ---- Buckets --------------------------------------------------------------------------------- */

typedef enum br_bucket_state {
    BR_BUCKET_IDLE,    /* no gradient of a pass is in it */
    BR_BUCKET_FILLING, /* prepared for the gradients of a pass, some of which are missing */
    BR_BUCKET_FULL,    /* has all of them; waits until the buckets before it are sent */
    BR_BUCKET_SENT,    /* its job was started */
    BR_BUCKET_STATES
} br_bucket_state;

typedef enum br_bucket_event {
    BR_BUCKET_PREPARES, /* the first gradient of a pass comes, or the pass ends without one */
    BR_BUCKET_FILLS,    /* its last gradient was copied */
    BR_BUCKET_STARTS,   /* it is its turn; at the end of the pass, also without all gradients */
    BR_BUCKET_JOINS,    /* this rank makes no pass, but takes part in the other ranks' */
    BR_BUCKET_ENDS,     /* its job has ended */
    BR_BUCKET_EVENTS
} br_bucket_event;

#define BR_BUCKET_MOVES(M)     \
    M(IDLE, PREPARES, FILLING) \
    M(IDLE, JOINS, SENT)       \
    M(FILLING, FILLS, FULL)    \
    M(FILLING, STARTS, SENT)   \
    M(FULL, STARTS, SENT)      \
    M(SENT, ENDS, IDLE)

bool br__bucket_moves(struct br_bucket *b, br_bucket_event event);

#endif
