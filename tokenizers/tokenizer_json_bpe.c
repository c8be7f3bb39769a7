/* tokenizers/tokenizer_json_bpe.c - reads a tokenizer.json of byte-level BPE: that of GPT-2 and
 * RoBERTa, and those of Llama 3, Qwen, SmolLM and ModernBERT, which split or normalize a text in
 * other ways. */
#include "tokenizers/bpe_internal.h"
#include "tokenizers/tokenizer_json_internal.h"

#include <string.h>

/* ---- The model ------------------------------------------------------------------------------- */

bool br__bpe_json_absent(const char *path, json_t *model, const char *also)
{
    const char *const keys[] = { "dropout", "continuing_subword_prefix", "end_of_word_suffix",
                                 also };
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
        return br__split_merge(json_string_value(merge), json_string_length(merge), left, right);
    if (json_array_size(merge) != 2 || !json_is_string(first) || !json_is_string(second))
        return "is not two strings";
    *left = (br_text){ json_string_value(first), (int64_t)json_string_length(first) };
    *right = (br_text){ json_string_value(second), (int64_t)json_string_length(second) };
    return NULL;
}

bool br__bpe_json_merges(br_tokenizer *t, const char *path, json_t *merges, br_add_merge *add)
{
    size_t i;
    json_t *merge;
    if (!json_is_array(merges))
        return br__tokenizer_refuse(path, "model.merges is not an array");
    json_array_foreach(merges, i, merge)
    {
        br_text left, right;
        const char *what = parts_of(merge, &left, &right);
        if (!what && !add(t, left, right, (int64_t)i, &what))
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

/* Reads ignore_merges, which may be missing or null: both mean false. */
static bool read_ignore_merges(br_bpe *bpe, const char *path, json_t *model)
{
    static const char key[] = "ignore_merges";
    return json_is_null(json_object_get(model, key)) ||
           br__tokenizer_json_bool(path, model, key, false, &bpe->ignores_merges);
}

static bool read_model(br_tokenizer *t, const char *path, json_t *root)
{
    json_t *model = json_object_get(root, "model");
    return br__bpe_json_absent(path, model, "byte_fallback") && br__tokenizer_set_prefix(t, "") &&
           br__tokenizer_json_vocab(t, path, json_object_get(model, "vocab")) && br__bpe_begin(t) &&
           read_ignore_merges(br__bpe_of(t), path, model) &&
           br__bpe_json_merges(t, path, json_object_get(model, "merges"), br__bpe_add_merge) &&
           read_unknown(t, path, model);
}

/* ---- The other parts ------------------------------------------------------------------------- */

/* The regular expressions that bpe_split.h has. */
static const struct {
    const char *regex;
    bool is_gpt4;
    int most_digits;
} patterns[] = {
#define GPT4(numbers)                                                     \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
    { GPT4("\\p{N}{1,3}"), true, 3 }, /* Llama 3, SmolLM3 */
    { GPT4("\\p{N}"), true, 1 },      /* Qwen */
    { "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", false,
      0 },
    { "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+", false, 0 },
};

static bool has_type(const json_t *part, const char *type)
{
    const char *is = br__tokenizer_json_type("pre_tokenizer", part);
    return is && strcmp(is, type) == 0;
}

/* Reads a "Split" by one of the patterns. */
static bool read_split(br_bpe *bpe, const char *path, json_t *split)
{
    bool inverted;
    const char *behavior = br__tokenizer_json_string(path, split, "behavior", NULL);
    json_t *regex = json_object_get(json_object_get(split, "pattern"), "Regex");
    if (!behavior || !br__tokenizer_json_bool(path, split, "invert", false, &inverted))
        return false;
    if (strcmp(behavior, "Isolated") != 0 || inverted || !json_is_string(regex))
        return br__tokenizer_refuse(path, "pre_tokenizer: a Split before ByteLevel must have a "
                                          "Regex, the behavior Isolated and not invert");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        if (strcmp(patterns[i].regex, json_string_value(regex)) == 0) {
            bpe->is_gpt4 = patterns[i].is_gpt4;
            bpe->most_digits = patterns[i].most_digits;
            return true;
        }
    return br__tokenizer_refuse(path, "pre_tokenizer: the Regex of Split is not supported: %s",
                                br_printable(json_string_value(regex)));
}

/* Reads "Digits", which splits a text before and after each number. */
static bool read_digits(br_bpe *bpe, const char *path, json_t *digits)
{
    bool individual;
    if (!br__tokenizer_json_bool(path, digits, "individual_digits", false, &individual))
        return false;
    bpe->most_digits = 1;
    return individual || br__tokenizer_refuse(path, "pre_tokenizer: individual_digits of Digits is "
                                                    "false, which is not supported");
}

/* Reads what precedes ByteLevel, which may be NULL. Sets *has_pattern to whether it is a pattern.
 */
static bool read_first(br_bpe *bpe, const char *path, json_t *first, bool *has_pattern)
{
    *has_pattern = first && has_type(first, "Split");
    if (!first)
        return true;
    if (*has_pattern)
        return read_split(bpe, path, first);
    if (has_type(first, "Digits"))
        return read_digits(bpe, path, first);
    return br__tokenizer_refuse(path, "pre_tokenizer: only Split or Digits may precede ByteLevel");
}

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
    br_bpe *bpe = br__bpe_of(t);
    if (t->absent & BR_NO_PRE_TOKENIZER)
        return true;
    json_t *p = json_object_get(root, "pre_tokenizer"), *first = NULL;
    json_t *list = json_object_get(p, "pretokenizers");
    size_t n = json_array_size(list);
    if (has_type(p, "Sequence")) {
        first = n == 2 ? json_array_get(list, 0) : NULL;
        p = json_array_get(list, n == 2 ? 1 : 0);
    }
    if (n > 2 || !has_type(p, "ByteLevel"))
        return br__tokenizer_refuse(path, "pre_tokenizer is not supported: must be ByteLevel, or "
                                          "Split or Digits followed by ByteLevel");
    bool by_regex, has_pattern;
    if (!read_first(bpe, path, first, &has_pattern) ||
        !br__tokenizer_json_bool(path, p, "add_prefix_space", true, &bpe->prefix_space) ||
        !br__tokenizer_json_bool(path, p, "use_regex", true, &by_regex))
        return false;
    if (by_regex == has_pattern)
        return br__tokenizer_refuse(
            path, has_pattern ? "pre_tokenizer: ByteLevel after Split has use_regex "
                                "true, which is not supported"
                              : "pre_tokenizer.use_regex is false, which is not "
                                "supported");
    return !first || !bpe->prefix_space ||
           br__tokenizer_refuse(path, "pre_tokenizer: add_prefix_space after Split or Digits is "
                                      "not supported");
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
