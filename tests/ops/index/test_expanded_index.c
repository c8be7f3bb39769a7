/* tests/ops/index/test_expanded_index.c - gather with an index that is a view: expanded, so that it
 * repeats elements, transposed, or with steps. It is read where it is, also for the gradient. */
#include "tests/ops/values.h"

TestSuite(expanded_index, .init = check_begin, .fini = check_end);

static br_tensor *indices(int ndim, const int64_t *sizes, int64_t size)
{
    br_tensor *t = br_mul_scalar(iota(ndim, sizes, BR_I64), 7);
    return br_remainder(t, br_scalar((double)size, BR_I64));
}

static void check_view(br_tensor *x, int64_t dim, br_tensor *view)
{
    br_tensor *dense = br_contiguous(view);
    br_tensor *y = br_gather(x, dim, view), *want = br_gather(x, dim, dense), *dx[2] = { NULL };
    check_ok();
    check_same_bits(y, want);
    br_tensor *dy = values(br_ndim(y), br_sizes(y), 1, br_dtype_of(x));
    cr_assert(br_grad(1, &y, 1, &x, &dx[0], BR_OPTIONS(br_grad, .gradients = &dy)));
    cr_assert(br_grad(1, &want, 1, &x, &dx[1], BR_OPTIONS(br_grad, .gradients = &dy)));
    check_same_bits(dx[0], dx[1]);
    check_same_bits(br_scatter_add(br_detach(x), dim, view, dy),
                    br_scatter_add(br_detach(x), dim, dense, dy));
}

Test(expanded_index, equals_a_contiguous_one)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64, BR_BF16, BR_F16 };
    for (int i = 0; i < 4 * 3; i++) {
        br_scope *scope = br_scope_begin();
        const int64_t n = (int64_t[]){ 1, 8, 1000 }[i % 3];
        br_tensor *x = leaf(values(BR_SHAPE(3, 4, n), 2, dtypes[i / 3]));
        check_view(x, 2, br_expand(indices(BR_SHAPE(3, 1, n), n), BR_SHAPE(3, 4, n)));
        check_view(x, 2, br_expand(indices(BR_SHAPE(n), n), BR_SHAPE(3, 4, n)));
        check_view(x, 1, br_expand(indices(BR_SHAPE(3, 4, 1), 4), BR_SHAPE(3, 4, n)));
        check_view(x, 2, br_transpose(indices(BR_SHAPE(3, n, 4), n), 1, 2));
        check_view(x, 2, br_slice(indices(BR_SHAPE(3, 4, 2 * n), n), 2, 0, BR_ALL, 2));
        check_view(x, 0, br_expand(br_zeros(BR_SCALAR, BR_I64), BR_SHAPE(3, 4, n)));
        br_scope_end(scope);
        check_ok();
    }
}

Test(expanded_index, is_checked)
{
    br_tensor *x = br_zeros(BR_SHAPE(2, 3), BR_F32);
    br_tensor *index = br_from_i64(BR_SHAPE(1, 3), (int64_t[]){ 0, 3, 5 });
    check_fails(br_gather(x, 1, br_expand(index, BR_SHAPE(2, 3))), "index 3 at position [0, 1]");
    check_fails(br_gather(x, 1, br_expand(br_full(BR_SCALAR, -1, BR_I64), BR_SHAPE(2, 3))),
                "index -1 at position [0, 0]");
}
