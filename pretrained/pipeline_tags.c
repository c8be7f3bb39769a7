/* pretrained/pipeline_tags.c - see pipeline_tags.h. */
#include "pretrained/pipeline_tags.h"

#include "nn/nn_internal.h"
#include "tensor/memory.h"
#include "tokenizers/tokenizer_internal.h"

#include <stdlib.h>
#include <string.h>

/* A token, or a word, with its best label. */
typedef struct tagged {
    br_span bytes, chars;
    int64_t label;
    double score;
    bool continues_word;
} tagged;

/* The tokens of a part of a text. */
typedef struct part {
    const br_tagged_part *of;
    int64_t n;
    tagged *tokens;
    int64_t *rows; /* index of each token's probabilities */
} part;

/* ---- Tokens ---------------------------------------------------------------------------------- */

static int64_t best_of(const float *row, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

static int64_t count_chars(const char *text)
{
    int64_t n = 0;
    for (; *text; text++)
        n += (*text & 0xC0) != 0x80;
    return n;
}

/* Returns true if a space is at the span's first character or directly before it. */
static bool has_space(const br_text *text, br_span bytes)
{
    bool at = bytes.begin < text->length && text->data[bytes.begin] == ' ';
    return at || text->data[bytes.begin - 1] == ' ';
}

/* Returns true if token i continues the word of the token before it: "##ing", or a token that no
 * space precedes. */
static bool continues_word(const part *p, const br_encoding *e, int64_t i)
{
    const br_tokenizer *t = p->of->self->tokenizer;
    if (e->ids[i] == br_tokenizer_special_id(t, BR_TOKEN_UNK))
        return false;
    br_span chars = e->chars[i];
    if (t->kind == &br__word_pieces)
        return count_chars(br_tokenizer_token(t, e->ids[i])) != chars.end - chars.begin;
    return chars.begin > 0 && !has_space(&p->of->text, e->bytes[i]);
}

static void add_token(part *p, const br_encoding *e, int64_t i)
{
    int64_t labels = p->of->self->n_labels;
    const float *row = p->of->probabilities + i * labels;
    int64_t best = best_of(row, labels);
    p->rows[p->n] = i;
    p->tokens[p->n++] =
        (tagged){ e->bytes[i], e->chars[i], best, (double)row[best], continues_word(p, e, i) };
}

static bool read_tokens(part *p)
{
    const br_encoding *e = p->of->encoding;
    p->tokens = br_calloc((size_t)e->length, sizeof *p->tokens);
    p->rows = p->tokens ? br_calloc((size_t)e->length, sizeof *p->rows) : NULL;
    for (int64_t i = 0; p->rows && i < e->length; i++)
        if (!e->special_mask[i])
            add_token(p, e, i);
    return p->rows;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* Sets the label and the score to those of the mean of the probabilities of n tokens. */
static void average(const part *p, tagged *word, const int64_t *rows, int64_t n)
{
    int64_t labels = p->of->self->n_labels;
    word->score = -1;
    for (int64_t k = 0; k < labels; k++) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += (double)p->of->probabilities[rows[i] * labels + k];
        if (sum / (double)n > word->score) {
            word->score = sum / (double)n;
            word->label = k;
        }
    }
}

/* Returns the word of n tokens. */
static tagged join_word(const part *p, int64_t from, int64_t n)
{
    const tagged *tokens = p->tokens + from;
    tagged word = tokens[0];
    word.bytes.end = tokens[n - 1].bytes.end;
    word.chars.end = tokens[n - 1].chars.end;
    if (p->of->o->aggregation == BR_AGGREGATE_AVERAGE)
        average(p, &word, p->rows + from, n);
    for (int64_t i = 1; p->of->o->aggregation == BR_AGGREGATE_MAX && i < n; i++) {
        if (tokens[i].score <= word.score)
            continue;
        word.label = tokens[i].label;
        word.score = tokens[i].score;
    }
    return word;
}

/* Replaces the tokens by words. The first token begins a word, also if it continues one. */
static void join_words(part *p)
{
    int64_t words = 0;
    for (int64_t from = 0, end; from < p->n; from = end) {
        for (end = from + 1; end < p->n && p->tokens[end].continues_word;)
            end++;
        p->tokens[words++] = join_word(p, from, end - from);
    }
    p->n = words;
}

/* ---- Entities -------------------------------------------------------------------------------- */

static bool add_entity(br_entity_list *l, const char *label, const tagged *t)
{
    br_entities *e = l->entities;
    br_entity *items = br__grow(e->items, &l->capacity, e->count, sizeof *items);
    if (!items)
        return false;
    e->items = items;
    char *copy = br_strdup(label);
    if (copy)
        e->items[e->count++] = (br_entity){ copy, t->score, t->bytes, t->chars };
    return copy;
}

static const char *label_of(const part *p, const tagged *t)
{
    return p->of->self->labels[t->label];
}

/* Returns the label after "B-" or "I-". */
static const char *tag_of(const char *label)
{
    bool has_prefix = (label[0] == 'B' || label[0] == 'I') && label[1] == '-';
    return has_prefix ? label + 2 : label;
}

static bool continues_entity(const part *p, const tagged *before, const tagged *t)
{
    const char *label = label_of(p, t);
    bool begins = label[0] == 'B' && label[1] == '-';
    return !begins && strcmp(tag_of(label_of(p, before)), tag_of(label)) == 0;
}

/* Returns the entity of n tokens or words. */
static tagged join_entity(const tagged *tokens, int64_t n)
{
    tagged entity = tokens[0];
    entity.bytes.end = tokens[n - 1].bytes.end;
    entity.chars.end = tokens[n - 1].chars.end;
    for (int64_t i = 1; i < n; i++)
        entity.score += tokens[i].score;
    entity.score /= (double)n;
    return entity;
}

/* Adds the entity of n tokens or words unless its label is ignored. */
static bool add_joined(br_entity_list *l, const part *p, const tagged *tokens, int64_t n)
{
    const char *label = label_of(p, tokens), *dash = strchr(label, '-');
    if (p->of->o->aggregation != BR_AGGREGATE_NONE && dash)
        label = dash + 1;
    tagged entity = join_entity(tokens, n);
    return strcmp(label, p->of->o->ignored_label) == 0 || add_entity(l, label, &entity);
}

static bool add_entities(br_entity_list *l, const part *p)
{
    bool alone = p->of->o->aggregation == BR_AGGREGATE_NONE, ok = true;
    for (int64_t from = 0, end; ok && from < p->n; from = end) {
        for (end = from + 1;
             !alone && end < p->n && continues_entity(p, &p->tokens[end - 1], &p->tokens[end]);)
            end++;
        ok = add_joined(l, p, p->tokens + from, end - from);
    }
    return ok;
}

bool br__tag_part(const br_tagged_part *of, br_entity_list *l)
{
    part p = { .of = of };
    bool ok = read_tokens(&p);
    if (ok && of->o->aggregation > BR_AGGREGATE_SIMPLE)
        join_words(&p);
    ok = ok && add_entities(l, &p);
    br_free(p.tokens);
    br_free(p.rows);
    return ok;
}

/* ---- Parts that overlap ---------------------------------------------------------------------- */

static int by_begin(const void *a, const void *b)
{
    const br_entity *x = a, *y = b;
    if (x->chars.begin != y->chars.begin)
        return x->chars.begin < y->chars.begin ? -1 : 1;
    return 0;
}

/* Returns true if entity `b` replaces `a`, with which it overlaps: if it is longer, or equally long
 * and its score is higher. */
static bool is_better(const br_entity *b, const br_entity *a)
{
    int64_t old = a->chars.end - a->chars.begin, new = b->chars.end - b->chars.begin;
    return new > old || (new == old && b->score > a->score);
}

void br__keep_best_entities(br_entities *all)
{
    int64_t kept = 0;
    if (all->count == 0)
        return;
    qsort(all->items, (size_t)all->count, sizeof *all->items, by_begin);
    for (int64_t i = 1; i < all->count; i++) {
        br_entity *last = &all->items[kept], *next = &all->items[i], other = *next;
        if (next->chars.begin >= last->chars.end) {
            all->items[++kept] = other;
        } else if (is_better(next, last)) {
            br_free(last->label);
            *last = other;
        } else {
            br_free(next->label);
        }
    }
    all->count = kept + 1;
}

void br_entities_free(br_entities *entities)
{
    for (int64_t i = 0; entities && i < entities->count; i++)
        br_free(entities->items[i].label);
    if (entities)
        br_free(entities->items);
    br_free(entities);
}
