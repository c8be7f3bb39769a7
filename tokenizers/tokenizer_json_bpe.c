/* tokenizers/tokenizer_json_bpe.c - reads a tokenizer.json of the kind of GPT-2, RoBERTa and
 * ModernBERT: byte-level BPE, of which only the last normalizes texts. */
#include "tokenizers/bpe_internal.h"
#include "tokenizers/tokenizer_json_internal.h"

#include <string.h>

/* ---- The model ------------------------------------------------------------------------------- */

/* Checks that options which would change the tokens and are not supported are absent, null, false
 * or "". */
static bool check_absent(const char *path, json_t *model)
{
    static const char *const keys[] = { "dropout", "continuing_subword_prefix",
                                        "end_of_word_suffix", "byte_fallback", "ignore_merges" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *value = json_object_get(model, keys[i]);
        bool empty = json_is_string(value) && json_string_length(value) == 0;
        if (value && !json_is_null(value) && !json_is_false(value) && !empty)
            return br__tokenizer_refuse(path, "model.%s is given, which is not supported", keys[i]);
    }
    return true;
}

/* Splits a merge, which is "left right" or, in newer files, ["left", "right"]. */
static const char *parts_of(json_t *merge, br_text *left, br_text *right)
{
    json_t *first = json_array_get(merge, 0), *second = json_array_get(merge, 1);
    if (json_is_string(merge))
        return br__bpe_split_merge(json_string_value(merge), json_string_length(merge), left,
                                   right);
    if (json_array_size(merge) != 2 || !json_is_string(first) || !json_is_string(second))
        return "is not two strings";
    *left = (br_text){ json_string_value(first), (int64_t)json_string_length(first) };
    *right = (br_text){ json_string_value(second), (int64_t)json_string_length(second) };
    return NULL;
}

static bool read_merges(br_tokenizer *t, const char *path, json_t *merges)
{
    size_t i;
    json_t *merge;
    if (!json_is_array(merges))
        return br__tokenizer_refuse(path, "model.merges is not an array");
    json_array_foreach(merges, i, merge)
    {
        br_text left, right;
        const char *what = parts_of(merge, &left, &right);
        if (!what && !br__bpe_add_merge(t, left, right, (int64_t)i, &what))
            return false;
        if (what)
            return br__tokenizer_refuse(path, "model.merges[%zu] %s", i, what);
    }
    return true;
}

/* Reads the unknown token, which replaces bytes without a token. */
static bool read_unknown(br_tokenizer *t, const char *path, json_t *model)
{
    json_t *unknown = json_object_get(model, "unk_token");
    if (!unknown || json_is_null(unknown))
        return true;
    const char *token = br__tokenizer_json_string(path, model, "unk_token", NULL);
    if (token && json_is_true(json_object_get(model, "fuse_unk")))
        return br__tokenizer_refuse(path, "model.fuse_unk is true, which is not supported");
    return token && br__tokenizer_set_unknown(t, token);
}

static bool read_model(br_tokenizer *t, const char *path, json_t *root)
{
    json_t *model = json_object_get(root, "model");
    return check_absent(path, model) && br__tokenizer_set_prefix(t, "") &&
           br__tokenizer_json_vocab(t, path, json_object_get(model, "vocab")) && br__bpe_begin(t) &&
           read_merges(t, path, json_object_get(model, "merges")) && read_unknown(t, path, model);
}

/* ---- The other parts ------------------------------------------------------------------------- */

/* Reads the normalizer, which is a form of Unicode or missing. */
static bool read_normalizer(const br_tokenizer *t, const char *path, json_t *root, br_form *form)
{
    *form = BR_FORM_NONE;
    if (t->absent & BR_NO_NORMALIZER)
        return true;
    const char *type = br__tokenizer_json_type("normalizer", json_object_get(root, "normalizer"));
    *form = br__form_of_name(type ? type : "");
    return *form || br__tokenizer_refuse(path,
                                         "normalizer is %s, which is not supported for BPE: must "
                                         "be null, NFC, NFD, NFKC or NFKD",
                                         type ? br_printable(type) : "of no known type");
}

static bool read_pre_tokenizer(br_tokenizer *t, const char *path, json_t *root)
{
    bool by_pattern;
    if (t->absent & BR_NO_PRE_TOKENIZER)
        return true;
    json_t *p = br__tokenizer_json_part(path, root, "pre_tokenizer", "ByteLevel");
    if (!p ||
        !br__tokenizer_json_bool(path, p, "add_prefix_space", true, &br__bpe_of(t)->prefix_space) ||
        !br__tokenizer_json_bool(path, p, "use_regex", true, &by_pattern))
        return false;
    return by_pattern ||
           br__tokenizer_refuse(path, "pre_tokenizer.use_regex is false, which is not supported");
}

/* Refuses add_prefix_space with trim_offsets: with both, the fast tokenizer's offsets omit
 * letters. */
static bool check_trimming(const br_tokenizer *t, const char *path)
{
    return !(t->trim_offsets && br__bpe_of(t)->prefix_space) ||
           br__tokenizer_refuse(path, "pre_tokenizer.add_prefix_space and "
                                      "post_processor.trim_offsets are both true, which is not "
                                      "supported");
}

static bool check_decoder(const br_tokenizer *t, const char *path, json_t *root)
{
    return (t->absent & BR_NO_DECODER) ||
           br__tokenizer_json_part(path, root, "decoder", "ByteLevel");
}

bool br__tokenizer_json_bpe(br_tokenizer *t, const char *path, json_t *root)
{
    static const char end_of_text[] = "<|endoftext|>";
    br_form form;
    if (!read_normalizer(t, path, root, &form) || !read_model(t, path, root))
        return false;
    br__bpe_of(t)->form = form;
    if (!br__tokenizer_json_added(t, path, root) || !read_pre_tokenizer(t, path, root) ||
        !br__tokenizer_json_processors(t, path, root) || !check_trimming(t, path) ||
        !check_decoder(t, path, root) || !br__tokenizer_index(t))
        return false;
    t->padding = br__word_id(&t->all, end_of_text, strlen(end_of_text));
    return br__tokenizer_check_ids(t, path);
}
