/* tests/io/test_safetensors_hostile.c - invalid files, which a reader must reject with a message
 * that names the violated rule. */
#include "tests/io/files.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(safetensors_hostile, .init = files_begin, .fini = files_end);

#define PATH files_path("a.safetensors")

static void refuse(const char *header, size_t n, size_t data_bytes, const char *message)
{
    files_write_safetensors(PATH, header, n, data_bytes);
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    cr_assert_null(file, "accepted: %s", header);
    cr_assert_eq(br_error_code(), BR_ERROR_FORMAT, "%s", br_error_message());
    cr_assert(strstr(br_error_message(), message), "\"%s\" does not contain \"%s\"",
              br_error_message(), message);
    cr_assert(strstr(br_error_message(), PATH), "no path: %s", br_error_message());
    br_clear_error();
}

/* ---- Lengths --------------------------------------------------------------------------------- */

Test(safetensors_hostile, lengths)
{
    const unsigned char none[9] = { 0 };
    for (size_t n = 0; n < 9; n++) {
        files_write(PATH, none, n);
        check_fails(br_safetensors_open(PATH, NULL),
                    "is not a safetensors file: it is too short for a header");
    }
    files_write(PATH, none, 9); /* length 0 */
    check_fails(br_safetensors_open(PATH, NULL), "does not begin with '{'");

    const struct {
        uint64_t length;
        const char *message;
    } lengths[] = {
        { 0, "the header is empty" },
        { 3, "the header has 3 bytes, but only 2 bytes follow its length field" },
        { 100000000, "the header has 100000000 bytes, but only 2 bytes follow its length field" },
        { 100000001, "more than the limit of 100000000" },
        { UINT64_MAX - 4, "more than the limit" },
        { UINT64_MAX, "more than the limit" },
        { (uint64_t)1 << 63, "more than the limit" },
    };
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        unsigned char bytes[10];
        memcpy(bytes, &lengths[i].length, 8);
        memcpy(bytes + 8, "{}", 2);
        files_write(PATH, bytes, 10);
        check_fails(br_safetensors_open(PATH, NULL), lengths[i].message);
    }
    /* With a larger limit, a length whose sum overflows is still rejected. */
    unsigned char bytes[10] = { 0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, '{', '}' };
    files_write(PATH, bytes, 10);
    check_fails(br_safetensors_open(PATH, BR_OPTIONS(br_safetensors, .max_header_bytes = SIZE_MAX)),
                "but only 2 bytes follow its length field");
}

Test(safetensors_hostile, other_files)
{
    static const char *const cases[][2] = {
        { "PK\x03\x04"
          "and so on",
          "is not a safetensors file but a zip archive, as written by torch.save: its header" },
        { "\x80\x02}q\x01(X\x0e", "is not a safetensors file but a pickle" },
        { "GGUF\x03\x01", "is not a safetensors file but a GGUF file: it is too short" },
        { "version https://git-lfs", "but text, possibly a Git LFS pointer: its header" },
        { "# A page of text", "is not a safetensors file: its header at byte 8 does not begin" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        files_write(PATH, cases[i][0], strlen(cases[i][0]));
        check_fails(br_safetensors_open(PATH, NULL), cases[i][1]);
    }
}

/* ---- Headers --------------------------------------------------------------------------------- */

#define ENTRY(fields) "{\"x\":{" fields "}}"
#define SHAPED(dtype, shape, offsets) \
    ENTRY("\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets)
#define BYTES(name, n, begin, end) \
    "\"" name "\":{\"dtype\":\"U8\",\"shape\":[" #n "],\"data_offsets\":[" #begin "," #end "]}"

typedef struct refused {
    const char *header;
    size_t data_bytes;
    const char *message;
} refused;

static void refuse_all(const refused *cases, size_t n)
{
    for (size_t i = 0; i < n; i++)
        refuse(cases[i].header, strlen(cases[i].header), cases[i].data_bytes, cases[i].message);
}
#define REFUSE_ALL(cases) refuse_all(cases, sizeof cases / sizeof *cases)

Test(safetensors_hostile, the_text_around)
{
    static const refused cases[] = {
        { " {}", 0, "does not begin with '{'" },
        { "\n{}", 0, "does not begin with '{'" },
        { "\xef\xbb\xbf{}", 0, "does not begin with '{'" },
        { "[]", 0, "does not begin with '{'" },
        { "\"x\"", 0, "does not begin with '{'" },
        { "{", 0, "expected a name as a string at byte 1" },
        { "{}{}", 0, "something other than spaces follows the object, at byte 2" },
        { "{}\n", 0, "something other than spaces" },
        { "{}\t", 0, "something other than spaces" },
        { "{} x", 0, "at byte 3" },
        { "{,}", 0, "expected a name as a string" },
        { "{\"__metadata__\":{},}", 0, "expected a name as a string" },
        { "{\"__metadata__\":{}", 0, "expected '}'" },
        { "{\"__metadata__\"}", 0, "expected ':'" },
        { "{\"__metadata__", 0, "does not end" },
        { "{\"__metadata__\\", 0, "does not end" },
        { "{x:1}", 0, "expected a name as a string" },
    };
    REFUSE_ALL(cases);
    refuse("{}\0", 3, 0, "something other than spaces");
    refuse("\0{}", 3, 0, "does not begin");
    refuse("{\0}", 3, 0, "expected a name as a string");
    refuse("{\"a\0b\":{}}", 10, 0, "control character 0x0");
}

Test(safetensors_hostile, text_that_is_not_unicode)
{
    static const refused cases[] = {
        { "{\"\xff\":{}}", 0, "unable to decode byte 0xff" },
        { "{\"\xc0\x80\":{}}", 0, "unable to decode byte 0xc0" },
        { "{\"\xed\xa0\x80\":{}}", 0, "unable to decode byte 0xed" },
        { "{\"\xf4\x90\x80\x80\":{}}", 0, "unable to decode" },
        { "{\"\xe2\x82\":{}}", 0, "unable to decode" },
        { "{\"\\ud800\":{}}", 0, "invalid Unicode" },
        { "{\"\\ud800\\u0041\":{}}", 0, "invalid Unicode" },
        { "{\"\\udc00\":{}}", 0, "invalid Unicode" },
        { "{\"a\\u0000b\":{}}", 0, "\\u0000 is not allowed" },
        { "{\"\\x\":{}}", 0, "invalid escape" },
        { "{\"a\x1b[31m\":{}}", 0, "control character 0x1b near '\"a'" },
        { "{\"__metadata__\":{\"k\":\"\xff\"}}", 0, "unable to decode" },
        { "{\"__metadata__\":{\"k\":\"\\u0000\"}}", 0, "not allowed" },
        { SHAPED("\"F\xff\"", "[]", "[0,0]"), 0, "unable to decode" },
        { "{\"\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0,
          "a tensor's name is empty" },
    };
    REFUSE_ALL(cases);
}

Test(safetensors_hostile, twice)
{
    static const refused cases[] = {
        { "{" BYTES("x", 1, 0, 1) "," BYTES("x", 1, 1, 2) "}", 2,
          "tensor \"x\" appears twice in the header" },
        { "{" BYTES("x", 1, 0, 1) "," BYTES("x", 1, 0, 1) "}", 1,
          "tensor \"x\" appears twice in the header" },
        { "{" BYTES("x", 1, 0, 1) "," BYTES("\\u0078", 1, 1, 2) "}", 2,
          "tensor \"x\" appears twice in the header" },
        { "{" BYTES("b", 1, 0, 1) "," BYTES("a", 1, 1, 2) "," BYTES("b", 1, 2, 3) "}", 3,
          "tensor \"b\" appears twice in the header" },
        { ENTRY("\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]"), 1,
          "duplicate object key" },
        { ENTRY("\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1],\"\\u0073hape\":[1]"), 1,
          "duplicate object key" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "\"__metadata__\" appears twice" },
        { "{\"__metadata__\":{},\"__meta\\u0064ata__\":{}}", 0, "appears twice" },
        { "{\"__metadata__\":{\"a\":\"1\",\"b\":\"2\",\"\\u0061\":\"1\"}}", 0,
          "metadata \"a\" appears twice in the header" },
    };
    REFUSE_ALL(cases);
}

Test(safetensors_hostile, metadata)
{
    static const refused cases[] = {
        { "{\"__metadata__\":null}", 0, "\"__metadata__\" must be an object of strings" },
        { "{\"__metadata__\":[]}", 0, "\"__metadata__\" must be an object" },
        { "{\"__metadata__\":\"x\"}", 0, "\"__metadata__\" must be an object" },
        { "{\"__metadata__\":{\"a\":1}}", 0, "metadata \"a\": the value must be a string" },
        { "{\"__metadata__\":{\"a\":[]}}", 0, "the value must be a string" },
        { "{\"__metadata__\":{\"a\":null}}", 0, "the value must be a string" },
        { "{\"__metadata__\":{\"a\":{\"b\":\"c\"}}}", 0, "the value must be a string" },
        { "{\"__metadata__\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          "metadata \"shape\": the value must be a string" },
    };
    REFUSE_ALL(cases);
}

Test(safetensors_hostile, entries)
{
    static const refused cases[] = {
        { "{\"x\":1}", 0, "tensor \"x\": its entry must be an object" },
        { "{\"x\":[]}", 0, "its entry must be an object" },
        { "{\"x\":null}", 0, "its entry must be an object" },
        { "{\"x\":{", 0, "its entry does not end" },
        { "{\"x\":{\"dtype", 0, "its entry does not end" },
        { "{\"x\":{]}", 0, "string or '}' expected" },
        { "{\"x\":{}}", 0, "tensor \"x\": \"dtype\" is missing" },
        { ENTRY("\"dtype\":\"U8\",\"data_offsets\":[0,1]"), 1, "\"shape\" is missing" },
        { ENTRY("\"dtype\":\"U8\",\"shape\":[1]"), 1, "\"data_offsets\" is missing" },
        { ENTRY("\"dtype\":\"U8\",\"shape\":[1],\"offsets\":[0,1]"), 1,
          "\"data_offsets\" is miss" },
        { SHAPED("8", "[]", "[0,1]"), 1, "\"dtype\" must be a string" },
        { SHAPED("\"Q32\"", "[]", "[0,1]"), 1, "\"Q32\" is not a dtype of the safetensors format" },
        { SHAPED("\"f32\"", "[]", "[0,4]"), 4, "\"f32\" is not a dtype of the safetensors format" },
        { SHAPED("\"\"", "[]", "[0,4]"), 4, "\"\" is not a dtype" },
        { SHAPED("\"U8\"", "{}", "[0,1]"), 1, "\"shape\" must be an array of integers" },
        { SHAPED("\"U8\"", "1", "[0,1]"), 1, "\"shape\" must be an array of integers" },
        { SHAPED("\"U8\"", "[1]", "null"), 1, "\"data_offsets\" must be an array" },
    };
    REFUSE_ALL(cases);
}

Test(safetensors_hostile, integers)
{
    static const refused cases[] = {
        { SHAPED("\"U8\"", "[-1]", "[0,1]"), 1, "element 0 of \"shape\" is -1" },
        { SHAPED("\"U8\"", "[1.0]", "[0,1]"), 1, "element 0 of \"shape\" is not an integer" },
        { SHAPED("\"U8\"", "[1e0]", "[0,1]"), 1, "element 0 of \"shape\" is not an integer" },
        { SHAPED("\"U8\"", "[\"1\"]", "[0,1]"), 1, "element 0 of \"shape\" is not an integer" },
        { SHAPED("\"U8\"", "[true]", "[0,1]"), 1, "element 0 of \"shape\" is not an integer" },
        { SHAPED("\"U8\"", "[01]", "[0,1]"), 1, "invalid token" },
        { SHAPED("\"U8\"", "[+1]", "[0,1]"), 1, "invalid token" },
        { SHAPED("\"U8\"", "[0x1]", "[0,1]"), 1, "']' expected near 'x'" },
        { SHAPED("\"U8\"", "[1]", "[-1,0]"), 1, "element 0 of \"data_offsets\" is -1" },
        { SHAPED("\"U8\"", "[1]", "[0,1.0]"), 1,
          "element 1 of \"data_offsets\" is not an integer" },
        { SHAPED("\"U8\"", "[1000]", "[0,1e3]"), 1000, "element 1 of \"data_offsets\" is not" },
        { SHAPED("\"U8\"", "[1]", "[\"0\",1]"), 1, "element 0 of \"data_offsets\" is not" },
        { SHAPED("\"U8\"", "[1]", "[0,9223372036854775808]"), 1, "too big integer" },
        { SHAPED("\"U8\"", "[1]", "[0,18446744073709551617]"), 1, "too big integer" },
        { SHAPED("\"U8\"", "[1]", "[0,1,2]"), 1, "\"data_offsets\" has 3 elements, expected 2" },
        { SHAPED("\"U8\"", "[1]", "[1]"), 1, "\"data_offsets\" has 1 elements, expected 2" },
        { SHAPED("\"U8\"", "[1]", "[]"), 1, "\"data_offsets\" has 0 elements" },
        { SHAPED("\"U8\"", "[1]", "[1,0]"), 1, "begins at byte 1, after its end at 0" },
    };
    REFUSE_ALL(cases);
}

Test(safetensors_hostile, sizes)
{
    static const refused cases[] = {
        { SHAPED("\"U8\"", "[4294967296,4294967296]", "[0,0]"), 0, "more elements than can be" },
        { SHAPED("\"U8\"", "[4294967297,4294967296]", "[0,4294967296]"), 0, "more elements" },
        { SHAPED("\"F64\"", "[2305843009213693952]", "[0,0]"), 0, "more elements than can be" },
        { SHAPED("\"U8\"", "[0,9223372036854775807,3]", "[0,0]"), 0, "more elements" },
        { SHAPED("\"U8\"", "[9223372036854775807,3,0]", "[0,0]"), 0, "more elements" },
        { SHAPED("\"F32\"", "[2]", "[0,4]"), 4,
          "tensor \"x\": 2 elements of F32 take 8 bytes, but \"data_offsets\" span 4" },
        { SHAPED("\"F32\"", "[0]", "[0,4]"), 4, "0 elements of F32 take 0 bytes" },
        { SHAPED("\"F32\"", "[]", "[0,0]"), 0, "1 elements of F32 take 4 bytes" },
        { SHAPED("\"BF16\"", "[2]", "[0,8]"), 8, "2 elements of BF16 take 4 bytes" },
        { SHAPED("\"F4\"", "[3]", "[0,2]"), 2, "3 elements of F4 do not fill whole bytes" },
        { SHAPED("\"F6_E2M3\"", "[2]", "[0,2]"), 2, "do not fill whole bytes" },
        { SHAPED("\"U8\"", "[8]", "[0,8]"), 4, "the tensors take 8 bytes, but the file has 4" },
        { SHAPED("\"U8\"", "[9223372036854775]", "[0,9223372036854775]"), 4, "the file has 4" },
    };
    REFUSE_ALL(cases);
}

Test(safetensors_hostile, holes_and_overlap)
{
    static const refused cases[] = {
        { "{}", 1, "the tensors take 0 bytes, but the file has 1 bytes of data" },
        { "{" BYTES("a", 2, 0, 2) "}", 3, "the tensors take 2 bytes, but the file has 3" },
        { "{" BYTES("a", 2, 1, 3) "}", 3, "bytes 0 to 1 of the data, before tensor \"a\", belong" },
        { "{" BYTES("b", 2, 0, 2) "," BYTES("a", 2, 3, 5) "}", 5, "bytes 2 to 3 of the data" },
        { "{" BYTES("a", 2, 0, 2) "," BYTES("b", 2, 1, 3) "}", 3,
          "tensors \"a\" and \"b\" overlap: the second begins at byte 1, the first ends at 2" },
        { "{" BYTES("a", 2, 0, 2) "," BYTES("b", 2, 0, 2) "}", 2,
          "tensors \"a\" and \"b\" overlap" },
        { "{" BYTES("a", 4, 0, 4) "," BYTES("b", 1, 1, 2) "}", 4, "overlap" },
        { "{" BYTES("a", 4, 0, 4) "," BYTES("e", 0, 2, 2) "}", 4, "overlap" },
        { "{" BYTES("a", 4, 0, 4) "," BYTES("e", 0, 5, 5) "}", 4, "bytes 4 to 5" },
        { "{" BYTES("e", 0, 5, 5) "}", 0, "bytes 0 to 5" },
    };
    REFUSE_ALL(cases);
}

/* ---- Large and deeply nested headers --------------------------------------------------------- */

Test(safetensors_hostile, deep_and_long_entries)
{
    const size_t n = 99000000;
    char *header = malloc(n);
    memset(header, '[', n);
    refuse(header, n, 0, "does not begin with '{'");
    memcpy(header, "{\"x\":{\"a\":", 10);
    refuse(header, n, 0, "tensor \"x\": its entry is nested deeper than 16 levels");
    memset(header, '[', n);
    memcpy(header, "{\"x\":", 5);
    refuse(header, n, 0, "its entry must be an object");
    memset(header, '{', 10);
    refuse(header, n, 0, "expected a name as a string at byte 1");
    memset(header, '1', n);
    memcpy(header, "{\"x\":{\"a\":", 10);
    refuse(header, n, 0, "its entry is longer than 1048576 bytes");
    memset(header, '"', n);
    header[0] = '{';
    refuse(header, n, 0, "expected ':' at byte 3");
    free(header);
}

/* Deep nesting in ignored fields must be rejected: a recursive parser would overflow the stack. An
 * entry has at most 16 levels with its own. */
Test(safetensors_hostile, nesting_of_ignored_fields)
{
    static const char deepest[] = ENTRY("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],"
                                        "\"z\":[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]");
    files_write_safetensors(files_path("deepest"), deepest, strlen(deepest), 1);
    br_safetensors *file = br_safetensors_open(files_path("deepest"), NULL);
    cr_assert(file, "%s", br_error_message());
    br_safetensors_close(file);
    refuse(ENTRY("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],"
                 "\"z\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]"),
           strlen(ENTRY("\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],"
                        "\"z\":[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]")),
           1, "nested deeper");
}

/* ---- Paths that are not regular files -------------------------------------------------------- */

Test(safetensors_hostile, things_that_are_not_files)
{
    check_fails(br_safetensors_open(NULL, NULL), "path is NULL");
    check_fails(br_safetensors_open(files_path("none\n"), NULL), "none\\u000a: cannot be opened");
    cr_assert_eq(mkdir(files_path("directory"), 0777), 0);
    check_fails(br_safetensors_open(files_path("directory"), NULL), "a directory, not a regular");
    cr_assert_eq(mkfifo(files_path("fifo"), 0666), 0);
    check_fails(br_safetensors_open(files_path("fifo"), NULL), "not a regular file");
    check_fails(br_safetensors_open("/dev/zero", NULL), "not a regular file");
    cr_assert_eq(symlink("loop", files_path("loop")), 0);
    check_fails(br_safetensors_open(files_path("loop"), NULL), "cannot be opened");

    files_write_safetensors(PATH, "{}", 2, 0);
    cr_assert_eq(symlink("a.safetensors", files_path("link")), 0);
    br_safetensors *file = br_safetensors_open(files_path("link"), NULL);
    check_ok();
    br_safetensors_close(file);
    cr_assert_eq(chmod(PATH, 0), 0);
    if (access(PATH, R_OK) != 0) /* root can read it anyway */
        check_fails(br_safetensors_open(PATH, NULL), "cannot be opened: Permission denied");
}

Test(safetensors_hostile, truncated_anywhere)
{
    static const char header[] =
        "{\"__metadata__\":{\"a\":\"b\"}," BYTES("x", 4, 0, 4) "," BYTES("y", 2, 4, 6) "}  ";
    files_write_safetensors(PATH, header, sizeof header - 1, 6);
    size_t n;
    char *whole = files_read(PATH, &n);
    for (size_t cut = 0; cut < n; cut++) {
        files_write(PATH, whole, cut);
        br_safetensors *file = br_safetensors_open(PATH, NULL);
        cr_assert_null(file, "accepted when truncated to %zu of %zu bytes", cut, n);
        cr_assert_eq(br_error_code(), BR_ERROR_FORMAT);
        br_clear_error();
    }
    files_write(PATH, whole, n);
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    check_ok();
    br_safetensors_close(file);
    free(whole);
}
