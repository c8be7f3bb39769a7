/* tests/ops/test_gemm_share.c - each panel of a block once, whoever takes it.
 *
 * A kernel that only writes down who took what stands for the products, and makes sure that each of
 * the two threads takes part. */
#include "ops/kernels/gemm_share.h"
#include "tests/support.h"

#include <pthread.h>
#include <sched.h>

TestSuite(gemm_share, .init = check_begin, .fini = check_end);

enum { PANELS = 40, BLOCKS = 50, PANEL_COLUMNS = 32 };

typedef struct record {
    atomic_int taken[PANELS];
    atomic_int by_helper;
    bool wants_help; /* the owner waits in the block until a helper took a panel */
} record;

static _Thread_local bool is_helper;

/* gemm_block: `c` is the record. */
static void take_panels(const br_gemm_block *g)
{
    record *r = g->c;
    for (int64_t j; (j = atomic_fetch_add(g->taken, PANEL_COLUMNS)) < g->n;) {
        atomic_fetch_add(&r->taken[j / PANEL_COLUMNS], 1);
        if (is_helper)
            atomic_fetch_add(&r->by_helper, 1);
        while (!is_helper && r->wants_help && atomic_load(&r->by_helper) == 0)
            sched_yield();
    }
}

static const br_gemm_kernels kernels = { .gemm_block = take_panels };

static void *help(void *teams)
{
    is_helper = true;
    br_gemm_team *own = (br_gemm_team *)teams + 1;
    br__gemm_team_begins(own);
    br__gemm_team_ends(own, &kernels, teams, 2);
    return NULL;
}

Test(gemm_share, panels_are_taken_once_and_by_both)
{
    static record records[BLOCKS];
    br_gemm_team teams[2] = { 0 };
    pthread_t helper;
    br__gemm_team_begins(&teams[0]);
    cr_assert(pthread_create(&helper, NULL, help, teams) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        record *r = &records[i];
        r->wants_help = i % 2 == 0;
        br_gemm_block block = { .m = 1, .n = PANELS * PANEL_COLUMNS - 3, .k = 1, .c = r };
        br__gemm_share(&teams[0], &kernels, &block);
        cr_assert(atomic_load(&teams[0].helpers) == 0, "block %d: left with a helper inside", i);
        cr_assert(!r->wants_help || r->by_helper > 0);
        for (int k = 0; k < PANELS; k++)
            cr_assert(atomic_load(&r->taken[k]) == 1, "block %d: panel %d taken %d times", i, k,
                      atomic_load(&r->taken[k]));
    }
    br__gemm_team_ends(&teams[0], &kernels, teams, 2);
    cr_assert(pthread_join(helper, NULL) == 0);
}

/* It would wait for ever where nobody but itself can take their share. */
Test(gemm_share, who_is_done_does_not_wait_for_those_that_have_not_begun)
{
    br_gemm_team teams[3] = { 0 };
    br__gemm_team_begins(&teams[0]);
    br__gemm_team_begins(&teams[2]);
    br__gemm_team_ends(&teams[2], &kernels, teams, 3);
    cr_assert(atomic_load(&teams[0].helpers) == 0);
}
