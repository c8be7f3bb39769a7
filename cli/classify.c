/* cli/classify.c - `brasa classify --model DIR TEXT...`: the labels of texts. */
#include "cli/cli.h"
#include "cli/pretrained.h"
#include "cli/progress.h"
#include "cli/texts.h"

#include <jansson.h>
#include <stdlib.h>

static const char help[] =
    "Usage: brasa classify --model DIR [OPTION]... TEXT...\n"
    "       brasa classify --model DIR [OPTION]... --file FILE\n"
    "\n"
    "Prints the most likely label of each text, with its probability. The labels are those of the\n"
    "folder's config.json. If its problem_type is multi_label_classification, or if there is one\n"
    "label, the probability of each label is a sigmoid; if it is regression, the score is the\n"
    "model's result itself.\n"
    "\n"
    "  -m, --model DIR       folder of a model that classifies sequences, as downloaded from the\n"
    "                        Hugging Face Hub: config.json, model.safetensors, and the\n"
    "                        tokenizer's files\n"
    "  -f, --file FILE       read the texts from FILE, one per line; a line may end with CR LF,\n"
    "                        and FILE may begin with a byte-order mark\n"
    "  -p, --pair            classify pairs of texts: two arguments each, or two texts per line\n"
    "                        of FILE, separated by a tab\n"
    "  -k, --top-k N         number of labels to print for each text (default: 1)\n"
    "      --scores S        scores of the labels: auto (default), softmax, sigmoid or logits\n"
    "  -l, --max-length N    truncate texts to N tokens; by default, a text that is too long for\n"
    "                        the model is an error\n"
    "  -b, --batch-size N    number of texts in a batch (default: 32)\n"
    "      --cased           do not lower-case the text (WordPiece only)\n" CLI_MODEL_HELP
    "  -j, --json            print one JSON object per line, with text and labels\n"
    "  -h, --help            show this help\n";

typedef struct request {
    const char *model, *file;
    bool pair, json;
    int64_t top_k;
    br_pipeline_options load;
    br_classify_options classify;
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

static void show_json(const request *r, const cli_texts *t, int64_t i, const br_pipeline *p,
                      const int64_t *ids, const float *scores, int64_t k)
{
    printf("{\"text\":");
    if (!cli_texts_print_json(&t->items[i], i))
        return;
    if (r->pair)
        printf(",\"pair\":");
    if (r->pair && !cli_texts_print_json(&t->pairs[i], i))
        return;
    printf(",\"labels\":[");
    for (int64_t n = 0; n < k; n++) {
        json_t *label = json_string(br_pipeline_label(p, ids[n]));
        printf("%s{\"label\":", n ? "," : "");
        json_dumpf(label, stdout, JSON_ENCODE_ANY);
        printf(",\"score\":%.9g}", (double)scores[n]);
        json_decref(label);
    }
    printf("]}\n");
}

static void show_text(const request *r, const cli_texts *t, int64_t i, const br_pipeline *p,
                      const int64_t *ids, const float *scores, int64_t k)
{
    if (r->top_k == 1) {
        printf("%6.4f  %s  %.*s\n", (double)scores[0], br_pipeline_label(p, ids[0]),
               (int)t->items[i].length, t->items[i].data);
        return;
    }
    printf("%s%.*s\n", i ? "\n" : "", (int)t->items[i].length, t->items[i].data);
    for (int64_t n = 0; n < k; n++)
        printf("%6.4f  %s\n", (double)scores[n], br_pipeline_label(p, ids[n]));
}

static void show(const request *r, const cli_texts *t, const br_pipeline *p, br_tensor *scores)
{
    int64_t labels = br_pipeline_labels(p), k = r->top_k < labels ? r->top_k : labels;
    br_tensor *ids = NULL, *best = br_topk(scores, k, 1, true, &ids);
    const float *values = best ? br_data_f32(br_contiguous(best)) : NULL;
    const int64_t *id = values ? br_data_i64(br_contiguous(ids)) : NULL;
    for (int64_t i = 0; id && i < t->n && !br_failed(); i++)
        (r->json ? show_json : show_text)(r, t, i, p, id + i * k, values + i * k, k);
}

/* ---- Classifying ----------------------------------------------------------------------------- */

static br_tensor *classify_all(br_pipeline *p, request *r, const cli_texts *t)
{
    progress shown = progress_begin(0, t->n);
    r->classify.on_batch = progress_on_batch;
    r->classify.context = &shown;
    br_scope *scope = br_scope_begin();
    cli_autocast();
    br_tensor *scores =
        br_scope_return(scope, br_pipeline_classify(p, t->n, t->items, t->pairs, &r->classify));
    br_scope_end(scope);
    progress_end(&shown);
    return scores;
}

static void classify(request *r, int n, char **arguments)
{
    br_scope *scope = br_no_grad_begin();
    cli_texts t;
    br_pipeline *p = cli_texts_read(&t, r->file, n, arguments, r->pair)
                         ? pretrained_pipeline(r->model, BR_TASK_SEQUENCE_CLASSIFICATION, &r->load)
                         : NULL;
    br_tensor *scores = p && !br_failed() ? classify_all(p, r, &t) : NULL;
    if (scores)
        show(r, &t, p, scores);
    br_pipeline_free(p);
    cli_texts_free(&t);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* Sets the scores that --scores names; returns 0 or the exit status. */
static int choose_scores(br_scores *scores)
{
    static const char *const names[] = { "auto", "softmax", "sigmoid", "logits" };
    int i = 0, status = cli_choose("--scores", 4, names, &i);
    *scores = (br_scores)i;
    return status;
}

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "file", required_argument, NULL, 'f' },
    { "pair", no_argument, NULL, 'p' },
    { "top-k", required_argument, NULL, 'k' },
    { "scores", required_argument, NULL, 's' },
    { "max-length", required_argument, NULL, 'l' },
    { "batch-size", required_argument, NULL, 'b' },
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
    case 'p':
        r->pair = true;
        return 0;
    case 'k':
        return cli_within("--top-k", 1, INT32_MAX, &r->top_k);
    case 's':
        return choose_scores(&r->classify.scores);
    case 'l':
        return cli_within("--max-length", 1, INT32_MAX, &r->classify.max_length);
    case 'b':
        return cli_within("--batch-size", 1, 65536, &r->classify.batch_size);
    case 'c':
        r->load.do_lower_case = BR_SETTING_OFF;
        return 0;
    case 'j':
        r->json = true;
        return 0;
    default:
        return cli_bad_option("classify");
    }
}

int cli_classify(int argc, char **argv)
{
    request r = { .top_k = 1, .load = br_pipeline_defaults(), .classify = br_classify_defaults() };
    int status = cli_options(argc, argv, "m:f:pk:l:b:jh", options, help, parse_option, &r);
    if (status != CLI_CONTINUE)
        return status;
    if (!r.file && r.pair && (argc - optind) % 2)
        return cli_usage("classify", "--pair needs an even number of texts, got %d", argc - optind);
    status = pretrained_check_arguments(r.model, r.file, argc - optind);
    if (status != CLI_CONTINUE)
        return status;
    classify(&r, argc - optind, argv + optind);
    return cli_report();
}
