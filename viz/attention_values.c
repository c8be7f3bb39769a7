/* viz/attention_values.c - writes bytes as base64, and numbers as f32, as f16, or as 8-bit
 * logarithms of weights, in which runs of omitted weights take two bytes. */
#include "viz/viz_internal.h"

#include <math.h>
#include <string.h>

/* ---- Base64 ---------------------------------------------------------------------------------- */

typedef struct base64 {
    br_writer *w;
    unsigned bits, n; /* n bytes are pending in `bits` */
} base64;

static void put_quad(base64 *b, int letters)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char quad[4] = { '=', '=', '=', '=' };
    for (int i = 0; i < letters; i++)
        quad[i] = alphabet[b->bits >> (18 - 6 * i) & 63];
    br__write_bytes(b->w, quad, sizeof quad);
    b->bits = b->n = 0;
}

static void put(base64 *b, unsigned byte)
{
    b->bits |= (byte & 255) << (16 - 8 * b->n);
    if (++b->n == 3)
        put_quad(b, 4);
}

static void finish(base64 *b)
{
    if (b->n > 0)
        put_quad(b, (int)b->n + 1);
}

void br__write_base64(br_writer *w, const char *bytes, size_t n)
{
    base64 b = { .w = w };
    for (size_t i = 0; i < n; i++)
        put(&b, (unsigned char)bytes[i]);
    finish(&b);
}

/* ---- Types ----------------------------------------------------------------------------------- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Converts to f16, rounded to nearest, ties to even. */
static unsigned half(float x)
{
    unsigned sign = bits_of(x) >> 16 & 0x8000;
    float size = fabsf(x);
    if (isnan(x))
        return 0x7e00;
    if (size >= 65520)
        return sign | 0x7c00;
    if (size < 0x1p-14f) /* subnormal: a multiple of 2^-24 */
        return sign | (unsigned)lrintf(size * 0x1p24f);
    uint32_t bits = bits_of(size);
    bits += 0xfff + (bits >> 13 & 1);
    return sign | ((bits >> 13) - (112 << 10));
}

/* Encodes a weight: 1 .. 254 are equal steps of the logarithm from the threshold to 1, 0 is less
 * than the threshold, and 255 is NaN. */
static unsigned logarithm(float weight, double per_step)
{
    if (isnan(weight))
        return 255;
    double code = 254 + log((double)weight) / per_step;
    return code < 0.5 ? 0 : code > 254 ? 254 : (unsigned)lrint(code);
}

static int64_t write_logarithms(base64 *b, double threshold, const float *values, int64_t n)
{
    double per_step = -log(threshold) / 253;
    int64_t left_out = 0;
    unsigned waiting = 0; /* length of the current run of omitted weights */
    for (int64_t i = 0; i < n; i++) {
        unsigned code = logarithm(values[i], per_step);
        if (code == 0)
            left_out += values[i] != 0;
        if (waiting > 0 && (code != 0 || waiting == 256)) {
            put(b, 0);
            put(b, waiting - 1);
            waiting = 0;
        }
        if (code == 0)
            waiting++;
        else
            put(b, code);
    }
    if (waiting > 0) {
        put(b, 0);
        put(b, waiting - 1);
    }
    return left_out;
}

int64_t br__write_values(br_writer *w, br_value_type type, double threshold, const float *values,
                         int64_t n)
{
    base64 b = { .w = w };
    int64_t left_out = 0;
    if (type == BR_VALUES_U8)
        left_out = write_logarithms(&b, threshold, values, n);
    else
        for (int64_t i = 0; i < n; i++) {
            uint32_t bits = type == BR_VALUES_F16 ? half(values[i]) : bits_of(values[i]);
            for (int k = 0; k < (type == BR_VALUES_F16 ? 16 : 32); k += 8)
                put(&b, bits >> k);
        }
    finish(&b);
    return left_out;
}
