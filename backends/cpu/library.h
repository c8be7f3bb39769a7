/* backends/cpu/library.h - libraries that the first call which needs them opens. Brasa is not
 * linked with them. */
#ifndef BR_CPU_LIBRARY_H
#define BR_CPU_LIBRARY_H

#include <stdbool.h>

typedef struct br_library {
    const char *name;     /* for messages, such as "LAPACK" */
    const char *file;     /* is looked for where the dynamic linker looks */
    const char *variable; /* the environment variable that names another file */
    const char *package;  /* the Debian package with the file */
} br_library;

/* Opens the library, which stays open. Returns a handle for br__library_function(), or NULL with an
 * error that says how to mend it. */
void *br__library_open(const char *op, const br_library *library);
/* Stores the address of a function of the library in *function, a pointer to a function. Returns
 * false with an error if there is no such function. */
bool br__library_function(const char *op, const br_library *library, void *handle, const char *name,
                          void *function);

#endif
