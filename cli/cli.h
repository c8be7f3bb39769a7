/* cli/cli.h - the commands of `brasa`, and the functions that they share.
 *
 * A command gets its own arguments, with "brasa COMMAND" in argv[0], and returns the exit status:
 * 0, 1 on failure, or CLI_USAGE for invalid arguments. */
#ifndef BRASA_CLI_CLI_H
#define BRASA_CLI_CLI_H

#include "common/clock.h"
#include "common/file.h"
#include "common/text.h"

#include <brasa/brasa.h>
#include <getopt.h>
#include <string.h>

enum {
    CLI_USAGE = 2,
    CLI_RANK_DIED = 75, /* EX_TEMPFAIL of sysexits.h: another rank has died */
    CLI_CONTINUE = -1
};

int cli_train(int argc, char **argv);
int cli_finetune(int argc, char **argv);
int cli_check(int argc, char **argv);
int cli_info(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_train_tokenizer(int argc, char **argv);
int cli_embed(int argc, char **argv);
int cli_classify(int argc, char **argv);
int cli_rerank(int argc, char **argv);
int cli_tag(int argc, char **argv);
int cli_answer(int argc, char **argv);
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
/* Calls br_dist_init(NULL), and prints its warnings on stderr. */
bool cli_dist_init(void);
/* Name of the running command, for messages. */
extern const char *cli_command;
/* Returns the width of the stream's terminal, but at least 40 and at most 80 columns; 80 if it is
 * no terminal. */
int cli_columns(FILE *stream);
/* Prints lines, wrapped at that width. A line with the indent of the text before it continues that
 * text. After a gap of two or more spaces, a line's rest is a column, whose next lines are indented
 * like it. */
void cli_print_wrapped(FILE *stream, const char *text);

/* The codes of options that cli_options() handles: --matmul-precision, --dtype, --amp and
 * --adapter.
 */
enum { CLI_MATMUL_PRECISION = 1024, CLI_DTYPE, CLI_AMP, CLI_ADAPTER };

/* Rows of a command's options, for commands that load a model. */
#define CLI_MODEL_OPTIONS                                                 \
    { "adapter", required_argument, NULL, CLI_ADAPTER },                  \
        { "dtype", required_argument, NULL, CLI_DTYPE },                  \
        { "amp", required_argument, NULL, CLI_AMP },                      \
    {                                                                     \
        "matmul-precision", required_argument, NULL, CLI_MATMUL_PRECISION \
    }
/* Their lines in a help text whose second column begins at 24. */
#define CLI_MODEL_HELP                                                                          \
    "      --adapter DIR     add the LoRA adapter of the folder, which peft or Brasa saved\n"   \
    "      --dtype D         load the model as f32, f64, bf16 or f16; auto (default): in the\n" \
    "                        dtype that config.json names, or that of the weights\n"            \
    "      --amp bf16        compute matrix products and attention in bf16, as under\n"         \
    "                        torch.autocast (default: off)\n"                                   \
    "      --matmul-precision P\n"                                                              \
    "                        precision of f32 matrix products: highest (default), high\n"       \
    "                        or medium, which rounds their operands to bf16\n"

/* The value of --dtype: the dtype in which pretrained models are loaded. */
extern br_dtype cli_dtype;
/* The value of --adapter: the folder of an adapter for the model; NULL: none. */
extern const char *cli_adapter;
/* Whether --amp asks for mixed precision of bf16. */
extern bool cli_amp;
/* Begins a region of mixed precision, which ends with the current scope, if --amp asks for one. */
void cli_autocast(void);

/* Parses the options of argv with getopt_long() and leaves optind at the first argument. Calls
 * parse() for each option, with its value in optarg; parse() returns 0 or the exit status. 'h'
 * prints `help`. Returns CLI_CONTINUE if the command should run; otherwise returns the exit status.
 */
int cli_options(int argc, char **argv, const char *letters, const struct option *options,
                const char *help, int (*parse)(void *request, int option), void *request);

/* Sets *index to that of the value of the option, optarg, among n names. Returns 0 or the exit
 * status. */
int cli_choose(const char *option, int n, const char *const *names, int *index);

/* Set *value to the number that optarg is: at least `least`, or within least .. most. Return 0 or
 * the exit status. */
int cli_at_least(const char *option, int64_t least, int64_t *value);
int cli_within(const char *option, int64_t least, int64_t most, int64_t *value);

/* Calls br_auto_tokenizer_load(); `cased` applies to WordPiece. Returns NULL with an error on
 * failure. */
br_tokenizer *cli_open_tokenizer(const char *dir, bool cased);
/* Returns the ids of a text, i64 [1, length]; NULL with an error on failure. */
br_tensor *cli_encode(const br_tokenizer *tokenizer, const char *text);

#endif
