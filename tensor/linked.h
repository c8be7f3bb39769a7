/* tensor/linked.h - how the program was linked. */
#ifndef BR_TENSOR_LINKED_H
#define BR_TENSOR_LINKED_H

#include <stdbool.h>

/* Returns true if the program was linked with -static. glibc's dlopen() then loads a second C
 * library, in which other libraries crash. */
bool br__is_static(void);

#endif
