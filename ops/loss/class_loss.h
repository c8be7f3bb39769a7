/* ops/loss/class_loss.h - shared by cross_entropy and linear_cross_entropy, whose formula is in
 * backends/loss.h. */
#ifndef BR_CLASS_LOSS_H
#define BR_CLASS_LOSS_H

#include "ops/loss/loss_internal.h"

/* At the beginning of a loss: if the target holds class indices in u8, which PyTorch accepts beside
 * i64, converts the variable to i64 and returns `call`, the same loss. */
#define BR_IF_BYTE_TARGET(target, call)                                                            \
    if ((target) && (target)->dtype == BR_U8 && (target)->mark == BR_MARK_LIVE && !br__failed()) { \
        br_scope *scope = br_scope_begin();                                                        \
        target = br_to(target, BR_I64);                                                            \
        return br__composed(scope, call);                                                          \
    }
/* Returns true if every element of the target is a class or ignored; fails otherwise. */
bool br__good_targets(const char *op, br_tensor *target, const br_tensor *input, int64_t classes,
                      int64_t ignore);
/* Computes the gradient of the scores [n, c, d1, ...], or [c], by recorded operations. */
br_tensor *br__class_gradient_composed(const br_class_loss *s, br_tensor *scores, br_tensor *target,
                                       br_tensor *weight, br_tensor *dy);

#endif
