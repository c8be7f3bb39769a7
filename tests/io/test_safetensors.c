/* tests/io/test_safetensors.c - valid safetensors files. test_safetensors_hostile.c has invalid
 * ones. */
#include "tests/io/files.h"

#include <stdlib.h>
#include <unistd.h>

TestSuite(safetensors, .init = files_begin, .fini = files_end);

static br_safetensors *open_with(const char *header, size_t data_bytes)
{
    const char *path = files_path("a.safetensors");
    files_write_safetensors(path, header, strlen(header), data_bytes);
    br_safetensors *file = br_safetensors_open(path, NULL);
    check_ok();
    cr_assert(file);
    return file;
}

Test(safetensors, reads_dtypes_shapes_and_metadata)
{
    br_safetensors *file = open_with(
        "{\"b\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[40,42]},"
        "\"__metadata__\":{\"format\":\"pt\",\"\\u00e9\":\"a\\n\\\"\"},"
        "\"f\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"i\":{\"shape\":[1,2],\"data_offsets\":[24,40],\"dtype\":\"I64\",\"more\":[{}]}}",
        42);
    cr_assert_eq(br_safetensors_count(file), 3);
    cr_assert_str_eq(br_safetensors_name(file, 0), "f");
    cr_assert_str_eq(br_safetensors_name(file, 1), "i");
    cr_assert_str_eq(br_safetensors_name(file, 2), "b");
    cr_assert_str_eq(br_safetensors_dtype(file, 1), "I64");
    cr_assert_eq(br_safetensors_bytes(file, 0), 24);
    const int64_t *sizes;
    cr_assert_eq(br_safetensors_shape(file, 0, &sizes), 2);
    cr_assert(sizes[0] == 2 && sizes[1] == 3);
    cr_assert(br_safetensors_has(file, "b") && !br_safetensors_has(file, "B"));
    cr_assert_eq(br_safetensors_metadata_count(file), 2);
    cr_assert_str_eq(br_safetensors_metadata_key(file, 0), "format");
    cr_assert_str_eq(br_safetensors_metadata(file, "format"), "pt");
    cr_assert_str_eq(br_safetensors_metadata(file, "\xc3\xa9"), "a\n\"");
    cr_assert_null(br_safetensors_metadata(file, "nothing"));

    br_tensor *i = br_safetensors_get(file, "i");
    check_ok();
    cr_assert_eq(br_dtype_of(i), BR_I64);
    int64_t values[2];
    cr_assert(br_copy_out(i, values, sizeof values));
    cr_assert_eq(values[0], 0x1f1e1d1c1b1a1918);
    cr_assert_eq(values[1], 0x2726252423222120);
    check_fails(br_safetensors_get(file, "nothing\x1b"),
                "the file has no tensor \"nothing\\u001b\"");
    check_fails(br_safetensors_name(file, 3),
                "tensor index 3 is out of range: the file has 3 tensors");
    check_fails(br_safetensors_shape(file, 3, &sizes) >= 0, "tensor index 3 is out of range");
    cr_assert_null(sizes);
    check_fails(br_safetensors_get(file, NULL), "name is NULL");
    br_safetensors_close(file);
    check_fails(br_safetensors_get(NULL, "i"), "file is NULL");
    br_safetensors_close(NULL);
}

Test(safetensors, empty_and_scalar_tensors)
{
    br_safetensors *file =
        open_with("{\"s\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[0,4]},"
                  "\"e\":{\"dtype\":\"F64\",\"shape\":[3,0,2],\"data_offsets\":[4,4]},"
                  "\"d\":{\"dtype\":\"BF16\",\"shape\":[0],\"data_offsets\":[0,0]}}   ",
                  4);
    br_tensor *s = br_safetensors_get(file, "s"), *e = br_safetensors_get(file, "e");
    check_ok();
    cr_assert_eq(br_ndim(s), 0);
    cr_assert_eq(br_numel(e), 0);
    cr_assert_eq(br_size(e, 2), 2);
    br_safetensors_close(file);

    /* An empty tensor comes before the tensor that begins at its place, whatever their names. */
    file = open_with("{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                     "\"z\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]},"
                     "\"b\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[4,4]}}   ",
                     4);
    cr_assert_eq(br_numel(br_safetensors_get(file, "a")), 1);
    cr_assert_eq(br_numel(br_safetensors_get(file, "z")), 0);
    br_safetensors_close(file);

    file = open_with("{}", 0);
    cr_assert_eq(br_safetensors_count(file), 0);
    cr_assert_eq(br_safetensors_metadata_count(file), 0);
    br_safetensors_close(file);

    file = open_with("{}", 0);
    cr_assert_not(br_safetensors_has(file, "x"));
    br_safetensors_close(file);

    file = open_with("{\"__metadata__\":{\"only\":\"this\"}}", 0);
    cr_assert_str_eq(br_safetensors_metadata(file, "only"), "this");
    cr_assert_str_eq(br_safetensors_metadata_key(file, 0), "only");
    check_fails(br_safetensors_metadata_key(file, 1),
                "metadata index 1 is out of range: the file has 1 metadata entries");
    check_fails(br_safetensors_metadata_key(file, -1), "metadata index -1 is out of range");
    br_safetensors_close(file);
}

Test(safetensors, tensors_outlive_the_file_and_do_not_write_to_it)
{
    br_safetensors *file =
        open_with("{\"x\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]} ,\n"
                  " \"y\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[16,20]}}   ",
                  20);

    br_tensor *x = br_safetensors_get(file, "x");
    br_tensor *again = br_safetensors_get(file, "x");
    cr_assert_eq(br_data(x), br_data(again), "an aligned tensor was copied");
    br_safetensors_close(file);
    ((unsigned char *)br_data(x))[0] = 77;
    cr_assert_eq(((unsigned char *)br_data(again))[0], 77);
    size_t n;
    char *bytes = files_read(files_path("a.safetensors"), &n);
    cr_assert_eq(bytes[n - 20], 0, "writing to a tensor changed the file");
    free(bytes);
}

Test(safetensors, unaligned_tensors_are_copied)
{
    const char *header[] = { "{\"x\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
                             "{\"x\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}} " };
    for (int i = 0; i < 2; i++) { /* at least one of them is unaligned */
        br_safetensors *file = open_with(header[i], 8);
        br_tensor *x = br_safetensors_get(file, "x");
        check_ok();
        cr_assert_eq((uintptr_t)br_data(x) % sizeof(double), 0);
        uint64_t bits;
        cr_assert(br_copy_out(x, &bits, sizeof bits));
        cr_assert_eq(bits, 0x0706050403020100);
        br_safetensors_close(file);
    }
}

Test(safetensors, bools_are_made_0_or_1)
{
    br_safetensors *file =
        open_with("{\"b\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[0,3]}}", 3);
    br_tensor *b = br_safetensors_get(file, "b");
    check_ok();
    const unsigned char *bytes = br_data(b); /* the file has 0, 1, 2 */
    cr_assert(bytes[0] == 0 && bytes[1] == 1 && bytes[2] == 1);
    br_safetensors_close(file);
}

Test(safetensors, dtypes_that_brasa_lacks_are_listed_and_not_used)
{
    br_safetensors *file = open_with(
        "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[0,3]},"
        "\"b\":{\"dtype\":\"F4\",\"shape\":[2,1],\"data_offsets\":[3,4]},"
        "\"c\":{\"dtype\":\"C64\",\"shape\":[1],\"data_offsets\":[4,12]},"
        "\"d\":{\"dtype\":\"BOOL\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[12,14]},"
        "\"e\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[14,15]}}",
        15);
    cr_assert_str_eq(br_safetensors_dtype(file, 0), "F8_E4M3");
    check_fails(br_safetensors_get(file, "a"),
                "tensor \"a\" has dtype F8_E4M3, which Brasa does not support");
    check_fails(br_safetensors_get(file, "b"), "tensor \"b\" has dtype F4");
    check_fails(br_safetensors_get(file, "c"), "tensor \"c\" has dtype C64");
    const int64_t *sizes;
    cr_assert_eq(br_safetensors_shape(file, 3, &sizes), 9);
    cr_assert_eq(sizes[8], 2);
    check_fails(br_safetensors_get(file, "d"), "has 9 dimensions, but at most 8");
    cr_assert(br_safetensors_get(file, "e"));
    br_safetensors_close(file);
}

Test(safetensors, names_are_data)
{
    size_t length = 10000;
    char *header = malloc(length + 512);
    strcpy(header,
           "{\"../../etc/x\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]},"
           "\"\\u001b[31m\\u202e\":{\"dtype\":\"F8_E5M2\",\"shape\":[],\"data_offsets\":[1,2]},\"");
    size_t n = strlen(header);
    memset(header + n, 'n', length);
    strcpy(header + n + length, "\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[2,3]}}");
    br_safetensors *file = open_with(header, 3);
    cr_assert(br_safetensors_get(file, "../../etc/x"));
    cr_assert_eq(strlen(br_safetensors_name(file, 2)), length);
    cr_assert(br_safetensors_get(file, br_safetensors_name(file, 2)));
    check_fails(br_safetensors_get(file, br_safetensors_name(file, 1)),
                "tensor \"\\u001b[31m\\u202e\" has dtype F8_E5M2");
    br_safetensors_close(file);
    free(header);
}

Test(safetensors, copy_reads_into_memory)
{
    const char *path = files_path("a.safetensors");
    const char header[] = "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    files_write_safetensors(path, header, sizeof header - 1, 8);
    int64_t before = br_live_bytes();
    br_safetensors *file = br_safetensors_open(path, BR_OPTIONS(br_safetensors, .copy = true));
    check_ok();
    cr_assert_eq(br_live_bytes() - before, 8);
    cr_assert_eq(truncate(path, 0),
                 0); /* if the file were mapped, reading it would now raise SIGBUS */
    br_tensor *x = br_safetensors_get(file, "x");
    br_safetensors_close(file);
    uint64_t bits;
    cr_assert(br_copy_out(x, &bits, sizeof bits));
    cr_assert_eq(bits, 0x0706050403020100);
}

Test(safetensors, the_cap_on_the_header_is_an_option)
{
    const char *path = files_path("a.safetensors");
    const char header[] = "{\"__metadata__\":{\"a\":\"b\"}}";
    files_write_safetensors(path, header, sizeof header - 1, 0);
    br_safetensors_options options =
        *BR_OPTIONS(br_safetensors, .max_header_bytes = sizeof header - 2);
    check_fails(br_safetensors_open(path, &options), "more than the limit of 25");
    options.max_header_bytes++;
    br_safetensors *file = br_safetensors_open(path, &options);
    check_ok();
    br_safetensors_close(file);
}

/* Checking and lookup must not be quadratic: there are public files with 1.3 million tensors. */
Test(safetensors, many_tensors)
{
    const int64_t count = 400000;
    char *header = malloc((size_t)count * 72), *p = header;
    for (int64_t i = count; i-- > 0;)
        p +=
            sprintf(p, "%c\"t%lld\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[%lld,%lld]}",
                    i == count - 1 ? '{' : ',', (long long)i, (long long)i, (long long)i + 1);
    *p++ = '}';
    const char *path = files_path("large.safetensors");
    files_write_safetensors(path, header, (size_t)(p - header), (size_t)count);
    free(header);
    br_safetensors *file = br_safetensors_open(path, NULL);
    check_ok();
    cr_assert_eq(br_safetensors_count(file), count);
    cr_assert_str_eq(br_safetensors_name(file, 345678), "t345678");
    cr_assert(br_safetensors_has(file, "t7") && !br_safetensors_has(file, "t400000"));
    br_scope *scope = br_scope_begin();
    for (int64_t i = 0; i < count; i += 100)
        cr_assert(br_safetensors_get(file, br_safetensors_name(file, i)));
    br_scope_end(scope);
    br_safetensors_close(file);
}

Test(safetensors, nothing_happens_while_an_error_is_pending)
{
    br_safetensors *file =
        open_with("{\"x\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[0,1]}}", 1);
    br_raise(BR_ERROR_STATE, "before");
    cr_assert_null(br_safetensors_get(file, "x"));
    cr_assert_null(br_safetensors_open(files_path("a.safetensors"), NULL));
    cr_assert_str_eq(br_error_message(), "before");
    br_clear_error();
    br_safetensors_close(file);
}
