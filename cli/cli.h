/* cli/cli.h - the commands of `brasa`, and what they share.
 *
 * A command gets its own arguments, argv[0] being its name, and returns the exit status: 0, 1 for
 * what went wrong, CLI_USAGE for arguments that make no sense. */
#ifndef BRASA_CLI_CLI_H
#define BRASA_CLI_CLI_H

#include <brasa/brasa.h>
#include <getopt.h>
#include <string.h>

enum { CLI_USAGE = 2, CLI_GO_ON = -1 };

int cli_train(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_embed(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_fill_mask(int argc, char **argv);
int cli_attention(int argc, char **argv);

/* Prints "brasa COMMAND: message" and where help is, and returns CLI_USAGE. */
int cli_usage(const char *command, const char *format, ...) BR_PRINTF(2, 3);
/* The answer to getopt_long()'s '?' and ':', whose message is already out. */
int cli_bad_option(const char *command);
/* The exit status of a command that is done, and the pending error behind what it has printed. */
int cli_report(void);

/* Takes the options of argv as getopt_long() does, which leaves optind at the first argument. Each
 * goes to take(), with its value in optarg, which returns 0 or the exit status; 'h' shows `help`.
 * Returns CLI_GO_ON, or the exit status. */
int cli_options(int argc, char **argv, const char *letters, const struct option *options,
                const char *help, int (*take)(void *request, int option), void *request);

/* The whole text as a number; false if it is none or outside low .. high. */
bool cli_integer(const char *text, int64_t low, int64_t high, int64_t *value);
bool cli_number(const char *text, double low, double high, double *value);

/* The whole file as text with a NUL behind it, in memory to free(); NULL and an error. */
char *cli_read_file(const char *path, size_t *length);
/* The next line of a text, from *at up to the separator or to the end; *at goes behind it. False at
 * the end. */
static inline bool cli_next_line(const char **at, const char *end, char separator, br_text *line)
{
    if (*at >= end)
        return false;
    const char *stop = memchr(*at, separator, (size_t)(end - *at));
    *line = (br_text){ *at, (stop ? stop : end) - *at };
    *at = stop ? stop + 1 : end;
    return true;
}
/* The path of a data file that comes with Brasa, in memory to free(): data/NAME below the working
 * directory, or where it was installed. NULL and an error if it is in neither. */
char *cli_data_file(const char *name);
/* Makes a directory and those above it; false and an error. */
bool cli_make_directory(const char *path);
/* printf() into memory to free(); NULL and an error. */
char *cli_format(const char *format, ...) BR_PRINTF(1, 2);
/* br_auto_tokenizer_load(); `cased` is for vocab.txt. NULL and an error. */
br_tokenizer *cli_open_tokenizer(const char *dir, bool cased);
/* A text's ids, i64 [1, length]. NULL and an error. */
br_tensor *cli_encode(const br_tokenizer *tokenizer, const char *text);
/* Seconds of a clock that only goes forward. */
double cli_seconds(void);

#endif
