/* tests/tokenizers/test_nulls.c - every key of a tokenizer's files, null, absent or with another
 * value, means what it means to `tokenizers` and to transformers' AutoTokenizer (null_cases.json,
 * written by record_nulls.py, which describes it). */
#include "tests/tokenizers/encodings.h"

#include <brasa/tokenizers.h>
#include <unistd.h>

TestSuite(nulls, .init = files_begin, .fini = files_end);

static const char *const texts[] = { "A \xc3\xa9 [CLS] a-b the re", "a  b",
                                     " ab </s> <|endoftext|> <x>", "",
                                     "they're the\xe2\x96\x81the , \xe4\xb8\xad re " };

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
        snprintf(path, sizeof path, BRASA_TEST_DIR "/tokenizers/%s", json_string_value(value));
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

/* Makes the record's change of a member of an object or array. */
static void change_member(json_t *value, const char *key, json_t *change)
{
    size_t i = strtoul(key, NULL, 10);
    bool in_array = json_is_array(value);
    const json_t *before = in_array ? json_array_get(value, i) : json_object_get(value, key);
    const char *name = json_is_string(change) ? json_string_value(change) : "";
    if (strcmp(name, "opposite") == 0)
        change = json_boolean(!json_is_true(before));
    if (strcmp(name, "absent") == 0)
        cr_assert_eq(in_array ? json_array_remove(value, i) : json_object_del(value, key), 0);
    else if (in_array)
        json_array_set(value, i, change);
    else
        json_object_set(value, key, change);
}

/* Changes the value at a path. Its keys and indices are separated by tabs. */
static void change_at(json_t *value, const char *path, json_t *change)
{
    for (const char *end = strchr(path, '\t'); end; path = end + 1, end = strchr(path, '\t')) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)(end - path), path);
        value = json_is_array(value) ? json_array_get(value, strtoul(key, NULL, 10))
                                     : json_object_get(value, key);
        cr_assert(value, "%s", path);
    }
    change_member(value, path, change);
}

/* Returns the ids, word ids and decoded ids of a text, or NULL if it is refused. */
static json_t *result_of(const br_tokenizer *t, const char *text)
{
    br_encoding *e = br_tokenizer_encode(t, &(br_text){ text, -1 }, NULL, NULL);
    if (!e)
        return NULL;
    json_t *ids = json_array(), *words = json_array();
    for (int64_t k = 0; k < e->length; k++) {
        json_array_append_new(ids, json_integer(e->ids[k]));
        json_array_append_new(words, json_integer(e->word_ids[k]));
    }
    int64_t length;
    char *decoded = br_tokenizer_decode_text(t, e->length, e->ids, true, &length);
    json_t *result = json_pack("[o, o, s%]", ids, words, decoded, (size_t)length);
    br_free(decoded);
    br_encoding_free(e);
    return result;
}

/* Compares the folder's tokenizer with the wanted results. If they are NULL, the folder or one of
 * the texts must be refused. */
static void check(const json_t *record, const char *path, const json_t *want)
{
    const char *changed = json_string_value(json_object_get(record, "changed"));
    char *change = json_dumps(json_object_get(record, "change"), JSON_ENCODE_ANY | JSON_COMPACT);
    bool alone = json_is_true(json_object_get(record, "alone"));
    br_tokenizer *t = alone ? br_tokenizer_from_json(files_path(changed))
                            : br_auto_tokenizer_load(files_path(""), NULL);
    for (size_t i = 0; t && i < sizeof texts / sizeof *texts; i++) {
        json_t *result = result_of(t, texts[i]);
        char *got = json_dumps(result, JSON_COMPACT);
        cr_assert(!result || !want || json_equal(result, json_array_get(want, i)),
                  "%s, %s at %s: text %zu: %s", changed, change, path, i, got);
        free(got);
        json_decref(result);
    }
    br_tokenizer_free(t);
    cr_assert_eq(br_failed(), !want, "%s, %s at %s: %s", changed, change, path,
                 want ? br_error_message() : "is not refused");
    br_clear_error();
    free(change);
}

static void check_path(const json_t *record, const json_t *original, const char *path,
                       const json_t *want)
{
    const char *changed = json_string_value(json_object_get(record, "changed"));
    json_t *value = json_deep_copy(original);
    change_at(value, path, json_object_get(record, "change"));
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
    const json_t *results = json_object_get(record, "results");
    json_error_t error;
    json_t *original = json_load_file(
        files_path(json_string_value(json_object_get(record, "changed"))), 0, &error);
    cr_assert(original, "%s", error.text);
    check(record, "nothing", results);
    check_list(record, original, "same", results);
    check_list(record, original, "harmless", results);
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
    json_t *records = json_load_file(BRASA_TEST_DIR "/tokenizers/null_cases.json", 0, &error),
           *record;
    cr_assert(records, "%s", error.text);
    cr_assert_geq(json_array_size(records), 75);
    size_t i;
    json_array_foreach(records, i, record)
    {
        check_record(record);
    }
    json_decref(records);
}
