/* distributed/agree.c - the agreement that begins every collective.
 *
 * A transport does not check that the ranks of a collective do the same: with other shapes or other
 * functions they would hang, crash or mix up their data. So each rank first tells the others what
 * it is about to do, and every rank compares the notes. All of them see the same notes and come to
 * the same result, so after a disagreement they are still in step. */
#include "distributed/watch.h"

#include <stdio.h>
#include <string.h>

static void put(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
}

static void pack(br_dist_wire *w, const br_dist_group *g, const br_dist_note *note)
{
    memset(w, 0, sizeof *w);
    w->group = g->identity;
    w->step = br_dist_step();
    put(w->op, sizeof w->op, note->op);
    put(w->argument_name, sizeof w->argument_name, note->argument_name);
    put(w->subject, sizeof w->subject, note->subject);
    put(w->error, sizeof w->error, note->error);
    w->dtype = note->dtype;
    w->ndim = note->ndim;
    for (int d = 0; d < note->ndim; d++)
        w->sizes[d] = note->sizes[d];
    w->argument = note->argument;
    w->flags = note->flags;
    if (note->n_bits > 0)
        memcpy(w->bits, note->bits, ((size_t)note->n_bits + 7) / 8);
}

/* ---- Comparing ------------------------------------------------------------------------------- */

static bool same_shape(const br_dist_wire *a, const br_dist_wire *b)
{
    return a->dtype == b->dtype && a->ndim == b->ndim &&
           memcmp(a->sizes, b->sizes, sizeof a->sizes) == 0;
}

/* Writes "f32 [2, 3]". */
static const char *describe(const br_dist_wire *w, char *text, size_t size)
{
    int n = snprintf(text, size, "%s [", br_dtype_name((br_dtype)w->dtype));
    for (int d = 0; d < w->ndim && n > 0 && (size_t)n < size; d++)
        n += snprintf(text + n, size - (size_t)n, d ? ", %lld" : "%lld", (long long)w->sizes[d]);
    if (n > 0 && (size_t)n < size)
        snprintf(text + n, size - (size_t)n, "]");
    return text;
}

/* Fails if rank r's note differs from rank 0's. */
static bool compare(br_dist_job *job, const br_dist_group *g, int r)
{
    const br_dist_wire *a = &g->notes[0], *b = &g->notes[r];
    int first = g->world[0], second = g->world[r];
    char ours[160], theirs[160];
    if (strcmp(a->op, b->op) != 0)
        return br__dist_job_fail(job,
                                 "rank %d called %s while rank %d called %s: all ranks must call "
                                 "the same functions in the same order",
                                 second, b->op, first, a->op);
    if (strcmp(a->subject, b->subject) != 0)
        return br__dist_job_fail(job, "%s: rank %d has %s where rank %d has %s", a->op, second,
                                 b->subject, first, a->subject);
    if (!same_shape(a, b))
        return br__dist_job_fail(
            job,
            "%s: %s%srank %d has %s, but rank %d has %s: all ranks must pass the same dtype and "
            "shape",
            a->op, a->subject, *a->subject ? ": " : "", second, describe(b, theirs, sizeof theirs),
            first, describe(a, ours, sizeof ours));
    if (a->argument != b->argument)
        return br__dist_job_fail(job, "%s: %s is %lld on rank %d, but %lld on rank %d", a->op,
                                 a->argument_name, (long long)b->argument, second,
                                 (long long)a->argument, first);
    return true;
}

/* Fails if a note is about another group. Two groups have the same stream of messages between
 * ranks that are members of both, so these ranks must use the groups in the same order. */
static bool same_group(br_dist_job *job, const br_dist_group *g)
{
    for (int r = 0; r < g->size; r++)
        if (g->notes[r].group != g->identity)
            return br__dist_job_fail(job,
                                     "rank %d called %s with another group than rank %d, which "
                                     "called %s: ranks must use the groups that they share in the "
                                     "same order",
                                     g->world[r], g->notes[r].op, g->world[g->rank],
                                     g->notes[g->rank].op);
    return true;
}

/* Fails with the error of rank r. */
static bool fail_as(br_dist_job *job, const br_dist_group *g, int r)
{
    char step[32] = "";
    if (g->notes[r].step > 0)
        snprintf(step, sizeof step, " in step %lld", (long long)g->notes[r].step);
    return br__dist_job_fail(job, "rank %d failed%s: %s", g->world[r], step, g->notes[r].error);
}

static bool compare_all(br_dist_job *job, const br_dist_group *g)
{
    for (int r = 0; r < g->size; r++)
        if (*g->notes[r].error)
            return fail_as(job, g, r);
    for (int r = 1; r < g->size; r++)
        if (!compare(job, g, r))
            return false;
    return true;
}

bool br__dist_agree(br_dist_job *job, const br_dist_group *g, const br_dist_note *note)
{
    job->op = note->op;
    pack(&g->notes[g->rank], g, note);
    if (!br__dist_gather_bytes(job, g, g->notes, sizeof *g->notes) || !same_group(job, g))
        return false;
    if (compare_all(job, g))
        return true;
    job->in_step = true;
    return false;
}

uint64_t br__dist_flags(const br_dist_group *g, int rank)
{
    return g->notes[rank].flags;
}

bool br__dist_bit(const br_dist_group *g, int rank, int i)
{
    return br__dist_get_bit(g->notes[rank].bits, i);
}
