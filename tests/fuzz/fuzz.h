/* tests/fuzz/fuzz.h - shared by the fuzz targets.
 *
 * A target is a file tests/fuzz/fuzz_NAME.c with seeds, a function that takes any bytes and checks
 * invariants with require(), and FUZZ_TARGET(NAME) at its end. With -DBRASA_FUZZ=ON and clang it is
 * a libFuzzer program:
 *
 *     build/fuzz_NAME -len_control=0 [-max_total_time=SECONDS] [CORPUS DIRECTORY]
 *
 * -len_control=0 allows inputs as long as the seeds from the beginning.
 *
 * The test program has a test fuzz/NAME for each target. It tries the seeds, variants of them that
 * are truncated, doubled, or have a byte changed, and the files in tests/fuzz/corpus/NAME/. A file
 * is added there for each input that a fuzz target failed on, and for inputs that reach rare
 * branches:
 *
 *     build-fuzz/fuzz_NAME -merge=1 -set_cover_merge=1 tests/fuzz/corpus/NAME DIRECTORY */
#ifndef BR_TESTS_FUZZ_H
#define BR_TESTS_FUZZ_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <brasa/tensor.h>

typedef struct fuzz_seed {
    const char *bytes;
    size_t n;
} fuzz_seed;
/* A seed from a string literal. */
#define SEED(text)             \
    {                          \
        text, sizeof(text) - 1 \
    }

/* The file of the corpus that is tried now, or NULL. */
static const char *fuzz_file_tried;

/* Aborts if the condition is false. Prints it, because an input that CI found is lost otherwise. */
#define require(truth) require_that((truth), #truth, __FILE__, __LINE__)
static inline void require_that(bool truth, const char *text, const char *file, int line)
{
    if (truth)
        return;
    fprintf(stderr, "%s:%d: failed: %s%s%s\n", file, line, text, br_failed() ? "; " : "",
            br_failed() ? br_error_message() : "");
    if (fuzz_file_tried)
        fprintf(stderr, "The input is %s.\n", fuzz_file_tried);
    abort();
}

/* Checks that there is a result, or else an error with a message; clears the error. */
static inline void require_answer(bool there)
{
    require(there || (br_failed() && strlen(br_error_message()) > 0));
    br_clear_error();
}

/* Creates a file in memory with these bytes; `path` is valid until the descriptor is closed. */
static inline int fuzz_file(const uint8_t *bytes, size_t n, char path[64])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

#ifdef BRASA_FUZZ_PROGRAM

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t most, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n, size_t most);

/* Mutates the bytes with libFuzzer; empty input, and sometimes other input, is replaced by a seed.
 */
static inline size_t fuzz_mutate(const fuzz_seed *seeds, size_t n_seeds, uint8_t *bytes, size_t n,
                                 size_t most, unsigned random)
{
    const fuzz_seed *seed = &seeds[random % n_seeds];
    if ((n > 1 && random % 256 != 0) || seed->n > most)
        return LLVMFuzzerMutate(bytes, n, most);
    memcpy(bytes, seed->bytes, seed->n);
    return seed->n;
}

#    define FUZZ_TARGET(name)                                                                  \
        int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)                             \
        {                                                                                      \
            try_bytes(bytes, n);                                                               \
            return 0;                                                                          \
        }                                                                                      \
        size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t n, size_t most, unsigned random) \
        {                                                                                      \
            return fuzz_mutate(seeds, sizeof seeds / sizeof *seeds, bytes, n, most, random);   \
        }

#else

#    include "tests/support.h"

enum { FUZZ_CHANGED = 600 }; /* maximum number of places at which a seed is truncated and changed */

/* Tries a copy of exactly n bytes, so that sanitizers detect reads beyond the end. */
static inline void fuzz_try(void (*try)(const uint8_t *bytes, size_t n), const uint8_t *bytes,
                            size_t n)
{
    uint8_t *copy = malloc(n ? n : 1);
    memcpy(copy, bytes, n);
    try(copy, n);
    free(copy);
}

static inline void fuzz_replay(const fuzz_seed *seed, void (*try)(const uint8_t *bytes, size_t n))
{
    static const uint8_t flips[] = { 0x01, 0x04, 0x20, 0x80, 0xff };
    size_t n = seed->n, step = n / FUZZ_CHANGED + 1;
    uint8_t *bytes = malloc(2 * n + 1);
    memcpy(bytes, seed->bytes, n);
    memcpy(bytes + n, seed->bytes, n);
    fuzz_try(try, bytes, n);
    fuzz_try(try, bytes, 2 * n);
    for (size_t i = 0; i < n; i += step) {
        fuzz_try(try, bytes, i);
        for (size_t k = 0; k < sizeof flips; k++) {
            bytes[i] ^= flips[k];
            fuzz_try(try, bytes, n);
            bytes[i] ^= flips[k];
        }
    }
    free(bytes);
}

/* Tries the file with these bytes. */
static inline void fuzz_try_file(const char *path, void (*try)(const uint8_t *bytes, size_t n))
{
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s", path);
    cr_assert_eq(fseek(file, 0, SEEK_END), 0);
    long n = ftell(file);
    cr_assert(n >= 0);
    rewind(file);
    uint8_t *bytes = malloc((size_t)n + 1);
    cr_assert_eq(fread(bytes, 1, (size_t)n, file), (size_t)n, "%s", path);
    fclose(file);
    fuzz_file_tried = path;
    fuzz_try(try, bytes, (size_t)n);
    fuzz_file_tried = NULL;
    free(bytes);
}

/* Tries each file of the corpus, in the order of their names. */
static inline void fuzz_try_corpus(const char *folder, void (*try)(const uint8_t *bytes, size_t n))
{
    struct dirent **entries;
    int n = scandir(folder, &entries, NULL, alphasort);
    cr_assert(n > 2, "%s has no files", folder);
    for (int i = 0; i < n; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.')
            fuzz_try_file(path, try);
        free(entries[i]);
    }
    free(entries);
}

#    define FUZZ_TARGET(name)                                                 \
        Test(fuzz, name, .init = check_begin, .fini = check_end)              \
        {                                                                     \
            for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)         \
                fuzz_replay(&seeds[i], try_bytes);                            \
            fuzz_try_corpus(BRASA_TEST_DIR "/fuzz/corpus/" #name, try_bytes); \
        }

#endif
#endif
