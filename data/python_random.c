/* data/python_random.c - CPython's module random: the same algorithms, the same numbers. */
#include "tensor/random_internal.h"
#include "tensor/twister.h"

#include <brasa/data.h>
#include <inttypes.h>

struct br_python_random {
    uint32_t words[BR__TWISTER_WORDS];
    int next; /* index of the next unused word */
};

br_python_random *br_python_random_new(uint64_t seed)
{
    if (br_failed())
        return NULL;
    br_python_random *random = BR_NEW(br_python_random);
    if (!random)
        return NULL;
    uint32_t key[] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    br__twister_seed_array(random->words, key[1] ? 2 : 1, key);
    random->next = BR__TWISTER_WORDS;
    return random;
}

void br_python_random_free(br_python_random *random)
{
    if (BR_END("python_random_free", random))
        BR_FREE(random);
}

static uint32_t next_u32(br_python_random *random)
{
    if (random->next == BR__TWISTER_WORDS) {
        br__twister_advance(random->words);
        random->next = 0;
    }
    return br__twister_temper(random->words[random->next++]);
}

/* Returns 1 .. 64 random bits. With two words, the first one supplies the low 32 bits. */
static uint64_t getrandbits(br_python_random *random, int bits)
{
    if (bits <= 32)
        return next_u32(random) >> (32 - bits);
    uint64_t low = next_u32(random);
    return (uint64_t)(next_u32(random) >> (64 - bits)) << 32 | low;
}

/* Returns a uniform number below n > 0 by rejection: generates numbers with as many bits as n until
 * one is below n. */
static uint64_t below(br_python_random *random, uint64_t n)
{
    int bits = 64 - __builtin_clzll(n);
    uint64_t r;
    do
        r = getrandbits(random, bits);
    while (r >= n);
    return r;
}

double br_python_random_random(br_python_random *random)
{
    if (!br__required("python_random_random", "random", random))
        return 0;
    uint32_t high = next_u32(random) >> 5, low = next_u32(random) >> 6;
    return (high * 0x1p26 + low) * 0x1p-53;
}

int64_t br_python_random_randrange(br_python_random *random, int64_t n)
{
    const char *op = "python_random_randrange";
    if (!br__required(op, "random", random))
        return 0;
    if (n < 1) {
        br_fail(BR_ERROR_ARGUMENT, op, "n is %" PRId64 ", must be at least 1", n);
        return 0;
    }
    return (int64_t)below(random, (uint64_t)n);
}

int64_t br_python_random_randint(br_python_random *random, int64_t low, int64_t high)
{
    const char *op = "python_random_randint";
    if (!br__required(op, "random", random))
        return 0;
    uint64_t n = (uint64_t)high - (uint64_t)low + 1; /* 0 if the range is all 2^64 numbers */
    if (low > high || n == 0) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "the range %" PRId64 " .. %" PRId64 " must contain 1 .. 2^64 - 1 integers", low,
                high);
        return 0;
    }
    return (int64_t)((uint64_t)low + below(random, n));
}

void br_python_random_shuffle(br_python_random *random, int64_t n, int64_t *values)
{
    if (!br__required("python_random_shuffle", "random", random))
        return;
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t j = (int64_t)below(random, (uint64_t)i + 1), value = values[i];
        values[i] = values[j];
        values[j] = value;
    }
}
