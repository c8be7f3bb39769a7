/* cli/generate.c - `brasa generate --model DIR PROMPT`: how a GPT-2 goes on with a text, or what a
 * T5 makes of it. */
#include "cli/cli.h"
#include "cli/pretrained.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: brasa generate --model DIR [OPTION]... PROMPT\n"
    "\n"
    "Shows how a language model goes on with a text, or what one of an encoder and a decoder "
    "makes\n"
    "of it: with the likeliest token each time or, where one of the options marked * is given, "
    "with\n"
    "tokens that are drawn.\n"
    "\n"
    "  -m, --model DIR             a folder as the hub has a GPT-2 or a T5: config.json,\n"
    "                              model.safetensors, and tokenizer.json, or vocab.json and\n"
    "                              merges.txt, or spiece.model\n"
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

/* A model may have more embeddings than there are tokens: those stand for no text. */
static bool take_token(void *context, br_tensor *tokens)
{
    shown *s = context;
    int64_t id = br_item_i64(tokens);
    if (id < br_tokenizer_size(s->tokenizer))
        s->ids[s->n++] = id;
    show(s, false);
    return !br_failed() && !ferror(stdout);
}

/* ---- Generating ------------------------------------------------------------------------------ */

/* Shows what follows the prompt, which is that itself first. */
static void run_gpt2(void *model, const br_generate_options *o, br_tensor *ids, const char *prompt)
{
    br_language_model lm = br_gpt2_language_model(model);
    fputs(prompt, stdout);
    fflush(stdout);
    br_generate(&lm, ids, o);
}

static void run_t5(void *model, const br_generate_options *o, br_tensor *ids, const char *prompt)
{
    (void)prompt;
    br_t5_source source = { model, br_t5_encode(model, ids, NULL), NULL };
    br_language_model lm = br_t5_language_model(&source);
    br_generate(&lm, br_t5_start(model, 1), o);
}

static const struct family {
    model_family base;
    void (*run)(void *model, const br_generate_options *o, br_tensor *ids, const char *prompt);
} families[] = {
    { { "gpt2", "GPT2LMHeadModel" }, run_gpt2 },
    { { "t5", "T5ForConditionalGeneration" }, run_t5 },
};
enum { N_FAMILIES = sizeof families / sizeof *families };

static void go_on(const request *r, const struct family *f, void *model,
                  const br_tokenizer *tokenizer, const char *prompt)
{
    static shown s;
    s = (shown){ .tokenizer = tokenizer };
    br_generate_options o = r->o;
    br_tensor *ids = cli_encode(tokenizer, prompt);
    if (!pretrained_ends(r->model, &o))
        return;
    o.on_tokens = take_token;
    o.context = &s;
    br_manual_seed((uint64_t)r->seed);
    f->run(model, &o, ids, prompt);
    if (!br_failed())
        show(&s, true);
    putchar('\n');
    free((int64_t *)o.eos_token_ids);
}

static void generate(const request *r, const char *prompt)
{
    br_scope *scope = br_no_grad_begin();
    const struct family *f =
        pretrained_family(r->model, families, N_FAMILIES, sizeof *families, "made to generate");
    br_tokenizer *tokenizer = f ? cli_open_tokenizer(r->model, false) : NULL;
    br_auto_model_options options = { .class_name = f ? f->base.class_name : NULL };
    void *model = tokenizer ? br_auto_model_load(r->model, &options, NULL) : NULL;
    if (model)
        go_on(r, f, model, tokenizer, prompt);
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
    return cli_report();
}
