/* benchmarks/bench_kernels.c - times every row of check/cases/op_cases.def. */
#include "benchmarks/bench.h"
#include "check/cases/op_cases.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct subject {
    const op_case *c;
    br_tensor *x[MAX_CASE_INPUTS];
    br_tensor *y, *dy; /* backward: the result with its graph, and its gradient */
} subject;

static void forward(void *context)
{
    subject *s = context;
    br_scope *scope = br_no_grad_begin();
    s->c->call(s->x, case_num_inputs(s->c), NULL);
    br_scope_end(scope);
}

static void backward(void *context)
{
    subject *s = context;
    br_scope *scope = br_scope_begin();
    br_tensor *requires_grad[MAX_CASE_INPUTS], *grads[MAX_CASE_INPUTS];
    int n = 0;
    for (int i = 0; i < case_num_inputs(s->c); i++)
        if (br_requires_grad(s->x[i]))
            requires_grad[n++] = s->x[i];
    br_grad_options options =
        *BR_OPTIONS(br_grad, .gradients = &s->dy, .retain_graph = true, .allow_unused = true);
    br_grad(1, &s->y, n, requires_grad, grads, &options);
    br_scope_end(scope);
}

/* Returns the minimum number of bytes that a call must read and write, as the profiler counts them.
 * This is 0 for a call that only creates views or passes gradients through. */
static double traffic(void (*f)(void *context), subject *s)
{
    double bytes = 0;
    br_profile *profile = br_profile_begin();
    f(s);
    br_profile_end(profile);
    for (int64_t i = 0, n = br_profile_count(profile); i < n; i++)
        bytes += (double)br_profile_event_at(profile, i)->bytes;
    br_profile_free(profile);
    return bytes;
}

/* Returns the number of multiply-adds: the product of the sizes of all letters in the shapes. */
static double units(const op_case *c, const letter_sizes *letters)
{
    double n = 1;
    bool seen[128] = { false };
    for (int i = 0; i < case_num_inputs(c); i++)
        for (const char *p = c->inputs[i].shape; *p && *p != '<'; p++)
            if (!seen[*p & 127]) {
                seen[*p & 127] = true;
                n *= (double)letters->of[*p & 127];
            }
    return n;
}

static void shapes(const subject *s, char *buffer, size_t size)
{
    size_t used = 0;
    buffer[0] = '\0';
    for (int i = 0; i < case_num_inputs(s->c) && used < size; i++) {
        char one[128];
        used += (size_t)snprintf(buffer + used, size - used, "%s%s", i ? " " : "",
                                 br_shape_string(s->x[i], one, sizeof one));
    }
}

static void print_row(const bench_options *o, const subject *s, const char *suffix, br_dtype dtype,
                      bench_times t, double work, double bytes)
{
    char name[96], shape[256];
    snprintf(name, sizeof name, "%s%s", s->c->label, suffix);
    shapes(s, shape, sizeof shape);
    double gflops = work / t.median * 1e-9, gbps = bytes / t.median * 1e-9;
    double of_peak = work > 0 ? gflops / (1e-9 * bench_peak(dtype)->flops)
                              : gbps / (1e-9 * bench_peak(dtype)->bytes);
    if (!o->json) {
        printf("%-28s %-38s %11.1f us", name, shape, t.median * 1e6);
        if (work > 0 || bytes > 0)
            printf(" %9.2f %-7s %5.2f\n", work > 0 ? gflops : gbps, work > 0 ? "GFLOP/s" : "GB/s",
                   of_peak);
        else
            printf(" %9s\n", "-");
        fflush(stdout);
        return;
    }
    json_t *row =
        json_pack("{ss ss ss si sf sf sf sf sf}", "name", name, "shape", shape, "dtype",
                  br_dtype_name(dtype), "threads", o->threads, "median_us", t.median * 1e6,
                  "min_us", t.min * 1e6, "gflops", gflops, "gbps", gbps, "of_peak", of_peak);
    json_dumpf(row, stdout, JSON_REAL_PRECISION(6));
    json_decref(row);
    putchar('\n');
    fflush(stdout);
}

static void bench_case(const bench_options *o, const op_case *c, br_dtype dtype)
{
    letter_sizes letters = bench_letter_sizes(c);
    br_scope *scope = br_scope_begin();
    subject s = { .c = c };
    br_manual_seed(0);
    for (int i = 0; i < case_num_inputs(c); i++)
        s.x[i] = case_input(c, i, &letters, dtype);
    double seconds = o->seconds > 0 ? o->seconds : 0.2;
    bench_times t = bench_measure(forward, &s, seconds);

    for (int i = 0; i < case_num_inputs(c); i++)
        if (!c->no_gradient && br_is_floating(s.x[i]))
            br_set_requires_grad(s.x[i], true);
    s.y = c->call(s.x, case_num_inputs(c), NULL);
    if (s.y) {
        double work = units(c, &letters) * c->flops_per_unit;
        print_row(o, &s, "", dtype, t, work, traffic(forward, &s));
        if (br_requires_grad(s.y) && !br_is_leaf(s.y)) {
            s.dy = br_ones_like(s.y);
            t = bench_measure(backward, &s, seconds);
            int n = 0; /* a matrix product has one product per gradient */
            for (int i = 0; i < case_num_inputs(c); i++)
                n += br_requires_grad(s.x[i]) && br_ndim(s.x[i]) > 1;
            work *= n;
            if (c->backward_flops_per_unit > 0)
                work = units(c, &letters) * c->backward_flops_per_unit;
            print_row(o, &s, ".backward", dtype, t, work, traffic(backward, &s));
        }
    }
    br_scope_end(scope);
}

/* Measures the peak rates that the heading shows, which takes a second. */
static void print_heading(const bench_options *o)
{
    if (!o->json && !o->list)
        printf("%d thread%s; peak %.0f GFLOP/s in f32, %.0f in f64; memory %.1f GB/s\n\n",
               o->threads, o->threads == 1 ? "" : "s", 1e-9 * bench_peak(BR_F32)->flops,
               1e-9 * bench_peak(BR_F64)->flops, 1e-9 * bench_peak(BR_F32)->bytes);
    bench_heading(o, "%-28s %-38s %14s %17s %s\n", "operation", "inputs, f32", "median time",
                  "rate", "of peak");
}

int bench_kernels(const bench_options *o)
{
    bool first = true;
    for (int i = 0; i < num_op_cases; i++) {
        const op_case *c = &op_cases[i];
        if ((c->bench && !*c->bench) || !bench_selected(o, c->label, NULL))
            continue;
        if (!case_can_run(c)) {
            fprintf(stderr, "%s is left out: it needs the Debian package%s\n", c->label,
                    c->lapack ? " liblapack3" : "s libfftw3-single3 and libfftw3-double3");
            continue;
        }
        if (first)
            print_heading(o);
        first = false;
        bench_case(o, c, BR_F32);
        if (br_failed())
            return cli_report();
    }
    return bench_done(o);
}
