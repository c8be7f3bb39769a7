/* tests/tensor/test_tensor.c - creating and inspecting tensors, and the errors of both. */
#include "backends/cpu/pointwise/for_each.h"
#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <float.h>
#include <stdlib.h>

TestSuite(tensor, .init = check_begin, .fini = check_end);

static const br_dtype all_dtypes[] = { BR_F32, BR_F64, BR_I64, BR_BOOL };

#define for_each_dtype(d)                                                                         \
    for (const br_dtype *d = all_dtypes; d < all_dtypes + sizeof all_dtypes / sizeof *all_dtypes; \
         d++)

Test(tensor, version_and_dtypes)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", BR_VERSION_MAJOR, BR_VERSION_MINOR, BR_VERSION_PATCH);
    cr_assert_str_eq(br_version(), text);
    cr_assert_eq(br_dtype_size(BR_F32), 4);
    cr_assert_eq(br_dtype_size(BR_F64), 8);
    cr_assert_eq(br_dtype_size(BR_I64), 8);
    cr_assert_eq(br_dtype_size(BR_BOOL), 1);
    cr_assert_str_eq(br_dtype_name(BR_F64), "f64");
    cr_assert_eq(br_dtype_size((br_dtype)99), 0);
    cr_assert_str_eq(br_dtype_name((br_dtype)-1), "(invalid dtype)");
}

/* ---- Constructors ---------------------------------------------------------------------------- */

Test(tensor, constants_of_every_dtype)
{
    for_each_dtype(d)
    {
        br_tensor *ones = br_ones(BR_SHAPE(2, 3), *d), *zeros = br_zeros_like(ones);
        br_tensor *sevens = br_full(BR_SHAPE(2, 3), 7, *d);
        cr_assert(br_same_shape(ones, zeros) && br_dtype_of(zeros) == *d);
        cr_assert_eq(br_ndim(ones), 2);
        cr_assert_eq(br_numel(ones), 6);
        cr_assert(br_is_contiguous(ones));
        cr_assert_eq(br_stride(ones, 0), 3);
        for (int64_t i = 0; i < 6; i++) {
            cr_assert_eq(br_at(zeros, BR_DIMS(i / 3, i % 3)), 0);
            cr_assert_eq(br_at(ones, BR_DIMS(i / 3, i % 3)), 1);
            cr_assert_eq(br_at(sevens, BR_DIMS(i / 3, i % 3)), *d == BR_BOOL ? 1 : 7);
        }
        cr_assert_eq(br_dtype_of(br_empty_like(ones)), *d);
        cr_assert(br_same_shape(br_ones_like(zeros), zeros));
    }
    /* Converting to i64 truncates, as in C. */
    cr_assert_eq(br_item_i64(br_full(BR_SCALAR, -2.9, BR_I64)), -2);
    cr_assert(isnan(br_item(br_scalar(NAN, BR_F32))));
    check_fails(br_full(BR_SHAPE(1), NAN, BR_I64), "full: nan cannot be represented as i64");
    check_fails(br_full(BR_SHAPE(1), 0x1p63, BR_I64), "cannot be represented as i64");
    check_fails(br_scalar(-INFINITY, BR_I64), "cannot be represented as i64");
}

Test(tensor, zero_dimensions_and_zero_sizes)
{
    for_each_dtype(d)
    {
        br_tensor *scalar = br_scalar(1, *d);
        cr_assert(br_ndim(scalar) == 0 && br_numel(scalar) == 1 && br_is_contiguous(scalar));
        cr_assert_eq(br_item(scalar), 1);
        cr_assert_eq(br_at(scalar, BR_SCALAR), 1);
        check_fails(br_size(scalar, 0) >= 0, "size: dim is 0, but t is 0-d");
        check_fails(br_stride(scalar, -1) >= 0, "stride: dim is -1, but t is 0-d");

        br_tensor *none = br_zeros(BR_SHAPE(2, 0, 3), *d);
        cr_assert(br_numel(none) == 0 && br_size(none, 1) == 0 && br_is_contiguous(none));
        cr_assert(br_copy_out(none, NULL, 0));
        check_fails(!isnan(br_item(none)),
                    "item: t [2, 0, 3] has 0 elements, must have exactly one");
        check_fails(!isnan(br_at(none, BR_DIMS(0, 0, 0))),
                    "index 0 is out of bounds for dimension 1");
        cr_assert_eq(br_numel(br_from_data(BR_SHAPE(0), *d, NULL)), 0);
        cr_assert_eq(br_numel(br_borrow(BR_SHAPE(4, 0), *d, NULL, NULL, NULL)), 0);
    }
    cr_assert(br_same_shape(br_empty(BR_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), BR_BOOL),
                            br_empty(BR_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), BR_F32)));
}

Test(tensor, impossible_shapes_are_refused)
{
    int64_t big = INT64_C(1) << 40;
    check_fails(br_zeros(BR_SHAPE(2, -3), BR_F32),
                "zeros: size -3 of dimension 1 in [2, -3] is negative");
    check_fails(br_empty(9, (int64_t[9]){ 0 }, BR_F32), "empty: ndim is 9, must be 0 .. 8");
    check_fails(br_empty(-1, NULL, BR_F32), "empty: ndim is -1");
    check_fails(br_ones(2, NULL, BR_F32), "ones: sizes is NULL, but ndim is 2");
    check_fails(br_empty(BR_SHAPE(2), (br_dtype)9), "empty: 9 is not a dtype");
    check_fails(br_empty(BR_SHAPE(big, big), BR_F32),
                "shape [1099511627776, 1099511627776] has more elements than can be addressed");
    check_fails(br_empty(BR_SHAPE(big, 0, big), BR_F32), "more elements than can be addressed");
    check_fails(br_empty(BR_SHAPE(INT64_C(1) << 61), BR_F32),
                "more elements than can be addressed");
    check_fails(br_eye(-1, 2, BR_F32), "eye: size -1");
    check_fails(br_empty_like(NULL), "empty_like: t is NULL");
    check_fails(br_zeros_like(NULL), "zeros_like: t is NULL");
    check_fails(br_ones_like(NULL), "ones_like: t is NULL");
}

static void check_arange(double start, double end, double step, br_dtype dtype, int n,
                         const double *expected)
{
    br_tensor *t = br_arange(start, end, step, dtype);
    cr_assert(t, "%s", br_error_message());
    cr_assert_eq(br_numel(t), n, "arange(%g, %g, %g) has %lld elements", start, end, step,
                 (long long)br_numel(t));
    for (int64_t i = 0; i < n; i++)
        cr_assert_eq(br_at(t, BR_DIMS(i)), expected[i], "arange(%g, %g, %g)[%lld] = %.17g", start,
                     end, step, (long long)i, br_at(t, BR_DIMS(i)));
}

/* The expected numbers are those of torch.arange. */
Test(tensor, arange)
{
    check_arange(0, 5, 2, BR_I64, 3, (double[]){ 0, 2, 4 });
    check_arange(3, -4, -3, BR_I64, 3, (double[]){ 3, 0, -3 });
    check_arange(2, 2, 1, BR_F32, 0, NULL);
    check_arange(1, 2, 0.3, BR_F64, 4, (double[]){ 1, 1.3, 1.6, 1.9 });
    check_arange(0, 1, 0.3, BR_F32, 4, (double[]){ 0, 0.3f, 0.6f, 0.9f });
    check_arange(-1, 0.25, 0.5, BR_F32, 3, (double[]){ -1, -0.5, 0 });
    check_fails(br_arange(0, 5, 0, BR_F32), "arange: start 0, end 5, step 0: all must be finite");
    check_fails(br_arange(0, 5, -1, BR_F32),
                "step must be nonzero and have the sign of end - start");
    check_fails(br_arange(0, INFINITY, 1, BR_F32), "all must be finite");
    check_fails(br_arange(0, NAN, 1, BR_F32), "all must be finite");
    check_fails(br_arange(0, 1, 0.5, BR_I64), "start and step must be integers");
    check_fails(br_arange(0.5, 4, 1, BR_I64), "start and step must be integers");
    check_fails(br_arange(0, 1e301, 1e300, BR_I64), "no magnitude may exceed 2^62");
    check_fails(br_arange(-1e308, 1e308, 1e-300, BR_F64),
                "arange: the range has inf elements, must have fewer than 2^62");
}

/* The expected numbers are those of torch.linspace(-1, 2, 7) and of torch.linspace(0, 1, 4) in f64.
 */
Test(tensor, linspace)
{
    const double seven[] = { -1, -0.5, 0, 0.5, 1, 1.5, 2 };
    br_tensor *t = br_linspace(-1, 2, 7, BR_F32), *thirds = br_linspace(0, 1, 4, BR_F64);
    for (int64_t i = 0; i < 7; i++)
        cr_assert_eq(br_at(t, BR_DIMS(i)), seven[i]);
    cr_assert_eq(br_at(thirds, BR_DIMS(1)), 0.33333333333333331);
    cr_assert_eq(br_at(thirds, BR_DIMS(2)), 0.66666666666666674);
    cr_assert_eq(br_at(thirds, BR_DIMS(3)), 1);
    cr_assert_eq(br_item(br_linspace(3, 9, 1, BR_F32)), 3);
    cr_assert_eq(br_numel(br_linspace(3, 9, 0, BR_F32)), 0);
    check_fails(br_linspace(0, 1, 3, BR_BOOL),
                "linspace: dtype is bool, must be an integer or floating-point dtype");
    check_fails(br_linspace(0, 1, -3, BR_F32), "linspace: size -3");
}

Test(tensor, eye)
{
    const int64_t shapes[][2] = { { 3, 3 }, { 2, 4 }, { 4, 2 }, { 0, 3 }, { 3, 0 }, { 1, 1 } };
    for_each_dtype(d)
    {
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            int64_t n = shapes[k][0], m = shapes[k][1];
            br_tensor *t = br_eye(n, m, *d);
            for (int64_t i = 0; i < n * m; i++)
                cr_assert_eq(br_at(t, BR_DIMS(i / m, i % m)), i / m == i % m);
        }
    }
}

/* ---- Copying from and to C memory ------------------------------------------------------------ */

Test(tensor, copies_arrays)
{
    float f32[] = { 1, -2, 3.5f };
    double f64[] = { 1, -2, 1e300 };
    int64_t i64[] = { 1, INT64_MIN, INT64_MAX };
    bool truth[] = { true, false, true };
    br_tensor *t = br_from_f32(BR_SHAPE(3), f32);
    f32[1] = 0; /* the tensor has a copy */
    cr_assert_eq(br_data_f32(t)[1], -2);
    cr_assert_eq(br_data_f64(br_from_f64(BR_SHAPE(3, 1), f64))[2], 1e300);
    cr_assert_eq(br_data_i64(br_from_i64(BR_SHAPE(3), i64))[1], INT64_MIN);
    cr_assert_eq(br_data_bool(br_from_bool(BR_SHAPE(1, 3), truth))[2], true);

    char unaligned[1 + sizeof f64];
    memcpy(unaligned + 1, f64, sizeof f64);
    cr_assert_eq(br_at(br_from_data(BR_SHAPE(3), BR_F64, unaligned + 1), BR_DIMS(2)), 1e300);
    unsigned char bytes[] = { 0, 2, 255 }; /* every nonzero byte becomes 1 */
    br_tensor *b = br_from_data(BR_SHAPE(3), BR_BOOL, bytes);
    cr_assert_eq(memcmp(b->data, "\0\1\1", 3), 0);

    int64_t live = br_live_tensors();
    check_fails(br_from_f32(BR_SHAPE(2), NULL),
                "from_f32: values is NULL, but shape [2] has elements");
    cr_assert_eq(br_live_tensors(), live);
}

static void count_call(void *context)
{
    ++*(int *)context;
}

Test(tensor, borrowed_memory_is_returned_once)
{
    double values[] = { 0, 1, 2, 3, 4, 5 };
    int calls = 0;
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_borrow(BR_SHAPE(2, 3), BR_F64, values, count_call, &calls);
    cr_assert_eq(br_data(t), values);
    br_tensor *column = br_retain(br__view_of(t, 1, (int64_t[]){ 2 }, (int64_t[]){ 3 }, 1));
    cr_assert(br_shares_storage(t, column) && !br__is_exclusive(t));
    br_scope_end(scope);
    cr_assert_eq(calls, 0);
    values[4] = 40;
    cr_assert_eq(br_at(column, BR_DIMS(1)), 40);
    br_release(column);
    cr_assert_eq(calls, 1);

    check_fails(br_borrow(BR_SHAPE(2), BR_F64, NULL, count_call, &calls),
                "borrow: data is NULL, but shape [2] has elements");
    check_fails(br_borrow(BR_SHAPE(1), BR_F64, (char *)values + 4, count_call, &calls),
                "borrow: data is not aligned to 8 bytes, which f64 requires");
    check_fails(br_borrow(BR_SHAPE(-1), BR_F64, values, count_call, &calls), "borrow: size -1");
    cr_assert_eq(calls, 1);
    cr_assert_eq(br_live_bytes(), check_live_bytes);
}

Test(tensor, copy_out_requires_the_exact_size)
{
    float out[6], strided[3];
    br_tensor *t = br_arange(0, 6, 1, BR_F32);
    cr_assert(br_copy_out(t, out, sizeof out));
    for (int i = 0; i < 6; i++)
        cr_assert_eq(out[i], (float)i);
    br_tensor *odd = br__view_of(t, 1, (int64_t[]){ 3 }, (int64_t[]){ 2 }, 1);
    cr_assert(br_copy_out(odd, strided, sizeof strided));
    cr_assert(strided[0] == 1 && strided[1] == 3 && strided[2] == 5);
    check_fails(br_copy_out(t, out, sizeof out - 1),
                "copy_out: t [6] (f32) has 24 bytes, but out has 23");
    check_fails(br_copy_out(t, out, sizeof out + 1), "has 24 bytes, but out has 25");
    check_fails(br_copy_out(t, NULL, sizeof out), "but out has 0");
    check_fails(br_copy_out(NULL, out, sizeof out), "copy_out: t is NULL");
}

/* ---- Inspecting ------------------------------------------------------------------------------ */

Test(tensor, null_has_no_size)
{
    cr_assert_eq(br_ndim(NULL), -1);
    cr_assert_eq(br_numel(NULL), -1);
    cr_assert_eq(br_size(NULL, 0), -1);
    cr_assert_eq(br_stride(NULL, 0), -1);
    cr_assert_null(br_sizes(NULL));
    cr_assert_null(br_strides(NULL));
    cr_assert(!br_is_floating(NULL) && !br_is_contiguous(NULL));
    cr_assert(!br_same_shape(NULL, NULL) && !br_shares_storage(NULL, NULL));
    cr_assert_eq(br_tensor_version(NULL), 0);
    br_bump_version(NULL);
    check_ok();
    check_fails(br_data(NULL), "data: t is NULL");
    check_fails(br_data_f32(NULL), "data_f32: t is NULL");
    check_fails(!isnan(br_item(NULL)), "item: t is NULL");
    check_fails(br_item_i64(NULL) != 0, "item_i64: t is NULL");
    check_fails(!isnan(br_at(NULL, BR_SCALAR)), "at: t is NULL");
}

Test(tensor, sizes_strides_and_views)
{
    br_tensor *t = br_arange(0, 24, 1, BR_I64);
    br_tensor *cube = br__view_of(t, 3, (int64_t[]){ 2, 3, 4 }, (int64_t[]){ 12, 4, 1 }, 0);
    br_tensor *turned = br__view_of(t, 3, (int64_t[]){ 4, 3, 2 }, (int64_t[]){ 1, 4, 12 }, 0);
    br_tensor *flat = br__view_of(t, 3, (int64_t[]){ 1, 24, 1 }, (int64_t[]){ 99, 1, -7 }, 0);
    cr_assert(br_is_contiguous(cube) && !br_is_contiguous(turned));
    cr_assert(br_is_contiguous(flat), "the stride of a dimension of size 1 does not matter");
    cr_assert_eq(br_size(cube, -1), 4);
    cr_assert_eq(br_stride(cube, -2), 4);
    cr_assert_eq(br_sizes(turned)[0], 4);
    cr_assert_eq(br_strides(turned)[2], 12);
    cr_assert(!br_same_shape(cube, turned) && br_shares_storage(cube, turned));
    cr_assert_eq(br_at(turned, BR_DIMS(-1, 1, -2)), 7);
    br_bump_version(turned);
    cr_assert_eq(br_tensor_version(t), 1);
    check_fails(br_size(cube, 3) >= 0,
                "size: dim is 3, must be in -3 .. 2 for a tensor of shape [2, 3, 4]");
    check_fails(br_size(cube, -4) >= 0, "size: dim is -4");
    check_fails(!isnan(br_at(cube, BR_DIMS(0, 3, 0))),
                "at: index 3 is out of bounds for dimension 1 of t [2, 3, 4]");
    check_fails(!isnan(br_at(cube, BR_DIMS(0, -4, 0))),
                "index -4 is out of bounds for dimension 1");
    check_fails(!isnan(br_at(cube, BR_DIMS(0, 0))), "at: t [2, 3, 4] needs 3 indices, got 2");
    check_fails(!isnan(br_at(cube, 3, NULL)), "needs 3 indices, got 0");
    check_fails(br_data_i64(turned), "data_i64: t [4, 3, 2] is not contiguous");
    check_fails(br_data_f32(cube), "data_f32: t [2, 3, 4] is i64, must be f32");
    check_fails(br_data_f64(cube), "must be f64");
    check_fails(br_data_bool(cube), "must be bool");
    cr_assert_eq(br_data(turned), br_data_i64(t));
}

/* br__new_in_order() returns a tensor whose dimensions, except the last, have the same order in
 * memory as those of `like`. It is contiguous if `like` is contiguous or its strides define no such
 * order. */
Test(tensor, new_in_the_memory_order_of_another_tensor)
{
    const int64_t sizes[] = { 7, 1, 9, 6 }, empty[] = { 7, 0, 9, 6 };
    br_tensor *all = br_zeros(BR_SHAPE(120), BR_F32);
    br_tensor *like =
        br__view_of(all, 4, (int64_t[]){ 2, 3, 5, 4 }, (int64_t[]){ 12, 4, 24, 1 }, 0);
    br_tensor *t = br__new_in_order("test", like, 4, sizes, BR_F64);
    const int64_t strides[] = { 6, 6, 42, 1 };
    for (int i = 0; i < 4; i++)
        cr_assert_eq(br_stride(t, i), strides[i]);
    cr_assert(!br_is_contiguous(t));
    cr_assert_eq(br_numel(br__new_in_order("test", like, 4, empty, BR_F32)), 0);
    br_tensor *without[] = {
        all, br__view_of(all, 4, (int64_t[]){ 2, 3, 4, 5 }, (int64_t[]){ 12, 4, 1, 24 }, 0),
        br__view_of(all, 4, (int64_t[]){ 2, 3, 5, 4 }, (int64_t[]){ 4, 0, 24, 1 }, 0)
    };
    for (int i = 0; i < 3; i++)
        cr_assert(br_is_contiguous(br__new_in_order("test", without[i], 4, sizes, BR_F32)));
}

Test(tensor, item)
{
    cr_assert_eq(br_item(br_full(BR_SHAPE(1, 1), 2.5, BR_F32)), 2.5);
    cr_assert_eq(br_item_i64(br_full(BR_SHAPE(1), -2.5, BR_F64)), -2);
    cr_assert_eq(br_item_i64(br_scalar(1, BR_BOOL)), 1);
    cr_assert_eq(br_item_i64(br_from_i64(BR_SCALAR, (int64_t[]){ INT64_MAX })), INT64_MAX);
    check_fails(br_item_i64(br_scalar(NAN, BR_F32)) != 0,
                "item_i64: nan cannot be represented as i64");
    check_fails(br_item_i64(br_scalar(0x1p63, BR_F64)) != 0, "cannot be represented as i64");
    check_fails(br_item_i64(br_zeros(BR_SHAPE(2), BR_I64)) != 0, "item_i64: t [2] has 2 elements");
}

/* ---- Loops ----------------------------------------------------------------------------------- */

/* Compares br__copy() with a plain loop, for random dtypes, broadcasts and orders of dimensions. */
Test(tensor, copy_converts_broadcasts_and_follows_strides)
{
    br_manual_seed(6);
    for (int round = 0; round < 600; round++) {
        br_scope *scope = br_scope_begin();
        int ndim = (int)(br_random_u32() % 5);
        int64_t sizes[4], from[4], from_strides[4], strides[4], step = 1;
        for (int i = 0; i < ndim; i++) {
            sizes[i] = 1 + br_random_u32() % 4;
            from[i] = br_random_u32() % 3 ? sizes[i] : 1;
        }
        int turn = ndim ? (int)(br_random_u32() % (uint32_t)ndim) : 0;
        for (int i = 0; i < ndim; i++) { /* dst's dimensions are rotated in memory, with gaps */
            strides[(i + turn) % ndim] = step;
            step *= sizes[(i + turn) % ndim] + 1;
        }
        br_dtype src_dtype = all_dtypes[br_random_u32() % 4],
                 dtype = all_dtypes[br_random_u32() % 4];
        br_tensor *src = br_empty(ndim, from, src_dtype);
        br__copy(src, br_randint(-3, 4, ndim, from));
        br__default_strides(ndim, from, from_strides);
        br_tensor *dst = br__view_of(br_full(BR_SHAPE(step), 1, dtype), ndim, sizes, strides, 0);
        br__copy(dst, src);
        for (int64_t i = 0; i < br_numel(dst); i++) {
            int64_t index[4], source[4], rest = i;
            for (int d = ndim - 1; d >= 0; d--) {
                index[d] = rest % sizes[d];
                source[d] = from[d] == 1 ? 0 : index[d];
                rest /= sizes[d];
            }
            double value = br_at(src, ndim, source);
            value = dtype == BR_BOOL ? value != 0 : value;
            cr_assert_eq(br_at(dst, ndim, index), value, "round %d", round);
        }
        br_scope_end(scope);
    }
}

static void add_one(int64_t n, char *const *data, const int64_t *strides, const void *params)
{
    (void)params;
    for (int64_t i = 0; i < n; i++)
        ++*(int64_t *)(void *)(data[0] + i * strides[0]);
}

/* Each element is visited once, however the loop is divided into tasks. */
Test(tensor, loops_visit_every_element_once)
{
    const int64_t shapes[][2] = { { 1, 3 * BR_GRAIN + 5 },
                                  { 3 * BR_GRAIN + 5, 1 },
                                  { 70000, 2 },
                                  { 2, 70000 },
                                  { 5, 40000 },
                                  { 300, 301 },
                                  { 65536, 1 } };
    for (int threads = 1; threads <= 3; threads++) {
        br_set_num_threads(threads);
        for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
            br_scope *scope = br_scope_begin();
            int64_t n = shapes[k][0], m = shapes[k][1];
            /* The loop visits every other column. */
            br_tensor *t = br_zeros(BR_SHAPE(n, 2 * m), BR_I64);
            br_tensor *half = br__view_of(t, 2, (int64_t[]){ n, m }, (int64_t[]){ 2 * m, 2 }, 0);
            br__for_each(1, (const br_tensor *[]){ half }, add_one, NULL);
            for (int64_t i = 0; i < 2 * n * m; i++)
                cr_assert_eq(br_data_i64(t)[i], i % 2 == 0, "shape %zu, element %lld", k,
                             (long long)i);
            br_scope_end(scope);
        }
    }
}

Test(tensor, floats_outside_the_range_of_i64_become_int64_min)
{
    double values[] = { NAN, INFINITY, -INFINITY, 1e19, -1e19, -2.9, 0x1p62, DBL_MIN };
    int64_t expected[] = { INT64_MIN, INT64_MIN, INT64_MIN,        INT64_MIN,
                           INT64_MIN, -2,        INT64_C(1) << 62, 0 };
    br_tensor *t = br_empty(BR_SHAPE(8), BR_I64);
    br__copy(t, br_from_f64(BR_SHAPE(8), values));
    cr_assert_eq(memcmp(br_data(t), expected, sizeof expected), 0);
}

static void mark(void *context, int64_t i)
{
    ((unsigned char *)context)[i]++;
}

static void mark_nested(void *context, int64_t i)
{
    br__parallel(10, mark, (unsigned char *)context + 10 * i);
}

Test(tensor, parallel_runs_every_task_once)
{
    for (int threads = 1; threads <= 3; threads++) {
        unsigned char done[100] = { 0 };
        br_set_num_threads(threads);
        cr_assert_eq(br_get_num_threads(), threads);
        br__parallel(0, mark, done);
        br__parallel(10, mark_nested, done);
        for (int i = 0; i < 100; i++)
            cr_assert_eq(done[i], 1);
    }
    check_fails((br_set_num_threads(0), false), "set_num_threads: n is 0, must be 1 .. 1024");
    check_fails((br_set_num_threads(1025), false), "n is 1025, must be 1 .. 1024");
    cr_assert_eq(br_get_num_threads(), 3);
}

Test(tensor, errors_name_the_function_that_was_called)
{
    check_fails(br_from_f64(BR_SHAPE(2), NULL), "from_f64: values is NULL");
    check_fails(br_from_i64(BR_SHAPE(-2), NULL), "from_i64: size -2");
    check_fails(br_from_bool(1, NULL, NULL), "from_bool: sizes is NULL");
    check_fails(br_from_data(BR_SHAPE(2), BR_F32, NULL), "from_data: values is NULL");
    check_fails(br_scalar(1, (br_dtype)9), "scalar: 9 is not a dtype");
    check_fails(br_scalar(NAN, BR_I64), "scalar: nan cannot be represented as i64");
    br_tensor *t = br_empty(BR_SHAPE(2000), BR_F32);
    br_set_memory_limit(1);
    check_fails(br_empty_like(t), "empty_like: ");
    check_fails(br_zeros_like(t), "zeros_like: ");
    check_fails(br_ones_like(t), "ones_like: ");
    br_set_memory_limit(0);
}
