/* AutoConfig: invalid and malicious files, and failing allocations. */
#include "tests/io/files.h"
#include "tests/memory.h"

#include <brasa/models.h>
#include <jansson.h>
#include <sys/stat.h>

TestSuite(auto_config_bad, .init = files_begin, .fini = files_end);

/* Loads a file with these bytes. */
static br_auto_config *load(const char *bytes, size_t n)
{
    files_write(files_path("config.json"), bytes, n);
    return br_auto_config_load(files_path("config.json"));
}

/* ---- Files ----------------------------------------------------------------------------------- */

Test(auto_config_bad, paths_that_are_not_files)
{
    check_fails(br_auto_config_load(NULL), "path is NULL");
    check_fails(br_auto_config_load(""), "cannot be opened");
    check_fails(br_auto_config_load(files_path("")),
                "/config.json: cannot be opened: No such file");
    check_fails(br_auto_config_load(files_path("none.json")), "none.json: cannot be opened");
    check_fails(br_auto_config_load("/dev/null"), "a device, pipe or socket");
    cr_assert_eq(mkfifo(files_path("pipe"), 0600), 0);
    check_fails(br_auto_config_load(files_path("pipe")), "not a regular file");
    cr_assert_eq(mkdir(files_path("config.json"), 0700), 0);
    check_fails(br_auto_config_load(files_path("")), "/config.json: a directory");
}

/* Files that are too large, or too deeply nested. */
Test(auto_config_bad, large_and_deep_files)
{
    size_t most = 4 << 20;
    char *text = malloc(most + 1);
    memset(text, ' ', most + 1);
    text[0] = '{';
    text[most - 1] = '}';
    br_auto_config *config = load(text, most);
    cr_assert(config, "%s", br_error_message());
    br_auto_config_free(config);
    check_fails(load(text, most + 1), "has 4194305 bytes, more than the limit of 4194304");
    memset(text, '[', most);
    check_fails(load(text, most), "line 1, column 2049: maximum parsing depth reached");
    for (size_t i = 0; i + 5 <= most; i += 5)
        memcpy(text + i, "{\"\":[", 5);
    check_fails(load(text, most), "maximum parsing depth reached");
    free(text);
}

Test(auto_config_bad, text_that_is_not_json)
{
    static const struct {
        const char *text, *message;
        size_t n; /* 0: strlen(text) */
    } cases[] = {
        { "", "config.json: is empty, must contain a JSON object", 0 },
        { " \n\t\r", "is empty, must contain", 0 },
        { "\xef\xbb\xbf{}", "begins with a byte order mark", 0 },
        { "\xff\xfe{\0}\0", "line 1, column 0: unable to decode byte 0xff", 6 },
        { "\0", "line 1", 1 },
        { "{", "line 1, column 1: string or '}' expected near end of file", 0 },
        { "{\n  \"a\": 1,\n  \"b\"", "line 3, column 5: ':' expected near end of file", 0 },
        { "{\n  \"a\": 1,\n}", "line 3, column 1: string or '}' expected near '}'", 0 },
        { "{\"a\": NaN}", "line 1, column 9: invalid token near 'NaN'", 0 },
        { "{\"a\": -Infinity}", "invalid token near '-'", 0 },
        { "{\"a\": 1e999}", "real number overflow near '1e999'", 0 },
        { "{\"a\": 9223372036854775808}", "too big integer near '9223372036854775808'", 0 },
        { "{\"a\": -9223372036854775809}", "too big negative integer", 0 },
        { "{\"a\": 01}", "line 1, column 7: invalid token near '0'", 0 },
        { "{\"a\": 0x10}", "near", 0 },
        { "{\"a\": 1, // no\n}", "string or '}' expected near '/'", 0 },
        { "{'a': 1}", "near '''", 0 },
        { "{\"a\": 1, \"a\": 2}", "duplicate object key near '\"a\"'", 0 },
        { "{\"a\": 1, \"\\u0061\": 1}", "duplicate object key", 0 },
        { "{\"a\": \"\\u0000\"}", "line 1, column 14: \\u0000 in a string", 0 },
        { "{\"\\u0000\": 1}", "\\u0000 in a string", 0 },
        { "{\"a\": \"\\ud800\"}", "invalid Unicode '\\uD800'", 0 },
        { "{\"a\": \"\xff\"}", "unable to decode byte 0xff", 0 },
        { "{\"a\": \"\xc0\xaf\"}", "unable to decode byte 0xc0", 0 },
        { "{\"a\": \"\xed\xa0\x80\"}", "unable to decode byte 0xed", 0 },
        { "{\"a\": \"x\ny\"}", "unexpected newline", 0 },
        { "{\"a\": 1} {}", "end of file expected near '{'", 0 },
        { "{\"a\": 1}\0", "end of file expected", 9 },
        { "{\"a\x1b[31m\": 1}", "control character 0x1b near", 0 },
        { "[1]", "contains an array, must contain an object", 0 },
        { "null", "contains null, must contain an object", 0 },
        { "\"{}\"", "contains the string \"{}\", must", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = cases[i].n ? cases[i].n : strlen(cases[i].text);
        br_auto_config *config = load(cases[i].text, n);
        cr_assert(!config && strstr(br_error_message(), cases[i].message),
                  "case %zu: \"%s\" does not contain \"%s\"", i, br_error_message(),
                  cases[i].message);
        cr_assert_eq(br_error_code(), BR_ERROR_FORMAT);
        br_clear_error();
    }
}

Test(auto_config_bad, contradictions)
{
    static const char *const cases[][2] = {
        { "{\"model_type\": 7}", "model_type is 7, must be a string" },
        { "{\"model_type\": [\"bert\"]}", "model_type is an array, must be a string" },
        { "{\"id2label\": [\"a\"]}", "id2label is an array, must be an object" },
        { "{\"id2label\": \"a\"}", "id2label is the string \"a\", must be an object" },
        { "{\"model_type\": \"t5\", \"head_dim\": 3, \"d_kv\": \"3\"}",
          "head_dim is 3, but its synonym d_kv is the string \"3\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_fails(load(cases[i][0], strlen(cases[i][0])), cases[i][1]);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static const char file[] = "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],"
                           "\"hidden_size\":1.5,\"id2label\":{\"0\":\"a\",\"1\":\"b\"}}";

static bool load_and_ask(void)
{
    br_auto_config *config = br_auto_config_load(files_path("config.json"));
    char *label = br_auto_config_label(config, 1);
    bool ok = label && strcmp(br_auto_config_string(config, "summary_type"), "cls_index") == 0;
    br_free(label);
    br_auto_config_free(config);
    return ok;
}

/* Where transformers needs a number for a dropout, null is not one. */
Test(auto_config_bad, a_dropout_that_must_not_be_null)
{
    static const char *const rows[][2] = { { "distilbert", "seq_classif_dropout" },
                                           { "albert", "classifier_dropout_prob" } };
    for (int i = 0; i < 2; i++) {
        char text[100];
        snprintf(text, sizeof text, "{\"model_type\": \"%s\", \"%s\": null}", rows[i][0],
                 rows[i][1]);
        br_auto_config *config = load(text, strlen(text));
        cr_assert(config, "%s", br_error_message());
        check_fails(br_hf_bert_config_from(config).hidden_size, rows[i][1]);
        br_auto_config_free(config);
    }
}

Test(auto_config_bad, memory_runs_out)
{
    files_write(files_path("config.json"), file, sizeof file - 1);
    fail_in_turn(load_and_ask, "auto_config");
}

static void *jansson_allocate(size_t size)
{
    return counted_allocate(NULL, size, 16);
}

static void jansson_free(void *block)
{
    if (block)
        counted_deallocate(NULL, block);
}

/* The same for jansson's allocations; jansson may report a failed one as a parse error. */
Test(auto_config_bad, memory_of_jansson_runs_out)
{
    files_write(files_path("config.json"), file, sizeof file - 1);
    json_set_alloc_funcs(jansson_allocate, jansson_free);
    for (int64_t n = 0, done = 0; !done; n++) {
        counted.left = n;
        counted.failed = false;
        bool ok = load_and_ask();
        done = !counted.failed;
        cr_assert(!done || ok);
        cr_assert_eq(ok, !br_failed(), "%lld allocations: %s", (long long)n, br_error_message());
        br_clear_error();
        cr_assert_eq(counted.blocks, 0, "%lld allocations: leaked", (long long)n);
        cr_assert(n < 1000);
    }
    json_set_alloc_funcs(malloc, free);
}
