/* tests/ops/reduce/test_isin.c - isin compared with a plain loop: test elements that are close
 * together, for which it uses a table, and far apart. */
#include "tests/ops/values.h"

TestSuite(isin, .init = check_begin, .fini = check_end);

static void check_isin(int64_t n, const int64_t *elements, int64_t count, const int64_t *tested,
                       br_dtype dtype)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_to(br_from_i64(BR_SHAPE(n), elements), dtype);
    br_tensor *test = br_to(br_from_i64(BR_SHAPE(count), tested), dtype);
    br_tensor *y = br_isin(x, test, false), *other = br_isin(x, test, true);
    check_ok();
    cr_assert_eq(br_dtype_of(y), BR_BOOL);
    for (int64_t i = 0; i < n; i++) {
        bool found = false;
        for (int64_t k = 0; k < count; k++)
            found = found || elements[i] == tested[k];
        cr_assert_eq(br_at(y, BR_DIMS(i)), found, "element %d of %d", (int)i, (int)n);
        cr_assert_eq(br_at(other, BR_DIMS(i)), !found);
    }
    br_scope_end(scope);
}

Test(isin, close_together_and_far_apart)
{
    static const br_dtype dtypes[] = { BR_I64, BR_I32, BR_F64 };
    int64_t elements[100], tested[40];
    for (int k = 0; k < 3 * 4; k++) {
        static const int64_t apart[] = { 1, 7, 1000, 50000000 };
        for (int64_t i = 0; i < 100; i++)
            elements[i] = (i * 37 % 101 - 50) * apart[k / 3];
        for (int64_t i = 0; i < 40; i++)
            tested[i] = (i * 53 % 61 - 20) * apart[k / 3] + (i % 3 == 0);
        for (int64_t count = 0; count <= 40; count += count < 3 ? 1 : 37)
            check_isin(100, elements, count, tested, dtypes[k % 3]);
        check_isin(0, elements, 40, tested, dtypes[k % 3]);
    }
}

Test(isin, limits_of_integers)
{
    const int64_t all[] = { INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX };
    check_isin(7, all, 7, all, BR_I64);
    for (int i = 0; i < 7; i++)
        check_isin(7, all, 1, all + i, BR_I64);
    check_isin(7, all, 2, all, BR_I64);
    check_isin(7, all, 2, all + 5, BR_I64);
    br_tensor *x = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ 5, -5, 6, 9 });
    check_equals(br_isin(x, br_from_i64(BR_SHAPE(1, 2), (int64_t[]){ 9, 5 }), false), 1, 0, 0, 1);
    cr_assert_eq(br_ndim(br_isin(br_scalar(3, BR_I64), x, false)), 0);
}
