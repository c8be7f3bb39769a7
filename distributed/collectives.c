/* distributed/collectives.c - collectives on tensors.
 *
 * Each function makes a contiguous copy of its tensor if needed, queues a job, and waits. The job
 * begins with an agreement, in which a rank with a pending error takes part, too: so the others
 * learn of the error instead of waiting for ever. */
#include "autograd/in_place.h"
#include "distributed/distributed_internal.h"
#include "tensor/min_max.h"

#include <stdlib.h>
#include <string.h>

#include <brasa/autograd.h>
#include <brasa/ops.h>

typedef struct collective {
    br_dist_job job;
    const br_dist_group *g;
    br_dist_note note;
    void (*move)(struct collective *c); /* communicates after the agreement */
    br_dtype dtype;
    int64_t n;    /* elements */
    size_t bytes; /* of them */
    char *data;   /* this rank's elements, contiguous */
    char *result; /* of gather and scatter */
    br_dist_reduction reduction;
    int other; /* the source */
} collective;

static void run(br_dist_job *job)
{
    collective *c = (collective *)job;
    if (br__dist_agree(job, c->g, &c->note) && c->move)
        c->move(c);
}

/* Describes the call in the note. A barrier has neither `t` nor `move`. */
static collective begin(const char *op, br_dist_group *group, const br_tensor *t,
                        void (*move)(collective *c))
{
    collective c = { .job.run = run, .move = move };
    c.note.op = op;
    if (BR_LIVE_GROUP(op, group))
        c.g = br__dist_group(group);
    bool usable = move && br_require_tensor(op, "t", t);
    c.note.error = br_failed() ? br_error_message() : NULL;
    if (!usable)
        return c;
    c.dtype = c.note.dtype = br_dtype_of(t);
    c.note.ndim = br_ndim(t);
    memcpy(c.note.sizes, br_sizes(t), (size_t)c.note.ndim * sizeof *c.note.sizes);
    c.n = br_numel(t);
    c.bytes = (size_t)c.n * br_dtype_size(c.dtype);
    return c;
}

static bool alone(const collective *c)
{
    return !c->g || c->g->size == 1;
}

/* Lets every rank know of an error that was found after begin(). */
static void refuse(collective *c)
{
    c->note.error = br_error_message();
}

static bool communicate(collective *c)
{
    br__dist_start(&c->job);
    return br__dist_wait(&c->job) && !br_failed();
}

/* Returns t, or a contiguous copy of it in the innermost scope. */
static br_tensor *dense(collective *c, br_tensor *t)
{
    if (t && !br_failed() && br_device_of(t).type != BR_CPU)
        br_fail(BR_ERROR_ARGUMENT, c->note.op,
                "t %s is on %s, but processes exchange the host's memory: copy it with "
                "br_to_device()",
                br_shape_text(t), br_device_name(br_device_of(t)));
    br_tensor *copy = t && !br_failed() ? br_contiguous(br_detach(t)) : NULL;
    c->data = copy ? br_data(copy) : NULL;
    if (t && !copy && !c->note.error)
        refuse(c);
    return copy;
}

/* Checks t, which this rank writes to, before the ranks communicate: so the other ranks learn of an
 * error. */
static void check_writable(collective *c, br_tensor *t)
{
    if (t && !c->note.error && !br__can_change(c->note.op, "t", t, 0, NULL))
        refuse(c);
}

/* ---- Barrier and broadcast ------------------------------------------------------------------- */

bool br_dist_barrier(br_dist_group *group)
{
    collective c = begin("dist_barrier", group, NULL, NULL);
    return alone(&c) ? !br_failed() : communicate(&c);
}

static bool valid_rank(collective *c, const char *name, int rank)
{
    int size = c->g ? c->g->size : 1;
    if (rank >= 0 && rank < size)
        return true;
    if (!br_failed())
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %d, must be in 0 .. %d", c->note.op, name, rank,
                 size - 1);
    refuse(c);
    return false;
}

static void move_broadcast(collective *c)
{
    br__dist_broadcast_bytes(&c->job, c->g, c->data, (int64_t)c->bytes, c->other);
}

bool br__dist_broadcast(br_tensor *t, int source, br_dist_group *group, const char *subject)
{
    collective c = begin("dist_broadcast", group, t, move_broadcast);
    bool valid = valid_rank(&c, "source", source);
    if (alone(&c))
        return valid && !br_failed();
    c.note.argument = c.other = source;
    c.note.argument_name = "source";
    c.note.subject = subject;
    const bool writes = c.g->rank != source;
    br_scope *scope = br_no_grad_begin();
    if (writes)
        check_writable(&c, t);
    br_tensor *copy = dense(&c, t);
    bool ok = communicate(&c) && (!writes || br__dist_written(c.note.op, t, copy));
    br_scope_end(scope);
    return ok;
}

bool br_dist_broadcast(br_tensor *t, int source, br_dist_group *group)
{
    return br__dist_broadcast(t, source, group, NULL);
}

/* ---- Reductions ------------------------------------------------------------------------------ */

static bool can_reduce(collective *c, const br_tensor *t, br_dist_reduction reduction)
{
    static const char *const names[] = { "sum", "mean", "maximum", "minimum" };
    c->reduction = reduction;
    c->note.argument = (int64_t)reduction;
    c->note.argument_name = "reduction";
    if (br_failed() || !t)
        return false;
    bool known = reduction >= BR_DIST_SUM && reduction <= BR_DIST_MIN;
    if (known && (br_is_floating(t) || reduction >= BR_DIST_MAX ||
                  (c->dtype == BR_I64 && reduction == BR_DIST_SUM)))
        return true;
    if (known)
        br_raise(BR_ERROR_DTYPE, "%s: t is %s, which has no %s over ranks", c->note.op,
                 br_dtype_name(c->dtype), names[reduction]);
    else
        br_raise(BR_ERROR_ARGUMENT, "%s: reduction is %d, must be BR_DIST_SUM, _MEAN, _MAX or _MIN",
                 c->note.op, (int)reduction);
    refuse(c);
    return false;
}

/* Reduces `count` arrays of n elements, one behind the other, into the first. */
static void reduce_arrays(const collective *c, char *arrays, int count, int64_t n)
{
    size_t bytes = (size_t)n * br_dtype_size(c->dtype);
    for (int r = 1; r < count; r++)
        br__dist_combine(c->dtype, c->reduction, arrays, arrays + (size_t)r * bytes, n);
    if (c->reduction == BR_DIST_MEAN)
        br__dist_divide(c->dtype, arrays, n, c->g->size);
}

/* Reduces a block of elements in place. */
static bool reduce_block(collective *c, char *data, int64_t n)
{
    const br_dist_group *g = c->g;
    size_t element = br_dtype_size(c->dtype);
    br_dist_part *parts = malloc((size_t)g->size * sizeof *parts), own = { 0 };
    if (parts) {
        br__dist_even_parts(n, g->size, parts);
        own = parts[g->rank];
    }
    int64_t count = own.end - own.begin;
    br_tensor *buffer = NULL;
    if (parts)
        buffer = br__dist_job_buffer(&c->job, (size_t)g->size * (size_t)count * element);
    else
        br__dist_job_fail(&c->job, "%s: cannot allocate memory for the parts", c->note.op);
    char *received = buffer ? br_data(buffer) : NULL;
    bool ok = buffer && br__dist_exchange_parts(&c->job, g, c->dtype, data, parts, received);
    if (ok) {
        reduce_arrays(c, received, g->size, count);
        memcpy(data + (size_t)own.begin * element, received, (size_t)count * element);
        ok = br__dist_gather_parts(&c->job, g, c->dtype, data, parts);
    }
    br_release(buffer);
    free(parts);
    return ok;
}

static void move_all_reduce(collective *c)
{
    enum { BLOCK = 1 << 24 }; /* elements at a time; bounds the memory */
    size_t element = br_dtype_size(c->dtype);
    for (int64_t at = 0; at < c->n; at += BLOCK)
        if (!reduce_block(c, c->data + (size_t)at * element, br__min(c->n - at, BLOCK)))
            return;
}

bool br_dist_all_reduce(br_tensor *t, br_dist_reduction reduction, br_dist_group *group)
{
    collective c = begin("dist_all_reduce", group, t, move_all_reduce);
    bool valid = can_reduce(&c, t, reduction);
    if (alone(&c))
        return valid && !br_failed();
    br_scope *scope = br_no_grad_begin();
    check_writable(&c, t);
    br_tensor *copy = dense(&c, t);
    bool ok = communicate(&c) && br__dist_written(c.note.op, t, copy);
    br_scope_end(scope);
    return ok;
}

/* ---- Gather and scatter ---------------------------------------------------------------------- */

static void move_all_gather(collective *c)
{
    memcpy(c->result + (size_t)c->g->rank * c->bytes, c->data, c->bytes);
    br__dist_gather_bytes(&c->job, c->g, c->result, c->bytes);
}

/* Returns an empty tensor of the shape [first, sizes of t from dimension `from` on]. A `first` of
 * -1 stands for no such dimension. */
static br_tensor *new_result(collective *c, const br_tensor *t, int64_t first, int from)
{
    int64_t sizes[BR_MAX_DIMS + 1];
    int ndim = 0;
    if (br_failed())
        return NULL;
    if (first >= 0)
        sizes[ndim++] = first;
    for (int d = from; d < br_ndim(t); d++)
        sizes[ndim++] = br_size(t, d);
    br_tensor *y = br__new_on_host(c->note.op, ndim, sizes, c->dtype);
    if (!y)
        refuse(c);
    c->result = y ? br_data(y) : NULL;
    return y;
}

/* Communicates, or copies t if there is no other rank. Ends the scope, and returns y, which
 * new_result() made in it; NULL on error. */
static br_tensor *finish_result(collective *c, br_tensor *t, br_tensor *y, br_scope *scope)
{
    dense(c, t); /* lives until the scope ends */
    bool ok = !br_failed();
    if (!alone(c))
        ok = communicate(c);
    else if (ok)
        memcpy(c->result, c->data, c->bytes);
    y = br_scope_return(scope, ok ? y : NULL);
    br_scope_end(scope);
    return y;
}

br_tensor *br_dist_all_gather(br_tensor *t, br_dist_group *group)
{
    collective c = begin("dist_all_gather", group, t, move_all_gather);
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = new_result(&c, t, alone(&c) ? 1 : c.g->size, 0);
    return finish_result(&c, t, y, scope);
}

/* Sends element r of t [size, ...] to rank r. received[r] is what rank r sent. */
static bool exchange_elements(collective *c, char *received)
{
    const br_dist_group *g = c->g;
    size_t bytes = c->bytes / (size_t)g->size;
    br_dist_exchange x = br__dist_exchange(&c->job, g);
    for (int i = 1; i < g->size; i++) {
        int to = (g->rank + i) % g->size, from = (g->rank + g->size - i) % g->size;
        br__dist_recv_from(&x, from, received + (size_t)from * bytes, bytes);
        br__dist_send_to(&x, to, c->data + (size_t)to * bytes, bytes);
    }
    size_t own = (size_t)g->rank * bytes;
    memcpy(received + own, c->data + own, bytes);
    return br__dist_complete(&x);
}

static void move_reduce_scatter(collective *c)
{
    int64_t n = c->n / c->g->size;
    br_tensor *buffer = br__dist_job_buffer(&c->job, c->bytes);
    if (!buffer)
        return;
    char *received = br_data(buffer);
    if (exchange_elements(c, received)) {
        reduce_arrays(c, received, c->g->size, n);
        memcpy(c->result, received, (size_t)n * br_dtype_size(c->dtype));
    }
    br_release(buffer);
}

/* Checks that the first dimension of t is the number of ranks. */
static void check_first_dimension(collective *c, const br_tensor *t)
{
    int size = c->g ? c->g->size : 1;
    if (br_failed() || (br_ndim(t) > 0 && br_size(t, 0) == size))
        return;
    br_raise(BR_ERROR_SHAPE, "%s: t is %s, but its first dimension must be the number of ranks, %d",
             c->note.op, br_shape_text(t), size);
    refuse(c);
}

br_tensor *br_dist_reduce_scatter(br_tensor *t, br_dist_reduction reduction, br_dist_group *group)
{
    collective c = begin("dist_reduce_scatter", group, t, move_reduce_scatter);
    can_reduce(&c, t, reduction);
    check_first_dimension(&c, t);
    br_scope *scope = br_no_grad_begin();
    return finish_result(&c, t, new_result(&c, t, -1, 1), scope);
}

static void move_all_to_all(collective *c)
{
    exchange_elements(c, c->result);
}

br_tensor *br_dist_all_to_all(br_tensor *t, br_dist_group *group)
{
    collective c = begin("dist_all_to_all", group, t, move_all_to_all);
    check_first_dimension(&c, t);
    br_scope *scope = br_no_grad_begin();
    return finish_result(&c, t, new_result(&c, t, -1, 0), scope);
}
