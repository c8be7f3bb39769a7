/* cli/generate.c - `brasa generate --model DIR PROMPT`: generates text with a language
 * model. */
#include "cli/cli.h"
#include "cli/pretrained.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: brasa generate --model DIR [OPTION]... PROMPT\n"
    "\n"
    "Generates text: a decoder such as GPT-2 continues the prompt, an encoder-decoder such as T5\n"
    "writes the output for it. By default each token is the most likely one (greedy decoding).\n"
    "Any option marked * turns on sampling. Options override the model's generation_config.json.\n"
    "\n"
    "  -m, --model DIR             folder of a language model as downloaded from the Hugging Face\n"
    "                              Hub: config.json, model.safetensors, and tokenizer.json, or\n"
    "                              vocab.json and merges.txt, or spiece.model; or a GGUF file\n"
    "  -n, --max-new-tokens N      maximum number of tokens to generate (default: 50)\n"
    "  -T, --temperature X         * divide the logits by X; X > 1 gives more variety (default: "
    "1)\n"
    "  -k, --top-k N               * sample only from the N most likely tokens (default: 50)\n"
    "  -p, --top-p X               * sample only from the most likely tokens whose probabilities\n"
    "                              sum to X or more (default: 1)\n"
    "  -s, --seed N                * seed of the random numbers (default: 0)\n"
    "  -r, --repetition-penalty X  X > 1 makes tokens that occurred before less likely\n"
    "                              (default: 1)\n"
    "      --stop TEXT             stop after this text; may be repeated\n"
    "      --chat                  the prompt is a user's message: apply the model's chat "
    "template,\n"
    "                              and print only the answer\n"
    "      --system TEXT           with --chat: a system message before the prompt\n"
    "      --chat-variables JSON   with --chat: an object of variables for the template, such as\n"
    "                              {\"enable_thinking\": false}\n"
    "      --no-special-tokens     do not add the tokenizer's special tokens, such as [SEP] or\n"
    "                              </s>, to the prompt\n"
    "      --set KEY=VALUE         value of a key of generation_config.json, such as\n"
    "                              do_sample=false, no_repeat_ngram_size=3 or\n"
    "                              eos_token_id=[198,50256]\n"
    "      --adapter DIR           add the LoRA adapter of the folder, which peft or Brasa saved\n"
    "      --dtype D               load the model as f32, f64, bf16 or f16; auto (default): in\n"
    "                              the dtype that config.json names, or that of the weights;\n"
    "                              quantized: weights as a GGUF file stores them\n"
    "      --amp bf16              compute matrix products and attention in bf16, as under\n"
    "                              torch.autocast (default: off)\n"
    "      --matmul-precision P\n"
    "                              precision of f32 matrix products: highest (default), high\n"
    "                              or medium, which rounds their operands to bf16\n"
    "  -h, --help                  show this help\n";

typedef struct request {
    const char *model, *prompt;
    bool chat;
    const char *system, *variables; /* of a chat; NULL: none */
    int64_t seed;
    bool no_special_tokens;
    json_t *given; /* keys of generation_config.json that the options set */
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

/* The text that is printed while it is generated. */
typedef struct shown {
    br_decode_stream *stream;
    const char *prompt; /* printed before the first token */
    int64_t start;      /* token before the first new one, whose text is printed; -1: none */
    bool begun;
    bool whole; /* the text is printed at the end */
} shown;

/* Prints a text of the stream; NULL stands for an error. */
static void print_text(const char *text, int64_t length)
{
    if (text)
        fwrite(text, 1, (size_t)length, stdout);
    fflush(stdout);
}

static void show(shown *s, int64_t id)
{
    int64_t length;
    const char *text = br_decode_stream_step(s->stream, id, &length);
    print_text(text, length);
}

/* Prints what comes before the text of the first new token. */
static void begin(shown *s)
{
    if (s->begun)
        return;
    s->begun = true;
    fputs(s->prompt, stdout);
    if (s->start >= 0)
        show(s, s->start);
}

static void end(shown *s)
{
    int64_t length;
    begin(s);
    const char *text = br_decode_stream_end(s->stream, &length);
    print_text(text, length);
}

static bool append_token(void *context, br_tensor *tokens)
{
    shown *s = context;
    int64_t id = br_item_i64(tokens);
    if (br_failed())
        return false;
    begin(s);
    show(s, id);
    return !br_failed() && !ferror(stdout);
}

/* ---- Generating ------------------------------------------------------------------------------ */

typedef struct job {
    const br_model_class *class;
    br_module *model;
    const br_tokenizer *tokenizer;
    br_tensor *ids; /* of the prompt, [1, S] */
    br_generation_config *config;
    shown shown;
} job;

/* Prints the text of a row of ids, of which n were given, up to its end. */
static void print_row(const job *j, const br_generate_options *o, const int64_t *ids, int64_t n,
                      int64_t length)
{
    shown s = j->shown;
    bool ended = false;
    s.stream = br_decode_stream_new(j->tokenizer, true, s.start < 0 ? n : 0, ids);
    if (!s.stream)
        return;
    begin(&s);
    for (int64_t k = n; k < length && ids[k] >= 0 && !ended; k++) {
        show(&s, ids[k]);
        for (int64_t i = 0; i < o->n_eos; i++)
            ended = ended || ids[k] == o->eos_token_ids[i];
    }
    end(&s);
    putchar('\n');
    br_decode_stream_free(s.stream);
}

/* Prints all rows. What several beams give is known at the end only. */
static void print_rows(const job *j, const br_generate_options *o, const br_tensor *ids, int64_t n)
{
    const int64_t *row = br_data_i64(ids);
    for (int64_t i = 0; row && i < br_size(ids, 0) && !br_failed(); i++, row += br_size(ids, 1))
        print_row(j, o, row, n, br_size(ids, 1));
}

/* Generates the tokens that follow `first`. */
static void run(job *j, const br_language_model *lm, br_tensor *first)
{
    enum { MAX_NEW_TOKENS = 50 };
    br_generate_options o = br_generate_defaults();
    o.max_new_tokens = MAX_NEW_TOKENS;
    o.on_tokens = append_token;
    o.context = &j->shown;
    o.tokenizer = j->tokenizer;
    if (!j->shown.stream || !br_generation_config_apply(j->config, br_size(first, 1), &o))
        return;
    j->shown.whole = o.num_beams > 1 || o.num_return_sequences > 1;
    if (j->shown.whole)
        o.on_tokens = NULL;
    br_tensor *ids = br_generate(lm, first, &o);
    if (ids && j->shown.whole)
        print_rows(j, &o, ids, br_size(first, 1));
}

/* The model continues the prompt. */
static void run_decoder(job *j)
{
    br_model_source source = { .model = j->model };
    br_language_model lm = j->class->language_model(&source);
    j->shown.stream =
        br_decode_stream_new(j->tokenizer, true, br_size(j->ids, 1), br_data_i64(j->ids));
    run(j, &lm, j->ids);
}

/* The decoder writes the output for the prompt. */
static void run_encoder_decoder(job *j)
{
    const br_encoder_decoder *parts = j->class->encoder_decoder;
    int64_t first = br_generation_config_decoder_start(j->config);
    br_model_source source = {
        .model = j->model,
        .memory = parts->encode(j->model, &(br_token_batch){ .ids = j->ids }),
    };
    br_language_model lm = j->class->language_model(&source);
    br_tensor *start =
        first < 0 ? parts->start(j->model, 1) : br_full(BR_SHAPE(1, 1), (double)first, BR_I64);
    j->shown.prompt = "";
    /* A start token that is not special is part of the text. */
    j->shown.start = br_item_i64(start);
    j->shown.stream = br_decode_stream_new(j->tokenizer, true, 0, NULL);
    run(j, &lm, start);
}

static bool generates(const br_model_class *class)
{
    return class->language_model != NULL;
}

/* Returns the text of a chat, which the caller frees; NULL with an error on failure. */
static char *render_chat(const request *r, const br_tokenizer *tokenizer)
{
    br_chat_message messages[] = { { "system", r->system }, { "user", r->prompt } };
    int first = r->system ? 0 : 1;
    br_chat_template *chat = br_chat_template_load(r->model, NULL, tokenizer);
    char *text = NULL;
    if (chat)
        text = br_chat_template_render(
            chat, 2 - first, messages + first,
            BR_OPTIONS(br_chat, .add_generation_prompt = true, .variables = r->variables));
    br_chat_template_free(chat);
    return text;
}

/* Returns the ids of the text, i64 [1, S]; NULL with an error on failure. A chat template writes
 * the special tokens itself. */
static br_tensor *encode_text(const request *r, const br_tokenizer *tokenizer, const char *text)
{
    br_token_batch batch;
    const br_encode_options *options =
        BR_OPTIONS(br_encode, .add_special_tokens = !r->no_special_tokens && !r->chat);
    if (!br_tokenizer_encode_batch(tokenizer, 1, &(br_text){ text, -1 }, NULL, options, &batch) ||
        !pretrained_check_ids("generate", tokenizer, batch.ids, pretrained_rows(r->model)))
        return NULL;
    if (br_size(batch.ids, 1) > 0)
        return batch.ids;
    return br_fail(BR_ERROR_ARGUMENT, "generate", "the prompt has no tokens");
}

/* Returns the ids of the prompt, or of the chat with it. */
static br_tensor *encode(const request *r, const br_tokenizer *tokenizer)
{
    char *chat = r->chat ? render_chat(r, tokenizer) : NULL;
    if (r->chat && !chat)
        return NULL;
    br_tensor *ids = encode_text(r, tokenizer, chat ? chat : r->prompt);
    br_free(chat);
    return ids;
}

/* Reads the settings, and warns about unknown keys. Returns NULL with an error on failure. */
static br_generation_config *read_settings(const request *r)
{
    char *given = json_dumps(r->given, JSON_COMPACT);
    if (!given)
        return br_fail(BR_ERROR_MEMORY, "generate", "cannot allocate memory for the options");
    br_generation_config *config = br_generation_config_load(r->model, given);
    free(given);
    if (config && *br_generation_config_unknown(config))
        fprintf(stderr,
                "brasa: warning: %s: results may differ from those of transformers, because these "
                "keys are unknown: %s\n",
                br_generation_config_path(config),
                br_printable(br_generation_config_unknown(config)));
    return config;
}

static void go_on(const request *r, const br_model_class *class, br_module *model,
                  const br_tokenizer *tokenizer)
{
    job j = { .class = class,
              .model = model,
              .tokenizer = tokenizer,
              .ids = encode(r, tokenizer),
              .shown = { .prompt = r->chat ? "" : r->prompt, .start = -1 } };
    j.config = j.ids ? read_settings(r) : NULL;
    if (j.config) {
        br_manual_seed((uint64_t)r->seed);
        (class->encoder_decoder ? run_encoder_decoder : run_decoder)(&j);
    }
    if (!br_failed() && !j.shown.whole)
        end(&j.shown);
    if (j.shown.begun)
        putchar('\n');
    br_decode_stream_free(j.shown.stream);
    br_generation_config_free(j.config);
}

static void generate(const request *r)
{
    br_scope *scope = br_no_grad_begin();
    cli_autocast();
    const br_model_class *class = pretrained_class(r->model, generates, "generate");
    br_tokenizer *tokenizer = class ? cli_open_tokenizer(r->model, false) : NULL;
    br_module *model = class ? pretrained_load(r->model, class->name, tokenizer, NULL) : NULL;
    if (model)
        go_on(r, class, model, tokenizer);
    br_module_free(model);
    br_tokenizer_free(tokenizer);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

enum {
    NO_SPECIAL_TOKENS = 256,
    SET,
    STOP,
    CHAT,
    SYSTEM,
    CHAT_VARIABLES
}; /* options without a letter */

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
    { "stop", required_argument, NULL, STOP },
    { "chat", no_argument, NULL, CHAT },
    { "system", required_argument, NULL, SYSTEM },
    { "chat-variables", required_argument, NULL, CHAT_VARIABLES },
    CLI_MODEL_OPTIONS,
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

/* Adds a stop string. */
static int give_stop(request *r)
{
    json_t *text = json_string(optarg);
    if (!text || !*optarg) {
        json_decref(text);
        return cli_usage("generate", "--stop is %s", text ? "empty" : "not UTF-8");
    }
    json_t *stops = json_incref(json_object_get(r->given, "stop_strings"));
    if (!json_is_array(stops)) {
        json_decref(stops);
        stops = json_array();
    }
    json_array_append_new(stops, text);
    return give(r, "stop_strings", stops);
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
    bool found = false;
    for (int i = 0; br_generation_config_key(i); i++) {
        names_add(known, sizeof known, br_generation_config_key(i));
        found |= strcmp(br_generation_config_key(i), key) == 0;
    }
    if (!found)
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
    case STOP:
        return give_stop(r);
    case CHAT:
        r->chat = true;
        return 0;
    case SYSTEM:
        r->system = optarg;
        return 0;
    case CHAT_VARIABLES:
        r->variables = optarg;
        return 0;
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
    if (!r->chat && (r->system || r->variables))
        return cli_usage("generate", "%s needs --chat",
                         r->system ? "--system" : "--chat-variables");
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
