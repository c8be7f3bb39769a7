/* tests/tokenizers/test_char_table.c - the unpacked tables of code points: their digests must be
 * those printed by tokenizers/make_*_chars.py --digest. */
#include "tokenizers/char_table.h"

#include "tests/support.h"
#include "tokenizers/bpe_internal.h"
#include "tokenizers/grapheme.h"

static uint64_t digest(const br_char_table *table)
{
    uint64_t result = 0xcbf29ce484222325;
    for (uint32_t c = 0; c < BR_CHARS; c++) {
        unsigned bits = br__bits_of_char(table, c);
        result = (result ^ (bits & 255)) * 0x100000001b3;
        result = (result ^ bits >> 8) * 0x100000001b3;
    }
    return result;
}

Test(char_table, bert)
{
    cr_assert_eq(digest(&br__bert_chars), 0x9b9a0a200cf98c76);
}

Test(char_table, bpe)
{
    cr_assert_eq(digest(&br__bpe_chars), 0x42d55fdfb0fe2bd4);
}

Test(char_table, words)
{
    cr_assert_eq(digest(&br__word_chars), 0x407afcb27df2a7c4);
}

Test(char_table, normal)
{
    cr_assert_eq(digest(&br__normal_chars), 0x6104d38915a6e667);
}

Test(char_table, white_space)
{
    for (uint32_t c = 0; c < BR_CHARS; c++) {
        bool white = (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
                     (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f ||
                     c == 0x205f || c == 0x3000;
        cr_assert_eq(br__is_white(c), white, "U+%04X", (unsigned)c);
    }
}

Test(char_table, grapheme)
{
    cr_assert_eq(digest(&br__grapheme_chars), 0x492367f8e07d2c0b);
}
