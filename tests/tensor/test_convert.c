/* tests/tensor/test_convert.c - conversions between all dtypes, from and to dense and strided
 * tensors of sizes around those of the vectors, compared with conversions of one element. */
#include "tensor/dtype.h"
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(convert, .init = check_begin, .fini = check_end);

/* Returns n elements of zeros, `step` apart. */
static br_tensor *line(int64_t n, int64_t step, br_dtype dtype, br_tensor **base)
{
    *base = br_zeros(BR_SHAPE(n * step), dtype);
    return br_slice(*base, 0, 0, BR_ALL, step);
}

static void check_pair(br_dtype from, br_dtype to, int64_t n, int64_t from_step, int64_t to_step)
{
    br_tensor *from_base, *to_base;
    br_tensor *x = line(n, from_step, from, &from_base), *y = line(n, to_step, to, &to_base);
    br_copy_(x, br_remainder(br_arange(-3, (double)n - 3, 1, BR_I64), br_scalar(7, BR_I64)));
    br_copy_(y, x);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        double value = br_at(x, BR_DIMS(i)), want = br__rounded(to, value);
        cr_expect_eq(br_at(y, BR_DIMS(i)), want, "%s to %s, element %d of %d, steps %d and %d",
                     br_dtype_name(from), br_dtype_name(to), (int)i, (int)n, (int)from_step,
                     (int)to_step);
        sum += want;
    }
    cr_expect_eq(br_item(br_sum(br_to(to_base, BR_F64))), sum, "%s to %s writes beside the view",
                 br_dtype_name(from), br_dtype_name(to));
}

Test(convert, every_pair_with_any_strides)
{
    static const int64_t sizes[] = { 0, 1, 15, 16, 17, 48, 300 };
    for (int i = 0; i < BR_DTYPES * BR_DTYPES; i++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (int steps = 0; steps < 4; steps++) {
                br_scope *scope = br_scope_begin();
                check_pair((br_dtype)(i / BR_DTYPES), (br_dtype)(i % BR_DTYPES), sizes[k],
                           1 + steps % 2, 1 + steps / 2);
                br_scope_end(scope);
            }
}
