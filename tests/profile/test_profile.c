/* Profiles: what is recorded, where, and that nothing is counted twice. */
#include "tests/memory.h"
#include "tests/op_cases.h"

#include <pthread.h>
#include <time.h>

TestSuite(profile, .init = check_begin, .fini = check_end);

/* ---- A model --------------------------------------------------------------------------------- */

enum { ROWS = 6, IN = 4, HIDDEN = 8, OUT = 3 };

typedef struct mlp {
    br_module base;
    br_linear *in, *out;
} mlp;

static br_tensor *mlp_forward(mlp *self, br_tensor *x)
{
    br_enter(self);
    x = br_gelu(br_linear_forward(self->in, x), BR_GELU_ERF);
    return br_leave(self, br_linear_forward(self->out, x));
}

static mlp *mlp_new(void)
{
    mlp *self = br_module_new(mlp);
    self->in = br_child(self, "in", br_linear_new(IN, HIDDEN, true));
    self->out = br_child(self, "out", br_linear_new(HIDDEN, OUT, false));
    return self;
}

/* A training step; the input asks for no gradient. */
static bool train_step(mlp *model, br_optim *optim)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(ROWS, IN), BR_F32);
    br_optim_zero_grad(optim);
    br_backward(br_sum(mlp_forward(model, x)));
    bool ok = br_optim_step(optim);
    br_scope_end(scope);
    return ok;
}

static br_profile *profile_steps(int steps)
{
    mlp *model = mlp_new();
    br_optim *optim = br_adam(br_base(model), NULL);
    train_step(model, optim);
    br_profile *profile = br_profile_begin();
    for (int i = 0; i < steps; i++)
        train_step(model, optim);
    bool ended = profile && br_profile_end(profile);
    br_optim_free(optim);
    br_module_free(br_base(model));
    if (ended)
        return profile;
    br_profile_free(profile);
    return NULL;
}

/* ---- Looking for events ---------------------------------------------------------------------- */

/* Event number `nth` of that name, phase and module; NULL if there are fewer. */
static const br_profile_event *find(const br_profile *p, const char *name, br_profile_phase phase,
                                    const char *module, int nth)
{
    for (int64_t i = 0; i < br_profile_count(p); i++) {
        const br_profile_event *e = br_profile_event_at(p, i);
        if (strcmp(e->name, name) == 0 && e->phase == phase && strcmp(e->module, module) == 0 &&
            nth-- == 0)
            return e;
    }
    return NULL;
}

static const char *parent_name(const br_profile *p, const br_profile_event *e)
{
    return br_profile_event_at(p, e->parent)->name;
}

/* FLOPs of an event and all inside it. */
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

/* ---- What is recorded ------------------------------------------------------------------------ */

Test(profile, a_step_is_seen_as_it_is)
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

    /* The input wants no gradient, so of the first layer only the weight's product is made. */
    e = find(p, "linear", B, "mlp.in", 0);
    cr_assert_eq(flops_under(p, e), 2 * ROWS * IN * HIDDEN);
    cr_assert_eq(flops_under(p, find(p, "linear", B, "mlp.out", 0)), 4 * ROWS * HIDDEN * OUT);
    cr_assert(e->ndim == 2 && e->sizes[1] == HIDDEN);
    cr_assert_eq(e->flops, 0, "products are counted where they are made");
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
    br_backward(br_sum(br_matmul(a, c))); /* one operand for the whole batch */
    br_matmul(br_select(br_select(a, 0, 0), 0, 0), br_select(c, 1, 0));
    br_matmul(br_t(c), b); /* batches that are not one product, with an operand for all */
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

/* Scores, and the products with values, of the queries and keys that see each other; the gradient
 * makes the scores again. */
Test(profile, attention_is_counted_by_pairs)
{
    enum { B = 2, Q = 5, K = 3, W = 4, V = 6, CAUSAL = 1 + 2 + 3 + 3 + 3 };
    for (int causal = 0; causal < 2; causal++) {
        br_scope *scope = br_scope_begin();
        br_tensor *q = br_set_requires_grad(br_ones(BR_SHAPE(B, Q, W), BR_F32), true);
        br_tensor *k = br_ones(BR_SHAPE(B, K, W), BR_F32), *v = br_ones(BR_SHAPE(B, K, V), BR_F32);
        br_attention_options options = { .is_causal = causal };
        br_profile *p = br_profile_begin();
        br_backward(br_sum(br_scaled_dot_product_attention(q, k, v, NULL, &options)));
        cr_assert(br_profile_end(p));
        int64_t pairs = B * (causal ? CAUSAL : Q * K);
        const char *name = "scaled_dot_product_attention";
        const br_profile_event *e = find(p, name, BR_PROFILE_FORWARD, "", 0);
        cr_assert_eq(e->flops, 2 * pairs * (W + V));
        cr_assert_eq(e->bytes, 4 * B * (Q * W + K * W + K * V + Q * V + Q));
        e = find(p, name, BR_PROFILE_BACKWARD, "", 0);
        cr_assert_eq(e->flops, 2 * pairs * (W + V + W));
        br_profile_free(p);
        br_scope_end(scope);
    }
}

/* Each operation of the table is one event at the top, with its result's shape. */
Test(profile, every_operation_is_an_event)
{
    letter_sizes letters = default_letter_sizes();
    for (int i = 0; i < num_op_cases; i++) {
        const op_case *c = &op_cases[i];
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
        if (strcmp(name, "zero_") == 0)
            strcpy(name, "fill_");
        const br_profile_event *e = NULL;
        bool several = strncmp(c->expression, "br_", 3) != 0; /* results, which are joined */
        int64_t bytes = 0; /* its own, and of those that it is composed of */
        for (int64_t k = 1; k < br_profile_count(p); k++) {
            const br_profile_event *event = br_profile_event_at(p, k);
            if (event->parent == 0 && (!several || strcmp(event->name, name) == 0)) {
                e = event;
                bytes = 0;
            }
            bytes += event->bytes;
        }
        cr_assert(e && strcmp(e->name, name) == 0, "%s is seen as %s", c->label,
                  e ? e->name : "nothing");
        if (y != x[0] && !several) {
            cr_assert_eq(e->ndim, br_ndim(y), "%s has %d dimensions, not %d", c->label, e->ndim,
                         br_ndim(y));
            cr_assert_arr_eq(e->sizes, br_sizes(y), (size_t)e->ndim * sizeof *e->sizes, "%s",
                             c->label);
        }
        if (y != x[0] && !br_shares_storage(y, x[0]))
            cr_assert(bytes > 0, "%s walks no memory", c->label);
        br_profile_free(p);
        br_scope_end(scope);
    }
}

/* Work that is shared among threads is counted in the thread that began it. */
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
    cr_assert_eq(add->bytes, 3 * 4 * 700 * 300 + 8 * 700, "its tasks are counted as well");
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

/* ---- Events that do not nest by themselves ----------------------------------------------------
 */

Test(profile, ranges_close_what_is_open_inside)
{
    cr_assert_eq(br_profile_range_begin("nothing runs"), 0);
    br_profile_range_end(0);
    br_profile *p = br_profile_begin();
    char name[] = "load";
    uint64_t outer = br_profile_range_begin(name), inner = br_profile_range_begin("read");
    strcpy(name, "----");
    br_profile_range_end(outer);
    br_profile_range_end(inner);
    uint64_t open = br_profile_range_begin(NULL);
    cr_assert(br_profile_end(p));
    cr_assert_eq(br_profile_count(p), 4);
    cr_assert_str_eq(br_profile_event_at(p, 1)->name, "load");
    cr_assert_eq(br_profile_event_at(p, 2)->parent, 1);
    cr_assert_eq(br_profile_event_at(p, 3)->parent, 0);

    br_profile *later = br_profile_begin();
    br_profile_range_begin("of its own");
    br_profile_range_end(outer);
    br_profile_range_end(open);
    br_profile_range_begin("inside");
    cr_assert(br_profile_end(later));
    cr_assert_eq(br_profile_event_at(later, 2)->parent, 1, "another profile's range closed ours");
    br_profile_free(later);
    br_profile_free(p);
}

static void wait(int milliseconds)
{
    nanosleep(&(struct timespec){ .tv_nsec = 1000000L * milliseconds }, NULL);
}

Test(profile, pauses_are_left_out)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(4), BR_F32);
    br_profile *p = br_profile_begin();
    uint64_t range = br_profile_range_begin("range");
    check_fails(br_profile_resume(p), "the profile is not paused");
    cr_assert(br_profile_pause(p));
    check_fails(br_profile_pause(p), "does not run in this thread");
    check_fails(br_profile_count(p) >= 0, "still runs");
    br_profile *other = br_profile_begin();
    check_fails(br_profile_resume(p), "a profile runs in this thread already");
    check_fails(br_profile_end(p), "does not run in this thread");
    br_profile_free(other);
    br_neg(x);
    wait(300);
    cr_assert(br_profile_resume(p));
    br_exp(x);
    br_profile_range_end(range);
    cr_assert(br_profile_pause(p));
    wait(300);
    cr_assert(br_profile_end(p), "a pause may be the end");
    cr_assert_eq(br_profile_count(p), 3);
    cr_assert_str_eq(br_profile_event_at(p, 2)->name, "exp");
    cr_assert_eq(br_profile_event_at(p, 2)->parent, 1);
    cr_assert_lt(br_profile_event_at(p, 0)->duration, 300000000);
    check_fails(br_profile_pause(NULL), "profile is NULL");
    check_fails(br_profile_resume(NULL), "profile is NULL");
    br_profile_free(p);
    br_scope_end(scope);
}

/* Begun and ended where modules and graphs are half done. */
Test(profile, may_begin_and_end_anywhere)
{
    mlp *model = mlp_new();
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(br_ones(BR_SHAPE(ROWS, IN), BR_F32), true);
    br_tensor *before = br_sum(mlp_forward(model, x));
    br_module_enter(br_base(model));
    br_profile *p = br_profile_begin();
    br_module_leave(br_base(model), NULL);
    br_backward(before);
    br_module_enter(br_base(model));
    cr_assert(br_profile_end(p));
    br_neg(x);
    br_module_leave(br_base(model), NULL);
    cr_assert_not_null(find(p, "linear", BR_PROFILE_BACKWARD, "", 0), "its forward is not known");
    cr_assert_null(find(p, "neg", BR_PROFILE_FORWARD, "", 0));

    /* A graph from one profile in another. */
    br_profile *second = br_profile_begin();
    br_tensor *y = br_sum(mlp_forward(model, x));
    cr_assert(br_profile_end(second));
    br_profile *third = br_profile_begin();
    br_backward(y);
    cr_assert(br_profile_end(third));
    cr_assert_not_null(find(third, "linear", BR_PROFILE_BACKWARD, "", 1));
    br_profile_free(p);
    br_profile_free(second);
    br_profile_free(third);
    br_scope_end(scope);
    br_module_free(br_base(model));
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(profile, wrong_use_is_refused)
{
    br_profile *p = br_profile_begin();
    check_fails(br_profile_begin(), "profile_begin: a profile runs in this thread already");
    check_fails(br_profile_event_at(p, 0), "still runs");
    check_fails(br_profile_count(p) >= 0, "still runs");
    check_fails(br_profile_print(stdout, p, NULL), "still runs");
    check_fails(br_profile_write_trace(p, "x.json"), "still runs");
    cr_assert(br_profile_end(p));
    check_fails(br_profile_end(p), "does not run in this thread");
    check_fails(br_profile_end(NULL), "profile is NULL");
    check_fails(br_profile_event_at(p, 1), "event 1 of 1");
    check_fails(br_profile_rows(p, BR_PROFILE_BY_OP, BR_PROFILE_SORT_TIME, NULL), "count is NULL");
    check_fails(br_profile_print(NULL, p, NULL), "stream is NULL");
    check_fails(br_profile_print(stdout, p, &(br_profile_print_options){ .steps = -1 }), "steps");
    check_fails(br_profile_write_trace(p, NULL), "path is NULL");
    check_fails(br_profile_write_trace(p, "/nowhere/trace.json"), "/nowhere/trace.json");
    check_fails(br_measure_peak(BR_F32, NULL), "peak is NULL");
    check_fails(br_measure_peak(BR_I64, &(br_peak){ 0 }), "f32 or f64");
    br_profile_free(p);
    br_profile_free(NULL);
    br_profile_free(br_profile_begin()); /* while it runs */
    br_profile *again = br_profile_begin();
    check_ok();

    br_raise(BR_ERROR_STATE, "planted");
    cr_assert_not(br_profile_end(again));
    cr_assert_null(br_profile_begin());
    br_clear_error();
    cr_assert_eq(br_profile_count(again), 1, "it has ended nevertheless");
    br_profile_free(again);
}

static bool whole_life(void)
{
    br_profile *p = profile_steps(1);
    FILE *nowhere = fopen("/dev/null", "w");
    bool ok =
        p && br_profile_print(nowhere, p, NULL) &&
        br_profile_print(nowhere, p, &(br_profile_print_options){ .by = BR_PROFILE_BY_MODULE }) &&
        br_profile_range_begin("none runs") == 0;
    fclose(nowhere);
    br_profile_free(p);
    return ok;
}

Test(profile, every_allocation_may_fail)
{
    fail_in_turn(whole_life, "profile");
}

/* Lost events are an error, and the profile is not taken for whole. */
Test(profile, lost_events_are_told)
{
    br_set_cache_limit(0);
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }));
    counted.left = INT64_MAX;
    br_profile *p = br_profile_begin();
    counted.left = 0;
    while (!br_failed())
        br_profile_range_end(br_profile_range_begin(""));
    cr_assert_eq(br_error_code(), BR_ERROR_MEMORY);
    counted.left = INT64_MAX;
    br_clear_error();
    br_profile_range_end(br_profile_range_begin(""));
    check_fails(br_profile_end(p), "memory failed after 1024 events");
    check_fails(br_profile_print(stdout, p, NULL), "the others are missing");
    br_profile_free(p);
    cr_assert_eq(counted.blocks, 0);
    cr_assert(br_set_allocator(NULL));
}

/* ---- Costs ----------------------------------------------------------------------------------- */

static int64_t allocations_of(int ops, br_tensor *x)
{
    int64_t before = counted.left;
    for (int i = 0; i < ops; i++) {
        br_scope *scope = br_scope_begin();
        br_neg(x);
        br_scope_end(scope);
    }
    return before - counted.left;
}

/* An event takes no allocation of its own; one in 1024 begins a new chunk. */
Test(profile, events_allocate_nothing)
{
    cr_assert(br_set_allocator(&(br_allocator){ counted_allocate, counted_deallocate, NULL }));
    counted.left = INT64_MAX;
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(8), BR_F32);
    allocations_of(100, x);
    int64_t without = allocations_of(900, x);
    br_profile *p = br_profile_begin();
    cr_assert_eq(allocations_of(900, x), without);
    cr_assert_leq(allocations_of(900, x), without + 2); /* a chunk, and the list of them */
    cr_assert(br_profile_end(p));
    cr_assert_eq(br_profile_count(p), 1801);
    br_profile_free(p);
    cr_assert_eq(allocations_of(900, x), without);
    br_scope_end(scope);
    br_thread_cleanup();
    br_empty_cache();
    cr_assert(br_set_allocator(NULL));
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *profile_alone(void *context)
{
    int64_t n = (intptr_t)context;
    br_profile *p = br_profile_begin();
    for (int64_t i = 0; i < n; i++) {
        br_scope *scope = br_scope_begin();
        br_neg(br_ones(BR_SHAPE(4), BR_F32));
        br_scope_end(scope);
    }
    bool ok = br_profile_end(p) && br_profile_count(p) == 1 + 2 * n;
    br_profile_free(p);
    br_thread_cleanup();
    return ok ? NULL : context;
}

static void *end_elsewhere(void *profile)
{
    bool refused = !br_profile_end(profile) && strstr(br_error_message(), "does not run in this");
    br_clear_error();
    br_thread_cleanup();
    return refused ? NULL : profile;
}

Test(profile, each_thread_has_its_own)
{
    enum { THREADS = 3 };
    pthread_t threads[THREADS];
    void *wrong;
    br_profile *p = br_profile_begin();
    for (intptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, profile_alone, (void *)(500 + 700 * i));
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &wrong);
        cr_assert_null(wrong);
    }
    pthread_create(&threads[0], NULL, end_elsewhere, p);
    pthread_join(threads[0], &wrong);
    cr_assert_null(wrong);
    cr_assert(br_profile_end(p));
    cr_assert_eq(br_profile_count(p), 1);
    br_profile_free(p);
}
