/* cli/rank_parent.c - a rank that is killed cannot say so, and some launchers neither name it nor
 * let the other ranks say anything: MPICH's mpirun kills them as soon as one process ends badly. So
 * mpirun starts a parent, which does nothing but wait for the rank. It names the rank, and ends a
 * moment later than the rank, so that the others can report which rank has died. */
#include "cli/rank_parent.h"
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const struct timespec TIME_FOR_OTHERS = { .tv_nsec = 200000000 };

static const int handed_on[] = { SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,
                                 SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT };

/* Hands signals on until the child has ended; returns its status as of waitpid(). */
static int wait_for(pid_t child, const sigset_t *signals)
{
    int status = 0, number;
    while (waitpid(child, &status, WNOHANG) == 0)
        if ((number = sigwaitinfo(signals, NULL)) > 0 && number != SIGCHLD)
            kill(child, number);
    return status;
}

/* Returns the exit status of the parent. `rank` is -1 if it is not known. */
static int report(int rank, pid_t child, int status)
{
    const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    char name[32] = "a rank";
    if (rank >= 0)
        snprintf(name, sizeof name, "rank %d", rank);
    if (number)
        fprintf(stderr, "brasa: %s (process %d) was ended by signal %d (%s)\n", name, (int)child,
                number, strsignal(number));
    if (status != 0)
        nanosleep(&TIME_FOR_OTHERS, NULL);
    return number ? 128 + number : WEXITSTATUS(status);
}

/* Makes the child end with its parent. It gets a process group of its own, because a launcher that
 * signals the group would reach it twice, and a second SIGTERM ends a rank at once. */
static void begin_child(pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    setpgid(0, 0);
}

int cli_fork_rank(void)
{
    int rank;
    sigset_t signals, before;
    const pid_t parent = getpid();
    if (!br_dist_is_launched(&rank))
        return CLI_CONTINUE;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (size_t i = 0; i < sizeof handed_on / sizeof *handed_on; i++)
        sigaddset(&signals, handed_on[i]);
    signal(SIGCHLD, SIG_DFL); /* if it is ignored, there is no status to wait for */
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t child = fork();
    if (child > 0)
        return report(rank, child, wait_for(child, &signals));
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (child == 0) {
        begin_child(parent);
        return CLI_CONTINUE;
    }
    fprintf(stderr, "brasa: cannot create the process of the rank: %s\n", strerror(errno));
    return EXIT_FAILURE;
}
