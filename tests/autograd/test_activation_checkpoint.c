/* tests/autograd/test_activation_checkpoint.c - activation checkpoints: gradients that equal those
 * without checkpoints bit for bit, lower peak memory, random numbers, nesting, second-order
 * gradients, and errors. */
#include "tests/same_bits.h"
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(activation_checkpoint, .init = check_begin, .fini = check_end);

enum { WIDTH = 32, ROWS = 8 };

/* ---- A stack of blocks ----------------------------------------------------------------------- */

typedef struct block {
    br_tensor *w1, *w2;
    double dropout;
    int depth; /* 1: feed_forward() runs in a checkpoint of its own */
    int calls;
} block;

static br_tensor *weight(int64_t rows, int64_t columns)
{
    br_tensor *w = br_mul_scalar(br_randn(BR_SHAPE(rows, columns), BR_F32), 0.2);
    return br_set_requires_grad(br_detach(w), true);
}

static block make_block(double dropout, int depth)
{
    return (block){ weight(4 * WIDTH, WIDTH), weight(WIDTH, 4 * WIDTH), dropout, depth, 0 };
}

static br_tensor *feed_forward(br_tensor *const *in, int n, void *context)
{
    const block *b = context;
    (void)n;
    br_tensor *h = br_gelu(br_f_linear(in[0], b->w1, NULL), BR_GELU_ERF);
    h = br_f_dropout(h, b->dropout, b->dropout > 0);
    return br_softmax(br_f_linear(h, b->w2, NULL), -1);
}

/* Returns x + 3 feed_forward(tanh(x)), with feed_forward() in a checkpoint if `depth` is set. */
static br_tensor *run_block(br_tensor *const *in, int n, void *context)
{
    block *b = context;
    b->calls++;
    br_tensor *x = br_tanh(in[0]);
    br_tensor *y = b->depth > 0 ? br_activation_checkpoint(feed_forward, b, n, &x, NULL)
                                : feed_forward(&x, n, b);
    return br_add(in[0], br_mul_scalar(y, 3));
}

enum { MAX_BLOCKS = 8 };
typedef struct stack {
    int n;
    block blocks[MAX_BLOCKS];
} stack;

static stack make_stack(int n, double dropout, int depth)
{
    stack s = { .n = n };
    for (int i = 0; i < n; i++)
        s.blocks[i] = make_block(dropout, depth);
    return s;
}

static br_tensor *run_stack(stack *s, br_tensor *x, bool checkpoints)
{
    for (int i = 0; i < s->n; i++) {
        br_scope *scope = br_scope_begin();
        block *b = &s->blocks[i];
        x = checkpoints ? br_activation_checkpoint(run_block, b, 1, &x, NULL) : run_block(&x, 1, b);
        br_scope_return(scope, x);
        br_scope_end(scope);
    }
    return x;
}

/* Writes the input and the leaves of a stack, and returns their number. */
static int leaves_of(const stack *s, br_tensor *x, br_tensor **leaves)
{
    int n = 0;
    leaves[n++] = x;
    for (int i = 0; i < s->n; i++) {
        leaves[n++] = s->blocks[i].w1;
        leaves[n++] = s->blocks[i].w2;
    }
    return n;
}

static br_tensor *make_input(void)
{
    return br_set_requires_grad(br_randn(BR_SHAPE(ROWS, WIDTH), BR_F32), true);
}

/* Computes the loss from a fixed seed and runs backward. Copies the gradients to `grads` and
 * removes them from the leaves. */
static br_tensor *train(stack *s, br_tensor *x, bool checkpoints, br_tensor **grads)
{
    br_tensor *leaves[1 + 2 * MAX_BLOCKS];
    br_manual_seed(11);
    br_tensor *y = run_stack(s, x, checkpoints);
    br_tensor *loss = br_sum(br_mul(y, y));
    double after = br_random_double();
    cr_assert(br_backward(loss), "%s", br_error_message());
    cr_assert_neq(br_random_double(), after);
    int n = leaves_of(s, x, leaves);
    for (int i = 0; i < n; i++) {
        grads[i] = br_clone(br_grad_of(leaves[i]));
        br_set_grad(leaves[i], NULL);
    }
    return loss;
}

static void check_equal(int blocks, double dropout, int depth)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(5);
    stack s = make_stack(blocks, dropout, depth);
    br_tensor *x = make_input(), *want[1 + 2 * MAX_BLOCKS], *got[1 + 2 * MAX_BLOCKS];
    br_tensor *loss = train(&s, x, false, want);
    double next = br_random_double();
    cr_assert_eq(br_item(train(&s, x, true, got)), br_item(loss));
    cr_assert_eq(br_random_double(), next, "backward changed the generator's state");
    for (int i = 0; i < 1 + 2 * blocks; i++)
        cr_assert(want[i] && same_bits(got[i], want[i]), "leaf %d", i);
    cr_assert_eq(s.blocks[0].calls, 3); /* once without a checkpoint, twice with one */
    br_scope_end(scope);
}

Test(activation_checkpoint, gradients_are_the_same_bit_for_bit)
{
    check_equal(3, 0, 0);
}

/* The second run uses the same random numbers as the first, and does not affect later ones. */
Test(activation_checkpoint, the_second_run_repeats_the_random_numbers)
{
    check_equal(3, 0.3, 0);
}

Test(activation_checkpoint, nested)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(5);
    stack s = make_stack(3, 0.3, 0), inner = s;
    for (int i = 0; i < s.n; i++)
        inner.blocks[i].depth = 1;
    br_tensor *x = make_input(), *want[1 + 2 * MAX_BLOCKS], *got[1 + 2 * MAX_BLOCKS];
    train(&s, x, false, want);
    train(&inner, x, true, got);
    for (int i = 0; i < 1 + 2 * s.n; i++)
        cr_assert(want[i] && same_bits(got[i], want[i]), "leaf %d", i);
    br_scope_end(scope);
}

/* Calls itself within checkpoints, to the depth in *context. */
static br_tensor *deep(br_tensor *const *in, int n, void *context)
{
    int level = *(const int *)context - 1;
    br_tensor *x = br_sin(br_mul(in[0], in[0]));
    br_activation_checkpoint_options o =
        *BR_OPTIONS(br_activation_checkpoint, .context_size = sizeof level);
    x = level > 0 ? br_activation_checkpoint(deep, &level, n, &x, &o) : x;
    return br_cos(br_mul(x, x));
}

Test(activation_checkpoint, nested_five_deep_with_a_copied_context)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_from_f64(BR_SHAPE(2), (double[]){ 0.3, 0.8 }), true);
    int level = 5;
    br_tensor *y = x, *want, *got;
    for (int i = 0; i < level; i++)
        y = br_sin(br_mul(y, y));
    for (int i = 0; i < level; i++)
        y = br_cos(br_mul(y, y));
    y = br_sum(y);
    cr_assert(br_grad(1, &y, 1, &x, &want, NULL));
    br_activation_checkpoint_options o =
        *BR_OPTIONS(br_activation_checkpoint, .context_size = sizeof level);
    y = br_sum(br_activation_checkpoint(deep, &level, 1, &x, &o));
    cr_assert(br_grad(1, &y, 1, &x, &got, NULL), "%s", br_error_message());
    for (int64_t i = 0; i < 2; i++)
        cr_assert_eq(br_at(got, BR_SHAPE(i)), br_at(want, BR_SHAPE(i)));
    br_scope_end(scope);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static int64_t peak_of(stack *s, br_tensor *x, bool checkpoints)
{
    br_tensor *grads[1 + 2 * MAX_BLOCKS];
    br_scope *scope = br_scope_begin();
    int64_t before = br_live_bytes();
    br_reset_peak_bytes();
    train(s, x, checkpoints, grads);
    int64_t peak = br_peak_bytes() - before;
    br_scope_end(scope);
    return peak;
}

/* In units of rows x WIDTH elements, a block saves 1 for its input, 1 for tanh, 4 for the input of
 * gelu, 4 for the input of the second product, 1 for softmax, and some more. A checkpoint saves
 * only the input. Without checkpoints the values of all 8 blocks are live at once; with them, 8
 * inputs and the values of one block. */
Test(activation_checkpoint, peak_memory_is_lower)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(5);
    stack s = make_stack(8, 0, 0);
    br_tensor *x = br_set_requires_grad(br_randn(BR_SHAPE(4096, WIDTH), BR_F32), true);
    int64_t unit = 4096 * WIDTH * (int64_t)sizeof(float);
    int64_t plain = peak_of(&s, x, false), with = peak_of(&s, x, true);
    cr_assert(plain >= 8 * 10 * unit, "plain %.1f units", (double)plain / (double)unit);
    cr_assert(with <= 26 * unit, "with checkpoints %.1f units", (double)with / (double)unit);
    br_scope_end(scope);
}

/* Freeing a graph without backward frees its values and calls `destroy`. */
static void count(void *context)
{
    ++*(int *)context;
}

static br_tensor *squares(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return br_mul(in[0], br_exp(in[0]));
}

Test(activation_checkpoint, destroy_is_called_once)
{
    br_scope *scope = br_scope_begin();
    int calls = 0;
    br_activation_checkpoint_options o = *BR_OPTIONS(br_activation_checkpoint, .destroy = count);
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F64), true);
    br_scope *inner = br_scope_begin();
    br_activation_checkpoint(squares, &calls, 1, &x, &o);
    cr_assert_eq(calls, 0);
    br_scope_end(inner);
    cr_assert_eq(calls, 1);
    br_tensor *y = br_sum(br_activation_checkpoint(squares, &calls, 1, &x, &o));
    cr_assert(br_backward(y));
    cr_assert_eq(calls, 2); /* called by backward, although y is still live */
    inner = br_no_grad_begin();
    br_activation_checkpoint(squares, &calls, 1, &x, &o);
    cr_assert_eq(calls, 3);
    br_scope_end(inner);
    check_fails(br_activation_checkpoint(NULL, &calls, 1, &x, &o), "a function");
    cr_assert_eq(calls, 4);
    br_scope_end(scope);
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

Test(activation_checkpoint, retain_graph_with_a_chosen_input)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(5);
    stack s = make_stack(2, 0.2, 1);
    br_tensor *x = make_input(), *w = s.blocks[0].w1, *want, *got, *again;
    br_grad_options keep = *BR_OPTIONS(br_grad, .retain_graph = true);
    br_manual_seed(11);
    br_tensor *y = br_sum(br_mul(run_stack(&s, x, false), x));
    cr_assert(br_grad(1, &y, 1, &w, &want, NULL));
    br_manual_seed(11);
    y = br_sum(br_mul(run_stack(&s, x, true), x));
    int64_t held = br_live_bytes();
    cr_assert(br_grad(1, &y, 1, &w, &got, &keep), "%s", br_error_message());
    cr_assert_eq(br_live_bytes(), held + br_numel(w) * 4); /* only the result stays live */
    cr_assert(br_grad(1, &y, 1, &w, &again, NULL), "%s", br_error_message());
    cr_assert(want && same_bits(got, want) && same_bits(again, want));
    check_fails(br_grad(1, &y, 1, &w, &got, NULL), "was freed by an earlier backward");
    br_scope_end(scope);
}

/* Applies x exp(x) in a checkpoint; with a context, applies itself again in a second checkpoint. */
static br_tensor *twice(br_tensor *const *in, int n, void *context)
{
    br_tensor *x = br_activation_checkpoint(squares, NULL, n, in, NULL);
    return context ? br_activation_checkpoint(twice, NULL, 1, &x, NULL) : x;
}

Test(activation_checkpoint, gradients_of_gradients)
{
    br_scope *scope = br_scope_begin();
    double value = 0.4;
    br_tensor *x = br_set_requires_grad(br_from_f64(BR_SHAPE(1), &value), true);
    br_tensor *g[2], *h[2], *third[2];
    for (int i = 0; i < 2; i++) {
        br_tensor *y = i ? br_activation_checkpoint(twice, &value, 1, &x, NULL)
                         : squares(&(br_tensor *){ squares(&x, 1, NULL) }, 1, NULL);
        br_grad_options o = *BR_OPTIONS(br_grad, .create_graph = true);
        cr_assert(br_grad(1, &y, 1, &x, &g[i], &o), "%s", br_error_message());
        cr_assert(br_grad(1, &g[i], 1, &x, &h[i], &o), "%s", br_error_message());
        cr_assert(br_grad(1, &h[i], 1, &x, &third[i], NULL), "%s", br_error_message());
    }
    cr_assert_eq(br_item(g[1]), br_item(g[0]));
    check_close(br_item(h[1]), br_item(h[0]), 1e-13 * fabs(br_item(h[0])));
    check_close(br_item(third[1]), br_item(third[0]), 1e-13 * fabs(br_item(third[0])));
    br_scope_end(scope);
}

static br_tensor *optional_mask(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return in[1] ? br_mul(in[0], in[1]) : br_exp(in[0]);
}

Test(activation_checkpoint, null_inputs)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true);
    br_tensor *in[] = { x, NULL };
    cr_assert(br_backward(br_activation_checkpoint(optional_mask, NULL, 2, in, NULL)));
    check_close(br_item(br_grad_of(x)), exp(1), 1e-15);
    br_scope_end(scope);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static br_tensor *changes_its_input(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return br_exp(br_mul_scalar_(in[0], 2));
}

static br_tensor *does_otherwise(br_tensor *const *in, int n, void *context)
{
    (void)n;
    switch (++*(int *)context) {
    case 2:
        return br_sin(in[0]);
    case 4:
        return br_exp(br_exp(in[0]));
    case 6:
        return br_exp(br_repeat(in[0], BR_SHAPE(2)));
    case 8:
        return br_to(br_exp(br_to(in[0], BR_F32)), BR_F64);
    default:
        return br_exp(in[0]);
    }
}

static br_tensor *returns_null(br_tensor *const *in, int n, void *context)
{
    (void)in;
    (void)n;
    (void)context;
    return NULL;
}

static br_tensor *asks_inside(br_tensor *const *in, int n, void *context)
{
    br_tensor *y = br_exp(in[0]), *g;
    (void)n;
    (void)context;
    br_grad(1, &y, 1, in, &g, NULL);
    return y;
}

Test(activation_checkpoint, errors)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true);
    br_tensor *h = br_mul_scalar(x, 2);
    check_fails(br_activation_checkpoint(changes_its_input, NULL, 1, &h, NULL),
                "activation_checkpoint: the function changed its input 0 [1] in place, so it "
                "cannot run again");
    check_fails(br_activation_checkpoint(returns_null, NULL, 1, &x, NULL), "returned NULL");
    check_fails(br_activation_checkpoint(asks_inside, NULL, 1, &x, NULL),
                "backward reached the checkpoint before its function had returned");
    int calls = 0;
    br_tensor *y = br_activation_checkpoint(does_otherwise, &calls, 1, &x, NULL);
    check_fails(br_backward(y), "an operation differs between the two runs of the function, which "
                                "must be identical: exp in the first, sin in the second");
    y = br_activation_checkpoint(does_otherwise, &calls, 1, &x, NULL);
    check_fails(
        br_backward(y),
        "1 with 0 nested checkpoints in the first, 2 with 0 nested checkpoints in the second");
    y = br_activation_checkpoint(does_otherwise, &calls, 1, &x, NULL);
    check_fails(br_backward(y), "exp differs between the two runs of the function, which must be "
                                "identical: f64 [1] in the first, f64 [2] in the second");
    y = br_activation_checkpoint(does_otherwise, &calls, 1, &x, NULL);
    check_fails(br_backward(y), "identical: f64 [1] in the first, f32 [1] in the second");
    y = br_activation_checkpoint(does_otherwise, &calls, 1, &x, NULL);
    cr_assert(br_backward(y)); /* the failed runs restored the generator and grad mode */
    br_scope_end(scope);
}

static br_tensor *first_inner(br_tensor *const *in, int n, void *context)
{
    (void)n, (void)context;
    return br_exp(in[0]);
}

static br_tensor *second_inner(br_tensor *const *in, int n, void *context)
{
    (void)n, (void)context;
    return br_exp(in[0]);
}

/* Its second run nests a checkpoint of another function, or with another number of inputs. */
static br_tensor *nests_otherwise(br_tensor *const *in, int n, void *context)
{
    int *calls = context;
    br_tensor *two[] = { in[0], in[0] };
    (void)n;
    switch ((*calls)++) {
    case 1:
        return br_activation_checkpoint(second_inner, NULL, 1, two, NULL);
    case 3:
        return br_activation_checkpoint(first_inner, NULL, 2, two, NULL);
    default:
        return br_activation_checkpoint(first_inner, NULL, 1, two, NULL);
    }
}

Test(activation_checkpoint, a_nested_checkpoint_must_be_the_same)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true);
    int calls = 0;
    for (int i = 0; i < 2; i++) {
        br_tensor *y = br_activation_checkpoint(nests_otherwise, &calls, 1, &x, NULL);
        check_fails(br_backward(y), "a nested checkpoint differs between the two runs of the "
                                    "function, which must be identical: one function in the "
                                    "first, another in the second");
    }
    cr_assert(br_backward(br_activation_checkpoint(nests_otherwise, &calls, 1, &x, NULL)), "%s",
              br_error_message());
    br_scope_end(scope);
}

static br_tensor *scaled(br_tensor *const *in, int n, void *context)
{
    (void)n;
    return br_mul(in[0], context);
}

/* An in-place change between forward and backward, such as an optimizer's step, is an error. */
Test(activation_checkpoint, values_changed_since_the_first_run)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true);
    br_tensor *w = br_set_requires_grad(br_ones(BR_SHAPE(1), BR_F64), true);
    br_tensor *y = br_activation_checkpoint(scaled, w, 1, &x, NULL);
    br_scope *inner = br_no_grad_begin();
    br_mul_scalar_(w, 2);
    br_scope_end(inner);
    check_fails(br_backward(y), "mul needs a value [1] that was changed in place by mul_scalar_");
    y = br_activation_checkpoint(scaled, w, 1, &x, NULL);
    inner = br_no_grad_begin();
    br_mul_scalar_(x, 2);
    br_scope_end(inner);
    check_fails(br_backward(y),
                "input 0 [1] was changed in place since the first run of the function");
    br_scope_end(scope);
}

/* Generates random numbers, then fails in the second run. */
static br_tensor *fails_again(br_tensor *const *in, int n, void *context)
{
    (void)n;
    br_tensor *y = br_f_dropout(in[0], 0.5, true);
    return ++*(int *)context == 2 ? br_reshape(y, BR_SHAPE(3)) : y;
}

Test(activation_checkpoint, a_failed_second_run_restores_the_generator)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(64), BR_F32), true);
    int calls = 0;
    br_tensor *y = br_sum(br_activation_checkpoint(fails_again, &calls, 1, &x, NULL));
    br_random_double(); /* now the state differs from that at the end of either run */
    br_rng_state state;
    br_get_rng_state(&state);
    double next = br_random_double();
    br_set_rng_state(&state);
    check_fails(br_backward(y), "reshape: ");
    cr_assert_eq(br_random_double(), next);
    br_scope_end(scope);
}

static br_tensor *dropped_out(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return br_f_dropout(in[0], 0.5, true);
}

/* Without preserve_rng_state, the second run continues with the generator's present state, as any
 * other code would, and changes it. */
Test(activation_checkpoint, new_random_numbers_on_request)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(64), BR_F32), true);
    br_tensor *y =
        br_activation_checkpoint(dropped_out, NULL, 1, &x,
                                 BR_OPTIONS(br_activation_checkpoint, .preserve_rng_state = false));
    br_rng_state state;
    br_get_rng_state(&state);
    br_tensor *again = br_f_dropout(x, 0.5, true);
    double next = br_random_double();
    cr_assert(!br_equal(again, y));
    br_set_rng_state(&state);
    cr_assert(br_backward(br_sum(y)));
    cr_assert(br_equal(br_grad_of(x), again));
    cr_assert_eq(br_random_double(), next);
    br_scope_end(scope);
}

static br_tensor *tapped(br_tensor *const *in, int n, void *context)
{
    (void)n;
    (void)context;
    return br_tap("exp", br_exp(in[0]));
}

/* Taps record the first run only, and record again after backward. */
Test(activation_checkpoint, taps_are_off_during_the_second_run_only)
{
    br_scope *scope = br_scope_begin();
    br_recorder *recorder = br_recorder_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F32), true);
    br_tensor *y = br_activation_checkpoint(tapped, NULL, 1, &x, NULL);
    cr_assert(br_backward(br_sum(y)), "%s", br_error_message());
    cr_assert_eq(br_recorder_count(recorder), 1);
    br_tap("after", x);
    cr_assert_eq(br_recorder_count(recorder), 2);
    br_recorder_end(recorder);
    br_scope_end(scope);
}
