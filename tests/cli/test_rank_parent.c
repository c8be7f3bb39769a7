/* tests/cli/test_rank_parent.c - `brasa train` under a launcher: the parent process of a rank. The
 * launcher is imitated by its variables, and a plug-in for MPI ends the rank or waits. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static void begin(void)
{
    program_begin();
    setenv("PMI_RANK", "3", 1);
    setenv("BRASA_MPI_PLUGIN", BRASA_FAULTS, 1);
    program_shell(
        "echo 'timeout 60 $BRASA train copy-task --out $OUT/run 2>$OUT/errors' >$OUT/rank");
}

TestSuite(rank_parent, .init = begin, .fini = program_end);

Test(rank_parent, names_the_signal_that_ends_a_rank)
{
    program_shell("FAULT='signal 9' sh $OUT/rank; test $? = 137");
    program_shell("grep -qxE 'brasa: rank 3 .process [0-9]+. was ended by signal 9 .Killed.' "
                  "$OUT/errors || { cat $OUT/errors; false; }");
    program_shell("FAULT='signal 10' sh $OUT/rank; test $? = 138 && "
                  "grep -q 'was ended by signal 10 .User defined signal 1.' $OUT/errors");
}

Test(rank_parent, hands_on_the_exit_status)
{
    program_shell("FAULT='exit 75' sh $OUT/rank; test $? = 75 && ! test -s $OUT/errors");
    program_shell("FAULT='exit 0' sh $OUT/rank");
    program_shell("sh $OUT/rank; test $? = 1 && grep -q 'the test has no fault' $OUT/errors");
}

/* Starts a rank that waits, runs `commands` with the process IDs of the rank in $RANK and of its
 * parent in $PARENT, and waits until the rank has ended. */
static void with_waiting_rank(const char *commands)
{
    char script[1024];
    snprintf(script, sizeof script,
             "rm -f $OUT/process; mkfifo $OUT/process; "
             "FAULT_PROCESS=$OUT/process $BRASA train copy-task --out $OUT/run 2>$OUT/errors & "
             "PARENT=$!; read RANK <$OUT/process; %s; "
             "for i in $(seq 600); do test -e /proc/$RANK && ! grep -q '^State:.*Z' "
             "/proc/$RANK/status || exit $ok; "
             "sleep 0.1; done; "
             "echo the rank goes on; kill -9 $RANK; exit 1",
             commands);
    program_shell(script);
}

Test(rank_parent, hands_on_signals)
{
    with_waiting_rank("kill -TERM $PARENT; wait $PARENT; test $? = 143; ok=$?");
    program_shell("grep -q 'was ended by signal 15 .Terminated.' $OUT/errors");
}

Test(rank_parent, does_not_leave_the_rank_alone)
{
    with_waiting_rank("kill -KILL $PARENT; wait $PARENT; test $? = 137; ok=$?");
}
