/* cli/embed.c - `brasa embed --model DIR TEXT...`: sentence embeddings, and their cosine
 * similarities. */
#include "cli/cli.h"
#include "cli/pretrained.h"
#include "cli/progress.h"
#include "cli/texts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: brasa embed --model DIR [OPTION]... TEXT...\n"
    "       brasa embed --model DIR [OPTION]... --file FILE\n"
    "\n"
    "Prints the cosine similarities between the embeddings of texts. The embedding of a text is\n"
    "computed from the model's last hidden state as the folder's modules.json and the files that\n"
    "belong to it describe, like sentence-transformers. Without modules.json, it is the mean over\n"
    "the text's tokens, normalized to length 1.\n"
    "\n"
    "  -m, --model DIR       model folder as downloaded from the Hugging Face Hub: config.json,\n"
    "                        model.safetensors, and tokenizer.json or vocab.txt\n"
    "      --cased           do not lower-case the text (WordPiece only)\n"
    "  -f, --file FILE       read the texts from FILE, one per line; a line may end with CR LF,\n"
    "                        and FILE may begin with a byte-order mark\n"
    "  -l, --max-length N    truncate texts to N tokens, instead of the folder's max_seq_length.\n"
    "                        Without modules.json texts are not truncated by default, and a text\n"
    "                        that is too long for the model is an error\n"
    "  -p, --pooling MODE    combine the hidden states of the tokens by cls, max, mean,\n"
    "                        mean_sqrt_len, weightedmean or lasttoken, instead of the folder's\n"
    "                        mode\n"
    "      --prompt-name P   put the prompt P of the folder's config_sentence_transformers.json\n"
    "                        before each text, instead of the default prompt\n"
    "      --truncate-dim N  keep the first N elements of each embedding, for a model that was\n"
    "                        trained with Matryoshka losses\n"
    "  -b, --batch-size N    number of texts in a batch (default: 32)\n" CLI_MODEL_HELP
    "  -j, --json            print one JSON object per line, with text and embedding\n"
    "  -h, --help            show this help\n";

enum { MAX_SHOWN = 100 }; /* maximum number of texts in the table of cosines */

typedef struct request {
    const char *model, *file;
    bool json;
    int64_t batch_size, truncate_dim;
    const char *prompt_name;
    br_sentence_transformer_options options;
} request;

/* ---- Embedding ------------------------------------------------------------------------------- */

static br_sentence_transformer *open_model(request *r)
{
    r->options.dtype = cli_dtype;
    r->options.adapter = cli_adapter;
    br_auto_model_report report;
    br_sentence_transformer *model = br_sentence_transformer_load(r->model, &r->options, &report);
    if (model)
        pretrained_warn(br_sentence_transformer_folder(model),
                        br_sentence_transformer_tokenizer(model), &report);
    br_auto_model_report_clear(&report);
    return model;
}

typedef struct shown_progress {
    progress progress;
    int64_t batch_size;
} shown_progress;

static bool show_progress(void *context, int64_t done, int64_t total)
{
    (void)total;
    shown_progress *s = context;
    if (s->progress.terminal && s->progress.total > 1)
        progress_update(&s->progress, (done + s->batch_size - 1) / s->batch_size, "");
    return true;
}

/* Returns the embeddings [t->n, size] in the order of the texts; NULL on error. */
static br_tensor *embed_all(br_sentence_transformer *model, const request *r, const cli_texts *t)
{
    shown_progress s = { progress_begin(0, (t->n + r->batch_size - 1) / r->batch_size),
                         r->batch_size };
    br_sentence_encode_options o =
        *BR_OPTIONS(br_sentence_encode, .batch_size = r->batch_size, .prompt_name = r->prompt_name,
                    .truncate_dim = r->truncate_dim, .normalize_embeddings = !r->json,
                    .on_batch = show_progress, .context = &s);
    br_scope *scope = br_scope_begin();
    cli_autocast();
    br_tensor *all =
        br_scope_return(scope, br_sentence_transformer_encode(model, t->n, t->items, &o));
    br_scope_end(scope);
    progress_end(&s.progress);
    return all;
}

/* ---- Showing --------------------------------------------------------------------------------- */

static void show_json(const cli_texts *t, br_tensor *all)
{
    int64_t size = br_size(all, 1);
    const float *values = br_data_f32(all);
    for (int64_t i = 0; i < t->n && !br_failed(); i++) {
        printf("{\"text\":");
        if (!cli_texts_print_json(&t->items[i], i))
            return;
        printf(",\"embedding\":[");
        for (int64_t k = 0; k < size; k++)
            printf("%s%.9g", k ? "," : "", (double)values[i * size + k]);
        printf("]}\n");
    }
}

/* Shows the cosines of rows of length 1. */
static void show_cosines(const cli_texts *t, br_tensor *rows)
{
    br_tensor *cosines = br_matmul(rows, br_transpose(rows, 0, 1));
    const float *values = br_data_f32(cosines);
    for (int64_t i = 0; values && i < t->n; i++) {
        for (int64_t k = 0; k < t->n; k++)
            printf("%7.4f ", (double)values[i * t->n + k]);
        printf(" %.*s\n", (int)t->items[i].length, t->items[i].data);
    }
}

static void embed(request *r, int n, char **arguments)
{
    br_scope *scope = br_no_grad_begin();
    cli_texts t;
    bool ok = cli_texts_read(&t, r->file, n, arguments, false);
    if (ok && !r->json && t.n > MAX_SHOWN)
        br_raise(BR_ERROR_ARGUMENT,
                 "embed: cosines are shown for at most %d texts, got %" PRId64
                 "; --json prints the embeddings instead",
                 MAX_SHOWN, t.n);
    br_sentence_transformer *model = br_failed() ? NULL : open_model(r);
    br_tensor *all = model && !br_failed() ? embed_all(model, r, &t) : NULL;
    if (all && r->json)
        show_json(&t, all);
    else if (all)
        show_cosines(&t, all);
    br_sentence_transformer_free(model);
    cli_texts_free(&t);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* Sets the pooling that --pooling names; returns 0 or the exit status. */
static int choose_pooling(br_pooling *pooling)
{
    static const char *const names[] = { "cls",           "max",          "mean",
                                         "mean_sqrt_len", "weightedmean", "lasttoken" };
    int i = 0, status = cli_choose("--pooling", 6, names, &i);
    *pooling = BR_POOLING_CLS + i;
    return status;
}

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "cased", no_argument, NULL, 'c' },
    { "file", required_argument, NULL, 'f' },
    { "max-length", required_argument, NULL, 'l' },
    { "pooling", required_argument, NULL, 'p' },
    { "prompt-name", required_argument, NULL, 'n' },
    { "truncate-dim", required_argument, NULL, 't' },
    { "batch-size", required_argument, NULL, 'b' },
    { "json", no_argument, NULL, 'j' },
    CLI_MODEL_OPTIONS,
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

/* Handles one option; returns 0 or the exit status. */
static int parse_option(void *of, int c)
{
    request *r = of;
    switch (c) {
    case 'm':
        r->model = optarg;
        return 0;
    case 'c':
        r->options.do_lower_case = BR_SETTING_OFF;
        return 0;
    case 'f':
        r->file = optarg;
        return 0;
    case 'l': /* two special tokens and at least one of the text */
        return cli_at_least("--max-length", 3, &r->options.max_seq_length);
    case 'p':
        return choose_pooling(&r->options.pooling);
    case 'n':
        r->prompt_name = optarg;
        return 0;
    case 't':
        return cli_at_least("--truncate-dim", 1, &r->truncate_dim);
    case 'b':
        return cli_within("--batch-size", 1, 65536, &r->batch_size);
    case 'j':
        r->json = true;
        return 0;
    default:
        return cli_bad_option("embed");
    }
}

int cli_embed(int argc, char **argv)
{
    request r = { .batch_size = 32, .options = br_sentence_transformer_defaults() };
    int status = cli_options(argc, argv, "m:f:l:p:b:jh", options, help, parse_option, &r);
    if (status != CLI_CONTINUE)
        return status;
    status = pretrained_check_arguments(r.model, r.file, argc - optind);
    if (status != CLI_CONTINUE)
        return status;
    embed(&r, argc - optind, argv + optind);
    return cli_report();
}
