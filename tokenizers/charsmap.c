/* tokenizers/charsmap.c - SentencePiece's precompiled_charsmap: reading, checking, look-up.
 *
 * The packed form is the trie's size in bytes (u32), the units of a double-array trie (u32,
 * little-endian), and the texts. An inner unit has its label, a byte, in bits 0 .. 7, a flag in bit
 * 8 that it has a leaf, and in the other bits an offset that is combined with the unit's index to
 * its base: its child for byte b is at base ^ b, its leaf at the base itself. A leaf has bit 31 set
 * and an index into the texts.
 *
 * Reading walks all reachable units once, so that look-ups can neither leave the arrays nor loop.
 */
#include "tokenizers/charsmap.h"

#include <string.h>

static const uint32_t LEAF = 1u << 31;
enum { NONE = -1, FEW_BYTES = 1 << 28 };

static bool is_leaf(uint32_t unit)
{
    return unit & LEAF;
}

static bool has_leaf(uint32_t unit)
{
    return unit >> 8 & 1;
}

static size_t base_of(const br_charsmap *m, size_t at)
{
    uint32_t unit = m->units[at];
    return at ^ ((size_t)(unit >> 10) << ((unit & 1 << 9) >> 6));
}

/* ---- Checking -------------------------------------------------------------------------------- */

/* Units with the same base have the same children: strings with common suffixes share them.
 * Therefore the check walks bases, not units. first[b] is the head of the list of the units whose
 * parents have base b. */
typedef struct family {
    int32_t *first, *next;
    int32_t *path, *child; /* the bases from the root to here, and the next child of each */
    uint8_t *state;        /* of each base: NEW, OPEN while it is on the path, or DONE */
} family;

enum { NEW, OPEN, DONE };

static bool new_family(family *f, const br_charsmap *m)
{
    *f = (family){ .first = br_malloc(m->n * sizeof *f->first),
                   .next = br_malloc(m->n * sizeof *f->next),
                   .path = br_malloc(m->n * sizeof *f->path),
                   .child = br_malloc(m->n * sizeof *f->child),
                   .state = br_calloc(m->n, sizeof *f->state) };
    if (!f->first || !f->next || !f->path || !f->child || !f->state)
        return false;
    for (size_t i = 0; i < m->n; i++)
        f->first[i] = NONE;
    for (size_t i = 1; i < m->n; i++) {
        size_t label = m->units[i] & 0xff, base = i ^ label;
        if (is_leaf(m->units[i]) || label == 0 || base >= m->n)
            continue;
        f->next[i] = f->first[base];
        f->first[base] = (int32_t)i;
    }
    return true;
}

static void free_family(family *f)
{
    br_free(f->first);
    br_free(f->next);
    br_free(f->path);
    br_free(f->child);
    br_free(f->state);
}

static const char *check_leaf(const br_charsmap *m, size_t at)
{
    if (at >= m->n || !is_leaf(m->units[at]))
        return "has a trie in which a leaf is missing";
    size_t place = m->units[at] & ~LEAF;
    if (place >= m->n_texts || ((unsigned char)m->texts[place] & 0xc0) == 0x80)
        return "has a trie with a leaf that points outside the texts or into a character";
    return NULL;
}

/* Visits a unit. Returns a description of its mistake, or puts its base on the path if it is new.
 */
static const char *visit(const br_charsmap *m, family *f, size_t at, size_t *depth)
{
    size_t base = base_of(m, at);
    const char *what = has_leaf(m->units[at]) ? check_leaf(m, base) : NULL;
    if (what || base >= m->n || f->state[base] == DONE)
        return what;
    if (f->state[base] == OPEN)
        return "has a trie with a cycle";
    f->state[base] = OPEN;
    f->child[*depth] = f->first[base];
    f->path[(*depth)++] = (int32_t)base;
    return NULL;
}

static const char *walk(const br_charsmap *m, family *f)
{
    size_t depth = 0;
    if (is_leaf(m->units[0]))
        return "has a trie whose root is a leaf";
    const char *what = visit(m, f, 0, &depth);
    while (!what && depth > 0) {
        int32_t child = f->child[depth - 1];
        if (child == NONE) {
            f->state[f->path[--depth]] = DONE;
            continue;
        }
        f->child[depth - 1] = f->next[child];
        what = visit(m, f, (size_t)child, &depth);
    }
    return what;
}

static const char *check_texts(const br_charsmap *m)
{
    if (m->n_texts == 0 || m->texts[m->n_texts - 1] != 0)
        return "has texts without a NUL at the end";
    for (size_t i = 0; i < m->n_texts;) {
        uint32_t c;
        bool valid;
        i += (size_t)br__char_read(m->texts + i, m->texts + m->n_texts, &c, &valid);
        if (!valid)
            return "has texts that are not valid UTF-8";
    }
    return NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

bool br__charsmap_read(br_charsmap *m, const uint8_t *bytes, size_t n, const char **what)
{
    *m = (br_charsmap){ 0 };
    *what = NULL;
    if (n == 0)
        return true;
    size_t size = n < 4 ? 0 : read_u32(bytes);
    if (n > FEW_BYTES || size == 0 || size % 4 != 0 || size > n - 4) {
        *what = "is truncated, or its trie's size is wrong";
        return true;
    }
    m->n = size / 4;
    m->n_texts = n - 4 - size;
    m->units = br_malloc(size);
    m->texts = br_malloc(m->n_texts + 1);
    if (!m->units || !m->texts)
        return false;
    for (size_t i = 0; i < m->n; i++)
        m->units[i] = read_u32(bytes + 4 + 4 * i);
    memcpy(m->texts, bytes + 4 + size, m->n_texts);
    family f;
    bool ok = new_family(&f, m);
    if (ok)
        *what = check_texts(m);
    if (ok && !*what)
        *what = walk(m, &f);
    free_family(&f);
    return ok;
}

/* Returns the six bits of a base64 letter, or -1 if it is not one. */
static int bits_of(char letter)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *p = letter ? strchr(letters, letter) : NULL;
    return p ? (int)(p - letters) : -1;
}

/* Decodes base64. Returns the number of bytes, or -1 if the text is not base64. */
static int64_t decode_base64(const char *text, size_t n, uint8_t *bytes)
{
    int64_t count = 0;
    uint32_t held = 0;
    if (n % 4 != 0)
        return -1;
    size_t padding =
        n == 0 ? 0 : (size_t)(text[n - 1] == '=') + (text[n - 2] == '=' && text[n - 1] == '=');
    for (size_t i = 0; i < n - padding; i++) {
        int bits = bits_of(text[i]);
        if (bits < 0)
            return -1;
        held = held << 6 | (uint32_t)bits;
        if (i % 4 > 0)
            bytes[count++] = (uint8_t)(held >> (6 - 2 * (i % 4)));
    }
    return count;
}

bool br__charsmap_read_base64(br_charsmap *m, const char *text, size_t n, const char **what)
{
    *m = (br_charsmap){ 0 };
    *what = NULL;
    uint8_t *bytes = br_malloc(n + 1);
    int64_t count = bytes ? decode_base64(text, n, bytes) : 0;
    if (count < 1)
        *what = count < 0 ? "is not base64" : "is empty";
    bool ok = bytes && (*what || br__charsmap_read(m, bytes, (size_t)count, what));
    br_free(bytes);
    return ok;
}

void br__charsmap_free(br_charsmap *m)
{
    br_free(m->units);
    br_free(m->texts);
}

/* ---- Look-up --------------------------------------------------------------------------------- */

/* Moves from the unit *at along the bytes of a code point. Returns false if there is no such path.
 */
static bool go(const br_charsmap *m, size_t *at, uint32_t c)
{
    char utf8[4];
    int n = br__char_write(c, utf8);
    for (int i = 0; i < n; i++) {
        size_t label = (unsigned char)utf8[i], next = base_of(m, *at) ^ label;
        if (label == 0 || next >= m->n || (m->units[next] & (LEAF | 0xff)) != label)
            return false;
        *at = next;
    }
    return true;
}

const char *br__charsmap_find(const br_charsmap *m, const br_char *chars, int64_t count,
                              bool longest, int64_t *used)
{
    const char *found = NULL;
    size_t at = 0;
    for (int64_t i = 0; m->n > 0 && i < count && go(m, &at, chars[i].c); i++) {
        if (!has_leaf(m->units[at]))
            continue;
        found = m->texts + (m->units[base_of(m, at)] & ~LEAF);
        *used = i + 1;
        if (!longest)
            break;
    }
    return found;
}
