/* backends/cpu/gemm/gemm_share.h - work stealing between the threads of a matrix product.
 *
 * Equal shares of the work can take different times, because other load slows some processors. So
 * each team publishes the block that it is multiplying, and teams that are done take panels of that
 * block and use its packed A. At the end of a block, the owner waits only until its helpers have
 * finished their current panels. */
#ifndef BR_GEMM_SHARE_H
#define BR_GEMM_SHARE_H

#include "backends/cpu/gemm/gemm_kernels.h"

/* Must be initialized to zeros. */
typedef struct br_gemm_team {
    _Alignas(64) atomic_int state; /* not begun, at work, done */
    atomic_int helpers;            /* number of helpers, plus the bit OPEN while others may join */
    atomic_int_fast64_t next_column;
    br_gemm_block block; /* read by helpers; written only while it is not open */
} br_gemm_team;

void br__gemm_team_begins(br_gemm_team *own);
/* Multiplies the block, with helpers if there are any. */
void br__gemm_share(br_gemm_team *own, const br_gemm_kernels *kernels, const br_gemm_block *block);
/* Marks the team's share as done, and helps the other teams until they are done, too. If some team
 * has not begun, returns at once, since the thread can then take over that team's whole share. */
void br__gemm_team_ends(br_gemm_team *own, const br_gemm_kernels *kernels, br_gemm_team *teams,
                        int64_t count);

#endif
