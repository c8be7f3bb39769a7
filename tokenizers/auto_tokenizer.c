/* tokenizers/auto_tokenizer.c - loads the tokenizer of a Hugging Face model folder: reads the file
 * with the vocabulary, then applies the settings of the side files and the options. */
#include "tokenizers/auto_tokenizer_internal.h"
#include "tokenizers/bpe_internal.h"
#include "tokenizers/gguf_tokenizer.h"
#include "tokenizers/unigram_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

BR_DEFINE_DEFAULTS(br_auto_tokenizer)

static const char op[] = "auto_tokenizer";

enum { STANDARD_EXTRA_IDS = 100, MAX_EXTRA_IDS = 100000 };

/* ---- The vocabulary -------------------------------------------------------------------------- */

static br_tokenizer *from_json(br_tokenizer_loader *l, const char *path)
{
    return br__tokenizer_read_json(path, br__class_change_parts, l);
}

static br_tokenizer *from_bytes(br_tokenizer_loader *l, const char *path)
{
    char *merges = br_format("%s/merges.txt", l->files.dir);
    br_tokenizer *t = merges ? br__tokenizer_read_bytes(path, merges) : NULL;
    br_free(merges);
    return t;
}

static int64_t extra_ids(const br_tokenizer_loader *l)
{
    int64_t n = l->options->extra_ids >= 0 ? l->options->extra_ids : l->files.extra_ids;
    return n >= 0 ? n : STANDARD_EXTRA_IDS;
}

static br_tokenizer *from_pieces(br_tokenizer_loader *l, const char *path)
{
    return br__tokenizer_read_pieces(path, NULL, extra_ids(l));
}

static br_tokenizer *from_words(br_tokenizer_loader *l, const char *path)
{
    (void)l;
    return br__tokenizer_read_words(path,
                                    BR_OPTIONS(br_tokenizer, .max_input_chars_per_word = 100));
}

typedef struct source {
    const char *name;
    br_tokenizer_family family; /* the family that reads this file; BR_FAMILY_ANY: all */
    br_tokenizer *(*read)(br_tokenizer_loader *l, const char *path);
} source;

static const source sources[] = { { "tokenizer.json", BR_FAMILY_ANY, from_json },
                                  { "vocab.json", BR_FAMILY_BYTES, from_bytes },
                                  { "spiece.model", BR_FAMILY_PIECES, from_pieces },
                                  { "vocab.txt", BR_FAMILY_WORDS, from_words } };
enum { N_SOURCES = sizeof sources / sizeof *sources };

static bool reads(br_tokenizer_family family, const source *s)
{
    return s->family == BR_FAMILY_ANY || family == BR_FAMILY_ANY || s->family == family;
}

static bool refuse_folder(const br_tokenizer_loader *l)
{
    const br_side_files *s = &l->files;
    const char *dir = br_printable(s->dir);
    if (s->family == BR_FAMILY_ANY) {
        br_fail(BR_ERROR_IO, op,
                "%s: there is no tokenizer.json, vocab.json, spiece.model or vocab.txt", dir);
        return false;
    }
    const char *needed = s->family == BR_FAMILY_FILE ? br__class_file(s) : NULL;
    for (int i = 0; i < N_SOURCES; i++)
        if (sources[i].family == s->family)
            needed = sources[i].name;
    br_fail(BR_ERROR_IO, op,
            "%s: %s%s%s is '%s', which needs %s%stokenizer.json, but there is no such file; %s",
            dir, s->class_file, *s->class_file ? ": " : "", s->class_key,
            br_printable(s->class_name), needed ? needed : "", needed ? " or " : "",
            needed
                ? "set the option tokenizer_class to override it"
                : "write one with AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR), or set "
                  "the option tokenizer_class");
    return false;
}

/* Reads the first file that exists and that the family can read. Sets *exists. */
static bool read_first(br_tokenizer_loader *l, br_tokenizer_family family, bool *exists)
{
    bool ok = false;
    *exists = false;
    for (int i = 0; i < N_SOURCES && !br__failed(); i++) {
        if (!reads(family, &sources[i]))
            continue;
        char *path = br_format("%s/%s", l->files.dir, sources[i].name);
        *exists = path && access(path, F_OK) == 0;
        if (*exists) {
            l->file = sources[i].name;
            l->from_json = i == 0;
            l->t = sources[i].read(l, path);
            ok = l->t && (br__loader_rebuilds(l) || br__tokenizer_leave_out(l->t, path));
        }
        br_free(path);
        if (*exists)
            return ok;
    }
    return false;
}

/* Refuses a tokenizer.json whose normalizer or pre-tokenizer differs from those of Qwen2Tokenizer,
 * which replaces them in transformers. */
static bool check_qwen(const br_tokenizer_loader *l)
{
    return !br__class_is(&l->files, "Qwen2Tokenizer") || br__bpe_is_qwen(l->t) ||
           br__side_refuse(&l->files, l->file,
                           "normalizer and pre_tokenizer must be those of Qwen2Tokenizer: NFC, and "
                           "Split by its pattern before ByteLevel; for others, tokenizer_class "
                           "must be PreTrainedTokenizerFast");
}

/* Refuses a tokenizer.json that differs from what GPTNeoXTokenizer makes of it in transformers. */
static bool check_neox(const br_tokenizer_loader *l)
{
    if (!br__class_is(&l->files, "GPTNeoXTokenizer"))
        return true;
    return (br__bpe_is_neox(l->t) && l->t->classify < 0 && l->t->separator < 0) ||
           br__side_refuse(
               &l->files, l->file,
               "normalizer and pre_tokenizer must be those of GPTNeoXTokenizer, NFC and "
               "ByteLevel with use_regex, and post_processor must add no tokens; for "
               "others, tokenizer_class must be PreTrainedTokenizerFast");
}

/* If only the model_type determines the class, and its files do not exist, another file is read. */
static bool read_vocabulary(br_tokenizer_loader *l)
{
    br_side_files *s = &l->files;
    bool exists;
    if (read_first(l, s->family, &exists))
        return check_qwen(l) && check_neox(l);
    if (exists || br__failed())
        return false;
    if (s->family == BR_FAMILY_FILE && br__loader_read_class(l, &exists))
        return true;
    if (exists || br__failed())
        return false;
    bool by_type =
        s->family != BR_FAMILY_FILE && s->class_key && strcmp(s->class_key, "model_type") == 0;
    if (!by_type || (!read_first(l, BR_FAMILY_ANY, &exists) && !exists && !br__failed()))
        return refuse_folder(l);
    if (l->t)
        br_raise(BR_WARNING,
                 "%s: %s: model_type of config.json is '%s', but the tokenizer is read "
                 "from %s, as no tokenizer_class is stated",
                 op, br_printable(s->dir), br_printable(s->class_name), l->file);
    return l->t;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* Returns the token that the class uses for a role if no file states one; NULL: none. */
static const char *class_token(const br_tokenizer_loader *l, int role)
{
    static const char end[] = "<|endoftext|>";
    static const char *const words[] = { NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]" };
    static const char *const bytes[] = { end, end, end, NULL, NULL, NULL, NULL };
    static const char *const pieces[] = { NULL, "</s>", "<unk>", NULL, "<pad>", NULL, NULL };
    const br_tokenizer_kind *kind = l->t->kind;
    if (l->own_tokens)
        return l->own_tokens[role];
    return (kind == &br__word_pieces ? words : kind == &br__byte_level ? bytes : pieces)[role];
}

/* Adds the class's own special tokens. Where there is a tokenizer.json, they count only if it has
 * them, except for a class with own_tokens. */
static bool name_class_tokens(br_tokenizer_loader *l)
{
    const bool optional = l->from_json && !l->own_tokens;
    for (int role = 0; role <= BR_TOKEN_MASK; role++) {
        const char *text = class_token(l, role);
        if (text && !l->files.stated[role] && !br__side_name(&l->files, text, role, optional))
            return false;
    }
    return true;
}

/* Returns true if the other special tokens are T5's <extra_id_N>. */
static bool has_extra_ids(const br_tokenizer_loader *l)
{
    return l->t->kind == &br__unigram && !l->files.has_extra && br__loader_rebuilds(l) &&
           (!l->from_json || l->files.extra_ids >= 0);
}

static bool set_flags(br_added_token *a, const br_side_token *t)
{
    bool same = a->late == t->late && a->lstrip == t->lstrip && a->rstrip == t->rstrip &&
                a->single_word == t->single_word;
    a->late = t->late;
    a->lstrip = t->lstrip;
    a->rstrip = t->rstrip;
    a->single_word = t->single_word;
    return same;
}

static bool check_id(const br_tokenizer_loader *l, const br_side_token *t, int64_t id)
{
    if (id >= BR_MAX_TOKEN_ID)
        return br__side_refuse(&l->files, l->file, "there are more than %d tokens",
                               BR_MAX_TOKEN_ID);
    return t->id < 0 || t->id == id ||
           br__side_refuse(&l->files, t->file,
                           "%s: '%s' has id %" PRId64 ", but with %s it gets id %" PRId64
                           "; set the option ignore_added_tokens to override it",
                           t->key, br_printable(t->text), t->id, l->file, id);
}

/* Returns true for a token that only the class names, and that is not put around texts. */
static bool is_implied(const br_side_token *t)
{
    return !*t->file && t->role != BR_TOKEN_CLS && t->role != BR_TOKEN_SEP;
}

/* Adds a token that a side file names. `counts` means that its flags replace those of
 * tokenizer.json. */
static bool add_token(br_tokenizer_loader *l, const br_side_token *token, bool counts)
{
    br_tokenizer *t = l->t;
    size_t length = strlen(token->text);
    int64_t id = br__word_id(&t->all, token->text, length);
    if (id < 0 && token->optional)
        return true;
    bool exists = id >= 0;
    id = exists ? id : br__tokenizer_next_id(t);
    if (!check_id(l, token, id) || (!exists && !br__tokenizer_add(t, token->text, length, id)))
        return false;
    if (token->role >= 0)
        t->roles[token->role] = id;
    if (!exists)
        t->implied = is_implied(token) ? t->implied + 1 : 0;
    bool known = br__tokenizer_added(t, id);
    if (!known && t->n_added >= BR_MAX_ADDED + STANDARD_EXTRA_IDS + MAX_EXTRA_IDS)
        return br__side_refuse(&l->files, token->file, "there are too many added tokens");
    if (!br__tokenizer_add_special(t, token->text, length, token->special))
        return false;
    if ((!known || counts) && !set_flags(br__tokenizer_added(t, id), token) && known &&
        token->role < 0 && l->from_json && *token->file && token->id >= 0)
        br_raise(BR_WARNING,
                 "%s: %s: the flags of added token '%s' differ in %s and %s; the former counts", op,
                 br_printable(l->files.dir), br_printable(token->text), token->file, l->file);
    return true;
}

static bool add_extra_ids(br_tokenizer_loader *l)
{
    int64_t n = has_extra_ids(l) ? extra_ids(l) : 0;
    for (int64_t i = 0; i < n; i++) {
        char text[32];
        snprintf(text, sizeof text, "<extra_id_%" PRId64 ">", i);
        br_side_token token = { .text = text, .id = -1, .role = -1, .special = true };
        if (!add_token(l, &token, false))
            return false;
    }
    return true;
}

/* Removes the added tokens of tokenizer.json: "added_tokens_decoder" lists all that the class uses
 * besides special tokens. */
static void drop_tokens(const br_tokenizer_loader *l)
{
    br_tokenizer *t = l->t;
    const br_side_files *s = &l->files;
    for (int64_t i = 0; i < t->n_added; i++)
        if (!br__side_find(&s->added, t->added[i].text) &&
            !br__side_find(&s->named, t->added[i].text))
            br_raise(BR_WARNING,
                     "%s: %s: added token '%s' is in tokenizer.json, but not in "
                     "added_tokens_decoder of tokenizer_config.json; the latter counts",
                     op, br_printable(s->dir), br_printable(t->added[i].text));
    br__tokenizer_drop_added(t);
}

static void sort_named(br_side_tokens *list)
{
    br_side_token *t = list->items;
    for (int64_t i = 1; i < list->count; i++) {
        br_side_token token = t[i];
        int64_t k = i;
        for (; k > 0 && t[k - 1].order > token.order; k--)
            t[k] = t[k - 1];
        t[k] = token;
    }
}

static bool is_repeated(const br_side_tokens *list, int64_t at)
{
    const br_side_token *t = &list->items[at];
    for (const br_side_token *p = list->items; p < t; p++)
        if (strcmp(p->text, t->text) == 0 && p->object == t->object && p->late == t->late &&
            p->lstrip == t->lstrip && p->rstrip == t->rstrip && p->single_word == t->single_word)
            return true;
    return false;
}

/* Adds special tokens in the order of transformers 5. If one has several names, the last flags
 * count, unless it was an added token before. */
static bool add_named(br_tokenizer_loader *l)
{
    br_side_tokens *list = &l->files.named;
    sort_named(list);
    for (int64_t i = 0; i < list->count; i++) {
        br_side_token *t = &list->items[i];
        int64_t id = br__word_id(&l->t->all, t->text, strlen(t->text));
        t->known = id >= 0 && br__tokenizer_added(l->t, id);
    }
    for (int64_t i = 0; i < list->count; i++)
        if (!add_token(l, &list->items[i], !list->items[i].known && !is_repeated(list, i)))
            return false;
    return true;
}

static bool add_tokens(br_tokenizer_loader *l)
{
    br_side_files *s = &l->files;
    bool replaces = !l->from_json || (br__loader_rebuilds(l) && s->has_decoder);
    if ((replaces || l->own_tokens) && !name_class_tokens(l))
        return false;
    if (l->from_json && replaces)
        drop_tokens(l);
    else if (l->t->kind == &br__unigram && !l->from_json && s->has_extra)
        br__tokenizer_drop_added(l->t);
    for (int64_t i = 0; i < s->added.count; i++)
        if (!add_token(l, &s->added.items[i], s->has_decoder))
            return false;
    return add_named(l) && add_extra_ids(l);
}

/* ---------------------------------------------------------------------------------------------- */

/* Rebuilds what depends on the tokens and on the normalizer. */
static bool finish(const br_tokenizer_loader *l)
{
    br_tokenizer *t = l->t;
    if (!br__tokenizer_index(t))
        return false;
    if (t->kind == &br__unigram && l->from_json)
        br__unigram_mark(t);
    else if (t->kind == &br__unigram && !br__unigram_finish(t))
        return false;
    return br__loader_set_specials(l) && br__tokenizer_finish_added(t);
}

/* Clears the roles that the side files state. A tokenizer.json gets these roles, not the usual
 * ones. */
static void forget_stated_roles(const br_tokenizer_loader *l)
{
    for (int role = 0; role <= BR_TOKEN_MASK; role++)
        if (l->files.stated[role])
            l->t->roles[role] = -1;
}

/* Forgets additional_special_tokens of special_tokens_map.json. transformers 5 replaces this list
 * by the special pieces of spiece.model. */
static void forget_map_list(br_side_files *s)
{
    int64_t kept = 0;
    for (int64_t i = 0; i < s->named.count; i++)
        if (!s->extra_in_map || strcmp(s->named.items[i].key, "additional_special_tokens") != 0)
            s->named.items[kept++] = s->named.items[i];
    s->named.count = kept;
    s->has_extra = s->has_extra && !s->extra_in_map;
}

br_tokenizer *br_auto_tokenizer_load(const char *dir, const br_auto_tokenizer_options *options)
{
    if (!br__required(op, "dir", dir))
        return NULL;
    options = BR_OPTIONS_OF(op, br_auto_tokenizer, options);
    if (options->extra_ids > MAX_EXTRA_IDS)
        return br_fail(BR_ERROR_ARGUMENT, op, "extra_ids is %" PRId64 ", must be at most %d",
                       options->extra_ids, MAX_EXTRA_IDS);
    if (br_gguf_is_file(dir))
        return br__tokenizer_read_gguf(dir, options);
    br_tokenizer_loader l = { .options = options };
    bool ok = br__side_files_read(&l.files, dir, options) && read_vocabulary(&l);
    if (ok)
        forget_stated_roles(&l);
    if (ok && l.t->kind == &br__unigram && !l.from_json)
        forget_map_list(&l.files);
    ok = ok && br__loader_apply_settings(&l) && add_tokens(&l) && finish(&l);
    br__side_files_free(&l.files);
    if (ok)
        return l.t;
    br_tokenizer_free(l.t);
    return NULL;
}
