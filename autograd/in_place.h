/* autograd/in_place.h - the operations that record in-place changes, defined in
 * ops/shape/as_strided_part.c. */
#ifndef BR_IN_PLACE_H
#define BR_IN_PLACE_H

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

/* The three functions below are parts of br_before_in_place(), for required arguments. Messages
 * call t by its name in the header.
 *
 * Makes all checks, and changes nothing. */
bool br__can_change(const char *op, const char *name, br_tensor *t, int n_inputs,
                    br_tensor *const *inputs);
/* Makes all checks and gives t a new version. */
bool br__before_change(const char *op, const char *name, br_tensor *t, int n_inputs,
                       br_tensor *const *inputs);
/* Same for an operation that gives all elements the same value: elements of t may share memory. */
bool br__before_fill(const char *op, const char *name, br_tensor *t, int n_inputs,
                     br_tensor *const *inputs);

#endif
