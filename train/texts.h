/* train/texts.h - labelled texts, and their words as ids. */
#ifndef BRASA_TRAIN_TEXTS_H
#define BRASA_TRAIN_TEXTS_H

#include <brasa/brasa.h>

typedef struct labelled_text {
    int64_t label;
    const char *text;
    size_t length;
} labelled_text;

typedef struct texts {
    char *memory;
    br_vocab *labels; /* sorted */
    int64_t count, capacity;
    labelled_text *items;
} texts;

/* Reads lines of a label, a tab and a text with at least one word, all UTF-8. On failure, returns
 * false and an error that names the line. Call texts_free() in either case. */
bool texts_read(texts *t, const char *data, size_t length);
void texts_free(texts *t);

enum { TEXTS_WORD = 128 }; /* size of a word's buffer; longer words are truncated */

/* Gets the next word in *p .. end-1, moves *p past it, and returns its length, 0 at the end. Words
 * are those that BERT's tokenizer passes to WordPiece: lower-cased, and each punctuation mark and
 * Chinese character is a word. Unlike in BERT, accents are kept. */
size_t texts_next_word(const char **p, const char *end, char word[TEXTS_WORD]);

/* The first ids of a vocabulary. */
enum { TEXTS_PADDING, TEXTS_UNKNOWN, TEXTS_CLASSIFY };

/* Returns a vocabulary of [PAD], [UNK], [CLS], and the words that occur at least min_count times in
 * the n texts with the given indices, in the order of their first occurrence. Returns NULL with an
 * error on failure. */
br_vocab *texts_vocab(const texts *t, int64_t n, const int64_t *numbers, int64_t min_count);
/* Returns all texts as ids, i64 [count, length]: [CLS] if `classify`, then words, truncated or
 * padded to `length`. Words that are not in the vocabulary become [UNK]. */
br_tensor *texts_ids(const texts *t, const br_vocab *vocab, int64_t length, bool classify);
/* Returns the labels of all texts, i64 [count]. */
br_tensor *texts_labels(const texts *t);

#endif
