/* distributed/make_buckets.c - assigns the parameters of a data-parallel module to buckets. */
#include "distributed/data_parallel.h"

#include <brasa/autograd.h>
#include <brasa/ops.h>
#include <stdlib.h>

enum { ALIGNMENT = 16 }; /* elements; each gradient begins at a cache line */

/* Returns the gradient's view of the bucket, with a reference of its own. */
static br_tensor *view_of(const br_parallel_param *q)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *flat = br_narrow(q->bucket->memory, 0, q->offset, q->numel);
    br_tensor *view = br_retain(br_view(flat, br_ndim(q->param), br_sizes(q->param)));
    br_scope_end(scope);
    return view;
}

static br_bucket *add_bucket(br_bucket *buckets, int *n, br_dtype dtype)
{
    br_bucket *b = &buckets[*n];
    *b = (br_bucket){ .job.run = br__bucket_run, .number = *n, .dtype = dtype };
    ++*n;
    return b;
}

/* Assigns the parameters to buckets: a bucket ends when it is full or the dtype changes. A gradient
 * that fills a bucket and may be sent early has one of its own. Returns the number of buckets. */
static int assign(br_data_parallel *p, const int64_t *order, br_bucket *buckets)
{
    int n = 0;
    br_bucket *b = NULL;
    for (int i = 0; i < p->n_params; i++) {
        br_parallel_param *q = &p->params[order[i]];
        br_dtype dtype = br_dtype_of(q->param);
        double elements = 0x1p20 / (double)br_dtype_size(dtype);
        double cap = (n <= 1 ? p->first_cap : p->cap) * elements;
        bool alone = q->has_partial && (double)q->numel >= p->cap * elements;
        bool full = b && ((double)(b->n + q->numel) > cap || alone || b->alone);
        if (!b || full || b->dtype != dtype || b->n_params == BR_BUCKET_MAX_PARAMS)
            b = add_bucket(buckets, &n, dtype);
        b->alone = alone;
        q->place = b->n_params++;
        q->next_bucket = b->number;
        q->offset = b->n;
        b->n += (q->numel + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    return n;
}

static bool fill(br_data_parallel *p, br_bucket *b)
{
    br_scope *scope = br_no_grad_begin();
    b->owner = p;
    if (!p->scatter)
        b->memory = br_retain(br__zeros_on_host("data_parallel", BR_SHAPE(b->n), b->dtype));
    b->params = br__dist_malloc((size_t)b->n_params * sizeof(br_parallel_param *));
    b->parts = br__dist_malloc((size_t)br_dist_size(p->group) * sizeof *b->parts);
    br_scope_end(scope);
    b->send = b->data = b->memory ? br_data(b->memory) : NULL;
    return !br_failed();
}

static void free_buckets(br_bucket *buckets, int n)
{
    for (int k = 0; k < n; k++) {
        br_release(buckets[k].memory);
        br_release(buckets[k].part);
        br__early_free(buckets[k].early);
        free(buckets[k].params);
        free(buckets[k].parts);
    }
    free(buckets);
}

void br__parallel_free_buckets(br_data_parallel *p)
{
    for (int i = 0; i < p->n_params; i++)
        br_release(p->params[i].view);
    free_buckets(p->buckets, p->n_buckets);
}

/* Moves the parameter's gradient into its new bucket. */
static bool move(br_parallel_param *q, br_bucket *b)
{
    q->bucket = b;
    b->params[q->place] = q;
    if (b->owner->scatter)
        return true;
    br_tensor *before = q->view;
    q->view = view_of(q);
    if (q->view && before && br_grad_of(q->param)) {
        br_copy_(q->view, br_grad_of(q->param));
        br_set_grad(q->param, q->view);
    }
    br_release(before);
    return q->view != NULL;
}

bool br__parallel_make_buckets(br_data_parallel *p, const int64_t *order)
{
    br_bucket *buckets = br__dist_malloc((size_t)(p->n_params + 1) * sizeof *buckets);
    int n = buckets ? assign(p, order, buckets) : 0;
    bool ok = buckets != NULL;
    for (int k = 0; ok && k < n; k++)
        ok = fill(p, &buckets[k]);
    for (int i = 0; ok && i < p->n_params; i++)
        ok = move(&p->params[i], &buckets[p->params[i].next_bucket]);
    for (int k = 0; ok && k < n; k++)
        ok = !buckets[k].alone || (buckets[k].early = br__early_new(&buckets[k]));
    free_buckets(p->buckets, p->n_buckets);
    p->buckets = buckets;
    p->n_buckets = n;
    return ok && !br_failed() && br__parallel_cut(p);
}
