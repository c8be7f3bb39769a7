/* tests/ops/index/test_even_bags.c - bags of equal length: with offsets, with padding and without
 * either, embedding_bag takes different ways to the same sums. */
#include "tests/ops/values.h"

TestSuite(even_bags, .init = check_begin, .fini = check_end);

static br_tensor *bags_of(br_tensor *weight, br_tensor *index, br_tensor *offsets, br_bag_mode mode)
{
    return br_f_embedding_bag(weight, index, offsets, BR_OPTIONS(br_embedding_bag, .mode = mode));
}

/* Compares values and gradients of [bags, length] with those of the flat index and its offsets. */
static void check_bags(int64_t bags, int64_t length, br_bag_mode mode, br_dtype dtype)
{
    br_tensor *weight =
        leaf(br_to(br_remainder(iota(BR_SHAPE(5, 3), BR_I64), br_scalar(8, BR_I64)), dtype));
    br_tensor *index =
        br_remainder(br_mul_scalar(iota(BR_SHAPE(bags, length), BR_I64), 7), br_scalar(5, BR_I64));
    br_tensor *offsets = br_mul_scalar(br_arange(0, (double)bags, 1, BR_I64), (double)length);
    br_tensor *y = bags_of(weight, index, NULL, mode), *dx[2] = { NULL };
    br_tensor *want = bags_of(weight, br_flatten(index, 0, -1), offsets, mode);
    check_ok();
    check_shape(y, BR_SHAPE(bags, 3));
    cr_assert(br_allclose(y, want, 1e-2, 1e-6), "%d bags of %d", (int)bags, (int)length);
    if (dtype == BR_F64)
        cr_assert(br_allclose(y, want, 1e-14, 1e-14));
    br_tensor *dy = values(2, br_sizes(y), 1, dtype);
    cr_assert(br_grad(1, &y, 1, &weight, &dx[0], BR_OPTIONS(br_grad, .gradients = &dy)));
    cr_assert(br_grad(1, &want, 1, &weight, &dx[1], BR_OPTIONS(br_grad, .gradients = &dy)));
    cr_assert(br_allclose(dx[0], dx[1], 2e-2, 2e-2));
}

Test(even_bags, equal_those_with_offsets)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_BF16, BR_F16 };
    for (int i = 0; i < 4 * 3 * 4; i++) {
        br_scope *scope = br_scope_begin();
        check_bags(1 + i % 4, (int64_t[]){ 1, 2, 9 }[i / 4 % 3], i % 2 ? BR_BAG_SUM : BR_BAG_MEAN,
                   dtypes[i / 12]);
        br_scope_end(scope);
        check_ok();
    }
}
