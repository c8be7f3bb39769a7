/* tests/io/test_safetensors_write.c - writing files: their bytes, and that a failure keeps the
 * existing file. */
#include "tensor/tensor_internal.h"
#include "tests/io/files.h"
#include "tests/memory.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(safetensors_write, .init = files_begin, .fini = files_end);

#define PATH files_path("a.safetensors")
#define LIST(...)                                                                                 \
    &(br_named_list)                                                                              \
    {                                                                                             \
        sizeof((br_named_tensor[]){ __VA_ARGS__ }) / sizeof(br_named_tensor), (br_named_tensor[]) \
        {                                                                                         \
            __VA_ARGS__                                                                           \
        }                                                                                         \
    }
#define METADATA(...)                                                             \
    sizeof((br_metadata[]){ __VA_ARGS__ }) / sizeof(br_metadata), (br_metadata[]) \
    {                                                                             \
        __VA_ARGS__                                                               \
    }

/* The bytes that Python's package writes for these tensors, printed by cross_check.py --record. */
static const char python_header[] =
    "{\"__metadata__\":{\"format\":\"a\\tb\\u001b\\\"\u00e9\"},"
    "\"a\\\"\\\\\\n\u00e9\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[0,8]},"
    "\"step\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[8,16]},"
    "\"empty\":{\"dtype\":\"F64\",\"shape\":[3,0],\"data_offsets\":[16,16]},"
    "\"mean\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[16,32]},"
    "\"bias\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[32,44]},"
    "\"weight\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[44,68]},"
    "\"mask\":{\"dtype\":\"BOOL\",\"shape\":[3],\"data_offsets\":[68,71]}}     ";
static const unsigned char python_data[] = {
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x07, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xe0, 0x3f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0xc0, 0x00, 0x00, 0xc0, 0x7f, 0x00, 0x00, 0x80, 0x7f, 0x00, 0x00, 0x00, 0x80, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, 0x40, 0x40,
    0x00, 0x00, 0x80, 0x40, 0x00, 0x00, 0xa0, 0x40, 0x01, 0x00, 0x01,
};

Test(safetensors_write, the_bytes_that_python_writes)
{
    br_tensor *weight = br_from_f32(BR_SHAPE(2, 3), (float[]){ 0, 1, 2, 3, 4, 5 });
    br_tensor *bias = br_from_f32(BR_SHAPE(3), (float[]){ NAN, INFINITY, -0.0f });
    br_tensor *step = br_from_i64(BR_SCALAR, (int64_t[]){ 7 });
    br_tensor *mean = br_from_f64(BR_SHAPE(2), (double[]){ 0.5, -2 });
    br_tensor *mask = br_from_bool(BR_SHAPE(3), (bool[]){ true, false, true });
    br_named_list *list =
        LIST({ "weight", weight }, { "step", step }, { "mean", mean }, { "mask", mask },
             { "bias", bias }, { "empty", br_zeros(BR_SHAPE(3, 0), BR_F64) },
             { "a\"\\\n\u00e9", br_zeros(BR_SHAPE(1), BR_I64) });
    cr_assert(br_safetensors_save(PATH, list, METADATA({ "format", "a\tb\x1b\"\u00e9" })));
    check_ok();
    size_t n;
    char *bytes = files_read(PATH, &n);
    cr_assert_eq(n, 8 + sizeof python_header - 1 + sizeof python_data);
    cr_assert_eq(*(uint64_t *)(void *)bytes, sizeof python_header - 1);
    bytes[8 + sizeof python_header - 1] = 0; /* the first byte of the data, which is 0 already */
    cr_assert_str_eq(bytes + 8, python_header);
    cr_assert_eq(memcmp(bytes + 8 + sizeof python_header - 1, python_data, sizeof python_data), 0);
    free(bytes);
    cr_assert_eq(files_count(), 1);
}

Test(safetensors_write, any_layout_and_every_bit)
{
    const uint32_t bits[6] = { 0x7fc00001, 0xffc12345, 0x7f800001, 0x80000000, 0x00000001, 5 };
    br_tensor *x = br_from_data(BR_SHAPE(2, 3), BR_F32, bits); /* NaNs with payloads */
    br_tensor *transposed = br__view_of(x, BR_SHAPE(3, 2), (int64_t[]){ 1, 3 }, 0);
    br_tensor *expanded = br__view_of(x, BR_SHAPE(2, 2), (int64_t[]){ 0, 1 }, 0);
    br_tensor *backwards = br__view_of(x, BR_SHAPE(3), (int64_t[]){ -1 }, 5);
    cr_assert(br_safetensors_save(
        PATH,
        LIST({ "tied", x }, { "t", transposed }, { "e", expanded }, { "b", backwards }, { "x", x }),
        0, NULL));
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    uint32_t out[6];
    cr_assert(br_copy_out(br_safetensors_get(file, "x"), out, sizeof out));
    cr_assert_eq(memcmp(out, bits, sizeof bits), 0);
    cr_assert(br_copy_out(br_safetensors_get(file, "tied"), out, sizeof out));
    cr_assert_eq(memcmp(out, bits, sizeof bits), 0);
    cr_assert(br_copy_out(br_safetensors_get(file, "t"), out, sizeof out));
    for (int i = 0; i < 6; i++)
        cr_assert_eq(out[i], bits[i % 2 * 3 + i / 2]);
    cr_assert(br_copy_out(br_safetensors_get(file, "e"), out, 16));
    cr_assert(out[0] == bits[0] && out[1] == bits[1] && out[2] == bits[0] && out[3] == bits[1]);
    cr_assert(br_copy_out(br_safetensors_get(file, "b"), out, 12));
    cr_assert(out[0] == bits[5] && out[1] == bits[4] && out[2] == bits[3]);
    br_safetensors_close(file);
}

Test(safetensors_write, nothing_and_metadata_alone)
{
    cr_assert(br_safetensors_save(PATH, &(br_named_list){ 0 }, 0, NULL));
    size_t n;
    char *bytes = files_read(PATH, &n);
    cr_assert_eq(n, 16);
    cr_assert_eq(memcmp(bytes, "\x08\0\0\0\0\0\0\0{}      ", 16), 0);
    free(bytes);
    cr_assert(br_safetensors_save(PATH, &(br_named_list){ 0 }, METADATA({ "", "" }, { "a", "b" })));
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    check_ok();
    cr_assert_str_eq(br_safetensors_metadata(file, ""), "");
    cr_assert_str_eq(br_safetensors_metadata(file, "a"), "b");
    br_safetensors_close(file);
}

Test(safetensors_write, every_control_character_is_escaped)
{
    static const char header[] = "{\"__metadata__\":{\"k\":\"\\u0001\\u0002\\u0003\\u0004\\u0005"
                                 "\\u0006\\u0007\\b\\t\\n\\u000b\\f\\r\\u000e\\u000f\\u0010"
                                 "\\u0011\\u0012\\u0013\\u0014\\u0015\\u0016\\u0017\\u0018\\u0019"
                                 "\\u001a\\u001b\\u001c\\u001d\\u001e\\u001f \"}}";
    char all[33] = "";
    for (int c = 1; c <= ' '; c++)
        all[c - 1] = (char)c;
    cr_assert(br_safetensors_save(PATH, &(br_named_list){ 0 }, METADATA({ "k", all })));
    size_t n;
    char *bytes = files_read(PATH, &n);
    cr_assert_geq(n, 8 + sizeof header - 1);
    cr_assert_arr_eq(bytes + 8, header, sizeof header - 1);
    free(bytes);
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    check_ok();
    cr_assert_str_eq(br_safetensors_metadata(file, "k"), all);
    br_safetensors_close(file);
}

Test(safetensors_write, overwriting_the_file_that_the_tensors_are_views_of)
{
    br_tensor *x = br_from_i64(BR_SHAPE(3), (int64_t[]){ 1, 2, 3 });
    cr_assert(br_safetensors_save(PATH, LIST({ "x", x }), 0, NULL));
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    br_tensor *mapped = br_safetensors_get(file, "x");
    br_tensor *more = br_zeros(BR_SHAPE(1), BR_I64);
    cr_assert(br_safetensors_save(PATH, LIST({ "x", mapped }, { "before", more }), 0, NULL));
    cr_assert_eq(br_data_i64(mapped)[2], 3);
    br_safetensors_close(file);
    file = br_safetensors_open(PATH, NULL);
    cr_assert_eq(br_data_i64(br_safetensors_get(file, "x"))[2], 3);
    br_safetensors_close(file);
}

Test(safetensors_write, what_is_refused)
{
    br_tensor *x = br_ones(BR_SHAPE(2), BR_F32);
    br_named_list *good = LIST({ "x", x });
    check_fails(br_safetensors_save(NULL, good, 0, NULL), "path is NULL");
    check_fails(br_safetensors_save(PATH, NULL, 0, NULL), "tensors is NULL");
    check_fails(br_safetensors_save(PATH, good, 1, NULL), "metadata is NULL");
    check_fails(br_safetensors_save(PATH, good, -1, NULL), "n_metadata is -1");
    check_fails(br_safetensors_save(PATH, LIST({ "x", NULL }), 0, NULL), "tensor \"x\" is NULL");
    check_fails(br_safetensors_save(PATH, LIST({ NULL, x }), 0, NULL), "name of tensor 0 is NULL");
    check_fails(br_safetensors_save(PATH, LIST({ "x", x }, { "", x }), 0, NULL),
                "name of tensor 1 is empty");
    check_fails(br_safetensors_save(PATH, LIST({ "\xff", x }), 0, NULL), "\"\\xff\" is not UTF-8");
    check_fails(br_safetensors_save(PATH, LIST({ "__metadata__", x }), 0, NULL),
                "tensor name \"__metadata__\" is reserved");
    check_fails(br_safetensors_save(PATH, LIST({ "x", x }, { "y", x }, { "x", x }), 0, NULL),
                "two tensors are named \"x\"");
    check_fails(br_safetensors_save(PATH, good, METADATA({ "a", "b" }, { "a", "b" })),
                "metadata \"a\" is given twice");
    check_fails(br_safetensors_save(PATH, good, METADATA({ "a", NULL })), "value of metadata 0");
    check_fails(br_safetensors_save(PATH, good, METADATA({ NULL, "a" })), "key of metadata 0");
    check_fails(br_safetensors_save(PATH, good, METADATA({ "a", "\xc0\x80" })), "not UTF-8");
    br_raise(BR_ERROR_STATE, "before");
    cr_assert_not(br_safetensors_save(PATH, good, 0, NULL));
    cr_assert_str_eq(br_error_message(), "before");
    br_clear_error();
    cr_assert_eq(files_count(), 0);
}

Test(safetensors_write, places_that_cannot_be_written)
{
    br_named_list *list = LIST({ "x", br_ones(BR_SHAPE(2), BR_F32) });
    check_fails(br_safetensors_save(files_path("no/such"), list, 0, NULL), "No such file");
    check_fails(br_safetensors_save("/dev/null", list, 0, NULL), "not a regular file");
    check_fails(br_safetensors_save("", list, 0, NULL), "No such file");
    const char *directory = files_path("directory");
    cr_assert_eq(mkdir(directory, 0777), 0);
    check_fails(br_safetensors_save(directory, list, 0, NULL), "not a regular file");
    cr_assert_eq(files_count(), 1);

    /* A name of the maximum length works. */
    char name[257];
    memset(name, 'n', 255);
    name[255] = 0;
    cr_assert(br_safetensors_save(files_path(name), list, 0, NULL));
    check_ok();
    memset(name, 'm', 256);
    name[256] = 0;
    check_fails(br_safetensors_save(files_path(name), list, 0, NULL), "File name too long");
    cr_assert_eq(files_count(), 2);

    if (geteuid() == 0) /* root can write everywhere */
        return;
    cr_assert_eq(chmod(files_path("directory"), 0555), 0);
    check_fails(br_safetensors_save(files_path("directory/x"), list, 0, NULL), "Permission denied");
    files_write(PATH, "kept", 4);
    cr_assert_eq(chmod(PATH, 0444), 0);
    check_fails(br_safetensors_save(PATH, list, 0, NULL), "Permission denied");
}

Test(safetensors_write, permissions_and_links)
{
    br_named_list *list = LIST({ "x", br_ones(BR_SHAPE(2), BR_F32) });
    struct stat st;
    mode_t mask = umask(027);
    cr_assert(br_safetensors_save(PATH, list, 0, NULL));
    cr_assert_eq(stat(PATH, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0640);
    cr_assert_eq(chmod(PATH, 0604), 0);
    cr_assert(br_safetensors_save(PATH, list, 0, NULL));
    cr_assert_eq(stat(PATH, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0604);
    cr_assert_eq(chmod(PATH, 0751), 0);
    cr_assert(br_safetensors_save(PATH, list, 0, NULL));
    cr_assert_eq(stat(PATH, &st), 0);
    cr_assert_eq(st.st_mode & 0777, 0751);
    umask(mask);

    cr_assert_eq(symlink("a.safetensors", files_path("link")), 0);
    ino_t inode = st.st_ino;
    cr_assert(br_safetensors_save(files_path("link"), list, 0, NULL));
    cr_assert_eq(lstat(files_path("link"), &st), 0);
    cr_assert(S_ISLNK(st.st_mode), "the link was replaced");
    cr_assert_eq(stat(PATH, &st), 0);
    cr_assert_neq(st.st_ino, inode);
}

/* A limit on the file size simulates a full disk: write() fails after some of the bytes. */
/* Neither this library nor the Python package reads a header that is longer. */
Test(safetensors_write, a_header_above_the_limit_is_refused)
{
    enum { LIMIT = 100 * 1000 * 1000 };
    br_module *empty = br_module_create(sizeof(br_module), "empty");
    br_named_list *none = br_state_dict(empty);
    char *text = malloc(LIMIT + 1);
    cr_assert(text);
    memset(text, 'x', LIMIT);
    text[LIMIT] = 0;
    check_fails(br_safetensors_save(PATH, none, 1, &(br_metadata){ "k", text }),
                "more than the format's limit of 100000000");
    cr_assert(access(PATH, F_OK) != 0);
    text[LIMIT - 64] = 0;
    cr_assert(br_safetensors_save(PATH, none, 1, &(br_metadata){ "k", text }), "%s",
              br_error_message());
    br_named_list_free(none);
    br_module_free(empty);
    free(text);
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    cr_assert(file, "%s", br_error_message());
    br_safetensors_close(file);
}

Test(safetensors_write, a_full_disk_leaves_the_old_file)
{
    br_tensor *small = br_ones(BR_SHAPE(2), BR_F32), *large = br_ones(BR_SHAPE(100000), BR_F32);
    cr_assert(br_safetensors_save(PATH, LIST({ "x", small }), 0, NULL));
    size_t n, m;
    char *before = files_read(PATH, &n);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit, less;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlim_t capacities[] = { 0, 10, 100, 70000, 400000 };
    for (size_t i = 0; i < sizeof capacities / sizeof *capacities; i++) {
        less = limit;
        less.rlim_cur = capacities[i];
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &less), 0);
        bool saved = br_safetensors_save(PATH, LIST({ "x", large }, { "y", small }), 0, NULL);
        cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
        cr_assert_not(saved);
        cr_assert_eq(br_error_code(), BR_ERROR_IO);
        cr_assert(strstr(br_error_message(), "a.safetensors: cannot be written: File too large"),
                  "%s", br_error_message());
        br_clear_error();
        cr_assert_eq(files_count(), 1, "a temporary file is left");
        char *after = files_read(PATH, &m);
        cr_assert(m == n && memcmp(before, after, n) == 0);
        free(after);
    }
    free(before);
    cr_assert(br_safetensors_save(PATH, LIST({ "x", large }), 0, NULL));
}

/* A transposed tensor is copied before it is written, when the file has been begun already. */
static bool save_transposed(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_t(br_ones(BR_SHAPE(300, 500), BR_F32));
    const bool saved = x && br_safetensors_save(PATH, LIST({ "x", x }), 0, NULL);
    br_scope_end(scope);
    cr_assert_eq(files_count(), 1, "a temporary file is left");
    return saved;
}

Test(safetensors_write, a_failing_allocation_leaves_no_temporary_file)
{
    files_write(PATH, "old", 3);
    br_thread_cleanup();
    fail_in_turn(save_transposed, "save_transposed");
}
