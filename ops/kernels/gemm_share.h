/* ops/kernels/gemm_share.h - threads that have multiplied all of theirs help the others.
 *
 * Shares that are even in work are not even in time: a processor is slowed by what else runs there.
 * So each team shows the block that it multiplies, and whoever has nothing left takes panels of it,
 * with the same packed A. The owner does not wait for helpers but at the end of a block that some
 * joined, for the panel they are at. */
#ifndef BR_GEMM_SHARE_H
#define BR_GEMM_SHARE_H

#include "ops/kernels/kernels.h"

/* Begins as all zeros. */
typedef struct br_gemm_team {
    _Alignas(64) atomic_int state; /* not begun, at work, done */
    atomic_int helpers;            /* and a bit of its own while others may join */
    atomic_int_fast64_t taken;
    br_gemm_block block; /* that helpers read; written only while they may not */
} br_gemm_team;

void br__gemm_team_begins(br_gemm_team *own);
/* Multiplies the block, with helpers if there are any. */
void br__gemm_share(br_gemm_team *own, const br_gemm_kernels *kernels, const br_gemm_block *block);
/* The team has done its share: helps the others until they have, too. If there is one that has not
 * begun, returns instead: its share may be taken as a whole. */
void br__gemm_team_ends(br_gemm_team *own, const br_gemm_kernels *kernels, br_gemm_team *teams,
                        int64_t count);

#endif
