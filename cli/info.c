/* cli/info.c - `brasa info`: shows a safetensors file or checkpoint; info_gguf.c shows a GGUF file,
 * info_config.c a model's configuration, info_folder.c its weights and tokenizer, info_machine.c
 * what the library uses on this machine.
 *
 * Names and values come from the file and may contain anything, so they are escaped before they are
 * printed. */
#include "cli/info.h"

#include "cli/cli.h"
#include "cli/pretrained.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char usage[] =
    "Usage: brasa info [--json] [FILE|FOLDER]\n"
    "\n"
    "Shows the metadata and tensors of a safetensors file or checkpoint, and verifies its\n"
    "checksums if it has any, or the architecture, metadata and tensors of a GGUF file. For a\n"
    "FILE.json, or config.json in a FOLDER, it shows the model's configuration and the default\n"
    "values of keys that the file does not have; for a FOLDER also its parameters with their\n"
    "dtypes, their size, and its tokenizer. Without a file, it shows which kernels the library\n"
    "uses on this processor, the precision of products and, under mpirun, the MPI and the number\n"
    "of ranks.\n"
    "\n"
    "  --json      print one JSON object\n"
    "  -h, --help  show this help\n"
    "\n"
    "Exit status: 0, or 1 if the file cannot be read or a checksum is wrong.\n";

/* ---- Facts ----------------------------------------------------------------------------------- */

typedef struct facts {
    br_safetensors *file;
    const char *path;
    int64_t count;
    int64_t elements, bytes; /* of all tensors; bounded by the size of the file */
    const char *checksums;   /* "right", "wrong", "none" */
} facts;

/* Opens and verifies the file. A wrong checksum remains as the pending error. */
static bool collect(facts *f, const char *path)
{
    *f = (facts){ .path = path, .file = br_safetensors_open(path, NULL) };
    if (!f->file)
        return false;
    f->count = br_safetensors_count(f->file);
    for (int64_t i = 0; i < f->count; i++) {
        f->elements += info_elements(f->file, i);
        f->bytes += (int64_t)br_safetensors_bytes(f->file, i);
    }
    f->checksums = "none";
    if (br_safetensors_metadata(f->file, "brasa.xxh3"))
        f->checksums = br_checkpoint_verify(f->file) ? "right" : "wrong";
    return true;
}

/* ---- Plain output ---------------------------------------------------------------------------- */

/* Checksums are not listed: the last line summarizes them. */
static bool is_listed(const char *key)
{
    return strncmp(key, "brasa.xxh3", strlen("brasa.xxh3")) != 0;
}

static void print_metadata(const br_safetensors *file)
{
    int width = 0, listed = 0;
    int64_t n = br_safetensors_metadata_count(file);
    for (int64_t i = 0; i < n; i++)
        if (is_listed(br_safetensors_metadata_key(file, i)))
            width = info_widen(width, br_printable(br_safetensors_metadata_key(file, i)));
    for (int64_t i = 0; i < n; i++) {
        const char *key = br_safetensors_metadata_key(file, i);
        if (!is_listed(key))
            continue;
        printf(listed++ ? "  " : "Metadata\n  ");
        info_padded(br_printable(key), width);
        printf("  ");
        info_value(br_safetensors_metadata(file, key));
        printf("\n");
    }
    printf(listed ? "\n" : "");
}

/* Writes the shape as "[2, 3]"; abbreviates a shape of many dimensions. */
static const char *shape_text(const br_safetensors *file, int64_t i, char *text, size_t size)
{
    const int64_t *sizes;
    int n = br_safetensors_shape(file, i, &sizes);
    size_t used = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < n; d++) {
        if (used + 32 > size) {
            snprintf(text + used, size - used, ", ...");
            used += strlen(text + used);
            break;
        }
        used += (size_t)snprintf(text + used, size - used, d ? ", %" PRId64 : "%" PRId64, sizes[d]);
    }
    snprintf(text + used, size - used, "]");
    return text;
}

/* Returns whether tensor i belongs to the model. A checkpoint also has other tensors, such as the
 * optimizer's state. */
static bool is_of_model(const facts *f, int64_t i)
{
    static const char prefix[] = "model/";
    return strncmp(br_safetensors_name(f->file, i), prefix, sizeof prefix - 1) == 0;
}

typedef struct widths {
    int name, shape;
} widths;

static widths measure_columns(const facts *f)
{
    widths w = { (int)strlen("Name"), (int)strlen("Shape") };
    char text[256];
    for (int64_t i = 0; i < f->count; i++) {
        w.name = info_widen(w.name, br_printable(br_safetensors_name(f->file, i)));
        w.shape = info_widen(w.shape, shape_text(f->file, i, text, sizeof text));
    }
    return w;
}

static void print_heading(const char *title, widths w)
{
    printf("%s  %-*s  %-5s  %-*s  %14s  %14s\n", title, w.name, "Name", "Dtype", w.shape, "Shape",
           "Elements", "Bytes");
}

static void print_tensor(const facts *f, int64_t i, widths w)
{
    char text[256];
    printf("  ");
    info_padded(br_printable(br_safetensors_name(f->file, i)), w.name);
    printf("  %-5s  ", br_safetensors_dtype(f->file, i));
    info_padded(shape_text(f->file, i, text, sizeof text), w.shape);
    printf("  %14" PRId64 "  %14zu\n", info_elements(f->file, i), br_safetensors_bytes(f->file, i));
}

static void print_tensors(const facts *f)
{
    widths w = measure_columns(f);
    if (f->count > 0)
        print_heading("", w);
    for (int64_t i = 0; i < f->count; i++)
        print_tensor(f, i, w);
    printf(f->count > 0 ? "\n" : "");
}

/* Prints the tensors of the model, or all others, and their totals. */
static void print_part(const facts *f, bool of_model, const char *title)
{
    widths w = measure_columns(f);
    int64_t count = 0, elements = 0;
    double bytes = 0;
    char size[32];
    for (int64_t i = 0; i < f->count; i++) {
        if (is_of_model(f, i) != of_model)
            continue;
        if (count++ == 0)
            print_heading(title, w);
        print_tensor(f, i, w);
        elements += info_elements(f->file, i);
        bytes += (double)br_safetensors_bytes(f->file, i);
    }
    if (count > 0)
        printf("  %" PRId64 " tensor%s, %" PRId64 " elements, %s\n\n", count, count == 1 ? "" : "s",
               elements, info_size(bytes, size, sizeof size));
}

/* Prints "checkpoint of bert-scratch, step 80", or the parts of it that the file has. */
static void print_kind(const br_safetensors *file)
{
    const char *recipe = br_safetensors_metadata(file, "recipe");
    const char *step = br_safetensors_metadata(file, "brasa.step");
    printf("checkpoint%s%s", recipe ? " of " : "", recipe ? br_printable(recipe) : "");
    printf("%s%s", step ? ", step " : "", step ? br_printable(step) : "");
}

static void print_facts(const facts *f)
{
    char size[32];
    bool checkpoint = br_safetensors_metadata(f->file, "brasa.checkpoint") != NULL;
    printf("%s: ", br_printable(f->path));
    if (checkpoint)
        print_kind(f->file);
    else
        printf("safetensors");
    printf(", %s\n\n", info_size((double)info_file_size(f->path), size, sizeof size));
    if (checkpoint) {
        print_part(f, true, "Model\n");
        print_part(f, false, "Optimizer and other state\n");
    }
    print_metadata(f->file);
    if (!checkpoint)
        print_tensors(f);
    printf("%" PRId64 " tensor%s, %" PRId64 " elements, %s; checksums: %s\n", f->count,
           f->count == 1 ? "" : "s", f->elements, info_size((double)f->bytes, size, sizeof size),
           f->checksums);
}

/* ---- JSON output ----------------------------------------------------------------------------- */

static json_t *tensor_object(const br_safetensors *file, int64_t i)
{
    const int64_t *sizes;
    int n = br_safetensors_shape(file, i, &sizes);
    json_t *shape = json_array();
    for (int d = 0; d < n; d++)
        json_array_append_new(shape, json_integer(sizes[d]));
    return json_pack("{s:s, s:s, s:o, s:I, s:I}", "name", br_safetensors_name(file, i), "dtype",
                     br_safetensors_dtype(file, i), "shape", shape, "elements",
                     (json_int_t)info_elements(file, i), "bytes",
                     (json_int_t)br_safetensors_bytes(file, i));
}

static json_t *facts_object(const facts *f)
{
    json_t *metadata = json_object(), *tensors = json_array();
    for (int64_t i = 0; i < br_safetensors_metadata_count(f->file); i++) {
        const char *key = br_safetensors_metadata_key(f->file, i);
        json_object_set_new(metadata, key, json_string(br_safetensors_metadata(f->file, key)));
    }
    for (int64_t i = 0; i < f->count; i++)
        json_array_append_new(tensors, tensor_object(f->file, i));
    return json_pack("{s:o, s:I, s:b, s:o, s:o, s:I, s:I, s:s, s:o*}", "path",
                     info_text_object(f->path), "bytes", (json_int_t)info_file_size(f->path),
                     "checkpoint", br_safetensors_metadata(f->file, "brasa.checkpoint") != NULL,
                     "metadata", metadata, "tensors", tensors, "elements", (json_int_t)f->elements,
                     "tensor_bytes", (json_int_t)f->bytes, "checksums", f->checksums, "error",
                     br_failed() ? info_text_object(br_error_message()) : NULL);
}

static void print_json(const facts *f)
{
    json_t *object = facts_object(f);
    if (!object || json_dumpf(object, stdout, JSON_COMPACT) != 0)
        br_raise(BR_ERROR_MEMORY, "info: cannot write the JSON object");
    printf("\n");
    json_decref(object);
}

/* ---------------------------------------------------------------------------------------------- */

static void info_tensors(const char *path, bool json)
{
    facts f;
    if (collect(&f, path)) {
        if (json)
            print_json(&f);
        else
            print_facts(&f);
    }
    br_safetensors_close(f.file);
}

/* Returns whether the path is a folder or ends in .json. */
static bool is_config(const char *path)
{
    struct stat st;
    size_t n = strlen(path), suffix = strlen(".json");
    return (n > suffix && strcmp(path + n - suffix, ".json") == 0) ||
           (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

/* Returns whether nothing has this relative path, and it is not the path of a safetensors file. */
static bool is_absent_folder(const char *path)
{
    struct stat st;
    size_t n = strlen(path), suffix = strlen(".safetensors");
    return *path != '/' && *path != '.' && stat(path, &st) != 0 &&
           !(n > suffix && strcmp(path + n - suffix, ".safetensors") == 0);
}

static int parse_option(void *json, int c)
{
    if (c != 'j')
        return cli_bad_option("info");
    *(bool *)json = true;
    return 0;
}

int cli_info(int argc, char **argv)
{
    static const struct option options[] = {
        { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },
        { 0 },
    };
    bool json = false;
    int status = cli_options(argc, argv, "h", options, usage, parse_option, &json);
    if (status != CLI_CONTINUE)
        return status;
    if (optind + 1 < argc)
        return cli_usage("info", "expected one file or folder, got %d", argc - optind);
    if (optind == argc)
        info_machine(json);
    else if (is_config(argv[optind]))
        info_config(argv[optind], json);
    else if (br_gguf_is_file(argv[optind]))
        info_gguf(argv[optind], json);
    else if (is_absent_folder(argv[optind]))
        return pretrained_check_folder("FOLDER", argv[optind]);
    else
        info_tensors(argv[optind], json);
    return cli_report();
}
