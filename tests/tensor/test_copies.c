/* tests/tensor/test_copies.c - copies of every dtype that go backwards, repeat elements, or have a
 * short last dimension, compared with lookups of the same elements. */
#include "tensor/dtype.h"
#include "tests/same_bits.h"
#include "tests/support.h"

#include <brasa/brasa.h>

TestSuite(copies, .init = check_begin, .fini = check_end);

static const int64_t sizes[] = { 0, 1, 7, 8, 9, 63, 65, 1000, 5000 };
enum { SIZES = sizeof sizes / sizeof *sizes, ROWS = 3 };

/* Returns ROWS rows of n elements, all of which are finite and, but for bools, mostly different. */
static br_tensor *rows(int64_t n, br_dtype dtype)
{
    br_tensor *x =
        br_remainder(br_arange(0, (double)(ROWS * n), 1, BR_I64), br_scalar(113, BR_I64));
    if (dtype == BR_BOOL)
        x = br_remainder(x, br_scalar(2, BR_I64));
    return br_to(br_reshape(x, BR_SHAPE(ROWS, n)), dtype);
}

/* Returns columns first, first + step ... of x, looked up one by one. */
static br_tensor *columns(br_tensor *x, int64_t n, int64_t first, int64_t step)
{
    br_tensor *index = br_full(BR_SHAPE(n), (double)first, BR_I64);
    return br_index_select(
        x, 1, br_add(index, br_mul_scalar(br_arange(0, (double)n, 1, BR_I64), (double)step)));
}

/* Calls check() for each dtype and size, with one thread and with two. */
static void for_each_size(void (*check)(br_dtype dtype, int64_t n))
{
    const int threads = br_get_num_threads();
    for (int i = 0; i < BR_DTYPES * SIZES * 2; i++) {
        br_set_num_threads(1 + i % 2);
        br_scope *scope = br_scope_begin();
        check((br_dtype)(i / 2 / SIZES), sizes[i / 2 % SIZES]);
        br_scope_end(scope);
        check_ok();
    }
    br_set_num_threads(threads);
}

static void check_reversed(br_dtype dtype, int64_t n)
{
    br_tensor *x = rows(n + 2, dtype), *part = br_narrow(x, 1, 1, n);
    cr_assert(same_bits(br_flip(part, BR_DIMS(1)), columns(x, n, n, -1)), "%s, %d elements",
              br_dtype_name(dtype), (int)n);
    br_tensor *half = br_slice(x, 1, 1, BR_ALL, 2);
    const int64_t count = br_size(half, 1);
    cr_assert(same_bits(br_flip(half, BR_DIMS(1)), columns(x, count, 2 * count - 1, -2)),
              "%s, every second of %d elements", br_dtype_name(dtype), (int)n);
    cr_assert(same_bits(br_flip(part, BR_DIMS(0, 1)),
                        br_index_select(columns(x, n, n, -1), 0,
                                        br_from_i64(BR_SHAPE(ROWS), (int64_t[]){ 2, 1, 0 }))));
}

Test(copies, backwards)
{
    for_each_size(check_reversed);
}

static void check_repeated(br_dtype dtype, int64_t n)
{
    br_tensor *x = rows(2, dtype);
    br_tensor *y = br_contiguous(br_expand(br_narrow(x, 1, 1, 1), BR_SHAPE(ROWS, n)));
    cr_assert(same_bits(y, columns(x, n, 1, 0)), "%s, %d elements", br_dtype_name(dtype), (int)n);
}

Test(copies, one_element_repeated)
{
    for_each_size(check_repeated);
}

/* Each element k times, and every second one of k: the last dimension of the copy is shorter than
 * the others, from 1 element to more than the copy treats as few. */
static void check_short_rows(br_dtype dtype, int64_t n)
{
    for (int64_t k = 1; k <= 10; k++) {
        br_tensor *x = rows(n * k, dtype), *line = br_reshape(x, BR_SHAPE(ROWS * n, k));
        br_tensor *each = br_repeat_interleave_scalar(x, k, 1);
        br_tensor *places = br_floor_divide(br_arange(0, (double)(n * k * k), 1, BR_I64),
                                            br_scalar((double)k, BR_I64));
        cr_assert(same_bits(each, br_index_select(x, 1, places)), "%s, %d elements %d times",
                  br_dtype_name(dtype), (int)n, (int)k);
        const int64_t half = (k + 1) / 2;
        cr_assert(
            same_bits(br_contiguous(br_slice(line, 1, 0, BR_ALL, 2)), columns(line, half, 0, 2)),
            "%s, every second of %d, %d times", br_dtype_name(dtype), (int)k, (int)n);
        /* Into a view: the elements beside it stay. */
        br_tensor *wide = br_zeros(BR_SHAPE(ROWS * n, k + 1), dtype);
        br_copy_(br_narrow(wide, 1, 1, k), line);
        cr_assert(same_bits(br_contiguous(br_narrow(wide, 1, 1, k)), line));
        cr_assert_eq(br_item(br_any(br_narrow(wide, 1, 0, 1))), 0);
    }
}

Test(copies, short_rows)
{
    for_each_size(check_short_rows);
}

/* Between parts of one tensor whose distance is a few bytes more than a multiple of 4 KiB. */
static void check_ahead(br_dtype dtype, int64_t n)
{
    enum { APART = 1 << 15 };
    for (int64_t ahead = 0; ahead <= 33; ahead += ahead < 2 ? 1 : 31) {
        br_tensor *x = rows(2 * APART, dtype), *from = br_narrow(x, 1, 1, n);
        br_tensor *to = br_narrow(x, 1, APART + 1 + ahead, n), *before = br_clone(x);
        br_copy_(to, from);
        cr_assert(same_bits(br_contiguous(to), columns(before, n, 1, 1)), "%s, %d elements",
                  br_dtype_name(dtype), (int)n);
        for (int64_t i = 0; i < 2; i++) { /* the elements beside it stay */
            const int64_t at = APART + ahead + i * (n + 1);
            cr_assert(same_bits(columns(x, 1, at, 0), columns(before, 1, at, 0)));
        }
    }
}

Test(copies, a_few_bytes_ahead)
{
    for_each_size(check_ahead);
}
