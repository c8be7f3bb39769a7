/* tests/ops/test_torch.c - compares results and gradients of the rows of torch_cases.def with
 * PyTorch's (torch_cases.txt), and checks that calls which PyTorch rejects are errors. */
#include "check/cases/op_cases.h"
#include "tests/ops/values.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(torch, .init = check_begin, .fini = check_end);

enum { MAX_INPUTS = 4, MAX_PARTS = 16 };

/* ---- Functions for use in expressions -------------------------------------------------------- */

static br_tensor *parts[MAX_PARTS];

static br_tensor *last_of(int n)
{
    return n > 0 ? parts[n - 1] : NULL;
}

/* Multiplies part i by i + 1. */
static int weigh(int n)
{
    for (int i = 0; i < n; i++)
        parts[i] = br_mul_scalar(parts[i], i + 1);
    return n;
}

static br_tensor *weighted(int n, int64_t dim)
{
    return br_cat(weigh(n), parts, dim);
}

static br_tensor *weighted_stack(int n)
{
    return br_stack(weigh(n), parts, 0);
}

/* Returns the inverse indices or the counts of br_unique_dim(). */
static br_tensor *unique_part(br_tensor *x, int64_t dim, bool inverse)
{
    br_tensor *other = NULL;
    br_unique_dim(x, dim, inverse ? &other : NULL, inverse ? NULL : &other);
    return other;
}

/* Returns the running mean and variance after a call of instance_norm. */
static br_tensor *running_after(br_tensor *x)
{
    br_tensor *mean = br_zeros(BR_SHAPE(br_size(x, 1)), BR_F64), *var = br_ones_like(mean);
    br_f_instance_norm(br_detach(x), mean, var, NULL, NULL, true, 0.25, 1e-5);
    return br_stack(BR_INPUTS(mean, var), 0);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

#define ROW_FUNCTION(label, theirs, expression, inputs) \
    static br_tensor *call_##label(br_tensor *const *x) \
    {                                                   \
        (void)x;                                        \
        return expression;                              \
    }
#define INPUTS(...) \
    {               \
        __VA_ARGS__ \
    }
#define AGREE  ROW_FUNCTION
#define REFUSE ROW_FUNCTION
#include "tests/ops/torch_cases.def"
#undef AGREE
#undef REFUSE

typedef struct row {
    const char *label;
    bool refused;
    br_tensor *(*call)(br_tensor *const *x);
    const char *inputs[MAX_INPUTS];
} row;

static const row rows[] = {
#define AGREE(label, theirs, expression, ...)  { #label, false, call_##label, __VA_ARGS__ },
#define REFUSE(label, theirs, expression, ...) { #label, true, call_##label, __VA_ARGS__ },
#include "tests/ops/torch_cases.def"
};

enum { NUM_ROWS = sizeof rows / sizeof *rows };

/* Leaves out the rows whose library is missing: labels of transforms begin with "fft_". */
static bool can_run(const row *r)
{
    return strncmp(r->label, "fft_", 4) != 0 || case_can_run(&(op_case){ .fftw = true });
}

/* Creates the same input as make_input() of record_cases.py. */
static br_tensor *make_input(const char *spec, int64_t seed)
{
    int64_t sizes[BR_MAX_DIMS];
    int ndim = 0;
    while (*spec == ' ' || isdigit((unsigned char)*spec)) {
        char *end;
        sizes[ndim++] = strtoll(spec, &end, 10);
        spec = end;
    }
    br_tensor *t = values(ndim, sizes, seed, BR_F64);
    if (*spec == '\0')
        return leaf(t);
    if (*spec == '+')
        return leaf(br_add_scalar(br_abs(t), 0.5));
    t = br_to(br_round(br_add_scalar(br_mul_scalar(t, 17), 50)), BR_I64);
    int64_t bound = *spec == '<' ? strtoll(spec + 1, NULL, 10) : 2, *n = br_data_i64(t);
    for (int64_t i = 0; i < br_numel(t); i++)
        n[i] %= bound;
    return *spec == '<' ? t : br_to(t, BR_BOOL);
}

static void make_inputs(const row *r, br_tensor **x)
{
    for (int i = 0; i < MAX_INPUTS; i++)
        x[i] = r->inputs[i] ? make_input(r->inputs[i], i + 1) : NULL;
}

/* ---- Recorded tensors ------------------------------------------------------------------------ */

/* Returns the tensor of a line if it begins with "label what ", else NULL. */
static br_tensor *recorded(const char *line, const char *label, const char *what)
{
    char start[96];
    int n = snprintf(start, sizeof start, "%s %s ", label, what), ndim = 0;
    if (strncmp(line, start, (size_t)n) != 0)
        return NULL;
    int64_t sizes[BR_MAX_DIMS];
    char *at = (char *)(uintptr_t)line + n;
    while (*at != ' ' && *at != '\n')
        if (*at == '.' || *at == 'x')
            at++;
        else
            sizes[ndim++] = strtoll(at, &at, 10);
    br_tensor *t = br_empty(ndim, sizes, BR_F64);
    for (int64_t i = 0; i < br_numel(t); i++)
        br_data_f64(t)[i] = strtod(at, &at);
    return t;
}

/* Checks that shape and elements agree; both may be NaN or the same infinity. */
static void check_agrees(const char *label, const char *what, br_tensor *got, br_tensor *want)
{
    cr_assert(got && !br_failed(), "%s, %s: %s", label, what, br_error_message());
    cr_expect(br_same_shape(got, want), "%s, %s: shapes differ", label, what);
    if (!br_same_shape(got, want))
        return;
    br_tensor *numbers = br_contiguous(br_to(br_detach(got), BR_F64));
    for (int64_t i = 0; i < br_numel(want); i++) {
        double g = br_data_f64(numbers)[i], w = br_data_f64(want)[i];
        bool same = g == w || (isnan(g) && isnan(w)) || fabs(g - w) <= 4e-14 * (1 + fabs(w));
        cr_expect(same, "%s, %s: element %lld is %.17g, expected %.17g", label, what, (long long)i,
                  g, w);
        if (!same)
            return;
    }
}

/* Returns the gradient with respect to x, or zeros if y does not depend on it. */
static br_tensor *gradient(br_tensor *y, br_tensor *x)
{
    br_tensor *dx = NULL, *dy = values(br_ndim(y), br_sizes(y), 9, BR_F64);
    br_grad_options options =
        *BR_OPTIONS(br_grad, .gradients = &dy, .retain_graph = true, .allow_unused = true);
    br_grad(1, &y, 1, &x, &dx, &options);
    return dx || br_failed() ? dx : br_zeros_like(x);
}

static int compare(const row *r, char *const *lines, int n_lines)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x[MAX_INPUTS];
    make_inputs(r, x);
    br_tensor *y = r->call(x);
    int compared = 0;
    for (int k = 0; k < n_lines; k++) {
        br_tensor *want = recorded(lines[k], r->label, "y");
        compared += want != NULL;
        if (want)
            check_agrees(r->label, "y", y, want);
        for (int i = 0; y && i < MAX_INPUTS; i++) {
            char what[8];
            snprintf(what, sizeof what, "dx%d", i);
            want = recorded(lines[k], r->label, what);
            if (want)
                check_agrees(r->label, what, gradient(y, x[i]), want);
        }
    }
    br_clear_error();
    br_scope_end(scope);
    return compared;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static char *lines[4096];

static int read_lines(void)
{
    FILE *file = fopen(BRASA_TEST_DIR "/ops/torch_cases.txt", "r");
    cr_assert_not_null(file);
    int n = 0;
    size_t capacity = 0;
    while (n < 4096 && getline(&lines[n], &capacity, file) > 0) {
        n++;
        capacity = 0;
    }
    free(lines[n]);
    fclose(file);
    cr_assert(n < 4096, "more lines than the test has room for");
    return n;
}

Test(torch, results_and_gradients)
{
    int n = read_lines();
    for (const row *r = rows; r < rows + NUM_ROWS; r++)
        if (!r->refused && can_run(r))
            cr_expect_eq(compare(r, lines, n), 1, "%s must be recorded exactly once", r->label);
    for (int i = 0; i < n; i++)
        free(lines[i]);
}

Test(torch, errors)
{
    for (const row *r = rows; r < rows + NUM_ROWS; r++) {
        if (!r->refused || !can_run(r))
            continue;
        br_scope *scope = br_scope_begin();
        br_tensor *x[MAX_INPUTS];
        make_inputs(r, x);
        cr_expect_null(r->call(x), "%s did not fail", r->label);
        cr_expect(strlen(br_error_message()) > 10, "%s: no message", r->label);
        br_clear_error();
        br_scope_end(scope);
    }
}
