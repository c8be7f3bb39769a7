/* tests/tensor/test_dtype.c - the table of dtypes. */
#include "tensor/dtype.h"
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
    static const int wrong[] = { -1, BR_DTYPES, 99 };
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
        check_fails(br_linspace(0, 1, 2, d), "must be f32, f64 or i64");
        check_fails(br_rand(BR_SHAPE(1), d), "must be f32 or f64");
        check_fails(br_randn(BR_SHAPE(1), d), "must be f32 or f64");
    }
}
