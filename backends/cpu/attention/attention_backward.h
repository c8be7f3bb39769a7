/* backends/cpu/attention/attention_backward.h - gradients of attention; part of variant.c and
 * attention_bf16.c.
 *
 * With P = softmax(S), S = scale Q K^T + mask, O = P V, and dO given:
 *
 *     dV = P^T dO     dP = dO V^T     dS = P (dP - delta), delta = sum of dO O over a row
 *     dQ = scale dS K     dK = scale dS^T Q     dmask = dS
 *
 * A block of queries and their dO is packed once. For each block of keys, P and dS are computed
 * panel by panel and kept, and the products above are added to the gradients.
 *
 * As in FlashAttention (Dao et al., 2022), P is recomputed block by block from the scores, the
 * maximum of each row and its sum of exponentials. The maximum and the sum are stored separately: a
 * log-sum-exp would be rounded to the precision of the maximum. P and dS are stored transposed like
 * the scores in attention_forward.h, one row per key, but with all queries of a block in one row,
 * because some products sum over queries. The factor 1 / (1 - p) of dropout is applied to dO when
 * dO is packed.
 */
#ifndef BR_KERNELS_ATTENTION_BACKWARD_H
#define BR_KERNELS_ATTENTION_BACKWARD_H

#include "backends/cpu/attention/attention_forward.h"
#include "backends/cpu/norm/softmax.h"

/* Stride of the rows of P and dS, in elements. It is an odd number of cache lines, so that the rows
 * map to different cache sets. */
enum { ROW = QUERIES + LINE };

typedef struct backward_space {
    real *queries_across, *douts_across;  /* panels of columns: [width, TILE_COLUMNS] */
    real *queries, *douts, *keys;         /* panels of rows: [QUERIES or KEYS, TILE_COLUMNS] */
    real *p, *ds;                         /* [KEYS, ROW] */
    real *left_keys, *left_values, *left; /* memory for left operands */
    real *top, *scale, *delta;            /* [QUERIES]; P = exp(S - top) scale */
    /* Rows of operands of a storage dtype in f32: queries, then dO, then keys; O, then values. */
    real *rows, *value_rows;
} backward_space;

static int64_t backward_layout(const br_attention_work *w, char *base, backward_space *s)
{
    int64_t used = 0;
    s->queries_across = reserve_elements(base, &used, panel_elements(w->width, QUERIES));
    s->douts_across = reserve_elements(base, &used, panel_elements(w->value_width, QUERIES));
    s->queries = reserve_elements(base, &used, panel_elements(QUERIES, w->width));
    s->douts = reserve_elements(base, &used, panel_elements(QUERIES, w->value_width));
    s->keys = reserve_elements(base, &used, panel_elements(KEYS, w->width));
    s->p = reserve_elements(base, &used, KEYS * ROW);
    s->ds = reserve_elements(base, &used, KEYS * ROW);
    s->left_keys = reserve_elements(base, &used, left_elements(KEYS, w->width));
    s->left_values = reserve_elements(base, &used, left_elements(KEYS, w->value_width));
    s->left = reserve_elements(base, &used, left_elements(KEYS, QUERIES));
    s->top = reserve_elements(base, &used, QUERIES);
    s->scale = reserve_elements(base, &used, QUERIES);
    s->delta = reserve_elements(base, &used, QUERIES);
    if (w->widen) {
        s->rows = reserve_elements(base, &used, QUERIES * br__max(w->width, w->value_width));
        s->value_rows = reserve_elements(base, &used, QUERIES * w->value_width);
    }
    return used;
}

static int64_t attention_scratch(const br_attention_work *w, bool gradients)
{
    forward_space forward;
    backward_space backward;
    return gradients ? backward_layout(w, NULL, &backward) : forward_layout(w, NULL, &forward);
}

/* ---- A block of queries ---------------------------------------------------------------------- */

/* Packs n queries and their dO into the panels that the products read, and loads top, scale and
 * delta. */
static void load_queries(const br_attention_work *w, const backward_space *s, int64_t first,
                         int64_t n)
{
    const real scale = (real)w->scale, keep = (real)w->dropout.scale;
    const br_strided q = read_rows(w, &w->query, first, n, w->width, s->rows);
    pack_panels(s->queries_across, w->width, n, q.at, q.column, q.row, scale);
    pack_panels(s->queries, n, w->width, q.at, q.row, q.column, scale);
    const br_strided dout = read_rows(w, &w->dout, first, n, w->value_width, s->rows);
    pack_panels(s->douts_across, w->value_width, n, dout.at, dout.column, dout.row, keep);
    pack_panels(s->douts, n, w->value_width, dout.at, dout.row, dout.column, keep);
    const br_strided out = read_rows(w, &w->out, first, n, w->value_width, s->value_rows);
    for (int64_t i = 0; i < QUERIES; i++) {
        const real *sums = row_at(&w->sums, first + (i < n ? i : 0));
        s->top[i] = i < n ? sums[0] : 0;
        s->scale[i] = i < n ? sums[1] : 0;
        s->delta[i] =
            i < n ? dot_of_outputs(&dout, i, s->douts, n, w->value_width, row_at(&out, i), keep)
                  : 0;
    }
}

/* ---- P and dS -------------------------------------------------------------------------------- */

/* Replaces a row of scores by P, and a row of dP by dS. `drops` is a constant after inlining. A
 * dropped element counts as 0 in P and dP, but its dS is still -softmax(S) delta. */
ALWAYS_INLINE void differentiate_row(bool drops, const lane_bits *restrict bits,
                                     const backward_space *s, int64_t i, real *restrict p,
                                     real *restrict ds)
{
    const real *restrict top = s->top + i, *restrict scale = s->scale + i;
    const real *restrict delta = s->delta + i;
    FOR_VECTORS(real, j, TILE_COLUMNS, {
        real x = exp_negative(p[j] - top[j]) * scale[j];
        bool dropped = drops && !(bits[j] & 1);
        p[j] = dropped ? 0 : x;
        ds[j] = x * ((dropped ? 0 : ds[j]) - delta[j]);
    })
}

/* Computes P and dS of one panel of queries, which starts at query i of the block. */
static void differentiate_panel(const br_attention_work *w, const backward_space *s,
                                const left_operand *keys, const left_operand *values, int64_t i,
                                const score_block *b)
{
    panel_bits d = { .first = 0 };
    real *p = s->p + i, *ds = s->ds + i;
    compute_scores(w, b, keys, s->queries_across + i * panel_rows(w->width), p);
    multiply_panels(b->keys, b->n > VECTOR ? TILE_COLUMNS : VECTOR, values,
                    s->douts_across + i * panel_rows(w->value_width), 0, ds, ROW, false);
    if (w->dropout.bits)
        start_bits(w, b, &d);
    for (int64_t k = 0; k < b->keys; k++, p += ROW, ds += ROW) {
        if (w->dropout.bits) {
            next_bits(w, b, &d, k);
            differentiate_row(true, d.next, s, i, p, ds);
        } else {
            differentiate_row(false, NULL, s, i, p, ds);
        }
    }
}

/* ---- A block of queries and a block of keys -------------------------------------------------- */

static void add_to_dmask(const br_attention_work *w, const real *ds, int64_t first, int64_t n,
                         int64_t key, int64_t keys)
{
    for (int64_t i = 0; i < n; i++) {
        real *row = row_at(&w->dmask, first + i) + key;
        for (int64_t k = 0; k < keys; k++)
            row[k] += ds[k * ROW + i];
    }
}

static void differentiate_block(const br_attention_work *w, const backward_space *s, int64_t first,
                                int64_t n, int64_t key, int64_t keys)
{
    const br_strided k = read_rows(w, &w->key, key, keys, w->width, s->rows);
    const br_strided v = read_rows(w, &w->value, key, keys, w->value_width, s->value_rows);
    const left_operand left_keys =
        prepare_left(s->left_keys, keys, w->width, k.at, k.row, k.column);
    const left_operand left_values =
        prepare_left(s->left_values, keys, w->value_width, v.at, v.row, v.column);
    for (int64_t i = 0; i < n; i += TILE_COLUMNS)
        differentiate_panel(
            w, s, &left_keys, &left_values, i,
            &(score_block){ first + i, br__min(n - i, TILE_COLUMNS), key, keys, ROW });
    const int64_t step = panel_rows(n) * TILE_COLUMNS;
    if (w->dvalue.at) {
        const left_operand p = prepare_left(s->left, keys, n, s->p, ROW, 1);
        multiply_panels(keys, w->value_width, &p, s->douts, step, row_at(&w->dvalue, key),
                        w->dvalue.row, !w->writes);
    }
    if (w->dkey.at) {
        const left_operand ds = prepare_left(s->left, keys, n, s->ds, ROW, 1);
        multiply_panels(keys, w->width, &ds, s->queries, step, row_at(&w->dkey, key), w->dkey.row,
                        !w->writes);
    }
    if (w->dquery.at) {
        const left_operand ds = prepare_left(s->left, n, keys, s->ds, 1, ROW);
        pack_panels(s->keys, keys, w->width, k.at, k.row, k.column, (real)w->scale);
        multiply_panels(n, w->width, &ds, s->keys, panel_rows(keys) * TILE_COLUMNS,
                        row_at(&w->dquery, first), w->dquery.row, !w->writes);
    }
    if (w->dmask.at)
        add_to_dmask(w, s->ds, first, n, key, keys);
}

static void attention_grad_kernel(const br_attention_work *w, int64_t first, int64_t end,
                                  int64_t key, int64_t key_end)
{
    backward_space s;
    backward_layout(w, w->scratch, &s);
    for (int64_t i = first; i < end; i += QUERIES) {
        const int64_t n = br__min(end - i, QUERIES);
        const int64_t keys_end = w->causal ? br__min(key_end, i + n) : key_end;
        if (key >= keys_end)
            continue;
        load_queries(w, &s, i, n);
        for (int64_t k = key; k < keys_end; k += KEYS)
            differentiate_block(w, &s, i, n, k, br__min(keys_end - k, KEYS));
    }
}

#endif
