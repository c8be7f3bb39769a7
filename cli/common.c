/* cli/common.c - functions shared by the commands: usage errors, numbers, files. */
#include "cli/cli.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Usage errors ---------------------------------------------------------------------------- */

int cli_bad_option(const char *command)
{
    fprintf(stderr, "Try 'brasa%s%s --help'.\n", *command ? " " : "", command);
    return CLI_USAGE;
}

int cli_usage(const char *command, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "brasa%s%s: ", *command ? " " : "", command);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    return cli_bad_option(command);
}

const char *cli_command = "";

int cli_report(void)
{
    fflush(stdout);
    if (br_failed())
        fprintf(stderr, "brasa%s%s: ", *cli_command ? " " : "", cli_command);
    return br_report(stderr);
}

void cli_list(char *names, size_t size, const char *name)
{
    strncat(names, *names ? ", " : "", size - strlen(names) - 1);
    strncat(names, name, size - strlen(names) - 1);
}

enum { LONGEST_NAME = 32 };

static int least(int a, int b, int c)
{
    int smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Returns the number of letters to insert, remove, replace or swap with their neighbour that turns
 * a into b (optimal string alignment), or INT_MAX if a name is too long. */
static int distance(const char *a, size_t n, const char *b, size_t m)
{
    int d[LONGEST_NAME + 1][LONGEST_NAME + 1];
    if (n > LONGEST_NAME || m > LONGEST_NAME)
        return INT_MAX;
    for (size_t i = 0; i <= n; i++)
        for (size_t k = 0; k <= m; k++) {
            if (i == 0 || k == 0) {
                d[i][k] = (int)(i + k);
                continue;
            }
            d[i][k] = least(d[i - 1][k] + 1, d[i][k - 1] + 1,
                            d[i - 1][k - 1] + !same_letter(a[i - 1], b[k - 1]));
            if (i > 1 && k > 1 && same_letter(a[i - 1], b[k - 2]) &&
                same_letter(a[i - 2], b[k - 1]))
                d[i][k] = least(d[i][k], d[i - 2][k - 2] + 1, INT_MAX);
        }
    return d[n][m];
}

/* A name is near if at most a third of its letters, but at least one, differ. */
const char *cli_suggestion(const char *given, const char *names)
{
    static char text[LONGEST_NAME + 32];
    int nearest = INT_MAX;
    *text = 0;
    for (const char *name = names; *name;) {
        size_t n = strcspn(name, ",");
        int off = distance(given, strlen(given), name, n), most = (int)n / 3;
        if (off <= (most > 1 ? most : 1) && off < nearest && n > 1) {
            nearest = off;
            snprintf(text, sizeof text, "; did you mean '%.*s'?", (int)n, name);
        }
        name += n + strspn(name + n, ", ");
    }
    return text;
}

int cli_options(int argc, char **argv, const char *letters, const struct option *options,
                const char *help, int (*parse)(void *request, int option), void *request)
{
    optind = 0; /* resets getopt_long(), which may have parsed another command in this process */
    for (int c; (c = getopt_long(argc, argv, letters, options, NULL)) != -1;) {
        if (c == 'h') {
            cli_print_wrapped(stdout, help);
            return EXIT_SUCCESS;
        }
        int status = parse(request, c);
        if (status)
            return status;
    }
    return CLI_CONTINUE;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

bool cli_integer(const char *text, int64_t low, int64_t high, int64_t *value)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (end == text || *end || errno || n < low || n > high)
        return false;
    *value = n;
    return true;
}

bool cli_number(const char *text, double low, double high, double *value)
{
    char *end;
    double x = strtod(text, &end);
    if (end == text || *end || !(x >= low && x <= high))
        return false;
    *value = x;
    return true;
}

/* ---- Files ----------------------------------------------------------------------------------- */

char *cli_format(const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) {
        text = NULL;
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a text");
    }
    va_end(args);
    return text;
}

/* Doubles the buffer until the end of the file, because the size of a pipe is not known in
 * advance. */
static char *read_all(FILE *file, size_t *length)
{
    size_t capacity = 1 << 16, n = 0;
    char *text = malloc(capacity);
    while (text) {
        n += fread(text + n, 1, capacity - 1 - n, file);
        if (n < capacity - 1)
            break;
        char *more = realloc(text, capacity *= 2);
        if (!more)
            free(text);
        text = more;
    }
    if (text)
        text[n] = 0;
    *length = n;
    return text;
}

char *cli_read_file(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        br_raise(BR_ERROR_IO, "%s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    errno = 0;
    char *text = read_all(file, length);
    if (!text || ferror(file)) {
        br_raise(text ? BR_ERROR_IO : BR_ERROR_MEMORY, "%s: cannot be read: %s", path,
                 strerror(errno));
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

/* Returns the path of a file in `folder`, which is relative to the program's own: a build folder
 * and an installed tree can be moved. */
static char *file_near_program(const char *folder, const char *name)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0)
        return NULL;
    program[n] = 0;
    char *slash = strrchr(program, '/');
    return slash ? cli_format("%.*s/%s/%s", (int)(slash - program), program, folder, name) : NULL;
}

char *cli_data_file(const char *name)
{
    char *places[] = { cli_format("data/%s", name), file_near_program("data", name),
                       file_near_program(BRASA_DATA_FROM_PROGRAM, name) };
    char *found = NULL;
    for (int i = 0; i < 3; i++)
        if (!found && places[i] && access(places[i], R_OK) == 0)
            found = places[i];
        else
            free(places[i]);
    if (!found)
        br_raise(
            BR_ERROR_IO,
            "cannot find data/%s below the working directory, in the build folder or among the "
            "installed files",
            name);
    return found;
}

char *cli_pattern(const char *folder, const char *names)
{
    char *literal = malloc(2 * strlen(folder) + 1), *end = literal;
    if (!literal) {
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for a path");
        return NULL;
    }
    for (const char *p = folder; *p; p++) {
        if (strchr("*?[\\", *p))
            *end++ = '\\';
        *end++ = *p;
    }
    *end = 0;
    char *pattern = cli_format("%s/%s", literal, names);
    free(literal);
    return pattern;
}

bool cli_make_directory(const char *path)
{
    char *part = cli_format("%s", path);
    for (char *p = part; p && *p; p++) {
        char *end = strchrnul(p + 1, '/'), kept = *end;
        *end = 0;
        bool made = mkdir(part, 0777) == 0 || errno == EEXIST;
        struct stat st;
        if (!made || (stat(part, &st) == 0 && !S_ISDIR(st.st_mode)))
            br_raise(BR_ERROR_IO, "%s: cannot create the directory: %s", part,
                     strerror(made ? ENOTDIR : errno));
        *end = kept;
        p = end - 1;
        if (br_failed())
            break;
    }
    free(part);
    return !br_failed();
}

double cli_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

br_tokenizer *cli_open_tokenizer(const char *dir, bool cased)
{
    return br_auto_tokenizer_load(
        dir,
        BR_OPTIONS(br_auto_tokenizer, .do_lower_case = cased ? BR_SETTING_OFF : BR_SETTING_AUTO));
}

br_tensor *cli_encode(const br_tokenizer *tokenizer, const char *text)
{
    br_token_batch batch;
    bool ok = br_tokenizer_encode_batch(tokenizer, 1, &(br_text){ text, -1 }, NULL, NULL, &batch);
    return ok ? batch.ids : NULL;
}
