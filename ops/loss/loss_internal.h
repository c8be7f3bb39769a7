/* ops/loss/loss_internal.h - shared by the losses. */
#ifndef BR_LOSS_INTERNAL_H
#define BR_LOSS_INTERNAL_H

#include "ops/pointwise/widen.h"

/* Returns true if input is floating-point of shape [n, c, d...] or [c], and target is i64 of shape
 * [n, d...] or []; fails otherwise. */
bool br__check_target_shapes(const char *op, const br_tensor *input, const br_tensor *target);
/* The same, and checks that every target is a class or ignored. */
bool br__check_targets(const char *op, br_tensor *input, br_tensor *target, int64_t ignore);
/* Returns true if weight and label_smoothing are valid for the classes of the input; fails
 * otherwise. */
bool br__check_class_options(const char *op, const br_tensor *input,
                             const br_cross_entropy_options *options);
bool br__check_label_smoothing(const char *op, double s);
/* Returns the dimension of the classes in scores [n, c, d1, ...] or [c]. */
static inline int64_t br__class_dim(const br_tensor *scores)
{
    return scores->ndim == 1 ? 0 : 1;
}
/* Reshapes class weights [c] to broadcast along the class dimension of the scores. */
br_tensor *br__along_classes(br_tensor *weight, const br_tensor *scores);
bool br__check_reduction(const char *op, br_reduction reduction);
/* cross_entropy in all its variants, composed of recorded operations. It is used where the fused
 * version does not apply, and to test that version. */
br_tensor *br__cross_entropy_composed(br_tensor *input, br_tensor *target,
                                      const br_cross_entropy_options *options);

/* Returns true if b has a's dtype, which must be floating-point, and broadcasts with a; fails
 * otherwise. */
bool br__check_broadcastable(const char *op, const char *a_name, const br_tensor *a,
                             const char *b_name, const br_tensor *b);
/* The same, but also accepts integers. */
bool br__check_numbers(const char *op, const char *a_name, const br_tensor *a, const char *b_name,
                       const br_tensor *b);
/* Returns x, with 0 where it is infinite or NaN and the factor is 0. A factor of 0, such as a
 * weight or a target probability, leaves an element out, but its product with infinity would be
 * NaN. */
br_tensor *br__unless_left_out(br_tensor *x, br_tensor *factor);
/* Reduces the losses, rounds them to bf16 or f16 if the operands were converted, and ends the scope
 * in which they were computed. */
br_tensor *br__finish_loss(const char *op, br_scope *scope, br_rounding rounding, br_tensor *losses,
                           br_reduction reduction);

#endif
