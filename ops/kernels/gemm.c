/* ops/kernels/gemm.c - matrix products: how they are cut up and shared among threads.
 *
 * The kernels (gemm_tile.h) multiply blocks; here products are cut into pieces for the threads, and
 * large A are packed. Since an element of C is the same sum in whichever piece it lies, the cut may
 * go by the number of threads. BLIS, which makes no such promise, gets a cut that goes by sizes. */
#include "ops/kernels/gemm.h"
#include "ops/kernels/kernels.h"
#include "tensor/tensor_internal.h"

#include <string.h>

/* All in multiplications; measured. */
static const int64_t SERIAL_WORK = 1 << 18; /* below it a second thread costs more than it gives */
static const int64_t BLIS_WORK = 1 << 18;
enum {
    PACKED_BYTES = 16 << 20, /* the most that a packed copy of A takes */
    BLOCK_BYTES = 640 << 10, /* of A that the second-level cache holds while B's panels pass by */
    BLIS_PIECES = 8,
};

typedef struct job {
    const br_gemm *g;
    const br_kernels *kernels;
    int64_t size;                    /* bytes of an element */
    int64_t row_parts, column_parts; /* pieces of each product */
    void *packed;                    /* A packed in blocks of BR_GEMM_K columns, or NULL */
} job;

/* Part of one product: rows and columns of C. */
typedef struct piece {
    const char *a, *b;
    char *c;
    int64_t row, row_end, column, column_end;
} piece;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* a / b, rounded up. */
static int64_t ratio(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t unit)
{
    return ratio(a, unit) * unit;
}

static int64_t batches(const br_gemm *g)
{
    int64_t n = 1;
    for (int i = 0; i < g->batch_ndim; i++)
        n *= g->batch_sizes[i];
    return n;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Columns k .. k_end of A times those rows of B, for a piece. */
static void multiply_slab(const job *j, const piece *p, int64_t k, int64_t k_end)
{
    const br_gemm *g = j->g;
    const int64_t size = j->size, height = j->kernels->gemm_rows, depth = k_end - k;
    br_gemm_block block = { .n = p->column_end - p->column,
                            .k = depth,
                            .a_tile = j->packed ? height * depth : height * g->a_row,
                            .a_row = j->packed ? 1 : g->a_row,
                            .a_col = j->packed ? height : g->a_col,
                            .b = p->b + (k * g->b_row + p->column * g->b_col) * size,
                            .b_row = g->b_row,
                            .b_col = g->b_col,
                            .c_row = g->c_row,
                            .accumulate = g->accumulate || k > 0 };
    if (g->bias && k == 0)
        block.bias = (const char *)g->bias + p->column * size;
    const int64_t rows = p->row_end - p->row, most = BLOCK_BYTES / (BR_GEMM_K * size);
    const int64_t step = round_up(ratio(rows, ratio(rows, most)), height);
    for (int64_t i = p->row; i < p->row_end; i += step) {
        block.m = min64(step, p->row_end - i);
        block.a = j->packed ? (char *)j->packed + (round_up(g->m, height) * k + i * depth) * size
                            : p->a + (i * g->a_row + k * g->a_col) * size;
        block.c = p->c + (i * g->c_row + p->column) * size;
        j->kernels->gemm_block(&block);
    }
}

static void multiply_by_blis(const job *j, const piece *p)
{
    br_gemm g = *j->g;
    g.m = p->row_end - p->row;
    g.n = p->column_end - p->column;
    g.a = p->a + p->row * g.a_row * j->size;
    g.b = p->b + p->column * g.b_col * j->size;
    g.c = p->c + (p->row * g.c_row + p->column) * j->size;
    if (g.m > 0 && g.n > 0)
        br__gemm_blis(&g);
    if (!g.bias)
        return;
    job adding = *j; /* a product over no k at all adds the bias */
    br_gemm nothing = *j->g;
    nothing.accumulate = true;
    adding.g = &nothing;
    multiply_slab(&adding, p, 0, 0);
}

static bool takes_blis(const br_kernels *kernels, const br_gemm *g)
{
    return kernels->gemm_by_blis && g->m * g->n * g->k >= BLIS_WORK;
}

static void multiply_piece(const job *j, const piece *p)
{
    if (p->row == p->row_end || p->column == p->column_end)
        return;
    if (takes_blis(j->kernels, j->g)) {
        multiply_by_blis(j, p);
        return;
    }
    int64_t k = 0;
    do {
        int64_t k_end = min64(k + BR_GEMM_K, j->g->k);
        multiply_slab(j, p, k, k_end);
        k = k_end;
    } while (k < j->g->k);
}

/* Start of part number i of `parts` of a length, in whole units. */
static int64_t part_start(int64_t length, int64_t unit, int64_t i, int64_t parts)
{
    return min64(ratio(length, unit) * i / parts * unit, length);
}

/* Task number i: a piece of one of the batch's products. */
static void run_task(void *context, int64_t i)
{
    const job *j = context;
    const br_gemm *g = j->g;
    int64_t row = i % j->row_parts, column = i / j->row_parts % j->column_parts;
    int64_t index = i / (j->row_parts * j->column_parts), a = 0, b = 0, c = 0;
    for (int d = 0; d < g->batch_ndim; d++) {
        int64_t at = index % g->batch_sizes[d];
        index /= g->batch_sizes[d];
        a += at * g->a_batch[d];
        b += at * g->b_batch[d];
        c += at * g->c_batch[d];
    }
    const int64_t height = j->kernels->gemm_rows, width = j->kernels->gemm_columns;
    piece p = { .a = (const char *)g->a + a * j->size,
                .b = (const char *)g->b + b * j->size,
                .c = (char *)g->c + c * j->size,
                .row = part_start(g->m, height, row, j->row_parts),
                .row_end = part_start(g->m, height, row + 1, j->row_parts),
                .column = part_start(g->n, width, column, j->column_parts),
                .column_end = part_start(g->n, width, column + 1, j->column_parts) };
    multiply_piece(j, &p);
}

/* ---- Cutting --------------------------------------------------------------------------------- */

/* Cuts each product into at most `parts` pieces so that the largest is as small as can be. */
static void cut(job *j, int64_t parts)
{
    const int64_t tall = ratio(j->g->m, j->kernels->gemm_rows);
    const int64_t wide = ratio(j->g->n, j->kernels->gemm_columns);
    int64_t least = INT64_MAX;
    for (int64_t columns = min64(parts, wide); columns >= 1; columns--) {
        int64_t rows = min64(parts / columns, tall);
        int64_t largest = ratio(tall, rows) * ratio(wide, columns);
        if (largest < least) {
            least = largest;
            j->row_parts = rows;
            j->column_parts = columns;
        }
    }
}

static void run(job *j)
{
    const br_gemm *g = j->g;
    const int64_t n = batches(g), threads = br_get_num_threads();
    bool serial = (double)n * (double)g->m * (double)g->n * (double)g->k < (double)SERIAL_WORK;
    int64_t parts = takes_blis(j->kernels, g)    ? BLIS_PIECES
                    : serial || n >= 4 * threads ? 1
                                                 : threads;
    cut(j, parts);
    int64_t tasks = n * j->row_parts * j->column_parts;
    if (!serial) {
        br__parallel(tasks, run_task, j);
        return;
    }
    for (int64_t i = 0; i < tasks; i++)
        run_task(j, i);
}

/* ---- Packing --------------------------------------------------------------------------------- */

/* Rows of A for one task of pack_all(), and how many there are. */
static int64_t pack_step(const job *j)
{
    return round_up(ratio(j->g->m, 4 * (int64_t)br_get_num_threads()), j->kernels->gemm_rows);
}

static void pack_task(void *context, int64_t i)
{
    const job *j = context;
    const br_gemm *g = j->g;
    const int64_t step = pack_step(j), row = i * step, rows = min64(step, g->m - row);
    const int64_t height = round_up(g->m, j->kernels->gemm_rows);
    for (int64_t k = 0; k < g->k; k += BR_GEMM_K) {
        int64_t depth = min64(BR_GEMM_K, g->k - k);
        j->kernels->gemm_pack((char *)j->packed + (height * k + row * depth) * j->size, rows, depth,
                              (const char *)g->a + (row * g->a_row + k * g->a_col) * j->size,
                              g->a_row, g->a_col);
    }
}

/* A copy of A by tiles earns its cost if many columns of B use it and the first-level cache does
 * not hold A as it lies. */
static bool wants_packing(const job *j)
{
    const br_gemm *g = j->g;
    return g->n >= 4 * j->kernels->gemm_columns && g->m * g->k * j->size >= 128 << 10 &&
           !takes_blis(j->kernels, g);
}

/* One product, of which a packed A takes at most PACKED_BYTES or so. */
static bool run_packed(const job *direct, const br_gemm *g)
{
    job j = *direct;
    j.g = g;
    size_t capacity, bytes = (size_t)(round_up(g->m, j.kernels->gemm_rows) * g->k * j.size);
    j.packed = br__block_alloc("gemm", bytes, &capacity);
    if (!j.packed)
        return false;
    br__parallel(ratio(g->m, pack_step(&j)), pack_task, &j);
    run(&j);
    br__block_free(j.packed, bytes, capacity);
    return true;
}

/* One product, in parts small enough for run_packed(). */
static bool run_large(const job *j, br_gemm g)
{
    const br_gemm whole = g;
    const int64_t size = j->size, slab = BR_GEMM_K * size, height = j->kernels->gemm_rows;
    const int64_t rows = round_up(min64(whole.m, PACKED_BYTES / slab / height * height), height);
    const int64_t depth = PACKED_BYTES / (rows * slab) * BR_GEMM_K;
    for (int64_t i = 0; i < whole.m; i += rows) {
        for (int64_t k = 0; k < whole.k; k += depth) {
            g.m = min64(rows, whole.m - i);
            g.k = min64(depth, whole.k - k);
            g.a = (const char *)whole.a + (i * whole.a_row + k * whole.a_col) * size;
            g.b = (const char *)whole.b + k * whole.b_row * size;
            g.c = (char *)whole.c + i * whole.c_row * size;
            g.bias = k == 0 ? whole.bias : NULL;
            g.accumulate = whole.accumulate || k > 0;
            if (!run_packed(j, &g))
                return false;
        }
    }
    return true;
}

/* Each product of the batch by itself: dimension d and those after it. */
static bool run_each(const job *j, br_gemm g, int d)
{
    if (d == j->g->batch_ndim) {
        g.batch_ndim = 0;
        return run_large(j, g);
    }
    for (int64_t i = 0; i < j->g->batch_sizes[d]; i++) {
        if (!run_each(j, g, d + 1))
            return false;
        g.a = (const char *)g.a + g.a_batch[d] * j->size;
        g.b = (const char *)g.b + g.b_batch[d] * j->size;
        g.c = (char *)g.c + g.c_batch[d] * j->size;
    }
    return true;
}

bool br__gemm(const br_gemm *g)
{
    if (g->m == 0 || g->n == 0 || batches(g) == 0)
        return true;
    job j = { .g = g,
              .kernels = br__kernels(g->is_double),
              .size = g->is_double ? sizeof(double) : sizeof(float) };
    if (wants_packing(&j))
        return run_each(&j, *g, 0);
    run(&j);
    return true;
}
