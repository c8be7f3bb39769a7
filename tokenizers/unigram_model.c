/* tokenizers/unigram_model.c - builds a Unigram tokenizer from its pieces, for both file formats.
 */
#include "tokenizers/unigram_internal.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

enum { UNKNOWN_PENALTY = 10 };

br_unigram *br__unigram_begin(br_tokenizer *t)
{
    br_unigram *u = t->model = br_calloc(1, sizeof *u);
    t->kind = &br__unigram;
    t->one_type = true;
    return u && br__tokenizer_set_prefix(t, "") ? u : NULL;
}

bool br__unigram_add(br_tokenizer *t, const char *piece, size_t length, double score,
                     br_piece_kind kind)
{
    br_unigram *u = br__unigram_of(t);
    if ((u->size & (u->size - 1)) == 0) { /* the capacity is a power of two */
        size_t size = (size_t)u->size, capacity = size ? 2 * size : 1;
        double *scores = br__realloc(u->scores, size * sizeof *scores, capacity * sizeof *scores);
        u->scores = scores ? scores : u->scores;
        uint8_t *kinds = scores ? br__realloc(u->kinds, size, capacity) : NULL;
        u->kinds = kinds ? kinds : u->kinds;
        int32_t *same =
            kinds ? br__realloc(u->same, size * sizeof *same, capacity * sizeof *same) : NULL;
        u->same = same ? same : u->same;
        if (!same)
            return false;
    }
    u->scores[u->size] = score;
    u->kinds[u->size] = (uint8_t)kind;
    u->same[u->size] = (int32_t)br__word_id(&t->all, piece, length);
    return br__tokenizer_add(t, piece, length, u->size++);
}

/* Computes the bounds of the scores. The fast tokenizer uses all scores; SentencePiece uses those
 * of normal pieces, as floats. */
static void set_bounds(br_unigram *u)
{
    double min_score = u->sentencepiece ? (double)FLT_MAX : (double)INFINITY;
    u->max_score = (double)FLT_MIN;
    for (int64_t id = 0; id < u->size; id++) {
        if (u->sentencepiece && u->kinds[id] != BR_PIECE_NORMAL)
            continue;
        min_score = fmin(min_score, u->scores[id]);
        u->max_score = fmax(u->max_score, u->scores[id]);
    }
    min_score -= UNKNOWN_PENALTY;
    u->unknown_score = u->sentencepiece ? (double)(float)min_score : min_score;
}

static void set_bytes(br_tokenizer *t)
{
    br_unigram *u = br__unigram_of(t);
    for (int byte = 0; byte < 256; byte++) {
        char token[8];
        int n = snprintf(token, sizeof token, "<0x%02X>", byte);
        int64_t id = br__word_id(&t->all, token, (size_t)n);
        u->byte_ids[byte] = id < u->size ? id : -1;
    }
}

/* Gives every piece its token. The index has only the last of equal pieces, but the unknown piece
 * may be an earlier one, and it is decoded. */
static void name_equal_pieces(br_tokenizer *t)
{
    const br_unigram *u = br__unigram_of(t);
    for (int64_t id = u->size - 1; id >= 0; id--)
        if (u->same[id] >= 0)
            t->tokens[u->same[id]] = t->tokens[id];
}

/* Builds a trie of SentencePiece's user-defined pieces and, unless `user` is set, normal ones; for
 * the fast tokenizer, of all pieces. */
static bool build(const br_tokenizer *t, br_piece_trie *trie, bool user)
{
    const br_unigram *u = br__unigram_of(t);
    const char **tokens = br_calloc((size_t)u->size, sizeof *tokens);
    for (int64_t id = 0; tokens && id < u->size; id++)
        if (!u->sentencepiece || u->kinds[id] == BR_PIECE_USER ||
            (!user && u->kinds[id] == BR_PIECE_NORMAL))
            tokens[id] = t->tokens[id];
    bool ok = tokens && br__piece_trie_build(trie, tokens, u->size);
    br_free(tokens);
    return ok;
}

void br__unigram_mark(br_tokenizer *t)
{
    br_unigram *u = br__unigram_of(t);
    name_equal_pieces(t);
    for (int64_t i = 0; i < t->n_added; i++)
        if (t->added[i].special && t->added[i].id < u->size)
            u->kinds[t->added[i].id] = BR_PIECE_SPECIAL;
}

bool br__unigram_finish(br_tokenizer *t)
{
    br_unigram *u = br__unigram_of(t);
    t->model_size = u->size;
    set_bounds(u);
    set_bytes(t);
    br__unigram_classify(u);
    br__unigram_mark(t);
    return build(t, &u->trie, false) && (!u->sentencepiece || build(t, &u->user, true));
}
