/* backends/cpu/linalg/lapack.c - opens LAPACK.
 *
 * The library is linked with no LAPACK. The file is looked for where the dynamic linker looks, or
 * it is the one that a variable names, and stays open. */
#include "backends/cpu/linalg/linalg.h"
#include "tensor/linked.h"
#include "tensor/tensor_internal.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

static const char variable[] = "BRASA_LAPACK", file[] = "liblapack.so.3";

/* Where the address of each routine is in br_lapack, and the routine's name without the letter of
 * the dtype. */
static const struct routine {
    const char *name;
    size_t offset;
} routines[] = {
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

/* Fills a table with the routines whose names begin with the letter. Returns the missing name, or
 * NULL. */
static const char *find_all(void *library, char letter, br_lapack *table)
{
    static char name[16];
    for (size_t i = 0; i < sizeof routines / sizeof *routines; i++) {
        snprintf(name, sizeof name, "%c%s", letter, routines[i].name);
        void *address = dlsym(library, name);
        if (!address)
            return name;
        memcpy((char *)table + routines[i].offset, &address, sizeof address);
    }
    return NULL;
}

static void open_library(const char *op)
{
    const char *given = getenv(variable), *missing;
    const char *path = given && *given ? given : file;
    if (br__is_static()) {
        br_fail(BR_ERROR_STATE, op,
                "needs LAPACK, but the program was linked with -static, and cannot load it: link "
                "it without -static");
        return;
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        br_fail(
            BR_ERROR_IO, op,
            "needs LAPACK, but %s: install the Debian package liblapack3, or set %s to the path "
            "of a library with LAPACK",
            dlerror(), variable);
    else if ((missing = find_all(library, 's', &tables[0])) ||
             (missing = find_all(library, 'd', &tables[1])))
        br_fail(BR_ERROR_IO, op,
                "needs LAPACK, but %s has no function %s: install the Debian package liblapack3, "
                "or set %s to the path of a library with LAPACK",
                path, missing, variable);
    else
        is_open = true;
}

const br_lapack *br__lapack(const char *op, br_dtype dtype)
{
    pthread_mutex_lock(&lock);
    if (!is_open)
        open_library(op);
    const bool ok = is_open;
    pthread_mutex_unlock(&lock);
    return ok ? &tables[dtype == BR_F64] : NULL;
}
