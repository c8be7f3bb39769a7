/* Joining and indexing. */
#include "tests/ops/values.h"

TestSuite(index, .init = check_begin, .fini = check_end);

#define INDEX(...) \
    br_from_i64(BR_SHAPE(sizeof((int64_t[]){ __VA_ARGS__ }) / 8), (int64_t[]){ __VA_ARGS__ })

Test(index, cat)
{
    br_tensor *a = iota(BR_SHAPE(2, 2), BR_F32), *b = iota(BR_SHAPE(2, 1), BR_F32);
    check_equals(br_cat(BR_INPUTS(a, b, br_t(a)), -1), 0, 1, 0, 0, 2, 2, 3, 1, 1, 3);
    check_equals(br_cat(BR_INPUTS(a, br_zeros(BR_SHAPE(0, 2), BR_F32), a), 0), 0, 1, 2, 3, 0, 1, 2,
                 3);
    check_fails(
        br_cat(BR_INPUTS(a, b), 0),
        "cat: tensor 1 is [2, 1], tensor 0 is [2, 2]: sizes must be equal but for dimension 0");
    check_fails(br_cat(BR_INPUTS(a, br_to(a, BR_F64)), 0), "tensor 1 [2, 2] is f64");
    check_fails(br_cat(BR_INPUTS(a, NULL), 0), "tensor 1 is NULL");
    check_fails(br_cat(0, NULL, 0), "0 tensors");
    check_fails(br_cat(BR_INPUTS(br_scalar(1, BR_F32)), 0), "x [] has no dimension");
}

/* Every part is found again, of however many bytes in a row and in however many rows: each of these
 * widths beside a narrower and a wider one, and one that does not lie in one piece. */
Test(index, cat_of_many_widths)
{
    static const int64_t widths[] = { 1, 2, 4, 5, 15, 16, 17, 31, 33, 64, 100, 129, 8200, 40000 };
    static const int64_t rows[] = { 1, 2, 7, 700 };
    enum { WIDTHS = sizeof widths / sizeof *widths, ROWS = sizeof rows / sizeof *rows };
    int threads = br_get_num_threads();
    br_set_num_threads(2);
    for (int i = 0; i < ROWS * WIDTHS * 3; i++) {
        int64_t n = rows[i % ROWS], wide = widths[i / ROWS % WIDTHS];
        br_dtype dtype = (br_dtype[]){ BR_F32, BR_I64, BR_BOOL }[i / ROWS / WIDTHS];
        if (n * wide > 1 << 21)
            continue;
        br_scope *scope = br_scope_begin();
        br_tensor *parts[4];
        int64_t size[4] = { wide, 24, wide + 3, 20 }, start = 0;
        for (int k = 0; k < 4; k++) {
            parts[k] = br_to(br_randint(0, 2, BR_SHAPE(n, size[k], 1)), dtype);
            if (k == 3 && i % 2)
                parts[k] = br_flip(parts[k], BR_DIMS(1));
            if (k == 3 && i % 3 == 0)
                parts[k] = br_narrow(parts[k], 1, 2, size[k] -= 4);
        }
        br_tensor *y = br_cat(4, parts, 1);
        for (int k = 0; k < 4; start += size[k++])
            cr_assert(br_equal(br_narrow(y, 1, start, size[k]), parts[k]), "%d rows, part %d of %d",
                      (int)n, k, (int)wide);
        cr_assert_eq(br_size(y, 1), start);
        br_scope_end(scope);
    }
    br_set_num_threads(threads);
    check_ok();
}

/* Tensors [0] among others, as PyTorch has them. */
Test(index, cat_of_empty_vectors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *e = leaf(br_zeros(BR_SHAPE(0), BR_F32)), *a = leaf(iota(BR_SHAPE(2, 2), BR_F32));
    check_equals(br_cat(BR_INPUTS(e, a), 1), 0, 1, 2, 3);
    check_equals(br_cat(BR_INPUTS(e, br_select(a, 0, 1), e), -1), 2, 3);
    br_tensor *y = br_cat(BR_INPUTS(e, a, e, a), -1);
    check_equals(y, 0, 1, 0, 1, 2, 3, 2, 3);
    br_backward(br_sum(br_mul(y, y)));
    check_equals(br_grad_of(a), 0, 4, 8, 12);
    cr_assert(br_ndim(br_grad_of(e)) == 1 && br_size(br_grad_of(e), 0) == 0);
    cr_assert(br_ndim(br_cat(BR_INPUTS(e, e), 5)) == 1, "of them alone in any dimension");
    br_tensor *table = br_zeros(BR_SHAPE(0, 3), BR_F32);
    check_fails(br_cat(BR_INPUTS(e, a, table), 0), "cat: tensor 2 is [0, 3], tensor 1 is [2, 2]");
    check_fails(br_cat(BR_INPUTS(e, a), 2), "dim");
    check_fails(br_cat(BR_INPUTS(br_zeros(BR_SHAPE(0), BR_I64), a), 0), "tensor 0 [0] is i64");
    check_fails(br_stack(BR_INPUTS(e, a), 0), "stack: tensor 1 is [2, 2], tensor 0 is [0]");
    br_scope_end(scope);
}

Test(index, stack)
{
    br_tensor *a = iota(BR_SHAPE(2, 2), BR_I64), *b = br_t(a);
    check_equals(br_stack(BR_INPUTS(a, b), 0), 0, 1, 2, 3, 0, 2, 1, 3);
    check_equals(br_stack(BR_INPUTS(a, b), 1), 0, 1, 0, 2, 2, 3, 1, 3);
    check_equals(br_stack(BR_INPUTS(a, b), -1), 0, 0, 1, 2, 2, 1, 3, 3);
    check_equals(br_stack(BR_INPUTS(br_scalar(4, BR_F32), br_scalar(5, BR_F32)), 0), 4, 5);
    check_fails(br_stack(BR_INPUTS(a, br_select(a, 0, 0)), 0), "shapes must be equal");
    check_fails(br_stack(BR_INPUTS(a, b), 3), "dim is 3, must be in -3 .. 2");
}

Test(index, index_select)
{
    br_tensor *x = iota(BR_SHAPE(2, 3, 2), BR_F32), *index = INDEX(2, 0, 2);
    br_tensor *y = br_index_select(x, 1, index);
    check_shape(y, BR_SHAPE(2, 3, 2));
    check_equals(y, 4, 5, 0, 1, 4, 5, 10, 11, 6, 7, 10, 11);
    check_equals(br_index_select(br_transpose(x, 0, 2), -1, INDEX(1)), 6, 8, 10, 7, 9, 11);
    check_shape(br_index_select(x, 0, br_zeros(BR_SHAPE(0), BR_I64)), BR_SHAPE(0, 3, 2));
    check_equals(
        br_index_select(br_from_bool(BR_SHAPE(2), (bool[]){ false, true }), 0, INDEX(1, 0)), 1, 0);
    check_fails(br_index_select(x, 0, index),
                "index_select: index 2 at position [0] is outside 0 .. 1");
    check_fails(br_index_select(x, 1, INDEX(0, -1)), "index -1 at position [1]");
    check_fails(br_index_select(x, 1, x), "index [2, 3, 2] is f32, must be i64");
    check_fails(br_index_select(x, 1, br_reshape(index, BR_SHAPE(1, 3))), "one dimension");
}

Test(index, of_and_by_0d)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_full(BR_SCALAR, 3, BR_F32), *zero = br_zeros(BR_SCALAR, BR_I64);
    check_shape(br_index_select(x, 0, zero), BR_SCALAR);
    check_shape(br_index_select(br_expand(x, BR_SHAPE(2, 4)), 1, zero), BR_SHAPE(2, 1));
    check_shape(br_gather(x, -1, zero), BR_SCALAR);
    check_equals(br_gather(x, 0, br_zeros(BR_SHAPE(3), BR_I64)), 3, 3, 3);
    check_fails(br_gather(x, 0, INDEX(1)), "gather: index 1 at position [0] is outside 0 .. 0");
    check_fails(br_index_select(x, 0, INDEX(0, 0)),
                "index_select: index [2] must have one element, as x [] has no dimension");
    br_scope_end(scope);
}

Test(index, gather)
{
    br_tensor *x = iota(BR_SHAPE(2, 3), BR_F64);
    br_tensor *index = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ 2, 0, 1, 1 });
    check_equals(br_gather(x, 1, index), 2, 0, 4, 4);
    check_equals(br_gather(x, 0, br_from_i64(BR_SHAPE(1, 3), (int64_t[]){ 1, 0, 1 })), 3, 1, 5);
    check_equals(br_gather(br_t(x), 0, br_t(index)), 2, 4, 0, 4);
    check_fails(br_gather(x, 0, index), "gather: index 2 at position [0, 0] is outside 0 .. 1");
    check_fails(br_gather(x, 1, INDEX(0)), "index [1] for x [2, 3]: must have as many dimensions");
    check_fails(br_gather(x, 1, br_zeros(BR_SHAPE(3, 1), BR_I64)), "sizes no larger");
}

Test(index, embedding)
{
    br_tensor *weight = iota(BR_SHAPE(4, 2), BR_F32);
    br_tensor *index = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ 3, 0, 1, 3 });
    br_tensor *y = br_f_embedding(weight, index, -1);
    check_shape(y, BR_SHAPE(2, 2, 2));
    check_equals(y, 6, 7, 0, 1, 2, 3, 6, 7);
    check_equals(br_f_embedding(weight, br_t(index), 1), 6, 7, 2, 3, 0, 1, 6, 7);
    check_equals(br_f_embedding(weight, br_scalar(2, BR_I64), -1), 4, 5);
    br_tensor *wide = br_zeros(BR_SHAPE(5, 18), BR_I64);
    br_data_i64(wide)[3 * 18 + 17] = 1042;
    check_fails(br_f_embedding(weight, wide, -1),
                "embedding: index 1042 at position [3, 17] is outside 0 .. 3");
    check_fails(br_f_embedding(weight, index, 4), "padding_idx 4 is outside 0 .. 3");
    check_fails(br_f_embedding(index, index, -2), "padding_idx -2");
    check_fails(br_f_embedding(br_zeros(BR_SHAPE(3), BR_F32), index, -1), "two dimensions");
    check_fails(br_f_embedding(weight, NULL, -1), "index is NULL");
}

Test(index, embedding_gradient_leaves_padding_out)
{
    br_tensor *weight = leaf(br_zeros(BR_SHAPE(4, 2), BR_F32));
    br_tensor *y = br_f_embedding(weight, INDEX(3, 1, 3, 0), 1);
    br_backward_with(y, &(br_backward_options){ .gradient = iota(BR_SHAPE(4, 2), BR_F32) });
    check_equals(br_grad_of(weight), 6, 7, 0, 0, 0, 0, 4, 6);
}

Test(index, triangles)
{
    br_tensor *x = br_add_scalar(iota(BR_SHAPE(2, 3), BR_F32), 1);
    check_equals(br_tril(x, 0), 1, 0, 0, 4, 5, 0);
    check_equals(br_tril(x, 1), 1, 2, 0, 4, 5, 6);
    check_equals(br_tril(x, -1), 0, 0, 0, 4, 0, 0);
    check_equals(br_triu(x, 0), 1, 2, 3, 0, 5, 6);
    check_equals(br_triu(x, 1), 0, 2, 3, 0, 0, 6);
    check_equals(br_triu(br_t(x), -1), 1, 4, 2, 5, 0, 6);
    check_equals(br_tril(x, INT64_MAX), 1, 2, 3, 4, 5, 6);
    check_equals(br_triu(x, INT64_MAX), 0, 0, 0, 0, 0, 0);
    check_equals(br_tril(x, INT64_MIN), 0, 0, 0, 0, 0, 0);
    check_equals(br_triu(br_ones(BR_SHAPE(2, 2, 2), BR_BOOL), 1), 0, 1, 0, 0, 0, 1, 0, 0);
    check_fails(br_tril(br_zeros(BR_SHAPE(3), BR_F32), 0), "tril: x [3] must have at least two");
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* Large enough for many tasks, with every index taken several times. */
static br_tensor *lookup_gradient(int kind)
{
    br_tensor *x = leaf(values(BR_SHAPE(70, 900), 1, BR_F32));
    br_tensor *index = br_to(br_slice(br_arange(0, 2100, 1, BR_I64), 0, 0, BR_ALL, 1), BR_I64);
    int64_t *p = br_data_i64(index);
    for (int64_t i = 0; i < br_numel(index); i++)
        p[i] = i * i % 70;
    br_tensor *y = NULL;
    if (kind == 0)
        y = br_f_embedding(x, index, 3);
    else if (kind == 1)
        y = br_gather(x, 0, br_expand(br_unsqueeze(index, 1), BR_SHAPE(2100, 900)));
    else
        y = br_gather(x, 1, br_expand(br_unsqueeze(index, 0), BR_SHAPE(70, 2100)));
    br_tensor *dy = values(br_ndim(y), br_sizes(y), 5, BR_F32);
    br_backward_with(y, &(br_backward_options){ .gradient = dy });
    return br_grad_of(x);
}

Test(index, gradients_do_not_depend_on_threads)
{
    for (int kind = 0; kind < 3; kind++) {
        br_scope *scope = br_scope_begin();
        br_set_num_threads(1);
        br_tensor *one = lookup_gradient(kind);
        for (int threads = 2; threads <= 3; threads++) {
            br_set_num_threads(threads);
            check_same_bits(one, lookup_gradient(kind));
        }
        br_scope_end(scope);
    }
}

/* The same sums in f64, one at a time. */
Test(index, gradients_are_the_sums)
{
    br_set_num_threads(2);
    const br_tensor *dx = lookup_gradient(0);
    double want[70] = { 0 };
    const int64_t column = 617;
    for (int64_t i = 0; i < 2100; i++)
        if (i * i % 70 != 3)
            want[i * i % 70] += (double)((float)(((i * 900 + column) * 37 + 55) % 101 - 50) / 17);
    for (int64_t row = 0; row < 70; row++)
        check_close(br_at(dx, BR_DIMS(row, column)), want[row], 2e-5);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static br_tensor *every_lookup(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    const int64_t *padding = context;
    br_tensor *x = inputs[0], *w = inputs[1]; /* [3, 4], [4, 3] */
    br_tensor *index = br_from_i64(BR_SHAPE(2, 2), (int64_t[]){ 3, 0, 3, 1 });
    br_tensor *rows = br_f_embedding(w, index, *padding);
    br_tensor *flat = br_reshape(rows, BR_SHAPE(4, 3));
    br_tensor *picked =
        br_gather(x, 1, br_from_i64(BR_SHAPE(2, 3), (int64_t[]){ 0, 3, 0, 2, 2, 1 }));
    br_tensor *chosen = br_index_select(x, 1, INDEX(1, 3, 1)); /* [3, 3] */
    br_tensor *all = br_cat(BR_INPUTS(flat, picked, br_tril(chosen, 0), br_triu(chosen, 1)), 0);
    return br_stack(BR_INPUTS(all, br_mul(all, all)), 1);
}

Test(index, gradients)
{
    check_gradient(every_lookup, &(int64_t){ -1 }, 2,
                   (br_tensor *[]){ leaf(values(BR_SHAPE(3, 4), 1, BR_F64)),
                                    leaf(values(BR_SHAPE(4, 3), 2, BR_F64)) });
}

Test(index, gradients_of_gradients)
{
    for (int64_t padding = -1; padding <= 1; padding++)
        check_second_gradient(every_lookup, &padding, 2,
                              (br_tensor *[]){ leaf(values(BR_SHAPE(3, 4), 1, BR_F64)),
                                               leaf(values(BR_SHAPE(4, 3), 2, BR_F64)) });
}
