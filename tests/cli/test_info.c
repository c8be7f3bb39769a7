/* tests/cli/test_info.c - brasa info, run as a program. */
#include "tests/io/files.h"
#include "tests/pretrained/gguf_writer.h"

#include <jansson.h>
#include <stdlib.h>
#include <sys/wait.h>

TestSuite(cli_info, .init = files_begin, .fini = files_end);

#define PATH files_path("c.safetensors")

/* Returns what the program prints on stdout and stderr; sets *status to its exit status. */
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
    expect(output, "c.safetensors: checkpoint, step 12, ");
    expect(output, " bytes\n\nModel\n  Name          Dtype  Shape");
    expect(output, "  2 tensors, 10 elements, 28 bytes\n\nMetadata\n");
    expect(output, "  brasa.parts       model\n  brasa.step        12\n");
    expect(output, "an escape \\u001b[31m and then");
    expect(output, "... (61 bytes)\n");
    expect(output, "  model/weight  F32    [2, 3]               6              24\n");
    expect(output, "  model/mask    BOOL   [4]                  4               4\n");
    expect(output, "2 tensors, 10 elements, 28 bytes; checksums: right\n");
    cr_assert_null(strstr(output, "xxh3"));
}

/* The model's tensors and the others have totals of their own. */
Test(cli_info, parts_of_a_checkpoint)
{
    br_linear *model = br_linear_new(16, 15, true);
    br_optim *optim = br_sgd(br_base(model), BR_OPTIONS(br_sgd, .lr = 0.1, .momentum = 0.9));
    br_checkpoint c = { .model = br_base(model), .optim = optim };
    cr_assert(br_checkpoint_save(PATH, &c), "%s", br_error_message());
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    int64_t others = br_safetensors_count(file) - 2, elements = 0;
    for (int64_t i = 0; i < others + 2; i++) {
        const int64_t *sizes;
        int64_t n = strncmp(br_safetensors_name(file, i), "optim/", 6) == 0;
        for (int d = br_safetensors_shape(file, i, &sizes) - 1; d >= 0; d--)
            n *= sizes[d];
        elements += n;
    }
    br_safetensors_close(file);
    int status;
    const char *output = run(PATH, &status);
    cr_assert_eq(status, 0, "%s", output);
    expect(output, "  2 tensors, 255 elements, 1020 bytes\n\nOptimizer and other state\n");
    char line[100];
    snprintf(line, sizeof line, "  %d tensor%s, %d elements, ", (int)others, others == 1 ? "" : "s",
             (int)elements);
    expect(output, line);
    br_optim_free(optim);
    br_module_free(model);
}

/* From 1024 bytes on, sizes are in KiB. */
Test(cli_info, sizes)
{
    br_scope *scope = br_scope_begin();
    for (int n = 1023; n <= 1024; n++) {
        br_named_tensor item = { "x", br_ones(BR_SHAPE(n), BR_BOOL) };
        cr_assert(br_safetensors_save(PATH, &(br_named_list){ 1, &item }, 0, NULL));
        int status;
        expect(run(PATH, &status), n == 1023 ? "1023 elements, 1023 bytes; checksums: none\n"
                                             : "1024 elements, 1.0 KiB; checksums: none\n");
    }
    br_scope_end(scope);
}

/* At most 60 bytes of a value are shown, and whole characters only. */
Test(cli_info, a_value_is_truncated_between_characters)
{
    static const char fits[] = "0123456789012345678901234567890123456789012345678901234567\u00e9";
    char longer[64];
    snprintf(longer, sizeof longer, "x%s", fits);
    const br_metadata values[] = { { "a", fits }, { "b", longer } };
    br_named_list none = { 0 };
    cr_assert(br_safetensors_save(PATH, &none, 2, values), "%s", br_error_message());
    int status;
    const char *output = run(PATH, &status);
    cr_assert_eq(status, 0, "%s", output);
    char line[100];
    snprintf(line, sizeof line, "  a  %s\n", fits);
    expect(output, line);
    snprintf(line, sizeof line, "  b  %.59s... (61 bytes)\n", longer);
    expect(output, line);
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
    output = run("./nonexistent", &status);
    cr_assert_eq(status, 1);
    expect(output, "./nonexistent: cannot be opened: No such file");
    output = run("nonexistent/model", &status);
    cr_assert_eq(status, 1);
    expect(output, "FOLDER is 'nonexistent/model', but there is no such folder");
    output = run("a b", &status);
    cr_assert_eq(status, 2);
    output = run("--no-such-option x", &status);
    cr_assert_eq(status, 2);
    output = run("--help", &status);
    cr_assert_eq(status, 0);
    expect(output, "Usage: brasa info");
}

Test(cli_info, the_machine)
{
    int status;
    setenv("BRASA_CPU_CAPABILITY", "baseline", true);
    const char *output = run("", &status);
    cr_assert_eq(status, 0);
    expect(output, "Kernels                       baseline\n");
    expect(output, "Precision of f32 products     highest\n");
    expect(output, "Unit for \"medium\" precision   f32\n");
    expect(output, "MPI                           none\n");
    expect(output, "Ranks                         1\n");
    unsetenv("BRASA_CPU_CAPABILITY");
    setenv("BRASA_FLOAT32_MATMUL_PRECISION", "medium", true);
    output = run("--json", &status);
    cr_assert_eq(status, 0);
    expect(output, "\"float32_matmul_precision\":\"medium\"");
    setenv("BRASA_FLOAT32_MATMUL_PRECISION", "best", true);
    output = run("", &status);
    cr_assert_eq(status, 1);
    expect(output, "BRASA_FLOAT32_MATMUL_PRECISION is 'best', must be highest, high or medium");
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

#define CONFIG BRASA_TEST_DIR "/models/bert-base-uncased"

Test(cli_info, a_configuration)
{
    int status;
    const char *output = run(CONFIG, &status);
    cr_assert_eq(status, 0, "%s", output);
    expect(output, "config.json: configuration, model type bert, 570 bytes\n\n");
    expect(output, "  architectures                 [\"BertForMaskedLM\"]\n");
    expect(output, "  layer_norm_eps                1e-12\n");
    expect(output, "\nBy default\n");
    expect(output, "  num_labels                    2\n");

    const char *text = "{\"a\\u001b\": [1, 0.1, \"\\u202e\"]}";
    files_write(files_path("x.json"), text, strlen(text));
    output = run(files_path("x.json"), &status);
    cr_assert_eq(status, 0, "%s", output);
    expect(output, "x.json: configuration, no model type, 31 bytes\n");
    expect(output, "  a\\u001b                  [1, 0.1, \"\\u202e\"]\n");

    output = run(files_path(""), &status);
    cr_assert_eq(status, 1);
    expect(output, "/config.json: cannot be opened: No such file");
}

/* The weights and the tokenizer of a folder, as text and as JSON. */
Test(cli_info, a_model_folder)
{
    int status;
    const char *output = run(BRASA_TEST_DIR "/models/hf_bert/classifier", &status);
    cr_assert_eq(status, 0, "%s", output);
    expect(output, "config.json: configuration, model type bert");
    expect(output, "\nWeights\n  5139 parameters in 41 tensors, 20.1 KiB, 1 file\n");
    expect(output, "  F32    5139 parameters\n\nTokenizer\n  none: there is no tokenizer.json");

    output = run(CONFIG, &status);
    expect(output, "\nWeights\n  none: there is no model.safetensors");

    json_t *object =
        json_loads(run("--json " BRASA_TEST_DIR "/models/hf_bert/classifier", &status), 0, NULL);
    int parameters, bytes, f32, tokens;
    cr_assert_eq(json_unpack(object, "{s:{s:i, s:i, s:{s:i}}, s:{s:n, s:i}}", "weights",
                             "parameters", &parameters, "bytes", &bytes, "dtypes", "F32", &f32,
                             "tokenizer", "file", "tokens", &tokens),
                 0);
    cr_assert(bytes == 4 * parameters && f32 == parameters && tokens == 0);
    json_decref(object);
}

Test(cli_info, the_tokenizer_of_a_folder)
{
    int status;
    const char *config = "{\"model_type\": \"bert\"}";
    const char *vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n";
    files_write(files_path("config.json"), config, strlen(config));
    files_write(files_path("vocab.txt"), vocab, strlen(vocab));
    const char *output = run(files_path(""), &status);
    cr_assert_eq(status, 0, "%s", output);
    expect(output, "\nTokenizer\n  vocab.txt, 6 tokens\n");

    char arguments[600];
    snprintf(arguments, sizeof arguments, "--json %s", files_path(""));
    output = run(arguments, &status);
    cr_assert_eq(status, 0, "%s", output);
    expect(output, "\"tokenizer\":{\"file\":\"vocab.txt\",\"tokens\":6}");

    const char *pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    files_write(files_path("vocab.txt"), pointer, strlen(pointer));
    output = run(files_path(""), &status);
    cr_assert_eq(status, 1);
    expect(output, "vocab.txt: is a Git LFS pointer");
}

Test(cli_info, a_configuration_as_json)
{
    int status, labels;
    json_t *object = json_loads(run("--json " CONFIG "/config.json", &status), 0, NULL);
    cr_assert_eq(status, 0);
    const char *path, *type;
    double dropout;
    cr_assert_eq(json_unpack(object, "{s:s, s:s, s:{s:f}, s:{s:i}}", "path", &path, "model_type",
                             &type, "config", "hidden_dropout_prob", &dropout, "defaults",
                             "num_labels", &labels),
                 0);
    cr_assert_str_eq(path, CONFIG "/config.json");
    cr_assert_str_eq(type, "bert");
    cr_assert(dropout == 0.1 && labels == 2);
    json_decref(object);

    files_write(files_path("x.json"), "{}", 2);
    char arguments[600];
    snprintf(arguments, sizeof arguments, "--json %s", files_path("x.json"));
    object = json_loads(run(arguments, &status), 0, NULL);
    cr_assert(json_is_null(json_object_get(object, "model_type")));
    json_decref(object);
}

#define GGUF BRASA_TEST_DIR "/io/recorded.gguf"

Test(cli_info, a_gguf_file)
{
    int status;
    const char *output = run(GGUF, &status);
    cr_assert_eq(status, 0, "%s", output);
    expect(output, "recorded.gguf: GGUF version 3, architecture test, 11.7 KiB\n\nMetadata\n");
    expect(output, "  general.architecture  string   test\n");
    expect(output, "  value.int16           int16    -30000\n");
    expect(output, "  value.float32         float32  0.1\n");
    expect(output, "  value.bool            bool     true\n");
    expect(output, "  value.string          string   ol\xc3\xa1\n");
    expect(output, "  list.string           array    [\"\", \"a\", \"ol\xc3\xa1\"]\n");
    expect(output, "  q6_k      Q6_K     [2, 256]              512             420\n");
    expect(output, "29 tensors, ");
}

Test(cli_info, a_gguf_file_as_json)
{
    int status;
    const char *output = run("--json " GGUF, &status);
    cr_assert_eq(status, 0, "%s", output);
    json_t *object = json_loads(output, 0, NULL);
    const char *architecture, *name, *type;
    json_int_t version, largest, second, rows, columns, bytes;
    double number;
    cr_assert_eq(json_unpack(object,
                             "{s:s, s:I, s:{s:I, s:F, s:[i,I]}, s:[{s:s, s:s, s:[I,I], s:I}]}",
                             "architecture", &architecture, "gguf_version", &version, "metadata",
                             "value.uint64", &largest, "value.float64", &number, "list.int32",
                             &(int){ 0 }, &second, "tensors", "name", &name, "type", &type, "shape",
                             &rows, &columns, "bytes", &bytes),
                 0, "%s", output);
    cr_assert_str_eq(architecture, "test");
    cr_assert_str_eq(name, "q4_0");
    cr_assert_str_eq(type, "Q4_0");
    cr_assert(version == 3 && largest == INT64_MAX && number == 0.1 && second == -2);
    cr_assert(rows == 3 && columns == 32 && bytes == 54);
    json_decref(object);
}

/* A GGUF file is recognized by its first bytes, and an error names the file. */
Test(cli_info, gguf_files_that_are_recognized)
{
    int status;
    files_write(files_path("none"), "GGUF\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    const char *output = run(files_path("none"), &status);
    cr_assert_eq(status, 0, "%s", output);
    expect(output,
           "none: GGUF version 3, no architecture, 24 bytes\n\n0 tensors, 0 elements, 0 bytes");
    files_write(files_path("bad.gguf"), "GGUF\1\0\0\0", 8);
    output = run(files_path("bad.gguf"), &status);
    cr_assert_eq(status, 1);
    expect(output, "bad.gguf: is a GGUF file of version 1, must be 2 or 3");
    output = run("none.gguf", &status);
    cr_assert_eq(status, 1);
    expect(output, "none.gguf: cannot be opened");
}

/* An array is shown in full up to 4 elements. Of a longer one, 4 are shown, and their number. */
Test(cli_info, arrays_of_a_gguf_file)
{
    gguf_writer w = { 0 };
    const int32_t numbers[] = { 1, 2, 3, 4, 5 };
    w_string(&w, "general.architecture", "none");
    w_numbers(&w, "array.four", W_INT32, 4, numbers);
    w_numbers(&w, "array.five", W_INT32, 5, numbers);
    char path[600];
    snprintf(path, sizeof path, "%s", files_path("m.gguf"));
    w_end(&w, path);
    int status;
    const char *output = run(path, &status);
    expect(output, "  array.four            array    [1, 2, 3, 4]\n");
    expect(output, "  array.five            array    [1, 2, 3, 4] (5 elements)\n");
}
