/* cli/check.c - `brasa check FILE...`: compares Brasa with results recorded from PyTorch. */
#include "check/golden/golden.h"
#include "check/samples/samples.h"
#include "cli/cli.h"

#include <getopt.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

static const char help[] =
    "Usage: brasa check [OPTION]... FILE...\n"
    "\n"
    "Compares Brasa with results recorded from PyTorch. A directory stands for all files\n"
    "*.safetensors in it.\n"
    "\n"
    "A golden-1 file holds a model's parameters, inputs, outputs, loss and gradients, or ten\n"
    "steps of training. The command builds and runs the model named in the metadata, compares\n"
    "every tensor, and prints one line per file: the largest difference as a fraction of the\n"
    "tolerance, and the tensor in which it occurs. Where BRASA_FLOAT32_MATMUL_PRECISION makes\n"
    "products of bf16 numbers, the tolerance is that of the file times 4096 (medium) or 16 "
    "(high).\n"
    "\n"
    "An ops-1 file holds calls of operations with their results and gradients. The command\n"
    "repeats the calls, compares the results, and prints one line per operation. Calls that Brasa\n"
    "does not support are skipped and counted.\n"
    "\n"
    "  -t, --threads N  number of threads\n"
    "      --dtype D    golden-1 files: convert parameters and inputs to f32, f64, bf16 or f16;\n"
    "                   auto (default): those of the file. For bf16 and f16, the root mean\n"
    "                   square of a tensor's differences must be at most a quarter of that of\n"
    "                   its values, plus 4096 times the file's absolute tolerance\n"
    "      --amp bf16   golden-1 files: run the forward pass in mixed precision, with the same\n"
    "                   tolerance; off (default)\n"
    "  -j, --json       print the results of ops-1 files as JSON, one line per operation\n"
    "  -l, --list-ops   print the operations and arguments that ops-1 files may use, as JSON\n"
    "  -h, --help       show this help\n"
    "\n"
    "Exit status: 0 if every file agrees, 1 if one does not.\n";

typedef struct check {
    bool json, lists;
    int passed, failed;
} check;

static bool check_golden(const char *path)
{
    br_check_result result;
    if (!golden_check(path,
                      (br_check_mode){ .converts = cli_dtype != BR_DTYPE_AUTO,
                                       .dtype = cli_dtype,
                                       .amp = cli_amp },
                      &result)) {
        printf("FAILED  %s: %s\n", path, br_error_message());
        br_clear_error();
        return false;
    }
    bool passed = result.excess <= 1;
    printf("%s  %s: %.3g of the tolerance, in %s", passed ? "passed" : "FAILED", path,
           result.excess, result.where);
    if (*result.first && strcmp(result.first, result.where) != 0)
        printf("; the first that differs is %s", result.first);
    printf("\n");
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
    printf("%s  %s: %s %s: %zu calls, %lld with gradients, %zu rejected as in PyTorch; %.3g of the "
           "tolerance\n",
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
            printf("        %lld samples of %s skipped: %s\n", (long long)json_integer_value(count),
                   dtype, key);
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

/* Returns false with an error if an option asks for another dtype: each call has its own. */
static bool keeps_dtypes(void)
{
    if (cli_amp || cli_dtype != BR_DTYPE_AUTO)
        br_raise(BR_ERROR_ARGUMENT,
                 "the calls of an ops-1 file have dtypes of their own: leave out %s",
                 cli_amp ? "--amp" : "--dtype");
    return !br_failed();
}

static bool check_samples(const check *c, const char *path, br_safetensors *file)
{
    json_t *report, *reports = keeps_dtypes() ? samples_check(file) : NULL;
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
    br_clear_error(); /* golden_check() reports it */
    bool passed = file && samples_are_in(file) ? check_samples(c, path, file) : check_golden(path);
    br_safetensors_close(file);
    if (passed)
        c->passed++;
    else
        c->failed++;
}

/* Checks the files of a directory, or a single file. */
static void check_path(check *c, const char *path)
{
    struct stat info;
    glob_t files = { 0 };
    if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
        check_file(c, path);
        return;
    }
    char *pattern = file_pattern(path, "*.safetensors");
    if (!pattern || glob(pattern, 0, NULL, &files) != 0) {
        printf("FAILED  %s: no *.safetensors file in this directory\n", path);
        c->failed++;
    }
    for (size_t i = 0; i < files.gl_pathc; i++)
        check_file(c, files.gl_pathv[i]);
    globfree(&files);
    free(pattern);
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

/* Handles one option; returns 0 or the exit status. */
static int parse_option(void *of, int option)
{
    check *c = of;
    int64_t threads;
    switch (option) {
    case 't':
        if (!text_to_integer(optarg, 1, 1024, &threads))
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
        { "dtype", required_argument, NULL, CLI_DTYPE },
        { "amp", required_argument, NULL, CLI_AMP },
        { "list-ops", no_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    check c = { 0 };
    int status = cli_options(argc, argv, "t:jlh", options, help, parse_option, &c);
    if (status != CLI_CONTINUE)
        return status;
    if (c.lists)
        return list_ops();
    if (cli_amp && cli_dtype != BR_DTYPE_AUTO && br_dtype_size(cli_dtype) == 8)
        return cli_usage("check",
                         "--amp does not convert operands of f64: leave out --amp or --dtype");
    if (optind == argc)
        return cli_usage("check", "no file given");
    for (int i = optind; i < argc; i++)
        check_path(&c, argv[i]);
    if (!c.json)
        printf("%d passed, %d failed\n", c.passed, c.failed);
    return c.failed ? EXIT_FAILURE : 0;
}
