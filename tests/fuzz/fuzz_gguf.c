/* tests/fuzz/fuzz_gguf.c - any bytes as a GGUF file: opens it, lists it, reads every value of the
 * metadata and every tensor. */
#include "tests/fuzz/fuzz.h"

#include <brasa/io.h>

/* Numbers below 256. */
#define U32(n)  n "\0\0\0"
#define U64(n)  n "\0\0\0\0\0\0\0"
#define HEADER  "GGUF" U32("\3")
#define BYTES16 "0123456789abcdef"

/* clang-format off */
static const fuzz_seed seeds[] = {
    SEED(HEADER U64("\0") U64("\0")),
    /* uint8, bool, string, an array of strings, an array of float64. */
    SEED(HEADER U64("\0") U64("\5")
         U64("\1") "a" U32("\0") "\7"
         U64("\1") "b" U32("\7") "\1"
         U64("\1") "c" U32("\10") U64("\2") "xy"
         U64("\1") "d" U32("\11") U32("\10") U64("\2") U64("\1") "x" U64("\0")
         U64("\1") "e" U32("\11") U32("\14") U64("\1") BYTES16),
    /* An alignment of 8, F32 [2], F16 [0] and I8 [2, 1]. */
    SEED(HEADER U64("\3") U64("\1")
         U64("\21") "general.alignment" U32("\4") U32("\10")
         U64("\1") "x" U32("\1") U64("\2") U32("\0") U64("\0")
         U64("\1") "y" U32("\1") U64("\0") U32("\1") U64("\10")
         U64("\1") "z" U32("\2") U64("\1") U64("\2") U32("\30") U64("\10")
         BYTES16 BYTES16),
    /* An alignment of 1 and two blocks of Q4_0. */
    SEED(HEADER U64("\1") U64("\1")
         U64("\21") "general.alignment" U32("\4") U32("\1")
         U64("\1") "q" U32("\2") U64("\40") U64("\2") U32("\2") U64("\0")
         BYTES16 "01" BYTES16 "01"),
};
/* clang-format on */

/* ---- Metadata -------------------------------------------------------------------------------- */

/* A value is the only element of its key, or an element of an array. */
static void read_value(const br_gguf *file, const char *key, int64_t i, const char *type)
{
    size_t n = 0;
    const char *text = NULL;
    if (strcmp(type, "string") == 0)
        text = i < 0 ? br_gguf_string(file, key, &n) : br_gguf_list_string(file, key, i, &n);
    else if (strcmp(type, "bool") == 0)
        i < 0 ? br_gguf_bool(file, key) : br_gguf_list_bool(file, key, i);
    else
        i < 0 ? br_gguf_number(file, key) : br_gguf_list_number(file, key, i);
    require(!br_failed());
    char *copy = malloc(n + 1); /* sanitizers check the bytes */
    if (n > 0)
        memcpy(copy, text, n);
    free(copy);
    i < 0 ? br_gguf_integer(file, key) : br_gguf_list_integer(file, key, i);
    require_answer(!br_failed());
}

static void read_key(const br_gguf *file, const char *key)
{
    const char *type = br_gguf_metadata_type(file, key);
    require(type != NULL);
    if (strcmp(type, "array") != 0) {
        read_value(file, key, -1, type);
        return;
    }
    int64_t n = br_gguf_list_size(file, key);
    type = br_gguf_list_type(file, key);
    require(n >= 0 && type);
    for (int64_t i = 0; i < n; i++)
        read_value(file, key, i, type);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Reads every byte of a tensor, so that the sanitizers check the memory. */
static void read_tensor(br_gguf *file, int64_t i, br_dtype dtype)
{
    const int64_t *sizes;
    require(br_gguf_has(file, br_gguf_name(file, i)));
    br_tensor *t = br_gguf_get(file, br_gguf_name(file, i), dtype);
    require_answer(t);
    if (!t)
        return;
    require(br_ndim(t) == br_gguf_shape(file, i, &sizes));
    size_t size = (size_t)br_numel(t) * br_dtype_size(dtype);
    void *copy = malloc(size + 1);
    require(br_copy_out(t, copy, size));
    free(copy);
}

static void read_file(br_gguf *file)
{
    for (int64_t i = 0; i < br_gguf_metadata_count(file); i++)
        read_key(file, br_gguf_metadata_key(file, i));
    for (int64_t i = 0; i < br_gguf_count(file); i++) {
        read_tensor(file, i, BR_F32);
        read_tensor(file, i, BR_F16);
        read_tensor(file, i, BR_I8);
    }
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    char path[64];
    int fd = fuzz_file(bytes, n, path);
    for (int copy = 0; copy < 2; copy++) {
        br_scope *scope = br_scope_begin();
        br_gguf *file = br_gguf_open(path, BR_OPTIONS(br_gguf, .copy = copy));
        require(file == NULL || !br_failed());
        require_answer(file);
        if (file)
            read_file(file);
        br_gguf_close(file);
        br_scope_end(scope);
    }
    close(fd);
    require(br_live_tensors() == 0);
}

FUZZ_TARGET(gguf)
