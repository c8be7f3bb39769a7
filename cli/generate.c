/* cli/generate.c - `brasa generate --model DIR PROMPT`: generates text with a GPT-2 or a T5. */
#include "cli/cli.h"
#include "cli/pretrained.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: brasa generate --model DIR [OPTION]... PROMPT\n"
    "\n"
    "Generates text: a GPT-2 continues the prompt, a T5 writes the output for it. By default each\n"
    "token is the most likely one (greedy decoding). Any option marked * turns on sampling.\n"
    "\n"
    "  -m, --model DIR             folder of a GPT-2 or T5 as downloaded from the Hugging Face\n"
    "                              Hub: config.json, model.safetensors, and tokenizer.json, or\n"
    "                              vocab.json and merges.txt, or spiece.model\n"
    "  -n, --max-new-tokens N      maximum number of tokens to generate (default: 50)\n"
    "  -T, --temperature X       * divide the logits by X; X > 1 gives more variety (default: 1)\n"
    "  -k, --top-k N             * sample only from the N most likely tokens (default: 50)\n"
    "  -p, --top-p X             * sample only from the most likely tokens whose probabilities\n"
    "                              sum to X or more (default: 1)\n"
    "  -s, --seed N              * seed of the random numbers (default: 0)\n"
    "  -r, --repetition-penalty X  X > 1 makes tokens that occurred before less likely\n"
    "                              (default: 1)\n"
    "  -h, --help                  show this help\n";

typedef struct request {
    const char *model;
    int64_t seed;
    br_generate_options o;
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

/* The generated text so far. */
typedef struct shown {
    const br_tokenizer *tokenizer;
    int64_t n, ids[INT16_MAX];
    size_t length; /* bytes already printed */
} shown;

/* Returns the length of the text without any U+FFFD at its end, which represents a code point whose
 * bytes are not complete yet. */
static size_t whole(const char *text, size_t n)
{
    static const char bad[] = "\xef\xbf\xbd";
    size_t m = strlen(bad);
    while (n >= m && memcmp(text + n - m, bad, m) == 0)
        n -= m;
    return n;
}

static void show(shown *s, bool end)
{
    int64_t length;
    char *text = br_tokenizer_decode_text(s->tokenizer, s->n, s->ids, true, &length);
    size_t n = end ? (size_t)length : whole(text, (size_t)length);
    if (n > s->length) {
        fwrite(text + s->length, 1, n - s->length, stdout);
        fflush(stdout);
        s->length = n;
    }
    br_free(text);
}

/* Skips ids without a token: a model may have more embeddings than the tokenizer has tokens. */
static bool append_token(void *context, br_tensor *tokens)
{
    shown *s = context;
    int64_t id = br_item_i64(tokens);
    if (id < br_tokenizer_size(s->tokenizer))
        s->ids[s->n++] = id;
    show(s, false);
    return !br_failed() && !ferror(stdout);
}

/* ---- Generating ------------------------------------------------------------------------------ */

/* Prints the prompt and then its continuation. */
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
    o.on_tokens = append_token;
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
        pretrained_family(r->model, families, N_FAMILIES, sizeof *families, "generate");
    br_tokenizer *tokenizer = f ? cli_open_tokenizer(r->model, false) : NULL;
    void *model =
        f ? pretrained_load("generate", r->model, f->base.class_name, tokenizer, NULL) : NULL;
    if (model)
        go_on(r, f, model, tokenizer, prompt);
    br_module_free(model);
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

static int parse_number(const char *name, double low, double high, double *value)
{
    return cli_number(optarg, low, high, value)
               ? 0
               : cli_usage("generate", "%s is '%s', must be %g .. %g", name, optarg, low, high);
}

static int parse_integer(const char *name, int64_t low, int64_t high, int64_t *value)
{
    return cli_integer(optarg, low, high, value)
               ? 0
               : cli_usage("generate", "%s is '%s', must be %" PRId64 " .. %" PRId64, name, optarg,
                           low, high);
}

/* Handles one option; returns 0 or the exit status. */
static int parse_option(void *of, int c)
{
    request *r = of;
    r->o.do_sample |= c && strchr("Tkps", c);
    switch (c) {
    case 'm':
        r->model = optarg;
        return 0;
    case 'n':
        return parse_integer("--max-new-tokens", 1, INT16_MAX, &r->o.max_new_tokens);
    case 'T':
        return parse_number("--temperature", 1e-3, 1e3, &r->o.temperature);
    case 'k':
        return parse_integer("--top-k", 1, INT32_MAX, &r->o.top_k);
    case 'p':
        return parse_number("--top-p", 1e-6, 1, &r->o.top_p);
    case 's':
        return parse_integer("--seed", 0, INT64_MAX, &r->seed);
    case 'r':
        return parse_number("--repetition-penalty", 1e-3, 1e3, &r->o.repetition_penalty);
    default:
        return cli_bad_option("generate");
    }
}

int cli_generate(int argc, char **argv)
{
    request r = { .o = *BR_OPTIONS(br_generate, .max_new_tokens = 50) };
    int status = cli_options(argc, argv, "m:n:T:k:p:s:r:h", options, help, parse_option, &r);
    if (status != CLI_CONTINUE)
        return status;
    if (!r.model)
        return cli_usage("generate", "--model is required");
    if (argc != optind + 1)
        return cli_usage("generate", "expected one prompt, got %d", argc - optind);
    if (!*argv[optind])
        return cli_usage("generate", "the prompt is empty");
    generate(&r, argv[optind]);
    return cli_report();
}
