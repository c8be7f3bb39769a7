/* ops/loss_internal.h - what the losses share. */
#ifndef BR_LOSS_INTERNAL_H
#define BR_LOSS_INTERNAL_H

#include "ops/ops_internal.h"

/* The targets' value that is ignored. */
int64_t br__ignored(const br_cross_entropy_options *options);
/* True if input is of floats [n, c, d...], target of indices [n, d...], or [c] and [], and all are
 * classes or ignored. */
bool br__check_targets(const char *op, br_tensor *input, br_tensor *target, int64_t ignore);
/* True if weight and label_smoothing are good for the classes of the input. */
bool br__check_class_options(const char *op, const br_tensor *input,
                             const br_cross_entropy_options *options);
bool br__check_reduction(const char *op, br_reduction reduction);
/* cross_entropy in all its forms, of operations that the tape sees: what the fused form is tested
 * against, and what does what that does not. */
br_tensor *br__cross_entropy_composed(br_tensor *input, br_tensor *target,
                                      const br_cross_entropy_options *options);

/* b has a's dtype, a floating one, and broadcasts with it. */
bool br__compares(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                  const br_tensor *b);
/* Reduces, and closes the scope of what the losses were made of. */
br_tensor *br__finish_loss(const char *op, br_scope *scope, br_tensor *losses,
                           br_reduction reduction);

#endif
