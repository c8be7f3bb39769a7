/* distributed/data_parallel.c - data-parallel modules: gradients are reduced over the ranks while
 * backward still runs.
 *
 * Two hooks on each parameter do the work. The first is called with the complete gradient of a
 * pass, before it is added to the gradient of earlier passes, and puts the latter aside. The second
 * copies the pass's gradient into its bucket. A bucket is sent when its last gradient has arrived
 * and all buckets before it were sent: so all ranks send them in the same order. When the pass
 * ends, the remaining buckets are sent, whose missing gradients the pass did not reach. */
#include "distributed/sharded.h"

#include <brasa/autograd.h>
#include <brasa/ops.h>
#include <brasa/profile.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char op[] = "data_parallel";

br_data_parallel_options br_data_parallel_defaults(void)
{
    return (br_data_parallel_options){ br_data_parallel_default_fields };
}

/* ---- Buckets --------------------------------------------------------------------------------- */

static char *place_of(char *base, const br_parallel_param *q)
{
    return base + (size_t)q->offset * br_dtype_size(q->bucket->dtype);
}

/* Returns true if the bucket holds a gradient of earlier passes of the parameter. */
static bool holds(const br_parallel_param *q)
{
    const br_tensor *grad = q->state == BR_PARAM_UNSYNCED ? NULL : br_grad_of(q->param);
    if (q->owner->scatter && grad && !br_failed())
        br_raise(BR_ERROR_STATE,
                 "%s: a gradient of %s was set, but with scatter, gradients are not tensors of the "
                 "parameters",
                 op, q->name);
    if (q->owner->scatter)
        return q->has_gradient;
    if (grad && br_data(grad) != br_data(q->view)) /* another tensor was set as the gradient */
        br_copy_(q->view, br_grad_of(q->param));
    return grad != NULL;
}

/* Finds out which gradients the bucket holds, before this rank's first gradient of a pass is copied
 * into the bucket. If its memory holds any, this rank's gradients go into a copy. */
static bool prepare(br_bucket *b)
{
    bool copy = b->owner->scatter;
    if (!br__bucket_moves(b, BR_BUCKET_PREPARES))
        return false;
    memset(b->bits, 0, sizeof b->bits);
    b->waiting = b->n_params;
    b->error[0] = '\0';
    b->flags = 0;
    for (int i = 0; i < b->n_params; i++) {
        if (!holds(b->params[i]))
            continue;
        br__dist_put_bit(b->bits, b->n_params + i);
        copy = true;
    }
    if (!copy || !br__bucket_make_part(b) || br_failed())
        return !br_failed();
    b->copy = br__dist_buffer((size_t)b->n * br_dtype_size(b->dtype));
    if (b->copy)
        b->send = br_data(b->copy);
    return !br_failed();
}

static void start(br_bucket *b, br_bucket_event event)
{
    if (br_failed())
        snprintf(b->error, sizeof b->error, "%s", br_error_message());
    if (br__bucket_moves(b, event))
        br__dist_start(&b->job);
}

/* Waits for the bucket's job. Returns false if it failed or was never started. */
static bool finish(br_bucket *b)
{
    const bool ok = b->state == BR_BUCKET_SENT && br__dist_wait(&b->job);
    return br__bucket_moves(b, BR_BUCKET_ENDS) && ok;
}

/* Starts the jobs of the full buckets whose turn it is. */
static void start_full(br_data_parallel *p)
{
    while (p->started < p->n_buckets && p->buckets[p->started].state == BR_BUCKET_FULL)
        start(&p->buckets[p->started++], BR_BUCKET_STARTS);
}

/* Starts the jobs of the buckets that are left, also those with missing gradients. */
static void start_rest(br_data_parallel *p)
{
    for (; p->started < p->n_buckets; p->started++) {
        br_bucket *b = &p->buckets[p->started];
        if (b->state == BR_BUCKET_IDLE)
            prepare(b);
        start(b, BR_BUCKET_STARTS);
    }
}

/* Notes that it is the parameter's turn in the order of arrival, unless it has had it. */
static void note_arrival(br_parallel_param *q)
{
    if (q->arrival >= 0)
        return;
    q->arrival = q->owner->n_arrived++;
    q->owner->order[q->arrival] = q - q->owner->params;
}

/* Copies the parameter's gradient, which only this rank has seen, into its bucket. `event` tells
 * whether it is complete. */
static void copy_in(br_parallel_param *q, br_tensor *grad, br_param_event event)
{
    br_bucket *b = q->bucket;
    if (!br__param_moves(q, event))
        return;
    br_scope *scope = br_no_grad_begin();
    grad = br_contiguous(br_detach(grad));
    if (grad && b->send)
        memcpy(place_of(b->send, q), br_data(grad), (size_t)q->numel * br_dtype_size(b->dtype));
    br_scope_end(scope);
    br__dist_put_bit(b->bits, q->place);
    note_arrival(q);
    if (--b->waiting == 0)
        br__bucket_moves(b, BR_BUCKET_FILLS);
}

/* The parameter's gradient of this pass, and of passes before it that were not reduced, is
 * complete. */
static void complete(br_parallel_param *q)
{
    br_tensor *grad = br_grad_of(q->param);
    if (q->state == BR_PARAM_EARLY)
        br__param_moves(q, BR_PARAM_ARRIVES);
    else
        copy_in(q, grad, BR_PARAM_ARRIVES);
    br__early_complete(q->bucket->early, grad);
    br_set_grad(q->param, NULL);
}

/* ---- A pass ---------------------------------------------------------------------------------- */

static void end_pass(void *context);

static void begin_pass(br_data_parallel *p)
{
    if (p->in_pass)
        return;
    p->in_pass = true;
    p->started = p->n_arrived = 0;
    p->fixed |= p->scatter;
    for (int i = 0; i < p->n_params; i++)
        p->params[i].arrival = -1;
    br_queue_callback(end_pass, p);
}

/* Called with a gradient that still lacks parts, which change few of its rows. Sends it, if the
 * parameter has a bucket for that which holds no gradient of earlier passes. */
static void on_partial(br_tensor *grad, void *context)
{
    br_parallel_param *q = context;
    br_bucket *b = q->bucket;
    if (!q->owner->sync)
        return;
    begin_pass(q->owner);
    q->has_partial = true;
    note_arrival(q);
    if (!b->early || b->state != BR_BUCKET_IDLE || q->state != BR_PARAM_SYNCED || !prepare(b) ||
        br__dist_get_bit(b->bits, b->n_params))
        return;
    copy_in(q, grad, BR_PARAM_SENDS);
    br__early_sends(b->early);
    start_full(q->owner);
}

/* Called with the complete gradient of a pass, before it is added to the parameter's gradient. */
static br_tensor *on_gradient(br_tensor *grad, void *context)
{
    br_parallel_param *q = context;
    (void)grad;
    if (!q->owner->sync)
        return NULL;
    begin_pass(q->owner);
    if (q->bucket->state == BR_BUCKET_IDLE)
        prepare(q->bucket);
    if (q->state != BR_PARAM_UNSYNCED) /* the gradient of earlier passes is in the bucket */
        br_set_grad(q->param, NULL);
    return NULL;
}

static void on_accumulated(br_tensor *param, void *context)
{
    br_parallel_param *q = context;
    (void)param;
    if (!q->owner->sync) {
        br__param_moves(q, BR_PARAM_KEEPS);
        return;
    }
    complete(q);
    start_full(q->owner);
}

/* Adds communication to the profile that is running, if any. */
static void show(const br_dist_job *job, const br_bucket *b, int64_t elements, const char *of)
{
    char name[80];
    snprintf(name, sizeof name, "bucket %d, %.1f MiB%s", b->number,
             (double)elements * (double)br_dtype_size(b->dtype) / 0x1p20, of);
    br_profile_add_span("communication", name, job->begun, job->ended);
}

static void show_all(const br_data_parallel *p)
{
    for (int k = 0; k < p->n_buckets; k++)
        show(&p->buckets[k].job, &p->buckets[k], p->buckets[k].n, "");
    for (int k = 0; k < p->n_buckets; k++) {
        const br_early *e = p->buckets[k].early;
        if (e && e->sent_by_any)
            show(&e->job, e->bucket, e->replaced * e->width, " of changed rows");
    }
}

/* Waits for the jobs of all buckets and frees all copies. In a profile, the range is the time of
 * communication that backward did not hide. */
static bool wait_for_buckets(br_data_parallel *p)
{
    bool ok = true;
    uint64_t range = br_profile_range_begin("data_parallel: wait for buckets");
    for (int k = 0; k < p->n_buckets; k++) {
        ok &= finish(&p->buckets[k]);
        br__bucket_drop_copy(&p->buckets[k]);
    }
    ok &= br__early_wait(p);
    br_profile_range_end(range);
    if (ok)
        show_all(p);
    return ok;
}

/* Makes the views of the buckets the gradients of the parameters. */
static void hand_out(br_data_parallel *p)
{
    for (int i = 0; i < p->n_params; i++) {
        br_parallel_param *q = &p->params[i];
        if (!q->has_gradient || p->scatter)
            continue;
        br_bump_version(q->view);
        br_set_grad(q->param, q->view);
    }
}

/* After the first pass, orders the buckets as gradients arrived on rank 0, and decides by what it
 * saw which of them may be sent early. */
static void follow_arrival(br_data_parallel *p)
{
    br_scope *scope = br_no_grad_begin();
    for (int i = p->n_params - 1; i >= 0; i--) /* those that the pass did not reach */
        if (p->params[i].arrival < 0)
            p->order[p->n_arrived++] = i;
    br_tensor *orders = br__zeros_on_host(op, BR_SHAPE(p->n_params, 2), BR_I64);
    int64_t *order = orders ? br_data_i64(orders) : NULL;
    for (int i = 0; order && i < p->n_params; i++) {
        order[2 * i] = p->order[i];
        order[2 * i + 1] = p->params[p->order[i]].has_partial;
    }
    if (br__dist_broadcast(orders, 0, p->group, "the order of the gradients")) {
        for (int i = 0; i < p->n_params; i++) {
            p->order[i] = order[2 * i];
            p->params[p->order[i]].has_partial = order[2 * i + 1];
        }
        p->in_arrival_order = br__parallel_make_buckets(p, p->order);
    }
    br_scope_end(scope);
}

static void end_pass(void *context)
{
    br_data_parallel *p = context;
    br_scope *scope = br_no_grad_begin();
    for (int i = 0; i < p->n_params; i++) {
        br_parallel_param *q = &p->params[i];
        if (q->state != BR_PARAM_UNSYNCED || !br_grad_of(q->param) || br_failed())
            continue;
        /* Passes without reduction reached it, this one did not. */
        if (q->bucket->state != BR_BUCKET_IDLE || prepare(q->bucket))
            complete(q);
    }
    start_rest(p);
    br__early_start(p);
    const bool ok = wait_for_buckets(p) && !br_failed();
    p->in_pass = false;
    for (int i = 0; i < p->n_params; i++)
        br__param_moves(&p->params[i], ok ? BR_PARAM_PASS_ENDS : BR_PARAM_FAILS);
    if (ok)
        hand_out(p);
    if (ok && !p->in_arrival_order && !p->fixed && !br_failed())
        follow_arrival(p);
    br_scope_end(scope);
}

/* ---- Construction ---------------------------------------------------------------------------- */

/* Copies rank `source`'s tensors to the other ranks. `what` names them in messages. */
static bool broadcast_all(const br_data_parallel *p, const br_named_list *list, const char *what,
                          int source)
{
    char subject[96];
    for (const br_named_tensor *i = NULL; (i = br_named_list_next(list, i));) {
        if (br_quantized_type(i->tensor)) /* every rank has mapped the same file */
            continue;
        snprintf(subject, sizeof subject, "%s %s", what, i->name);
        if (!br__dist_broadcast(i->tensor, source, p->group, subject))
            return false;
    }
    return !br_failed();
}

/* Compares the numbers of tensors and the options with rank 0's, so that a rank with more layers is
 * found before the first broadcast waits for it. */
static bool same_on_all_ranks(const br_data_parallel *p)
{
    static const char *const names[] = { "parameters", "buffers" };
    const int64_t counts[] = { p->list ? p->list->count : 0, p->buffers ? p->buffers->count : 0,
                               p->scatter };
    br_scope *scope = br_no_grad_begin();
    br_tensor *given = br_to_device(br_from_i64(BR_SHAPE(3), counts), (br_device){ BR_CPU, 0 });
    br_tensor *all = br_dist_all_gather(given, p->group);
    for (int64_t r = 1; all && r < br_size(all, 0) && !br_failed(); r++) {
        const int64_t *own = br_data_i64(all) + 3 * r, *first = br_data_i64(all);
        int k = own[0] != first[0] ? 0 : 1;
        if (own[k] != first[k])
            br_raise(BR_ERROR_SHAPE,
                     "%s: the module has %lld %s on rank %lld, but %lld on rank 0: every rank must "
                     "create the same module",
                     op, (long long)own[k], names[k], (long long)r, (long long)first[k]);
        else if (own[2] != first[2])
            br_raise(BR_ERROR_ARGUMENT,
                     "%s: scatter is %s on rank %lld, but %s on rank 0: all ranks must pass the "
                     "same options",
                     op, own[2] ? "true" : "false", (long long)r, first[2] ? "true" : "false");
    }
    br_scope_end(scope);
    return !br_failed();
}

static br_tensor *on_forward(br_module *module, br_tensor *x, void *context)
{
    const br_data_parallel *p = context;
    (void)x;
    if (p->sync && br_is_training(module) && br_grad_enabled())
        broadcast_all(p, p->buffers, "buffer", 0);
    return NULL;
}

/* Adds the hooks of the parameters that require a gradient. */
static bool watch(br_data_parallel *p)
{
    for (const br_named_tensor *i = NULL; (i = br_named_list_next(p->list, i));) {
        if (!br_requires_grad(i->tensor))
            continue;
        br_parallel_param *q = &p->params[p->n_params++];
        *q = (br_parallel_param){
            .owner = p, .param = br_retain(i->tensor), .name = i->name, .numel = br_numel(i->tensor)
        };
        /* One rank alone needs this hook, too: without it, each summand of a pass's gradient would
         * be added to the gradients of earlier passes by itself, in another order. */
        q->hook = br_register_hook(q->param, on_gradient, q);
        if (p->sync)
            q->accumulated_hook =
                br_register_post_accumulate_grad_hook(q->param, on_accumulated, q);
        if (p->sync)
            q->partial_hook = br_register_partial_grad_hook(q->param, on_partial, q);
        if (!q->hook || (p->sync && !(q->accumulated_hook && q->partial_hook)))
            return false;
    }
    return true;
}

static bool check_options(const br_data_parallel_options *o)
{
    if (br_failed())
        return false;
    if (o->struct_size != sizeof *o)
        br_raise(BR_ERROR_ARGUMENT,
                 "%s: the options were not made by BR_OPTIONS(br_data_parallel, ...)", op);
    else if (o->reduction != BR_DIST_SUM && o->reduction != BR_DIST_MEAN)
        br_raise(BR_ERROR_ARGUMENT, "%s: reduction must be BR_DIST_MEAN or BR_DIST_SUM", op);
    else if (!(o->bucket_cap_mb > 0 && o->first_bucket_cap_mb > 0))
        br_raise(BR_ERROR_ARGUMENT,
                 "%s: bucket_cap_mb is %g and first_bucket_cap_mb is %g, must be greater than 0",
                 op, o->bucket_cap_mb, o->first_bucket_cap_mb);
    return !br_failed();
}

static bool build(br_data_parallel *p)
{
    p->list = br_parameters(p->module);
    p->buffers = p->list ? br_buffers(p->module) : NULL;
    size_t n = p->list ? (size_t)p->list->count : 0;
    p->params = br__dist_malloc(n * sizeof *p->params);
    p->order = br__dist_malloc(n * sizeof *p->order);
    if (!same_on_all_ranks(p) || !broadcast_all(p, p->list, "parameter", 0) ||
        !broadcast_all(p, p->buffers, "buffer", 0) || !watch(p))
        return false;
    if (!p->sync)
        return true;
    for (int i = 0; i < p->n_params; i++)
        p->order[i] = p->n_params - 1 - i;
    return br__parallel_make_buckets(p, p->order);
}

br_data_parallel *br_data_parallel_new(br_module *module, const br_data_parallel_options *options)
{
    br_data_parallel_options defaults = br_data_parallel_defaults();
    const br_data_parallel_options *o = options ? options : &defaults;
    check_options(o);
    if (!module && !br_failed())
        br_raise(BR_ERROR_ARGUMENT, "%s: module is NULL, but it is required", op);
    br_data_parallel *p = BR_NEW(br_data_parallel);
    if (!p)
        return NULL;
    *p = (br_data_parallel){ .group = o->group,
                             .module = module,
                             .reduction = o->reduction,
                             .cap = o->bucket_cap_mb,
                             .first_cap = o->first_bucket_cap_mb,
                             .sync = br_dist_size(o->group) > 1,
                             .scatter = o->scatter && br_dist_size(o->group) > 1 };
    bool ok = build(p);
    if (ok && o->forward_sync_buffers && p->buffers->count > 0 && br_dist_size(p->group) > 1)
        p->buffer_hook = br_module_register_forward_pre_hook(module, on_forward, p);
    if (ok && !br_failed())
        return p;
    br_data_parallel_free(p);
    return NULL;
}

/* The optimizers of a module that is freed know that there is no module any more. */
static void leave_optimizers(br_data_parallel *p)
{
    for (br_sharded_optim *s = p->sharded, *next; s; s = next) {
        next = s->next;
        s->next = NULL;
        s->parallel = NULL;
    }
    p->sharded = NULL;
}

void br_data_parallel_free(br_data_parallel *p)
{
    if (!BR_END("data_parallel_free", p))
        return;
    leave_optimizers(p);
    for (int i = 0; i < p->n_params; i++) {
        br_remove_hook(p->params[i].param, p->params[i].hook);
        br_remove_hook(p->params[i].param, p->params[i].accumulated_hook);
        br_remove_hook(p->params[i].param, p->params[i].partial_hook);
        br_release(p->params[i].param);
    }
    if (p->buffer_hook)
        br_module_remove_hook(p->module, p->buffer_hook);
    br__parallel_free_buckets(p);
    br_named_list_free(p->list);
    br_named_list_free(p->buffers);
    free(p->params);
    free(p->order);
    BR_FREE(p);
}

bool br__parallel_is_usable(const char *op_name, const br_data_parallel *parallel)
{
    if (!parallel)
        br_require(op_name, "parallel", parallel);
    return BR_LIVE(op_name, parallel);
}

void br_data_parallel_set_sync(br_data_parallel *p, bool sync)
{
    if (br__parallel_is_usable("data_parallel_set_sync", p))
        p->sync = sync && br_dist_size(p->group) > 1;
}

/* ---- Uneven data ----------------------------------------------------------------------------- */

/* Takes part in one pass of the other ranks. Returns false when all ranks have joined, or on
 * error. */
static bool follow_pass(br_data_parallel *p)
{
    for (int k = 0; k < p->n_buckets; k++) {
        br_bucket *b = &p->buckets[k];
        memset(b->bits, 0, sizeof b->bits);
        b->flags = BR_JOINED;
        b->error[0] = '\0';
        start(b, BR_BUCKET_JOINS);
        if (!finish(b) || b->all_joined)
            return false;
    }
    br__early_start(p);
    return br__early_wait(p);
}

bool br_data_parallel_join(br_data_parallel *p)
{
    if (!br__parallel_is_usable("data_parallel_join", p) || br_dist_size(p->group) == 1 ||
        p->n_buckets == 0)
        return !br_failed();
    /* The order of arrival is exchanged after the first pass, whether this rank made it or not. */
    while (follow_pass(p)) {
        if (!p->in_arrival_order && !p->fixed) {
            p->n_arrived = 0;
            follow_arrival(p);
        }
    }
    return !br_failed() && broadcast_all(p, p->list, "parameter", p->active) &&
           broadcast_all(p, p->buffers, "buffer", p->active);
}
