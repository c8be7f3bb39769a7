/* tests/fuzz/fuzz_token_file.c - any bytes as a token file: opens it with any options and reads
 * every item. The first three bytes choose the options. */
#include "tests/fuzz/fuzz.h"

#include <brasa/data.h>

static const fuzz_seed seeds[] = {
    SEED("\2\0\0"
         "\1\0\2\0\3\0\4\0\5\0\6\0"),
    SEED("\1\3\4"
         "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0\377\377\377\377"),
    SEED("\1\2\0"
         "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\377\377\377\377\377\377\377\377"),
};

/* Checks that item i's tokens are below the vocabulary's size, and that field 1 is field 0 shifted
 * by one. */
static void read_item(br_dataset *parts, int64_t i, const br_token_file_options *o)
{
    br_tensor *fields[2];
    br_scope *scope = br_scope_begin();
    if (br_dataset_get(parts, i, fields)) {
        for (int64_t k = 0; k < o->length; k++) {
            int64_t token = (int64_t)br_at(fields[0], 1, &k);
            require(token >= 0 && (o->vocab_size == 0 || token < o->vocab_size));
            require(k == 0 || br_at(fields[1], 1, &(int64_t){ k - 1 }) == (double)token);
        }
    } else {
        require_answer(false);
    }
    br_scope_end(scope);
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    if (n < 3)
        return;
    char path[64];
    int fd = fuzz_file(bytes + 3, n - 3, path);
    br_token_file_options o =
        *BR_OPTIONS(br_token_file, .length = bytes[0] % 8, .stride = bytes[1] % 16 - 1,
                    .bytes = 1 << (bytes[1] / 16 % 4), .vocab_size = bytes[2] - 1);
    br_dataset *parts = br_token_file_dataset_new(path, &o);
    close(fd);
    require_answer(parts);
    for (int64_t i = 0; parts && i < br_dataset_size(parts); i++)
        read_item(parts, i, &o);
    br_dataset_free(parts);
    require(br_live_tensors() == 0);
}

FUZZ_TARGET(token_file)
