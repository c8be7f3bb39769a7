/* tests/ops/matmul/test_gemm_share.c - work stealing in matrix products: each panel of a block is
 * computed exactly once, by any thread.
 *
 * Instead of multiplying, the kernel here records which thread took which panel. It also ensures
 * that both threads take part. */
#include "backends/cpu/gemm/gemm_share.h"
#include "tests/support.h"

#include <pthread.h>
#include <sched.h>

TestSuite(gemm_share, .init = check_begin, .fini = check_end);

enum { PANELS = 40, BLOCKS = 50, PANEL_COLUMNS = 32 };

typedef struct record {
    atomic_int taken[PANELS];
    atomic_int by_helper;
    bool help_requested; /* the owner waits in its block until a helper has taken a panel */
} record;

static _Thread_local bool is_helper;

/* Replaces gemm_block(); `c` points to the record. */
static void take_panels(const br_gemm_block *g)
{
    record *r = g->c;
    for (int64_t j; (j = atomic_fetch_add(g->next_column, PANEL_COLUMNS)) < g->n;) {
        atomic_fetch_add(&r->taken[j / PANEL_COLUMNS], 1);
        if (is_helper)
            atomic_fetch_add(&r->by_helper, 1);
        while (!is_helper && r->help_requested && atomic_load(&r->by_helper) == 0)
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

Test(gemm_share, each_panel_is_taken_once_and_both_threads_take_part)
{
    static record records[BLOCKS];
    br_gemm_team teams[2] = { 0 };
    pthread_t helper;
    br__gemm_team_begins(&teams[0]);
    cr_assert(pthread_create(&helper, NULL, help, teams) == 0);
    for (int i = 0; i < BLOCKS; i++) {
        record *r = &records[i];
        r->help_requested = i % 2 == 0;
        br_gemm_block block = { .m = 1, .n = PANELS * PANEL_COLUMNS - 3, .k = 1, .c = r };
        br__gemm_share(&teams[0], &kernels, &block);
        cr_assert(atomic_load(&teams[0].helpers) == 0, "block %d: a helper is still in it", i);
        cr_assert(!r->help_requested || r->by_helper > 0);
        for (int k = 0; k < PANELS; k++)
            cr_assert(atomic_load(&r->taken[k]) == 1, "block %d: panel %d taken %d times", i, k,
                      atomic_load(&r->taken[k]));
    }
    br__gemm_team_ends(&teams[0], &kernels, teams, 2);
    cr_assert(pthread_join(helper, NULL) == 0);
}

/* If a team waited for one that has not begun, it could wait forever: there may be no other thread
 * to run that team's share. */
Test(gemm_share, a_finished_team_does_not_wait_for_teams_that_have_not_begun)
{
    br_gemm_team teams[3] = { 0 };
    br__gemm_team_begins(&teams[0]);
    br__gemm_team_begins(&teams[2]);
    br__gemm_team_ends(&teams[2], &kernels, teams, 3);
    cr_assert(atomic_load(&teams[0].helpers) == 0);
}
