/* cli/train_log.h - the log of a training run, a JSON object a line, and its plot. */
#ifndef BRASA_CLI_TRAIN_LOG_H
#define BRASA_CLI_TRAIN_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum { LOG_MAX_VALUES = 8 };

typedef struct train_log {
    FILE *file;
    const char *path;
    int n_names;
    const char *names[LOG_MAX_VALUES]; /* of the values of a line, between `step` and `seconds` */
    int64_t count, room;
    double *steps, *values[LOG_MAX_VALUES]; /* what the log holds, by line */
} train_log;

/* Opens the log for more lines. Lines up to `keep_steps` of an earlier log stay, what comes after
 * them, or is no such line, is cut off. n_names, names and path are set before. */
bool train_log_open(train_log *log, int64_t keep_steps);
/* Adds a line and brings it to the file. */
bool train_log_add(train_log *log, int64_t step, const double *values, double seconds);
/* Draws all values over the steps. */
bool train_log_plot(const train_log *log, const char *path, const char *title);
void train_log_close(train_log *log);

#endif
