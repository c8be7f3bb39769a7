/* tensor/distributions.c - loops that convert random words to uniform and normal numbers.
 *
 * The results are bit-identical to PyTorch's, so every rounding is written out: fma() is used where
 * a product and a sum are rounded once, and no other product is left that a compiler might fuse
 * with a sum. Loops with fma() are compiled a second time for processors that have the instruction;
 * without it, the C library's fma() gives the same bits, but slowly. */
#include "tensor/cpu.h"
#include "tensor/random_internal.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 624 }; /* words generated at a time: they fit in the L1 cache */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__)
#    define FMA_BUILD __attribute__((target("avx2,fma")))
#else
#    define FMA_BUILD
#endif

static bool have_fma(void)
{
    return br__cpu() >= BR_CPU_AVX2;
}

/* ---- Uniform --------------------------------------------------------------------------------- */

/* Maps x from [0, 1) to [low, high). A value that rounding makes equal to `high`, which is outside
 * the interval, becomes low. */
ALWAYS_INLINE void stretch_f32(float *x, int64_t n, float low, float high)
{
    float range = high - low;
    for (int64_t i = 0; i < n; i++) {
        float value = fmaf(x[i], range, low);
        x[i] = value == high ? low : value;
    }
}

ALWAYS_INLINE void stretch_f64(double *x, int64_t n, double low, double high)
{
    double range = high - low;
    for (int64_t i = 0; i < n; i++) {
        double value = fma(x[i], range, low);
        x[i] = value == high ? low : value;
    }
}

FMA_BUILD static void stretch_f32_fma(float *x, int64_t n, float low, float high)
{
    stretch_f32(x, n, low, high);
}

FMA_BUILD static void stretch_f64_fma(double *x, int64_t n, double low, double high)
{
    stretch_f64(x, n, low, high);
}

/* Generates uniform numbers on [0, 1): 24 bits of a word, as a multiple of 2^-24. */
static void unit_f32(float *out, int n)
{
    uint32_t words[CHUNK];
    br__random_words(words, n);
    for (int i = 0; i < n; i++)
        out[i] = (float)(int32_t)(words[i] & 0xffffff) * 0x1p-24f;
}

/* Generates uniform numbers on [0, 1): 53 bits of two words, the first one as the upper half, as a
 * multiple of 2^-53. */
static void unit_f64(double *out, int n)
{
    uint32_t words[CHUNK];
    br__random_words(words, 2 * n);
    for (int i = 0; i < n; i++) {
        int64_t bits = (int64_t)(words[2 * i] & 0x1fffff) << 32 | words[2 * i + 1];
        out[i] = (double)bits * 0x1p-53;
    }
}

static void fill_uniform_f32(void *data, int64_t n, double first, double last)
{
    float *out = data;
    const float low = (float)first, high = (float)last;
    bool unit = low == 0 && high == 1, fast = have_fma();
    while (n > 0) {
        int count = n < CHUNK ? (int)n : CHUNK;
        unit_f32(out, count);
        if (!unit)
            (fast ? stretch_f32_fma : stretch_f32)(out, count, low, high);
        out += count;
        n -= count;
    }
}

static void fill_uniform_f64(void *data, int64_t n, double low, double high)
{
    double *out = data;
    bool unit = low == 0 && high == 1, fast = have_fma();
    while (n > 0) {
        int count = n < CHUNK / 2 ? (int)n : CHUNK / 2;
        unit_f64(out, count);
        if (!unit)
            (fast ? stretch_f64_fma : stretch_f64)(out, count, low, high);
        out += count;
        n -= count;
    }
}

/* ---- Bits ------------------------------------------------------------------------------------ */

/* Numbers per 64-bit word of the result, and the random words that they take. */
enum { PAIRS = 64, PAIRS_WORDS = 2 * PAIRS };

typedef uint64_t lanes __attribute__((vector_size(32), aligned(4), may_alias));

/* Sets bit i if number i, 53 bits of two words as in unit_f64(), is below the threshold. The
 * difference of two numbers of less than 63 bits has its highest bit set if it is negative. */
ALWAYS_INLINE void compare_pairs(uint64_t *bits, int n, const uint32_t *words, uint64_t threshold)
{
    const uint64_t mask = (UINT64_C(1) << 53) - 1;
    for (int i = 0; i < n; i++, words += PAIRS_WORDS) {
        lanes below = { 0 };
        for (int k = 0; k < PAIRS / 4; k++) {
            const lanes pair = *(const lanes *)(words + 8 * k);
            const lanes number = (pair << 32 | pair >> 32) & mask;
            below |= (number - threshold) >> 63 << 4 * k;
        }
        bits[i] = below[0] | below[1] << 1 | below[2] << 2 | below[3] << 3;
    }
}

FMA_BUILD static void compare_pairs_avx2(uint64_t *bits, int n, const uint32_t *words,
                                         uint64_t threshold)
{
    compare_pairs(bits, n, words, threshold);
}

/* A uniform double is less than p exactly if its 53 bits, as an integer, are less than p 2^53. */
void br__fill_bernoulli(uint64_t *bits, int64_t n, double p)
{
    enum { AT_ONCE = 8 };
    uint32_t words[AT_ONCE * PAIRS_WORDS];
    const uint64_t threshold = (uint64_t)ceil(p * 0x1p53);
    for (; n > 0; n -= AT_ONCE * PAIRS, bits += AT_ONCE) {
        const int count = n < AT_ONCE * PAIRS ? (int)n : AT_ONCE * PAIRS;
        const int whole = (count + PAIRS - 1) / PAIRS, unused = whole * PAIRS - count;
        br__random_words(words, 2 * count);
        memset(words + 2 * count, 0xff, (size_t)(2 * unused) * sizeof *words);
        (have_fma() ? compare_pairs_avx2 : compare_pairs)(bits, whole, words, threshold);
    }
}

/* ---- Normal ---------------------------------------------------------------------------------- */

/* Computes log x for normal x > 0, after logf of S. Moshier's Cephes library: x = m 2^e with m in
 * [sqrt(1/2), sqrt(2)), and a polynomial in m - 1. */
ALWAYS_INLINE float fast_log(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    float e = (float)((int32_t)(bits >> 23) - 126);
    bits = (bits & 0x007fffff) | 0x3f000000;
    float m;
    memcpy(&m, &bits, sizeof m); /* in [1/2, 1) */
    bool below = m < 0.707106781186547524f;
    e -= below ? 1.0f : 0.0f;
    m = (m - 1.0f) + (below ? m : 0.0f);

    float z = m * m;
    float p = 7.0376836292e-2f;
    p = fmaf(p, m, -1.1514610310e-1f);
    p = fmaf(p, m, 1.1676998740e-1f);
    p = fmaf(p, m, -1.2420140846e-1f);
    p = fmaf(p, m, 1.4249322787e-1f);
    p = fmaf(p, m, -1.6668057665e-1f);
    p = fmaf(p, m, 2.0000714765e-1f);
    p = fmaf(p, m, -2.4999993993e-1f);
    p = fmaf(p, m, 3.3333331174e-1f);
    /* log 2 is split in two: the larger part has few bits, so that its product with e is exact */
    p = fmaf(p * m, z, e * -2.12194440e-4f);
    p = fmaf(z, -0.5f, p);
    return fmaf(e, 0.693359375f, m + p);
}

/* Computes sin x and cos x for x in [0, 2 pi], after sinf and cosf of Cephes: subtracts the nearest
 * even multiple q of pi/4 (in three parts) from x, then evaluates a polynomial for each. */
ALWAYS_INLINE void fast_sincos(float x, float *sin_x, float *cos_x)
{
    int32_t q = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)q;
    x = fmaf(y, -0.78515625f, x);
    x = fmaf(y, -2.4187564849853515625e-4f, x);
    x = fmaf(y, -3.77489497744594108e-8f, x);

    float z = x * x;
    float c = 2.443315711809948e-5f;
    c = fmaf(c, z, -1.388731625493765e-3f);
    c = fmaf(c, z, 4.166664568298827e-2f);
    c = fmaf(c * z, z, z * -0.5f) + 1.0f;
    float s = -1.9515295891e-4f;
    s = fmaf(s, z, 8.3321608736e-3f);
    s = fmaf(s, z, -1.6666654611e-1f);
    s = fmaf(s * z, x, x);

    bool odd = q & 2, minus_sin = q & 4, minus_cos = (q + 2) & 4;
    float sine = odd ? c : s, cosine = odd ? s : c;
    *sin_x = minus_sin ? -sine : sine;
    *cos_x = minus_cos ? -cosine : cosine;
}

ALWAYS_INLINE void box_muller_f32(float *x, int64_t n, float mean, float std)
{
    for (int64_t i = 0; i < n; i += 16, x += 16) {
        for (int j = 0; j < 8; j++) {
            float radius = sqrtf(-2.0f * fast_log(1.0f - x[j]));
            float sine, cosine;
            fast_sincos((float)(2.0 * M_PI) * x[j + 8], &sine, &cosine);
            x[j] = fmaf(radius * cosine, std, mean);
            x[j + 8] = fmaf(radius * sine, std, mean);
        }
    }
}

FMA_BUILD static void box_muller_f32_fma(float *x, int64_t n, float mean, float std)
{
    box_muller_f32(x, n, mean, std);
}

static void make_normal_f32(void *x, int64_t n, double mean, double std)
{
    (have_fma() ? box_muller_f32_fma : box_muller_f32)(x, n, (float)mean, (float)std);
}

static void make_normal_f64(void *data, int64_t n, double mean, double std)
{
    double *x = data;
    for (int64_t i = 0; i < n; i += 16, x += 16) {
        for (int j = 0; j < 8; j++) {
            double radius = sqrt(-2.0 * log(1.0 - x[j])), angle = 2.0 * M_PI * x[j + 8];
            x[j] = fma(radius * cos(angle), std, mean);
            x[j + 8] = fma(radius * sin(angle), std, mean);
        }
    }
}

const br_distribution_loops br__distribution_loops[BR_DTYPES] = {
    [BR_F32] = { fill_uniform_f32, make_normal_f32 },
    [BR_F64] = { fill_uniform_f64, make_normal_f64 },
};
