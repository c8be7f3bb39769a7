/* tokenizers/tokenizer_json_unigram.c - reads a tokenizer.json of the kind of T5, XLM-RoBERTa and
 * ALBERT: SentencePiece's Unigram with a normalizer, and U+2581 for spaces. */
#include "tokenizers/tokenizer_json_internal.h"
#include "tokenizers/unigram_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns true if a part or step has that type. The name of the part, such as "decoder", is needed
 * if the type is not stated. */
static bool has_type(const char *name, const json_t *part, const char *type)
{
    const char *is = br__tokenizer_json_type(name, part);
    return is && strcmp(is, type) == 0;
}

/* ---- The model ------------------------------------------------------------------------------- */

/* Returns the score that `tokenizers` reads from the shortest decimal number for `score`, as files
 * have it. Its reader divides the digits, as a double, by a power of ten, which rounds twice: the
 * last bit may differ. That bit decides between segmentations whose sums are equal but for
 * rounding, such as those of a line of hyphens. */
static double score_as_read(double score)
{
    enum { EXACT = 15, ENOUGH = 17 }; /* digits that a double keeps, and that determine it */
    char text[32], power[32];
    for (int digits = EXACT; digits <= ENOUGH; digits++) {
        snprintf(text, sizeof text, "%.*e", digits - 1, fabs(score));
        if (strtod(text, NULL) == fabs(score))
            break;
    }
    uint64_t number = 0;
    int exponent = atoi(strchr(text, 'e') + 1) + 1; /* of the number 0.DIGITS */
    for (const char *p = text; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9') { /* not the decimal point, which depends on the locale */
            number = 10 * number + (uint64_t)(*p - '0');
            exponent--;
        }
    for (; number > 0 && number % 10 == 0; number /= 10)
        exponent++;
    snprintf(power, sizeof power, "1e%d", abs(exponent));
    double read =
        exponent < 0 ? (double)number / strtod(power, NULL) : (double)number * strtod(power, NULL);
    return copysign(read, score);
}

static bool read_piece(br_tokenizer *t, const char *path, json_t *entry, size_t i)
{
    json_t *text = json_array_get(entry, 0), *score = json_array_get(entry, 1);
    if (json_array_size(entry) != 2 || !json_is_string(text) || !json_is_number(score) ||
        !isfinite(json_number_value(score)))
        return br__tokenizer_refuse(path, "model.vocab[%zu] is not a piece and a finite score", i);
    if (json_string_length(text) == 0)
        return br__tokenizer_refuse(path, "model.vocab[%zu] is an empty piece", i);
    if (i >= BR_MAX_TOKEN_ID)
        return br__tokenizer_refuse(path, "model.vocab has more than %d pieces", BR_MAX_TOKEN_ID);
    return br__unigram_add(t, json_string_value(text), json_string_length(text),
                           score_as_read(json_number_value(score)), BR_PIECE_NORMAL);
}

static bool read_model(br_tokenizer *t, const char *path, json_t *root)
{
    json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    json_t *unknown = json_object_get(model, "unk_id"), *entry;
    size_t i;
    br_unigram *u = br__unigram_begin(t);
    if (!u || !br__tokenizer_json_bool(path, model, "byte_fallback", false, &u->byte_fallback))
        return false;
    if (!json_is_array(vocab))
        return br__tokenizer_refuse(path, "model.vocab is not an array");
    json_array_foreach(vocab, i, entry)
    {
        if (!read_piece(t, path, entry, i))
            return false;
    }
    if (!unknown || json_is_null(unknown))
        return true; /* only texts without unknown code points can be encoded */
    t->unknown = json_is_integer(unknown) ? json_integer_value(unknown) : -1;
    return (t->unknown >= 0 && t->unknown < u->size) ||
           br__tokenizer_refuse(path, "model.unk_id is not an integer in 0 .. %" PRId64,
                                u->size - 1);
}

/* ---- The normalizer -------------------------------------------------------------------------- */

static bool read_charsmap(br_unigram *u, const char *path, json_t *part)
{
    const char *what;
    json_t *map = json_object_get(part, "precompiled_charsmap");
    if (!json_is_string(map) || u->charsmap.n > 0)
        return br__tokenizer_refuse(path, "normalizer: %s precompiled_charsmap",
                                    u->charsmap.n > 0 ? "there is a second" : "there is no");
    if (!br__charsmap_read_base64(&u->charsmap, json_string_value(map), json_string_length(map),
                                  &what))
        return false;
    return !what || br__tokenizer_refuse(path, "normalizer: precompiled_charsmap %s", what);
}

/* Reads a "Replace" step: the replacement of a string, or of all runs of spaces, which is the only
 * supported regular expression. */
static bool read_replace(br_step *s, const char *path, json_t *part)
{
    json_t *pattern = json_object_get(part, "pattern");
    const char *string = json_string_value(json_object_get(pattern, "String"));
    const char *regex = json_string_value(json_object_get(pattern, "Regex"));
    const char *content = br__tokenizer_json_string(path, part, "content", NULL);
    if (!content)
        return false;
    bool runs = regex && strcmp(regex, " {2,}") == 0;
    if (string ? !*string : !runs)
        return br__tokenizer_refuse(path,
                                    "normalizer: pattern of Replace is '%s', which is not "
                                    "supported",
                                    br_printable(regex ? regex : ""));
    s->kind = runs ? BR_STEP_REPLACE_RUNS : BR_STEP_REPLACE;
    s->pattern = br_strdup(runs ? " " : string);
    s->content = br_strdup(content);
    return s->pattern && s->content;
}

/* Reads a step that is only a name. Returns false if it is none. */
static bool is_plain_step(br_step *s, const char *type)
{
    s->form = br__form_of_name(type);
    s->kind = s->form                             ? BR_STEP_FORM
              : strcmp(type, "StripAccents") == 0 ? BR_STEP_STRIP_ACCENTS
                                                  : BR_STEP_LOWERCASE;
    return s->kind != BR_STEP_LOWERCASE || strcmp(type, "Lowercase") == 0;
}

static bool read_step(br_unigram *u, const char *path, json_t *part)
{
    if (u->n_steps == BR_MAX_STEPS)
        return br__tokenizer_refuse(path, "normalizer has more than %d parts", BR_MAX_STEPS);
    br_step *s = &u->steps[u->n_steps++];
    if (has_type("normalizer", part, "Precompiled")) {
        s->kind = BR_STEP_CHARSMAP;
        return read_charsmap(u, path, part);
    }
    if (has_type("normalizer", part, "Replace"))
        return read_replace(s, path, part);
    const char *type = br__tokenizer_json_type("normalizer", part);
    if (type && is_plain_step(s, type))
        return true;
    s->kind = BR_STEP_STRIP;
    if (has_type("normalizer", part, "Strip"))
        return br__tokenizer_json_bool(path, part, "strip_left", false, &s->left) &&
               br__tokenizer_json_bool(path, part, "strip_right", false, &s->right);
    return br__tokenizer_refuse(path, "normalizer has a part that is not Precompiled, Replace, "
                                      "Strip, NFC, NFD, NFKC, NFKD, StripAccents or Lowercase");
}

static bool read_normalizer(br_tokenizer *t, const char *path, json_t *root)
{
    br_unigram *u = br__unigram_of(t);
    json_t *n = json_object_get(root, "normalizer"), *part;
    size_t i;
    if (t->absent & BR_NO_NORMALIZER)
        return true;
    if (!has_type("normalizer", n, "Sequence"))
        return read_step(u, path, n);
    json_array_foreach(json_object_get(n, "normalizers"), i, part)
    {
        if (!read_step(u, path, part))
            return false;
    }
    return true;
}

/* ---- U+2581 ---------------------------------------------------------------------------------- */

/* Reads "Metaspace", optionally preceded by "WhitespaceSplit". */
static bool read_pre_tokenizer(br_tokenizer *t, const char *path, json_t *root)
{
    br_unigram *u = br__unigram_of(t);
    u->split_at_spaces = u->split_at_meta = t->absent & BR_NO_PRE_TOKENIZER;
    if (t->absent & BR_NO_PRE_TOKENIZER)
        return true;
    json_t *p = json_object_get(root, "pre_tokenizer"), *list = json_object_get(p, "pretokenizers");
    if (has_type("pre_tokenizer", p, "Sequence")) {
        size_t n = json_array_size(list);
        u->split_at_spaces =
            n == 2 && has_type("pre_tokenizer", json_array_get(list, 0), "WhitespaceSplit");
        p = json_array_get(list, u->split_at_spaces ? 1 : 0);
        if (n != 1U + u->split_at_spaces)
            p = NULL;
    }
    if (!has_type("pre_tokenizer", p, "Metaspace"))
        return br__tokenizer_refuse(path, "pre_tokenizer is not supported: must be Metaspace, or "
                                          "WhitespaceSplit followed by Metaspace");
    return br__metaspace_json(path, p, &u->prepend) &&
           br__metaspace_json_bool(path, p, "split", &u->split_at_meta);
}

/* Reads "Metaspace", optionally preceded by "ByteFallback". */
static bool read_decoder(br_tokenizer *t, const char *path, json_t *root)
{
    br_unigram *u = br__unigram_of(t);
    u->drop_front = true;
    if (t->absent & BR_NO_DECODER)
        return true;
    json_t *d = json_object_get(root, "decoder"), *list = json_object_get(d, "decoders");
    if (has_type("decoder", d, "Sequence")) {
        u->decode_bytes = has_type("decoder", json_array_get(list, 0), "ByteFallback");
        d = json_array_size(list) == 2 && u->decode_bytes ? json_array_get(list, 1) : NULL;
    }
    br_prepend prepend;
    if (!has_type("decoder", d, "Metaspace"))
        return br__tokenizer_refuse(
            path,
            "decoder is not supported: must be Metaspace, or ByteFallback followed by Metaspace");
    if (!br__metaspace_json(path, d, &prepend))
        return false;
    u->drop_front = prepend != BR_PREPEND_NEVER;
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

bool br__tokenizer_json_unigram(br_tokenizer *t, const char *path, json_t *root)
{
    if (!read_model(t, path, root) || !br__tokenizer_json_added(t, path, root) ||
        !read_normalizer(t, path, root) || !read_pre_tokenizer(t, path, root) ||
        !br__tokenizer_json_processors(t, path, root) || !read_decoder(t, path, root) ||
        !br__tokenizer_index(t))
        return false;
    t->padding = br__word_id(&t->all, "<pad>", strlen("<pad>"));
    return br__unigram_finish(t);
}
