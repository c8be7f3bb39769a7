/* cli/tokenize.c - `brasa tokenize TEXT...`: shows the tokens of BERT's, GPT-2's or T5's tokenizer.
 */
#include "cli/cli.h"
#include "cli/pretrained.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: brasa tokenize [OPTION]... TEXT...\n"
    "       brasa tokenize [OPTION]... --file FILE\n"
    "\n"
    "Prints the tokens and ids of texts. By default, the tokenizer is read from vocab.txt in the\n"
    "working directory.\n"
    "\n"
    "  -v, --vocab FILE      a vocab.txt with one token per line\n"
    "      --merges FILE     the merges.txt of a byte-level BPE; --vocab names its vocab.json\n"
    "  -t, --tokenizer FILE  a tokenizer.json of a BERT, GPT-2 or T5, or a SentencePiece file\n"
    "                        whose name ends in .model\n"
    "      --model DIR       a model folder or a GGUF file, whose tokenizer is used\n"
    "      --cased           do not lower-case the text (WordPiece only)\n"
    "  -f, --file FILE       read the texts from FILE, one per line; a line may end with CR LF,\n"
    "                        and FILE may begin with a byte-order mark\n"
    "  -0, --null            with --file: texts end with NUL instead of a newline, and every "
    "other\n"
    "                        byte belongs to a text\n"
    "  -p, --pair            encode pairs of texts: two arguments each, or two texts per line of\n"
    "                        FILE, separated by a tab\n"
    "  -m, --max-length N    truncate to N tokens, including special tokens\n"
    "      --truncate-left   with --max-length: drop tokens from the beginning\n"
    "      --stride N        with --max-length: also print the rest, in parts that overlap by N\n"
    "                        tokens\n"
    "      --split-special   treat special tokens such as \"[SEP]\" in the text as plain text\n"
    "      --strict          fail on invalid UTF-8\n"
    "  -i, --ids             print only the ids, one line for each text or pair; this is several\n"
    "                        times as fast\n"
    "  -j, --json            print one JSON object per line: ids, type_ids, word_ids (null for\n"
    "                        special tokens that were added), special_mask, offsets in code\n"
    "                        points (\"chars\") and bytes (\"bytes\"), tokens, overflow\n"
    "  -h, --help            show this help\n";

typedef struct request {
    const char *vocab, *merges, *tokenizer, *model, *file;
    br_tokenizer_options vocab_options;
    br_encode_options encode;
    bool json, ids, pair, null, overflow;
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

static void print_numbers(const char *name, const int64_t *values, int64_t n, bool absent)
{
    printf("\"%s\":[", name);
    for (int64_t i = 0; i < n; i++)
        if (absent && values[i] < 0)
            printf("%snull", i ? "," : "");
        else
            printf("%s%" PRId64, i ? "," : "", values[i]);
    printf("],");
}

static void print_spans(const char *name, const br_span *spans, int64_t n)
{
    printf("\"%s\":[", name);
    for (int64_t i = 0; i < n; i++)
        printf("%s[%" PRId64 ",%" PRId64 "]", i ? "," : "", spans[i].begin, spans[i].end);
    printf("],");
}

/* Checks, before anything is printed, that every id has a token. */
static bool have_tokens(const br_tokenizer *t, const br_encoding *e)
{
    for (int64_t i = 0; i < e->length; i++)
        if (!br_tokenizer_token(t, e->ids[i]))
            return false;
    for (int64_t i = 0; i < e->n_overflow; i++)
        if (!have_tokens(t, &e->overflow[i]))
            return false;
    return true;
}

static void print_tokens(const br_tokenizer *t, const br_encoding *e)
{
    printf("\"tokens\":[");
    for (int64_t i = 0; i < e->length; i++) {
        json_t *token = json_string(br_tokenizer_token(t, e->ids[i]));
        fputs(i ? "," : "", stdout);
        if (!token || json_dumpf(token, stdout, JSON_ENCODE_ANY) != 0)
            br_raise(BR_ERROR_MEMORY, "tokenize: cannot allocate memory for a token");
        json_decref(token);
    }
    printf("]");
}

static void print_json(const br_tokenizer *t, const br_encoding *e, bool overflow)
{
    putchar('{');
    print_numbers("ids", e->ids, e->length, false);
    print_numbers("type_ids", e->type_ids, e->length, false);
    print_numbers("word_ids", e->word_ids, e->length, true);
    print_numbers("special_mask", e->special_mask, e->length, false);
    print_spans("chars", e->chars, e->length);
    print_spans("bytes", e->bytes, e->length);
    print_tokens(t, e);
    if (overflow) {
        printf(",\"overflow\":[");
        for (int64_t i = 0; i < e->n_overflow; i++) {
            fputs(i ? "," : "", stdout);
            print_json(t, &e->overflow[i], false);
        }
        printf("]");
    }
    putchar('}');
}

static void print_plain(const br_tokenizer *t, const br_encoding *e, bool overflow)
{
    for (int64_t i = 0; i < e->length; i++)
        printf("%s%s", i ? " " : "", br_tokenizer_token(t, e->ids[i]));
    putchar('\n');
    for (int64_t i = 0; i < e->length; i++)
        printf("%s%" PRId64, i ? " " : "", e->ids[i]);
    putchar('\n');
    for (int64_t i = 0; overflow && i < e->n_overflow; i++)
        print_plain(t, &e->overflow[i], false);
}

static bool show_ids(const request *r, const br_tokenizer *t, br_text text, const br_text *pair)
{
    br_token_ids *ids = br_tokenizer_encode_ids(t, 1, &text, pair, &r->encode);
    for (int64_t i = 0; ids && i < ids->starts[1]; i++)
        printf("%s%" PRId64, i ? " " : "", ids->ids[i]);
    if (ids)
        putchar('\n');
    br_token_ids_free(ids);
    return !br_failed();
}

static bool show(const request *r, const br_tokenizer *t, br_text text, const br_text *pair)
{
    if (r->ids)
        return show_ids(r, t, text, pair);
    br_encoding *e = br_tokenizer_encode(t, &text, pair, &r->encode);
    bool ok = e && have_tokens(t, e);
    if (ok && r->json) {
        print_json(t, e, r->overflow);
        putchar('\n');
    } else if (ok) {
        print_plain(t, e, r->overflow);
    }
    br_encoding_free(e);
    return !br_failed();
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static bool show_line(const request *r, const br_tokenizer *t, br_text line, int64_t number)
{
    if (!r->pair)
        return show(r, t, line, NULL);
    const char *tab = memchr(line.data, '\t', (size_t)line.length);
    if (!tab) {
        br_raise(BR_ERROR_FORMAT, "tokenize: %s: text %" PRId64 " has no tab between two texts",
                 r->file, number);
        return false;
    }
    return show(r, t, (br_text){ line.data, tab - line.data },
                &(br_text){ tab + 1, line.data + line.length - (tab + 1) });
}

static void show_file(const request *r, const br_tokenizer *t)
{
    size_t length;
    char *text = file_read(r->file, &length);
    const char *end = text ? text + length : NULL;
    const char *at = r->null ? text : text_first_line(text, end);
    br_text line;
    for (int64_t number = 1; text_next_line(&at, end, r->null ? 0 : '\n', &line); number++)
        if (!show_line(r, t, line, number))
            break;
    free(text);
}

static void show_arguments(const request *r, const br_tokenizer *t, int n, char **texts)
{
    for (int i = 0; i < n; i += 1 + r->pair) {
        br_text pair = { r->pair ? texts[i + 1] : NULL, -1 };
        if (!show(r, t, (br_text){ texts[i], -1 }, r->pair ? &pair : NULL))
            break;
    }
}

/* ---- The command ----------------------------------------------------------------------------- */

static const struct option options[] = {
    { "vocab", required_argument, NULL, 'v' },
    { "merges", required_argument, NULL, 'M' },
    { "tokenizer", required_argument, NULL, 't' },
    { "model", required_argument, NULL, 'd' },
    { "cased", no_argument, NULL, 'c' },
    { "file", required_argument, NULL, 'f' },
    { "null", no_argument, NULL, '0' },
    { "pair", no_argument, NULL, 'p' },
    { "max-length", required_argument, NULL, 'm' },
    { "truncate-left", no_argument, NULL, 'l' },
    { "stride", required_argument, NULL, 's' },
    { "split-special", no_argument, NULL, 'S' },
    { "strict", no_argument, NULL, 'U' },
    { "ids", no_argument, NULL, 'i' },
    { "json", no_argument, NULL, 'j' },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

/* Handles one option; returns 0 or the exit status. */
static int parse_option(void *of, int c)
{
    request *r = of;
    switch (c) {
    case 'v':
        r->vocab = optarg;
        return 0;
    case 't':
        r->tokenizer = optarg;
        return 0;
    case 'd':
        r->model = optarg;
        return 0;
    case 'M':
        r->merges = optarg;
        return 0;
    case 'c':
        r->vocab_options.do_lower_case = false;
        return 0;
    case 'f':
        r->file = optarg;
        return 0;
    case '0':
        r->null = true;
        return 0;
    case 'p':
        r->pair = true;
        return 0;
    case 'm':
        return cli_at_least("--max-length", 1, &r->encode.max_length);
    case 'l':
        r->encode.truncate_left = true;
        return 0;
    case 's':
        r->overflow = true;
        return cli_at_least("--stride", 0, &r->encode.stride);
    case 'S':
        r->encode.split_special_tokens = true;
        return 0;
    case 'U':
        r->encode.strict_utf8 = true;
        return 0;
    case 'i':
        r->ids = true;
        return 0;
    case 'j':
        r->json = true;
        return 0;
    default:
        return cli_bad_option("tokenize");
    }
}

static int check(const request *r, int n)
{
    if (!!r->vocab + !!r->tokenizer + !!r->model > 1)
        return cli_usage("tokenize", "only one of --vocab, --tokenizer and --model can be used");
    if (r->tokenizer && !r->vocab_options.do_lower_case)
        return cli_usage(
            "tokenize",
            "--cased cannot be used with --tokenizer: the file determines lower-casing");
    if (r->merges && (!r->vocab || !r->vocab_options.do_lower_case))
        return cli_usage("tokenize", "--merges requires --vocab and cannot be used with --cased");
    if (r->ids && (r->json || r->overflow))
        return cli_usage("tokenize", "--ids cannot be used with --json or --stride");
    if (r->file ? n > 0 : n == 0)
        return cli_usage("tokenize", "either texts or --file is required");
    if (!r->file && r->null)
        return cli_usage("tokenize", "--null requires --file");
    if (!r->file && r->pair && n % 2)
        return cli_usage("tokenize", "--pair needs an even number of texts, got %d", n);
    if (!r->vocab && !r->tokenizer && !r->model && access("vocab.txt", F_OK) != 0)
        return cli_usage("tokenize",
                         "--model, --tokenizer or --vocab is required, because there is "
                         "no vocab.txt in the working directory");
    return 0;
}

static bool is_sentencepiece(const char *path)
{
    size_t n = strlen(path), suffix = strlen(".model");
    return n > suffix && strcmp(path + n - suffix, ".model") == 0;
}

static br_tokenizer *open_tokenizer(const request *r)
{
    if (r->model)
        return cli_open_tokenizer(r->model, !r->vocab_options.do_lower_case);
    if (r->tokenizer && is_sentencepiece(r->tokenizer))
        return br_tokenizer_from_sentencepiece(r->tokenizer, NULL);
    if (r->tokenizer)
        return br_tokenizer_from_json(r->tokenizer);
    if (r->merges)
        return br_tokenizer_from_bpe(r->vocab, r->merges, NULL);
    return br_tokenizer_from_vocab(r->vocab ? r->vocab : "vocab.txt", &r->vocab_options);
}

int cli_tokenize(int argc, char **argv)
{
    request r = { .vocab_options = br_tokenizer_defaults(), .encode = br_encode_defaults() };
    int status = cli_options(argc, argv, "v:t:f:0pm:ijh", options, help, parse_option, &r);
    if (status != CLI_CONTINUE)
        return status;
    status = check(&r, argc - optind);
    if (status)
        return status;
    status = r.model ? pretrained_check_folder("--model", r.model) : CLI_CONTINUE;
    if (status != CLI_CONTINUE)
        return status;
    br_tokenizer *t = open_tokenizer(&r);
    if (t && r.file)
        show_file(&r, t);
    else if (t)
        show_arguments(&r, t, argc - optind, argv + optind);
    br_tokenizer_free(t);
    return cli_report();
}
