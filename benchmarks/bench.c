/* benchmarks/bench.c - `brasa bench`: options and the choice of the part. */
#include "benchmarks/bench.h"
#include "train/step_profile.h"

#include <float.h>

static const char help[] =
    "Usage: brasa bench "
    "kernels|models|pretrained|products|embed|tokenizers|scale|ranks|sweep|small "
    "[OPTION]...\n"
    "\n"
    "  kernels        time every operation, forward and backward, at the sizes in\n"
    "                 check/cases/op_cases.def; print the time, GFLOP/s or GB/s, and the\n"
    "                 fraction of this machine's measured peak (matrix products) or memory\n"
    "                 bandwidth (other operations)\n"
    "  models         time the training step (forward, loss, backward, optimizer) and the\n"
    "                 forward pass (no_grad, evaluation mode) of each model at the sizes of\n"
    "                 its notebook, each in its own process; print the peak memory, too\n"
    "  pretrained     time the model of a folder or a GGUF file, each entry in its own process:\n"
    "                 loading, a forward pass, a training step with AdamW, reading a prompt, and\n"
    "                 one token after it; print tokens/s and the peak memory\n"
    "  products       time matrix products; print GFLOP/s and GB/s\n"
    "  embed          time sentence embeddings of one text of 8, 128 or 512 tokens, and of\n"
    "                 the lines of a file in batches of 32, with pretrained weights\n"
    "  tokenizers     time a tokenizer on a text file, as one text and as a text for each\n"
    "                 line, to ids alone and to ids with offsets; print MiB/s and tokens/s\n"
    "  scale          time a training step of an encoder while length, batch, width, depth\n"
    "                 or threads vary, or, under mpirun, ranks with a batch each\n"
    "  ranks          under mpirun: time all-reduce of 1 KiB to 64 MiB, and training steps with a\n"
    "                 batch per rank, without communication, and the communication alone\n"
    "  sweep          time operations on 1 to 10^7 elements; print the least time of many\n"
    "                 calls\n"
    "  small          measure the overhead of calls on tiny tensors\n"
    "\n"
    "  --threads N    threads (default: all processors)\n"
    "  --matmul-precision P\n"
    "                 precision of f32 matrix products: highest (default), high\n"
    "                 or medium, which rounds their operands to bf16\n"
    "  --amp bf16     models: run the forward pass in mixed precision\n"
    "  --dtype D      models, pretrained: dtype of the parameters: f32, f64, bf16 or f16; for "
    "bf16\n"
    "                 and f16 the optimizer keeps copies in f32 (models: f32; pretrained: the\n"
    "                 files'); pretrained: also quantized, the blocks of a GGUF file\n"
    "  --filter GLOB  measure only entries whose name matches\n"
    "  --list         print the names of the entries\n"
    "  --seconds S    minimum time to measure each entry for (0.2; pretrained, embed, tokenizers\n"
    "                 and scale 1, models 3, sweep 0.005, products 0.02, small 0.05)\n"
    "  --json         print one JSON object per line\n"
    "  --tokens N     pretrained: tokens of a text or prompt (128)\n"
    "  --batch N      pretrained: texts of a batch (1)\n"
    "  --model DIR    pretrained: folder of a model, or a GGUF file;\n"
    "                 embed: folder of a BERT, as downloaded from the Hugging Face hub;\n"
    "                 tokenizers: folder with the files of a tokenizer\n"
    "  --file FILE    embed: text file whose lines are embedded; tokenizers: text file\n"
    "  --serve        for comparisons: models, pretrained, embed, tokenizers, ranks: run one step\n"
    "                 per line of standard input (ranks: of that of each rank); the filter is\n"
    "                 NAME, NAME/train or NAME/forward; sweep, products: measure the entry that "
    "each line names;\n"
    "                 small: run one training step and exit\n"
    "  --accumulate N ranks: batches per step, shared by the ranks (one for each)\n"
    "  --plot DIR     scale: write the curves to DIR as SVG files; ranks: with --profile, write\n"
    "                 the steps of rank 0 to DIR/trace.json\n"
    "  --profile[=N]  models, embed, ranks: profile N steps (3) and print where the time goes\n";

enum {
    THREADS = 256,
    FILTER,
    LIST,
    MODEL,
    FILES,
    SECONDS,
    JSON,
    SERVE,
    PROFILE,
    PLOT,
    ACCUMULATE,
    AMP,
    TOKENS,
    BATCH,
    DTYPE
};

static const struct option options[] = {
    { "threads", required_argument, NULL, THREADS },
    { "filter", required_argument, NULL, FILTER },
    { "list", no_argument, NULL, LIST },
    { "model", required_argument, NULL, MODEL },
    { "file", required_argument, NULL, FILES },
    { "seconds", required_argument, NULL, SECONDS },
    { "json", no_argument, NULL, JSON },
    { "serve", no_argument, NULL, SERVE },
    { "plot", required_argument, NULL, PLOT },
    { "accumulate", required_argument, NULL, ACCUMULATE },
    { "profile", optional_argument, NULL, PROFILE },
    { "amp", required_argument, NULL, AMP },
    { "tokens", required_argument, NULL, TOKENS },
    { "batch", required_argument, NULL, BATCH },
    { "dtype", required_argument, NULL, DTYPE },
    { "matmul-precision", required_argument, NULL, CLI_MATMUL_PRECISION },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

/* The bit of an option in a set of options. */
#define BIT(c) (1u << ((c)-THREADS))

typedef struct request {
    bench_options options;
    unsigned given; /* set of the options that were given */
} request;

/* Handles one option. Returns 0 or the exit status. */
static int take(void *of, int c)
{
    request *r = of;
    bench_options *o = &r->options;
    int64_t threads;
    if (c >= THREADS && c <= DTYPE)
        r->given |= BIT(c);
    switch (c) {
    case THREADS:
        if (!text_to_integer(optarg, 1, 1024, &threads))
            return cli_usage("bench", "--threads is '%s', must be 1 .. 1024", optarg);
        br_set_num_threads((int)threads);
        return 0;
    case FILTER:
        o->filter = optarg;
        return 0;
    case LIST:
        o->list = true;
        return 0;
    case MODEL:
        o->model = optarg;
        return 0;
    case FILES:
        o->file = optarg;
        return 0;
    case SECONDS:
        return text_to_number(optarg, DBL_MIN, DBL_MAX, &o->seconds)
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
        return !optarg || text_to_integer(optarg, 1, 1000, &o->profile)
                   ? 0
                   : cli_usage("bench", "--profile is '%s', must be 1 .. 1000", optarg);
    case ACCUMULATE:
        return text_to_integer(optarg, 1, 1 << 20, &o->accumulate)
                   ? 0
                   : cli_usage("bench", "--accumulate is '%s', must be 1 .. 1048576", optarg);
    case AMP:
        o->amp = true;
        return strcmp(optarg, "bf16") == 0
                   ? 0
                   : cli_usage("bench", "--amp is '%s', must be bf16", optarg);
    case DTYPE:
        return br_dtype_named(optarg, &o->dtype) &&
                       (br_dtype_is_floating(o->dtype) || o->dtype == BR_QUANTIZED)
                   ? 0
                   : cli_usage(
                         "bench",
                         "--dtype is '%s', must be f32, f64, bf16 or f16, for pretrained also "
                         "quantized",
                         optarg);
    case TOKENS:
        return text_to_integer(optarg, 1, 1 << 20, &o->tokens)
                   ? 0
                   : cli_usage("bench", "--tokens is '%s', must be 1 .. 1048576", optarg);
    case BATCH:
        return text_to_integer(optarg, 1, 1 << 20, &o->batch)
                   ? 0
                   : cli_usage("bench", "--batch is '%s', must be 1 .. 1048576", optarg);
    case PLOT:
        o->plot = optarg;
        return 0;
    default:
        return cli_bad_option("bench");
    }
}

static const struct part {
    const char *name;
    int (*run)(const bench_options *options);
    unsigned takes; /* set of the options that not every part takes */
} parts[] = {
    { "kernels", bench_kernels, 0 },
    { "models", bench_models, BIT(SERVE) | BIT(PROFILE) | BIT(AMP) | BIT(DTYPE) },
    { "pretrained", bench_pretrained,
      BIT(MODEL) | BIT(SERVE) | BIT(DTYPE) | BIT(TOKENS) | BIT(BATCH) },
    { "products", bench_products, BIT(SERVE) },
    { "embed", bench_embed, BIT(MODEL) | BIT(FILES) | BIT(SERVE) | BIT(PROFILE) },
    { "tokenizers", bench_tokenizers, BIT(MODEL) | BIT(FILES) | BIT(SERVE) },
    { "small", bench_small, BIT(SERVE) },
    { "scale", bench_scale, BIT(PLOT) },
    { "ranks", bench_ranks, BIT(SERVE) | BIT(PROFILE) | BIT(PLOT) | BIT(ACCUMULATE) },
    { "sweep", bench_sweep, BIT(SERVE) },
};

/* Refuses an option that the part would ignore. Returns CLI_CONTINUE or the exit status. */
static int check_options(const struct part *part, const bench_options *asked, unsigned given)
{
    const unsigned special = BIT(MODEL) | BIT(FILES) | BIT(SERVE) | BIT(PROFILE) | BIT(PLOT) |
                             BIT(ACCUMULATE) | BIT(AMP) | BIT(DTYPE) | BIT(TOKENS) | BIT(BATCH);
    for (const struct option *o = options; o->name; o++)
        if (o->val >= THREADS && o->val <= DTYPE && (given & special & ~part->takes & BIT(o->val)))
            return cli_usage("bench", "%s does not take --%s", part->name, o->name);
    if (asked->dtype == BR_QUANTIZED && part->run != bench_pretrained)
        return cli_usage("bench", "%s does not take --dtype quantized", part->name);
    if (asked->amp && asked->dtype != BR_DTYPE_AUTO && br_dtype_size(asked->dtype) == 8)
        return cli_usage("bench", "--amp does not convert operands of f64: leave out --amp or "
                                  "--dtype");
    return CLI_CONTINUE;
}

int cli_bench(int argc, char **argv)
{
    request r = { .options = { .dtype = BR_DTYPE_AUTO, .tokens = 128, .batch = 1 } };
    int status = cli_options(argc, argv, "h", options, help, take, &r);
    if (status != CLI_CONTINUE)
        return status;
    if (argc != optind + 1)
        return cli_usage("bench", "expected one benchmark, got %d arguments", argc - optind);
    r.options.threads = br_get_num_threads();
    char names[128] = "";
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        names_add(names, sizeof names, parts[i].name);
        if (strcmp(argv[optind], parts[i].name) != 0)
            continue;
        status = check_options(&parts[i], &r.options, r.given);
        return status == CLI_CONTINUE ? parts[i].run(&r.options) : status;
    }
    return cli_usage("bench", "unknown benchmark '%s', must be one of %s%s", argv[optind], names,
                     names_suggestion(argv[optind], names));
}
