/* tokenizers/decode.c - decoding: the text of ids, and the clean-up of its spaces. */
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <string.h>

bool br__tokens_length(const br_tokenizer *t, int64_t n, const int64_t *ids, size_t *length)
{
    *length = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *token = br_tokenizer_token(t, ids[i]);
        if (!token)
            return false;
        *length += strlen(token);
    }
    return true;
}

/* Removes the spaces at the ends of every occurrence of `pattern`, which begins with a space.
 * Returns the new length of the text. */
static int64_t remove_spaces(char *text, int64_t length, const char *pattern)
{
    int64_t n = (int64_t)strlen(pattern), to = 0;
    for (int64_t i = 0; i < length;) {
        bool found = i + n <= length && memcmp(text + i, pattern, (size_t)n) == 0;
        int64_t kept = found ? n - 1 - (pattern[n - 1] == ' ') : 1;
        memmove(text + to, text + i + found, (size_t)kept);
        to += kept;
        i += found ? n : 1;
    }
    text[to] = 0;
    return to;
}

/* Cleans a text up as clean_up_tokenization_spaces of transformers does: one pattern after the
 * other, so that " n ' t" becomes "n't". */
static int64_t clean_up(char *text, int64_t length)
{
    static const char *const patterns[] = { " .",   " ?",  " !",  " ,",   " ' ",
                                            " n't", " 'm", " 's", " 've", " 're" };
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        length = remove_spaces(text, length, patterns[i]);
    return length;
}

char *br__decode_uncleaned(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special,
                           int64_t *length)
{
    return (t->spaced ? br__decode_pieces : t->kind->decode)(t, n, ids, skip_special, length);
}

char *br_tokenizer_decode(const br_tokenizer *t, int64_t n, const int64_t *ids, bool skip_special)
{
    return br_tokenizer_decode_text(t, n, ids, skip_special, NULL);
}

char *br_tokenizer_decode_text(const br_tokenizer *t, int64_t n, const int64_t *ids,
                               bool skip_special, int64_t *length)
{
    int64_t found = 0;
    if (length)
        *length = 0;
    if (br_failed())
        return NULL;
    if (!t || n < 0 || (n > 0 && !ids))
        return br_fail(BR_ERROR_ARGUMENT, "tokenizer_decode",
                       "tokenizer is %s, n is %" PRId64
                       ", ids is %s: tokenizer and ids must not be NULL, n must not be negative",
                       t ? "not NULL" : "NULL", n, ids ? "not NULL" : "NULL");
    char *text = br__decode_uncleaned(t, n, ids, skip_special, &found);
    if (text && t->cleans_up)
        found = clean_up(text, found);
    if (text && length)
        *length = found;
    return text;
}
