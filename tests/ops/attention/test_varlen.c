/* tests/ops/attention/test_varlen.c - attention of sequences that follow each other: each sequence
 * has the result and the gradients of scaled dot-product attention for it alone. */
#include "tests/ops/values.h"
#include "tests/same_bits.h"

TestSuite(varlen, .init = check_begin, .fini = check_end);

enum { SEQUENCES = 7, HEADS = 4 };

/* Lengths around the size of a block, 128, and empty sequences. */
static const int64_t query_lengths[SEQUENCES] = { 0, 1, 130, 0, 300, 17, 128 };
static const int64_t key_lengths[SEQUENCES] = { 3, 5, 129, 0, 600, 0, 256 };

static br_tensor *starts_of(const int64_t *lengths, br_dtype dtype)
{
    int64_t starts[SEQUENCES + 1] = { 0 };
    for (int i = 0; i < SEQUENCES; i++)
        starts[i + 1] = starts[i] + lengths[i];
    return br_to(br_from_i64(BR_SHAPE(SEQUENCES + 1), starts), dtype);
}

static int64_t sum(const int64_t *lengths)
{
    int64_t total = 0;
    for (int i = 0; i < SEQUENCES; i++)
        total += lengths[i];
    return total;
}

/* Returns the heads of tokens first .. first + n - 1, [heads, n, size]. */
static br_tensor *sequence(br_tensor *t, int64_t first, int64_t n)
{
    return br_transpose(br_narrow(t, 0, first, n), 0, 1);
}

/* The query, key and value, the gradient of the result, and where they begin. */
typedef struct example {
    br_tensor *x[3], *dy;
    const int64_t *queries, *keys;
    br_varlen_attn_options o;
} example;

static void check_sequence(const example *e, br_tensor *y, br_tensor *const *dx, int i, int64_t q,
                           int64_t k)
{
    const int64_t n = e->queries[i], m = e->keys[i];
    br_tensor *in[3] = { leaf(br_clone(sequence(e->x[0], q, n))),
                         leaf(br_clone(sequence(e->x[1], k, m))),
                         leaf(br_clone(sequence(e->x[2], k, m))) };
    br_tensor *dy = br_clone(sequence(e->dy, q, n)), *d[3];
    br_tensor *alone = br_scaled_dot_product_attention(
        in[0], in[1], in[2], NULL,
        BR_OPTIONS(br_attention, .is_causal = e->o.is_causal, .scale = e->o.scale,
                   .enable_gqa = e->o.enable_gqa));
    cr_assert(same_bits(alone, sequence(y, q, n)), "sequence %d", i);
    cr_assert(br_grad(1, &alone, 3, in, d, BR_OPTIONS(br_grad, .gradients = &dy)));
    for (int a = 0; a < 3; a++)
        cr_assert(br_equal(d[a], sequence(dx[a], a ? k : q, a ? m : n)), "sequence %d: d%d", i, a);
}

static void check_example(example *e, br_dtype dtype, br_dtype starts)
{
    const int64_t queries = sum(e->queries), keys = sum(e->keys);
    const int64_t groups = e->o.enable_gqa ? HEADS / 2 : HEADS;
    e->x[0] = leaf(values(BR_SHAPE(queries, HEADS, 20), 1, dtype));
    e->x[1] = leaf(values(BR_SHAPE(keys, groups, 20), 2, dtype));
    e->x[2] = leaf(values(BR_SHAPE(keys, groups, 24), 3, dtype));
    e->dy = values(BR_SHAPE(queries, HEADS, 24), 4, dtype);
    br_tensor *y = br_varlen_attn(e->x[0], e->x[1], e->x[2], starts_of(e->queries, starts),
                                  e->keys == e->queries ? NULL : starts_of(e->keys, starts), &e->o),
              *dx[3];
    cr_assert(y, "%s", br_error_message());
    cr_assert(br_grad(1, &y, 3, e->x, dx, BR_OPTIONS(br_grad, .gradients = &e->dy)));
    for (int64_t i = 0, q = 0, k = 0; i < SEQUENCES; q += e->queries[i], k += e->keys[i++]) {
        br_scope *scope = br_scope_begin();
        check_sequence(e, y, dx, (int)i, q, k);
        br_scope_end(scope);
    }
}

static void check_examples(void)
{
    static const br_dtype dtypes[] = { BR_F32, BR_F64 };
    for (int i = 0; i < 8; i++) {
        br_scope *scope = br_scope_begin();
        const bool causal = i & 2;
        example e = { .queries = query_lengths, .keys = causal ? query_lengths : key_lengths };
        e.o = *BR_OPTIONS(br_varlen_attn, .is_causal = causal, .enable_gqa = (i & 4) != 0);
        check_example(&e, dtypes[i % 2], i % 2 ? BR_I32 : BR_I64);
        br_scope_end(scope);
    }
}

Test(varlen, sequences_equal_attention_of_each_alone)
{
    with_every_variant(check_examples);
}

/* Results and gradients of a storage dtype are those of f32 numbers, rounded. */
Test(varlen, storage_dtypes)
{
    br_scope *scope = br_scope_begin();
    br_tensor *starts = br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 2, 9 }), *x[3], *wide[3];
    for (int i = 0; i < 3; i++) {
        x[i] = leaf(br_to(values(BR_SHAPE(9, 2, 8), i + 1, BR_F32), BR_BF16));
        wide[i] = leaf(br_to(br_detach(x[i]), BR_F32));
    }
    br_tensor *y = br_varlen_attn(x[0], x[1], x[2], starts, NULL, NULL), *dx[3];
    br_tensor *z = br_varlen_attn(wide[0], wide[1], wide[2], starts, NULL, NULL), *dz[3];
    cr_assert(y && z, "%s", br_error_message());
    cr_assert(br_equal(y, br_to(z, BR_BF16)));
    br_tensor *dy = br_ones_like(y), *dw = br_ones_like(z);
    cr_assert(br_grad(1, &y, 3, x, dx, BR_OPTIONS(br_grad, .gradients = &dy)));
    cr_assert(br_grad(1, &z, 3, wide, dz, BR_OPTIONS(br_grad, .gradients = &dw)));
    for (int i = 0; i < 3; i++)
        check_close(br_item(br_max(br_abs(br_sub(br_to(dx[i], BR_F32), dz[i])))), 0, 0.02);
    br_scope_end(scope);
}

/* The gradients of a range with more keys than queries need room for the keys: here so much that it
 * is outside of the memory for the queries' blocks. */
Test(varlen, storage_dtypes_with_many_keys)
{
    enum { KEYS = 200000 };
    br_scope *scope = br_scope_begin();
    br_tensor *queries = br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 2, 5 });
    br_tensor *keys = br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, KEYS - 7, KEYS });
    br_tensor *x[3], *wide[3], *dx[3], *dz[3];
    for (int i = 0; i < 3; i++) {
        x[i] = leaf(br_to(values(BR_SHAPE(i ? KEYS : 5, 2, 8), i + 1, BR_F32), BR_BF16));
        wide[i] = leaf(br_to(br_detach(x[i]), BR_F32));
    }
    br_tensor *y = br_varlen_attn(x[0], x[1], x[2], queries, keys, NULL);
    br_tensor *z = br_varlen_attn(wide[0], wide[1], wide[2], queries, keys, NULL);
    cr_assert(y && z, "%s", br_error_message());
    br_tensor *dy = br_ones_like(y), *dw = br_ones_like(z);
    cr_assert(br_grad(1, &y, 3, x, dx, BR_OPTIONS(br_grad, .gradients = &dy)));
    cr_assert(br_grad(1, &z, 3, wide, dz, BR_OPTIONS(br_grad, .gradients = &dw)));
    for (int i = 0; i < 3; i++)
        check_close(br_item(br_max(br_abs(br_sub(br_to(dx[i], BR_F32), dz[i])))), 0, 0.02);
    br_scope_end(scope);
}

static br_tensor *attend(br_tensor *q, br_tensor *k, int64_t n, const int64_t *starts,
                         const br_varlen_attn_options *o)
{
    return br_varlen_attn(q, k, k, br_from_i64(BR_SHAPE(n), starts), NULL, o);
}

Test(varlen, bad_arguments)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(5, 4, 2), BR_F32), *flat = br_ones(BR_SHAPE(5, 8), BR_F32);
    br_tensor *few = br_ones(BR_SHAPE(5, 3, 2), BR_F32), *two = br_ones(BR_SHAPE(5, 2, 2), BR_F32);
    const int64_t good[] = { 0, 5 }, late[] = { 1, 5 }, falling[] = { 0, 3, 2, 5 };
    check_fails(attend(flat, x, 2, good, NULL), "query [5, 8] must have 3 dimensions");
    check_fails(attend(x, x, 2, late, NULL), "cu_seq_q begins with 1 and ends with 5");
    check_fails(attend(x, x, 4, falling, NULL), "cu_seq_q[2] is 2, less than 3 before it");
    check_fails(attend(x, x, 0, good, NULL), "cu_seq_q [0] must have one dimension");
    check_fails(attend(x, two, 2, good, NULL), "which must be equal unless enable_gqa is true");
    check_fails(attend(x, few, 2, good, BR_OPTIONS(br_varlen_attn, .enable_gqa = true)),
                "the first number must be a multiple of the second");
    check_fails(attend(x, x, 2, good, BR_OPTIONS(br_varlen_attn, .scale = 0)),
                "the option scale is 0, must be greater than 0");
    br_tensor *starts = br_from_i64(BR_SHAPE(2), good);
    check_fails(br_varlen_attn(x, x, x, br_to(starts, BR_F32), NULL, NULL),
                "cu_seq_q is f32, must be i32 or i64");
    br_tensor *more = br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 2, 5 });
    check_fails(br_varlen_attn(x, x, x, starts, more, NULL),
                "cu_seq_q [2] and cu_seq_k [3] must have the same size");
    br_tensor *other = br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 3, 5 });
    check_fails(br_varlen_attn(x, x, x, more, other, BR_OPTIONS(br_varlen_attn, .is_causal = true)),
                "sequence 0 has 2 queries and 3 keys");
    br_scope_end(scope);
}

/* ---- Rows of products ------------------------------------------------------------------------ */

/* A row of a product with few columns, as a head of labels has them, has the same bits for any
 * number of rows from 2 on; with more columns, from 13 on. Packed batches rely on it. BLIS, which
 * computes larger products without AVX2, does not promise it. */
static void check_rows(void)
{
    static const int64_t columns[] = { 1, 2, 3, 40 };
    for (int i = 0; i < 4; i++) {
        br_scope *scope = br_scope_begin();
        br_tensor *x = values(BR_SHAPE(32, 192), 1, BR_F32),
                  *b = values(BR_SHAPE(columns[i]), 3, BR_F32);
        br_tensor *w = values(BR_SHAPE(columns[i], 192), 2, BR_F32), *all = br_f_linear(x, w, b);
        for (int64_t m = columns[i] > 12 ? 13 : 2; m < 32; m++)
            cr_assert(same_bits(br_f_linear(br_narrow(x, 0, 0, m), w, b), br_narrow(all, 0, 0, m)),
                      "%d rows, %d columns", (int)m, (int)columns[i]);
        br_scope_end(scope);
    }
}

Test(varlen, rows_of_products_do_not_depend_on_their_number)
{
    with_every_variant(check_rows);
}
