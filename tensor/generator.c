/* tensor/generator.c - random bits: each thread's generator, a Mersenne Twister (twister.c). */
#include "tensor/random_internal.h"
#include "tensor/twister.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = BR__TWISTER_WORDS };

static const uint64_t DEFAULT_SEED = 67280421310721;

typedef struct br_generator generator;
struct br_generator {
    uint32_t words[WORDS];
    int next; /* index of the next word; WORDS: all are used */
    bool has_normal;
    double normal; /* the second of a pair of normal numbers, for the next call */
    uint64_t seed;
    br_dropout_rng dropout;
};

/* Only the seed's lower 32 bits determine the state, as in PyTorch. */
static void seed_generator(generator *g, uint64_t seed)
{
    g->next = WORDS;
    g->has_normal = false;
    g->normal = 0;
    g->seed = seed;
    br__twister_seed(g->words, (uint32_t)seed);
}

/* Returns this thread's generator, or NULL and an error if there is no memory for it. */
static generator *current(void)
{
    generator *g = br__thread.generator;
    if (__builtin_expect(g != NULL, 1))
        return g;
    g = br__list_thread() ? malloc(sizeof *g) : NULL;
    if (!g)
        return br_fail(BR_ERROR_MEMORY, "generator",
                       "cannot allocate %zu bytes for this thread's random generator", sizeof *g);
    seed_generator(g, DEFAULT_SEED);
    g->dropout = BR_DROPOUT_PYTORCH;
    br__thread.generator = g;
    return g;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void refill(generator *g)
{
    br__twister_advance(g->words);
    g->next = 0;
}

void br__random_words(uint32_t *out, int64_t n)
{
    generator *g = current();
    if (!g)
        memset(out, 0, (size_t)n * sizeof *out);
    while (g && n > 0) {
        if (g->next == WORDS)
            refill(g);
        int count = n < WORDS - g->next ? (int)n : WORDS - g->next;
        br__twister_temper_all(out, g->words + g->next, count);
        g->next += count;
        out += count;
        n -= count;
    }
}

uint32_t br__random_u32(void)
{
    generator *g = current();
    if (!g)
        return 0;
    if (g->next == WORDS)
        refill(g);
    return br__twister_temper(g->words[g->next++]);
}

uint64_t br__random_u64(void)
{
    uint64_t high = br__random_u32();
    return high << 32 | br__random_u32();
}

/* Returns a uniform number on [0, 1): 53 bits, as a multiple of 2^-53. */
static double next_double(void)
{
    return (double)(br__random_u64() & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* The Box-Muller transform: with u and v uniform, sqrt(-2 log(1 - v)) times the cosine and sine of
 * 2 pi u are two independent normal numbers. */
double br__random_normal(void)
{
    generator *g = current();
    if (!g)
        return 0;
    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    double u = next_double(), v = next_double();
    double radius = sqrt(-2.0 * log1p(-v)), angle = 2.0 * M_PI * u;
    g->normal = radius * sin(angle);
    g->has_normal = true;
    return radius * cos(angle);
}

uint32_t br_random_u32(void)
{
    return br_failed() ? 0 : br__random_u32();
}

uint64_t br_random_u64(void)
{
    return br_failed() ? 0 : br__random_u64();
}

double br_random_double(void)
{
    return br_failed() ? 0 : next_double();
}

/* ---- Seed and state -------------------------------------------------------------------------- */

void br_manual_seed(uint64_t seed)
{
    generator *g = current();
    if (g)
        seed_generator(g, seed);
}

uint64_t br_initial_seed(void)
{
    const generator *g = current();
    return g ? g->seed : DEFAULT_SEED;
}

void br_set_dropout_rng(br_dropout_rng rng)
{
    if (rng != BR_DROPOUT_PYTORCH && rng != BR_DROPOUT_FAST) {
        br_fail(BR_ERROR_ARGUMENT, "set_dropout_rng",
                "rng is %d, must be BR_DROPOUT_PYTORCH or BR_DROPOUT_FAST", (int)rng);
        return;
    }
    generator *g = current();
    if (g)
        g->dropout = rng;
}

br_dropout_rng br_get_dropout_rng(void)
{
    const generator *g = br__thread.generator;
    return g ? g->dropout : BR_DROPOUT_PYTORCH;
}

/* Layout of br_rng_state: the 624 words, then these fields; 64-bit fields have the lower half
 * first. */
enum {
    AT_NEXT = WORDS,
    AT_SEED,
    AT_HAS_NORMAL = AT_SEED + 2,
    AT_NORMAL,
    AT_MARK = AT_NORMAL + 2,
    AT_DROPOUT,
    STATE_END
};
_Static_assert(STATE_END == BR_RNG_STATE_WORDS, "BR_RNG_STATE_WORDS must match this layout");

static const uint32_t STATE_MARK = 0x314d5442; /* "BTM1": version 1 of this layout */

static void put_u64(uint32_t *at, uint64_t value)
{
    at[0] = (uint32_t)value;
    at[1] = (uint32_t)(value >> 32);
}

static uint64_t get_u64(const uint32_t *at)
{
    return (uint64_t)at[1] << 32 | at[0];
}

void br_get_rng_state(br_rng_state *state)
{
    if (!state) {
        br_fail(BR_ERROR_ARGUMENT, "get_rng_state", "state is NULL, but it is required");
        return;
    }
    const generator *g = current();
    memset(state, 0, sizeof *state);
    if (!g)
        return;
    uint64_t normal = 0;
    if (g->has_normal)
        memcpy(&normal, &g->normal, sizeof normal);
    memcpy(state->words, g->words, sizeof g->words);
    state->words[AT_NEXT] = (uint32_t)g->next;
    put_u64(&state->words[AT_SEED], g->seed);
    state->words[AT_HAS_NORMAL] = g->has_normal;
    put_u64(&state->words[AT_NORMAL], normal);
    state->words[AT_MARK] = STATE_MARK;
    state->words[AT_DROPOUT] = g->dropout;
}

/* A state of zeros generates only zeros. Only the top bit of the first word is part of the
 * state. */
static bool all_zero(const uint32_t *words)
{
    uint32_t any = words[0] & 0x80000000u;
    for (int i = 1; i < WORDS; i++)
        any |= words[i];
    return any == 0;
}

/* Returns what is wrong with a state, or NULL. */
static const char *find_problem(const uint32_t *words, const generator *g)
{
    if (words[AT_MARK] != STATE_MARK || words[AT_DROPOUT] > BR_DROPOUT_FAST)
        return "it was not written by br_get_rng_state()";
    if (words[AT_NEXT] > WORDS)
        return "its position is past its last word";
    if (words[AT_HAS_NORMAL] > 1 || !isfinite(g->normal))
        return "its stored normal number is not valid";
    if (all_zero(words))
        return "it is all zeros and would generate only zeros";
    return NULL;
}

bool br_set_rng_state(const br_rng_state *state)
{
    if (!br__required("set_rng_state", "state", state))
        return false;
    const uint32_t *words = state->words;
    generator g = { .next = (int)words[AT_NEXT],
                    .has_normal = words[AT_HAS_NORMAL] == 1,
                    .seed = get_u64(&words[AT_SEED]),
                    .dropout = (br_dropout_rng)words[AT_DROPOUT] };
    uint64_t normal = get_u64(&words[AT_NORMAL]);
    memcpy(&g.normal, &normal, sizeof normal);
    memcpy(g.words, words, sizeof g.words);
    const char *problem = find_problem(words, &g);
    if (problem) {
        br_fail(BR_ERROR_ARGUMENT, "set_rng_state", "state is not valid: %s", problem);
        return false;
    }
    generator *own = current();
    if (own)
        *own = g;
    return own != NULL;
}
