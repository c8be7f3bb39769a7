/* distributed/watch.h - the watch: finds ranks that have died or stopped.
 *
 * A transport such as MPI does not report that a process has died: the other ranks would wait for
 * it. So each rank has a TCP connection to rank 0, and a thread that sends signs of life over it.
 * The kernel closes the connections of a process that ends in any way, so the other side learns of
 * it at once. No signs arrive from a process that is stopped, or whose machine is unplugged. Rank 0
 * tells the other ranks. The watch uses neither the transport nor the progress thread. */
#ifndef BR_DISTRIBUTED_WATCH_H
#define BR_DISTRIBUTED_WATCH_H

#include "distributed/distributed_internal.h"

#include <netinet/in.h>

/* Ends the watch. The other ranks do not take this for a death; with `error`, they learn that it
 * failed. */
void br__dist_watch_end(const char *error);

/* Returns why communication is no longer possible, such as "rank 2 (host x, process 123) has died
 * in step 7"; NULL if no rank is lost. The first loss counts. */
const char *br__dist_lost(void);
/* Waits until a rank is lost, for at most that many seconds and not without the watch. Returns
 * br__dist_lost(). */
const char *br__dist_wait_for_loss(double seconds);
/* Returns the time within which the watch finds every loss, in seconds. */
double br__dist_watch_limit(void);
/* The same, if the lost rank has died or stopped; NULL if it has reported an error. */
const char *br__dist_dead(void);
/* Records that a rank's process does not exist any more. */
void br__dist_lose_process(int rank);

/* A message of the watch. Each of them is a sign of life. */
typedef enum br_dist_sign_kind {
    BR_DIST_LIVES,
    BR_DIST_LEAVES,
    BR_DIST_HAS_DIED,
    BR_DIST_HAS_FAILED,
} br_dist_sign_kind;
typedef struct br_dist_sign {
    int64_t kind, step;
    char text[BR_DIST_TEXT]; /* who has died or failed */
} br_dist_sign;

/* ---- Connections (distributed/watch_connect.c) ----------------------------------------------- */

/* What rank 0 tells the others so that they can connect. The token proves that they were told. */
typedef struct br_dist_invitation {
    double limit; /* 0: there is no watch */
    uint64_t token[2];
    in_port_t port; /* 0: rank 0 cannot listen */
    int n_addresses;
    struct in_addr addresses[16]; /* of rank 0 */
} br_dist_invitation;

/* These return sockets, or -1 after a failure, of which the first two write a text of BR_COMM_TEXT
 * bytes. */
int br__dist_watch_listen(br_dist_invitation *invitation, bool one_machine, char *error);
int br__dist_watch_connect(const br_dist_invitation *invitation, int rank, char *error);
/* Accepts the connection of a rank, and stores its number. */
int br__dist_watch_accept(int listener, const br_dist_invitation *invitation, int *rank);

/* ---- The start (distributed/watch_begin.c) --------------------------------------------------- */

/* Connects this rank with the watch of rank 0. `limit` is the number of seconds without a sign of
 * life after which a rank counts as stopped; rank 0's is used, and 0 means no watch. `one_machine`:
 * all ranks run on this machine. Without a connection the watch is off on all ranks, and rank 0
 * raises a warning. Returns false and sets the job's error if the transport fails. */
bool br__dist_watch_begin(br_dist_job *job, double limit, bool one_machine);
/* Forgets an earlier watch: no rank is lost. */
void br__dist_watch_reset(void);
/* Starts the thread. Rank 0 passes a listening socket and has no connections yet; the others pass
 * their connection. The calling thread's signals are blocked, and so are the thread's. Returns
 * false and writes a text of BR_COMM_TEXT bytes on failure. */
bool br__dist_watch_start(const br_dist_group *g, const br_dist_invitation *invitation, int fd,
                          char *error);

#endif
