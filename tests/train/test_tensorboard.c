/* tests/train/test_tensorboard.c - event files, read record by record; tests/train/read_events.py
 * reads them with TensorBoard's own package. */
#include "tests/cli/program.h"
#include "train/tensorboard.h"

#include <criterion/criterion.h>
#include <glob.h>
#include <math.h>
#include <string.h>

TestSuite(tensorboard, .init = program_begin, .fini = program_end);

/* Test vectors of RFC 3720, B.4. */
Test(tensorboard, crc32c_is_castagnolis)
{
    unsigned char bytes[32];
    cr_assert_eq(crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    cr_assert_eq(crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    cr_assert_eq(crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (unsigned char i = 0; i < 32; i++)
        bytes[i] = i;
    cr_assert_eq(crc32c(bytes, sizeof bytes), 0x46dd794e);
    cr_assert_eq(crc32c(bytes, 0), 0);
}

static uint32_t masked(const void *bytes, size_t n)
{
    uint32_t crc = crc32c(bytes, n);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

/* Reads the next record without its first 9 bytes, wall_time; returns its length, 0 at the end. */
static size_t next_record(FILE *file, char *out, size_t size)
{
    uint64_t n;
    uint32_t sum;
    if (fread(&n, sizeof n, 1, file) != 1)
        return 0;
    cr_assert_eq(fread(&sum, sizeof sum, 1, file), 1);
    cr_assert_eq(sum, masked(&n, sizeof n));
    cr_assert(n > 9 && n < size);
    cr_assert_eq(fread(out, 1, n, file), n);
    cr_assert_eq(fread(&sum, sizeof sum, 1, file), 1);
    cr_assert_eq(sum, masked(out, n));
    cr_assert_eq(out[0], 1 << 3 | 1);
    memmove(out, out + 9, n - 9);
    return n - 9;
}

static void check_record(FILE *file, const char *bytes, size_t n)
{
    char record[500];
    size_t got = next_record(file, record, sizeof record);
    cr_assert_eq(got, n, "%zu bytes, not %zu", got, n);
    cr_assert_arr_eq(record, bytes, n);
}
#define RECORD(file, bytes) check_record(file, bytes, sizeof(bytes) - 1)

static void write_run(const char *folder, int64_t done)
{
    static const char *const tags[] = { "loss", "x" };
    event_file events = { 0 };
    cr_assert(event_file_open(&events, folder, done));
    cr_assert(event_file_add(&events, done + 1, 2, tags, (double[]){ 0.5, NAN }));
    cr_assert(event_file_add(&events, 300, 2, tags, (double[]){ NAN, -2 }));
    event_file_close(&events);
}

/* Returns the event files in the test's folder, sorted by name. */
static glob_t list_files(void)
{
    char pattern[100];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/events.out.tfevents.*", program_directory);
    cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
    return found;
}

Test(tensorboard, records)
{
    write_run(program_directory, 0);
    write_run(program_directory, 0);
    write_run(program_directory, 7);
    glob_t found = list_files();
    cr_assert_eq(found.gl_pathc, 2, "a new run deletes earlier files, a resumed run does not");
    FILE *first = fopen(found.gl_pathv[0], "rb"), *second = fopen(found.gl_pathv[1], "rb");
    RECORD(first, "\x10\0\x1a\x0d"
                  "brain.Event:2");
    RECORD(first, "\x10\1\x2a\x0d\x0a\x0b\x0a\4loss\x15\0\0\0\x3f");
    RECORD(first, "\x10\xac\2\x2a\x0a\x0a\x08\x0a\1x\x15\0\0\0\xc0");
    RECORD(first, "");
    RECORD(second, "\x10\7\x1a\x0d"
                   "brain.Event:2");
    RECORD(second, "\x10\x08\x3a\2\x08\1");
    RECORD(second, "\x10\x08\x2a\x0d\x0a\x0b\x0a\4loss\x15\0\0\0\x3f");
    fclose(first);
    fclose(second);
    globfree(&found);
}

Test(tensorboard, a_folder_whose_name_looks_like_a_pattern)
{
    char folder[100];
    snprintf(folder, sizeof folder, "%s/[0-9]*\\b", program_directory);
    program_shell("mkdir \"$OUT/[0-9]*\\b\"");
    write_run(folder, 0);
    write_run(folder, 0);
    program_shell("test \"$(ls \"$OUT/[0-9]*\\b\" | wc -l)\" = 1");
}
