/* tests/tensor/test_report.c - how errors are reported: callbacks, BRASA_ERRORS, and the report at
 * exit. The errors occur in a separate program (tests/errors/program.c). */
#include "tests/support.h"

#include <signal.h>
#include <sys/wait.h>

TestSuite(report, .init = check_begin, .fini = check_end);

#define MM      "mm: a [2, 3] x b [2, 3]: inner sizes 3 and 2 differ"
#define UNASKED "brasa: unhandled error (print and clear it with br_report()): "

/* Runs the program with BRASA_ERRORS set and captures its output. Returns the wait status of the
 * shell, which exits with the program's status. */
static int run(const char *program, const char *errors, const char *what, char *output, size_t size)
{
    char command[1024];
    snprintf(command, sizeof command, "ulimit -c 0; BRASA_ERRORS=%s '%s' %s 2>&1; exit $?", errors,
             program, what);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    size_t n = fread(output, 1, size - 1, pipe);
    output[n] = '\0';
    return pclose(pipe);
}

static void check_output(const char *errors, const char *what, const char *expected)
{
    const char *programs[] = { BRASA_ERRORS_PROGRAM, BRASA_ERRORS_PROGRAM_STATIC };
    char output[8192];
    for (int i = 0; i < 2; i++) {
        int status = run(programs[i], errors, what, output, sizeof output);
        cr_assert_eq(status, 0, "%s %s: status %d: %s", programs[i], what, status, output);
        cr_assert_str_eq(output, expected, "BRASA_ERRORS=%s %s %s:\n%s", errors, programs[i], what,
                         output);
    }
}

Test(report, unchecked_errors_are_printed_at_exit)
{
    check_output("", "none", "");
    check_output("", "unasked", UNASKED MM "\n");
    check_output("", "model", UNASKED MM "\n");
    check_output("", "early", UNASKED MM "\n"); /* br_failed() was called before the error */
    check_output("", "cleanup", UNASKED MM "\n");
    check_output("", "thread", UNASKED "of the thread\n"); /* only the first one */
    check_output("", "'two threads'", UNASKED "of the first thread\n");
    check_output("", "'two threads at once'", UNASKED "of the first thread\n");
    check_output("", "fork", UNASKED MM "\n"); /* only by the parent */
}

Test(report, checked_errors_are_not_printed_at_exit)
{
    check_output("", "failed", "seen\n");
    check_output("", "code", "seen\n");
    check_output("", "cleared", "");
    check_output("", "off", "");
    check_output("silent", "unasked", "");
}

Test(report, callbacks_see_each_error_once)
{
    check_output("", "callback", "got 2 " MM "\n");
}

Test(report, warnings_are_not_errors)
{
    check_output("", "warning", "got 10 somebody hears 2\n0\n");
    check_output("print", "warning",
                 "brasa: warning: nobody hears 1\n"
                 "brasa: warning: somebody hears 2\n"
                 "brasa: warning: not passed on by a callback\n"
                 "got 10 somebody hears 2\n0\n");
}

Test(report, the_environment_variable_can_print_errors)
{
    check_output("print", "unasked", "brasa: " MM "\n");
    check_output("print", "thread", "brasa: of the thread\nbrasa: " MM "\n");
    check_output("prinnt", "unasked",
                 "brasa: BRASA_ERRORS is 'prinnt', must be print, abort or silent\n" UNASKED MM
                 "\n");
    check_output("prinnt", "none", "");
}

Test(report, the_environment_variable_can_abort)
{
    char output[8192];
    int status = run(BRASA_ERRORS_PROGRAM, "abort", "unasked", output, sizeof output);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGABRT, "status %d", status);
    cr_assert(strstr(output, "brasa: " MM "\n"), "%s", output);
}

/* "break br_raise" in a debugger stops at every error, and the backtrace from there reaches main().
 */
Test(report, every_error_goes_through_br_raise_with_a_complete_backtrace)
{
    check_output("", "stacks",
                 "2 br_raise main\n2 br_raise main\n3 br_raise main\n1 br_raise main\n"
                 "7 br_raise main\n8 br_raise main\n2 br_raise main\n6 br_raise main\n");
}

/* Asserts that a place "FILE+OFFSET" of the text, up to its end or to `until`, is in that function,
 * according to addr2line. */
static void check_place(const char *program, const char *text, const char *until,
                        const char *function)
{
    const char *end = strstr(text, until), *file = strrchr(program, '/') + 1;
    cr_assert_not_null(end, "%s", text);
    bool found = false;
    for (const char *p = text; (p = strstr(p, file)) && p < end && !found; p++) {
        char command[1024], output[1024];
        unsigned long offset = 0;
        if (sscanf(p + strlen(file), "+0x%lx", &offset) != 1)
            continue;
        snprintf(command, sizeof command, "addr2line -fe '%s' 0x%lx", program, offset);
        FILE *pipe = popen(command, "r");
        cr_assert_not_null(pipe);
        output[fread(output, 1, sizeof output - 1, pipe)] = '\0';
        cr_assert_eq(pclose(pipe), 0);
        found = strncmp(output, function, strlen(function)) == 0;
    }
    cr_assert(found, "no call of %s until '%s': %s", function, until, text);
}

Test(report, places_of_the_debug_mode_are_for_addr2line)
{
    if (system("addr2line --version >/dev/null 2>&1") != 0)
        cr_skip_test("addr2line is not installed");
    const char *programs[] = { BRASA_ERRORS_PROGRAM, BRASA_ERRORS_PROGRAM_STATIC };
    char output[8192];
    setenv("BRASA_DEBUG", "1", 1);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(run(programs[i], "print", "ended", output, sizeof output), 0);
        const char *made = strstr(output, "created by "), *ended = strstr(output, "; ended by ");
        cr_assert(made && ended, "%s", output);
        check_place(programs[i], made, "; ended by ", "ended_tensor");
        check_place(programs[i], ended, ": use br_scope_return()", "ended_tensor");
        check_place(programs[i], made, "; ended by ", "main");
    }
}
