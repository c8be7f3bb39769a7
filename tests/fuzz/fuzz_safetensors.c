/* tests/fuzz/fuzz_safetensors.c - any bytes as a safetensors file: opens it, lists it, and reads
 * every tensor.
 *
 * The bytes are tried unchanged, and again with the length set so that the header ends with the
 * last brace: with a wrong length, the reader would reject the file before it parses the header. */
#include "tests/fuzz/fuzz.h"

#include <brasa/io.h>

/* 8 bytes for the length, a header, and data. */
#define FILE_OF(header, data) SEED("        " header data)
static const fuzz_seed seeds[] = {
    FILE_OF("{}", ""),
    FILE_OF("{\"__metadata__\":{\"a\":\"b\",\"\\u00e9\\ud83d\\ude00\":\"\\\\\\\"\"}}   ", ""),
    FILE_OF("{\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}",
            "0123456789abcdefghijklmn"),
    FILE_OF("{\"x\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},\n\"b\":{\"dtype\":"
            "\"BOOL\","
            "\"shape\":[3,1],\"data_offsets\":[8,11],\"z\":[1.5e3,{\"y\":null}]}}",
            "01234567\0\1\2"),
    FILE_OF("{\"h\":{\"dtype\":\"BF16\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,4]},"
            "\"g\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[6,12]},"
            "\"f\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[4,6]},"
            "\"e\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[6,6]}}",
            "0123456789ab"),
};

/* Reads every byte of a tensor, so that the sanitizers check the memory. */
static void read_tensor(br_safetensors *file, int64_t i)
{
    const int64_t *sizes;
    br_tensor *t = br_safetensors_get(file, br_safetensors_name(file, i));
    require_answer(t);
    if (!t)
        return;
    require(br_ndim(t) == br_safetensors_shape(file, i, &sizes));
    size_t size = (size_t)br_numel(t) * br_dtype_size(br_dtype_of(t));
    require(size == br_safetensors_bytes(file, i));
    void *copy = malloc(size + 1);
    require(br_copy_out(t, copy, size));
    free(copy);
}

static void read_file(br_safetensors *file)
{
    int64_t n = br_safetensors_count(file);
    for (int64_t i = 0; i < n; i++) {
        require(br_safetensors_has(file, br_safetensors_name(file, i)));
        read_tensor(file, i);
    }
    for (int64_t i = 0; i < br_safetensors_metadata_count(file); i++)
        require(br_safetensors_metadata(file, br_safetensors_metadata_key(file, i)) != NULL);
}

static void try_file(const char *path, bool copy)
{
    br_scope *scope = br_scope_begin();
    br_safetensors *file = br_safetensors_open(path, BR_OPTIONS(br_safetensors, .copy = copy));
    require(file == NULL || !br_failed());
    require_answer(file);
    if (file)
        read_file(file);
    br_safetensors_close(file);
    br_scope_end(scope);
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    char path[64];
    int fd = fuzz_file(bytes, n, path);
    try_file(path, false);
    const uint8_t *brace = n > 8 ? memrchr(bytes + 8, '}', n - 8) : NULL;
    if (brace) {
        uint64_t length = (uint64_t)(brace - bytes) - 7;
        require(pwrite(fd, &length, sizeof length, 0) == (ssize_t)sizeof length);
        try_file(path, true);
    }
    close(fd);
    require(br_live_tensors() == 0);
}

FUZZ_TARGET(safetensors)
