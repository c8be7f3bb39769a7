/* tests/cli/program.h - runs the `brasa` program as a user would. */
#ifndef BRASA_TESTS_CLI_PROGRAM_H
#define BRASA_TESTS_CLI_PROGRAM_H

#include "tests/temporary.h"

#include <stddef.h>

/* For a suite's .init and .fini. program_begin() creates an empty directory, $OUT in the shell, and
 * makes the repository's root the working directory; program_end() removes $OUT. */
void program_begin(void);
void program_end(void);
extern char program_directory[TEMPORARY_PATH];
/* Same as program_begin(). $SHIM is the library for LD_PRELOAD of tests/shim/calls.c. */
void program_begin_with_shim(void);

/* Runs the program with these arguments in a shell, stores what it prints on stdout and stderr, and
 * returns its exit status. Arguments may be followed by other commands of the shell. */
int program_run(const char *arguments, char *output, size_t size);
/* Stores the long options that a command's help lists, such as "--json", without --help. Returns
 * their number, which is at least 1. */
enum { PROGRAM_OPTIONS = 64, PROGRAM_OPTION_SIZE = 40 };
int program_options(const char *command, char options[PROGRAM_OPTIONS][PROGRAM_OPTION_SIZE]);

/* Runs the program with these arguments and checks its exit status, and that its output contains
 * `part`. */
void program_check(const char *arguments, int status, const char *part);
/* Runs a shell command, which must succeed. */
void program_shell(const char *command);
/* Creates $OUT/gpt2 with the recorded GPT-2 and a vocabulary of its 40 tokens: letters, digits, a
 * space, ... */
void program_make_gpt2(void);
/* Creates $OUT/t5 with the recorded T5 and a vocabulary of its 40 pieces: letters and digits. */
void program_make_t5(void);

/* Prints the log without the times. */
#define PROGRAM_LOSSES "sed 's/, \"seconds.*//'"

#endif
