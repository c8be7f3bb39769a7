/* data/tokenizer_internal.h - what the files of the tokenizers share: kinds of code points, the
 * tokenizer itself, and the list of tokens that a text becomes. */
#ifndef BR_TOKENIZER_INTERNAL_H
#define BR_TOKENIZER_INTERNAL_H

#include "data/char_table.h"
#include "tensor/tensor_internal.h"

#include <brasa/data.h>

/* ---- Code points ----------------------------------------------------------------------------- */

/* Properties of a code point. The first five are those of the tokenizer that is followed, whose
 * versions of Unicode are its own; the others say where utf8proc may be asked. */
enum {
    BR_CHAR_DROP = 1,         /* cleaning the text drops it */
    BR_CHAR_SPACE = 2,        /* separates words */
    BR_CHAR_CHINESE = 4,      /* gets spaces around */
    BR_CHAR_MARK = 8,         /* goes with the accents */
    BR_CHAR_PUNCTUATION = 16, /* is a word of its own */
    BR_CHAR_UPPER = 32,       /* has a lower case */
    BR_CHAR_DECOMPOSES = 64,  /* canonically */
    BR_CHAR_REORDERS = 128,   /* its combining class is not 0 */
};

extern const br_char_table br__bert_chars;

/* Lower cases other than utf8proc's, of code points in a row: those in a row from `lower` on;
 * behind each, if that is not 0, is `second`. */
typedef struct br_lowers {
    uint32_t first, last, lower, second;
} br_lowers;

extern const br_lowers br__bert_lowers[];
extern const int br__n_bert_lowers;

unsigned br__char_kind(uint32_t c);
/* Writes the one or two code points of the lower case and returns their number. */
int br__char_lower(uint32_t c, uint32_t lower[2]);
/* Reads a code point of p .. end-1, which is not empty, and gives its length. *c is U+FFFD for an
 * invalid part, of which the length is what Unicode recommends; *valid says so. */
int br__char_read(const char *p, const char *end, uint32_t *c, bool *valid);
/* Reads the code point that ends at p, which is behind `begin`: its length. */
int br__char_before(const char *begin, const char *p, uint32_t *c);
/* Writes up to 4 bytes and gives their number. */
int br__char_write(uint32_t c, char *out);

/* ---- Tokenizers ------------------------------------------------------------------------------ */

enum { BR_MAX_TOKEN_ID = 1 << 24, BR_MAX_ADDED = 4096 };

/* A token that is looked for in the raw text. */
typedef struct br_added_token {
    const char *text; /* the vocabulary's */
    size_t length;
    int64_t id;
    bool special;        /* left out by decoding that skips special tokens */
    bool late;           /* looked for between those that are not */
    bool lstrip, rstrip; /* takes the white space before or behind it along */
} br_added_token;

/* Words found by their text. */
typedef struct br_word_ids {
    br_vocab *words;
    int64_t *ids; /* of each word */
    int64_t room;
    size_t longest; /* bytes */
} br_word_ids;

typedef struct br_token_list br_token_list;
typedef struct br_token br_token;

/* What is done in the way of one kind of tokenizer. */
typedef struct br_tokenizer_kind {
    /* Appends the text's tokens; the caller frees list->items in any case. */
    bool (*tokenize)(const br_tokenizer *t, const br_text *text, const br_encode_options *options,
                     br_token_list *list);
    /* Changes a token's offsets as it is put into an encoding; `first`: of its text, or of the part
     * that truncation made. NULL: they stay. */
    void (*trim)(const br_tokenizer *t, br_token *token, bool first);
    /* As br_tokenizer_decode(), of what was checked. */
    char *(*decode)(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special);
    void (*free)(void *model); /* NULL for no model is fine */
} br_tokenizer_kind;

extern const br_tokenizer_kind br__word_pieces, br__byte_level, br__unigram;

struct br_tokenizer {
    const br_tokenizer_kind *kind;
    void *model; /* the kind's own */
    bool lowercase, strip_accents, clean, spread_chinese, cleanup;
    int64_t max_word;
    char *prefix;           /* of continuations */
    br_word_ids all, inner; /* inner: continuations, without the prefix */
    const char **tokens;    /* by id; NULL for an id that no token has */
    int64_t size;
    br_added_token *added;
    int64_t n_added, added_room;
    bool added_begins[256];                        /* bytes that an added token begins with */
    int64_t unknown, classify, separator, padding; /* -1: none */
    bool one_type;                                 /* a second text has the type 0 too */
};

/* A tokenizer of bert-base-uncased's ways without a vocabulary; NULL and an error. */
br_tokenizer *br__tokenizer_new(void);
bool br__tokenizer_set_prefix(br_tokenizer *t, const char *prefix);
/* Gives a token its id, in place of one it had. The prefix must be set. */
bool br__tokenizer_add(br_tokenizer *t, const char *token, size_t length, int64_t id);
/* Looks for a token, which must have been added, in raw text. */
bool br__tokenizer_add_special(br_tokenizer *t, const char *token, size_t length, bool special,
                               bool late);
bool br__is_white(uint32_t c);
/* The longest added token, late or not, that text begins with, or NULL. */
const br_added_token *br__added_at(const br_tokenizer *t, const char *p, const char *end,
                                   bool late);
bool br__is_special(const br_tokenizer *t, int64_t id);
/* Makes the table from ids to tokens; to be called when all tokens are added. */
bool br__tokenizer_index(br_tokenizer *t);
/* -1 if there is none; no error. */
int64_t br__word_id(const br_word_ids *words, const char *text, size_t length);

/* ---- Tokens of a text ------------------------------------------------------------------------ */

struct br_token {
    int64_t id, word;
    br_span bytes, chars;
};

struct br_token_list {
    br_token *items;
    int64_t count, room;
};

/* br__grow() for what there are many of. */
static inline void *br__grow_tokens(void *items, int64_t *room, int64_t count, size_t item_size)
{
    return br__grow_from(64, items, room, count, item_size);
}
bool br__push_token(br_token_list *list, br_token token);
/* Code points of valid UTF-8. */
int64_t br__count_chars(const char *p, size_t length);

/* The word pieces of a text. */
bool br__tokenize_words(const br_tokenizer *t, const br_text *text,
                        const br_encode_options *options, br_token_list *list);

/* A place in a text, and how many code points are before it. */
typedef struct br_place {
    const char *p;
    int64_t index;
} br_place;

/* What reads a text of which the added tokens are split off; the kinds' readers begin with it. */
typedef struct br_text_reader br_text_reader;
struct br_text_reader {
    const br_tokenizer *t;
    const char *text;
    const br_encode_options *options;
    br_token_list *list;
    int64_t words; /* before this place */
    /* Reads text without added tokens; *at goes to its end. */
    bool (*read)(br_text_reader *r, br_place *at, const char *end);
};

/* Reads the whole text: early added tokens, then late ones between them, then what is left. */
bool br__read_parts(br_text_reader *r, const br_text *text);
/* Reads a code point, which is U+FFFD for an invalid part; *at goes behind it. False and an error
 * if that is not allowed. */
bool br__read_char(const br_text_reader *r, br_place *at, const char *end, uint32_t *c);

#endif
