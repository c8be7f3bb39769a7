/* tests/ops/matmul/test_gemm_amx.c - the kernels for AMX with emulated tile instructions: their use
 * of the tiles, and the order of their sums. test_gemm_bf16.c and test_matmul_precision.c compare
 * their products with references, and those of a processor with AMX, too. */
#include "tests/ops/matmul/bf16_products.h"
#include "tests/ops/matmul/bf16_units.h"

#include <brasa/brasa.h>
#include <signal.h>

#ifdef __x86_64__
#    include "tests/ops/matmul/amx_emulation.h"

static void gemm_amx_end(void)
{
    br_set_float32_matmul_precision("highest");
    next_unit(UNITS);
    check_end();
}

TestSuite(gemm_amx, .init = check_begin, .fini = gemm_amx_end);

/* Makes products use the emulation, or skips the test: the kernel rounds with AVX512-BF16. */
static void use_emulation(void)
{
    if (use_unit(UNIT_AMX_EMULATED))
        return;
    check_end(); /* Criterion does not call it for a skipped test */
    cr_skip_test("this processor has no AVX512-BF16");
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

Test(gemm_amx, tiles_are_configured_and_released)
{
    use_emulation();
    check_product(&br__gemm_amx_emulated, &(product){ .m = 40, .n = 40, .k = 40 });
    cr_assert_eq(emulated_configurations(), 1);
    cr_assert_eq(emulated_releases(), 1);
    cr_assert_not(emulated_is_configured());
    const emulated_configuration c = emulated_last_configuration();
    cr_assert_eq(c.palette, 1);
    cr_assert_eq(c.start_row, 0);
    for (int i = 0; i < EMULATED_TILES; i++) {
        cr_assert_eq(c.rows[i], 16, "tile %d has %d rows", i, c.rows[i]);
        cr_assert_eq(c.row_bytes[i], 64, "tile %d has rows of %d bytes", i, c.row_bytes[i]);
    }
}

/* Several blocks, and threads that take panels from each other. */
Test(gemm_amx, each_thread_releases_its_tiles)
{
    use_emulation();
    br_set_float32_matmul_precision("medium");
    br_set_num_threads(3);
    br_scope *scope = br_scope_begin();
    br_tensor *a = br_ones(BR_SHAPE(200, 800), BR_F32), *b = br_ones(BR_SHAPE(800, 300), BR_F32);
    br_tensor *c = br_mm(a, b);
    check_close(br_at(c, BR_DIMS(199, 299)), 800, 0);
    cr_assert_gt(emulated_configurations(), 3);
    cr_assert_eq(emulated_configurations(), emulated_releases());
    cr_assert_not(emulated_is_configured());
    br_scope_end(scope);
}

/* br_measure_peak() runs it in each thread. */
Test(gemm_amx, the_loop_of_the_limit_releases_its_tiles)
{
    use_emulation();
    cr_assert(br__gemm_amx_emulated.peak_loop(3) == 0);
    cr_assert_eq(emulated_releases(), 1);
    cr_assert_not(emulated_is_configured());
    cr_assert_eq(br__gemm_amx_emulated.peak_flops, 4 * 2 * 16 * 16 * 32);
    check_close(br__gemm_amx_high_emulated.peak_flops, 4 * 2 * 16 * 16 * 32 / 3., 1e-9);
}

/* ---- The order of sums ----------------------------------------------------------------------- */

/* Returns `sum` plus an element of a product of bf16 numbers: 32 numbers along k are one
 * TDPBF16PS. */
static float sum_in_order(const double *a, const double *b, int64_t i, int64_t j, int64_t n,
                          int64_t k, float sum)
{
    for (int64_t block = 0; block < k; block += 32) {
        float part[2] = { 0, 0 }; /* of the numbers with even k, and with odd k */
        for (int64_t p = block; p < k && p < block + 32; p++)
            part[p % 2] += (float)(a[i * k + p] * b[p * n + j]);
        sum += part[0] + part[1];
    }
    return sum;
}

/* The place of an element in a tile, and of the tile in C, do not matter. */
Test(gemm_amx, sums_have_the_documented_order)
{
    static const int64_t sizes[][3] = {
        { 1, 1, 1 },    { 16, 16, 32 }, { 32, 32, 64 },  { 17, 33, 63 },
        { 64, 48, 65 }, { 5, 70, 200 }, { 47, 15, 384 }, { 33, 64, 383 },
    };
    use_emulation();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int begin = 0; begin < 4; begin++) {
            const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], c_row = n + GAP;
            const product p = {
                .m = m, .n = n, .k = k, .bias = begin & 1, .accumulate = begin & 2
            };
            matrix a = random_matrix(OF_A, m, k, DENSE);
            matrix b = random_matrix(OF_B, k, n, TRANSPOSED);
            float bias[MAX_SIZE], *c = guarded_memory(OF_C, m * c_row - GAP);
            for (int64_t i = 0; i < m * c_row - GAP; i++)
                c[i] = (float)i / 64;
            for (int64_t j = 0; j < n; j++)
                bias[j] = next_value();
            multiply(&br__gemm_amx_emulated, &p, &a, &b, bias, c);
            for (int64_t i = 0; i < m; i++)
                for (int64_t j = 0; j < n; j++) {
                    const float before = p.accumulate ? (float)(i * c_row + j) / 64 : 0;
                    const float first = p.bias ? before + bias[j] : before;
                    const float want = sum_in_order(a.rounded, b.rounded, i, j, n, k, first);
                    cr_assert(c[i * c_row + j] == want,
                              "m %lld n %lld k %lld: [%lld][%lld] is %a, expected %a", (long long)m,
                              (long long)n, (long long)k, (long long)i, (long long)j,
                              (double)c[i * c_row + j], (double)want);
                }
            matrix_free(&a);
            matrix_free(&b);
        }
}

/* The products of remainders come first. */
Test(gemm_amx, sums_of_split_operands_have_the_documented_order)
{
    static const int64_t sizes[][3] = {
        { 1, 1, 1 }, { 32, 32, 64 }, { 17, 33, 63 }, { 5, 70, 191 }, { 47, 15, 192 },
    };
    use_emulation();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const int64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2], c_row = n + GAP;
        const product p = { .m = m, .n = n, .k = k, .bias = true, .accumulate = true };
        matrix a = random_matrix(OF_A, m, k, TRANSPOSED), b = random_matrix(OF_B, k, n, DENSE);
        float bias[MAX_SIZE], *c = guarded_memory(OF_C, m * c_row - GAP);
        for (int64_t i = 0; i < m * c_row - GAP; i++)
            c[i] = (float)i / 64;
        for (int64_t j = 0; j < n; j++)
            bias[j] = next_value();
        multiply(&br__gemm_amx_high_emulated, &p, &a, &b, bias, c);
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                float want = sum_in_order(a.rest, b.rounded, i, j, n, k, 0);
                want = sum_in_order(a.rounded, b.rest, i, j, n, k, want) + bias[j];
                want += (float)(i * c_row + j) / 64;
                want = sum_in_order(a.rounded, b.rounded, i, j, n, k, want);
                cr_assert(c[i * c_row + j] == want, "k %lld: [%lld][%lld] is %a, expected %a",
                          (long long)k, (long long)i, (long long)j, (double)c[i * c_row + j],
                          (double)want);
            }
        matrix_free(&a);
        matrix_free(&b);
    }
}

/* Both units round their operands alike, so their sums differ by rounding only: each is within k
 * roundings of the exact sum. */
Test(gemm_amx, products_equal_those_of_avx512_bf16)
{
    use_emulation();
    br_manual_seed(1);
    br_set_float32_matmul_precision("medium");
    br_scope *scope = br_scope_begin();
    const int64_t k = 801;
    br_tensor *a = br_randn(BR_SHAPE(75, k), BR_F32), *b = br_randn(BR_SHAPE(k, 99), BR_F32);
    br_tensor *c[2];
    cr_assert_str_eq(br_get_float32_matmul_unit(), "amx");
    c[0] = br_mm(a, b);
    cr_assert(use_unit(UNIT_AVX512_BF16));
    cr_assert_str_eq(br_get_float32_matmul_unit(), "avx512_bf16");
    c[1] = br_mm(a, b);
    br_tensor *magnitude = br_mm(br_abs(a), br_abs(b));
    check_ok();
    for (int64_t i = 0; i < br_numel(magnitude); i++) {
        /* rounded operands are larger by a factor of at most 1 + 2^-8 */
        const double size = 1.01 * (double)br_data_f32(magnitude)[i];
        const double bound = 2 * (double)(k + 5) * FLT_EPSILON / 2 * size;
        const double difference = (double)br_data_f32(c[0])[i] - (double)br_data_f32(c[1])[i];
        cr_assert(fabs(difference) <= bound, "element %lld differs by %g", (long long)i,
                  difference);
    }
    br_scope_end(scope);
}

/* ---- Special values -------------------------------------------------------------------------- */

enum { SPECIAL_ROWS = 37, SPECIAL_COLUMNS = 35 };

/* Checks a product whose operand `of` has the value x in its last place along k, in its last row
 * (A) or column (B). */
static void check_special_value(const br_gemm_kernels *kernels, operand of, int64_t k, float x)
{
    const int64_t at = of == OF_A ? SPECIAL_ROWS - 1 : SPECIAL_COLUMNS - 1;
    const float rounded = nearest_bf16(x);
    const product p = { .m = SPECIAL_ROWS, .n = SPECIAL_COLUMNS, .k = k };
    matrix a = random_matrix(OF_A, p.m, k, of == OF_A ? TRANSPOSED : DENSE);
    matrix b = random_matrix(OF_B, k, p.n, of == OF_A ? TRANSPOSED : DENSE);
    float *c = guarded_memory(OF_C, p.m * (p.n + GAP) - GAP);
    if (of == OF_A)
        a.memory[at * a.row + (k - 1) * a.column] = x;
    else
        b.memory[(k - 1) * b.row + at * b.column] = x;
    multiply(kernels, &p, &a, &b, NULL, c);
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t j = 0; j < p.n; j++) {
            const float got = c[i * (p.n + GAP) + j];
            const double other =
                of == OF_A ? b.rounded[(k - 1) * p.n + j] : a.rounded[i * k + k - 1];
            if ((of == OF_A ? i : j) != at || rounded == 0)
                cr_assert(isfinite(got));
            else if (isnan(rounded))
                cr_assert(isnan(got));
            else
                cr_assert(got == rounded * (float)(other > 0 ? 1 : -1));
        }
    matrix_free(&a);
    matrix_free(&b);
}

/* A special value at any place along k is in its own row or column only, also where zeros complete
 * the tiles. FLT_MAX is rounded to infinity, which has no remainder. */
Test(gemm_amx, special_values_stay_in_their_rows_and_columns)
{
    static const float values[] = { NAN, INFINITY, -INFINITY, FLT_MAX, FLT_MIN / 2 };
    static const int64_t depths[] = { 1, 2, 31, 32, 33, 47 };
    use_emulation();
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (size_t d = 0; d < sizeof depths / sizeof *depths; d++)
            for (operand of = OF_A; of <= OF_B; of++) {
                check_special_value(&br__gemm_amx_emulated, of, depths[d], values[v]);
                check_special_value(&br__gemm_amx_high_emulated, of, depths[d], values[v]);
            }
}

/* ---- The emulation itself -------------------------------------------------------------------- */

/* Loads a configuration of tiles of one row of 64 bytes: sums in tile 0, A in tile 1 with a single
 * pair, and B in tile 2. */
static void configure_one_pair(void)
{
    uint8_t bytes[64] = { 1 };
    bytes[16] = bytes[20] = 64; /* bytes per row of tiles 0 and 2 */
    bytes[18] = 4;
    bytes[48] = bytes[49] = bytes[50] = 1;
    emulated_loadconfig(bytes);
}

/* Returns the sum of c and the products of two pairs of bf16 numbers. */
static float add_pair(float c, float a_even, float b_even, float a_odd, float b_odd)
{
    const float x[4] = { a_even, a_odd, b_even, b_odd };
    float sums[16] = { c };
    uint16_t number[4], a[2], b[32] = { 0 };
    for (int i = 0; i < 4; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        cr_assert((bits & 0xffff) == 0, "%a is not a bf16 number", (double)x[i]);
        number[i] = (uint16_t)(bits >> 16);
    }
    memcpy(a, number, sizeof a);
    memcpy(b, number + 2, 2 * sizeof *b);
    configure_one_pair();
    emulated_loadd(0, sums, 64);
    emulated_loadd(1, a, 64);
    emulated_loadd(2, b, 64);
    emulated_dpbf16ps(0, 1, 2);
    emulated_stored(0, sums, 64);
    emulated_release();
    return sums[0];
}

Test(gemm_amx, emulated_products_follow_the_manual)
{
    const float tiny = 0x1p-127f, half = 0x1p-24f;
    cr_assert(add_pair(1, 2, 3, 4, 5) == 27);
    cr_assert(add_pair(1, half, 1, half, 1) == 1 + 0x1p-23f, "the products are added first");
    cr_assert(add_pair(1, half, 1, 0, 0) == 1, "a tie is rounded to even");
    cr_assert(add_pair(1 + 0x1p-23f, half, 1, 0, 0) == 1 + 0x1p-22f);
    cr_assert(add_pair(0, tiny, 0x1p100f, 0, 0) == 0, "a denormal operand is 0");
    cr_assert(add_pair(tiny, 1, 1, 0, 0) == 1);
    cr_assert(add_pair(tiny, 0, 0, 0, 0) == 0, "a denormal sum is 0");
    cr_assert(add_pair(0, 0x1p-70f, 0x1p-70f, 0, 0) == 0, "a denormal product is 0");
    cr_assert(add_pair(0, 0x1p-126f, 1.5f, 0x1p-126f, -1) == 0, "a denormal result is 0");
    cr_assert(add_pair(0, 0x1p100f, 0x1p100f, 0, 0) == INFINITY);
    cr_assert(isnan(add_pair(0, INFINITY, 1, -INFINITY, 1)));
    cr_assert(isnan(add_pair(0, INFINITY, 0, 0, 0)));
    cr_assert(isnan(add_pair(NAN, 1, 1, 1, 1)));
}

Test(gemm_amx, tiles_must_be_configured, .signal = SIGABRT)
{
    emulated_zero(0);
}

Test(gemm_amx, a_configuration_must_be_released, .signal = SIGABRT)
{
    configure_one_pair();
    configure_one_pair();
}

Test(gemm_amx, sizes_of_tiles_must_match, .signal = SIGABRT)
{
    configure_one_pair();
    emulated_dpbf16ps(0, 2, 1);
}
#endif
