/* distributed/group.c - the start and the end of communication, and groups of ranks. */
#include "distributed/watch.h"
#include "tensor/parallel.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

br_dist_options br_dist_defaults(void)
{
    return (br_dist_options){ br_dist_default_fields };
}

/* ---- Start ----------------------------------------------------------------------------------- */

/* Facts about a process that all ranks exchange at the start, before they trust each other's
 * notes. */
typedef struct facts {
    char version[32], machine[HOST_NAME_MAX + 1], processes[64], network[64];
    int32_t process;
    cpu_set_t processors; /* that it may run on: mpirun may bind each rank to some */
} facts;

static void collect_facts(facts *f)
{
    memset(f, 0, sizeof *f);
    snprintf(f->version, sizeof f->version, "%s", br_version());
    gethostname(f->machine, sizeof f->machine - 1);
    /* Process IDs are valid only inside one PID namespace, the loopback address inside one network
     * namespace. */
    if (readlink("/proc/self/ns/pid", f->processes, sizeof f->processes - 1) < 0)
        f->processes[0] = '\0';
    if (readlink("/proc/self/ns/net", f->network, sizeof f->network - 1) < 0)
        f->network[0] = '\0';
    f->process = (int32_t)getpid();
    sched_getaffinity(0, sizeof f->processors, &f->processors);
}

/* Compares the versions, stores the processes, and divides the processors among the ranks of this
 * machine that may run on the same ones. */
static bool use_facts(br_dist_job *job, const facts *all, const facts *own)
{
    int size = br__dist.all.size, sharing = 0;
    for (int r = 0; r < size; r++) {
        if (strcmp(all[r].version, all[0].version) != 0)
            return br__dist_job_fail(job,
                                     "dist_init: rank %d runs version %.31s of brasa, but rank 0 "
                                     "runs %.31s: install the same version everywhere",
                                     r, all[r].version, all[0].version);
        bool here = strcmp(all[r].machine, own->machine) == 0 && *own->processes &&
                    strcmp(all[r].processes, own->processes) == 0;
        br_dist_process *process = &br__dist.processes[r];
        *process = (br_dist_process){ .process = all[r].process, .here = here };
        memcpy(process->machine, all[r].machine, sizeof process->machine);
        sharing += here && CPU_EQUAL(&all[r].processors, &own->processors);
    }
    br__limit_threads(CPU_COUNT(&own->processors) / (sharing > 0 ? sharing : 1));
    return true;
}

/* Returns true if all ranks can reach each other by the loopback address. */
static bool on_one_machine(const facts *all, int size)
{
    for (int r = 0; r < size; r++)
        if (!*all[r].network || strcmp(all[r].network, all[0].network) != 0 ||
            strcmp(all[r].machine, all[0].machine) != 0)
            return false;
    return true;
}

static bool exchange_facts(br_dist_job *job)
{
    const br_dist_group *g = &br__dist.all;
    facts *all = malloc((size_t)g->size * sizeof *all);
    bool ok =
        all || br__dist_job_fail(job, "dist_init: cannot allocate memory for %d ranks", g->size);
    if (ok) {
        collect_facts(&all[g->rank]);
        ok = br__dist_gather_bytes(job, g, all, sizeof *all) &&
             use_facts(job, all, &all[g->rank]) &&
             br__dist_watch_begin(job, br__dist.watch_limit, on_one_machine(all, g->size));
    }
    free(all);
    return ok;
}

/* Makes the group of all ranks. */
static void connect_ranks(br_dist_job *job)
{
    br_dist_group *g = &br__dist.all;
    int size = br__dist.comm.size;
    if (!br__dist_group_begin(job, g, br__dist.comm.rank, size))
        return;
    for (int r = 0; r < size; r++)
        g->world[r] = r;
    br__dist.processes = calloc((size_t)size, sizeof *br__dist.processes);
    if (!br__dist.processes)
        br__dist_job_fail(job, "dist_init: cannot allocate memory for %d ranks", size);
    else
        exchange_facts(job);
}

/* Checks what a transport says about itself. */
static bool valid_comm(const br_comm *comm, bool progress_thread)
{
    if (comm->rank < 0 || comm->rank >= comm->size)
        br_raise(BR_ERROR_ARGUMENT, "dist_init: the transport has rank %d of %d", comm->rank,
                 comm->size);
    else if (comm->max_bytes < 1024)
        br_raise(BR_ERROR_ARGUMENT,
                 "dist_init: the transport's messages have at most %zu bytes, must allow 1024",
                 comm->max_bytes);
    else if (progress_thread && !comm->any_thread)
        br_raise(BR_ERROR_STATE,
                 "dist_init: %s does not allow a progress thread: initialize MPI with "
                 "MPI_THREAD_SERIALIZED, or set progress_thread to false",
                 comm->library);
    return !br_failed();
}

/* Frees all memory, and ends the transport. */
static void disconnect(void)
{
    br__dist_watch_end(NULL); /* after an error of br_dist_init() */
    br__dist_group_end(&br__dist.all);
    br__dist_drop_messages();
    if (br__dist.connected)
        br__dist.comm.finalize(&br__dist.comm, !br__dist.broken);
    free(br__dist.processes);
    br__dist = (br_dist_state){ .all = { .size = 1 } };
}

/* Connects this rank with the others. */
static bool begin(bool progress_thread)
{
    br_dist_job job = { .run = connect_ranks, .op = "dist_init" };
    if (!valid_comm(&br__dist.comm, progress_thread))
        return false;
    br__dist_start(&job);
    if (!br__dist_wait(&job))
        return false;
    return !progress_thread || br__dist.all.size == 1 || br__dist_start_thread();
}

static bool valid_options(const br_dist_options *o)
{
    if (o->struct_size != sizeof *o)
        br_raise(BR_ERROR_ARGUMENT,
                 "dist_init: the options were not made by BR_OPTIONS(br_dist, ...)");
    else if (!(o->timeout >= 0))
        br_raise(BR_ERROR_ARGUMENT, "dist_init: timeout is %g, must be at least 0", o->timeout);
    else if (!(o->watch_limit >= 0))
        br_raise(BR_ERROR_ARGUMENT, "dist_init: watch_limit is %g, must be at least 0",
                 o->watch_limit);
    else if (o->comm && o->comm->struct_size != sizeof *o->comm)
        br_raise(BR_ERROR_ARGUMENT,
                 "dist_init: the table of the transport has %zu bytes, must have %zu: compile it "
                 "with this version's headers",
                 o->comm->struct_size, sizeof *o->comm);
    return !br_failed();
}

static void end_at_exit(void);

bool br_dist_init(const br_dist_options *options)
{
    br_dist_options defaults = br_dist_defaults();
    const br_dist_options *o = options ? options : &defaults;
    static bool registered;
    if (br_failed() || br__dist.initialized)
        return !br_failed();
    if (!valid_options(o))
        return false;
    br__dist = (br_dist_state){ .timeout = o->timeout,
                                .watch_limit = o->watch_limit,
                                .all = { .size = 1 } };
    br__dist.connected = o->comm != NULL;
    if (o->comm)
        br__dist.comm = *o->comm;
    else if (!br__dist_open(&br__dist.comm, &br__dist.connected)) {
        br__dist = (br_dist_state){ .all = { .size = 1 } };
        return false;
    }
    if (br__dist.connected && !begin(o->progress_thread)) {
        disconnect();
        return false;
    }
    if (!registered)
        registered = atexit(end_at_exit) == 0;
    br__dist.initialized = true;
    return true;
}

bool br_dist_is_initialized(void)
{
    return br__dist.initialized;
}

const char *br_dist_library(void)
{
    return br__dist.connected ? br__dist.comm.library : "";
}

/* ---- End ------------------------------------------------------------------------------------- */

typedef struct goodbye {
    br_dist_job job;
    const char *error;
} goodbye;

static void say_goodbye(br_dist_job *job)
{
    const goodbye *g = (const goodbye *)job;
    br__dist_agree(job, &br__dist.all, &(br_dist_note){ .op = "dist_finalize", .error = g->error });
}

/* Returns what ranks learn that still wait for this one after it has ended: the error of the last
 * agreement, which those that took part know, or why there was none. */
static const char *reason_of(const br_dist_job *job, char *text, size_t size)
{
    if (job->in_step)
        return job->error;
    snprintf(text, size, "rank %d failed: %s", br__dist.all.rank, br__dist.reason);
    return text;
}

/* Tells the other ranks that this rank ends. */
static void end(const char *error)
{
    char text[2 * BR_DIST_TEXT];
    goodbye bye = { .job.run = say_goodbye, .error = error };
    if (br__dist.all.size > 1) {
        br__dist_start(&bye.job);
        br__dist_join(&bye.job);
        /* An error means that the other ranks may be anywhere: the transport must not wait. */
        br__dist.broken |= bye.job.failed;
        br__dist_stop_thread();
        br__dist_watch_end(bye.job.failed ? reason_of(&bye.job, text, sizeof text) : NULL);
    }
    disconnect();
}

void br_dist_finalize(void)
{
    if (br__dist.initialized)
        end(br_failed() ? br_error_message() : NULL);
}

/* A program that ends without br_dist_finalize() leaves no rank waiting. It then ends half a second
 * later, because MPICH's mpirun kills the other ranks at once, before they can report the error. */
static void end_at_exit(void)
{
    if (!br__dist.initialized)
        return;
    bool alone = br__dist.all.size == 1;
    if (br__dist.timeout == 0 || br__dist.timeout > 5)
        br__dist.timeout = 5;
    end(br_failed() ? br_error_message() : "the program ended without br_dist_finalize()");
    if (!alone)
        nanosleep(&(struct timespec){ .tv_nsec = 500000000 }, NULL);
}

/* ---- Splitting ------------------------------------------------------------------------------- */

/* What the ranks tell each other to split a group. */
typedef struct membership {
    int32_t color, key;
    int64_t splits; /* the rank's number of splits */
} membership;

typedef struct splitting {
    br_dist_job job;
    const br_dist_group *parent;
    br_dist_group *child;
    membership own;
    const char *error;
    bool member;
} splitting;

/* Makes the group of the ranks with this rank's color, in the order of their keys. */
static void make_child(splitting *s, const membership *all)
{
    const br_dist_group *parent = s->parent;
    br_dist_group *g = s->child;
    int size = 0;
    for (int r = 0; r < parent->size; r++)
        size += all[r].color == s->own.color;
    if (!br__dist_group_begin(&s->job, g, 0, size))
        return;
    int *members = g->world; /* ranks of the parent, at first */
    for (int r = 0, n = 0; r < parent->size; r++) {
        if (all[r].color != s->own.color)
            continue;
        int k = n++;
        for (; k > 0 && all[members[k - 1]].key > all[r].key; k--)
            members[k] = members[k - 1];
        members[k] = r;
    }
    /* No rank makes two groups with the same number of splits. */
    g->identity = ((int64_t)parent->world[members[0]] << 32) + all[members[0]].splits;
    for (int r = 0; r < size; r++) {
        if (members[r] == parent->rank)
            g->rank = r;
        members[r] = parent->world[members[r]];
    }
    s->member = true;
}

static void run_split(br_dist_job *job)
{
    splitting *s = (splitting *)job;
    const br_dist_group *parent = s->parent;
    if (!br__dist_agree(job, parent, &(br_dist_note){ .op = "dist_split", .error = s->error }))
        return;
    membership *all = malloc((size_t)parent->size * sizeof *all);
    if (!all) {
        br__dist_job_fail(job, "dist_split: cannot allocate memory for %d ranks", parent->size);
        return;
    }
    all[parent->rank] = s->own;
    if (br__dist_gather_bytes(job, parent, all, sizeof *all) && s->own.color >= 0)
        make_child(s, all);
    free(all);
}

br_dist_group *br_dist_split(br_dist_group *group, int color, int key)
{
    if (!BR_LIVE_GROUP("dist_split", group))
        return NULL;
    splitting s = { .job.run = run_split,
                    .parent = br__dist_group(group),
                    .own = { color, key, ++br__dist.splits },
                    .error = br_failed() ? br_error_message() : NULL };
    s.child = BR_NEW(br_dist_group);
    if (!s.child)
        return NULL;
    s.child->size = 1;
    if (s.parent && s.parent->size > 1) {
        br__dist_start(&s.job);
        br__dist_wait(&s.job);
    } else {
        s.member = color >= 0; /* a group of this rank alone */
    }
    if (s.member && !br_failed())
        return s.child;
    br_dist_group_free(s.child);
    return NULL;
}

void br_dist_group_free(br_dist_group *group)
{
    if (!BR_END("dist_group_free", group))
        return;
    br__dist_group_end(group);
    BR_FREE(group);
}
