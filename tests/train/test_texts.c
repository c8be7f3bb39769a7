/* Labelled texts: valid and invalid lines, words, vocabularies, ids. */
#include "tests/support.h"
#include "train/texts.h"

#include <string.h>

TestSuite(texts, .init = check_begin, .fini = check_end);

/* ---- Lines ----------------------------------------------------------------------------------- */

Test(texts, lines)
{
    const char *data = "sea\tA ship.\nair\tA  bird\tflies\nsea\tfish";
    texts t;
    cr_assert(texts_read(&t, data, strlen(data)));
    cr_assert_eq(t.count, 3);
    cr_assert_eq(br_vocab_size(t.labels), 2);
    cr_assert_str_eq(br_vocab_word(t.labels, 0), "air");
    const int64_t labels[] = { 1, 0, 1 };
    const char *const expected[] = { "A ship.", "A  bird\tflies", "fish" };
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(t.items[i].label, labels[i]);
        cr_assert_eq(t.items[i].length, strlen(expected[i]));
        cr_assert_eq(memcmp(t.items[i].text, expected[i], t.items[i].length), 0);
    }
    br_scope *scope = br_scope_begin();
    cr_assert(br_equal(texts_labels(&t), br_from_i64(BR_SHAPE(3), labels)));
    br_scope_end(scope);
    texts_free(&t);
}

/* A file from Windows has the same labels and texts. */
Test(texts, windows_file)
{
    const char *data = "\xef\xbb\xbfsea\tA ship.\r\nair\tA bird\r\nsea\tfish\r\n";
    texts t;
    cr_assert(texts_read(&t, data, strlen(data)));
    cr_assert_eq(br_vocab_size(t.labels), 2);
    cr_assert_str_eq(br_vocab_word(t.labels, 1), "sea");
    cr_assert_eq(t.items[0].length, strlen("A ship."));
    cr_assert_eq(t.items[2].length, strlen("fish"));
    texts_free(&t);
}

static void refused(const char *data, size_t length, const char *message)
{
    texts t;
    cr_expect(!texts_read(&t, data, length), "%s", data);
    cr_expect(strstr(br_error_message(), message), "no \"%s\" in \"%s\"", message,
              br_error_message());
    br_clear_error();
    texts_free(&t);
}

Test(texts, bad_lines)
{
    static const struct {
        const char *data;
        size_t length;
        const char *message;
    } rows[] = {
        { "", 0, "0 texts with 0 labels, but at least 2 labels are required" },
        { "a\tone\na\ttwo\n", 12, "2 texts with 1 labels, but at least 2 labels are required" },
        { "a\tone\nb two\n", 12, "line 2 of the texts has no tab between a label and a text" },
        { "a\tone\n\nb\ttwo", 12, "line 2 of the texts has no tab" },
        { "a\tone\n\ttwo\n", 11, "line 2 of the texts has no label" },
        { "a\tone\nb\ttwo\nb\t \r\n", 17, "line 3 of the texts has no word" },
        { "a\tone\nb\tt\xffo\n", 12, "line 2 of the texts is not UTF-8" },
        { "\xc3\tone\nb\ttwo\n", 12, "line 1 of the texts is not UTF-8" },
        { "a\tone\nb\0c\ttwo\n", 14, "line 2 of the texts contains a NUL" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refused(rows[i].data, rows[i].length, rows[i].message);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static void check_words(const char *text, int n, const char *const *expected)
{
    const char *p = text, *end = text + strlen(text);
    char word[TEXTS_WORD];
    for (int i = 0; i < n; i++) {
        cr_expect_eq(texts_next_word(&p, end, word), strlen(expected[i]), "%s: %s", text, word);
        cr_expect_str_eq(word, expected[i]);
    }
    cr_expect_eq(texts_next_word(&p, end, word), 0, "%s: %s", text, word);
    cr_expect_eq(p, end);
}

#define WORDS(...)                                                                  \
    (int)(sizeof(const char *[]){ __VA_ARGS__ } / sizeof(char *)), (const char *[]) \
    {                                                                               \
        __VA_ARGS__                                                                 \
    }

Test(texts, words)
{
    check_words("", 0, NULL);
    check_words(" \t\r\n", 0, NULL);
    check_words("Time flies.", WORDS("time", "flies", "."));
    check_words("Don't -- STOP!", WORDS("don", "'", "t", "-", "-", "stop", "!"));
    check_words("\xc3\x89t\xc3\xa9\xc2\xa0ici", WORDS("\xc3\xa9t\xc3\xa9", "ici"));
    check_words("a\xe4\xb8\xad\xe6\x96\x87z", WORDS("a", "\xe4\xb8\xad", "\xe6\x96\x87", "z"));
    check_words("so\x07"
                "ft",
                WORDS("soft"));
}

Test(texts, a_long_word_is_truncated)
{
    char text[1001] = "", word[TEXTS_WORD];
    for (int i = 0; i < 500; i++)
        memcpy(text + 2 * i, "\xc3\x89", 2);
    const char *p = text;
    size_t n = texts_next_word(&p, text + 1000, word);
    cr_assert(n > 100 && n < TEXTS_WORD && n % 2 == 0, "%zu", n);
    cr_assert_eq(memcmp(word + n - 2, "\xc3\xa9", 3), 0);
    cr_assert_eq(texts_next_word(&p, text + 1000, word), 0);
}

/* ---- Ids ------------------------------------------------------------------------------------- */

Test(texts, vocabulary_and_ids)
{
    const char *data = "x\tThe cat sat.\ny\tthe dog\nx\tthe dog sat, the cat\n";
    texts t;
    cr_assert(texts_read(&t, data, strlen(data)));
    br_vocab *vocab = texts_vocab(&t, 2, (int64_t[]){ 0, 2 }, 2);
    cr_assert_eq(br_vocab_size(vocab), 6);
    const char *const words[] = { "[PAD]", "[UNK]", "[CLS]", "the", "cat", "sat" };
    for (int64_t i = 0; i < 6; i++)
        cr_assert_str_eq(br_vocab_word(vocab, i), words[i]);

    br_scope *scope = br_scope_begin();
    const int64_t with[] = { 2, 3, 4, 5, 1, 2, 3, 1, 0, 0, 2, 3, 1, 5, 1 };
    cr_assert(br_equal(texts_ids(&t, vocab, 5, true), br_from_i64(BR_SHAPE(3, 5), with)));
    const int64_t without[] = { 3, 4, 5, 1, 0, 0, 3, 1, 0, 0, 0, 0, 3, 1, 5, 1, 3, 4 };
    cr_assert(br_equal(texts_ids(&t, vocab, 6, false), br_from_i64(BR_SHAPE(3, 6), without)));
    br_scope_end(scope);
    br_vocab_free(vocab);
    texts_free(&t);
}

Test(texts, pending_error)
{
    const char *data = "x\ta\ny\tb";
    texts t, other;
    cr_assert(texts_read(&t, data, strlen(data)));
    br_raise(BR_ERROR_STATE, "before");
    cr_assert(!texts_read(&other, data, strlen(data)));
    cr_assert_null(texts_vocab(&t, 2, (int64_t[]){ 0, 1 }, 1));
    cr_assert_null(texts_ids(&t, NULL, 3, true));
    cr_assert_null(texts_labels(&t));
    cr_assert_str_eq(br_error_message(), "before");
    br_clear_error();
    texts_free(&other);
    texts_free(&t);
}
