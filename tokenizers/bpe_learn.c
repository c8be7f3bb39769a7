/* tokenizers/bpe_learn.c - learns the merges of a byte-level BPE.
 *
 * Sennrich et al., 2016: the pair of tokens that is most frequent in the words becomes a token,
 * again and again. The order of equal counts, and the counts themselves in words such as "aaa",
 * are those of tokenizers' BpeTrainer:
 *
 * - Counts are corrected by the pairs beside each merged pair. The entry of a pair in the queue may
 *   be out of date; it is corrected when it is the first one.
 * - An entry lists the words that had the pair when it was made. A pair whose token existed before,
 *   from two other tokens, can get entries for further words later, and is then merged twice. */
#include "tokenizers/bpe_internal.h"
#include "tokenizers/bpe_train.h"

#include <inttypes.h>
#include <string.h>

/* ---- State ----------------------------------------------------------------------------------- */

typedef struct token_word {
    int32_t n, *ids;
} token_word;

/* Indices of words, in the order in which they were found. */
typedef struct word_list {
    int64_t n, capacity, *items;
} word_list;

/* A pair of tokens. */
typedef struct pair {
    uint64_t key; /* left << 32 | right */
    int64_t count;
    word_list found; /* words that got the pair in the current step */
} pair;

typedef struct entry {
    uint64_t key;
    int64_t count;
    word_list where;
} entry;

typedef struct learner {
    br_learned_bpe *out;
    const br_bpe_train_options *options;
    const br_counted_words *words;
    token_word *split; /* of each word */
    int32_t *memory;   /* of all ids */
    pair *pairs;
    int64_t n_pairs, pair_capacity;
    int64_t *table; /* places of pairs, -1 if free; the size is a power of two */
    uint64_t mask;
    entry *queue; /* a heap: the first entry is the next merge */
    int64_t n_queue, queue_capacity;
    word_list changed; /* indices of the pairs whose `found` is not empty */
} learner;

static uint64_t key_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static bool append(word_list *list, int64_t item)
{
    int64_t *items = br__grow(list->items, &list->capacity, list->n, sizeof *items);
    if (!items)
        return false;
    list->items = items;
    items[list->n++] = item;
    return true;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static uint64_t hash_of(uint64_t key)
{
    key ^= key >> 32;
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 29;
}

static bool grow_table(learner *l)
{
    uint64_t size = l->table ? 2 * (l->mask + 1) : 1024;
    int64_t *table = br_malloc(size * sizeof *table);
    if (!table)
        return false;
    memset(table, 0xff, size * sizeof *table);
    for (int64_t i = 0; i < l->n_pairs; i++) {
        uint64_t place = hash_of(l->pairs[i].key) & (size - 1);
        while (table[place] >= 0)
            place = (place + 1) & (size - 1);
        table[place] = i;
    }
    br_free(l->table);
    l->table = table;
    l->mask = size - 1;
    return true;
}

/* Returns the index of a pair, which is added if it is new; -1 on failure. */
static int64_t find_pair(learner *l, uint64_t key)
{
    if (2 * (uint64_t)l->n_pairs >= l->mask && !grow_table(l))
        return -1;
    uint64_t place = hash_of(key) & l->mask;
    for (; l->table[place] >= 0; place = (place + 1) & l->mask)
        if (l->pairs[l->table[place]].key == key)
            return l->table[place];
    pair *pairs = br__grow(l->pairs, &l->pair_capacity, l->n_pairs, sizeof *pairs);
    if (!pairs)
        return -1;
    l->pairs = pairs;
    pairs[l->n_pairs] = (pair){ .key = key };
    return l->table[place] = l->n_pairs++;
}

/* Adds a word's count to that of a pair. A pair that the word has gained is found there. */
static bool change(learner *l, int32_t left, int32_t right, int64_t word, int sign)
{
    int64_t i = find_pair(l, key_of(left, right));
    if (i < 0)
        return false;
    pair *p = &l->pairs[i];
    p->count += sign * l->words->counts[word];
    if (sign < 0 || (p->found.n > 0 && p->found.items[p->found.n - 1] == word))
        return true;
    return (p->found.n > 0 || append(&l->changed, i)) && append(&l->pairs[i].found, word);
}

/* ---- The queue ------------------------------------------------------------------------------- */

/* The greatest count comes first, then the pair with the smallest ids. */
static bool comes_before(const entry *a, const entry *b)
{
    return a->count != b->count ? a->count > b->count : a->key < b->key;
}

static void swap(entry *a, entry *b)
{
    entry t = *a;
    *a = *b;
    *b = t;
}

static bool push(learner *l, entry e)
{
    entry *queue = br__grow(l->queue, &l->queue_capacity, l->n_queue, sizeof *queue);
    if (!queue)
        return false;
    l->queue = queue;
    int64_t i = l->n_queue++;
    queue[i] = e;
    for (; i > 0 && comes_before(&queue[i], &queue[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&queue[i], &queue[(i - 1) / 2]);
    return true;
}

/* Moves the first entry to its place, after its count has become smaller. */
static void sink(learner *l)
{
    for (int64_t i = 0, next; (next = 2 * i + 1) < l->n_queue; i = next) {
        next += next + 1 < l->n_queue && comes_before(&l->queue[next + 1], &l->queue[next]);
        if (!comes_before(&l->queue[next], &l->queue[i]))
            return;
        swap(&l->queue[i], &l->queue[next]);
    }
}

/* Removes the first entry, which the caller owns then. */
static entry pop(learner *l)
{
    entry first = l->queue[0];
    l->queue[0] = l->queue[--l->n_queue];
    sink(l);
    return first;
}

/* Enters the pairs that words have gained. */
static bool enter_changed(learner *l)
{
    bool ok = true;
    for (int64_t k = 0; ok && k < l->changed.n; k++) {
        pair *p = &l->pairs[l->changed.items[k]];
        if (p->count > 0)
            ok = push(l, (entry){ p->key, p->count, p->found });
        else
            br_free(p->found.items);
        if (ok)
            p->found = (word_list){ 0 };
    }
    l->changed.n = 0;
    return ok;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static bool add_token(learner *l, const char *text, size_t length)
{
    return br_vocab_add(l->out->tokens, text, length) >= 0;
}

/* Adds the special tokens, and then the tokens of all bytes, in the order of their code points. */
static bool add_first_tokens(learner *l)
{
    const br_bpe_train_options *o = l->options;
    bool ok = true;
    for (int64_t i = 0; ok && i < o->n_special_tokens; i++)
        ok = add_token(l, o->special_tokens[i], strlen(o->special_tokens[i]));
    for (uint32_t c = 0; ok && c < 0x200; c++) {
        char text[4];
        if (br__bpe_byte(c) >= 0)
            ok = add_token(l, text, (size_t)br__char_write(c, text));
    }
    return ok;
}

/* Divides all words into the tokens of their bytes, and counts the pairs. */
static bool split_words(learner *l)
{
    int64_t n = br_vocab_size(l->words->words), bytes = 0, at = 0, id_of[256];
    for (int byte = 0; byte < 256; byte++) {
        char text[4];
        int length = br__char_write(br__bpe_char((unsigned char)byte), text);
        id_of[byte] = br_vocab_find(l->out->tokens, text, (size_t)length);
    }
    for (int64_t i = 0; i < n; i++)
        bytes += (int64_t)strlen(br_vocab_word(l->words->words, i));
    l->split = br_calloc((size_t)n + 1, sizeof *l->split);
    l->memory = br_calloc((size_t)bytes + 1, sizeof *l->memory);
    bool ok = l->split && l->memory;
    for (int64_t i = 0; ok && i < n; i++) {
        token_word *word = &l->split[i];
        word->ids = l->memory + at;
        for (const char *p = br_vocab_word(l->words->words, i); ok && *p; p++, word->n++) {
            l->memory[at++] = (int32_t)id_of[(unsigned char)*p];
            if (word->n > 0)
                ok = change(l, word->ids[word->n - 1], word->ids[word->n], i, 1);
        }
    }
    return ok && enter_changed(l);
}

/* Joins each pair of two tokens in a word. */
static bool merge_word(learner *l, int64_t i, int32_t left, int32_t right, int32_t joined)
{
    token_word *w = &l->split[i];
    int32_t n = 0, *ids = w->ids;
    bool ok = true;
    for (int32_t k = 0; k < w->n; k++, n++) {
        bool found = ids[k] == left && k + 1 < w->n && ids[k + 1] == right;
        if (found && n > 0)
            ok = ok && change(l, ids[n - 1], left, i, -1) && change(l, ids[n - 1], joined, i, 1);
        if (found && k + 2 < w->n)
            ok = ok && change(l, right, ids[k + 2], i, -1) && change(l, joined, ids[k + 2], i, 1);
        k += found;
        ids[n] = found ? joined : ids[k];
    }
    w->n = n;
    return ok;
}

/* ---- Merges ---------------------------------------------------------------------------------- */

/* Returns the id of the token that joins two tokens. The token may exist. Returns -1 on failure. */
static int64_t join(learner *l, int32_t left, int32_t right)
{
    char *text = br_format("%s%s", br_vocab_word(l->out->tokens, left),
                           br_vocab_word(l->out->tokens, right));
    int64_t id = text ? br_vocab_add(l->out->tokens, text, strlen(text)) : -1;
    br_free(text);
    return id;
}

static bool add_merge(learner *l, int32_t left, int32_t right)
{
    br_learned_bpe *out = l->out;
    br_learned_merge *merges = br__grow(out->merges, &out->capacity, out->n_merges, sizeof *merges);
    if (!merges)
        return false;
    out->merges = merges;
    merges[out->n_merges++] = (br_learned_merge){ left, right, false };
    return true;
}

/* Makes the pair of an entry a token. */
static bool merge(learner *l, const entry *e)
{
    int32_t left = (int32_t)(e->key >> 32), right = (int32_t)(uint32_t)e->key;
    int64_t id = join(l, left, right);
    bool ok = id >= 0 && add_merge(l, left, right);
    for (int64_t k = 0; ok && k < e->where.n; k++)
        ok = merge_word(l, e->where.items[k], left, right, (int32_t)id);
    return ok && enter_changed(l);
}

/* Corrects the count of the first entry. Returns whether it was right. */
static bool is_current(learner *l)
{
    int64_t count = l->pairs[find_pair(l, l->queue[0].key)].count;
    if (l->queue[0].count == count)
        return true;
    entry e = pop(l);
    e.count = count;
    push(l, e); /* there is room */
    return false;
}

/* Marks the merges of a pair that was merged again. */
static bool mark_replaced(br_learned_bpe *out)
{
    br_vocab *seen = br_vocab_new();
    for (int64_t i = out->n_merges - 1; seen && i >= 0 && !br_failed(); i--) {
        char key[2 * sizeof(int32_t)];
        int64_t before = br_vocab_size(seen);
        memcpy(key, &out->merges[i].left, sizeof(int32_t));
        memcpy(key + sizeof(int32_t), &out->merges[i].right, sizeof(int32_t));
        out->merges[i].replaced = br_vocab_add(seen, key, sizeof key) < before;
    }
    br_vocab_free(seen);
    return !br_failed();
}

static bool learn(learner *l)
{
    if (!add_first_tokens(l) || !split_words(l))
        return false;
    while (l->n_queue > 0 && br_vocab_size(l->out->tokens) < l->options->vocab_size) {
        if (!is_current(l))
            continue;
        if (l->queue[0].count < 1 || l->queue[0].count < l->options->min_frequency)
            break;
        entry e = pop(l);
        bool ok = merge(l, &e);
        br_free(e.where.items);
        if (!ok)
            return false;
    }
    return mark_replaced(l->out);
}

static void free_learner(learner *l)
{
    for (int64_t i = 0; i < l->n_pairs; i++)
        br_free(l->pairs[i].found.items);
    for (int64_t i = 0; i < l->n_queue; i++)
        br_free(l->queue[i].where.items);
    br_free(l->pairs);
    br_free(l->queue);
    br_free(l->table);
    br_free(l->split);
    br_free(l->memory);
    br_free(l->changed.items);
}

bool br__bpe_learn(br_learned_bpe *out, const br_counted_words *words,
                   const br_bpe_train_options *options)
{
    *out = (br_learned_bpe){ .tokens = br_vocab_new() };
    learner l = { .out = out, .options = options, .words = words };
    bool ok = out->tokens && learn(&l);
    free_learner(&l);
    return ok;
}

void br__learned_bpe_end(br_learned_bpe *learned)
{
    br_vocab_free(learned->tokens);
    br_free(learned->merges);
}
