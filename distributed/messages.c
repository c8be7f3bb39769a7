/* distributed/messages.c - tensors from one rank to another.
 *
 * A message is a header and the elements. The messages between two ranks arrive in the order in
 * which they were sent, whatever their tags. A receiver that waits for another tag or group keeps
 * them for a later call. */
#include "autograd/in_place.h"
#include "distributed/distributed_internal.h"

#include <brasa/ops.h>
#include <stdlib.h>
#include <string.h>

typedef struct header {
    int64_t group, tag, dtype, ndim, sizes[BR_MAX_DIMS];
} header;

/* A message that arrived while another one was wanted. */
typedef struct br_dist_message {
    struct br_dist_message *next;
    int source; /* among all ranks */
    header header;
    char data[];
} message;

typedef struct transmission {
    br_dist_job job;
    const br_dist_group *g;
    int other; /* source or destination */
    header header;
    char *data;
} transmission;

static int64_t elements(const header *h)
{
    int64_t n = 1;
    for (int d = 0; d < h->ndim; d++)
        n *= h->sizes[d];
    return n;
}

static size_t bytes_of(const header *h)
{
    return (size_t)elements(h) * br_dtype_size((br_dtype)h->dtype);
}

static void run_send(br_dist_job *job)
{
    transmission *s = (transmission *)job;
    br_dist_exchange x = br__dist_exchange(job, s->g);
    x.channel = BR_DIST_MESSAGES;
    br__dist_send_to(&x, s->other, &s->header, sizeof s->header);
    br__dist_send_to(&x, s->other, s->data, bytes_of(&s->header));
    br__dist_complete(&x);
}

/* Receives bytes from the source. */
static bool receive(transmission *s, void *data, size_t bytes)
{
    br_dist_exchange x = br__dist_exchange(&s->job, s->g);
    x.channel = BR_DIST_MESSAGES;
    br__dist_recv_from(&x, s->other, data, bytes);
    return br__dist_complete(&x);
}

/* Returns a new message with the elements that follow the header. */
static message *receive_elements(transmission *s, const header *h)
{
    message *m = malloc(sizeof *m + bytes_of(h));
    if (!m) {
        br__dist_job_fail(&s->job, "dist_recv: cannot allocate %zu bytes for a message",
                          bytes_of(h));
        return NULL;
    }
    *m = (message){ .source = s->g->world[s->other], .header = *h };
    if (receive(s, m->data, bytes_of(h)))
        return m;
    free(m);
    return NULL;
}

static bool is_wanted(const transmission *s, const header *h)
{
    return h->group == s->header.group && h->tag == s->header.tag;
}

/* Removes the first kept message with the wanted tag and group from the list, and returns it.
 * Returns NULL if there is none. */
static message *take(const transmission *s)
{
    for (message **p = &br__dist.messages; *p; p = &(*p)->next) {
        message *m = *p;
        if (m->source != s->g->world[s->other] || !is_wanted(s, &m->header))
            continue;
        *p = m->next;
        return m;
    }
    return NULL;
}

static void keep(message *m)
{
    message **p = &br__dist.messages;
    while (*p)
        p = &(*p)->next;
    *p = m;
}

void br__dist_drop_messages(void)
{
    while (br__dist.messages) {
        message *m = br__dist.messages;
        br__dist.messages = m->next;
        free(m);
    }
}

/* Fails after a message of another shape or dtype was received as a whole: the next message can be
 * received. */
static void refuse(transmission *s, const header *h)
{
    const header *own = &s->header;
    br__dist_job_fail(&s->job,
                      "dist_recv: rank %d sent %lld elements of %s in %lld dimensions, but t has "
                      "%lld of %s in %lld: the shapes and dtypes must be the same",
                      s->g->world[s->other], (long long)elements(h),
                      br_dtype_name((br_dtype)h->dtype), (long long)h->ndim,
                      (long long)elements(own), br_dtype_name((br_dtype)own->dtype),
                      (long long)own->ndim);
    s->job.in_step = true;
}

/* Uses a whole message, and frees it. */
static void deliver(transmission *s, message *m)
{
    if (memcmp(&m->header, &s->header, sizeof m->header) == 0)
        memcpy(s->data, m->data, bytes_of(&m->header));
    else
        refuse(s, &m->header);
    free(m);
}

static void run_recv(br_dist_job *job)
{
    transmission *s = (transmission *)job;
    message *m = take(s);
    while (!m) {
        header h;
        if (!receive(s, &h, sizeof h))
            return;
        if (memcmp(&h, &s->header, sizeof h) == 0) {
            receive(s, s->data, bytes_of(&h)); /* without a copy */
            return;
        }
        m = receive_elements(s, &h);
        if (!m)
            return;
        if (!is_wanted(s, &h)) {
            keep(m);
            m = NULL;
        }
    }
    deliver(s, m);
}

static bool check(const char *op, const br_tensor *t, const char *name, int other, int tag,
                  const br_dist_group *g)
{
    int size = g ? g->size : 1;
    if (!br_require_tensor(op, "t", t))
        return false;
    if (other < 0 || other >= size)
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %d, must be in 0 .. %d", op, name, other, size - 1);
    else if (tag < 0 || tag > 32767)
        br_raise(BR_ERROR_ARGUMENT, "%s: tag is %d, but tag must be in 0 .. 32767", op, tag);
    else if (size == 1 || other == g->rank)
        br_raise(BR_ERROR_ARGUMENT, "%s: %s is %d, but a rank cannot send to itself", op, name,
                 other);
    return !br_failed();
}

static bool transmit(const char *op, br_tensor *t, const char *name, int other, int tag,
                     br_dist_group *group, void (*run)(br_dist_job *job))
{
    const br_dist_group *g = BR_LIVE_GROUP(op, group) ? br__dist_group(group) : NULL;
    if (!check(op, t, name, other, tag, g))
        return false;
    transmission s = { .job.run = run, .job.op = op, .g = g, .other = other };
    s.header = (header){ .group = g->identity, .tag = tag, .dtype = (int64_t)br_dtype_of(t) };
    s.header.ndim = br_ndim(t);
    memcpy(s.header.sizes, br_sizes(t), (size_t)br_ndim(t) * sizeof *s.header.sizes);
    br_scope *scope = br_no_grad_begin();
    const bool allowed = run != run_recv || br__can_change(op, "t", t, 0, NULL);
    br_tensor *copy = allowed ? br_contiguous(br_detach(t)) : NULL;
    s.data = copy ? br_data(copy) : NULL;
    if (copy) {
        br__dist_start(&s.job);
        br__dist_wait(&s.job);
    }
    if (run == run_recv && !br_failed())
        br__dist_written(op, t, copy);
    br_scope_end(scope);
    return !br_failed();
}

bool br_dist_send(br_tensor *t, int destination, int tag, br_dist_group *group)
{
    return transmit("dist_send", t, "destination", destination, tag, group, run_send);
}

bool br_dist_recv(br_tensor *t, int source, int tag, br_dist_group *group)
{
    return transmit("dist_recv", t, "source", source, tag, group, run_recv);
}
