/* cli/rerank.c - `brasa rerank --model DIR QUERY TEXT...`: how well texts fit a query. */
#include "cli/cli.h"
#include "cli/pretrained.h"
#include "cli/progress.h"
#include "cli/texts.h"

#include <inttypes.h>
#include <stdlib.h>

static const char help[] =
    "Usage: brasa rerank --model DIR [OPTION]... QUERY TEXT...\n"
    "       brasa rerank --model DIR [OPTION]... --file FILE QUERY\n"
    "\n"
    "Prints the texts with the scores of a cross-encoder, which reads the query and a text\n"
    "together, like CrossEncoder.rank() of sentence-transformers. The text that fits the query\n"
    "best comes first. The model must have one label. The score is the sigmoid of its result,\n"
    "unless the folder's files name another activation.\n"
    "\n"
    "  -m, --model DIR       folder of a cross-encoder, as downloaded from the Hugging Face Hub:\n"
    "                        config.json, model.safetensors, and the tokenizer's files\n"
    "  -f, --file FILE       read the texts from FILE, one per line; a line may end with CR LF,\n"
    "                        and FILE may begin with a byte-order mark\n"
    "  -k, --top-k N         print only the N best texts\n"
    "      --scores S        auto (default): as the folder's files say; sigmoid or logits\n"
    "  -l, --max-length N    truncate a query with its text to N tokens, instead of the folder's\n"
    "                        limit\n"
    "  -b, --batch-size N    number of texts in a batch (default: 32)\n"
    "      --prompt-name P   put the prompt P of the folder's config_sentence_transformers.json\n"
    "                        before the query, instead of the default prompt\n"
    "      --cased           do not lower-case the text (WordPiece only)\n" CLI_MODEL_HELP
    "  -j, --json            print one JSON object per line, with corpus_id, which counts the\n"
    "                        texts from 0, score and text\n"
    "  -h, --help            show this help\n";

typedef struct request {
    const char *model, *file;
    bool json;
    int64_t top_k;
    br_pipeline_options load;
    br_rerank_options rerank;
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

static bool show_text(const request *r, const cli_texts *t, int64_t i, float score)
{
    if (!r->json) {
        printf("%7.4f  %.*s\n", (double)score, (int)t->items[i].length, t->items[i].data);
        return true;
    }
    printf("{\"corpus_id\":%" PRId64 ",\"score\":%.9g,\"text\":", i, (double)score);
    if (!cli_texts_print_json(&t->items[i], i))
        return false;
    printf("}\n");
    return true;
}

/* Shows the texts, the best first; equally good ones stay in their order. */
static void show(const request *r, const cli_texts *t, br_tensor *scores)
{
    const int64_t *order = br_data_i64(br_contiguous(br_argsort(scores, 0, true)));
    const float *values = br_data_f32(scores);
    for (int64_t i = 0; order && values && i < t->n && i < r->top_k; i++)
        if (!show_text(r, t, order[i], values[order[i]]))
            return;
}

/* ---- Scoring --------------------------------------------------------------------------------- */

static br_tensor *score_all(br_pipeline *p, request *r, const br_text *query, const cli_texts *t)
{
    progress shown = progress_begin(0, t->n);
    r->rerank.on_batch = progress_on_batch;
    r->rerank.context = &shown;
    br_scope *scope = br_scope_begin();
    cli_autocast();
    br_tensor *scores =
        br_scope_return(scope, br_pipeline_rerank(p, query, t->n, t->items, &r->rerank));
    br_scope_end(scope);
    progress_end(&shown);
    return scores;
}

static void rerank(request *r, int n, char **arguments)
{
    br_scope *scope = br_no_grad_begin();
    cli_texts t;
    const br_text query = { arguments[0], -1 };
    br_pipeline *p = cli_texts_read(&t, r->file, n - 1, arguments + 1, false)
                         ? pretrained_pipeline(r->model, BR_TASK_SEQUENCE_CLASSIFICATION, &r->load)
                         : NULL;
    br_tensor *scores = p && !br_failed() ? score_all(p, r, &query, &t) : NULL;
    if (scores)
        show(r, &t, scores);
    br_pipeline_free(p);
    cli_texts_free(&t);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* Sets the scores that --scores names; returns 0 or the exit status. */
static int choose_scores(br_scores *scores)
{
    static const char *const names[] = { "auto", "sigmoid", "logits" };
    static const br_scores values[] = { BR_SCORES_AUTO, BR_SCORES_SIGMOID, BR_SCORES_LOGITS };
    int i = 0, status = cli_choose("--scores", 3, names, &i);
    *scores = values[i];
    return status;
}

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "file", required_argument, NULL, 'f' },
    { "top-k", required_argument, NULL, 'k' },
    { "scores", required_argument, NULL, 's' },
    { "max-length", required_argument, NULL, 'l' },
    { "batch-size", required_argument, NULL, 'b' },
    { "prompt-name", required_argument, NULL, 'n' },
    { "cased", no_argument, NULL, 'c' },
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
    case 'f':
        r->file = optarg;
        return 0;
    case 'k':
        return cli_within("--top-k", 1, INT32_MAX, &r->top_k);
    case 's':
        return choose_scores(&r->rerank.scores);
    case 'l':
        return cli_within("--max-length", 4, INT32_MAX, &r->rerank.max_length);
    case 'b':
        return cli_within("--batch-size", 1, 65536, &r->rerank.batch_size);
    case 'n':
        r->rerank.prompt_name = optarg;
        return 0;
    case 'c':
        r->load.do_lower_case = BR_SETTING_OFF;
        return 0;
    case 'j':
        r->json = true;
        return 0;
    default:
        return cli_bad_option("rerank");
    }
}

int cli_rerank(int argc, char **argv)
{
    request r = { .top_k = INT32_MAX,
                  .load = br_pipeline_defaults(),
                  .rerank = br_rerank_defaults() };
    int status = cli_options(argc, argv, "m:f:k:l:b:jh", options, help, parse_option, &r);
    if (status != CLI_CONTINUE)
        return status;
    if (argc == optind)
        return cli_usage("rerank", "a query is missing: give QUERY and the texts");
    status = pretrained_check_arguments(r.model, r.file, argc - optind - 1);
    if (status != CLI_CONTINUE)
        return status;
    rerank(&r, argc - optind, argv + optind);
    return cli_report();
}
