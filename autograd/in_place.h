/* autograd/in_place.h - what recorded changes in place need of the operations (ops/part.c). */
#ifndef BR_IN_PLACE_H
#define BR_IN_PLACE_H

#include <brasa/tensor.h>

/* Where a view lies in a contiguous tensor. */
typedef struct br_part {
    int ndim, base_ndim;
    int64_t offset; /* of the first element; as strides, in elements */
    int64_t sizes[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    int64_t base_sizes[BR_MAX_DIMS];
} br_part;

/* Of x, which has the base's sizes: the part; x with zeros there; and the part y in zeros, where
 * elements that the part shows several times are summed. Differentiable any number of times. */
br_tensor *br__part(br_tensor *x, const br_part *part);
br_tensor *br__clear_part(br_tensor *x, const br_part *part);
br_tensor *br__fill_part(br_tensor *y, const br_part *part);

#endif
