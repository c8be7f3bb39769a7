/* cli/main.c - the `brasa` command: a table of subcommands. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
} commands[] = {
    { "train", "train a model by a recipe", cli_train },
    { "check", "compare models with files recorded from PyTorch", cli_check },
    { "bench", "time operations and models on this machine", cli_bench },
    { "info", "show what a safetensors file, checkpoint or config.json holds", cli_info },
    { "tokenize", "show the tokens of a text", cli_tokenize },
    { "embed", "embed sentences, and tell how near they are to each other", cli_embed },
    { "attention", "write a page that shows what a model attends to", cli_attention },
    { "generate", "go on with a text by a pretrained GPT-2", cli_generate },
    { "fill-mask", "tell masked words by a pretrained BERT", cli_fill_mask },
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static int help(FILE *stream)
{
    fprintf(stream, "Usage: brasa COMMAND [ARGUMENT]...\n\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        fprintf(stream, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fprintf(stream, "\n'brasa COMMAND --help' tells more; 'brasa --version' prints the version.\n");
    return 0;
}

/* What the program wrote may not have arrived: on a full disk, say. */
static int finish(int status)
{
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "brasa: the output cannot be written\n");
        return EXIT_FAILURE;
    }
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        help(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        return finish(help(stdout));
    if (strcmp(name, "--version") == 0) {
        printf("brasa %s\n", br_version());
        return finish(0);
    }
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(name, commands[i].name) == 0)
            return finish(commands[i].run(argc - 1, argv + 1));
    return cli_usage("", "there is no command '%s'", name);
}
