/* tests/cli/program.h - the `brasa` program, run as a user runs it. */
#ifndef BRASA_TESTS_CLI_PROGRAM_H
#define BRASA_TESTS_CLI_PROGRAM_H

/* A suite's .init and .fini: an empty directory, $OUT in the shell, and the repository's root as
 * the working directory. */
void program_begin(void);
void program_end(void);
extern char program_directory[];

/* Runs the program with these arguments: its exit status is as given, and what it prints has the
 * text in it. */
void program_check(const char *arguments, int status, const char *part);
/* Runs a shell command, which must succeed. */
void program_shell(const char *command);

/* The log without the times. */
#define PROGRAM_LOSSES "sed 's/, \"seconds.*//'"

#endif
