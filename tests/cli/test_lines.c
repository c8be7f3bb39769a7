/* tests/cli/test_lines.c - command lines that make no sense: each option of each command with each
 * of many odd values, and random lines. The program ends with a message and an exit status, and is
 * never killed. The options are those that --help lists. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

TestSuite(cli_lines, .init = program_begin, .fini = program_end);

/* The commands, and words at the end that keep them from working for long: a file that does not
 * exist, or an option that does not. */
static const struct {
    const char *name, *last;
} commands[] = {
    { "train", "--no-such-option" },
    { "bench", "--no-such-option" },
    { "check", "$OUT/none" },
    { "info", "$OUT/none" },
    { "tokenize", "a" },
    { "embed", "a" },
    { "generate", "a" },
    { "fill-mask", "'a [MASK]'" },
    { "attention", "'a b'" },
};
enum { COMMANDS = sizeof commands / sizeof *commands };

static const char *const values[] = {
    "''",     "0",   "-1",       "1e999",
    "nan",    "abc", "a,b,,c",   "9223372036854775808",
    "'%s%n'", "--",  "$'\\xff'", "$(printf '%05000d' 0)",
};
enum { VALUES = sizeof values / sizeof *values, MOST = 64, LENGTH = 40 };

/* Runs the program, stores what it prints in `output`, and returns its exit status. */
static int run(const char *arguments, char *output, size_t size)
{
    char path[80], command[120];
    snprintf(path, sizeof path, "%s/line", program_directory);
    FILE *script = fopen(path, "w"); /* a file needs no second layer of quotes */
    cr_assert(script);
    fprintf(script, "cd $OUT && exec \"$BRASA\" %s 2>&1\n", arguments);
    cr_assert_eq(fclose(script), 0);
    snprintf(command, sizeof command, "bash %s", path);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    size_t n = fread(output, 1, size - 1, pipe);
    output[n] = 0;
    int status = pclose(pipe);
    cr_assert(WIFEXITED(status), "brasa %s: killed", arguments);
    return WEXITSTATUS(status);
}

/* Runs a line, which must succeed or fail with a message. */
static void try_line(const char *arguments)
{
    static char output[1 << 20];
    int status = run(arguments, output, sizeof output);
    cr_expect(status >= 0 && status <= 2, "brasa %s: status %d:\n%s", arguments, status, output);
    cr_expect(status == 0 || strncmp(output, "brasa", strlen("brasa")) == 0 ||
                  strstr(output, "FAILED "),
              "brasa %s: status %d without a message:\n%s", arguments, status, output);
    cr_expect(status != 2 || strstr(output, "--help"), "brasa %s: no hint to --help:\n%s",
              arguments, output);
}

/* Gets the long options that the command's help lists. Returns their number. */
static int options_of(const char *command, char options[MOST][LENGTH])
{
    static char help[1 << 16];
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%s --help", command);
    cr_assert_eq(run(arguments, help, sizeof help), 0, "%s", help);
    int n = 0;
    for (char *line = strtok(help, "\n"); line; line = strtok(NULL, "\n")) {
        const char *option = strstr(line, "--");
        if (line[0] != ' ' || !option ||
            strspn(line, " -,abcdefghijklmnopqrstuvwxyzT0") < (size_t)(option - line))
            continue;
        cr_assert(n < MOST);
        snprintf(options[n++], LENGTH, "%.*s", (int)strcspn(option, " ["), option);
    }
    return n;
}

Test(cli_lines, every_option_with_odd_values, .timeout = 300)
{
    char options[MOST][LENGTH], arguments[256];
    int lines = 0;
    for (int c = 0; c < COMMANDS; c++) {
        int n = options_of(commands[c].name, options);
        cr_assert(n > 0);
        for (int i = 0; i < n; i++)
            for (int v = 0; v < VALUES; v++, lines++) {
                snprintf(arguments, sizeof arguments, "%s %.*s %s %s", commands[c].name, LENGTH,
                         options[i], values[v], commands[c].last);
                try_line(arguments);
            }
    }
    cr_assert_gt(lines, 800);
}

/* Returns a random number below n, always the same sequence. */
static int below(uint64_t *state, int n)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (int)((*state >> 33) % (uint64_t)n);
}

Test(cli_lines, random_lines, .timeout = 300)
{
    char options[MOST][LENGTH], arguments[1024];
    uint64_t state = 1;
    for (int c = 0; c < COMMANDS; c++) {
        int n = options_of(commands[c].name, options);
        for (int k = 0; k < 20; k++) {
            size_t at = (size_t)snprintf(arguments, sizeof arguments, "%s", commands[c].name);
            for (int words = 1 + below(&state, 6); words > 0; words--) {
                const char *word =
                    below(&state, 2) ? options[below(&state, n)] : values[below(&state, VALUES)];
                at += (size_t)snprintf(arguments + at, sizeof arguments - at, " %s", word);
            }
            snprintf(arguments + at, sizeof arguments - at, " %s", commands[c].last);
            try_line(arguments);
        }
    }
}
