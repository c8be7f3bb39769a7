/* tests/cli/test_stop_signal.c - the first signal is noted, a second one ends the process, also if
 * it is another one. */
#include "cli/stop_signal.h"
#include "tests/support.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(stop_signal, .init = check_begin, .fini = check_end);

/* Returns how a process ends that gets these two signals. */
static int status_after(int first, int second)
{
    pid_t child = fork();
    if (child == 0) {
        const volatile sig_atomic_t *noted = cli_catch_stop_signals();
        if (*noted != 0)
            _exit(2);
        raise(first);
        if (*noted != first)
            _exit(3);
        raise(second);
        _exit(4);
    }
    int status = 0;
    cr_assert(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

Test(stop_signal, the_second_ends_the_process)
{
    static const int signals[] = { SIGINT, SIGTERM };
    for (int i = 0; i < 4; i++) {
        int status = status_after(signals[i / 2], signals[i % 2]);
        cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == signals[i % 2],
                  "signals %d and %d: status %d", signals[i / 2], signals[i % 2], status);
    }
}
