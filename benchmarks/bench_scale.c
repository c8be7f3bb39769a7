/* benchmarks/bench_scale.c - times a training step of notebook 004's encoder while one of these
 * varies: length, batch, width, depth, threads, ranks. Each rank has a batch of its own. */
#include "benchmarks/bench.h"
#include "common/clock.h"
#include "viz/plot.h"

#include <brasa/distributed.h>
#include <brasa/profile.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct sizes {
    int64_t length, batch, width, depth;
    int64_t threads; /* 0: the value of --threads */
    int64_t ranks;   /* 0: this process alone */
} sizes;

typedef struct axis_entry {
    const char *name;
    size_t field; /* offset of the size that varies */
    sizes fixed;
    int64_t min_size, max_size; /* the range; the size doubles each time */
} axis_entry;

static const axis_entry axes[] = {
    { "length", offsetof(sizes, length), { 0, 2, 256, 2, 0, 0 }, 4, 2048 },
    { "batch", offsetof(sizes, batch), { 32, 0, 256, 2, 0, 0 }, 1, 256 },
    { "width", offsetof(sizes, width), { 32, 4, 0, 2, 0, 0 }, 32, 2048 },
    { "depth", offsetof(sizes, depth), { 32, 4, 256, 0, 0, 0 }, 1, 64 },
    { "threads", offsetof(sizes, threads), { 32, 16, 256, 2, 0, 0 }, 1, 16 },
    { "ranks", offsetof(sizes, ranks), { 32, 16, 256, 2, 0, 0 }, 1, 1 << 15 },
};
enum { N_AXES = sizeof axes / sizeof *axes, MAX_POINTS = 16, HEAD = 32, VOCABULARY = 1000 };

typedef struct stepper {
    br_dist_group *group; /* of the ranks that take part; NULL: this process alone */
    br_data_parallel *parallel;
    br_architecture_encoder *model;
    br_optim *optim;
    br_tensor *ids;
} stepper;

static void step(void *context)
{
    stepper *s = context;
    br_scope *scope = br_scope_begin();
    br_optim_zero_grad(s->optim);
    br_tensor *out = br_architecture_encoder_forward(s->model, s->ids, NULL);
    br_backward(br_mean(br_mul(out, out)));
    br_optim_step(s->optim);
    br_scope_end(scope);
}

/* Returns the FLOPs of the matrix products of one step. */
static double count_flops(stepper *s)
{
    br_profile *profile = br_profile_begin();
    step(s);
    double flops = 0;
    if (profile && br_profile_end(profile))
        for (int64_t i = 0; i < br_profile_count(profile); i++)
            flops += (double)br_profile_event_at(profile, i)->flops;
    br_profile_free(profile);
    return flops;
}

static void begin(stepper *s, const sizes *z)
{
    br_architecture_config config = { .hidden_size = z->width,
                                      .intermediate_size = 4 * z->width,
                                      .num_hidden_layers = z->depth,
                                      .num_attention_heads = z->width / HEAD,
                                      .vocab_size = VOCABULARY,
                                      .max_position_embeddings = z->length,
                                      .add_attention = true,
                                      .pre_norm = true };
    br_manual_seed(0);
    s->model = br_architecture_encoder_new(&config);
    br_eval(br_base(s->model)); /* no dropout */
    s->optim = br_adam(br_base(s->model), NULL);
    if (s->group)
        s->parallel = br_data_parallel_new(br_base(s->model),
                                           BR_OPTIONS(br_data_parallel, .group = s->group));
    s->ids = br_randint(0, VOCABULARY, BR_SHAPE(z->batch, z->length));
}

static void end(stepper *s)
{
    br_data_parallel_free(s->parallel);
    br_optim_free(s->optim);
    br_module_free(s->model);
}

/* Returns the least time of a step. Several ranks make the same number of steps. */
static double least_time(stepper *s, double seconds)
{
    if (!s->group)
        return bench_measure(step, s, seconds).min;
    step(s);
    double start = clock_seconds();
    step(s);
    br_scope *scope = br_scope_begin();
    br_tensor *steps = br_scalar(ceil(seconds / (clock_seconds() - start)), BR_F64);
    br_dist_broadcast(steps, 0, s->group);
    double least = INFINITY;
    for (double left = br_item(steps); left > 0 && !br_failed(); left--) {
        start = clock_seconds();
        step(s);
        least = fmin(least, clock_seconds() - start);
    }
    br_scope_end(scope);
    return least;
}

/* Measures a step of these sizes. Returns the least time, and stores the FLOPs of all ranks. */
static double measure(const bench_options *o, const sizes *z, double *flops)
{
    stepper s = { .group = NULL };
    bool takes_part = br_dist_rank(NULL) < (z->ranks ? z->ranks : 1);
    if (z->ranks > 0 && br_dist_size(NULL) > 1)
        s.group = br_dist_split(NULL, takes_part ? 0 : -1, 0);
    double seconds = 0;
    if (takes_part && !br_failed()) {
        br_scope *scope = br_scope_begin();
        br_set_num_threads(z->threads ? (int)z->threads : o->threads);
        begin(&s, z);
        *flops = count_flops(&s) * (double)br_dist_size(s.group);
        seconds = least_time(&s, o->seconds > 0 ? o->seconds : 1);
        end(&s);
        br_scope_end(scope);
    }
    br_dist_group_free(s.group);
    br_dist_barrier(NULL);
    return seconds;
}

static void print_point(const bench_options *o, const axis_entry *axis, int64_t size, double ms,
                        double gflops)
{
    if (o->json)
        printf("{\"axis\": \"%s\", \"size\": %" PRId64 ", \"threads\": %d, \"min_ms\": %.4f, "
               "\"gflop_per_s\": %.2f}\n",
               axis->name, size, br_get_num_threads(), ms, gflops);
    else
        printf("%-8s %6" PRId64 " %12.3f ms %9.1f GFLOP/s\n", axis->name, size, ms, gflops);
    fflush(stdout);
}

static bool draw(const bench_options *o, const axis_entry *axis, int64_t n, const double *x,
                 const double *ms, const double *gflops)
{
    char *path = text_format("%s/scale-%s.svg", o->plot, axis->name), name[64];
    bool varies = axis->field == offsetof(sizes, threads);
    snprintf(name, sizeof name, varies ? "a training step" : "a training step, %d threads",
             o->threads);
    const br_series times = { "time", n, x, ms }, rates = { "rate", n, x, gflops };
    const br_plot_panel panels[] = {
        { .y_label = "ms", .log_y = true, .n_series = 1, .series = &times },
        { .y_label = "GFLOP/s", .log_y = true, .n_series = 1, .series = &rates },
    };
    bool ok = path && br__plot_panels(path, 2, panels,
                                      BR_OPTIONS(br_plot, .title = name, .x_label = axis->name,
                                                 .log_x = true, .width = 640, .height = 560));
    free(path);
    return ok;
}

static void measure_axis(const bench_options *o, const axis_entry *axis)
{
    double x[MAX_POINTS], ms[MAX_POINTS], gflops[MAX_POINTS];
    int64_t n = 0;
    const bool first = br_dist_rank(NULL) == 0;
    const bool of_ranks = axis->field == offsetof(sizes, ranks);
    const int64_t max_size = of_ranks ? br_dist_size(NULL) : axis->max_size;
    for (int64_t size = axis->min_size; size <= max_size && !br_failed(); size *= 2, n++) {
        sizes z = axis->fixed;
        memcpy((char *)&z + axis->field, &size, sizeof size);
        double flops = 0, seconds = measure(o, &z, &flops);
        x[n] = (double)size;
        ms[n] = seconds * 1e3;
        gflops[n] = flops / seconds * 1e-9;
        if (first && !br_failed())
            print_point(o, axis, size, ms[n], gflops[n]);
    }
    if (first && o->plot && !br_failed())
        draw(o, axis, n, x, ms, gflops);
}

int bench_scale(const bench_options *o)
{
    if (!cli_dist_init())
        return cli_report();
    const bool first = br_dist_rank(NULL) == 0;
    if (first && o->plot)
        file_make_directory(o->plot);
    if (first)
        bench_heading(o, "%-8s %6s %15s %17s\n", "axis", "size", "least time", "rate");
    for (int i = 0; i < N_AXES && !br_failed(); i++)
        if (bench_selected(o, axes[i].name, NULL))
            measure_axis(o, &axes[i]);
    br_dist_finalize();
    return bench_done(o);
}
