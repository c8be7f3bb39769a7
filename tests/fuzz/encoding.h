/* tests/fuzz/encoding.h - checks invariants of encodings, for any text and any tokenizer. */
#ifndef BR_TESTS_FUZZ_ENCODING_H
#define BR_TESTS_FUZZ_ENCODING_H

#include "tests/fuzz/fuzz.h"

#include <brasa/tokenizers.h>

/* Returns options chosen by the bytes, including invalid ones. */
static inline br_encode_options fuzz_encode_options(const uint8_t bytes[4])
{
    return *BR_OPTIONS(br_encode, .max_length = bytes[0] % 16 - 1,
                       .truncation = (br_truncation)(bytes[0] / 16 % 4),
                       .truncate_left = bytes[0] & 128, .stride = bytes[1] % 8 - 1,
                       .padding = (br_pad_to)(bytes[1] / 8 % 4), .pad_left = bytes[1] & 32,
                       .pad_to_multiple_of = bytes[2] % 8 - 1,
                       .add_special_tokens = !(bytes[2] & 8), .split_special_tokens = bytes[2] & 16,
                       .strict_utf8 = bytes[2] & 32);
}

static inline void require_span(br_span span, int64_t end)
{
    require(0 <= span.begin && span.begin <= span.end && span.end <= end);
}

/* Checks that every entry is valid, and that the entries of each text are in the order of the
 * text. */
static inline void require_encoding(const br_tokenizer *t, const br_encoding *e,
                                    const int64_t ends[2])
{
    br_span last[2] = { 0 };
    for (int64_t i = 0; i < e->length; i++) {
        int64_t sequence = e->sequence_ids[i];
        require(e->ids[i] >= 0 && e->ids[i] < br_tokenizer_size(t));
        require((e->type_ids[i] & ~1) == 0 && (e->attention_mask[i] & ~1) == 0);
        require((e->special_mask[i] & ~1) == 0);
        require(sequence >= -1 && sequence <= 1 && (e->word_ids[i] < 0) == (sequence < 0));
        if (sequence < 0)
            continue;
        require_span(e->bytes[i], ends[sequence]);
        require_span(e->chars[i], e->bytes[i].end);
        require(e->bytes[i].begin >= last[sequence].begin);
        last[sequence] = e->bytes[i];
    }
    for (int64_t i = 0; i < e->n_overflow; i++)
        require_encoding(t, &e->overflow[i], ends);
}

/* Checks that the tokens can be decoded. Only an id that a file's template has, but its vocabulary
 * has not, is an error. */
static inline void require_decoding(const br_tokenizer *t, const br_encoding *e)
{
    for (int skip = 0; skip < 2; skip++) {
        char *text = br_tokenizer_decode(t, e->length, e->ids, skip);
        require(text != NULL || strstr(br_error_message(), "no token has id"));
        br_clear_error();
        br_free(text);
    }
}

/* Checks that a batch of the text has the same ids. */
static inline void require_batch(const br_tokenizer *t, const br_encoding *e, const br_text *text,
                                 const br_text *pair, const br_encode_options *options)
{
    br_scope *scope = br_scope_begin();
    br_token_batch batch;
    require(br_tokenizer_encode_batch(t, 1, text, pair, options, &batch));
    require(br_numel(batch.ids) == e->length);
    if (e->length > 0)
        require(memcmp(br_data(batch.ids), e->ids, (size_t)e->length * sizeof *e->ids) == 0);
    br_scope_end(scope);
}

/* Encodes and checks the result. Encoding may fail only with options, because these may be
 * invalid. */
static inline void fuzz_encode(const br_tokenizer *t, const br_text *text, const br_text *pair,
                               const br_encode_options *options)
{
    br_encoding *e = br_tokenizer_encode(t, text, pair, options);
    require(e || options);
    require_answer(e);
    if (!e)
        return;
    require_encoding(t, e, (int64_t[]){ text->length, pair ? pair->length : 0 });
    require_decoding(t, e);
    require_batch(t, e, text, pair, options);
    br_encoding_free(e);
}

/* Like fuzz_encode() without options, for a tokenizer that may lack tokens for some of the text. */
static inline void fuzz_encode_if_known(const br_tokenizer *t, const br_text *text)
{
    br_encoding *e = br_tokenizer_encode(t, text, NULL, NULL);
    require_answer(e);
    if (e)
        fuzz_encode(t, text, NULL, NULL);
    br_encoding_free(e);
}

/* Checks that looking up each id returns a token or fails with an error. Only the last of equal
 * pieces is looked up by its text. */
static inline void require_tokens(const br_tokenizer *t)
{
    int64_t size = br_tokenizer_size(t);
    for (int64_t id = -1; id <= size && id < 300; id++) {
        const char *token = br_tokenizer_token(t, id);
        require_answer(token);
        require(token == NULL || (id >= 0 && id < size));
        if (token) {
            int64_t last = br_tokenizer_id(t, token, -1);
            require(last >= id && strcmp(br_tokenizer_token(t, last), token) == 0);
        }
    }
}

#endif
