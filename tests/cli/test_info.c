/* tests/cli/test_info.c - brasa info, run as a program. */
#include "tests/io/files.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/wait.h>

TestSuite(cli_info, .init = files_begin, .fini = files_end);

#define PATH files_path("c.safetensors")

/* What the program prints, both streams together; its exit status goes to *status. */
static const char *run(const char *arguments, int *status)
{
    static char output[20000];
    char command[4096];
    snprintf(command, sizeof command, BRASA_PROGRAM " info %s 2>&1", arguments);
    FILE *pipe = popen(command, "r");
    cr_assert(pipe);
    output[fread(output, 1, sizeof output - 1, pipe)] = 0;
    *status = WEXITSTATUS(pclose(pipe));
    return output;
}

static void expect(const char *output, const char *part)
{
    cr_assert(strstr(output, part), "no \"%s\" in:\n%s", part, output);
}

static void save_checkpoint(void)
{
    br_module *model = br_module_create(sizeof(br_module), "net");
    br_module_add_parameter(model, "weight", br_ones(BR_SHAPE(2, 3), BR_F32));
    br_module_add_buffer(model, "mask", br_ones(BR_SHAPE(4), BR_BOOL), true);
    br_metadata note = { "note",
                         "an escape \x1b[31m and then a value that is too long to be shown" };
    br_checkpoint c = { .model = model, .step = 12, .n_metadata = 1, .metadata = &note };
    cr_assert(br_checkpoint_save(PATH, &c), "%s", br_error_message());
    br_module_free(model);
}

Test(cli_info, a_checkpoint)
{
    save_checkpoint();
    int status;
    const char *output = run(PATH, &status);
    cr_assert_eq(status, 0, "%s", output);
    expect(output, "c.safetensors: checkpoint, ");
    expect(output, "  brasa.parts       model\n  brasa.step        12\n");
    expect(output, "an escape \\u001b[31m and then");
    expect(output, "... (61 bytes)\n");
    expect(output, "  model/weight  F32    [2, 3]               6              24\n");
    expect(output, "  model/mask    BOOL   [4]                  4               4\n");
    expect(output, "2 tensors, 10 elements, 28 bytes; checksums: right\n");
    cr_assert_null(strstr(output, "xxh3"));
}

Test(cli_info, json)
{
    save_checkpoint();
    char arguments[600];
    snprintf(arguments, sizeof arguments, "--json %s", PATH);
    int status;
    json_t *object = json_loads(run(arguments, &status), JSON_REJECT_DUPLICATES, NULL);
    cr_assert_eq(status, 0);
    cr_assert(object);
    const char *path, *checksums, *step, *name, *dtype;
    int checkpoint, bytes, rows, columns;
    cr_assert_eq(json_unpack(object, "{s:s, s:b, s:s, s:{s:s}, s:[{s:s, s:s, s:[i, i], s:i}]}",
                             "path", &path, "checkpoint", &checkpoint, "checksums", &checksums,
                             "metadata", "brasa.step", &step, "tensors", "name", &name, "dtype",
                             &dtype, "shape", &rows, &columns, "bytes", &bytes),
                 0);
    cr_assert_str_eq(path, PATH);
    cr_assert_str_eq(checksums, "right");
    cr_assert_str_eq(step, "12");
    cr_assert_str_eq(name, "model/weight");
    cr_assert_str_eq(dtype, "F32");
    cr_assert(checkpoint && rows == 2 && columns == 3 && bytes == 24);
    json_decref(object);
}

Test(cli_info, wrong_checksums_and_bad_files)
{
    save_checkpoint();
    size_t n;
    char *bytes = files_read(PATH, &n);
    bytes[n - 1] ^= 2;
    files_write(PATH, bytes, n);
    int status;
    const char *output = run(PATH, &status);
    cr_assert_eq(status, 1);
    expect(output, "checksums: wrong\n");
    expect(output, "tensor \"model/mask\" does not match its checksum\n");
    files_write(PATH, bytes, n - 1);
    free(bytes);
    output = run(PATH, &status);
    cr_assert_eq(status, 1);
    expect(output, "but the file has 27 bytes of data\n");
    output = run("/nonexistent", &status);
    cr_assert_eq(status, 1);
    expect(output, "cannot be opened: No such file");
    output = run("", &status);
    cr_assert_eq(status, 2);
    output = run("--no-such-option x", &status);
    cr_assert_eq(status, 2);
    output = run("--help", &status);
    cr_assert_eq(status, 0);
    expect(output, "Usage: brasa info");
}

Test(cli_info, a_file_without_metadata)
{
    files_write_safetensors(PATH, "{}", 2, 0);
    int status;
    const char *output = run(PATH, &status);
    cr_assert_eq(status, 0);
    expect(output, "c.safetensors: safetensors, 10 bytes\n");
    expect(output, "0 tensors, 0 elements, 0 bytes; checksums: none\n");
}
