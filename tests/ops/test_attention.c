/* Attention against PyTorch's numbers and against its composition of plain operations, with every
 * kind of mask, lengths around the blocks' sizes, shared heads and dropout; that it reads views as
 * they lie, that threads change nothing, and that its memory is linear in length. */
#include "tests/ops/torch_attention.h"
#include "tests/ops/values.h"

TestSuite(attention, .init = check_begin, .fini = check_end);

#define attend(q, k, v, mask, ...) \
    br_scaled_dot_product_attention(q, k, v, mask, &(br_attention_options){ __VA_ARGS__ })

/* ---- PyTorch's numbers ----------------------------------------------------------------------- */

static const double TIGHT = 5e-15;

/* y against its table, and its gradients by the inputs against theirs. */
static void check_recorded(br_tensor *y, int64_t n, const double *want, int inputs, br_tensor **x,
                           const double *const *dx)
{
    br_tensor *grads[4], *dy = values(br_ndim(y), br_sizes(y), 9, BR_F64);
    check_values(y, n, want, TIGHT);
    br_grad(1, &y, inputs, x, grads, &(br_grad_options){ .gradients = &dy });
    for (int i = 0; i < inputs; i++) {
        cr_assert(br_same_shape(grads[i], x[i]));
        check_values(grads[i], br_numel(x[i]), dx[i], 8 * TIGHT);
    }
}

#define check_case(name, y, x)                                                                  \
    check_recorded(y, sizeof attention_##name / sizeof(double), attention_##name, 3, x,         \
                   (const double *const[]){ attention_##name##_dquery, attention_##name##_dkey, \
                                            attention_##name##_dvalue })

/* Query, key and value as the script makes them. */
#define INPUTS(q, k, v)                                                                          \
    {                                                                                            \
        leaf(values(q, 1, BR_F64)), leaf(values(k, 2, BR_F64)), leaf(values(v, 3, BR_F64)), NULL \
    }

static void recorded(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *plain[] = INPUTS(BR_SHAPE(2, 3, 4), BR_SHAPE(2, 5, 4), BR_SHAPE(2, 5, 4));
    check_case(plain, attend(plain[0], plain[1], plain[2], NULL, 0), plain);
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
    check_case(shared, attend(shared[0], shared[1], shared[2], NULL, 0), shared);
    br_scope_end(scope);
}

Test(attention, recorded)
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

Test(attention, recorded_with_masks)
{
    with_every_variant(recorded_with_masks);
}

/* ---- The composition ------------------------------------------------------------------------- */

/* Of the same numbers in f64, with what stays of the probabilities, or NULL. */
static br_tensor *composed(br_tensor *const *x, br_tensor *mask, br_tensor *stays,
                           const br_attention_options *o)
{
    double scale = o->scale != 0 ? o->scale : 1 / sqrt((double)br_size(x[0], -1));
    br_tensor *key = x[1], *value = x[2];
    if (o->enable_gqa) { /* each head of a group of two */
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
    return br_matmul(stays ? br_mul(p, stays) : p, value);
}

/* Outputs and gradients in f32 against those of the composition in f64. The tolerance is that
 * of f32: of the largest result, and where terms of many keys and queries cancel, of the terms. */
static void check_composed(br_tensor *const *x, br_tensor *mask, br_tensor *stays,
                           const br_attention_options *o)
{
    br_tensor *wide[4] = { NULL }, *narrow[4] = { NULL }, *got[5], *want[5];
    int n = mask && br_is_floating(mask) ? 4 : 3;
    for (int i = 0; i < n; i++) {
        wide[i] = leaf(br_to(i < 3 ? x[i] : mask, BR_F64));
        narrow[i] = leaf(br_to(wide[i], BR_F32));
    }
    br_manual_seed(3);
    got[0] = br_scaled_dot_product_attention(narrow[0], narrow[1], narrow[2],
                                             n == 4 ? narrow[3] : mask, o);
    want[0] = composed(wide, n == 4 ? wide[3] : mask, stays, o);
    check_ok();
    br_tensor *dy = br_randn(br_ndim(got[0]), br_sizes(got[0]), BR_F32),
              *wide_dy = br_to(dy, BR_F64);
    br_grad(1, got, n, narrow, got + 1, &(br_grad_options){ .gradients = &dy });
    br_grad(1, want, n, wide, want + 1, &(br_grad_options){ .gradients = &wide_dy });
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

/* Around the sizes of tiles and blocks; the last one has several chunks. */
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
        check_composed(x, NULL, NULL, &(br_attention_options){ 0 });
        check_composed(x, NULL, NULL, &(br_attention_options){ .is_causal = true });
        inputs_of(4, 2, queries, keys, x);
        check_composed(
            x, NULL, NULL,
            &(br_attention_options){ .enable_gqa = true, .is_causal = true, .scale = -0.3 });
        br_scope_end(scope);
    }
}

Test(attention, composed, .timeout = 60)
{
    with_every_variant(all_lengths);
}

/* A mask of each shape that a mask can have; a third of it is false. Rows without keys occur. */
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
            check_composed(x, mask, NULL, &(br_attention_options){ 0 });
            if (k <
                4) /* the gradient by a single number would be the sum of all that rounding left */
                check_composed(x, br_randn(4, shapes[k], BR_F32), NULL,
                               &(br_attention_options){ 0 });
        }
        br_tensor *across = br_gt_scalar(br_rand(BR_SHAPE(s, l), BR_F32), 0.33);
        check_composed(x, br_t(across), NULL, &(br_attention_options){ 0 });
        check_composed(x, br_t(br_randn(BR_SHAPE(s, l), BR_F32)), NULL,
                       &(br_attention_options){ 0 });
        br_scope_end(scope);
    }
}

Test(attention, masks, .timeout = 120)
{
    with_every_variant(all_masks);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Of values that are a unit matrix, the result is the probabilities: those that stay, divided by
 * what they are without dropout, show what fell. */
static br_tensor *what_stays(br_tensor *query, br_tensor *key, double p)
{
    int64_t keys = br_size(key, -2);
    br_tensor *unit = br_eye(keys, keys, br_dtype_of(query));
    br_manual_seed(3);
    br_tensor *dropped = attend(query, key, unit, NULL, .dropout_p = p);
    return br_div(dropped, attend(query, key, unit, NULL, 0));
}

static void dropout(void)
{
    for (int i = 0; i < LENGTHS; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x[3];
        inputs_of(1, 1, lengths[i][0], lengths[i][1], x);
        br_tensor *wide[] = { br_to(x[0], BR_F64), br_to(x[1], BR_F64) };
        br_tensor *stays = what_stays(wide[0], wide[1], 0.3);
        br_tensor *other = what_stays(br_neg(wide[0]), wide[1], 0.3);
        cr_assert(br_allclose(stays, other, 1e-12, 0), "what falls depends on values");
        check_composed(x, NULL, stays, &(br_attention_options){ .dropout_p = 0.3 });
        br_scope_end(scope);
    }
}

Test(attention, dropout, .timeout = 120)
{
    with_every_variant(dropout);
}

/* Neighbouring keys, queries and heads, of one group and of two, fall by draws of their own. */
Test(attention, as_many_fall_as_should)
{
    enum { L = 301, S = 257, DISTANCES = 4 };
    static const int64_t distances[DISTANCES] = { 1, S, L * S, 2 * L * S };
    br_tensor *x[3];
    inputs_of(4, 2, L, S, x);
    br_tensor *unit = br_expand(br_eye(S, S, BR_F32), BR_SHAPE(2, 2, S, S));
    br_tensor *stays = br_div(attend(x[0], x[1], unit, NULL, .enable_gqa = true, .dropout_p = 0.3),
                              attend(x[0], x[1], unit, NULL, .enable_gqa = true));
    const float *p = br_data_f32(stays);
    int64_t n = br_numel(stays), fallen = 0, pairs[DISTANCES] = { 0 };
    for (int64_t i = 0; i < n; i++) {
        cr_assert(p[i] == 0 || fabsf(p[i] - 1 / 0.7f) < 1e-5f);
        fallen += p[i] == 0;
        for (int k = 0; k < DISTANCES; k++)
            pairs[k] += p[i] == 0 && p[(i + distances[k]) % n] == 0;
    }
    /* Four standard deviations of the binomial distribution; of neighbours about the same. */
    check_close((double)fallen / (double)n, 0.3, 4 * sqrt(0.3 * 0.7 / (double)n));
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
    br_grad(1, &y, 3, x, grads, &(br_grad_options){ .gradients = &dy });
    for (int i = 0; i < 3; i++)
        cr_assert(br_equal(grads[i], br_zeros_like(grads[i])));
    check_same_bits(br_detach(attend(x[0], x[1], x[2], NULL, .dropout_p = 1e-12)),
                    br_detach(attend(x[0], x[1], x[2], NULL, 0)));
}

/* ---- Layouts, threads, memory ---------------------------------------------------------------- */

/* Heads that lie side by side, as a projection gives them, are read as they lie. */
Test(attention, views)
{
    br_tensor *x[3], *view[3], *g[2][3];
    inputs_of(3, 3, 150, 150, x);
    for (int i = 0; i < 3; i++) {
        leaf(x[i]);
        view[i] = br_transpose(br_contiguous(br_transpose(x[i], 1, 2)), 1, 2);
    }
    br_tensor *y[] = { attend(x[0], x[1], x[2], NULL, 0),
                       attend(view[0], view[1], view[2], NULL, 0) };
    check_same_bits(br_detach(y[0]), br_contiguous(br_detach(y[1])));
    for (int i = 0; i < 2; i++) {
        br_tensor *loss = br_sum(y[i]);
        br_grad(1, &loss, 3, x, g[i], NULL);
    }
    for (int i = 0; i < 3; i++)
        check_same_bits(br_contiguous(g[0][i]), br_contiguous(g[1][i]));
    /* Heads join again without a copy: the result and the gradients lie as what they are made from.
     */
    br_tensor *joined[3], *loss = br_sum(attend(view[0], view[1], view[2], NULL, 0));
    br_grad(1, &loss, 3, view, joined, NULL);
    cr_assert(br_is_contiguous(br_transpose(y[1], 1, 2)));
    for (int i = 0; i < 3; i++)
        cr_assert(br_is_contiguous(br_transpose(joined[i], 1, 2)));
    /* Sizes 1 in the batch may have any strides, the last dimension too. */
    br_tensor *last[3];
    for (int i = 0; i < 3; i++)
        last[i] = br_transpose(br_contiguous(br_transpose(x[i], 2, 3)), 2, 3);
    check_same_bits(br_detach(y[0]), br_detach(attend(last[0], last[1], last[2], NULL, 0)));
}

/* Few heads are cut up for several threads, many are not. */
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
        br_grad(1, got, 3, x, got + 1, &(br_grad_options){ .gradients = &dy });
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
    same_with_threads(x, NULL, &(br_attention_options){ 0 });
    same_with_threads(x, NULL, &(br_attention_options){ .is_causal = true, .dropout_p = 0.1 });
    inputs_of(6, 3, 600, 520, x);
    same_with_threads(x, NULL, &(br_attention_options){ .enable_gqa = true, .dropout_p = 0.1 });
    br_tensor *mask = leaf(br_randn(BR_SHAPE(600, 520), BR_F32));
    same_with_threads(x, mask, &(br_attention_options){ .enable_gqa = true });
}

/* Bytes at the peak of forward and backward beyond the inputs and their gradients. */
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

Test(attention, memory_is_linear)
{
    enum { SHORT = 512, LONG = 4 * SHORT };
    br_set_num_threads(2);
    br_tensor *mask = br_ones(BR_SHAPE(LONG, LONG), BR_BOOL);
    br_tensor *part = br_narrow(br_narrow(mask, 0, 0, SHORT), 1, 0, SHORT);
    for (int masked = 0; masked < 2; masked++) {
        for (int dropped = 0; dropped < 2; dropped++) {
            int64_t less = peak_of(SHORT, masked ? part : NULL, dropped * 0.1);
            int64_t more = peak_of(LONG, masked ? mask : NULL, dropped * 0.1);
            /* Result, its gradient, three gradients and the sums of exponentials for each query. */
            int64_t linear = 2 * (LONG - SHORT) * (5 * 16 + 1) * (int64_t)sizeof(float);
            cr_assert(more - less <= linear + 4096, "%lld bytes more, not %lld",
                      (long long)(more - less), (long long)linear);
        }
    }
}

/* ---- Special values and refusals ------------------------------------------------------------- */

Test(attention, special_values)
{
    br_tensor *one = br_ones(BR_SHAPE(2, 1), BR_F32),
              *value = br_from_f32(BR_SHAPE(2, 1), (float[]){ 2, 4 });
    br_tensor *odd = br_from_f32(BR_SHAPE(2, 1), (float[]){ NAN, 1 });
    check_equals(attend(odd, one, value, NULL, 0), NAN, 3);
    check_equals(attend(one, odd, value, NULL, 0), NAN, NAN);
    br_tensor *large = br_from_f32(BR_SHAPE(2, 1), (float[]){ -3e38f, 3e38f });
    check_equals(attend(one, large, value, NULL, 0), 4, 4);
    check_equals(attend(large, large, value, NULL, .scale = 1), NAN, NAN);
    br_tensor *empty = br_zeros(BR_SHAPE(0, 1), BR_F32);
    check_equals(attend(one, empty, empty, NULL, 0), 0, 0);
    br_tensor *none = br_zeros(BR_SHAPE(2, 0), BR_F32);
    check_equals(attend(none, none, value, NULL, 0), 3, 3);
    check_shape(attend(empty, one, value, NULL, 0), BR_SHAPE(0, 1));
}

Test(attention, refuses)
{
    br_tensor *x[3], *small = br_zeros(BR_SHAPE(3, 4), BR_F32);
    inputs_of(4, 2, 3, 5, x);
    check_fails(attend(x[0], x[1], x[2], NULL, 0),
                "key [2, 2, 5, 20] does not broadcast with query [2, 4, 3, 20]: sizes 2 and 4");
    check_fails(attend(x[0], x[0], x[2], NULL, 0),
                "key [2, 4, 3, 20] and value [2, 2, 5, 37] must have the same number of keys");
    check_fails(attend(x[0], x[2], x[2], NULL, 0),
                "query [2, 4, 3, 20] and key [2, 2, 5, 37] must have the same last size");
    check_fails(attend(br_narrow(x[0], 1, 0, 3), x[1], x[2], NULL, .enable_gqa = true),
                "3 heads of the query are no multiple of 2");
    check_fails(attend(x[0], x[1], br_narrow(x[2], 1, 0, 1), NULL, .enable_gqa = true),
                "must have the same number of heads");
    check_fails(attend(small, small, small, NULL, .enable_gqa = true), "in dimension -3");
    check_fails(attend(br_select(small, 0, 0), small, small, NULL, 0),
                "query [4] must have at least 2 dimensions");
    check_fails(attend(small, br_to(small, BR_F64), small, NULL, 0),
                "query [3, 4] is f32 and key [3, 4] is f64");
    check_fails(attend(small, NULL, small, NULL, 0), "key is NULL");
    check_fails(attend(small, small, small, br_zeros(BR_SHAPE(3, 4), BR_F32), 0),
                "attn_mask [3, 4] must have at least 2 dimensions and broadcast to [3, 3]");
    check_fails(attend(small, small, small, br_zeros(BR_SHAPE(3), BR_F32), 0), "attn_mask [3]");
    check_fails(attend(small, small, small, br_zeros(BR_SHAPE(3, 3), BR_I64), 0),
                "attn_mask [3, 3] is i64, must be bool or f32");
    check_fails(attend(small, small, small, br_zeros(BR_SHAPE(3, 3), BR_F32), .is_causal = true),
                "must not be given with is_causal");
    check_fails(attend(small, small, small, NULL, .dropout_p = 1.5), "dropout_p is 1.5");
    check_fails(attend(small, small, small, NULL, .dropout_p = NAN), "dropout_p is nan");
}

/* create_graph takes the composed form: the same numbers but for rounding, with what dropout lets
 * fall, whatever mask hides whole rows, and groups of heads. */
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
                          &(br_grad_options){
                              .gradients = &dy, .retain_graph = true, .create_graph = k == 1 }),
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
    check_create_graph(NULL, (br_attention_options){ 0 });
    check_create_graph(visible, (br_attention_options){ .dropout_p = 0.3 });
    check_create_graph(leaf(added), (br_attention_options){ .scale = 0.7 });
    check_create_graph(NULL, (br_attention_options){ .is_causal = true, .dropout_p = 0.5 });
    check_create_graph(NULL, (br_attention_options){ .enable_gqa = true, .dropout_p = 0.2 });
}
