/* cli/attention.c - `brasa attention`: a page that shows what a model attends to in a text. */
#include "cli/attention.h"
#include "cli/cli.h"
#include "cli/train.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: brasa attention --model DIR [OPTION]... TEXT [SECOND TEXT]\n"
    "       brasa attention --checkpoint FILE [OPTION]... [TEXT]\n"
    "\n"
    "Writes an HTML file, which any browser opens without a network, with views of what the model\n"
    "attends to in the text, or in the pair of texts. A T5 reads the text, and writes the second "
    "one,\n"
    "or, without that, what is likeliest. Without TEXT a run of `brasa train` shows an example of\n"
    "its own.\n"
    "\n"
    "  -m, --model DIR        a folder as the hub has it: config.json, model.safetensors, and\n"
    "                         tokenizer.json, vocab.json with merges.txt,\n"
    "                         spiece.model, or vocab.txt\n"
    "  -c, --checkpoint FILE  of a run of `brasa train`: out/copy-task/checkpoint.safetensors\n"
    "  -o, --out FILE         the page: attention.html\n"
    "  -v, --view VIEW        head (a layer, its heads over each other), model (all layers by all\n"
    "                         heads) or neuron (how queries and keys make one head's weights);\n"
    "                         several, one below the other: head,neuron\n"
    "      --layer N          shown first: 0\n"
    "      --head N           of the neuron view, shown first: 0\n"
    "      --heads N,N...     of the head view, shown first: all\n"
    "      --include-layers N,N...\n"
    "                         only these are in the file\n"
    "      --include-heads N,N...\n"
    "                         only these are in the model view\n"
    "      --display-mode MODE\n"
    "                         light, dark or auto, as the reader's screen is set\n"
    "      --expanded         the neuron view with its computation open\n"
    "      --raw-tokens       as they are: not a space for the tokenizer's sign of one\n"
    "      --precision TYPE   of the numbers: f32 (exact), f16 (3 digits), u8 (2 digits), or "
    "auto,\n"
    "                         which keeps the file of a long text small\n"
    "      --cased            with a vocab.txt: do not lower-case\n"
    "  -h, --help             this text\n";

enum { MOST_LISTED = 1024, MOST_VIEWS = 3 };

typedef struct list {
    int64_t n, items[MOST_LISTED];
} list;

typedef struct request {
    const char *model, *checkpoint, *out;
    bool cased;
    int n_views;
    br_attention_view views[MOST_VIEWS]; /* the first has what is asked of all */
    list heads, include_layers, include_heads;
    br_attention_page page;
} request;

/* ---- The page -------------------------------------------------------------------------------- */

static void set_views(request *r, const br_attention *attention)
{
    br_attention_view all = r->views[0];
    all.attention = attention;
    all.n_heads = r->heads.n;
    all.heads = r->heads.n ? r->heads.items : NULL;
    all.n_include_layers = r->include_layers.n;
    all.include_layers = r->include_layers.n ? r->include_layers.items : NULL;
    all.n_include_heads = r->include_heads.n;
    all.include_heads = r->include_heads.n ? r->include_heads.items : NULL;
    for (int i = 0; i < r->n_views; i++) {
        br_attention_kind kind = r->views[i].kind;
        r->views[i] = all;
        r->views[i].kind = kind;
    }
}

static void write_page(request *r, int n, char **texts)
{
    br_scope *scope = br_no_grad_begin();
    char *title = n > 1 ? cli_format("%s · %s", texts[0], texts[1]) : NULL;
    br_attention *attention = r->checkpoint ? train_attend(r->checkpoint, n ? texts[0] : NULL)
                                            : attention_of_model(r->model, r->cased, n, texts);
    int64_t size = -1;
    if (attention && !br_failed()) {
        set_views(r, attention);
        r->page.title = title ? title : n ? texts[0] : r->checkpoint;
        size = br_attention_html(r->out, r->n_views, r->views, &r->page);
    }
    if (size >= 0)
        printf(size < 1000000 ? "%s is written: %.0f kB\n" : "%s is written: %.1f MB\n", r->out,
               (double)size / (size < 1000000 ? 1e3 : 1e6));
    free(title);
    br_attention_free(attention);
    br_scope_end(scope);
}

/* ---- The command ----------------------------------------------------------------------------- */

enum {
    LAYER = 256,
    HEAD,
    HEADS,
    INCLUDE_LAYERS,
    INCLUDE_HEADS,
    MODE,
    EXPANDED,
    RAW,
    PRECISION,
    CASED
};

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "checkpoint", required_argument, NULL, 'c' },
    { "out", required_argument, NULL, 'o' },
    { "view", required_argument, NULL, 'v' },
    { "layer", required_argument, NULL, LAYER },
    { "head", required_argument, NULL, HEAD },
    { "heads", required_argument, NULL, HEADS },
    { "include-layers", required_argument, NULL, INCLUDE_LAYERS },
    { "include-heads", required_argument, NULL, INCLUDE_HEADS },
    { "display-mode", required_argument, NULL, MODE },
    { "expanded", no_argument, NULL, EXPANDED },
    { "raw-tokens", no_argument, NULL, RAW },
    { "precision", required_argument, NULL, PRECISION },
    { "cased", no_argument, NULL, CASED },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

static const char *const views[] = { "head", "model", "neuron", NULL };
static const char *const modes[] = { "auto", "light", "dark", NULL };
static const char *const precisions[] = { "auto", "f32", "f16", "u8", NULL };

/* Place of the first n letters of a text among names; -1 if they are none. */
static int place_of(const char *text, size_t n, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == n && strncmp(text, names[i], n) == 0)
            return i;
    return -1;
}

/* Each of what `text` lists goes to take(); false if that is. */
static bool each(request *r, const char *text,
                 bool (*take)(request *r, const char *item, size_t n, list *to), list *to)
{
    for (size_t n;; text += n + 1) {
        n = strcspn(text, ",");
        if (!take(r, text, n, to))
            return false;
        if (!text[n])
            return true;
    }
}

static bool take_view(request *r, const char *item, size_t n, list *to)
{
    (void)to;
    int kind = place_of(item, n, views);
    if (kind < 0 || r->n_views == MOST_VIEWS)
        return false;
    r->views[r->n_views++].kind = (br_attention_kind)kind;
    return true;
}

static bool take_number(request *r, const char *item, size_t n, list *to)
{
    (void)r;
    char digits[16];
    if (n >= sizeof digits || to->n == MOST_LISTED)
        return false;
    memcpy(digits, item, n);
    digits[n] = 0;
    return cli_integer(digits, 0, INT32_MAX, &to->items[to->n++]);
}

static int take_list(request *r, const char *name, list *to)
{
    to->n = 0;
    return each(r, optarg, take_number, to)
               ? 0
               : cli_usage("attention", "--%s is '%s', must be numbers with commas between them",
                           name, optarg);
}

static int take_choice(const char *name, const char *const *names, int *choice)
{
    *choice = place_of(optarg, strlen(optarg), names);
    return *choice >= 0 ? 0 : cli_usage("attention", "--%s is '%s'", name, optarg);
}

static int take_integer(const char *name, int64_t *value)
{
    return cli_integer(optarg, 0, INT32_MAX, value)
               ? 0
               : cli_usage("attention", "--%s is '%s', must be a number from 0 on", name, optarg);
}

/* Takes one option that has a value; 0, or the exit status. */
static int take_value(request *r, int c)
{
    br_attention_view *view = &r->views[0];
    int choice = 0, status;
    switch (c) {
    case 'v':
        return each(r, optarg, take_view, NULL)
                   ? 0
                   : cli_usage("attention",
                               "--view is '%s', must be head, model, neuron, or some "
                               "with commas between them",
                               optarg);
    case LAYER:
        return take_integer("layer", &view->layer);
    case HEAD:
        return take_integer("head", &view->head);
    case HEADS:
        return take_list(r, "heads", &r->heads);
    case INCLUDE_LAYERS:
        return take_list(r, "include-layers", &r->include_layers);
    case INCLUDE_HEADS:
        return take_list(r, "include-heads", &r->include_heads);
    case MODE:
        status = take_choice("display-mode", modes, &choice);
        view->display_mode = (br_display_mode)choice;
        return status;
    case PRECISION:
        status = take_choice("precision", precisions, &choice);
        r->page.precision = (br_attention_precision)choice;
        return status;
    default:
        return cli_bad_option("attention");
    }
}

static int take(void *of, int c)
{
    request *r = of;
    switch (c) {
    case 'm':
        r->model = optarg;
        return 0;
    case 'c':
        r->checkpoint = optarg;
        return 0;
    case 'o':
        r->out = optarg;
        return 0;
    case EXPANDED:
        r->views[0].expanded = true;
        return 0;
    case RAW:
        r->views[0].raw_tokens = true;
        return 0;
    case CASED:
        r->cased = true;
        return 0;
    default:
        return take_value(r, c);
    }
}

int cli_attention(int argc, char **argv)
{
    request r = { .out = "attention.html" };
    int status = cli_options(argc, argv, "m:c:o:v:h", options, help, take, &r);
    if (status != CLI_GO_ON)
        return status;
    int n = argc - optind;
    if (!r.model == !r.checkpoint)
        return cli_usage("attention", "either --model or --checkpoint is wanted");
    if (r.model ? n < 1 || n > 2 : n > 1)
        return cli_usage("attention",
                         r.model ? "a text or two are wanted" : "one text is wanted, or none");
    r.n_views = r.n_views ? r.n_views : 1;
    write_page(&r, n, argv + optind);
    return br_report(stderr);
}
