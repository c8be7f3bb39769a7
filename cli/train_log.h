/* cli/train_log.h - the log of a training run, a JSON object a line, and its plot. */
#ifndef BRASA_CLI_TRAIN_LOG_H
#define BRASA_CLI_TRAIN_LOG_H

#include <brasa/viz.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { LOG_MAX_VALUES = 8 };

typedef struct train_log {
    FILE *file;
    const char *path;
    int n_names, n_losses; /* the first n_losses are in every line, the others in some */
    const char *names[LOG_MAX_VALUES]; /* of the values of a line, between `step` and `seconds` */
    int64_t count, room;
    double *steps, *values[LOG_MAX_VALUES]; /* what the log holds, by line; NaN: not there */
} train_log;

/* Opens the log for more lines. Lines up to `keep_steps` of an earlier log stay, what comes after
 * them, or is no such line, is cut off. n_names, n_losses, names and path are set before. */
bool train_log_open(train_log *log, int64_t keep_steps);
/* Adds a line and brings it to the file; a value that is NaN is left out. */
bool train_log_add(train_log *log, int64_t step, const double *values, double seconds);
/* How often a value was there since it was least, where it was least first; 0 if it never was. */
int64_t train_log_since_least(const train_log *log, int value);
/* Draws values [first, end) over the steps; `options` has the title and the form of y. */
bool train_log_plot(const train_log *log, const char *path, int first, int end,
                    br_plot_options options);
void train_log_close(train_log *log);

#endif
