/* tokenizers/tokenizer_json_members.c - members of tokenizer.json that all kinds have in common:
 * values, the vocabulary, added tokens. */
#include "tokenizers/tokenizer_json_internal.h"

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

json_t *br__tokenizer_parse(const char *name, const char *path, const char *text, size_t length)
{
    json_error_t error;
    json_t *root = br__json_parse(name, path, text, length, &error);
    if (!root && !br__failed())
        br__tokenizer_refuse(path, "line %d: %s", error.line, br_printable(error.text));
    return root;
}

json_t *br__tokenizer_json(const char *name, const char *path)
{
    size_t length;
    char *text = br__read_text(name, path, UINT64_MAX, &length);
    json_t *root = text ? br__tokenizer_parse(name, path, text, length) : NULL;
    br_free(text);
    return root;
}

json_t *br__tokenizer_json_part(const char *path, json_t *root, const char *key, const char *type)
{
    json_t *object = json_object_get(root, key);
    const char *is = br__tokenizer_json_type(key, object);
    if (is && strcmp(is, type) == 0)
        return object;
    br__tokenizer_refuse(path, "%s is %s, must be %s", key,
                         is ? br_printable(is) : "without a type", type);
    return NULL;
}

bool br__tokenizer_json_bool(const char *path, json_t *object, const char *key, bool standard,
                             bool *value)
{
    json_t *member = json_object_get(object, key);
    *value = member ? json_is_true(member) : standard;
    return !member || json_is_boolean(member) ||
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

/* ---- Tokens ---------------------------------------------------------------------------------- */

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

/* Two tokens share an id if one of them is not in the table of ids. Only an added token may have
 * the id of another token. */
bool br__tokenizer_check_ids(const br_tokenizer *t, const char *path)
{
    for (int64_t word = 0; word < br_vocab_size(t->all.words); word++) {
        const char *token = br_vocab_word(t->all.words, word);
        int64_t id = t->all.ids[word];
        if (t->tokens[id] == token)
            continue;
        const char *other = t->tokens[id];
        if (t->model_words == 0 ||
            br_vocab_find(t->all.words, other, strlen(other)) < t->model_words)
            return br__tokenizer_refuse(path, "'%s' and '%s' have the same id, %" PRId64,
                                        br_printable(token), br_printable(t->tokens[id]), id);
    }
    return true;
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
    int64_t due = known >= 0 ? known : br__tokenizer_next_id(t);
    if (!*text || id != due)
        return br__tokenizer_refuse(path, "added token '%s' has id %" PRId64 ", must have %" PRId64,
                                    br_printable(text), id, due);
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
