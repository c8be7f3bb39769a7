/* tokenizers/tokenizer_json.c - reads tokenizer.json: chooses the reader of the model's kind. Every
 * part is checked. Anything unsupported that could change the ids is an error that names it. */
#include "tokenizers/tokenizer_json_internal.h"

#include <string.h>

static const char op[] = "tokenizer_from_json";

/* Lists the parts that are missing or null. A sequence of no pre-tokenizers is none, too. */
static unsigned absent_parts(json_t *root)
{
    static const struct {
        const char *key;
        unsigned bit;
    } parts[] = { { "normalizer", BR_NO_NORMALIZER },
                  { "pre_tokenizer", BR_NO_PRE_TOKENIZER },
                  { "post_processor", BR_NO_PROCESSOR },
                  { "decoder", BR_NO_DECODER } };
    unsigned absent = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *part = json_object_get(root, parts[i].key);
        if (!part || json_is_null(part))
            absent |= parts[i].bit;
    }
    json_t *list = json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers");
    return json_is_array(list) && json_array_size(list) == 0 ? absent | BR_NO_PRE_TOKENIZER
                                                             : absent;
}

/* With byte_fallback, BPE merges characters. */
static bool read_bpe(br_tokenizer *t, const char *path, json_t *root)
{
    bool falls_back =
        json_is_true(json_object_get(json_object_get(root, "model"), "byte_fallback"));
    return falls_back ? br__tokenizer_json_char_bpe(t, path, root)
                      : br__tokenizer_json_bpe(t, path, root);
}

static bool read_root(br_tokenizer *t, const char *path, json_t *root)
{
    static const struct {
        const char *type;
        bool (*read)(br_tokenizer *t, const char *path, json_t *root);
    } models[] = { { "WordPiece", br__tokenizer_json_words },
                   { "BPE", read_bpe },
                   { "Unigram", br__tokenizer_json_unigram } };
    json_t *model = json_object_get(root, "model");
    const char *type = br__tokenizer_json_type("model", model);
    t->absent = absent_parts(root);
    for (size_t i = 0; type && i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].type, type) == 0)
            return models[i].read(t, path, root);
    if (type)
        return br__tokenizer_refuse(path,
                                    "model is %s, which is not supported: must be WordPiece, BPE "
                                    "or Unigram",
                                    br_printable(type));
    return br__tokenizer_refuse(
        path, json_is_object(model)
                  ? "model has no type, and its fields are not those of WordPiece, BPE or Unigram"
                  : "there is no model, which must be an object");
}

/* Returns the tokenizer of a file's object, which is freed. */
static br_tokenizer *read_object(const char *path, json_t *root)
{
    br_tokenizer *t = root ? br__tokenizer_new() : NULL;
    bool ok = t && read_root(t, path, root);
    json_decref(root);
    if (ok)
        return t;
    br_tokenizer_free(t);
    return NULL;
}

br_tokenizer *br__tokenizer_read_json(const char *path, br_tokenizer_change *change, void *context)
{
    json_t *root = br__tokenizer_json(op, path);
    if (root && change && !change(root, context)) {
        json_decref(root);
        return NULL;
    }
    return read_object(path, root);
}

bool br__tokenizer_leave_out(br_tokenizer *t, const char *path)
{
    if (t->absent & BR_NO_NORMALIZER)
        br__tokenizer_no_normalizer(t);
    t->undivided = t->absent & BR_NO_PRE_TOKENIZER;
    t->spaced = t->absent & BR_NO_DECODER;
    return !t->undivided || t->kind != &br__byte_level ||
           br__tokenizer_refuse(path, "pre_tokenizer is null or missing, which is not supported "
                                      "for BPE: must be ByteLevel");
}

/* Finishes a tokenizer that was read, or frees it. */
static br_tokenizer *finished(br_tokenizer *t, const char *path)
{
    if (t && br__tokenizer_leave_out(t, path) && br__tokenizer_finish_added(t)) {
        br__tokenizer_default_roles(t);
        return t;
    }
    br_tokenizer_free(t);
    return NULL;
}

br_tokenizer *br_tokenizer_from_json(const char *path)
{
    return finished(br__tokenizer_read_json(path, NULL, NULL), path);
}

br_tokenizer *br_tokenizer_from_json_text(const char *text, int64_t length)
{
    static const char path[] = "tokenizer.json"; /* in messages */
    if (!br__required(op, "text", text))
        return NULL;
    size_t n = length < 0 ? strlen(text) : (size_t)length;
    return finished(read_object(path, br__tokenizer_parse(op, path, text, n)), path);
}
