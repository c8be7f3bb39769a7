/* tensor/convert.c - loops that convert elements from one dtype to another. What is common goes
 * straight and in vectors, all else by way of doubles. */
#include "tensor/copy.h"

/* Vectors of what lies side by side; all else one at a time. */
#define CONVERT_LOOP(name, from, to)                                                         \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)     \
    {                                                                                        \
        enum { VECTOR = 16 };                                                                \
        int64_t i = 0;                                                                       \
        (void)params;                                                                        \
        for (; s[0] == sizeof(to) && s[1] == sizeof(from) && i + VECTOR <= n; i += VECTOR) { \
            const from *restrict in = (const from *)(const void *)data[1] + i;               \
            to *restrict out = (to *)(void *)data[0] + i;                                    \
            for (int lane = 0; lane < VECTOR; lane++)                                        \
                out[lane] = (to)in[lane];                                                    \
        }                                                                                    \
        for (; i < n; i++)                                                                   \
            *(to *)(void *)(data[0] + i * s[0]) =                                            \
                (to) * (const from *)(const void *)(data[1] + i * s[1]);                     \
    }
CONVERT_LOOP(f32_to_f64, float, double)
CONVERT_LOOP(f64_to_f32, double, float)
CONVERT_LOOP(i64_to_f32, int64_t, float)
CONVERT_LOOP(bool_to_f32, bool, float)

/* A float out of the integers' range has no integer: it becomes the smallest one, as x86 has it. */
static int64_t to_i64(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

/* What a dtype's elements are as doubles, and the other way round. */
static void load(double *to, int64_t n, const char *from, int64_t step, br_dtype dtype)
{
    for (int64_t i = 0; i < n; i++, from += step)
        to[i] = dtype == BR_F32   ? (double)*(const float *)(const void *)from
                : dtype == BR_F64 ? *(const double *)(const void *)from
                : dtype == BR_I64 ? (double)*(const int64_t *)(const void *)from
                                  : (double)*from;
}

static void store(char *to, int64_t n, const double *from, int64_t step, br_dtype dtype)
{
    for (int64_t i = 0; i < n; i++, to += step)
        if (dtype == BR_F64)
            *(double *)(void *)to = from[i];
        else if (dtype == BR_I64)
            *(int64_t *)(void *)to = to_i64(from[i]);
        else
            *(bool *)(void *)to = from[i] != 0;
}

/* All other conversions. None rounds twice: only f32 is narrower than double, and what becomes f32
 * went straight. */
static void convert(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    enum { PART = 256 };
    const br_dtype *dtypes = params;
    double part[PART];
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t count = n - i < PART ? n - i : PART;
        load(part, count, data[1] + i * s[1], s[1], dtypes[1]);
        store(data[0] + i * s[0], count, part, s[0], dtypes[0]);
    }
}

br_loop br__convert_loop(br_dtype to, br_dtype from)
{
    if (to == BR_F64 && from == BR_F32)
        return f32_to_f64;
    if (to != BR_F32)
        return convert;
    return from == BR_F64 ? f64_to_f32 : from == BR_I64 ? i64_to_f32 : bool_to_f32;
}
