/* cli/train_command.h - the commands that train: their options, and running them (train.c). */
#ifndef BRASA_CLI_TRAIN_COMMAND_H
#define BRASA_CLI_TRAIN_COMMAND_H

#include "train/train.h"

#include <getopt.h>

/* The options without a letter. */
enum {
    PRESET = 256,
    AS_WRITTEN,
    STEPS,
    SEED,
    THREADS,
    LR,
    SET,
    OUT,
    RESUME,
    OVERWRITE,
    DATA,
    PROFILE,
    AMP,
    DTYPE,
    OBJECTIVE,
    HISTOGRAMS
};

/* The options of both commands, after their own ones. ./run reads these lines, too. */
/* clang-format off */
#define TRAIN_OPTIONS \
    { "preset", required_argument, NULL, PRESET }, \
    { "steps", required_argument, NULL, STEPS }, \
    { "seed", required_argument, NULL, SEED }, \
    { "threads", required_argument, NULL, THREADS }, \
    { "lr", required_argument, NULL, LR }, \
    { "set", required_argument, NULL, SET }, \
    { "out", required_argument, NULL, OUT }, \
    { "resume", no_argument, NULL, RESUME }, \
    { "overwrite", no_argument, NULL, OVERWRITE }, \
    { "data", required_argument, NULL, DATA }, \
    { "profile", optional_argument, NULL, PROFILE }, \
    { "histograms", required_argument, NULL, HISTOGRAMS }, \
    { "amp", required_argument, NULL, AMP }, \
    { "dtype", required_argument, NULL, DTYPE }, \
    { "matmul-precision", required_argument, NULL, CLI_MATMUL_PRECISION }, \
    { "help", no_argument, NULL, 'h' }, \
    { 0 }
/* clang-format on */

typedef struct train_command {
    /* The recipes that --objective names, of which the first is the default and the last has no
     * name; NULL: an argument names a recipe. */
    const train_objective *objectives;
    const char *help;    /* NULL: that of `brasa train` */
    const char *letters; /* the options of one letter, as for getopt() */
    const struct option *options;
    const char *needs; /* an option that a new run must have; NULL: none */
} train_command;

/* Runs a command; returns the exit status. */
int train_command_run(const train_command *command, int argc, char **argv);

#endif
