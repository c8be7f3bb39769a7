/* cli/attention.c - `brasa attention`: writes an HTML page with views of a model's attention, or an
 * SVG figure of one of them. */
#include "cli/attention.h"
#include "cli/cli.h"
#include "cli/pretrained.h"
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: brasa attention -m DIR [OPTION]... {TEXT [SECOND TEXT] | -f FILE}\n"
    "       brasa attention -c FILE [OPTION]... [TEXT]\n"
    "\n"
    "Writes an HTML file with interactive views of a model's attention for a text or a pair of\n"
    "texts, which can be viewed offline, or a figure of one view as SVG. For an encoder-decoder\n"
    "such as T5, TEXT is the encoder's input and SECOND TEXT the decoder's output; without SECOND\n"
    "TEXT, the output is generated greedily. With --checkpoint and without TEXT, the recipe's own\n"
    "example is used.\n"
    "\n"
    "  -m, --model DIR        model folder as downloaded from the Hugging Face Hub: config.json,\n"
    "                         model.safetensors, and tokenizer.json, vocab.json with merges.txt,\n"
    "                         spiece.model, or vocab.txt; or a GGUF file\n"
    "  -c, --checkpoint FILE  checkpoint written by `brasa train`, such as\n"
    "                         out/copy-task/checkpoint.safetensors\n"
    "  -f, --file FILE        show each line of FILE, at most 32; a tab separates the texts of a\n"
    "                         pair; two texts are side by side\n"
    "      --beside DIR       also show another model, side by side with the first\n"
    "  -o, --out FILE         file to write (default: attention.html); a name that ends in .svg\n"
    "                         makes a figure of one view other than the neuron view\n"
    "  -v, --view VIEW        head (all heads of one layer), heatmap (tokens by tokens), model\n"
    "                         (every head of every layer) or neuron (how query and key produce\n"
    "                         the weights of one head); separate several by commas: head,neuron\n"
    "                         (default: head)\n"
    "      --map MAP          head view and heat map: weights, rollout (attention rollout over\n"
    "                         layers) or gradient (gradient x attention of the model's answer);\n"
    "                         separate several by commas, the first is shown first (default:\n"
    "                         weights, which the page always has)\n"
    "      --layer N          layer to show first (default: 0)\n"
    "      --head N           neuron view and heat map: head to show first (default: 0); heat\n"
    "                         map: also mean or max, of all heads\n"
    "      --heads N,N...     head view: heads to show first (default: all)\n"
    "      --include-layers N,N...\n"
    "                         write only these layers to the file (default: all)\n"
    "      --include-heads N,N...\n"
    "                         model view: show only these heads (default: all)\n"
    "      --display-mode MODE\n"
    "                         light, dark, or auto to follow the browser (default: auto)\n"
    "      --expanded         neuron view: begin with the computation expanded\n"
    "      --token N          figure: draw only the lines of the token at this position\n"
    "      --part PART        figure: encoder, decoder or cross attention of an encoder-decoder\n"
    "                         (default: encoder)\n"
    "      --raw-tokens       show tokens unchanged, including the tokenizer's space marker\n"
    "      --precision TYPE   precision of stored numbers: f32 (exact), f16 (3 digits), u8\n"
    "                         (2 digits) or auto, which uses fewer digits for a long text\n"
    "                         (default: auto)\n"
    "      --cased            do not lower-case the text (WordPiece only)\n"
    "      --adapter DIR      add the LoRA adapter of the folder, which peft or Brasa saved\n"
    "      --dtype D          load the model as f32, f64, bf16 or f16; auto (default): in\n"
    "                         the dtype that config.json names, or that of the weights;\n"
    "                         quantized: weights as a GGUF file stores them\n"
    "      --amp bf16         compute matrix products and attention in bf16, as under\n"
    "                         torch.autocast (default: off)\n"
    "      --matmul-precision P\n"
    "                         precision of f32 matrix products: highest (default), high\n"
    "                         or medium, which rounds their operands to bf16\n"
    "  -h, --help             show this help\n";

enum { MAX_LISTED = 1024, MAX_VIEWS = 4, MAPS = 3 };

typedef struct list {
    int64_t n, items[MAX_LISTED];
} list;

typedef struct request {
    const char *model, *beside, *checkpoint, *file, *out;
    bool cased;
    int n_maps;
    bool maps[MAPS]; /* by br_attention_map */
    int n_views;
    br_attention_view views[MAX_VIEWS]; /* the first holds the options of all views */
    list heads, include_layers, include_heads;
    br_attention_html_options page;
    br_attention_svg_options figure;
} request;

/* ---- The page -------------------------------------------------------------------------------- */

/* Returns view k of an attention. */
static br_attention_view make_view(const request *r, int k, const br_attention *attention)
{
    br_attention_view v = r->views[0];
    v.kind = r->views[k].kind;
    v.attention = attention;
    v.n_heads = r->heads.n;
    v.heads = r->heads.n ? r->heads.items : NULL;
    v.n_include_layers = r->include_layers.n;
    v.include_layers = r->include_layers.n ? r->include_layers.items : NULL;
    v.n_include_heads = r->include_heads.n;
    v.include_heads = r->include_heads.n ? r->include_heads.items : NULL;
    if (v.kind != BR_HEAD_VIEW && v.kind != BR_HEATMAP_VIEW)
        v.map = BR_MAP_WEIGHTS;
    if (v.kind != BR_HEATMAP_VIEW && v.head < 0)
        v.head = 0;
    return v;
}

static bool is_figure(const request *r)
{
    size_t n = strlen(r->out);
    return n > 4 && strcmp(r->out + n - 4, ".svg") == 0;
}

/* Returns the title of a view: its model if there are two, and its text if there are several. */
static char *title_of(const request *r, const cli_texts *t, int64_t item)
{
    int64_t i = t->n > 0 ? item % t->n : 0;
    const char *dir = item < t->n ? r->model : r->beside;
    const char *text = t->n > 1 ? t->items[i].data : "";
    int length = t->n > 1 ? (int)t->items[i].length : 0;
    if (!r->beside)
        return text_format("%.*s", length, text);
    return text_format("%s%s%.*s", dir, length ? " \xc2\xb7 " : "", length, text);
}

/* Writes the page. Two models, or else two texts, are next to each other for each view. */
static int64_t write_page(const request *r, const attention_set *set, const cli_texts *t,
                          const br_attention_html_options *page)
{
    const int n = set->n * r->n_views, models = r->beside ? 2 : 1;
    br_attention_view *views = calloc((size_t)n, sizeof *views);
    char *titles[ATTENTION_MOST] = { NULL };
    for (int i = 0; i < set->n; i++)
        titles[i] = title_of(r, t, i);
    for (int i = 0; views && i < n; i++) {
        const int texts = set->n / models;
        const int model = i % models, rest = i / models;
        const int k = r->beside ? rest % r->n_views : rest / texts;
        const int text = r->beside ? rest / r->n_views : rest % texts;
        views[i] = make_view(r, k, set->items[model * texts + text]);
        views[i].title = titles[model * texts + text];
    }
    int64_t size = -1;
    if (views)
        size = br_attention_html(r->out, n, views, page);
    else
        br_raise(BR_ERROR_MEMORY, "attention: cannot allocate memory for the views");
    for (int i = 0; i < set->n; i++)
        free(titles[i]);
    free(views);
    return size;
}

/* Adds the attention of the checkpoint, or of the model or models. */
static void collect(const request *r, attention_set *set, const cli_texts *t, const char *text)
{
    if (r->checkpoint) {
        set->items[0] = train_attend(r->checkpoint, cli_dtype, text);
        set->n = set->items[0] != NULL;
    } else if (attention_add_model(set, r->model, r->cased, r->maps[BR_MAP_GRADIENT], t) &&
               r->beside)
        attention_add_model(set, r->beside, r->cased, r->maps[BR_MAP_GRADIENT], t);
    for (int i = 0; r->maps[BR_MAP_ROLLOUT] && i < set->n && !br_failed(); i++)
        br_attention_add_rollout(set->items[i]);
}

static int64_t write_result(const request *r, const attention_set *set, const cli_texts *t, int n,
                            char **texts)
{
    if (is_figure(r)) {
        br_attention_view view = make_view(r, 0, set->items[0]);
        return br_attention_svg(r->out, &view, &r->figure);
    }
    char *title = n > 1 ? text_format("%s · %s", texts[0], texts[1]) : NULL;
    br_attention_html_options page = r->page;
    page.title = title ? title : n ? texts[0] : r->file ? r->file : r->checkpoint;
    page.columns = set->n > 1 ? 2 : 1;
    int64_t size = write_page(r, set, t, &page);
    free(title);
    return size;
}

static void write_views(const request *r, int n, char **texts)
{
    br_scope *scope = br_no_grad_begin();
    cli_autocast();
    cli_texts t = { 0 };
    attention_set set = { 0 };
    int64_t size = -1;
    if (r->checkpoint || attention_read_texts(&t, r->file, n, texts))
        collect(r, &set, &t, n ? texts[0] : NULL);
    if (!br_failed())
        size = write_result(r, &set, &t, n, texts);
    if (size >= 0)
        printf(size < 1000000 ? "Wrote %s: %.0f kB\n" : "Wrote %s: %.1f MB\n", r->out,
               (double)size / (size < 1000000 ? 1e3 : 1e6));
    attention_set_free(&set);
    cli_texts_free(&t);
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
    CASED,
    TOKEN,
    PART,
    MAP,
    BESIDE
};

static const struct option options[] = {
    { "model", required_argument, NULL, 'm' },
    { "checkpoint", required_argument, NULL, 'c' },
    { "out", required_argument, NULL, 'o' },
    { "file", required_argument, NULL, 'f' },
    { "beside", required_argument, NULL, BESIDE },
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
    { "map", required_argument, NULL, MAP },
    { "token", required_argument, NULL, TOKEN },
    { "part", required_argument, NULL, PART },
    CLI_MODEL_OPTIONS,
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

static const char *const views[] = { "head", "model", "neuron", "heatmap", NULL };
static const char *const maps[] = { "weights", "rollout", "gradient", NULL };
static const char *const modes[] = { "auto", "light", "dark", NULL };
static const char *const parts[] = { "encoder", "decoder", "cross", NULL };
static const char *const precisions[] = { "auto", "f32", "f16", "u8", NULL };

/* Returns the index of the name that equals the first n bytes of text; -1 if there is none. */
static int place_of(const char *text, size_t n, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == n && strncmp(text, names[i], n) == 0)
            return i;
    return -1;
}

/* Calls take() for each item of a comma-separated list. Stops and returns false as soon as take()
 * returns false. */
static bool each(request *r, const char *text,
                 bool (*parse_option)(request *r, const char *item, size_t n, list *to), list *to)
{
    for (size_t n;; text += n + 1) {
        n = strcspn(text, ",");
        if (!parse_option(r, text, n, to))
            return false;
        if (!text[n])
            return true;
    }
}

static bool parse_view(request *r, const char *item, size_t n, list *to)
{
    (void)to;
    int kind = place_of(item, n, views);
    if (kind < 0 || r->n_views == MAX_VIEWS)
        return false;
    r->views[r->n_views++].kind = (br_attention_kind)kind;
    return true;
}

static bool parse_map(request *r, const char *item, size_t n, list *to)
{
    (void)to;
    int map = place_of(item, n, maps);
    if (map < 0)
        return false;
    if (r->n_maps++ == 0)
        r->views[0].map = (br_attention_map)map;
    r->maps[map] = true;
    return true;
}

static bool parse_number(request *r, const char *item, size_t n, list *to)
{
    (void)r;
    char digits[16];
    if (n >= sizeof digits || to->n == MAX_LISTED)
        return false;
    memcpy(digits, item, n);
    digits[n] = 0;
    return text_to_integer(digits, 0, INT32_MAX, &to->items[to->n++]);
}

static int parse_list(request *r, const char *name, list *to)
{
    to->n = 0;
    return each(r, optarg, parse_number, to)
               ? 0
               : cli_usage("attention", "--%s is '%s', must be numbers separated by commas", name,
                           optarg);
}

static int parse_choice(const char *name, const char *const *names, int *choice)
{
    char allowed[64] = "";
    for (int i = 0; names[i]; i++)
        names_add(allowed, sizeof allowed, names[i]);
    *choice = place_of(optarg, strlen(optarg), names);
    return *choice >= 0 ? 0
                        : cli_usage("attention", "--%s is '%s', must be one of %s%s", name, optarg,
                                    allowed, names_suggestion(optarg, allowed));
}

static int parse_integer(const char *name, int64_t *value)
{
    return text_to_integer(optarg, 0, INT32_MAX, value)
               ? 0
               : cli_usage("attention", "--%s is '%s', must be a non-negative integer", name,
                           optarg);
}

static int parse_head(int64_t *head)
{
    if (strcmp(optarg, "mean") == 0 || strcmp(optarg, "max") == 0) {
        *head = strcmp(optarg, "mean") == 0 ? BR_HEAD_MEAN : BR_HEAD_MAX;
        return 0;
    }
    return text_to_integer(optarg, 0, INT32_MAX, head)
               ? 0
               : cli_usage("attention",
                           "--head is '%s', must be a non-negative integer, mean or max", optarg);
}

/* Handles an option that has a value; returns 0 or the exit status. */
static int parse_value(request *r, int c)
{
    br_attention_view *view = &r->views[0];
    int choice = 0, status;
    switch (c) {
    case 'v':
        return each(r, optarg, parse_view, NULL)
                   ? 0
                   : cli_usage("attention",
                               "--view is '%s', must be head, model, neuron or heatmap, or "
                               "several of them separated by commas",
                               optarg);
    case LAYER:
        return parse_integer("layer", &view->layer);
    case MAP:
        return each(r, optarg, parse_map, NULL)
                   ? 0
                   : cli_usage("attention",
                               "--map is '%s', must be weights, rollout or gradient, or several "
                               "of them separated by commas",
                               optarg);
    case HEAD:
        return parse_head(&view->head);
    case HEADS:
        return parse_list(r, "heads", &r->heads);
    case INCLUDE_LAYERS:
        return parse_list(r, "include-layers", &r->include_layers);
    case INCLUDE_HEADS:
        return parse_list(r, "include-heads", &r->include_heads);
    case MODE:
        status = parse_choice("display-mode", modes, &choice);
        view->display_mode = (br_display_mode)choice;
        return status;
    case TOKEN:
        return parse_integer("token", &r->figure.token);
    case PART:
        status = parse_choice("part", parts, &choice);
        r->figure.part = (br_attention_part)(BR_ATTENTION_ENCODER + choice);
        return status;
    case PRECISION:
        status = parse_choice("precision", precisions, &choice);
        r->page.precision = (br_attention_precision)choice;
        return status;
    default:
        return cli_bad_option("attention");
    }
}

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
    case 'o':
        r->out = optarg;
        return 0;
    case 'f':
        r->file = optarg;
        return 0;
    case BESIDE:
        r->beside = optarg;
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
        return parse_value(r, c);
    }
}

/* Checks which options are given together; returns CLI_CONTINUE or the exit status. */
static int check_request(const request *r, int n)
{
    if (!r->model == !r->checkpoint)
        return cli_usage("attention", "either --model or --checkpoint is required");
    if (r->checkpoint && r->maps[BR_MAP_GRADIENT])
        return cli_usage("attention", "--map gradient requires --model");
    if (r->checkpoint && cli_adapter)
        return cli_usage("attention", "--adapter requires --model");
    if (r->checkpoint && (r->file || r->beside))
        return cli_usage("attention", "--file and --beside require --model");
    if (r->file && n > 0)
        return cli_usage("attention", "--file is given, so no text is expected, got %d", n);
    if (!r->file && (r->model ? n < 1 || n > 2 : n > 1))
        return cli_usage("attention",
                         r->model ? "expected one or two texts, got %d"
                                  : "expected one text or none, got %d",
                         n);
    if (is_figure(r) &&
        (r->n_views > 1 || r->views[0].kind == BR_NEURON_VIEW || r->file || r->beside))
        return cli_usage("attention",
                         "a figure shows one view of one text, head, model or heatmap; write "
                         "several views, texts or models, and the neuron view, to a file .html");
    if (!is_figure(r) && (r->figure.token >= 0 || r->figure.part != BR_ATTENTION_SELF))
        return cli_usage("attention",
                         "--token and --part require --out with a name that ends in .svg");
    int status = r->model ? pretrained_check_folder("--model", r->model) : CLI_CONTINUE;
    return status == CLI_CONTINUE && r->beside ? pretrained_check_folder("--beside", r->beside)
                                               : status;
}

int cli_attention(int argc, char **argv)
{
    request r = { .out = "attention.html",
                  .page = br_attention_html_defaults(),
                  .figure = br_attention_svg_defaults() };
    int status = cli_options(argc, argv, "m:c:o:v:f:h", options, help, parse_option, &r);
    if (status == CLI_CONTINUE)
        status = check_request(&r, argc - optind);
    if (status != CLI_CONTINUE)
        return status;
    r.n_views = r.n_views ? r.n_views : 1;
    write_views(&r, argc - optind, argv + optind);
    return cli_report();
}
