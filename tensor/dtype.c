/* tensor/dtype.c - the table of dtypes. docs/contributing.md says what a new one needs. */
#include "tensor/dtype.h"
#include "tensor/half.h"

#include <brasa/tensor.h>
#include <float.h>
#include <math.h>

/* Defines the conversions of a dtype whose C type is `type`; value(x) is the number that an element
 * stands for, element(x) the double x as this type. */
#define DEFINE_CONVERSIONS(dtype, type, value, element)                              \
    static void load_##dtype(double *to, int64_t n, const char *from, int64_t step)  \
    {                                                                                \
        for (int64_t i = 0; i < n; i++)                                              \
            to[i] = (double)value(*(const type *)(const void *)(from + i * step));   \
    }                                                                                \
    static void store_##dtype(char *to, int64_t step, const double *from, int64_t n) \
    {                                                                                \
        for (int64_t i = 0; i < n; i++)                                              \
            *(type *)(void *)(to + i * step) = element(from[i]);                     \
    }

#define DEFINE_INTEGERS(dtype, type, element)        \
    static int64_t get_##dtype(const void *from)     \
    {                                                \
        return (int64_t) * (const type *)from;       \
    }                                                \
    static void put_##dtype(void *to, int64_t value) \
    {                                                \
        *(type *)to = element(value);                \
    }

#define FLOAT(x)      ((float)(x))
#define SAME(x)       (x)
#define IS_NONZERO(x) ((x) != 0)

static bool fits_i64(double x)
{
    return x >= -0x1p63 && x < 0x1p63;
}

/* As x86 converts. */
static int64_t to_i64(double x)
{
    return fits_i64(x) ? (int64_t)x : INT64_MIN;
}

static int32_t to_i32(double x)
{
    return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN;
}

#define TO_BF16(x) br__bf16((float)(x))
#define TO_F16(x)  br__f16((float)(x))

DEFINE_CONVERSIONS(f32, float, SAME, FLOAT)
DEFINE_CONVERSIONS(f64, double, SAME, SAME)
DEFINE_CONVERSIONS(i64, int64_t, SAME, to_i64)
DEFINE_CONVERSIONS(bool, bool, SAME, IS_NONZERO)
DEFINE_CONVERSIONS(bf16, uint16_t, br__from_bf16, TO_BF16)
DEFINE_CONVERSIONS(f16, uint16_t, br__from_f16, TO_F16)

DEFINE_INTEGERS(i64, int64_t, SAME)
DEFINE_INTEGERS(bool, bool, IS_NONZERO)

#define DEFINE_STORED_INTEGER(NAME, dtype, torch, min, max)       \
    static torch##_t truncated_##dtype(double x)                  \
    {                                                             \
        return (torch##_t)to_i32(x);                              \
    }                                                             \
    static torch##_t wrapped_##dtype(int64_t x)                   \
    {                                                             \
        return (torch##_t)x;                                      \
    }                                                             \
    DEFINE_CONVERSIONS(dtype, torch##_t, SAME, truncated_##dtype) \
    DEFINE_INTEGERS(dtype, torch##_t, wrapped_##dtype)
BR_STORED_INTEGERS(DEFINE_STORED_INTEGER)

/* clang-format off */
#define STORED_INTEGER(NAME, dtype, torch, min, max)                                      \
    [BR_##NAME] = { #dtype, #torch, #NAME, sizeof(torch##_t), BR_KIND_INTEGER, BR_I64,    \
                    0, 0, 0, load_##dtype, store_##dtype, get_##dtype, put_##dtype },
const br_dtype_info br__dtypes[BR_DTYPES + 1] = {
    [BR_F32] = { "f32", "float32", "F32", sizeof(float), BR_KIND_FLOATING, BR_F32,
                 FLT_MANT_DIG, FLT_MIN_EXP - 1, FLT_MAX_EXP - 1, load_f32, store_f32, NULL, NULL },
    [BR_F64] = { "f64", "float64", "F64", sizeof(double), BR_KIND_FLOATING, BR_F64,
                 DBL_MANT_DIG, DBL_MIN_EXP - 1, DBL_MAX_EXP - 1, load_f64, store_f64, NULL, NULL },
    [BR_I64] = { "i64", "int64", "I64", sizeof(int64_t), BR_KIND_INTEGER, BR_I64, 0, 0, 0,
                 load_i64, store_i64, get_i64, put_i64 },
    [BR_BOOL] = { "bool", "bool", "BOOL", sizeof(bool), BR_KIND_BOOL, BR_BOOL, 0, 0, 0,
                  load_bool, store_bool, get_bool, put_bool },
    [BR_BF16] = { "bf16", "bfloat16", "BF16", sizeof(uint16_t), BR_KIND_FLOATING, BR_F32,
                  8, -126, 127, load_bf16, store_bf16, NULL, NULL },
    [BR_F16] = { "f16", "float16", "F16", sizeof(uint16_t), BR_KIND_FLOATING, BR_F32,
                 11, -14, 15, load_f16, store_f16, NULL, NULL },
    BR_STORED_INTEGERS(STORED_INTEGER)
    [BR_QUANTIZED] = { "quantized", "quantized", "quantized", 0, BR_KIND_FLOATING, BR_F32,
                       FLT_MANT_DIG, FLT_MIN_EXP - 1, FLT_MAX_EXP - 1, NULL, NULL, NULL, NULL },
};
/* clang-format on */

size_t br_dtype_size(br_dtype dtype)
{
    return br__is_dtype(dtype) ? br__dtype_size(dtype) : 0;
}

const char *br_dtype_name(br_dtype dtype)
{
    return br__is_dtype(dtype) || dtype == BR_QUANTIZED ? br__dtypes[dtype].name
                                                        : "(invalid dtype)";
}

br_dtype br__default_dtype(br_dtype_kind kind)
{
    static const br_dtype dtypes[] = {
        [BR_KIND_BOOL] = BR_BOOL, [BR_KIND_INTEGER] = BR_I64, [BR_KIND_FLOATING] = BR_F32
    };
    return dtypes[kind];
}

br_dtype br__sum_dtype(br_dtype dtype)
{
    return br__is_floating(dtype) ? dtype : BR_I64;
}

double br__rounded(br_dtype dtype, double value)
{
    _Alignas(double) char element[sizeof(double)];
    br__put(dtype, element, value);
    return br__get(dtype, element);
}

bool br__holds(br_dtype dtype, double value)
{
    if (br__is_floating(dtype))
        return !isfinite(value) || isfinite(br__rounded(dtype, value));
    if (!br__is_kind(dtype, BR_KIND_INTEGER))
        return true;
    const double whole = trunc(value);
    return br__represents(dtype, whole) ||
           (!br__represents(dtype, -1) && br__represents(dtype, -whole));
}

double br__epsilon(br_dtype dtype)
{
    return ldexp(1, 1 - br__dtypes[dtype].digits);
}

double br__smallest_normal(br_dtype dtype)
{
    return ldexp(1, br__dtypes[dtype].min_exponent);
}

double br__largest(br_dtype dtype)
{
    return ldexp(2 - br__epsilon(dtype), br__dtypes[dtype].max_exponent);
}
