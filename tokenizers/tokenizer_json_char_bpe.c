/* tokenizers/tokenizer_json_char_bpe.c - reads a tokenizer.json of BPE over characters with
 * "byte_fallback": that of Llama 2, TinyLlama, Mistral and Gemma. */
#include "tokenizers/char_bpe.h"

#include <string.h>

static bool has_type(const char *name, const json_t *part, const char *type)
{
    const char *is = br__tokenizer_json_type(name, part);
    return is && strcmp(is, type) == 0;
}

static const char *printable_type(const char *name, const json_t *part)
{
    const char *is = br__tokenizer_json_type(name, part);
    return is ? br_printable(is) : "of no known type";
}

/* Returns whether the string under `key` is `text`. */
static bool is_text(const json_t *part, const char *key, const char *text)
{
    const char *is = json_string_value(json_object_get(part, key));
    return is && strcmp(is, text) == 0;
}

/* Returns whether the integer under `key` is `number`. */
static bool is_number(const json_t *part, const char *key, json_int_t number)
{
    const json_t *value = json_object_get(part, key);
    return json_is_integer(value) && json_integer_value(value) == number;
}

/* Returns whether a part is the replacement of a string by another one. */
static bool is_replace(const char *name, const json_t *part, const char *by, const char *content)
{
    return has_type(name, part, "Replace") &&
           is_text(json_object_get(part, "pattern"), "String", by) &&
           is_text(part, "content", content);
}

/* ---- The model ------------------------------------------------------------------------------- */

/* Reads the unknown token. No text gets it, because every byte has a token. */
static bool read_unknown(br_tokenizer *t, const char *path, json_t *model)
{
    bool fuses;
    json_t *unknown = json_object_get(model, "unk_token");
    if (!br__tokenizer_json_bool(path, model, "fuse_unk", false, &fuses))
        return false;
    if (!unknown || json_is_null(unknown))
        return true;
    const char *token = br__tokenizer_json_string(path, model, "unk_token", NULL);
    return token && br__tokenizer_set_unknown(t, token);
}

static bool read_model(br_tokenizer *t, const char *path, json_t *root)
{
    int missing;
    json_t *model = json_object_get(root, "model");
    if (!br__bpe_json_absent(path, model, "ignore_merges") || !br__tokenizer_set_prefix(t, "") ||
        !br__tokenizer_json_vocab(t, path, json_object_get(model, "vocab")) ||
        !br__char_bpe_begin(t, &missing))
        return false;
    if (missing >= 0)
        return br__tokenizer_refuse(path,
                                    "model.byte_fallback is true, but the vocabulary has no token "
                                    "<0x%02X>: it must have one for each byte",
                                    (unsigned)missing);
    return br__bpe_json_merges(t, path, json_object_get(model, "merges"), br__char_bpe_add_merge) &&
           read_unknown(t, path, model);
}

/* ---- The normalizer -------------------------------------------------------------------------- */

static bool read_step(br_char_bpe *m, const char *path, json_t *part)
{
    static const char name[] = "normalizer";
    if (has_type(name, part, "Prepend")) {
        if (m->prepends || !is_text(part, "prepend", br__meta))
            return br__tokenizer_refuse(path, m->prepends
                                                  ? "normalizer: there is a second Prepend"
                                                  : "normalizer: prepend of Prepend is not U+2581, "
                                                    "which is not supported");
        m->prepends = true;
        return true;
    }
    if (has_type(name, part, "Replace")) {
        m->replaces = true;
        return is_replace(name, part, " ", br__meta) ||
               br__tokenizer_refuse(path, "normalizer: Replace must replace the String \" \" by "
                                          "U+2581");
    }
    return br__tokenizer_refuse(path,
                                "normalizer is %s, which is not supported with "
                                "model.byte_fallback: must be null, Prepend, Replace or a Sequence "
                                "of them",
                                printable_type(name, part));
}

static bool read_normalizer(br_tokenizer *t, const char *path, json_t *root)
{
    size_t i;
    json_t *n = json_object_get(root, "normalizer"), *part;
    if (t->absent & BR_NO_NORMALIZER)
        return true;
    if (!has_type("normalizer", n, "Sequence"))
        return read_step(br__char_bpe_of(t), path, n);
    json_t *list = json_object_get(n, "normalizers");
    if (!json_is_array(list))
        return br__tokenizer_refuse(path, "normalizer: normalizers is not an array");
    json_array_foreach(list, i, part)
    {
        if (!read_step(br__char_bpe_of(t), path, part))
            return false;
    }
    return true;
}

/* ---- The pre-tokenizer ----------------------------------------------------------------------- */

/* Reads Gemma's "Split". Its normalizer leaves no spaces, so it splits nothing there. */
static bool read_split(br_char_bpe *m, const char *path, json_t *split)
{
    bool inverted;
    if (!br__tokenizer_json_bool(path, split, "invert", false, &inverted))
        return false;
    m->split_at_spaces = true;
    return (!inverted && is_text(json_object_get(split, "pattern"), "String", " ") &&
            is_text(split, "behavior", "MergedWithPrevious")) ||
           br__tokenizer_refuse(path, "pre_tokenizer: with model.byte_fallback, Split must have "
                                      "the String \" \", the behavior MergedWithPrevious and not "
                                      "invert");
}

static bool read_pre_tokenizer(br_tokenizer *t, const char *path, json_t *root)
{
    static const char name[] = "pre_tokenizer";
    br_char_bpe *m = br__char_bpe_of(t);
    json_t *p = json_object_get(root, name);
    if (t->absent & BR_NO_PRE_TOKENIZER)
        return true;
    if (has_type(name, p, "Split"))
        return read_split(m, path, p);
    m->metaspace = has_type(name, p, "Metaspace");
    if (m->metaspace)
        return br__metaspace_json(path, p, &m->prepend) &&
               br__metaspace_json_bool(path, p, "split", &m->split_at_meta);
    return br__tokenizer_refuse(path,
                                "pre_tokenizer is %s, which is not supported with "
                                "model.byte_fallback: must be null, Split or Metaspace",
                                printable_type(name, p));
}

/* ---- The decoder ----------------------------------------------------------------------------- */

static bool is_strip(const json_t *part)
{
    return has_type("decoder", part, "Strip") && is_text(part, "content", " ") &&
           is_number(part, "start", 1) && is_number(part, "stop", 0);
}

static bool read_decoder(br_tokenizer *t, const char *path, json_t *root)
{
    static const char name[] = "decoder";
    br_piece_decoder *decoder = &br__char_bpe_of(t)->decoder;
    json_t *d = json_object_get(root, name), *list = json_object_get(d, "decoders");
    br_prepend prepend;
    if (t->absent & BR_NO_DECODER)
        return true;
    if (has_type(name, d, "Metaspace")) {
        if (!br__metaspace_json(path, d, &prepend))
            return false;
        decoder->drops_front = prepend != BR_PREPEND_NEVER;
        return true;
    }
    size_t n = json_array_size(list);
    decoder->bytes = true;
    decoder->strips = n == 4;
    return (has_type(name, d, "Sequence") && (n == 3 || n == 4) &&
            is_replace(name, json_array_get(list, 0), br__meta, " ") &&
            has_type(name, json_array_get(list, 1), "ByteFallback") &&
            has_type(name, json_array_get(list, 2), "Fuse") &&
            (n == 3 || is_strip(json_array_get(list, 3)))) ||
           br__tokenizer_refuse(path, "decoder is not supported with model.byte_fallback: must be "
                                      "Metaspace, or a Sequence of Replace of U+2581 by \" \", "
                                      "ByteFallback, Fuse and, optionally, Strip of one \" \" at "
                                      "the start");
}

/* ---------------------------------------------------------------------------------------------- */

bool br__tokenizer_json_char_bpe(br_tokenizer *t, const char *path, json_t *root)
{
    static const char pad[] = "<pad>", end[] = "</s>";
    if (!read_model(t, path, root) || !br__tokenizer_json_added(t, path, root) ||
        !read_normalizer(t, path, root) || !read_pre_tokenizer(t, path, root) ||
        !br__tokenizer_json_processors(t, path, root) || !read_decoder(t, path, root) ||
        !br__tokenizer_index(t))
        return false;
    t->padding = br__word_id(&t->all, pad, strlen(pad));
    if (t->padding < 0)
        t->padding = br__word_id(&t->all, end, strlen(end));
    return br__tokenizer_check_ids(t, path);
}
