/* distributed/group.c - the start and the end of communication, and groups of ranks. */
#include "distributed/distributed_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

br_dist_state br__dist;

br_dist_options br_dist_defaults(void)
{
    return (br_dist_options){ br_dist_default_fields };
}

void *br__dist_malloc(size_t bytes)
{
    void *block = malloc(bytes ? bytes : 1);
    if (!block)
        br_raise(BR_ERROR_MEMORY, "cannot allocate %zu bytes", bytes);
    return block;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Stores the group's ranks among all ranks. */
static bool find_world(br_dist_job *job, br_dist_group *g)
{
    MPI_Group own, all;
    int *ranks = malloc((size_t)g->size * sizeof *ranks);
    g->world = malloc((size_t)g->size * sizeof *g->world);
    g->notes = malloc((size_t)g->size * br__dist_wire_size);
    if (!ranks || !g->world || !g->notes) {
        free(ranks);
        return br__dist_job_fail(job, "cannot allocate memory for a group of %d ranks", g->size);
    }
    for (int r = 0; r < g->size; r++)
        ranks[r] = r;
    bool ok = br__dist_ok(job, "MPI_Comm_group", MPI_Comm_group(g->comm, &own)) &&
              br__dist_ok(job, "MPI_Comm_group",
                          MPI_Comm_group(g == &br__dist.all ? g->comm : br__dist.all.comm, &all)) &&
              br__dist_ok(job, "MPI_Group_translate_ranks",
                          MPI_Group_translate_ranks(own, g->size, ranks, all, g->world));
    free(ranks);
    if (ok) {
        MPI_Group_free(&own);
        MPI_Group_free(&all);
    }
    return ok;
}

bool br__dist_group_begin(br_dist_job *job, br_dist_group *g, MPI_Comm comm)
{
    g->comm = g->control = MPI_COMM_NULL;
    g->world = NULL;
    g->notes = NULL;
    return br__dist_ok(job, "MPI_Comm_dup", MPI_Comm_dup(comm, &g->comm)) &&
           br__dist_ok(job, "MPI_Comm_set_errhandler",
                       MPI_Comm_set_errhandler(g->comm, MPI_ERRORS_RETURN)) &&
           br__dist_ok(job, "MPI_Comm_dup", MPI_Comm_dup(g->comm, &g->control)) &&
           br__dist_ok(job, "MPI_Comm_rank", MPI_Comm_rank(g->comm, &g->rank)) &&
           br__dist_ok(job, "MPI_Comm_size", MPI_Comm_size(g->comm, &g->size)) &&
           find_world(job, g);
}

void br__dist_group_end(br_dist_group *g)
{
    if (!br__dist.broken && g->comm != MPI_COMM_NULL)
        MPI_Comm_free(&g->comm);
    if (!br__dist.broken && g->control != MPI_COMM_NULL)
        MPI_Comm_free(&g->control);
    free(g->world);
    free(g->notes);
    *g = (br_dist_group){ .size = 1 };
}

const br_dist_group *br__dist_group(const br_dist_group *group)
{
    return group ? group : br__dist.initialized ? &br__dist.all : NULL;
}

int br_dist_rank(const br_dist_group *group)
{
    const br_dist_group *g = br__dist_group(group);
    return g ? g->rank : 0;
}

int br_dist_size(const br_dist_group *group)
{
    const br_dist_group *g = br__dist_group(group);
    return g ? g->size : 1;
}

/* ---- Start ----------------------------------------------------------------------------------- */

/* Facts about a process that all ranks exchange at the start, before they trust each other's
 * notes. */
typedef struct facts {
    char version[32], machine[MPI_MAX_PROCESSOR_NAME], processes[64];
    int32_t process;
} facts;

static void collect_facts(facts *f)
{
    int length = 0;
    memset(f, 0, sizeof *f);
    snprintf(f->version, sizeof f->version, "%s", br_version());
    MPI_Get_processor_name(f->machine, &length);
    /* Process IDs mean the same only inside one PID namespace. */
    if (readlink("/proc/self/ns/pid", f->processes, sizeof f->processes - 1) < 0)
        f->processes[0] = '\0';
    f->process = (int32_t)getpid();
}

/* Compares the versions, and stores the process IDs of the ranks on this machine. */
static bool use_facts(br_dist_job *job, const facts *all, const facts *own)
{
    int size = br__dist.all.size;
    for (int r = 0; r < size; r++) {
        if (strcmp(all[r].version, all[0].version) != 0)
            return br__dist_job_fail(job,
                                     "dist_init: rank %d runs version %.31s of brasa, but rank 0 "
                                     "runs %.31s: install the same version everywhere",
                                     r, all[r].version, all[0].version);
        bool here = strcmp(all[r].machine, own->machine) == 0 && *own->processes &&
                    strcmp(all[r].processes, own->processes) == 0;
        br__dist.processes[r] = here ? all[r].process : 0;
    }
    return true;
}

static bool exchange_facts(br_dist_job *job)
{
    size_t size = (size_t)br__dist.all.size;
    facts own, *all = malloc(size * sizeof *all);
    br__dist.processes = calloc(size, sizeof *br__dist.processes);
    collect_facts(&own);
    bool ok = all && br__dist.processes;
    if (!ok)
        br__dist_job_fail(job, "dist_init: cannot allocate memory for %zu ranks", size);
    ok = ok &&
         br__dist_ok(job, "MPI_Allgather",
                     MPI_Allgather(&own, (int)sizeof own, MPI_BYTE, all, (int)sizeof own, MPI_BYTE,
                                   br__dist.all.comm)) &&
         use_facts(job, all, &own);
    free(all);
    return ok;
}

static void connect_ranks(br_dist_job *job)
{
    if (br__dist_group_begin(job, &br__dist.all, MPI_COMM_WORLD))
        exchange_facts(job);
}

/* Returns true if mpirun, srun or a similar program started this process. MPI_Init() would work
 * without, but takes long and may fail where such a program is not installed. */
static bool started_by_mpirun(void)
{
    static const char *const names[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK",
                                         "PMIX_RANK", "MPI_LOCALNRANKS" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

/* Initializes MPI if needed. Stores the supported level of threads. */
static bool begin_mpi(int *level)
{
    int there = 0;
    MPI_Initialized(&there);
    if (there)
        return MPI_Query_thread(level) == MPI_SUCCESS;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, level) != MPI_SUCCESS) {
        br_raise(BR_ERROR_STATE, "dist_init: MPI_Init_thread failed");
        return false;
    }
    br__dist.owns_mpi = true;
    return true;
}

static void end_mpi(void)
{
    if (br__dist.owns_mpi && !br__dist.broken)
        MPI_Finalize();
    br__dist.owns_mpi = false;
}

static bool begin(const br_dist_options *o)
{
    int level = MPI_THREAD_SINGLE;
    if (!begin_mpi(&level))
        return false;
    if (o->progress_thread && level < MPI_THREAD_SERIALIZED) {
        br_raise(BR_ERROR_STATE,
                 "dist_init: MPI does not allow a progress thread: initialize it with "
                 "MPI_THREAD_SERIALIZED, or set progress_thread to false");
        end_mpi();
        return false;
    }
    br_dist_job job = { .run = connect_ranks };
    br__dist_start(&job);
    if (!br__dist_wait(&job)) {
        br__dist_group_end(&br__dist.all);
        end_mpi();
        return false;
    }
    return !o->progress_thread || br__dist.all.size == 1 || br__dist_start_thread();
}

static void end_at_exit(void);

bool br_dist_init(const br_dist_options *options)
{
    br_dist_options defaults = br_dist_defaults();
    const br_dist_options *o = options ? options : &defaults;
    static bool registered;
    if (br_failed() || br__dist.initialized)
        return !br_failed();
    if (o->struct_size != sizeof *o || !(o->timeout >= 0)) {
        br_raise(BR_ERROR_ARGUMENT, "dist_init: %s",
                 o->struct_size != sizeof *o
                     ? "the options were not made by BR_OPTIONS(br_dist, ...)"
                     : "timeout must be at least 0");
        return false;
    }
    br__dist = (br_dist_state){ .timeout = o->timeout, .all = { .size = 1 } };
    int there = 0;
    MPI_Initialized(&there);
    br__dist.connected = there || started_by_mpirun();
    if (br__dist.connected && !begin(o))
        return false;
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
    static char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    if (!*text && MPI_Get_library_version(text, &length) == MPI_SUCCESS)
        text[strcspn(text, "\n,")] = '\0';
    for (char *c = text; *c; c++)
        if (*c == '\t')
            *c = ' ';
    return text;
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

/* Tells the other ranks that this rank ends. */
static void end(const char *error)
{
    goodbye bye = { .job.run = say_goodbye, .error = error };
    if (br__dist.connected && br__dist.all.size > 1) {
        br__dist_start(&bye.job);
        br__dist_join(&bye.job);
        /* An error means that the other ranks may be anywhere: MPI_Finalize() could hang. */
        br__dist.broken |= bye.job.failed;
        br__dist_stop_thread();
    }
    if (br__dist.connected) {
        br__dist_group_end(&br__dist.all);
        end_mpi();
    }
    free(br__dist.processes);
    br__dist = (br_dist_state){ .all = { .size = 1 } };
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

typedef struct splitting {
    br_dist_job job;
    const br_dist_group *parent;
    br_dist_group *child;
    const char *error;
    int color, key;
    bool member;
} splitting;

static void run_split(br_dist_job *job)
{
    splitting *s = (splitting *)job;
    MPI_Comm comm = MPI_COMM_NULL;
    if (!br__dist_agree(job, s->parent, &(br_dist_note){ .op = "dist_split", .error = s->error }) ||
        !br__dist_ok(job, "MPI_Comm_split",
                     MPI_Comm_split(s->parent->control, s->color < 0 ? MPI_UNDEFINED : s->color,
                                    s->key, &comm)) ||
        comm == MPI_COMM_NULL)
        return;
    s->member = br__dist_group_begin(job, s->child, comm);
    MPI_Comm_free(&comm);
}

br_dist_group *br_dist_split(br_dist_group *group, int color, int key)
{
    splitting s = { .job.run = run_split,
                    .parent = br__dist_group(group),
                    .error = br_failed() ? br_error_message() : NULL,
                    .color = color,
                    .key = key };
    s.child = calloc(1, sizeof *s.child);
    if (!s.child && !br_failed())
        br_raise(BR_ERROR_MEMORY, "dist_split: cannot allocate a group");
    if (!s.child)
        return NULL;
    *s.child = (br_dist_group){ .size = 1 };
    s.child->comm = s.child->control = MPI_COMM_NULL;
    if (s.parent && s.parent->comm != MPI_COMM_NULL && br__dist.connected) {
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

typedef struct freeing {
    br_dist_job job;
    br_dist_group *group;
} freeing;

static void run_free(br_dist_job *job)
{
    br__dist_group_end(((freeing *)job)->group);
}

void br_dist_group_free(br_dist_group *group)
{
    if (!group)
        return;
    freeing f = { .job.run = run_free, .group = group };
    br__dist_start(&f.job);
    if (!br__dist_join(&f.job))
        br__dist_group_end(group); /* communication is broken: frees the memory only */
    free(group);
}
