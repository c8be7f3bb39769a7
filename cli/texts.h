/* cli/texts.h - texts with a label each, and their words as ids. */
#ifndef BRASA_CLI_TEXTS_H
#define BRASA_CLI_TEXTS_H

#include <brasa/brasa.h>

typedef struct labelled_text {
    int64_t label;
    const char *text;
    size_t length;
} labelled_text;

typedef struct texts {
    char *memory;
    br_vocab *labels; /* sorted */
    int64_t count, room;
    labelled_text *items;
} texts;

/* Reads lines of a label, a tab and a text with at least one word, all UTF-8. False and an error,
 * which names the line; then, too, texts_free() is to be called. */
bool texts_read(texts *t, const char *data, size_t length);
void texts_free(texts *t);

enum { TEXTS_WORD = 128 }; /* room for a word; what is longer is cut */

/* The next word of *p .. end-1 and its length, 0 at the end; *p goes behind it. Words are what
 * BERT's tokenizer makes of a text before it looks for their pieces: lower-cased, punctuation marks
 * words of their own; but accents are kept. */
size_t texts_next_word(const char **p, const char *end, char word[TEXTS_WORD]);

/* The first ids of a vocabulary. */
enum { TEXTS_PADDING, TEXTS_UNKNOWN, TEXTS_CLASSIFY };

/* [PAD], [UNK], [CLS], and the words that are at least min_count times in the n texts of these
 * numbers, in the order in which they first come. NULL and an error. */
br_vocab *texts_vocab(const texts *t, int64_t n, const int64_t *numbers, int64_t min_count);
/* All texts as ids, i64 [count, length]: if so wished [CLS], and words until there is no room; the
 * rest is padding. Words that are not in the vocabulary are [UNK]. */
br_tensor *texts_ids(const texts *t, const br_vocab *vocab, int64_t length, bool classify);
/* i64 [count] */
br_tensor *texts_labels(const texts *t);

#endif
