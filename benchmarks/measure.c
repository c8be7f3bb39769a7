/* benchmarks/measure.c - what the parts of `brasa bench` share: the selection of entries, headings,
 * measurement, and processes. */
#include "benchmarks/bench.h"

#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int n_selected;

bool bench_selected(const bench_options *o, const char *name, const char *group)
{
    if (o->filter && fnmatch(o->filter, name, 0) != 0 &&
        !(group && fnmatch(o->filter, group, 0) == 0))
        return false;
    n_selected++;
    if (o->list)
        puts(name);
    return !o->list;
}

int bench_done(const bench_options *o)
{
    if (n_selected == 0 && !br_failed())
        return cli_usage("bench", "nothing matches '%s'; --list shows the names", o->filter);
    return cli_report();
}

void bench_heading(const bench_options *o, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (!o->json && !o->list && !o->serve && o->profile == 0)
        vprintf(format, args);
    va_end(args);
    fflush(stdout);
}

double bench_bytes(const br_tensor *t)
{
    return (double)br_numel(t) * (double)br_dtype_size(br_dtype_of(t));
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_sort(double *numbers, int n)
{
    qsort(numbers, (size_t)n, sizeof *numbers, compare_doubles);
}

bench_times bench_measure(void (*f)(void *context), void *context, double seconds)
{
    enum { MAX_RUNS = 10000, MIN_RUNS = 5 };
    static double times[MAX_RUNS];
    f(context);
    int n = 0;
    double total = 0;
    while (n < MAX_RUNS && (n < MIN_RUNS || total < seconds) && !br_failed()) {
        double start = clock_seconds();
        f(context);
        times[n] = clock_seconds() - start;
        total += times[n++];
    }
    bench_sort(times, n);
    return (bench_times){ n ? times[n / 2] : 0, n ? times[0] : 0, n };
}

double bench_minimum(void (*f)(void *context), void *context, double seconds)
{
    static const double run = 2e-5; /* minimum seconds between two clock readings */
    enum { MIN_RUNS = 3 };
    f(context);
    double start = clock_seconds(), begin = start, least = INFINITY;
    f(context);
    double once = clock_seconds() - start;
    int64_t calls = once < run ? (int64_t)(run / (once + 1e-9)) + 1 : 1;
    for (int i = 0; (i < MIN_RUNS || start - begin < seconds) && !br_failed(); i++) {
        start = clock_seconds();
        for (int64_t k = 0; k < calls; k++)
            f(context);
        double time = (clock_seconds() - start) / (double)calls;
        least = time < least ? time : least;
    }
    return least;
}

double bench_peak_mib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

int bench_run_apart(const char *name, int (*run)(const void *context), const void *context)
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) {
        perror("brasa bench: fork");
        return EXIT_FAILURE;
    }
    if (child == 0) {
        int status = run(context);
        fflush(NULL);
        _exit(status);
    }
    int status;
    if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status)) {
        fprintf(stderr, "brasa bench: %s ended abnormally\n", name);
        return EXIT_FAILURE;
    }
    return WEXITSTATUS(status);
}

const br_peak *bench_peak(br_dtype dtype)
{
    static br_peak known[BR_F64 + 1];
    br_peak *peak = &known[dtype];
    if (peak->flops == 0)
        br_measure_peak(dtype, peak);
    return peak;
}
