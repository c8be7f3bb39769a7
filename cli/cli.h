/* cli/cli.h - the commands of `brasa`, and the functions that they share.
 *
 * A command gets its own arguments, with "brasa COMMAND" in argv[0], and returns the exit status:
 * 0, 1 on failure, or CLI_USAGE for invalid arguments. */
#ifndef BRASA_CLI_CLI_H
#define BRASA_CLI_CLI_H

#include <brasa/brasa.h>
#include <getopt.h>
#include <string.h>

enum { CLI_USAGE = 2, CLI_CONTINUE = -1 };

int cli_train(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_embed(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_fill_mask(int argc, char **argv);
int cli_attention(int argc, char **argv);

/* Prints "brasa COMMAND: message" and a hint to try --help on stderr; returns CLI_USAGE. */
int cli_usage(const char *command, const char *format, ...) BR_PRINTF(2, 3);
/* Handles '?' from getopt_long(), which has already printed a message: prints a hint to try --help
 * and returns CLI_USAGE. */
int cli_bad_option(const char *command);
/* Returns the exit status of a command: 0, or 1 if an error is pending. Prints that error on stderr
 * with "brasa COMMAND: " before it, after flushing stdout, and clears it. */
int cli_report(void);
/* Name of the running command, for messages. */
extern const char *cli_command;
/* Appends a name to a comma-separated list, which is truncated to `size` bytes. */
void cli_list(char *names, size_t size, const char *name);
/* Returns "; did you mean 'NAME'?" with the name in the comma-separated list that is nearest to
 * `given`, or "" if none differs from it in few letters. Valid until the next call. */
const char *cli_suggestion(const char *given, const char *names);

/* Returns the width of the stream's terminal, but at least 40 and at most 80 columns; 80 if it is
 * no terminal. */
int cli_columns(FILE *stream);
/* Prints lines, wrapped at that width. A line with the indent of the text before it continues that
 * text. After a gap of two or more spaces, a line's rest is a column, whose next lines are indented
 * like it. */
void cli_print_wrapped(FILE *stream, const char *text);

/* Parses the options of argv with getopt_long() and leaves optind at the first argument. Calls
 * parse() for each option, with its value in optarg; parse() returns 0 or the exit status. 'h'
 * prints `help`. Returns CLI_CONTINUE if the command should run; otherwise returns the exit status.
 */
int cli_options(int argc, char **argv, const char *letters, const struct option *options,
                const char *help, int (*parse)(void *request, int option), void *request);

/* Converts the whole text to a number; returns false if it is not a number in low .. high. */
bool cli_integer(const char *text, int64_t low, int64_t high, int64_t *value);
bool cli_number(const char *text, double low, double high, double *value);

/* Reads a whole file and appends a NUL. The caller frees the result. Returns NULL with an error on
 * failure. */
char *cli_read_file(const char *path, size_t *length);
/* Returns the begin of the first line of text .. end-1, after a byte-order mark if there is one. */
static inline const char *cli_first_line(const char *text, const char *end)
{
    return end - text >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? text + 3 : text;
}
/* Gets the next line, from *at to the separator or the end, and moves *at past it. If the separator
 * is '\n', a '\r' before it does not belong to the line. Returns false at the end. */
static inline bool cli_next_line(const char **at, const char *end, char separator, br_text *line)
{
    if (*at >= end)
        return false;
    const char *stop = memchr(*at, separator, (size_t)(end - *at));
    *line = (br_text){ *at, (stop ? stop : end) - *at };
    if (separator == '\n' && line->length > 0 && line->data[line->length - 1] == '\r')
        line->length--;
    *at = stop ? stop + 1 : end;
    return true;
}
/* Returns the path of one of Brasa's data files: data/NAME below the working directory, or below
 * the build folder that contains the program, or the installed file. The caller frees it. Returns
 * NULL with an error if none exists. */
char *cli_data_file(const char *name);
/* Returns a pattern for glob() that matches the files NAMES in a folder, whose own name is taken
 * literally. The caller frees it. Returns NULL with an error on failure. */
char *cli_pattern(const char *folder, const char *names);
/* Creates a directory and its parents; returns false with an error on failure. */
bool cli_make_directory(const char *path);
/* Formats like printf() into memory that the caller frees; returns NULL with an error on
 * failure. */
char *cli_format(const char *format, ...) BR_PRINTF(1, 2);
/* Calls br_auto_tokenizer_load(); `cased` applies to WordPiece. Returns NULL with an error on
 * failure. */
br_tokenizer *cli_open_tokenizer(const char *dir, bool cased);
/* Returns the ids of a text, i64 [1, length]; NULL with an error on failure. */
br_tensor *cli_encode(const br_tokenizer *tokenizer, const char *text);
/* Returns the seconds of a monotonic clock. */
double cli_seconds(void);

#endif
