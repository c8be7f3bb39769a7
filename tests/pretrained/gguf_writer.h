/* tests/pretrained/gguf_writer.h - writes GGUF files for tests. A file may lack a key, or have a
 * value of a wrong type. */
#ifndef BR_TESTS_PRETRAINED_GGUF_WRITER_H
#define BR_TESTS_PRETRAINED_GGUF_WRITER_H

#include "tests/io/files.h"

/* Numbers of types in the format. */
enum { W_UINT32 = 4, W_INT32 = 5, W_FLOAT32 = 6, W_BOOL = 7, W_STRING = 8, W_ARRAY = 9 };

typedef struct gguf_part {
    unsigned char *data;
    size_t n, room;
} gguf_part;

typedef struct gguf_writer {
    gguf_part keys, tensors, data;
    uint64_t n_keys, n_tensors;
    const char *without; /* a key or tensor that is left out; NULL: none */
    const char *wrong;   /* a key that gets an array instead of a value; NULL: none */
} gguf_writer;

static inline void part_put(gguf_part *p, const void *data, size_t n)
{
    if (p->n + n > p->room) {
        p->room = 2 * (p->n + n);
        p->data = realloc(p->data, p->room);
        cr_assert(p->data);
    }
    if (n > 0)
        memcpy(p->data + p->n, data, n);
    p->n += n;
}

static inline void part_u32(gguf_part *p, uint32_t value)
{
    part_put(p, &value, sizeof value);
}

static inline void part_u64(gguf_part *p, uint64_t value)
{
    part_put(p, &value, sizeof value);
}

static inline void part_text(gguf_part *p, const char *text)
{
    part_u64(p, strlen(text));
    part_put(p, text, strlen(text));
}

/* Begins a key. Returns false if the file gets no value or a wrong one. */
static inline bool w_key(gguf_writer *w, const char *key, uint32_t type)
{
    if (w->without && strcmp(w->without, key) == 0)
        return false;
    bool wrong = w->wrong && strcmp(w->wrong, key) == 0;
    w->n_keys++;
    part_text(&w->keys, key);
    part_u32(&w->keys, wrong ? W_ARRAY : type);
    if (wrong) {
        part_u32(&w->keys, W_FLOAT32);
        part_u64(&w->keys, 0);
    }
    return !wrong;
}

static inline void w_u32(gguf_writer *w, const char *key, uint32_t value)
{
    if (w_key(w, key, W_UINT32))
        part_u32(&w->keys, value);
}

static inline void w_f32(gguf_writer *w, const char *key, float value)
{
    if (w_key(w, key, W_FLOAT32))
        part_put(&w->keys, &value, sizeof value);
}

static inline void w_bool(gguf_writer *w, const char *key, bool value)
{
    unsigned char byte = value;
    if (w_key(w, key, W_BOOL))
        part_put(&w->keys, &byte, 1);
}

static inline void w_string(gguf_writer *w, const char *key, const char *text)
{
    if (w_key(w, key, W_STRING))
        part_text(&w->keys, text);
}

static inline void w_strings(gguf_writer *w, const char *key, size_t n, const char *const *texts)
{
    if (!w_key(w, key, W_ARRAY))
        return;
    part_u32(&w->keys, W_STRING);
    part_u64(&w->keys, n);
    for (size_t i = 0; i < n; i++)
        part_text(&w->keys, texts[i]);
}

static inline void w_numbers(gguf_writer *w, const char *key, uint32_t type, size_t n,
                             const void *numbers)
{
    if (!w_key(w, key, W_ARRAY))
        return;
    part_u32(&w->keys, type);
    part_u64(&w->keys, n);
    part_put(&w->keys, numbers, 4 * n);
}

/* Adds an f32 tensor with the alignment 32. */
static inline void w_tensor(gguf_writer *w, const char *name, br_tensor *t)
{
    if (w->without && strcmp(w->without, name) == 0)
        return;
    w->n_tensors++;
    part_text(&w->tensors, name);
    part_u32(&w->tensors, (uint32_t)br_ndim(t));
    for (int d = br_ndim(t) - 1; d >= 0; d--)
        part_u64(&w->tensors, (uint64_t)br_size(t, d));
    part_u32(&w->tensors, 0);
    part_u64(&w->tensors, w->data.n);
    t = br_contiguous(t);
    part_put(&w->data, br_data(t), (size_t)br_numel(t) * sizeof(float));
    while (w->data.n % 32 != 0)
        part_put(&w->data, "", 1);
}

/* Writes the file and frees the writer. */
static inline void w_end(gguf_writer *w, const char *path)
{
    gguf_part all = { 0 };
    part_put(&all, "GGUF", 4);
    part_u32(&all, 3);
    part_u64(&all, w->n_tensors);
    part_u64(&all, w->n_keys);
    part_put(&all, w->keys.data, w->keys.n);
    part_put(&all, w->tensors.data, w->tensors.n);
    while (all.n % 32 != 0)
        part_put(&all, "", 1);
    part_put(&all, w->data.data, w->data.n);
    files_write(path, all.data, all.n);
    free(all.data);
    free(w->keys.data);
    free(w->tensors.data);
    free(w->data.data);
    *w = (gguf_writer){ 0 };
}

#endif
