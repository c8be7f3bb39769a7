/* brasa/tensor/dtype.h - element types.
 *
 * All elements of a tensor have one type, its dtype. br_dtype_of() returns it, br_to() converts.
 * br_dtype_size() returns the size of an element, br_dtype_name() the name in messages. */
#ifndef BRASA_TENSOR_DTYPE_H
#define BRASA_TENSOR_DTYPE_H

/* Element types. Operations on several tensors require equal dtypes; br_to() converts. */
typedef enum br_dtype {
    BR_F32,  /* float */
    BR_F64,  /* double */
    BR_I64,  /* int64_t */
    BR_BOOL, /* one byte, 0 or 1 */
} br_dtype;

#endif
