/* tests/ops/pointwise/test_dropout.c - dropout: how many elements are dropped, gradients, threads,
 * PyTorch's masks, and the fast generator. */
#include "tests/ops/dropout_values.h"
#include "tests/ops/values.h"

#include <brasa/nn.h>
#include <brasa/optim.h>

TestSuite(dropout, .init = check_begin, .fini = check_end);

Test(dropout, zeroes_or_scales)
{
    enum { N = 100001 };
    br_manual_seed(3);
    br_tensor *y = br_f_dropout(br_ones(BR_SHAPE(N), BR_F32), 0.3, true);
    const float *p = br_data_f32(y), scale = (float)(1 / (1 - 0.3));
    int64_t dropped = 0, pairs = 0;
    for (int64_t i = 0; i < N; i++) {
        cr_assert(p[i] == 0 || p[i] == scale);
        dropped += p[i] == 0;
        pairs += i > 0 && p[i] == 0 && p[i - 1] == 0;
    }
    /* Four standard deviations of the binomial distribution, and six for pairs of neighbours, whose
     * counts are not independent. */
    check_close((double)dropped / N, 0.3, 4 * sqrt(0.3 * 0.7 / N));
    check_close((double)pairs / N, 0.09, 6 * sqrt(0.09 * 0.91 / N));
}

Test(dropout, uses_the_generator)
{
    br_tensor *x = br_ones(BR_SHAPE(1000), BR_F64);
    br_manual_seed(1);
    br_tensor *a = br_f_dropout(x, 0.5, true), *b = br_f_dropout(x, 0.5, true);
    br_manual_seed(1);
    check_same_bits(a, br_f_dropout(x, 0.5, true));
    cr_assert(!br_equal(a, b));
}

static br_tensor *first_dropped;

static void same_as_first(void)
{
    br_manual_seed(1);
    br_tensor *y = br_f_dropout(values(BR_SHAPE(1500), 1, BR_F32), 0.3, true);
    first_dropped = first_dropped ? first_dropped : y;
    check_same_bits(first_dropped, y);
}

/* The mask is computed with integers, so all instruction sets give the same bits. */
Test(dropout, is_the_same_with_every_variant)
{
    with_every_variant(same_as_first);
}

Test(dropout, eval_mode_and_edge_cases_of_p)
{
    br_tensor *x = br_ones(BR_SHAPE(5), BR_F32);
    cr_assert_eq(br_f_dropout(x, 0.5, false), x);
    cr_assert_eq(br_f_dropout(x, 0, true), x);
    br_data_f32(x)[1] = INFINITY;
    br_tensor *all = br_f_dropout(x, 1, true); /* where PyTorch multiplies infinity by 0 */
    check_equals(all, 0, 0, 0, 0, 0);
    check_shape(br_f_dropout(br_zeros(BR_SHAPE(0, 2), BR_F32), 0.5, true), BR_SHAPE(0, 2));
}

/* Without a mask, the input is returned, and no random number is generated. */
Test(dropout, generates_no_numbers_that_it_does_not_need)
{
    br_tensor *(*const functions[])(br_tensor * x, double p, bool training) = {
        br_f_dropout,   br_f_dropout1d,     br_f_dropout2d,
        br_f_dropout3d, br_f_alpha_dropout, br_f_feature_alpha_dropout
    };
    br_tensor *x = br_ones(BR_SHAPE(2, 3, 2, 2), BR_F32),
              *empty = br_zeros(BR_SHAPE(0, 3, 2, 2), BR_F32);
    br_rng_state before, after;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        br_tensor *in = i == 1 ? br_select(x, 0, 0) : x,
                  *none = i == 1 ? br_select(empty, 1, 0) : empty;
        br_get_rng_state(&before);
        cr_expect(br_shares_storage(functions[i](in, 0, true), in), "function %d, p = 0", (int)i);
        cr_expect(br_shares_storage(functions[i](in, 0.5, false), in), "function %d, eval", (int)i);
        cr_expect_eq(br_numel(functions[i](none, 0.5, true)), 0, "function %d", (int)i);
        br_get_rng_state(&after);
        cr_expect_eq(memcmp(&before, &after, sizeof before), 0, "function %d", (int)i);
    }
}

/* Dropped elements are left out: they become zeros with the sign of the element, as in PyTorch,
 * even if they are infinite or NaN, where PyTorch gives NaN. The same holds for gradients. With
 * p = 1 all elements are dropped. */
Test(dropout, leaves_out_infinity_and_keeps_signs)
{
    enum { N = 7 };
    const float inf = INFINITY, x[N] = { NAN, 1, -1, 0, -0.0f, inf, -inf };
    const float dy[N] = { 1, 1, NAN, -1, inf, 1, 1 };
    br_tensor *leaf_x = leaf(br_from_f32(BR_SHAPE(N), x)), *grad;
    br_tensor *gradient = br_from_f32(BR_SHAPE(N), dy), *y = br_f_dropout(leaf_x, 1, true);
    br_grad(1, &y, 1, &leaf_x, &grad, BR_OPTIONS(br_grad, .gradients = &gradient));
    check_equals(br_detach(y), 0, 0, 0, 0, 0, 0, 0);
    check_equals(grad, 0, 0, 0, 0, 0, 0, 0);
    check_signs(br_detach(y), "?+-+-+-");
    check_signs(grad, "++?-+++");
}

/* Elements at the end of a tensor, which do not fill a word of bits, are dropped in the same way.
 */
Test(dropout, leaves_out_nan_and_keeps_signs_at_any_length)
{
    for (int64_t n = 20; n <= 140; n += 60) {
        br_tensor *nan = br_full(BR_SHAPE(n), NAN, BR_F32),
                  *minus = br_full(BR_SHAPE(n), -1, BR_F32);
        br_manual_seed(1);
        const float *x = br_data_f32(br_f_dropout(nan, 0.5, true));
        br_manual_seed(1);
        const float *y = br_data_f32(br_f_dropout(minus, 0.5, true));
        for (int64_t i = 0; i < n; i++)
            cr_assert((y[i] == 0 ? x[i] == 0 : isnan(x[i])) && signbit(y[i]),
                      "element %lld of %lld", (long long)i, (long long)n);
    }
}

Test(dropout, errors)
{
    br_tensor *x = br_ones(BR_SHAPE(5), BR_F32);
    check_fails(br_f_dropout(x, -0.1, true), "dropout: p is -0.1, must be in 0 .. 1");
    check_fails(br_f_dropout(x, 1.5, false), "p is 1.5");
    check_fails(br_f_dropout(x, NAN, true), "p is nan");
    check_fails(br_f_dropout(br_to(x, BR_I64), 0.5, true), "x [5] is i64");
    check_fails(br_f_dropout(NULL, 0.5, true), "x is NULL");
}

Test(dropout, does_not_depend_on_threads)
{
    br_tensor *x = values(BR_SHAPE(301, 500), 1, BR_F32), *one = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        br_manual_seed(5);
        br_tensor *y = br_f_dropout(x, 0.4, true);
        one = one ? one : y;
        check_same_bits(one, y);
    }
}

/* ---- Comparison with PyTorch ----------------------------------------------------------------- */

/* Asserts that exactly those elements are kept whose bits are set in the recorded digits. */
static void check_kept(const br_tensor *y, const char *digits)
{
    check_ok();
    br_tensor *dense = br_to(br_contiguous((br_tensor *)(uintptr_t)y), BR_F64);
    const double *p = br_data_f64(dense);
    for (int64_t i = 0; i < br_numel(y); i++) {
        const char digit[] = { digits[i / 4], 0 };
        bool kept = strtol(digit, NULL, 16) >> i % 4 & 1;
        cr_assert_eq(p[i] != 0, kept, "element %lld is %g", (long long)i, p[i]);
    }
}

static void check_following(uint32_t want)
{
    cr_assert_eq(br_random_u32() & 0xfffff, want, "the generator's state differs");
}

static void as_recorded(void)
{
    br_manual_seed(11);
    check_kept(br_f_dropout(br_ones(BR_SHAPE(1, 300), BR_F32), 0.1, true), tenth_kept);
    check_following(tenth_following);
    br_manual_seed(11);
    check_kept(br_f_dropout(br_ones(BR_SHAPE(1, 300), BR_F64), 0.5, true), half_kept);
    check_following(half_following);
    br_manual_seed(11);
    check_kept(br_f_dropout(br_ones(BR_SHAPE(1, 300), BR_F32), 0.9, true), most_kept);
    check_following(most_following);
    br_manual_seed(11);
    check_kept(br_f_dropout(br_t(br_ones(BR_SHAPE(6, 50), BR_F32)), 0.5, true), transposed_kept);
    br_manual_seed(11);
    br_tensor *unit = br_expand(br_eye(9, 9, BR_F32), BR_SHAPE(2, 2, 9, 9));
    br_tensor *query = br_zeros(BR_SHAPE(2, 2, 7, 3), BR_F32);
    br_tensor *key = br_zeros(BR_SHAPE(2, 2, 9, 3), BR_F32);
    check_kept(br_scaled_dot_product_attention(query, key, unit, NULL,
                                               BR_OPTIONS(br_attention, .dropout_p = 0.4)),
               attention_kept);
    check_following(attention_following);
}

Test(dropout, equals_pytorch)
{
    with_every_variant(as_recorded);
}

static void check_training(bool batch_first, int n, const double *want)
{
    br_manual_seed(5);
    br_transformer_encoder *model =
        br_transformer_encoder_new(8, 2, 2, false,
                                   BR_OPTIONS(br_transformer, .dim_feedforward = 16, .dropout = 0.3,
                                              .batch_first = batch_first));
    br_optim *sgd = br_sgd(br_base(model), BR_OPTIONS(br_sgd, .lr = 0.1, .momentum = 0.9));
    br_tensor *x = br_randn(BR_SHAPE(3, 5, 8), BR_F32);
    for (int i = 0; i < n; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *y = br_transformer_encoder_forward(model, x, NULL, NULL, false);
        br_tensor *loss = br_mean(br_pow_scalar(y, 3));
        br_optim_zero_grad(sgd);
        br_backward(loss);
        br_optim_step(sgd);
        check_ok();
        check_close(br_item(loss), want[i], 2e-5 * (1 + fabs(want[i])));
        br_scope_end(scope);
    }
    br_optim_free(sgd);
    br_module_free(br_base(model));
}

Test(dropout, a_transformer_trains_as_in_pytorch)
{
    check_training(false, sizeof losses / sizeof *losses, losses);
    check_training(true, sizeof batch_first_losses / sizeof *batch_first_losses,
                   batch_first_losses);
}

/* ---- The fast generator ---------------------------------------------------------------------- */

Test(dropout, the_fast_generator_uses_one_random_number_as_seed)
{
    br_set_dropout_rng(BR_DROPOUT_FAST);
    br_manual_seed(1);
    br_tensor *y = br_f_dropout(br_ones(BR_SHAPE(100000), BR_F32), 0.3, true);
    uint32_t next = br_random_u32();
    br_rng_state state;
    br_get_rng_state(&state);
    br_set_dropout_rng(BR_DROPOUT_PYTORCH);
    br_manual_seed(1);
    br_random_u64();
    cr_assert_eq(br_random_u32(), next);
    double kept = br_item(br_mean(br_to(br_ne_scalar(y, 0), BR_F64)));
    check_close(kept, 0.7, 4 * sqrt(0.3 * 0.7 / 100000));
    cr_assert(br_set_rng_state(&state)); /* the choice of generator is part of the state */
    cr_assert_eq(br_get_dropout_rng(), BR_DROPOUT_FAST);
    br_set_dropout_rng((br_dropout_rng)2);
    cr_assert(br_failed());
    br_clear_error();
    br_set_dropout_rng(BR_DROPOUT_PYTORCH);
}

static int by_word(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The parts of a large tensor, which threads may process, have masks of their own: of the masks of
 * 64 elements, no two are equal. */
Test(dropout, no_mask_occurs_twice)
{
    enum { WORDS = 1 << 14 };
    static uint64_t words[WORDS];
    for (int generator = 0; generator < 2; generator++) {
        br_scope *scope = br_scope_begin();
        br_set_dropout_rng(generator ? BR_DROPOUT_FAST : BR_DROPOUT_PYTORCH);
        br_manual_seed(6);
        const float *y =
            br_data_f32(br_f_dropout(br_ones(BR_SHAPE(64 * WORDS), BR_F32), 0.5, true));
        for (int i = 0; i < WORDS; i++) {
            words[i] = 0;
            for (int k = 0; k < 64; k++)
                words[i] |= (uint64_t)(y[64 * i + k] != 0) << k;
        }
        qsort(words, WORDS, sizeof *words, by_word);
        int equal = 0;
        for (int i = 1; i < WORDS; i++)
            equal += words[i] == words[i - 1];
        cr_expect_eq(equal, 0, "generator %d: %d", generator, equal);
        br_scope_end(scope);
    }
    br_set_dropout_rng(BR_DROPOUT_PYTORCH);
}

Test(dropout, the_gradient_uses_the_same_mask)
{
    br_tensor *x = leaf(br_ones(BR_SHAPE(40, 900), BR_F32));
    br_tensor *y = br_f_dropout(x, 0.25, true);
    br_backward(br_sum(y));
    check_same_bits(br_grad_of(x), y);
    br_tensor *none = leaf(br_ones(BR_SHAPE(4), BR_F32));
    br_backward(br_sum(br_f_dropout(none, 1, true)));
    check_equals(br_grad_of(none), 0, 0, 0, 0);
}

static br_tensor *seeded(br_tensor *const *inputs, int n, void *context)
{
    (void)n, (void)context;
    br_manual_seed(7);
    return br_f_dropout(inputs[0], 0.5, true);
}

Test(dropout, gradients)
{
    br_tensor *x = leaf(values(BR_SHAPE(3, 5), 1, BR_F64));
    check_gradient(seeded, NULL, 1, &x);
    check_second_gradient(seeded, NULL, 1, &x);
}

/* Slices that overlap are dropped in the order of their dimensions, as in PyTorch: those have equal
 * strides and sizes. */
Test(dropout, overlapping_slices)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_unfold(br_arange(1, 10, 1, BR_F32), 0, 5, 1);
    br_manual_seed(3);
    br_tensor *y = br_f_dropout(x, 0.5, true);
    br_manual_seed(3);
    cr_assert(br_equal(y, br_f_dropout(br_contiguous(x), 0.5, true)));
    br_scope_end(scope);
}
