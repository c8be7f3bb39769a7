/* tests/ops/test_saved_values.c - backward after an input or a result of a function was changed in
 * place, for every row of op_cases.def, and for functions that a row cannot describe: those with
 * several results, such as indices, with running statistics, and recurrent layers. Backward must
 * report an error if the gradient needs the changed value, and otherwise must give the same
 * gradient as without the change. */
#include "tests/ops/cases.h"

#include <brasa/nn.h>

TestSuite(saved_values, .init = check_begin, .fini = check_end);

enum { MAX_INPUTS = 8, MAX_RESULTS = 3 };
/* Positions in the array x of a function's values, which begins with the inputs. The gradients are
 * those that backward is given. */
enum { RESULTS = MAX_INPUTS, GRADIENTS = RESULTS + MAX_RESULTS, NOTHING = GRADIENTS + MAX_RESULTS };
#define INPUT(i)  (1u << (i))
#define RESULT(i) (1u << (RESULTS + (i)))

/* A function under test. `make` writes the inputs to x, `run` the results to x[RESULTS ...]. */
typedef struct subject {
    const char *label;
    int n_inputs;
    const void *arguments; /* for make and run */
    void (*make)(const struct subject *s, br_tensor **x);
    void (*run)(const struct subject *s, br_tensor **x);
    unsigned constant; /* the values that never require grad */
    unsigned right;    /* the values whose change must not cause an error, as in PyTorch */
    unsigned fails;    /* the values whose change must cause an error, if it is made outside grad
                          mode and all inputs require grad */
    unsigned optional; /* the inputs that may be NULL */
} subject;

/* Which value is changed, and how. */
typedef struct change {
    int target;        /* a position in x, or NOTHING */
    bool of_leaves;    /* the inputs are leaves; otherwise they are results of an operation */
    bool recorded;     /* the change is made in grad mode */
    bool create_graph; /* backward runs with create_graph */
    bool second;       /* the change is made between the first and the second-order backward */
    int only;          /* the only input that requires grad; ALL: all do; FEWER: all do, and the
                          last optional input is NULL */
} change;

enum { FEWER = -2, ALL = -1 };

static bool can_require_grad(const subject *s, int i, const br_tensor *x)
{
    return x && br_is_floating(x) && !(s->constant & INPUT(i));
}

/* A leaf is changed through an alias, since it cannot be changed in grad mode itself. */
static void change_in_place(br_tensor *t, bool recorded)
{
    if (!t) /* this call has no such value */
        return;
    br_scope *scope = recorded ? br_enable_grad_begin() : br_no_grad_begin();
    if (br_is_leaf(t) && br_requires_grad(t))
        t = br_detach(t);
    if (br_is_floating(t))
        br_add_scalar_(t, 1);
    else
        br_zero_(t);
    br_scope_end(scope);
}

/* Makes the inputs. Writes the leaves that require grad to `wanted` and returns their number. */
static int make_values(const subject *s, const change *how, br_tensor **x, br_tensor **wanted)
{
    int n = 0;
    s->make(s, x);
    for (int i = 0; i < s->n_inputs; i++) {
        if (how->only == FEWER && s->optional >> i == 1)
            x[i] = NULL;
        if (!can_require_grad(s, i, x[i]) || (how->only >= 0 && how->only != i))
            continue;
        br_set_requires_grad(x[i], true);
        wanted[n++] = x[i];
        x[i] = how->of_leaves ? x[i] : br_mul_scalar(x[i], 1);
    }
    return n;
}

/* Computes the gradients of the sum of squares of dx; changes a value before. */
static bool second_gradients(const change *how, br_tensor **x, int n, br_tensor **wanted,
                             br_tensor **dx)
{
    br_tensor *sum = NULL;
    for (int i = 0; i < n; i++) {
        br_tensor *part = br_sum(br_mul(dx[i], dx[i]));
        sum = sum ? br_add(sum, part) : part;
    }
    if (!br_requires_grad(sum))
        return !br_failed();
    if (how->target != NOTHING)
        change_in_place(x[how->target], how->recorded);
    const br_grad_options *options =
        BR_OPTIONS(br_grad, .allow_unused = true, .materialize_grads = true);
    return br_grad(1, &sum, n, wanted, dx, options);
}

/* Returns the gradients with respect to the leaves, concatenated into one tensor; NULL on error. */
static br_tensor *gradients_of(const subject *s, const change *how)
{
    br_tensor *x[NOTHING] = { NULL }, *wanted[MAX_INPUTS], *dx[MAX_INPUTS];
    br_tensor *y[MAX_RESULTS], *dy[MAX_RESULTS];
    int n = make_values(s, how, x, wanted), n_results = 0;
    s->run(s, x);
    if (br_failed())
        return NULL;
    if (!how->second && how->target != NOTHING)
        change_in_place(x[how->target], how->recorded);
    for (int i = 0; i < MAX_RESULTS && !br_failed(); i++) {
        br_tensor *result = x[RESULTS + i];
        if (!result || !br_requires_grad(result))
            continue;
        x[GRADIENTS + i] =
            br_sub_scalar(br_rand(br_ndim(result), br_sizes(result), br_dtype_of(result)), 0.5);
        y[n_results] = result;
        dy[n_results++] = x[GRADIENTS + i];
    }
    if (n == 0 || n_results == 0)
        return br_failed() ? NULL : br_zeros(BR_SHAPE(1), BR_F64);
    const br_grad_options *options =
        BR_OPTIONS(br_grad, .gradients = dy, .create_graph = how->create_graph || how->second,
                   .allow_unused = true, .materialize_grads = true);
    if (!br_grad(n_results, y, n, wanted, dx, options) ||
        (how->second && !second_gradients(how, x, n, wanted, dx)))
        return NULL;
    for (int i = 0; i < n; i++)
        dx[i] = br_flatten(br_detach(dx[i]), 0, -1);
    return br_cat(n, dx, 0);
}

static const char *name_of(const change *how)
{
    static char name[160];
    const char *kind = how->target >= GRADIENTS ? "gradient"
                       : how->target >= RESULTS ? "result"
                                                : "input";
    const int first = how->target >= GRADIENTS ? GRADIENTS : how->target >= RESULTS ? RESULTS : 0;
    snprintf(name, sizeof name, "%s %d changed %s grad mode%s%s%s, gradient of %d", kind,
             how->target - first, how->recorded ? "in" : "outside",
             how->of_leaves ? ", of leaves" : "", how->create_graph ? ", with create_graph" : "",
             how->second ? ", before the second backward" : "", how->only);
    return name;
}

/* Returns true if the change itself failed, because the result is a view of a leaf, or has several
 * elements in the same memory. */
static bool cannot_change(const change *how)
{
    const char *message = br_error_message();
    return how->target >= RESULTS &&
           (strstr(message, "several elements share memory") ||
            (how->of_leaves && how->recorded && strstr(message, "leaf that requires grad")));
}

static void check_error(const subject *s, const change *how)
{
    cr_expect(br_error_code() == BR_ERROR_STATE &&
                  (strstr(br_error_message(), "changed in place") || cannot_change(how)),
              "%s, %s: %s", s->label, name_of(how), br_error_message());
    cr_expect(!(s->right & (1u << how->target)), "%s, %s: %s", s->label, name_of(how),
              br_error_message());
}

static void check_gradients(const subject *s, const change *how, br_tensor *got, br_tensor *want)
{
    /* NaN in both counts as equal. */
    br_tensor *same =
        br_logical_or(br_eq(got, want), br_logical_and(br_ne(got, got), br_ne(want, want)));
    cr_expect(br_item(br_all(same)) == 1, "%s, %s: the gradient differs", s->label, name_of(how));
    cr_expect(!br_failed(), "%s, %s: %s", s->label, name_of(how), br_error_message());
    bool must_fail = !how->recorded && !how->second && how->only == ALL;
    cr_expect(!must_fail || !(s->fails & (1u << how->target)), "%s, %s: backward succeeds",
              s->label, name_of(how));
}

/* Returns 1 if backward reported an error, else 0. */
static int check_change(const subject *s, const change *how)
{
    br_scope *scope = br_scope_begin();
    change nothing = *how;
    nothing.target = NOTHING;
    br_tensor *want = gradients_of(s, &nothing);
    bool compared = want != NULL;
    if (!want)
        cr_expect(strstr(br_error_message(), "cannot be differentiated again"), "%s: %s", s->label,
                  br_error_message());
    br_clear_error();
    br_tensor *got = compared ? gradients_of(s, how) : NULL;
    bool refused = compared && !got;
    if (refused)
        check_error(s, how);
    else if (compared)
        check_gradients(s, how, got, want);
    br_clear_error();
    br_scope_end(scope);
    return refused;
}

/* ---- Operations of op_cases.def -------------------------------------------------------------- */

static void make_case(const subject *s, br_tensor **x)
{
    letter_sizes letters = default_letter_sizes();
    make_inputs(s->arguments, &letters, BR_F64, x);
}

static void run_case(const subject *s, br_tensor **x)
{
    x[RESULTS] = call(s->arguments, x);
}

static subject subject_of(const op_case *c)
{
    return (subject){ .label = c->label,
                      .n_inputs = case_num_inputs(c),
                      .arguments = c,
                      .make = make_case,
                      .run = run_case,
                      .optional = (unsigned)c->optional };
}

/* ---- Functions with indices ------------------------------------------------------------------ */

/* Writes the values to x[RESULTS] and their indices after them. */
typedef br_tensor *(*indexed_fn)(br_tensor *x, br_tensor **indices);

static br_tensor *max_dim(br_tensor *x, br_tensor **indices)
{
    return br_max_dim(x, 1, false, indices);
}

static br_tensor *min_dim(br_tensor *x, br_tensor **indices)
{
    return br_min_dim(x, -1, true, indices);
}

static br_tensor *median_dim(br_tensor *x, br_tensor **indices)
{
    return br_median_dim(x, 1, false, indices);
}

static br_tensor *sort(br_tensor *x, br_tensor **indices)
{
    return br_sort(x, 1, true, indices);
}

static br_tensor *topk(br_tensor *x, br_tensor **indices)
{
    return br_topk(x, 2, -1, true, indices);
}

static br_tensor *max_pool1d(br_tensor *x, br_tensor **indices)
{
    return br_f_max_pool1d(x, BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(2, 2)), indices);
}

static br_tensor *max_pool2d(br_tensor *x, br_tensor **indices)
{
    return br_f_max_pool2d(x, BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(2, 2)), indices);
}

/* The elements differ from each other. */
static void make_distinct(const subject *s, br_tensor **x)
{
    (void)s;
    br_manual_seed(CASE_SEED);
    x[0] = br_to(br_reshape(br_randperm(3 * 4 * 6), BR_SHAPE(3, 4, 6)), BR_F64);
}

static void run_indexed(const subject *s, br_tensor **x)
{
    indexed_fn function = *(const indexed_fn *)s->arguments;
    x[RESULTS] = function(x[0], &x[RESULTS + 1]);
}

#define INDEXED(function)                                                                        \
    {                                                                                            \
        .label = #function " indices", .n_inputs = 1,                                            \
        .arguments = &(const indexed_fn){ function }, .make = make_distinct, .run = run_indexed, \
        .right = INPUT(0), .fails = RESULT(1)                                                    \
    }

/* ---- Running statistics ---------------------------------------------------------------------- */

/* The inputs are x, running_mean, running_var, weight and bias. The gradient uses copies of the
 * statistics, so they may change, as they do in the next forward. */
typedef br_tensor *(*norm_fn)(br_tensor *x, br_tensor *running_mean, br_tensor *running_var,
                              br_tensor *weight, br_tensor *bias, bool training, double momentum,
                              double eps);
typedef struct norm {
    norm_fn function;
    bool training;
} norm;

static void make_norm(const subject *s, br_tensor **x)
{
    (void)s;
    br_manual_seed(CASE_SEED);
    x[0] = br_randn(BR_SHAPE(4, 3, 5), BR_F64);
    for (int i = 1; i < 5; i++)
        x[i] = br_add_scalar(br_rand(BR_SHAPE(3), BR_F64), 0.5);
}

static void run_norm(const subject *s, br_tensor **x)
{
    const norm *n = s->arguments;
    x[RESULTS] = n->function(x[0], x[1], x[2], x[3], x[4], n->training, 0.1, 1e-5);
}

#define NORM(name, function, training)                                                        \
    {                                                                                         \
        .label = name, .n_inputs = 5, .arguments = &(const norm){ function, training },       \
        .make = make_norm, .run = run_norm, .constant = INPUT(1) | INPUT(2),                  \
        .optional = INPUT(3) | INPUT(4), .right = INPUT(1) | INPUT(2) | INPUT(4) | RESULT(0), \
        .fails = INPUT(0) | INPUT(3)                                                          \
    }

/* ---- Attention with a bool mask -------------------------------------------------------------- */

/* PyTorch allows that a bool mask changes, since it makes a float mask of it. Brasa saves the mask
 * itself, as memory must be linear in the length, and reports an error. */
static void make_attention(const subject *s, br_tensor **x)
{
    (void)s;
    br_manual_seed(CASE_SEED);
    x[0] = br_randn(BR_SHAPE(2, 4, 3), BR_F64);
    x[1] = br_randn(BR_SHAPE(2, 5, 3), BR_F64);
    x[2] = br_randn(BR_SHAPE(2, 5, 2), BR_F64);
    x[3] = br_ge_scalar(br_rand(BR_SHAPE(4, 5), BR_F64), 0.3);
}

/* The mask is expanded along the batch. */
static void run_attention(const subject *s, br_tensor **x)
{
    (void)s;
    br_tensor *mask = br_expand(x[3], BR_SHAPE(2, -1, -1));
    x[RESULTS] = br_scaled_dot_product_attention(x[0], x[1], x[2], mask, NULL);
}

/* ---- Recurrent layers ------------------------------------------------------------------------ */

/* The inputs are x, h_0, c_0 or the lengths, and the weights of one direction of one layer. */
typedef struct recurrent {
    br_rnn *(*make)(int64_t input_size, int64_t hidden_size, const br_rnn_options *options);
    br_rnn_options options;
    int direction; /* counted over all layers */
    bool lengths;
} recurrent;

enum { PER_DIRECTION = 5, IN = 2, HIDDEN = 3, STEPS = 3, BATCH = 2 };

static bool has_cells(const recurrent *r)
{
    return r->make == br_lstm_new && !r->lengths;
}

static br_rnn *new_layer(const recurrent *r)
{
    br_manual_seed(CASE_SEED);
    br_rnn *layer = r->make(IN, HIDDEN, &r->options);
    br_module_to(br_base(layer), BR_F64);
    return layer;
}

static void make_recurrent(const subject *s, br_tensor **x)
{
    const recurrent *r = s->arguments;
    br_rnn *layer = new_layer(r);
    const int64_t states = r->options.num_layers * (r->options.bidirectional ? 2 : 1);
    const int64_t size = r->options.proj_size ? r->options.proj_size : HIDDEN;
    x[0] = br_randn(BR_SHAPE(STEPS, BATCH, IN), BR_F64);
    x[1] = br_randn(BR_SHAPE(states, BATCH, size), BR_F64);
    x[2] = r->lengths     ? br_from_i64(BR_SHAPE(BATCH), (int64_t[]){ STEPS, STEPS - 1 })
           : has_cells(r) ? br_randn(BR_SHAPE(states, BATCH, HIDDEN), BR_F64)
                          : NULL;
    for (int i = 0; i < PER_DIRECTION; i++) {
        br_tensor *weight = layer->weights[r->direction * PER_DIRECTION + i];
        x[3 + i] = weight ? br_clone(br_detach(weight)) : NULL;
    }
    br_module_free(layer);
}

/* Calls a layer whose weights are replaced by the inputs. */
static void run_recurrent(const subject *s, br_tensor **x)
{
    const recurrent *r = s->arguments;
    br_tensor **y = x + RESULTS;
    br_rnn *layer = new_layer(r);
    for (int i = 0; i < PER_DIRECTION; i++)
        layer->weights[r->direction * PER_DIRECTION + i] = x[3 + i];
    y[0] = r->lengths ? br_rnn_forward_lengths(layer, x[0], x[2], x[1], NULL, &y[1], &y[2])
                      : br_rnn_forward(layer, x[0], x[1], x[2], &y[1], &y[2]);
    br_module_free(layer);
}

#define RNN_OPTIONS(...)                                                 \
    {                                                                    \
        .struct_size = sizeof(br_rnn_options), .bias = true, __VA_ARGS__ \
    }

/* PyTorch allows that the biases, the lengths and the results change. */
#define RECURRENT(name, maker, direction, lengths, ...)                                           \
    {                                                                                             \
        .label = name, .n_inputs = 8,                                                             \
        .arguments = &(const recurrent){ maker, RNN_OPTIONS(__VA_ARGS__), direction, lengths },   \
        .make = make_recurrent, .run = run_recurrent,                                             \
        .right =                                                                                  \
            INPUT(5) | INPUT(6) | RESULT(0) | RESULT(1) | RESULT(2) | ((lengths) ? INPUT(2) : 0), \
        .fails = INPUT(0) | INPUT(1) | INPUT(3) | INPUT(4)                                        \
    }

/* ---- The functions that have no row in op_cases.def ------------------------------------------ */

static const subject others[] = {
    INDEXED(max_dim),
    INDEXED(min_dim),
    INDEXED(median_dim),
    INDEXED(sort),
    INDEXED(topk),
    INDEXED(max_pool1d),
    INDEXED(max_pool2d),
    NORM("batch_norm, training", br_f_batch_norm, true),
    NORM("batch_norm, evaluation", br_f_batch_norm, false),
    NORM("instance_norm, training", br_f_instance_norm, true),
    NORM("instance_norm, evaluation", br_f_instance_norm, false),
    { "attention, bool mask", 4, NULL, make_attention, run_attention,
      .fails = INPUT(0) | INPUT(1) | INPUT(2) | INPUT(3) | RESULT(0) },
    RECURRENT("RNN", br_rnn_new, 0, false, .num_layers = 1),
    RECURRENT("RNN, relu", br_rnn_new, 0, false, .num_layers = 1, .relu = true),
    RECURRENT("LSTM", br_lstm_new, 0, false, .num_layers = 1),
    RECURRENT("GRU", br_gru_new, 0, false, .num_layers = 1),
    RECURRENT("RNN, lengths", br_rnn_new, 0, true, .num_layers = 1),
    RECURRENT("LSTM, lengths", br_lstm_new, 0, true, .num_layers = 1),
    RECURRENT("GRU, lengths", br_gru_new, 0, true, .num_layers = 1),
    RECURRENT("LSTM, projected", br_lstm_new, 0, false, .num_layers = 1, .proj_size = 2),
    RECURRENT("LSTM, two layers", br_lstm_new, 0, false, .num_layers = 2, .dropout = 0.5),
    RECURRENT("GRU, two directions", br_gru_new, 1, false, .num_layers = 1, .bidirectional = true),
};

static const int num_others = (int)(sizeof others / sizeof *others);

/* ---- The walk -------------------------------------------------------------------------------- */

/* Changes each value in each way, and counts the errors by how the value is changed:
 * refused[recorded + 2 create_graph]. */
static void walk(const subject *s, bool second, int *refused)
{
    for (int only = s->optional ? FEWER : ALL; only < s->n_inputs; only++)
        for (int k = 0; k < 8 * NOTHING; k++) {
            const change how = { .target = k / 8,
                                 .of_leaves = k & 1,
                                 .recorded = k & 2,
                                 .create_graph = k & 4,
                                 .second = second,
                                 .only = only };
            /* A change of a gradient before the first backward changes the result. */
            const bool exists =
                how.target < RESULTS ? how.target < s->n_inputs : second || how.target < GRADIENTS;
            if (exists && !(second && how.create_graph))
                refused[k / 2 % 4] += check_change(s, &how);
        }
}

static void walk_all(bool second, int kinds)
{
    int refused[4] = { 0 };
    for_each_case(c)
    {
        const subject s = subject_of(c);
        if (!c->no_gradient)
            walk(&s, second, refused);
    }
    for (int i = 0; i < num_others; i++)
        walk(&others[i], second, refused);
    for (int i = 0; i < kinds; i++)
        cr_expect_gt(refused[i], 500, "only %d changes caused an error", refused[i]);
}

Test(saved_values, changed_before_backward)
{
    walk_all(false, 4);
}

Test(saved_values, changed_before_the_second_backward)
{
    walk_all(true, 2);
}

/* A forward in training changes the statistics, which another operation may have saved. */
Test(saved_values, running_statistics_saved_by_another_operation)
{
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < 4; i++) {
        const norm_fn function = i < 2 ? br_f_batch_norm : br_f_instance_norm;
        br_tensor *x[5];
        make_norm(NULL, x);
        br_tensor *weight = br_set_requires_grad(br_ones_like(x[1]), true);
        br_tensor *loss = br_sum(br_mul(weight, x[1 + i % 2]));
        function(x[0], x[1], x[2], NULL, NULL, true, 0.1, 1e-5);
        check_fails(br_backward(loss), i < 2 ? "was changed in place by batch_norm"
                                             : "was changed in place by instance_norm");
    }
    br_scope_end(scope);
}
