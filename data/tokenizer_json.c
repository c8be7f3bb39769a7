/* data/tokenizer_json.c - reads tokenizer.json: the parts common to all kinds, and BERT's kind.
 * Every part is checked. Anything unsupported that could change the ids is an error that names it.
 */
#include "data/tokenizer_json_internal.h"

#include "io/io_internal.h"
#include "io/json.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "tokenizer_from_json";

bool br__tokenizer_refuse(const char *path, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    br__refuse_file(op, path, format, args);
    va_end(args);
    return false;
}

/* ---- Members --------------------------------------------------------------------------------- */

json_t *br__tokenizer_json(const char *name, const char *path)
{
    size_t length;
    char *text = br__read_text(name, path, UINT64_MAX, &length);
    json_error_t error;
    json_t *root = text ? br__json_parse(name, path, text, length, &error) : NULL;
    if (!root && !br__failed())
        br__tokenizer_refuse(path, "line %d: %s", error.line, br_printable(error.text));
    br_free(text);
    return root;
}

json_t *br__tokenizer_json_part(const char *path, json_t *root, const char *key, const char *type)
{
    json_t *object = json_object_get(root, key), *is = json_object_get(object, "type");
    if (json_is_string(is) && strcmp(json_string_value(is), type) == 0)
        return object;
    br__tokenizer_refuse(path, "%s is %s, must be %s", key,
                         json_is_string(is) ? br_printable(json_string_value(is))
                                            : "missing or without a type",
                         type);
    return NULL;
}

bool br__tokenizer_json_bool(const char *path, json_t *object, const char *key, bool standard,
                             bool *value)
{
    json_t *member = json_object_get(object, key);
    *value = !member || json_is_null(member) ? standard : json_is_true(member);
    return !member || json_is_null(member) || json_is_boolean(member) ||
           br__tokenizer_refuse(path, "%s is not a boolean", key);
}

const char *br__tokenizer_json_string(const char *path, json_t *object, const char *key,
                                      const char *standard)
{
    json_t *member = json_object_get(object, key);
    if (!member && standard)
        return standard;
    if (json_is_string(member) && !memchr(json_string_value(member), 0, json_string_length(member)))
        return json_string_value(member);
    br__tokenizer_refuse(path, "%s is not a string", key);
    return NULL;
}

bool br__tokenizer_json_id(const char *path, const char *token, json_t *value, int64_t *id)
{
    *id = json_is_integer(value) ? json_integer_value(value) : -1;
    return (*id >= 0 && *id < BR_MAX_TOKEN_ID) ||
           br__tokenizer_refuse(path, "the id of '%s' is not an integer in 0 .. %d",
                                br_printable(token), BR_MAX_TOKEN_ID - 1);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static bool read_accents(br_tokenizer *t, const char *path, json_t *normalizer)
{
    json_t *strip = json_object_get(normalizer, "strip_accents");
    t->auto_accents = !strip || json_is_null(strip);
    return br__tokenizer_json_bool(path, normalizer, "strip_accents", t->lowercase,
                                   &t->strip_accents);
}

static bool read_normalizer(br_tokenizer *t, const char *path, json_t *root)
{
    json_t *n = br__tokenizer_json_part(path, root, "normalizer", "BertNormalizer");
    return n && br__tokenizer_json_bool(path, n, "lowercase", true, &t->lowercase) &&
           read_accents(t, path, n) &&
           br__tokenizer_json_bool(path, n, "clean_text", true, &t->clean) &&
           br__tokenizer_json_bool(path, n, "handle_chinese_chars", true, &t->spread_chinese);
}

bool br__tokenizer_json_vocab(br_tokenizer *t, const char *path, json_t *vocab)
{
    const char *token;
    json_t *value;
    if (!json_is_object(vocab))
        return br__tokenizer_refuse(path, "the vocabulary is not an object");
    json_object_foreach(vocab, token, value)
    {
        int64_t id;
        if (!br__tokenizer_json_id(path, token, value, &id) ||
            !br__tokenizer_add(t, token, strlen(token), id))
            return false;
    }
    return true;
}

/* Two tokens share an id if one of them is not in the table of ids. */
bool br__tokenizer_check_ids(const br_tokenizer *t, const char *path)
{
    for (int64_t word = 0; word < br_vocab_size(t->all.words); word++) {
        const char *token = br_vocab_word(t->all.words, word);
        int64_t id = t->all.ids[word];
        if (t->tokens[id] != token)
            return br__tokenizer_refuse(path, "'%s' and '%s' have the same id, %" PRId64,
                                        br_printable(token), br_printable(t->tokens[id]), id);
    }
    return true;
}

static bool read_model(br_tokenizer *t, const char *path, json_t *root)
{
    json_t *model = br__tokenizer_json_part(path, root, "model", "WordPiece");
    const char *prefix =
        model ? br__tokenizer_json_string(path, model, "continuing_subword_prefix", "##") : NULL;
    const char *unknown =
        prefix ? br__tokenizer_json_string(path, model, "unk_token", "[UNK]") : NULL;
    json_t *max_word = json_object_get(model, "max_input_chars_per_word");
    if (!unknown || !br__tokenizer_set_prefix(t, prefix))
        return false;
    if (max_word)
        t->max_word = json_is_integer(max_word) ? json_integer_value(max_word) : -1;
    if (t->max_word < 0 || t->max_word > 1000000)
        return br__tokenizer_refuse(
            path, "model.max_input_chars_per_word is not an integer in 0 .. 1000000");
    if (!br__tokenizer_json_vocab(t, path, json_object_get(model, "vocab")))
        return false;
    t->model_size = t->size;
    t->unknown = br__word_id(&t->all, unknown, strlen(unknown));
    return t->unknown >= 0 ||
           br__tokenizer_refuse(path, "model.unk_token '%s' is not in the vocabulary",
                                br_printable(unknown));
}

static bool read_flags(const char *path, json_t *token, br_added_token *a)
{
    return br__tokenizer_json_bool(path, token, "single_word", false, &a->single_word) &&
           br__tokenizer_json_bool(path, token, "lstrip", false, &a->lstrip) &&
           br__tokenizer_json_bool(path, token, "rstrip", false, &a->rstrip) &&
           br__tokenizer_json_bool(path, token, "normalized", false, &a->late) &&
           br__tokenizer_json_bool(path, token, "special", false, &a->special);
}

/* Adds a token, or changes one that was already added: the last entry's flags count, but a token
 * stays special, as in tokenizers. */
static bool read_added_token(br_tokenizer *t, const char *path, json_t *token)
{
    const char *text = br__tokenizer_json_string(path, token, "content", NULL);
    int64_t id;
    br_added_token a = { 0 };
    if (!text || !br__tokenizer_json_id(path, text, json_object_get(token, "id"), &id) ||
        !read_flags(path, token, &a))
        return false;
    int64_t known = br__word_id(&t->all, text, strlen(text));
    if (!*text || (known >= 0 ? known != id : id != t->size))
        return br__tokenizer_refuse(path, "added token '%s' has id %" PRId64 ", must have %" PRId64,
                                    br_printable(text), id, known >= 0 ? known : t->size);
    if ((known < 0 && !br__tokenizer_add(t, text, strlen(text), id)) ||
        !br__tokenizer_add_special(t, text, strlen(text), a.special))
        return false;
    br_added_token *added = br__tokenizer_added(t, id);
    added->late = a.late;
    added->lstrip = a.lstrip;
    added->rstrip = a.rstrip;
    added->single_word = a.single_word;
    return true;
}

bool br__tokenizer_json_added(br_tokenizer *t, const char *path, json_t *root)
{
    json_t *list = json_object_get(root, "added_tokens"), *token;
    size_t i;
    if (list && (!json_is_array(list) || json_array_size(list) > BR_MAX_ADDED))
        return br__tokenizer_refuse(path, "added_tokens is not an array of at most %d tokens",
                                    BR_MAX_ADDED);
    json_array_foreach(list, i, token)
    {
        if (!read_added_token(t, path, token))
            return false;
    }
    return true;
}

/* ---- The other parts ------------------------------------------------------------------------- */

static bool read_decoder(br_tokenizer *t, const char *path, json_t *root)
{
    json_t *d = br__tokenizer_json_part(path, root, "decoder", "WordPiece");
    const char *prefix = d ? br__tokenizer_json_string(path, d, "prefix", "##") : NULL;
    if (prefix && strcmp(prefix, t->prefix) != 0)
        return br__tokenizer_refuse(path, "decoder.prefix is '%s', but the model's prefix is '%s'",
                                    br_printable(prefix), br_printable(t->prefix));
    return prefix && br__tokenizer_json_bool(path, d, "cleanup", true, &t->cleanup);
}

/* ---------------------------------------------------------------------------------------------- */

static bool read_word_pieces(br_tokenizer *t, const char *path, json_t *root)
{
    if (!read_normalizer(t, path, root) ||
        !br__tokenizer_json_part(path, root, "pre_tokenizer", "BertPreTokenizer") ||
        !read_model(t, path, root) || !br__tokenizer_json_added(t, path, root) ||
        !br__tokenizer_json_processors(t, path, root) || !read_decoder(t, path, root) ||
        !br__tokenizer_index(t))
        return false;
    t->padding = br__word_id(&t->all, "[PAD]", strlen("[PAD]"));
    return br__tokenizer_check_ids(t, path);
}

static bool read_root(br_tokenizer *t, const char *path, json_t *root)
{
    static const struct {
        const char *type;
        bool (*read)(br_tokenizer *t, const char *path, json_t *root);
    } models[] = { { "BPE", br__tokenizer_json_bpe }, { "Unigram", br__tokenizer_json_unigram } };
    const char *type = json_string_value(json_object_get(json_object_get(root, "model"), "type"));
    for (size_t i = 0; type && i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].type, type) == 0)
            return models[i].read(t, path, root);
    return read_word_pieces(t, path, root);
}

br_tokenizer *br_tokenizer_from_json(const char *path)
{
    br_tokenizer *t = br__tokenizer_new();
    json_t *root = t ? br__tokenizer_json(op, path) : NULL;
    bool ok = root && read_root(t, path, root) && br__tokenizer_finish_added(t);
    json_decref(root);
    if (ok) {
        br__tokenizer_default_roles(t);
        return t;
    }
    br_tokenizer_free(t);
    return NULL;
}
