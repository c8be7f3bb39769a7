/* tests/tensor/test_dtype.c - the table of dtypes. */
#include "tensor/dtype.h"
#include "tensor/half.h"
#include "tests/support.h"

#include <float.h>
#include <math.h>

TestSuite(dtype, .init = check_begin, .fini = check_end);

Test(dtype, limits_are_those_of_the_c_types)
{
    cr_assert_eq(br__epsilon(BR_F32), (double)FLT_EPSILON);
    cr_assert_eq(br__smallest_normal(BR_F32), (double)FLT_MIN);
    cr_assert_eq(br__largest(BR_F32), (double)FLT_MAX);
    cr_assert_eq(br__epsilon(BR_F64), DBL_EPSILON);
    cr_assert_eq(br__smallest_normal(BR_F64), DBL_MIN);
    cr_assert_eq(br__largest(BR_F64), DBL_MAX);
    cr_assert(br__is_narrow(BR_F32));
    cr_assert_not(br__is_narrow(BR_F64));
}

/* Each row is filled, and a value that the dtype represents is the same after put and get. */
Test(dtype, every_row_is_complete)
{
    for (br_dtype d = 0; d < BR_DTYPES; d++) {
        const br_dtype_info *info = &br__dtypes[d];
        cr_assert(info->name && info->torch_name && info->stored_name && info->load && info->store,
                  "dtype %d", (int)d);
        cr_assert_eq(br_dtype_size(d), info->size);
        cr_assert_str_eq(br_dtype_name(d), info->name);
        cr_assert_eq(br__is_floating(d), info->digits > 0, "%s", info->name);
        cr_assert_eq(!br__is_floating(d), info->get_integer && info->put_integer, "%s", info->name);
        for (double x = 0; x <= 1; x++) {
            cr_assert(br__represents(d, x), "%s", info->name);
            cr_assert_eq(br__rounded(d, x), x, "%s", info->name);
        }
    }
}

Test(dtype, values_are_rounded_once)
{
    cr_assert_eq(br__rounded(BR_F32, 1 + 0x1p-24), 1.0); /* a tie goes to the even number */
    cr_assert_eq(br__rounded(BR_F32, 1 + 0x1.8p-23), 1 + 0x1p-22); /* likewise */
    cr_assert(isinf(br__rounded(BR_F32, 1e39)));
    cr_assert(isnan(br__rounded(BR_F32, NAN)));
    cr_assert_eq(br__rounded(BR_F64, 0x1.fffffffffffffp1023), DBL_MAX);
}

/* Conversions truncate towards 0, and a number that i64 does not represent becomes its smallest
 * one. */
Test(dtype, integers)
{
    static const double not_integers[] = { 0x1p63, -0x1.0000000000001p63, 1e300, INFINITY, NAN };
    cr_assert_eq(br__rounded(BR_I64, 2.9), 2);
    cr_assert_eq(br__rounded(BR_I64, -2.9), -2);
    cr_assert(br__represents(BR_I64, -0x1p63));
    cr_assert_not(br__represents(BR_I64, 2.5));
    for (size_t i = 0; i < sizeof not_integers / sizeof *not_integers; i++) {
        cr_assert_eq(br__rounded(BR_I64, not_integers[i]), -0x1p63, "%g", not_integers[i]);
        cr_assert_not(br__represents(BR_I64, not_integers[i]), "%g", not_integers[i]);
    }
    int64_t element;
    br__dtypes[BR_I64].put_integer(&element, INT64_MAX);
    cr_assert_eq(br__dtypes[BR_I64].get_integer(&element), INT64_MAX);
    cr_assert(br__represents(BR_BOOL, 1));
    cr_assert_not(br__represents(BR_BOOL, 2));
    cr_assert_eq(br__rounded(BR_BOOL, 0.5), 1);
    cr_assert_eq(br__rounded(BR_BOOL, NAN), 1);
}

/* Like PyTorch, i32 gets its smallest number if a float does not fit; i8 and u8 get the lowest byte
 * of the i32. Integers wrap around. */
Test(dtype, integers_of_few_bits)
{
    static const struct {
        double x;
        int32_t i32;
        int8_t i8;
        uint8_t u8;
    } rows[] = {
        { 300.7, 300, 44, 44 },        { -1.5, -1, -1, 255 },    { -129, -129, 127, 127 },
        { 1e5, 100000, -96, 160 },     { 3e9, INT32_MIN, 0, 0 }, { -3e9, INT32_MIN, 0, 0 },
        { 255.9, 255, -1, 255 },       { 128, 128, -128, 128 },  { 0x1p31, INT32_MIN, 0, 0 },
        { INFINITY, INT32_MIN, 0, 0 }, { NAN, INT32_MIN, 0, 0 }, { -0x1p31, INT32_MIN, 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cr_expect_eq(br__rounded(BR_I32, rows[i].x), rows[i].i32, "%g", rows[i].x);
        cr_expect_eq(br__rounded(BR_I8, rows[i].x), rows[i].i8, "%g", rows[i].x);
        cr_expect_eq(br__rounded(BR_U8, rows[i].x), rows[i].u8, "%g", rows[i].x);
    }
    static const int64_t large[] = { INT64_C(1) << 32 | 7, -1, 128, INT64_MAX };
    const int32_t wrapped[] = { 7, -1, 128, -1 };
    for (int i = 0; i < 4; i++) {
        int32_t element;
        br__dtypes[BR_I32].put_integer(&element, large[i]);
        cr_expect_eq(element, wrapped[i]);
        br__dtypes[BR_U8].put_integer(&element, large[i]);
        cr_expect_eq(br__dtypes[BR_U8].get_integer(&element), wrapped[i] & 255);
        br__dtypes[BR_I8].put_integer(&element, large[i]);
        cr_expect_eq(br__dtypes[BR_I8].get_integer(&element), (int8_t)wrapped[i]);
    }
}

/* Between any two neighbours, a number is rounded to the nearer one, and the middle to the even
 * one.
 */
static void check_rounding(uint16_t (*narrow)(float), float (*widen)(uint16_t), uint16_t infinity)
{
    for (uint16_t h = 0; h < infinity; h++) {
        const double below = (double)widen(h);
        const double above = h + 1 < infinity ? (double)widen((uint16_t)(h + 1))
                                              : 2 * below - (double)widen((uint16_t)(h - 1));
        const float middle = (float)((below + above) / 2);
        for (int negative = 0; negative < 2; negative++) {
            const float sign = negative ? -1 : 1;
            const uint16_t base = (uint16_t)(negative << 15 | h);
            cr_assert_eq(narrow(sign * (float)below), base);
            cr_assert_eq(narrow(sign * middle), base + h % 2, "%a", (double)middle);
            cr_assert_eq(narrow(sign * nextafterf(middle, INFINITY)), base + 1);
            cr_assert_eq(narrow(sign * nextafterf(middle, 0)), base);
        }
    }
    cr_assert_eq(narrow(INFINITY), infinity);
    cr_assert_eq(narrow(-FLT_MAX), 0x8000 | infinity);
    for (int i = 1; i < 0x400000; i = 2 * i + 1)
        cr_assert(isnan(widen(narrow(br__of_bits(0xff800000u | (uint32_t)i)))), "%x", i);
}

Test(dtype, rounding_to_16_bits)
{
    check_rounding(br__bf16, br__from_bf16, 0x7f80);
    check_rounding(br__f16, br__from_f16, 0x7c00);
    cr_assert_eq(br__rounded(BR_BF16, 1 + 0x1p-8 + 0x1p-30), 1.0, "PyTorch rounds to f32 first");
    cr_assert_eq(br__largest(BR_F16), 65504);
    cr_assert_eq(br__smallest_normal(BR_F16), 0x1p-14);
    cr_assert_eq(br__epsilon(BR_BF16), 0x1p-7);
}

/* br__is_stored() does not read the table. */
Test(dtype, storage_dtypes_are_the_last)
{
    for (br_dtype d = 0; d < BR_DTYPES; d++) {
        cr_assert_eq(br__is_stored(d), br__computed(d) != d, "%s", br_dtype_name(d));
        cr_assert_not(br__is_stored(br__computed(d)), "%s", br_dtype_name(d));
    }
}

/* A finite float must not become infinite; an unsigned integer may be given as a negative number.
 */
Test(dtype, numbers_that_elements_can_be_set_to)
{
    cr_assert(br__holds(BR_F16, 65504) && br__holds(BR_F16, -INFINITY) && br__holds(BR_F16, NAN));
    cr_assert(!br__holds(BR_F16, 65520) && !br__holds(BR_F32, 1e39) && br__holds(BR_F64, 1e39));
    cr_assert(br__holds(BR_U8, -255) && br__holds(BR_U8, 255.9) && !br__holds(BR_U8, 256));
    cr_assert(!br__holds(BR_U8, -256) && !br__holds(BR_I8, 128) && br__holds(BR_I8, -128.5));
    cr_assert(!br__holds(BR_I64, 0x1p63) && !br__holds(BR_I64, NAN) && br__holds(BR_BOOL, 2));
    check_fails(br_full(BR_SHAPE(1), 1e5, BR_F16), "full: 100000 cannot be represented as f16");
}

/* The rows of a strided conversion, from the first element to the last. */
Test(dtype, rows_have_any_step)
{
    double values[3] = { 1, 0, 3 }, out[3];
    for (br_dtype d = 0; d < BR_DTYPES; d++) {
        _Alignas(double) char memory[3 * 32] = { 0 };
        const int64_t step = 3 * (int64_t)br_dtype_size(d);
        br__dtypes[d].store(memory, step, values, 3);
        br__dtypes[d].load(out, 3, memory, step);
        for (int i = 0; i < 3; i++)
            cr_assert_eq(out[i], br__rounded(d, values[i]), "%s", br_dtype_name(d));
    }
}

/* Numbers that are no dtypes are refused before the table is read. */
Test(dtype, numbers_that_are_no_dtypes)
{
    static const int wrong[] = { -1, BR_QUANTIZED + 1, 99 };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const br_dtype d = (br_dtype)wrong[i];
        char text[80];
        double value = 0;
        snprintf(text, sizeof text, "%d is not a dtype", wrong[i]);
        cr_assert_eq(br_dtype_size(d), 0);
        cr_assert_str_eq(br_dtype_name(d), "(invalid dtype)");
        check_fails(br_zeros(BR_SHAPE(1), d), text);
        check_fails(br_ones(BR_SHAPE(1), d), text);
        check_fails(br_full(BR_SHAPE(1), 1e300, d), text);
        check_fails(br_scalar(NAN, d), text);
        check_fails(br_arange(0, 0.5, 0.25, d), text);
        check_fails(br_eye(1, 1, d), text);
        check_fails(br_from_data(BR_SHAPE(1), d, &value), text);
        check_fails(br_borrow(BR_SHAPE(1), d, &value, NULL, NULL), text);
        check_fails(br_linspace(0, 1, 2, d), "must be an integer or floating-point dtype");
        check_fails(br_rand(BR_SHAPE(1), d), "must be a floating-point dtype");
        check_fails(br_randn(BR_SHAPE(1), d), "must be a floating-point dtype");
    }
}
