/* distributed/states.c - changes the states of parameters and buckets, see states.h. */
#include "distributed/states.h"
#include "distributed/data_parallel.h"

/* The next state by state and event, plus 1; 0: there is no such move. */
#define PARAM(state, event, next)  [BR_PARAM_##state][BR_PARAM_##event] = BR_PARAM_##next + 1,
#define BUCKET(state, event, next) [BR_BUCKET_##state][BR_BUCKET_##event] = BR_BUCKET_##next + 1,
static const unsigned char params[BR_PARAM_STATES][BR_PARAM_EVENTS] = { BR_PARAM_MOVES(PARAM) };
static const unsigned char buckets[BR_BUCKET_STATES][BR_BUCKET_EVENTS] = { BR_BUCKET_MOVES(
    BUCKET) };

static const char *const param_states[] = {
    [BR_PARAM_SYNCED] = "is reduced",
    [BR_PARAM_UNSYNCED] = "includes passes that were not reduced",
    [BR_PARAM_EARLY] = "was sent before it was complete",
    [BR_PARAM_ARRIVED] = "is in its bucket",
    [BR_PARAM_CORRECTED] = "was sent early and is complete",
};

static const char *const param_events[] = {
    [BR_PARAM_KEEPS] = "a pass without reduction adds to it: turn the reduction off or on only "
                       "between passes",
    [BR_PARAM_SENDS] = "a part of it comes",
    [BR_PARAM_ARRIVES] = "the same pass computes it again: a hook must not start a pass of its own "
                         "to the module's parameters",
    [BR_PARAM_PASS_ENDS] = "the pass ends",
    [BR_PARAM_FAILS] = "the pass fails",
};

bool br__param_moves(br_parallel_param *q, br_param_event event)
{
    const int next = params[q->state][event];
    if (next)
        q->state = (br_param_state)(next - 1);
    else if (!br_failed())
        br_raise(BR_ERROR_STATE, "data_parallel: the gradient of %s %s, but %s", q->name,
                 param_states[q->state], param_events[event]);
    return next != 0;
}

static const char *const bucket_states[] = {
    [BR_BUCKET_IDLE] = "is idle",
    [BR_BUCKET_FILLING] = "is being filled",
    [BR_BUCKET_FULL] = "is full",
    [BR_BUCKET_SENT] = "was sent",
};

static const char *const bucket_events[] = {
    [BR_BUCKET_PREPARES] = "must be prepared for a pass",
    [BR_BUCKET_FILLS] = "gets its last gradient",
    [BR_BUCKET_STARTS] = "must be sent",
    [BR_BUCKET_JOINS] = "must be sent without a pass",
    [BR_BUCKET_ENDS] = "must end",
};

bool br__bucket_moves(br_bucket *b, br_bucket_event event)
{
    const int next = buckets[b->state][event];
    if (next)
        b->state = (br_bucket_state)(next - 1);
    else if (!br_failed())
        br_raise(BR_ERROR_STATE, "data_parallel: bucket %d %s, but %s", b->number,
                 bucket_states[b->state], bucket_events[event]);
    return next != 0;
}
