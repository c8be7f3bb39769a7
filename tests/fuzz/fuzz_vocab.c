/* tests/fuzz/fuzz_vocab.c - any bytes as a vocab.txt: loads it with any options, looks up each
 * token, and encodes the file itself. */
#include "tests/fuzz/encoding.h"

#define SPECIALS "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"
static const fuzz_seed seeds[] = {
    SEED("\0" SPECIALS "a\n##a\n##b\nb\n,\n\xc3\xa9\n"),
    SEED("\1" SPECIALS "A\r\nA\r\n##\n#\n\n \t\n\xe4\xb8\xad"),
    SEED("\x12x\ny\nz\n##x\n##y\n##z\n[UNK]\n[CLS]\n[SEP]\n"),
    SEED("\xff[SEP]\n[CLS]\n[UNK]"),
};

static br_tokenizer_options options_of(uint8_t byte)
{
    return *BR_OPTIONS(
        br_tokenizer, .do_lower_case = !(byte & 1), .strip_accents = (br_accents)(byte / 2 % 3),
        .clean_text = !(byte & 8), .tokenize_chinese_chars = !(byte & 16),
        .max_input_chars_per_word = byte / 32, .mask_token = byte == 255 ? "a" : NULL);
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    if (n == 0)
        return;
    char path[64];
    br_tokenizer_options options = options_of(bytes[0]);
    int fd = fuzz_file(bytes + 1, n - 1, path);
    br_tokenizer *t = br_tokenizer_from_vocab(path, &options);
    close(fd);
    require_answer(t);
    if (!t)
        return;
    require_tokens(t);
    fuzz_encode(t, &(br_text){ (const char *)bytes + 1, (int64_t)n - 1 }, NULL, NULL);
    br_tokenizer_free(t);
}

FUZZ_TARGET(vocab)
