/* distributed/sharded.c - what the functions of sharded optimizers begin with: an agreement of the
 * ranks, and this rank's slices of the parameters. */
#include "distributed/sharded.h"

/* ---- Agreements ------------------------------------------------------------------------------ */

br_dist_note br__sharded_note(const char *op, const br_sharded_optim *s)
{
    return (br_dist_note){ .op = op,
                           .argument = s->n_params,
                           .argument_name = "the number of parameters",
                           .subject = s->kind ? s->kind->name : NULL,
                           .error = br_failed() ? br_error_message() : NULL };
}

typedef struct agreement {
    br_dist_job job;
    const br_dist_group *g;
    br_dist_note note;
} agreement;

static void run_agreement(br_dist_job *job)
{
    const agreement *a = (agreement *)job;
    br__dist_agree(job, a->g, &a->note);
}

bool br__sharded_agree(const char *op, const br_sharded_optim *s, int64_t n_states)
{
    agreement a = { .job.run = run_agreement,
                    .g = br__dist_group(s->parallel->group),
                    .note = br__sharded_note(op, s) };
    a.note.argument = n_states;
    a.note.argument_name = "the number of states";
    br__dist_start(&a.job);
    return br__dist_wait(&a.job) && !br_failed();
}

/* ---- Slices ---------------------------------------------------------------------------------- */

br_optim *br__sharded_make_local(const br_sharded_optim *s)
{
    br_optim *local = br_optim_new(s->kind, NULL, br_optim_group_options(s->optim, -1));
    for (int k = 0; local && k < br_optim_num_groups(s->optim) && !br_failed(); k++) {
        br_named_list *list = br_named_list_new();
        for (int i = 0; i < s->n_params; i++)
            if (s->params[i].slice && s->params[i].group == k)
                br_named_list_add(list, s->params[i].name, s->params[i].slice);
        br_optim_add_group(local, list, br_optim_group_options(s->optim, k));
        br_named_list_free(list);
    }
    if (!br_failed())
        return local;
    br_optim_free(local);
    return NULL;
}

void br__sharded_drop_slices(br_sharded_optim *s)
{
    for (int i = 0; i < s->n_params; i++) {
        br_release(s->params[i].slice);
        s->params[i].slice = NULL;
    }
}

/* Creates this rank's slices. From then on, the buckets must not change. */
static bool make_slices(br_sharded_optim *s)
{
    if (s->local || br__sharded_is_alone(s))
        return true;
    s->parallel->fixed = true;
    br_scope *scope = br_no_grad_begin();
    for (int i = 0; i < s->n_params && !br_failed(); i++) {
        br_shard_param *p = &s->params[i];
        if (br__parallel_slice(p->q, br_dist_rank(s->parallel->group), &p->from, &p->count))
            p->slice = br_retain(br__parallel_slice_of(p->q->param, p->from, p->count));
    }
    br_scope_end(scope);
    s->local = br_failed() ? NULL : br__sharded_make_local(s);
    if (!s->local)
        br__sharded_drop_slices(s);
    return s->local != NULL;
}

bool br__sharded_begin(const char *op, br_sharded_optim *optim)
{
    if (!optim)
        br_require(op, "optim", optim);
    if (!BR_LIVE(op, optim))
        return false;
    if (!br_failed() && !optim->parallel)
        br_raise(BR_ERROR_STATE,
                 "%s: the data-parallel module was freed before its sharded optimizer", op);
    if (!optim->parallel)
        return false;
    if (!br_failed())
        make_slices(optim);
    return true;
}
