/* tests/distributed/test_states.c - every event in every state of a parameter and of a bucket. */
#include "distributed/data_parallel.h"
#include "tests/distributed/test.h"

#include <stdio.h>

enum { NONE = -1 };

void test_every_move_of_a_parameter(void)
{
    enum {
        SYNCED = BR_PARAM_SYNCED,
        UNSYNCED = BR_PARAM_UNSYNCED,
        EARLY = BR_PARAM_EARLY,
        ARRIVED = BR_PARAM_ARRIVED,
        CORRECTED = BR_PARAM_CORRECTED,
    };
    /* The next states after: keeps, sends, arrives, pass ends, fails. */
    static const int next[BR_PARAM_STATES][BR_PARAM_EVENTS] = {
        [SYNCED] = { UNSYNCED, EARLY, ARRIVED, SYNCED, SYNCED },
        [UNSYNCED] = { UNSYNCED, NONE, ARRIVED, SYNCED, UNSYNCED },
        [EARLY] = { NONE, NONE, CORRECTED, SYNCED, SYNCED },
        [ARRIVED] = { NONE, NONE, NONE, SYNCED, SYNCED },
        [CORRECTED] = { NONE, NONE, NONE, SYNCED, SYNCED },
    };
    for (int state = 0; state < BR_PARAM_STATES; state++)
        for (int event = 0; event < BR_PARAM_EVENTS; event++) {
            br_parallel_param q = { .name = "layer.weight", .state = (br_param_state)state };
            const int want = next[state][event];
            if (want == NONE)
                check_fails(br__param_moves(&q, (br_param_event)event),
                            "data_parallel: the gradient of layer.weight ");
            else
                check(br__param_moves(&q, (br_param_event)event));
            check((int)q.state == (want == NONE ? state : want));
        }
    br_parallel_param q = { .name = "w", .state = BR_PARAM_ARRIVED };
    check_fails(br__param_moves(&q, BR_PARAM_ARRIVES),
                "the gradient of w is in its bucket, but the same pass computes it again: a hook");
    check_fails(br__param_moves(&q, BR_PARAM_KEEPS),
                "the gradient of w is in its bucket, but a pass without reduction adds to it");
}

void test_every_move_of_a_bucket(void)
{
    enum {
        IDLE = BR_BUCKET_IDLE,
        FILLING = BR_BUCKET_FILLING,
        FULL = BR_BUCKET_FULL,
        SENT = BR_BUCKET_SENT,
    };
    /* The next states after: prepares, fills, starts, joins, ends. */
    static const int next[BR_BUCKET_STATES][BR_BUCKET_EVENTS] = {
        [IDLE] = { FILLING, NONE, NONE, SENT, NONE },
        [FILLING] = { NONE, FULL, SENT, NONE, NONE },
        [FULL] = { NONE, NONE, SENT, NONE, NONE },
        [SENT] = { NONE, NONE, NONE, NONE, IDLE },
    };
    for (int state = 0; state < BR_BUCKET_STATES; state++)
        for (int event = 0; event < BR_BUCKET_EVENTS; event++) {
            br_bucket b = { .number = 3, .state = (br_bucket_state)state };
            const int want = next[state][event];
            if (want == NONE)
                check_fails(br__bucket_moves(&b, (br_bucket_event)event),
                            "data_parallel: bucket 3 ");
            else
                check(br__bucket_moves(&b, (br_bucket_event)event));
            check((int)b.state == (want == NONE ? state : want));
        }
}
