/* tests/io/test_gguf_hostile.c - invalid GGUF files, which the reader must refuse with a message
 * that names the file, the key or the tensor, and the violated rule. */
#include "tests/io/gguf_bytes.h"

TestSuite(gguf_hostile, .init = files_begin, .fini = files_end);

#define PATH files_path("a.gguf")

static void refuse(const gguf_bytes *b, const char *message)
{
    files_write(PATH, b->data, b->n);
    br_gguf *file = br_gguf_open(PATH, NULL);
    cr_assert_null(file, "accepted, instead of: %s", message);
    cr_assert_eq(br_error_code(), BR_ERROR_FORMAT, "%s", br_error_message());
    cr_assert(strstr(br_error_message(), message), "\"%s\" does not contain \"%s\"",
              br_error_message(), message);
    cr_assert(strstr(br_error_message(), PATH), "no path: %s", br_error_message());
    br_clear_error();
}

static void accept(const gguf_bytes *b)
{
    files_write(PATH, b->data, b->n);
    br_gguf *file = br_gguf_open(PATH, NULL);
    cr_assert(file, "%s", br_error_message());
    br_gguf_close(file);
}

static const uint64_t huge = (uint64_t)1 << 60;

/* ---- The header ------------------------------------------------------------------------------ */

Test(gguf_hostile, headers)
{
    gguf_bytes b = { .n = 0 };
    refuse(&b, "is not a GGUF file: it is empty");
    g_put(&b, "GGU", 3);
    refuse(&b, "is not a GGUF file: it does not begin with \"GGUF\"");
    g_put(&b, "f\3\0\0\0", 5);
    refuse(&b, "is not a GGUF file: it does not begin with \"GGUF\"");
    b = g_begin(0, 0);
    accept(&b);
    b.data[4] = 1;
    refuse(&b, "is a GGUF file of version 1, must be 2 or 3");
    b.data[4] = 4;
    refuse(&b, "is a GGUF file of version 4, must be 2 or 3");
    b.data[4] = 0;
    b.data[7] = 3;
    refuse(&b, "is a big-endian GGUF file, but only little-endian files are supported");
}

Test(gguf_hostile, counts)
{
    gguf_bytes b = g_begin(huge, 0);
    refuse(&b, "the number of tensors is 1152921504606846976, but the 0 bytes that follow have "
               "room for at most 0");
    b = g_begin(0, huge);
    refuse(&b, "the number of keys is 1152921504606846976, but the 0 bytes that follow");
    b = g_begin(0, UINT64_MAX);
    refuse(&b, "the number of keys is 18446744073709551615, but");
    b = g_begin(3, 0);
    g_data(&b, 1, 74);
    refuse(&b, "the number of tensors is 3, but the 74 bytes that follow have room for at most 2");
    b = g_begin(0, 2);
    g_data(&b, 1, 27);
    refuse(&b, "the number of keys is 2, but the 27 bytes that follow have room for at most 1");
}

/* Every prefix of a file is refused with a message that says what is missing. */
Test(gguf_hostile, truncated_files)
{
    size_t n;
    char *bytes = files_read(BRASA_TEST_DIR "/io/recorded.gguf", &n);
    for (size_t i = 0; i + 32 < n; i += i < 3000 ? 1 : 97) {
        files_write(PATH, bytes, i);
        br_gguf *file = br_gguf_open(PATH, NULL);
        cr_assert_null(file, "%zu of %zu bytes are accepted", i, n);
        cr_assert_eq(br_error_code(), BR_ERROR_FORMAT, "%s", br_error_message());
        br_clear_error();
    }
    free(bytes);
}

/* ---- Metadata -------------------------------------------------------------------------------- */

Test(gguf_hostile, names)
{
    gguf_bytes b = g_begin(0, 1);
    g_u64(&b, huge);
    g_data(&b, 1, 20);
    refuse(&b,
           "metadata 0: the length of its name is 1152921504606846976, but the file has 20 more "
           "bytes");
    b = g_begin(0, 1);
    g_key(&b, "", G_UINT8);
    g_data(&b, 1, 10);
    refuse(&b, "metadata 0: the length of its name is 0, must be in 1 .. 65535");
    b = g_begin(0, 1);
    g_u64(&b, 3);
    g_put(&b, "a\0b", 3);
    g_data(&b, 1, 10);
    refuse(&b, "metadata 0: its name contains NUL");
    b = g_begin(0, 1);
    g_key(&b, "a\xff", G_UINT8);
    g_data(&b, 1, 10);
    refuse(&b, "metadata 0: its name is not UTF-8");
    static unsigned char text[65536 + 100];
    memset(text, 'a', sizeof text);
    b = g_begin(0, 1);
    g_u64(&b, 65536);
    memcpy(text, b.data, b.n);
    files_write(PATH, text, sizeof text);
    check_fails(br_gguf_open(PATH, NULL), "its name is 65536, must be in 1 .. 65535");
}

Test(gguf_hostile, values)
{
    gguf_bytes b = g_begin(0, 1);
    g_key(&b, "k", 13);
    g_u64(&b, 0);
    refuse(&b, "metadata \"k\": the type of the value is 13, but the types of the format are 0 to "
               "12");
    b = g_begin(0, 1);
    g_key(&b, "k", G_UINT64);
    g_u32(&b, 0);
    refuse(&b, "metadata \"k\": the value needs 8 bytes, but the file has 4 more");
    b = g_begin(0, 1);
    g_key(&b, "k", G_BOOL);
    g_put(&b, "\2", 1);
    refuse(&b, "metadata \"k\": bool 0 is 2, must be 0 or 1");
    b = g_begin(0, 1);
    g_key(&b, "k", G_STRING);
    g_u64(&b, huge);
    refuse(&b, "metadata \"k\": the length of the string is 1152921504606846976, but the file has "
               "0 more bytes");
    b = g_begin(0, 2);
    for (int i = 0; i < 2; i++) {
        g_key(&b, "k", G_UINT8);
        g_put(&b, "\1", 1);
    }
    refuse(&b, "metadata \"k\" appears twice");
}

Test(gguf_hostile, arrays)
{
    gguf_bytes b = g_begin(0, 1);
    g_key(&b, "k", G_ARRAY);
    g_array(&b, G_ARRAY, 1);
    g_array(&b, G_UINT8, 0);
    refuse(&b, "metadata \"k\": the elements are arrays, must be numbers, bools or strings");
    b = g_begin(0, 1);
    g_key(&b, "k", G_ARRAY);
    g_array(&b, 77, 1);
    refuse(&b, "metadata \"k\": the type of the elements is 77, but the types");
    b = g_begin(0, 1);
    g_key(&b, "k", G_ARRAY);
    g_array(&b, G_UINT32, huge);
    g_u64(&b, 0);
    refuse(&b,
           "metadata \"k\": the number of elements is 1152921504606846976, but the 8 bytes that "
           "follow have room for at most 2");
    b = g_begin(0, 1);
    g_key(&b, "k", G_ARRAY);
    g_array(&b, G_STRING, 2);
    g_text(&b, "12345678");
    refuse(&b,
           "metadata \"k\": the length of string 1 needs 8 bytes at byte 65, but the file has 0 "
           "more");
    b = g_begin(0, 1);
    g_key(&b, "k", G_ARRAY);
    g_array(&b, G_STRING, 1);
    g_u64(&b, 9);
    g_u64(&b, 0);
    refuse(&b, "metadata \"k\": the length of string 0 is 9, but the file has 8 more bytes");
    b = g_begin(0, 1);
    g_key(&b, "k", G_ARRAY);
    g_array(&b, G_BOOL, 3);
    g_put(&b, "\0\1\2", 3);
    refuse(&b, "metadata \"k\": bool 2 is 2, must be 0 or 1");
}

Test(gguf_hostile, alignments)
{
    static const uint32_t bad[] = { 0, 3, 48, UINT32_MAX };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        gguf_bytes b = g_begin(0, 1);
        g_key(&b, "general.alignment", G_UINT32);
        g_u32(&b, bad[i]);
        char message[100];
        snprintf(message, sizeof message,
                 "\"general.alignment\": the value is %u, must be a power of two", bad[i]);
        refuse(&b, message);
    }
    gguf_bytes b = g_begin(0, 1);
    g_key(&b, "general.alignment", G_UINT64);
    g_u64(&b, 32);
    refuse(&b, "\"general.alignment\": the type is uint64, must be uint32");
    b = g_begin(0, 1);
    g_key(&b, "general.alignment", G_ARRAY);
    g_array(&b, G_UINT32, 0);
    refuse(&b, "\"general.alignment\": the type is array, must be uint32");
    b = g_begin(1, 1);
    g_key(&b, "general.alignment", G_UINT32);
    g_u32(&b, 64);
    g_tensor(&b, "x", 1, 0, G_F32, 32);
    g_data(&b, 64, 128);
    refuse(&b, "tensor \"x\": its offset is 32, must be a multiple of the alignment of 64");
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* A file with one tensor and 64 bytes of data. */
static gguf_bytes one(uint64_t first, uint64_t second, uint32_t type, uint64_t offset)
{
    gguf_bytes b = g_begin(1, 0);
    g_tensor(&b, "x", first, second, type, offset);
    g_data(&b, 32, 64);
    return b;
}

Test(gguf_hostile, types_and_shapes)
{
    const struct {
        uint64_t first, second;
        uint32_t type;
        const char *message;
    } cases[] = {
        { 1, 0, 4, "tensor \"x\": its type is 4, which is not a type of the format" },
        { 1, 0, 42, "its type is 42, which is not a type of the format" },
        { 1, 0, UINT32_MAX, "its type is 4294967295, which is not a type of the format" },
        { 33, 0, G_Q4_0,
          "tensor \"x\": its contiguous dimension is 33, must be a multiple of 32 for Q4_0" },
        { 16, 2, G_Q4_0, "its contiguous dimension is 16, must be a multiple of 32 for Q4_0" },
        { 32, 8, G_Q4_K, "its contiguous dimension is 32, must be a multiple of 256 for Q4_K" },
        { (uint64_t)1 << 32, (uint64_t)1 << 32, G_F32,
          "tensor \"x\": its dimensions have more elements than can be addressed" },
        { huge, 0, G_F32, "its dimensions have more elements than can be addressed" },
        { UINT64_MAX, 0, G_F32, "its dimensions have more elements than can be addressed" },
        { 0, huge, G_F32, "its dimensions have more elements than can be addressed" },
        { (uint64_t)1 << 58, 0, G_F32,
          "tensor \"x\": its 1152921504606846976 bytes begin at byte 0" },
        { 17, 0, G_F32, "its 68 bytes begin at byte 0 of the data, but the file has 64 bytes of" },
        { 128, 0, G_Q4_0, "its 72 bytes begin at byte 0 of the data, but the file has 64 bytes" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gguf_bytes b = one(cases[i].first, cases[i].second, cases[i].type, 0);
        refuse(&b, cases[i].message);
    }
    gguf_bytes b = g_begin(1, 0);
    g_text(&b, "x");
    g_u32(&b, 5);
    g_data(&b, 32, 100);
    refuse(&b, "tensor \"x\": it has 5 dimensions, but at most 4 are allowed");
}

Test(gguf_hostile, places)
{
    gguf_bytes b = one(16, 0, G_F32, 0);
    accept(&b);
    b = one(16, 0, G_F32, 4);
    refuse(&b, "tensor \"x\": its offset is 4, must be a multiple of the alignment of 32");
    b = one(16, 0, G_F32, 32);
    refuse(&b, "its 64 bytes begin at byte 32 of the data, but the file has 64 bytes of data");
    b = one(8, 0, G_F32, UINT64_MAX - 31);
    refuse(&b, "its 32 bytes begin at byte 18446744073709551584 of the data, but the file has 64");
    b = one(0, 0, G_F32, 96);
    refuse(&b, "its 0 bytes begin at byte 96 of the data, but the file has 64 bytes of data");
    b = g_begin(1, 0);
    g_tensor(&b, "x", 1, 0, G_F32, 0);
    refuse(&b, "its 4 bytes begin at byte 0 of the data, but the file has 0 bytes of data");
}

static gguf_bytes two(const char *a, const char *b, uint64_t offset)
{
    gguf_bytes bytes = g_begin(2, 0);
    g_tensor(&bytes, a, 10, 0, G_F32, 0);
    g_tensor(&bytes, b, 4, 0, G_F32, offset);
    g_data(&bytes, 32, 128);
    return bytes;
}

Test(gguf_hostile, overlaps_and_equal_names)
{
    gguf_bytes b = two("a", "b", 64);
    accept(&b);
    b = two("a", "b", 96);
    accept(&b); /* bytes between tensors are ignored */
    b = two("a", "b", 32);
    refuse(&b,
           "tensors \"a\" and \"b\" overlap: the second begins at byte 32 of the data, the first "
           "ends at 40");
    b = two("a", "b", 0);
    refuse(&b,
           "tensors \"b\" and \"a\" overlap: the second begins at byte 0 of the data, the first "
           "ends at 16");
    b = two("a", "a", 64);
    refuse(&b, "tensor \"a\" appears twice");
}
