/* brasa/tokenizers.h - BERT's WordPiece, GPT-2's byte-level BPE and T5's Unigram tokenizer:
 * encoding text to ids, and decoding.
 *
 * Ids, offsets and word ids equal those of Hugging Face's "fast" tokenizers (PyPI's `tokenizers`).
 * A tokenizer is immutable, so threads may share it. */
#ifndef BRASA_TOKENIZERS_H
#define BRASA_TOKENIZERS_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* UTF-8 text, which may contain NULs. A length of -1 means that it ends with a NUL. */
typedef struct br_text {
    const char *data;
    int64_t length;
} br_text;

/* ---- Tokenizers ------------------------------------------------------------------------------ */

typedef struct br_tokenizer br_tokenizer;

typedef enum br_accents {
    BR_ACCENTS_AUTO, /* strip accents if do_lower_case is set */
    BR_ACCENTS_STRIP,
    BR_ACCENTS_KEEP,
} br_accents;

/* Options of a WordPiece tokenizer. The defaults are those of bert-base-uncased. */
typedef struct br_tokenizer_options {
    size_t struct_size;
    bool do_lower_case;
    br_accents strip_accents;
    bool clean_text;                  /* remove control characters */
    bool tokenize_chinese_chars;      /* make each Chinese character a word */
    int64_t max_input_chars_per_word; /* longer words become unk_token */
    const char *unk_token, *cls_token, *sep_token, *pad_token, *mask_token;
} br_tokenizer_options;
#define br_tokenizer_default_fields                                                         \
    .struct_size = sizeof(br_tokenizer_options), .do_lower_case = true, .clean_text = true, \
    .tokenize_chinese_chars = true, .max_input_chars_per_word = 100, .unk_token = "[UNK]",  \
    .cls_token = "[CLS]", .sep_token = "[SEP]", .pad_token = "[PAD]", .mask_token = "[MASK]"
BR_API br_tokenizer_options br_tokenizer_defaults(void);

/* Reads a WordPiece tokenizer from a vocab.txt, which has one token per line. A token's id is the
 * number of its line, counted from 0, and that of the last one if lines are equal. unk_token,
 * cls_token and sep_token must be in the file. Returns NULL and an error on failure. `options` may
 * be NULL. */
BR_API br_tokenizer *br_tokenizer_from_vocab(const char *path, const br_tokenizer_options *options);

/* Options of a byte-level BPE tokenizer. The defaults are those of gpt2. */
typedef struct br_bpe_options {
    size_t struct_size;
    bool add_prefix_space;   /* add a space to a text that does not begin with one */
    bool trim_offsets;       /* exclude spaces from offsets; not with add_prefix_space */
    const char *end_of_text; /* a special token; NULL: "<|endoftext|>" if the vocabulary has it */
    const char *pad_token;   /* NULL: end_of_text, because GPT-2 has no padding token */
} br_bpe_options;
#define br_bpe_default_fields .struct_size = sizeof(br_bpe_options)
BR_API br_bpe_options br_bpe_defaults(void);

/* Reads a byte-level BPE tokenizer from its vocab.json and merges.txt. Returns NULL and an error on
 * failure. `options` may be NULL. */
BR_API br_tokenizer *br_tokenizer_from_bpe(const char *vocab, const char *merges,
                                           const br_bpe_options *options);

/* Options of a SentencePiece tokenizer. The defaults are those of T5. */
typedef struct br_sentencepiece_options {
    size_t struct_size;
    int64_t extra_ids; /* number of tokens <extra_id_N> to add after the pieces */
    bool add_eos;      /* append </s> to each text */
} br_sentencepiece_options;
#define br_sentencepiece_default_fields \
    .struct_size = sizeof(br_sentencepiece_options), .extra_ids = 100, .add_eos = true
BR_API br_sentencepiece_options br_sentencepiece_defaults(void);

/* Reads a Unigram tokenizer from a spiece.model. Ids and offsets equal those of SentencePiece
 * itself, which sometimes differ from those of the fast tokenizer for the same pieces. Control
 * symbols and the unknown symbol are matched in texts as special tokens. Returns NULL and an error
 * on failure. `options` may be NULL. */
BR_API br_tokenizer *br_tokenizer_from_sentencepiece(const char *path,
                                                     const br_sentencepiece_options *options);
/* Reads a tokenizer.json of BERT's, GPT-2's, Llama 2's or T5's kind. Other kinds are an error that
 * names the unsupported part. Ignores its "truncation" and "padding": set br_encode_options
 * instead. */
BR_API br_tokenizer *br_tokenizer_from_json(const char *path);
/* Reads the text of a tokenizer.json. A length of -1 means that it ends with a NUL. */
BR_API br_tokenizer *br_tokenizer_from_json_text(const char *text, int64_t length);

typedef enum br_setting {
    BR_SETTING_AUTO, /* what the files say */
    BR_SETTING_OFF,
    BR_SETTING_ON,
} br_setting;

/* Options of br_auto_tokenizer_load(). Each overrides what the folder's files say. An option that
 * does not apply to the tokenizer is an error. */
typedef struct br_auto_tokenizer_options {
    size_t struct_size;
    /* NULL: the folder's; "BertTokenizer", "GPT2Tokenizer", "T5Tokenizer", or
     * "PreTrainedTokenizerFast", which follows tokenizer.json. */
    const char *tokenizer_class;
    br_setting do_lower_case, strip_accents, tokenize_chinese_chars; /* WordPiece */
    br_setting add_prefix_space;                                     /* byte-level BPE */
    br_setting add_bos_token, add_eos_token;                         /* vocab.json only */
    int64_t extra_ids;        /* spiece.model only; -1: what the files say */
    bool ignore_added_tokens; /* do not read added_tokens.json and "added_tokens_decoder" */
} br_auto_tokenizer_options;
#define br_auto_tokenizer_default_fields \
    .struct_size = sizeof(br_auto_tokenizer_options), .extra_ids = -1
BR_API br_auto_tokenizer_options br_auto_tokenizer_defaults(void);

/* Loads the tokenizer of a Hugging Face model folder from tokenizer.json, vocab.json with
 * merges.txt, spiece.model or vocab.txt, as the AutoTokenizer of transformers 5 does. Reads
 * tokenizer_config.json, special_tokens_map.json, added_tokens.json and the tokenizer class of
 * config.json, where they exist; docs/tokenizer.md lists what each key does. Raises a warning if
 * two files contradict each other. `dir` may also be a GGUF file, whose metadata has the tokenizer.
 * Returns NULL and an error on failure. `options` may be NULL. */
BR_API br_tokenizer *br_auto_tokenizer_load(const char *dir,
                                            const br_auto_tokenizer_options *options);
BR_API void br_tokenizer_free(br_tokenizer *tokenizer);

/* Returns the name that tokenizer.json has for the model: "WordPiece", "BPE" or "Unigram". */
BR_API const char *br_tokenizer_model(const br_tokenizer *tokenizer);

/* The roles of special tokens. */
typedef enum br_special_token {
    BR_TOKEN_BOS, /* beginning of a text */
    BR_TOKEN_EOS, /* end of a text */
    BR_TOKEN_UNK, /* unknown text */
    BR_TOKEN_SEP, /* after each text */
    BR_TOKEN_PAD, /* padding */
    BR_TOKEN_CLS, /* before the first text */
    BR_TOKEN_MASK,
} br_special_token;
/* Returns the id of the special token that a folder's files, or the options, name for a role; if
 * they name none, that of the token that is usual for the kind of tokenizer. Returns -1, without an
 * error, if the vocabulary has none. */
BR_API int64_t br_tokenizer_special_id(const br_tokenizer *tokenizer, br_special_token role);
/* Returns the greatest id plus 1. An id may be unused, for example if vocab.txt has equal lines. If
 * a Unigram model has equal pieces, only the last one's id is used for texts. */
BR_API int64_t br_tokenizer_size(const br_tokenizer *tokenizer);
/* Returns the number of the last ids whose tokens are in no file: special tokens that only the
 * tokenizer's class names, such as [MASK]. No text gets them, and a model may have no row for them.
 */
BR_API int64_t br_tokenizer_implied(const br_tokenizer *tokenizer);
/* Returns whether an id has a token. An id that is negative or too large has none. */
BR_API bool br_tokenizer_has_id(const br_tokenizer *tokenizer, int64_t id);
/* Returns a token's id, or -1 and an error if there is none. A length of -1 means that the token
 * ends with a NUL. */
BR_API int64_t br_tokenizer_id(const br_tokenizer *tokenizer, const char *token, int64_t length);
/* Returns the token of an id, valid as long as the tokenizer, or NULL and an error if there is
 * none. */
BR_API const char *br_tokenizer_token(const br_tokenizer *tokenizer, int64_t id);
/* Decodes n ids to text. WordPiece tokens are joined by spaces, continuations without one. The
 * bytes of byte-level BPE tokens are concatenated, with U+FFFD for invalid UTF-8. In the tokens
 * of Unigram and of BPE over characters, U+2581 becomes a space. `skip_special` omits special
 * tokens. If the model folder's tokenizer_config.json sets clean_up_tokenization_spaces, spaces
 * before punctuation and contractions are removed, except by BPE. The caller frees the text with
 * br_free(). */
BR_API char *br_tokenizer_decode(const br_tokenizer *tokenizer, int64_t n, const int64_t *ids,
                                 bool skip_special);
/* Decodes like br_tokenizer_decode() and sets *length to the text's length in bytes, because a text
 * may contain U+0000. */
BR_API char *br_tokenizer_decode_text(const br_tokenizer *tokenizer, int64_t n, const int64_t *ids,
                                      bool skip_special, int64_t *length);

/* ---- Training -------------------------------------------------------------------------------- */

typedef struct br_bpe_train_options {
    size_t struct_size;
    int64_t vocab_size;       /* most tokens, with the special ones and one for each byte */
    int64_t min_frequency;    /* a pair that is less frequent does not become a token */
    int64_t n_special_tokens; /* tokens that get the first ids, such as "<|endoftext|>" */
    const char *const *special_tokens;
} br_bpe_train_options;
#define br_bpe_train_default_fields \
    .struct_size = sizeof(br_bpe_train_options), .vocab_size = 30000, .min_frequency = 2
BR_API br_bpe_train_options br_bpe_train_defaults(void);

/* Learns a byte-level BPE tokenizer from n texts, and returns the text of its tokenizer.json, which
 * the caller frees with br_free(). The tokens, their ids and the merges are those of tokenizers'
 * ByteLevelBPETokenizer.train_from_iterator(). Words are split by GPT-2's pattern, and do not cross
 * texts. Texts must be UTF-8 without U+0000. Returns NULL and an error on failure. `options` may be
 * NULL. */
BR_API char *br_bpe_train(int64_t n, const br_text *texts, const br_bpe_train_options *options);

/* ---- Decoding step by step ------------------------------------------------------------------- */

/* Decodes ids that become known one after the other, as when a model generates text:
 *
 *     br_decode_stream *stream = br_decode_stream_new(tokenizer, true, n_prompt, prompt);
 *     for (int64_t i = 0, length; i < n; i++) {
 *         const char *text = br_decode_stream_step(stream, ids[i], &length);
 *         fwrite(text, 1, (size_t)length, stdout);
 *     }
 *     fputs(br_decode_stream_end(stream, NULL), stdout);
 *     br_decode_stream_free(stream);
 *
 * The texts together are the text of br_tokenizer_decode_text() for all ids. The text of a token
 * alone may differ: a word has a space before it except at the beginning of a text, and several
 * tokens may form one character. */
typedef struct br_decode_stream br_decode_stream;
/* Creates a decode stream. The n ids come before those of br_decode_stream_step(), and their text
 * is not returned. The tokenizer must outlive the stream. Returns NULL and an error on failure. */
BR_API br_decode_stream *br_decode_stream_new(const br_tokenizer *tokenizer, bool skip_special,
                                              int64_t n, const int64_t *ids);
/* Frees a stream. NULL is ignored. */
BR_API void br_decode_stream_free(br_decode_stream *stream);
/* Appends an id. Returns the new text that no later id can change, often "", and stores its length
 * unless `length` is NULL. An id without a token has no text: a model may have more rows than its
 * tokenizer has tokens. The stream owns the text, which is valid until the stream's next call.
 * Returns NULL and an error on failure. */
BR_API const char *br_decode_stream_step(br_decode_stream *stream, int64_t id, int64_t *length);
/* Returns the text that was held back because later ids could have changed it, like
 * br_decode_stream_step(). The stream is then as after br_decode_stream_new() without ids. */
BR_API const char *br_decode_stream_end(br_decode_stream *stream, int64_t *length);

/* ---- Encoding -------------------------------------------------------------------------------- */

typedef enum br_truncation {
    BR_LONGEST_FIRST,
    BR_ONLY_FIRST,
    BR_ONLY_SECOND,
} br_truncation;

typedef enum br_pad_to {
    BR_PAD_NONE,       /* the same as BR_PAD_LONGEST in a batch */
    BR_PAD_LONGEST,    /* to the longest of the batch */
    BR_PAD_MAX_LENGTH, /* to max_length */
} br_pad_to;

/* By default, the tokenizer's special tokens are added, and nothing is truncated or padded. */
typedef struct br_encode_options {
    size_t struct_size;
    int64_t max_length; /* in tokens, including special ones; 0: no truncation */
    br_truncation truncation;
    bool truncate_left; /* remove tokens from the beginning */
    int64_t stride;     /* number of tokens that overlap between consecutive parts */
    br_pad_to padding;
    int64_t pad_to_multiple_of; /* 0: any length */
    bool pad_left;
    bool add_special_tokens;   /* such as [CLS] and [SEP] around a text */
    bool split_special_tokens; /* treat "[SEP]" in a text as text; set it for untrusted text */
    bool strict_utf8;          /* fail on invalid UTF-8 instead of reading it as U+FFFD */
} br_encode_options;
#define br_encode_default_fields \
    .struct_size = sizeof(br_encode_options), .add_special_tokens = true
BR_API br_encode_options br_encode_defaults(void);

/* The part begin .. end-1 of a text. */
typedef struct br_span {
    int64_t begin, end;
} br_span;

/* The encoding of a text or a pair. Each array has `length` entries. */
typedef struct br_encoding {
    int64_t length;
    int64_t *ids, *type_ids, *attention_mask, *special_mask;
    int64_t *word_ids;      /* index of the word in its text; -1 for special tokens and padding */
    int64_t *sequence_ids;  /* 0 for the first text, 1 for the second; -1 likewise */
    br_span *bytes, *chars; /* the token's offsets in its text, in bytes and in code points */
    int64_t n_overflow;     /* number of encodings of the parts removed by truncation */
    struct br_encoding *overflow;
} br_encoding;

/* Encodes a text, or a pair of texts if `pair` is not NULL. Returns an encoding for
 * br_encoding_free(), or NULL and an error. `options` may be NULL. */
BR_API br_encoding *br_tokenizer_encode(const br_tokenizer *tokenizer, const br_text *text,
                                        const br_text *pair, const br_encode_options *options);
BR_API void br_encoding_free(br_encoding *encoding);

/* The ids of n texts, one text after the other: text i has the ids starts[i] .. starts[i + 1] - 1.
 */
typedef struct br_token_ids {
    int64_t n;
    int64_t *starts; /* n + 1 places in `ids` */
    int64_t *ids;
} br_token_ids;

/* Encodes n texts, or pairs if `pairs` is not NULL, to their ids alone: those of
 * br_tokenizer_encode(), without offsets, words and masks, in a fraction of the time. Parts removed
 * by truncation are dropped. Options of padding are an error. Returns ids for br_token_ids_free(),
 * or NULL and an error. `options` may be NULL. */
BR_API br_token_ids *br_tokenizer_encode_ids(const br_tokenizer *tokenizer, int64_t n,
                                             const br_text *texts, const br_text *pairs,
                                             const br_encode_options *options);
/* Frees ids. NULL is ignored. */
BR_API void br_token_ids_free(br_token_ids *ids);

/* The inputs of a model for a batch: I64 tensors of shape [n, length]. type_ids are 0 if the
 * model's folder leaves them out: model_input_names of its tokenizer_config.json lacks
 * "token_type_ids", or is missing, and the class is AlbertTokenizer. */
typedef struct br_token_batch {
    br_tensor *ids, *type_ids, *attention_mask;
} br_token_batch;

/* Encodes n texts, or pairs if `pairs` is not NULL, to tensors owned by the innermost scope. Parts
 * removed by truncation are dropped. Returns false and an error on failure. `options` may be NULL.
 */
BR_API bool br_tokenizer_encode_batch(const br_tokenizer *tokenizer, int64_t n,
                                      const br_text *texts, const br_text *pairs,
                                      const br_encode_options *options, br_token_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
