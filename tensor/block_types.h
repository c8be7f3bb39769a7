/* tensor/block_types.h - the types of quantized blocks.
 *
 * A type costs a row here, and the function that dequantizes a block in
 * backends/cpu/quantized/blocks.h. */
#ifndef BR_TENSOR_BLOCK_TYPES_H
#define BR_TENSOR_BLOCK_TYPES_H

#include <stdbool.h>

/* The name of the function, the name in messages and in GGUF files, the elements of a block and its
 * bytes. */
#define BR_BLOCK_TYPES(X)     \
    X(q4_0, "Q4_0", 32, 18)   \
    X(q4_1, "Q4_1", 32, 20)   \
    X(q5_0, "Q5_0", 32, 22)   \
    X(q5_1, "Q5_1", 32, 24)   \
    X(q8_0, "Q8_0", 32, 34)   \
    X(q2_k, "Q2_K", 256, 84)  \
    X(q3_k, "Q3_K", 256, 110) \
    X(q4_k, "Q4_K", 256, 144) \
    X(q5_k, "Q5_K", 256, 176) \
    X(q6_k, "Q6_K", 256, 210)

typedef enum br_block_type {
#define BR_ENTRY(name, text, elements, bytes) BR_BLOCK_##name,
    BR_BLOCK_TYPES(BR_ENTRY)
#undef BR_ENTRY
        BR_N_BLOCK_TYPES
} br_block_type;

enum { BR_LARGEST_BLOCK = 256 }; /* elements */

typedef struct br_block_info {
    const char *name;
    int elements; /* of a block */
    int bytes;    /* of a block */
} br_block_info;

extern const br_block_info br__block_types[BR_N_BLOCK_TYPES];

/* Finds the type of that name. Returns false without an error if there is none. */
bool br__block_type_named(const char *name, br_block_type *type);

#endif
