/* cli/progress.c - the progress bar, and plain lines if stderr is not a terminal. */
#include "cli/progress.h"

#include "cli/cli.h"

#include <inttypes.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { BAR = 24, LINES = 20 }; /* cells of the bar; approximate number of plain lines in a run */

progress progress_begin(int64_t first, int64_t total)
{
    return (progress){
        .first = first,
        .total = total,
        .started = cli_seconds(),
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

static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static void draw(progress *p, int64_t step, const char *line)
{
    char bar[BAR + 1];
    int64_t filled = p->total > 0 ? step * BAR / p->total : BAR;
    for (int i = 0; i < BAR; i++)
        bar[i] = i < filled ? '#' : '.';
    bar[BAR] = 0;
    int width = columns() - BAR - 4; /* a line that wraps could not be overwritten */
    fprintf(stderr, "\r[%s] %.*s\033[K", bar, width > 0 ? width : 0, line);
    p->shown = true;
}

void progress_update(progress *p, int64_t step, const char *text)
{
    int64_t each = (p->total - p->first) / LINES + 1;
    if (!p->terminal && step != p->first + 1 && step != p->total && step % each != 0)
        return;
    double seconds = cli_seconds() - p->started;
    double rate = seconds > 0 ? (double)(step - p->first) / seconds : 0;
    double left = rate > 0 ? (double)(p->total - step) / rate : 0;
    char line[256], clock[32];
    snprintf(line, sizeof line, "step %" PRId64 "/%" PRId64 "  %s  %.2f steps/s  %s left", step,
             p->total, text, rate, clock_text(left, clock, sizeof clock));
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
