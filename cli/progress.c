/* cli/progress.c - the progress bar, and plain lines if stderr is not a terminal. */
#include "cli/progress.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { BAR = 24, SHORTEST_BAR = 4 }; /* cells of the bar */
enum { LINES = 20 };                 /* approximate number of plain lines in a run */

progress progress_begin(int64_t first, int64_t total)
{
    return (progress){
        .first = first,
        .total = total,
        .started = clock_seconds(),
        .terminal = isatty(STDERR_FILENO),
    };
}

/* Writes the time as "1:05:09" or "5:09". */
static const char *clock_text(double seconds, char *text, size_t size)
{
    int64_t s = (int64_t)(seconds + 0.5), h = s / 3600, m = s / 60 % 60;
    if (h > 0)
        snprintf(text, size, "%" PRId64 ":%02" PRId64 ":%02" PRId64, h, m, s % 60);
    else
        snprintf(text, size, "%" PRId64 ":%02" PRId64, m, s % 60);
    return text;
}

/* Overwrites the line before it, so the new one must not wrap: the bar is as wide as the rest
 * leaves room for, and is absent on a narrow terminal. */
static void draw(progress *p, int64_t step, const char *line)
{
    const int room = cli_columns(stderr) - 1;
    int cells = room - (int)strlen(line) - 3;
    cells = cells > BAR ? BAR : cells < SHORTEST_BAR ? 0 : cells;
    const int64_t filled = p->total > 0 ? step * cells / p->total : cells;
    fputc('\r', stderr);
    if (cells > 0)
        fputc('[', stderr);
    for (int i = 0; i < cells; i++)
        fputc(i < filled ? '#' : '.', stderr);
    fprintf(stderr, "%s%.*s\033[K", cells > 0 ? "] " : "", room, line);
    p->shown = true;
}

void progress_update(progress *p, int64_t step, const char *text)
{
    int64_t each = (p->total - p->first) / LINES + 1;
    if (!p->terminal && step != p->first + 1 && step != p->total && step % each != 0)
        return;
    double seconds = clock_seconds() - p->started;
    double rate = seconds > 0 ? (double)(step - p->first) / seconds : 0;
    double left = rate > 0 ? (double)(p->total - step) / rate : 0;
    char line[256], clock[32];
    int n = snprintf(line, sizeof line, "step %" PRId64 "/%" PRId64 "  %s  %.2f steps/s  %s left",
                     step, p->total, text, rate, clock_text(left, clock, sizeof clock));
    if (p->terminal && n >= cli_columns(stderr)) /* the time is kept longest */
        snprintf(line, sizeof line, "%" PRId64 "/%" PRId64 "  %.2f steps/s  %s left", step,
                 p->total, rate, clock);
    if (p->terminal)
        draw(p, step, line);
    else
        fprintf(stderr, "%s\n", line);
    fflush(stderr);
}

void progress_end(progress *p)
{
    if (p->shown)
        fputc('\n', stderr);
    p->shown = false;
}

bool progress_on_batch(void *of, int64_t done, int64_t total)
{
    (void)total;
    progress *shown = of;
    if (shown->terminal && shown->total > 1)
        progress_update(shown, done, "");
    return true;
}
