/* cli/train_tokenizer.c - `brasa train-tokenizer --data FILE --out DIR`: learns a byte-level BPE.
 */
#include "cli/cli.h"
#include "train/learned_tokenizer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: brasa train-tokenizer --data FILE --out DIR [OPTION]...\n"
    "\n"
    "Learns a byte-level BPE tokenizer from a text, like that of GPT-2, and writes\n"
    "tokenizer.json and tokenizer_config.json. Tokens, ids and merges are those of the\n"
    "ByteLevelBPETokenizer of PyPI's tokenizers.\n"
    "\n"
    "      --data FILE         the text, in UTF-8; no token crosses a line break\n"
    "      --out DIR           the folder of the tokenizer\n"
    "      --vocab-size N      most tokens, with one for each of 256 bytes (default: 30000)\n"
    "      --min-frequency N   least number of occurrences of a pair of tokens that becomes\n"
    "                          a token (default: 2)\n"
    "      --special TOKEN     a special token, which gets the next of the first ids; may be\n"
    "                          repeated (default: <|endoftext|>); the first one begins and\n"
    "                          ends texts\n"
    "      --overwrite         replace the tokenizer in DIR\n"
    "  -h, --help              show this help\n";

enum { DATA = 256, OUT, VOCAB_SIZE, MIN_FREQUENCY, SPECIAL, OVERWRITE, MOST_SPECIAL = 1000 };

static const struct option options[] = {
    { "data", required_argument, NULL, DATA },
    { "out", required_argument, NULL, OUT },
    { "vocab-size", required_argument, NULL, VOCAB_SIZE },
    { "min-frequency", required_argument, NULL, MIN_FREQUENCY },
    { "special", required_argument, NULL, SPECIAL },
    { "overwrite", no_argument, NULL, OVERWRITE },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

typedef struct request {
    const char *data, *out, *special[MOST_SPECIAL];
    bool overwrite;
    br_bpe_train_options train;
} request;

static int parse_option(void *of, int option)
{
    request *r = of;
    switch (option) {
    case DATA:
        r->data = optarg;
        return 0;
    case OUT:
        r->out = optarg;
        return 0;
    case VOCAB_SIZE:
        return cli_within("--vocab-size", 256, INT32_MAX, &r->train.vocab_size);
    case MIN_FREQUENCY:
        return cli_at_least("--min-frequency", 0, &r->train.min_frequency);
    case SPECIAL:
        if (r->train.n_special_tokens == MOST_SPECIAL)
            return cli_usage(cli_command, "--special is given more than %d times", MOST_SPECIAL);
        r->special[r->train.n_special_tokens++] = optarg;
        return 0;
    case OVERWRITE:
        r->overwrite = true;
        return 0;
    default:
        return cli_bad_option(cli_command);
    }
}

/* Checks the options; returns CLI_CONTINUE or the exit status. */
static int check(const request *r, int n_arguments)
{
    if (n_arguments > 0)
        return cli_usage(cli_command, "unexpected argument; --data names the text");
    if (!r->data || !r->out || !*r->out)
        return cli_usage(cli_command, "--%s is required", r->data ? "out" : "data");
    char *path = text_format("%s/tokenizer.json", r->out);
    bool exists = path && access(path, F_OK) == 0;
    free(path);
    if (exists && !r->overwrite)
        return cli_usage(cli_command,
                         "%s already contains a tokenizer: --overwrite replaces it, --out DIR "
                         "writes to another directory",
                         r->out);
    return CLI_CONTINUE;
}

/* Prints what was learned: the number of tokens, and how many bytes of the text one has. */
static void show(const request *r, const char *json, const char *text, size_t length)
{
    br_tokenizer *t = br_tokenizer_from_json_text(json, -1);
    br_token_ids *ids =
        t ? br_tokenizer_encode_ids(t, 1, &(br_text){ text, (int64_t)length }, NULL, NULL) : NULL;
    if (ids)
        printf("%" PRId64 " tokens; the text has %" PRId64 " of them, %.2f bytes each\n"
               "Wrote %s. Try it: brasa tokenize --model %s TEXT\n",
               br_tokenizer_size(t), ids->starts[1],
               (double)length / (double)(ids->starts[1] > 0 ? ids->starts[1] : 1), r->out, r->out);
    br_token_ids_free(ids);
    br_tokenizer_free(t);
}

static void train(request *r)
{
    size_t length = 0;
    char *text = file_read(r->data, &length);
    if (!text)
        return;
    r->train.special_tokens = r->special;
    char *json = tokenizer_learn(text, length, &r->train);
    if (json && tokenizer_write(r->out, json, r->special[0]))
        show(r, json, text, length);
    br_free(json);
    free(text);
}

int cli_train_tokenizer(int argc, char **argv)
{
    request r = { .train = br_bpe_train_defaults() };
    int status = cli_options(argc, argv, "h", options, help, parse_option, &r);
    if (status == CLI_CONTINUE)
        status = check(&r, argc - optind);
    if (status != CLI_CONTINUE)
        return status;
    if (r.train.n_special_tokens == 0)
        r.special[r.train.n_special_tokens++] = "<|endoftext|>";
    train(&r);
    return cli_report();
}
