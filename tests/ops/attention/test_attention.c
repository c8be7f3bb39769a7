/* tests/ops/attention/test_attention.c - compares attention with PyTorch and with a composition of
 * elementary operations, for all kinds of masks, lengths around the block sizes, grouped heads and
 * dropout; and tests views, threads, and peak memory. */
#include "tests/ops/torch_attention.h"
#include "tests/ops/values.h"

TestSuite(attention, .init = check_begin, .fini = check_end);

#define attend(q, k, v, mask, ...) \
    br_scaled_dot_product_attention(q, k, v, mask, BR_OPTIONS(br_attention, __VA_ARGS__))

/* ---- Comparison with PyTorch ----------------------------------------------------------------- */

static const double TIGHT = 5e-15;

/* Compares y and its gradients with respect to the inputs with their tables. */
static void check_recorded(br_tensor *y, int64_t n, const double *want, int inputs, br_tensor **x,
                           const double *const *dx)
{
    br_tensor *grads[4], *dy = values(br_ndim(y), br_sizes(y), 9, BR_F64);
    check_values(y, n, want, TIGHT);
    br_grad(1, &y, inputs, x, grads, BR_OPTIONS(br_grad, .gradients = &dy));
    for (int i = 0; i < inputs; i++) {
        cr_assert(br_same_shape(grads[i], x[i]));
        check_values(grads[i], br_numel(x[i]), dx[i], 8 * TIGHT);
    }
}

#define check_case(name, y, x)                                                                  \
    check_recorded(y, sizeof attention_##name / sizeof(double), attention_##name, 3, x,         \
                   (const double *const[]){ attention_##name##_dquery, attention_##name##_dkey, \
                                            attention_##name##_dvalue })

/* Query, key and value as in record_attention.py. */
#define INPUTS(q, k, v)                                                                          \
    {                                                                                            \
        leaf(values(q, 1, BR_F64)), leaf(values(k, 2, BR_F64)), leaf(values(v, 3, BR_F64)), NULL \
    }

static void recorded(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *plain[] = INPUTS(BR_SHAPE(2, 3, 4), BR_SHAPE(2, 5, 4), BR_SHAPE(2, 5, 4));
    check_case(plain, attend(plain[0], plain[1], plain[2], NULL, .dropout_p = 0), plain);
    br_tensor *causal[] = INPUTS(BR_SHAPE(2, 4, 3), BR_SHAPE(2, 4, 3), BR_SHAPE(2, 4, 3));
    check_case(causal, attend(causal[0], causal[1], causal[2], NULL, .is_causal = true), causal);
    br_tensor *tall[] = INPUTS(BR_SHAPE(5, 3), BR_SHAPE(2, 3), BR_SHAPE(2, 2));
    check_case(causal_tall, attend(tall[0], tall[1], tall[2], NULL, .is_causal = true), tall);
    br_tensor *wide[] = INPUTS(BR_SHAPE(2, 3), BR_SHAPE(5, 3), BR_SHAPE(5, 2));
    check_case(causal_wide, attend(wide[0], wide[1], wide[2], NULL, .is_causal = true), wide);
    br_tensor *grouped[] = INPUTS(BR_SHAPE(2, 4, 2, 2), BR_SHAPE(2, 2, 3, 2), BR_SHAPE(2, 2, 3, 2));
    check_case(grouped, attend(grouped[0], grouped[1], grouped[2], NULL, .enable_gqa = true),
               grouped);
    br_tensor *shared[] = INPUTS(BR_SHAPE(3, 2, 2), BR_SHAPE(3, 2), BR_SHAPE(1, 3, 1));
    check_case(shared, attend(shared[0], shared[1], shared[2], NULL, .dropout_p = 0), shared);
    br_scope_end(scope);
}

Test(attention, equals_pytorch)
{
    with_every_variant(recorded);
}

static void recorded_with_masks(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x[] = INPUTS(BR_SHAPE(1, 1, 3, 2), BR_SHAPE(1, 1, 3, 2), BR_SHAPE(1, 1, 3, 2));
    br_tensor *bools = br_from_bool(
        BR_SHAPE(3, 3), (bool[]){ true, false, true, false, false, false, true, true, false });
    check_case(bool, attend(x[0], x[1], x[2], bools, 0), x);
    br_tensor *added =
        br_masked_fill(br_zeros(BR_SHAPE(3, 3), BR_F64), br_logical_not(bools), -INFINITY);
    check_case(bool, attend(x[0], x[1], x[2], added, 0), x);
    br_tensor *z[] = INPUTS(BR_SHAPE(2, 2, 2, 2), BR_SHAPE(2, 2, 3, 2), BR_SHAPE(2, 2, 3, 3));
    z[3] = leaf(values(BR_SHAPE(2, 1, 1, 3), 5, BR_F64));
    const double *const dz[] = { attention_float_dquery, attention_float_dkey,
                                 attention_float_dvalue, attention_float_dmask };
    check_recorded(attend(z[0], z[1], z[2], z[3], .scale = 0.3),
                   sizeof attention_float / sizeof(double), attention_float, 4, z, dz);
    br_scope_end(scope);
}

Test(attention, equals_pytorch_with_masks)
{
    with_every_variant(recorded_with_masks);
}

/* ---- Comparison with a composition ----------------------------------------------------------- */

/* Computes attention with elementary operations in f64. `factors`, unless NULL, are the factors by
 * which dropout multiplies the probabilities. */
static br_tensor *composed(br_tensor *const *x, br_tensor *mask, br_tensor *factors,
                           const br_attention_options *o)
{
    double scale = !isnan(o->scale) ? o->scale : 1 / sqrt((double)br_size(x[0], -1));
    br_tensor *key = x[1], *value = x[2];
    if (o->enable_gqa) { /* repeats each head for a group of two */
        br_tensor **repeated[] = { &key, &value };
        for (int i = 0; i < 2; i++)
            *repeated[i] = br_flatten(br_stack(BR_INPUTS(*repeated[i], *repeated[i]), -3), -4, -3);
    }
    br_tensor *scores = br_mul_scalar(br_matmul(x[0], br_transpose(key, -1, -2)), scale);
    if (o->is_causal) {
        br_tensor *ones = br_ones(BR_SHAPE(br_size(scores, -2), br_size(scores, -1)), BR_F64);
        mask = br_gt_scalar(br_tril(ones, 0), 0);
    }
    if (mask && br_dtype_of(mask) == BR_BOOL)
        scores = br_masked_fill(scores, br_logical_not(mask), -INFINITY);
    else if (mask)
        scores = br_add(scores, mask);
    br_tensor *p = br_softmax(scores, -1);
    p = br_masked_fill(p, br_ne(br_detach(p), br_detach(p)), 0);
    return br_matmul(factors ? br_mul(p, factors) : p, value);
}

/* Compares outputs and gradients in f32 with those of the composition in f64. The tolerance is
 * relative to the largest result, plus an absolute part for sums over many keys and queries whose
 * terms cancel. */
static void check_composed(br_tensor *const *x, br_tensor *mask, br_tensor *factors,
                           const br_attention_options *o)
{
    br_tensor *wide[4] = { NULL }, *narrow[4] = { NULL }, *got[5], *want[5];
    int n = mask && br_is_floating(mask) ? 4 : 3;
    o = o ? o : BR_OPTIONS(br_attention, .scale = BR_NONE_F64);
    for (int i = 0; i < n; i++) {
        wide[i] = leaf(br_to(i < 3 ? x[i] : mask, BR_F64));
        narrow[i] = leaf(br_to(wide[i], BR_F32));
    }
    br_manual_seed(3);
    got[0] = br_scaled_dot_product_attention(narrow[0], narrow[1], narrow[2],
                                             n == 4 ? narrow[3] : mask, o);
    want[0] = composed(wide, n == 4 ? wide[3] : mask, factors, o);
    check_ok();
    br_tensor *dy = br_randn(br_ndim(got[0]), br_sizes(got[0]), BR_F32),
              *wide_dy = br_to(dy, BR_F64);
    br_grad(1, got, n, narrow, got + 1, BR_OPTIONS(br_grad, .gradients = &dy));
    br_grad(1, want, n, wide, want + 1, BR_OPTIONS(br_grad, .gradients = &wide_dy));
    for (int i = 0; i <= n; i++) {
        check_ok();
        cr_assert(br_same_shape(got[i], want[i]));
        double largest = br_item(br_max(br_sqrt(br_mul(want[i], want[i]))));
        double error =
            br_item(br_max(br_sqrt(br_pow_scalar(br_sub(br_to(got[i], BR_F64), want[i]), 2))));
        cr_assert(error <= 2e-6 * largest + 2e-5, "result %d: error %g of %g", i, error, largest);
    }
}

static void inputs_of(int64_t heads, int64_t groups, int64_t queries, int64_t keys, br_tensor **x)
{
    br_manual_seed((uint64_t)(queries * 1000 + keys));
    x[0] = br_randn(BR_SHAPE(2, heads, queries, 20), BR_F32);
    x[1] = br_randn(BR_SHAPE(2, groups, keys, 20), BR_F32);
    x[2] = br_randn(BR_SHAPE(2, groups, keys, 37), BR_F32);
}

/* Lengths around the sizes of tiles and blocks. The last pair is long enough for several chunks. */
static const int64_t lengths[][2] = { { 1, 1 },     { 1, 300 },   { 7, 16 },    { 16, 7 },
                                      { 33, 128 },  { 128, 129 }, { 129, 127 }, { 130, 257 },
                                      { 257, 130 }, { 700, 530 } };
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static void all_lengths(void)
{
    for (int i = 0; i < LENGTHS; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x[3];
        int64_t queries = lengths[i][0], keys = lengths[i][1];
        inputs_of(2, 2, queries, keys, x);
        check_composed(x, NULL, NULL, NULL);
        check_composed(x, NULL, NULL, BR_OPTIONS(br_attention, .is_causal = true));
        inputs_of(4, 2, queries, keys, x);
        check_composed(
            x, NULL, NULL,
            BR_OPTIONS(br_attention, .enable_gqa = true, .is_causal = true, .scale = -0.3));
        br_scope_end(scope);
    }
}

Test(attention, equals_elementary_operations)
{
    with_every_variant(all_lengths);
}

/* Masks of every possible shape. A third of each bool mask is false, so for some queries all keys
 * are masked. */
static void all_masks(void)
{
    for (int i = 0; i < LENGTHS - 1; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x[3];
        int64_t l = lengths[i][0], s = lengths[i][1];
        inputs_of(2, 2, l, s, x);
        const int64_t shapes[][4] = {
            { 2, 2, l, s }, { 1, 1, l, s }, { 2, 1, 1, s }, { 1, 2, l, 1 }, { 1, 1, 1, 1 }
        };
        for (int k = 0; k < 5; k++) {
            br_tensor *mask = br_gt_scalar(br_rand(4, shapes[k], BR_F32), 0.33);
            check_composed(x, mask, NULL, NULL);
            if (k < 4) /* the gradient of a single number would be a sum of rounding errors */
                check_composed(x, br_randn(4, shapes[k], BR_F32), NULL, NULL);
        }
        br_tensor *across = br_gt_scalar(br_rand(BR_SHAPE(s, l), BR_F32), 0.33);
        check_composed(x, br_t(across), NULL, NULL);
        check_composed(x, br_t(br_randn(BR_SHAPE(s, l), BR_F32)), NULL, NULL);
        br_scope_end(scope);
    }
}

Test(attention, masks)
{
    with_every_variant(all_masks);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Returns the factors by which dropout multiplies the probabilities. If the values are an identity
 * matrix, attention returns the probabilities, so this divides the result with dropout by the one
 * without. */
static br_tensor *dropout_factors(br_tensor *query, br_tensor *key, double p)
{
    int64_t keys = br_size(key, -2);
    br_tensor *unit = br_eye(keys, keys, br_dtype_of(query));
    br_manual_seed(3);
    br_tensor *dropped = attend(query, key, unit, NULL, .dropout_p = p);
    return br_div(dropped, attend(query, key, unit, NULL, .dropout_p = 0));
}

static void dropout(void)
{
    for (int i = 0; i < LENGTHS; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x[3];
        inputs_of(1, 1, lengths[i][0], lengths[i][1], x);
        br_tensor *wide[] = { br_to(x[0], BR_F64), br_to(x[1], BR_F64) };
        br_tensor *factors = dropout_factors(wide[0], wide[1], 0.3);
        br_tensor *other = dropout_factors(br_neg(wide[0]), wide[1], 0.3);
        cr_assert(br_allclose(factors, other, 1e-12, 0), "the mask depends on values");
        check_composed(x, NULL, factors, BR_OPTIONS(br_attention, .dropout_p = 0.3));
        br_scope_end(scope);
    }
}

Test(attention, dropout)
{
    with_every_variant(dropout);
}

/* Neighbouring keys, queries and heads, of the same group and of different ones, are dropped
 * independently. */
Test(attention, dropout_rate_and_independence)
{
    enum { L = 301, S = 257, DISTANCES = 4 };
    static const int64_t distances[DISTANCES] = { 1, S, L * S, 2 * L * S };
    br_tensor *x[3];
    inputs_of(4, 2, L, S, x);
    br_tensor *unit = br_expand(br_eye(S, S, BR_F32), BR_SHAPE(2, 2, S, S));
    br_tensor *factors =
        br_div(attend(x[0], x[1], unit, NULL, .enable_gqa = true, .dropout_p = 0.3),
               attend(x[0], x[1], unit, NULL, .enable_gqa = true));
    const float *p = br_data_f32(factors);
    int64_t n = br_numel(factors), dropped = 0, pairs[DISTANCES] = { 0 };
    for (int64_t i = 0; i < n; i++) {
        cr_assert(p[i] == 0 || fabsf(p[i] - 1 / 0.7f) < 1e-5f);
        dropped += p[i] == 0;
        for (int k = 0; k < DISTANCES; k++)
            pairs[k] += p[i] == 0 && p[(i + distances[k]) % n] == 0;
    }
    /* Four standard deviations of the binomial distribution, and six for pairs of neighbours, whose
     * counts are not independent. */
    check_close((double)dropped / (double)n, 0.3, 4 * sqrt(0.3 * 0.7 / (double)n));
    for (int k = 0; k < DISTANCES; k++)
        check_close((double)pairs[k] / (double)n, 0.09, 6 * sqrt(0.09 * 0.91 / (double)n));
}

Test(attention, dropout_of_all_and_of_none)
{
    br_tensor *x[3], *grads[3];
    inputs_of(2, 2, 5, 6, x);
    br_rng_state before, after;
    br_get_rng_state(&before);
    br_tensor *y = attend(leaf(x[0]), leaf(x[1]), leaf(x[2]), NULL, .dropout_p = 1);
    br_get_rng_state(&after);
    cr_assert(memcmp(&before, &after, sizeof before) == 0);
    cr_assert(br_equal(br_detach(y), br_zeros_like(y)));
    br_tensor *dy = br_ones_like(y);
    for (int composed = 1; composed >= 0; composed--) {
        br_grad(1, &y, 3, x, grads,
                BR_OPTIONS(br_grad, .gradients = &dy, .create_graph = composed));
        for (int i = 0; i < 3; i++)
            cr_assert(br_equal(br_detach(grads[i]), br_zeros_like(grads[i])));
    }
    check_same_bits(br_detach(attend(x[0], x[1], x[2], NULL, .dropout_p = 1e-12)),
                    br_detach(attend(x[0], x[1], x[2], NULL, .dropout_p = 0)));
}

/* ---- Layouts, threads, memory ---------------------------------------------------------------- */

/* Heads that are interleaved in memory, as in the output of a projection, are read in place. */
Test(attention, views)
{
    br_tensor *x[3], *view[3], *g[2][3];
    inputs_of(3, 3, 150, 150, x);
    for (int i = 0; i < 3; i++) {
        leaf(x[i]);
        view[i] = br_transpose(br_contiguous(br_transpose(x[i], 1, 2)), 1, 2);
    }
    br_tensor *y[] = { attend(x[0], x[1], x[2], NULL, .dropout_p = 0),
                       attend(view[0], view[1], view[2], NULL, .dropout_p = 0) };
    check_same_bits(br_detach(y[0]), br_contiguous(br_detach(y[1])));
    for (int i = 0; i < 2; i++) {
        br_tensor *loss = br_sum(y[i]);
        br_grad(1, &loss, 3, x, g[i], NULL);
    }
    for (int i = 0; i < 3; i++)
        check_same_bits(br_contiguous(g[0][i]), br_contiguous(g[1][i]));
    /* The result and the gradients have the memory order of the inputs, so heads can be merged
     * without a copy. */
    br_tensor *joined[3], *loss = br_sum(attend(view[0], view[1], view[2], NULL, .dropout_p = 0));
    br_grad(1, &loss, 3, view, joined, NULL);
    cr_assert(br_is_contiguous(br_transpose(y[1], 1, 2)));
    for (int i = 0; i < 3; i++)
        cr_assert(br_is_contiguous(br_transpose(joined[i], 1, 2)));
    /* The last dimension may have any stride. */
    br_tensor *last[3];
    for (int i = 0; i < 3; i++)
        last[i] = br_transpose(br_contiguous(br_transpose(x[i], 2, 3)), 2, 3);
    check_same_bits(br_detach(y[0]),
                    br_detach(attend(last[0], last[1], last[2], NULL, .dropout_p = 0)));
}

/* Checks that the number of threads changes no bit of the results. If there are few heads, each is
 * split between threads; if there are many, none is. */
static void same_with_threads(br_tensor **x, br_tensor *mask, const br_attention_options *o)
{
    br_tensor *want[4], *got[4];
    for (int i = 0; i < 3; i++)
        leaf(x[i]);
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        br_manual_seed(1);
        got[0] = br_scaled_dot_product_attention(x[0], x[1], x[2], mask, o);
        br_tensor *dy = br_randn(br_ndim(got[0]), br_sizes(got[0]), BR_F32);
        br_grad(1, got, 3, x, got + 1, BR_OPTIONS(br_grad, .gradients = &dy));
        if (threads == 1)
            memcpy(want, got, sizeof want);
        for (int i = 0; i < 4; i++)
            check_same_bits(br_detach(want[i]), br_detach(got[i]));
    }
    br_set_num_threads(1);
}

Test(attention, does_not_depend_on_threads)
{
    br_tensor *x[3];
    inputs_of(2, 2, 1100, 1300, x);
    same_with_threads(x, NULL, NULL);
    same_with_threads(x, NULL, BR_OPTIONS(br_attention, .is_causal = true, .dropout_p = 0.1));
    inputs_of(6, 3, 600, 520, x);
    same_with_threads(x, NULL, BR_OPTIONS(br_attention, .enable_gqa = true, .dropout_p = 0.1));
    br_tensor *mask = leaf(br_randn(BR_SHAPE(600, 520), BR_F32));
    same_with_threads(x, mask, BR_OPTIONS(br_attention, .enable_gqa = true));
}

/* Returns the peak memory of forward and backward in bytes, beyond that of the inputs. */
static int64_t peak_of(int64_t length, br_tensor *mask, double p)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x[3], *grads[3];
    for (int i = 0; i < 3; i++)
        x[i] = leaf(br_randn(BR_SHAPE(1, 2, length, 16), BR_F32));
    int64_t held = br_live_bytes();
    br_reset_peak_bytes();
    br_tensor *y = attend(x[0], x[1], x[2], mask, .dropout_p = p);
    br_tensor *loss = br_sum(y);
    br_grad(1, &loss, 3, x, grads, NULL);
    check_ok();
    br_scope_end(scope);
    return br_peak_bytes() - held;
}

Test(attention, memory_is_linear_in_the_length)
{
    enum { SHORT = 512, LONG = 4 * SHORT };
    br_set_num_threads(2);
    br_tensor *mask = br_ones(BR_SHAPE(LONG, LONG), BR_BOOL);
    br_tensor *part = br_narrow(br_narrow(mask, 0, 0, SHORT), 1, 0, SHORT);
    for (int masked = 0; masked < 2; masked++) {
        for (int dropped = 0; dropped < 2; dropped++) {
            int64_t less = peak_of(SHORT, masked ? part : NULL, dropped * 0.1);
            int64_t more = peak_of(LONG, masked ? mask : NULL, dropped * 0.1);
            /* The result and its gradient, the gradients of the three inputs, and each query's
             * maximum and sum. */
            int64_t linear = 2 * (LONG - SHORT) * (5 * 16 + 2) * (int64_t)sizeof(float);
            if (dropped) /* one bit per score */
                linear += 2 * (LONG * LONG - SHORT * SHORT) / 8;
            cr_assert(more - less <= linear + 4096, "%lld bytes more, expected %lld",
                      (long long)(more - less), (long long)linear);
        }
    }
}

/* ---- Special values and errors --------------------------------------------------------------- */

Test(attention, special_values)
{
    br_tensor *one = br_ones(BR_SHAPE(2, 1), BR_F32),
              *value = br_from_f32(BR_SHAPE(2, 1), (float[]){ 2, 4 });
    br_tensor *odd = br_from_f32(BR_SHAPE(2, 1), (float[]){ NAN, 1 });
    check_equals(attend(odd, one, value, NULL, .dropout_p = 0), NAN, 3);
    check_equals(attend(one, odd, value, NULL, .dropout_p = 0), NAN, NAN);
    br_tensor *large = br_from_f32(BR_SHAPE(2, 1), (float[]){ -3e38f, 3e38f });
    check_equals(attend(one, large, value, NULL, .dropout_p = 0), 4, 4);
    check_equals(attend(large, large, value, NULL, .scale = 1), NAN, NAN);
    br_tensor *empty = br_zeros(BR_SHAPE(0, 1), BR_F32);
    check_equals(attend(one, empty, empty, NULL, .dropout_p = 0), 0, 0);
    br_tensor *none = br_zeros(BR_SHAPE(2, 0), BR_F32);
    check_equals(attend(none, none, value, NULL, .dropout_p = 0), 3, 3);
    check_shape(attend(empty, one, value, NULL, .dropout_p = 0), BR_SHAPE(0, 1));
}

static bool row_is_nan(const br_tensor *t, int64_t row)
{
    const int64_t n = br_size(t, -1);
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += isnan(br_data_f32(t)[row * n + i]);
    cr_assert(count == 0 || count == n, "%lld of %lld", (long long)count, (long long)n);
    return count > 0;
}

/* A NaN in one query makes its result, its gradient and the gradients of all values NaN, whatever
 * the mask is; with is_causal, only those of values up to the query's position. The fused and
 * the composed gradient agree, and PyTorch's elementary operations do the same. */
static void nan_query(void)
{
    enum { HEADS = 2, L = 5, S = 71, BAD = 2 };
    br_tensor *masks[5] = { NULL };
    masks[1] = br_ones(BR_SHAPE(L, S), BR_BOOL);
    br_fill_(br_narrow(br_select(masks[1], 0, BAD), 0, 3, S - 3), 0);
    masks[2] = br_clone(masks[1]);
    br_fill_(br_select(masks[2], 0, BAD), 0);
    masks[3] = br_zeros(BR_SHAPE(L, S), BR_F32);
    br_fill_(br_narrow(br_select(masks[3], 0, BAD), 0, 3, S - 3), -INFINITY);
    masks[4] = br_clone(masks[3]);
    br_fill_(br_select(masks[4], 0, BAD), -INFINITY);
    for (int i = 0; i < 6; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x[3], *grads[3];
        inputs_of(HEADS, HEADS, L, S, x);
        br_data_f32(x[0])[BAD * br_size(x[0], -1) + 1] = NAN;
        for (int k = 0; k < 3; k++)
            x[k] = leaf(br_contiguous(br_narrow(x[k], 0, 0, 1)));
        br_tensor *y = i < 5 ? attend(x[0], x[1], x[2], masks[i], .dropout_p = 0)
                             : attend(x[0], x[1], x[2], NULL, .is_causal = true);
        br_tensor *loss = br_sum(y);
        for (int64_t row = 0; row < HEADS * L; row++)
            cr_assert_eq(row_is_nan(br_detach(y), row), row == BAD, "mask %d, row %lld", i,
                         (long long)row);
        for (int composed = 0; composed < 2; composed++) {
            br_grad(1, &loss, 3, x, grads,
                    BR_OPTIONS(br_grad, .retain_graph = true, .create_graph = composed == 1));
            check_ok();
            for (int64_t row = 0; row < HEADS * L; row++)
                cr_assert_eq(row_is_nan(br_detach(grads[0]), row), row == BAD);
            for (int64_t row = 0; row < (i == 5 ? BAD + 1 : S); row++)
                cr_assert(row_is_nan(br_detach(grads[2]), row), "mask %d, key %lld, composed %d", i,
                          (long long)row, composed);
            for (int64_t row = S; row < HEADS * S; row++)
                cr_assert(!row_is_nan(br_detach(grads[2]), row));
        }
        br_scope_end(scope);
    }
}

Test(attention, nan_query)
{
    with_every_variant(nan_query);
}

Test(attention, errors)
{
    br_tensor *x[3], *small = br_zeros(BR_SHAPE(3, 4), BR_F32);
    inputs_of(4, 2, 3, 5, x);
    check_fails(attend(x[0], x[1], x[2], NULL, .dropout_p = 0),
                "key [2, 2, 5, 20] does not broadcast with query [2, 4, 3, 20]: sizes 2 and 4");
    check_fails(attend(x[0], x[0], x[2], NULL, .dropout_p = 0),
                "key [2, 4, 3, 20] and value [2, 2, 5, 37] must have the same number of keys");
    check_fails(attend(x[0], x[2], x[2], NULL, .dropout_p = 0),
                "query [2, 4, 3, 20] and key [2, 2, 5, 37] must have the same last dimension");
    check_fails(attend(br_narrow(x[0], 1, 0, 3), x[1], x[2], NULL, .enable_gqa = true),
                "the number of query heads (3) must be a multiple of the number of key heads (2)");
    check_fails(attend(x[0], x[1], br_narrow(x[2], 1, 0, 1), NULL, .enable_gqa = true),
                "must have the same number of heads");
    check_fails(attend(small, small, small, NULL, .enable_gqa = true),
                "all must have heads in dimension -3");
    check_fails(attend(br_select(small, 0, 0), small, small, NULL, .dropout_p = 0),
                "query [4] must have at least 2 dimensions");
    check_fails(attend(small, br_to(small, BR_F64), small, NULL, .dropout_p = 0),
                "query [3, 4] is f32 and key [3, 4] is f64");
    check_fails(attend(small, NULL, small, NULL, .dropout_p = 0), "key is NULL");
    check_fails(attend(small, small, small, br_zeros(BR_SHAPE(3, 4), BR_F32), 0),
                "attn_mask [3, 4] must broadcast to [3, 3], the shape of the scores");
    check_fails(attend(small, small, small, br_zeros(BR_SHAPE(3), BR_F32), 0), "attn_mask [3]");
    check_fails(attend(small, small, small, br_zeros(BR_SHAPE(3, 3), BR_I64), 0),
                "attn_mask [3, 3] is i64, must be bool or f32 like query");
    check_fails(attend(small, small, small, br_zeros(BR_SHAPE(3, 3), BR_F32), .is_causal = true),
                "must not be given with is_causal");
    check_fails(attend(small, small, small, NULL, .dropout_p = 1.5), "dropout_p is 1.5");
    check_fails(attend(small, small, small, NULL, .dropout_p = NAN), "dropout_p is nan");
}

/* create_graph uses the composed gradient. It must give the same numbers except for rounding, with
 * dropout, masks that exclude all keys of a query, and grouped heads. */
static void check_create_graph(br_tensor *mask, br_attention_options o)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(3);
    br_tensor *in[4] = { leaf(br_randn(BR_SHAPE(2, 4, 3, 5), BR_F64)),
                         leaf(br_randn(BR_SHAPE(2, o.enable_gqa ? 2 : 4, 6, 5), BR_F64)),
                         leaf(br_randn(BR_SHAPE(2, o.enable_gqa ? 2 : 4, 6, 2), BR_F64)), mask };
    int n = mask && br_is_floating(mask) ? 4 : 3;
    br_tensor *y = br_scaled_dot_product_attention(in[0], in[1], in[2], mask, &o), *grads[2][4];
    br_tensor *dy = br_randn(BR_SHAPE(2, 4, 3, 2), BR_F64);
    for (int k = 0; k < 2; k++)
        cr_assert(br_grad(1, &y, n, in, grads[k],
                          BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true,
                                     .create_graph = k == 1)),
                  "%s", br_error_message());
    for (int i = 0; i < n; i++)
        check_close(br_item(br_max(br_abs(br_sub(grads[0][i], grads[1][i])))), 0, 1e-14);
    br_scope_end(scope);
}

Test(attention, the_composed_gradient_agrees)
{
    br_tensor *visible = br_gt_scalar(br_randn(BR_SHAPE(3, 6), BR_F64), 0);
    visible = br_logical_and(visible, br_from_bool(BR_SHAPE(3, 1), (bool[]){ true, false, true }));
    br_tensor *added = br_masked_fill(br_randn(BR_SHAPE(3, 6), BR_F64), visible, -INFINITY);
    check_create_graph(NULL, br_attention_defaults());
    check_create_graph(visible, *BR_OPTIONS(br_attention, .dropout_p = 0.3));
    check_create_graph(leaf(added), *BR_OPTIONS(br_attention, .scale = 0.7));
    check_create_graph(NULL, *BR_OPTIONS(br_attention, .is_causal = true, .dropout_p = 0.5));
    check_create_graph(NULL, *BR_OPTIONS(br_attention, .enable_gqa = true, .dropout_p = 0.2));
}

Test(attention, grouped_heads_without_the_option_are_named)
{
    br_scope *scope = br_scope_begin();
    br_tensor *q = br_ones(BR_SHAPE(1, 4, 2, 2), BR_F32),
              *k = br_ones(BR_SHAPE(1, 2, 2, 2), BR_F32);
    check_fails(br_scaled_dot_product_attention(q, k, k, NULL, NULL),
                "sizes 2 and 4 differ and neither is 1; if each key head serves several query "
                "heads, set enable_gqa = true");
    br_tensor *odd = br_ones(BR_SHAPE(1, 3, 2, 2), BR_F32);
    check_fails(br_scaled_dot_product_attention(q, odd, odd, NULL, NULL), "neither is 1");
    br_scope_end(scope);
}
