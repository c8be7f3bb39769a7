/* cli/tag.c - `brasa tag --model DIR TEXT...`: the entities in texts. */
#include "cli/cli.h"
#include "cli/pretrained.h"
#include "cli/progress.h"
#include "cli/texts.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

static const char help[] =
    "Usage: brasa tag --model DIR [OPTION]... TEXT...\n"
    "       brasa tag --model DIR [OPTION]... --file FILE\n"
    "\n"
    "Prints the entities in each text, such as names of persons and places, with their\n"
    "probabilities and labels.\n"
    "\n"
    "  -m, --model DIR       folder of a model that classifies tokens, as downloaded from the\n"
    "                        Hugging Face Hub: config.json, model.safetensors, and the\n"
    "                        tokenizer's files\n"
    "  -f, --file FILE       read the texts from FILE, one per line; a line may end with CR LF,\n"
    "                        and FILE may begin with a byte-order mark\n"
    "  -g, --group G         how tokens become entities: simple (default): consecutive tokens\n"
    "                        with the same tag; first, average or max: so that all tokens of a\n"
    "                        word have the tag of its first token, of the mean of their\n"
    "                        probabilities, or of the most certain token; none: each token\n"
    "      --ignore LABEL    leave out entities with this label (default: O)\n"
    "  -l, --max-length N    truncate texts to N tokens (default: what the model takes)\n"
    "      --stride N        read longer texts in parts that share N tokens, instead of\n"
    "                        truncating them\n"
    "  -b, --batch-size N    number of texts, or parts of texts, in a batch (default: 32)\n"
    "      --cased           do not lower-case the text (WordPiece only)\n" CLI_MODEL_HELP
    "  -j, --json            print one JSON object per line, with text and entities; start and\n"
    "                        end count code points\n"
    "  -h, --help            show this help\n";

typedef struct request {
    const char *model, *file;
    bool json;
    br_pipeline_options load;
    br_tag_options tag;
} request;

/* ---- Showing --------------------------------------------------------------------------------- */

static br_text text_of(const br_text *text, const br_entity *e)
{
    return (br_text){ text->data + e->bytes.begin, e->bytes.end - e->bytes.begin };
}

static void show_json(const br_text *text, int64_t i, const br_entities *all)
{
    printf("{\"text\":");
    bool ok = cli_texts_print_json(text, i);
    printf(",\"entities\":[");
    for (int64_t k = 0; ok && k < all->count; k++) {
        const br_entity *e = &all->items[k];
        json_t *label = json_string(e->label);
        br_text part = text_of(text, e);
        printf("%s{\"label\":", k ? "," : "");
        json_dumpf(label, stdout, JSON_ENCODE_ANY);
        printf(",\"score\":%.9g,\"text\":", e->score);
        ok = cli_texts_print_json(&part, i);
        printf(",\"start\":%" PRId64 ",\"end\":%" PRId64 "}", e->chars.begin, e->chars.end);
        json_decref(label);
    }
    printf("]}\n");
}

static void show_text(const br_text *text, int64_t i, const br_entities *all)
{
    printf("%s%.*s\n", i ? "\n" : "", (int)text->length, text->data);
    for (int64_t k = 0; k < all->count; k++) {
        const br_entity *e = &all->items[k];
        br_text part = text_of(text, e);
        printf("%6.4f  %s  %.*s\n", e->score, e->label, (int)part.length, part.data);
    }
}

/* ---- Tagging --------------------------------------------------------------------------------- */

static void show(const request *r, const cli_texts *t, br_entities *const *entities)
{
    for (int64_t i = 0; i < t->n && !br_failed(); i++)
        (r->json ? show_json : show_text)(&t->items[i], i, entities[i]);
}

static void tag_all(br_pipeline *p, request *r, const cli_texts *t)
{
    br_entities **entities = br_calloc((size_t)t->n, sizeof(br_entities *));
    if (!entities)
        return;
    progress shown = progress_begin(0, t->n);
    r->tag.on_batch = progress_on_batch;
    r->tag.context = &shown;
    const bool ok = br_pipeline_tag_batch(p, t->n, t->items, &r->tag, entities);
    progress_end(&shown);
    if (ok)
        show(r, t, entities);
    for (int64_t i = 0; i < t->n; i++)
        br_entities_free(entities[i]);
    br_free(entities);
}

static void tag(request *r, int n, char **arguments)
{
    br_scope *scope = br_no_grad_begin();
    cli_autocast();
    cli_texts t;
    br_pipeline *p = cli_texts_read(&t, r->file, n, arguments, false)
                         ? pretrained_pipeline(r->model, BR_TASK_TOKEN_CLASSIFICATION, &r->load)
                         : NULL;
    if (p && !br_failed())
        tag_all(p, r, &t);
    br_pipeline_free(p);
    cli_texts_free(&t);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

/* Sets the aggregation that --group names; returns 0 or the exit status. */
static int choose_group(br_aggregation *aggregation)
{
    static const char *const names[] = { "simple", "first", "average", "max", "none" };
    static const br_aggregation values[] = { BR_AGGREGATE_SIMPLE, BR_AGGREGATE_FIRST,
                                             BR_AGGREGATE_AVERAGE, BR_AGGREGATE_MAX,
                                             BR_AGGREGATE_NONE };
    int i = 0, status = cli_choose("--group", 5, names, &i);
    *aggregation = values[i];
    return status;
}

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "file", required_argument, NULL, 'f' },
    { "group", required_argument, NULL, 'g' },
    { "ignore", required_argument, NULL, 'i' },
    { "max-length", required_argument, NULL, 'l' },
    { "stride", required_argument, NULL, 's' },
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
    case 'g':
        return choose_group(&r->tag.aggregation);
    case 'i':
        r->tag.ignored_label = optarg;
        return 0;
    case 'l': /* two special tokens and at least one of the text */
        return cli_at_least("--max-length", 3, &r->tag.max_length);
    case 's':
        return cli_at_least("--stride", 0, &r->tag.stride);
    case 'b':
        return cli_within("--batch-size", 1, 65536, &r->tag.batch_size);
    case 'c':
        r->load.do_lower_case = BR_SETTING_OFF;
        return 0;
    case 'j':
        r->json = true;
        return 0;
    default:
        return cli_bad_option("tag");
    }
}

int cli_tag(int argc, char **argv)
{
    request r = { .load = br_pipeline_defaults(), .tag = br_tag_defaults() };
    r.tag.aggregation = BR_AGGREGATE_SIMPLE;
    int status = cli_options(argc, argv, "m:f:g:l:b:jh", options, help, parse_option, &r);
    if (status != CLI_CONTINUE)
        return status;
    if (r.tag.stride >= 0 && r.tag.aggregation == BR_AGGREGATE_NONE)
        return cli_usage("tag", "--stride needs a --group other than none");
    status = pretrained_check_arguments(r.model, r.file, argc - optind);
    if (status != CLI_CONTINUE)
        return status;
    tag(&r, argc - optind, argv + optind);
    return cli_report();
}
