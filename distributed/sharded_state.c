/* distributed/sharded_state.c - the state of a sharded optimizer as that of an ordinary one.
 *
 * To gather the state, the ranks first tell the destination which tensors they have. It creates the
 * whole tensors and receives the slices directly into them. */
#include "distributed/sharded.h"
#include "tensor/min_max.h"

#include <brasa/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Gathering ------------------------------------------------------------------------------- */

static const char op_gather[] = "sharded_optim_state_dict";

/* What a rank tells of one state of one parameter. */
typedef struct head {
    int64_t present, dtype, ndim, sizes[BR_MAX_DIMS];
} head;

typedef struct gathering {
    br_dist_job job;
    br_sharded_optim *s;
    const br_dist_group *g;
    br_dist_note note;
    int destination, n_states;
    int64_t n; /* states of all parameters; state j of parameter i is i n_states + j */
    br_tensor **own, **full; /* [n]: this rank's, borrowed; at the destination: the whole ones */
    head *heads, *all;       /* [n] and, at the destination, [size, n] */
    double *copies;          /* [size]: where copies of single elements are received */
    char *name;              /* memory for the longest name of a state */
} gathering;

static void run_heads(br_dist_job *job)
{
    gathering *c = (gathering *)job;
    size_t bytes = (size_t)c->n * sizeof(head);
    if (!br__dist_agree(job, c->g, &c->note))
        return;
    br_dist_exchange x = br__dist_exchange(job, c->g);
    if (c->g->rank != c->destination)
        br__dist_send_to(&x, c->destination, c->heads, bytes);
    else
        memcpy(c->all + c->g->rank * c->n, c->heads, bytes);
    for (int r = 0; c->g->rank == c->destination && r < c->g->size; r++)
        if (r != c->destination)
            br__dist_recv_from(&x, r, c->all + r * c->n, bytes);
    br__dist_complete(&x);
}

static const head *head_of(const gathering *c, int rank, int64_t k)
{
    return &c->all[rank * c->n + k];
}

static int64_t elements(const head *h)
{
    int64_t n = 1;
    for (int d = 0; d < h->ndim; d++)
        n *= h->sizes[d];
    return n;
}

/* Returns the address where the destination receives a rank's tensor: its place in the whole
 * tensor. Of an element that is the same on several ranks, the first rank's is used. */
static char *place_of(const gathering *c, int rank, int64_t k)
{
    const br_tensor *full = c->full[k];
    int64_t from, count;
    const br_parallel_param *q = c->s->params[k / c->n_states].q;
    bool all = elements(head_of(c, rank, k)) == br_numel(full);
    if (!br__parallel_slice(q, rank, &from, &count) || !all)
        return (char *)br_data(full) + (size_t)from * br_dtype_size(br_dtype_of(full));
    for (int r = 0; r < rank; r++)
        if (head_of(c, r, k)->present)
            return (char *)&c->copies[rank];
    return br_data(full);
}

/* Receives state k from all ranks that have it. */
static bool receive(gathering *c, int64_t k)
{
    br_dist_exchange x = br__dist_exchange(&c->job, c->g);
    for (int r = 0; r < c->g->size; r++) {
        const head *h = head_of(c, r, k);
        if (!h->present)
            continue;
        size_t bytes = (size_t)elements(h) * br_dtype_size((br_dtype)h->dtype);
        if (r == c->g->rank)
            memcpy(place_of(c, r, k), br_data(c->own[k]), bytes);
        else
            br__dist_recv_from(&x, r, place_of(c, r, k), bytes);
    }
    return br__dist_complete(&x);
}

static bool give(gathering *c, int64_t k)
{
    const br_tensor *t = c->own[k];
    br_dist_exchange x = br__dist_exchange(&c->job, c->g);
    if (t)
        br__dist_send_to(&x, c->destination, br_data(t),
                         (size_t)br_numel(t) * br_dtype_size(br_dtype_of(t)));
    return br__dist_complete(&x);
}

static void run_data(br_dist_job *job)
{
    gathering *c = (gathering *)job;
    bool ok = br__dist_agree(job, c->g, &c->note);
    for (int64_t k = 0; ok && k < c->n; k++)
        ok = c->g->rank == c->destination ? receive(c, k) : give(c, k);
}

static size_t length(const gathering *c, int64_t k)
{
    return strlen(c->s->params[k / c->n_states].name) +
           strlen(c->s->kind->states[k % c->n_states].name) + 2;
}

/* Returns "<parameter>.<state>", valid until the next call. */
static const char *name_of(const gathering *c, int64_t k)
{
    snprintf(c->name, length(c, k), "%s.%s", c->s->params[k / c->n_states].name,
             c->s->kind->states[k % c->n_states].name);
    return c->name;
}

static bool reserve(gathering *c)
{
    size_t n = (size_t)c->n + 1, ranks = c->g->rank == c->destination ? (size_t)c->g->size : 0;
    size_t longest = 1;
    for (int64_t k = 0; k < c->n; k++)
        longest = br__max(length(c, k), longest);
    c->name = malloc(longest);
    c->copies = calloc((size_t)c->g->size, sizeof *c->copies);
    c->own = calloc(n, sizeof(br_tensor *));
    c->full = calloc(n, sizeof(br_tensor *));
    c->heads = calloc(n, sizeof *c->heads);
    c->all = calloc(n * ranks + 1, sizeof *c->all);
    if (c->own && c->full && c->heads && c->all && c->copies && c->name)
        return true;
    br_raise(BR_ERROR_MEMORY, "%s: cannot allocate memory", op_gather);
    return false;
}

/* Describes this rank's states, which are in the order of the parameters. */
static void describe(gathering *c, const br_named_list *state)
{
    const br_named_tensor *item = br_named_list_next(state, NULL);
    for (int64_t k = 0; k < c->n && item; k++) {
        if (strcmp(item->name, name_of(c, k)) != 0)
            continue;
        br_tensor *t = item->tensor;
        item = br_named_list_next(state, item);
        c->own[k] = t;
        c->heads[k] = (head){ 1, (int64_t)br_dtype_of(t), br_ndim(t), { 0 } };
        memcpy(c->heads[k].sizes, br_sizes(t), (size_t)br_ndim(t) * sizeof(int64_t));
    }
}

/* Creates the whole tensor of state k and adds it to the list, unless no rank has the state. */
static void add_whole(gathering *c, int64_t k, br_named_list *list)
{
    const br_parallel_param *q = c->s->params[k / c->n_states].q;
    const head *first = NULL;
    bool cut = false, like = true;
    for (int r = 0; r < c->g->size; r++) {
        const head *h = head_of(c, r, k);
        int64_t from, count;
        if (!br__parallel_slice(q, r, &from, &count) || !h->present)
            continue;
        cut |= count < q->numel;
        like &= h->ndim == 1 && h->sizes[0] == count;
        first = first ? first : h;
    }
    if (!first)
        return;
    if (cut && !like && elements(first) != 1) {
        br_raise(BR_ERROR_SHAPE,
                 "%s: %s has neither one element nor the parameter's shape: %s is not elementwise",
                 op_gather, name_of(c, k), c->s->kind->name);
        return;
    }
    br_tensor *t = cut && like ? br__new_on_host(op_gather, br_ndim(q->param), br_sizes(q->param),
                                                 (br_dtype)first->dtype)
                               : br__new_on_host(op_gather, (int)first->ndim, first->sizes,
                                                 (br_dtype)first->dtype);
    if (t && br_named_list_add(list, name_of(c, k), t))
        c->full[k] = t;
}

/* Adds the options of the groups, which are in the optimizer of whole parameters. */
static void add_options(br_named_list *list, br_optim *optim)
{
    br_named_list *options = br_optim_state_dict(optim);
    for (const br_named_tensor *i = NULL; (i = br_named_list_next(options, i));)
        br_named_list_add(list, i->name, i->tensor);
    br_named_list_free(options);
}

/* Runs a job on all ranks. Returns false on all of them if it fails or if a rank has an error. */
static bool communicate(gathering *c, void (*run)(br_dist_job *job))
{
    c->job.run = run;
    c->note = br__sharded_note(op_gather, c->s);
    c->note.argument = c->destination;
    c->note.argument_name = "destination";
    br__dist_start(&c->job);
    return br__dist_wait(&c->job) && !br_failed();
}

static bool gather(gathering *c, br_named_list *list)
{
    if (c->destination < 0 || c->destination >= c->g->size) {
        if (!br_failed())
            br_raise(BR_ERROR_ARGUMENT, "%s: destination is %d, must be in 0 .. %d", op_gather,
                     c->destination, c->g->size - 1);
    } else if (!br_failed()) {
        reserve(c);
    }
    br_named_list *state = br_failed() ? NULL : br_optim_state_dict(c->s->local);
    if (state)
        describe(c, state);
    bool ok = communicate(c, run_heads);
    for (int64_t k = 0; ok && k < c->n && c->g->rank == c->destination && !br_failed(); k++)
        add_whole(c, k, list);
    if (ok && c->g->rank == c->destination && !br_failed())
        add_options(list, c->s->optim);
    ok = ok && communicate(c, run_data);
    br_named_list_free(state);
    return ok;
}

/* The state of an optimizer that is the only one. */
static void copy_all(br_named_list *list, br_optim *optim)
{
    br_named_list *state = br_optim_state_dict(optim);
    for (const br_named_tensor *i = NULL; (i = br_named_list_next(state, i));)
        br_named_list_add(list, i->name, br_clone(i->tensor));
    br_named_list_free(state);
}

br_named_list *br_sharded_optim_state_dict(br_sharded_optim *s, int destination)
{
    if (!br__sharded_begin(op_gather, s))
        return NULL;
    gathering c = { .s = s, .g = br__dist_group(s->parallel->group), .destination = destination };
    while (c.n_states < BR_OPTIM_MAX_STATES && s->kind->states[c.n_states].name)
        c.n_states++;
    c.n = (int64_t)s->n_params * c.n_states;
    br_scope *scope = br_no_grad_begin();
    br_named_list *list = br_failed() ? NULL : br_named_list_new();
    if (br_dist_size(s->parallel->group) > 1)
        gather(&c, list);
    else if (destination != 0 && !br_failed())
        br_raise(BR_ERROR_ARGUMENT, "%s: destination is %d, must be 0", op_gather, destination);
    else if (!br_failed())
        copy_all(list, s->optim);
    br_scope_end(scope);
    free(c.own);
    free(c.full);
    free(c.heads);
    free(c.all);
    free(c.copies);
    free(c.name);
    if (!br_failed())
        return list;
    br_named_list_free(list);
    return NULL;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static const char op_load[] = "sharded_optim_load_state_dict";

/* Finds the parameter of a state's name, "<parameter>.<state>". Returns NULL if there is none.
 * *likely is the number of the parameter that was found before. */
static const br_shard_param *param_of(const br_sharded_optim *s, const char *name, int *likely)
{
    const char *dot = strrchr(name, '.');
    size_t length = dot ? (size_t)(dot - name) : 0;
    bool known = false;
    for (int i = 0; dot && i < BR_OPTIM_MAX_STATES && s->kind->states[i].name; i++)
        known |= strcmp(s->kind->states[i].name, dot + 1) == 0;
    for (int i = 0; known && i < s->n_params; i++) {
        int k = (*likely + i) % s->n_params;
        if (strncmp(s->params[k].name, name, length) != 0 || s->params[k].name[length])
            continue;
        *likely = k;
        return &s->params[k];
    }
    return NULL;
}

bool br__sharded_has_state(const br_sharded_optim *s, const br_named_list *state)
{
    int likely = 0;
    for (const br_named_tensor *i = NULL; (i = br_named_list_next(state, i));)
        if (param_of(s, i->name, &likely))
            return true;
    return false;
}

/* Adds this rank's elements of a state to the list. A name that no parameter has stays in the list:
 * the optimizer of the slices loads the options of groups, and refuses all others. */
static bool select_item(const br_sharded_optim *s, const br_named_tensor *item, int *likely,
                        br_named_list *list)
{
    char shape[2][BR_MAX_DIMS * 22 + 3];
    if (!item->name || !item->tensor) {
        br_raise(BR_ERROR_ARGUMENT, "%s: an item of the state has no %s", op_load,
                 item->name ? "tensor" : "name");
        return false;
    }
    const br_shard_param *p = param_of(s, item->name, likely);
    br_tensor *t = item->tensor;
    if (p && !p->slice)
        return true;
    if (p && p->count < p->q->numel && br_same_shape(t, p->q->param))
        t = br__parallel_slice_of(t, p->from, p->count);
    else if (p && p->count < p->q->numel && br_numel(t) != 1)
        br_raise(BR_ERROR_SHAPE, "%s: %s is %s, but the parameter is %s", op_load, item->name,
                 br_shape_string(t, shape[0], sizeof shape[0]),
                 br_shape_string(p->q->param, shape[1], sizeof shape[1]));
    return !br_failed() && br_named_list_add(list, item->name, t);
}

/* Returns an optimizer of this rank's slices with the state. */
static br_optim *load(const br_sharded_optim *s, const br_named_list *state)
{
    if (!state && !br_failed())
        br_raise(BR_ERROR_ARGUMENT, "%s: state is NULL, but it is required", op_load);
    br_optim *local = br_failed() ? NULL : br__sharded_make_local(s);
    br_named_list *list = local ? br_named_list_new() : NULL;
    int likely = 0;
    for (int64_t i = 0; list && i < state->count && !br_failed(); i++)
        select_item(s, &state->items[i], &likely, list);
    if (list && !br_failed())
        br_optim_load_state_dict(local, list);
    br_named_list_free(list);
    return local;
}

/* Loads the options of the groups, which load() has checked, into the optimizer of whole
 * parameters: each step uses its options. */
static bool load_options(const br_sharded_optim *s, const br_named_list *state)
{
    br_named_list *options = br_named_list_new();
    int likely = 0;
    for (const br_named_tensor *i = NULL; options && (i = br_named_list_next(state, i));)
        if (!param_of(s, i->name, &likely))
            br_named_list_add(options, i->name, i->tensor);
    bool ok = options && !br_failed() && br_optim_load_state_dict(s->optim, options);
    br_named_list_free(options);
    return ok;
}

bool br_sharded_optim_load_state_dict(br_sharded_optim *s, const br_named_list *state)
{
    if (!br__sharded_begin(op_load, s))
        return false;
    if (br_dist_size(s->parallel->group) == 1)
        return br_optim_load_state_dict(s->optim, state);
    br_scope *scope = br_no_grad_begin();
    br_optim *local = load(s, state);
    bool ok = br__sharded_agree(op_load, s, state ? state->count : 0);
    br_scope_end(scope);
    /* A rank keeps its old state if any rank could not load the new one. */
    br_optim_free(ok ? s->local : local);
    s->local = ok ? local : s->local;
    return ok && load_options(s, state);
}
