/* io/checkpoint.c - checkpoints: a model, an optimizer, a scheduler and the random generator in one
 * safetensors file with checksums.
 *
 * Tensors are named "model/<name>", "optim/<name>" and "scheduler/<name>". Everything else is
 * metadata, with keys that begin with "brasa.":
 *
 *     brasa.checkpoint   "1", the version of this layout
 *     brasa.parts        the saved parts: a subset of "model optim scheduler rng"
 *     brasa.step         the step, in decimal
 *     brasa.rng          the generator's words, 8 hexadecimal digits each
 *     brasa.xxh3/<name>  the checksum of that tensor, 16 hexadecimal digits
 *     brasa.xxh3         the checksum of all other metadata
 *
 * A checksum is the 64-bit XXH3 of several pieces. The hash of each piece seeds the hash of the
 * next. The pieces of a tensor are the name of its dtype, its sizes, and its bytes. The pieces of
 * the metadata are each key and value with its NUL, sorted by key. The format's own checks cover
 * the rest of the file. */
#include "io/io_internal.h"
#include "optim/optim_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define OWN          "brasa."
#define FORMAT       OWN "checkpoint"
#define PARTS        OWN "parts"
#define STEP         OWN "step"
#define RNG          OWN "rng"
#define SUM          OWN "xxh3"
#define SUM_OF       SUM "/"
#define VERSION      "1"
#define IN_MODEL     "model/"
#define IN_OPTIM     "optim/"
#define IN_SCHEDULER "scheduler/"

enum { SUM_DIGITS = 16, RNG_DIGITS = 8 * BR_RNG_STATE_WORDS };

static const char op[] = "checkpoint";

/* ---- Checksums ------------------------------------------------------------------------------- */

static uint64_t tensor_sum(const char *dtype, int ndim, const int64_t *sizes, const void *data,
                           size_t bytes)
{
    uint64_t sum = XXH3_64bits_withSeed(dtype, strlen(dtype), 0);
    sum = XXH3_64bits_withSeed(sizes, (size_t)ndim * sizeof *sizes, sum);
    return XXH3_64bits_withSeed(data, bytes, sum);
}

/* Computes the checksum of n metadata sorted by key, without the checksum's own entry. */
static uint64_t metadata_sum(size_t n, const br_metadata *metadata)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(metadata[i].key, SUM) == 0)
            continue;
        sum = XXH3_64bits_withSeed(metadata[i].key, strlen(metadata[i].key) + 1, sum);
        sum = XXH3_64bits_withSeed(metadata[i].value, strlen(metadata[i].value) + 1, sum);
    }
    return sum;
}

static bool is_sum(const char *text, uint64_t sum)
{
    char digits[SUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, sum);
    return strcmp(text, digits) == 0;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

/* The contents of the file to save. */
typedef struct draft {
    br_arena arena; /* names, keys and values */
    br_named_list tensors;
    br_metadata *metadata;
    int64_t n_metadata;
} draft;

static bool add_metadata(draft *d, const char *key, const char *value)
{
    if (!key || !value)
        return false;
    d->metadata[d->n_metadata++] = (br_metadata){ key, value };
    return true;
}

static bool add_sum(draft *d, const char *key, uint64_t sum)
{
    char digits[SUM_DIGITS + 1];
    snprintf(digits, sizeof digits, "%016" PRIx64, sum);
    return add_metadata(d, key, br__arena_text(&d->arena, digits, SUM_DIGITS));
}

static bool add_tensor(draft *d, const char *prefix, const br_named_tensor *item)
{
    const char *name = br__arena_join(&d->arena, prefix, item->name);
    const char *key = name ? br__arena_join(&d->arena, SUM_OF, name) : NULL;
    br_scope *scope = key ? br_scope_begin() : NULL;
    const br_tensor *t =
        scope && br__required(op, item->name, item->tensor) ? br__dense(op, item->tensor) : NULL;
    bool ok = t && add_sum(d, key,
                           tensor_sum(br__file_dtype_of(t->dtype)->name, t->ndim, t->sizes, t->data,
                                      (size_t)t->numel * br_dtype_size(t->dtype)));
    br_scope_end(scope);
    if (ok)
        d->tensors.items[d->tensors.count++] = (br_named_tensor){ name, item->tensor };
    return ok;
}

static bool add_tensors(draft *d, const char *prefix, const br_named_list *list)
{
    for (int64_t i = 0; list && i < list->count; i++)
        if (!add_tensor(d, prefix, &list->items[i]))
            return false;
    return true;
}

static bool add_rng(draft *d)
{
    br_rng_state state;
    br_get_rng_state(&state);
    char *digits = br__arena_alloc(&d->arena, RNG_DIGITS + 1);
    for (int i = 0; digits && i < BR_RNG_STATE_WORDS; i++)
        snprintf(digits + 8 * i, 9, "%08" PRIx32, state.words[i]);
    return add_metadata(d, RNG, digits);
}

static bool add_facts(draft *d, const br_checkpoint *c)
{
    char step[24], parts[32];
    snprintf(step, sizeof step, "%" PRId64, c->step);
    snprintf(parts, sizeof parts, "%s%s%s%s", c->model ? " model" : "", c->optim ? " optim" : "",
             c->scheduler ? " scheduler" : "", c->rng ? " rng" : "");
    const char *first = parts + (parts[0] == ' ');
    return add_metadata(d, FORMAT, VERSION) &&
           add_metadata(d, PARTS, br__arena_text(&d->arena, first, strlen(first))) &&
           add_metadata(d, STEP, br__arena_text(&d->arena, step, strlen(step))) &&
           (!c->rng || add_rng(d));
}

static bool add_users_metadata(draft *d, const br_checkpoint *c)
{
    for (int64_t i = 0; i < c->n_metadata; i++) {
        const br_metadata *m = &c->metadata[i];
        if (!m->key || !m->value)
            br_fail(BR_ERROR_ARGUMENT, op, "metadata %" PRId64 " has no %s", i,
                    m->key ? "value" : "key");
        else if (strncmp(m->key, OWN, strlen(OWN)) == 0)
            br_fail(BR_ERROR_ARGUMENT, op,
                    "metadata \"%s\": keys that begin with \"%s\" are reserved",
                    br_printable(m->key), OWN);
        if (br_failed() || !add_metadata(d, m->key, m->value))
            return false;
    }
    return true;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const br_metadata *)a)->key, ((const br_metadata *)b)->key);
}

/* The state dicts to save. NULL for a part that is not saved. */
typedef struct saved_parts {
    br_named_list *model, *optim, *scheduler;
} saved_parts;

static size_t count_of(const br_named_list *list)
{
    return list ? (size_t)list->count : 0;
}

static bool make_draft(draft *d, const br_checkpoint *c, const saved_parts *parts)
{
    enum { FACTS = 5 }; /* our own metadata, without the tensors' checksums */
    size_t n = count_of(parts->model) + count_of(parts->optim) + count_of(parts->scheduler);
    d->tensors.items = br_calloc(n, sizeof *d->tensors.items);
    d->metadata = br_calloc(n + (size_t)c->n_metadata + FACTS, sizeof *d->metadata);
    if (!d->tensors.items || !d->metadata || !add_facts(d, c) || !add_users_metadata(d, c) ||
        !add_tensors(d, IN_MODEL, parts->model) || !add_tensors(d, IN_OPTIM, parts->optim) ||
        !add_tensors(d, IN_SCHEDULER, parts->scheduler))
        return false;
    qsort(d->metadata, (size_t)d->n_metadata, sizeof *d->metadata, by_key);
    return add_sum(d, SUM, metadata_sum((size_t)d->n_metadata, d->metadata));
}

static bool check_arguments(const char *path, const br_checkpoint *c)
{
    return br__required(op, "path", path) && br__required(op, "checkpoint", c);
}

static br_named_list *model_state(const br_checkpoint *c)
{
    if (!c->trainable_only)
        return br_state_dict(c->model);
    return br__collect(op, c->model, BR_COLLECT_ALIASES | BR_COLLECT_TRAINABLE);
}

bool br_checkpoint_save(const char *path, const br_checkpoint *checkpoint)
{
    const br_checkpoint *c = checkpoint;
    if (!check_arguments(path, c))
        return false;
    if (c->n_metadata < 0 || (c->n_metadata > 0 && !c->metadata)) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "n_metadata is %" PRId64
                " and metadata is %s: n_metadata must be at least 0, and 0 if metadata is NULL",
                c->n_metadata, c->metadata ? "not NULL" : "NULL");
        return false;
    }
    saved_parts parts = {
        .model = c->model ? model_state(c) : NULL,
        .optim = c->optim ? br_optim_state_dict(c->optim) : NULL,
        .scheduler = c->scheduler ? br_scheduler_state_dict(c->scheduler) : NULL,
    };
    draft d = { 0 };
    bool ok = !br_failed() && make_draft(&d, c, &parts) &&
              br_safetensors_save(path, &d.tensors, d.n_metadata, d.metadata);
    br_free(d.tensors.items);
    br_free(d.metadata);
    br__arena_free(&d.arena);
    br_named_list_free(parts.scheduler);
    br_named_list_free(parts.optim);
    br_named_list_free(parts.model);
    return ok;
}

/* ---- Verifying ------------------------------------------------------------------------------- */

static bool refuse(const br_safetensors *file, const char *rule)
{
    br__fail_file(BR_ERROR_FORMAT, op, file->path, "%s", rule);
    return false;
}

/* Checks the metadata's own checksum, and that no checksum belongs to a missing tensor. */
static bool verify_metadata(const br_safetensors *file)
{
    const br_header *h = &file->header;
    const char *sum = br__header_metadata(h, SUM);
    if (!sum)
        return refuse(file, "has no checksums: br_checkpoint_save() did not write it");
    if (!is_sum(sum, metadata_sum(h->n_metadata, h->metadata)))
        return refuse(file, "the metadata do not match their checksum");
    size_t sums = 0;
    for (size_t i = 0; i < h->n_metadata; i++)
        sums += strncmp(h->metadata[i].key, SUM_OF, strlen(SUM_OF)) == 0;
    return sums <= h->n_entries || refuse(file, "contains checksums of tensors that are missing");
}

typedef struct verification {
    const br_safetensors *file;
    const char **sums; /* each tensor's expected checksum; set to NULL once it matches */
} verification;

static void verify_tensor(void *context, int64_t i)
{
    const verification *v = context;
    const br_file_entry *e = &v->file->header.entries[i];
    if (is_sum(v->sums[i], tensor_sum(e->dtype->name, e->ndim, e->sizes,
                                      e->end > e->begin ? v->file->data + e->begin : NULL,
                                      (size_t)(e->end - e->begin))))
        v->sums[i] = NULL;
}

/* Reports the tensors whose checksums did not match. */
static bool report_tensors(const verification *v)
{
    enum { NAMED = 8 };
    char names[700] = "";
    size_t count = 0, length = 0;
    for (size_t i = 0; i < v->file->header.n_entries; i++) {
        if (!v->sums[i])
            continue;
        if (count++ < NAMED && length < sizeof names)
            length += (size_t)snprintf(names + length, sizeof names - length, "%s\"%s\"",
                                       count > 1 ? ", " : "",
                                       br_printable(v->file->header.entries[i].name));
    }
    const char *path = br_printable(v->file->path);
    if (count == 1)
        br_fail(BR_ERROR_FORMAT, op, "%s: tensor %s does not match its checksum", path, names);
    else if (count > 1)
        br_fail(BR_ERROR_FORMAT, op, "%s: %zu tensors do not match their checksums: %s%s", path,
                count, names, count > NAMED ? ", ..." : "");
    return count == 0;
}

static bool find_sums(const verification *v)
{
    const br_header *h = &v->file->header;
    for (size_t i = 0; i < h->n_entries; i++) {
        char *key = br_format("%s%s", SUM_OF, h->entries[i].name);
        if (!key)
            return false;
        v->sums[i] = br__header_metadata(h, key);
        br_free(key);
        if (!v->sums[i]) {
            br__fail_file(BR_ERROR_FORMAT, op, v->file->path, "tensor \"%s\" has no checksum",
                          br_printable(h->entries[i].name));
            return false;
        }
    }
    return true;
}

static bool verify(const br_safetensors *file)
{
    if (!verify_metadata(file))
        return false;
    size_t n = file->header.n_entries;
    verification v = { .file = file, .sums = br_calloc(n, sizeof *v.sums) };
    bool ok = v.sums && find_sums(&v);
    if (ok) {
        br__parallel((int64_t)n, verify_tensor, &v);
        ok = report_tensors(&v);
    }
    br_free(v.sums);
    return ok;
}

bool br_checkpoint_verify(br_safetensors *file)
{
    return br__required(op, "file", file) && verify(file);
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Everything needed to restore a checkpoint, prepared before anything is changed. */
typedef struct restoration {
    br_named_list *model, *optim, *scheduler, *matched;
    bool has_options; /* the file has the options of the optimizer's groups */
    br_loading *loading;
    br_rng_state rng;
    int64_t step;
} restoration;

/* Returns true if the file contains the part; otherwise sets an error. */
static bool has_part(const br_safetensors *file, const char *part)
{
    const char *parts = br__header_metadata(&file->header, PARTS);
    size_t n = strlen(part);
    for (const char *p = parts; p && (p = strstr(p, part)); p += n)
        if ((p == parts || p[-1] == ' ') && (p[n] == ' ' || p[n] == 0))
            return true;
    br__fail_file(BR_ERROR_ARGUMENT, op, file->path, "was saved without %s",
                  strcmp(part, "rng") == 0 ? "the generator's state" : part);
    return false;
}

static bool read_step(const br_safetensors *file, int64_t *step)
{
    const char *text = br__header_metadata(&file->header, STEP);
    char *end;
    errno = 0;
    *step = text ? strtoll(text, &end, 10) : 0;
    if (!text || !*text || *end || errno)
        return refuse(file, "metadata \"" STEP "\" is not an integer");
    return true;
}

static bool read_rng(const br_safetensors *file, br_rng_state *state)
{
    const char *text = br__header_metadata(&file->header, RNG);
    if (!text || strlen(text) != RNG_DIGITS || strspn(text, "0123456789abcdef") != RNG_DIGITS)
        return refuse(file, "metadata \"" RNG "\" is not a generator state");
    for (int i = 0; i < BR_RNG_STATE_WORDS; i++) {
        char word[9] = { 0 };
        memcpy(word, text + 8 * i, 8);
        state->words[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    /* Validates the state by setting it, then restores the old one. */
    br_rng_state old;
    br_get_rng_state(&old);
    return br_set_rng_state(state) && br_set_rng_state(&old);
}

/* Returns the file's tensors whose names begin with a prefix, with the prefix removed. */
static br_named_list *read_part(br_safetensors *file, const char *prefix)
{
    size_t n = strlen(prefix);
    br_named_list *list = br__named_list_new(false);
    for (size_t i = 0; list && i < file->header.n_entries; i++) {
        const br_file_entry *e = &file->header.entries[i];
        if (strncmp(e->name, prefix, n) != 0)
            continue;
        br_tensor *t = br__entry_tensor(file, e);
        if (!t || !br__named_list_add(list, e->name + n, t)) {
            br_named_list_free(list);
            return NULL;
        }
    }
    return list;
}

/* Returns true if the file holds the options of the optimizer's groups, which older versions did
 * not save. */
static bool has_options(const br_safetensors *file)
{
    size_t n = strlen(IN_OPTIM);
    for (size_t i = 0; i < file->header.n_entries; i++) {
        const char *name = file->header.entries[i].name;
        if (strncmp(name, IN_OPTIM, n) == 0 && br__is_group_option(name + n))
            return true;
    }
    return false;
}

static bool prepare(restoration *r, br_safetensors *file, const br_checkpoint *c)
{
    const char *version = br__header_metadata(&file->header, FORMAT);
    if (!version)
        return refuse(file, "is not a checkpoint");
    if (strcmp(version, VERSION) != 0)
        return refuse(file, "is a checkpoint with an unsupported layout version");
    r->has_options = has_options(file);
    if (!read_step(file, &r->step) ||
        (c->rng && !(has_part(file, "rng") && read_rng(file, &r->rng))))
        return false;
    if (c->model &&
        !(has_part(file, "model") && (r->model = read_part(file, IN_MODEL)) &&
          (r->loading = br__loading_begin(
               c->model, r->model, file->path,
               (br__load_mode){ .strict = true, .trainable = c->trainable_only }, NULL))))
        return false;
    if (c->scheduler &&
        !(has_part(file, "scheduler") && (r->scheduler = read_part(file, IN_SCHEDULER)) &&
          (r->matched = br__scheduler_match(c->scheduler, r->scheduler))))
        return false;
    return !c->optim || (has_part(file, "optim") && (r->optim = read_part(file, IN_OPTIM)));
}

/* The optimizer comes first: it checks its own state and changes nothing on failure. The steps
 * after it cannot fail. */
static bool restore(const restoration *r, br_checkpoint *c)
{
    if (c->optim && !br_optim_load_state_dict(c->optim, r->optim))
        return false;
    if (c->model)
        br__loading_apply(r->loading);
    if (c->scheduler)
        br__scheduler_restore(c->scheduler, r->matched);
    if (c->scheduler && !r->has_options) /* as older versions did */
        br__scheduler_set_rates(c->scheduler);
    if (c->rng)
        br_set_rng_state(&r->rng);
    c->step = r->step;
    return true;
}

bool br_checkpoint_load(const char *path, br_checkpoint *checkpoint)
{
    if (!check_arguments(path, checkpoint))
        return false;
    br_safetensors *file = br_safetensors_open(path, NULL);
    br_scope *scope = file ? br_scope_begin() : NULL;
    restoration r = { 0 };
    bool ok = scope && verify(file) && prepare(&r, file, checkpoint) && restore(&r, checkpoint);
    br__loading_end(r.loading);
    br_named_list_free(r.model);
    br_named_list_free(r.optim);
    br_named_list_free(r.matched);
    br_named_list_free(r.scheduler);
    br_scope_end(scope);
    br_safetensors_close(file);
    return ok;
}
