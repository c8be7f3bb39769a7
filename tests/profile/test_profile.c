/* Profiles: the recorded events and their nesting; nothing is counted twice. */
#include "tests/ops/cases.h"
#include "tests/profile/profile.h"

#include <unistd.h>

TestSuite(profile, .init = check_begin, .fini = check_end);

/* ---- Helpers --------------------------------------------------------------------------------- */

static const char *parent_name(const br_profile *p, const br_profile_event *e)
{
    return br_profile_event_at(p, e->parent)->name;
}

/* Returns the FLOPs of an event and of all events inside it. */
static int64_t flops_under(const br_profile *p, const br_profile_event *event)
{
    int64_t flops = 0;
    for (int64_t i = 0; i < br_profile_count(p); i++) {
        const br_profile_event *e = br_profile_event_at(p, i), *up = e;
        while (up != event && up->parent >= 0)
            up = br_profile_event_at(p, up->parent);
        flops += up == event ? e->flops : 0;
    }
    return flops;
}

/* ---- Recorded events ------------------------------------------------------------------------- */

Test(profile, events_of_a_training_step)
{
    const br_profile_phase F = BR_PROFILE_FORWARD, B = BR_PROFILE_BACKWARD;
    br_profile *p = profile_steps(2);
    check_ok();
    const br_profile_event *e = find(p, "linear", F, "mlp.in", 0);
    cr_assert_eq(e->flops, 2 * ROWS * IN * HIDDEN);
    cr_assert_eq(e->bytes, 4 * (ROWS * IN + IN * HIDDEN + HIDDEN + ROWS * HIDDEN));
    cr_assert(e->ndim == 2 && e->sizes[0] == ROWS && e->sizes[1] == HIDDEN);
    cr_assert_str_eq(parent_name(p, e), "Linear");
    cr_assert_not_null(find(p, "linear", F, "mlp.in", 1));
    cr_assert_null(find(p, "linear", F, "mlp.in", 2));

    /* The input does not require grad, so the first layer computes only the weight's gradient. */
    e = find(p, "linear", B, "mlp.in", 0);
    cr_assert_eq(flops_under(p, e), 2 * ROWS * IN * HIDDEN);
    cr_assert_eq(flops_under(p, find(p, "linear", B, "mlp.out", 0)), 4 * ROWS * HIDDEN * OUT);
    cr_assert(e->ndim == 2 && e->sizes[1] == HIDDEN);
    cr_assert_eq(e->flops, 0, "a product is counted only in its own event");
    cr_assert_eq(find(p, "weight_gradient", B, "mlp.in", 0)->flops, 2 * ROWS * IN * HIDDEN);
    cr_assert_str_eq(parent_name(p, e), "backward");

    e = find(p, "gelu", F, "mlp", 0);
    cr_assert_eq(e->bytes, 4 * 2 * ROWS * HIDDEN);
    cr_assert_str_eq(parent_name(p, e), "mlp");
    cr_assert_eq(find(p, "gelu", B, "mlp", 0)->bytes, 4 * 3 * ROWS * HIDDEN);
    cr_assert_eq(find(p, "sum", F, "", 0)->parent, 0);

    int64_t parameters = IN * HIDDEN + HIDDEN + HIDDEN * OUT;
    cr_assert_eq(find(p, "adam", BR_PROFILE_OPTIMIZER, "", 0)->bytes, 4 * 7 * parameters);
    cr_assert_not_null(find(p, "zero_grad", BR_PROFILE_OPTIMIZER, "", 1));
    cr_assert_eq(flops_under(p, br_profile_event_at(p, 0)),
                 2 * 2 * ROWS * (2 * IN * HIDDEN + 3 * HIDDEN * OUT));
    br_profile_free(p);
}

Test(profile, products_are_counted_exactly)
{
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_set_requires_grad(br_ones(BR_SHAPE(5, 3, 4), BR_F64), true);
    br_tensor *b = br_set_requires_grad(br_ones(BR_SHAPE(5, 4, 2), BR_F64), true);
    br_tensor *c = br_set_requires_grad(br_ones(BR_SHAPE(4, 2), BR_F64), true);
    br_profile *p = br_profile_begin();
    br_backward(br_sum(br_bmm(a, b)));
    br_backward(br_sum(br_matmul(a, c))); /* one operand is shared by the batch */
    br_matmul(br_select(br_select(a, 0, 0), 0, 0), br_select(c, 1, 0));
    br_matmul(br_t(c), b); /* a batch with a shared operand that is not computed as one product */
    br_matmul(br_transpose(b, 1, 2), c);
    cr_assert(br_profile_end(p));
    const br_profile_event *e = find(p, "bmm", BR_PROFILE_FORWARD, "", 0);
    cr_assert_eq(e->flops, 2 * 5 * 3 * 4 * 2);
    cr_assert_eq(e->bytes, 8 * (5 * 3 * 4 + 5 * 4 * 2 + 5 * 3 * 2));
    cr_assert_eq(flops_under(p, find(p, "bmm", BR_PROFILE_BACKWARD, "", 0)), 2 * 2 * 5 * 3 * 4 * 2);
    e = find(p, "matmul", BR_PROFILE_FORWARD, "", 0);
    cr_assert_eq(e->flops, 2 * 5 * 3 * 4 * 2);
    cr_assert_eq(e->bytes, 8 * (5 * 3 * 4 + 4 * 2 + 5 * 3 * 2));
    e = find(p, "matmul", BR_PROFILE_FORWARD, "", 1);
    cr_assert(e->flops == 2 * 4 && e->ndim == 0);
    for (int nth = 2; nth < 4; nth++) {
        e = find(p, "matmul", BR_PROFILE_FORWARD, "", nth);
        cr_assert_eq(e->flops, 2 * 5 * 2 * 4 * 2);
        cr_assert_eq(e->bytes, 8 * (4 * 2 + 5 * 4 * 2 + 5 * 2 * 2));
    }
    br_profile_free(p);
    br_scope_end(scope);
}

/* An element of the result is a sum of as many products as a group has weights for it; the
 * gradients have the same products. */
Test(profile, convolutions)
{
    enum { N = 2, IN_CHANNELS = 4, OUT_CHANNELS = 6, GROUPS = 2, H = 7, W = 6 };
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(N, IN_CHANNELS, H, W), BR_F32), true);
    br_tensor *w = br_ones(BR_SHAPE(OUT_CHANNELS, IN_CHANNELS / GROUPS, 3, 2), BR_F32);
    br_set_requires_grad(w, true);
    br_profile *p = br_profile_begin();
    br_tensor *y =
        br_f_conv2d(x, w, NULL, BR_OPTIONS(br_conv, .stride = { 2, 1 }, .groups = GROUPS));
    br_backward(br_sum(y));
    cr_assert(br_profile_end(p), "%s", br_error_message());
    const int64_t products = br_numel(y) * (IN_CHANNELS / GROUPS) * 3 * 2;
    const int64_t bytes = 4 * (br_numel(x) + br_numel(w) + br_numel(y));
    static const char *const names[] = { "convolution", "conv_transpose", "convolution_weight" };
    for (int i = 0; i < 3; i++) {
        const br_profile_event *e =
            find(p, names[i], i ? BR_PROFILE_BACKWARD : BR_PROFILE_FORWARD, "", 0);
        cr_expect_eq(e->flops, 2 * products, "%s: %lld", names[i], (long long)e->flops);
        cr_expect(i > 0 || e->bytes == bytes, "%lld",
                  (long long)e->bytes); /* gradients copy, too */
    }
    br_profile_free(p);
    br_scope_end(scope);
}

/* Backward reads x and dy for the sums, and again for dx. With given statistics, dx needs no x. */
Test(profile, gradients_of_batch_norm)
{
    enum { N = 3, C = 4, L = 5, ALL = N * C * L };
    for (int training = 0; training < 2; training++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(N, C, L), BR_F32), true);
        br_tensor *mean = br_zeros(BR_SHAPE(C), BR_F32), *var = br_ones(BR_SHAPE(C), BR_F32);
        br_profile *p = br_profile_begin();
        br_tensor *y = br_f_batch_norm(x, mean, var, NULL, NULL, training, 0.1, 1e-5);
        br_backward_with(y,
                         BR_OPTIONS(br_backward, .gradient = br_ones(BR_SHAPE(N, C, L), BR_F32)));
        cr_assert(br_profile_end(p), "%s", br_error_message());
        const br_profile_event *e = find(p, "batch_norm", BR_PROFILE_BACKWARD, "", 0);
        cr_expect_eq(e->bytes, 4 * (2 * ALL + C + 2 * ALL + (training ? ALL : 0)),
                     "%lld, training %d", (long long)e->bytes, training);
        br_profile_free(p);
        br_scope_end(scope);
    }
}

/* FLOPs are those of the scores and of the products with values, for pairs of query and key that
 * are not masked. Backward recomputes the scores. Besides the result, forward stores each query's
 * largest score and sum of exponentials. */
Test(profile, attention_is_counted_by_pairs)
{
    enum { B = 2, Q = 5, K = 3, W = 4, V = 6, CAUSAL = 1 + 2 + 3 + 3 + 3 };
    for (int causal = 0; causal < 2; causal++) {
        br_scope *scope = br_scope_begin();
        br_tensor *q = br_set_requires_grad(br_ones(BR_SHAPE(B, Q, W), BR_F32), true);
        br_tensor *k = br_ones(BR_SHAPE(B, K, W), BR_F32), *v = br_ones(BR_SHAPE(B, K, V), BR_F32);
        br_attention_options options = *BR_OPTIONS(br_attention, .is_causal = causal);
        br_profile *p = br_profile_begin();
        br_backward(br_sum(br_scaled_dot_product_attention(q, k, v, NULL, &options)));
        cr_assert(br_profile_end(p));
        int64_t pairs = B * (causal ? CAUSAL : Q * K);
        const char *name = "scaled_dot_product_attention";
        const br_profile_event *e = find(p, name, BR_PROFILE_FORWARD, "", 0);
        cr_assert_eq(e->flops, 2 * pairs * (W + V));
        cr_assert_eq(e->bytes, 4 * B * (Q * W + K * W + K * V + Q * V + 2 * Q));
        e = find(p, name, BR_PROFILE_BACKWARD, "", 0);
        cr_assert_eq(e->flops, 2 * pairs * (W + V + W));
        br_profile_free(p);
        br_scope_end(scope);
    }
}

/* Backward recomputes the scores, and computes only what the gradients need: a product with the
 * values for the gradient of the scores, and a product for each of query, key and value. */
Test(profile, gradients_of_attention_are_counted_as_needed)
{
    enum { B = 2, Q = 5, K = 3, W = 4, V = 6, PAIRS = B * Q * K };
    for (int set = 1; set < 16; set++) {
        br_scope *scope = br_scope_begin();
        const bool query = set & 1, key = set & 2, value = set & 4, mask = set & 8;
        br_tensor *q = br_set_requires_grad(br_ones(BR_SHAPE(B, Q, W), BR_F32), query);
        br_tensor *k = br_set_requires_grad(br_ones(BR_SHAPE(B, K, W), BR_F32), key);
        br_tensor *v = br_set_requires_grad(br_ones(BR_SHAPE(B, K, V), BR_F32), value);
        br_tensor *m = br_set_requires_grad(br_zeros(BR_SHAPE(Q, K), BR_F32), mask);
        br_profile *p = br_profile_begin();
        br_backward(br_sum(br_scaled_dot_product_attention(q, k, v, m, NULL)));
        cr_assert(br_profile_end(p));
        const br_profile_event *e =
            find(p, "scaled_dot_product_attention", BR_PROFILE_BACKWARD, "", 0);
        const int by_width = 1 + query + key, by_values = (query || key || mask) + value;
        cr_assert_eq(e->flops, 2 * PAIRS * (W * by_width + V * by_values), "set %d: %g", set,
                     e->flops);
        br_profile_free(p);
        br_scope_end(scope);
    }
}

/* Each operation of the table is one top-level event, with the shape of its result. */
Test(profile, every_operation_is_an_event)
{
    letter_sizes letters = default_letter_sizes();
    for_each_case(c)
    {
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_CASE_INPUTS] = { NULL };
        int n = case_num_inputs(c);
        for (int k = 0; k < n; k++)
            x[k] = case_input(c, k, &letters, BR_F32);
        br_profile *p = br_profile_begin();
        br_tensor *y = c->call(x, n, NULL);
        cr_assert(br_profile_end(p), "%s: %s", c->label, br_error_message());
        char name[64];
        case_op_name(c, name, sizeof name);
        const br_profile_event *e = NULL;
        bool several =
            strncmp(c->expression, "br_", 3) != 0; /* several results, which are concatenated */
        int64_t bytes = 0;                         /* of the event and of its inner events */
        for (int64_t k = 1; k < br_profile_count(p); k++) {
            const br_profile_event *event = br_profile_event_at(p, k);
            if (event->parent == 0 && (!several || strcmp(event->name, name) == 0)) {
                e = event;
                bytes = 0;
            }
            bytes += event->bytes;
        }
        cr_assert(e && strcmp(e->name, name) == 0, "%s is recorded as %s", c->label,
                  e ? e->name : "nothing");
        if (y != x[0] && !several) {
            cr_assert_eq(e->ndim, br_ndim(y), "%s has %d dimensions, not %d", c->label, e->ndim,
                         br_ndim(y));
            cr_assert_arr_eq(e->sizes, br_sizes(y), (size_t)e->ndim * sizeof *e->sizes, "%s",
                             c->label);
        }
        if (y != x[0] && !br_shares_storage(y, x[0]))
            cr_assert(bytes > 0, "%s accesses no memory", c->label);
        br_profile_free(p);
        br_scope_end(scope);
    }
}

/* Work that is divided among threads is counted in the thread that started it. */
static int64_t bytes_with_threads(int threads)
{
    br_set_num_threads(threads);
    br_scope *scope = br_scope_begin();
    br_tensor *weight = br_set_requires_grad(br_ones(BR_SHAPE(50, 300), BR_F32), true);
    br_tensor *index = br_randint(0, 50, BR_SHAPE(700));
    br_profile *p = br_profile_begin();
    br_tensor *x = br_f_embedding(weight, index, -1);
    x = br_contiguous(br_transpose(br_softmax(br_f_dropout(x, 0.5, true), -1), 0, 1));
    br_backward(br_mean(br_mul(x, x)));
    cr_assert(br_profile_end(p));
    const br_profile_event *add = find(p, "index_add", BR_PROFILE_BACKWARD, "", 0);
    cr_assert_eq(add->bytes, 3 * 4 * 700 * 300 + 8 * 700, "the bytes of all its tasks are counted");
    int64_t bytes = 0;
    for (int64_t i = 0; i < br_profile_count(p); i++)
        bytes += br_profile_event_at(p, i)->bytes;
    br_profile_free(p);
    br_scope_end(scope);
    return bytes;
}

Test(profile, counts_do_not_depend_on_threads)
{
    int64_t bytes = bytes_with_threads(1);
    cr_assert_gt(bytes, 700 * 300 * 4 * 20);
    for (int threads = 2; threads <= 3; threads++)
        cr_assert_eq(bytes_with_threads(threads), bytes);
}

Test(profile, a_transposed_copy_is_counted_once)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_transpose(br_ones(BR_SHAPE(37, 53), BR_F32), 0, 1);
    br_profile *p = br_profile_begin();
    br_contiguous(x);
    cr_assert(br_profile_end(p));
    cr_assert_eq(find(p, "contiguous", BR_PROFILE_FORWARD, "", 0)->bytes, 2 * 4 * 37 * 53);
    br_profile_free(p);
    br_scope_end(scope);
}

/* ---- Times ----------------------------------------------------------------------------------- */

Test(profile, times_add_up)
{
    br_profile *p = profile_steps(3);
    int64_t sum = 0, whole = br_profile_event_at(p, 0)->duration;
    for (int64_t i = 0; i < br_profile_count(p); i++) {
        const br_profile_event *e = br_profile_event_at(p, i);
        cr_assert(e->duration >= 0 && e->inner >= 0 && e->inner <= e->duration);
        sum += e->duration - e->inner;
        if (i == 0)
            continue;
        const br_profile_event *outer = br_profile_event_at(p, e->parent);
        cr_assert(e->parent < i && e->start >= outer->start &&
                  e->start + e->duration <= outer->start + outer->duration);
    }
    cr_assert_eq(sum, whole);
    for (br_profile_by by = BR_PROFILE_BY_OP; by <= BR_PROFILE_BY_MODULE; by++) {
        int64_t n;
        br_profile_row *rows = br_profile_rows(p, by, BR_PROFILE_SORT_TIME, &n);
        double self = 0, top = 0;
        for (int64_t i = 0; i < n; i++) {
            self += rows[i].self;
            top += rows[i].depth == 0 ? rows[i].total : 0;
            check_close(rows[i].phases[0] + rows[i].phases[1] + rows[i].phases[2], rows[i].total,
                        1e-12);
        }
        check_close(self, 1e-9 * (double)whole, 1e-12);
        check_close(top, 1e-9 * (double)whole, 1e-12);
        br_free(rows);
    }
    br_profile_free(p);
}

static const br_profile_row *row_named(const br_profile_row *rows, int64_t n, const char *name)
{
    for (int64_t i = 0; i < n; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

Test(profile, rows_are_trees)
{
    br_profile *p = profile_steps(2);
    int64_t n;
    br_profile_row *rows = br_profile_rows(p, BR_PROFILE_BY_MODULE, BR_PROFILE_SORT_ORDER, &n);
    const br_profile_row *root = row_named(rows, n, "mlp"), *in = row_named(rows, n, "mlp.in");
    cr_assert(root && in == root + 1 && strcmp(in[1].name, "mlp.out") == 0);
    cr_assert(root->depth == 0 && in->depth == 1 && root->calls == 2 && in->calls == 2);
    cr_assert_eq(in->flops, 2 * 2 * 2 * ROWS * IN * HIDDEN);
    cr_assert_eq(root->flops, 2 * 2 * ROWS * (2 * IN * HIDDEN + 3 * HIDDEN * OUT));
    cr_assert_gt(in->phases[BR_PROFILE_BACKWARD], 0);
    cr_assert_eq(in->phases[BR_PROFILE_OPTIMIZER], 0);
    cr_assert_gt(row_named(rows, n, "(outside modules)")->phases[BR_PROFILE_OPTIMIZER], 0);
    br_free(rows);

    rows = br_profile_rows(p, BR_PROFILE_BY_OP, BR_PROFILE_SORT_CALLS, &n);
    const br_profile_row *dw = row_named(rows, n, "weight_gradient");
    while (dw[-1].depth > 0)
        dw--;
    cr_assert(strcmp(dw[-1].name, "linear") == 0 && dw[-1].phase == BR_PROFILE_BACKWARD);
    cr_assert_eq(dw[-1].calls, 4);
    for (int64_t i = 0, calls = INT64_MAX; i < n; i++) {
        if (rows[i].depth > 0)
            continue;
        cr_assert_leq(rows[i].calls, calls);
        calls = rows[i].calls;
    }
    br_free(rows);
    br_profile_free(p);
}

typedef struct nested {
    br_module base;
    br_activation *inner;
} nested;

static br_tensor *sleep_in(br_activation *module, int milliseconds)
{
    br_enter(module);
    usleep((unsigned)milliseconds * 1000);
    return br_leave(module, NULL);
}

static br_tensor *sleep_in_inner(nested *self)
{
    br_enter(self);
    sleep_in(self->inner, 300);
    return br_leave(self, NULL);
}

/* Checks that the rows of the outer module and of the time outside modules are sorted by their
 * keys, and that the inner module follows the outer one. */
static void check_sorted(const br_profile_row *rows, bool by_self)
{
    const int outside = strcmp(rows[0].name, "(outside modules)") == 0 ? 0 : 2;
    const br_profile_row *outer = &rows[outside == 0], *inner = outer + 1, *rest = &rows[outside];
    cr_assert_str_eq(rest->name, "(outside modules)");
    cr_assert_str_eq(outer->name, "nested");
    cr_assert_str_eq(inner->name, "nested.inner");
    const double key = by_self ? outer->self : outer->total;
    const double other = by_self ? rest->self : rest->total;
    cr_assert(outside == 0 ? other >= key : key >= other, "by %s: %g and %g",
              by_self ? "self" : "time", key, other);
    cr_assert_geq(inner->self, 0.3);
    cr_assert_geq(rest->self, 0.1);
    check_close(outer->self, outer->total - inner->total, 1e-9);
}

/* The outer module's time is mostly that of the inner one, so the order by its own time differs. On
 * a busy machine the orders may be equal; each is compared with the measured times. */
Test(profile, rows_by_their_own_time)
{
    static const br_profile_sort sorts[] = { BR_PROFILE_SORT_TIME, BR_PROFILE_SORT_SELF };
    nested *outer = br_module_new(nested);
    outer->inner = br_child(outer, "inner", br_relu_new());
    br_profile *p = br_profile_begin();
    sleep_in_inner(outer);
    usleep(100000);
    cr_assert(br_profile_end(p));
    for (int i = 0; i < 2; i++) {
        int64_t n;
        br_profile_row *rows = br_profile_rows(p, BR_PROFILE_BY_MODULE, sorts[i], &n);
        cr_assert_eq(n, 3);
        check_sorted(rows, sorts[i] == BR_PROFILE_SORT_SELF);
        br_free(rows);
    }
    br_profile_free(p);
    br_module_free(outer);
}
