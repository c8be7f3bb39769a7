/* tests/tokenizers/test_decode_stream.c - decoding step by step: the texts together equal the text
 * of all ids, for random ids of each kind of tokenizer. */
#include "tests/io/files.h"
#include "tests/memory.h"

#include <brasa/tokenizers.h>

TestSuite(decode_stream, .init = files_begin, .fini = files_end);

#define FOLDER BRASA_TEST_DIR "/tokenizers/"

/* ---- Random ids ------------------------------------------------------------------------------ */

typedef struct collected {
    char *data;
    size_t length;
} collected;

static void collect(collected *c, const char *text, int64_t length)
{
    cr_assert(text, "%s", br_error_message());
    cr_assert_eq(text[length], '\0');
    c->data = realloc(c->data, c->length + (size_t)length + 1);
    memcpy(c->data + c->length, text, (size_t)length + 1);
    c->length += (size_t)length;
}

/* Returns the decoded text of the ids that have a token. */
static char *decode_known(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip,
                          size_t *length)
{
    int64_t *known = calloc((size_t)n + 1, sizeof *known), n_known = 0, found;
    for (int64_t i = 0; i < n; i++)
        if (br_tokenizer_has_id(t, ids[i]))
            known[n_known++] = ids[i];
    char *text = br_tokenizer_decode_text(t, n_known, known, skip, &found);
    check_ok();
    free(known);
    *length = (size_t)found;
    return text;
}

/* Checks the stream's texts for these ids, of which the first n_before are given at once. */
static void check_ids(const char *name, const br_tokenizer *t, int64_t n_before, int64_t n,
                      const int64_t *ids, bool skip)
{
    size_t before, all;
    int64_t length;
    char *start = decode_known(t, n_before, ids, skip, &before);
    char *whole = decode_known(t, n, ids, skip, &all);
    collected got = { 0 };
    br_decode_stream *s = br_decode_stream_new(t, skip, n_before, ids);
    cr_assert(s, "%s", br_error_message());
    for (int64_t i = n_before; i < n; i++) {
        const char *text = br_decode_stream_step(s, ids[i], &length);
        collect(&got, text, length);
    }
    const char *text = br_decode_stream_end(s, &length);
    collect(&got, text, length);
    cr_assert_eq(got.length, all - before, "%s, %lld ids: \"%s\", not \"%s\"", name, (long long)n,
                 got.data, whole + before);
    cr_assert(memcmp(got.data, whole + before, got.length + 1) == 0, "%s: \"%s\", not \"%s\"", name,
              got.data, whole + before);
    br_decode_stream_free(s);
    br_free(start);
    br_free(whole);
    free(got.data);
}

/* A linear congruential generator (Knuth). */
static uint64_t state;
static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* Checks many short lists of ids, and a few long ones. `first` .. `end`-1 are the ids; half of the
 * lists use only a few of them, so that rare pairs of neighbours occur. */
static void check_random(const char *name, br_tokenizer *t, int64_t first, int64_t end)
{
    enum { LISTS = 400, LONGEST = 3000 };
    static int64_t ids[LONGEST], few[6];
    cr_assert(t, "%s: %s", name, br_error_message());
    state = 1;
    for (int list = 0; list < LISTS; list++) {
        int64_t n = list % 100 == 0 ? LONGEST : below(60);
        for (int i = 0; i < 6; i++)
            few[i] = first + below(end - first);
        for (int64_t i = 0; i < n; i++)
            ids[i] = list % 2 ? few[below(6)] : first + below(end - first);
        check_ids(name, t, 0, n, ids, list % 4 < 2);
    }
    br_tokenizer_free(t);
}

Test(decode_stream, word_pieces)
{
    br_tokenizer *t = br_tokenizer_from_vocab(FOLDER "tokenizer_vocab.txt", NULL);
    check_random("WordPiece", t, -2, br_tokenizer_size(t) + 3);
}

Test(decode_stream, byte_level)
{
    br_tokenizer *t = br_tokenizer_from_bpe(FOLDER "bpe/vocab.json", FOLDER "bpe/merges.txt", NULL);
    check_random("BPE", t, -2, br_tokenizer_size(t) + 3);
    t = br_tokenizer_from_bpe(FOLDER "bpe/vocab.json", FOLDER "bpe/merges.txt", NULL);
    check_random("single bytes", t, 0, 256);
}

Test(decode_stream, pieces)
{
    br_tokenizer *t = br_tokenizer_from_sentencepiece(FOLDER "unigram/spiece.model", NULL);
    check_random("SentencePiece", t, -2, br_tokenizer_size(t) + 3);
    t = br_tokenizer_from_json(FOLDER "unigram/tokenizer.json");
    check_random("Unigram", t, -2, br_tokenizer_size(t) + 3);
}

/* A run of byte tokens is U+FFFD for each byte if any of them is invalid, and a run in which every
 * byte is valid becomes invalid with the next one. */
Test(decode_stream, pieces_for_bytes)
{
    br_tokenizer *t = br_tokenizer_from_json(FOLDER "unigram/bytes.json");
    int64_t a = br_tokenizer_id(t, "<0x41>", -1), bad = br_tokenizer_id(t, "<0xE4>", -1);
    check_ok();
    check_ids("valid, then invalid", t, 0, 2, (int64_t[]){ a, bad }, true);
    check_ids("three runs", t, 0, 6, (int64_t[]){ a, a, bad - 200, a, bad, a }, true);
    check_random("bytes.json", t, -2, br_tokenizer_size(t) + 3);
    check_random("byte tokens", br_tokenizer_from_json(FOLDER "unigram/bytes.json"), a - 0x41,
                 a - 0x41 + 256);
}

/* Decoding leaves out a space at the beginning, and byte tokens are as in Unigram. */
Test(decode_stream, characters)
{
    static const char file[] = FOLDER "char_bpe/tokenizer.json";
    br_tokenizer *t = br_tokenizer_from_json(file);
    int64_t byte = br_tokenizer_id(t, "<0x00>", -1);
    check_random("BPE over characters", t, -2, br_tokenizer_size(t) + 3);
    check_random("its byte tokens", br_tokenizer_from_json(file), byte, byte + 256);
}

/* Writes a vocabulary whose tokens are the patterns of clean_up_tokenization_spaces in pieces. */
static br_tokenizer *make_cleaning(void)
{
    static const char words[] = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\n.\n?\n!\n,\n'\nn\nt\nn't\n"
                                "'m\nm\ns\nve\nre\nv\n##e\n##'\n##t\n##ve\na\n\xc3\xa9\n";
    static const char config[] = "{\"clean_up_tokenization_spaces\": true}";
    char folder[512];
    files_write(files_path("vocab.txt"), words, sizeof words - 1);
    files_write(files_path("tokenizer_config.json"), config, sizeof config - 1);
    snprintf(folder, sizeof folder, "%s", files_path(""));
    return br_auto_tokenizer_load(folder, NULL);
}

Test(decode_stream, spaces_that_clean_up_removes)
{
    br_tokenizer *t = make_cleaning();
    check_random("clean-up", t, 0, br_tokenizer_size(t));
    t = make_cleaning();
    check_random("clean-up of patterns", t, 5, br_tokenizer_size(t));
}

/* ---- Single steps ---------------------------------------------------------------------------- */

static void check_step(br_decode_stream *s, int64_t id, const char *want)
{
    int64_t length;
    const char *text = br_decode_stream_step(s, id, &length);
    cr_assert(text, "%s", br_error_message());
    cr_assert_str_eq(text, want);
    cr_assert_eq(length, (int64_t)strlen(want));
}

/* Text is returned as soon as it is final, and an incomplete code point only when it is complete or
 * at the end. */
Test(decode_stream, text_that_is_final)
{
    br_tokenizer *t = br_tokenizer_from_bpe(FOLDER "bpe/vocab.json", FOLDER "bpe/merges.txt", NULL);
    int64_t a = br_tokenizer_id(t, "a", -1), c3 = br_tokenizer_id(t, "\xc3\x83", -1);
    int64_t a9 = br_tokenizer_id(t, "\xc2\xa9", -1), end = br_tokenizer_special_id(t, BR_TOKEN_EOS);
    check_ok();
    br_decode_stream *s = br_decode_stream_new(t, true, 0, NULL);
    check_step(s, a, "a");
    check_step(s, c3, "");
    check_step(s, a9, "\xc3\xa9");
    check_step(s, br_tokenizer_size(t), "");
    check_step(s, -1, "");
    check_step(s, end, "");
    check_step(s, c3, "");
    check_step(s, a,
               "\xef\xbf\xbd"
               "a");
    check_step(s, c3, "");
    cr_assert_str_eq(br_decode_stream_end(s, NULL), "\xef\xbf\xbd");
    check_step(s, a, "a"); /* a new text */
    cr_assert_str_eq(br_decode_stream_end(s, NULL), "");
    cr_assert_str_eq(br_decode_stream_end(s, NULL), "");
    br_decode_stream_free(s);
    s = br_decode_stream_new(t, false, 0, NULL);
    check_step(s, end, br_tokenizer_token(t, end));
    br_decode_stream_free(s);
    br_tokenizer_free(t);
}

/* The ids before the first step decide whether a word begins with a space. */
Test(decode_stream, ids_before_the_first_step)
{
    br_tokenizer *t = br_tokenizer_from_vocab(FOLDER "tokenizer_vocab.txt", NULL);
    br_encoding *e =
        br_tokenizer_encode(t, &(br_text){ "time flies like an arrow", -1 }, NULL, NULL);
    check_ok();
    for (int64_t n = 0; n <= e->length; n++)
        check_ids("an encoded text", t, n, e->length, e->ids, true);
    br_encoding_free(e);
    br_tokenizer_free(t);
}

/* Clean-up cannot remove a space of the text that came before. What follows the common part of the
 * texts is new. */
Test(decode_stream, clean_up_of_the_text_before)
{
    br_tokenizer *t = make_cleaning();
    int64_t before[] = { br_tokenizer_id(t, "a", -1), br_tokenizer_id(t, "n", -1) };
    br_decode_stream *s = br_decode_stream_new(t, true, 2, before);
    check_step(s, br_tokenizer_id(t, "##'", -1), "");
    check_step(s, br_tokenizer_id(t, "##t", -1), "n't");
    br_decode_stream_free(s);
    br_tokenizer_free(t);
}

/* ---- Memory and errors ----------------------------------------------------------------------- */

static size_t largest;

static void *measure(void *context, size_t size, size_t alignment)
{
    (void)context;
    void *block;
    largest = size > largest ? size : largest;
    return posix_memalign(&block, alignment < 16 ? 16 : alignment, size) == 0 ? block : NULL;
}

static void release(void *context, void *block)
{
    (void)context;
    free(block);
}

/* A stream neither keeps nor decodes again the ids of a long text. */
Test(decode_stream, a_long_text_takes_little_memory)
{
    enum { STEPS = 20000, LIMIT = 1 << 14 };
    cr_assert(br_set_allocator(&(br_allocator){ measure, release, NULL }));
    br_tokenizer *t = br_tokenizer_from_vocab(FOLDER "tokenizer_vocab.txt", NULL);
    br_decode_stream *s = br_decode_stream_new(t, true, 0, NULL);
    state = 1;
    largest = 0;
    for (int i = 0; i < STEPS; i++)
        cr_assert(br_decode_stream_step(s, 5 + below(br_tokenizer_size(t) - 5), NULL));
    cr_assert(largest < LIMIT, "%zu bytes", largest);
    br_decode_stream_free(s);
    br_tokenizer_free(t);
    cr_assert(br_set_allocator(NULL));
}

static bool use_stream(void)
{
    static const int64_t ids[] = { 7, 8, 9 };
    br_tokenizer *t = br_tokenizer_from_vocab(files_path("vocab.txt"), NULL);
    br_decode_stream *s = t ? br_decode_stream_new(t, true, 3, ids) : NULL;
    bool ok = s != NULL;
    for (int64_t i = 0; ok && i < 300; i++)
        ok = br_decode_stream_step(s, 5 + i % 5, NULL);
    ok = ok && br_decode_stream_end(s, NULL);
    br_decode_stream_free(s);
    br_tokenizer_free(t);
    return ok;
}

Test(decode_stream, memory_runs_out_everywhere)
{
    static const char words[] = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\nb\nc\nd\ne\n";
    files_write(files_path("vocab.txt"), words, sizeof words - 1);
    fail_in_turn(use_stream, "a decode stream");
}

Test(decode_stream, errors)
{
    br_tokenizer *t = br_tokenizer_from_vocab(FOLDER "tokenizer_vocab.txt", NULL);
    check_fails(br_decode_stream_new(NULL, true, 0, NULL), "decode_stream_new: tokenizer is NULL");
    check_fails(br_decode_stream_new(t, true, 2, NULL),
                "decode_stream_new: n is 2, ids is NULL: n must not be negative");
    check_fails(br_decode_stream_new(t, true, -1, NULL), "n is -1");
    int64_t length = 7;
    check_fails(br_decode_stream_step(NULL, 1, &length), "decode_stream_step: stream is NULL");
    cr_assert_eq(length, 0);
    check_fails(br_decode_stream_end(NULL, NULL), "decode_stream_end: stream is NULL");
    br_decode_stream_free(NULL);
    check_ok();
    br_tokenizer_free(t);
}

/* Which ids have a token. */
Test(decode_stream, ids_without_a_token)
{
    static const char words[] = "[UNK]\n[CLS]\n[SEP]\n[PAD]\n[MASK]\na\na\nb\n";
    files_write(files_path("vocab.txt"), words, sizeof words - 1);
    br_tokenizer *t = br_tokenizer_from_vocab(files_path("vocab.txt"), NULL);
    cr_assert_eq(br_tokenizer_size(t), 8);
    for (int64_t id = -2; id < 10; id++) {
        bool has = br_tokenizer_has_id(t, id);
        cr_assert_eq(has, br_tokenizer_token(t, id) != NULL, "%lld", (long long)id);
        cr_assert_eq(has, id >= 0 && id < 8 && id != 5, "%lld", (long long)id);
        br_clear_error();
    }
    cr_assert_eq(br_tokenizer_implied(t), 0);
    cr_assert(!br_tokenizer_has_id(NULL, 0));
    br_clear_error();
    br_tokenizer_free(t);
}

/* Bytes that are no text are held back: here more than are compared before old ids are dropped. */
Test(decode_stream, many_bad_bytes_are_held_back)
{
    enum { MOST = 300, BAD = 240 };
    br_tokenizer *t = br_tokenizer_from_bpe(FOLDER "bpe/vocab.json", FOLDER "bpe/merges.txt", NULL);
    int64_t ids[MOST];
    for (int64_t i = 0; i < MOST; i++)
        ids[i] = br_tokenizer_id(t, i < BAD ? "a" : "\xc4\xa2", -1); /* the byte 0x80 */
    check_ok();
    check_ids("bad bytes", t, 0, MOST, ids, true);
    br_tokenizer_free(t);
}

/* A byte token that is held back when old ids are dropped, and has the text of the ids before it.
 */
Test(decode_stream, a_byte_like_the_text_before)
{
    enum { MOST = 300 };
    br_tokenizer *t = br_tokenizer_from_json(FOLDER "unigram/bytes.json");
    int64_t ids[MOST];
    for (int64_t i = 0; i < MOST; i++)
        ids[i] = br_tokenizer_id(t, "e", -1);
    check_ok();
    for (int64_t at = 250; at < 260; at++) {
        int64_t piece = ids[at];
        ids[at] = br_tokenizer_id(t, "<0x65>", -1);
        check_ids("a byte in a run", t, 0, MOST, ids, true);
        ids[at] = piece;
    }
    br_tokenizer_free(t);
}
