/* benchmarks/bench_small.c - measures the overhead of calls on tiny tensors: two tensors of 8
 * elements, and a perceptron with 16 inputs, 16 hidden units and one output. Also times a process
 * that runs one training step. */
#include "benchmarks/bench.h"

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

/* Gradients are removed after each call, as an optimizer's zero_grad() does. */
static void add_sum_backward(void *context)
{
    const inputs *in = context;
    br_scope *scope = br_scope_begin();
    br_backward(br_sum(br_add(in->a, in->b)));
    br_scope_end(scope);
    br_set_grad(in->a, NULL);
    br_set_grad(in->b, NULL);
}

/* Does the same, but gradients accumulate. */
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

/* ---- A process that runs one step ------------------------------------------------------------ */

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
    br_module_free(model);
    return cli_report();
}

/* Starts this program again and waits until it exits. */
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
    const double seconds = o->seconds > 0 ? o->seconds : 0.05;
    bench_heading(o, "%-20s %13s\n", "calls", "least time");
    for (size_t i = 0; i < sizeof rows / sizeof *rows && !br_failed(); i++) {
        if (bench_selected(o, rows[i].name, NULL))
            print_row(o, rows[i].name, bench_minimum(rows[i].run, &in, seconds));
    }
    br_scope_end(scope);
    if (!br_failed() && bench_selected(o, "first-step", NULL)) {
        bool failed = false;
        const double least = bench_minimum(run_first_step, &failed, seconds);
        if (failed) {
            fprintf(stderr, "brasa bench: first-step: cannot run the process\n");
            return EXIT_FAILURE;
        }
        print_row(o, "first-step", least);
    }
    return bench_done(o);
}
