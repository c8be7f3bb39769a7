/* ops/kernels/gemm_share.c - panels of a team's block for whoever has nothing left to do. */
#include "ops/kernels/gemm_share.h"

#include "tensor/tensor_internal.h"

enum { NOT_BEGUN, AT_WORK, DONE };
enum { OPEN = 1 << 30 }; /* in `helpers` */

void br__gemm_team_begins(br_gemm_team *own)
{
    atomic_store(&own->state, AT_WORK);
}

void br__gemm_share(br_gemm_team *own, const br_gemm_kernels *kernels, const br_gemm_block *block)
{
    own->block = *block;
    own->block.taken = &own->taken;
    atomic_store(&own->taken, 0);
    atomic_store(&own->helpers, OPEN);
    kernels->gemm_block(&own->block);
    atomic_fetch_sub(&own->helpers, OPEN);
    for (int i = 0; atomic_load(&own->helpers) > 0; i++)
        br__linger(i);
}

/* False if the team shows no block just now. */
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
    for (int i = 0; atomic_load(&t->state) == AT_WORK; i++) {
        if (join(t)) {
            kernels->gemm_block(&t->block);
            atomic_fetch_sub(&t->helpers, 1);
        }
        br__linger(i);
    }
}

void br__gemm_team_ends(br_gemm_team *own, const br_gemm_kernels *kernels, br_gemm_team *teams,
                        int64_t count)
{
    atomic_store(&own->state, DONE);
    for (int64_t i = 0; i < count; i++)
        if (atomic_load(&teams[i].state) == NOT_BEGUN)
            return;
    for (int64_t i = 1; i < count; i++)
        help(&teams[(own - teams + i) % count], kernels);
}
