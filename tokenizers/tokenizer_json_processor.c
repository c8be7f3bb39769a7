/* tokenizers/tokenizer_json_processor.c - reads "post_processor" of tokenizer.json: the special
 * tokens around texts, and whether offsets are trimmed. All kinds of tokenizers may have any of
 * them. */
#include "tokenizers/tokenizer_json_internal.h"

#include <inttypes.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

typedef struct reader {
    br_tokenizer *t;
    const char *path;
    bool adds, trims; /* a processor that adds tokens, or trims offsets, was read */
} reader;

/* ---- Templates ------------------------------------------------------------------------------- */

/* Checks that a special token has the id that the vocabulary gives it. Only the id counts if the
 * vocabulary lacks the name: transformers writes "None" for a token that is null. */
static bool check_token(const reader *r, const char *name, int64_t id)
{
    int64_t known = br__word_id(&r->t->all, name, strlen(name));
    return id == known || (known < 0 && id < r->t->size) ||
           br__tokenizer_refuse(r->path,
                                "post_processor: special token '%s' has id %" PRId64
                                ", which is not its id in the vocabulary",
                                br_printable(name), id);
}

/* Reads the id of a template's special token. */
static bool template_token(const reader *r, json_t *specials, const char *name, int64_t *id)
{
    json_t *ids = json_object_get(json_object_get(specials, name), "ids");
    if (json_array_size(ids) != 1)
        return br__tokenizer_refuse(r->path,
                                    "post_processor: special token '%s' must have exactly one id",
                                    br_printable(name));
    return br__tokenizer_json_id(r->path, name, json_array_get(ids, 0), id) &&
           check_token(r, name, *id);
}

/* Returns true if piece i of the template is `what` ("SpecialToken", "Sequence") with that id and
 * type. */
static bool is_piece(json_t *template, size_t i, const char *what, const char *id, int type)
{
    json_t *piece = json_object_get(json_array_get(template, i), what);
    const char *is = json_string_value(json_object_get(piece, "id"));
    json_t *type_id = json_object_get(piece, "type_id");
    return is && id && strcmp(is, id) == 0 && json_is_integer(type_id) &&
           json_integer_value(type_id) == type;
}

static const char *special_name(json_t *template, size_t i)
{
    json_t *piece = json_object_get(json_array_get(template, i), "SpecialToken");
    return json_string_value(json_object_get(piece, "id"));
}

/* The special tokens around a text. One that is NULL is omitted. */
typedef struct frame {
    const char *first, *again, *last; /* again: a second token before the text */
} frame;

/* Returns true if the template continues at piece *i with a text and the tokens around it. */
static bool has_text(json_t *template, size_t *i, frame f, const char *text, int type)
{
    return (!f.first || is_piece(template, (*i)++, "SpecialToken", f.first, type)) &&
           (!f.again || is_piece(template, (*i)++, "SpecialToken", f.again, type)) &&
           is_piece(template, (*i)++, "Sequence", text, type) &&
           (!f.last || is_piece(template, (*i)++, "SpecialToken", f.last, type));
}

/* Returns true if the template is a text A with the tokens around it and type 0, followed by a text
 * B with `type` if b is not NULL. */
static bool is_template(json_t *template, frame a, const frame *b, int type)
{
    size_t i = 0;
    return has_text(template, &i, a, "A", 0) && (!b || has_text(template, &i, *b, "B", type)) &&
           json_array_size(template) == i;
}

/* Returns true if the value is a list of texts and special tokens. */
static bool is_list(const json_t *template)
{
    size_t i;
    json_t *entry;
    json_array_foreach(template, i, entry)
    {
        json_t *text = json_object_get(entry, "Sequence");
        const json_t *piece = text ? text : json_object_get(entry, "SpecialToken");
        if (!json_is_string(json_object_get(piece, "id")) ||
            !json_is_integer(json_object_get(piece, "type_id")))
            return false;
    }
    return json_is_array(template);
}

/* Determines which form the template of pairs has. Other forms are an error when a pair is
 * encoded. */
static void settle_pair(br_tokenizer *t, json_t *pair, frame a)
{
    for (int form = 0; form < 8; form++) {
        t->one_type = form % 2 == 0;
        t->classify_both = form & 2;
        t->separate_twice = form & 4;
        frame b = { t->classify_both ? a.first : NULL, t->separate_twice ? a.last : NULL, a.last };
        t->pairs = BR_PAIR_FRAMED;
        if (is_template(pair, a, &b, !t->one_type))
            return;
        t->pairs = BR_PAIR_BARE;
        if (is_template(pair, (frame){ 0 }, &(frame){ 0 }, !t->one_type))
            return;
    }
    t->pairs = BR_PAIR_UNSUPPORTED;
}

static bool read_template(reader *r, json_t *p)
{
    json_t *single = json_object_get(p, "single"), *pair = json_object_get(p, "pair");
    json_t *specials = json_object_get(p, "special_tokens");
    size_t n = json_array_size(single);
    const char *first = special_name(single, 0);
    const char *last = n > 1 ? special_name(single, n - 1) : NULL;
    frame a = { first, NULL, last };
    if (!is_template(single, a, NULL, 0) || !is_list(pair))
        return br__tokenizer_refuse(
            r->path, "post_processor is not supported: %s",
            is_list(pair)
                ? "\"single\" must be a text A of type 0, with at most one special token before "
                  "and one after it"
                : "\"pair\" must be a list of texts and special tokens with integers as type_id");
    settle_pair(r->t, pair, a);
    return (!first || template_token(r, specials, first, &r->t->classify)) &&
           (!last || template_token(r, specials, last, &r->t->separator));
}

/* ---- The other processors -------------------------------------------------------------------- */

/* Reads ["[SEP]", 102]. */
static bool read_pair(const reader *r, json_t *p, const char *key, int64_t *id)
{
    json_t *pair = json_object_get(p, key), *name = json_array_get(pair, 0);
    if (json_array_size(pair) != 2 || !json_is_string(name))
        return br__tokenizer_refuse(r->path, "post_processor.%s is not a token and its id", key);
    const char *text = json_string_value(name);
    return br__tokenizer_json_id(r->path, text, json_array_get(pair, 1), id) &&
           check_token(r, text, *id);
}

static bool read_ends(reader *r, json_t *p)
{
    return read_pair(r, p, "cls", &r->t->classify) && read_pair(r, p, "sep", &r->t->separator);
}

/* Reads BertProcessing: [CLS] A [SEP] B [SEP]. */
static bool read_bert(reader *r, json_t *p)
{
    return read_ends(r, p);
}

static bool read_trimming(reader *r, json_t *p)
{
    bool trims, keep_first;
    if (!br__tokenizer_json_bool(r->path, p, "trim_offsets", true, &trims) ||
        !br__tokenizer_json_bool(r->path, p, "add_prefix_space", true, &keep_first))
        return false;
    if (trims && r->trims)
        return br__tokenizer_refuse(r->path,
                                    "post_processor trims offsets twice, which is not supported");
    if (trims)
        r->t->trim_first = !keep_first;
    r->trims |= trims;
    r->t->trim_offsets = r->trims;
    return true;
}

/* Reads RobertaProcessing: <s> A </s> </s> B </s>. */
static bool read_roberta(reader *r, json_t *p)
{
    r->t->one_type = r->t->separate_twice = true;
    return read_ends(r, p) && read_trimming(r, p);
}

static bool read_processor(reader *r, json_t *p, int depth);

static bool read_sequence(reader *r, json_t *p, int depth)
{
    json_t *list = json_object_get(p, "processors"), *part;
    size_t i;
    if (!json_is_array(list) || depth == MAX_DEPTH)
        return br__tokenizer_refuse(r->path, "post_processor: processors is not an array%s",
                                    depth == MAX_DEPTH ? " nested at most 8 times" : "");
    json_array_foreach(list, i, part)
    {
        if (!read_processor(r, part, depth + 1))
            return false;
    }
    return true;
}

static bool read_processor(reader *r, json_t *p, int depth)
{
    static const struct {
        const char *type;
        bool adds;
        bool (*read)(reader *r, json_t *p);
    } kinds[] = { { "TemplateProcessing", true, read_template },
                  { "BertProcessing", true, read_bert },
                  { "RobertaProcessing", true, read_roberta },
                  { "ByteLevel", false, read_trimming } };
    const char *type = br__tokenizer_json_type("post_processor", p);
    if (type && strcmp(type, "Sequence") == 0)
        return read_sequence(r, p, depth);
    for (size_t i = 0; type && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(type, kinds[i].type) != 0)
            continue;
        if (kinds[i].adds && r->adds)
            return br__tokenizer_refuse(r->path, "post_processor adds special tokens twice, which "
                                                 "is not supported");
        r->adds |= kinds[i].adds;
        return kinds[i].read(r, p);
    }
    return br__tokenizer_refuse(r->path,
                                "post_processor is %s, must be TemplateProcessing, BertProcessing, "
                                "RobertaProcessing, ByteLevel or a Sequence of them",
                                type ? br_printable(type) : "without a type");
}

bool br__tokenizer_json_processors(br_tokenizer *t, const char *path, json_t *root)
{
    reader r = { .t = t, .path = path };
    json_t *p = json_object_get(root, "post_processor");
    t->one_type = false;
    return !p || json_is_null(p) || read_processor(&r, p, 0);
}
