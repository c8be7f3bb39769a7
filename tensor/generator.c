/* tensor/generator.c - random bits: each thread's generator, a Mersenne Twister (twister.c). */
#include "tensor/random_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = BR__TWISTER_WORDS };

static const uint64_t DEFAULT_SEED = 67280421310721;

typedef struct br_generator generator;
struct br_generator {
    uint32_t words[WORDS];
    int next; /* first word not handed out yet; WORDS: none is left */
    bool has_normal;
    double normal; /* the second of a pair of normal numbers */
    uint64_t seed;
};

/* Only the seed's lower 32 bits enter the state, as in PyTorch. */
static void seed_generator(generator *g, uint64_t seed)
{
    *g = (generator){ .next = WORDS, .seed = seed };
    br__twister_seed(g->words, (uint32_t)seed);
}

/* This thread's; NULL and an error if there is no memory for it. */
static generator *current(void)
{
    generator *g = br__thread.generator;
    if (__builtin_expect(g != NULL, 1))
        return g;
    g = br__list_thread() ? malloc(sizeof *g) : NULL;
    if (!g)
        return br__fail(BR_ERROR_MEMORY, "generator",
                        "no memory for this thread's state, %zu bytes", sizeof *g);
    seed_generator(g, DEFAULT_SEED);
    br__thread.generator = g;
    return g;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void refill(generator *g)
{
    br__twister_advance(g->words);
    g->next = 0;
}

void br__draw_words(uint32_t *out, int64_t n)
{
    generator *g = current();
    if (!g)
        memset(out, 0, (size_t)n * sizeof *out);
    while (g && n > 0) {
        if (g->next == WORDS)
            refill(g);
        int count = n < WORDS - g->next ? (int)n : WORDS - g->next;
        const uint32_t *words = g->words + g->next;
        for (int i = 0; i < count; i++)
            out[i] = br__twister_temper(words[i]);
        g->next += count;
        out += count;
        n -= count;
    }
}

uint32_t br__draw_u32(void)
{
    generator *g = current();
    if (!g)
        return 0;
    if (g->next == WORDS)
        refill(g);
    return br__twister_temper(g->words[g->next++]);
}

uint64_t br__draw_u64(void)
{
    uint64_t high = br__draw_u32();
    return high << 32 | br__draw_u32();
}

/* 53 bits, as a multiple of 2^-53. */
static double draw_double(void)
{
    return (double)(br__draw_u64() & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* Box and Muller: with u and v uniform, sqrt(-2 log(1 - v)) times the cosine and sine of 2 pi u are
 * two independent normal numbers. */
double br__draw_normal(void)
{
    generator *g = current();
    if (!g)
        return 0;
    if (g->has_normal) {
        g->has_normal = false;
        return g->normal;
    }
    double u = draw_double(), v = draw_double();
    double radius = sqrt(-2.0 * log1p(-v)), angle = 2.0 * M_PI * u;
    g->normal = radius * sin(angle);
    g->has_normal = true;
    return radius * cos(angle);
}

uint32_t br_random_u32(void)
{
    return br_failed() ? 0 : br__draw_u32();
}

uint64_t br_random_u64(void)
{
    return br_failed() ? 0 : br__draw_u64();
}

double br_random_double(void)
{
    return br_failed() ? 0 : draw_double();
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

/* Where things lie in br_rng_state: the 624 words, then these; 64-bit ones lower half first. */
enum {
    AT_NEXT = WORDS,
    AT_SEED,
    AT_HAS_NORMAL = AT_SEED + 2,
    AT_NORMAL,
    AT_MARK = AT_NORMAL + 2,
    AT_RESERVED,
    STATE_END
};
_Static_assert(STATE_END == BR_RNG_STATE_WORDS, "the header announces the state's size");

static const uint32_t STATE_MARK = 0x314d5442; /* "BTM1": the first version of this layout */

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
        br__fail(BR_ERROR_ARGUMENT, "get_rng_state", "state is NULL, but it is required");
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
}

/* From a state of zeros the twister never leaves; of the first word only the top bit counts. */
static bool all_zero(const uint32_t *words)
{
    uint32_t any = words[0] & 0x80000000u;
    for (int i = 1; i < WORDS; i++)
        any |= words[i];
    return any == 0;
}

/* What is wrong with a state, or NULL. */
static const char *find_flaw(const uint32_t *words, const generator *g)
{
    if (words[AT_MARK] != STATE_MARK || words[AT_RESERVED] != 0)
        return "it does not bear the mark of a state that br_get_rng_state() gave";
    if (words[AT_NEXT] > WORDS)
        return "its position is past its end";
    if (words[AT_HAS_NORMAL] > 1 || !isfinite(g->normal))
        return "its kept normal number is none";
    if (all_zero(words))
        return "it is zero, and would give zeros only";
    return NULL;
}

bool br_set_rng_state(const br_rng_state *state)
{
    if (!br__required("set_rng_state", "state", state))
        return false;
    const uint32_t *words = state->words;
    generator g = { .next = (int)words[AT_NEXT],
                    .has_normal = words[AT_HAS_NORMAL] == 1,
                    .seed = get_u64(&words[AT_SEED]) };
    uint64_t normal = get_u64(&words[AT_NORMAL]);
    memcpy(&g.normal, &normal, sizeof normal);
    memcpy(g.words, words, sizeof g.words);
    const char *flaw = find_flaw(words, &g);
    if (flaw) {
        br__fail(BR_ERROR_ARGUMENT, "set_rng_state", "state cannot be a generator's: %s", flaw);
        return false;
    }
    generator *own = current();
    if (own)
        *own = g;
    return own != NULL;
}
