/* backends/cpu/pointwise/block_loop.c - runs loops for contiguous operands on operands of any
 * strides.
 *
 * The elements are processed in blocks of PART. In each block, inputs that are not contiguous are
 * copied into buffers, the loop runs over the buffers, and the result is copied to the output. The
 * buffers of all operands take 8 KiB and stay in the L1 cache, so memory is still read and written
 * once. There are three shortcuts: if all operands are contiguous, the loop runs in place, and only
 * a partial vector at the end goes through the buffers; a constant input is copied once; and if all
 * inputs are constant, the loop runs once and its result is stored n times. The copies are
 * memory-bound, so there is one build for all instruction sets. */
#include "backends/cpu/pointwise/block_loop.h"
#include "backends/cpu/hints.h"
#include "tensor/min_max.h"

#include <stdbool.h>
#include <string.h>

/* Stores one value `count` times. `size` is a constant after inlining, so each copy is one
 * instruction, and the loop is vectorized. */
ALWAYS_INLINE void fill_elements(char *to, const char *from, int64_t size, int64_t count)
{
    char x[8];
    memcpy(x, from, (size_t)size);
    FOR_EVERY(i, count, memcpy(to + i * size, x, (size_t)size);)
}

EVERY_WIDTH static void fill(char *to, const char *from, int64_t size, int64_t count)
{
    if (size == 8)
        fill_elements(to, from, 8, count);
    else if (size == 4)
        fill_elements(to, from, 4, count);
    else
        fill_elements(to, from, 1, count);
}

/* Copies `count` elements between two strides. `size` is a constant after inlining. */
ALWAYS_INLINE void move_elements(char *to, int64_t to_step, const char *from, int64_t from_step,
                                 int64_t size, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        memcpy(to + i * to_step, from + i * from_step, (size_t)size);
}

EVERY_WIDTH static void move(char *to, int64_t to_step, const char *from, int64_t from_step,
                             int64_t size, int64_t count)
{
    if (size == 8)
        move_elements(to, to_step, from, from_step, 8, count);
    else if (size == 4)
        move_elements(to, to_step, from, from_step, 4, count);
    else
        move_elements(to, to_step, from, from_step, 1, count);
}

/* First unpacks `form`: `dense` means that all operands are contiguous, `alike` that the output is
 * contiguous and all inputs are constant. Then runs whole vectors in place if the operands are
 * dense, fills the buffers of constant inputs, and processes what is left block by block. */
void br__by_blocks(int64_t n, char *const *data, const int64_t *s, const void *params, br_loop loop,
                   uint32_t form)
{
    enum { PART = 256, LARGEST = 8 }; /* elements of a block, and bytes of the largest element */
    _Alignas(64) char buffer[BR_MAX_OPERANDS][PART * LARGEST];
    char *at[BR_MAX_OPERANDS];
    int64_t size[BR_MAX_OPERANDS], done = 0;
    const int64_t run = form & 0xff;
    int operands = 0;
    bool dense = true, alike = true, constant[BR_MAX_OPERANDS];
    for (uint32_t sizes = form >> 8; sizes > 0; sizes >>= 4, operands++) {
        size[operands] = sizes & 0xf;
        constant[operands] = s[operands] == 0 || n == 1;
        dense = dense && s[operands] == size[operands];
        alike = alike && (operands == 0 ? s[0] == size[0] || n == 1 : constant[operands]);
    }
    if (dense && n >= run) {
        done = n & -run;
        loop(done, data, s, params);
    }
    const int64_t filled = alike ? run : n < PART ? (n + run - 1) & -run : PART;
    const bool single = alike && run == 1; /* one element, computed in place */
    for (int k = 1; k < operands; k++)
        if (constant[k] && !single)
            fill(buffer[k], data[k], size[k], filled);
    if (alike) {
        at[0] = buffer[0];
        for (int k = 1; k < operands; k++)
            at[k] = single ? data[k] : buffer[k];
        loop(run, at, size, params);
        fill(data[0], buffer[0], size[0], n);
        return;
    }
    for (int64_t i = done; i < n; i += PART) {
        const int64_t count = br__min(n - i, PART), whole = (count + run - 1) & -run;
        for (int k = 0; k < operands; k++) {
            char *from = data[k] + i * s[k];
            at[k] = s[k] == size[k] && whole == count ? from : buffer[k];
            if (at[k] == from || constant[k] || k == 0)
                continue;
            move(buffer[k], size[k], from, s[k], size[k], count);
            fill(buffer[k] + count * size[k], from + (count - 1) * s[k], size[k], whole - count);
        }
        loop(whole, at, size, params);
        if (at[0] == buffer[0])
            move(data[0] + i * s[0], s[0], buffer[0], size[0], size[0], count);
    }
}
