/* cli/generate.c - `brasa generate --model DIR PROMPT`: generates text with a GPT-2 or a T5. */
#include "cli/cli.h"
#include "cli/generation.h"
#include "cli/pretrained.h"
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: brasa generate --model DIR [OPTION]... PROMPT\n"
    "\n"
    "Generates text: a GPT-2 continues the prompt, a T5 writes the output for it. By default each\n"
    "token is the most likely one (greedy decoding). Any option marked * turns on sampling.\n"
    "Options override the model's generation_config.json.\n"
    "\n"
    "  -m, --model DIR             folder of a GPT-2 or T5 as downloaded from the Hugging Face\n"
    "                              Hub: config.json, model.safetensors, and tokenizer.json, or\n"
    "                              vocab.json and merges.txt, or spiece.model\n"
    "  -n, --max-new-tokens N      maximum number of tokens to generate (default: 50)\n"
    "  -T, --temperature X         * divide the logits by X; X > 1 gives more variety (default: "
    "1)\n"
    "  -k, --top-k N               * sample only from the N most likely tokens (default: 50)\n"
    "  -p, --top-p X               * sample only from the most likely tokens whose probabilities\n"
    "                              sum to X or more (default: 1)\n"
    "  -s, --seed N                * seed of the random numbers (default: 0)\n"
    "  -r, --repetition-penalty X  X > 1 makes tokens that occurred before less likely\n"
    "                              (default: 1)\n"
    "      --no-special-tokens     do not add the tokenizer's special tokens, such as [SEP] or\n"
    "                              </s>, to the prompt\n"
    "      --set KEY=VALUE         value of a key of generation_config.json, such as\n"
    "                              do_sample=false, no_repeat_ngram_size=3 or\n"
    "                              eos_token_id=[198,50256]\n"
    "      --matmul-precision P\n"
    "                              precision of f32 matrix products: highest (default), high\n"
    "                              or medium, which rounds their operands to bf16\n"
    "  -h, --help                  show this help\n";

typedef struct request {
    const char *model, *prompt;
    int64_t seed;
    bool no_special_tokens;
    json_t *given; /* keys of generation_config.json that the options set */
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

/* The text that is printed while it is generated. A token's text depends on the tokens before it:
 * a word begins with a space except at the beginning of a text. So all tokens, the prompt's
 * included, are decoded together, and the text after the prompt's is printed. */
typedef struct shown {
    const br_tokenizer *tokenizer;
    const char *prompt; /* printed before the first token */
    bool begun;
    int64_t n, capacity, *ids; /* all tokens so far */
    char *text;                /* the decoded text that is printed already, or the prompt's */
    size_t length;
} shown;

/* Adds a token to those that are decoded. As in transformers, an id without a token has no text: a
 * model may have more embeddings than the tokenizer has tokens, and an id may be unused. */
static bool add_id(shown *s, int64_t id)
{
    if (id >= br_tokenizer_size(s->tokenizer) || !s->tokenizer->tokens[id])
        return true;
    if (s->n == s->capacity) {
        int64_t capacity = 2 * s->capacity + 64;
        int64_t *ids = realloc(s->ids, (size_t)capacity * sizeof *ids);
        if (!ids)
            return br_fail(BR_ERROR_MEMORY, "generate", "cannot allocate memory for the tokens");
        s->ids = ids;
        s->capacity = capacity;
    }
    s->ids[s->n++] = id;
    return true;
}

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

/* Returns the length of the text that is printed already. It is less than s->length if new tokens
 * have changed the end of that text: a byte that completes no code point also makes the bytes
 * before it U+FFFD. */
static size_t common(const shown *s, const char *text, size_t n)
{
    size_t i = 0;
    while (i < n && i < s->length && text[i] == s->text[i])
        i++;
    while (i < s->length && i > 0 && ((unsigned char)text[i] & 0xc0) == 0x80)
        i--;
    return i;
}

/* Returns the length of the text whose spaces later tokens cannot remove. If the tokenizer cleans
 * decoded text up, a token can complete a pattern such as " n't" or " ' ve", which begins up to
 * five bytes before it. */
static size_t settled(const shown *s, const char *text, size_t n)
{
    enum { BEFORE = 5 };
    for (size_t i = n > BEFORE ? n - BEFORE : 0; i < n && s->tokenizer->cleans_up; i++)
        if (text[i] == ' ')
            return i;
    return n;
}

/* Prints the new text, except for an end of it that later tokens could change. At the `end` of the
 * generation, prints that too. */
static void show(shown *s, bool end)
{
    int64_t length;
    char *text = br_tokenizer_decode_text(s->tokenizer, s->n, s->ids, true, &length);
    if (!text)
        return;
    size_t n = end ? (size_t)length : settled(s, text, whole(text, (size_t)length));
    size_t from = common(s, text, n);
    if (!s->begun)
        fputs(s->prompt, stdout);
    s->begun = true;
    if (from == s->length || end) {
        fwrite(text + from, 1, n - from, stdout);
        br_free(s->text);
        s->text = text;
        s->length = n;
    } else {
        br_free(text);
    }
    fflush(stdout);
}

static bool append_token(void *context, br_tensor *tokens)
{
    shown *s = context;
    int64_t id = br_item_i64(tokens);
    if (add_id(s, id))
        show(s, false);
    return !br_failed() && !ferror(stdout);
}

/* Sets the text that the prompt's tokens decode to, which is not printed again. */
static void skip_prompt(shown *s, br_tensor *ids)
{
    const int64_t *p = br_data_i64(ids);
    for (int64_t i = 0; p && i < br_size(ids, 1); i++)
        if (!add_id(s, p[i]))
            return;
    int64_t length;
    s->text = br_tokenizer_decode_text(s->tokenizer, s->n, s->ids, true, &length);
    s->length = s->text ? (size_t)length : 0;
}

/* ---- Generating ------------------------------------------------------------------------------ */

typedef struct job {
    void *model;
    br_tensor *ids; /* of the prompt, [1, S] */
    generation settings;
    shown shown;
} job;

static void run_gpt2(job *j)
{
    br_language_model lm = br_gpt2_language_model(j->model);
    skip_prompt(&j->shown, j->ids);
    if (generation_limit(&j->settings, br_size(j->ids, 1)))
        br_generate(&lm, j->ids, &j->settings.options);
}

static void run_t5(job *j)
{
    int64_t first = j->settings.decoder_start_token_id;
    br_t5_source source = { j->model, br_t5_encode(j->model, j->ids, NULL), NULL };
    br_language_model lm = br_t5_language_model(&source);
    br_tensor *start =
        first < 0 ? br_t5_start(j->model, 1) : br_full(BR_SHAPE(1, 1), (double)first, BR_I64);
    j->shown.prompt = "";
    /* A start token that is not special is part of the text. */
    if (!br_failed() && add_id(&j->shown, br_item_i64(start)) && generation_limit(&j->settings, 1))
        br_generate(&lm, start, &j->settings.options);
}

static const struct family {
    model_family base;
    void (*run)(job *j);
} families[] = {
    { { "gpt2", "GPT2LMHeadModel" }, run_gpt2 },
    { { "t5", "T5ForConditionalGeneration" }, run_t5 },
};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* Returns the prompt's ids, i64 [1, S]; NULL with an error on failure. */
static br_tensor *encode(const request *r, const br_tokenizer *tokenizer)
{
    br_token_batch batch;
    const br_encode_options *options =
        BR_OPTIONS(br_encode, .add_special_tokens = !r->no_special_tokens);
    if (!br_tokenizer_encode_batch(tokenizer, 1, &(br_text){ r->prompt, -1 }, NULL, options,
                                   &batch) ||
        !pretrained_check_ids("generate", tokenizer, batch.ids, pretrained_rows(r->model)))
        return NULL;
    if (br_size(batch.ids, 1) > 0)
        return batch.ids;
    return br_fail(BR_ERROR_ARGUMENT, "generate", "the prompt has no tokens");
}

static void go_on(const request *r, const struct family *f, void *model,
                  const br_tokenizer *tokenizer)
{
    job j = { .model = model,
              .ids = encode(r, tokenizer),
              .shown = { .tokenizer = tokenizer, .prompt = r->prompt } };
    if (j.ids && generation_read(&j.settings, r->model, r->given)) {
        j.settings.options.on_tokens = append_token;
        j.settings.options.context = &j.shown;
        br_manual_seed((uint64_t)r->seed);
        f->run(&j);
    }
    if (!br_failed())
        show(&j.shown, true);
    if (j.shown.begun)
        putchar('\n');
    br_free(j.shown.text);
    free(j.shown.ids);
    generation_free(&j.settings);
}

static void generate(const request *r)
{
    br_scope *scope = br_no_grad_begin();
    const struct family *f =
        pretrained_family(r->model, families, N_FAMILIES, sizeof *families, "generate");
    br_tokenizer *tokenizer = f ? cli_open_tokenizer(r->model, false) : NULL;
    void *model = f ? pretrained_load(r->model, f->base.class_name, tokenizer, NULL) : NULL;
    if (model)
        go_on(r, f, model, tokenizer);
    br_module_free(model);
    br_tokenizer_free(tokenizer);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

enum { NO_SPECIAL_TOKENS = 256, SET }; /* options without a letter */

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "max-new-tokens", required_argument, NULL, 'n' },
    { "temperature", required_argument, NULL, 'T' },
    { "top-k", required_argument, NULL, 'k' },
    { "top-p", required_argument, NULL, 'p' },
    { "seed", required_argument, NULL, 's' },
    { "repetition-penalty", required_argument, NULL, 'r' },
    { "no-special-tokens", no_argument, NULL, NO_SPECIAL_TOKENS },
    { "set", required_argument, NULL, SET },
    { "matmul-precision", required_argument, NULL, CLI_MATMUL_PRECISION },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

/* Sets a key of generation_config.json to a value, whose ownership is taken. Returns the exit
 * status. */
static int give(request *r, const char *key, json_t *value)
{
    if (json_object_set_new(r->given, key, value) == 0)
        return 0;
    br_raise(BR_ERROR_MEMORY, "generate: cannot allocate memory for --set %s", key);
    return cli_report();
}

static int give_number(request *r, const char *name, const char *key, double low, double high)
{
    double value;
    return text_to_number(optarg, low, high, &value)
               ? give(r, key, json_real(value))
               : cli_usage("generate", "%s is '%s', must be %g .. %g", name, optarg, low, high);
}

static int give_integer(request *r, const char *name, const char *key, int64_t low, int64_t high)
{
    int64_t value;
    return text_to_integer(optarg, low, high, &value)
               ? give(r, key, json_integer(value))
               : cli_usage("generate", "%s is '%s', must be %" PRId64 " .. %" PRId64, name, optarg,
                           low, high);
}

static int parse_seed(request *r)
{
    return text_to_integer(optarg, 0, INT64_MAX, &r->seed)
               ? 0
               : cli_usage("generate", "--seed is '%s', must be 0 .. %" PRId64, optarg, INT64_MAX);
}

/* Handles --set KEY=VALUE. */
static int parse_set(request *r)
{
    char key[64], known[2048] = "";
    size_t n = strcspn(optarg, "=");
    if (!optarg[n] || n == 0)
        return cli_usage("generate", "--set is '%s', must be KEY=VALUE", optarg);
    snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : (int)sizeof key - 1, optarg);
    generation_keys(known, sizeof known);
    if (!generation_has(key))
        return cli_usage("generate", "--set %s: generation_config.json has no such key%s", key,
                         names_suggestion(key, known));
    json_error_t error;
    json_t *value = json_loads(optarg + n + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
    if (!value)
        return cli_usage("generate", "--set %s: the value '%s' is not JSON: %s", key,
                         optarg + n + 1, error.text);
    return give(r, key, value);
}

/* Handles one option; returns 0 or the exit status. */
static int parse_option(void *of, int c)
{
    request *r = of;
    int status =
        c > 0 && c < NO_SPECIAL_TOKENS && strchr("Tkps", c) ? give(r, "do_sample", json_true()) : 0;
    if (status)
        return status;
    switch (c) {
    case 'm':
        r->model = optarg;
        return 0;
    case 'n':
        return give_integer(r, "--max-new-tokens", "max_new_tokens", 1, INT16_MAX);
    case 'T':
        return give_number(r, "--temperature", "temperature", 1e-3, 1e3);
    case 'k':
        return give_integer(r, "--top-k", "top_k", 1, INT32_MAX);
    case 'p':
        return give_number(r, "--top-p", "top_p", 1e-6, 1);
    case 's':
        return parse_seed(r);
    case 'r':
        return give_number(r, "--repetition-penalty", "repetition_penalty", 1e-3, 1e3);
    case NO_SPECIAL_TOKENS:
        r->no_special_tokens = true;
        return 0;
    case SET:
        return parse_set(r);
    default:
        return cli_bad_option("generate");
    }
}

static int check_and_run(int argc, char **argv, request *r)
{
    if (!r->model)
        return cli_usage("generate", "--model is required");
    if (argc != optind + 1)
        return cli_usage("generate", "expected one prompt, got %d", argc - optind);
    if (!*argv[optind])
        return cli_usage("generate", "the prompt is empty");
    int status = pretrained_check_folder("--model", r->model);
    if (status != CLI_CONTINUE)
        return status;
    r->prompt = argv[optind];
    generate(r);
    return cli_report();
}

int cli_generate(int argc, char **argv)
{
    request r = { .given = json_object() };
    if (!r.given)
        br_raise(BR_ERROR_MEMORY, "generate: cannot allocate memory for the options");
    int status = r.given
                     ? cli_options(argc, argv, "m:n:T:k:p:s:r:h", options, help, parse_option, &r)
                     : cli_report();
    if (status == CLI_CONTINUE)
        status = check_and_run(argc, argv, &r);
    json_decref(r.given);
    return status;
}
