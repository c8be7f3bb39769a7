/* tests/io/test_fuzz_corpus.c - the fuzz target run over a small corpus and what comes of it by
 * changing one byte, cutting, and doubling. */
#include "tests/fuzz/fuzz_safetensors.c"

#include "tests/support.h"

TestSuite(fuzz_corpus, .init = check_begin, .fini = check_end);

static const struct {
    const char *header;
    size_t data_bytes;
} corpus[] = {
    { "{}", 0 },
    { "{\"__metadata__\":{\"a\":\"b\",\"\\u00e9\\ud83d\\ude00\":\"\\\\\\\"\"}}   ", 0 },
    { "{\"x\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}}", 24 },
    { "{\"x\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},\n\"b\":{\"dtype\":\"BOOL\","
      "\"shape\":[3,1],\"data_offsets\":[8,11],\"z\":[1.5e3,{\"y\":null}]}}",
      11 },
    { "{\"h\":{\"dtype\":\"BF16\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,4]},"
      "\"f\":{\"dtype\":\"F4\",\"shape\":[4],\"data_offsets\":[4,6]},"
      "\"e\":{\"dtype\":\"I64\",\"shape\":[0,7],\"data_offsets\":[6,6]}}",
      6 },
};

static void run(const uint8_t *bytes, size_t n)
{
    cr_assert_eq(LLVMFuzzerTestOneInput(bytes, n), 0);
}

/* The file as it is, cut, with each byte changed in several ways, and twice in a row. */
static void run_around(uint8_t *bytes, size_t n)
{
    static const uint8_t flips[] = { 0x01, 0x04, 0x10, 0x20, 0x80, 0xff };
    run(bytes, n);
    for (size_t i = 0; i < n; i++) {
        run(bytes, i);
        for (size_t k = 0; k < sizeof flips; k++) {
            bytes[i] ^= flips[k];
            run(bytes, n);
            bytes[i] ^= flips[k];
        }
    }
    uint8_t *twice = malloc(2 * n);
    memcpy(twice, bytes, n);
    memcpy(twice + n, bytes, n);
    run(twice, 2 * n);
    free(twice);
}

Test(fuzz_corpus, safetensors)
{
    for (size_t i = 0; i < sizeof corpus / sizeof *corpus; i++) {
        size_t length = strlen(corpus[i].header), n = 8 + length + corpus[i].data_bytes;
        uint8_t *bytes = calloc(1, n);
        bytes[0] = (uint8_t)length;
        bytes[1] = (uint8_t)(length >> 8);
        memcpy(bytes + 8, corpus[i].header, length);
        for (size_t k = 0; k < corpus[i].data_bytes; k++)
            bytes[8 + length + k] = (uint8_t)k;
        run_around(bytes, n);
        free(bytes);
    }
}
