/* tests/io/test_gguf.c - reads the metadata and the tensors of GGUF files. recorded.gguf and the
 * dequantized values in it are the Python package gguf's (tests/io/record_gguf.py). */
#include "tests/io/gguf_bytes.h"
#include "tests/memory.h"

#include <brasa/ops.h>

TestSuite(gguf, .init = files_begin, .fini = files_end);

#define RECORDED BRASA_TEST_DIR "/io/recorded.gguf"
#define PATH     files_path("a.gguf")

static br_gguf *open_file(const char *path)
{
    br_gguf *file = br_gguf_open(path, NULL);
    cr_assert(file, "%s", br_error_message());
    return file;
}

static int64_t index_of(const br_gguf *file, const char *name)
{
    for (int64_t i = 0; i < br_gguf_count(file); i++)
        if (strcmp(br_gguf_name(file, i), name) == 0)
            return i;
    cr_assert_fail("there is no %s", name);
    return -1;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static const char *const quantized[] = { "q4_0", "q4_1", "q5_0", "q5_1", "q8_0",
                                         "q2_k", "q3_k", "q4_k", "q5_k", "q6_k" };
enum { QUANTIZED = sizeof quantized / sizeof *quantized };

Test(gguf, every_block_is_dequantized_to_the_bit)
{
    br_scope *scope = br_scope_begin();
    br_gguf *file = open_file(RECORDED);
    for (int k = 0; k < QUANTIZED; k++) {
        char name[16];
        snprintf(name, sizeof name, "%s.f32", quantized[k]);
        br_tensor *x = br_gguf_get(file, quantized[k], BR_F32);
        br_tensor *want = br_gguf_get(file, name, BR_F32);
        cr_assert(x && want, "%s", br_error_message());
        cr_assert(br_numel(x) == br_numel(want) && br_numel(x) >= 96);
        const float *a = br_data_f32(x), *b = br_data_f32(want);
        for (int64_t i = 0; i < br_numel(x); i++)
            cr_assert_eq(memcmp(&a[i], &b[i], sizeof *a), 0, "%s, element %lld: %.9g, not %.9g",
                         quantized[k], (long long)i, (double)a[i], (double)b[i]);
    }
    br_gguf_close(file);
    br_scope_end(scope);
}

Test(gguf, other_dtypes_are_rounded_from_f32)
{
    static const br_dtype dtypes[] = { BR_F64, BR_F16, BR_BF16 };
    br_scope *scope = br_scope_begin();
    br_gguf *file = open_file(RECORDED);
    for (int k = 0; k < QUANTIZED; k++)
        for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
            br_tensor *x = br_gguf_get(file, quantized[k], dtypes[i]);
            br_tensor *want = br_to(br_gguf_get(file, quantized[k], BR_F32), dtypes[i]);
            size_t n = (size_t)br_numel(x) * br_dtype_size(dtypes[i]);
            cr_assert(br_dtype_of(x) == dtypes[i] && n > 0);
            cr_assert_eq(memcmp(br_data(x), br_data(want), n), 0, "%s", quantized[k]);
        }
    br_gguf_close(file);
    br_scope_end(scope);
}

/* The numbers -3 to 2 in shape [1, 3, 2]. */
Test(gguf, numbers_are_views)
{
    static const struct {
        const char *name;
        br_dtype dtype;
    } cases[] = { { "float32", BR_F32 }, { "float16", BR_F16 }, { "bfloat16", BR_BF16 },
                  { "float64", BR_F64 }, { "int8", BR_I8 },     { "int32", BR_I32 },
                  { "int64", BR_I64 } };
    br_scope *scope = br_scope_begin();
    br_gguf *file = open_file(RECORDED);
    br_tensor *x[sizeof cases / sizeof *cases];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        x[i] = br_gguf_get(file, cases[i].name, cases[i].dtype);
        br_tensor *again = br_gguf_get(file, cases[i].name, cases[i].dtype);
        cr_assert(x[i], "%s", br_error_message());
        cr_assert_eq(br_data(x[i]), br_data(again), "%s is copied", cases[i].name);
        br_tensor *wide = br_gguf_get(file, cases[i].name, BR_F64);
        for (int k = 0; k < 6; k++)
            cr_assert_eq(br_data_f64(wide)[k], k - 3, "%s", cases[i].name);
    }
    br_gguf_close(file); /* the tensors stay valid */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert_eq(br_data_f64(br_to(x[i], BR_F64))[5], 2);
    br_scope_end(scope);
}

Test(gguf, the_list_of_tensors)
{
    br_scope *scope = br_scope_begin();
    br_gguf *file = open_file(RECORDED);
    cr_assert_eq(br_gguf_version(file), 3);
    cr_assert_eq(br_gguf_count(file), 2 * QUANTIZED + 9);
    cr_assert_str_eq(br_gguf_name(file, 0), "q4_0");
    const int64_t *sizes;
    int64_t i = index_of(file, "q6_k");
    cr_assert_str_eq(br_gguf_type(file, i), "Q6_K");
    cr_assert_eq(br_gguf_bytes(file, i), 420);
    cr_assert_eq(br_gguf_shape(file, i, &sizes), 2);
    cr_assert(sizes[0] == 2 && sizes[1] == 256);
    cr_assert_eq(br_gguf_shape(file, index_of(file, "int16"), &sizes), 3);
    cr_assert(sizes[0] == 1 && sizes[1] == 3 && sizes[2] == 2);
    cr_assert_eq(br_size(br_gguf_get(file, "q6_k", BR_F32), 0), 2);
    cr_assert(br_gguf_has(file, "int16"));
    cr_assert_not(br_gguf_has(file, "int"));
    check_fails(br_gguf_name(file, -1), "tensor index -1 is out of range: the file has 29 tensors");
    check_fails(br_gguf_type(file, 29), "tensor index 29 is out of range");
    check_fails(br_gguf_get(file, "none", BR_F32), "the file has no tensor \"none\"");
    check_fails(br_gguf_get(file, "int16", BR_F32),
                "tensor \"int16\" has type I16, which Brasa does not support");
    check_fails(br_gguf_get(file, "iq4_nl", BR_F32), "type IQ4_NL, which Brasa does not support");
    check_fails(br_gguf_get(file, "q4_0", BR_I8), "type Q4_0, which cannot be converted to i8");
    check_fails(br_gguf_get(file, "float32", BR_I64), "type F32, which cannot be converted to i64");
    check_fails(br_gguf_get(file, "float32", (br_dtype)99), "cannot be converted to");
    br_gguf_close(file);
    br_scope_end(scope);
}

/* Writing to a view changes neither the file nor the next open file. */
Test(gguf, the_mapping_is_private)
{
    for (int copy = 0; copy < 2; copy++) {
        br_scope *scope = br_scope_begin();
        br_gguf *file = br_gguf_open(RECORDED, BR_OPTIONS(br_gguf, .copy = copy));
        br_tensor *x = br_gguf_get(file, "float32", BR_F32);
        cr_assert_eq(br_data_f32(x)[0], -3);
        br_data_f32(x)[0] = 7;
        br_gguf_close(file);
        cr_assert_eq(br_data_f32(x)[0], 7);
        br_scope_end(scope);
    }
}

/* A file of version 2 with an alignment of 1. The length of the first name moves the data by a
 * byte, so that "x" is unaligned in one of two files. */
static void write_unaligned(const char *first)
{
    gguf_bytes b = g_begin(3, 1);
    b.data[4] = 2;
    g_key(&b, "general.alignment", G_UINT32);
    g_u32(&b, 1);
    g_tensor(&b, first, 1, 0, G_I8, 0);
    g_tensor(&b, "x", 2, 0, G_F16, 1);
    g_tensor(&b, "e", 0, 3, G_F32, 1);
    g_data(&b, 1, 1);
    g_put(&b, (const uint16_t[]){ 0x3c00, 0xc000 }, 4);
    files_write(PATH, b.data, b.n);
}

Test(gguf, unaligned_and_empty)
{
    int copied = 0;
    for (int i = 0; i < 2; i++) {
        write_unaligned(i ? "aa" : "a");
        br_scope *scope = br_scope_begin();
        br_gguf *file = open_file(PATH);
        cr_assert_eq(br_gguf_version(file), 2);
        br_tensor *x = br_gguf_get(file, "x", BR_F16), *e = br_gguf_get(file, "e", BR_F32);
        cr_assert(x && e, "%s", br_error_message());
        copied += br_data(x) != br_data(br_gguf_get(file, "x", BR_F16));
        cr_assert_eq(br_item(br_sum(x)), -1);
        cr_assert(br_size(e, 0) == 3 && br_size(e, 1) == 0);
        br_gguf_close(file);
        br_scope_end(scope);
    }
    cr_assert_eq(copied, 1);
}

/* ---- Metadata -------------------------------------------------------------------------------- */

Test(gguf, values)
{
    br_gguf *f = open_file(RECORDED);
    cr_assert_eq(br_gguf_metadata_count(f), 18);
    cr_assert_str_eq(br_gguf_metadata_key(f, 1), "value.uint8");
    check_fails(br_gguf_metadata_key(f, 18), "index 18 is out of range: the file has 18 keys");
    cr_assert_eq(br_gguf_integer(f, "value.uint8"), 200);
    cr_assert_eq(br_gguf_integer(f, "value.int8"), -100);
    cr_assert_eq(br_gguf_integer(f, "value.uint16"), 60000);
    cr_assert_eq(br_gguf_integer(f, "value.int16"), -30000);
    cr_assert_eq(br_gguf_integer(f, "value.uint32"), 4000000000);
    cr_assert_eq(br_gguf_integer(f, "value.int32"), -2000000000);
    cr_assert_eq(br_gguf_integer(f, "value.uint64"), INT64_MAX);
    cr_assert_eq(br_gguf_integer(f, "value.int64"), INT64_MIN);
    cr_assert_eq(br_gguf_number(f, "value.float32"), (double)0.1f);
    cr_assert_eq(br_gguf_number(f, "value.float64"), 0.1);
    cr_assert_eq(br_gguf_number(f, "value.int8"), -100);
    cr_assert_eq(br_gguf_number(f, "value.large"), 0x1p63);
    cr_assert(br_gguf_bool(f, "value.bool"));
    size_t n;
    cr_assert_eq(memcmp(br_gguf_string(f, "value.string", &n), "ol\xc3\xa1\0!", 7), 0);
    cr_assert_eq(n, 6);
    cr_assert_str_eq(br_gguf_string(f, "general.architecture", NULL), "test");
    br_gguf_close(f);
}

Test(gguf, types_of_values)
{
    static const char *const names[] = {
        "uint8",  "int8",  "uint16",  "int16",   "uint32", "int32",
        "uint64", "int64", "float32", "float64", "bool",   "string"
    };
    br_gguf *f = open_file(RECORDED);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char key[32];
        snprintf(key, sizeof key, "value.%s", names[i]);
        cr_assert_str_eq(br_gguf_metadata_type(f, key), names[i]);
    }
    cr_assert_str_eq(br_gguf_metadata_type(f, "list.bool"), "array");
    cr_assert_null(br_gguf_metadata_type(f, "none"));
    check_fails(br_gguf_integer(f, "none"), "the file has no metadata \"none\"");
    check_fails(br_gguf_integer(f, "value.bool"),
                "\"value.bool\" is of type bool, expected an integer");
    check_fails(br_gguf_integer(f, "value.float32"), "of type float32, expected");
    check_fails(br_gguf_integer(f, "value.large"), "9223372036854775808, which int64_t does not");
    check_fails(br_gguf_number(f, "value.string") != 0, "of type string, expected a");
    check_fails(br_gguf_bool(f, "value.uint8"), "of type uint8, expected a bool");
    check_fails(br_gguf_string(f, "value.int8", NULL), "int8, expected a string");
    check_fails(br_gguf_string(f, "list.string", NULL),
                "\"list.string\" is an array of type string, expected a string");
    size_t length = 7; /* the length of no text is 0 */
    check_fails(br_gguf_string(f, "value.int8", &length), "int8, expected a string");
    cr_assert_eq(length, 0);
    length = 7;
    check_fails(br_gguf_string(f, "none", &length), "the file has no metadata");
    cr_assert_eq(length, 0);
    length = 7;
    check_fails(br_gguf_list_string(f, "list.int32", 0, &length), "int32, expected");
    cr_assert_eq(length, 0);
    length = 7;
    check_fails(br_gguf_list_string(f, "list.string", 3, &length), "index 3 is out of range");
    cr_assert_eq(length, 0);
    br_gguf_close(f);
}

Test(gguf, lists)
{
    br_gguf *f = open_file(RECORDED);
    cr_assert_str_eq(br_gguf_list_type(f, "list.int32"), "int32");
    cr_assert_eq(br_gguf_list_size(f, "list.int32"), 3);
    cr_assert_eq(br_gguf_list_integer(f, "list.int32", 1), -2);
    cr_assert_eq(br_gguf_list_number(f, "list.int32", 2), 3);
    cr_assert_eq(br_gguf_list_number(f, "list.float32", 1), -0.25);
    cr_assert(br_gguf_list_bool(f, "list.bool", 0) && !br_gguf_list_bool(f, "list.bool", 1));
    size_t n;
    cr_assert_eq(memcmp(br_gguf_list_string(f, "list.string", 2, &n), "ol\xc3\xa1", 4), 0);
    cr_assert_eq(n, 4);
    cr_assert(br_gguf_list_string(f, "list.string", 0, &n) && n == 0);
    check_fails(br_gguf_list_string(f, "list.string", 3, &n),
                "\"list.string\": index 3 is out of range: the array has 3 elements");
    check_fails(br_gguf_list_string(f, "list.bool", 0, &n), "an array of type bool, expected");
    check_fails(br_gguf_list_string(f, "list.string", 0, NULL), "length is NULL");
    check_fails(br_gguf_list_integer(f, "list.int32", -1), "index -1 is out of range");
    check_fails(br_gguf_list_type(f, "value.int8"), "of type int8, expected an array");
    check_fails(br_gguf_list_size(f, "none") >= 0, "the file has no metadata \"none\"");
    br_gguf_close(f);
}

Test(gguf, without_a_file)
{
    cr_assert_eq(br_gguf_count(NULL), -1);
    cr_assert_eq(br_gguf_version(NULL), -1);
    cr_assert_eq(br_gguf_metadata_count(NULL), -1);
    br_gguf_close(NULL);
    check_fails(br_gguf_open(NULL, NULL), "path is NULL");
    check_fails(br_gguf_open("/nonexistent", NULL), "/nonexistent: cannot be opened");
    check_fails(br_gguf_get(NULL, "x", BR_F32), "file is NULL");
    check_fails(br_gguf_name(NULL, 0), "file is NULL");
    check_fails(br_gguf_integer(NULL, "x"), "file is NULL");
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static bool read_all(bool copy)
{
    br_scope *scope = br_scope_begin();
    br_gguf *file = br_gguf_open(RECORDED, BR_OPTIONS(br_gguf, .copy = copy));
    for (int k = 0; file && k < QUANTIZED; k++)
        br_gguf_get(file, quantized[k], k % 2 ? BR_F32 : BR_F16);
    br_gguf_get(file, "float32", BR_F32);
    br_gguf_get(file, "float16", BR_F32);
    br_gguf_close(file);
    br_scope_end(scope);
    return !br_failed();
}

static bool read_mapped(void)
{
    return read_all(false);
}

static bool read_copied(void)
{
    return read_all(true);
}

Test(gguf, memory_runs_out)
{
    fail_in_turn(read_mapped, "a mapped file");
    fail_in_turn(read_copied, "a copied file");
}
