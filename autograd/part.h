/* autograd/part.h - the operations that record in-place changes of views, defined in
 * ops/shape/as_strided_part.c. */
#ifndef BR_PART_H
#define BR_PART_H

#include <brasa/tensor.h>

/* Position of a view in a contiguous tensor. */
typedef struct br_part {
    int ndim, base_ndim;
    int64_t offset; /* of the first element, in elements, as are the strides */
    int64_t sizes[BR_MAX_DIMS], strides[BR_MAX_DIMS];
    int64_t base_sizes[BR_MAX_DIMS];
} br_part;

/* These three functions are differentiable any number of times. br__part() returns the part of x,
 * which has the base's sizes; br__clear_part() returns x with zeros in the part. br__fill_part()
 * returns a tensor of the base's sizes that is y in the part and zero elsewhere; it sums the
 * elements of y that share a position in the base. */
br_tensor *br__part(br_tensor *x, const br_part *part);
br_tensor *br__clear_part(br_tensor *x, const br_part *part);
br_tensor *br__fill_part(br_tensor *y, const br_part *part);

#endif
