/* backends/cpu/shape/convert.c - loops that convert elements from one dtype to another. Common
 * conversions are direct and vectorized; all others go through i64 or doubles. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/shape/copy.h"
#include "tensor/half.h"
#include "tensor/min_max.h"

/* Converts one element at a time, with any strides. convert(x) is the element x as `to`. */
#define CONVERT_BY(name, from, to, convert)                                              \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                    \
        (void)params;                                                                    \
        for (int64_t i = 0; i < n; i++)                                                  \
            *(to *)(void *)(data[0] + i * s[0]) =                                        \
                convert(*(const from *)(const void *)(data[1] + i * s[1]));              \
    }
#define CONVERT_LOOP(name, from, to) CONVERT_BY(name, from, to, (to))

/* An i64 element as two numbers, which baseline x86-64 can compare in vectors. */
typedef struct halves {
    uint32_t low, high;
} halves;

static inline bool is_not_zero(halves x)
{
    return (x.low | x.high) != 0;
}

/* Numbers outside of the range become INT64_MIN, as the processor converts them. */
static inline int64_t integer_of(double x)
{
    return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN;
}

CONVERT_BY(f32_to_i64, float, int64_t, integer_of)
CONVERT_BY(f64_to_i64, double, int64_t, integer_of)
CONVERT_LOOP(i64_to_f64, int64_t, double)
CONVERT_LOOP(i64_to_f32, int64_t, float)
CONVERT_LOOP(f32_to_bool_apart, float, bool)
CONVERT_LOOP(bool_to_i64, bool, int64_t)
CONVERT_BY(i64_to_bool_apart, halves, bool, is_not_zero)
CONVERT_LOOP(bool_to_f32_apart, uint8_t, float)
CONVERT_LOOP(f32_to_f64_apart, float, double)
CONVERT_LOOP(f64_to_f32_apart, double, float)
CONVERT_BY(bf16_to_f32_apart, uint16_t, float, br__from_bf16)
CONVERT_BY(f32_to_bf16_apart, float, uint16_t, br__bf16)
CONVERT_BY(f16_to_f32_apart, uint16_t, float, br__from_f16)
CONVERT_BY(f32_to_f16_apart, float, uint16_t, br__f16)
/* Integers that are too large wrap around. */
#define STORED_LOOPS(NAME, dtype, torch, min, max)   \
    CONVERT_LOOP(dtype##_to_i64, torch##_t, int64_t) \
    CONVERT_LOOP(i64_to_##dtype, int64_t, torch##_t)
BR_STORED_INTEGERS(STORED_LOOPS)

/* Converts contiguous elements in vectors. */
#define CONVERT_VECTORS(name, from, to, convert)                                                 \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params)         \
    {                                                                                            \
        enum { VECTOR = 16 };                                                                    \
        const int64_t whole = s[0] == sizeof(to) && s[1] == sizeof(from) ? n & -VECTOR : 0;      \
        for (int64_t i = 0; i < whole; i += VECTOR) {                                            \
            const from *restrict in = (const from *)(const void *)data[1] + i;                   \
            to *restrict out = (to *)(void *)data[0] + i;                                        \
            for (int lane = 0; lane < VECTOR; lane++)                                            \
                out[lane] = convert(in[lane]);                                                   \
        }                                                                                        \
        name##_apart(n - whole, (char *[]){ data[0] + whole * s[0], data[1] + whole * s[1] }, s, \
                     params);                                                                    \
    }
CONVERT_VECTORS(f32_to_f64, float, double, (double))
CONVERT_VECTORS(f64_to_f32, double, float, (float))
CONVERT_VECTORS(f32_to_bool, float, bool, (bool))
CONVERT_VECTORS(bool_to_f32, uint8_t, float, (float))
CONVERT_VECTORS(i64_to_bool, halves, bool, is_not_zero)

/* Converts contiguous elements by a kernel of the processor's instruction set. */
#define CONVERT_BY_KERNEL(name, from, to, kernel)                                        \
    static void name(int64_t n, char *const *data, const int64_t *s, const void *params) \
    {                                                                                    \
        if (s[0] == sizeof(to) && s[1] == sizeof(from))                                  \
            br__kernels_of(BR_F32)->kernel(n, data[0], data[1]);                         \
        else                                                                             \
            name##_apart(n, data, s, params);                                            \
    }
CONVERT_BY_KERNEL(bf16_to_f32, uint16_t, float, widen[BR_BF16])
CONVERT_BY_KERNEL(f32_to_bf16, float, uint16_t, narrow[BR_BF16])
CONVERT_BY_KERNEL(f16_to_f32, uint16_t, float, widen[BR_F16])
CONVERT_BY_KERNEL(f32_to_f16, float, uint16_t, narrow[BR_F16])

/* Performs all other conversions between integers and bool through i64, and those with a float
 * through doubles. */
static void convert(int64_t n, char *const *data, const int64_t *s, const void *params)
{
    enum { PART = 256 };
    const br_dtype *dtypes = params;
    const br_dtype_info *to = &br__dtypes[dtypes[0]], *from = &br__dtypes[dtypes[1]];
    const bool integers = to->put_integer && from->get_integer;
    double part[PART];
    for (int64_t i = 0; integers && i < n; i++)
        to->put_integer(data[0] + i * s[0], from->get_integer(data[1] + i * s[1]));
    for (int64_t i = 0; !integers && i < n; i += PART) {
        const int64_t count = br__min(n - i, PART);
        from->load(part, count, data[1] + i * s[1], s[1]);
        to->store(data[0] + i * s[0], s[0], part, count);
    }
}

#define FROM_STORED(NAME, dtype, torch, min, max) [BR_##NAME] = dtype##_to_i64,
#define TO_STORED(NAME, dtype, torch, min, max)   [BR_##NAME] = { [BR_I64] = i64_to_##dtype },
br_loop br__convert_loop(br_dtype to, br_dtype from)
{
    static const br_loop direct[BR_DTYPES][BR_DTYPES] = {
        /* [to][from] */
        [BR_F32] = { [BR_F64] = f64_to_f32,
                     [BR_I64] = i64_to_f32,
                     [BR_BOOL] = bool_to_f32,
                     [BR_BF16] = bf16_to_f32,
                     [BR_F16] = f16_to_f32 },
        [BR_F64] = { [BR_F32] = f32_to_f64, [BR_I64] = i64_to_f64 },
        [BR_I64] = { [BR_F32] = f32_to_i64,
                     [BR_F64] = f64_to_i64,
                     [BR_BOOL] = bool_to_i64,
                     BR_STORED_INTEGERS(FROM_STORED) },
        [BR_BOOL] = { [BR_F32] = f32_to_bool, [BR_I64] = i64_to_bool },
        [BR_BF16] = { [BR_F32] = f32_to_bf16 },
        [BR_F16] = { [BR_F32] = f32_to_f16 },
        BR_STORED_INTEGERS(TO_STORED)
    };
    return direct[to][from] ? direct[to][from] : convert;
}
