/* tensor/random_internal.h - the generator of random bits, and the loops that make numbers of them.
 */
#ifndef BRASA_RANDOM_INTERNAL_H
#define BRASA_RANDOM_INTERNAL_H

#include "tensor/tensor_internal.h"

/* ---- The Mersenne Twister -------------------------------------------------------------------- */

/* A state is this many words. Each that is handed out is tempered first; after the last one the
 * state is advanced. */
enum { BR__TWISTER_WORDS = 624 };

void br__twister_seed(uint32_t *words, uint32_t seed);
/* From n > 0 numbers, as init_by_array() of the authors. */
void br__twister_seed_array(uint32_t *words, int n, const uint32_t *key);
void br__twister_advance(uint32_t *words);

static inline uint32_t br__twister_temper(uint32_t x)
{
    x ^= x >> 11;
    x ^= (x << 7) & 0x9d2c5680u;
    x ^= (x << 15) & 0xefc60000u;
    return x ^ (x >> 18);
}

/* ---- The thread's generator ------------------------------------------------------------------ */

/* The next n words. */
void br__draw_words(uint32_t *out, int64_t n);
uint32_t br__draw_u32(void);
/* Two words, the first one above. */
uint64_t br__draw_u64(void);
/* One standard normal number in f64. They come in pairs: the second is kept for the next call. */
double br__draw_normal(void);

/* ---- Loops over arrays ----------------------------------------------------------------------- */

/* A random order of 0 .. n-1, as br_randperm() gives it. */
void br__permute(int64_t *out, int64_t n);
/* Uniform numbers on [low, high), drawn in the array's order. */
void br__fill_uniform_f32(float *out, int64_t n, float low, float high);
void br__fill_uniform_f64(double *out, int64_t n, double low, double high);
/* Turn uniform numbers on [0, 1) into normal ones by the Box-Muller transform, 16 at a time: the
 * first 8 give radii, the others angles. n is a multiple of 16. */
void br__box_muller_f32(float *x, int64_t n, float mean, float std);
void br__box_muller_f64(double *x, int64_t n, double mean, double std);

#endif
