/* backends/cpu/optim/update.c - the updates of a step in one parallel loop. An element's update
 * depends on no other element, so the pieces may be cut anywhere. */
#include "backends/cpu/kernels.h"
#include "backends/cpu/optim/optim_internal.h"
#include "backends/cpu/optim/spans.h"

static void *element_at(const br_tensor *t, int64_t offset)
{
    return t ? t->data + offset : NULL;
}

/* Updates elements from .. from + count - 1. All tensors have the parameter's dtype. */
static void update_part(const br_update *u, int64_t from, int64_t count)
{
    const br_kernels *kernels = br__kernels_of(u->param->dtype);
    const int64_t offset = from * (int64_t)br__dtype_size(u->param->dtype);
    void *param = element_at(u->param, offset), *state[BR_UPDATE_STATES];
    const void *grad = element_at(u->grad, offset);
    for (int i = 0; i < BR_UPDATE_STATES; i++)
        state[i] = element_at(u->state[i], offset);
    switch (u->rule) {
    case BR_UPDATE_SGD:
        kernels->sgd(count, param, grad, state[0], &u->args.sgd);
        break;
    case BR_UPDATE_ADAM:
        kernels->adam(count, param, grad, state[0], state[1], state[2], &u->args.adam);
        break;
    case BR_UPDATE_RMSPROP:
        kernels->rmsprop(count, param, grad, state[0], state[1], state[2], &u->args.rmsprop);
        break;
    case BR_UPDATE_ADAGRAD:
        kernels->adagrad(count, param, grad, state[0], &u->args.adagrad);
        break;
    case BR_UPDATE_MUON:
        kernels->muon(count, param, grad, state[1], state[0], &u->args.muon);
        break;
    case BR_UPDATE_HOST:
        u->args.host.update(u->args.host.work, from, count);
        break;
    }
}

static void update_piece(void *context, int64_t piece, int64_t item, int64_t from, int64_t count)
{
    const br_update *updates = context;
    (void)piece;
    update_part(&updates[item], from, count);
}

bool br__cpu_has_update(br_update_rule rule)
{
    (void)rule;
    return true;
}

void br__cpu_update(int64_t n, const br_update *updates, br_loop_span *spans)
{
    for (int64_t i = 0; i < n; i++)
        spans[i].numel = updates[i].param->numel;
    br__layout_spans(n, spans);
    br__for_each_span(n, spans, update_piece, (void *)(uintptr_t)updates);
}
