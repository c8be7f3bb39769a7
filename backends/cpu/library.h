/* backends/cpu/library.h - libraries that the first call which needs them opens. Brasa is not
 * linked with them. */
#ifndef BR_CPU_LIBRARY_H
#define BR_CPU_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct br_library {
    const char *name;     /* for messages, such as "LAPACK" */
    const char *file;     /* is looked for where the dynamic linker looks */
    const char *variable; /* the environment variable that names another file */
    const char *package;  /* the Debian package with the file */
} br_library;

/* Opens the library, which stays open. Returns a handle for br__library_find(), or NULL with an
 * error that says how to mend it. */
void *br__library_open(const char *op, const br_library *library);
/* Where the address of a function goes in a table of pointers to functions, and the function's name
 * without the prefix. */
typedef struct br_library_function {
    const char *name;
    size_t offset;
} br_library_function;

/* Stores the addresses of n functions of the library in the table. Returns false with an error if
 * one of them is missing. */
bool br__library_find(const char *op, const br_library *library, void *handle, const char *prefix,
                      size_t n, const br_library_function *functions, void *table);

#endif
