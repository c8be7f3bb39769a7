/* cli/check.c - `brasa check FILE...`: golden files against Brasa. */
#include "cli/cli.h"
#include "cli/golden.h"

#include <getopt.h>
#include <stdlib.h>

static const char help[] = "Usage: brasa check [--threads N] FILE...\n"
                           "\n"
                           "Checks golden-1 files: safetensors files that hold a model's "
                           "parameters, inputs, outputs, loss\n"
                           "and gradients as PyTorch computed them, or ten steps of training. For "
                           "each file the model that\n"
                           "its metadata names is built and run, and all of it compared. A line a "
                           "file says how much of the\n"
                           "tolerance the largest difference takes, and in which tensor it is.\n"
                           "\n"
                           "  -t, --threads N  threads to use\n"
                           "  -h, --help       this text\n"
                           "\n"
                           "Exit status: 0 if every file agrees, 1 if one does not.\n";

static bool check_file(const char *path)
{
    golden_result result;
    if (!golden_check(path, &result)) {
        printf("FAILED  %s: %s\n", path, br_error_message());
        br_clear_error();
        return false;
    }
    bool passed = result.excess <= 1;
    printf("%s  %s: %.3g of the tolerance, in %s\n", passed ? "passed" : "FAILED", path,
           result.excess, result.where);
    return passed;
}

int cli_check(int argc, char **argv)
{
    static const struct option options[] = {
        { "threads", required_argument, NULL, 't' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    int64_t threads;
    for (int c; (c = getopt_long(argc, argv, "t:h", options, NULL)) != -1;) {
        if (c == 'h') {
            fputs(help, stdout);
            return 0;
        }
        if (c != 't')
            return cli_bad_option("check");
        if (!cli_integer(optarg, 1, 1024, &threads))
            return cli_usage("check", "--threads is '%s', must be 1 .. 1024", optarg);
        br_set_num_threads((int)threads);
    }
    if (optind == argc)
        return cli_usage("check", "no file is named");
    int passed = 0, failed = 0;
    for (int i = optind; i < argc; i++)
        if (check_file(argv[i]))
            passed++;
        else
            failed++;
    printf("%d passed, %d failed\n", passed, failed);
    return failed ? EXIT_FAILURE : 0;
}
