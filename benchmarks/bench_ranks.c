/* benchmarks/bench_ranks.c - `brasa bench ranks`: what communication between ranks costs, alone and
 * beside computation. Run it under mpirun. benchmarks/compare_ranks.py runs the same steps in
 * PyTorch. */
#include "benchmarks/bench_models.h"
#include "common/clock.h"
#include "train/step_profile.h"

#include <brasa/distributed.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ROUNDS = 500, MIN_ROUNDS = 5 };

/* ---- Rounds ---------------------------------------------------------------------------------- */

typedef struct quartiles {
    double least, low, median, high;
} quartiles;

static quartiles quartiles_of(double *times, int n)
{
    bench_sort(times, n);
    return (quartiles){ times[0], times[n / 4], times[n / 2], times[3 * n / 4] };
}

/* Calls f on all ranks at the same time. Returns its time on this rank, in seconds. */
static double time_of(void (*f)(void *context), void *context)
{
    br_dist_barrier(NULL);
    double start = clock_seconds();
    f(context);
    return clock_seconds() - start;
}

/* Returns the number of rounds of all ranks: those that take `seconds` on rank 0. */
static int count_rounds(double seconds, double once)
{
    br_scope *scope = br_scope_begin();
    double count = fmin(fmax(ceil(seconds / once), MIN_ROUNDS), MAX_ROUNDS);
    br_tensor *rounds = br_scalar(count, BR_F64);
    br_dist_broadcast(rounds, 0, NULL);
    count = br_failed() ? 0 : br_item(rounds);
    br_scope_end(scope);
    return (int)count;
}

/* ---- All-reduce ------------------------------------------------------------------------------ */

static void all_reduce(void *context)
{
    br_dist_all_reduce(context, BR_DIST_SUM, NULL);
}

static void print_all_reduce(const bench_options *o, int64_t bytes, quartiles q)
{
    const int ranks = br_dist_size(NULL);
    if (o->json)
        printf("{\"name\": \"all_reduce\", \"library\": \"%s\", \"ranks\": %d, \"bytes\": %" PRId64
               ", \"least_us\": %.1f, \"low_us\": %.1f, \"median_us\": %.1f, \"high_us\": %.1f}\n",
               br_dist_library(), ranks, bytes, q.least * 1e6, q.low * 1e6, q.median * 1e6,
               q.high * 1e6);
    else
        printf("all_reduce %10" PRId64 " bytes %12.1f us (%.1f .. %.1f, least %.1f)\n", bytes,
               q.median * 1e6, q.low * 1e6, q.high * 1e6, q.least * 1e6);
    fflush(stdout);
}

static void measure_all_reduce(const bench_options *o)
{
    enum { SMALLEST = 1 << 10, LARGEST = 1 << 26 };
    static double times[MAX_ROUNDS];
    for (int64_t bytes = SMALLEST; bytes <= LARGEST && !br_failed(); bytes *= 4) {
        br_scope *scope = br_scope_begin();
        br_tensor *t = br_zeros(BR_SHAPE(bytes / 4), BR_F32);
        all_reduce(t);
        int n = count_rounds(o->seconds > 0 ? o->seconds : 1, time_of(all_reduce, t));
        for (int i = 0; i < n; i++)
            times[i] = time_of(all_reduce, t);
        if (br_dist_rank(NULL) == 0 && !br_failed())
            print_all_reduce(o, bytes, quartiles_of(times, n));
        br_scope_end(scope);
    }
}

/* ---- Training steps -------------------------------------------------------------------------- */

/* A model whose step is measured. Its batch consists of several copies of the batch that
 * `brasa bench models` uses. */
typedef struct rank_entry {
    const char *name, *model;
    int copies;
} rank_entry;

static const rank_entry entries[] = { { "bert-scratch", "bert-scratch", 1 },
                                      { "bert-scratch-24", "bert-scratch", 4 },
                                      { "gpt2-16", "gpt2", 4 },
                                      { "gpt2-32", "gpt2", 8 },
                                      { "gpt2-64", "gpt2", 16 } };

typedef struct trainee {
    const bench_model *model;
    br_module *module;
    br_optim *optim;
    br_data_parallel *parallel;
    br_tensor *batch[BENCH_BATCH];
    br_tensor *bucket; /* as large as a bucket of gradients */
    int64_t accumulate, gradient_bytes;
    double loss;
} trainee;

/* Replaces each tensor of the batch by `copies` copies of it. */
static void enlarge(br_tensor **batch, int copies)
{
    enum { MAX_COPIES = 16 };
    for (int i = 0; i < BENCH_BATCH && batch[i]; i++) {
        br_tensor *parts[MAX_COPIES];
        for (int k = 0; k < copies; k++)
            parts[k] = batch[i];
        batch[i] = br_cat(copies, parts, 0);
    }
}

static int64_t bytes_of_parameters(br_module *module)
{
    int64_t bytes = 0;
    br_named_list *list = br_parameters(module);
    for (const br_named_tensor *i = NULL; (i = br_named_list_next(list, i));)
        bytes += (int64_t)bench_bytes(i->tensor);
    br_named_list_free(list);
    return bytes;
}

static void begin(trainee *t, const bench_options *o, const rank_entry *entry)
{
    br_data_parallel_options defaults = br_data_parallel_defaults();
    br_manual_seed(0);
    t->model = bench_find_model(entry->model);
    t->module = t->model->make();
    t->model->make_batch(t->batch);
    enlarge(t->batch, entry->copies);
    br_train(t->module, false); /* no dropout */
    t->optim = t->model->optimizer(t->module);
    t->parallel =
        br_data_parallel_new(t->module, BR_OPTIONS(br_data_parallel, .reduction = BR_DIST_SUM));
    t->accumulate = o->accumulate ? o->accumulate : br_dist_size(NULL);
    t->gradient_bytes = bytes_of_parameters(t->module);
    t->bucket = br_zeros(BR_SHAPE((int64_t)(defaults.bucket_cap_mb * 0x1p18)), BR_F32);
}

static void end(trainee *t)
{
    br_data_parallel_free(t->parallel);
    br_optim_free(t->optim);
    br_module_free(t->module);
}

/* Runs this rank's batches of a step, as `brasa train` does, and the optimizer. */
static void step(void *context)
{
    trainee *t = context;
    const double part = 1 / (double)t->accumulate;
    br_optim_zero_grad(t->optim);
    for (int64_t i = br_dist_rank(NULL); i < t->accumulate; i += br_dist_size(NULL)) {
        br_scope *scope = br_scope_begin();
        br_scope *forward = br_scope_begin(); /* after it, only the graph holds the activations */
        br_tensor *loss = br_scope_return(forward, t->model->loss(t->module, t->batch));
        br_scope_end(forward);
        br_backward(br_mul_scalar(loss, part));
        t->loss = br_item(loss);
        br_scope_end(scope);
    }
    br_optim_step(t->optim);
}

static void step_without_communication(void *context)
{
    trainee *t = context;
    br_data_parallel_set_sync(t->parallel, false);
    step(t);
    br_data_parallel_set_sync(t->parallel, true);
}

/* Sums as many bytes over the ranks as a backward pass does. */
static void communicate(void *context)
{
    trainee *t = context;
    const int64_t size = br_numel(t->bucket) * (int64_t)sizeof(float);
    for (int64_t left = t->gradient_bytes; left > 0; left -= size) {
        br_scope *scope = br_scope_begin();
        int64_t bytes = left < size ? left : size;
        br_dist_all_reduce(br_narrow(t->bucket, 0, 0, bytes / (int64_t)sizeof(float)), BR_DIST_SUM,
                           NULL);
        br_scope_end(scope);
    }
}

/* Returns the processor time that this process has used. */
static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double sum_of_ranks(double value)
{
    br_scope *scope = br_scope_begin();
    br_tensor *sum = br_scalar(value, BR_F64);
    br_dist_all_reduce(sum, BR_DIST_SUM, NULL);
    value = br_failed() ? NAN : br_item(sum);
    br_scope_end(scope);
    return value;
}

/* Runs one step per line of standard input, of which each rank has its own. Rank 0 prints the loss
 * of its last batch, the time, and the processor time of all ranks, in milliseconds. */
static void serve(trainee *t)
{
    char line[64];
    while (!br_failed() && fgets(line, sizeof line, stdin)) {
        double before = processor_seconds(), seconds = time_of(step, t);
        double work = sum_of_ranks(processor_seconds() - before);
        if (br_dist_rank(NULL) == 0)
            printf("%.9g %.6f %.6f\n", t->loss, seconds * 1e3, work * 1e3);
        fflush(stdout);
    }
}

static void profile(const bench_options *o, trainee *t)
{
    const bool first = br_dist_rank(NULL) == 0;
    char *trace = o->plot ? text_format("%s/trace.json", o->plot) : NULL;
    step_profile s = { .steps = o->profile };
    for (int64_t i = 0; i < STEP_PROFILE_WARM_UP + o->profile && step_profile_before(&s); i++) {
        step(t);
        step_profile_after(&s);
    }
    if (first && o->plot)
        file_make_directory(o->plot);
    if (first)
        step_profile_report(&s, stdout, trace);
    step_profile_end(&s);
    free(trace);
}

static void print_steps(const bench_options *o, const trainee *t, const char *name,
                        const quartiles *q, quartiles hidden, int rounds)
{
    static const char *const what[] = { "step", "without communication", "communication alone" };
    if (o->json) {
        printf("{\"name\": \"%s\", \"library\": \"%s\", \"ranks\": %d, \"threads\": %d, "
               "\"gradient_bytes\": %" PRId64 ", \"rounds\": %d, \"hidden\": [%.4f, %.4f, %.4f]",
               name, br_dist_library(), br_dist_size(NULL), br_get_num_threads(), t->gradient_bytes,
               rounds, hidden.low, hidden.median, hidden.high);
        for (int i = 0; i < 3; i++)
            printf(", \"%s\": [%.2f, %.2f, %.2f]", what[i], q[i].low * 1e3, q[i].median * 1e3,
                   q[i].high * 1e3);
        puts("}");
    } else {
        for (int i = 0; i < 3; i++)
            printf("%-16s %-22s %10.2f ms (%.2f .. %.2f, %d rounds)\n", name, what[i],
                   q[i].median * 1e3, q[i].low * 1e3, q[i].high * 1e3, rounds);
        printf("%-16s %-22s %10.1f %% (%.1f .. %.1f)\n", name, "communication hidden",
               hidden.median * 100, hidden.low * 100, hidden.high * 100);
    }
    fflush(stdout);
}

/* Times the step, the step without communication and the communication in turns. What a round's
 * communication adds to its step, relative to the communication alone, is not hidden. */
static void measure_steps(const bench_options *o, trainee *t, const char *name)
{
    static void (*const parts[3])(void *) = { step, step_without_communication, communicate };
    static double times[3][MAX_ROUNDS], hidden[MAX_ROUNDS];
    double once = 0;
    for (int i = 0; i < 3; i++)
        parts[i](t); /* warm-up; after the first pass the buckets are ordered */
    for (int i = 0; i < 3; i++)
        once += time_of(parts[i], t);
    int n = count_rounds(o->seconds > 0 ? o->seconds : 30, once);
    for (int k = 0; k < n && !br_failed(); k++) {
        for (int i = 0; i < 3; i++)
            times[i][k] = time_of(parts[i], t);
        hidden[k] = 1 - (times[0][k] - times[1][k]) / times[2][k];
    }
    if (br_failed() || br_dist_rank(NULL) != 0)
        return;
    quartiles q[3];
    for (int i = 0; i < 3; i++)
        q[i] = quartiles_of(times[i], n);
    print_steps(o, t, name, q, quartiles_of(hidden, n), n);
}

static void run_entry(const bench_options *o, const rank_entry *entry)
{
    trainee t = { 0 };
    br_scope *scope = br_scope_begin();
    begin(&t, o, entry);
    if (o->serve)
        serve(&t);
    else if (o->profile > 0)
        profile(o, &t);
    else
        measure_steps(o, &t, entry->name);
    end(&t);
    br_scope_end(scope);
}

int bench_ranks(const bench_options *o)
{
    if (!cli_dist_init())
        return cli_report();
    if (o->accumulate % br_dist_size(NULL) != 0)
        br_raise(BR_ERROR_ARGUMENT,
                 "--accumulate is %" PRId64 ", must be a multiple of the number of ranks, %d",
                 o->accumulate, br_dist_size(NULL));
    const bool compares = !o->serve && !o->list && o->profile == 0;
    if (compares && br_dist_size(NULL) == 1 && !br_failed())
        br_raise(BR_ERROR_STATE, "one rank does not communicate: start this command with "
                                 "`mpirun -n N`");
    if (!br_failed() && !o->serve && o->profile == 0 && bench_selected(o, "all_reduce", NULL))
        measure_all_reduce(o);
    for (size_t i = 0; i < sizeof entries / sizeof *entries && !br_failed(); i++)
        if (bench_selected(o, entries[i].name, NULL))
            run_entry(o, &entries[i]);
    br_dist_finalize();
    return bench_done(o);
}
