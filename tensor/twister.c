/* tensor/twister.c - the Mersenne Twister MT19937, on a plain array of words.
 *
 * The algorithm is from M. Matsumoto and T. Nishimura, "Mersenne Twister: a 623-dimensionally
 * equidistributed uniform pseudo-random number generator", ACM TOMACS 8 (1998). Seeding is from
 * their 2002 version: PyTorch seeds from a number, CPython from an array. 624 words are generated
 * at a time, in vectors of 8 or 16; compilers do not vectorize these loops by themselves, because
 * their lengths are not multiples of that. The loops are compiled for each instruction set. */
#include "tensor/twister.h"
#include "tensor/cpu.h"
#include "tensor/min_max.h"

enum { WORDS = BR__TWISTER_WORDS, SHIFT = 397, REST = WORDS - SHIFT };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)
#    define AVX2_BUILD   __attribute__((target("avx2")))
#    define AVX512_BUILD __attribute__((target("avx512f")))
#else
#    define AVX2_BUILD
#    define AVX512_BUILD
#endif

/* Words at any address, as many as the widest vector has; narrower processors take two vectors or
 * four. */
typedef uint32_t words16 __attribute__((vector_size(64), aligned(4), may_alias));
enum { LANES = 16 };

#define LOAD(p) (*(const words16 *)(const void *)(p))

ALWAYS_INLINE uint32_t twist(uint32_t upper, uint32_t lower)
{
    uint32_t mixed = (upper & 0x80000000u) | (lower & 0x7fffffffu);
    return (mixed >> 1) ^ (-(lower & 1u) & 0x9908b0dfu);
}

/* Sets w[i] = w[i + distance] ^ twist(w[i], w[i + 1]) for i = first .. end - 1. A vector of results
 * may depend neither on itself nor on later ones, so distance must be positive, or at most -LANES.
 */
ALWAYS_INLINE void twist_words(uint32_t *w, int first, int end, int distance)
{
    int i = first;
    for (; i + LANES <= end; i += LANES) {
        const words16 lower = LOAD(w + i + 1);
        const words16 mixed = (LOAD(w + i) & 0x80000000u) | (lower & 0x7fffffffu);
        *(words16 *)(void *)(w + i) =
            LOAD(w + i + distance) ^ (mixed >> 1) ^ (-(lower & 1u) & 0x9908b0dfu);
    }
    for (; i < end; i++)
        w[i] = w[i + distance] ^ twist(w[i], w[i + 1]);
}

/* Generates the next 624 words. Each depends on old words and on one that was generated 227 steps
 * before. */
ALWAYS_INLINE void advance(uint32_t *w)
{
    twist_words(w, 0, REST, SHIFT);
    twist_words(w, REST, WORDS - 1, -REST);
    w[WORDS - 1] = w[SHIFT - 1] ^ twist(w[WORDS - 1], w[0]);
}

ALWAYS_INLINE void temper(uint32_t *out, const uint32_t *words, int n)
{
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        words16 x = LOAD(words + i);
        x ^= x >> 11;
        x ^= (x << 7) & 0x9d2c5680u;
        x ^= (x << 15) & 0xefc60000u;
        *(words16 *)(void *)(out + i) = x ^ (x >> 18);
    }
    for (; i < n; i++)
        out[i] = br__twister_temper(words[i]);
}

AVX2_BUILD static void advance_avx2(uint32_t *w)
{
    advance(w);
}

AVX2_BUILD static void temper_avx2(uint32_t *out, const uint32_t *words, int n)
{
    temper(out, words, n);
}

AVX512_BUILD static void advance_avx512(uint32_t *w)
{
    advance(w);
}

AVX512_BUILD static void temper_avx512(uint32_t *out, const uint32_t *words, int n)
{
    temper(out, words, n);
}

void br__twister_advance(uint32_t *words)
{
    if (br__cpu() >= BR_CPU_AVX512)
        advance_avx512(words);
    else if (br__cpu() >= BR_CPU_AVX2)
        advance_avx2(words);
    else
        advance(words);
}

void br__twister_temper_all(uint32_t *out, const uint32_t *words, int n)
{
    if (br__cpu() >= BR_CPU_AVX512)
        temper_avx512(out, words, n);
    else if (br__cpu() >= BR_CPU_AVX2)
        temper_avx2(out, words, n);
    else
        temper(out, words, n);
}

void br__twister_seed(uint32_t *words, uint32_t seed)
{
    words[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        words[i] = 1812433253u * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
}

/* Returns word i mixed with a multiple of the previous word. */
static uint32_t mix(const uint32_t *words, int i, uint32_t factor)
{
    uint32_t before = words[i - 1];
    return words[i] ^ ((before ^ (before >> 30)) * factor);
}

/* Returns the index after i. After the last word, copies it to word 0 and returns 1. */
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
    for (int k = 0; k < br__max(n, WORDS); k++, i = after(words, i))
        words[i] = mix(words, i, 1664525) + key[k % n] + (uint32_t)(k % n);
    for (int k = 0; k < WORDS - 1; k++, i = after(words, i))
        words[i] = mix(words, i, 1566083941) - (uint32_t)i;
    words[0] = 0x80000000u;
}
