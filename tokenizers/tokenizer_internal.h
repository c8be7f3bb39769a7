/* tokenizers/tokenizer_internal.h - shared by the files of the tokenizers: properties of code
 * points, the tokenizer, and lists of tokens. */
#ifndef BR_TOKENIZER_INTERNAL_H
#define BR_TOKENIZER_INTERNAL_H

#include "tensor/tensor_internal.h"
#include "tokenizers/char_table.h"
#include "tokenizers/word_cache.h"

#include <brasa/data.h>
#include <brasa/tokenizers.h>
#include <jansson.h>

/* ---- Code points ----------------------------------------------------------------------------- */

/* Properties of a code point. The first five come from Hugging Face's fast tokenizer, which has its
 * own versions of Unicode. The others tell which functions of utf8proc apply. */
enum {
    BR_CHAR_DROP = 1,         /* removed by clean_text */
    BR_CHAR_SPACE = 2,        /* separates words */
    BR_CHAR_CHINESE = 4,      /* surrounded by spaces */
    BR_CHAR_MARK = 8,         /* removed by strip_accents */
    BR_CHAR_PUNCTUATION = 16, /* a word of its own */
    BR_CHAR_UPPER = 32,       /* has a lower case */
    BR_CHAR_DECOMPOSES = 64,  /* has a canonical decomposition */
    BR_CHAR_REORDERS = 128,   /* its combining class is not 0 */
};

extern const br_char_table br__bert_chars;

/* Lower cases that differ from utf8proc's. The code points first .. last map to consecutive ones
 * from `lower` on, each followed by `second` if that is not 0. */
typedef struct br_lowers {
    uint32_t first, last, lower, second;
} br_lowers;

extern const br_lowers br__bert_lowers[];
extern const int br__n_bert_lowers;

unsigned br__char_kind(uint32_t c);
/* Writes the one or two code points of the lower case and returns their number. */
int br__char_lower(uint32_t c, uint32_t lower[2]);
/* Reads a code point from p .. end-1, which must not be empty, and returns its length. For an
 * invalid part, sets *c to U+FFFD and *valid to false; the length is that of the maximal subpart,
 * as Unicode recommends. */
int br__char_read(const char *p, const char *end, uint32_t *c, bool *valid);
/* Reads the code point that ends at p and returns its length. p must be greater than `begin`. */
int br__char_before(const char *begin, const char *p, uint32_t *c);
/* Writes the 1 .. 4 bytes of a code point's UTF-8 and returns their number. */
int br__char_write(uint32_t c, char *out);

/* 1 for code points that are part of a word. A single_word token does not match beside one. */
extern const br_char_table br__word_chars;

/* A code point of a normalized text, and its offsets in the original text. */
typedef struct br_char {
    uint32_t c;
    br_span bytes, chars;
} br_char;

typedef struct br_char_list {
    br_char *items;
    int64_t count, capacity;
} br_char_list;

bool br__push_char(br_char_list *list, br_char c);
/* Appends the code points of valid UTF-8, all with the offsets of `from`. */
bool br__push_text(br_char_list *list, const char *text, const br_char *from);
/* Returns the UTF-8 of n code points, which the caller frees with br_free(), and sets *length to
 * its length in bytes. Returns NULL if allocation fails. */
char *br__chars_to_utf8(const br_char *chars, int64_t n, size_t *length);

/* ---- Tokenizers ------------------------------------------------------------------------------ */

enum { BR_MAX_TOKEN_ID = 1 << 24, BR_MAX_ADDED = 1 << 14 };

/* A token that is matched in the raw text or, if it is late, in the normalized text. */
typedef struct br_added_token {
    const char *text; /* owned by the vocabulary */
    int64_t id;
    bool special;        /* omitted by decoding that skips special tokens */
    bool late;           /* matched in the normalized text between the tokens that are not late */
    bool lstrip, rstrip; /* includes the white space before or after it */
    bool single_word;    /* matched only if it is not a part of a longer word */
    char *pattern;       /* the text that is matched: `text`, normalized if it is late */
    size_t length;       /* of the pattern; 0: it matches nothing */
} br_added_token;

/* An added token among those that are sorted by their patterns. */
typedef struct br_indexed_token {
    const br_added_token *token;
    int64_t shorter; /* place of the longest other pattern that this one begins with; -1: none */
} br_indexed_token;

/* The added tokens that match something: those that are not late, then those that are. */
typedef struct br_added_index {
    br_indexed_token *items;
    int64_t n, n_early;
} br_added_index;

/* A map from words to ids. */
typedef struct br_word_ids {
    br_vocab *words;
    int64_t *ids; /* one for each word */
    int64_t capacity;
    size_t longest; /* length of the longest word in bytes */
} br_word_ids;

typedef struct br_token_list br_token_list;
typedef struct br_token br_token;

/* The functions of one kind of tokenizer. */
typedef struct br_tokenizer_kind {
    const char *name; /* of the model in tokenizer.json */
    /* Appends the text's tokens to the list. */
    bool (*tokenize)(const br_tokenizer *t, const br_text *text, const br_encode_options *options,
                     br_token_list *list);
    /* Implements br_tokenizer_decode_text() for checked arguments; `length` is never NULL. */
    char *(*decode)(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                    int64_t *length);
    /* Returns the normalized form of an added token, which the caller frees with br_free(), and
     * sets *length to its length; NULL if allocation fails. The function is NULL if the kind does
     * not normalize texts. */
    char *(*normalize)(const br_tokenizer *t, const char *text, size_t *length);
    /* Returns whether tokens such as "<0xE4>" are decoded to bytes. NULL: they are not. */
    bool (*decodes_bytes)(const br_tokenizer *t);
    void (*free)(void *model); /* must accept NULL */
} br_tokenizer_kind;

/* What a class puts around the pieces of a SentencePiece model. */
typedef struct br_piece_frame {
    const char *first[8]; /* pieces of score 0 before them; the last is NULL */
    const char *last;     /* a piece of score 0 after them; NULL: none */
    int64_t n_skipped;    /* number of pieces of the model that are left out */
    int64_t unknown;      /* id of the unknown piece */
} br_piece_frame;

/* Read the vocabulary of a model folder's files. The caller adds special tokens, then calls
 * br__tokenizer_index(), br__unigram_finish() for pieces, and br__tokenizer_finish_added(). The
 * pieces are for the fast tokenizer, followed by `extra_ids` tokens <extra_id_N>. `frame` may be
 * NULL. Return NULL and an error on failure. */
br_tokenizer *br__tokenizer_read_words(const char *path, const br_tokenizer_options *options);
br_tokenizer *br__tokenizer_read_bytes(const char *vocab, const char *merges);
br_tokenizer *br__tokenizer_read_pieces(const char *path, const br_piece_frame *frame,
                                        int64_t extra_ids);

extern const br_tokenizer_kind br__word_pieces, br__byte_level, br__unigram;

/* Parts of tokenizer.json that may be missing or null, as bits. */
enum {
    BR_NO_NORMALIZER = 1,
    BR_NO_PRE_TOKENIZER = 2,
    BR_NO_PROCESSOR = 4,
    BR_NO_DECODER = 8,
};

/* What is put around the two texts of a pair. */
typedef enum br_pair_form {
    BR_PAIR_FRAMED, /* the tokens around a single text, and possibly others */
    BR_PAIR_BARE,   /* nothing */
    BR_PAIR_UNSUPPORTED,
} br_pair_form;

struct br_tokenizer {
    const br_tokenizer_kind *kind;
    void *model; /* the kind's own data */
    bool lowercase, strip_accents, clean, spread_chinese, cleanup;
    bool auto_accents;                /* strip_accents follows from lowercase */
    bool splits_special;              /* split_special_tokens is always set */
    bool cleans_up;                   /* decoded text has no spaces before punctuation */
    unsigned absent;                  /* parts that tokenizer.json does not have: BR_NO_... */
    bool undivided;                   /* a text is one word: there is no pre-tokenizer */
    bool spaced;                      /* decoding puts a space between all tokens: no decoder */
    int64_t roles[BR_TOKEN_MASK + 1]; /* ids of br_special_token; -1: none */
    int64_t max_word;
    char *prefix;           /* of continuation tokens */
    br_word_ids all, inner; /* inner: continuation tokens, without the prefix */
    const char **tokens;    /* indexed by id; NULL for an unused id */
    int64_t size;
    int64_t model_size;  /* added tokens that the model does not have follow */
    int64_t model_words; /* number of different tokens of the model; 0: model_size */
    int64_t implied; /* number of tokens at the end that only the class names: no text gets them */
    br_added_token *added;
    int64_t n_added, added_capacity;
    br_added_index index;                          /* of `added` */
    bool added_begins[256];                        /* bytes that a pattern begins with */
    bool has_late;                                 /* an added token is late */
    int64_t unknown, classify, separator, padding; /* -1: none */
    char *unknown_text; /* the unknown token if the vocabulary lacks it; NULL: none is stated */
    br_pair_form pairs;
    bool one_type;       /* a second text has type id 0, too */
    bool hides_types;    /* batches have no type ids but 0, whatever encodings have */
    bool classify_both;  /* put `classify` before a second text, too */
    bool separate_twice; /* put `separator` before a second text, too */
    br_spare_caches *caches;
    bool trim_offsets; /* exclude the spaces around a token from its offsets ... */
    bool trim_first;   /* ... including a single space at the beginning of the first token */
};

static inline bool br__splits_special(const br_tokenizer *t, const br_encode_options *options)
{
    return t->splits_special || options->split_special_tokens;
}

/* Creates a tokenizer with bert-base-uncased's options, no vocabulary and no kind, which the caller
 * must set. Returns NULL on error. */
br_tokenizer *br__tokenizer_new(void);
bool br__tokenizer_set_prefix(br_tokenizer *t, const char *prefix);
/* Adds a token, or changes its id. The prefix must have been set. */
bool br__tokenizer_add(br_tokenizer *t, const char *token, size_t length, int64_t id);
/* Returns the id that a token gets which the vocabulary lacks, as in `tokenizers`: the number of
 * different tokens of the model, or the id after the greatest of an added token. If the model's ids
 * have a hole, another token may have this id. */
int64_t br__tokenizer_next_id(const br_tokenizer *t);
/* Marks a token of the vocabulary as an added token that is matched in texts, and not late. If it
 * is marked already, only sets `special`. */
bool br__tokenizer_add_special(br_tokenizer *t, const char *token, size_t length, bool special);
/* Returns the added token with an id, or NULL. */
br_added_token *br__tokenizer_added(const br_tokenizer *t, int64_t id);
/* Removes all added tokens, and those of their words that the model lacks. */
void br__tokenizer_drop_added(br_tokenizer *t);
/* Sets the roles that are not set to the tokens that are usual for the kind, if they exist. */
void br__tokenizer_default_roles(br_tokenizer *t);
bool br__is_white(uint32_t c);
bool br__is_special(const br_tokenizer *t, int64_t id);
/* Returns true if decoding omits a special token: `tokenizers` keeps those that are written in
 * another, normalized form. */
bool br__is_skipped(const br_tokenizer *t, int64_t id);
/* Sets *length to the length of the tokens of n ids, in bytes. Returns false and an error if an id
 * has no token. */
bool br__tokens_length(const br_tokenizer *t, int64_t n, const int64_t *ids, size_t *length);
/* Builds the table from ids to tokens. Call it when all tokens have been added, and again when more
 * were. */
bool br__tokenizer_index(br_tokenizer *t);
/* Sets the patterns of the added tokens, and their text in the table from ids to tokens. Call it
 * last: late ones are normalized. */
bool br__tokenizer_finish_added(br_tokenizer *t);
/* Sorts the patterns of the added tokens. Returns false if allocation fails. */
bool br__added_index_build(br_tokenizer *t);
/* Returns the added token, late or not late, whose pattern is the longest at the beginning of the
 * text p .. end-1, which is not empty, or NULL. Of equal patterns, the one with the lowest id wins.
 */
const br_added_token *br__added_at(const br_tokenizer *t, const char *p, const char *end,
                                   bool late);
/* Makes `text`, a token of the model or NULL, the unknown token. If the model lacks it, only texts
 * without unknown words can be encoded. Returns false if allocation fails. */
bool br__tokenizer_set_unknown(br_tokenizer *t, const char *text);
/* Fails, because a part of a text is unknown and there is no unknown token. `what` tells which part
 * it is. Returns false. */
bool br__tokenizer_fail_unknown(const br_tokenizer *t, const char *what);
/* Makes the tokenizer leave texts as they are. */
void br__tokenizer_no_normalizer(br_tokenizer *t);
/* Reads a tokenizer.json. Parts in t->absent have the settings of the kind's class in transformers;
 * br__tokenizer_leave_out() removes these, as `tokenizers` does, and fails if that is not
 * supported. `change` may replace parts of the file's object first, or fail; NULL: nothing. */
typedef bool br_tokenizer_change(json_t *root, void *context);
br_tokenizer *br__tokenizer_read_json(const char *path, br_tokenizer_change *change, void *context);
bool br__tokenizer_leave_out(br_tokenizer *t, const char *path);
/* Returns a word's id, or -1 without an error if there is none. */
int64_t br__word_id(const br_word_ids *words, const char *text, size_t length);

/* ---- Tokens of a text ------------------------------------------------------------------------ */

struct br_token {
    int64_t id, word;
    br_span bytes, chars;
    bool counted;          /* the spaces are those of the text, given by `before` and `after` */
    int64_t before, after; /* spaces at the beginning and the end, in code points */
};

/* The tokens of a text or, if there is a cache, only their ids. */
struct br_token_list {
    br_word_cache *cache;
    br_token *items; /* NULL if there is a cache */
    int64_t *ids;    /* NULL if there is none */
    int64_t count, capacity;
};

/* Grows an array like br__grow(), but starts with room for 64 items. */
static inline void *br__grow_tokens(void *items, int64_t *capacity, int64_t count, size_t item_size)
{
    return br__grow_from(64, items, capacity, count, item_size);
}
/* Appends a token, or its id if the list has only ids. */
bool br__push_token(br_token_list *list, br_token token);
/* Makes room for n more ids in a list of ids. Returns false if allocation fails. */
bool br__reserve_ids(br_token_list *list, int64_t n);
void br__free_tokens(br_token_list *list);
/* Sets the offsets of a token that stands for first .. last, and counts its spaces. */
void br__set_places(br_token *token, const br_char *first, const br_char *last);
/* Returns the number of code points in valid UTF-8. */
int64_t br__count_chars(const char *p, size_t length);

/* Excludes the spaces around a token of `text` from its offsets if the tokenizer trims offsets.
 * `first` is true for the first token of a text, or of a part made by truncation. */
void br__trim_token(const br_tokenizer *t, const char *text, br_token *token, bool first);

/* Split a text into word pieces, normalize an added token, and decode word pieces. */
bool br__tokenize_words(const br_tokenizer *t, const br_text *text,
                        const br_encode_options *options, br_token_list *list);
char *br__normalize_words(const br_tokenizer *t, const char *text, size_t *length);
/* Decodes checked arguments without removing spaces before punctuation. */
char *br__decode_uncleaned(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                           int64_t *length);
char *br__decode_pieces(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                        int64_t *length);

/* A place in a text, and the number of code points before it. */
typedef struct br_place {
    const char *p;
    int64_t index;
} br_place;

/* The base of the readers that get the text between added tokens. It is their first member. */
typedef struct br_text_reader br_text_reader;
struct br_text_reader {
    const br_tokenizer *t;
    const char *text;
    const br_encode_options *options;
    br_token_list *list;
    int64_t words;   /* number of words so far */
    bool normalizes; /* `read` normalizes the text, and splits off the late added tokens itself */
    /* Reads text without added tokens and advances *at to its end. */
    bool (*read)(br_text_reader *r, br_place *at, const char *end);
};

/* Tokenizes a word, whose ids must depend on its bytes alone. */
typedef bool br_read_word(br_text_reader *r, const char *word, size_t length);
/* Calls `read` for a word that the cache lacks and, unless the key is NULL, puts it there. */
bool br__read_new(br_text_reader *r, const char *word, size_t length, const br_word_key *key,
                  br_read_word *read);

/* Appends the ids of a word, in memory that ends at `end`, to a list of ids: those in the cache, or
 * those that `read` appends. */
static inline bool br__read_cached(br_text_reader *r, const char *word, size_t length,
                                   const char *end, br_read_word *read)
{
    br_token_list *list = r->list;
    if (length > BR_LONGEST_CACHED)
        return br__read_new(r, word, length, NULL, read);
    br_word_key key = br__word_key(word, length, end);
    const br_cached_word *slot = br__word_slot(list->cache, &key);
    if (!br__word_is(slot, &key))
        return br__read_new(r, word, length, &key, read);
    if (list->capacity - list->count < BR_CACHED_IDS && !br__reserve_ids(list, BR_CACHED_IDS))
        return false;
    for (int i = 0; i < BR_CACHED_IDS; i++) /* all, because a constant number is faster */
        list->ids[list->count + i] = slot->ids[i];
    list->count += slot->n;
    return true;
}

/* Reads a whole text: splits off the added tokens that are not late and calls r->read for the rest.
 * Unless r->normalizes, splits off the late ones, too. */
bool br__read_parts(br_text_reader *r, const br_text *text);
/* Reads n code points of normalized text: splits off the late tokens and calls `read` for the
 * rest. */
typedef bool br_read_chars(br_text_reader *r, const br_char *chars, int64_t n);
bool br__read_late(br_text_reader *r, const br_char *chars, int64_t n, br_read_chars *read);
/* Reads a code point, or U+FFFD for an invalid part, and advances *at past it. With strict_utf8, an
 * invalid part is an error, and the function returns false. */
bool br__read_char(const br_text_reader *r, br_place *at, const char *end, uint32_t *c);

#endif
