/* pretrained/stop_strings.c - tells whether the last token of a row completes a stop string, by the
 * rule of transformers' StopStringCriteria: the string's last byte is in the text of that token. */
#include "pretrained/generate_internal.h"
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <string.h>

/* The text of a token depends on the tokens before it, such as whether its space is dropped. */
enum { TOKENS_BEFORE = 2 };

bool br__check_stop_strings(const char *op, const br_generate_options *o)
{
    if (o->n_stop_strings < 0 || (o->n_stop_strings > 0 && !o->stop_strings))
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "n_stop_strings is %" PRId64 " and stop_strings is %s: n_stop_strings must "
                       "be at least 0, and 0 if stop_strings is NULL",
                       o->n_stop_strings, o->stop_strings ? "not NULL" : "NULL");
    for (int64_t i = 0; i < o->n_stop_strings; i++)
        if (!o->stop_strings[i] || !*o->stop_strings[i])
            return br_fail(BR_ERROR_ARGUMENT, op, "stop_strings[%" PRId64 "] is %s", i,
                           o->stop_strings[i] ? "empty" : "NULL");
    return o->n_stop_strings == 0 || br__required(op, "tokenizer with stop_strings", o->tokenizer);
}

int64_t br__stop_string_reach(const br_generate_options *o)
{
    size_t longest = 0;
    for (int64_t i = 0; i < o->n_stop_strings; i++) {
        size_t n = strlen(o->stop_strings[i]);
        longest = n > longest ? n : longest;
    }
    /* Each token has at least a byte of text. */
    return (int64_t)longest + TOKENS_BEFORE;
}

/* Returns whether the text contains the string, with its end after the first `n` bytes. */
static bool ends_after(const char *text, size_t n, const char *string)
{
    size_t length = strlen(string);
    for (const char *p = text; (p = strstr(p, string)) != NULL; p++)
        if ((size_t)(p - text) + length > n)
            return true;
    return false;
}

/* Returns whether a string ends in what the last token adds to the text of the others. */
static bool is_completed(const br_generate_options *o, const char *before, const char *text)
{
    size_t same = 0;
    while (before[same] && before[same] == text[same])
        same++;
    for (int64_t i = 0; i < o->n_stop_strings; i++)
        if (ends_after(text, same, o->stop_strings[i]))
            return true;
    return false;
}

bool br__ends_in_stop_string(const br_generate_options *o, int64_t n, const int64_t *ids)
{
    const br_tokenizer *t = o->tokenizer;
    int64_t reach = br__stop_string_reach(o), length = 0, unused;
    if (o->n_stop_strings == 0 || !br_tokenizer_has_id(t, ids[n - 1]))
        return false;
    int64_t *last = br_calloc((size_t)reach, sizeof *last);
    for (int64_t i = n > reach ? n - reach : 0; last && i < n; i++)
        if (br_tokenizer_has_id(t, ids[i])) /* a model can have more ids than its tokenizer */
            last[length++] = ids[i];
    char *before = last ? br__decode_uncleaned(t, length - 1, last, false, &unused) : NULL;
    char *text = before ? br__decode_uncleaned(t, length, last, false, &unused) : NULL;
    bool ends = text && is_completed(o, before, text);
    br_free(before);
    br_free(text);
    br_free(last);
    return ends;
}
