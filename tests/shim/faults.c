/* tests/shim/faults.c - ends a rank of `brasa train`, in one of two ways.
 *
 * As a library for LD_PRELOAD under mpirun: $FAULT, for example "1 3 kill 500", ends rank 1 in step
 * 3, 500 microseconds after it has told the other ranks that it begins the step, and creates the
 * file $FAULT_MARK.
 *
 * As a plug-in for MPI, without mpirun: $FAULT, for example "exit 7", happens when the plug-in is
 * opened. With "wait", the process writes its ID to the file $FAULT_PROCESS and sleeps. */
#include "distributed/watch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- The preloaded library ------------------------------------------------------------------- */

static int number_in(const char *openmpi, const char *mpich)
{
    const char *value = getenv(openmpi) ? getenv(openmpi) : getenv(mpich);
    return value ? atoi(value) : -1;
}

static void kill_after(long microseconds)
{
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
    struct itimerspec time = { .it_value.tv_nsec = 1000 * microseconds };
    timer_t timer;
    if (microseconds == 0 || timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &time, NULL) != 0)
        kill(getpid(), SIGKILL);
}

/* Looks whether the message begins the step. Rank 0 sends it to each other rank. */
static void look_at(const br_dist_sign *sign)
{
    static int sent;
    const char *fault = getenv("FAULT");
    const int own = number_in("OMPI_COMM_WORLD_RANK", "PMI_RANK");
    int rank;
    long step, after;
    char how[8];
    if (!fault || sscanf(fault, "%d %ld %7s %ld", &rank, &step, how, &after) != 4 || rank != own ||
        sign->kind != BR_DIST_LIVES || sign->step != step)
        return;
    if (++sent < (own == 0 ? number_in("OMPI_COMM_WORLD_SIZE", "PMI_SIZE") - 1 : 1))
        return;
    const char *mark = getenv("FAULT_MARK");
    if (mark)
        close(creat(mark, 0666));
    if (strcmp(how, "kill") == 0)
        kill_after(after);
    else if (strcmp(how, "stop") == 0)
        kill(getpid(), SIGSTOP);
    else
        _exit(atoi(how));
}

ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    ssize_t n = syscall(SYS_sendto, fd, data, bytes, flags, NULL, 0);
    if (bytes == sizeof(br_dist_sign) && n == (ssize_t)bytes)
        look_at(data);
    return n;
}

/* ---- The plug-in ----------------------------------------------------------------------------- */

bool br_comm_open(br_comm *comm, char *error);

bool br_comm_open(br_comm *comm, char *error)
{
    const char *fault = getenv("FAULT"), *path = getenv("FAULT_PROCESS");
    int number = 0;
    (void)comm;
    if (fault && sscanf(fault, "exit %d", &number) == 1)
        _exit(number);
    if (fault && sscanf(fault, "signal %d", &number) == 1)
        kill(getpid(), number);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file) {
        fprintf(file, "%d\n", getpid());
        fclose(file);
    }
    while (file)
        pause();
    snprintf(error, BR_COMM_TEXT, "the test has no fault");
    return false;
}
