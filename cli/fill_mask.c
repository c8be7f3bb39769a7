/* cli/fill_mask.c - `brasa fill-mask --model DIR|--checkpoint FILE TEXT`: a masked language model's
 * predictions for its mask token. */
#include "cli/cli.h"
#include "cli/pretrained.h"
#include "train/scratch_bert.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

static const char help[] =
    "Usage: brasa fill-mask --model DIR [OPTION]... TEXT\n"
    "       brasa fill-mask --checkpoint FILE [OPTION]... TEXT\n"
    "\n"
    "Prints the most likely tokens for each mask of a text, with their probabilities. The mask is\n"
    "the tokenizer's mask_token, usually [MASK].\n"
    "\n"
    "  -m, --model DIR  folder of a masked language model, such as a BERT, as downloaded from the\n"
    "                   Hugging Face Hub: config.json, model.safetensors, and tokenizer.json or\n"
    "                   vocab.txt\n"
    "  -c, --checkpoint FILE\n"
    "                   checkpoint written by `brasa train bert-scratch`; [SEP] in the text may\n"
    "                   separate two sentences\n"
    "      --cased      do not lower-case the text (WordPiece only)\n"
    "  -k, --top-k N    number of tokens to print for each mask (default: 5)\n"
    "      --adapter DIR\n"
    "                   add the LoRA adapter of the folder, which peft or Brasa saved\n"
    "      --dtype D    load the model as f32, f64, bf16 or f16; auto (default): in\n"
    "                   the dtype that config.json names, or that of the weights\n"
    "      --amp bf16   compute matrix products and attention in bf16, as under\n"
    "                   torch.autocast (default: off)\n"
    "      --matmul-precision P\n"
    "                   precision of f32 matrix products: highest (default), high\n"
    "                   or medium, which rounds their operands to bf16\n"
    "  -j, --json       print one JSON object per line, with mask, token, id and probability\n"
    "  -h, --help       show this help\n";

typedef struct request {
    const char *model, *checkpoint;
    bool cased, json;
    int64_t top_k;
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

static void show_json(int64_t mask, const char *token, int64_t id, double p)
{
    json_t *text = token ? json_string(token) : NULL;
    printf("{\"mask\":%" PRId64 ",\"token\":", mask);
    if (text)
        json_dumpf(text, stdout, JSON_ENCODE_ANY);
    else
        fputs("null", stdout);
    printf(",\"id\":%" PRId64 ",\"probability\":%.9g}\n", id, p);
    json_decref(text);
}

/* Source of the tokens' names: a tokenizer or a vocabulary. */
typedef struct names {
    const br_tokenizer *tokenizer;
    const br_vocab *words;
} names;

/* Returns a token, or NULL if the id has none: a model may have more rows than its tokenizer has
 * tokens. */
static const char *name_of(names t, int64_t id)
{
    if (t.words)
        return br_vocab_word(t.words, id);
    return br_tokenizer_has_id(t.tokenizer, id) ? br_tokenizer_token(t.tokenizer, id) : NULL;
}

/* Prints the most likely tokens for mask number `mask`, given its logits [V]. */
static void show(const request *r, names t, int64_t mask, br_tensor *logits)
{
    int64_t n = br_size(logits, 0), k = r->top_k < n ? r->top_k : n;
    br_tensor *ids, *p = br_topk(br_softmax(br_to(logits, BR_F32), 0), k, 0, true, &ids);
    if (mask > 0 && !r->json && !br_failed())
        putchar('\n');
    for (int64_t i = 0; i < k && !br_failed(); i++) {
        int64_t id = (int64_t)br_at(ids, BR_DIMS(i));
        const char *token = name_of(t, id);
        double probability = br_at(p, BR_DIMS(i));
        if (br_failed())
            return;
        if (r->json)
            show_json(mask, token, id, probability);
        else if (token)
            printf("%6.4f  %s\n", probability, token);
        else
            printf("%6.4f  (id %" PRId64 ", without a token)\n", probability, id);
    }
}

/* ---- Filling --------------------------------------------------------------------------------- */

static void fill(const request *r, const br_model_class *class, br_module *model,
                 const br_tokenizer *t, const char *text)
{
    int64_t mask = br_tokenizer_special_id(t, BR_TOKEN_MASK), n = 0;
    if (mask < 0) {
        br_raise(BR_ERROR_ARGUMENT, "fill-mask: the tokenizer of %s has no mask token", r->model);
        return;
    }
    br_tensor *ids = cli_encode(t, text);
    if (!ids || !pretrained_check_ids("fill-mask", t, ids, pretrained_rows(r->model)))
        return;
    const int64_t *id = br_data_i64(ids);
    br_tensor *logits = class->forward(model, &(br_model_input){ .batch.ids = ids });
    for (int64_t i = 0; i < br_size(ids, 1) && !br_failed(); i++)
        if (id[i] == mask)
            show(r, (names){ .tokenizer = t }, n++, br_select(br_select(logits, 0, 0), 0, i));
    if (n == 0)
        br_raise(BR_ERROR_ARGUMENT, "fill-mask: the text has no %s",
                 br_printable(br_tokenizer_token(t, mask)));
}

static bool is_masked_lm(const br_model_class *class)
{
    return class->task == BR_TASK_MASKED_LM;
}

static void fill_from_model(const request *r, const char *text)
{
    const br_model_class *class = pretrained_class(r->model, is_masked_lm, "fill-mask");
    br_tokenizer *tokenizer = class ? cli_open_tokenizer(r->model, r->cased) : NULL;
    br_auto_model_report report = { 0 };
    br_module *model =
        tokenizer ? pretrained_load(r->model, class->name, tokenizer, &report) : NULL;
    if (model && report.missing > report.missing_poolers)
        br_raise(BR_ERROR_FORMAT,
                 "fill-mask: %s: the model has no weights for the masked-language-model head",
                 r->model);
    else if (model)
        fill(r, class, model, tokenizer, text);
    br_auto_model_report_clear(&report);
    br_module_free(model);
    br_tokenizer_free(tokenizer);
}

static void fill_from_checkpoint(const request *r, const char *text)
{
    scratch_bert s;
    br_tensor *logits =
        scratch_bert_open(&s, r->checkpoint, cli_dtype) ? scratch_bert_fill(&s, text) : NULL;
    for (int64_t i = 0; logits && i < br_size(logits, 0) && !br_failed(); i++)
        show(r, (names){ .words = s.vocab }, i, br_select(logits, 0, i));
    scratch_bert_close(&s);
}

static void fill_mask(const request *r, const char *text)
{
    br_scope *scope = br_no_grad_begin();
    cli_autocast();
    if (r->model)
        fill_from_model(r, text);
    else
        fill_from_checkpoint(r, text);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' }, { "checkpoint", required_argument, NULL, 'c' },
    { "cased", no_argument, NULL, 'C' },       { "top-k", required_argument, NULL, 'k' },
    { "json", no_argument, NULL, 'j' },        CLI_MODEL_OPTIONS,
    { "help", no_argument, NULL, 'h' },        { 0 },
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
        r->checkpoint = optarg;
        return 0;
    case 'C':
        r->cased = true;
        return 0;
    case 'j':
        r->json = true;
        return 0;
    case 'k':
        return cli_at_least("--top-k", 1, &r->top_k);
    default:
        return cli_bad_option("fill-mask");
    }
}

int cli_fill_mask(int argc, char **argv)
{
    request r = { .top_k = 5 };
    int status = cli_options(argc, argv, "m:c:k:jh", options, help, parse_option, &r);
    if (status != CLI_CONTINUE)
        return status;
    if (!r.model == !r.checkpoint)
        return cli_usage("fill-mask", "either --model or --checkpoint is required");
    if (r.checkpoint && cli_adapter)
        return cli_usage("fill-mask", "--adapter requires --model");
    if (argc != optind + 1)
        return cli_usage("fill-mask", "expected one text, got %d", argc - optind);
    status = r.model ? pretrained_check_folder("--model", r.model) : CLI_CONTINUE;
    if (status != CLI_CONTINUE)
        return status;
    fill_mask(&r, argv[optind]);
    return cli_report();
}
