/* ops/kernels/attention_forward.h - attention of a block of queries; part of variant.c.
 *
 * Dao, 2023: keys come by blocks, and the softmax goes on from block to block with the largest
 * score and the sum of exponentials so far, so that no more than a block of scores is ever there.
 * Scores are kept transposed, a row a key, in panels of TILE_COLUMNS queries: as gemm_tile.h wants
 * an operand, so that they are the result of one product and the operand of the next without a
 * copy, and vectors of queries need no sums across a vector. */
#ifndef BR_KERNELS_ATTENTION_FORWARD_H
#define BR_KERNELS_ATTENTION_FORWARD_H

#include "ops/kernels/dropout.h"
#include "ops/kernels/gemm_tile.h"
#include "ops/kernels/math.h"
#include "ops/kernels/transpose.h"

enum { QUERIES = BR_ATTENTION_BLOCK, KEYS = BR_ATTENTION_BLOCK };

/* Queries first .. first + n - 1 of a panel and keys key .. key + keys - 1. Scores of a key lie in
 * a row, `row` elements from those of the next. */
typedef struct score_block {
    int64_t first, n, key, keys, row;
} score_block;

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline real *row_at(const br_strided *x, int64_t row)
{
    return (real *)x->at + row * x->row;
}

/* ---- Products with panels -------------------------------------------------------------------- */

static int64_t panel_elements(int64_t k, int64_t n)
{
    return (n + TILE_COLUMNS - 1) / TILE_COLUMNS * TILE_COLUMNS * k;
}

/* B [k, n] times scale as panels of TILE_COLUMNS columns, one behind the other; the last one is
 * filled up to whole vectors with zeros. */
static void pack_panels(real *to, int64_t k, int64_t n, const real *b, int64_t b_row, int64_t b_col,
                        real scale)
{
    for (int64_t j = 0; j < n; j += TILE_COLUMNS, to += k * TILE_COLUMNS) {
        int64_t count = smaller(n - j, TILE_COLUMNS);
        pack_panel(to, count, k, b + j * b_col, b_row, b_col);
        for (int64_t p = 0; scale != 1 && p < k; p++)
            for (int64_t v = 0; v < count; v += VECTOR)
                *(vec *)(to + p * TILE_COLUMNS + v) *= scale;
    }
}

/* C [m, n] = A B, or that added to C, where B's first k rows come from panels `step` apart. */
static void multiply_panels(int64_t m, int64_t n, int64_t k, const real *a, int64_t a_row,
                            int64_t a_col, const real *panels, int64_t step, real *c, int64_t c_row,
                            bool accumulate)
{
    const br_gemm_block g = {
        .m = m, .k = k, .a = a, .a_tile = TILE_ROWS * a_row, .a_row = a_row, .a_col = a_col
    };
    prefetch none[2] = { { .runs = 0 }, { .runs = 0 } };
    for (int64_t j = 0; j < n; j += TILE_COLUMNS, panels += step) {
        tile_out out = { .c = c + j,
                         .c_row = c_row,
                         .columns = smaller(n - j, TILE_COLUMNS),
                         .accumulate = accumulate };
        multiply_panel(&g, panels, TILE_COLUMNS, out, NULL, none);
    }
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* Rows of a bool mask as 0 and -inf. */
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

/* Fills a block with what is added to its scores. */
static void fill_with_mask(const br_attention_work *w, const score_block *b, real *scores)
{
    const br_strided *mask = &w->mask;
    real rows[TILE_COLUMNS * KEYS];
    for (int64_t k = 0; b->n < TILE_COLUMNS && k < b->keys; k++)
        FOR_VECTORS(real, j, TILE_COLUMNS, scores[k * b->row + j] = 0;)
    if (w->mask_is_bool) {
        expand_bools(mask, b, mask->row == 0 ? 1 : b->n, rows);
        transpose(scores, b->row, rows, mask->row == 0 ? 0 : KEYS, 1, b->keys, b->n);
    } else {
        transpose(scores, b->row, row_at(mask, b->first) + b->key * mask->column, mask->row,
                  mask->column, b->keys, b->n);
    }
}

/* The same for the mask that causality is. */
static void fill_causal(const score_block *b, real *scores)
{
    for (int64_t k = 0; k < b->keys; k++) {
        const int before = (int)(b->key + k - b->first); /* of the panel's queries */
        real *row = scores + k * b->row;
        FOR_VECTORS(real, j, TILE_COLUMNS, row[j] = (int)j < before ? -(real)INFINITY : 0;)
    }
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* Scores of a block, of a panel of scaled queries. They begin as what the mask adds to them. */
static void compute_scores(const br_attention_work *w, const score_block *b, const real *queries,
                           real *scores)
{
    bool crosses = w->causal && b->first < b->key + b->keys - 1;
    if (w->mask.at)
        fill_with_mask(w, b, scores);
    else if (crosses)
        fill_causal(b, scores);
    multiply_panels(b->keys, b->n > VECTOR ? TILE_COLUMNS : VECTOR, w->width,
                    row_at(&w->key, b->key), w->key.row, w->key.column, queries, 0, scores, b->row,
                    w->mask.at || crosses);
}

/* ---- Dropout --------------------------------------------------------------------------------- */

/* Of each query of a panel, the generator's state for the next two keys. */
typedef struct panel_draws {
    uint64_t state[TILE_COLUMNS];
    uint32_t pair[2][TILE_COLUMNS];
} panel_draws;

/* From the block's first key on, which is even. */
static void start_draws(const br_attention_work *w, const score_block *b, panel_draws *d)
{
    const uint64_t per_query = (uint64_t)(w->keys + 1) / 2;
    uint64_t first = w->first_draw + (uint64_t)b->first * per_query + (uint64_t)b->key / 2;
    for (int j = 0; j < TILE_COLUMNS; j++)
        d->state[j] = random_state(w->dropout.key, first + (uint64_t)j * per_query);
}

/* The queries' draws for the next two keys. */
static __attribute__((noinline)) void draw_pair(panel_draws *d)
{
#pragma omp simd
    for (int j = 0; j < TILE_COLUMNS; j++) {
        uint64_t bits = mixed(d->state[j]);
        d->state[j] += RANDOM_STEP;
        d->pair[0][j] = (uint32_t)bits;
        d->pair[1][j] = (uint32_t)(bits >> 32);
    }
}

/* The queries' draws for key number k of the block; keys come one after the other. */
ALWAYS_INLINE const uint32_t *draw_row(panel_draws *d, int64_t k)
{
    if (k % 2 == 0)
        draw_pair(d);
    return d->pair[k % 2];
}

/* Probabilities that fall become 0. */
static void drop_panel(const br_attention_work *w, const score_block *b, real *p)
{
    panel_draws d;
    start_draws(w, b, &d);
    for (int64_t k = 0; k < b->keys; k++) {
        const uint32_t *draw = draw_row(&d, k);
        real *row = p + k * b->row;
        FOR_VECTORS(real, j, TILE_COLUMNS, row[j] = draw[j] < w->dropout.threshold ? 0 : row[j];)
    }
}

/* ---- The softmax that goes on from block to block -------------------------------------------- */

/* Of each query so far: the largest score, and the sum of exp(score - that). */
typedef struct running {
    real top[BR_ATTENTION_QUERIES], sum[BR_ATTENTION_QUERIES];
} running;

/* most = the largest of top and of each column of a vector of them. Two rows at a time, since a
 * maximum waits for the one before. */
ALWAYS_INLINE void largest_scores(int64_t keys, const real *restrict scores,
                                  const real *restrict top, real *restrict most)
{
    real odd[VECTOR];
    FOR_VECTORS(real, j, VECTOR, most[j] = odd[j] = top[j];)
    for (int64_t k = 0; k < keys; k += 2, scores += 2 * TILE_COLUMNS) {
        const int next = k + 1 < keys ? TILE_COLUMNS : 0;
        FOR_VECTORS(real, j, VECTOR, {
            most[j] = scores[j] > most[j] ? scores[j] : most[j];
            odd[j] = scores[next + j] > odd[j] ? scores[next + j] : odd[j];
        })
    }
    FOR_VECTORS(real, j, VECTOR, most[j] = odd[j] > most[j] ? odd[j] : most[j];)
}

/* Takes `keys` rows of scores of a vector of queries into the largest and the sum, makes
 * exp(score - largest) of them, and gives what earlier results are worth now. */
static void softmax_block(int64_t keys, real *scores, real *top, real *sum, real *worth)
{
    real shift[VECTOR], total[VECTOR], most[VECTOR];
    largest_scores(keys, scores, top, most);
    FOR_VECTORS(real, j, VECTOR, {
        shift[j] = most[j] > -(real)INFINITY ? most[j] : 0; /* nothing but -inf: exp gives 0 */
        worth[j] = exp_negative(top[j] - shift[j]);
        top[j] = most[j];
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
    real *queries; /* panels [width, TILE_COLUMNS] */
    real *values;  /* panels [KEYS, TILE_COLUMNS] */
    real *scores;  /* [KEYS, TILE_COLUMNS] */
} forward_space;

/* Takes memory for `count` elements, in whole cache lines; only counts it without `base`. */
static real *take_space(char *base, int64_t *used, int64_t count)
{
    char *at = base ? base + *used : NULL;
    *used += (count * (int64_t)sizeof(real) + 63) / 64 * 64;
    return (real *)(void *)at;
}

static int64_t forward_layout(const br_attention_work *w, char *base, forward_space *s)
{
    int64_t used = 0;
    s->queries = take_space(base, &used, panel_elements(w->width, BR_ATTENTION_QUERIES));
    s->values = take_space(base, &used, panel_elements(KEYS, w->value_width));
    s->scores = take_space(base, &used, KEYS * TILE_COLUMNS);
    return used;
}

static void scale_row(int64_t n, real *x, real factor)
{
    FOR_EACH(real, i, n, x[i] *= factor;)
}

/* One panel of queries, whose first is number i of the block's, meets a block of keys. */
static void attend(const br_attention_work *w, const forward_space *s, running *r, int64_t i,
                   const score_block *b)
{
    real worth[TILE_COLUMNS];
    real *out = row_at(&w->out, b->first);
    compute_scores(w, b, s->queries + i * w->width, s->scores);
    for (int64_t j = 0; j < b->n; j += VECTOR)
        softmax_block(b->keys, s->scores + j, r->top + i + j, r->sum + i + j, worth + j);
    if (w->dropout.threshold)
        drop_panel(w, b, s->scores);
    for (int64_t j = 0; b->key > 0 && j < b->n; j++)
        if (worth[j] != 1)
            scale_row(w->value_width, out + j * w->out.row, worth[j]);
    multiply_panels(b->n, w->value_width, b->keys, s->scores, 1, TILE_COLUMNS, s->values,
                    KEYS * TILE_COLUMNS, out, w->out.row, b->key > 0);
}

/* Divides by the sums. A query without keys gets zeros. */
static void finish_queries(const br_attention_work *w, const running *r, int64_t first, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        real sum = r->sum[i], *out = row_at(&w->out, first + i);
        real factor = sum == 0 ? 0 : (real)w->dropout.scale / sum;
        scale_row(w->value_width, out, factor);
        *row_at(&w->lse, first + i) = sum == 0 ? (real)INFINITY : r->top[i] + real_log(sum);
    }
}

static void attention_kernel(const br_attention_work *w, int64_t first, int64_t end)
{
    forward_space s;
    running r;
    forward_layout(w, w->scratch, &s);
    const int64_t n = end - first, keys = w->causal ? smaller(end, w->keys) : w->keys;
    for (int64_t i = 0; i < BR_ATTENTION_QUERIES; i++) {
        r.top[i] = -(real)INFINITY;
        r.sum[i] = 0;
    }
    if (keys == 0)
        memset(row_at(&w->out, first), 0, (size_t)(n * w->value_width) * sizeof(real));
    pack_panels(s.queries, w->width, n, row_at(&w->query, first), w->query.column, w->query.row,
                (real)w->scale);
    for (int64_t key = 0; key < keys; key += KEYS) {
        int64_t count = smaller(keys - key, KEYS);
        for (int64_t j = 0; j < w->value_width; j += TILE_COLUMNS)
            pack_panel(s.values + j * KEYS, smaller(w->value_width - j, TILE_COLUMNS), count,
                       row_at(&w->value, key) + j * w->value.column, w->value.row, w->value.column);
        for (int64_t i = 0; i < n; i += TILE_COLUMNS) {
            score_block b = { first + i, smaller(n - i, TILE_COLUMNS), key, count, TILE_COLUMNS };
            if (w->causal)
                b.keys = smaller(count, b.first + b.n - key);
            if (b.keys > 0)
                attend(w, &s, &r, i, &b);
        }
    }
    finish_queries(w, &r, first, n);
}

#endif
