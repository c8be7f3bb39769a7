/* tests/io/test_sync.c - replacing a file survives a crash of the machine: the content is synced
 * before the rename, and the directory before the call returns. A preloaded library
 * (tests/shim/calls.c) records the program's system calls. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(sync, .init = program_begin_with_shim, .fini = program_end);

#define TRAIN                                                                                   \
    "LD_PRELOAD=$SHIM CALLS=$OUT/calls \"$BRASA\" train bert-scratch --preset small --steps 1 " \
    "--overwrite --out $OUT/run >$OUT/said 2>&1"

enum { MOST = 4096, LENGTH = 1024 };

static char calls[MOST][LENGTH];

static int read_calls(void)
{
    char path[64];
    int n = 0;
    snprintf(path, sizeof path, "%s/calls", program_directory);
    FILE *file = fopen(path, "r");
    cr_assert(file, "the program was not run with %s", BRASA_CALLS_SHIM);
    for (; n < MOST && fgets(calls[n], LENGTH, file); n++)
        calls[n][strcspn(calls[n], "\n")] = 0;
    fclose(file);
    cr_assert_lt(n, MOST);
    return n;
}

/* Returns the index of the first such call, starting at index `from`; -1 if there is none. */
static int find(int from, int n, const char *call)
{
    for (int i = from; i < n; i++)
        if (strcmp(calls[i], call) == 0)
            return i;
    return -1;
}

/* Checks the calls before and after the one that renames a file. */
static void check_rename(int at, int n)
{
    char from[LENGTH], to[LENGTH], call[LENGTH + 8];
    cr_assert_eq(sscanf(calls[at], "rename %1023s %1023s", from, to), 2);
    snprintf(call, sizeof call, "write %s", from);
    int write = find(0, at, call);
    cr_assert(write >= 0, "%s: nothing was written", calls[at]);
    for (int next; (next = find(write + 1, n, call)) >= 0;)
        write = next;
    cr_assert_lt(write, at, "%s: written to afterwards", calls[at]);
    snprintf(call, sizeof call, "fsync %s", from);
    int synced = find(write + 1, at, call);
    cr_assert(synced >= 0, "%s: not synced between the last write and the rename", calls[at]);
    *strrchr(to, '/') = 0;
    snprintf(call, sizeof call, "fsync %s", to);
    cr_assert_eq(find(at + 1, n, call), at + 1, "%s: the directory is not synced after it",
                 calls[at]);
}

Test(sync, content_then_name_then_directory)
{
    program_shell(TRAIN);
    int n = read_calls(), checkpoints = 0;
    for (int i = 0; i < n; i++)
        if (strncmp(calls[i], "rename ", 7) == 0) {
            check_rename(i, n);
            checkpoints += strstr(calls[i], "/checkpoint.safetensors") != NULL;
        }
    cr_assert_eq(checkpoints, 2); /* before the first step and after the last */
}

/* The first replaced file is the checkpoint. Its content is synced first, then its directory. */
Test(sync, failures_are_errors)
{
    program_shell(TRAIN " && cp $OUT/run/checkpoint.safetensors $OUT/before");
    program_shell("export CALLS_FAIL='fsync 1'; ! " TRAIN
                  " && grep -q 'checkpoint.safetensors: cannot be synced: Input/output' $OUT/said");
    program_shell("cmp $OUT/run/checkpoint.safetensors $OUT/before");
    program_shell("export CALLS_FAIL='close 1'; ! " TRAIN
                  " && grep -q 'checkpoint.safetensors: cannot be closed: Input/output' $OUT/said");
    program_shell("cmp $OUT/run/checkpoint.safetensors $OUT/before");
    program_shell("export CALLS_FAIL='rename 1'; ! " TRAIN
                  " && grep -q 'checkpoint.safetensors: cannot be renamed to: Input' $OUT/said");
    program_shell("cmp $OUT/run/checkpoint.safetensors $OUT/before");
    program_shell("export CALLS_FAIL='fsync 2'; ! " TRAIN
                  " && grep -q 'was written, but its directory cannot be synced' $OUT/said");
    program_shell("! ls -A $OUT/run | grep '\\.tmp$'");
}
