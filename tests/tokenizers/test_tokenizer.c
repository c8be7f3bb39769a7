/* tests/tokenizers/test_tokenizer.c - encoding compared with recorded results of the fast tokenizer
 * in PyPI's `tokenizers` (tokenizer_cases.json, written by record_tokenizer.py); batches; decoding;
 * and the differences between its classes of code points and utf8proc's. */
#include "tests/tokenizers/encodings.h"
#include "tokenizers/tokenizer_internal.h"

#include <utf8proc.h>

TestSuite(tokenizer, .init = check_begin, .fini = check_end);

static const char vocab_file[] = BRASA_TEST_DIR "/tokenizers/tokenizer_vocab.txt";

static br_text text_of(const char *text)
{
    return (br_text){ text, -1 };
}

static br_encoding *encode(br_tokenizer *t, const char *text, const br_encode_options *options)
{
    br_text whole = text_of(text);
    return br_tokenizer_encode(t, &whole, NULL, options);
}

/* ---- Recorded cases -------------------------------------------------------------------------- */

static int64_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static br_encode_options case_options(const json_t *c)
{
    int64_t pad = integer(c, "pad");
    return *BR_OPTIONS(br_encode, .max_length = integer(c, "max_length"),
                       .stride = integer(c, "stride"),
                       .padding = pad == 2 ? BR_PAD_MAX_LENGTH : BR_PAD_NONE,
                       .pad_to_multiple_of = pad > 2 ? pad : 0,
                       .truncate_left = json_is_true(json_object_get(c, "cut_left")),
                       .pad_left = json_is_true(json_object_get(c, "left")));
}

static void replay(int at, const json_t *c)
{
    br_tokenizer_options options =
        *BR_OPTIONS(br_tokenizer, .do_lower_case = !(json_is_true(json_object_get(c, "cased"))),
                    .strip_accents = (br_accents)integer(c, "accents"),
                    .clean_text = !(json_is_true(json_object_get(c, "keep_controls"))),
                    .tokenize_chinese_chars = !(json_is_true(json_object_get(c, "join_chinese"))));
    br_tokenizer *t = br_tokenizer_from_vocab(vocab_file, &options);
    br_encode_options encode_options = case_options(c);
    check_case(at, c, t, &encode_options);
    br_tokenizer_free(t);
}

Test(tokenizer, recorded_texts)
{
    json_error_t error;
    json_t *cases =
        json_load_file(BRASA_TEST_DIR "/tokenizers/tokenizer_cases.json", JSON_ALLOW_NUL, &error);
    cr_assert(cases, "%s", error.text);
    cr_assert_gt(json_array_size(cases), 100);
    for (size_t i = 0; i < json_array_size(cases); i++)
        replay((int)i, json_array_get(cases, i));
    json_decref(cases);
}

/* ---- Batches --------------------------------------------------------------------------------- */

Test(tokenizer, batches_are_padded)
{
    br_tokenizer *t = br_tokenizer_from_vocab(vocab_file, NULL);
    br_text texts[] = { text_of("time flies like an arrow"), text_of("like") };
    br_token_batch batch;
    cr_assert(br_tokenizer_encode_batch(t, 2, texts, NULL, NULL, &batch));
    int64_t ids[] = { 2, 5, 6, 7, 8, 9, 3, 2, 7, 3, 0, 0, 0, 0 };
    int64_t mask[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0 };
    cr_assert_eq(br_size(batch.ids, 0), 2);
    cr_assert_eq(br_size(batch.ids, 1), 7);
    cr_assert_arr_eq(br_data_i64(batch.ids), ids, sizeof ids);
    cr_assert_arr_eq(br_data_i64(batch.attention_mask), mask, sizeof mask);

    br_encode_options options =
        *BR_OPTIONS(br_encode, .max_length = 2, .padding = BR_PAD_MAX_LENGTH, .pad_left = true);
    check_fails(br_tokenizer_encode_batch(t, 2, texts, texts, &options, &batch),
                "special tokens alone need 3");
    options.max_length = 6;
    cr_assert(br_tokenizer_encode_batch(t, 2, texts, texts, &options, &batch));
    int64_t pair_ids[] = { 2, 5, 3, 5, 6, 3, 0, 2, 7, 3, 7, 3 };
    int64_t pair_types[] = { 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1 };
    cr_assert_arr_eq(br_data_i64(batch.ids), pair_ids, sizeof pair_ids);
    cr_assert_arr_eq(br_data_i64(batch.type_ids), pair_types, sizeof pair_types);
    cr_assert(br_tokenizer_encode_batch(t, 0, NULL, NULL, NULL, &batch));
    cr_assert_eq(br_numel(batch.ids), 0);
    br_tokenizer_free(t);
}

/* Every part of a text that is too long gets the same length, also behind a part that is full. */
Test(tokenizer, overflowing_parts_are_padded)
{
    br_tokenizer *t = br_tokenizer_from_vocab(vocab_file, NULL);
    br_encode_options options =
        *BR_OPTIONS(br_encode, .max_length = 5, .padding = BR_PAD_MAX_LENGTH);
    br_encoding *e = encode(t, "time flies like an arrow", &options);
    cr_assert(e->length == 5 && e->attention_mask[4] == 1 && e->n_overflow == 1);
    const br_encoding *rest = &e->overflow[0];
    cr_assert_eq(rest->length, 5);
    cr_assert_arr_eq(rest->ids, ((int64_t[]){ 2, 8, 9, 3, 0 }), 5 * sizeof(int64_t));
    cr_assert_arr_eq(rest->attention_mask, ((int64_t[]){ 1, 1, 1, 1, 0 }), 5 * sizeof(int64_t));
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* ---- Ids, tokens, decoding ------------------------------------------------------------------- */

Test(tokenizer, decodes)
{
    br_tokenizer *t = br_tokenizer_from_vocab(vocab_file, NULL);
    br_encoding *e = encode(t, "Unaffable, hello ABC.", NULL);
    char *text = br_tokenizer_decode(t, e->length, e->ids, true);
    cr_assert_str_eq(text, "unaffable, hello abc.");
    br_free(text);
    text = br_tokenizer_decode(t, e->length, e->ids, false);
    cr_assert_str_eq(text, "[CLS] unaffable, hello abc. [SEP]");
    br_free(text);
    text = br_tokenizer_decode(t, 0, NULL, false);
    cr_assert_str_eq(text, "");
    br_free(text);
    br_encoding_free(e);
    cr_assert_eq(br_tokenizer_id(t, "##aff", -1), 11);
    cr_assert_str_eq(br_tokenizer_token(t, 11), "##aff");
    check_fails(br_tokenizer_id(t, "casa", -1) >= 0, "there is no token 'casa'");
    check_fails(br_tokenizer_token(t, -1), "no token has id -1");
    check_fails(br_tokenizer_token(t, br_tokenizer_size(t)), "no token has id");
    check_fails(br_tokenizer_decode(t, 1, (int64_t[]){ 1 << 30 }, false), "no token has id");
    br_tokenizer_free(t);
}

/* No space is written before these. */
Test(tokenizer, decoding_joins_marks_and_contractions)
{
    static const char *const words[] = {
        "we", ".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"
    };
    enum { N = sizeof words / sizeof *words };
    br_tokenizer *t = br__tokenizer_new();
    t->kind = &br__word_pieces;
    for (int64_t i = 0; i < N; i++)
        cr_assert(br__tokenizer_add(t, words[i], strlen(words[i]), i));
    cr_assert(br__tokenizer_index(t));
    for (int64_t i = 1; i < N; i++) {
        char expected[20], *text = br_tokenizer_decode(t, 3, (int64_t[]){ 0, i, 0 }, false);
        snprintf(expected, sizeof expected, "we%s we", words[i]);
        cr_assert_str_eq(text, expected);
        br_free(text);
    }
    br_tokenizer_free(t);
}

Test(tokenizer, special_tokens_in_untrusted_text_are_text)
{
    br_tokenizer *t = br_tokenizer_from_vocab(vocab_file, NULL);
    br_encode_options options =
        *BR_OPTIONS(br_encode, .split_special_tokens = true, .add_special_tokens = false);
    br_encoding *e = encode(t, "an[SEP]arrow", &options);
    for (int64_t i = 0; i < e->length; i++)
        cr_assert_neq(e->ids[i], 3);
    cr_assert_gt(e->length, 3);
    br_encoding_free(e);
    options.split_special_tokens = false;
    e = encode(t, "an[SEP]arrow", &options);
    cr_assert_eq(e->length, 3);
    cr_assert_eq(e->ids[1], 3);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* ---- Code points ----------------------------------------------------------------------------- */

static bool is_format_or_control(int category)
{
    return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
           category == UTF8PROC_CATEGORY_CO;
}

static bool is_punctuation(int category)
{
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/* The table follows an older version of Unicode than utf8proc. It has fewer marks, punctuation and
 * format characters. These code points are the only ones that Unicode has reclassified since.
 * (Decomposing marks are stripped after decomposition.) */
static const uint32_t changed[] = { 0x166d, 0x1734, 0x111c9 };
enum { N_CHANGED = sizeof changed / sizeof *changed };

/* Number of characters of a Unicode version (1400 is 14.0) that the table lacks. It lacks more
 * characters of later versions. */
static const struct lacking {
    int version, marks, punctuation, dropped;
} known[] = { { 1400, 384, 104, 13 }, { 1500, 419, 127, 20 } };
enum { N_KNOWN = sizeof known / sizeof *known };

static int version_of_utf8proc(void)
{
    int major = 0, minor = 0;
    cr_assert_eq(sscanf(utf8proc_unicode_version(), "%d.%d", &major, &minor), 2);
    return 100 * major + minor;
}

static void check_lacking(const struct lacking *got)
{
    for (int i = 0; i < N_KNOWN; i++) {
        const struct lacking *k = &known[i];
        int order = (got->version > k->version) - (got->version < k->version);
        bool good = order == 0 ? got->marks == k->marks && got->punctuation == k->punctuation &&
                                     got->dropped == k->dropped
                               : order * (got->marks - k->marks) >= 0 &&
                                     order * (got->punctuation - k->punctuation) >= 0 &&
                                     order * (got->dropped - k->dropped) >= 0;
        cr_assert(good, "Unicode %d: %d marks, %d punctuation, %d dropped", got->version,
                  got->marks, got->punctuation, got->dropped);
    }
}

Test(tokenizer, differs_from_utf8proc_where_known)
{
    struct lacking got = { .version = version_of_utf8proc() };
    for (uint32_t c = 0x80; c < 0x110000; c++) {
        int category = utf8proc_category((utf8proc_int32_t)c);
        if (category == UTF8PROC_CATEGORY_CS)
            continue;
        unsigned kind = br__char_kind(c), none = 0;
        bool mark = category == UTF8PROC_CATEGORY_MN && !(kind & BR_CHAR_DECOMPOSES);
        bool dropped = is_format_or_control(category) || c == 0xfffd;
        none |= mark ? 0 : BR_CHAR_MARK;
        none |= is_punctuation(category) ? 0 : BR_CHAR_PUNCTUATION;
        none |= dropped ? 0 : BR_CHAR_DROP;
        got.marks += mark && !(kind & BR_CHAR_MARK);
        got.punctuation += is_punctuation(category) && !(kind & BR_CHAR_PUNCTUATION);
        got.dropped += dropped && !(kind & BR_CHAR_DROP);
        bool differs = false;
        for (int i = 0; i < N_CHANGED; i++)
            differs |= changed[i] == c;
        cr_assert(!(kind & none) || differs, "U+%04X is of kind %#x", (unsigned)c, kind);
    }
    check_lacking(&got);
}
