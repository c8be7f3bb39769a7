/* distributed/early.c - gradients that are sent before they are complete.
 *
 * A weight that is both the output layer's and the embedding's has the largest gradient of a
 * language model. Backward computes the output layer's part first and the embedding's, which
 * changes the rows of the batch's tokens, last. If the gradient were sent only then, nothing would
 * hide its communication. So its bucket is sent with the output layer's part. When the gradient is
 * complete, each rank compares its rows, by their hashes, with those it has sent. The rows that
 * have changed on any rank are then sent again by all ranks, and their sums replace those of the
 * bucket. The result has the bits of the sum of complete gradients, whatever changed the rows:
 * lookups, or a hook of the program. */
#include "distributed/data_parallel.h"

#include <brasa/autograd.h>
#include <brasa/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- One pass, in the thread of backward ----------------------------------------------------- */

static void run(br_dist_job *job);

br_early *br__early_new(br_bucket *b)
{
    const br_parallel_param *q = b->params[0];
    int64_t rows = br_size(q->param, 0);
    br_early *e = br__dist_malloc(sizeof *e);
    if (!e)
        return NULL;
    *e = (br_early){ .job.run = run, .bucket = b, .rows = rows, .width = q->numel / rows };
    e->bytes = (size_t)(rows + 7) / 8;
    e->hashes = br__dist_malloc((size_t)rows * sizeof *e->hashes);
    e->changed = br__dist_malloc((size_t)br_dist_size(b->owner->group) * e->bytes);
    if (e->hashes && e->changed)
        return e;
    br__early_free(e);
    return NULL;
}

void br__early_free(br_early *e)
{
    if (!e)
        return;
    br_release(e->gradient);
    free(e->hashes);
    free(e->changed);
    free(e);
}

static size_t row_size(const br_early *e)
{
    return (size_t)e->width * br_dtype_size(e->bucket->dtype);
}

static XXH128_hash_t hash_row(const br_early *e, const char *data, int64_t row)
{
    return XXH3_128bits(data + (size_t)row * row_size(e), row_size(e));
}

void br__early_sends(br_early *e)
{
    const br_bucket *b = e->bucket;
    const char *data = b->send;
    for (int64_t i = 0; data && i < e->rows; i++)
        e->hashes[i] = hash_row(e, data, i);
    e->bucket->flags |= BR_PARTIAL;
}

/* Returns this rank's set of changed rows. */
static uint8_t *own_changes(const br_early *e)
{
    return e->changed + (size_t)br_dist_rank(e->bucket->owner->group) * e->bytes;
}

void br__early_complete(br_early *e, br_tensor *grad)
{
    if (!e)
        return;
    br_scope *scope = br_no_grad_begin();
    e->gradient = br_retain(br_contiguous(br_detach(grad)));
    br_scope_end(scope);
    const bool early = e->bucket->params[0]->state == BR_PARAM_CORRECTED;
    const char *data = e->gradient && early ? br_data(e->gradient) : NULL;
    uint8_t *changes = own_changes(e);
    memset(changes, 0, e->bytes);
    for (int64_t i = 0; data && i < e->rows; i++)
        if (!XXH128_isEqual(hash_row(e, data, i), e->hashes[i]))
            br__dist_put_bit(changes, i);
}

void br__early_start(br_data_parallel *p)
{
    for (int k = 0; k < p->n_buckets; k++) {
        br_early *e = p->buckets[k].early;
        if (!e)
            continue;
        e->error[0] = '\0';
        if (br_failed())
            snprintf(e->error, sizeof e->error, "%s", br_error_message());
        br__dist_start(&e->job);
    }
}

bool br__early_wait(br_data_parallel *p)
{
    bool ok = true;
    for (int k = 0; k < p->n_buckets; k++) {
        br_early *e = p->buckets[k].early;
        if (!e)
            continue;
        ok &= br__dist_wait(&e->job);
        br_release(e->gradient);
        e->gradient = NULL;
    }
    return ok;
}

/* ---- The correction, in the progress thread -------------------------------------------------- */

/* Lists the rows that have changed on any rank, in ascending order. Returns their number. */
static int64_t list_changes(const br_early *e, int ranks, int64_t *list)
{
    int64_t n = 0;
    for (int64_t i = 0; i < e->rows; i++) {
        bool any = false;
        for (int r = 0; r < ranks; r++)
            any |= br__dist_get_bit(e->changed + (size_t)r * e->bytes, i);
        if (any)
            list[n++] = i;
    }
    return n;
}

/* Replaces these rows of the bucket by the sums of the ranks' complete gradients. */
static bool replace(br_dist_job *job, const br_early *e, int64_t n, const int64_t *list,
                    br_dist_part *parts)
{
    const br_bucket *b = e->bucket;
    const br_dist_group *g = br__dist_group(b->owner->group);
    size_t size = br_dtype_size(b->dtype), row = row_size(e);
    br__dist_even_parts(n * e->width, g->size, parts);
    br_dist_part own = parts[g->rank];
    int64_t part = own.end - own.begin;
    br_tensor *rows = br__dist_job_buffer(job, (size_t)n * row);
    br_tensor *received = br__dist_job_buffer(job, (size_t)(g->size * part) * size);
    bool ok = rows && received;
    char *data = ok ? br_data(rows) : NULL;
    for (int64_t i = 0; ok && i < n; i++)
        if (e->gradient)
            memcpy(data + (size_t)i * row,
                   (const char *)br_data(e->gradient) + (size_t)list[i] * row, row);
        else
            memset(data + (size_t)i * row, 0, row); /* the other ranks do not add it */
    ok = ok && br__dist_exchange_parts(job, g, b->dtype, data, parts, br_data(received));
    const char *sum = ok ? br__bucket_sum(b, 0, NULL, br_data(received), part, 0, part) : NULL;
    if (sum)
        memcpy(data + (size_t)own.begin * size, sum, (size_t)part * size);
    ok = ok && br__dist_gather_parts(job, g, b->dtype, data, parts);
    for (int64_t i = 0; ok && i < n; i++)
        memcpy(b->data + (size_t)list[i] * row, data + (size_t)i * row, row);
    br_release(rows);
    br_release(received);
    return ok;
}

/* Tells the other ranks the rows that have changed on this one, and replaces those of all ranks. */
static void run(br_dist_job *job)
{
    br_early *e = (br_early *)job;
    const br_dist_group *g = br__dist_group(e->bucket->owner->group);
    if (!e->sent_by_any) /* ... so the bucket was reduced with complete gradients */
        return;
    uint8_t arrived = e->gradient != NULL;
    br_dist_note note = { .op = "data_parallel",
                          .dtype = e->bucket->dtype,
                          .ndim = 2,
                          .sizes = { e->rows, e->width },
                          .argument = e->bucket->number,
                          .argument_name = "the bucket of the changed rows",
                          .error = *e->error ? e->error : NULL,
                          .bits = &arrived,
                          .n_bits = 1 };
    bool ok = br__dist_agree(job, g, &note);
    job->in_step = false;
    if (!arrived || e->bucket->params[0]->state != BR_PARAM_CORRECTED)
        memset(own_changes(e), 0, e->bytes);
    if (!ok || !br__dist_gather_bytes(job, g, e->changed, e->bytes))
        return;
    int64_t *list = malloc((size_t)e->rows * sizeof *list);
    br_dist_part *parts = malloc((size_t)g->size * sizeof *parts);
    if (!list || !parts)
        br__dist_job_fail(job, "data_parallel: cannot allocate memory for %lld rows",
                          (long long)e->rows);
    else {
        int64_t n = list_changes(e, g->size, list);
        if (n > 0)
            replace(job, e, n, list, parts);
        e->replaced = n;
    }
    free(list);
    free(parts);
}
