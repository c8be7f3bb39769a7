/* optim/lbfgs_position.c - the loss of L-BFGS and its gradient at a position. */
#include "optim/lbfgs.h"

#include <math.h>

br_tensor *br__lbfgs_gather(const lbfgs *s, bool gradients)
{
    const br_optim *optim = s->optim;
    for (int64_t i = 0; i < optim->n_slots; i++) {
        br_tensor *param = optim->slots[i].param, *t = gradients ? br_grad_of(param) : param;
        s->parts[i] = br_reshape(t ? t : br_zeros_like(param), BR_SHAPE(-1));
    }
    br_tensor *all = br_failed() ? NULL : br_cat((int)optim->n_slots, s->parts, 0);
    return gradients && s->options->maximize ? br_neg(all) : all;
}

/* Copies a vector to the parameters. */
static void scatter(const lbfgs *s, br_tensor *position)
{
    int64_t at = 0;
    for (int64_t i = 0; i < s->optim->n_slots && !br_failed(); i++) {
        br_tensor *param = s->optim->slots[i].param;
        br_tensor *part = br_narrow(position, 0, at, param->numel);
        br_copy_(param, br_reshape(part, param->ndim, param->sizes));
        at += param->numel;
    }
}

void br__lbfgs_move(const lbfgs *s, br_tensor *from, br_tensor *direction, double t)
{
    scatter(s, br_add(from, br_mul_scalar(direction, t)));
}

double br__lbfgs_evaluate(lbfgs *s, br_tensor **grad)
{
    br_scope *scope = br_enable_grad_begin();
    const double loss = br_failed() ? NAN : s->closure(s->context);
    br_scope_end(scope);
    s->evaluations++;
    *grad = br_failed() ? NULL : br__lbfgs_gather(s, true);
    return s->options->maximize ? -loss : loss;
}

double br__lbfgs_dot(br_tensor *a, br_tensor *b)
{
    return br_item(br_dot(a, b));
}
