/* distributed/sharded_optim.c - optimizers whose state is split among the ranks.
 *
 * A rank's part of the gradients (distributed/parts.c) consists of slices of parameters. An
 * ordinary optimizer updates them: its parameters are views of the slices, and their gradients are
 * views of the same elements of the gradients. Then the ranks exchange the slices. */
#include "distributed/sharded.h"
#include "tensor/min_max.h"

#include <brasa/autograd.h>
#include <stdlib.h>
#include <string.h>

/* ---- Construction ---------------------------------------------------------------------------- */

static const char op_new[] = "sharded_optim_new";

static br_parallel_param *find(const br_data_parallel *p, const br_tensor *t)
{
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].param == t)
            return &p->params[i];
    return NULL;
}

static bool is_taken(const br_data_parallel *p, const br_parallel_param *q)
{
    for (const br_sharded_optim *s = p->sharded; s; s = s->next)
        for (int i = 0; i < s->n_params; i++)
            if (s->params[i].q == q)
                return true;
    return false;
}

static bool is_cut(const br_parallel_param *q)
{
    int64_t from, count;
    for (int r = 0; r < br_dist_size(q->owner->group); r++)
        if (br__parallel_slice(q, r, &from, &count) && count < q->numel)
            return true;
    return false;
}

/* Adds a parameter. One that requires no gradient is never updated. */
static bool add(br_sharded_optim *s, const br_named_tensor *item, int group)
{
    br_data_parallel *p = s->parallel;
    br_parallel_param *q = find(p, item->tensor);
    if (!q && !br_requires_grad(item->tensor))
        return true;
    if (!q)
        br_raise(BR_ERROR_ARGUMENT,
                 "%s: %s is not a parameter of the data-parallel module, or did not require a "
                 "gradient when that was created",
                 op_new, item->name);
    else if (is_taken(p, q))
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is already in a sharded optimizer", op_new, item->name);
    else if (!br_is_contiguous(q->param))
        br_raise(BR_ERROR_SHAPE, "%s: %s is not contiguous", op_new, item->name);
    else if (!s->kind->elementwise && p->fixed && !br__sharded_is_alone(s) && is_cut(q))
        br_raise(BR_ERROR_STATE,
                 "%s: %s needs whole parameters, but %s is already split among the ranks: create "
                 "all sharded optimizers before the first step and, with scatter, before the first "
                 "pass",
                 op_new, s->kind->name, item->name);
    if (br_failed())
        return false;
    q->whole |= !s->kind->elementwise || s->kind->supports;
    s->params[s->n_params++] = (br_shard_param){ .q = q, .name = item->name, .group = group };
    return true;
}

static bool add_all(br_sharded_optim *s)
{
    int64_t next = 0;
    s->names = br_optim_group_parameters(s->optim, -1);
    s->params = s->names ? calloc((size_t)s->names->count + 1, sizeof *s->params) : NULL;
    if (s->names && !s->params)
        br_raise(BR_ERROR_MEMORY, "%s: cannot allocate memory", op_new);
    /* The list is in the order of the groups. */
    for (int k = 0; k < br_optim_num_groups(s->optim) && !br_failed(); k++) {
        br_named_list *group = br_optim_group_parameters(s->optim, k);
        for (int64_t i = 0; group && i < group->count && !br_failed(); i++)
            add(s, &s->names->items[next++], k);
        br_named_list_free(group);
    }
    return !br_failed() && (s->parallel->fixed || br__parallel_cut(s->parallel));
}

/* Moves the state that the ordinary optimizer has into the sharded one. */
static bool take_state(br_sharded_optim *s)
{
    br_named_list *state = br_failed() ? NULL : br_optim_state_dict(s->optim), *none = NULL;
    bool ok = br__sharded_agree(op_new, s, state ? state->count : 0);
    if (ok && br__sharded_has_state(s, state)) {
        none = br_named_list_new();
        ok = br_sharded_optim_load_state_dict(s, state) && none &&
             br_optim_load_state_dict(s->optim, none);
    }
    br_named_list_free(none);
    br_named_list_free(state);
    return ok;
}

static void build(br_sharded_optim *s)
{
    if (!s->optim && !br_failed())
        br_raise(BR_ERROR_ARGUMENT, "%s: optim is NULL, but it is required", op_new);
    if (br_failed())
        return;
    s->kind = br_optim_kind_of(s->optim);
    if (s->kind && add_all(s)) {
        s->next = s->parallel->sharded;
        s->parallel->sharded = s;
    }
}

br_sharded_optim *br_sharded_optim_new(br_data_parallel *parallel, br_optim *optim)
{
    bool usable = br__parallel_is_usable(op_new, parallel);
    br_sharded_optim *s = usable ? BR_NEW(br_sharded_optim) : NULL;
    if (!s)
        return NULL;
    s->parallel = parallel;
    s->optim = optim;
    build(s);
    if ((br__sharded_is_alone(s) || take_state(s)) && !br_failed())
        return s;
    br_sharded_optim_free(s);
    return NULL;
}

void br_sharded_optim_free(br_sharded_optim *s)
{
    if (!BR_END("sharded_optim_free", s))
        return;
    if (s->parallel) {
        br_sharded_optim **place = &s->parallel->sharded;
        while (*place && *place != s)
            place = &(*place)->next;
        if (*place)
            *place = s->next;
    }
    br_optim_free(s->local);
    br__sharded_drop_slices(s);
    br_named_list_free(s->names);
    free(s->params);
    BR_FREE(s);
}

/* ---- The step -------------------------------------------------------------------------------- */

static const char op_step[] = "sharded_optim_step";

typedef struct exchange {
    br_dist_job job;
    br_sharded_optim *s;
    const br_dist_group *g;
    br_dist_note note;
    br_dist_part *parts; /* of the ranks in `flat` */
    br_tensor *buffer;   /* of `flat`, owned */
    char *flat;          /* the slices of a bucket, those of each rank together */
    int *index;          /* of a parameter of the module in the optimizer, or -1 */
} exchange;

static void set_bits(br_dist_note *note, uint8_t *bits, const br_sharded_optim *s, int from)
{
    memset(bits, 0, BR_DIST_MAX_BITS / 8);
    note->bits = bits;
    note->n_bits = br__min(s->n_params - from, BR_DIST_MAX_BITS);
    for (int i = 0; i < note->n_bits; i++)
        if (s->params[from + i].has_gradient)
            br__dist_put_bit(bits, i);
}

/* Checks that all ranks have gradients of the same parameters. */
static void run_check(br_dist_job *job)
{
    exchange *e = (exchange *)job;
    uint8_t bits[BR_DIST_MAX_BITS / 8];
    for (int from = 0; from == 0 || from < e->s->n_params; from += BR_DIST_MAX_BITS) {
        set_bits(&e->note, bits, e->s, from);
        if (!br__dist_agree(job, e->g, &e->note))
            return;
        for (int r = 1; r < e->g->size; r++) {
            for (int i = 0; i < e->note.n_bits; i++) {
                bool has = br__dist_bit(e->g, r, i);
                if (has == br__dist_bit(e->g, 0, i))
                    continue;
                br__dist_job_fail(job, "%s: %s has a gradient on rank %d, but not on rank %d",
                                  op_step, e->s->params[from + i].name, e->g->world[has ? r : 0],
                                  e->g->world[has ? 0 : r]);
                job->in_step = true;
                return;
            }
        }
    }
}

static const br_shard_param *member(const exchange *e, const br_parallel_param *q)
{
    int i = e->index[q - q->owner->params];
    return i >= 0 && e->s->params[i].has_gradient ? &e->s->params[i] : NULL;
}

/* Copies the slices of rank r between the parameters and `flat`. Returns the end of the slices. */
static int64_t copy_slices(const exchange *e, const br_bucket *b, int r, int64_t at, bool in,
                           bool out)
{
    size_t size = br_dtype_size(b->dtype);
    int64_t from, count;
    for (int i = 0; i < b->n_params; i++) {
        const br_parallel_param *q = b->params[i];
        if (!member(e, q) || !br__parallel_slice(q, r, &from, &count))
            continue;
        char *slice = (char *)br_data(q->param) + (size_t)from * size;
        if (in)
            memcpy(e->flat + (size_t)at * size, slice, (size_t)count * size);
        if (out)
            memcpy(slice, e->flat + (size_t)at * size, (size_t)count * size);
        at += count;
    }
    return at;
}

static bool exchange_bucket(exchange *e, const br_bucket *b)
{
    int64_t n = 0;
    for (int r = 0; r < e->g->size; r++) {
        e->parts[r].begin = n;
        e->parts[r].end = n = copy_slices(e, b, r, n, r == e->g->rank, false);
    }
    if (n == 0)
        return true;
    if (!br__dist_gather_parts(&e->job, e->g, b->dtype, e->flat, e->parts))
        return false;
    for (int r = 0; r < e->g->size; r++)
        if (r != e->g->rank)
            copy_slices(e, b, r, e->parts[r].begin, false, true);
    return true;
}

static void run_exchange(br_dist_job *job)
{
    exchange *e = (exchange *)job;
    const br_data_parallel *p = e->s->parallel;
    if (!br__dist_agree(job, e->g, &e->note))
        return;
    for (int k = 0; k < p->n_buckets; k++)
        if (!exchange_bucket(e, &p->buckets[k]))
            return;
}

/* Takes the options of the groups from the ordinary optimizer. */
static bool copy_options(const br_sharded_optim *s)
{
    int n = br_optim_num_groups(s->optim);
    if (n != br_optim_num_groups(s->local) && !br_failed())
        br_raise(BR_ERROR_STATE,
                 "%s: the optimizer has %d groups, but had %d: create a new sharded optimizer",
                 op_step, n, br_optim_num_groups(s->local));
    for (int k = 0; k < n && !br_failed(); k++)
        br_optim_set_group_options(s->local, k, br_optim_group_options(s->optim, k));
    return !br_failed();
}

/* Sets the gradients of this rank's slices. */
static bool set_gradients(br_sharded_optim *s)
{
    for (int i = 0; i < s->n_params && !br_failed(); i++) {
        br_shard_param *p = &s->params[i];
        p->has_gradient = br__parallel_has_gradient(p->q);
        if (p->slice && p->has_gradient)
            br_set_grad(p->slice, br__parallel_gradient(p->q, p->from, p->count));
    }
    return !br_failed();
}

/* Allocates the memory for the exchange. */
static bool reserve(exchange *e)
{
    const br_data_parallel *p = e->s->parallel;
    size_t bytes = 0;
    for (int k = 0; k < p->n_buckets; k++) {
        size_t n = (size_t)p->buckets[k].n * br_dtype_size(p->buckets[k].dtype);
        bytes = br__max(n, bytes);
    }
    e->parts = br__dist_malloc((size_t)e->g->size * sizeof *e->parts);
    e->buffer = br__dist_buffer(bytes);
    e->flat = e->buffer ? br_data(e->buffer) : NULL;
    e->index = br__dist_malloc((size_t)p->n_params * sizeof *e->index);
    if (!e->parts || !e->flat || !e->index)
        return false;
    for (int i = 0; i < p->n_params; i++)
        e->index[i] = -1;
    for (int i = 0; i < e->s->n_params; i++)
        e->index[e->s->params[i].q - p->params] = i;
    return true;
}

/* Runs a job on all ranks. Returns false on all of them if it fails or if a rank has an error. */
static bool communicate(exchange *e, void (*run)(br_dist_job *job))
{
    e->job.run = run;
    e->note = br__sharded_note(op_step, e->s);
    br__dist_start(&e->job);
    return br__dist_wait(&e->job) && !br_failed();
}

static bool step(br_sharded_optim *s)
{
    exchange e = { .s = s, .g = br__dist_group(s->parallel->group) };
    if (!br_failed() && copy_options(s) && set_gradients(s))
        reserve(&e);
    bool ok = communicate(&e, run_check);
    if (ok)
        br_optim_step(s->local);
    ok = ok && communicate(&e, run_exchange);
    if (s->local)
        br_optim_zero_grad(s->local);
    for (int i = 0; ok && i < s->n_params; i++)
        if (s->params[i].has_gradient)
            br_bump_version(s->params[i].q->param);
    free(e.parts);
    br_release(e.buffer);
    free(e.index);
    return ok;
}

bool br_sharded_optim_step(br_sharded_optim *s)
{
    if (!br__sharded_begin(op_step, s))
        return false;
    if (br__sharded_is_alone(s))
        return br_optim_step(s->optim);
    br_scope *scope = br_no_grad_begin();
    bool ok = step(s);
    br_scope_end(scope);
    return ok;
}

void br_sharded_optim_zero_grad(br_sharded_optim *s)
{
    if (!BR_LIVE("sharded_optim_zero_grad", s))
        return;
    for (int i = 0; s->parallel && i < s->n_params; i++) {
        br_set_grad(s->params[i].q->param, NULL);
        s->params[i].q->has_gradient = false;
    }
}
