/* cli/stop_signal.c - the handler of signals that stop a training run. It calls only functions that
 * are allowed in signal handlers. */
#include "cli/stop_signal.h"

#include <brasa/distributed.h>

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

static volatile sig_atomic_t stop_signal; /* the first signal; 0: none */

/* ---- What the rank waits for ----------------------------------------------------------------- */

typedef struct line {
    char text[256];
    size_t length;
} line;

static void add(line *l, const char *text)
{
    while (*text && l->length < sizeof l->text)
        l->text[l->length++] = *text++;
}

static void add_number(line *l, int64_t number)
{
    char digits[24], *digit = digits + sizeof digits - 1;
    *digit = '\0';
    do
        *--digit = (char)('0' + number % 10);
    while (number /= 10);
    add(l, digit);
}

/* Writes one line, if this rank waits for another one. */
static void report_wait(int signal, bool first)
{
    int awaited;
    const char *op = br_dist_waits_in(&awaited);
    const int64_t step = br_dist_step();
    line l = { .length = 0 };
    if (!op)
        return;
    add(&l, "brasa train: rank ");
    add_number(&l, br_dist_rank(NULL));
    add(&l, first ? " has received " : " is ended by ");
    add(&l, signal == SIGTERM ? "SIGTERM" : "SIGINT");
    if (step > 0) {
        add(&l, " in step ");
        add_number(&l, step);
    }
    add(&l, " while it waits in ");
    add(&l, op);
    add(&l, " for rank ");
    add_number(&l, awaited);
    add(&l, first ? "; it stops after the step, and a second signal ends it at once\n" : "\n");
    /* A handler cannot do anything about a failure. */
    ssize_t written = write(STDERR_FILENO, l.text, l.length);
    (void)written;
}

/* ---- The handler ----------------------------------------------------------------------------- */

/* Ending at once is safe because files are replaced atomically. */
static void on_signal(int number)
{
    const int error = errno;
    const bool first = stop_signal == 0;
    report_wait(number, first);
    if (first) {
        stop_signal = number;
    } else {
        signal(number, SIG_DFL);
        raise(number); /* takes effect when this handler returns */
    }
    errno = error;
}

const volatile sig_atomic_t *cli_catch_stop_signals(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return &stop_signal;
}
