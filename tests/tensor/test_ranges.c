/* tests/tensor/test_ranges.c - compares br_linspace and br_arange with PyTorch, bit for bit
 * (range_cases.txt, written by record_ranges.py). */
#include "tests/support.h"

#include <brasa/tensor.h>
#include <inttypes.h>

TestSuite(ranges, .init = check_begin, .fini = check_end);

/* Returns the FNV-1a hash of the elements. Each is one 64-bit word; the bits of an f32 element are
 * sign-extended. */
static uint64_t hash_of(const br_tensor *t)
{
    uint64_t h = 0xcbf29ce484222325;
    const bool wide = br_dtype_of(t) == BR_F64;
    for (int64_t i = 0; i < br_numel(t); i++) {
        int32_t half = 0;
        int64_t word = 0;
        memcpy(wide ? (void *)&word : (void *)&half, (const char *)br_data(t) + i * (wide ? 8 : 4),
               wide ? 8 : 4);
        h = (h ^ (uint64_t)(wide ? word : half)) * 0x100000001b3;
    }
    return h;
}

static void replay(const char *line)
{
    char op[16], type[8];
    double numbers[3];
    uint64_t want;
    long long n = -1;
    int fields = sscanf(line, "%15s %7s %la %la %la %" SCNx64 " %lld", op, type, &numbers[0],
                        &numbers[1], &numbers[2], &want, &n);
    cr_assert_geq(fields, 6, "%s", line);
    br_scope *scope = br_scope_begin();
    br_dtype dtype = strcmp(type, "f32") == 0 ? BR_F32 : BR_F64;
    br_tensor *t = strcmp(op, "arange") == 0
                       ? br_arange(numbers[0], numbers[1], numbers[2], dtype)
                       : br_linspace(numbers[0], numbers[1], (int64_t)numbers[2], dtype);
    check_ok();
    cr_assert(n < 0 || br_numel(t) == n, "%lld elements: %s", (long long)br_numel(t), line);
    cr_assert_eq(hash_of(t), want, "bits differ: %s", line);
    br_scope_end(scope);
}

Test(ranges, bits_equal_pytorch)
{
    FILE *file = fopen(BRASA_TEST_DIR "/tensor/range_cases.txt", "r");
    cr_assert(file);
    char line[256];
    int number = 0;
    for (; fgets(line, sizeof line, file); number++)
        replay(line);
    cr_assert_gt(number, 200);
    fclose(file);
}

/* PyTorch's values. */
Test(ranges, integers_between_two_numbers)
{
    static const struct {
        double start, end;
        int n;
        int64_t values[7];
    } rows[] = {
        { 0,
          0x1p40,
          7,
          { 0, 183251937962, 366503875925, 549755813888, 733007751850, 916259689813,
            1099511627776 } },
        { -3, 11, 6, { -3, 0, 2, 5, 8, 11 } },
        { 7, -20, 5, { 7, 0, -6, -13, -20 } },
        { 0.5, 9.7, 4, { 0, 3, 6, 9 } },
        { 7.9, 1, 1, { 7 } },
        { 896600446430.7258,
          -786325756218.6526,
          7,
          { 896600446430, 616112745988, 335625045547, 55137345105, -225350355335, -505838055776,
            -786325756218 } },
        { 0, 1, 0, { 0 } },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        br_tensor *t = br_linspace(rows[i].start, rows[i].end, rows[i].n, BR_I64);
        check_ok();
        cr_assert_eq(br_numel(t), rows[i].n);
        for (int k = 0; k < rows[i].n; k++)
            cr_assert_eq(br_data_i64(t)[k], rows[i].values[k], "row %zu, element %d", i, k);
    }
    check_fails(br_linspace(0, 1e30, 2, BR_I64), "linspace: start is 0 and end is 1e+30: for i64");
    br_thread_cleanup();
}

/* The difference of these bounds is 2^53 + 1, which no double holds. */
Test(ranges, integers_between_large_bounds)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_arange(1 - 0x1p53, 2, 0x1p53, BR_I64);
    cr_assert(t, "%s", br_error_message());
    cr_assert_eq(br_numel(t), 2);
    cr_assert_eq(br_data_i64(t)[1], 1);
    t = br_arange(0x1p53 - 1, -2, -0x1p53, BR_I64);
    cr_assert_eq(br_numel(t), 2);
    cr_assert_eq(br_data_i64(t)[1], -1);
    cr_assert_eq(br_numel(br_arange(0, 2.5, 1, BR_I64)), 3);
    cr_assert_eq(br_numel(br_arange(0, -2.5, -1, BR_I64)), 3);
    cr_assert_eq(br_numel(br_arange(3, 3, 1, BR_I64)), 0);
    cr_assert_eq(br_numel(br_arange(0, 7, 3, BR_I64)), 3);
    br_scope_end(scope);
}
