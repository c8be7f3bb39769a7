/* backends/cpu/shape/convert.c - loops that convert elements from one dtype to another. Common
 * conversions are direct and vectorized; all others go through doubles. */
#include "backends/cpu/shape/copy.h"
#include "tensor/min_max.h"

/* Converts one element at a time, with any strides. */
#define CONVERT_LOOP(name, from, to)                                                     \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                    \
        (void)params;                                                                    \
        for (int64_t i = 0; i < n; i++)                                                  \
            *(to *)(void *)(data[0] + i * s[0]) =                                        \
                (to) * (const from *)(const void *)(data[1] + i * s[1]);                 \
    }
CONVERT_LOOP(i64_to_f32, int64_t, float)
CONVERT_LOOP(f32_to_bool_apart, float, bool)
CONVERT_LOOP(bool_to_i64, bool, int64_t)
CONVERT_LOOP(bool_to_f32_apart, uint8_t, float)
CONVERT_LOOP(f32_to_f64_apart, float, double)
CONVERT_LOOP(f64_to_f32_apart, double, float)

/* Converts contiguous elements in vectors. */
#define CONVERT_VECTORS(name, from, to)                                                          \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)         \
    {                                                                                            \
        enum { VECTOR = 16 };                                                                    \
        const int64_t whole = s[0] == sizeof(to) && s[1] == sizeof(from) ? n & -VECTOR : 0;      \
        for (int64_t i = 0; i < whole; i += VECTOR) {                                            \
            const from *restrict in = (const from *)(const void *)data[1] + i;                   \
            to *restrict out = (to *)(void *)data[0] + i;                                        \
            for (int lane = 0; lane < VECTOR; lane++)                                            \
                out[lane] = (to)in[lane];                                                        \
        }                                                                                        \
        name##_apart(n - whole, (char *[]){ data[0] + whole * s[0], data[1] + whole * s[1] }, s, \
                     params);                                                                    \
    }
CONVERT_VECTORS(f32_to_f64, float, double)
CONVERT_VECTORS(f64_to_f32, double, float)
CONVERT_VECTORS(f32_to_bool, float, bool)
CONVERT_VECTORS(bool_to_f32, uint8_t, float)

/* Performs all other conversions through doubles. None of them rounds twice: a conversion to f32
 * from a dtype that is not exact in f32 is direct. */
static void convert(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    enum { PART = 256 };
    const br_dtype *dtypes = params;
    double part[PART];
    for (int64_t i = 0; i < n; i += PART) {
        const int64_t count = br__min(n - i, PART);
        br__dtypes[dtypes[1]].load(part, count, data[1] + i * s[1], s[1]);
        br__dtypes[dtypes[0]].store(data[0] + i * s[0], s[0], part, count);
    }
}

br_loop br__convert_loop(br_dtype to, br_dtype from)
{
    static const br_loop direct[BR_DTYPES][BR_DTYPES] = {
        /* [to][from] */
        [BR_F32] = { [BR_F64] = f64_to_f32, [BR_I64] = i64_to_f32, [BR_BOOL] = bool_to_f32 },
        [BR_F64] = { [BR_F32] = f32_to_f64 },
        [BR_I64] = { [BR_BOOL] = bool_to_i64 },
        [BR_BOOL] = { [BR_F32] = f32_to_bool },
    };
    return direct[to][from] ? direct[to][from] : convert;
}
