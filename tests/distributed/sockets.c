/* tests/distributed/sockets.c - forked ranks, and the transport that connects them.
 *
 * Each pair of ranks has a pair of stream sockets for each channel. The bytes of the messages
 * follow one another without headers: sender and receiver know their sizes. */
#include "tests/distributed/sockets.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A message that is not complete. */
typedef struct request {
    struct request *next; /* in its stream */
    struct stream *stream;
    char *data;
    size_t left;
} request;

/* The messages of one direction, in their order. */
typedef struct stream {
    int fd;
    bool sends;
    request *first;
} stream;

typedef struct sockets {
    stream streams[MAX_FORKED][BR_COMM_CHANNELS][2]; /* receiving, sending */
} sockets;

static void *start(br_comm *comm, int peer, int channel, bool sends, void *data, size_t bytes,
                   char *error)
{
    stream *s = &((sockets *)comm->state)->streams[peer][channel][sends];
    request *r = malloc(sizeof *r), **last = &s->first;
    if (!r || bytes == 0 || bytes > comm->max_bytes) {
        snprintf(error, BR_COMM_TEXT, "cannot start a message of %zu bytes", bytes);
        free(r);
        return NULL;
    }
    *r = (request){ .stream = s, .data = data, .left = bytes };
    while (*last)
        last = &(*last)->next;
    return *last = r;
}

static void *start_send(br_comm *comm, int peer, int channel, const void *data, size_t bytes,
                        char *error)
{
    return start(comm, peer, channel, true, (void *)data, bytes, error);
}

static void *start_recv(br_comm *comm, int peer, int channel, void *data, size_t bytes, char *error)
{
    return start(comm, peer, channel, false, data, bytes, error);
}

/* Moves bytes of a stream's first message. Returns false if none can be moved now; sets *failed
 * and writes a message if none can be moved any more. */
static bool move(stream *s, char *error, bool *failed)
{
    request *r = s->first;
    ssize_t n = s->sends ? send(s->fd, r->data, r->left, MSG_DONTWAIT | MSG_NOSIGNAL)
                         : recv(s->fd, r->data, r->left, MSG_DONTWAIT);
    if (n > 0) {
        r->data += n;
        r->left -= (size_t)n;
        return true;
    }
    *failed = n == 0 || (errno != EAGAIN && errno != EINTR);
    if (*failed)
        snprintf(error, BR_COMM_TEXT, "%s", n == 0 ? "the rank has ended" : strerror(errno));
    return false;
}

static br_comm_status test(br_comm *comm, void *handle, char *error)
{
    request *r = handle;
    stream *s = r->stream;
    bool failed = false;
    (void)comm;
    while (s->first && move(s, error, &failed))
        if (s->first->left == 0)
            s->first = s->first->next;
    if (r->left > 0 && !failed)
        return BR_COMM_PENDING;
    br_comm_status status = r->left > 0 ? BR_COMM_FAILED : BR_COMM_DONE;
    if (failed)
        s->first = NULL; /* nothing is tested after a failure */
    free(r);
    return status;
}

static void abandon(br_comm *comm, void *handle)
{
    (void)comm;
    free(handle);
}

static void finalize(br_comm *comm, bool orderly)
{
    sockets *all = comm->state;
    (void)orderly;
    for (int peer = 0; peer < comm->size; peer++)
        for (int channel = 0; channel < BR_COMM_CHANNELS; channel++)
            if (peer != comm->rank)
                close(all->streams[peer][channel][0].fd);
    free(all);
}

/* ---- Forking --------------------------------------------------------------------------------- */

/* [i][j][channel]: the socket of rank i to rank j. */
static int ends[MAX_FORKED][MAX_FORKED][BR_COMM_CHANNELS];

static void make_pairs(int size)
{
    for (int i = 0; i < size; i++) {
        for (int j = i + 1; j < size; j++) {
            for (int channel = 0; channel < BR_COMM_CHANNELS; channel++) {
                int pair[2];
                if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
                    perror("socketpair");
                    exit(1);
                }
                ends[i][j][channel] = pair[0];
                ends[j][i][channel] = pair[1];
            }
        }
    }
}

/* Closes the sockets of all ranks but one, so that a rank's end is seen by the others. */
static void close_others(int size, int rank)
{
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++)
            for (int channel = 0; channel < BR_COMM_CHANNELS; channel++)
                if (i != rank && i != j)
                    close(ends[i][j][channel]);
}

static br_comm make_comm(int rank, int size, size_t max_bytes)
{
    sockets *all = calloc(1, sizeof *all);
    if (!all)
        exit(1);
    for (int peer = 0; peer < size; peer++)
        for (int channel = 0; channel < BR_COMM_CHANNELS; channel++)
            for (int sends = 0; sends < 2; sends++)
                all->streams[peer][channel][sends] =
                    (stream){ .fd = ends[rank][peer][channel], .sends = sends };
    return (br_comm){ .struct_size = sizeof(br_comm),
                      .library = "pairs of sockets",
                      .rank = rank,
                      .size = size,
                      .max_bytes = max_bytes,
                      .any_thread = true,
                      .state = all,
                      .start_send = start_send,
                      .start_recv = start_recv,
                      .test = test,
                      .abandon = abandon,
                      .finalize = finalize };
}

/* Waits for all ranks. Returns the last status that is not 0. Kills a rank that is stopped when the
 * others have ended. */
static int wait_for_ranks(int size)
{
    int worst = 0, status, running = size;
    pid_t stopped = 0, child;
    while (running > 0 && (child = waitpid(-1, &status, WUNTRACED)) > 0) {
        if (WIFSTOPPED(status))
            stopped = child;
        else if (WIFSIGNALED(status))
            worst = 128 + WTERMSIG(status);
        else if (WEXITSTATUS(status) != 0)
            worst = WEXITSTATUS(status);
        running -= !WIFSTOPPED(status);
        if (running == 1 && stopped)
            kill(stopped, SIGKILL);
    }
    return worst;
}

br_comm fork_ranks(int size, size_t max_bytes)
{
    if (size < 1 || size > MAX_FORKED) {
        fprintf(stderr, "the number of ranks must be in 1 .. %d\n", MAX_FORKED);
        exit(1);
    }
    make_pairs(size);
    for (int rank = 0; rank < size; rank++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            exit(1);
        }
        if (child > 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* no rank outlives a test that was interrupted */
        close_others(size, rank);
        return make_comm(rank, size, max_bytes);
    }
    close_others(size, -1);
    const int status = wait_for_ranks(size);
    fflush(NULL);
    _exit(status); /* this process only waits: it has nothing that a sanitizer should look for */
}
