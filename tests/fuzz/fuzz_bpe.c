/* tests/fuzz/fuzz_bpe.c - any bytes as the vocab.json and merges.txt of a byte-level BPE: loads it
 * with any options, looks up each token, and encodes a text.
 *
 * The first byte chooses the options. The rest is the vocabulary, the merges and the text,
 * separated by NULs. */
#include "tests/fuzz/encoding.h"

static const fuzz_seed seeds[] = {
    SEED("\0{\"a\":0,\"b\":1,\"ab\":2,\"<|endoftext|>\":3}\0#version: 0.2\na b\n\0ab<|endoftext|> "
         "ba"),
    SEED("\1{\"t\":0,\"h\":1,\"e\":2,\"\xc4\xa0\":3,\"\xc4\xa0t\":4,\"he\":5,\"\xc4\xa0the\":6}\0"
         "\xc4\xa0 t\nh e\n\xc4\xa0t he\n\0the  then 'll\xff"),
    SEED("\2{\"\\u0120\":1,\"\\u00e9\":0}\0\r\na a\r\n\0\xc3\xa9 \xe4\xb8\xad"),
    SEED("\7{\"a\":-1}\0a b c\n\0"),
    SEED("\4{\"a\":0,\"a\":1}\0\xff\xff\n a\n\0a"),
};

static br_bpe_options options_of(uint8_t byte)
{
    return *BR_OPTIONS(br_bpe, .add_prefix_space = byte & 1, .trim_offsets = byte & 2,
                       .end_of_text = byte & 4 ? "a" : NULL, .pad_token = byte & 8 ? "b" : NULL);
}

/* Returns the part up to the next NUL or the end, and moves *at past it. */
static br_text next_part(const uint8_t **at, const uint8_t *end)
{
    const uint8_t *start = *at, *stop = memchr(start, 0, (size_t)(end - start));
    *at = stop ? stop + 1 : end;
    return (br_text){ (const char *)start, (stop ? stop : end) - start };
}

static br_tokenizer *load(const br_text *vocab, const br_text *merges, uint8_t byte)
{
    char paths[2][64];
    br_bpe_options options = options_of(byte);
    int a = fuzz_file((const uint8_t *)vocab->data, (size_t)vocab->length, paths[0]);
    int b = fuzz_file((const uint8_t *)merges->data, (size_t)merges->length, paths[1]);
    br_tokenizer *t = br_tokenizer_from_bpe(paths[0], paths[1], &options);
    close(a);
    close(b);
    return t;
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    if (n == 0)
        return;
    const uint8_t *at = bytes + 1, *end = bytes + n;
    br_text vocab = next_part(&at, end), merges = next_part(&at, end);
    br_text text = { (const char *)at, end - at };
    br_tokenizer *t = load(&vocab, &merges, bytes[0]);
    require_answer(t);
    if (!t)
        return;
    require_tokens(t);
    fuzz_encode_if_known(t, &text);
    br_tokenizer_free(t);
}

FUZZ_TARGET(bpe)
