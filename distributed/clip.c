/* distributed/clip.c - clipping the gradients of a data-parallel module by their total norm.
 *
 * If every rank has all gradients, each computes the norm. If each has only its parts, the norm is
 * computed from the norms of whole parameters, as in one process: the parts of one bucket at a time
 * are sent to one rank, which computes the norms of its parameters. */
#include "distributed/data_parallel.h"

#include <brasa/ops.h>
#include <math.h>
#include <stdlib.h>

static const char op[] = "clip_grad_norm_";

typedef struct collection {
    br_dist_job job;
    const br_dist_group *g;
    const br_bucket *b;
    br_dist_note note;
    int destination;
    void *data;
} collection;

static void run(br_dist_job *job)
{
    collection *c = (collection *)job;
    if (br__dist_agree(job, c->g, &c->note))
        br__dist_collect_parts(job, c->g, c->b->dtype, c->b->own, c->data, c->b->parts,
                               c->destination);
}

static bool has_any(const br_bucket *b)
{
    for (int i = 0; i < b->n_params; i++)
        if (b->params[i]->has_gradient)
            return true;
    return false;
}

/* Stores the norms of the bucket's gradients at one rank. */
static bool find_norms(const br_bucket *b, double norm_type, double *norms)
{
    const br_dist_group *g = br__dist_group(b->owner->group);
    collection c = { .job.run = run, .g = g, .b = b, .destination = b->number % g->size };
    br_scope *scope = br_no_grad_begin();
    br_tensor *all = NULL;
    if (!br_failed() && g->rank == c.destination)
        all = br__new_on_host(op, BR_SHAPE(b->n), b->dtype);
    c.data = all ? br_data(all) : NULL;
    c.note = (br_dist_note){ .op = op,
                             .argument = b->number,
                             .argument_name = "the bucket",
                             .error = br_failed() ? br_error_message() : NULL };
    br__dist_start(&c.job);
    bool ok = br__dist_wait(&c.job) && !br_failed();
    for (int i = 0; ok && all && i < b->n_params; i++) {
        const br_parallel_param *q = b->params[i];
        br_tensor *gradient = br_narrow(all, 0, q->offset, q->numel);
        if (q->has_gradient)
            norms[q - q->owner->params] = br_get_total_norm(1, &gradient, norm_type, false);
    }
    br_scope_end(scope);
    return ok;
}

/* Returns the norm of the norms of the parameters that have gradients. */
static double total_norm(const br_data_parallel *p, br_tensor *norms, double norm_type)
{
    br_tensor **some = br__dist_malloc((size_t)p->n_params * sizeof(br_tensor *));
    int n = 0;
    for (int i = 0; some && i < p->n_params; i++)
        if (p->params[i].has_gradient)
            some[n++] = br_select(norms, 0, i);
    double norm = some ? br_get_total_norm(n, some, norm_type, false) : -1;
    free(some);
    return norm;
}

static double clip_parts(br_data_parallel *p, double max_norm, double norm_type,
                         bool error_if_nonfinite)
{
    br_tensor *norms = br__zeros_on_host(op, BR_SHAPE(p->n_params), BR_F64);
    double *values = norms ? br_data_f64(norms) : NULL;
    for (int k = 0; k < p->n_buckets; k++)
        if (has_any(&p->buckets[k]) && !find_norms(&p->buckets[k], norm_type, values))
            return -1;
    if (!br_dist_all_reduce(norms, BR_DIST_SUM, p->group)) /* all but one rank have 0 */
        return -1;
    double norm = total_norm(p, norms, norm_type), scale = max_norm / (norm + 1e-6);
    if (error_if_nonfinite && !br_failed() && !isfinite(norm))
        br_raise(BR_ERROR_ARGUMENT,
                 "%s: the total norm of the gradients is %g: a gradient is not finite", op, norm);
    for (int k = 0; k < p->n_buckets && !(scale >= 1) && !br_failed(); k++)
        if (has_any(&p->buckets[k]))
            br_mul_scalar_(p->buckets[k].part, scale);
    return br_failed() ? -1 : norm;
}

double br_data_parallel_clip_grad_norm_(br_data_parallel *p, double max_norm, double norm_type,
                                        bool error_if_nonfinite)
{
    if (!br__parallel_is_usable(op, p))
        return -1;
    if (!p->scatter)
        return br_clip_grad_norm_(p->list, max_norm, norm_type, error_if_nonfinite);
    if (!(max_norm >= 0) && !br_failed())
        br_raise(BR_ERROR_ARGUMENT, "%s: max_norm is %g, must not be negative", op, max_norm);
    if (isnan(norm_type) && !br_failed())
        br_raise(BR_ERROR_ARGUMENT, "%s: norm_type is %g, must be a number", op, norm_type);
    br_scope *scope = br_no_grad_begin();
    double norm = clip_parts(p, max_norm, norm_type, error_if_nonfinite);
    br_scope_end(scope);
    return norm;
}
