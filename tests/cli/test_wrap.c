/* tests/cli/test_wrap.c - the width of help texts and of the progress line, on terminals of
 * different widths. */
#include "cli/cli.h"
#include "cli/progress.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* A pseudo-terminal that stands for a standard stream. */
typedef struct terminal {
    int master, stream, before;
} terminal;

static terminal terminal_begin(int columns, int stream)
{
    terminal t = { .master = posix_openpt(O_RDWR | O_NOCTTY), .stream = stream };
    cr_assert(t.master >= 0 && grantpt(t.master) == 0 && unlockpt(t.master) == 0);
    int slave = open(ptsname(t.master), O_RDWR | O_NOCTTY);
    struct winsize size = { .ws_row = 24, .ws_col = (unsigned short)columns };
    cr_assert(slave >= 0 && ioctl(slave, TIOCSWINSZ, &size) == 0);
    t.before = dup(stream);
    dup2(slave, stream);
    close(slave);
    return t;
}

/* Stores what was written, at most size - 1 bytes. A BEL marks the end, because a pseudo-terminal
 * passes its input on later. */
static void terminal_end(terminal *t, char *written, size_t size)
{
    fflush(stdout);
    cr_assert_eq(write(t->stream, "\a", 1), 1);
    for (size_t n = 0;; n++) {
        cr_assert(n < size && read(t->master, written + n, 1) == 1);
        if (written[n] == '\a') {
            written[n] = 0;
            break;
        }
    }
    dup2(t->before, t->stream);
    close(t->before);
    close(t->master);
}

static void check_wrapped(int columns, const char *text, const char *want)
{
    char written[4096];
    terminal t = terminal_begin(columns, STDOUT_FILENO);
    cli_print_wrapped(stdout, text);
    terminal_end(&t, written, sizeof written);
    for (char *end; (end = strstr(written, "\r\n")) != NULL;) /* the terminal's line ends */
        memmove(end, end + 1, strlen(end));
    cr_expect_str_eq(written, want, "%d columns:\n%s", columns, written);
}

Test(wrap, help)
{
    static const char text[] = "Usage: brasa dance [OPTION]...\n"
                               "       brasa dance --help\n"
                               "\n"
                               "Dances with a partner who may be\n"
                               "left out.\n"
                               "\n"
                               "  -s, --steps N  number of steps, or\n"
                               "                 turns\n"
                               "      --very-long-option NAME  what is there to say\n";
    check_wrapped(80, text,
                  "Usage: brasa dance [OPTION]...\n"
                  "       brasa dance --help\n"
                  "\n"
                  "Dances with a partner who may be left out.\n"
                  "\n"
                  "  -s, --steps N  number of steps, or turns\n"
                  "      --very-long-option NAME  what is there to say\n");
    check_wrapped(40, text,
                  "Usage: brasa dance [OPTION]...\n"
                  "       brasa dance --help\n"
                  "\n"
                  "Dances with a partner who may be left\n"
                  "out.\n"
                  "\n"
                  "  -s, --steps N  number of steps, or\n"
                  "                 turns\n"
                  "      --very-long-option NAME\n"
                  "      what is there to say\n");
    /* A description of 20 columns is the narrowest beside its option. */
    check_wrapped(40, "      --option-123  is beside it\n      --option-1234  is below it\n",
                  "      --option-123  is beside it\n      --option-1234\n      is below it\n");
}

/* If the terminal is too narrow, the bar is omitted first, then the losses. The rate and the time
 * left are always shown. */
Test(wrap, progress)
{
    static const struct {
        int columns;
        const char *want;
    } cases[] = {
        { 80, "\r[############............] step 5/10  loss 0.123456  " },
        { 60, "\r[###....] step 5/10  loss 0.123456  " },
        { 50, "\rstep 5/10  loss 0.123456  " },
        { 40, "\r[###....] 5/10  " },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char written[512];
        terminal t = terminal_begin(cases[i].columns, STDERR_FILENO);
        progress p = progress_begin(0, 10);
        p.started -= 5;
        progress_update(&p, 5, "loss 0.123456");
        terminal_end(&t, written, sizeof written);
        cr_expect_eq(strncmp(written, cases[i].want, strlen(cases[i].want)), 0, "%d columns: %s",
                     cases[i].columns, written);
        cr_expect(strstr(written, "1.00 steps/s  0:05 left"), "%s", written);
        char *end = strstr(written, "\033[K");
        cr_expect(end && end - written <= cases[i].columns, "%s", written);
    }
}

/* About 20 lines of a run are shown if the output is no terminal: of a resumed run, too. */
Test(wrap, progress_of_a_resumed_run)
{
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO), lines = 0;
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    progress p = progress_begin(100, 130);
    for (int64_t step = 101; step <= 130; step++)
        progress_update(&p, step, "");
    progress_end(&p);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    for (int c; (c = fgetc(file)) != EOF;)
        lines += c == '\n';
    fclose(file);
    cr_assert_eq(lines, 1 + 15, "%d lines", lines); /* 101, and every second step */
}

Test(wrap, no_terminal)
{
    FILE *stream = tmpfile();
    cr_assert_eq(cli_columns(stream), 80);
    fclose(stream);
    char written[64];
    terminal t = terminal_begin(200, STDOUT_FILENO);
    cr_expect_eq(cli_columns(stdout), 80);
    terminal_end(&t, written, sizeof written);
    t = terminal_begin(20, STDOUT_FILENO);
    cr_expect_eq(cli_columns(stdout), 40);
    terminal_end(&t, written, sizeof written);
}

/* A single text, which takes no time worth a bar, shows none. */
/* A terminal that does not know its width is as wide as a help text. */
Test(wrap, a_terminal_without_a_width)
{
    char written[16];
    static const int columns[] = { 0, 39, 79, 81 }, want[] = { 80, 40, 79, 80 };
    for (int i = 0; i < 4; i++) {
        terminal t = terminal_begin(columns[i], STDERR_FILENO);
        cr_expect_eq(cli_columns(stderr), want[i], "%d columns", columns[i]);
        terminal_end(&t, written, sizeof written);
    }
}

Test(wrap, progress_of_batches)
{
    for (int64_t texts = 1; texts <= 2; texts++) {
        char written[512];
        terminal t = terminal_begin(80, STDERR_FILENO);
        progress p = progress_begin(0, texts);
        cr_expect(progress_on_batch(&p, texts, texts));
        progress_end(&p);
        terminal_end(&t, written, sizeof written);
        cr_expect_eq(strstr(written, "step 2/2") != NULL, texts == 2, "%d texts: %s", (int)texts,
                     written);
        cr_expect_eq(*written != 0, texts == 2, "%d texts: %s", (int)texts, written);
    }
    FILE *file = tmpfile(); /* nor is one shown where no terminal is */
    int before = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(fileno(file), STDERR_FILENO);
    progress p = progress_begin(0, 2);
    cr_expect(progress_on_batch(&p, 2, 2));
    progress_end(&p);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    close(before);
    cr_expect_eq(ftell(file), 0);
    fclose(file);
}
