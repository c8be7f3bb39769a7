/* backends/cpu/gemm/gemm_share.c - work stealing: teams that are done take panels of other teams'
 * blocks.
 *
 * An owner copies its block, sets the bit OPEN, and multiplies the block; a helper that finds OPEN
 * set adds 1 to `helpers` and multiplies the same block. All take panels from next_column, so each
 * panel is computed once. At the end the owner clears OPEN, after which nobody can join, and waits
 * until no helper is left before it changes the block. A panel's result does not depend on who
 * computes it. */
#include "backends/cpu/gemm/gemm_share.h"

#include "tensor/tensor_internal.h"

enum { NOT_STARTED, RUNNING, DONE };
enum { OPEN = 1 << 30 }; /* bit of `helpers` */

void br__gemm_team_begins(br_gemm_team *own)
{
    atomic_store(&own->state, RUNNING);
}

void br__gemm_share(br_gemm_team *own, const br_gemm_kernels *kernels, const br_gemm_block *block)
{
    own->block = *block;
    own->block.next_column = &own->next_column;
    atomic_store(&own->next_column, 0);
    atomic_store(&own->helpers, OPEN);
    kernels->gemm_block(&own->block);
    atomic_fetch_sub(&own->helpers, OPEN);
    for (int i = 0; atomic_load(&own->helpers) > 0; i++)
        br__spin_pause(i);
}

/* Joins the team's current block. Returns false if the team has no open block. */
static bool join(br_gemm_team *t)
{
    int helpers = atomic_load(&t->helpers);
    while (helpers & OPEN)
        if (atomic_compare_exchange_weak(&t->helpers, &helpers, helpers + 1))
            return true;
    return false;
}

static void help(br_gemm_team *t, const br_gemm_kernels *kernels)
{
    for (int i = 0; atomic_load(&t->state) == RUNNING; i++) {
        if (join(t)) {
            kernels->gemm_block(&t->block);
            atomic_fetch_sub(&t->helpers, 1);
        }
        br__spin_pause(i);
    }
}

void br__gemm_team_ends(br_gemm_team *own, const br_gemm_kernels *kernels, br_gemm_team *teams,
                        int64_t count)
{
    atomic_store(&own->state, DONE);
    for (int64_t i = 0; i < count; i++)
        if (atomic_load(&teams[i].state) == NOT_STARTED)
            return;
    for (int64_t i = 1; i < count; i++)
        help(&teams[(own - teams + i) % count], kernels);
}
