/* tests/ops/index/test_index.c - joining and indexing. */
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
        "cat: tensor 1 is [2, 1], tensor 0 is [2, 2]: sizes must be equal except in dimension 0");
    check_fails(br_cat(BR_INPUTS(a, NULL), 0), "tensor 1 is NULL");
    check_fails(br_cat(0, NULL, 0), "cat: got 0 tensors, must be at least one");
    check_fails(br_cat(2, NULL, 0), "cat: tensors is NULL, but n is 2");
    check_fails(br_cat(BR_INPUTS(br_scalar(1, BR_F32)), 0),
                "x [] has no dimensions, must have at least one");
}

/* Concatenates parts of many widths and numbers of rows, each with a narrower, a wider and a
 * non-contiguous part, and compares the slices of the result with the parts. */
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

/* cat ignores tensors of shape [0], as PyTorch does. */
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
    cr_assert(br_ndim(br_cat(BR_INPUTS(e, e), 5)) == 1, "dim is ignored if all tensors are [0]");
    br_tensor *table = br_zeros(BR_SHAPE(0, 3), BR_F32);
    check_fails(br_cat(BR_INPUTS(e, a, table), 0), "cat: tensor 2 is [0, 3], tensor 1 is [2, 2]");
    check_fails(br_cat(BR_INPUTS(e, a), 2), "dim");
    check_equals(br_cat(BR_INPUTS(br_zeros(BR_SHAPE(0), BR_I64), a), 0), 0, 1, 2, 3);
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
                "index_select: index 2 at position [0] is outside 0 .. 1: dimension 0 of the "
                "indexed [2, 3, 2] has size 2");
    check_fails(br_index_select(x, 1, INDEX(0, -1)), "index -1 at position [1]");
    check_fails(br_index_select(x, 1, x), "index [2, 3, 2] is f32, must be i64");
    check_fails(br_index_select(x, 1, br_reshape(index, BR_SHAPE(1, 3))), "one dimension");
}

Test(index, zero_dimensional_tensors_and_indices)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_full(BR_SCALAR, 3, BR_F32), *zero = br_zeros(BR_SCALAR, BR_I64);
    check_shape(br_index_select(x, 0, zero), BR_SCALAR);
    check_shape(br_index_select(br_expand(x, BR_SHAPE(2, 4)), 1, zero), BR_SHAPE(2, 1));
    check_shape(br_gather(x, -1, zero), BR_SCALAR);
    check_equals(br_gather(x, 0, br_zeros(BR_SHAPE(3), BR_I64)), 3, 3, 3);
    check_equals(br_take_along_dim(x, zero, -1), 3);
    check_fails(br_gather(x, 0, INDEX(1)), "gather: index 1 at position [0] is outside 0 .. 0");
    check_fails(br_index_select(x, 0, INDEX(0, 0)),
                "index_select: index [2] must have one element, because x [] has no dimensions");
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
    check_fails(br_gather(x, 1, INDEX(0)),
                "index [1] for x [2, 3]: must have the same number of dimensions");
    check_fails(br_gather(x, 1, br_zeros(BR_SHAPE(3, 1), BR_I64)),
                "index must not be larger than x except in dimension 1");
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
    check_fails(br_f_embedding(weight, index, 4), "padding_idx is 4, must be in 0 .. 3");
    check_fails(br_f_embedding(index, index, -2), "padding_idx is -2");
    check_fails(br_f_embedding(br_zeros(BR_SHAPE(3), BR_F32), index, -1), "two dimensions");
    check_fails(br_f_embedding(weight, NULL, -1), "index is NULL");
}

Test(index, embedding_gradient_of_padding_is_zero)
{
    br_tensor *weight = leaf(br_zeros(BR_SHAPE(4, 2), BR_F32));
    br_tensor *y = br_f_embedding(weight, INDEX(3, 1, 3, 0), 1);
    br_backward_with(y, BR_OPTIONS(br_backward, .gradient = iota(BR_SHAPE(4, 2), BR_F32)));
    check_equals(br_grad_of(weight), 6, 7, 0, 0, 0, 0, 4, 6);
}

Test(index, tril_and_triu)
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

/* Returns the gradient of a lookup that is large enough for many tasks and whose indices repeat. */
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
    br_backward_with(y, BR_OPTIONS(br_backward, .gradient = dy));
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

/* A source may be larger than the index in any dimension. The elements beyond the index have no
 * effect, and a gradient of 0. */
Test(index, sources_that_are_larger_than_the_index)
{
    enum { NDIM = 3, SETS = 1 << NDIM };
    for (int set = 0; set < SETS; set++) {
        br_scope *scope = br_scope_begin();
        int64_t sizes[NDIM], pad[2 * NDIM] = { 0 };
        for (int d = 0; d < NDIM; d++) {
            const int64_t more = set >> d & 1;
            sizes[d] = 2 + more;
            pad[2 * (NDIM - 1 - d) + 1] = more;
        }
        br_tensor *index = br_zeros(BR_SHAPE(2, 2, 2), BR_I64);
        br_tensor *inside =
            br_pad(br_ones(BR_SHAPE(2, 2, 2), BR_F64), 2 * NDIM, pad, BR_PAD_CONSTANT, 0);
        br_tensor *x = br_zeros(BR_SHAPE(3, 3, 3), BR_F64), *by_add, *by_copy;
        br_tensor *source = br_set_requires_grad(br_ones(NDIM, sizes, BR_F64), true);
        br_tensor *added = br_sum(br_scatter_add(x, 0, index, source));
        br_tensor *copied = br_sum(br_scatter(x, 0, index, source));
        cr_assert(br_grad(1, &added, 1, &source, &by_add, NULL), "set %d: %s", set,
                  br_error_message());
        cr_assert(br_grad(1, &copied, 1, &source, &by_copy, NULL), "set %d: %s", set,
                  br_error_message());
        cr_assert(br_item(added) == 8 && br_item(copied) == 4, "set %d", set);
        cr_assert(br_equal(by_add, inside), "set %d", set);
        /* Of the elements of the same place, only the last one is copied. */
        br_tensor *last = br_clone(inside);
        br_fill_(br_select(last, 0, 0), 0);
        cr_assert(br_equal(by_copy, last), "set %d", set);
        br_scope_end(scope);
    }
}

/* Compares the gradient with sequential sums in f64. */
Test(index, gradients_of_repeated_indices_are_summed)
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

/* ---- Indices without elements ---------------------------------------------------------------- */

/* An operation that takes an index along dimension `dim`. */
typedef br_tensor *(*indexed)(br_tensor *x, int64_t dim, br_tensor *index);

static br_tensor *ones_like(br_tensor *index)
{
    return br_ones(br_ndim(index), br_sizes(index), BR_F32);
}

#define INDEXED(name, expression)                                       \
    static br_tensor *name(br_tensor *x, int64_t dim, br_tensor *index) \
    {                                                                   \
        return expression;                                              \
    }
INDEXED(gathered, br_gather(x, dim, index))
INDEXED(scattered, br_scatter(x, dim, index, ones_like(index)))
INDEXED(scattered_, br_scatter_(br_clone(x), dim, index, ones_like(index)))
INDEXED(scattered_scalar, br_scatter_scalar(x, dim, index, 1))
INDEXED(scattered_scalar_, br_scatter_scalar_(br_clone(x), dim, index, 1))
INDEXED(added, br_scatter_add(x, dim, index, ones_like(index)))
INDEXED(added_, br_scatter_add_(br_clone(x), dim, index, ones_like(index)))
#define REDUCED(name, reduce, self) \
    INDEXED(name, br_scatter_reduce(x, dim, index, ones_like(index), reduce, self))
REDUCED(reduced_sum, BR_SCATTER_SUM, true)
REDUCED(reduced_sum_alone, BR_SCATTER_SUM, false)
REDUCED(reduced_mean, BR_SCATTER_MEAN, false)
REDUCED(reduced_prod, BR_SCATTER_PROD, true)
REDUCED(reduced_prod_alone, BR_SCATTER_PROD, false)
REDUCED(reduced_amax, BR_SCATTER_AMAX, true)
REDUCED(reduced_amin_alone, BR_SCATTER_AMIN, false)

/* Returns true if the index has as many dimensions as x (0-d counts as 1-d), and is no larger than
 * x except along dim. */
static bool index_fits(const br_tensor *x, int64_t dim, const br_tensor *index)
{
    int of = br_ndim(x) ? br_ndim(x) : 1, at = br_ndim(index) ? br_ndim(index) : 1;
    bool fits = of == at;
    for (int i = 0; fits && i < br_ndim(index); i++)
        fits = i == dim || br_size(index, i) <= (br_ndim(x) ? br_size(x, i) : 1);
    return fits;
}

/* Shapes are checked even if the index has no elements. Otherwise, loops over the remaining sizes
 * would read the index and write x out of bounds. */
Test(index, indices_without_elements_are_checked)
{
    static const indexed all[] = { gathered,
                                   scattered,
                                   scattered_,
                                   scattered_scalar,
                                   added,
                                   scattered_scalar_,
                                   added_,
                                   reduced_sum,
                                   reduced_sum_alone,
                                   reduced_mean,
                                   reduced_prod,
                                   reduced_prod_alone,
                                   reduced_amin_alone,
                                   reduced_amax };
    static const struct {
        int ndim;
        int64_t sizes[BR_MAX_DIMS];
    } xs[] = { { 0, { 0 } }, { 1, { 3 } }, { 1, { 0 } }, { 2, { 2, 3 } }, { 3, { 2, 3, 4 } } },
      shapes[] = { { 1, { 0 } },          { 2, { 0, 3 } },
                   { 2, { 3, 0 } },       { 2, { 0, 5 } },
                   { 2, { 5, 0 } },       { 3, { 2, 0, 5 } },
                   { 3, { 3, 9, 0 } },    { 3, { 0, 2, 2 } },
                   { 4, { 2, 3, 4, 0 } }, { 8, { 9, 9, 9, 9, 9, 9, 9, 0 } } };
    for (size_t k = 0; k < sizeof xs / sizeof *xs; k++) {
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            br_scope *scope = br_scope_begin();
            br_tensor *x = br_ones(xs[k].ndim, xs[k].sizes, BR_F32);
            br_tensor *index = br_zeros(shapes[i].ndim, shapes[i].sizes, BR_I64);
            for (int64_t dim = 0; dim < (br_ndim(x) ? br_ndim(x) : 1); dim++) {
                bool fits = index_fits(x, dim, index);
                for (size_t f = 0; f < sizeof all / sizeof *all; f++) {
                    if (!fits) {
                        check_fails(all[f](x, dim, index),
                                    "must have the same number of dimensions");
                        continue;
                    }
                    br_tensor *y = all[f](x, dim, index);
                    check_ok();
                    cr_assert(f == 0 ? br_same_shape(y, index) : br_equal(y, x));
                }
            }
            br_scope_end(scope);
        }
    }
}

static br_tensor *slices_of(br_tensor *x, int64_t dim, br_tensor *index)
{
    int64_t sizes[BR_MAX_DIMS];
    for (int i = 0; i < br_ndim(x); i++)
        sizes[i] = br_size(x, i);
    sizes[dim] = br_numel(index);
    return br_ones(br_ndim(x), sizes, BR_F32);
}

INDEXED(selected, br_index_select(x, dim, index))
INDEXED(copied_slices, br_index_copy(x, dim, index, slices_of(x, dim, index)))
INDEXED(added_slices, br_index_add(x, dim, index, slices_of(x, dim, index), 1))
INDEXED(filled_slices, br_index_fill(x, dim, index, 7))

/* The same for operations on slices, whose index must be a vector, and for take, which accepts an
 * index of any shape. */
Test(index, vectors_without_elements_are_checked)
{
    static const indexed all[] = { selected, copied_slices, added_slices, filled_slices };
    static const struct {
        int ndim;
        int64_t sizes[BR_MAX_DIMS];
    } shapes[] = { { 1, { 0 } }, { 2, { 0, 3 } }, { 2, { 3, 0 } }, { 3, { 9, 9, 0 } } };
    br_tensor *x = br_ones(BR_SHAPE(2, 3, 4), BR_F32);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        br_tensor *index = br_zeros(shapes[i].ndim, shapes[i].sizes, BR_I64);
        for (int64_t dim = 0; dim < 3; dim++) {
            for (size_t f = 0; f < sizeof all / sizeof *all; f++) {
                br_tensor *y = all[f](x, dim, index);
                if (br_ndim(index) > 1) {
                    check_fails(y, "index");
                    continue;
                }
                check_ok();
                cr_assert(f == 0 ? br_size(y, dim) == 0 : br_equal(y, x));
            }
        }
        cr_assert(br_same_shape(br_take(x, index), index));
        cr_assert(br_same_shape(br_take(br_ones(BR_SHAPE(0), BR_F32), index), index));
        check_ok();
    }
}

/* Checks the indices of a triangle, row by row. */
static void check_triangle(bool upper, int64_t rows, int64_t columns, int64_t offset)
{
    br_tensor *y = (upper ? br_triu_indices : br_tril_indices)(rows, columns, offset);
    check_ok();
    const int64_t *values = br_data_i64(y), n = br_size(y, 1);
    int64_t k = 0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++)
            if (upper ? j - i >= offset : j - i <= offset) {
                cr_assert(k < n && values[k] == i && values[n + k] == j, "%d: %d x %d, %d", upper,
                          (int)rows, (int)columns, (int)offset);
                k++;
            }
    cr_assert_eq(k, n, "%d: %d x %d, %d", upper, (int)rows, (int)columns, (int)offset);
}

Test(index, triangle_indices)
{
    for (int64_t rows = 0; rows < 5; rows++)
        for (int64_t columns = 0; columns < 5; columns++)
            for (int64_t offset = -6; offset < 7; offset++) {
                check_triangle(false, rows, columns, offset);
                check_triangle(true, rows, columns, offset);
            }
}

/* Rows without elements are not iterated over: otherwise these calls would take centuries. */
Test(index, triangle_indices_with_many_empty_rows)
{
    const int64_t many = INT64_MAX, half = INT64_MAX / 2;
    cr_assert_eq(br_numel(br_tril_indices(many, 4, -many)), 0);
    cr_assert_eq(br_numel(br_tril_indices(half, 4, -half)), 0);
    cr_assert_eq(br_numel(br_tril_indices(many, 0, 0)), 0);
    cr_assert_eq(br_numel(br_triu_indices(many, 4, 4)), 0);
    cr_assert_eq(br_numel(br_triu_indices(many, 0, 0)), 0);
    const int64_t *corner = br_data_i64(br_tril_indices(half, 4, 1 - half));
    cr_assert(corner && corner[0] == half - 1 && corner[1] == 0);
    corner = br_data_i64(br_triu_indices(many, 4, 3));
    cr_assert(corner && corner[0] == 0 && corner[1] == 3);
    check_fails(br_tril_indices(many, 4, 0), "more elements than can be addressed");
    check_fails(br_triu_indices(many, many, -many), "more elements than can be addressed");
}

/* The weight's gradient does not depend on the row of dy for padding_idx, so that row's
 * second-order gradient is 0. */
Test(index, padding_row_has_no_second_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *weight = leaf(values(BR_SHAPE(3, 2), 1, BR_F64));
    br_tensor *y = br_f_embedding(weight, br_arange(0, 2, 1, BR_I64), 0);
    br_tensor *dy = leaf(br_ones(BR_SHAPE(2, 2), BR_F64)), *dw, *ddy;
    cr_assert(br_grad(1, &y, 1, &weight, &dw,
                      BR_OPTIONS(br_grad, .gradients = &dy, .create_graph = true)));
    br_tensor *sum = br_sum(dw);
    cr_assert(br_grad(1, &sum, 1, &dy, &ddy, NULL), "%s", br_error_message());
    check_equals(ddy, 0, 0, 1, 1);
    br_scope_end(scope);
}

/* The source is read before the elements that it shares with x are overwritten. */
Test(index, copy_from_a_view_of_itself)
{
    br_tensor *x = br_from_f64(BR_SHAPE(3), (double[]){ 1, 2, 3 });
    br_tensor *index = br_arange(1, 3, 1, BR_I64);
    check_equals(br_index_copy_(x, 0, index, br_narrow(x, 0, 0, 2)), 1, 1, 2);
}

Test(index, getitem_accepts_one_ellipsis)
{
    br_tensor *x = iota(BR_SHAPE(2, 2), BR_F32);
    check_fails(br_getitem(x, "..., 0, ...", 0, NULL), "... may occur once");
    cr_assert(br_equal(br_getitem(x, " 0 , ... ", 0, NULL), br_select(x, 0, 0)));
    br_tensor *unused = br_zeros(BR_SHAPE(1), BR_I64);
    check_fails(br_getitem(x, "0", 1, &unused), "more tensors were given than there are ?");
    br_tensor *classes = br_from_i64(BR_SHAPE(2), (int64_t[]){ 1, 3 });
    check_fails(br_one_hot(classes, 3),
                "one_hot: index [2] contains 3, must be less than num_classes 3");
}

/* The gradient of a maximum is shared among the equal elements that were compared. PyTorch differs:
 * it also counts an equal element of x that include_self = false excludes. */
Test(index, an_excluded_maximum_takes_no_share_of_the_gradient)
{
    br_scope *scope = br_scope_begin();
    for (int include = 0; include < 2; include++) {
        br_tensor *x = leaf(br_from_f64(BR_SHAPE(2), (double[]){ 2, 7 }));
        br_tensor *src = leaf(br_from_f64(BR_SHAPE(3), (double[]){ 2, 1, 2 }));
        br_tensor *y =
            br_scatter_reduce(x, 0, br_zeros(BR_SHAPE(3), BR_I64), src, BR_SCATTER_AMAX, include);
        check_equals(br_detach(y), 2, 7);
        cr_assert(br_backward(br_sum(br_mul_scalar(y, 6))), "%s", br_error_message());
        check_equals(br_grad_of(x), include ? 2 : 0, 6);
        check_equals(br_grad_of(src), include ? 2 : 3, 0, include ? 2 : 3);
    }
    br_scope_end(scope);
}

Test(index, unique_slices_have_elements)
{
    check_fails(br_unique_dim(br_zeros(BR_SHAPE(3, 0), BR_F32), 0, NULL, NULL),
                "unique: x [3, 0]: slices along dimension 0 have no elements to compare");
}

Test(index, a_bool_source_times_zero_adds_nothing)
{
    br_tensor *x = br_zeros(BR_SHAPE(2), BR_BOOL), *source = br_ones(BR_SHAPE(1), BR_BOOL);
    check_equals(br_index_add(x, 0, INDEX(1), source, 1), 0, 1);
    check_equals(br_index_add(x, 0, INDEX(1), source, 0), 0, 0);
}

/* ---- scatter_reduce: zeros and NaN ----------------------------------------------------------- */

static br_tensor *scattered_product(br_tensor *const *x, int n, void *context)
{
    (void)n;
    const int64_t to[] = { 0, 0, 1, 2, 2, 2, 1, 0 };
    return br_scatter_reduce(x[0], 0, br_from_i64(BR_SHAPE(8), to), x[1], BR_SCATTER_PROD,
                             *(const bool *)context);
}

/* Positions 0, 1 and 2 get two zeros and a 5, a zero and a 4, and three zeros. A position with two
 * zeros has gradients 0, but second derivatives that are not. */
Test(index, second_gradients_of_scattered_products_with_zeros)
{
    for (int self = 0; self < 2; self++) {
        br_scope *scope = br_scope_begin();
        bool include_self = self;
        br_tensor *x[] = {
            br_from_f64(BR_SHAPE(3), (double[]){ 2, 0, 3 }),
            br_from_f64(BR_SHAPE(8), (double[]){ 0, 0, 0, 0, 0, 0, 4, 5 }),
        };
        br_set_requires_grad(x[0], true);
        br_set_requires_grad(x[1], true);
        cr_assert(br_gradcheck(scattered_product, &include_self, 2, x, TIGHTLY), "%s",
                  br_error_message());
        cr_assert(br_gradgradcheck(scattered_product, &include_self, 2, x, TIGHTLY), "%s",
                  br_error_message());
        br_scope_end(scope);
    }
}

/* As in PyTorch, every element whose result is NaN gets a gradient of NaN. */
Test(index, gradients_of_scattered_extremes_with_nan)
{
    static const br_scatter_reduction extremes[] = { BR_SCATTER_AMAX, BR_SCATTER_AMIN };
    for (int k = 0; k < 2; k++)
        for (int self = 0; self < 2; self++) {
            br_scope *scope = br_scope_begin();
            br_tensor *x = br_from_f64(BR_SHAPE(3), (double[]){ 1, NAN, 3 });
            br_tensor *src = br_from_f64(BR_SHAPE(4), (double[]){ 2, NAN, 5, 1 });
            br_tensor *to = br_from_i64(BR_SHAPE(4), (int64_t[]){ 0, 0, 1, 2 });
            br_set_requires_grad(x, true);
            br_set_requires_grad(src, true);
            br_backward(br_sum(br_scatter_reduce(x, 0, to, src, extremes[k], self)));
            double other = k == 1; /* x[2] = 3, src[3] = 1 */
            if (self) {
                check_equals(br_grad_of(x), NAN, NAN, 1 - other);
                check_equals(br_grad_of(src), NAN, NAN, NAN, other);
            } else {
                check_equals(br_grad_of(x), 0, 0, 0);
                check_equals(br_grad_of(src), NAN, NAN, 1, 1);
            }
            br_scope_end(scope);
        }
}
