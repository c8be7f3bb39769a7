/* benchmarks/bench_small.c - what a call costs where there is hardly anything to compute: two
 * tensors of 8 elements, and a perceptron of 16 inputs, 16 hidden units and one output. */
#include "benchmarks/bench.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct inputs {
    br_tensor *a, *b;                                 /* [8] */
    br_tensor *x, *weight1, *bias1, *weight2, *bias2; /* of the perceptron */
} inputs;

static void add(void *context)
{
    const inputs *in = context;
    br_scope *scope = br_no_grad_begin();
    br_add(in->a, in->b);
    br_scope_end(scope);
}

/* Gradients are dropped, as optimizers do it. */
static void add_sum_backward(void *context)
{
    const inputs *in = context;
    br_scope *scope = br_scope_begin();
    br_backward(br_sum(br_add(in->a, in->b)));
    br_scope_end(scope);
    br_set_grad(in->a, NULL);
    br_set_grad(in->b, NULL);
}

/* The same with gradients that add up. */
static void add_sum_accumulate(void *context)
{
    const inputs *in = context;
    br_scope *scope = br_scope_begin();
    br_backward(br_sum(br_add(in->a, in->b)));
    br_scope_end(scope);
}

static void perceptron(void *context)
{
    const inputs *in = context;
    br_scope *scope = br_scope_begin();
    br_tensor *hidden = br_tanh(br_f_linear(in->x, in->weight1, in->bias1));
    br_backward(br_sum(br_f_linear(hidden, in->weight2, in->bias2)));
    br_scope_end(scope);
}

static br_tensor *parameter(int ndim, const int64_t *sizes)
{
    return br_set_requires_grad(br_randn(ndim, sizes, BR_F32), true);
}

int bench_small(const bench_options *o)
{
    static const struct {
        const char *name;
        void (*run)(void *context);
    } rows[] = { { "add", add },
                 { "add-sum-backward", add_sum_backward },
                 { "add-sum-accumulate", add_sum_accumulate },
                 { "perceptron", perceptron } };
    br_scope *scope = br_scope_begin();
    inputs in = { .a = parameter(BR_SHAPE(8)),
                  .b = parameter(BR_SHAPE(8)),
                  .x = br_randn(BR_SHAPE(1, 16), BR_F32),
                  .weight1 = parameter(BR_SHAPE(16, 16)),
                  .bias1 = parameter(BR_SHAPE(16)),
                  .weight2 = parameter(BR_SHAPE(1, 16)),
                  .bias2 = parameter(BR_SHAPE(1)) };
    int found = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !br_failed(); i++) {
        if (o->filter && fnmatch(o->filter, rows[i].name, 0) != 0)
            continue;
        found++;
        double ns = 1e9 * bench_least(rows[i].run, &in, o->seconds > 0 ? o->seconds : 0.05);
        printf(o->json ? "{\"name\": \"%s\", \"ns\": %.1f}\n" : "%-20s %8.1f ns\n", rows[i].name,
               ns);
    }
    br_scope_end(scope);
    if (br_failed())
        return br_report(stderr);
    if (found > 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "brasa bench: no row matches %s\n", o->filter);
    return 2;
}
