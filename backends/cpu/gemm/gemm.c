/* backends/cpu/gemm/gemm.c - matrix products: partitions them among threads and packs A.
 *
 * The kernels that gemm_choice.c chooses multiply blocks. This file partitions products into pieces
 * for the threads, and packs large A. An element of C is the same sum in any piece, so the
 * partition may depend on the number of threads. BLIS does not guarantee this, so its partition
 * depends on the sizes only.
 *
 * Products of a storage dtype are computed in f32, a part of C at a time, whose sums are rounded
 * once. */
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/gemm/gemm_choice.h"
#include "backends/cpu/gemm/gemm_share.h"
#include "backends/cpu/pointwise/widened.h"
#include "tensor/denormal.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

#include <math.h>
#include <string.h>

/* Work in multiplications; measured. */
static const double SERIAL_WORK = 3 << 16; /* below this, one thread is faster than two */
static const double TEAM_WORK = 1 << 16; /* minimum per team if there are more teams than threads */
enum {
    L1_BYTES = 64 << 10,     /* larger blocks of A are packed */
    BLOCK_BYTES = 704 << 10, /* packed block of A, which stays in the L2 cache while B streams by */
    L2_BYTES = 1 << 20,      /* more bytes than this do not stay in the L2 cache between two uses */
    SPREAD_PANELS = 12, /* minimum panels of B to pack A if its rows do not conflict in the cache */
    PACKING_COST = 32,  /* cost per element, in multiplications */
    BLIS_PIECES = 8,
    TEAMS_PER_THREAD = 8,
    SUM_COLUMNS = 1024, /* columns of C whose sums are kept in f32, for a block of A */
    FEW_SUMS = 1 << 16, /* of a block with few rows: all sums, of more columns */
    DOT_SUMS = 4096,    /* rows or columns, whichever are more, for dot products */
};

struct piece;

typedef struct job {
    const br_gemm *g;
    const br_gemm_kernels *kernels;
    int64_t size;     /* bytes of an element of A and B */
    int64_t sum_size; /* bytes of an element of C and the bias, as kernels see them */
    bool is_stored;   /* the dtype is a storage dtype */
    void (*multiply)(const struct job *j, const struct piece *p);
    int64_t row_parts, column_parts; /* pieces of each product */
    int64_t teams;                   /* tasks that share the pieces */
    int64_t block_rows, depth;       /* rows of a block of A, and size of a k-block */
    bool exceeds_l2;                 /* the operands exceed the L2 cache */
    int64_t sum_rows, sum_columns;   /* largest part of C whose sums are rounded, if is_stored */
    bool packs_a;
    char *buffers;        /* one per team: packed A, then sums; NULL: neither is needed */
    br_gemm_team *shared; /* one per team if A is packed and has enough rows */
} job;

/* A range of rows and columns of C in one product. */
typedef struct piece {
    const char *a, *b; /* of the whole product */
    char *c;           /* the first element of the range */
    int64_t c_row;
    const char *bias; /* of the first column, or NULL */
    int64_t row, row_end, column, column_end;
    void *packed; /* memory for packed A, or NULL */
    float *sums;  /* memory for sums and a bias in f32, or NULL */
    br_gemm_team *team;
} piece;

/* Returns a / b, rounded up. */
static int64_t ratio(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static int64_t round_up(int64_t a, int64_t unit)
{
    return ratio(a, unit) * unit;
}

/* Returns the step that divides `length` into the fewest steps of at most `max_step`, nearly equal
 * and rounded up to a multiple of `unit`. */
static int64_t balanced_step(int64_t length, int64_t max_step, int64_t unit)
{
    return length == 0 ? unit : round_up(ratio(length, ratio(length, max_step)), unit);
}

int64_t br__gemm_k_block(const br_gemm_kernels *kernels, int64_t k)
{
    return balanced_step(k, kernels->gemm_depth, kernels->gemm_depth_unit);
}

static int64_t batches(const br_gemm *g)
{
    int64_t n = 1;
    for (int i = 0; i < g->batch_ndim; i++)
        n *= g->batch_sizes[i];
    return n;
}

/* Returns the size of all operands in bytes. */
static double bytes(const job *j)
{
    const br_gemm *g = j->g;
    return (double)batches(g) * (double)(g->m * g->k + g->k * g->n + g->m * g->n) * (double)j->size;
}

/* Returns the bytes needed for the packed A of one team, in whole cache lines. */
static int64_t packed_bytes(const job *j)
{
    return j->packs_a ? round_up(j->block_rows * j->depth * j->kernels->packed_size, 64) : 0;
}

/* Returns the number of floats needed for the sums of one team and a row of the bias. */
static int64_t sum_elements(const job *j)
{
    return j->is_stored ? (j->sum_rows + 1) * j->sum_columns : 0;
}

static int64_t buffer_bytes(const job *j)
{
    return packed_bytes(j) + round_up(sum_elements(j) * (int64_t)sizeof(float), 64);
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* Returns the memory of rows i .. i_end - 1 and columns k .. k_end - 1 of A as runs of contiguous
 * elements, or no runs if A is strided in both dimensions. */
static br_strided_rows runs_of_a(const job *j, const piece *p, int64_t i, int64_t i_end, int64_t k,
                                 int64_t k_end)
{
    const br_gemm *g = j->g;
    br_strided_rows r = { .at = p->a + (i * g->a_row + k * g->a_col) * j->size };
    if (g->a_col == 1) {
        r.bytes = (k_end - k) * j->size;
        r.step = g->a_row * j->size;
        r.runs = i_end - i;
    } else if (g->a_row == 1) {
        r.bytes = (i_end - i) * j->size;
        r.step = g->a_col * j->size;
        r.runs = k_end - k;
    }
    return r;
}

/* Multiplies rows i .. i_end - 1 of the piece by the k-block k .. k_end - 1 of B. */
static void multiply_block(const job *j, const piece *p, int64_t i, int64_t i_end, int64_t k,
                           int64_t k_end)
{
    const br_gemm *g = j->g;
    const int64_t size = j->size, height = j->kernels->gemm_rows;
    br_gemm_block block = { .m = i_end - i,
                            .n = p->column_end - p->column,
                            .k = k_end - k,
                            .a = p->a + (i * g->a_row + k * g->a_col) * size,
                            .a_tile = height * g->a_row,
                            .a_row = g->a_row,
                            .a_col = g->a_col,
                            .b = p->b + (k * g->b_row + p->column * g->b_col) * size,
                            .b_row = g->b_row,
                            .b_col = g->b_col,
                            .c = p->c + (i - p->row) * p->c_row * j->sum_size,
                            .c_row = p->c_row,
                            .accumulate = g->accumulate || k > 0,
                            .exceeds_l2 = j->exceeds_l2 };
    if (k_end < g->k)
        block.next = runs_of_a(j, p, i, i_end, k_end, br__min(k_end + j->depth, g->k));
    else if (i_end < p->row_end)
        block.next = runs_of_a(j, p, i_end, br__min(i_end + j->block_rows, p->row_end), 0,
                               br__min(j->depth, g->k));
    if (k == 0)
        block.bias = p->bias;
    if (g->b_rows) {
        block.b = p->b;
        block.b_rows = g->b_rows + k;
        block.b_columns = g->b_columns + p->column;
        block.c_columns = g->c_columns + p->column;
    }
    if (p->packed) {
        j->kernels->gemm_pack(p->packed, block.m, block.k, block.a, g->a_row, g->a_col);
        block.a = p->packed;
        block.a_tile = height * block.k;
        block.a_row = 1;
        block.a_col = height;
    }
    if (p->team)
        br__gemm_share(p->team, j->kernels, &block);
    else
        j->kernels->gemm_block(&block);
}

static void multiply_by_tiles(const job *j, const piece *p)
{
    for (int64_t i = p->row; i < p->row_end; i += j->block_rows) {
        const int64_t i_end = br__min(i + j->block_rows, p->row_end);
        int64_t k = 0;
        do { /* once even if g->k is 0: C becomes the bias, or zeros */
            multiply_block(j, p, i, i_end, k, br__min(k + j->depth, j->g->k));
            k += j->depth;
        } while (k < j->g->k);
    }
}

static void multiply_by_dots(const job *j, const piece *p)
{
    const br_gemm *g = j->g;
    br_gemm_block block = { .m = p->row_end - p->row,
                            .n = p->column_end - p->column,
                            .k = g->k,
                            .a = p->a + p->row * g->a_row * j->size,
                            .a_row = g->a_row,
                            .b = p->b + p->column * g->b_col * j->size,
                            .b_col = g->b_col,
                            .c = p->c,
                            .c_row = p->c_row,
                            .bias = p->bias,
                            .accumulate = g->accumulate,
                            .is_part = g->m > 1 };
    j->kernels->gemm_dots(&block);
}

static void multiply_by_blis(const job *j, const piece *p)
{
    br_gemm g = *j->g;
    g.m = p->row_end - p->row;
    g.n = p->column_end - p->column;
    g.a = p->a + p->row * g.a_row * j->size;
    g.b = p->b + p->column * g.b_col * j->size;
    g.c = p->c;
    br__gemm_blis(&g);
    if (!g.bias)
        return;
    job adding = *j; /* a product with k = 0 adds the bias */
    g = *j->g;
    g.accumulate = true;
    adding.g = &g;
    multiply_block(&adding, p, p->row, p->row_end, 0, 0);
}

/* Computes the rows and columns of a piece that `part` has. The C and the bias of the piece are in
 * a storage dtype; `part` gets an f32 copy of each. */
static void multiply_rounded(const job *j, const piece *p, piece *part)
{
    const br_dtype dtype = j->g->dtype;
    const int64_t rows = part->row_end - part->row, columns = part->column_end - part->column;
    float *const sums = p->sums, *const bias = p->sums + j->sum_rows * j->sum_columns;
    char *c = p->c + ((part->row - p->row) * p->c_row + part->column - p->column) * j->size;
    for (int64_t i = 0; i < rows && j->g->accumulate; i++)
        br__widen(dtype, sums + i * columns, columns, c + i * p->c_row * j->size, j->size);
    if (p->bias) {
        br__widen(dtype, bias, columns, p->bias + (part->column - p->column) * j->size, j->size);
        part->bias = (const char *)bias;
    }
    part->c = (char *)sums;
    part->c_row = columns;
    j->multiply(j, part);
    for (int64_t i = 0; i < rows; i++)
        br__narrow(dtype, c + i * p->c_row * j->size, j->size, sums + i * columns, columns);
}

/* Computes a piece of a product of a storage dtype. The sums of a part stay in the caches until its
 * last k-block is added and they are rounded. */
static void multiply_stored(const job *j, const piece *p)
{
    piece part = *p;
    for (int64_t i = p->row; i < p->row_end; i = part.row_end)
        for (int64_t k = p->column; k < p->column_end; k = part.column_end) {
            part.row = i;
            part.row_end = br__min(i + j->sum_rows, p->row_end);
            part.column = k;
            part.column_end = br__min(k + j->sum_columns, p->column_end);
            multiply_rounded(j, p, &part);
        }
}

static void multiply_piece(const job *j, const piece *p)
{
    if (j->is_stored)
        multiply_stored(j, p);
    else
        j->multiply(j, p);
}

/* Returns the unit in which rows are divided into pieces: the height of a tile, or of a block of
 * dot products, whose last block may have a single row, which is slower. */
static int64_t row_unit(const job *j)
{
    return j->multiply == multiply_by_dots ? j->kernels->dot_rows : j->kernels->gemm_rows;
}

/* Returns the start of part i of `parts` of a length, in whole units. */
static int64_t part_start(int64_t length, int64_t unit, int64_t i, int64_t parts)
{
    if (i == 0 || i == parts) /* divisions are noticeable in a batch of small products */
        return i == 0 ? 0 : length;
    return ratio(length, unit) * i / parts * unit;
}

/* The position of a piece within its product, and of the product in the batch, with the offsets of
 * the product's A, B and C in elements. */
typedef struct place {
    int64_t row, column;
    int64_t index[BR_GEMM_BATCH_DIMS];
    int64_t a, b, c;
} place;

static place place_of(const job *j, int64_t i)
{
    const br_gemm *g = j->g;
    place at = { .row = i % j->row_parts, .column = i / j->row_parts % j->column_parts };
    int64_t rest = i / (j->row_parts * j->column_parts);
    for (int d = 0; d < g->batch_ndim; d++) {
        at.index[d] = rest % g->batch_sizes[d];
        rest /= g->batch_sizes[d];
        at.a += at.index[d] * g->a_batch[d];
        at.b += at.index[d] * g->b_batch[d];
        at.c += at.index[d] * g->c_batch[d];
    }
    return at;
}

/* Advances to the next piece without a division, which would be noticeable in a batch of small
 * products. */
static void advance(const job *j, place *at)
{
    const br_gemm *g = j->g;
    if (++at->row < j->row_parts)
        return;
    at->row = 0;
    if (++at->column < j->column_parts)
        return;
    at->column = 0;
    for (int d = 0; d < g->batch_ndim; d++) {
        const bool more = ++at->index[d] < g->batch_sizes[d];
        const int64_t steps = more ? 1 : 1 - g->batch_sizes[d];
        at->a += steps * g->a_batch[d];
        at->b += steps * g->b_batch[d];
        at->c += steps * g->c_batch[d];
        if (more)
            return;
        at->index[d] = 0;
    }
}

static void run_piece(const job *j, const place *at, char *buffer, br_gemm_team *team)
{
    const br_gemm *g = j->g;
    const int64_t height = row_unit(j), width = j->kernels->gemm_columns;
    piece p = { .a = (const char *)g->a + at->a * j->size,
                .b = (const char *)g->b + at->b * j->size,
                .c_row = g->c_row,
                .row = part_start(g->m, height, at->row, j->row_parts),
                .row_end = part_start(g->m, height, at->row + 1, j->row_parts),
                .column = part_start(g->n, width, at->column, j->column_parts),
                .column_end = part_start(g->n, width, at->column + 1, j->column_parts),
                .packed = j->packs_a ? buffer : NULL,
                .team = team };
    if (j->is_stored)
        p.sums = (float *)(void *)(buffer + packed_bytes(j));
    if (p.row >= p.row_end || p.column >= p.column_end)
        return;
    const int64_t first_column = g->b_rows ? 0 : p.column; /* lists contain all columns */
    p.c = (char *)g->c + (at->c + p.row * g->c_row + first_column) * j->size;
    if (g->bias)
        p.bias = (const char *)g->bias + p.column * j->size;
    multiply_piece(j, &p);
}

/* Computes a team's share of the pieces. */
static void run_team(void *context, int64_t team)
{
    const job *j = context;
    const int64_t pieces = batches(j->g) * j->row_parts * j->column_parts;
    const int64_t first = pieces * team / j->teams, end = pieces * (team + 1) / j->teams;
    char *buffer = j->buffers ? j->buffers + team * buffer_bytes(j) : NULL;
    br_gemm_team *own = j->shared ? j->shared + team : NULL;
    if (own)
        br__gemm_team_begins(own);
    place at = place_of(j, first);
    for (int64_t i = first; i < end; i++, advance(j, &at))
        run_piece(j, &at, buffer, own);
    if (own)
        br__gemm_team_ends(own, j->kernels, j->shared, j->teams);
}

/* ---- Partitioning ---------------------------------------------------------------------------- */

/* Divides each product into at most `parts` pieces such that the cost of the largest piece is
 * minimal. The cost includes its multiplications and the packing of its rows of A and columns of B.
 */
static void cut(job *j, int64_t parts)
{
    const int64_t height = row_unit(j), tall = ratio(j->g->m, height);
    const int64_t width = j->kernels->gemm_columns, wide = ratio(j->g->n, width);
    double min_cost = INFINITY;
    for (int64_t columns = br__min(parts, wide); columns >= 1; columns--) {
        int64_t rows = br__min(parts / columns, tall);
        double m = (double)br__min(ratio(tall, rows) * height, j->g->m);
        double n = (double)br__min(ratio(wide, columns) * width, j->g->n);
        double cost = m * n + PACKING_COST * (m + n);
        if (cost < min_cost) {
            min_cost = cost;
            j->row_parts = rows;
            j->column_parts = columns;
        }
    }
}

static void cut_for_threads(job *j)
{
    const int64_t n = batches(j->g);
    int64_t threads = br_get_num_threads();
    if ((double)n * br__gemm_work(j->g) < SERIAL_WORK)
        threads = 1;
    if (j->multiply == multiply_by_blis)
        cut(j, BLIS_PIECES);
    else
        cut(j, n >= 4 * threads ? 1 : threads);
    j->teams = br__min(threads, n * j->row_parts * j->column_parts);
}

/* Returns whether rows at this distance map to different sets of the L1 cache, whose sets repeat
 * every 4 KiB. */
static bool rows_spread(int64_t bytes)
{
    return bytes % 2048 != 0;
}

/* Returns whether to pack A. Some kernels need it. Otherwise it pays if many columns of B reuse a
 * block of A, and the block does not fit in the L1 cache. If A's rows are contiguous and do not
 * conflict in the cache, reading them in place is nearly as fast, so packing pays only with more
 * columns. */
static bool should_pack_a(const job *j)
{
    const br_gemm *g = j->g;
    const int64_t columns = ratio(g->n, j->column_parts);
    const bool spread = g->a_col == 1 && rows_spread(g->a_row * j->size);
    return j->multiply == multiply_by_tiles &&
           (j->kernels->only_packed ||
            (columns >= (spread ? SPREAD_PANELS : 4) * j->kernels->gemm_columns &&
             j->block_rows * br__min(j->depth, g->k) * j->size >= L1_BYTES));
}

/* Makes more teams than threads. A thread that has finished its own teams can then take over whole
 * teams of other threads. Used only if teams need no buffers. */
static void split_teams(job *j)
{
    const int64_t n = batches(j->g), pieces = n * j->row_parts * j->column_parts;
    const int64_t worth = (int64_t)((double)n * br__gemm_work(j->g) / TEAM_WORK);
    if (j->teams > 1)
        j->teams = br__max(j->teams, br__min(br__min(pieces, worth), TEAMS_PER_THREAD * j->teams));
}

/* Chooses the parts of C whose sums are in f32. Parts of dot products consist of whole blocks of
 * rows. */
static void cut_sums(job *j)
{
    const br_gemm *g = j->g;
    const bool dots = j->multiply == multiply_by_dots;
    const int64_t width = j->kernels->gemm_columns;
    const int64_t columns = ratio(ratio(g->n, width), j->column_parts) * width; /* of a piece */
    const int64_t rows = dots ? round_up(DOT_SUMS, j->kernels->dot_rows) : j->block_rows;
    j->sum_rows = br__min(dots && g->m <= g->n ? g->m : rows, g->m);
    const int64_t most = dots ? DOT_SUMS : br__max(SUM_COLUMNS, FEW_SUMS / j->sum_rows);
    j->sum_columns = br__min(balanced_step(columns, most, width), g->n);
}

static bool run(job *j)
{
    cut_for_threads(j);
    j->exceeds_l2 = bytes(j) > L2_BYTES;
    j->depth = br__gemm_k_block(j->kernels, j->g->k);
    j->block_rows =
        balanced_step(ratio(j->g->m, j->row_parts),
                      BLOCK_BYTES / (j->depth * j->kernels->packed_size), j->kernels->gemm_rows);
    j->packs_a = should_pack_a(j);
    if (!j->packs_a)
        split_teams(j);
    cut_sums(j);
    if (buffer_bytes(j) == 0) {
        br__parallel(j->teams, run_team, j);
        return true;
    }
    br_extent *extent;
    const size_t shared = (size_t)j->teams * sizeof *j->shared;
    const size_t bytes = shared + (size_t)(j->teams * buffer_bytes(j));
    void *block = br__block_alloc("gemm", bytes, &extent);
    if (!block)
        return false;
    j->buffers = (char *)block + shared;
    if (j->packs_a && j->g->m > j->kernels->unshared_rows)
        j->shared = memset(block, 0, shared);
    br__parallel(j->teams, run_team, j);
    br__block_free(block, bytes, extent);
    return true;
}

/* ---- The product ----------------------------------------------------------------------------- */

/* Rewrites the product C = A B as C^T = B^T A^T. */
static br_gemm flipped(const br_gemm *g)
{
    br_gemm t = *g;
    t.m = g->n;
    t.n = g->m;
    t.a = g->b;
    t.b = g->a;
    t.a_row = g->b_col;
    t.a_col = g->b_row;
    t.b_row = g->a_col;
    t.b_col = g->a_row;
    memcpy(t.a_batch, g->b_batch, sizeof t.a_batch);
    memcpy(t.b_batch, g->a_batch, sizeof t.b_batch);
    return t;
}

/* Computes a single product that is too small to gain from threads or packing, without partitioning
 * it. Returns false, and does nothing, for any other product. */
static bool run_small(const job *j)
{
    const br_gemm *g = j->g;
    if (g->batch_ndim > 0 || j->multiply == multiply_by_blis || br__gemm_work(g) >= SERIAL_WORK ||
        j->kernels->only_packed)
        return false;
    piece whole = { .a = g->a,
                    .b = g->b,
                    .c = g->c,
                    .c_row = g->c_row,
                    .bias = g->bias,
                    .row_end = g->m,
                    .column_end = g->n };
    if (j->multiply == multiply_by_dots)
        multiply_by_dots(j, &whole);
    else if (g->k <= BR_GEMM_K && g->m * g->k * j->size < L1_BYTES)
        multiply_block(j, &whole, 0, g->m, 0, g->k);
    else
        return false;
    return true;
}

static bool multiply(const br_gemm *g)
{
    static void (*const ways[])(const job *j, const piece *p) = {
        [BR_GEMM_TILES] = multiply_by_tiles,
        [BR_GEMM_DOTS] = multiply_by_dots,
        [BR_GEMM_BLIS] = multiply_by_blis,
    };
    br_gemm row;
    if (g->n == 1 && g->c_row == 1 && !g->bias && !g->b_rows) {
        row = flipped(g); /* vectors run along the rows of C: a single column would waste them */
        g = &row;
    }
    const br_gemm_choice choice = br__gemm_choice(g);
    job j = { .g = g,
              .kernels = choice.kernels,
              .size = (int64_t)br__dtype_size(g->dtype),
              .sum_size = (int64_t)br__dtype_size(br__computed(g->dtype)),
              .is_stored = br__is_stored(g->dtype),
              .multiply = ways[choice.way] };
    return run_small(&j) || run(&j);
}

bool br__gemm(const br_gemm *g)
{
    if (g->m == 0 || g->n == 0 || batches(g) == 0)
        return true;
    const br_float_mode before = br__flush_denormals();
    const bool done = multiply(g);
    br__restore_denormals(before);
    return done;
}
