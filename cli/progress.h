/* cli/progress.h - how far a training run is: a bar that is drawn over on a terminal, a plain line
 * every so often elsewhere. Goes to stderr. */
#ifndef BRASA_CLI_PROGRESS_H
#define BRASA_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    int64_t first, total; /* steps done before, and at the end */
    double started;
    bool terminal, drawn;
} progress;

progress progress_begin(int64_t first, int64_t total);
/* `step` steps are done; `text` tells of the last one. */
void progress_update(progress *p, int64_t step, const char *text);
/* Leaves the bar as it is and goes to the next line. */
void progress_end(progress *p);

#endif
