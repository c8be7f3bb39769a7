/* benchmarks/bench_small.c - what a call costs where there is hardly anything to compute: two
 * tensors of 8 elements, and a perceptron of 16 inputs, 16 hidden units and one output; and what a
 * process costs that takes one training step. */
#include "benchmarks/bench.h"

#include <fnmatch.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

extern char **environ;

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

/* ---- A process that takes one step ----------------------------------------------------------- */

static int take_first_step(void)
{
    br_sequential *model = br_sequential_new(
        BR_MODULES(br_linear_new(16, 16, true), br_tanh_new(), br_linear_new(16, 1, true)));
    br_optim *adam = br_adam(br_base(model), NULL);
    br_scope *scope = br_scope_begin();
    br_backward(br_mean(br_forward(model, br_randn(BR_SHAPE(32, 16), BR_F32))));
    br_optim_step(adam);
    br_scope_end(scope);
    br_optim_free(adam);
    br_free_module(model);
    return br_report(stderr);
}

/* From the start of this program anew to its end. */
static void run_first_step(void *failed)
{
    char *const words[] = { "brasa", "bench", "small", "--serve", NULL };
    pid_t child;
    int status;
    if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, words, environ) != 0 ||
        waitpid(child, &status, 0) != child || status != 0)
        *(bool *)failed = true;
}

/* ---- The command ----------------------------------------------------------------------------- */

static void print_row(const bench_options *o, const char *name, double seconds)
{
    printf(o->json ? "{\"name\": \"%s\", \"ns\": %.1f}\n" : "%-20s %10.1f ns\n", name,
           1e9 * seconds);
}

static bool wanted(const bench_options *o, const char *name)
{
    return !o->filter || fnmatch(o->filter, name, 0) == 0;
}

int bench_small(const bench_options *o)
{
    if (o->serve)
        return take_first_step();
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
    const double seconds = o->seconds > 0 ? o->seconds : 0.05;
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !br_failed(); i++) {
        if (!wanted(o, rows[i].name))
            continue;
        found++;
        print_row(o, rows[i].name, bench_least(rows[i].run, &in, seconds));
    }
    br_scope_end(scope);
    if (wanted(o, "first-step") && !br_failed()) {
        found++;
        bool failed = false;
        const double least = bench_least(run_first_step, &failed, seconds);
        if (failed) {
            fprintf(stderr, "brasa bench: first-step: the process could not be run\n");
            return EXIT_FAILURE;
        }
        print_row(o, "first-step", least);
    }
    if (br_failed())
        return br_report(stderr);
    if (found > 0)
        return EXIT_SUCCESS;
    fprintf(stderr, "brasa bench: no row matches %s\n", o->filter);
    return 2;
}
