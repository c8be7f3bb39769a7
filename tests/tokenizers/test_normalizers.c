/* tests/tokenizers/test_normalizers.c - tokenizers that normalize texts by Unicode's forms: ids,
 * offsets and decoded text, compared with recorded results of the fast tokenizer in PyPI's
 * `tokenizers` (normal_cases.json, written by record_normalizers.py); ids alone; invalid files. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/tokenizers/encodings.h"

TestSuite(normalizers, .init = files_begin, .fini = files_end);

#define NORMAL BRASA_TEST_DIR "/tokenizers/normal/"
static const char *const names[] = { "nfc.json", "nfkd.json", "albert.json", "steps.json" };
enum { N_MODELS = sizeof names / sizeof *names };

static br_tokenizer *open_model(const char *name)
{
    char path[500];
    snprintf(path, sizeof path, NORMAL "%s", name);
    br_tokenizer *t = br_tokenizer_from_json(path);
    cr_assert(t, "%s", br_error_message());
    return t;
}

/* The ids alone, which are read in another way than those with offsets, are the same. */
static void check_ids_alone(int at, const br_tokenizer *t, const br_text *text)
{
    br_encoding *e = br_tokenizer_encode(t, text, NULL, NULL);
    br_scope *scope = br_scope_begin();
    br_token_batch batch;
    cr_assert(br_tokenizer_encode_batch(t, 1, text, NULL, NULL, &batch), "%s", br_error_message());
    cr_assert_eq(br_size(batch.ids, 1), e->length, "case %d", at);
    for (int64_t i = 0; i < e->length; i++)
        cr_assert_eq((int64_t)br_at(batch.ids, BR_DIMS(0, i)), e->ids[i], "case %d", at);
    br_scope_end(scope);
    br_encoding_free(e);
}

Test(normalizers, recorded_texts)
{
    json_t *cases = json_load_file(BRASA_TEST_DIR "/tokenizers/normal_cases.json", 0, NULL);
    cr_assert_gt(json_array_size(cases), 100);
    br_tokenizer *t[N_MODELS];
    for (int k = 0; k < N_MODELS; k++)
        t[k] = open_model(names[k]);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        const char *name = json_string_value(json_object_get(c, "model"));
        int k = 0;
        while (strcmp(names[k], name) != 0)
            k++;
        check_case((int)i, c, t[k], NULL);
        br_text text[2];
        if (recorded_texts(json_object_get(c, "texts"), text) == 1)
            check_ids_alone((int)i, t[k], text);
    }
    for (int k = 0; k < N_MODELS; k++)
        br_tokenizer_free(t[k]);
    json_decref(cases);
}

/* Strict encoding also refuses invalid bytes in text that the normalizer changes. */
Test(normalizers, invalid_text)
{
    br_tokenizer *t = open_model("nfc.json");
    br_text text = { "e\xcc\x81\xff", -1 };
    check_fails(br_tokenizer_encode(t, &text, NULL, BR_OPTIONS(br_encode, .strict_utf8 = true)),
                "text is not valid UTF-8 at byte 3");
    br_encoding *e = br_tokenizer_encode(t, &text, NULL, NULL);
    cr_assert(e, "%s", br_error_message());
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* Marks are sorted in less than quadratic time. */
Test(normalizers, a_long_run_of_marks)
{
    enum { MARKS = 200000 };
    br_tokenizer *t = open_model("nfc.json");
    char *text = malloc(2 * MARKS + 1);
    for (int i = 0; i < MARKS; i++)
        memcpy(text + 2 * i, i % 2 ? "\xcc\xb4" : "\xcc\x80", 2); /* of the classes 1 and 230 */
    br_text whole = { text, 2 * MARKS };
    br_encoding *e = br_tokenizer_encode(t, &whole, NULL, NULL);
    cr_assert(e, "%s", br_error_message());
    br_encoding_free(e);
    free(text);
    br_tokenizer_free(t);
}

Test(normalizers, unsupported_files)
{
    size_t n;
    char *json = files_read(NORMAL "nfc.json", &n);
    check_fails(
        changed_json(json, "\"NFC\"", "\"Nmt\""),
        "normalizer is Nmt, which is not supported for BPE: must be null, NFC, NFD, NFKC or "
        "NFKD");
    free(json);
    json = files_read(NORMAL "steps.json", &n);
    check_fails(changed_json(json, "\"NFKC\"", "\"Nmt\""),
                "normalizer has a part that is not Precompiled, Replace, Strip, NFC, ");
    free(json);
}
