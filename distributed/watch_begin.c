/* distributed/watch_begin.c - how the ranks agree on a watch and start it. */
#include "distributed/watch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Rank 0 listens; the others connect. */
static void join_watch(const br_dist_group *g, br_dist_invitation *invitation, bool one_machine,
                       char *error)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* they would interrupt connect() */
    int fd = g->rank == 0 ? br__dist_watch_listen(invitation, one_machine, error)
                          : br__dist_watch_connect(invitation, g->rank, error);
    if (fd >= 0 && !br__dist_watch_start(g, invitation, fd, error))
        invitation->port = 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Ends the watch on all ranks if one of them has an error. */
static bool share_errors(br_dist_job *job, const br_dist_group *g, const char *own)
{
    char(*errors)[BR_COMM_TEXT] = calloc((size_t)g->size, sizeof *errors);
    if (!errors)
        return br__dist_job_fail(job, "dist_init: cannot allocate memory for %d ranks", g->size);
    memcpy(errors[g->rank], own, sizeof *errors);
    bool ok = br__dist_gather_bytes(job, g, errors, sizeof *errors);
    int first = 0;
    while (ok && first < g->size && !*errors[first])
        first++;
    if (ok && first < g->size) {
        br__dist_watch_end(NULL);
        if (g->rank == 0)
            br_raise(BR_WARNING,
                     "dist_init: a rank that dies may be noticed late, because rank %d cannot "
                     "connect to rank 0: %s",
                     first, errors[first]);
    }
    free(errors);
    return ok;
}

bool br__dist_watch_begin(br_dist_job *job, double limit, bool one_machine)
{
    const br_dist_group *g = &br__dist.all;
    br_dist_invitation invitation = { .limit = limit };
    char error[BR_COMM_TEXT] = "";
    br__dist_watch_reset();
    if (g->size == 1)
        return true;
    if (g->rank == 0 && limit > 0)
        join_watch(g, &invitation, one_machine, error);
    if (!br__dist_broadcast_bytes(job, g, (char *)&invitation, sizeof invitation, 0))
        return false;
    if (invitation.limit == 0)
        return true;
    if (g->rank > 0 && invitation.port != 0)
        join_watch(g, &invitation, one_machine, error);
    return share_errors(job, g, error);
}
