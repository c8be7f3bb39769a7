/* tests/ops/attention/test_attention_bf16.c - attention with br_set_float32_matmul_precision(
 * "medium"), whose products round their operands to bf16. The reference is plain loops in f64 over
 * operands that plain C has rounded. */
#include "tests/ops/matmul/bf16_rounding.h"
#include "tests/ops/matmul/bf16_units.h"
#include "tests/same_bits.h"

#include <brasa/brasa.h>

static void attention_bf16_end(void)
{
    br_set_float32_matmul_precision("highest");
    check_end();
}

TestSuite(attention_bf16, .init = check_begin, .fini = attention_bf16_end);

enum { HEADS = 2, MOST = 320, WIDEST = 80 };
static const double DROPOUT = 0.3;

typedef enum variant { PLAIN, CAUSAL, BOOL_MASK, FLOAT_MASK, DROPPED, VARIANTS } variant;

typedef struct attention {
    int64_t queries, keys, width, value_width;
    variant kind;
    br_tensor *query, *key, *value, *dout, *mask;
} attention;

/* ---- Reference ------------------------------------------------------------------------------- */

/* One head in f64: the rounded operands, the terms of the gradients, and for each result a bound of
 * its error. */
typedef struct head {
    double q[MOST][WIDEST], k[MOST][WIDEST], v[MOST][WIDEST];
    double dout[MOST][WIDEST], rounded_dout[MOST][WIDEST];
    double scaled_k[MOST][WIDEST]; /* as in the product for dquery */
    double mask[MOST][MOST];       /* added to the scores */
    double kept[MOST][MOST];       /* 1, or 0 for a dropped weight */
    double p[MOST][MOST], p_error[MOST][MOST];
    double out[MOST][WIDEST], out_bound[MOST][WIDEST];
    double ds[MOST][MOST], ds_error[MOST][MOST];
} head;

static const double UNIT = 1.0 / 256; /* the largest relative error of rounding to bf16 */

static double rounded(double x)
{
    return (double)nearest_bf16((float)x);
}

static void load(br_tensor *t, int64_t h, int64_t rows, int64_t columns, double (*to)[WIDEST])
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t c = 0; c < columns; c++)
            to[i][c] = br_at(t, BR_DIMS(h, i, c));
}

static void load_head(head *r, const attention *a, br_tensor *weights, int64_t h)
{
    const double keep = a->kind == DROPPED ? 1 / (1 - DROPOUT) : 1;
    const double scale = 1 / sqrt((double)a->width);
    load(a->query, h, a->queries, a->width, r->q);
    load(a->key, h, a->keys, a->width, r->k);
    load(a->value, h, a->keys, a->value_width, r->v);
    load(a->dout, h, a->queries, a->value_width, r->dout);
    for (int64_t i = 0; i < a->queries; i++) {
        for (int64_t c = 0; c < a->width; c++)
            r->q[i][c] = rounded((double)((float)r->q[i][c] * (float)scale));
        for (int64_t c = 0; c < a->value_width; c++)
            r->rounded_dout[i][c] = rounded((double)((float)r->dout[i][c] * (float)keep));
    }
    for (int64_t j = 0; j < a->keys; j++) {
        for (int64_t c = 0; c < a->width; c++) {
            r->scaled_k[j][c] = rounded((double)((float)r->k[j][c] * (float)scale));
            r->k[j][c] = rounded(r->k[j][c]);
        }
        for (int64_t c = 0; c < a->value_width; c++)
            r->v[j][c] = rounded(r->v[j][c]);
    }
    for (int64_t i = 0; i < a->queries; i++)
        for (int64_t j = 0; j < a->keys; j++) {
            r->mask[i][j] = a->kind == CAUSAL && j > i ? -INFINITY : 0;
            if (a->kind == BOOL_MASK)
                r->mask[i][j] = br_at(a->mask, BR_DIMS(i, j)) != 0 ? 0 : -INFINITY;
            if (a->kind == FLOAT_MASK)
                r->mask[i][j] = br_at(a->mask, BR_DIMS(i, j));
            r->kept[i][j] = !weights || br_at(weights, BR_DIMS(h, i, j)) != 0;
        }
}

/* Computes the probabilities and bounds of their error: that of the scores, which are sums of
 * `width` products in f32, twice (numerator and sum), and that of the f32 exponentials and sum. */
static void compute_probabilities(head *r, const attention *a)
{
    for (int64_t i = 0; i < a->queries; i++) {
        double top = -INFINITY, sum = 0, largest = 0;
        for (int64_t j = 0; j < a->keys; j++) {
            double score = r->mask[i][j], magnitude = 0;
            for (int64_t c = 0; c < a->width; c++) {
                score += r->q[i][c] * r->k[j][c];
                magnitude += fabs(r->q[i][c] * r->k[j][c]);
            }
            r->p[i][j] = score;
            top = fmax(top, score);
            largest = fmax(largest, magnitude + (isinf(score) ? 0 : fabs(score)));
        }
        for (int64_t j = 0; j < a->keys; j++)
            sum += r->p[i][j] = top > -INFINITY ? exp(r->p[i][j] - top) : 0;
        for (int64_t j = 0; j < a->keys; j++) {
            r->p[i][j] = sum > 0 ? r->p[i][j] / sum : 0;
            r->p_error[i][j] =
                r->p[i][j] * FLT_EPSILON * ((double)a->width * largest + (double)a->keys / 2 + 16);
        }
    }
}

/* out = P V with P rounded, and dS = P (dP - delta). */
static void compute_outputs(head *r, const attention *a)
{
    const double keep = a->kind == DROPPED ? 1 / (1 - DROPOUT) : 1;
    for (int64_t i = 0; i < a->queries; i++) {
        double delta = 0, delta_error = 0;
        for (int64_t c = 0; c < a->value_width; c++) {
            double out = 0, bound = 1e-30;
            for (int64_t j = 0; j < a->keys; j++) {
                const double weight = keep * r->kept[i][j] * fabs(r->v[j][c]);
                out += keep * r->kept[i][j] * r->p[i][j] * r->v[j][c];
                bound += weight * (r->p[i][j] * (UNIT + FLT_EPSILON * (double)(a->keys + 4)) +
                                   r->p_error[i][j]);
            }
            r->out[i][c] = out;
            r->out_bound[i][c] = bound;
            delta += r->dout[i][c] * out;
            delta_error += fabs(r->dout[i][c]) * (bound + FLT_EPSILON * 16 * fabs(out));
        }
        for (int64_t j = 0; j < a->keys; j++) {
            double dp = 0, magnitude = 0;
            for (int64_t c = 0; c < a->value_width; c++) {
                dp += r->kept[i][j] * r->rounded_dout[i][c] * r->v[j][c];
                magnitude += fabs(r->rounded_dout[i][c] * r->v[j][c]);
            }
            const double error = delta_error + FLT_EPSILON * (double)a->value_width * magnitude;
            r->ds[i][j] = r->p[i][j] * (dp - delta);
            r->ds_error[i][j] = r->p[i][j] * error + 1e-30 +
                                r->p_error[i][j] * (fabs(dp) + fabs(delta) + error) +
                                UNIT * (fabs(r->ds[i][j]) + r->p[i][j] * error);
        }
    }
}

/* ---- Comparison ------------------------------------------------------------------------------ */

static void compare(const attention *a, const char *name, br_tensor *got, int64_t h, int64_t i,
                    int64_t c, double want, double bound)
{
    const double x = br_at(got, BR_DIMS(h, i, c));
    cr_assert(fabs(x - want) <= bound,
              "%lld queries, %lld keys, widths %lld and %lld, kind %d: %s[%lld][%lld][%lld] is "
              "%.9g, expected %.9g +- %.2g",
              (long long)a->queries, (long long)a->keys, (long long)a->width,
              (long long)a->value_width, (int)a->kind, name, (long long)h, (long long)i,
              (long long)c, x, want, bound);
}

/* Compares out and the gradients with respect to query, key and value. */
static void compare_head(const head *r, const attention *a, int64_t h, br_tensor *const got[4])
{
    for (int64_t i = 0; i < a->queries; i++)
        for (int64_t c = 0; c < a->value_width; c++)
            compare(a, "out", got[0], h, i, c, r->out[i][c], r->out_bound[i][c]);
    for (int64_t i = 0; i < a->queries; i++)
        for (int64_t c = 0; c < a->width; c++) {
            double want = 0, bound = 1e-30;
            for (int64_t j = 0; j < a->keys; j++) {
                want += r->ds[i][j] * r->scaled_k[j][c];
                bound += fabs(r->scaled_k[j][c]) *
                         (r->ds_error[i][j] + FLT_EPSILON * (double)a->keys * fabs(r->ds[i][j]));
            }
            compare(a, "dquery", got[1], h, i, c, want, bound);
        }
    for (int64_t j = 0; j < a->keys; j++) {
        for (int64_t c = 0; c < a->width; c++) {
            double want = 0, bound = 1e-30;
            for (int64_t i = 0; i < a->queries; i++) {
                want += r->ds[i][j] * r->q[i][c];
                bound += fabs(r->q[i][c]) *
                         (r->ds_error[i][j] + FLT_EPSILON * (double)a->queries * fabs(r->ds[i][j]));
            }
            compare(a, "dkey", got[2], h, j, c, want, bound);
        }
        for (int64_t c = 0; c < a->value_width; c++) {
            double want = 0, bound = 1e-30;
            for (int64_t i = 0; i < a->queries; i++) {
                const double p = r->kept[i][j] * r->p[i][j], dout = r->rounded_dout[i][c];
                want += p * dout;
                bound += fabs(dout) * (p * (UNIT + FLT_EPSILON * (double)a->queries) +
                                       r->kept[i][j] * r->p_error[i][j]);
            }
            compare(a, "dvalue", got[3], h, j, c, want, bound);
        }
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

typedef enum layout { DENSE, HEADS_INSIDE, TRANSPOSED, LAYOUTS } layout;

/* Returns random values of shape [HEADS, rows, columns] in the given layout. */
static br_tensor *operand(int64_t rows, int64_t columns, layout how)
{
    if (how == HEADS_INSIDE)
        return br_transpose(br_randn(BR_SHAPE(rows, HEADS, columns), BR_F32), 0, 1);
    if (how == TRANSPOSED)
        return br_transpose(br_randn(BR_SHAPE(HEADS, columns, rows), BR_F32), 1, 2);
    return br_randn(BR_SHAPE(HEADS, rows, columns), BR_F32);
}

static br_tensor *attend(const attention *a, br_tensor *value)
{
    br_manual_seed(7); /* drops the same weights each time */
    return br_scaled_dot_product_attention(
        a->query, a->key, value, a->mask,
        BR_OPTIONS(br_attention, .is_causal = a->kind == CAUSAL,
                   .dropout_p = a->kind == DROPPED ? DROPOUT : 0));
}

static void run(const attention *a, br_tensor *got[4])
{
    br_tensor *inputs[] = { a->query, a->key, a->value };
    got[0] = attend(a, a->value);
    br_tensor *const douts[] = { a->dout };
    br_grad(1, got, 3, inputs, got + 1, BR_OPTIONS(br_grad, .gradients = douts));
    check_ok();
}

static attention make_attention(const int64_t size[4], variant kind, layout how)
{
    attention a = { size[0], size[1], size[2], size[3], .kind = kind };
    a.query = br_set_requires_grad(operand(a.queries, a.width, how), true);
    a.key = br_set_requires_grad(operand(a.keys, a.width, how), true);
    a.value = br_set_requires_grad(operand(a.keys, a.value_width, how), true);
    a.dout = operand(a.queries, a.value_width, how);
    br_tensor *mask = br_randn(BR_SHAPE(a.queries, a.keys), BR_F32);
    if (kind == BOOL_MASK) /* the last query attends to no key */
        a.mask =
            br_logical_and(br_gt_scalar(mask, 0),
                           br_lt_scalar(br_unsqueeze(br_arange(0, (double)a.queries, 1, BR_F32), 1),
                                        (double)a.queries - 1));
    else if (kind == FLOAT_MASK)
        a.mask = mask;
    return a;
}

/* Checks the results in "medium", that they are the same bits for 1, 2 and 3 threads, and that they
 * are not those of f32. */
static void check_attention(const int64_t size[4], variant kind, layout how)
{
    br_scope *scope = br_scope_begin();
    const attention a = make_attention(size, kind, how);
    br_tensor *first[4], *got[4], *plain[4];
    br_tensor *weights = kind == DROPPED ? attend(&a, br_eye(a.keys, a.keys, BR_F32)) : NULL;
    run(&a, plain);
    br_set_float32_matmul_precision("medium");
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        run(&a, got);
        for (int i = 0; i < 4; i++) {
            cr_assert(threads == 1 || same_bits(first[i], got[i]), "%d threads change result %d",
                      threads, i);
            cr_assert(!same_bits(plain[i], got[i]), "result %d was not computed in bf16", i);
            first[i] = got[i];
        }
    }
    br_set_float32_matmul_precision("highest");
    head *r = malloc(sizeof *r);
    cr_assert(r);
    for (int64_t h = 0; h < HEADS; h++) {
        load_head(r, &a, weights, h);
        compute_probabilities(r, &a);
        compute_outputs(r, &a);
        compare_head(r, &a, h, got);
    }
    free(r);
    br_scope_end(scope);
}

/* Whole and partial panels, tiles and blocks; odd sizes, so that pairs are completed by 0. */
Test(attention_bf16, equals_attention_of_rounded_operands)
{
    static const int64_t sizes[][4] = {
        { 16, 16, 64, 64 },   { 33, 65, 33, 20 },  { 17, 129, 80, 31 },
        { 128, 128, 64, 64 }, { 130, 257, 8, 48 }, { 300, 301, 64, 1 },
    };
    need_unit(attention_bf16_end);
    br_manual_seed(1);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int k = 0; k < VARIANTS; k++)
            check_attention(sizes[i], (variant)k, (layout)((i + (size_t)k) % LAYOUTS));
}

/* One query at a time, as in generation, does not outweigh rounding and packing. */
Test(attention_bf16, few_queries_stay_f32)
{
    br_scope *scope = br_scope_begin();
    const attention a = make_attention((int64_t[]){ 15, 40, 64, 64 }, PLAIN, DENSE);
    br_tensor *plain[4], *got[4];
    run(&a, plain);
    br_set_float32_matmul_precision("medium");
    run(&a, got);
    for (int i = 0; i < 4; i++)
        cr_assert(same_bits(plain[i], got[i]), "result %d", i);
    br_scope_end(scope);
}

/* NaN and infinity reach the results as in f32: those of their own query or, from a value, of every
 * query. */
Test(attention_bf16, nan_and_infinity)
{
    need_unit(attention_bf16_end);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_randn(BR_SHAPE(20, 16), BR_F32), *bad = br_clone(x), *y;
    br_data_f32(bad)[3 * 16 + 2] = NAN;
    br_set_float32_matmul_precision("medium");
    y = br_scaled_dot_product_attention(bad, x, x, NULL, NULL);
    for (int64_t i = 0; i < 20; i++)
        cr_assert_eq(isnan(br_at(y, BR_DIMS(i, 5))), i == 3, "query %d", (int)i);
    br_data_f32(bad)[3 * 16 + 2] = INFINITY;
    y = br_scaled_dot_product_attention(x, x, bad, NULL, NULL);
    for (int64_t i = 0; i < 20; i++) {
        cr_assert_eq(br_at(y, BR_DIMS(i, 2)), (double)INFINITY, "query %d", (int)i);
        cr_assert(isfinite(br_at(y, BR_DIMS(i, 3))), "query %d", (int)i);
    }
    br_scope_end(scope);
}
