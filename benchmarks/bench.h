/* benchmarks/bench.h - what the parts of `brasa bench` share. */
#ifndef BR_BENCH_H
#define BR_BENCH_H

#include <brasa/brasa.h>
#include <stdbool.h>

typedef struct bench_options {
    int threads;
    const char *filter; /* glob on names, NULL: all */
    bool json;
    const char *plot;         /* scale: folder for plots, NULL: none */
    bool serve;               /* do what each line of standard input asks for; small: one step */
    int64_t profile;          /* models: steps to profile instead of timing them, 0: none */
    const char *model, *file; /* embed: the model's folder, and lines to embed */
    double seconds;           /* least time to measure each entry for */
} bench_options;

/* The parts; each returns the exit status. */
int bench_kernels(const bench_options *options);
int bench_models(const bench_options *options);
int bench_products(const bench_options *options);
int bench_small(const bench_options *options);
int bench_embed(const bench_options *options);
int bench_scale(const bench_options *options);
int bench_sweep(const bench_options *options);

/* Of a tensor's elements. */
double bench_bytes(const br_tensor *t);

/* Times of repeated calls, in seconds. */
typedef struct bench_times {
    double median, min;
    int count;
} bench_times;
/* Calls f until `seconds` have passed and at least 5 times, after one call that does not count. */
bench_times bench_measure(void (*f)(void *context), void *context, double seconds);

/* The least time of a call of f, in seconds, of many short runs of calls: for what is too short for
 * the clock. */
double bench_least(void (*f)(void *context), void *context, double seconds);

/* What this machine can do with the threads in use, measured once for each dtype. */
const br_peak *bench_peak(br_dtype dtype);

#endif
