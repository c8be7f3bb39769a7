/* backends/cpu/library.c - opens libraries. */
#include "backends/cpu/library.h"

#include "tensor/linked.h"
#include "tensor/tensor_internal.h"

#include <dlfcn.h>
#include <stdlib.h>

static const char *path_of(const br_library *library)
{
    const char *given = getenv(library->variable);
    return given && *given ? given : library->file;
}

void *br__library_open(const char *op, const br_library *library)
{
    if (br__is_static())
        return br_fail(BR_ERROR_STATE, op,
                       "needs %s, but the program was linked with -static, and cannot load it: "
                       "link it without -static",
                       library->name);
    void *handle = dlopen(path_of(library), RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        br_fail(BR_ERROR_IO, op,
                "needs %s, but %s: install the Debian package %s, or set %s to the path of a "
                "library with %s",
                library->name, dlerror(), library->package, library->variable, library->name);
    return handle;
}

/* Stores the address of a function in *place, a pointer to a function. */
static bool find_function(const char *op, const br_library *library, void *handle, const char *name,
                          void *place)
{
    void *address = dlsym(handle, name);
    if (address)
        memcpy(place, &address, sizeof address);
    else
        br_fail(BR_ERROR_IO, op,
                "needs %s, but %s has no function %s: install the Debian package %s, or set %s to "
                "the path of a library with %s",
                library->name, path_of(library), name, library->package, library->variable,
                library->name);
    return address;
}

bool br__library_find(const char *op, const br_library *library, void *handle, const char *prefix,
                      size_t n, const br_library_function *functions, void *table)
{
    char name[32];
    for (size_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "%s%s", prefix, functions[i].name);
        if (!find_function(op, library, handle, name, (char *)table + functions[i].offset))
            return false;
    }
    return true;
}
