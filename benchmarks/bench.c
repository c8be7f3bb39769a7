/* benchmarks/bench.c - `brasa bench`: options, measuring. */
#include "benchmarks/bench.h"
#include "cli/cli.h"
#include "cli/step_profile.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

double bench_bytes(const br_tensor *t)
{
    return (double)br_numel(t) * (double)br_dtype_size(br_dtype_of(t));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

bench_times bench_measure(void (*f)(void *context), void *context, double seconds)
{
    enum { MOST = 10000, LEAST = 5 };
    static double times[MOST];
    f(context);
    int n = 0;
    double total = 0;
    while (n < MOST && (n < LEAST || total < seconds) && !br_failed()) {
        double start = cli_seconds();
        f(context);
        times[n] = cli_seconds() - start;
        total += times[n++];
    }
    qsort(times, (size_t)n, sizeof *times, compare_doubles);
    return (bench_times){ n ? times[n / 2] : 0, n ? times[0] : 0, n };
}

double bench_least(void (*f)(void *context), void *context, double seconds)
{
    static const double run = 2e-5; /* of calls that the clock is read around */
    enum { LEAST = 3 };
    f(context);
    double start = cli_seconds(), begin = start, least = INFINITY;
    f(context);
    double once = cli_seconds() - start;
    int64_t calls = once < run ? (int64_t)(run / (once + 1e-9)) + 1 : 1;
    for (int i = 0; (i < LEAST || start - begin < seconds) && !br_failed(); i++) {
        start = cli_seconds();
        for (int64_t k = 0; k < calls; k++)
            f(context);
        double time = (cli_seconds() - start) / (double)calls;
        least = time < least ? time : least;
    }
    return least;
}

const br_peak *bench_peak(br_dtype dtype)
{
    static br_peak known[2];
    br_peak *peak = &known[dtype == BR_F64];
    if (peak->flops == 0)
        br_measure_peak(dtype, peak);
    return peak;
}

static const char help[] =
    "usage: brasa bench kernels|models|products|embed|scale|sweep|small [options]\n"
    "\n"
    "kernels: every operation at the sizes its row in tests/op_cases.def gives, forward and\n"
    "backward, as time, GFLOP/s or GB/s, and the fraction of this machine's measured peak\n"
    "(products) or memory bandwidth (the rest).\n"
    "models: the training step (forward, loss, backward, optimizer) and the forward (no grad,\n"
    "eval) of each model at its notebook's sizes, each in a process of its own, with its peak\n"
    "memory.\n"
    "products: matrix products, as GFLOP/s and GB/s.\n"
    "embed: sentence embeddings by pretrained weights: of one text of 8, 128 and 512 tokens, and\n"
    "of the lines of a file, 32 at a time.\n"
    "scale: a training step of an encoder against length, batch, width, depth and threads.\n"
    "sweep: operations from 1 to 10^7 elements, the least time of many calls.\n"
    "small: what calls cost where there is hardly anything to compute.\n"
    "\n"
    "  --threads N    threads (default: all processors)\n"
    "  --filter GLOB  entries whose name matches\n"
    "  --seconds S    least time to measure each entry for (0.2; scale 1, models 3, sweep 0.005,\n"
    "                 products 0.02, small 0.05)\n"
    "  --json         one object a line\n"
    "  --model DIR    embed: the folder of a BERT, as the hub has it\n"
    "  --file FILE    embed: with lines\n"
    "  --serve        models, embed: one step for each line of standard input, for comparisons;\n"
    "                 the filter is NAME, NAME/train or NAME/forward; sweep, products: one entry\n"
    "                 for each line; small: take one training step and end\n"
    "  --plot DIR     scale: draw the curves as SVG\n"
    "  --profile[=N]  models, embed: profile N steps (3) and print what they spend their time on\n";

enum { THREADS = 256, FILTER, MODEL, FILES, SECONDS, JSON, SERVE, PROFILE, PLOT };

static const struct option options[] = {
    { "threads", required_argument, NULL, THREADS },
    { "filter", required_argument, NULL, FILTER },
    { "model", required_argument, NULL, MODEL },
    { "file", required_argument, NULL, FILES },
    { "seconds", required_argument, NULL, SECONDS },
    { "json", no_argument, NULL, JSON },
    { "serve", no_argument, NULL, SERVE },
    { "plot", required_argument, NULL, PLOT },
    { "profile", optional_argument, NULL, PROFILE },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

/* Takes one option; 0, or the exit status. */
static int take(void *of, int c)
{
    bench_options *o = of;
    int64_t threads;
    switch (c) {
    case THREADS:
        if (!cli_integer(optarg, 1, 1024, &threads))
            return cli_usage("bench", "--threads is '%s', must be 1 .. 1024", optarg);
        br_set_num_threads((int)threads);
        return 0;
    case FILTER:
        o->filter = optarg;
        return 0;
    case MODEL:
        o->model = optarg;
        return 0;
    case FILES:
        o->file = optarg;
        return 0;
    case SECONDS:
        return cli_number(optarg, DBL_MIN, DBL_MAX, &o->seconds)
                   ? 0
                   : cli_usage("bench", "--seconds is '%s', must be above 0", optarg);
    case JSON:
        o->json = true;
        return 0;
    case SERVE:
        o->serve = true;
        return 0;
    case PROFILE:
        o->profile = STEP_PROFILE_DEFAULT;
        return !optarg || cli_integer(optarg, 1, 1000, &o->profile)
                   ? 0
                   : cli_usage("bench", "--profile is '%s', must be 1 .. 1000", optarg);
    case PLOT:
        o->plot = optarg;
        return 0;
    default:
        return cli_bad_option("bench");
    }
}

static const struct {
    const char *name;
    int (*run)(const bench_options *options);
} parts[] = { { "kernels", bench_kernels },   { "models", bench_models },
              { "products", bench_products }, { "embed", bench_embed },
              { "small", bench_small },       { "scale", bench_scale },
              { "sweep", bench_sweep } };

int cli_bench(int argc, char **argv)
{
    bench_options o = { 0 };
    int status = cli_options(argc, argv, "h", options, help, take, &o);
    if (status != CLI_GO_ON)
        return status;
    if (argc != optind + 1)
        return cli_usage("bench", "one thing to measure is wanted, there are %d", argc - optind);
    o.threads = br_get_num_threads();
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(argv[optind], parts[i].name) == 0)
            return parts[i].run(&o);
    return cli_usage("bench",
                     "'%s' must be kernels, models, products, embed, scale, sweep or small",
                     argv[optind]);
}
