/* tokenizers/encode_internal.h - shared by the files that build model inputs from tokens: the
 * layout of texts and special tokens, truncation, padding, and checks. */
#ifndef BR_ENCODE_INTERNAL_H
#define BR_ENCODE_INTERNAL_H

#include "tokenizers/tokenizer_internal.h"

/* A special token, or the tokens of a text. */
typedef struct br_segment {
    int64_t special; /* id; -1: the tokens of the text */
    int text;        /* 0 or 1: the text, or the one that the special token belongs to */
} br_segment;

/* What a text or a pair becomes. */
typedef struct br_layout {
    br_segment segments[7];
    int n;
    bool pair;
} br_layout;

/* Sets the layout of texts or pairs. Returns false and an error if pairs are not supported. */
bool br__set_layout(const br_tokenizer *t, const br_encode_options *o, bool pair, br_layout *l);

static inline int64_t br__count_special(const br_layout *l)
{
    return l->n - 1 - l->pair;
}

/* Returns the type id of a text's tokens. */
static inline int64_t br__type_of(const br_tokenizer *t, int text)
{
    return t->one_type ? 0 : text;
}

/* Reduces n[] to the numbers of tokens that max_length leaves for each text. */
bool br__fit_texts(const br_encode_options *o, const br_layout *l, int64_t n[2]);
/* Fails if parts of `capacity` tokens cannot overlap by the stride. */
bool br__check_stride(const br_encode_options *o, int64_t count, int64_t capacity);
/* Returns the padded length of encodings that have at most `longest` tokens. Longer ones are not
 * shortened. */
int64_t br__padded_length(const br_encode_options *o, int64_t longest);
/* Fails if the tokenizer has no padding token. */
bool br__check_padding(const br_tokenizer *t);
/* Fail if an argument is wrong. `name` stands for the text in the message. */
bool br__check_text(const char *name, const br_text *text);
bool br__check_encoding(const br_tokenizer *t, const br_encode_options *o);

#endif
