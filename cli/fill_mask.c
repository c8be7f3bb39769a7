/* cli/fill_mask.c - `brasa fill-mask --model DIR TEXT`: what a BERT would put in place of [MASK].
 */
#include "cli/cli.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

static const char help[] =
    "Usage: brasa fill-mask --model DIR [OPTION]... TEXT\n"
    "\n"
    "Shows the likeliest tokens in the place of each [MASK] of a text, with their probabilities.\n"
    "\n"
    "  -m, --model DIR  a folder as the hub has a BERT: config.json, model.safetensors, and\n"
    "                   tokenizer.json or vocab.txt\n"
    "      --cased      with a vocab.txt: do not lower-case\n"
    "  -k, --top-k N    so many tokens: 5\n"
    "  -j, --json       a JSON object a line: mask, token, id, probability\n"
    "  -h, --help       this text\n";

typedef struct request {
    const char *model;
    bool cased, json;
    int64_t top_k;
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

static void show_json(int64_t mask, const char *token, int64_t id, double p)
{
    json_t *text = json_string(token);
    printf("{\"mask\":%" PRId64 ",\"token\":", mask);
    if (text)
        json_dumpf(text, stdout, JSON_ENCODE_ANY);
    else
        fputs("null", stdout);
    printf(",\"id\":%" PRId64 ",\"probability\":%.9g}\n", id, p);
    json_decref(text);
}

/* The tokens in place of mask number `mask` by their logits [V]. */
static void show(const request *r, const br_tokenizer *t, int64_t mask, br_tensor *logits)
{
    int64_t n = br_size(logits, 0), k = r->top_k < n ? r->top_k : n;
    br_tensor *ids, *p = br_topk(br_softmax(logits, 0), k, 0, true, &ids);
    if (mask > 0 && !r->json && !br_failed())
        putchar('\n');
    for (int64_t i = 0; i < k && !br_failed(); i++) {
        int64_t id = (int64_t)br_at(ids, BR_DIMS(i));
        const char *token = br_tokenizer_token(t, id);
        if (token && r->json)
            show_json(mask, token, id, br_at(p, BR_DIMS(i)));
        else if (token)
            printf("%6.4f  %s\n", br_at(p, BR_DIMS(i)), token);
    }
}

/* ---- Filling --------------------------------------------------------------------------------- */

static void fill(const request *r, br_hf_bert_pretraining *bert, const br_tokenizer *t,
                 const char *text)
{
    br_tensor *ids = cli_encode(t, text), *logits = NULL;
    int64_t mask = br_tokenizer_id(t, "[MASK]", -1), n = 0;
    const int64_t *id = br_data_i64(ids);
    br_hf_bert_pretraining_forward(bert, ids, NULL, &logits, NULL);
    for (int64_t i = 0; i < br_size(ids, 1) && !br_failed(); i++)
        if (id[i] == mask)
            show(r, t, n++, br_select(br_select(logits, 0, 0), 0, i));
    if (n == 0)
        br_raise(BR_ERROR_ARGUMENT, "fill-mask: the text has no [MASK]");
}

static void fill_mask(const request *r, const char *text)
{
    br_scope *scope = br_no_grad_begin();
    br_tokenizer *tokenizer = cli_open_tokenizer(r->model, r->cased);
    br_auto_model_options options = { .class_name = "BertForMaskedLM" };
    br_auto_model_report report = { 0 };
    br_hf_bert_pretraining *bert =
        tokenizer ? br_auto_model_load(r->model, &options, &report) : NULL;
    if (bert && report.missing > 0)
        br_raise(BR_ERROR_FORMAT,
                 "fill-mask: %s: the model was trained without the head that "
                 "tells masked tokens",
                 r->model);
    else if (bert)
        fill(r, bert, tokenizer, text);
    br_auto_model_report_clear(&report);
    br_free_module(bert);
    br_tokenizer_free(tokenizer);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' }, { "cased", no_argument, NULL, 'c' },
    { "top-k", required_argument, NULL, 'k' }, { "json", no_argument, NULL, 'j' },
    { "help", no_argument, NULL, 'h' },        { 0 },
};

/* Takes one option; 0, or the exit status. */
static int take(void *of, int c)
{
    request *r = of;
    switch (c) {
    case 'm':
        r->model = optarg;
        return 0;
    case 'c':
        r->cased = true;
        return 0;
    case 'j':
        r->json = true;
        return 0;
    case 'k':
        return cli_integer(optarg, 1, INT32_MAX, &r->top_k)
                   ? 0
                   : cli_usage("fill-mask", "--top-k is '%s', must be at least 1", optarg);
    default:
        return cli_bad_option("fill-mask");
    }
}

int cli_fill_mask(int argc, char **argv)
{
    request r = { .top_k = 5 };
    int status = cli_options(argc, argv, "m:k:jh", options, help, take, &r);
    if (status != CLI_GO_ON)
        return status;
    if (!r.model)
        return cli_usage("fill-mask", "--model is wanted");
    if (argc != optind + 1)
        return cli_usage("fill-mask", "one text is wanted");
    fill_mask(&r, argv[optind]);
    fflush(stdout); /* what was shown first, then what is wrong */
    return br_report(stderr);
}
