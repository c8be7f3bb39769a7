/* distributed/collectives.c - collectives on tensors.
 *
 * Each function makes a contiguous copy of its tensor if needed, queues a job, and waits. The job
 * begins with an agreement, in which a rank with a pending error takes part, too: so the others
 * learn of the error instead of waiting for ever. */
#include "distributed/distributed_internal.h"

#include <stdlib.h>
#include <string.h>

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
    int other, tag; /* source or destination */
} collective;

static void run(br_dist_job *job)
{
    collective *c = (collective *)job;
    if (br__dist_agree(job, c->g, &c->note) && c->move)
        c->move(c);
}

/* Describes the call in the note. `t` may be NULL. */
static collective begin(const char *op, br_dist_group *group, const br_tensor *t,
                        void (*move)(collective *c))
{
    collective c = { .job.run = run, .g = br__dist_group(group), .move = move };
    c.note.op = op;
    if (!br_failed() && !t && move)
        br_raise(BR_ERROR_ARGUMENT, "%s: t is NULL, but it is required", op);
    c.note.error = br_failed() ? br_error_message() : NULL;
    if (!t)
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
    br_tensor *copy = t && !br_failed() ? br_contiguous(br_detach(t)) : NULL;
    c->data = copy ? br_data(copy) : NULL;
    if (t && !copy && !c->note.error)
        refuse(c);
    return copy;
}

/* Copies the result back into t if the data were a copy. */
static bool finish(br_tensor *t, br_tensor *copy, bool ok)
{
    if (ok && br_data(copy) != br_data(t))
        br_copy_(t, copy);
    else if (ok)
        br_bump_version(t);
    return ok && !br_failed();
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
    MPI_Request request;
    /* In blocks, since MPI counts with int. */
    for (size_t at = 0; at < c->bytes; at += BR_DIST_MAX_ELEMENTS) {
        size_t n = c->bytes - at < BR_DIST_MAX_ELEMENTS ? c->bytes - at : BR_DIST_MAX_ELEMENTS;
        if (!br__dist_ok(
                &c->job, "MPI_Ibcast",
                MPI_Ibcast(c->data + at, (int)n, MPI_BYTE, c->other, c->g->comm, &request)) ||
            !br__dist_complete(&c->job, c->g, 1, &request))
            return;
    }
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
    br_scope *scope = br_no_grad_begin();
    br_tensor *copy = dense(&c, t);
    bool ok = finish(t, copy, communicate(&c));
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
    static const char *const names[] = { "a sum", "a mean", "a maximum" };
    c->reduction = reduction;
    c->note.argument = (int64_t)reduction;
    c->note.argument_name = "reduction";
    if (br_failed() || !t)
        return false;
    bool known = reduction >= BR_DIST_SUM && reduction <= BR_DIST_MAX;
    if (known && (br_is_floating(t) || reduction == BR_DIST_MAX ||
                  (c->dtype == BR_I64 && reduction == BR_DIST_SUM)))
        return true;
    if (known)
        br_raise(BR_ERROR_DTYPE, "%s: t is %s, which has no %s over ranks", c->note.op,
                 br_dtype_name(c->dtype), names[reduction] + 2);
    else
        br_raise(BR_ERROR_ARGUMENT, "%s: reduction is %d, must be BR_DIST_SUM, _MEAN or _MAX",
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
    char *received = parts ? malloc((size_t)g->size * (size_t)count * element + 1) : NULL;
    bool ok = received != NULL;
    if (!ok)
        br__dist_job_fail(&c->job, "%s: cannot allocate memory for the parts", c->note.op);
    ok = ok && br__dist_exchange_parts(&c->job, g, c->dtype, data, parts, received);
    if (ok) {
        reduce_arrays(c, received, g->size, count);
        memcpy(data + (size_t)own.begin * element, received, (size_t)count * element);
        ok = br__dist_gather_parts(&c->job, g, c->dtype, data, parts);
    }
    free(received);
    free(parts);
    return ok;
}

static void move_all_reduce(collective *c)
{
    enum { BLOCK = 1 << 24 }; /* elements at a time; bounds the memory */
    size_t element = br_dtype_size(c->dtype);
    for (int64_t at = 0; at < c->n; at += BLOCK)
        if (!reduce_block(c, c->data + (size_t)at * element, c->n - at < BLOCK ? c->n - at : BLOCK))
            return;
}

bool br_dist_all_reduce(br_tensor *t, br_dist_reduction reduction, br_dist_group *group)
{
    collective c = begin("dist_all_reduce", group, t, move_all_reduce);
    bool valid = can_reduce(&c, t, reduction);
    if (alone(&c))
        return valid && !br_failed();
    br_scope *scope = br_no_grad_begin();
    br_tensor *copy = dense(&c, t);
    bool ok = finish(t, copy, communicate(&c));
    br_scope_end(scope);
    return ok;
}

/* ---- Gather and scatter ---------------------------------------------------------------------- */

static void move_all_gather(collective *c)
{
    MPI_Request request;
    if (br__dist_ok(&c->job, "MPI_Iallgather",
                    MPI_Iallgather(c->data, (int)c->n, br__dist_type(c->dtype), c->result,
                                   (int)c->n, br__dist_type(c->dtype), c->g->comm, &request)))
        br__dist_complete(&c->job, c->g, 1, &request);
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
    br_tensor *y = br_empty(ndim, sizes, c->dtype);
    if (!y)
        refuse(c);
    c->result = y ? br_data(y) : NULL;
    return y;
}

/* Communicates, or copies t if there is no other rank. Returns y, which new_result() made, from the
 * scope; NULL on error. */
static br_tensor *finish_result(collective *c, br_tensor *t, br_tensor *y, br_scope *scope)
{
    dense(c, t); /* lives until the scope ends */
    bool ok = !br_failed();
    if (!alone(c))
        ok = communicate(c);
    else if (ok)
        memcpy(c->result, c->data, c->bytes);
    return br_scope_return(scope, ok ? y : NULL);
}

br_tensor *br_dist_all_gather(br_tensor *t, br_dist_group *group)
{
    collective c = begin("dist_all_gather", group, t, move_all_gather);
    br_scope *scope = br_no_grad_begin();
    br_tensor *y = new_result(&c, t, alone(&c) ? 1 : c.g->size, 0);
    if (y && c.n > BR_DIST_MAX_ELEMENTS) {
        br_raise(BR_ERROR_SHAPE, "dist_all_gather: t has %lld elements, must have at most %d",
                 (long long)c.n, BR_DIST_MAX_ELEMENTS);
        refuse(&c);
    }
    return finish_result(&c, t, y, scope);
}

static void move_reduce_scatter(collective *c)
{
    const br_dist_group *g = c->g;
    int64_t n = c->n / g->size;
    char *received = malloc(c->bytes + 1);
    MPI_Request request;
    if (!received) {
        br__dist_job_fail(&c->job, "dist_reduce_scatter: cannot allocate %zu bytes", c->bytes);
        return;
    }
    if (br__dist_ok(&c->job, "MPI_Ialltoall",
                    MPI_Ialltoall(c->data, (int)n, br__dist_type(c->dtype), received, (int)n,
                                  br__dist_type(c->dtype), g->comm, &request)) &&
        br__dist_complete(&c->job, g, 1, &request)) {
        reduce_arrays(c, received, g->size, n);
        memcpy(c->result, received, c->bytes / (size_t)g->size);
    }
    free(received);
}

br_tensor *br_dist_reduce_scatter(br_tensor *t, br_dist_reduction reduction, br_dist_group *group)
{
    collective c = begin("dist_reduce_scatter", group, t, move_reduce_scatter);
    int size = c.g ? c.g->size : 1;
    can_reduce(&c, t, reduction);
    if (!br_failed() && (br_ndim(t) == 0 || br_size(t, 0) != size)) {
        char shape[BR_MAX_DIMS * 22 + 3];
        br_raise(BR_ERROR_SHAPE,
                 "dist_reduce_scatter: t is %s, but its first dimension must be the number of "
                 "ranks, %d",
                 br_shape_string(t, shape, sizeof shape), size);
        refuse(&c);
    }
    br_scope *scope = br_no_grad_begin();
    return finish_result(&c, t, new_result(&c, t, -1, 1), scope);
}

/* ---- Send and receive ------------------------------------------------------------------------ */

/* What precedes the elements of a message. */
typedef struct header {
    int64_t dtype, ndim, sizes[BR_MAX_DIMS];
} header;

static header header_of(const collective *c)
{
    header h = { (int64_t)c->dtype, c->note.ndim, { 0 } };
    memcpy(h.sizes, c->note.sizes, (size_t)c->note.ndim * sizeof *h.sizes);
    return h;
}

static void run_send(br_dist_job *job)
{
    collective *c = (collective *)job;
    header h = header_of(c);
    MPI_Request requests[2] = { MPI_REQUEST_NULL, MPI_REQUEST_NULL };
    if (br__dist_ok(
            job, "MPI_Isend",
            MPI_Isend(&h, (int)sizeof h, MPI_BYTE, c->other, c->tag, c->g->comm, &requests[0])) &&
        br__dist_ok(job, "MPI_Isend",
                    MPI_Isend(c->data, (int)c->n, br__dist_type(c->dtype), c->other, c->tag,
                              c->g->comm, &requests[1])))
        br__dist_complete(job, c->g, 2, requests);
}

static int64_t elements(const header *h)
{
    int64_t n = 1;
    for (int d = 0; d < h->ndim; d++)
        n *= h->sizes[d];
    return n;
}

/* Receives the elements of a message that does not fit the tensor, and drops them, so that the next
 * message can be received. */
static void drop_message(collective *c, const header *h)
{
    int64_t n = elements(h);
    br_dtype dtype = (br_dtype)h->dtype;
    void *dropped = malloc((size_t)n * br_dtype_size(dtype) + 1);
    MPI_Request request;
    c->job.in_step = dropped &&
                     MPI_Irecv(dropped, (int)n, br__dist_type(dtype), c->other, c->tag, c->g->comm,
                               &request) == MPI_SUCCESS &&
                     br__dist_complete(&c->job, c->g, 1, &request);
    free(dropped);
}

static void run_recv(br_dist_job *job)
{
    collective *c = (collective *)job;
    header h, own = header_of(c);
    MPI_Request request;
    if (!br__dist_ok(
            job, "MPI_Irecv",
            MPI_Irecv(&h, (int)sizeof h, MPI_BYTE, c->other, c->tag, c->g->comm, &request)) ||
        !br__dist_complete(job, c->g, 1, &request))
        return;
    if (memcmp(&h, &own, sizeof h) != 0) {
        drop_message(c, &h);
        br__dist_job_fail(job,
                          "dist_recv: rank %d sent %lld elements of %s in %lld dimensions, but t "
                          "has %lld of %s in %d: the shapes and dtypes must be the same",
                          c->g->world[c->other], (long long)elements(&h),
                          br_dtype_name((br_dtype)h.dtype), (long long)h.ndim, (long long)c->n,
                          br_dtype_name(c->dtype), c->note.ndim);
        return;
    }
    if (br__dist_ok(job, "MPI_Irecv",
                    MPI_Irecv(c->data, (int)c->n, br__dist_type(c->dtype), c->other, c->tag,
                              c->g->comm, &request)))
        br__dist_complete(job, c->g, 1, &request);
}

static bool point_to_point(const char *op, br_tensor *t, const char *name, int other, int tag,
                           br_dist_group *group, void (*run_job)(br_dist_job *job))
{
    collective c = begin(op, group, t, move_broadcast);
    c.job.run = run_job;
    c.other = other;
    c.tag = tag;
    if (br_failed() || !valid_rank(&c, name, other))
        return false;
    if (tag < 0 || tag > 32767 || c.n > BR_DIST_MAX_ELEMENTS || alone(&c) || other == c.g->rank) {
        br_raise(BR_ERROR_ARGUMENT, "%s: %s", op,
                 tag < 0 || tag > 32767       ? "tag must be in 0 .. 32767"
                 : c.n > BR_DIST_MAX_ELEMENTS ? "t has more than 2^30 elements"
                                              : "a rank cannot send to itself");
        return false;
    }
    br_scope *scope = br_no_grad_begin();
    br_tensor *copy = dense(&c, t);
    bool ok = copy && communicate(&c);
    if (run_job == run_recv)
        ok = finish(t, copy, ok);
    br_scope_end(scope);
    return ok;
}

bool br_dist_send(br_tensor *t, int destination, int tag, br_dist_group *group)
{
    return point_to_point("dist_send", t, "destination", destination, tag, group, run_send);
}

bool br_dist_recv(br_tensor *t, int source, int tag, br_dist_group *group)
{
    return point_to_point("dist_recv", t, "source", source, tag, group, run_recv);
}
