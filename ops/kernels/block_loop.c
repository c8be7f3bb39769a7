/* ops/kernels/block_loop.c - runs loops for contiguous operands on operands of any strides. The
 * loops are memory-bound, so there is one build for all instruction sets. */
#include "ops/kernels/block_loop.h"
#include "ops/kernels/hints.h"

#include <stdbool.h>

#define MOVE(type, to_step, from_step)          \
    for (int64_t i = 0; i < count; i++)         \
        *(type *)(void *)(to + i * (to_step)) = \
            *(const type *)(const void *)(from + i * (from_step));

#define FILL(type)                                        \
    {                                                     \
        const type x = *(const type *)(const void *)from; \
        FOR_EVERY(i, count, ((type *)(void *)to)[i] = x;) \
    }

/* Stores one value `count` times. */
EVERY_WIDTH static void fill(char *to, const char *from, int64_t size, int64_t count)
{
    if (size == 8)
        FILL(uint64_t)
    else if (size == 4)
        FILL(uint32_t)
    else
        FILL(uint8_t)
}

EVERY_WIDTH static void move(char *to, int64_t to_step, const char *from, int64_t from_step,
                             int64_t size, int64_t count)
{
    if (size == 8)
        MOVE(uint64_t, to_step, from_step)
    else if (size == 4)
        MOVE(uint32_t, to_step, from_step)
    else
        MOVE(uint8_t, to_step, from_step)
}

void br__by_blocks(int64_t n, char *const *data, const int64_t *s, const void *params, br_loop loop,
                   uint32_t form)
{
    enum { PART = 256, LARGEST = 8 };
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
        const int64_t count = n - i < PART ? n - i : PART, whole = (count + run - 1) & -run;
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
