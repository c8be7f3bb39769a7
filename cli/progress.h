/* cli/progress.h - shows the progress of a long computation on stderr: a bar on a terminal,
 * otherwise a plain line every few steps. */
#ifndef BRASA_CLI_PROGRESS_H
#define BRASA_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct progress {
    int64_t first, total; /* number of steps done at the start and at the end */
    double started;
    bool terminal, shown;
} progress;

progress progress_begin(int64_t first, int64_t total);
/* Reports that `step` steps are done; `text` describes the last one. */
void progress_update(progress *p, int64_t step, const char *text);
/* Reports that `done` texts are done, on a terminal and if there are several. `of` is a progress.
 * An on_batch of pipelines: returns true. */
bool progress_on_batch(void *of, int64_t done, int64_t total);
/* Ends the bar's line, if a bar was drawn. */
void progress_end(progress *p);

#endif
