/* tests/data/test_nulls.c - null as the value of every key of a tokenizer's files means what it
 * means to `tokenizers` and to transformers' AutoTokenizer (null_cases.json, written by
 * record_nulls.py). */
#include "tests/data/encodings.h"

#include <brasa/data.h>
#include <unistd.h>

TestSuite(nulls, .init = files_begin, .fini = files_end);

static const char *const texts[] = { "A \xc3\xa9 [CLS] a-b the re", "a  b",
                                     " ab </s> <|endoftext|> <x>", "" };

static void put(const char *name, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY);
    files_write(files_path(name), text, strlen(text));
    free(text);
}

static void write_files(const json_t *record)
{
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(record, "copies"), name, value)
    {
        char path[512];
        snprintf(path, sizeof path, BRASA_TEST_DIR "/data/%s", json_string_value(value));
        size_t n;
        char *text = files_read(path, &n);
        files_write(files_path(name), text, n);
        free(text);
    }
    json_object_foreach(json_object_get(record, "files"), name, value)
    {
        files_write(files_path(name), json_string_value(value), json_string_length(value));
    }
}

static void remove_files(const json_t *record)
{
    static const char *const lists[] = { "copies", "files" };
    const char *name;
    json_t *value;
    for (int i = 0; i < 2; i++)
        json_object_foreach(json_object_get(record, lists[i]), name, value)
        {
            unlink(files_path(name));
        }
}

/* Sets the value at a path to null. Its keys and indices are separated by tabs. */
static void set_null(json_t *value, const char *path)
{
    for (const char *end = strchr(path, '\t'); end; path = end + 1, end = strchr(path, '\t')) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)(end - path), path);
        value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10))
                                     : json_object_get(value, key);
        cr_assert(value, "%s", path);
    }
    if (json_is_array(value))
        json_array_set_new(value, strtoul(path, NULL, 10), json_null());
    else
        json_object_set_new(value, path, json_null());
}

/* Encodes the texts with the folder's tokenizer and compares the ids with `want`. If that is NULL,
 * the folder or one of the texts must be refused. */
static void check(const json_t *record, const char *path, const json_t *want)
{
    const char *changed = json_string_value(json_object_get(record, "changed"));
    bool alone = json_is_true(json_object_get(record, "alone"));
    br_tokenizer *t = alone ? br_tokenizer_from_json(files_path(changed))
                            : br_auto_tokenizer_load(files_path(""), NULL);
    for (size_t i = 0; t && i < sizeof texts / sizeof *texts; i++) {
        br_encoding *e = br_tokenizer_encode(t, &(br_text){ texts[i], -1 }, NULL, NULL);
        json_t *ids = json_array();
        for (int64_t k = 0; e && k < e->length; k++)
            json_array_append_new(ids, json_integer(e->ids[k]));
        char *got = json_dumps(ids, JSON_COMPACT);
        cr_assert(!e || !want || json_equal(ids, json_array_get(want, i)), "%s, %s: text %zu: %s",
                  changed, path, i, got);
        free(got);
        json_decref(ids);
        br_encoding_free(e);
    }
    br_tokenizer_free(t);
    cr_assert_eq(br_failed(), !want, "%s, null at %s: %s", changed, path,
                 want ? br_error_message() : "is not refused");
    br_clear_error();
}

static void check_path(const json_t *record, const json_t *original, const char *path,
                       const json_t *want)
{
    const char *changed = json_string_value(json_object_get(record, "changed"));
    json_t *value = json_deep_copy(original);
    set_null(value, path);
    put(changed, value);
    json_decref(value);
    check(record, path, want);
}

static void check_list(const json_t *record, const json_t *original, const char *list,
                       const json_t *want)
{
    size_t i;
    json_t *path;
    json_array_foreach(json_object_get(record, list), i, path)
    {
        check_path(record, original, json_string_value(path), want);
    }
}

static void check_record(const json_t *record)
{
    write_files(record);
    const json_t *ids = json_object_get(record, "ids");
    json_error_t error;
    json_t *original = json_load_file(
        files_path(json_string_value(json_object_get(record, "changed"))), 0, &error);
    cr_assert(original, "%s", error.text);
    check(record, "nothing", ids);
    check_list(record, original, "same", ids);
    check_list(record, original, "harmless", ids);
    check_list(record, original, "refused", NULL);
    const char *path;
    json_t *other;
    json_object_foreach(json_object_get(record, "other"), path, other)
    {
        check_path(record, original, path, other);
    }
    json_decref(original);
    remove_files(record);
}

Test(nulls, every_key_of_the_tokenizers_files)
{
    json_error_t error;
    json_t *records = json_load_file(BRASA_TEST_DIR "/data/null_cases.json", 0, &error), *record;
    cr_assert(records, "%s", error.text);
    cr_assert_geq(json_array_size(records), 17);
    size_t i;
    json_array_foreach(records, i, record)
    {
        check_record(record);
    }
    json_decref(records);
}
