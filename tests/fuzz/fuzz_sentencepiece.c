/* tests/fuzz/fuzz_sentencepiece.c - any bytes as a spiece.model: loads it, looks up each token, and
 * encodes the file itself and a text with all kinds of code points. */
#include "tests/fuzz/encoding.h"

#define UNKNOWN             "\x0a\x0c\x0a\x03<u>\x15\0\0\0\0\x18\x02"
#define PIECE(letter, type) "\x0a\x0a\x0a\x01" letter "\x15\0\0\x80\xbf\x18" type
/* MAP has one unit and one text. LEAF has a root with base 1, and its leaf at 1. */
#define MAP  "\x12\x0a\x04\0\0\0\0\0\0\0a\0"
#define LEAF "\x12\x0e\x08\0\0\0\0\x05\0\0\0\0\0\x80 \0"

static const fuzz_seed seeds[] = {
    SEED(UNKNOWN PIECE("a", "\x01") PIECE("b", "\x04") PIECE("c", "\x03") "\x1a\x0c" MAP),
    SEED(UNKNOWN
         "\x0a\x0c\x0a\x03\xe2\x96\x81\x15\0\0\0\0\x18\x01" PIECE("\x01", "\x05") "\x1a\x10" LEAF),
    SEED(UNKNOWN PIECE("a", "\x01") "\x12\x07\x18\x01\xfa\x02\x02</\x1a\x04\x18\0\x20\0"),
    SEED(UNKNOWN PIECE("a", "\x06") "\x12\x03\x98\x02\x01\x22\x01x\x2a\x00"),
    SEED(PIECE("a", "\x07") "\x0d\0\0\0\0\x09\0\0\0\0\0\0\0\0\x0b"),
};

static void try_bytes(const uint8_t *bytes, size_t n)
{
    static const char text[] =
        "a  b\xe2\x96\x81<u>\xe2\x84\xa2 c\xcc\x81\xf0\x9f\x91\xa8\xff<extra_id_0>";
    char path[64];
    int fd = fuzz_file(bytes, n, path);
    br_sentencepiece_options o = *BR_OPTIONS(br_sentencepiece, .extra_ids = 1, .add_eos = !(n % 2));
    br_tokenizer *t = br_tokenizer_from_sentencepiece(path, &o);
    close(fd);
    require_answer(t);
    if (!t)
        return;
    require_tokens(t);
    fuzz_encode(t, &(br_text){ (const char *)bytes, (int64_t)n }, NULL, NULL);
    fuzz_encode(t, &(br_text){ text, sizeof text - 1 }, NULL, NULL);
    br_tokenizer_free(t);
}

FUZZ_TARGET(sentencepiece)
