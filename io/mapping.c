/* io/mapping.c - the bytes of an open file: a private mapping, or a copy in memory. The file and
 * each tensor that views the bytes hold a reference. */
#include "io/io_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

void br__mapping_release(void *mapping)
{
    br_mapping *m = mapping;
    if (!m || atomic_fetch_sub(&m->refs, 1) != 1)
        return;
    if (m->copied)
        br__block_free(m->base, m->bytes, m->extent);
    else
        munmap(m->base, m->bytes);
    br_free(m);
}

static bool map_file(br_mapping *m, const char *op, const char *path, int fd)
{
    void *base = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
    if (base != MAP_FAILED) {
        m->base = base;
        return true;
    }
    br__fail_file(errno == ENOMEM ? BR_ERROR_MEMORY : BR_ERROR_IO, op, path, "cannot be mapped: %s",
                  strerror(errno));
    return false;
}

static bool copy_file(br_mapping *m, const char *op, const char *path, int fd, uint64_t offset)
{
    m->copied = true;
    m->base = br__block_alloc(op, m->bytes, &m->extent);
    if (!m->base)
        return false;
    if (br__read_file(op, path, fd, m->base, m->bytes, offset))
        return true;
    br__block_free(m->base, m->bytes, m->extent);
    return false;
}

br_mapping *br__mapping_new(const char *op, const char *path, int fd, uint64_t offset,
                            uint64_t size, bool copy, char **data)
{
    if (size > PTRDIFF_MAX)
        return br__fail_file(BR_ERROR_MEMORY, op, path,
                             "the file has %" PRIu64 " bytes, more than can be addressed", size);
    br_mapping *m = br_calloc(1, sizeof *m);
    if (!m)
        return NULL;
    atomic_init(&m->refs, 1);
    m->bytes = (size_t)(copy ? size - offset : size); /* a mapping must start at a page boundary */
    if (!(copy ? copy_file(m, op, path, fd, offset) : map_file(m, op, path, fd))) {
        br_free(m);
        return NULL;
    }
    *data = copy ? m->base : m->base + offset;
    return m;
}

br_tensor *br__mapping_tensor(br_mapping *mapping, int ndim, const int64_t *sizes, br_dtype dtype,
                              char *data)
{
    if ((uintptr_t)data % br_dtype_size(dtype) != 0)
        return br_from_data(ndim, sizes, dtype, data);
    atomic_fetch_add(&mapping->refs, 1);
    br_tensor *t = br_borrow(ndim, sizes, dtype, data, br__mapping_release, mapping);
    if (!t)
        br__mapping_release(mapping);
    return t;
}
