/* cli/check.c - `brasa check FILE...`: what PyTorch recorded against Brasa. */
#include "cli/cli.h"
#include "cli/golden.h"
#include "cli/samples.h"

#include <getopt.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char help[] =
    "Usage: brasa check [--threads N] [--json] FILE...\n"
    "\n"
    "Checks golden-1 files: safetensors files that hold a model's parameters, inputs, outputs, "
    "loss\n"
    "and gradients as PyTorch computed them, or ten steps of training. For each file the model "
    "that\n"
    "its metadata names is built and run, and all of it compared. A line a file says how much of "
    "the\n"
    "tolerance the largest difference takes, and in which tensor it is.\n"
    "\n"
    "Checks ops-1 files in the same way: calls of one operation, with results and gradients. A "
    "line\n"
    "a file counts the calls; what Brasa does not offer is left out, and counted too. A directory\n"
    "stands for its files *.safetensors.\n"
    "\n"
    "  -t, --threads N  threads to use\n"
    "  -j, --json       print what is found of ops-1 files as JSON, a line an operation\n"
    "  -l, --list-ops   print the operations and arguments that ops-1 files may have, as JSON\n"
    "  -h, --help       this text\n"
    "\n"
    "Exit status: 0 if every file agrees, 1 if one does not.\n";

typedef struct check {
    bool json, lists;
    int passed, failed;
} check;

static bool check_golden(const char *path)
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

static long long number(const json_t *report, const char *key)
{
    return json_integer_value(json_object_get(report, key));
}

static void print_report(const char *path, const json_t *report)
{
    const char *key, *dtype;
    size_t i;
    json_t *value, *count;
    printf("%s  %s: %s %s: %zu calls, %lld with gradients, %zu refused; %.3g of the tolerance\n",
           number(report, "failed") ? "FAILED" : "passed", path,
           json_string_value(json_object_get(report, "op")),
           json_string_value(json_object_get(report, "variant")),
           json_array_size(json_object_get(report, "passed")), number(report, "gradients"),
           json_array_size(json_object_get(report, "refused")),
           json_real_value(json_object_get(report, "excess")));
    json_array_foreach(json_object_get(report, "failures"), i, value)
    {
        printf("        %s\n", json_string_value(value));
    }
    json_object_foreach(json_object_get(report, "skipped"), key, value)
    {
        json_object_foreach(value, dtype, count)
        {
            printf("        %lld of %s left out: %s\n", (long long)json_integer_value(count), dtype,
                   key);
        }
    }
}

static void print_json(const json_t *report)
{
    char *text = json_dumps(report, JSON_COMPACT);
    if (text)
        printf("%s\n", text);
    free(text);
}

static bool check_samples(const check *c, const char *path, br_safetensors *file)
{
    json_t *report, *reports = samples_check(file);
    size_t i;
    if (!reports) {
        printf("FAILED  %s: %s\n", path, br_error_message());
        br_clear_error();
        return false;
    }
    bool passed = true;
    json_array_foreach(reports, i, report)
    {
        passed &= number(report, "failed") == 0;
        if (c->json)
            print_json(report);
        else
            print_report(path, report);
    }
    json_decref(reports);
    return passed;
}

static void check_file(check *c, const char *path)
{
    br_safetensors *file = br_safetensors_open(path, NULL);
    br_clear_error(); /* golden_check() tells of it */
    bool passed = file && samples_are_in(file) ? check_samples(c, path, file) : check_golden(path);
    br_safetensors_close(file);
    if (passed)
        c->passed++;
    else
        c->failed++;
}

/* The files of a directory, or the one file. */
static void check_path(check *c, const char *path)
{
    struct stat info;
    char pattern[4096];
    glob_t files = { 0 };
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        check_file(c, path);
        return;
    }
    snprintf(pattern, sizeof pattern, "%s/*.safetensors", path);
    if (glob(pattern, 0, NULL, &files) != 0) {
        printf("FAILED  %s: no file *.safetensors\n", path);
        c->failed++;
    }
    for (size_t i = 0; i < files.gl_pathc; i++)
        check_file(c, files.gl_pathv[i]);
    globfree(&files);
}

static int list_ops(void)
{
    json_t *list = samples_list();
    char *text = json_dumps(list, JSON_INDENT(1));
    if (text)
        printf("%s\n", text);
    free(text);
    json_decref(list);
    return text ? 0 : EXIT_FAILURE;
}

/* Takes one option; 0, or the exit status. */
static int take(void *of, int option)
{
    check *c = of;
    int64_t threads;
    switch (option) {
    case 't':
        if (!cli_integer(optarg, 1, 1024, &threads))
            return cli_usage("check", "--threads is '%s', must be 1 .. 1024", optarg);
        br_set_num_threads((int)threads);
        return 0;
    case 'j':
        c->json = true;
        return 0;
    case 'l':
        c->lists = true;
        return 0;
    default:
        return cli_bad_option("check");
    }
}

int cli_check(int argc, char **argv)
{
    static const struct option options[] = {
        { "threads", required_argument, NULL, 't' },
        { "json", no_argument, NULL, 'j' },
        { "list-ops", no_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    check c = { 0 };
    int status = cli_options(argc, argv, "t:jlh", options, help, take, &c);
    if (status != CLI_GO_ON)
        return status;
    if (c.lists)
        return list_ops();
    if (optind == argc)
        return cli_usage("check", "no file is named");
    for (int i = optind; i < argc; i++)
        check_path(&c, argv[i]);
    if (!c.json)
        printf("%d passed, %d failed\n", c.passed, c.failed);
    return c.failed ? EXIT_FAILURE : 0;
}
