/* Dropout: how many fall, that the gradient falls with them, and that threads change nothing. */
#include "tests/ops/values.h"

TestSuite(dropout, .init = check_begin, .fini = check_end);

Test(dropout, zeroes_or_scales)
{
    enum { N = 100001 };
    br_manual_seed(3);
    br_tensor *y = br_f_dropout(br_ones(BR_SHAPE(N), BR_F32), 0.3, true);
    const float *p = br_data_f32(y), scale = (float)(1 / (1 - 0.3));
    int64_t fallen = 0, pairs = 0;
    for (int64_t i = 0; i < N; i++) {
        cr_assert(p[i] == 0 || p[i] == scale);
        fallen += p[i] == 0;
        pairs += i > 0 && p[i] == 0 && p[i - 1] == 0;
    }
    /* Four standard deviations of the binomial distribution; of neighbours about the same. */
    check_close((double)fallen / N, 0.3, 4 * sqrt(0.3 * 0.7 / N));
    check_close((double)pairs / N, 0.09, 6 * sqrt(0.09 * 0.91 / N));
}

Test(dropout, is_drawn_from_the_generator)
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

/* What falls is computed in integers, so instruction sets agree to the bit. */
Test(dropout, is_the_same_with_every_variant)
{
    with_every_variant(same_as_first);
}

Test(dropout, without_effect)
{
    br_tensor *x = br_ones(BR_SHAPE(5), BR_F32);
    cr_assert_eq(br_f_dropout(x, 0.5, false), x);
    cr_assert_eq(br_f_dropout(x, 0, true), x);
    br_data_f32(x)[1] = INFINITY;
    check_equals(br_f_dropout(x, 1, true), 0, 0, 0, 0, 0);
    check_shape(br_f_dropout(br_zeros(BR_SHAPE(0, 2), BR_F32), 0.5, true), BR_SHAPE(0, 2));
}

Test(dropout, refuses)
{
    br_tensor *x = br_ones(BR_SHAPE(5), BR_F32);
    check_fails(br_f_dropout(x, -0.1, true), "dropout: p is -0.1, must be in 0 .. 1");
    check_fails(br_f_dropout(x, 1.5, false), "p is 1.5");
    check_fails(br_f_dropout(x, NAN, true), "p is nan");
    check_fails(br_f_dropout(br_to(x, BR_I64), 0.5, true), "x [5] is i64");
    check_fails(br_f_dropout(NULL, 0.5, true), "x is NULL");
}

/* The elements that fall are told by their number, not by where they lie. */
Test(dropout, does_not_depend_on_threads_or_strides)
{
    br_tensor *x = values(BR_SHAPE(301, 500), 1, BR_F32), *one = NULL;
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        br_manual_seed(5);
        br_tensor *y = br_f_dropout(x, 0.4, true);
        one = one ? one : y;
        check_same_bits(one, y);
    }
    br_manual_seed(5);
    check_same_bits(one, br_f_dropout(br_t(br_contiguous(br_t(x))), 0.4, true));
}

Test(dropout, gradient_falls_at_the_same_places)
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
