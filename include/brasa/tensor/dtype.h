/* brasa/tensor/dtype.h - element types.
 *
 * All elements of a tensor have one type, its dtype. br_dtype_of() returns it, br_to() converts.
 * br_dtype_size() returns the size of an element, br_dtype_name() the name in messages. */
#ifndef BRASA_TENSOR_DTYPE_H
#define BRASA_TENSOR_DTYPE_H

/* Element types. BR_BF16 to BR_U8 are storage dtypes: their elements take little memory, and
 * operations compute with them in f32 or i64 and round each result once, to the nearest, ties to
 * even, or wrap it around. brasa/ops/promotion.h says what an operation on several dtypes returns.
 */
typedef enum br_dtype {
    BR_F32,  /* float */
    BR_F64,  /* double */
    BR_I64,  /* int64_t */
    BR_BOOL, /* one byte, 0 or 1 */
    BR_BF16, /* uint16_t: the upper half of a float, with 8 bits of significand */
    BR_F16,  /* uint16_t: IEEE 754 binary16, with 11 bits of significand, at most 65504 */
    BR_I32,  /* int32_t */
    BR_I8,   /* int8_t */
    BR_U8,   /* uint8_t */
    /* No elements, but blocks of numbers with few bits, as GGUF files have them, of a type such as
     * Q4_K, which br_quantized_type() returns. br_f_linear(), br_f_embedding() and
     * br_linear_cross_entropy() take such a matrix as their weight, beside operands in f32, and
     * br_to() converts it to a floating-point dtype. Every other operation refuses it. It never
     * requires a gradient. */
    BR_QUANTIZED,
} br_dtype;

#endif
