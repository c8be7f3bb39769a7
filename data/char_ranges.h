/* data/char_ranges.h - tables of ranges of code points, as the make_*_chars.py write them: in
 * ascending order, the first code point of each range above the bits that its code points have. */
#ifndef BR_CHAR_RANGES_H
#define BR_CHAR_RANGES_H

#include <stddef.h>
#include <stdint.h>

/* The bits of a code point; the first range begins with 0. */
static inline uint32_t br__bits_of_char(const uint32_t *ranges, size_t count, int n_bits,
                                        uint32_t c)
{
    size_t low = 0, high = count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (ranges[middle] >> n_bits <= c)
            low = middle;
        else
            high = middle;
    }
    return ranges[low] & ((1u << n_bits) - 1);
}

#endif
