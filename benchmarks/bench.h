/* benchmarks/bench.h - declarations shared by the parts of `brasa bench`. */
#ifndef BR_BENCH_H
#define BR_BENCH_H

#include "cli/cli.h"

#include <stdbool.h>

typedef struct bench_options {
    int threads;
    const char *filter; /* glob on names, NULL: all */
    bool json, list;
    bool amp;                 /* models: the forward pass runs in mixed precision, bf16 */
    br_dtype dtype;           /* models, pretrained: of the parameters; BR_DTYPE_AUTO: not given */
    int64_t tokens, batch;    /* pretrained: tokens of a text, and texts */
    const char *plot;         /* scale: folder for plots; ranks: for a trace; NULL: none */
    bool serve;               /* answer each line of standard input; small: run one step */
    int64_t profile;          /* models: steps to profile instead of timing them, 0: none */
    const char *model, *file; /* folder of a pretrained model, and file of text */
    int64_t accumulate;       /* ranks: batches per step; 0: one for each rank */
    double seconds;           /* minimum time to measure each entry for */
} bench_options;

/* The parts; each returns the exit status. */
int bench_kernels(const bench_options *options);
int bench_models(const bench_options *options);
int bench_pretrained(const bench_options *options);
int bench_products(const bench_options *options);
int bench_small(const bench_options *options);
int bench_embed(const bench_options *options);
int bench_ranks(const bench_options *options);
int bench_scale(const bench_options *options);
int bench_sweep(const bench_options *options);
int bench_tokenizers(const bench_options *options);

/* Returns whether to measure the entry, which is the case if the filter matches its name or that of
 * its group; `group` may be NULL. With --list, prints the name of a matching entry and returns
 * false. */
bool bench_selected(const bench_options *options, const char *name, const char *group);
/* Returns the exit status of a part after all of its entries. If the filter matched no entry, the
 * status is that of a usage error. */
int bench_done(const bench_options *options);
/* Prints the heading of a table. Does nothing with --json, --list, --serve or --profile. */
void bench_heading(const bench_options *options, const char *format, ...) BR_PRINTF(2, 3);

/* Returns the size of a tensor's elements in bytes. */
double bench_bytes(const br_tensor *t);

/* Sorts n numbers in ascending order. */
void bench_sort(double *numbers, int n);

/* Times of repeated calls, in seconds. */
typedef struct bench_times {
    double median, min;
    int count;
} bench_times;
/* Calls f once as a warm-up, then times at least 5 calls until `seconds` have passed. */
bench_times bench_measure(void (*f)(void *context), void *context, double seconds);

/* Returns the least time of one call of f, in seconds, over many short batches of calls. For
 * functions that are too fast to be timed individually. */
double bench_minimum(void (*f)(void *context), void *context, double seconds);

/* Returns the peak memory of this process in MiB. */
double bench_peak_mib(void);
/* Runs a function in a process of its own, whose peak memory is the function's, and returns its
 * exit status. The caller must not have started threads. `name` is for messages. */
int bench_run_apart(const char *name, int (*run)(const void *context), const void *context);

/* Returns the peak performance of this machine with the current threads, measured once per dtype.
 */
const br_peak *bench_peak(br_dtype dtype);

#endif
