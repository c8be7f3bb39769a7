/* tests/fuzz/fuzz_checkpoint.c - a checkpoint with any changes but correct checksums must be loaded
 * completely or not at all.
 *
 * The bytes are a list of changes to a valid checkpoint's tensors and metadata. The result is
 * written with correct lengths, offsets and checksums, in the layout described in io/checkpoint.c,
 * because otherwise the checksums would detect every change. */
#include "tests/fuzz/fuzz.h"

#include <brasa/io.h>
#include <inttypes.h>
#include <xxhash.h>

enum { MOST = 24, NAME = 64, DATA = 64, DIMS = 3, VALUE = 8 * BR_RNG_STATE_WORDS };

static const fuzz_seed seeds[] = {
    SEED("\xff"),
    SEED("\0\3\1\4\2"),
    SEED("\2\5\0\2\3\7\1\x80\3\2\0\7"),
    SEED("\4\2\1x\6\3\1"
         "2\7\2\4abcd"),
    SEED("\5\1\6\2\5\x39\7\3\1"
         "7\10\4\11\2\12\1"),
};

/* ---- A checkpoint in parts ------------------------------------------------------------------- */

typedef struct item {
    char name[NAME];
    char dtype[8];
    int ndim;
    int64_t sizes[DIMS];
    size_t bytes;
    uint8_t data[DATA];
    bool spoiled; /* has a wrong checksum */
} item;

typedef struct fact {
    char key[NAME], value[VALUE + 1];
} fact;

typedef struct parts {
    int n_items, n_facts;
    item items[MOST];
    fact facts[MOST];
} parts;

typedef struct state {
    br_linear *model;
    br_optim *optim;
    br_scheduler *scheduler;
} state;

static state new_state(void)
{
    br_manual_seed(1);
    state s = { .model = br_linear_new(2, 2, true) };
    s.optim = br_adam(br_base(s.model), NULL);
    s.scheduler = br_step_lr(s.optim, 2, 0.5);
    br_scope *scope = br_scope_begin();
    br_backward(br_sum(br_linear_forward(s.model, br_ones(BR_SHAPE(1, 2), BR_F32))));
    br_optim_step(s.optim);
    br_scheduler_step(s.scheduler);
    br_scope_end(scope);
    require(!br_failed());
    return s;
}

static void free_state(state *s)
{
    br_scheduler_free(s->scheduler);
    br_optim_free(s->optim);
    br_module_free(s->model);
}

static br_checkpoint checkpoint_of(state *s, int rng)
{
    return (br_checkpoint){
        .model = br_base(s->model), .optim = s->optim, .scheduler = s->scheduler, .rng = rng
    };
}

static void take_item(parts *p, br_safetensors *file, int64_t i)
{
    const int64_t *sizes;
    item *it = &p->items[p->n_items++];
    br_tensor *t = br_safetensors_get(file, br_safetensors_name(file, i));
    snprintf(it->name, NAME, "%s", br_safetensors_name(file, i));
    snprintf(it->dtype, sizeof it->dtype, "%s", br_safetensors_dtype(file, i));
    it->ndim = br_safetensors_shape(file, i, &sizes);
    memcpy(it->sizes, sizes, (size_t)it->ndim * sizeof *sizes);
    it->bytes = br_safetensors_bytes(file, i);
    require(it->bytes <= DATA && br_copy_out(t, it->data, it->bytes));
}

/* Reads a checkpoint without its checksums. */
static void read_parts(parts *p, const char *path)
{
    br_scope *scope = br_scope_begin();
    br_safetensors *file = br_safetensors_open(path, NULL);
    for (int64_t i = 0; i < br_safetensors_count(file); i++)
        take_item(p, file, i);
    for (int64_t i = 0; i < br_safetensors_metadata_count(file); i++) {
        const char *key = br_safetensors_metadata_key(file, i);
        if (strncmp(key, "brasa.xxh3", 10) == 0)
            continue;
        fact *f = &p->facts[p->n_facts++];
        snprintf(f->key, NAME, "%s", key);
        snprintf(f->value, sizeof f->value, "%s", br_safetensors_metadata(file, key));
    }
    br_safetensors_close(file);
    br_scope_end(scope);
    require(!br_failed() && p->n_items > 8);
}

static const parts *sound_parts(void)
{
    static parts sound;
    if (sound.n_items > 0)
        return &sound;
    char path[] = "/tmp/brasa-fuzz-XXXXXX";
    int fd = mkstemp(path);
    state s = new_state();
    br_checkpoint c = checkpoint_of(&s, 1);
    require(fd >= 0 && br_checkpoint_save(path, &c));
    read_parts(&sound, path);
    free_state(&s);
    close(fd);
    unlink(path);
    return &sound;
}

/* ---- Changes --------------------------------------------------------------------------------- */

typedef struct input {
    const uint8_t *p, *end;
} input;

static uint8_t next(input *in)
{
    return in->p < in->end ? *in->p++ : 0;
}

/* Returns the character c, or '0' if c needs an escape in a JSON string. */
static char plain(uint8_t c)
{
    c &= 127;
    return c < 32 || c == '"' || c == '\\' || c == 127 ? '0' : (char)c;
}

static char next_char(input *in)
{
    return plain(next(in));
}

static size_t size_of(const item *it)
{
    static const char *const wide[] = { "F64", "I64", "U64", "C64" };
    size_t bytes = strcmp(it->dtype, "F32") == 0 ? 4 : strcmp(it->dtype, "F16") == 0 ? 2 : 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (strcmp(it->dtype, wide[i]) == 0)
            bytes = 8;
    for (int d = 0; d < it->ndim; d++)
        bytes *= (size_t)it->sizes[d];
    return bytes;
}

/* Sets the size of the data according to dtype and shape; a tensor that is too large becomes a
 * scalar. */
static void fit(item *it)
{
    if (size_of(it) > DATA)
        it->ndim = 0;
    it->bytes = size_of(it);
}

/* Adds a copy of the item with another name. */
static void add_similar(parts *p, const item *it)
{
    item *copy = &p->items[p->n_items++];
    *copy = *it;
    copy->name[0] = plain((uint8_t)copy->name[0] ^ 1);
}

static void change_item(input *in, parts *p, int what, item *it)
{
    static const char *const dtypes[] = { "F32", "F64", "I64", "BOOL", "F16", "U8", "C64" };
    uint8_t k = next(in);
    if (what == 0)
        *it = p->items[--p->n_items];
    else if (what == 1)
        strcpy(it->dtype, dtypes[k % (sizeof dtypes / sizeof *dtypes)]);
    else if (what == 2)
        it->sizes[k % DIMS] = next(in) % 6;
    else if (what == 3)
        it->ndim = k % (DIMS + 1);
    else if (what == 4)
        it->data[k % DATA] = next(in);
    else if (what == 5 && it->name[0])
        it->name[k % strlen(it->name)] = next_char(in);
    else if (what == 6 && p->n_items < MOST)
        add_similar(p, it);
    else
        it->spoiled = true;
    if (what > 0)
        fit(it);
}

static void change_fact(input *in, parts *p, int what, fact *f)
{
    uint8_t k = next(in);
    size_t n = strlen(f->value);
    if (what == 0) {
        *f = p->facts[--p->n_facts];
    } else if (what == 1 && n > 0) {
        size_t at = (k * 256U + next(in)) % n;
        f->value[at] = next_char(in);
    } else if (what == 2) {
        for (n = 0; n < k % 40U; n++)
            f->value[n] = next_char(in);
        f->value[n] = 0;
    } else {
        f->key[k % strlen(f->key)] = next_char(in);
    }
}

static void change(input *in, parts *p)
{
    while (in->p < in->end && p->n_items > 0 && p->n_facts > 0) {
        uint8_t what = next(in), which = next(in);
        if (what % 12 < 8)
            change_item(in, p, what % 12, &p->items[which % p->n_items]);
        else
            change_fact(in, p, what % 12 - 8, &p->facts[which % p->n_facts]);
    }
}

/* ---- Writing --------------------------------------------------------------------------------- */

static uint64_t item_sum(const item *it)
{
    uint64_t sum = XXH3_64bits_withSeed(it->dtype, strlen(it->dtype), 0);
    sum = XXH3_64bits_withSeed(it->sizes, (size_t)it->ndim * sizeof *it->sizes, sum);
    return XXH3_64bits_withSeed(it->data, it->bytes, sum) ^ it->spoiled;
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const fact *)a)->key, ((const fact *)b)->key);
}

/* Collects the facts and the tensors' checksums, sorted by key; returns their number. */
static int all_facts(const parts *p, fact *facts)
{
    int n = p->n_facts;
    memcpy(facts, p->facts, (size_t)n * sizeof *facts);
    for (int i = 0; i < p->n_items; i++, n++) {
        snprintf(facts[n].key, NAME, "brasa.xxh3/%.50s", p->items[i].name);
        snprintf(facts[n].value, NAME, "%016" PRIx64, item_sum(&p->items[i]));
    }
    qsort(facts, (size_t)n, sizeof *facts, by_key);
    return n;
}

static void print_metadata(FILE *out, const parts *p)
{
    static fact facts[2 * MOST];
    int n = all_facts(p, facts);
    uint64_t sum = 0;
    fprintf(out, "{\"__metadata__\":{");
    for (int i = 0; i < n; i++) {
        sum = XXH3_64bits_withSeed(facts[i].key, strlen(facts[i].key) + 1, sum);
        sum = XXH3_64bits_withSeed(facts[i].value, strlen(facts[i].value) + 1, sum);
        fprintf(out, "\"%s\":\"%s\",", facts[i].key, facts[i].value);
    }
    fprintf(out, "\"brasa.xxh3\":\"%016" PRIx64 "\"}", sum);
}

static void print_items(FILE *out, const parts *p)
{
    size_t end = 0;
    for (int i = 0; i < p->n_items; i++) {
        const item *it = &p->items[i];
        fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", it->name, it->dtype);
        for (int d = 0; d < it->ndim; d++)
            fprintf(out, "%s%" PRId64, d ? "," : "", it->sizes[d]);
        fprintf(out, "],\"data_offsets\":[%zu,%zu]}", end, end + it->bytes);
        end += it->bytes;
    }
    fputc('}', out);
}

/* Returns the contents of the file; the caller frees them. */
static char *write_file(const parts *p, size_t *size)
{
    char *bytes = NULL;
    FILE *out = open_memstream(&bytes, size);
    require(out != NULL && fwrite("        ", 1, 8, out) == 8);
    print_metadata(out, p);
    print_items(out, p);
    fflush(out);
    uint64_t length = *size - 8;
    for (int i = 0; i < p->n_items; i++)
        fwrite(p->items[i].data, 1, p->items[i].bytes, out);
    fclose(out);
    memcpy(bytes, &length, sizeof length);
    return bytes;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static uint64_t list_sum(br_named_list *list, uint64_t sum)
{
    for (int64_t i = 0; i < list->count; i++) {
        uint8_t data[DATA];
        br_tensor *t = list->items[i].tensor;
        size_t size = (size_t)br_numel(t) * br_dtype_size(br_dtype_of(t));
        require(size <= DATA && br_copy_out(t, data, size));
        sum = XXH3_64bits_withSeed(data, size, sum);
    }
    br_named_list_free(list);
    return sum;
}

/* Returns a hash of everything that loading may change. */
static uint64_t state_sum(state *s)
{
    br_rng_state rng;
    br_get_rng_state(&rng);
    uint64_t sum = XXH3_64bits(&rng, sizeof rng);
    br_scope *scope = br_scope_begin();
    sum = list_sum(br_state_dict(br_base(s->model)), sum);
    sum = list_sum(br_optim_state_dict(s->optim), sum);
    sum = list_sum(br_scheduler_state_dict(s->scheduler), sum);
    br_scope_end(scope);
    return sum;
}

static bool load(state *s, const parts *p)
{
    size_t n;
    char path[64], *bytes = write_file(p, &n);
    int fd = fuzz_file((uint8_t *)bytes, n, path);
    br_checkpoint c = checkpoint_of(s, 1);
    bool ok = br_checkpoint_load(path, &c);
    close(fd);
    free(bytes);
    require_answer(ok);
    return ok;
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    static parts p;
    p = *sound_parts();
    change(&(input){ bytes, bytes + n }, &p);
    state s = new_state();
    uint64_t before = state_sum(&s);
    bool loaded = load(&s, &p);
    require(loaded || n > 0);
    require((loaded && n > 0) || state_sum(&s) == before);
    free_state(&s);
    br_thread_cleanup();
    require(br_live_tensors() == 0);
}

FUZZ_TARGET(checkpoint)
