/* cli/common.c - functions shared by the commands: usage errors, reports, options. */
#include "cli/cli.h"

#include <brasa/distributed.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

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

/* Returns the message without "COMMAND: " at its beginning, which cli_report() has printed. */
static const char *without_command(const char *message)
{
    size_t n = strlen(cli_command);
    return n && strncmp(message, cli_command, n) == 0 && strncmp(message + n, ": ", 2) == 0
               ? message + n + 2
               : message;
}

/* Prints a message of the library as the command's: without the advice at its end to set an option
 * of a function, and with the command's own options instead of a function's. */
static void print_message(const char *message)
{
    static const char option[] = "option do_lower_case";
    const char *advice = strstr(message, "; set the option ");
    int length = (int)(advice ? (size_t)(advice - message) : strlen(message));
    const char *named = strstr(message, option);
    if (!named || named > message + length) {
        fprintf(stderr, "%.*s\n", length, message);
        return;
    }
    int before = (int)(named - message), used = before + (int)strlen(option);
    fprintf(stderr, "%.*s--cased%.*s\n", before, message, length - used, message + used);
}

int cli_report(void)
{
    fflush(stdout);
    if (!br_failed())
        return EXIT_SUCCESS;
    fprintf(stderr, "brasa%s%s: ", *cli_command ? " " : "", cli_command);
    print_message(without_command(br_error_message()));
    return br_report(NULL);
}

static void print_warning(br_error code, const char *message, void *unused)
{
    (void)unused;
    if (code == BR_WARNING)
        fprintf(stderr, "brasa %s: warning: %s\n", cli_command, message);
}

bool cli_dist_init(void)
{
    br_set_error_callback(print_warning, NULL);
    bool ok = br_dist_init(NULL);
    br_set_error_callback(NULL, NULL);
    return ok;
}

/* Sets the precision of matrix products; returns 0 or the exit status. */
static int set_matmul_precision(void)
{
    if (br_set_float32_matmul_precision(optarg))
        return 0;
    br_clear_error();
    return cli_usage(cli_command, "--matmul-precision is '%s', must be highest, high or medium",
                     optarg);
}

br_dtype cli_dtype = BR_DTYPE_AUTO;
const char *cli_adapter;
bool cli_amp;

/* Sets cli_dtype; returns 0 or the exit status. */
static int set_dtype(void)
{
    cli_dtype = BR_DTYPE_AUTO;
    if (strcmp(optarg, "auto") == 0 ||
        (br_dtype_named(optarg, &cli_dtype) &&
         (br_dtype_is_floating(cli_dtype) || cli_dtype == BR_QUANTIZED)))
        return 0;
    return cli_usage(cli_command,
                     "--dtype is '%s', must be auto, f32, f64, bf16, f16 or, for GGUF files, "
                     "quantized",
                     optarg);
}

/* Sets cli_amp; returns 0 or the exit status. */
static int set_amp(void)
{
    cli_amp = strcmp(optarg, "bf16") == 0;
    return cli_amp || strcmp(optarg, "off") == 0
               ? 0
               : cli_usage(cli_command, "--amp is '%s', must be off or bf16", optarg);
}

void cli_autocast(void)
{
    if (cli_amp)
        br_autocast_begin(BR_BF16);
}

/* Handles an option that several commands have; returns 0 or the exit status, or CLI_CONTINUE if
 * this is another option. */
static int parse_shared(int option)
{
    switch (option) {
    case CLI_MATMUL_PRECISION:
        return set_matmul_precision();
    case CLI_DTYPE:
        return set_dtype();
    case CLI_AMP:
        return set_amp();
    case CLI_ADAPTER:
        cli_adapter = optarg;
        return 0;
    default:
        return CLI_CONTINUE;
    }
}

int cli_options(int argc, char **argv, const char *letters, const struct option *options,
                const char *help, int (*parse)(void *request, int option), void *request)
{
    cli_adapter = NULL;
    optind = 0; /* resets getopt_long(), which may have parsed another command in this process */
    for (int c; (c = getopt_long(argc, argv, letters, options, NULL)) != -1;) {
        if (c == 'h') {
            cli_print_wrapped(stdout, help);
            return EXIT_SUCCESS;
        }
        int status = parse_shared(c);
        if (status == CLI_CONTINUE)
            status = parse(request, c);
        if (status)
            return status;
    }
    return CLI_CONTINUE;
}

int cli_choose(const char *option, int n, const char *const *names, int *index)
{
    char known[256] = "";
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], optarg) == 0) {
            *index = i;
            return 0;
        }
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s",
                 i == 0       ? ""
                 : i == n - 1 ? " or "
                              : ", ",
                 names[i]);
    }
    return cli_usage(cli_command, "%s is '%s', must be %s", option, optarg, known);
}

int cli_at_least(const char *option, int64_t least, int64_t *value)
{
    return text_to_integer(optarg, least, INT32_MAX, value)
               ? 0
               : cli_usage(cli_command, "%s is '%s', must be at least %" PRId64, option, optarg,
                           least);
}

int cli_within(const char *option, int64_t least, int64_t most, int64_t *value)
{
    return text_to_integer(optarg, least, most, value)
               ? 0
               : cli_usage(cli_command, "%s is '%s', must be %" PRId64 " .. %" PRId64, option,
                           optarg, least, most);
}

/* ---- Tokenizers ------------------------------------------------------------------------------ */

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
