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
#include <unistd.h>

/* What a command writes, although it should not, stays in $OUT. */
static void begin(void)
{
    program_begin();
    cr_assert_eq(chdir(program_directory), 0);
}

TestSuite(cli_lines, .init = begin, .fini = program_end);

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
    "''",
    "0",
    "-1",
    "1e999",
    "nan",
    "abc",
    "a,b,,c",
    "9223372036854775808",
    "'%s%n'",
    "--",
    "$(printf '\\377')",
    "$(printf '%05000d' 0)",
};
enum { VALUES = sizeof values / sizeof *values };

/* Runs a line, which must succeed or fail with a message. */
static void try_line(const char *arguments)
{
    static char output[1 << 20];
    int status = program_run(arguments, output, sizeof output);
    cr_expect(status >= 0 && status <= 2, "brasa %s: status %d:\n%s", arguments, status, output);
    cr_expect(status == 0 || strncmp(output, "brasa", strlen("brasa")) == 0 ||
                  strstr(output, "FAILED "),
              "brasa %s: status %d without a message:\n%s", arguments, status, output);
    cr_expect(status != 2 || strstr(output, "--help"), "brasa %s: no hint to --help:\n%s",
              arguments, output);
}

Test(cli_lines, every_option_with_odd_values, .timeout = 300)
{
    char options[PROGRAM_OPTIONS][PROGRAM_OPTION_SIZE], arguments[256];
    int lines = 0;
    for (int c = 0; c < COMMANDS; c++) {
        int n = program_options(commands[c].name, options);
        for (int i = 0; i < n; i++)
            for (int v = 0; v < VALUES; v++, lines++) {
                snprintf(arguments, sizeof arguments, "%s %.*s %s %s", commands[c].name,
                         PROGRAM_OPTION_SIZE, options[i], values[v], commands[c].last);
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
    char options[PROGRAM_OPTIONS][PROGRAM_OPTION_SIZE], arguments[1024];
    uint64_t state = 1;
    for (int c = 0; c < COMMANDS; c++) {
        int n = program_options(commands[c].name, options);
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
