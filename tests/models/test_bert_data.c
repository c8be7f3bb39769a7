/* The notebook's text and batches, compared with those recorded from CPython
 * (record_bert_batches.py). */
#include "tests/support.h"

#include <brasa/models/bert.h>
#include <inttypes.h>

TestSuite(bert_data, .init = check_begin, .fini = check_end);

static br_bert_corpus *corpus_of(const char *text)
{
    return br_bert_corpus_new(text, strlen(text));
}

static br_bert_corpus *notebook_corpus(void)
{
    static char text[4096];
    FILE *file = fopen(BRASA_TEST_DIR "/../data/frases.txt", "rb");
    cr_assert_not_null(file);
    size_t n = fread(text, 1, sizeof text, file);
    fclose(file);
    cr_assert_eq(n, 533);
    br_bert_corpus *corpus = br_bert_corpus_new(text, n);
    cr_assert_not_null(corpus, "%s", br_error_message());
    return corpus;
}

static FILE *recorded(void)
{
    FILE *file = fopen(BRASA_TEST_DIR "/models/bert_batches.txt", "r");
    cr_assert_not_null(file);
    return file;
}

static void check_numbers(FILE *file, const int64_t *got, int64_t n, const char *what)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t want;
        cr_assert_eq(fscanf(file, "%" SCNd64, &want), 1);
        cr_assert_eq(got[i], want, "%s %" PRId64 " is %" PRId64 ", should be %" PRId64, what, i,
                     got[i], want);
    }
}

static void check_corpus(FILE *file, const br_bert_corpus *corpus)
{
    cr_assert_eq(br_vocab_size(corpus->vocab), 70);
    for (int64_t i = 0; i < 70; i++) {
        char word[64];
        cr_assert_eq(fscanf(file, "%63s", word), 1);
        cr_assert_str_eq(br_vocab_word(corpus->vocab, i), word);
    }
    cr_assert_eq(corpus->n_sentences, 11);
    for (int64_t i = 0; i < 11; i++)
        check_numbers(file, corpus->tokens[i], corpus->lengths[i], "token");
}

static void check_batch(FILE *file, const br_bert_batch *b, const br_bert_config *c)
{
    for (int64_t i = 0; i < 6; i++) {
        check_numbers(file, br_data_i64(b->input_ids) + i * c->maxlen, c->maxlen, "input_ids");
        check_numbers(file, br_data_i64(b->segment_ids) + i * c->maxlen, c->maxlen, "segment_ids");
        check_numbers(file, br_data_i64(b->masked_tokens) + i * c->max_pred, c->max_pred,
                      "masked_tokens");
        check_numbers(file, br_data_i64(b->masked_pos) + i * c->max_pred, c->max_pred,
                      "masked_pos");
        check_numbers(file, br_data_i64(b->is_next) + i, 1, "is_next");
    }
}

Test(bert_data, text_and_batches_are_the_notebooks)
{
    br_bert_corpus *corpus = notebook_corpus();
    br_bert_config c = br_bert_notebook_config();
    c.maxlen = 34;
    FILE *file = recorded();
    check_corpus(file, corpus);
    int seeds = 0;
    for (uint64_t seed; fscanf(file, "%" SCNu64, &seed) == 1; seeds++) {
        br_scope *scope = br_scope_begin();
        br_bert_batch batch;
        br_python_random *random = br_python_random_new(seed);
        cr_assert(br_bert_make_batch(corpus, &c, 6, random, &batch), "%s", br_error_message());
        br_python_random_free(random);
        check_batch(file, &batch, &c);
        br_scope_end(scope);
    }
    cr_assert_eq(seeds, 6);
    fclose(file);
    br_bert_corpus_free(corpus);
}

Test(bert_data, sentences_are_cleaned)
{
    br_bert_corpus *corpus = corpus_of("Olá, co-mo VAI?\n\n  \r\nÓtimo!\tÇÉ\xc2\xa0x.\n");
    cr_assert_not_null(corpus, "%s", br_error_message());
    cr_assert_eq(corpus->n_sentences, 2, "a line without words is not a sentence");
    cr_assert_str_eq(corpus->sentences[0], "olá como vai");
    cr_assert_str_eq(corpus->sentences[1], "ótimo\tçé\xc2\xa0x");
    cr_assert_eq(corpus->lengths[1], 3);
    cr_assert_eq(br_vocab_size(corpus->vocab), 4 + 6);
    cr_assert_str_eq(br_vocab_word(corpus->vocab, corpus->tokens[1][0]), "ótimo");
    cr_assert_str_eq(br_vocab_word(corpus->vocab, corpus->tokens[1][2]), "x");
    br_bert_corpus_free(corpus);
}

Test(bert_data, half_of_the_pairs_follow)
{
    br_bert_corpus *corpus = notebook_corpus();
    br_bert_config c = br_bert_notebook_config();
    br_python_random *random = br_python_random_new(3);
    for (int64_t size = 2; size <= 32; size += 10) {
        br_scope *scope = br_scope_begin();
        br_bert_batch batch;
        cr_assert(br_bert_make_batch(corpus, &c, size, random, &batch));
        cr_assert_eq(br_item_i64(br_sum(batch.is_next)), size / 2);
        br_scope_end(scope);
    }
    br_python_random_free(random);
    br_bert_corpus_free(corpus);
}

/* Of 30 tokens, 15 % are 4.5: Python's round() gives 4. */
Test(bert_data, half_a_word_is_rounded_to_even)
{
    br_bert_corpus *corpus = corpus_of("a b c d e f g h i j k l m n\nb c d e f g h i j k l m n");
    br_bert_config c = br_bert_notebook_config();
    br_python_random *random = br_python_random_new(1);
    br_bert_batch batch;
    br_scope *scope = br_scope_begin();
    cr_assert(br_bert_make_batch(corpus, &c, 2, random, &batch), "%s", br_error_message());
    br_tensor *chosen = br_sum_dim(br_gt_scalar(batch.masked_pos, 0), BR_DIMS(1), false);
    int64_t next = br_item_i64(br_argmax(batch.is_next, 0, false));
    cr_assert_eq(br_at(chosen, BR_DIMS(next)), 4);
    br_scope_end(scope);
    br_python_random_free(random);
    br_bert_corpus_free(corpus);
}

Test(bert_data, bad_text_is_refused)
{
    check_fails(corpus_of("abc\xff"), "byte 3 of the text is not UTF-8");
    check_fails(br_bert_corpus_new("a\0b", 3), "byte 1 of the text is NUL");
    check_fails(br_bert_corpus_new(NULL, 0), "text is NULL");
}

Test(bert_data, words_keep_their_order)
{
    static const char text[] = "Um dois.\nTrês, dois?";
    const char *const words[] = { "zero", "três", "dois", "um" };
    br_bert_corpus *corpus = br_bert_corpus_new_with_words(text, strlen(text), 4, words);
    cr_assert_not_null(corpus, "%s", br_error_message());
    cr_assert_eq(br_vocab_size(corpus->vocab), 8);
    cr_assert_eq(br_vocab_find(corpus->vocab, "zero", 4), 4);
    cr_assert_arr_eq(corpus->tokens[0], ((int64_t[]){ 7, 6 }), 2 * sizeof(int64_t));
    cr_assert_arr_eq(corpus->tokens[1], ((int64_t[]){ 5, 6 }), 2 * sizeof(int64_t));
    br_bert_corpus_free(corpus);
}

Test(bert_data, bad_words_are_refused)
{
    const char *const words[] = { "um", "dois", "um" }, *const special[] = { "[SEP]" };
    check_fails(br_bert_corpus_new_with_words("um dois", 7, 3, words),
                "word 2, 'um', is a duplicate");
    check_fails(br_bert_corpus_new_with_words("um", 2, 1, special),
                "word 0, '[SEP]', is a duplicate");
    check_fails(br_bert_corpus_new_with_words("um\num dois", 10, 1, words),
                "sentence 1 contains 'dois', which is not one of the words");
    check_fails(br_bert_corpus_new_with_words("um", 2, 1, NULL), "words is NULL, but n_words is 1");
    check_fails(br_bert_corpus_new_with_words("um", 2, 1, (const char *[]){ NULL }),
                "word 0 is NULL");
}

Test(bert_data, bad_requests_are_refused)
{
    br_bert_corpus *corpus = notebook_corpus();
    br_bert_config c = br_bert_notebook_config();
    br_python_random *random = br_python_random_new(1);
    br_bert_batch batch;
    check_fails(br_bert_make_batch(corpus, &c, 5, random, &batch), "batch_size is 5, must be even");
    check_fails(br_bert_make_batch(corpus, &c, 0, random, &batch), "batch_size is 0");
    check_fails(br_bert_make_batch(NULL, &c, 6, random, &batch), "required");
    check_fails(br_bert_make_batch(corpus, &c, 6, NULL, &batch), "random are required");
    c.maxlen = 30;
    check_fails(br_bert_make_batch(corpus, &c, 6, random, &batch),
                "a pair of sentence 8 with itself has 31 tokens, but maxlen is only 30");
    c.maxlen = 31; /* exactly */
    br_scope *scope = br_scope_begin();
    cr_assert(br_bert_make_batch(corpus, &c, 6, random, &batch), "%s", br_error_message());
    br_scope_end(scope);
    c.vocab_size = 69;
    check_fails(br_bert_make_batch(corpus, &c, 6, random, &batch),
                "70 words, but vocab_size is only 69");
    c.vocab_size = 70;
    c.max_pred = 0;
    check_fails(br_bert_make_batch(corpus, &c, 6, random, &batch), "max_pred is 0");
    br_bert_corpus_free(corpus);
    corpus = corpus_of("only one sentence");
    c.max_pred = 1;
    check_fails(br_bert_make_batch(corpus, &c, 6, random, &batch),
                "1 sentences, must have at least 2");
    br_python_random_free(random);
    br_bert_corpus_free(corpus);
}
