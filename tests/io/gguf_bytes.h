/* tests/io/gguf_bytes.h - builds GGUF files, valid and invalid ones, for the tests of io/. */
#ifndef BR_TESTS_IO_GGUF_BYTES_H
#define BR_TESTS_IO_GGUF_BYTES_H

#include "tests/io/files.h"

/* Numbers of types in the format. */
enum { G_UINT8, G_INT8, G_UINT32 = 4, G_FLOAT32 = 6, G_BOOL, G_STRING, G_ARRAY, G_UINT64 };
enum { G_F32, G_F16, G_Q4_0, G_Q4_K = 12, G_I8 = 24 };

typedef struct gguf_bytes {
    unsigned char data[4096];
    size_t n;
} gguf_bytes;

static inline void g_put(gguf_bytes *b, const void *data, size_t n)
{
    cr_assert(b->n + n <= sizeof b->data);
    if (n > 0)
        memcpy(b->data + b->n, data, n);
    b->n += n;
}

static inline void g_u32(gguf_bytes *b, uint32_t value)
{
    g_put(b, &value, sizeof value);
}

static inline void g_u64(gguf_bytes *b, uint64_t value)
{
    g_put(b, &value, sizeof value);
}

static inline void g_text(gguf_bytes *b, const char *text)
{
    g_u64(b, strlen(text));
    g_put(b, text, strlen(text));
}

static inline gguf_bytes g_begin(uint64_t tensors, uint64_t keys)
{
    gguf_bytes b = { .n = 0 };
    g_put(&b, "GGUF", 4);
    g_u32(&b, 3);
    g_u64(&b, tensors);
    g_u64(&b, keys);
    return b;
}

/* A key; its value follows. */
static inline void g_key(gguf_bytes *b, const char *key, uint32_t type)
{
    g_text(b, key);
    g_u32(b, type);
}

static inline void g_array(gguf_bytes *b, uint32_t type, uint64_t n)
{
    g_u32(b, type);
    g_u64(b, n);
}

/* A tensor with one or two dimensions, the contiguous one first; 0: there is no second one. */
static inline void g_tensor(gguf_bytes *b, const char *name, uint64_t first, uint64_t second,
                            uint32_t type, uint64_t offset)
{
    g_text(b, name);
    g_u32(b, second ? 2 : 1);
    g_u64(b, first);
    if (second)
        g_u64(b, second);
    g_u32(b, type);
    g_u64(b, offset);
}

/* Pads to a multiple of the alignment, and adds n bytes 0, 1, 2, ... of data. */
static inline void g_data(gguf_bytes *b, size_t alignment, size_t n)
{
    while (b->n % alignment != 0)
        g_put(b, "", 1);
    for (size_t i = 0; i < n; i++)
        g_put(b, &(unsigned char){ (unsigned char)i }, 1);
}

#endif
