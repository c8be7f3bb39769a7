/* benchmarks/bench_products.c - times matrix products: those of models' linear layers and
 * attention, square matrices, batches of small matrices, and single rows times matrices.
 *
 * 512x10x64x10:nt is a batch of 512 products of [10, 64] by [64, 10]. The letters are the layouts
 * of the operands: n is row-major, t is the transpose of a row-major matrix. compare_products.py
 * runs the same products on the same inputs in other libraries, and compares both times and
 * results. */
#include "benchmarks/bench.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct product {
    int64_t batch, m, k, n;
    char a, b; /* layouts: 'n' row-major, 't' column-major */
} product;

static const char *const specs[] = {
    "512x10x64x10:nt",   "512x10x10x64",     "72x100x64x100:nt",  "72x100x100x64",
    "1x32x32x32",        "1x64x64x64",       "1x128x128x128",     "1x256x256x256",
    "1x512x512x512",     "1x1024x1024x1024", "1x600x768x768:nt",  "1x600x768x3072:nt",
    "1x600x3072x768:nt", "1x600x768x3072",   "1x768x600x3072:tn", "1x1x768x768:nt",
    "1x1x768x3072:nt",   "1x1x768x50257:nt", "1x1x768x768",       "1x5x768x768:nt",
    "1x5x768x3072:nt",
};
enum { SPECS = sizeof specs / sizeof *specs };

static bool parse(const char *spec, product *p)
{
    char layout[3] = "nn", rest;
    int n = sscanf(spec, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "x%" SCNd64 ":%2[nt]%c", &p->batch,
                   &p->m, &p->k, &p->n, layout, &rest);
    p->a = layout[0];
    p->b = layout[1];
    return (n == 5 || (n == 4 && !strchr(spec, ':'))) && p->b && p->batch > 0 && p->m > 0 &&
           p->k > 0 && p->n > 0;
}

/* ---- One product ----------------------------------------------------------------------------- */

typedef struct subject {
    br_tensor *a, *b;
} subject;

/* Returns an operand whose element i is (7 i + seed) mod 13 - 6. Sums of products of such small
 * integers are exact. */
static br_tensor *operand(int64_t batch, int64_t rows, int64_t columns, char layout, int seed)
{
    bool turned = layout == 't';
    br_tensor *t =
        br_empty(BR_SHAPE(batch, turned ? columns : rows, turned ? rows : columns), BR_F32);
    float *x = br_data_f32(t);
    for (int64_t i = 0; x && i < br_numel(t); i++)
        x[i] = (float)((7 * i + seed) % 13 - 6);
    if (turned)
        t = br_transpose(t, 1, 2);
    return batch == 1 ? br_squeeze(t, 0) : t;
}

static void multiply(void *context)
{
    const subject *s = context;
    br_scope *scope = br_scope_begin();
    br_matmul(s->a, s->b);
    br_scope_end(scope);
}

typedef struct result {
    double seconds, squares;
} result;

static result measure(const product *p, double seconds)
{
    br_scope *scope = br_no_grad_begin();
    subject s = { operand(p->batch, p->m, p->k, p->a, 1), operand(p->batch, p->k, p->n, p->b, 2) };
    result r = { .seconds = bench_minimum(multiply, &s, seconds) };
    br_tensor *c = br_to(br_matmul(s.a, s.b), BR_F64);
    r.squares = br_item(br_sum(br_mul(c, c)));
    br_scope_end(scope);
    return r;
}

static double flops(const product *p)
{
    return 2.0 * (double)(p->batch * p->m) * (double)p->k * (double)p->n;
}

static double bytes(const product *p)
{
    return 4.0 * (double)(p->batch * (p->m * p->k + p->k * p->n + p->m * p->n));
}

/* ---- The command ----------------------------------------------------------------------------- */

static void print_row(const bench_options *o, const char *spec, const product *p, double seconds)
{
    const br_peak *peak = bench_peak(BR_F32);
    double gflops = 1e-9 * flops(p) / seconds, gbps = 1e-9 * bytes(p) / seconds;
    if (o->json)
        printf("{\"name\": \"%s\", \"threads\": %d, \"matmul_precision\": \"%s\", "
               "\"us\": %.6g, \"gflops\": %.6g, "
               "\"of_peak\": %.4g, \"gbps\": %.6g, \"of_bandwidth\": %.4g}\n",
               spec, o->threads, br_get_float32_matmul_precision(), 1e6 * seconds, gflops,
               1e9 * gflops / peak->flops, gbps, 1e9 * gbps / peak->bytes);
    else
        printf("%-20s %10.2f us %8.1f GFLOP/s %7.2f %12.1f GB/s %12.2f\n", spec, 1e6 * seconds,
               gflops, 1e9 * gflops / peak->flops, gbps, 1e9 * gbps / peak->bytes);
    fflush(stdout);
}

/* Answers each line of standard input. For a product, prints the seconds and the sum of squares of
 * the result; for "peak", the peak performance of the machine in FLOP/s. */
static int serve(double seconds)
{
    char spec[64];
    product p;
    while (scanf("%63s", spec) == 1) {
        if (strcmp(spec, "peak") == 0) {
            printf("%.9g\n", bench_peak(BR_F32)->flops);
            fflush(stdout);
            continue;
        }
        if (!parse(spec, &p)) {
            fprintf(stderr, "brasa bench: '%s' is not a product, must be BATCHxMxKxN[:nt]\n", spec);
            return 2;
        }
        result r = measure(&p, seconds);
        if (br_failed())
            return cli_report();
        printf("%.9g %.17g\n", r.seconds, r.squares);
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}

int bench_products(const bench_options *o)
{
    double seconds = o->seconds > 0 ? o->seconds : 0.02;
    if (o->serve)
        return serve(seconds);
    bench_heading(o, "%-20s %13s %16s %7s %17s %s\n", "product", "least time", "rate", "of peak",
                  "memory", "of bandwidth");
    product p;
    for (int i = 0; i < SPECS; i++) {
        if (!bench_selected(o, specs[i], NULL) || !parse(specs[i], &p))
            continue;
        result r = measure(&p, seconds);
        if (br_failed())
            return cli_report();
        print_row(o, specs[i], &p, r.seconds);
    }
    return bench_done(o);
}
