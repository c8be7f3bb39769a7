/* tests/tokenizers/test_clean_up.c - the spaces that clean_up_tokenization_spaces removes from a
 * decoded text. */
#include "tests/io/files.h"
#include "tests/support.h"

#include <brasa/tokenizers.h>
#include <string.h>

TestSuite(clean_up, .init = files_begin, .fini = files_end);

static void put(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

/* Each pattern, in pieces that the decoder of WordPiece does not clean up by itself. */
Test(clean_up, each_pattern)
{
    static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n'\n##m\n##s\n##ve\n##re\n"
                                "n\n##'\n##t\nb\n##.\n.\n?\n!\n,\n";
    static const struct {
        int64_t n, ids[5];
        const char *text;
    } rows[] = {
        { 3, { 5, 6, 7 }, "a'm" },   { 3, { 5, 6, 8 }, "a's" },        { 3, { 5, 6, 9 }, "a've" },
        { 3, { 5, 6, 10 }, "a're" }, { 4, { 5, 11, 12, 13 }, "an't" }, { 3, { 5, 6, 14 }, "a'b" },
        { 2, { 5, 16 }, "a." },      { 2, { 5, 17 }, "a?" },           { 2, { 5, 18 }, "a!" },
        { 2, { 5, 19 }, "a," },      { 3, { 5, 14, 5 }, "a b a" },
    };
    put("vocab.txt", words);
    put("tokenizer_config.json", "{\"clean_up_tokenization_spaces\":true}");
    br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
    cr_assert(t, "%s", br_error_message());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *text = br_tokenizer_decode(t, rows[i].n, rows[i].ids, false);
        cr_expect_str_eq(text, rows[i].text, "\"%s\", must be \"%s\"", text, rows[i].text);
        br_free(text);
    }
    br_tokenizer_free(t);
}
