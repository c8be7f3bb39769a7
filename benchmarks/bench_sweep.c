/* benchmarks/bench_sweep.c - times operations on 1 to 10^7 elements.
 *
 * Every entry runs with 1, 10, ... 10^7 elements, counted in the result or, if that is smaller, in
 * the input. It runs forward without grad mode and, if it is differentiable, backward. The time
 * reported is the least of many short batches of calls, since other load on the machine can only
 * add to it. compare_kernels.py runs the same entries in PyTorch. Both generate the same inputs
 * from one seed, so that the results can be compared, too. */
#include "benchmarks/bench.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INPUTS = 3, LARGEST = 10000000 };

/* ---- Entries --------------------------------------------------------------------------------- */

/* Each letter of `inputs` is a tensor. With n elements: m is a matrix [r, c] with c up to 1000; p
 * is the same with values of 0.5 .. 1.5, u of 0 .. 1; b is the same of bools, z of integers 0 ..
 * 999, j of indices below c, c of complex numbers; s has rows of 10; d is [r / 10, 10, c]; v is one
 * row of 0.5 .. 1.5; a has symmetric positive definite matrices of 10 x 10; e has images [N, C, H,
 * W] with up to 10 channels of up to 100 x 100. Smaller: r is a row [c], o a sorted one, k is a
 * column [r, 1]; t and i are indices [r], below c and below r. For e: h is [C]; w is a kernel [C,
 * C, 3, 3]; y is a grid [N, H, W, 2]. */
typedef struct entry {
    const char *name, *inputs;
    br_tensor *(*call)(br_tensor **x);
} entry;

static br_tensor *fast_dropout(br_tensor *x)
{
    br_set_dropout_rng(BR_DROPOUT_FAST);
    br_tensor *y = br_f_dropout(x, 0.1, true);
    br_set_dropout_rng(BR_DROPOUT_PYTORCH);
    return y;
}

#define ENTRY(name, inputs, expression, torch)   \
    static br_tensor *call_##name(br_tensor **x) \
    {                                            \
        return expression;                       \
    }
#include "benchmarks/sweep_entries.def"
#undef ENTRY

#define ENTRY(name, inputs, expression, torch) { #name, inputs, call_##name },
static const entry entries[] = {
#include "benchmarks/sweep_entries.def"
    { "adam", "m", NULL },
};
enum { ENTRIES_COUNT = sizeof entries / sizeof *entries };

/* ---- Inputs ---------------------------------------------------------------------------------- */

static br_tensor *positive_definite(int64_t n)
{
    const int64_t k = n < 100 ? 1 : 10;
    br_tensor *x = br_randn(BR_SHAPE(n / (k * k), k, k), BR_F32);
    x = br_mul_scalar(br_add(x, br_transpose(x, 1, 2)), 0.5);
    return br_add(x, br_mul_scalar(br_eye(k, k, BR_F32), 10));
}

static br_tensor *of_images(char kind, int64_t n)
{
    const int64_t w = n < 100 ? n : 100, h = n / w < 100 ? n / w : 100;
    const int64_t c = n / w / h < 10 ? n / w / h : 10, batch = n / w / h / c;
    switch (kind) {
    case 'h':
        return br_randn(BR_SHAPE(c), BR_F32);
    case 'w':
        return br_randn(BR_SHAPE(c, c, 3, 3), BR_F32);
    case 'y':
        return br_sub_scalar(br_mul_scalar(br_rand(BR_SHAPE(batch, h, w, 2), BR_F32), 2), 1);
    default:
        return br_randn(BR_SHAPE(batch, c, h, w), BR_F32);
    }
}

static br_tensor *input(char kind, int64_t n)
{
    int64_t c = 1;
    while (c < 1000 && c * c < n)
        c *= 10;
    int64_t r = n / c, few = r < 10 ? r : 10, ten = n < 10 ? n : 10;
    switch (kind) {
    case 'p':
        return br_add_scalar(br_rand(BR_SHAPE(r, c), BR_F32), 0.5);
    case 'u':
        return br_rand(BR_SHAPE(r, c), BR_F32);
    case 'b':
        return br_gt_scalar(br_randn(BR_SHAPE(r, c), BR_F32), 0);
    case 'z':
        return br_randint(0, 1000, BR_SHAPE(r, c));
    case 'j':
        return br_randint(0, c, BR_SHAPE(r, c));
    case 'c':
        return br_randn(BR_SHAPE(r, c, 2), BR_F32);
    case 's':
        return br_randn(BR_SHAPE(n / ten, ten), BR_F32);
    case 'd':
        return br_randn(BR_SHAPE(r / few, few, c), BR_F32);
    case 'v':
        return br_add_scalar(br_rand(BR_SHAPE(n), BR_F32), 0.5);
    case 'r':
        return br_randn(BR_SHAPE(c), BR_F32);
    case 'o':
        return br_sort(br_randn(BR_SHAPE(c), BR_F32), 0, false, NULL);
    case 'k':
        return br_randn(BR_SHAPE(r, 1), BR_F32);
    case 't':
        return br_randint(0, c, BR_SHAPE(r));
    case 'i':
        return br_randint(0, r, BR_SHAPE(r));
    case 'a':
        return positive_definite(n);
    case 'm':
        return br_randn(BR_SHAPE(r, c), BR_F32);
    default:
        return of_images(kind, n);
    }
}

typedef struct subject {
    const entry *e;
    int n_inputs, n_requires_grad;
    br_tensor *x[MAX_INPUTS], *requires_grad[MAX_INPUTS];
    br_tensor *y, *dy; /* the result with its graph, and its gradient */
    br_optim *optim;
} subject;

/* ---- Phases ---------------------------------------------------------------------------------- */

static void forward(void *context)
{
    subject *s = context;
    br_scope *scope = br_no_grad_begin();
    s->e->call(s->x);
    br_scope_end(scope);
}

static void backward(void *context)
{
    subject *s = context;
    br_scope *scope = br_scope_begin();
    br_tensor *grads[MAX_INPUTS];
    br_grad_options options =
        *BR_OPTIONS(br_grad, .gradients = &s->dy, .retain_graph = true, .allow_unused = true);
    br_grad(1, &s->y, s->n_requires_grad, s->requires_grad, grads, &options);
    br_scope_end(scope);
}

static void step(void *context)
{
    subject *s = context;
    br_optim_step(s->optim);
}

/* Returns the sum of squares, a checksum of a result. */
static double squares(br_tensor *t)
{
    t = br_to(t, BR_F32);
    return br_item(br_sum(br_mul(t, t)));
}

typedef struct result {
    double ns, squares, bytes; /* bytes: minimum read and written; 0: unknown */
} result;

static result measure_forward(subject *s, double seconds)
{
    result r = { .ns = 1e9 * bench_minimum(forward, s, seconds) };
    br_manual_seed(1);
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = s->e->call(s->x);
    if (y) {
        r.squares = squares(y);
        r.bytes = bench_bytes(y);
        for (int i = 0; i < s->n_inputs; i++)
            r.bytes += bench_bytes(s->x[i]);
    }
    br_scope_end(scope);
    return r;
}

/* Returns ns = 0 if there is no gradient. */
static result measure_backward(subject *s, double seconds)
{
    result r = { 0 };
    for (int i = 0; i < s->n_inputs; i++)
        if (br_is_floating(s->x[i]))
            s->requires_grad[s->n_requires_grad++] = br_set_requires_grad(s->x[i], true);
    s->y = s->e->call(s->x);
    if (!s->y || !br_requires_grad(s->y))
        return r;
    s->dy = br_randn(br_ndim(s->y), br_sizes(s->y), br_dtype_of(s->y));
    r.ns = 1e9 * bench_minimum(backward, s, seconds);
    br_tensor *grads[MAX_INPUTS];
    br_grad_options options =
        *BR_OPTIONS(br_grad, .gradients = &s->dy, .retain_graph = true, .allow_unused = true);
    if (br_grad(1, &s->y, s->n_requires_grad, s->requires_grad, grads, &options))
        for (int i = 0; i < s->n_requires_grad; i++)
            r.squares += grads[i] ? squares(grads[i]) : 0;
    return r;
}

static result measure_step(subject *s, double seconds)
{
    result r = { .bytes = 7 * bench_bytes(s->x[0]) };
    br_named_tensor parameter = { "x", br_set_requires_grad(s->x[0], true) };
    br_set_grad(s->x[0], br_ones_like(s->x[0]));
    s->optim = br_adam_new(&(br_named_list){ 1, &parameter }, NULL);
    r.ns = 1e9 * bench_minimum(step, s, seconds);
    br_optim_free(s->optim);
    return r;
}

static result measure(const entry *e, bool of_backward, int64_t n, double seconds)
{
    result r = { 0 };
    if (of_backward && !e->call)
        return r;
    br_scope *scope = br_scope_begin();
    subject s = { .e = e, .n_inputs = (int)strlen(e->inputs) };
    br_manual_seed(0);
    for (int i = 0; i < s.n_inputs; i++)
        s.x[i] = input(e->inputs[i], n);
    r = (!e->call ? measure_step : of_backward ? measure_backward : measure_forward)(&s, seconds);
    br_scope_end(scope);
    return r;
}

static bool has_gradient(const entry *e)
{
    return measure(e, true, 1, 0).ns > 0;
}

/* ---- The command ----------------------------------------------------------------------------- */

static void print_row(const bench_options *o, const char *name, int64_t n, const result *r)
{
    double gbps = r->bytes / r->ns, share = 1e9 * gbps / bench_peak(BR_F32)->bytes;
    if (o->json) {
        json_t *row = json_pack("{ss si sI sf sf sf}", "name", name, "threads", o->threads, "n",
                                (json_int_t)n, "ns", r->ns, "gbps", gbps, "of_bandwidth", share);
        json_dumpf(row, stdout, JSON_REAL_PRECISION(6));
        json_decref(row);
        putchar('\n');
    } else if (r->bytes > 0) {
        printf("%-26s %9" PRId64 " %14.0f ns %8.2f GB/s %5.2f\n", name, n, r->ns, gbps, share);
    } else {
        printf("%-26s %9" PRId64 " %14.0f ns\n", name, n, r->ns);
    }
    fflush(stdout);
}

/* Answers each line "NAME PHASE N" of standard input with the time, the sum of squares and the
 * bytes, for comparisons. */
static int serve(double seconds)
{
    char name[64], phase[16];
    int64_t n;
    while (scanf("%63s %15s %" SCNd64, name, phase, &n) == 3) {
        const entry *e = entries;
        while (e < entries + ENTRIES_COUNT && strcmp(e->name, name) != 0)
            e++;
        if (e == entries + ENTRIES_COUNT || n < 1 || n > LARGEST) {
            fprintf(stderr, "brasa bench: no entry '%s' with %" PRId64 " elements\n", name, n);
            return 2;
        }
        result r = measure(e, strcmp(phase, "backward") == 0, n, seconds);
        if (br_failed())
            return cli_report();
        printf("%.9g %.9g %.9g\n", r.ns, r.squares, r.bytes);
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}

int bench_sweep(const bench_options *o)
{
    double seconds = o->seconds > 0 ? o->seconds : 0.005;
    if (o->serve)
        return serve(seconds);
    bench_heading(o, "%-26s %9s %17s %13s %s\n", "operation", "elements", "least time", "rate",
                  "of bandwidth");
    for (int i = 0; i < 2 * ENTRIES_COUNT; i++) {
        const entry *e = &entries[i / 2];
        char name[64];
        snprintf(name, sizeof name, "%s%s", e->name, i % 2 ? ".backward" : "");
        if ((i % 2 && !has_gradient(e)) || !bench_selected(o, name, NULL))
            continue;
        for (int64_t n = 1; n <= LARGEST; n *= 10) {
            result r = measure(e, i % 2, n, seconds);
            if (br_failed())
                return cli_report();
            print_row(o, name, n, &r);
        }
    }
    return bench_done(o);
}
