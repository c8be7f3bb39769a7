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
    DTYPE
};

typedef struct train_command {
    const recipe *recipe; /* the command's only one; NULL: an argument names it */
    const char *help;     /* NULL: that of `brasa train` */
    const char *letters;  /* the options of one letter, as for getopt() */
    const struct option *options;
    const char *needs; /* an option that a new run must have; NULL: none */
} train_command;

/* Runs a command; returns the exit status. */
int train_command_run(const train_command *command, int argc, char **argv);

#endif
