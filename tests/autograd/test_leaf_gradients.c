/* tests/autograd/test_leaf_gradients.c - the gradient that several backward passes leave in a leaf
 * is ((g0 + g1) + g2) + ..., to the bit, where each g is what one pass alone gives. */
#include "tests/memory.h"
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

static bool same_bits(br_tensor *a, br_tensor *b)
{
    return memcmp(br_data(br_contiguous(a)), br_data(br_contiguous(b)),
                  (size_t)br_numel(a) * sizeof(float)) == 0;
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
