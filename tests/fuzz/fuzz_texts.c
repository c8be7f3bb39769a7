/* tests/fuzz/fuzz_texts.c - any bytes as the text files of recipes: labelled texts for the
 * classifier, and the sentences of BERT from scratch. */
#include "tests/fuzz/fuzz.h"
#include "train/texts.h"

static const fuzz_seed seeds[] = {
    SEED("a\tTime flies, like an arrow!\nb\tfruit flies\nb\tlike a banana\n"),
    SEED("\xc3\xa9\t\xe4\xb8\xad\xe6\x96\x87 caf\xc3\xa9\r\nx\t\xcc\x81x y\n\nx\t.\n"),
    SEED("'Ol\xc3\xa1, como vai? Eu sou a Ana.\\n'\n'Prazer em conhecer voc\xc3\xaa "
         "tamb\xc3\xa9m.'"),
    SEED("label without a tab\n"),
    SEED("a\t\n\tb\n"),
    SEED("a\tx\0y\n\xff\tz\n"),
};

static void try_classifier(const char *text, size_t n)
{
    texts t;
    bool ok = texts_read(&t, text, n);
    require_answer(ok);
    for (int64_t i = 0; ok && i < t.count; i++) {
        const char *p = t.items[i].text, *end = p + t.items[i].length;
        char word[TEXTS_WORD];
        int words = 0;
        for (size_t length; (length = texts_next_word(&p, end, word)) > 0; words++)
            require(length < TEXTS_WORD && strlen(word) <= length && p <= end);
        require(words > 0);
    }
    if (ok) {
        int64_t all[64], count = t.count < 64 ? t.count : 64;
        for (int64_t i = 0; i < count; i++)
            all[i] = i;
        br_scope *scope = br_scope_begin();
        br_vocab *vocab = texts_vocab(&t, count, all, 1 + n % 2);
        require_answer(vocab);
        br_tensor *ids = vocab ? texts_ids(&t, vocab, 4, true) : NULL;
        require_answer(ids || !vocab);
        require(texts_labels(&t) != NULL);
        br_vocab_free(vocab);
        br_scope_end(scope);
    }
    texts_free(&t);
}

static void try_sentences(const char *text, size_t n)
{
    br_bert_corpus *corpus = br_bert_corpus_new(text, n);
    require_answer(corpus);
    br_bert_corpus_free(corpus);
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    br_set_memory_limit(64 << 20);
    char *text = malloc(n + 1);
    require(text != NULL);
    memcpy(text, bytes, n);
    text[n] = 0;
    try_classifier(text, n);
    try_sentences(text, n);
    free(text);
}

FUZZ_TARGET(texts)
