/* tests/data/test_auto_tokenizer.c - which file of a folder the tokenizer is loaded from. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/support.h"

#include <brasa/data.h>
#include <unistd.h>

TestSuite(auto_tokenizer, .init = files_begin, .fini = files_end);

static void copy(const char *from, const char *name)
{
    size_t n;
    char *text = files_read(from, &n);
    files_write(files_path(name), text, n);
    free(text);
}

static br_tokenizer *load(const br_tokenizer_options *options)
{
    return br_auto_tokenizer_load(files_path(""), options);
}

static void check_size(int64_t size)
{
    br_tokenizer *t = load(NULL);
    cr_assert(t, "%s", br_error_message());
    cr_assert_eq(br_tokenizer_size(t), size);
    br_tokenizer_free(t);
}

Test(auto_tokenizer, the_first_file_that_is_there)
{
    check_fails(load(NULL), "there is no tokenizer.json");
    check_fails(br_auto_tokenizer_load(NULL, NULL), "dir is NULL");
    copy(BRASA_TEST_DIR "/data/tokenizer_vocab.txt", "vocab.txt");
    br_tokenizer *words = load(NULL);
    int64_t size = br_tokenizer_size(words);
    br_tokenizer_free(words);
    copy(BRASA_TEST_DIR "/data/unigram/spiece.model", "spiece.model");
    check_size(800);
    copy(BRASA_TEST_DIR "/data/bpe/vocab.json", "vocab.json");
    check_fails(load(NULL), "merges.txt");
    copy(BRASA_TEST_DIR "/data/bpe/merges.txt", "merges.txt");
    check_size(314);
    copy(BRASA_TEST_DIR "/data/unigram/tokenizer.json", "tokenizer.json");
    check_size(703);
    br_tokenizer *cased = load(BR_OPTIONS(br_tokenizer, .do_lower_case = false));
    cr_assert_eq(br_tokenizer_size(cased), size);
    br_tokenizer_free(cased);
    files_write(files_path("tokenizer.json"), "{", 1);
    check_fails(load(NULL), "tokenizer.json");
}

static bool use(void)
{
    br_tokenizer *t = load(NULL);
    br_tokenizer_free(t);
    return t;
}

Test(auto_tokenizer, memory_runs_out_everywhere)
{
    copy(BRASA_TEST_DIR "/data/bpe/vocab.json", "vocab.json");
    copy(BRASA_TEST_DIR "/data/bpe/merges.txt", "merges.txt");
    fail_in_turn(use, "a folder's tokenizer");
}
