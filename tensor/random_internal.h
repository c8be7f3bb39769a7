/* tensor/random_internal.h - the generator of random bits, and the loops that convert them to
 * numbers. */
#ifndef BRASA_RANDOM_INTERNAL_H
#define BRASA_RANDOM_INTERNAL_H

#include "tensor/tensor_internal.h"

/* ---- The thread's generator ------------------------------------------------------------------ */

/* Generates the next n words. */
void br__random_words(uint32_t *out, int64_t n);
uint32_t br__random_u32(void);
/* Generates two words, the first one as the upper half. */
uint64_t br__random_u64(void);
/* Generates a standard normal number in f64. Numbers are generated in pairs: the second is stored
 * for the next call. */
double br__random_normal(void);

/* ---- Loops over arrays ----------------------------------------------------------------------- */

/* Generates uniform integers in [low, high), as br_randint() does. low < high. */
void br__fill_randint(int64_t *out, int64_t n, int64_t low, int64_t high);
/* Generates a random permutation of 0 .. n-1, as br_randperm() does. */
void br__permute(int64_t *out, int64_t n);
/* Generates n bits that are 1 with probability p, 0 < p < 1, the same ones as PyTorch's
 * bernoulli_(p) for n elements. Each word holds 64 of them, the lowest bit first; bits after the
 * n-th are 0. */
void br__fill_bernoulli(uint64_t *bits, int64_t n, double p);

/* Loops over n contiguous elements of a floating-point dtype. */
typedef struct br_distribution_loops {
    /* Generates uniform numbers on [low, high), in array order. */
    void (*fill_uniform)(void *out, int64_t n, double low, double high);
    /* Converts uniform numbers on [0, 1) to normal ones by the Box-Muller transform, 16 at a time:
     * the first 8 give radii, the others angles. n must be a multiple of 16. */
    void (*make_normal)(void *x, int64_t n, double mean, double std);
} br_distribution_loops;

extern const br_distribution_loops br__distribution_loops[BR_DTYPES];

/* Fill t with random numbers in memory order, without checks or recording by autograd. The caller
 * increments t's version. br__uniform_possible() and br__normal_possible() only check the
 * arguments. */
bool br__uniform_possible(const br_tensor *t, double low, double high);
br_tensor *br__uniform_(br_tensor *t, double low, double high);
bool br__normal_possible(const br_tensor *t, double std);
br_tensor *br__normal_(br_tensor *t, double mean, double std);

#endif
