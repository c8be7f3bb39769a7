/* tests/cli/program.h - runs the `brasa` program as a user would. */
#ifndef BRASA_TESTS_CLI_PROGRAM_H
#define BRASA_TESTS_CLI_PROGRAM_H

/* For a suite's .init and .fini. program_begin() creates an empty directory, $OUT in the shell, and
 * makes the repository's root the working directory; program_end() removes $OUT. */
void program_begin(void);
void program_end(void);
extern char program_directory[];

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
