/* tests/fuzz/fuzz_safetensors.c - any bytes as a safetensors file: opened, listed, every tensor
 * read.
 *
 * The bytes are tried as they are, and again with the length set so that the header ends with the
 * last brace: a wrong length would hide everything behind it.
 *
 * Built with -DBRASA_FUZZ=ON and clang: build/fuzz_safetensors [CORPUS DIRECTORY]. The test binary
 * runs it over a small corpus (tests/io/test_fuzz_corpus.c). */
#include <brasa/io.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

/* For what must not be, whatever the input is. */
static void require(bool truth)
{
    if (!truth)
        abort();
}

/* Reads every byte of a tensor, for the sanitizers to see. */
static void read_tensor(br_safetensors *file, int64_t i)
{
    const int64_t *sizes;
    br_tensor *t = br_safetensors_get(file, br_safetensors_name(file, i));
    if (!t) {
        require(br_failed());
        br_clear_error();
        return;
    }
    require(br_ndim(t) == br_safetensors_shape(file, i, &sizes));
    size_t size = (size_t)br_numel(t) * br_dtype_size(br_dtype_of(t));
    bool half = strstr(br_safetensors_dtype(file, i), "F16") != NULL;
    require(size == br_safetensors_bytes(file, i) * (half ? 2 : 1));
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
    br_safetensors *file = br_safetensors_open(path, &(br_safetensors_options){ .copy = copy });
    require(file ? !br_failed() : br_failed() && strlen(br_error_message()) > 0);
    br_clear_error();
    if (file)
        read_file(file);
    br_safetensors_close(file);
    br_scope_end(scope);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    try_file(path, false);
    const uint8_t *brace = n > 8 ? memrchr(bytes + 8, '}', n - 8) : NULL;
    if (brace) {
        uint64_t length = (uint64_t)(brace - bytes) - 7;
        require(pwrite(fd, &length, sizeof length, 0) == (ssize_t)sizeof length);
        try_file(path, true);
    }
    close(fd);
    require(br_live_tensors() == 0);
    return 0;
}
