/* ops/kernels/blocks.h - brings operands of any strides to a loop that is made for elements behind
 * each other. */
#ifndef BR_KERNELS_BLOCKS_H
#define BR_KERNELS_BLOCKS_H

#include "tensor/loop.h"

#include <stdint.h>

/* What a loop works on: bytes of an element of each operand, 0 for those it has not, and a power of
 * 2 that the number of elements must be a multiple of. */
#define LOOP_FORM(run, out, a, b, c) \
    ((uint32_t)(run) | (uint32_t)((out) << 8 | (a) << 12 | (b) << 16 | (c) << 20))

/* Runs `loop` over n elements of operands with strides s. What does not lie as the loop wants it
 * goes through a buffer that stays in the first-level cache; what lacks at the end of a run is made
 * up with copies of the last element. Of elements that are all the same one run is computed. */
void br__by_blocks(int64_t n, char *const *data, const int64_t *s, const void *params, br_loop loop,
                   uint32_t form);

#endif
