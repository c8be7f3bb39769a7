/* tensor/twister.c - the Mersenne Twister MT19937, on a plain array of words.
 *
 * The algorithm is that of M. Matsumoto and T. Nishimura, "Mersenne Twister: a 623-dimensionally
 * equidistributed uniform pseudo-random number generator", ACM TOMACS 8 (1998). Seeding is that of
 * their 2002 version: PyTorch has the one from a number, CPython the one from an array. 624 words
 * are made at a time, in loops without dependencies that a compiler turns into vector code. */
#include "tensor/random_internal.h"

enum { WORDS = BR__TWISTER_WORDS, SHIFT = 397 };

static inline uint32_t twist(uint32_t upper, uint32_t lower)
{
    uint32_t mixed = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return (mixed >> 1) ^ (-(lower & 1u) & 0x9908b0dfu);
}

/* The next 624 words; each is made of old ones and of one that was made 227 steps before. */
void br__twister_advance(uint32_t *w)
{
    for (int i = 0; i < WORDS - SHIFT; i++)
        w[i] = w[i + SHIFT] ^ twist(w[i], w[i + 1]);
    for (int i = WORDS - SHIFT; i < WORDS - 1; i++)
        w[i] = w[i - (WORDS - SHIFT)] ^ twist(w[i], w[i + 1]);
    w[WORDS - 1] = w[SHIFT - 1] ^ twist(w[WORDS - 1], w[0]);
}

void br__twister_seed(uint32_t *words, uint32_t seed)
{
    words[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        words[i] = 1812433253u * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
}

/* Word i mixed with a multiple of the one before. */
static uint32_t mix(const uint32_t *words, int i, uint32_t factor)
{
    uint32_t before = words[i - 1];
    return words[i] ^ ((before ^ (before >> 30)) * factor);
}

/* The word after i; the first one, past the last, is given the last one's value and passed over. */
static int after(uint32_t *words, int i)
{
    if (i + 1 < WORDS)
        return i + 1;
    words[0] = words[WORDS - 1];
    return 1;
}

void br__twister_seed_array(uint32_t *words, int n, const uint32_t *key)
{
    br__twister_seed(words, 19650218);
    int i = 1;
    for (int k = 0; k < (n > WORDS ? n : WORDS); k++, i = after(words, i))
        words[i] = mix(words, i, 1664525) + key[k % n] + (uint32_t)(k % n);
    for (int k = 0; k < WORDS - 1; k++, i = after(words, i))
        words[i] = mix(words, i, 1566083941) - (uint32_t)i;
    words[0] = 0x80000000u;
}
