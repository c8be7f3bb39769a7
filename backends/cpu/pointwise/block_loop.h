/* backends/cpu/pointwise/block_loop.h - runs loops for contiguous operands on operands of any
 * strides. */
#ifndef BR_KERNELS_BLOCKS_H
#define BR_KERNELS_BLOCKS_H

#include "tensor/loop.h"

#include <stdint.h>

/* Describes the operands of a loop: the element size of each in bytes (0 if the loop does not have
 * this operand), and a power of 2 that must divide the number of elements. */
#define LOOP_FORM(run, out, a, b, c) \
    ((uint32_t)(run) | (uint32_t)((out) << 8 | (a) << 12 | (b) << 16 | (c) << 20))

/* Runs `loop` over n elements of operands with strides s. Operands that are not contiguous are
 * copied to buffers that stay in the L1 cache. The last block is padded with copies of its last
 * element. If all inputs are constant, the result is computed once and stored n times. */
void br__by_blocks(int64_t n, char *const *data, const int64_t *s, const void *params, br_loop loop,
                   uint32_t form);

#endif
