/* brasa/data/tokenizer.h - BERT's WordPiece, GPT-2's byte-level BPE and T5's Unigram tokenizer:
 * text to ids and back.
 *
 * Ids, offsets and word ids are those of the "fast" tokenizer of Hugging Face (PyPI's
 * `tokenizers`), code point by code point. A tokenizer does not change once made: several threads
 * may use one. */
#ifndef BRASA_DATA_TOKENIZER_H
#define BRASA_DATA_TOKENIZER_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tokenizers ------------------------------------------------------------------------------ */

typedef struct br_tokenizer br_tokenizer;

typedef enum br_accents {
    BR_ACCENTS_AUTO, /* stripped if the text is lower-cased */
    BR_ACCENTS_STRIP,
    BR_ACCENTS_KEEP,
} br_accents;

/* Zeroed, or NULL in its place: bert-base-uncased. */
typedef struct br_tokenizer_options {
    bool cased; /* lowercase=False */
    br_accents accents;
    bool keep_controls;    /* clean_text=False */
    bool join_chinese;     /* tokenize_chinese_chars=False */
    int64_t max_word;      /* max_input_chars_per_word: a longer word is unknown; 0: 100 */
    const char *unknown;   /* NULL: "[UNK]" */
    const char *classify;  /* NULL: "[CLS]" */
    const char *separator; /* NULL: "[SEP]" */
    const char *padding;   /* NULL: "[PAD]" */
    const char *mask;      /* NULL: "[MASK]" */
} br_tokenizer_options;

/* From a vocab.txt: a token a line, its number is the id; of equal lines the last counts. The
 * unknown, classify and separator tokens must be there. */
BR_API br_tokenizer *br_tokenizer_from_vocab(const char *path, const br_tokenizer_options *options);

/* Zeroed, or NULL in its place: gpt2. */
typedef struct br_bpe_options {
    bool add_prefix_space;   /* to a text that does not begin with a space ... */
    bool trim_offsets;       /* ... or: spaces around a token are not in its offsets */
    const char *end_of_text; /* a special token; NULL: "<|endoftext|>", if it is there */
    const char *padding;     /* NULL: the end of text, since GPT-2 has no token for it */
} br_bpe_options;

/* From the vocab.json and merges.txt of a byte-level BPE. */
BR_API br_tokenizer *br_tokenizer_from_bpe(const char *vocab, const char *merges,
                                           const br_bpe_options *options);

/* Zeroed, or NULL in its place: T5. */
typedef struct br_sentencepiece_options {
    int64_t extra_ids; /* tokens <extra_id_0> .. behind the pieces; 0: 100, -1: none */
    bool no_end;       /* no </s> is put behind a text */
} br_sentencepiece_options;

/* From a spiece.model, of which the model is Unigram. Ids and offsets are those of SentencePiece
 * itself, which are not always those that the fast tokenizer gives for the same pieces; control
 * symbols, and the unknown one, are found in texts as special tokens. */
BR_API br_tokenizer *br_tokenizer_from_sentencepiece(const char *path,
                                                     const br_sentencepiece_options *options);
/* From a tokenizer.json of BERT's, GPT-2's or T5's kind; another kind is refused with what differs.
 * Its "truncation" and "padding" are not used: br_encode_options say that. */
BR_API br_tokenizer *br_tokenizer_from_json(const char *path);
/* From a folder as the hub has it: tokenizer.json, else vocab.json with merges.txt, else
 * spiece.model, else vocab.txt; with options, which are vocab.txt's, that alone. */
BR_API br_tokenizer *br_auto_tokenizer_load(const char *dir, const br_tokenizer_options *options);
BR_API void br_tokenizer_free(br_tokenizer *tokenizer);
/* Ids are 0 .. size-1; one that no token has is possible, after equal lines. */
BR_API int64_t br_tokenizer_size(const br_tokenizer *tokenizer);
/* The token's id; -1 and an error if there is none. length -1: up to the NUL. */
BR_API int64_t br_tokenizer_id(const br_tokenizer *tokenizer, const char *token, int64_t length);
/* The token of an id, good as long as the tokenizer; NULL and an error for an id outside. */
BR_API const char *br_tokenizer_token(const br_tokenizer *tokenizer, int64_t id);
/* The text of n ids: word pieces are joined by spaces, continuations without one; the bytes of a
 * byte-level BPE's tokens make the text, with U+FFFD for what is no UTF-8; of Unigram's pieces
 * U+2581 is a space. Special tokens can be left out. The caller frees it with br_free(). */
BR_API char *br_tokenizer_decode(const br_tokenizer *tokenizer, int64_t n, const int64_t *ids,
                                 bool skip_special);

/* ---- Encoding -------------------------------------------------------------------------------- */

/* UTF-8, which may hold NULs. length -1: up to the NUL. */
typedef struct br_text {
    const char *data;
    int64_t length;
} br_text;

typedef enum br_truncation {
    BR_LONGEST_FIRST,
    BR_ONLY_FIRST,
    BR_ONLY_SECOND,
} br_truncation;

typedef enum br_pad_to {
    BR_PAD_NONE,       /* in a batch, as BR_PAD_LONGEST */
    BR_PAD_LONGEST,    /* to the longest of the batch */
    BR_PAD_MAX_LENGTH, /* to max_length */
} br_pad_to;

/* Zeroed, or NULL in its place: special tokens around where the tokenizer has such, nothing
 * truncated, nothing padded. */
typedef struct br_encode_options {
    int64_t max_length; /* special tokens counted; 0: no truncation */
    br_truncation truncation;
    bool truncate_left; /* what is cut off is the beginning */
    int64_t stride;     /* tokens that a part has in common with the part before it */
    br_pad_to padding;
    int64_t pad_to_multiple; /* 0: any length */
    bool pad_left;
    bool no_special_tokens;    /* none put around */
    bool split_special_tokens; /* "[SEP]" in the text is text: for what strangers wrote */
    bool strict_utf8;          /* invalid UTF-8 is an error; else each bad part is one U+FFFD */
} br_encode_options;

/* A part of the text: begin .. end-1. */
typedef struct br_span {
    int64_t begin, end;
} br_span;

/* What became of a text or a pair: `length` entries in each array. */
typedef struct br_encoding {
    int64_t length;
    int64_t *ids, *type_ids, *attention_mask, *special_mask;
    int64_t *word_ids;      /* counted in each text; -1 for tokens put around and padding */
    int64_t *sequence_ids;  /* 0 first text, 1 second; -1 likewise */
    br_span *bytes, *chars; /* where in its text the token is, in bytes and in code points */
    int64_t n_overflow;     /* parts that truncation cut off, encoded alike */
    struct br_encoding *overflow;
} br_encoding;

/* Encodes a text, or a pair; `pair` may be NULL. */
BR_API br_encoding *br_tokenizer_encode(const br_tokenizer *tokenizer, const br_text *text,
                                        const br_text *pair, const br_encode_options *options);
BR_API void br_encoding_free(br_encoding *encoding);

/* A batch as a model takes it: i64 [n, length] each. */
typedef struct br_token_batch {
    br_tensor *ids, *type_ids, *attention_mask;
} br_token_batch;

/* Encodes n texts, or pairs if `pairs` is not NULL, to tensors of the innermost scope. Parts that
 * truncation cuts off are dropped. */
BR_API bool br_tokenizer_encode_batch(const br_tokenizer *tokenizer, int64_t n,
                                      const br_text *texts, const br_text *pairs,
                                      const br_encode_options *options, br_token_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
