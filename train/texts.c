/* train/texts.c - reads labelled texts and converts their words to ids. */
#include "train/texts.h"

#include "common/text.h"
#include "tokenizers/tokenizer_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Words ----------------------------------------------------------------------------------- */

/* Appends the lower-cased code point to the word if there is room. */
static size_t append(char word[TEXTS_WORD], size_t n, uint32_t c, unsigned kind)
{
    uint32_t small[2] = { c };
    int count = kind & BR_CHAR_UPPER ? br__char_lower(c, small) : 1;
    for (int i = 0; i < count && n + 4 < TEXTS_WORD; i++)
        n += (size_t)br__char_write(small[i], word + n);
    return n;
}

size_t texts_next_word(const char **p, const char *end, char word[TEXTS_WORD])
{
    size_t n = 0;
    while (*p < end) {
        uint32_t c;
        bool valid;
        int length = br__char_read(*p, end, &c, &valid);
        unsigned kind = br__char_kind(c);
        bool alone = kind & (BR_CHAR_PUNCTUATION | BR_CHAR_CHINESE);
        if (n > 0 && (alone || (kind & BR_CHAR_SPACE)))
            break;
        *p += length;
        if (!(kind & (BR_CHAR_SPACE | BR_CHAR_DROP)))
            n = append(word, n, c, kind);
        if (alone)
            break;
    }
    word[n] = 0;
    return n;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Returns a description of the error in a line with the label [line, tab) and the text [tab+1,
 * end); NULL if the line is valid. */
static const char *line_error(const char *line, const char *tab, const char *end)
{
    char word[TEXTS_WORD];
    if (!tab)
        return "has no tab between a label and a text";
    if (tab == line)
        return "has no label";
    for (const char *p = line; p < end;) {
        uint32_t c;
        bool valid;
        p += br__char_read(p, end, &c, &valid);
        if (!valid)
            return "is not UTF-8";
        if (c == 0)
            return "contains a NUL";
    }
    const char *text = tab + 1;
    return texts_next_word(&text, end, word) == 0 ? "has no word" : NULL;
}

static bool add_text(texts *t, int64_t label, const char *text, const char *end)
{
    if (t->count == t->capacity) {
        int64_t capacity = t->capacity ? 2 * t->capacity : 1024;
        labelled_text *items = realloc(t->items, (size_t)capacity * sizeof *items);
        if (!items) {
            br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " texts", capacity);
            return false;
        }
        t->items = items;
        t->capacity = capacity;
    }
    t->items[t->count++] = (labelled_text){ label, text, (size_t)(end - text) };
    return true;
}

static bool read_lines(texts *t, size_t length)
{
    const char *end = t->memory + length, *at = text_first_line(t->memory, end);
    br_text line;
    for (int64_t number = 1; text_next_line(&at, end, '\n', &line); number++) {
        const char *text = line.data, *next = text + line.length;
        const char *tab = memchr(text, '\t', (size_t)line.length);
        const char *wrong = line_error(text, tab, next);
        if (wrong) {
            br_raise(BR_ERROR_FORMAT, "line %" PRId64 " of the texts %s", number, wrong);
            return false;
        }
        int64_t label = br_vocab_add(t->labels, text, (size_t)(tab - text));
        if (label < 0 || !add_text(t, label, tab + 1, next))
            return false;
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Renumbers the labels in sorted order. */
static bool sort_labels(texts *t)
{
    int64_t n = br_vocab_size(t->labels);
    const char **names = calloc((size_t)n, sizeof *names);
    br_vocab *sorted = br_vocab_new();
    for (int64_t i = 0; names && i < n; i++)
        names[i] = br_vocab_word(t->labels, i);
    if (names)
        qsort(names, (size_t)n, sizeof *names, by_text);
    else
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " labels", n);
    for (int64_t i = 0; i < n && !br_failed(); i++)
        br_vocab_add(sorted, names[i], strlen(names[i]));
    for (int64_t i = 0; i < t->count && !br_failed(); i++) {
        const char *name = br_vocab_word(t->labels, t->items[i].label);
        t->items[i].label = br_vocab_find(sorted, name, strlen(name));
    }
    free(names);
    br_vocab_free(t->labels);
    t->labels = sorted;
    return !br_failed();
}

bool texts_read(texts *t, const char *data, size_t length)
{
    *t = (texts){ .memory = malloc(length + 1), .labels = br_vocab_new() };
    if (!t->memory)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a text of %zu bytes", length);
    if (br_failed())
        return false;
    memcpy(t->memory, data, length);
    if (!read_lines(t, length))
        return false;
    if (br_vocab_size(t->labels) < 2)
        br_raise(BR_ERROR_FORMAT,
                 "%" PRId64 " texts with %" PRId64 " labels, but at least 2 labels are required",
                 t->count, br_vocab_size(t->labels));
    return !br_failed() && sort_labels(t);
}

void texts_free(texts *t)
{
    br_vocab_free(t->labels);
    free(t->items);
    free(t->memory);
}

/* ---- Ids ------------------------------------------------------------------------------------- */

/* Words and their counts. */
typedef struct counter {
    br_vocab *words;
    int64_t *counts, capacity;
} counter;

static bool count_word(counter *c, const char *word, size_t length)
{
    int64_t id = br_vocab_add(c->words, word, length);
    if (id >= c->capacity) {
        int64_t capacity = c->capacity ? 2 * c->capacity : 1024;
        int64_t *counts = realloc(c->counts, (size_t)capacity * sizeof *counts);
        if (!counts) {
            br_raise(BR_ERROR_MEMORY, "cannot allocate memory to count %" PRId64 " words",
                     capacity);
            return false;
        }
        memset(counts + c->capacity, 0, (size_t)(capacity - c->capacity) * sizeof *counts);
        c->counts = counts;
        c->capacity = capacity;
    }
    if (id >= 0)
        c->counts[id]++;
    return id >= 0;
}

static bool count_text(counter *c, const labelled_text *text)
{
    const char *p = text->text, *end = p + text->length;
    char word[TEXTS_WORD];
    for (size_t n; (n = texts_next_word(&p, end, word)) > 0;)
        if (!count_word(c, word, n))
            return false;
    return true;
}

static br_vocab *frequent_words(const counter *c, int64_t min_count)
{
    br_vocab *vocab = br_vocab_new();
    br_vocab_add(vocab, "[PAD]", 5);
    br_vocab_add(vocab, "[UNK]", 5);
    br_vocab_add(vocab, "[CLS]", 5);
    for (int64_t i = 0; i < br_vocab_size(c->words) && !br_failed(); i++) {
        const char *word = br_vocab_word(c->words, i);
        if (c->counts[i] >= min_count)
            br_vocab_add(vocab, word, strlen(word));
    }
    return vocab;
}

br_vocab *texts_vocab(const texts *t, int64_t n, const int64_t *numbers, int64_t min_count)
{
    counter c = { .words = br_vocab_new() };
    for (int64_t i = 0; i < n && !br_failed(); i++)
        count_text(&c, &t->items[numbers[i]]);
    br_vocab *vocab = frequent_words(&c, min_count);
    br_vocab_free(c.words);
    free(c.counts);
    if (!br_failed())
        return vocab;
    br_vocab_free(vocab);
    return NULL;
}

static void put_ids(const labelled_text *text, const br_vocab *vocab, int64_t capacity,
                    int64_t *ids)
{
    const char *p = text->text, *end = p + text->length;
    char word[TEXTS_WORD];
    size_t n;
    for (int64_t i = 0; i < capacity && (n = texts_next_word(&p, end, word)) > 0; i++) {
        int64_t id = br_vocab_find(vocab, word, n);
        ids[i] = id < 0 ? TEXTS_UNKNOWN : id;
    }
}

br_tensor *texts_ids(const texts *t, const br_vocab *vocab, int64_t length, bool classify)
{
    br_tensor *ids = br_full(BR_SHAPE(t->count, length), TEXTS_PADDING, BR_I64);
    int64_t *row = br_data_i64(ids);
    for (int64_t i = 0; row && i < t->count; i++, row += length) {
        if (classify)
            row[0] = TEXTS_CLASSIFY;
        put_ids(&t->items[i], vocab, length - classify, row + classify);
    }
    return ids;
}

br_tensor *texts_labels(const texts *t)
{
    br_tensor *labels = br_empty(BR_SHAPE(t->count), BR_I64);
    int64_t *values = br_data_i64(labels);
    for (int64_t i = 0; values && i < t->count; i++)
        values[i] = t->items[i].label;
    return labels;
}
