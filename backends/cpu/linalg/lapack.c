/* backends/cpu/linalg/lapack.c - opens LAPACK, and finds its routines. */
#include "backends/cpu/library.h"
#include "backends/cpu/linalg/linalg.h"
#include "tensor/tensor_internal.h"

#include <pthread.h>

static const br_library library = { "LAPACK", "liblapack.so.3", "BRASA_LAPACK", "liblapack3" };

/* The names lack the letter of the dtype. */
static const br_library_function routines[] = {
    { "getrf_", offsetof(br_lapack, getrf) }, { "getrs_", offsetof(br_lapack, getrs) },
    { "potrf_", offsetof(br_lapack, potrf) }, { "trsm_", offsetof(br_lapack, trsm) },
    { "geqrf_", offsetof(br_lapack, geqrf) }, { "orgqr_", offsetof(br_lapack, orgqr) },
    { "syevd_", offsetof(br_lapack, syevd) }, { "gesdd_", offsetof(br_lapack, gesdd) },
    { "gels_", offsetof(br_lapack, gels) },   { "gelsy_", offsetof(br_lapack, gelsy) },
    { "gelsd_", offsetof(br_lapack, gelsd) }, { "gelss_", offsetof(br_lapack, gelss) },
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static br_lapack tables[2]; /* f32, f64 */
static bool is_open;

/* Fills a table with the routines whose names begin with the letter. */
static bool find_all(const char *op, void *handle, const char *letter, br_lapack *table)
{
    return br__library_find(op, &library, handle, letter, sizeof routines / sizeof *routines,
                            routines, table);
}

const br_lapack *br__lapack(const char *op, br_dtype dtype)
{
    pthread_mutex_lock(&lock);
    void *handle = is_open ? NULL : br__library_open(op, &library);
    if (handle)
        is_open = find_all(op, handle, "s", &tables[0]) && find_all(op, handle, "d", &tables[1]);
    const bool ok = is_open;
    pthread_mutex_unlock(&lock);
    return ok ? &tables[dtype == BR_F64] : NULL;
}
