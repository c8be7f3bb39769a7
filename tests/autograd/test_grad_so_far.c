/* tests/autograd/test_grad_so_far.c - gradients that are added in place to what has come in: when
 * that is offered, that it changes no value, and that weights' gradients are not copied. */
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(grad_so_far, .init = check_begin, .fini = check_end);

/* ---- When it is offered ---------------------------------------------------------------------- */

static int n_offered;      /* how often probe's gradient could add in place */
static const void *memory; /* of the gradient that it made otherwise */

static void probe_backward(br_node *node, br_tensor *dy, br_tensor **dx)
{
    br_tensor *sum = br_grad_so_far(node, 0);
    if (sum) {
        n_offered++;
        br_add_(sum, br_mul_scalar(dy, 3));
        return;
    }
    br_tensor *made = br_contiguous(br_t(br_mul_scalar(dy, 3)));
    memory = br_data(made);
    dx[0] = br_t(made);
}

static const br_op probe_op = { "probe", probe_backward, false };

/* 3x. */
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

/* How often it was offered while the gradient of sum(y) was made; every element of x's is `all`. */
static int offered(br_tensor *y, br_tensor *x, double all)
{
    n_offered = 0;
    cr_assert(br_backward(br_sum(y)), "%s", br_error_message());
    cr_assert(br_equal(br_grad_of(x), br_mul_scalar(br_ones_like(x), all)));
    return n_offered;
}

Test(grad_so_far, offered_for_all_but_the_first_part)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf();
    cr_assert_eq(offered(probe(x), x, 3), 0);
    cr_assert_eq(offered(br_add(probe(x), probe(x)), x, 3 + 6), 2);
    br_scope_end(scope);
}

/* The first part of h's gradient is dense here, and nobody else's. */
Test(grad_so_far, offered_inside_a_graph)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *h = br_mul_scalar(x, 1), *early = probe(h);
    cr_assert_eq(offered(br_add(early, br_mul_scalar(h, 2)), x, 5), 1);
    br_scope_end(scope);
}

static br_tensor *keep(br_tensor *grad, void *context)
{
    (void)context;
    return grad;
}

Test(grad_so_far, not_where_others_see_it)
{
    br_scope *scope = br_scope_begin();
    cr_assert_null(br_grad_so_far(NULL, 0));
    br_tensor *x = leaf(), *early = probe(x);
    br_register_hook(x, keep, NULL); /* sees the whole gradient, so that it waits */
    cr_assert_eq(offered(br_add(br_mul_scalar(x, 2), early), x, 5), 0);

    br_tensor *a = leaf(), *b = leaf(); /* add hands both of them one tensor */
    br_tensor *h = br_mul_scalar(a, 1), *g = br_mul_scalar(b, 1), *first = probe(h);
    cr_assert_eq(offered(br_add(first, br_mul_scalar(br_add(h, g), 1)), a, 4), 0);
    cr_assert(br_equal(br_grad_of(b), br_ones_like(b)));
    br_scope_end(scope);
}

Test(grad_so_far, not_for_br_grad_of_a_leaf_or_a_recorded_backward)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf(), *dx = NULL;
    n_offered = 0;
    br_tensor *y = br_sum(br_add(br_mul_scalar(x, 2), probe(x)));
    cr_assert(br_grad(1, &y, 1, &x, &dx, NULL));
    cr_assert(br_equal(dx, br_mul_scalar(br_ones_like(x), 5)));
    br_tensor *h = br_mul_scalar(x, 1), *early = probe(h);
    y = br_sum(br_add(early, br_mul_scalar(h, 2)));
    cr_assert(br_grad(1, &y, 1, &x, &dx, &(br_grad_options){ .create_graph = true }));
    cr_assert(br_equal(dx, br_mul_scalar(br_ones_like(x), 5)));
    cr_assert_eq(n_offered, 0);
    br_scope_end(scope);
}

/* ---- What uses it ---------------------------------------------------------------------------- */

static br_tensor *index_of(int64_t rows, int64_t columns)
{
    static const int64_t places[] = { 2, 0, 2, 1, 3, 3, 2, 0, 1, 1, 1, 2 };
    return br_from_i64(BR_SHAPE(rows, columns), places);
}

/* A scalar of parts of h [4, 6] that overlap, each with weights of its own; what is used late comes
 * back early. */
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
    br_tensor *y = parts_of(h), *composed = NULL; /* recorded: nothing is added in place */
    br_set_grad(x, NULL);
    cr_assert(br_grad(1, &y, 1, &x, &composed, &(br_grad_options){ .create_graph = true }));
    cr_assert(br_backward_with(y, &(br_backward_options){ .retain_graph = true }));
    cr_assert(br_allclose(br_grad_of(x), composed, 0, 1e-14));
    cr_assert(br_backward(y)); /* adds to what is there */
    cr_assert(br_allclose(br_grad_of(x), br_mul_scalar(composed, 2), 0, 2e-14));
}

Test(grad_so_far, parts_give_what_their_composition_gives)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_randn(BR_SHAPE(4, 6), BR_F64), true);
    check_parts(x, x);
    check_parts(x, br_mul_scalar(x, 1));
    br_tensor *turned = br_set_requires_grad(br_randn(BR_SHAPE(6, 4), BR_F64), true);
    check_parts(turned, br_t(turned));
    br_scope_end(scope);
}

/* A weight kept as its transpose, as GPT-2's, gets the very memory that the gradient was made in.
 */
Test(grad_so_far, a_transposed_gradient_is_not_copied)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = leaf();
    cr_assert(br_backward(br_sum(probe(br_t(x)))));
    cr_assert_eq(br_data(br_grad_of(x)), memory);
    br_scope_end(scope);
}
