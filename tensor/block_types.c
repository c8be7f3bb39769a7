/* tensor/block_types.c - the table of the types of quantized blocks. */
#include "tensor/block_types.h"

#include <string.h>

const br_block_info br__block_types[BR_N_BLOCK_TYPES] = {
#define BR_ENTRY(name, text, elements, bytes) [BR_BLOCK_##name] = { text, elements, bytes },
    BR_BLOCK_TYPES(BR_ENTRY)
#undef BR_ENTRY
};

bool br__block_type_named(const char *name, br_block_type *type)
{
    for (int i = 0; i < BR_N_BLOCK_TYPES; i++)
        if (strcmp(name, br__block_types[i].name) == 0) {
            *type = (br_block_type)i;
            return true;
        }
    return false;
}
