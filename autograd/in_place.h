/* autograd/in_place.h - the checks before a tensor is changed in place. */
#ifndef BR_IN_PLACE_H
#define BR_IN_PLACE_H

#include "autograd/part.h"

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
