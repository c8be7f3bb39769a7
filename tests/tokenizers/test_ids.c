/* tests/tokenizers/test_ids.c - br_tokenizer_encode_ids() and br_tokenizer_encode_batch(): ids,
 * type ids and masks equal those of br_tokenizer_encode(), which is compared with recorded results.
 */
#include "tests/io/files.h"
#include "tests/tokenizers/encodings.h"

#include <pthread.h>

TestSuite(ids, .init = files_begin, .fini = files_end);

#define FOLDER BRASA_TEST_DIR "/tokenizers/"

enum { TEXTS = 400, LONGEST = 400 };

/* ---- Random texts ---------------------------------------------------------------------------- */

/* Strings that meet at word boundaries: words, spaces of all kinds, marks, Chinese characters, code
 * points that join a space in a grapheme cluster, special tokens, invalid UTF-8. */
/* clang-format off */
static const char *const parts[] = {
    " ", " ", " ", "  ", "\t", "\n", "\r\n", "\r", "\0x", "the", "The", "a", "e", "ing",
    "license", "'s", "'ll", "'", ".", ",", "--", "9", "1998", "\xc3\xa9", "\u0301", "\u0323",
    "\u4e2d", "\u6587", "\uff0c", "\u3002", "\u3000", "\u00a0", "\u2581", "\u0600", "\u200d",
    "\u0430", "\u0419", "\uac00", "\u0130", "\u00df", "\xff", "\xe4\xb8", "[SEP]", "[MASK]",
    "</s>", "<unk>", "<|endoftext|>", "\u01c5", "\ufb01", "\u200b", "\x01", "\U0001f600",
    "wordthatislongerthanthirtytwobytes", "abcdefghijklmnopqrs", "abcdefghijklmnopqxy", "xyz",
};
/* clang-format on */

static uint32_t next(uint32_t *state, uint32_t n)
{
    *state = *state * 1664525 + 1013904223;
    return (*state >> 8) % n;
}

/* Writes random texts to `memory`, which has room for LONGEST bytes each. The parts of a text come
 * from a few strings, so that words repeat. */
static void make_texts(uint32_t seed, char *memory, br_text *texts)
{
    const uint32_t n_parts = sizeof parts / sizeof *parts;
    for (int i = 0; i < TEXTS; i++) {
        char *text = memory + (size_t)i * LONGEST;
        uint32_t from = next(&seed, n_parts), range = 1 + next(&seed, n_parts);
        size_t length = 0;
        for (uint32_t n = next(&seed, 12); n > 0; n--) {
            const char *part = parts[(from + next(&seed, range)) % n_parts];
            size_t size = *part ? strlen(part) : 1; /* the NUL */
            memcpy(text + length, part, size);
            length += size;
        }
        texts[i] = (br_text){ text, (int64_t)length };
    }
}

/* ---- Comparison ------------------------------------------------------------------------------ */

static void check_row(const br_encoding *e, const int64_t *ids, int64_t n, const br_text *text)
{
    bool equal = e->length == n;
    for (int64_t i = 0; equal && i < n; i++)
        equal = e->ids[i] == ids[i];
    cr_assert(equal, "ids of '%.*s' differ from those of br_tokenizer_encode()", (int)text->length,
              text->data);
}

static void check_ids(const br_tokenizer *t, const br_text *texts, const br_text *pairs,
                      const br_encode_options *o)
{
    br_token_ids *ids = br_tokenizer_encode_ids(t, TEXTS, texts, pairs, o);
    check_ok();
    cr_assert_eq(ids->n, TEXTS);
    for (int i = 0; i < TEXTS; i++) {
        br_encoding *e = br_tokenizer_encode(t, &texts[i], pairs ? &pairs[i] : NULL, o);
        check_ok();
        check_row(e, ids->ids + ids->starts[i], ids->starts[i + 1] - ids->starts[i], &texts[i]);
        br_encoding_free(e);
    }
    br_token_ids_free(ids);
}

/* Compares a batch of the texts that have up to `most` bytes, padded to their common length. */
static void check_batch(const br_tokenizer *t, const br_text *texts, const br_text *pairs,
                        const br_encode_options *options)
{
    enum { ROWS = 20 };
    br_encode_options o = *options;
    br_token_batch batch;
    br_scope *scope = br_scope_begin();
    cr_assert(br_tokenizer_encode_batch(t, ROWS, texts, pairs, &o, &batch), "%s",
              br_error_message());
    int64_t length = br_size(batch.ids, 1);
    o.padding = BR_PAD_MAX_LENGTH; /* to the length of the batch */
    o.max_length = length > 0 ? length : 1;
    o.pad_to_multiple_of = 0;
    for (int i = 0; i < ROWS && length > 0; i++) {
        br_encoding *e = br_tokenizer_encode(t, &texts[i], pairs ? &pairs[i] : NULL, &o);
        check_ok();
        size_t row = (size_t)length * sizeof(int64_t);
        cr_assert_eq(e->length, length);
        cr_assert_eq(memcmp(br_data_i64(batch.ids) + i * length, e->ids, row), 0);
        cr_assert_eq(memcmp(br_data_i64(batch.type_ids) + i * length, e->type_ids, row), 0);
        cr_assert_eq(memcmp(br_data_i64(batch.attention_mask) + i * length, e->attention_mask, row),
                     0);
        br_encoding_free(e);
    }
    br_scope_end(scope);
}

static void check_tokenizer(br_tokenizer *t)
{
    static char memory[2 * TEXTS * LONGEST];
    static br_text texts[2 * TEXTS];
    cr_assert(t, "%s", br_error_message());
    for (uint32_t seed = 1; seed < 12; seed++) {
        make_texts(seed, memory, texts);
        make_texts(seed + 1000, memory + TEXTS * LONGEST, texts + TEXTS);
        const br_text *pairs = texts + TEXTS;
        check_ids(t, texts, NULL, NULL);
        check_ids(t, texts, NULL, BR_OPTIONS(br_encode, .split_special_tokens = true));
        check_ids(t, texts, NULL, BR_OPTIONS(br_encode, .add_special_tokens = false));
        check_ids(t, texts, NULL, BR_OPTIONS(br_encode, .max_length = 5));
        check_ids(t, texts, pairs, NULL);
        check_ids(t, texts, pairs, BR_OPTIONS(br_encode, .max_length = 9, .truncate_left = true));
        if (t && br_tokenizer_special_id(t, BR_TOKEN_PAD) >= 0) {
            check_batch(t, texts, NULL, BR_OPTIONS(br_encode, .pad_left = true));
            check_batch(t, texts, pairs, BR_OPTIONS(br_encode, .pad_to_multiple_of = 8));
        }
    }
    br_tokenizer_free(t);
}

Test(ids, of_word_pieces)
{
    const char *vocab = FOLDER "tokenizer_vocab.txt";
    check_tokenizer(br_tokenizer_from_vocab(vocab, NULL));
    check_tokenizer(br_tokenizer_from_vocab(
        vocab, BR_OPTIONS(br_tokenizer, .do_lower_case = false, .tokenize_chinese_chars = false)));
    check_tokenizer(br_tokenizer_from_vocab(
        vocab, BR_OPTIONS(br_tokenizer, .clean_text = false, .strip_accents = BR_ACCENTS_KEEP)));
    check_tokenizer(
        br_tokenizer_from_vocab(vocab, BR_OPTIONS(br_tokenizer, .max_input_chars_per_word = 3)));
}

Test(ids, of_bytes)
{
    check_tokenizer(br_tokenizer_from_bpe(FOLDER "bpe/vocab.json", FOLDER "bpe/merges.txt", NULL));
    check_tokenizer(br_tokenizer_from_bpe(FOLDER "bpe/vocab.json", FOLDER "bpe/merges.txt",
                                          BR_OPTIONS(br_bpe, .add_prefix_space = true)));
}

Test(ids, of_pieces)
{
    check_tokenizer(br_tokenizer_from_json(FOLDER "unigram/tokenizer.json"));
    check_tokenizer(br_tokenizer_from_json(FOLDER "unigram/bytes.json"));
    check_tokenizer(br_tokenizer_from_sentencepiece(FOLDER "unigram/spiece.model", NULL));
}

/* ---- Threads --------------------------------------------------------------------------------- */

static void *encode_often(void *tokenizer)
{
    static const br_text text = { "the licenses of the texts, the text of the licences", -1 };
    int64_t wrong = 0;
    br_token_ids *first = br_tokenizer_encode_ids(tokenizer, 1, &text, NULL, NULL);
    for (int i = 0; first && i < 200; i++) {
        br_token_ids *ids = br_tokenizer_encode_ids(tokenizer, 1, &text, NULL, NULL);
        wrong += !ids || ids->starts[1] != first->starts[1] ||
                 memcmp(ids->ids, first->ids, (size_t)first->starts[1] * sizeof *ids->ids) != 0;
        br_token_ids_free(ids);
    }
    wrong += !first;
    br_token_ids_free(first);
    return (void *)(intptr_t)wrong;
}

/* More threads than a tokenizer keeps caches. */
Test(ids, threads_share_a_tokenizer)
{
    enum { THREADS = 20 };
    pthread_t threads[THREADS];
    br_tokenizer *t = br_tokenizer_from_json(FOLDER "unigram/tokenizer.json");
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, encode_often, t), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        cr_assert_null(wrong);
    }
    br_tokenizer_free(t);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(ids, bad_calls)
{
    br_tokenizer *t = br_tokenizer_from_vocab(FOLDER "tokenizer_vocab.txt", NULL);
    br_text texts[] = { { "a", 1 }, { NULL, 1 }, { "a\xff", 2 } };
    check_fails(br_tokenizer_encode_ids(NULL, 1, texts, NULL, NULL), "tokenizer is NULL");
    check_fails(br_tokenizer_encode_ids(t, -1, texts, NULL, NULL), "n is -1");
    check_fails(br_tokenizer_encode_ids(t, 1, NULL, NULL, NULL), "texts is NULL");
    check_fails(br_tokenizer_encode_ids(t, 2, texts, NULL, NULL), "a text is NULL");
    check_fails(br_tokenizer_encode_ids(t, 3, texts, texts + 1, NULL), "a pair is NULL");
    check_fails(br_tokenizer_encode_ids(t, 1, texts, NULL,
                                        BR_OPTIONS(br_encode, .padding = BR_PAD_LONGEST)),
                "call br_tokenizer_encode_batch() to pad");
    check_fails(
        br_tokenizer_encode_ids(t, 1, texts + 2, NULL, BR_OPTIONS(br_encode, .strict_utf8 = true)),
        "not valid UTF-8 at byte 1");
    check_fails(br_tokenizer_encode_ids(t, 1, &(br_text){ "a a a a a", 9 }, NULL,
                                        BR_OPTIONS(br_encode, .max_length = 4, .stride = 2)),
                "stride is 2, must be less than the 2 tokens");
    br_token_ids *none = br_tokenizer_encode_ids(t, 0, NULL, NULL, NULL);
    check_ok();
    cr_assert(none && none->n == 0 && none->starts[0] == 0);
    br_token_ids_free(none);
    br_token_ids_free(NULL);
    br_tokenizer_free(t);
}
