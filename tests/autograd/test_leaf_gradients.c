/* tests/autograd/test_leaf_gradients.c - the gradient that several backward passes leave in a leaf
 * is ((g0 + g1) + g2) + ..., to the bit, where each g is what one pass alone gives. */
#include "tests/memory.h"
#include "tests/same_bits.h"
#include "tests/support.h"

#include <brasa/brasa.h>

#include <string.h>

TestSuite(leaf_gradients, .init = check_begin, .fini = check_end);

enum { WIDTH = 16, TOKENS = 40, PASSES = 3 };

/* One way to use the weight [WIDTH, WIDTH] in a pass with the input x [TOKENS, WIDTH]. */
typedef br_tensor *use_fn(br_tensor *w, br_tensor *x, br_tensor *index);

static br_tensor *use_once(br_tensor *w, br_tensor *x, br_tensor *index)
{
    (void)index;
    return br_matmul(x, w);
}

static br_tensor *use_twice(br_tensor *w, br_tensor *x, br_tensor *index)
{
    (void)index;
    return br_matmul(br_tanh(br_matmul(x, w)), w);
}

/* The gradients of repeated tokens are added one by one. */
static br_tensor *embed(br_tensor *w, br_tensor *x, br_tensor *index)
{
    (void)x;
    return br_f_embedding(w, index, -1);
}

/* As in a language model, the embedding is the output layer, too: its gradient is added in place to
 * that of the product. */
static br_tensor *embed_and_project(br_tensor *w, br_tensor *x, br_tensor *index)
{
    (void)x;
    return br_matmul(br_tanh(br_f_embedding(w, index, -1)), br_transpose(w, 0, 1));
}

static br_tensor *project_twice(br_tensor *const *inputs, int n, void *context)
{
    (void)n;
    return use_twice(context, inputs[0], NULL);
}

static br_tensor *use_in_checkpoints(br_tensor *w, br_tensor *x, br_tensor *index)
{
    (void)index;
    br_tensor *y = br_activation_checkpoint(project_twice, w, 1, &x, NULL);
    return br_activation_checkpoint(project_twice, w, 1, &y, NULL);
}

/* The slices of a weight are views, whose gradients are added in place. */
static br_tensor *use_slices(br_tensor *w, br_tensor *x, br_tensor *index)
{
    (void)index;
    br_tensor *top = br_slice(w, 0, 0, WIDTH / 2, 1), *bottom = br_slice(w, 0, 3, WIDTH, 1);
    return br_add(br_matmul(x, br_transpose(br_cat(2, (br_tensor *[]){ top, top }, 0), 0, 1)),
                  br_sum(br_mul(bottom, bottom)));
}

static const struct {
    const char *name;
    use_fn *use;
} uses[] = {
    { "used once", use_once },
    { "used twice", use_twice },
    { "embedding with repeated tokens", embed },
    { "embedding that is the output layer, too", embed_and_project },
    { "used in two checkpoints", use_in_checkpoints },
    { "slices", use_slices },
};

static br_tensor *no_change(br_tensor *grad, void *context)
{
    (void)grad;
    (void)context;
    return NULL;
}

static void count_call(br_tensor *leaf, void *context)
{
    (void)leaf;
    ++*(int *)context;
}

/* Returns the loss of pass k, whose data depend on k only. */
static br_tensor *loss_of(use_fn *use, br_tensor *w, int k)
{
    br_manual_seed(100 + (uint64_t)k);
    br_tensor *x = br_randn(BR_SHAPE(TOKENS, WIDTH), BR_F32);
    int64_t tokens[TOKENS];
    for (int i = 0; i < TOKENS; i++)
        tokens[i] = (i * 7 + k * 3) % (WIDTH / 2); /* each several times */
    br_tensor *y = use(w, x, br_from_i64(BR_DIMS(TOKENS), tokens));
    return br_sum(br_mul(y, br_randn(BR_SHAPE(TOKENS, WIDTH), BR_F32)));
}

/* Checks one way of use: without hooks, with a hook, and with a hook after accumulation. */
static void check_passes(const char *name, use_fn *use, int hook)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(1);
    br_tensor *w = br_set_requires_grad(br_randn(BR_SHAPE(WIDTH, WIDTH), BR_F32), true);
    br_tensor *sum = NULL;
    for (int k = 0; k < PASSES; k++) { /* each pass alone */
        br_set_grad(w, NULL);
        cr_assert(br_backward(loss_of(use, w, k)), "%s", br_error_message());
        sum = sum ? br_add(sum, br_grad_of(w)) : br_clone(br_grad_of(w));
    }
    br_set_grad(w, NULL);
    int calls = 0;
    if (hook == 1)
        br_register_hook(w, no_change, NULL);
    else if (hook == 2)
        br_register_post_accumulate_grad_hook(w, count_call, &calls);
    for (int k = 0; k < PASSES; k++)
        cr_assert(br_backward(loss_of(use, w, k)), "%s", br_error_message());
    cr_expect(same_bits(br_grad_of(w), sum), "%s, hook %d", name, hook);
    cr_expect_eq(calls, hook == 2 ? PASSES : 0, "%s", name);
    br_scope_end(scope);
}

Test(leaf_gradients, passes_add_whole_gradients)
{
    for (size_t i = 0; i < sizeof uses / sizeof *uses; i++)
        for (int hook = 0; hook < 3; hook++)
            check_passes(uses[i].name, uses[i].use, hook);
}

/* A leaf where the pass begins twice receives two parts: g + (1 + 1), not (g + 1) + 1. */
Test(leaf_gradients, leaves_where_the_pass_begins)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F32), true);
    br_tensor *parts = br_full(BR_SHAPE(1), 1e8, BR_F32);
    br_set_grad(x, br_clone(parts));
    br_tensor *three = br_full(BR_SHAPE(1), 3, BR_F32);
    cr_assert(br_backward_all(2, (br_tensor *[]){ x, x }, (br_tensor *[]){ three, three }, NULL));
    br_tensor *expected = br_add(parts, br_add(three, three));
    cr_assert(same_bits(br_grad_of(x), expected));
    cr_assert(!same_bits(expected, br_add(br_add(parts, three), three))); /* the test can fail */
    br_scope_end(scope);
}

/* A hook of a pass to chosen inputs runs another pass, whose leaves wait until it ends. */
static br_tensor *run_pass(br_tensor *grad, void *loss)
{
    cr_assert(br_backward(loss), "%s", br_error_message());
    return grad;
}

Test(leaf_gradients, passes_inside_a_pass)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(2);
    br_tensor *w = br_set_requires_grad(br_randn(BR_SHAPE(5), BR_F32), true);
    br_tensor *x = br_set_requires_grad(br_randn(BR_SHAPE(5), BR_F32), true);
    cr_assert(br_backward(br_sum(br_mul(w, w))));
    br_tensor *once = br_clone(br_grad_of(w)), *h = br_mul_scalar(x, 2);
    br_register_hook(h, run_pass, br_sum(br_mul(w, w)));
    br_backward_options o = *BR_OPTIONS(br_backward, .n_inputs = 1, .inputs = &x);
    cr_assert(br_backward_with(br_sum(br_mul(h, h)), &o), "%s", br_error_message());
    cr_assert(same_bits(br_grad_of(w), br_add(once, once)));
    br_scope_end(scope);
}

/* With create_graph the sums are recorded, and have the same values. */
Test(leaf_gradients, passes_with_create_graph)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(3);
    br_tensor *w = br_set_requires_grad(br_randn(BR_SHAPE(7), BR_F32), true);
    br_tensor *sum = NULL;
    for (int k = 0; k < PASSES; k++) {
        br_tensor *y = br_sum(br_mul(br_exp(w), br_mul_scalar(br_sin(w), k + 1)));
        br_tensor *g = NULL;
        cr_assert(br_grad(1, &y, 1, &w, &g, BR_OPTIONS(br_grad, .retain_graph = true)));
        sum = sum ? br_add(sum, g) : g;
        cr_assert(br_backward_with(y, BR_OPTIONS(br_backward, .create_graph = true)));
    }
    cr_assert(same_bits(br_grad_of(w), sum));
    cr_assert(br_requires_grad(br_grad_of(w)));
    br_scope_end(scope);
}

/* ---- Partial gradients ----------------------------------------------------------------------- */

typedef struct partial {
    br_tensor *grad; /* a copy of what the hook got, owned by the scope of the test */
    int calls, calls_of_others;
    int others_before; /* calls of the other hook before this one */
} partial;

static void on_partial(br_tensor *grad, void *context)
{
    partial *p = context;
    p->calls++;
    p->others_before = p->calls_of_others;
    memcpy(br_data(p->grad), br_data(br_contiguous(grad)), (size_t)br_numel(grad) * sizeof(float));
}

static br_tensor *on_other(br_tensor *grad, void *context)
{
    (void)grad;
    ((partial *)context)->calls_of_others++;
    return NULL;
}

/* A lookup in w, then a product with w whose part of the gradient arrives first. */
static br_tensor *tied_loss(br_tensor *w, br_tensor *other)
{
    br_tensor *ids = br_from_i64(BR_DIMS(3), (const int64_t[]){ 4, 1, 4 });
    br_tensor *x = br_mul(br_f_embedding(w, ids, -1), other);
    return br_sum(br_square(br_matmul(x, br_transpose(w, 0, 1))));
}

Test(leaf_gradients, partial_hook_sees_all_but_the_lookup)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(3);
    br_tensor *w = br_set_requires_grad(br_randn(BR_SHAPE(9, 4), BR_F32), true);
    br_tensor *other = br_set_requires_grad(br_randn(BR_SHAPE(3, 4), BR_F32), true);
    partial p = { .grad = br_zeros(BR_SHAPE(9, 4), BR_F32) };
    br_register_hook(other, on_other, &p); /* runs before the lookup's gradient is computed */
    cr_assert_neq(br_register_partial_grad_hook(w, on_partial, &p), 0);
    for (int pass = 1; pass <= 2; pass++) {
        cr_assert(br_backward(tied_loss(w, other)), "%s", br_error_message());
        cr_expect_eq(p.calls, pass);
        cr_expect_eq(p.others_before, pass - 1);
    }
    br_set_grad(w, NULL);
    cr_assert(br_backward(tied_loss(w, other)));
    for (int row = 0; row < 9; row++) { /* only rows 1 and 4 have changed since */
        bool same = memcmp(br_data_f32(p.grad) + 4 * row, br_data_f32(br_grad_of(w)) + 4 * row,
                           4 * sizeof(float)) == 0;
        cr_expect_eq(same, row != 1 && row != 4, "row %d", row);
    }
    br_scope_end(scope);
}

/* Where there is nothing to expect, or where other rules hold, the hook is not called. */
Test(leaf_gradients, partial_hook_is_not_called)
{
    br_scope *scope = br_scope_begin();
    br_tensor *w = br_set_requires_grad(br_randn(BR_SHAPE(9, 4), BR_F32), true);
    br_tensor *ids = br_from_i64(BR_DIMS(3), (const int64_t[]){ 4, 1, 4 });
    br_tensor *other = br_set_requires_grad(br_randn(BR_SHAPE(3, 4), BR_F32), true), *g;
    partial p = { .grad = br_zeros(BR_SHAPE(9, 4), BR_F32) };
    uint64_t handle = br_register_partial_grad_hook(w, on_partial, &p);
    cr_assert(br_backward(br_sum(br_f_embedding(w, ids, -1)))); /* a lookup only */
    cr_assert(br_backward(br_sum(br_square(w))));               /* no lookup */
    br_tensor *product = br_sum(br_mul_scalar(w, 2));           /* the lookup comes first */
    cr_assert(br_backward(br_add(br_sum(br_f_embedding(w, ids, -1)), product)));
    br_tensor *all = br_from_i64(BR_DIMS(9), (const int64_t[]){ 0, 1, 2, 3, 4, 5, 6, 7, 8 });
    br_tensor *y = br_index_select(w, 0, all); /* changes all rows */
    cr_assert(br_backward(br_sum(br_mul(y, w))));
    br_tensor *loss = tied_loss(w, other);
    cr_assert(br_grad(1, &loss, 1, &w, &g, NULL));
    cr_expect_eq(p.calls, 0);
    br_remove_hook(w, handle);
    cr_assert(br_backward(tied_loss(w, other)));
    cr_expect_eq(p.calls, 0);
    check_fails(br_register_partial_grad_hook(w, NULL, NULL), "hook is NULL");
    check_fails(br_register_partial_grad_hook(br_mul(w, w), on_partial, NULL),
                "is not a leaf: it was computed by mul");
    check_fails(br_register_partial_grad_hook(ids, on_partial, NULL), "does not require grad");
    br_scope_end(scope);
}
