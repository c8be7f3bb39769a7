/* cli/generate.c - `brasa generate --model DIR PROMPT`: how a GPT-2 goes on with a text. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: brasa generate --model DIR [OPTION]... PROMPT\n"
    "\n"
    "Shows how a language model goes on with a text: with the likeliest token each time or, where\n"
    "one of the options marked * is given, with tokens that are drawn.\n"
    "\n"
    "  -m, --model DIR             a folder as the hub has a GPT-2: config.json,\n"
    "                              model.safetensors, and tokenizer.json, or vocab.json and\n"
    "                              merges.txt\n"
    "  -n, --max-new-tokens N      at most so many tokens: 50\n"
    "  -T, --temperature X       * above 1 more variety, below 1 less: 1\n"
    "  -k, --top-k N             * one of the N likeliest tokens\n"
    "  -p, --top-p X             * one of the likeliest whose probabilities sum to X\n"
    "  -s, --seed N              * of the random numbers: 0\n"
    "  -r, --repetition-penalty X  makes tokens that were there less likely: 1\n"
    "  -h, --help                  this text\n";

typedef struct request {
    const char *model;
    int64_t seed;
    br_generate_options o;
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

/* A text that grows as its tokens come. */
typedef struct shown {
    const br_tokenizer *tokenizer;
    int64_t n, ids[INT16_MAX];
    size_t length; /* of the text that is on the terminal */
} shown;

/* The length of the text without a code point at its end of which bytes are still to come. */
static size_t whole(const char *text)
{
    static const char bad[] = "\xef\xbf\xbd";
    size_t n = strlen(text), m = strlen(bad);
    while (n >= m && memcmp(text + n - m, bad, m) == 0)
        n -= m;
    return n;
}

static void show(shown *s, bool end)
{
    char *text = br_tokenizer_decode(s->tokenizer, s->n, s->ids, true);
    size_t n = text ? end ? strlen(text) : whole(text) : 0;
    if (n > s->length) {
        fwrite(text + s->length, 1, n - s->length, stdout);
        fflush(stdout);
        s->length = n;
    }
    br_free(text);
}

static bool take_token(void *context, br_tensor *tokens)
{
    shown *s = context;
    s->ids[s->n++] = br_item_i64(tokens);
    show(s, false);
    return !br_failed() && !ferror(stdout);
}

/* ---- Generating ------------------------------------------------------------------------------ */

/* What ends a text by the configuration, in memory to free(). */
static bool read_eos(const char *dir, br_generate_options *o)
{
    br_auto_config *config = br_auto_config_load(dir);
    bool there = config && br_auto_config_expect(config, "gpt2") &&
                 br_auto_config_has(config, "eos_token_id");
    int64_t n = there ? br_auto_config_list_size(config, "eos_token_id") : 0;
    int64_t *ids = n > 0 ? calloc((size_t)n, sizeof *ids) : NULL;
    for (int64_t i = 0; ids && i < n; i++)
        ids[i] = br_auto_config_list_integer(config, "eos_token_id", i);
    if (n > 0 && !ids)
        br_raise(BR_ERROR_MEMORY, "generate: no memory for eos_token_id");
    br_auto_config_free(config);
    o->eos_token_ids = ids;
    o->n_eos = n > 0 ? n : 0;
    return !br_failed();
}

static void go_on(const request *r, br_gpt2_lm *model, const br_tokenizer *tokenizer,
                  const char *prompt)
{
    static shown s;
    s = (shown){ .tokenizer = tokenizer };
    br_generate_options o = r->o;
    br_tensor *ids = cli_encode(tokenizer, prompt);
    if (!read_eos(r->model, &o)) {
        free((int64_t *)o.eos_token_ids);
        return;
    }
    o.on_tokens = take_token;
    o.context = &s;
    br_language_model lm = br_gpt2_language_model(model);
    br_manual_seed((uint64_t)r->seed);
    fputs(prompt, stdout);
    fflush(stdout);
    br_generate(&lm, ids, &o);
    if (!br_failed())
        show(&s, true);
    putchar('\n');
    free((int64_t *)o.eos_token_ids);
}

static void generate(const request *r, const char *prompt)
{
    br_scope *scope = br_no_grad_begin();
    br_tokenizer *tokenizer = cli_open_tokenizer(r->model, false);
    br_auto_model_options options = { .class_name = "GPT2LMHeadModel" };
    br_gpt2_lm *model = tokenizer ? br_auto_model_load(r->model, &options, NULL) : NULL;
    if (model)
        go_on(r, model, tokenizer, prompt);
    br_free_module(model);
    br_tokenizer_free(tokenizer);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "max-new-tokens", required_argument, NULL, 'n' },
    { "temperature", required_argument, NULL, 'T' },
    { "top-k", required_argument, NULL, 'k' },
    { "top-p", required_argument, NULL, 'p' },
    { "seed", required_argument, NULL, 's' },
    { "repetition-penalty", required_argument, NULL, 'r' },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

static int take_number(const char *name, double low, double high, double *value)
{
    return cli_number(optarg, low, high, value)
               ? 0
               : cli_usage("generate", "%s is '%s', must be %g .. %g", name, optarg, low, high);
}

static int take_integer(const char *name, int64_t low, int64_t high, int64_t *value)
{
    return cli_integer(optarg, low, high, value)
               ? 0
               : cli_usage("generate", "%s is '%s', must be %" PRId64 " .. %" PRId64, name, optarg,
                           low, high);
}

/* Takes one option; 0, or the exit status. */
static int take(void *of, int c)
{
    request *r = of;
    r->o.do_sample |= c && strchr("Tkps", c);
    switch (c) {
    case 'm':
        r->model = optarg;
        return 0;
    case 'n':
        return take_integer("--max-new-tokens", 1, INT16_MAX, &r->o.max_new_tokens);
    case 'T':
        return take_number("--temperature", 1e-3, 1e3, &r->o.temperature);
    case 'k':
        return take_integer("--top-k", 1, INT32_MAX, &r->o.top_k);
    case 'p':
        return take_number("--top-p", 1e-6, 1, &r->o.top_p);
    case 's':
        return take_integer("--seed", 0, INT64_MAX, &r->seed);
    case 'r':
        return take_number("--repetition-penalty", 1e-3, 1e3, &r->o.repetition_penalty);
    default:
        return cli_bad_option("generate");
    }
}

int cli_generate(int argc, char **argv)
{
    request r = { .o.max_new_tokens = 50 };
    int status = cli_options(argc, argv, "m:n:T:k:p:s:r:h", options, help, take, &r);
    if (status != CLI_GO_ON)
        return status;
    if (!r.model)
        return cli_usage("generate", "--model is wanted");
    if (argc != optind + 1)
        return cli_usage("generate", "one prompt is wanted");
    if (!*argv[optind])
        return cli_usage("generate", "the prompt is empty");
    generate(&r, argv[optind]);
    fflush(stdout); /* what was shown first, then what is wrong */
    return br_report(stderr);
}
