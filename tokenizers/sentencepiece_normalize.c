/* tokenizers/sentencepiece_normalize.c - SentencePiece's own normalization: the longest prefix that
 * is in its map is replaced, extra spaces are removed, and spaces become U+2581. A normalized code
 * point's offsets extend from the beginning of its source to the beginning of the next one's
 * source. */
#include "tokenizers/unigram_internal.h"

#include <string.h>

/* Finds the next part of the text and sets *used to its length. Returns its replacement, or NULL if
 * it stays as it is. */
static const char *next_part(const br_unigram *u, const br_char *chars, int64_t n, int64_t *used)
{
    const br_piece_node *node = u->user.count > 1 ? u->user.nodes : NULL;
    *used = 0;
    for (int64_t i = 0; node && i < n && (node = br__piece_trie_next(&u->user, node, chars[i].c));
         i++)
        if (node->id >= 0)
            *used = i + 1;
    if (*used > 0)
        return NULL;
    const char *text = br__charsmap_find(&u->charsmap, chars, n, true, used);
    *used = text ? *used : 1;
    return text;
}

/* Returns the number of code points at the beginning that are normalized to spaces, and therefore
 * removed. */
static int64_t leading_spaces(const br_unigram *u, const br_char *chars, int64_t n)
{
    int64_t first = 0;
    while (first < n) {
        int64_t used;
        const char *text = next_part(u, chars + first, n - first, &used);
        if (text ? strcmp(text, " ") != 0 : used > 1 || chars[first].c != ' ')
            break;
        first += used;
    }
    return first;
}

/* Appends a normalized part, without spaces that follow a space. Updates *after_space. */
static bool push_part(const br_unigram *u, const br_char_list *part, const br_char *from,
                      bool *after_space, br_char_list *to)
{
    int64_t i = 0;
    while (*after_space && i < part->count && part->items[i].c == ' ')
        i++;
    if (i < part->count)
        *after_space = !u->keep_spaces && part->items[part->count - 1].c == ' ';
    for (; i < part->count; i++) {
        br_char c = *from;
        c.c = part->items[i].c == ' ' ? BR_META : part->items[i].c;
        if (!br__push_char(to, c))
            return false;
    }
    return true;
}

static bool push_parts(const br_unigram *u, const br_char *chars, int64_t n, br_char_list *part,
                       br_char_list *to)
{
    bool after_space = !u->keep_spaces;
    for (int64_t i = 0, used; i < n; i += used) {
        const char *text = next_part(u, chars + i, n - i, &used);
        part->count = 0;
        bool ok = !text || br__push_text(part, text, &chars[i]);
        for (int64_t k = 0; ok && !text && k < used; k++)
            ok = br__push_char(part, chars[i + k]);
        if (!ok || !push_part(u, part, &chars[i], &after_space, to))
            return false;
    }
    return true;
}

/* Sets the end of each code point's offsets to the beginning of the next one's. */
static void set_ends(br_char_list *to, br_char end)
{
    for (int64_t i = to->count - 1; i >= 0; i--) {
        br_char *c = &to->items[i];
        c->bytes.end = end.bytes.begin;
        c->chars.end = end.chars.begin;
        end = *c;
    }
}

bool br__sentencepiece_normalize(const br_unigram *u, const br_char_list *text, br_char_list *to)
{
    const br_char *chars = text->items;
    int64_t n = text->count, first = u->keep_spaces ? 0 : leading_spaces(u, chars, n);
    to->count = 0;
    if (first == n)
        return true;
    br_char end = chars[n - 1], meta = chars[first];
    end.bytes.begin = end.bytes.end;
    end.chars.begin = end.chars.end;
    meta.c = BR_META;
    br_char_list part = { 0 };
    bool ok = (u->no_dummy_prefix || br__push_char(to, meta)) &&
              push_parts(u, chars + first, n - first, &part, to);
    br_free(part.items);
    while (!u->keep_spaces && to->count > 0 && to->items[to->count - 1].c == BR_META)
        end = to->items[--to->count];
    set_ends(to, end);
    return ok;
}
