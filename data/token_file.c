/* data/token_file.c - memory-mapped files of tokens as datasets. */
#include "io/io_internal.h"

#include <brasa/data.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

BR_DEFINE_DEFAULTS(br_token_file)

static const char op[] = "token_file";

typedef struct token_file {
    br_token_file_options options;
    char *path;
    const char *data;
    size_t bytes;   /* size of the mapping */
    int64_t tokens; /* number of tokens in the file */
} token_file;

/* ---- Tokens ---------------------------------------------------------------------------------- */

static bool good_bytes(int bytes)
{
    if (bytes == 2 || bytes == 4 || bytes == 8)
        return true;
    br_fail(BR_ERROR_ARGUMENT, op, "bytes is %d, must be 2, 4 or 8", bytes);
    return false;
}

/* An 8-byte token of 2^63 or more becomes negative here, and good_token() rejects it. */
static int64_t token_at(const token_file *f, int64_t i)
{
    uint16_t two;
    uint32_t four;
    int64_t eight;
    const char *p = f->data + (size_t)i * (size_t)f->options.bytes;
    switch (f->options.bytes) {
    case 2:
        memcpy(&two, p, sizeof two);
        return two;
    case 4:
        memcpy(&four, p, sizeof four);
        return four;
    default:
        memcpy(&eight, p, sizeof eight);
        return eight;
    }
}

static bool good_token(const token_file *f, int64_t i, int64_t token)
{
    int64_t size = f->options.vocab_size ? f->options.vocab_size : INT64_MAX;
    if (token >= 0 && token < size)
        return true;
    br__fail_file(BR_ERROR_FORMAT, op, f->path,
                  "token %" PRId64 " is %" PRIu64 ", must be below %" PRId64, i, (uint64_t)token,
                  size);
    return false;
}

/* ---- Items ----------------------------------------------------------------------------------- */

static bool get_part(void *context, int64_t i, br_tensor **fields)
{
    const token_file *f = context;
    int64_t length = f->options.length, first = i * f->options.stride;
    br_tensor *input = br__new_on_host(op, BR_SHAPE(length), BR_I64);
    br_tensor *target = br__new_on_host(op, BR_SHAPE(length), BR_I64);
    int64_t *in = br_data_i64(input), *out = br_data_i64(target);
    for (int64_t k = 0; out && k <= length; k++) {
        int64_t token = token_at(f, first + k);
        if (!good_token(f, first + k, token))
            return false;
        if (k < length)
            in[k] = token;
        if (k > 0)
            out[k - 1] = token;
    }
    fields[0] = input;
    fields[1] = target;
    return !br_failed();
}

static void free_file(void *context)
{
    token_file *f = context;
    if (f->data)
        munmap((void *)f->data, f->bytes);
    br_free(f->path);
    br_free(f);
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool good_options(const char *path, const br_token_file_options *o)
{
    if (!br__required(op, "path", path))
        return false;
    if (o->length < 1 || o->stride < 0 || o->vocab_size < 0)
        br_fail(BR_ERROR_ARGUMENT, op,
                "length is %" PRId64 ", must be at least 1; stride is %" PRId64
                " and vocab_size %" PRId64 ", must be at least 0",
                o->length, o->stride, o->vocab_size);
    return !br_failed() && good_bytes(o->bytes);
}

/* An item needs length + 1 tokens, because its targets are shifted by one. */
static bool check_size(token_file *f, uint64_t size)
{
    int64_t bytes = f->options.bytes;
    f->tokens = (int64_t)(size / (uint64_t)bytes);
    if (size % (uint64_t)bytes != 0)
        br__fail_file(BR_ERROR_FORMAT, op, f->path,
                      "has %" PRIu64 " bytes, which is not a multiple of a token's %" PRId64, size,
                      bytes);
    else if (f->tokens <= f->options.length)
        br__fail_file(BR_ERROR_FORMAT, op, f->path,
                      "has %" PRId64 " tokens, must have more than the %" PRId64
                      " tokens of an item",
                      f->tokens, f->options.length);
    return !br_failed();
}

static bool map_file(token_file *f)
{
    uint64_t size;
    int fd = br__open_file(op, f->path, &size);
    if (fd < 0)
        return false;
    if (check_size(f, size)) {
        f->bytes = (size_t)size;
        void *data = mmap(NULL, f->bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (data != MAP_FAILED)
            f->data = data;
        else
            br__fail_file(BR_ERROR_IO, op, f->path, "cannot be mapped: %s", strerror(errno));
    }
    close(fd);
    return f->data != NULL;
}

br_dataset *br_token_file_dataset_new(const char *path, const br_token_file_options *options)
{
    options = BR_OPTIONS_OF(op, br_token_file, options);
    if (!good_options(path, options))
        return NULL;
    token_file *f = br_calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->options = *options;
    f->options.stride = options->stride ? options->stride : options->length;
    f->path = br_strdup(path);
    br_dataset *dataset = NULL;
    if (f->path && map_file(f)) {
        int64_t last = (f->tokens - f->options.length - 1) / f->options.stride;
        dataset = br_dataset_new(last + 1, 2, get_part, f, free_file);
    }
    if (!dataset)
        free_file(f);
    return dataset;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static bool write_tokens(br_replacement *r, int64_t n, const int64_t *tokens, int bytes)
{
    enum { PIECE = 4096 };
    char piece[PIECE * sizeof(int64_t)];
    for (int64_t i = 0; i < n;) {
        int64_t k = 0;
        for (; k < PIECE && i < n; i++, k++) {
            if (tokens[i] < 0 || (bytes < 8 && tokens[i] >> (8 * bytes) != 0)) {
                br_fail(BR_ERROR_ARGUMENT, op,
                        "token %" PRId64 " is %" PRId64 ", which does not fit into %d bytes", i,
                        tokens[i], bytes);
                br__replace_abandon(r);
                return false;
            }
            memcpy(piece + k * bytes, &tokens[i], (size_t)bytes);
        }
        if (!br__replace_write(r, piece, (size_t)(k * bytes)))
            return false;
    }
    return true;
}

bool br_token_file_save(const char *path, int64_t n, const int64_t *tokens, int bytes)
{
    if (br_failed() || !good_bytes(bytes))
        return false;
    if (!br__required(op, "path", path) || (n > 0 && !br__required(op, "tokens", tokens)))
        return false;
    if (n < 0)
        return br_fail(BR_ERROR_ARGUMENT, op, "n is %" PRId64 ", must not be negative", n);
    br_replacement r;
    return br__replace_begin(&r, op, path) && write_tokens(&r, n, tokens, bytes) &&
           br__replace_commit(&r);
}
