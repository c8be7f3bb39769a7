/* tokenizers/tokenizer_json_wordpiece.c - reads a tokenizer.json of BERT's kind: WordPiece. */
#include "tokenizers/tokenizer_json_internal.h"

#include <string.h>

enum { MAX_DEPTH = 8 };

/* ---- The normalizer -------------------------------------------------------------------------- */

/* What a normalizer consists of. */
typedef struct normalizer {
    bool has_bert, lowers; /* a BertNormalizer, a Lowercase */
} normalizer;

static bool read_accents(br_tokenizer *t, const char *path, json_t *bert)
{
    json_t *strip = json_object_get(bert, "strip_accents");
    t->auto_accents = !strip || json_is_null(strip);
    t->strip_accents = t->lowercase;
    return t->auto_accents ||
           br__tokenizer_json_bool(path, bert, "strip_accents", t->lowercase, &t->strip_accents);
}

static bool read_bert(br_tokenizer *t, const char *path, json_t *bert, normalizer *is)
{
    if (is->has_bert)
        return br__tokenizer_refuse(path, "normalizer has two BertNormalizers, which is not "
                                          "supported");
    is->has_bert = true;
    return br__tokenizer_json_bool(path, bert, "lowercase", true, &t->lowercase) &&
           read_accents(t, path, bert) &&
           br__tokenizer_json_bool(path, bert, "clean_text", true, &t->clean) &&
           br__tokenizer_json_bool(path, bert, "handle_chinese_chars", true, &t->spread_chinese);
}

static bool read_step(br_tokenizer *t, const char *path, json_t *step, normalizer *is, int depth)
{
    const char *type = br__tokenizer_json_type("normalizer", step);
    json_t *list = json_object_get(step, "normalizers"), *part;
    size_t i;
    if (type && strcmp(type, "BertNormalizer") == 0)
        return read_bert(t, path, step, is);
    if (type && strcmp(type, "Lowercase") == 0)
        return is->lowers = true;
    if (!type || strcmp(type, "Sequence") != 0 || !json_is_array(list) || depth == MAX_DEPTH)
        return br__tokenizer_refuse(path,
                                    "normalizer is %s, must be null, BertNormalizer, Lowercase or "
                                    "a Sequence of them",
                                    type ? br_printable(type) : "without a type");
    json_array_foreach(list, i, part)
    {
        if (!read_step(t, path, part, is, depth + 1))
            return false;
    }
    return true;
}

/* Lowercase and BertNormalizer give the same text in either order, which tests/tokenizers/
 * compare_added.py verifies with every code point. Lowercase does not make strip_accents follow. */
static bool read_normalizer(br_tokenizer *t, const char *path, json_t *root)
{
    normalizer is = { 0 };
    if (t->absent & BR_NO_NORMALIZER)
        return true;
    if (!read_step(t, path, json_object_get(root, "normalizer"), &is, 0))
        return false;
    if (!is.has_bert)
        br__tokenizer_no_normalizer(t);
    if (is.lowers && !t->lowercase) {
        t->lowercase = true;
        t->auto_accents = false;
    }
    return true;
}

/* ---- The model ------------------------------------------------------------------------------- */

static bool read_model(br_tokenizer *t, const char *path, json_t *root)
{
    json_t *model = json_object_get(root, "model");
    const char *prefix = br__tokenizer_json_string(path, model, "continuing_subword_prefix", "##");
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
    t->model_words = br_vocab_size(t->all.words);
    return br__tokenizer_set_unknown(t, unknown);
}

/* ---- The other parts ------------------------------------------------------------------------- */

static bool read_pre_tokenizer(const br_tokenizer *t, const char *path, json_t *root)
{
    return (t->absent & BR_NO_PRE_TOKENIZER) ||
           br__tokenizer_json_part(path, root, "pre_tokenizer", "BertPreTokenizer");
}

static bool read_decoder(br_tokenizer *t, const char *path, json_t *root)
{
    if (t->absent & BR_NO_DECODER)
        return true;
    json_t *d = br__tokenizer_json_part(path, root, "decoder", "WordPiece");
    const char *prefix = d ? br__tokenizer_json_string(path, d, "prefix", "##") : NULL;
    if (prefix && strcmp(prefix, t->prefix) != 0)
        return br__tokenizer_refuse(path, "decoder.prefix is '%s', but the model's prefix is '%s'",
                                    br_printable(prefix), br_printable(t->prefix));
    return prefix && br__tokenizer_json_bool(path, d, "cleanup", true, &t->cleanup);
}

/* ---------------------------------------------------------------------------------------------- */

bool br__tokenizer_json_words(br_tokenizer *t, const char *path, json_t *root)
{
    t->kind = &br__word_pieces;
    t->auto_accents = true;
    if (!read_normalizer(t, path, root) || !read_pre_tokenizer(t, path, root) ||
        !read_model(t, path, root) || !br__tokenizer_json_added(t, path, root) ||
        !br__tokenizer_json_processors(t, path, root) || !read_decoder(t, path, root) ||
        !br__tokenizer_index(t))
        return false;
    t->padding = br__word_id(&t->all, "[PAD]", strlen("[PAD]"));
    return br__tokenizer_check_ids(t, path);
}
