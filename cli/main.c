/* cli/main.c - the `brasa` command: a table of subcommands. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "train", "train a model with one of the recipes", cli_train },
    { "finetune", "train a pretrained model on your texts", cli_finetune },
    { "check", "compare models and operations with results recorded from PyTorch", cli_check },
    { "bench", "time operations and models on this machine", cli_bench },
    { "info", "show the contents of a safetensors file, checkpoint or config.json", cli_info },
    { "tokenize", "show the tokens of a text", cli_tokenize },
    { "train-tokenizer", "learn a byte-level BPE tokenizer from a text", cli_train_tokenizer },
    { "embed", "compute sentence embeddings and their cosine similarities", cli_embed },
    { "classify", "label texts with a pretrained classifier", cli_classify },
    { "rerank", "rank texts for a query with a pretrained cross-encoder", cli_rerank },
    { "tag", "find entities in texts with a pretrained model", cli_tag },
    { "answer", "answer questions from texts with a pretrained model", cli_answer },
    { "attention", "write an HTML page with views of a model's attention", cli_attention },
    { "generate", "generate text with a pretrained language model", cli_generate },
    { "fill-mask", "predict masked words with a pretrained model", cli_fill_mask },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int help(FILE *stream)
{
    char line[128];
    cli_print_wrapped(stream, "Usage: brasa COMMAND [ARGUMENT]...\n");
    fprintf(stream, "\n");
    for (size_t i = 0; i < N_COMMANDS; i++) {
        snprintf(line, sizeof line, "  %-15s  %s", commands[i].name, commands[i].summary);
        cli_print_wrapped(stream, line);
    }
    fprintf(stream, "\n");
    cli_print_wrapped(stream, "'brasa help COMMAND' or 'brasa COMMAND --help' shows the options of "
                              "a command. 'brasa --version' prints the version.");
    return 0;
}

/* Fails if the output could not be written, for example to a full disk. */
static int finish(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "brasa: cannot write to standard output\n");
        return EXIT_FAILURE;
    }
    return status;
}

/* Runs the command. Sets argv[0] so that messages of getopt_long() also begin with
 * "brasa COMMAND: ". */
static int run(size_t command, int argc, char **argv)
{
    char name[32];
    snprintf(name, sizeof name, "brasa %s", commands[command].name);
    argv[0] = name;
    cli_command = commands[command].name;
    return finish(commands[command].run(argc, argv));
}

static int unknown(const char *name)
{
    char names[256] = "";
    for (size_t i = 0; i < N_COMMANDS; i++)
        names_add(names, sizeof names, commands[i].name);
    return cli_usage("", "unknown command '%s', must be one of %s%s", name, names,
                     names_suggestion(name, names));
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return CLI_USAGE;
    }
    char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 ||
        (strcmp(name, "help") == 0 && argc == 2))
        return finish(help(stdout));
    if (strcmp(name, "--version") == 0) {
        printf("brasa %s\n", br_version());
        return finish(0);
    }
    /* `brasa help COMMAND` is the same as `brasa COMMAND --help`. */
    bool help_requested = strcmp(name, "help") == 0;
    if (help_requested)
        name = argv[2];
    char *help_words[] = { NULL, "--help", argc > 3 ? argv[3] : NULL, NULL };
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return help_requested ? run(i, argc > 3 ? 3 : 2, help_words)
                                  : run(i, argc - 1, argv + 1);
    return unknown(name);
}
