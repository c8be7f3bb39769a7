/* train/train_log.c - writes, truncates, reads and plots the log. */
#include "train/train_log.h"

#include "io/json.h"
#include "viz/plot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool fail(const train_log *log, const char *what)
{
    br_raise(BR_ERROR_IO, "%s: %s: %s", log->path, what, strerror(errno));
    return false;
}

/* ---- Values in memory ------------------------------------------------------------------------ */

static bool grow(double **values, int64_t capacity)
{
    double *more = realloc(*values, (size_t)capacity * sizeof **values);
    if (more)
        *values = more;
    else
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a log of %lld lines",
                 (long long)capacity);
    return more != NULL;
}

static bool remember(train_log *log, double step, const double *values)
{
    if (log->count == log->capacity) {
        int64_t capacity = log->capacity ? 2 * log->capacity : 256;
        bool ok = grow(&log->steps, capacity);
        for (int i = 0; ok && i < log->n_names; i++)
            ok = grow(&log->values[i], capacity);
        if (!ok)
            return false;
        log->capacity = capacity;
    }
    log->steps[log->count] = step;
    for (int i = 0; i < log->n_names; i++)
        log->values[i][log->count] = values[i];
    log->count++;
    return true;
}

/* ---- An earlier log -------------------------------------------------------------------------- */

/* Returns whether the line was written by train_log_add() for a step up to `last`. */
static bool read_line(const train_log *log, const char *line, int64_t last, int64_t *step,
                      double *values)
{
    json_t *json = br__json_parse("train", log->path, line, strlen(line), NULL);
    *step = json_integer_value(json_object_get(json, "step"));
    bool ok = *step > 0 && *step <= last;
    for (int i = 0; ok && i < log->n_names; i++) {
        const json_t *value = json_object_get(json, log->names[i]);
        ok = json_is_number(value) || (!value && i >= log->n_losses);
        values[i] = value ? json_number_value(value) : NAN;
    }
    json_decref(json);
    return ok;
}

/* Reads the lines to keep; returns the offset of their end. */
static long read_kept(train_log *log, int64_t keep_steps)
{
    char *line = NULL;
    size_t capacity = 0;
    int64_t step;
    double values[LOG_MAX_VALUES];
    long end = 0;
    ssize_t n;
    for (; (n = getline(&line, &capacity, log->file)) > 0 && line[n - 1] == '\n'; end += n)
        if (!read_line(log, line, keep_steps, &step, values) ||
            !remember(log, (double)step, values))
            break;
    if (n < 0 && !feof(log->file)) /* unread lines must not be truncated */
        fail(log, "cannot be read");
    free(line);
    return end;
}

bool train_log_open(train_log *log, int64_t keep_steps)
{
    log->file = fopen(log->path, "a+");
    if (!log->file)
        return fail(log, "cannot be opened");
    rewind(log->file);
    long end = read_kept(log, keep_steps);
    if (br_failed())
        return false;
    if (fflush(log->file) != 0 || ftruncate(fileno(log->file), end) != 0)
        return fail(log, "cannot be truncated");
    return fseek(log->file, 0, SEEK_END) == 0 || fail(log, "cannot be read");
}

/* ---- New lines and plots --------------------------------------------------------------------- */

bool train_log_add(train_log *log, int64_t step, const double *values, double seconds)
{
    json_t *json = json_pack("{sI}", "step", (json_int_t)step);
    bool ok = json != NULL;
    for (int i = 0; ok && i < log->n_names; i++)
        if (!isnan(values[i]))
            ok = json_object_set_new(json, log->names[i], json_real(values[i])) == 0;
    ok = ok && json_object_set_new(json, "seconds", json_real(seconds)) == 0;
    /* An f32 survives conversion to 9 digits and back. */
    char *line = ok ? json_dumps(json, JSON_REAL_PRECISION(9)) : NULL;
    json_decref(json);
    if (!line)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a line of the log");
    else if (fprintf(log->file, "%s\n", line) < 0 || fflush(log->file) != 0)
        fail(log, "cannot be written");
    free(line);
    return !br_failed() && remember(log, (double)step, values);
}

int64_t train_log_since_minimum(const train_log *log, int value)
{
    int64_t since = 0;
    double min_value = INFINITY;
    for (int64_t i = 0; i < log->count; i++) {
        double now = log->values[value][i];
        if (isnan(now))
            continue;
        since = now < min_value ? 0 : since + 1;
        min_value = now < min_value ? now : min_value;
    }
    return since;
}

/* Collects the points of one value. Skips lines without the value, so that the curve has no
 * gaps. */
static void collect(const train_log *log, int value, double *capacity, br_series *series)
{
    double *x = capacity, *y = capacity + log->count;
    *series = (br_series){ .name = log->names[value], .x = x, .y = y };
    for (int64_t i = 0; i < log->count; i++) {
        if (isnan(log->values[value][i]))
            continue;
        x[series->count] = log->steps[i];
        y[series->count++] = log->values[value][i];
    }
}

/* A quantity has an axis of its own. A loss may fall by orders of magnitude. */
typedef struct quantity {
    const char *part; /* of the values' names */
    const char *label;
    bool log;
} quantity;

static quantity quantity_of(const char *name)
{
    static const quantity known[] = { { "loss", "loss", true },
                                      { "accuracy", "accuracy (fraction)", false },
                                      { "exact_match", "exact matches (fraction)", false } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(name, known[i].part))
            return known[i];
    return (quantity){ name, name, false };
}

/* Sorts values [first, end) into panels, one per quantity, in the order of their first values.
 * Returns the number of panels. */
static int sort_into_panels(const train_log *log, int first, int end, double *capacity,
                            br_series *series, br_plot_panel *panels)
{
    int n = 0, n_series = 0;
    for (int i = first; i < end; i++) {
        quantity q = quantity_of(log->names[i]);
        bool found = false;
        for (int k = 0; k < n && !found; k++)
            found = strcmp(panels[k].y_label, q.label) == 0;
        if (found)
            continue;
        br_plot_panel *panel = &panels[n++];
        *panel = (br_plot_panel){ .y_label = q.label, .log_y = q.log, .series = &series[n_series] };
        for (int k = i; k < end; k++)
            if (strcmp(quantity_of(log->names[k]).label, q.label) == 0) {
                collect(log, k, capacity + 2 * log->count * n_series, &series[n_series]);
                panel->n_series++;
                n_series++;
            }
    }
    return n;
}

bool train_log_plot(const train_log *log, const char *path, const char *title, int first, int end)
{
    br_series series[LOG_MAX_VALUES];
    br_plot_panel panels[LOG_MAX_VALUES];
    double *capacity =
        calloc((size_t)(end - first), (size_t)(2 * log->count + 1) * sizeof *capacity);
    if (!capacity) {
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a plot of %lld lines",
                 (long long)log->count);
        return false;
    }
    int n = sort_into_panels(log, first, end, capacity, series, panels);
    br_plot_options options = *BR_OPTIONS(br_plot, .title = title, .x_label = "step");
    if (n > 1)
        options.height = 300 * n;
    bool ok = br__plot_panels(path, n, panels, &options);
    free(capacity);
    return ok;
}

void train_log_close(train_log *log)
{
    if (log->file)
        fclose(log->file);
    free(log->steps);
    for (int i = 0; i < log->n_names; i++)
        free(log->values[i]);
    *log = (train_log){ 0 };
}
