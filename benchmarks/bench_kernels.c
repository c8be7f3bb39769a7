/* benchmarks/bench_kernels.c - every row of tests/op_cases.def, timed. */
#include "benchmarks/bench.h"
#include "tests/op_cases.h"

#include <ctype.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct subject {
    const op_case *c;
    br_tensor *x[MAX_CASE_INPUTS];
    br_tensor *y, *dy; /* backward: the recorded result and its gradient */
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
    br_tensor *wanted[MAX_CASE_INPUTS], *grads[MAX_CASE_INPUTS];
    int n = 0;
    for (int i = 0; i < case_num_inputs(s->c); i++)
        if (br_requires_grad(s->x[i]))
            wanted[n++] = s->x[i];
    br_grad_options options = { .gradients = &s->dy, .retain_graph = true, .allow_unused = true };
    br_grad(1, &s->y, n, wanted, grads, &options);
    br_scope_end(scope);
}

/* What the operation must at least read and write. */
static double traffic(const subject *s, const br_tensor *y)
{
    double bytes = bench_bytes(y);
    for (int i = 0; i < case_num_inputs(s->c); i++)
        bytes += bench_bytes(s->x[i]);
    return bytes;
}

/* Multiply-adds run over every letter of the shapes. */
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
        printf("%-24s %-4s %-38s %11.1f us %9.2f %-7s %5.2f\n", name, br_dtype_name(dtype), shape,
               t.median * 1e6, work > 0 ? gflops : gbps, work > 0 ? "GFLOP/s" : "GB/s", of_peak);
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
        double work = units(c, &letters) * c->flops_per_unit, bytes = traffic(&s, s.y);
        print_row(o, &s, "", dtype, t, work, bytes);
        if (br_requires_grad(s.y) && !br_is_leaf(s.y)) {
            s.dy = br_ones_like(s.y);
            t = bench_measure(backward, &s, seconds);
            int n = 0; /* a product has a product for each gradient */
            for (int i = 0; i < case_num_inputs(c); i++)
                n += br_requires_grad(s.x[i]) && br_ndim(s.x[i]) > 1;
            work *= n;
            if (c->backward_flops_per_unit > 0)
                work = units(c, &letters) * c->backward_flops_per_unit;
            print_row(o, &s, ".backward", dtype, t, work, 2 * bytes);
        }
    }
    br_scope_end(scope);
}

int bench_kernels(const bench_options *o)
{
    if (!o->json)
        printf("%d threads; peak %.0f GFLOP/s in f32, %.0f in f64; memory %.1f GB/s\n\n",
               o->threads, 1e-9 * bench_peak(BR_F32)->flops, 1e-9 * bench_peak(BR_F64)->flops,
               1e-9 * bench_peak(BR_F32)->bytes);
    int found = 0;
    for (int i = 0; i < num_op_cases; i++) {
        const op_case *c = &op_cases[i];
        if ((c->bench && !*c->bench) || (o->filter && fnmatch(o->filter, c->label, 0) != 0))
            continue;
        found++;
        bench_case(o, c, BR_F32);
        if (br_failed()) {
            fprintf(stderr, "%s: ", c->label);
            return br_report(stderr);
        }
    }
    if (found == 0) {
        fprintf(stderr, "brasa bench: no kernel matches %s\n", o->filter);
        return 2;
    }
    return EXIT_SUCCESS;
}
