/* tests/autograd/test_accumulated_grad.c - backward functions that accumulate in place with
 * br_accumulated_grad(): when this is possible, that it gives the same values, and that gradients
 * of transposed weights are not copied. */
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(accumulated_grad, .init = check_begin, .fini = check_end);

/* ---- When in-place accumulation is possible -------------------------------------------------- */

static int n_in_place;     /* how often probe_backward() accumulated in place */
static const void *memory; /* the data of the last gradient that it returned instead */

static void probe_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *sum = br_accumulated_grad(node, 0);
    if (sum) {
        n_in_place++;
        br_add_(sum, br_mul_scalar(dy, 3));
        return;
    }
    br_tensor *made = br_contiguous(br_t(br_mul_scalar(dy, 3)));
    memory = br_data(made);
    dx[0] = br_t(made);
}

static const br_op probe_op = { "probe", probe_backward, false };

/* Returns 3x. */
static br_tensor *probe(br_tensor *x)
{
    br_scope *inner = br_no_grad_begin();
    br_tensor *y = br_scope_return(inner, br_mul_scalar(x, 3));
    br_scope_end(inner);
    br_record(&probe_op, y, BR_INPUTS(x), NULL, 0);
    return y;
}

static br_tensor *leaf(void)
{
    return br_set_requires_grad(br_randn(BR_SHAPE(3, 4), BR_F64), true);
}

/* Runs backward from sum(y), and asserts that every element of x's gradient is `all`. Returns how
 * often probe_backward() accumulated in place. */
static int times_in_place(br_tensor *y, br_tensor *x, double all)
{
    n_in_place = 0;
    cr_assert(br_backward(br_sum(y)), "%s", br_error_message());
    cr_assert(br_equal(br_grad_of(x), br_mul_scalar(br_ones_like(x), all)));
    return n_in_place;
}

static br_tensor *keep(br_tensor *grad, void *context)
{
    (void)context;
    return grad;
}

Test(accumulated_grad, in_place_for_all_but_the_first_gradient)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf();
    cr_assert_eq(times_in_place(probe(x), x, 3), 0);
    /* Each pass makes a whole gradient before it is added to that of the pass before. */
    cr_assert_eq(times_in_place(br_add(probe(x), probe(x)), x, 3 + 6), 1);
    br_register_hook(x, keep, NULL);
    cr_assert_eq(times_in_place(br_add(probe(x), probe(x)), x, 3 + 6 + 6), 1);
    br_scope_end(scope);
}

/* The first gradient of h is dense and not shared, so the next one is added to it in place. */
Test(accumulated_grad, in_place_for_intermediate_tensors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *h = br_mul_scalar(x, 1), *early = probe(h);
    cr_assert_eq(times_in_place(br_add(early, br_mul_scalar(h, 2)), x, 5), 1);
    br_scope_end(scope);
}

Test(accumulated_grad, not_in_place_if_the_sum_is_visible_to_others)
{
    br_scope *scope = br_scope_begin();
    cr_assert_null(br_accumulated_grad(NULL, 0));
    br_tensor *a = leaf(), *b = leaf(); /* add passes the same gradient tensor to both */
    br_tensor *h = br_mul_scalar(a, 1), *g = br_mul_scalar(b, 1), *first = probe(h);
    cr_assert_eq(times_in_place(br_add(first, br_mul_scalar(br_add(h, g), 1)), a, 4), 0);
    cr_assert(br_equal(br_grad_of(b), br_ones_like(b)));

    br_tensor *c = leaf(); /* its gradient is not dense; in-place kernels need dense memory */
    br_set_grad(c, br_t(br_zeros(BR_SHAPE(4, 3), BR_F64)));
    cr_assert_eq(times_in_place(probe(c), c, 3), 0);
    br_scope_end(scope);
}

Test(accumulated_grad, not_in_place_for_br_grad_of_a_leaf_or_with_create_graph)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *dx = NULL;
    n_in_place = 0;
    br_tensor *y = br_sum(br_add(br_mul_scalar(x, 2), probe(x)));
    cr_assert(br_grad(1, &y, 1, &x, &dx, NULL));
    cr_assert(br_equal(dx, br_mul_scalar(br_ones_like(x), 5)));
    br_tensor *h = br_mul_scalar(x, 1), *early = probe(h);
    y = br_sum(br_add(early, br_mul_scalar(h, 2)));
    cr_assert(br_grad(1, &y, 1, &x, &dx, BR_OPTIONS(br_grad, .create_graph = true)));
    cr_assert(br_equal(dx, br_mul_scalar(br_ones_like(x), 5)));
    cr_assert_eq(n_in_place, 0);
    br_scope_end(scope);
}

typedef struct seen {
    br_tensor *x, *w, *grad, *product;
} seen;

/* Uses the part of x's gradient that the pass has computed so far. */
static br_tensor *save_partial_gradient(br_tensor *dy, void *context)
{
    (void)dy;
    seen *s = context;
    br_scope *scope = br_enable_grad_begin();
    s->grad = br_grad_of(s->x);
    s->product = br_retain(br_sum(br_mul(s->w, s->grad)));
    br_scope_end(scope);
    return NULL;
}

/* A hook may save a leaf's gradient during a pass that then accumulates into it in place: this must
 * be detected as an in-place change. */
Test(accumulated_grad, accumulation_in_place_increments_the_version)
{
    for (int embedding = 0; embedding < 2; embedding++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = leaf();
        seen s = { .x = x, .w = leaf() };
        br_tensor *row = embedding
                             ? br_f_embedding(x, br_from_i64(BR_SHAPE(1), (int64_t[]){ 2 }), -1)
                             : br_select(x, 0, 2);
        br_tensor *early = br_mul_scalar(row, 2);
        br_register_hook(early, save_partial_gradient, &s);
        br_tensor *late = br_mul_scalar(x, 3); /* its gradient is the first in backward */
        cr_assert(br_backward(br_add(br_sum(early), br_sum(late))), "%s", br_error_message());
        cr_assert_eq(br_grad_of(x), s.grad, "the gradient was not accumulated in place");
        cr_assert_eq(br_at(s.grad, 2, (int64_t[]){ 2, 1 }), 5);
        check_fails(br_backward(s.product), "was changed in place");
        br_release(s.product);
        br_scope_end(scope);
    }
}

/* ---- Operations that use it ------------------------------------------------------------------ */

static br_tensor *index_of(int64_t rows, int64_t columns)
{
    static const int64_t places[] = { 2, 0, 2, 1, 3, 3, 2, 0, 1, 1, 1, 2 };
    return br_from_i64(BR_SHAPE(rows, columns), places);
}

/* Returns a weighted sum of overlapping parts of h [4, 6], each with its own random weights. h
 * itself is the last part, so its gradient is the first in backward. */
static br_tensor *parts_of(br_tensor *h)
{
    br_manual_seed(7);
    br_tensor *parts[] = {
        br_select(h, 0, 2),
        br_select(h, 1, -1),
        br_narrow(h, 1, 1, 3),
        br_slice(h, 1, 0, 6, 2),
        br_diagonal(h, 1, 0, 1),
        br_unfold(h, 1, 4, 1),
        br_gather(h, 1, index_of(4, 3)),
        br_index_select(h, 0, br_flatten(index_of(2, 3), 0, -1)),
        br_f_embedding(h, index_of(2, 6), 1),
        h,
    };
    br_tensor *total = br_scalar(0, BR_F64);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        total = br_add(total, br_sum(br_mul(parts[i], br_randn(br_ndim(parts[i]),
                                                               br_sizes(parts[i]), BR_F64))));
    return total;
}

static void check_parts(br_tensor *x, br_tensor *h)
{
    br_tensor *y = parts_of(h), *composed = NULL; /* computed with create_graph: never in place */
    br_set_grad(x, NULL);
    cr_assert(br_grad(1, &y, 1, &x, &composed, BR_OPTIONS(br_grad, .create_graph = true)));
    cr_assert(br_backward_with(y, BR_OPTIONS(br_backward, .retain_graph = true)));
    cr_assert(br_allclose(br_grad_of(x), composed, 0, 1e-14));
    cr_assert(br_backward(y)); /* accumulates */
    cr_assert(br_allclose(br_grad_of(x), br_mul_scalar(composed, 2), 0, 2e-14));
}

Test(accumulated_grad, accumulating_in_place_gives_the_same_values)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_randn(BR_SHAPE(4, 6), BR_F64), true);
    check_parts(x, x);
    check_parts(x, br_mul_scalar(x, 1));
    br_tensor *turned = br_set_requires_grad(br_randn(BR_SHAPE(6, 4), BR_F64), true);
    check_parts(turned, br_t(turned));
    br_scope_end(scope);
}

/* The gradient of a transposed weight (GPT-2 has such weights) keeps the memory that the backward
 * function returned. */
Test(accumulated_grad, a_transposed_gradient_is_not_copied)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf();
    cr_assert(br_backward(br_sum(probe(br_t(x)))));
    cr_assert_eq(br_data(br_grad_of(x)), memory);
    br_scope_end(scope);
}
