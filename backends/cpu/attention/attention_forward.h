/* backends/cpu/attention/attention_forward.h - attention of a block of queries; part of variant.c
 * and attention_bf16.c.
 *
 *     O = softmax(S) V,  S = scale Q K^T + mask
 *
 * Keys are processed in blocks. An online softmax (FlashAttention-2; Dao, 2023) carries the running
 * maximum and sum of exponentials of each query from block to block, so that only one block of
 * scores exists at a time. Scores are stored transposed, one row per key, in panels of TILE_COLUMNS
 * queries. This is the panel layout of gemm_tile.h: the scores are the output of one product and
 * the input of the next without a copy. Vectors hold queries, so no horizontal sums are needed. For
 * each block of keys, V is packed once, and for each panel of queries: the scores S^T = K Q^T are
 * computed; the running maximum and sum are updated and S becomes exp(S - maximum); earlier results
 * in O are scaled if the maximum grew; and the product with V is added to O. O is divided by the
 * sums at the end. Keys are always in the same order, so a query's result depends on no other query
 * and no thread. */
#ifndef BR_KERNELS_ATTENTION_FORWARD_H
#define BR_KERNELS_ATTENTION_FORWARD_H

#ifdef BR_KERNEL_BF16
#    include "backends/cpu/attention/operands_bf16.h"
#else
#    include "backends/cpu/attention/operands.h"
#endif
#include "backends/cpu/math.h"
#include "backends/cpu/pointwise/dropout.h"
#include "backends/cpu/shape/transpose.h"
#include "tensor/min_max.h"

enum { QUERIES = BR_ATTENTION_BLOCK, KEYS = BR_ATTENTION_BLOCK };

/* Queries first .. first + n - 1 of a panel, and keys key .. key + keys - 1. The scores of each key
 * are a row; rows are `row` elements apart. */
typedef struct score_block {
    int64_t first, n, key, keys, row;
} score_block;

static inline real *row_at(const br_strided *x, int64_t row)
{
    return (real *)x->at + row * x->row;
}

/* Returns rows first .. first + n - 1 of an operand: where they are, or widened in `space`. */
static br_strided read_rows(const br_attention_work *w, const br_strided *x, int64_t first,
                            int64_t n, int64_t columns, real *space)
{
    if (!w->widen)
        return (br_strided){ row_at(x, first), x->row, x->column };
    w->widen(w, x, first, n, 0, columns, (float *)(void *)space);
    return (br_strided){ space, columns, 1 };
}

/* ---- Products with panels -------------------------------------------------------------------- */

/* Returns the elements of the panels of a right operand [k, n]. */
static int64_t panel_elements(int64_t k, int64_t n)
{
    return (n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS * panel_rows(k);
}

/* Computes C [m, n] = A B, or adds A B to C, with the first m rows of A. B is packed into panels
 * that are `step` elements apart. Only the rows of each panel for the first A.k elements are used.
 */
static void multiply_panels(int64_t m, int64_t n, const left_operand *a, const real *panels,
                            int64_t step, real *c, int64_t c_row, bool accumulate)
{
    const br_gemm_block g = {
        .m = m, .k = a->k, .a = a->at, .a_tile = a->tile, .a_row = a->row, .a_col = a->col
    };
    prefetch none[2] = { { .runs = 0 }, { .runs = 0 } };
    for (int64_t j = 0; j < n; j += TILE_COLUMNS, panels += step) {
        tile_out out = { .c = c + j,
                         .c_row = c_row,
                         .columns = br__min(n - j, TILE_COLUMNS),
                         .accumulate = accumulate };
        multiply_panel(&g, panels, TILE_COLUMNS, out, NULL, none);
    }
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* Converts rows of a bool mask: true becomes 0, false -inf. */
static void expand_bools(const br_strided *mask, const score_block *b, int64_t rows, real *to)
{
    for (int64_t i = 0; i < rows; i++) {
        const unsigned char *from =
            (const unsigned char *)mask->at + (b->first + i) * mask->row + b->key * mask->column;
        real *row = to + i * KEYS;
        if (mask->column == 1)
            FOR_EACH(real, k, b->keys, row[k] = from[k] ? 0 : -(real)INFINITY;)
        else
            for (int64_t k = 0; k < b->keys; k++)
                row[k] = from[k * mask->column] ? 0 : -(real)INFINITY;
    }
}

/* Initializes a block of scores with the additive mask. */
static void fill_with_mask(const br_attention_work *w, const score_block *b, real *scores)
{
    const br_strided *mask = &w->mask;
    real rows[TILE_COLUMNS * KEYS];
    for (int64_t k = 0; b->n < TILE_COLUMNS && k < b->keys; k++)
        FOR_VECTORS(real, j, TILE_COLUMNS, scores[k * b->row + j] = 0;)
    if (w->mask_is_bool) {
        expand_bools(mask, b, mask->row == 0 ? 1 : b->n, rows);
        transpose(scores, b->row, rows, mask->row == 0 ? 0 : KEYS, 1, b->keys, b->n);
    } else if (w->widen) {
        w->widen(w, mask, b->first, mask->row == 0 ? 1 : b->n, b->key, b->keys,
                 (float *)(void *)rows);
        transpose(scores, b->row, rows, mask->row == 0 ? 0 : b->keys, 1, b->keys, b->n);
    } else {
        transpose(scores, b->row, row_at(mask, b->first) + b->key * mask->column, mask->row,
                  mask->column, b->keys, b->n);
    }
}

/* Initializes a block of scores with the causal mask. */
static void fill_causal(const score_block *b, real *scores)
{
    for (int64_t k = 0; k < b->keys; k++) {
        const int before = (int)(b->key + k - b->first); /* queries of the panel before this key */
        real *row = scores + k * b->row;
        FOR_VECTORS(real, j, TILE_COLUMNS, row[j] = (int)j < before ? -(real)INFINITY : 0;)
    }
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* Computes the scores of a block from its keys [keys, width] and a panel of scaled queries. If
 * there is a mask, the scores are initialized with it and the product is added. */
static void compute_scores(const br_attention_work *w, const score_block *b,
                           const left_operand *keys, const real *queries, real *scores)
{
    bool crosses = w->causal && b->first < b->key + b->keys - 1;
    if (w->mask.at)
        fill_with_mask(w, b, scores);
    else if (crosses)
        fill_causal(b, scores);
    multiply_panels(b->keys, b->n > VECTOR ? TILE_COLUMNS : VECTOR, keys, queries, 0, scores,
                    b->row, w->mask.at || crosses);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Dropout bits of a panel: for each query, the bits of the next keys, starting with the lowest bit.
 */
typedef struct panel_bits {
    int64_t first; /* bit number of the panel's first query and the block's first key */
    lane_bits next[TILE_COLUMNS];
} panel_bits;

/* Returns the 64 bits from bit i on. */
ALWAYS_INLINE uint64_t bits_from(const uint64_t *bits, int64_t i)
{
    const uint64_t *word = bits + i / 64;
    return word[0] >> i % 64 | word[1] << 1 << (63 - i % 64);
}

static void start_bits(const br_attention_work *w, const score_block *b, panel_bits *d)
{
    d->first = w->first_bit + b->first * w->keys + b->key;
    memset(d->next, 0, sizeof d->next);
}

/* Moves the bits of key k of the block to the lowest place in `next`. Must be called for k = 0, 1,
 * 2, ... in this order. */
ALWAYS_INLINE void next_bits(const br_attention_work *w, const score_block *b, panel_bits *d,
                             int64_t k)
{
    if (k % LANE_BITS != 0)
        FOR_VECTORS(real, j, TILE_COLUMNS, d->next[j] >>= 1;)
    else
        for (int64_t j = 0; j < b->n; j++)
            d->next[j] = (lane_bits)bits_from(w->dropout.bits, d->first + j * w->keys + k);
}

/* Zeroes the dropped probabilities. */
static void drop_panel(const br_attention_work *w, const score_block *b, real *p)
{
    panel_bits d;
    start_bits(w, b, &d);
    for (int64_t k = 0; k < b->keys; k++) {
        real *row = p + k * b->row;
        next_bits(w, b, &d, k);
        FOR_VECTORS(real, j, TILE_COLUMNS, row[j] = d.next[j] & 1 ? row[j] : 0;)
    }
}

/* ---- Online softmax -------------------------------------------------------------------------- */

/* State of each query so far: the largest score, and the sum of exp(score - largest). */
typedef struct running {
    real top[BR_ATTENTION_QUERIES], sum[BR_ATTENTION_QUERIES];
} running;

/* Sets most[j] to the maximum of top[j] and of column j of the scores. Two accumulators halve the
 * length of the chain of dependent maxima. */
ALWAYS_INLINE void largest_scores(int64_t keys, const real *restrict scores,
                                  const real *restrict top, real *restrict row_max)
{
    real odd[VECTOR];
    FOR_VECTORS(real, j, VECTOR, row_max[j] = odd[j] = top[j];)
    for (int64_t k = 0; k < keys; k += 2, scores += 2 * TILE_COLUMNS) {
        const int next = k + 1 < keys ? TILE_COLUMNS : 0;
        FOR_VECTORS(real, j, VECTOR, {
            row_max[j] = scores[j] > row_max[j] ? scores[j] : row_max[j];
            odd[j] = scores[next + j] > odd[j] ? scores[next + j] : odd[j];
        })
    }
    FOR_VECTORS(real, j, VECTOR, row_max[j] = odd[j] > row_max[j] ? odd[j] : row_max[j];)
}

/* Updates the running maximum and sum of a vector of queries with `keys` rows of scores, and
 * replaces the scores by exp(score - maximum). Sets worth[j] to the factor by which earlier results
 * must be scaled. */
static void softmax_block(int64_t keys, real *scores, real *top, real *sum, real *worth)
{
    real shift[VECTOR], total[VECTOR], row_max[VECTOR];
    largest_scores(keys, scores, top, row_max);
    FOR_VECTORS(real, j, VECTOR, {
        shift[j] =
            row_max[j] > -(real)INFINITY ? row_max[j] : 0; /* all scores are -inf: exp gives 0 */
        worth[j] = exp_negative(top[j] - shift[j]);
        top[j] = row_max[j];
        total[j] = 0;
    })
    for (int64_t k = 0; k < keys; k++, scores += TILE_COLUMNS) {
        FOR_VECTORS(real, j, VECTOR, {
            scores[j] = exp_negative(scores[j] - shift[j]);
            total[j] += scores[j];
        })
    }
    FOR_VECTORS(real, j, VECTOR, sum[j] = sum[j] * worth[j] + total[j];)
}

/* ---- A block of queries ---------------------------------------------------------------------- */

typedef struct forward_space {
    real *queries;      /* panels for scores */
    real *values;       /* panels for outputs */
    real *keys, *probs; /* memory for left operands */
    real *scores;       /* [KEYS, TILE_COLUMNS] */
    /* Rows of operands of a storage dtype in f32: queries, then values; keys. */
    real *rows, *key_rows;
    /* The outputs of the queries, out_row apart: those of a storage dtype are summed in f32. */
    real *out;
    int64_t out_row;
} forward_space;

/* Reserves `count` elements, rounded up to whole cache lines. Only counts the bytes if `base` is
 * NULL. */
static real *reserve_elements(char *base, int64_t *used, int64_t count)
{
    char *at = base ? base + *used : NULL;
    *used += (count * (int64_t)sizeof(real) + 63) / 64 * 64;
    return (real *)(void *)at;
}

/* Sets `out` only for operands of a storage dtype. */
static int64_t forward_layout(const br_attention_work *w, char *base, forward_space *s)
{
    int64_t used = 0;
    s->queries = reserve_elements(base, &used, panel_elements(w->width, BR_ATTENTION_QUERIES));
    s->values = reserve_elements(base, &used, panel_elements(KEYS, w->value_width));
    s->keys = reserve_elements(base, &used, left_elements(KEYS, w->width));
    s->probs = reserve_elements(base, &used, left_elements(TILE_COLUMNS, KEYS));
    s->scores = reserve_elements(base, &used, KEYS * TILE_COLUMNS);
    if (w->widen) {
        const int64_t width = br__max(w->width, w->value_width);
        s->rows = reserve_elements(base, &used, BR_ATTENTION_QUERIES * width);
        s->key_rows = reserve_elements(base, &used, KEYS * w->width);
        s->out = reserve_elements(base, &used, BR_ATTENTION_QUERIES * w->value_width);
        s->out_row = w->value_width;
    }
    return used;
}

static void scale_row(int64_t n, real *x, real factor)
{
    FOR_EACH(real, i, n, x[i] *= factor;)
}

/* Updates the output of one panel of queries, which starts at query i of the block, with a block of
 * keys. */
static void attend(const br_attention_work *w, const forward_space *s, const left_operand *keys,
                   running *r, int64_t i, const score_block *b)
{
    real worth[TILE_COLUMNS];
    real *out = s->out + i * s->out_row;
    compute_scores(w, b, keys, s->queries + i * panel_rows(w->width), s->scores);
    for (int64_t j = 0; j < b->n; j += VECTOR)
        softmax_block(b->keys, s->scores + j, r->top + i + j, r->sum + i + j, worth + j);
    if (w->dropout.bits)
        drop_panel(w, b, s->scores);
    for (int64_t j = 0; b->key > 0 && j < b->n; j++)
        if (worth[j] != 1)
            scale_row(w->value_width, out + j * s->out_row, worth[j]);
    const left_operand probs = prepare_left(s->probs, b->n, b->keys, s->scores, 1, TILE_COLUMNS);
    multiply_panels(b->n, w->value_width, &probs, s->values, panel_rows(KEYS) * TILE_COLUMNS, out,
                    s->out_row, b->key > 0);
}

/* Divides the outputs by the sums, and rounds those of a storage dtype. A query without keys gets
 * zeros. */
static void finish_queries(const br_attention_work *w, const forward_space *s, const running *r,
                           int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        real sum = r->sum[i], *out = s->out + i * s->out_row;
        real factor = sum == 0 ? 0 : (real)w->dropout.scale / sum;
        scale_row(w->value_width, out, factor);
        if (w->narrow)
            w->narrow(w->value_width, (uint16_t *)w->out.at + (first + i) * w->out.row, out);
        real *sums = row_at(&w->sums, first + i);
        sums[0] = sum == 0 ? (real)INFINITY : r->top[i];
        sums[1] = sum == 0 ? 0 : 1 / sum;
    }
}

static void attention_kernel(const br_attention_work *w, int64_t first, int64_t end)
{
    forward_space s;
    running r;
    forward_layout(w, w->scratch, &s);
    if (!w->widen) {
        s.out = row_at(&w->out, first);
        s.out_row = w->out.row;
    }
    const int64_t n = end - first, keys = w->causal ? br__min(end, w->keys) : w->keys;
    for (int64_t i = 0; i < BR_ATTENTION_QUERIES; i++) {
        r.top[i] = -(real)INFINITY;
        r.sum[i] = 0;
    }
    for (int64_t i = 0; keys == 0 && i < n; i++)
        memset(s.out + i * s.out_row, 0, (size_t)w->value_width * sizeof(real));
    const br_strided queries = read_rows(w, &w->query, first, n, w->width, s.rows);
    pack_panels(s.queries, w->width, n, queries.at, queries.column, queries.row, (real)w->scale);
    for (int64_t key = 0; key < keys; key += KEYS) {
        int64_t count = br__min(keys - key, KEYS);
        const br_strided k = read_rows(w, &w->key, key, count, w->width, s.key_rows);
        const br_strided v = read_rows(w, &w->value, key, count, w->value_width, s.rows);
        const left_operand left = prepare_left(s.keys, count, w->width, k.at, k.row, k.column);
        for (int64_t j = 0; j < w->value_width; j += TILE_COLUMNS)
            pack_panels(s.values + j * panel_rows(KEYS), count,
                        br__min(w->value_width - j, TILE_COLUMNS),
                        (const real *)v.at + j * v.column, v.row, v.column, 1);
        for (int64_t i = 0; i < n; i += TILE_COLUMNS) {
            score_block b = { first + i, br__min(n - i, TILE_COLUMNS), key, count, TILE_COLUMNS };
            if (w->causal)
                b.keys = br__min(count, b.first + b.n - key);
            if (b.keys > 0)
                attend(w, &s, &left, &r, i, &b);
        }
    }
    finish_queries(w, &s, &r, first, n);
}

#endif
