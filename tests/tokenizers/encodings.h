/* tests/tokenizers/encodings.h - compares encodings with recorded JSON; loads modified
 * tokenizer.json files. */
#ifndef BR_TESTS_TOKENIZERS_ENCODINGS_H
#define BR_TESTS_TOKENIZERS_ENCODINGS_H

#include "tests/io/files.h"
#include "tests/support.h"

#include <brasa/tokenizers.h>
#include <jansson.h>

static inline void check_numbers(int at, const json_t *want, const char *key, const int64_t *got,
                                 int64_t n)
{
    const json_t *values = json_object_get(want, key);
    cr_assert_eq((int64_t)json_array_size(values), n, "case %d: %zu %s, got %lld", at,
                 json_array_size(values), key, (long long)n);
    for (int64_t i = 0; i < n; i++) {
        const json_t *value = json_array_get(values, (size_t)i);
        int64_t wanted = json_is_null(value) ? -1 : json_integer_value(value);
        cr_assert_eq(got[i], wanted, "case %d: %s %lld is %lld, expected %lld", at, key,
                     (long long)i, (long long)got[i], (long long)wanted);
    }
}

static inline void check_spans(int at, const json_t *want, const char *key, const br_span *got,
                               int64_t n)
{
    const json_t *values = json_object_get(want, key);
    cr_assert_eq((int64_t)json_array_size(values), n);
    for (int64_t i = 0; i < n; i++) {
        const json_t *span = json_array_get(values, (size_t)i);
        int64_t begin = json_integer_value(json_array_get(span, 0));
        int64_t end = json_integer_value(json_array_get(span, 1));
        cr_assert(got[i].begin == begin && got[i].end == end,
                  "case %d: %s %lld are %lld..%lld, expected %lld..%lld", at, key, (long long)i,
                  (long long)got[i].begin, (long long)got[i].end, (long long)begin, (long long)end);
    }
}

static inline void check_encoding(int at, const json_t *want, const br_encoding *e)
{
    check_numbers(at, want, "ids", e->ids, e->length);
    check_numbers(at, want, "type_ids", e->type_ids, e->length);
    check_numbers(at, want, "word_ids", e->word_ids, e->length);
    check_numbers(at, want, "special_mask", e->special_mask, e->length);
    check_spans(at, want, "chars", e->chars, e->length);
    check_spans(at, want, "bytes", e->bytes, e->length);
    const json_t *overflow = json_object_get(want, "overflow");
    cr_assert(!overflow || (int64_t)json_array_size(overflow) == e->n_overflow,
              "case %d: overflow is %lld", at, (long long)e->n_overflow);
    for (int64_t i = 0; i < e->n_overflow; i++)
        check_encoding(at, json_array_get(overflow, (size_t)i), &e->overflow[i]);
}

/* Gets the one or two strings of a list; returns their number. */
static inline size_t recorded_texts(const json_t *texts, br_text text[2])
{
    size_t n = json_array_size(texts);
    for (size_t i = 0; i < n && i < 2; i++) {
        const json_t *string = json_array_get(texts, i);
        text[i] = (br_text){ json_string_value(string), (int64_t)json_string_length(string) };
    }
    return n;
}

/* Encodes a case's texts with the options, decodes them, and compares with the recorded results. */
static inline void check_case(int at, const json_t *c, const br_tokenizer *t,
                              const br_encode_options *options)
{
    br_text text[2];
    size_t n = recorded_texts(json_object_get(c, "texts"), text);
    br_encoding *e = br_tokenizer_encode(t, &text[0], n > 1 ? &text[1] : NULL, options);
    check_ok();
    check_encoding(at, json_object_get(c, "want"), e);
    const json_t *want = json_object_get(c, "decoded");
    int64_t length;
    char *decoded = br_tokenizer_decode_text(t, e->length, e->ids, true, &length);
    cr_assert_eq((size_t)length, json_string_length(want), "case %d", at);
    cr_assert(memcmp(decoded, json_string_value(want), (size_t)length + 1) == 0, "case %d", at);
    br_free(decoded);
    br_encoding_free(e);
}

/* ---- tokenizer.json -------------------------------------------------------------------------- */

/* Loads a tokenizer from the JSON text with one part replaced. */
static inline br_tokenizer *changed_json(const char *json, const char *part, const char *by)
{
    return br_tokenizer_from_json(files_write_changed("tokenizer.json", json, part, by));
}

/* Checks that each change is rejected. A change is a part, its replacement, and the expected
 * message. */
static inline void check_changes_fail(const char *json, const char *const (*changes)[3], size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_fails(changed_json(json, changes[i][0], changes[i][1]), changes[i][2]);
}

#endif
