/* tensor/linked.c - finds out how the program was linked. */
#include "tensor/linked.h"

#include <link.h>

/* Notes in *found whether the program has a dynamic linker. The program is the first object. */
static int look_for_linker(struct dl_phdr_info *program, size_t size, void *found)
{
    (void)size;
    for (int i = 0; i < program->dlpi_phnum; i++)
        *(bool *)found |= program->dlpi_phdr[i].p_type == PT_INTERP;
    return 1; /* look at no other object */
}

bool br__is_static(void)
{
    bool found = false;
    dl_iterate_phdr(look_for_linker, &found);
    return !found;
}
