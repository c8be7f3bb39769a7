/* profile/table.c - prints a profile as a table. */
#include "profile/profile_internal.h"

#include <string.h>

BR_DEFINE_DEFAULTS(br_profile_print)

typedef struct table {
    FILE *stream;
    br_profile_print_options options;
    double whole; /* seconds */
    double steps; /* numbers are divided by this */
    int width;    /* width of the first column */
} table;

static const char *const phases[] = { "forward", "backward", "optimizer" };

/* ---- Rows ------------------------------------------------------------------------------------ */

static bool shown(const table *t, const br_profile_row *row)
{
    return (t->options.depth <= 0 || row->depth < t->options.depth) &&
           row->total >= t->options.min_fraction * t->whole;
}

/* Returns the last part of a module's path, or the whole name of an operation. */
static const char *name_of(const table *t, const br_profile_row *row)
{
    const char *dot = t->options.by == BR_PROFILE_BY_MODULE ? strrchr(row->name, '.') : NULL;
    return dot ? dot + 1 : row->name;
}

static int width_of(const table *t, const br_profile_row *row)
{
    return 2 * row->depth + (int)strlen(name_of(t, row));
}

/* Returns the least possible time in seconds, and the limit that determines it: 'F' or 'M'. */
static double limit_of(const br_peak *peak, const br_profile_row *row, char *which)
{
    double compute = row->flops / peak->flops, memory = row->bytes / peak->bytes;
    *which = compute > memory ? 'F' : 'M';
    return compute > memory ? compute : memory;
}

static void print_share(const table *t, const br_profile_row *row)
{
    char which = 0;
    double limit = t->options.peak ? limit_of(t->options.peak, row, &which) : 0;
    if (row->total > 0 && limit > 0)
        fprintf(t->stream, "%8.0f %% %c", 100 * limit / row->total, which);
}

static void print_row(const table *t, const br_profile_row *row)
{
    fprintf(t->stream, "%*s%-*s", 2 * row->depth, "", t->width - 2 * row->depth, name_of(t, row));
    if (t->options.by == BR_PROFILE_BY_OP)
        fprintf(t->stream, "  %-9s", phases[row->phase]);
    if (row->calls > 0)
        fprintf(t->stream, "%8.6g", (double)row->calls / t->steps);
    else
        fprintf(t->stream, "%8s", "");
    fprintf(t->stream, "%10.3f%7.1f", 1e3 * row->total / t->steps, 100 * row->total / t->whole);
    if (t->options.by == BR_PROFILE_BY_MODULE)
        fprintf(t->stream, "%10.3f%10.3f", 1e3 * row->phases[BR_PROFILE_FORWARD] / t->steps,
                1e3 * row->phases[BR_PROFILE_BACKWARD] / t->steps);
    fprintf(t->stream, "%10.3f%10.4g%10.4g", 1e3 * row->self / t->steps,
            1e-9 * row->flops / t->steps, 1e-9 * row->bytes / t->steps);
    double rate = row->total > 0 ? 1e-9 / row->total : 0;
    fprintf(t->stream, "%10.1f%8.1f", row->flops * rate, row->bytes * rate);
    print_share(t, row);
    fputc('\n', t->stream);
}

static void print_head(const table *t)
{
    bool by_op = t->options.by == BR_PROFILE_BY_OP;
    fprintf(t->stream, "%-*s", t->width, by_op ? "operation" : "module");
    fprintf(t->stream, by_op ? "  %-9s" : "%.0s", "phase");
    fprintf(t->stream, "%8s%10s%7s", "calls", "ms", "%");
    if (!by_op)
        fprintf(t->stream, "%10s%10s", "forward", "backward");
    fprintf(t->stream, "%10s%10s%10s%10s%8s", "self ms", "GFLOP", "GB", "GFLOP/s", "GB/s");
    fprintf(t->stream, "%s\n", t->options.peak ? "  of limit" : "");
}

/* ---- The table ------------------------------------------------------------------------------- */

/* Prints the machine's limits, and the time that the outermost rows would take if each ran at its
 * limit. */
static void print_limits(const table *t, const br_profile_row *rows, int64_t count)
{
    const br_peak *peak = t->options.peak;
    double min_fraction = 0;
    char which = 0;
    for (int64_t i = 0; i < count; i++)
        if (rows[i].depth == 0)
            min_fraction += limit_of(peak, &rows[i], &which);
    fprintf(t->stream, "; limits: %.1f GFLOP/s (F), %.1f GB/s (M)", 1e-9 * peak->flops,
            1e-9 * peak->bytes);
    if (t->options.by == BR_PROFILE_BY_OP)
        fprintf(t->stream, "; at these limits the rows would take %.3f ms",
                1e3 * min_fraction / t->steps);
}

static void print_summary(const table *t, const br_profile_row *rows, int64_t count)
{
    fprintf(t->stream, "%.3f ms", 1e3 * t->whole / t->steps);
    if (t->options.steps > 1)
        fprintf(t->stream, " per step, mean of %.0f", t->steps);
    fprintf(t->stream, "; %d thread%s", br_get_num_threads(), br_get_num_threads() > 1 ? "s" : "");
    if (t->options.peak)
        print_limits(t, rows, count);
    fputs("\n\n", t->stream);
}

static void print(table *t, const br_profile_row *rows, int64_t count)
{
    t->width = 20;
    for (int64_t i = 0; i < count; i++)
        if (shown(t, &rows[i]) && width_of(t, &rows[i]) > t->width)
            t->width = width_of(t, &rows[i]);
    print_summary(t, rows, count);
    print_head(t);
    for (int64_t i = 0; i < count; i++)
        if (shown(t, &rows[i]))
            print_row(t, &rows[i]);
}

bool br_profile_print(FILE *stream, const br_profile *profile,
                      const br_profile_print_options *options)
{
    table t = { .stream = stream,
                .options = *BR_OPTIONS_OF("profile_print", br_profile_print, options) };
    if (!br__profile_readable("profile_print", profile) ||
        !br__required("profile_print", "stream", stream))
        return false;
    if (t.options.steps < 0)
        return br_fail(BR_ERROR_ARGUMENT, "profile_print", "steps is %lld, must be at least 0",
                       (long long)t.options.steps);
    int64_t count;
    br_profile_row *rows = br_profile_rows(profile, t.options.by, t.options.sort, &count);
    if (!rows)
        return false;
    t.whole = 1e-9 * (double)br__event_of(profile, 0)->seen.duration;
    t.steps = t.options.steps > 0 ? (double)t.options.steps : 1;
    print(&t, rows, count);
    br_free(rows);
    if (ferror(stream))
        br_fail(BR_ERROR_IO, "profile_print", "cannot write to the stream");
    return !br_failed();
}
