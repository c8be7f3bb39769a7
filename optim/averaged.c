/* optim/averaged.c - averages of a model's weights over the training steps, like torch.optim's
 * swa_utils.AveragedModel: an exponential moving average, or the mean of stochastic weight
 * averaging (Izmailov et al., 2018, arXiv 1803.05407). */
#include "optim/optim_internal.h"

static const char op[] = "averaged_model";

struct br_averaged_model {
    br_named_list *params;   /* references to the model's parameters */
    br_named_list *averages; /* under the same names, contiguous */
    br_tensor *n_averaged;   /* stays in the host's memory */
    br_update *updates;      /* of each average; the gradient is its parameter */
    br_loop_span *spans;
    double decay;
};

/* ---- Lifetime -------------------------------------------------------------------------------- */

static bool add_copies(br_averaged_model *self, const br_named_list *params)
{
    self->params = br__named_list_new(true);
    self->averages = br__named_list_new(true);
    for (int64_t i = 0; self->params && self->averages && i < params->count; i++) {
        const br_named_tensor *p = &params->items[i];
        br_tensor *copy =
            br__required(op, p->name, p->tensor) ? br__dense_copy(op, p->tensor) : NULL;
        if (!copy || !br__named_list_add(self->params, p->name, p->tensor) ||
            !br__named_list_add(self->averages, p->name, copy))
            return false;
    }
    size_t n = (size_t)params->count;
    self->n_averaged = br_retain(br__zeros_on_host(op, BR_SCALAR, BR_I64));
    self->updates = br_calloc(n, sizeof *self->updates);
    self->spans = br_calloc(n, sizeof *self->spans);
    return self->updates && self->spans && !br_failed();
}

br_averaged_model *br_averaged_model_new(br_module *model, double decay)
{
    if (!br__not_negative(op, "decay", decay) || !br__in_unit_interval(op, "decay", decay))
        return NULL;
    br_named_list *params = br__collect(op, model, 0);
    br_averaged_model *self = params ? BR_NEW(br_averaged_model) : NULL;
    br_scope *scope = br_scope_begin();
    bool ok = self && add_copies(self, params);
    br_scope_end(scope);
    br_named_list_free(params);
    if (ok) {
        self->decay = decay;
        return self;
    }
    br_averaged_model_free(self);
    return NULL;
}

void br_averaged_model_free(br_averaged_model *self)
{
    if (!BR_END("averaged_model_free", self))
        return;
    br_named_list_free(self->params);
    br_named_list_free(self->averages);
    br_release(self->n_averaged);
    br_free(self->updates);
    br_free(self->spans);
    BR_FREE(self);
}

static bool usable(const br_averaged_model *self)
{
    return br__required(op, "averaged", self);
}

/* ---- Updating -------------------------------------------------------------------------------- */

/* Makes the parameters contiguous. Only this part of an update can fail. */
static bool prepare(br_averaged_model *self)
{
    for (int64_t i = 0; i < self->params->count; i++) {
        const br_named_tensor *p = &self->params->items[i];
        if (p->tensor->dtype != self->averages->items[i].tensor->dtype) {
            br_fail(BR_ERROR_DTYPE, op,
                    "%s is %s, but its average is %s: create a new averaged model", p->name,
                    br_dtype_name(p->tensor->dtype),
                    br_dtype_name(self->averages->items[i].tensor->dtype));
            return false;
        }
        self->updates[i] = (br_update){ .param = self->averages->items[i].tensor,
                                        .grad = br_contiguous(br_detach(p->tensor)) };
        if (!self->updates[i].grad || !BR_BACKEND(op, self->updates[i].param, update))
            return false;
    }
    return true;
}

/* Sets the averages to the parameters. */
static void begin_averages(br_averaged_model *self)
{
    for (int64_t i = 0; i < self->averages->count; i++)
        br__copy(self->averages->items[i].tensor, self->updates[i].grad);
}

/* Computes average += weight (parameter - average). This is an SGD step with lr -weight, the
 * parameter as gradient, and weight decay -1. */
static void move_averages(br_averaged_model *self, double weight)
{
    for (int64_t i = 0; i < self->averages->count; i++) {
        self->updates[i].rule = BR_UPDATE_SGD;
        self->updates[i].args.sgd = (br_sgd_args){ .lr = -weight, .weight_decay = -1 };
    }
    br__update(self->averages->count, self->updates, self->spans);
}

bool br_averaged_model_update(br_averaged_model *self)
{
    br_scope *scope = usable(self) ? br_no_grad_begin() : NULL;
    bool ok = scope && prepare(self);
    if (ok) {
        int64_t n = ++*br__host_counter(self->n_averaged);
        if (n == 1)
            begin_averages(self);
        else
            move_averages(self, self->decay > 0 ? 1 - self->decay : 1 / (double)n);
        for (int64_t i = 0; i < self->averages->count; i++)
            br__changed_by(self->averages->items[i].tensor, "averaged_model_update");
    }
    br_scope_end(scope);
    return ok;
}

const br_named_list *br_averaged_model_parameters(const br_averaged_model *self)
{
    return usable(self) ? self->averages : NULL;
}

/* ---- State ----------------------------------------------------------------------------------- */

#define PREFIX "module."

br_named_list *br_averaged_model_state_dict(const br_averaged_model *self)
{
    br_named_list *list = usable(self) ? br__named_list_new(false) : NULL;
    bool ok = list && br__named_list_add(list, "n_averaged", self->n_averaged);
    for (int64_t i = 0; ok && i < self->averages->count; i++) {
        char *name = br_format(PREFIX "%s", self->averages->items[i].name);
        ok = name && br__named_list_add(list, name, self->averages->items[i].tensor);
        br_free(name);
    }
    if (ok)
        return list;
    br_named_list_free(list);
    return NULL;
}

/* Returns the tensor of `state` for an item of the average's own state. Returns NULL and sets an
 * error if it is missing or does not match. */
static br_tensor *matching(const br_named_tensor *item, const br_named_list *state)
{
    br_tensor *t = br_named_list_get(state, item->name);
    if (!t)
        return br_fail(BR_ERROR_ARGUMENT, op, "%s is missing", item->name);
    if (br__same_shape(t, item->tensor) && t->dtype == item->tensor->dtype)
        return t;
    return br_fail(BR_ERROR_SHAPE, op, "%s is %s %s, must be %s %s", item->name,
                   br_dtype_name(t->dtype), br__shape(t), br_dtype_name(item->tensor->dtype),
                   br__shape(item->tensor));
}

static bool load(const br_named_list *own, const br_named_list *state)
{
    if (own->count != state->count)
        br_fail(BR_ERROR_ARGUMENT, op, "the state has %lld tensors, must have %lld",
                (long long)state->count, (long long)own->count);
    for (int64_t i = 0; !br_failed() && i < own->count; i++)
        matching(&own->items[i], state);
    for (int64_t i = 0; !br_failed() && i < own->count; i++) {
        if (!br__transfer(op, own->items[i].tensor, br_named_list_get(state, own->items[i].name)))
            return false;
        br__changed_by(own->items[i].tensor, "averaged_model_load_state_dict");
    }
    return !br_failed();
}

bool br_averaged_model_load_state_dict(br_averaged_model *self, const br_named_list *state)
{
    br_named_list *own = br_averaged_model_state_dict(self);
    bool ok = own && br__required(op, "state", state) && load(own, state);
    br_named_list_free(own);
    return ok;
}
