/* pretrained/auto_model_files.c - opens the weight files of a model: those of a folder, which are
 * one file or the shards listed by an index, or a GGUF file.
 *
 * The index may be hostile. A shard must be in the folder or in a subfolder, so its name must not
 * be absolute or contain "..". No key may be in two shards. A key that is not in the shard that the
 * index names is reported. */
#include "io/gguf_internal.h"
#include "pretrained/auto_model_internal.h"

#include <brasa/pretrained/auto_model.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_INDEX_BYTES = 16 << 20, MAX_SHARDS = 1024 };

static const char op[] = "auto_model";

const char *br__weight_path(const br_weight_files *files, const br_weight_key *key)
{
    return br_printable(files->shards[key->shard].path);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static const struct br_weight_shard *shard_of(const br_weight_files *files,
                                              const br_weight_key *key)
{
    return &files->shards[key->shard];
}

bool br__weights_are_gguf(const br_weight_files *files)
{
    return files->shards[0].gguf != NULL;
}

int br__weight_shape(const br_weight_files *files, const br_weight_key *key, const int64_t **sizes)
{
    const struct br_weight_shard *s = shard_of(files, key);
    return s->gguf ? br_gguf_shape(s->gguf, key->index, sizes)
                   : br_safetensors_shape(s->file, key->index, sizes);
}

const char *br__weight_type(const br_weight_files *files, const br_weight_key *key)
{
    const struct br_weight_shard *s = shard_of(files, key);
    return s->gguf ? br_gguf_type(s->gguf, key->index) : br_safetensors_dtype(s->file, key->index);
}

bool br__weight_is_quantized(const br_weight_files *files, const br_weight_key *key)
{
    const struct br_weight_shard *s = shard_of(files, key);
    br_block_type type;
    return s->gguf && br__gguf_block_type(br__gguf_tensor(s->gguf, key->name)->type, &type);
}

bool br__weight_is_floating(const br_weight_files *files, const br_weight_key *key)
{
    br_dtype dtype;
    return br__weight_is_quantized(files, key) ||
           (br_dtype_named(br__weight_type(files, key), &dtype) && br__is_floating(dtype));
}

br_tensor *br__weight_get(const br_weight_files *files, const br_weight_key *key, br_dtype dtype)
{
    const struct br_weight_shard *s = shard_of(files, key);
    return s->gguf ? br_gguf_get(s->gguf, key->name, dtype)
                   : br_to(br_safetensors_get(s->file, key->name), dtype);
}

/* ---- Shards ---------------------------------------------------------------------------------- */

/* Opens a shard, which is a GGUF file if `gguf` is set. Takes ownership of `path`. */
static bool open_file(br_weight_files *files, char *path, bool gguf, bool copy)
{
    struct br_weight_shard *shards =
        path ? br__grow(files->shards, &files->shard_capacity, files->n_shards, sizeof *shards)
             : NULL;
    if (!shards) {
        br_free(path);
        return false;
    }
    files->shards = shards;
    struct br_weight_shard *shard = &shards[files->n_shards++];
    *shard = (struct br_weight_shard){ .path = path };
    if (gguf)
        shard->gguf = br_gguf_open(path, BR_OPTIONS(br_gguf, .copy = copy));
    else
        shard->file = br_safetensors_open(path, BR_OPTIONS(br_safetensors, .copy = copy));
    return shard->gguf || shard->file;
}

static bool open_shard(br_weight_files *files, char *path, bool copy)
{
    return open_file(files, path, false, copy);
}

static int64_t count(const struct br_weight_shard *s)
{
    return s->gguf ? br_gguf_count(s->gguf) : br_safetensors_count(s->file);
}

static const char *name_at(const struct br_weight_shard *s, int64_t i)
{
    return s->gguf ? br_gguf_name(s->gguf, i) : br_safetensors_name(s->file, i);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const br_weight_key *)a)->name, ((const br_weight_key *)b)->name);
}

/* Lists the keys of all shards. */
static bool list_keys(br_weight_files *files)
{
    int64_t n = 0;
    for (int64_t s = 0; s < files->n_shards; s++)
        n += count(&files->shards[s]);
    files->keys = br_malloc((size_t)n * sizeof *files->keys);
    if (!files->keys)
        return false;
    for (int64_t s = 0; s < files->n_shards; s++)
        for (int64_t i = 0; i < count(&files->shards[s]); i++)
            files->keys[files->n_keys++] =
                (br_weight_key){ name_at(&files->shards[s], i), (int)s, i };
    if (n > 0)
        qsort(files->keys, (size_t)n, sizeof *files->keys, by_name);
    for (int64_t i = 1; i < n; i++) {
        const br_weight_key *a = &files->keys[i - 1], *b = &files->keys[i];
        if (strcmp(a->name, b->name) != 0)
            continue;
        br_fail(BR_ERROR_FORMAT, op, "%s: key \"%s\" is also in %s, must be in only one file",
                br__weight_path(files, a), br_printable(a->name), br__weight_path(files, b));
        return false;
    }
    return true;
}

/* ---- The index ------------------------------------------------------------------------------- */

char *br__inner_path(const json_t *value)
{
    const char *part = json_string_value(value);
    char *name = part ? br_strdup(part) : NULL, *out = name;
    for (size_t n; name; part += n + 1) {
        n = strcspn(part, "/");
        bool is_dot = n == 1 && *part == '.', is_last = part[n] == '\0';
        if (n == 0 || (n == 2 && memcmp(part, "..", 2) == 0) || (is_dot && is_last)) {
            br_free(name);
            return NULL;
        }
        if (!is_dot) {
            memcpy(out, part, n + 1);
            out += n + 1;
        }
        if (is_last)
            break;
    }
    return name;
}

/* Returns the number of the shard of that name, which is opened if it is new, or -1 and an error.
 */
static int shard_named(br_weight_files *files, const char *dir, const char *name, bool copy)
{
    size_t before = strlen(dir) + 1;
    for (int64_t s = 0; s < files->n_shards; s++)
        if (strcmp(files->shards[s].path + before, name) == 0)
            return (int)s;
    if (files->n_shards == MAX_SHARDS) {
        br_fail(BR_ERROR_FORMAT, op, "%s: the index lists more than %d files", br_printable(dir),
                MAX_SHARDS);
        return -1;
    }
    bool ok = open_shard(files, br_format("%s/%s", dir, name), copy);
    return ok ? (int)files->n_shards - 1 : -1;
}

/* Notes a key that its shard does not have. */
static bool add_absent(br_weight_files *files, const char *key, int shard)
{
    br_absent_key *absent =
        br__grow(files->absent, &files->absent_capacity, files->n_absent, sizeof *absent);
    if (!absent)
        return false;
    files->absent = absent;
    absent[files->n_absent] = (br_absent_key){ br_strdup(key), shard };
    return absent[files->n_absent++].name != NULL;
}

static bool open_entry(br_weight_files *files, const char *dir, const char *key,
                       const json_t *value, bool copy)
{
    char *name = br__inner_path(value);
    const char *found = json_string_value(value);
    if (!name && !br_failed())
        br__fail_file(BR_ERROR_FORMAT, op, files->index, "weight_map[\"%s\"] is %s%s%s, must be %s",
                      br_printable(key), found ? "\"" : "",
                      found ? br_printable(found) : "of the wrong type", found ? "\"" : "",
                      found ? "a relative path without \"..\" and empty parts" : "a string");
    int shard = name ? shard_named(files, dir, name, copy) : -1;
    br_free(name);
    return shard >= 0 &&
           (br_safetensors_has(files->shards[shard].file, key) || add_absent(files, key, shard));
}

static bool open_listed(br_weight_files *files, const char *dir, json_t *map, bool copy)
{
    const char *key;
    json_t *value;
    json_object_foreach(map, key, value)
    {
        if (!open_entry(files, dir, key, value, copy))
            return false;
    }
    return true;
}

static bool open_index(br_weight_files *files, const char *dir, bool copy)
{
    json_t *index = br__json_read_file(op, files->index, MAX_INDEX_BYTES, false);
    if (!index)
        return false;
    json_t *map = json_object_get(index, "weight_map");
    bool ok = json_is_object(map) && json_object_size(map) > 0;
    if (ok)
        ok = open_listed(files, dir, map, copy);
    else
        br__fail_file(
            BR_ERROR_FORMAT, op, files->index,
            "weight_map is missing or empty, must be an object that maps keys to file names");
    json_decref(index);
    return ok;
}

/* ---- The folder ------------------------------------------------------------------------------ */

/* Returns true if the folder has an entry of that name. */
static bool has(const char *dir, const char *name)
{
    char *path = br_format("%s/%s", dir, name);
    struct stat st;
    bool there = path && stat(path, &st) == 0;
    br_free(path);
    return there;
}

static bool refuse_folder(const char *dir)
{
    static const char *const others[] = { "pytorch_model.bin", "pytorch_model.bin.index.json",
                                          "tf_model.h5", "flax_model.msgpack" };
    const char *other = NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others && !other; i++)
        if (has(dir, others[i]))
            other = others[i];
    if (!br_failed())
        br_fail(BR_ERROR_IO, op,
                "%s: there is no model.safetensors and no model.safetensors.index.json%s%s",
                br_printable(dir), other ? ", only a file of an unsupported format: " : "",
                other ? other : "");
    return false;
}

static bool open_folder(br_weight_files *files, const char *dir, bool copy)
{
    static const char whole[] = "model.safetensors", index[] = "model.safetensors.index.json";
    if (br_gguf_is_file(dir))
        return open_file(files, br_strdup(dir), true, copy);
    if (has(dir, whole))
        return open_shard(files, br_format("%s/%s", dir, whole), copy);
    if (br_failed() || !has(dir, index))
        return refuse_folder(dir);
    files->index = br_format("%s/%s", dir, index);
    return files->index && open_index(files, dir, copy);
}

bool br__weight_files_open(br_weight_files *files, const char *dir, bool copy)
{
    *files = (br_weight_files){ 0 };
    if (open_folder(files, dir, copy) && list_keys(files))
        return true;
    br__weight_files_close(files);
    return false;
}

bool br_auto_model_each_file(const char *dir,
                             bool (*visit)(void *context, const br_safetensors *file),
                             void *context)
{
    static const char each[] = "auto_model_each_file";
    br_weight_files files;
    if (!br__required(each, "dir", dir))
        return false;
    if (!visit)
        return br_fail(BR_ERROR_ARGUMENT, each, "visit is NULL, but it is required");
    if (br_gguf_is_file(dir))
        return br_fail(BR_ERROR_ARGUMENT, each,
                       "%s is a GGUF file, must be a folder with safetensors files; br_gguf_open() "
                       "opens it",
                       br_printable(dir));
    if (!br__weight_files_open(&files, dir, false))
        return false;
    bool ok = true;
    for (int64_t s = 0; ok && s < files.n_shards; s++)
        ok = visit(context, files.shards[s].file);
    br__weight_files_close(&files);
    return ok || br_failed() ||
           br_fail(BR_ERROR_STATE, each, "visit returned false for a file of %s",
                   br_printable(dir));
}

void br__weight_files_close(br_weight_files *files)
{
    for (int64_t s = 0; s < files->n_shards; s++) {
        br_safetensors_close(files->shards[s].file);
        br_gguf_close(files->shards[s].gguf);
        br_free(files->shards[s].path);
    }
    for (int64_t i = 0; i < files->n_absent; i++)
        br_free(files->absent[i].name);
    br_free(files->index);
    br_free(files->shards);
    br_free(files->absent);
    br_free(files->keys);
    *files = (br_weight_files){ 0 };
}
