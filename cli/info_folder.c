/* cli/info_folder.c - `brasa info FOLDER`: the weights and the tokenizer of a model folder. */
#include "cli/cli.h"
#include "cli/info.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

enum { MAX_DTYPES = 16 }; /* safetensors has fewer */

typedef struct dtype_sum {
    char name[16];
    int64_t elements;
} dtype_sum;

typedef struct folder {
    bool has_weights;
    int64_t files, tensors, elements, bytes;
    int n_dtypes;
    dtype_sum dtypes[MAX_DTYPES];
    const char *tokenizer; /* name of the file; NULL: the folder has no tokenizer */
    int64_t tokens;
} folder;

/* ---- Facts ----------------------------------------------------------------------------------- */

static bool has(const char *dir, const char *name)
{
    struct stat st;
    char *path = br_format("%s/%s", dir, name);
    bool there = path && stat(path, &st) == 0;
    br_free(path);
    return there;
}

static void add_elements(folder *f, const char *dtype, int64_t elements)
{
    int i = 0;
    while (i < f->n_dtypes && strcmp(f->dtypes[i].name, dtype) != 0)
        i++;
    if (i == MAX_DTYPES)
        return;
    if (i == f->n_dtypes) {
        snprintf(f->dtypes[i].name, sizeof f->dtypes[i].name, "%s", dtype);
        f->n_dtypes++;
    }
    f->dtypes[i].elements += elements;
}

static bool add_file(void *context, const br_safetensors *file)
{
    folder *f = context;
    f->files++;
    for (int64_t i = 0; i < br_safetensors_count(file); i++) {
        int64_t elements = info_elements(file, i);
        f->tensors++;
        f->elements += elements;
        f->bytes += (int64_t)br_safetensors_bytes(file, i);
        add_elements(f, br_safetensors_dtype(file, i), elements);
    }
    return true;
}

static bool collect_weights(folder *f, const char *dir)
{
    f->has_weights = has(dir, "model.safetensors") || has(dir, "model.safetensors.index.json");
    if (!f->has_weights)
        return !br_failed();
    return br_auto_model_each_file(dir, add_file, f);
}

static bool collect_tokenizer(folder *f, const char *dir)
{
    static const char *const names[] = { "tokenizer.json", "vocab.json", "spiece.model",
                                         "vocab.txt" };
    for (size_t i = 0; i < sizeof names / sizeof *names && !f->tokenizer; i++)
        if (has(dir, names[i]))
            f->tokenizer = names[i];
    if (!f->tokenizer)
        return !br_failed();
    br_tokenizer *tokenizer = cli_open_tokenizer(dir, false);
    f->tokens = tokenizer ? br_tokenizer_size(tokenizer) : 0;
    br_tokenizer_free(tokenizer);
    return !br_failed();
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void print_plain(const folder *f)
{
    char size[32];
    printf("\nWeights\n");
    if (f->has_weights)
        printf("  %" PRId64 " parameters in %" PRId64 " tensor%s, %s, %" PRId64 " file%s\n",
               f->elements, f->tensors, f->tensors == 1 ? "" : "s",
               info_size((double)f->bytes, size, sizeof size), f->files, f->files == 1 ? "" : "s");
    else
        printf("  none: there is no model.safetensors and no model.safetensors.index.json\n");
    for (int i = 0; i < f->n_dtypes; i++)
        printf("  %-5s  %" PRId64 " parameters\n", br_printable(f->dtypes[i].name),
               f->dtypes[i].elements);
    printf("\nTokenizer\n");
    if (f->tokenizer)
        printf("  %s, %" PRId64 " tokens\n", f->tokenizer, f->tokens);
    else
        printf("  none: there is no tokenizer.json, vocab.json, spiece.model or vocab.txt\n");
}

static void add_json(json_t *object, const folder *f)
{
    json_t *dtypes = json_object();
    for (int i = 0; i < f->n_dtypes; i++)
        json_object_set_new(dtypes, f->dtypes[i].name, json_integer(f->dtypes[i].elements));
    json_t *weights =
        json_pack("{s:I, s:I, s:I, s:I, s:o}", "files", (json_int_t)f->files, "tensors",
                  (json_int_t)f->tensors, "parameters", (json_int_t)f->elements, "bytes",
                  (json_int_t)f->bytes, "dtypes", dtypes);
    json_t *tokenizer =
        json_pack("{s:s?, s:I}", "file", f->tokenizer, "tokens", (json_int_t)f->tokens);
    bool ok = json_object_set_new(object, "weights", weights) == 0;
    if (json_object_set_new(object, "tokenizer", tokenizer) != 0 || !ok)
        br_raise(BR_ERROR_MEMORY, "info: cannot allocate memory for the JSON object");
}

void info_folder(const char *dir, json_t *object)
{
    folder f = { 0 };
    if (!collect_weights(&f, dir) || !collect_tokenizer(&f, dir))
        return;
    if (object)
        add_json(object, &f);
    else
        print_plain(&f);
}
