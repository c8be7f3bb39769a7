/* tensor/twister.h - the Mersenne Twister. */
#ifndef BRASA_TWISTER_H
#define BRASA_TWISTER_H

#include <stdint.h>

/* The size of a state in words. Each word is tempered before it is used; after the last one, the
 * state is advanced. */
enum { BR__TWISTER_WORDS = 624 };

void br__twister_seed(uint32_t *words, uint32_t seed);
/* Seeds from n > 0 numbers, as the authors' init_by_array() does. */
void br__twister_seed_array(uint32_t *words, int n, const uint32_t *key);
void br__twister_advance(uint32_t *words);
/* Tempers n words; `out` must not overlap them. */
void br__twister_temper_all(uint32_t *out, const uint32_t *words, int n);

static inline uint32_t br__twister_temper(uint32_t x)
{
    x ^= x >> 11;
    x ^= (x << 7) & 0x9d2c5680u;
    x ^= (x << 15) & 0xefc60000u;
    return x ^ (x >> 18);
}

#endif
