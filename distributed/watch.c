/* distributed/watch.c - the thread that sends signs of life and looks for those of others. */
#include "distributed/watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const double BEAT_EVERY = 0.5; /* seconds between signs of life, or less for a short limit */

typedef struct connection {
    int rank, fd; /* fd is -1 before the rank has connected, and after it has left */
    double heard; /* the time of its last message */
    int64_t step; /* in its last message; 0: none */
    br_dist_sign incoming, outgoing;
    size_t received, unsent; /* bytes of them; unsent ones are the last of `outgoing` */
} connection;

/* Rank 0 has a connection to each other rank r, connections[r - 1]; the others have one to rank 0.
 * The thread holds the lock except while it waits. */
static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    bool running, ending;
    int wake, listener; /* sockets; listener is -1 after all ranks have connected */
    int n;
    connection *connections;
    struct pollfd *polls;
    br_dist_invitation invitation;
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = -1, .listener = -1 };

static _Atomic int64_t own_step;
/* The reason is written before is_lost is set, and does not change afterwards. */
static atomic_bool is_lost, is_dead;
static char reason[BR_DIST_TEXT];

/* ---- What is known --------------------------------------------------------------------------- */

const char *br__dist_lost(void)
{
    return atomic_load(&is_lost) ? reason : NULL;
}

const char *br__dist_dead(void)
{
    return atomic_load(&is_dead) ? br__dist_lost() : NULL;
}

int64_t br_dist_step(void)
{
    return atomic_load(&own_step);
}

const char *br__dist_wait_for_loss(double seconds)
{
    const double end = br__dist_seconds() + seconds;
    while (watch.running && !br__dist_lost() && br__dist_seconds() < end)
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return br__dist_lost();
}

double br__dist_watch_limit(void)
{
    return watch.invitation.limit;
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* Sends what is left of the last message. */
static void flush(connection *c)
{
    const char *end = (const char *)(&c->outgoing + 1);
    ssize_t n = send(c->fd, end - c->unsent, c->unsent, MSG_NOSIGNAL | MSG_DONTWAIT);
    c->unsent -= n > 0 ? (size_t)n : 0;
}

/* Sends a message, unless the rank does not read and the kernel's buffer is full. The end of a
 * connection is seen by the thread when it reads. */
static void tell(connection *c, br_dist_sign_kind kind, const char *text)
{
    if (c->fd < 0)
        return;
    if (c->unsent > 0)
        flush(c);
    if (c->unsent > 0)
        return;
    c->outgoing = (br_dist_sign){ .kind = kind, .step = atomic_load(&own_step) };
    snprintf(c->outgoing.text, sizeof c->outgoing.text, "%s", text);
    c->unsent = sizeof c->outgoing;
    flush(c);
    if (c->unsent == sizeof c->outgoing)
        c->unsent = 0; /* not begun: a later message replaces it */
}

static void tell_all(br_dist_sign_kind kind, const char *text)
{
    for (int i = 0; i < watch.n; i++)
        tell(&watch.connections[i], kind, text);
}

/* Records the first loss, and tells all ranks. They must know it before this rank acts on it: when
 * it ends, they would take it for the first. */
static void lose(br_dist_sign_kind kind, const char *text)
{
    if (atomic_load(&is_lost))
        return;
    tell_all(kind, text);
    snprintf(reason, sizeof reason, "%s", text);
    atomic_store(&is_dead, kind == BR_DIST_HAS_DIED);
    atomic_store(&is_lost, true);
}

/* Loses a rank. `how` states what happened, and `when` precedes the step. */
static void lose_rank(int rank, int64_t step, const char *how, const char *when)
{
    char text[BR_DIST_TEXT], last[64] = "";
    if (step > 0)
        snprintf(last, sizeof last, "%s step %lld", when, (long long)step);
    snprintf(text, sizeof text, "rank %d (host %s, process %d) %s%s", rank,
             br__dist.processes[rank].machine, br__dist.processes[rank].process, how, last);
    lose(BR_DIST_HAS_DIED, text);
}

static int64_t step_of(int rank)
{
    for (int i = 0; i < watch.n; i++)
        if (watch.connections[i].rank == rank)
            return watch.connections[i].step;
    return 0;
}

void br__dist_lose_process(int rank)
{
    pthread_mutex_lock(&watch.lock);
    lose_rank(rank, step_of(rank), "has died", " in");
    pthread_mutex_unlock(&watch.lock);
}

/* Closes a socket, if there is one. */
static void close_socket(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void handle(connection *c)
{
    br_dist_sign *m = &c->incoming;
    m->text[sizeof m->text - 1] = '\0';
    c->received = 0;
    c->heard = br__dist_seconds();
    c->step = m->step;
    if (m->kind == BR_DIST_LEAVES)
        close_socket(&c->fd);
    else if (m->kind == BR_DIST_HAS_DIED || m->kind == BR_DIST_HAS_FAILED)
        lose((br_dist_sign_kind)m->kind, m->text);
}

/* Reads all messages that have arrived. */
static void listen_to(connection *c)
{
    while (c->fd >= 0) {
        ssize_t n = recv(c->fd, (char *)&c->incoming + c->received,
                         sizeof c->incoming - c->received, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            close_socket(&c->fd);
            lose_rank(c->rank, c->step, "has died", " in");
            return;
        }
        c->received += (size_t)n;
        if (c->received == sizeof c->incoming)
            handle(c);
    }
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Accepts a connection, and stops listening after the last. */
static void accept_rank(void)
{
    int rank = 0, missing = 0;
    int fd = br__dist_watch_accept(watch.listener, &watch.invitation, &rank);
    if (fd >= 0 && (rank < 1 || rank > watch.n || watch.connections[rank - 1].fd >= 0)) {
        close(fd);
    } else if (fd >= 0) {
        watch.connections[rank - 1].fd = fd;
        watch.connections[rank - 1].heard = br__dist_seconds();
    }
    for (int i = 0; i < watch.n; i++)
        missing += watch.connections[i].fd < 0;
    if (missing > 0)
        return;
    close(watch.listener);
    watch.listener = -1;
}

/* Waits for a message, or for at most that many seconds. */
static void wait_for_messages(double time)
{
    struct pollfd *polls = watch.polls;
    polls[0] = (struct pollfd){ .fd = watch.wake, .events = POLLIN };
    polls[1] = (struct pollfd){ .fd = watch.listener, .events = POLLIN };
    for (int i = 0; i < watch.n; i++) /* poll() ignores a negative fd */
        polls[2 + i] = (struct pollfd){ .fd = watch.connections[i].fd, .events = POLLIN };
    pthread_mutex_unlock(&watch.lock);
    poll(polls, (nfds_t)watch.n + 2, (int)(1000 * time) + 1);
    pthread_mutex_lock(&watch.lock);
    if (watch.listener >= 0 && polls[1].revents)
        accept_rank();
}

static void find_stopped(void)
{
    for (int i = 0; i < watch.n; i++) {
        const connection *c = &watch.connections[i];
        char how[96];
        if (c->fd < 0 || br__dist_seconds() - c->heard <= watch.invitation.limit)
            continue;
        snprintf(how, sizeof how, "has given no sign of life for %g seconds",
                 watch.invitation.limit);
        lose_rank(c->rank, c->step, how, ", last in");
    }
}

static void *look(void *unused)
{
    double every = watch.invitation.limit / 4, sent = br__dist_seconds();
    every = every < BEAT_EVERY ? every : BEAT_EVERY;
    pthread_mutex_lock(&watch.lock);
    while (!watch.ending && !br__dist_lost()) {
        wait_for_messages(every);
        /* Messages first: this process may itself have been stopped. */
        for (int i = 0; i < watch.n; i++)
            listen_to(&watch.connections[i]);
        find_stopped();
        if (br__dist_seconds() - sent >= every) {
            tell_all(BR_DIST_LIVES, "");
            sent = br__dist_seconds();
        }
    }
    pthread_mutex_unlock(&watch.lock);
    return unused;
}

void br_dist_set_step(int64_t step)
{
    pthread_mutex_lock(&watch.lock);
    atomic_store(&own_step, step);
    if (watch.running)
        tell_all(BR_DIST_LIVES, "");
    pthread_mutex_unlock(&watch.lock);
}

/* ---- Start and end --------------------------------------------------------------------------- */

void br__dist_watch_reset(void)
{
    watch.invitation.limit = 0;
    atomic_store(&is_lost, false);
    atomic_store(&is_dead, false);
    atomic_store(&own_step, 0);
}

bool br__dist_watch_start(const br_dist_group *g, const br_dist_invitation *invitation, int fd,
                          char *error)
{
    const int n = g->rank == 0 ? g->size - 1 : 1;
    watch.invitation = *invitation;
    watch.connections = calloc((size_t)n, sizeof *watch.connections);
    watch.polls = calloc((size_t)n + 2, sizeof *watch.polls);
    watch.wake = eventfd(0, EFD_CLOEXEC);
    watch.n = watch.connections ? n : 0;
    watch.ending = false;
    for (int i = 0; i < watch.n; i++)
        watch.connections[i] = (connection){ .rank = i + 1, .fd = -1 };
    if (g->rank == 0)
        watch.listener = fd;
    else if (watch.n == 1)
        watch.connections[0] = (connection){ .rank = 0, .fd = fd, .heard = br__dist_seconds() };
    else
        close(fd);
    if (!watch.n || !watch.polls || watch.wake < 0 ||
        pthread_create(&watch.thread, NULL, look, NULL) != 0)
        snprintf(error, BR_COMM_TEXT, "cannot start a thread");
    else
        watch.running = true;
    return watch.running;
}

void br__dist_watch_end(const char *error)
{
    if (watch.running) {
        pthread_mutex_lock(&watch.lock);
        watch.ending = true;
        pthread_mutex_unlock(&watch.lock);
        eventfd_write(watch.wake, 1);
        pthread_join(watch.thread, NULL);
        if (!br__dist_lost())
            tell_all(error ? BR_DIST_HAS_FAILED : BR_DIST_LEAVES, error ? error : "");
    }
    for (int i = 0; i < watch.n; i++)
        close_socket(&watch.connections[i].fd);
    close_socket(&watch.listener);
    close_socket(&watch.wake);
    free(watch.connections);
    free(watch.polls);
    watch.connections = NULL;
    watch.polls = NULL;
    watch.n = 0;
    watch.running = false;
}
