/* cli/stop_signal.h - signals that stop a training run. */
#ifndef BRASA_CLI_STOP_SIGNAL_H
#define BRASA_CLI_STOP_SIGNAL_H

#include <signal.h>

/* Catches SIGTERM and SIGINT. The first one is stored where the result points; the run should stop
 * after the current step. The second one ends the program at once. In both cases, a rank that waits
 * for another one, perhaps for ever, writes to stderr in which function it does so. */
const volatile sig_atomic_t *cli_catch_stop_signals(void);

#endif
