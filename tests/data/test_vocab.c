/* Vocabularies. */
#include "tests/memory.h"

#include <brasa/data.h>

TestSuite(vocab, .init = check_begin, .fini = check_end);

Test(vocab, ids_are_given_in_order)
{
    br_vocab *vocab = br_vocab_new();
    cr_assert_eq(br_vocab_add(vocab, "casa", 4), 0);
    cr_assert_eq(br_vocab_add(vocab, "casaco", 6), 1);
    cr_assert_eq(br_vocab_add(vocab, "casaco", 4), 0, "only its first 4 bytes");
    cr_assert_eq(br_vocab_add(vocab, "a\0b", 3), 2);
    cr_assert_eq(br_vocab_find(vocab, "a\0c", 3), -1);
    cr_assert_eq(br_vocab_find(vocab, "a\0b", 3), 2);
    cr_assert_eq(br_vocab_add(vocab, "", 0), 3);
    cr_assert_eq(br_vocab_add(vocab, NULL, 0), 3);
    cr_assert_eq(br_vocab_find(vocab, "b", 1), -1);
    cr_assert_str_eq(br_vocab_word(vocab, 1), "casaco");
    cr_assert_eq(br_vocab_size(vocab), 4);
    check_ok();
    br_vocab_free(vocab);
}

Test(vocab, grows)
{
    br_vocab *vocab = br_vocab_new();
    char word[16];
    const char *first = NULL;
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(word, sizeof word, "w%d", i);
        cr_assert_eq(br_vocab_add(vocab, word, (size_t)n), i);
        first = first ? first : br_vocab_word(vocab, 0);
    }
    cr_assert_eq(br_vocab_word(vocab, 0), first, "growing must not move words");
    for (int i = 0; i < 5000; i++) {
        int n = snprintf(word, sizeof word, "w%d", i);
        cr_assert_eq(br_vocab_find(vocab, word, (size_t)n), i);
        cr_assert_str_eq(br_vocab_word(vocab, i), word);
    }
    br_vocab_free(vocab);
}

Test(vocab, refuses)
{
    br_vocab *vocab = br_vocab_new();
    br_vocab_add(vocab, "a", 1);
    check_fails(br_vocab_word(vocab, 1), "id 1 is out of range for a vocabulary of size 1");
    check_fails(br_vocab_word(vocab, -1), "id -1");
    check_fails(br_vocab_word(NULL, 0), "vocabulary of size 0");
    check_fails(br_vocab_add(vocab, NULL, 2) >= 0, "word is NULL");
    check_fails(br_vocab_add(NULL, "a", 1) >= 0, "vocab is NULL");
    cr_assert_eq(br_vocab_find(NULL, "a", 1), -1);
    br_vocab_free(vocab);
    br_vocab_free(NULL);
}

static bool fill(void)
{
    br_vocab *vocab = br_vocab_new();
    char word[16];
    for (int i = 0; i < 70; i++) {
        int n = snprintf(word, sizeof word, "w%d", i);
        int64_t id = br_vocab_add(vocab, word, (size_t)n);
        cr_assert_eq(id, br_failed() ? -1 : i);
    }
    cr_assert(br_failed() || br_vocab_size(vocab) == 70);
    br_vocab_free(vocab);
    return !br_failed();
}

Test(vocab, every_allocation_may_fail)
{
    fail_in_turn(fill, "fill");
}
