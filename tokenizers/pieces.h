/* tokenizers/pieces.h - what the tokenizers whose tokens have U+2581 for spaces share: Unigram, and
 * BPE over characters. */
#ifndef BR_PIECES_H
#define BR_PIECES_H

#include "tokenizers/tokenizer_json_internal.h"

enum { BR_META = 0x2581 };    /* represents a space in pieces */
extern const char br__meta[]; /* its UTF-8 */

/* Where a U+2581 is put in front of a text. */
typedef enum br_prepend {
    BR_PREPEND_ALWAYS,
    BR_PREPEND_FIRST, /* only at the beginning of the text */
    BR_PREPEND_NEVER,
} br_prepend;

/* How tokens become text. */
typedef struct br_piece_decoder {
    bool bytes;       /* tokens such as "<0xE4>" are bytes */
    bool drops_front; /* leaves out each U+2581 of the first token */
    bool strips;      /* leaves out a space at the beginning of the text */
    /* As SentencePiece: leaves out U+2581 at the beginning only, and only one if extra spaces are
     * kept. */
    bool sentencepiece, keeps_spaces;
} br_piece_decoder;

/* Decodes ids; the arguments are those of br_tokenizer_kind.decode. */
char *br__decode_by(const br_tokenizer *t, const br_piece_decoder *decoder, int64_t n,
                    const int64_t *ids, bool skip_special, int64_t *length);
/* Returns the byte of a token such as "<0xE4>", or -1 for other tokens. */
int br__piece_byte(const char *token);
/* Returns whether the tokenizer decodes the id's token to a byte. The id must have a token. */
bool br__decodes_byte(const br_tokenizer *t, int64_t id);

/* Reads a boolean of a "Metaspace", which may be missing or null: both mean true. */
bool br__metaspace_json_bool(const char *path, json_t *part, const char *key, bool *value);
/* Reads a "Metaspace", of the pre_tokenizer or of the decoder. */
bool br__metaspace_json(const char *path, json_t *part, br_prepend *prepend);

#endif
