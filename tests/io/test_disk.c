/* tests/io/test_disk.c - replacing a file on a file system that fails: full, interrupted by
 * signals, slow, or gone at any moment. The old or the new file is whole afterwards, never neither.
 * A preloaded library (tests/shim/calls.c) makes the system calls of a small program
 * (tests/shim/save.c) fail. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static void begin(void)
{
    program_begin_with_shim();
    setenv("SAVE", BRASA_SAVE, 1);
}

TestSuite(disk, .init = begin, .fini = program_end);

static const char *const kinds[] = { "safetensors", "checkpoint", "plot", "tokens" };
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Runs a shell command. Returns its exit status, or 128 and the signal that killed it, as a shell
 * does. */
static int shell(const char *command)
{
    int status = system(command);
    cr_assert(WIFEXITED(status), "%s", command);
    return WEXITSTATUS(status);
}

/* Writes $OUT/old and $OUT/new, two files of a kind. */
static void make_files(const char *kind)
{
    setenv("KIND", kind, 1);
    program_shell("cd $OUT && \"$SAVE\" $KIND old 1 && \"$SAVE\" $KIND new 2 && ! cmp -s old new");
}

/* Replaces the old file by the new one with these environment variables. Returns the exit status.
 */
static int replace(const char *variables)
{
    char command[512];
    snprintf(command, sizeof command,
             "cd $OUT && cp old file && env %s LD_PRELOAD=$SHIM \"$SAVE\" $KIND file 2 >said 2>&1",
             variables);
    return shell(command);
}

/* Checks that the file is the old or the new one, and that no temporary file is left. */
static void check_file(const char *which, const char *variables)
{
    char command[512];
    snprintf(command, sizeof command, "cmp -s $OUT/%s $OUT/file", which);
    cr_assert_eq(shell(command), 0, "%s: not the %s file with %s", getenv("KIND"), which,
                 variables);
    cr_assert_eq(shell("ls -A $OUT | grep -q '\\.tmp$'"), 1, "%s: a temporary file is left with %s",
                 getenv("KIND"), variables);
}

static void check_message(const char *message, const char *variables)
{
    char command[512];
    snprintf(command, sizeof command, "grep -q '%s' $OUT/said", message);
    cr_assert_eq(shell(command), 0, "%s with %s: no message \"%s\"", getenv("KIND"), variables,
                 message);
}

/* Makes the first, second, ... call of a kind fail, until none does. Returns the number of calls.
 */
static int fail_in_turn(const char *call, const char *error, const char *message)
{
    for (int n = 1;; n++) {
        char variables[64];
        snprintf(variables, sizeof variables, "CALLS_FAIL='%s %d %s'", call, n, error);
        int status = replace(variables);
        if (status == 0) {
            check_file("new", variables);
            return n - 1;
        }
        cr_assert_eq(status, 1, "%s: status %d with %s", getenv("KIND"), status, variables);
        bool directory = strcmp(call, "fsync") == 0 && n == 2; /* after the rename */
        check_file(directory ? "new" : "old", variables);
        check_message(message, variables);
    }
}

Test(disk, each_call_fails_in_turn, .timeout = 120)
{
    for (int k = 0; k < KINDS; k++) {
        make_files(kinds[k]);
        cr_expect_eq(fail_in_turn("create", "EIO", "cannot be written: Input/output error"), 1);
        cr_expect_geq(fail_in_turn("write", "ENOSPC", "cannot be written: No space left"), 1);
        cr_expect_geq(fail_in_turn("write", "EIO", "cannot be written: Input/output error"), 1);
        cr_expect_eq(fail_in_turn("fsync", "EIO", "cannot be synced: Input/output error"), 2);
        cr_expect_geq(fail_in_turn("close", "EIO", "cannot be closed: Input/output error"), 1);
        cr_expect_eq(fail_in_turn("rename", "EIO", "cannot be renamed to: Input/output error"), 1);
    }
}

/* The program is killed between any two changes of the file system. */
Test(disk, a_crash_at_any_moment, .timeout = 120)
{
    for (int k = 0; k < KINDS; k++) {
        make_files(kinds[k]);
        bool seen[2] = { false, false };
        for (int n = 1;; n++) {
            char variables[64];
            snprintf(variables, sizeof variables, "CALLS_KILL=%d", n);
            int status = replace(variables);
            if (status == 0)
                break;
            cr_assert_eq(status, 128 + SIGKILL, "%s: status %d with %s", kinds[k], status,
                         variables);
            program_shell("rm -f $OUT/.*.tmp");
            bool new = shell("cmp -s $OUT/new $OUT/file") == 0;
            check_file(new ? "new" : "old", variables);
            seen[new] = true;
        }
        cr_expect(seen[0] && seen[1], "%s", kinds[k]);
    }
}

/* Signals, and calls that transfer only a part, are no errors. */
Test(disk, interrupted_and_short_calls)
{
    static const char *const every[] = { "CALLS_EVERY=EINTR", "CALLS_EVERY=SHORT" };
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < KINDS; k++) {
            make_files(kinds[k]);
            cr_expect_eq(replace(every[i]), 0, "%s with %s", kinds[k], every[i]);
            program_shell("cat $OUT/said");
            check_file("new", every[i]);
        }
        make_files("safetensors");
        char command[256];
        snprintf(command, sizeof command, "env %s LD_PRELOAD=$SHIM \"$SAVE\" load $OUT/new 2",
                 every[i]);
        cr_expect_eq(shell(command), 0, "loading with %s", every[i]);
    }
}
