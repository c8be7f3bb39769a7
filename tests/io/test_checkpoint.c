/* tests/io/test_checkpoint.c - checkpoints: everything is restored, and every changed bit is
 * detected. */
#include "tests/io/files.h"

#include <stdlib.h>
#include <xxhash.h>

TestSuite(checkpoint, .init = files_begin, .fini = files_end);

#define PATH files_path("c.safetensors")

/* Two parameters, one of which has two names, and a buffer. */
typedef struct net {
    br_module base;
    br_tensor *weight, *bias, *counts;
} net;

static net *net_new(double value, int64_t size)
{
    net *self = br_module_new(net);
    self->weight = br_parameter(self, "weight", br_full(BR_SHAPE(2, size), value, BR_F32));
    self->bias = br_parameter(self, "bias", br_full(BR_SHAPE(size), value + 1, BR_F64));
    br_parameter(self, "tied", self->bias);
    self->counts = br_buffer(self, "counts", br_full(BR_SHAPE(3), value, BR_I64));
    return self;
}

/* Runs one optimizer step with gradients of ones. */
static void step(net *self, br_optim *optim)
{
    br_set_grad(self->weight, br_ones_like(self->weight));
    br_set_grad(self->bias, br_ones_like(self->bias));
    cr_assert(br_optim_step(optim));
}

static double at(const br_tensor *t, int64_t i)
{
    return br_ndim(t) == 2 ? br_at(t, BR_SHAPE(i / br_size(t, 1), i % br_size(t, 1)))
                           : br_at(t, BR_SHAPE(i));
}

static bool same(const br_tensor *a, const br_tensor *b)
{
    if (!br_same_shape(a, b))
        return false;
    for (int64_t i = 0; i < br_numel(a); i++)
        if (at(a, i) != at(b, i))
            return false;
    return true;
}

/* Saves a net and an optimizer after one step. */
static void save_one(bool rng)
{
    br_scope *scope = br_scope_begin();
    net *model = net_new(0.5, 2);
    br_optim *optim = br_adam(br_base(model), NULL);
    step(model, optim);
    br_checkpoint c = { .model = br_base(model), .optim = optim, .step = 42, .rng = rng };
    cr_assert(br_checkpoint_save(PATH, &c), "%s", br_error_message());
    br_optim_free(optim);
    br_module_free(model);
    br_scope_end(scope);
}

Test(checkpoint, everything_is_restored)
{
    net *a = net_new(0.5, 3), *b = net_new(7, 3);
    br_optim *adam_a = br_adam(br_base(a), NULL), *adam_b = br_adam(br_base(b), NULL);
    step(a, adam_a);
    br_manual_seed(5);
    br_checkpoint c = { .model = br_base(a),
                        .optim = adam_a,
                        .step = 9007199254740993,
                        .rng = true,
                        .n_metadata = 1,
                        .metadata = &(br_metadata){ "task", "demo" } };
    br_random_u32();
    cr_assert(br_checkpoint_save(PATH, &c), "%s", br_error_message());
    uint64_t next = br_random_u64();
    step(a, adam_a);

    br_checkpoint d = { .model = br_base(b), .optim = adam_b, .rng = true };
    cr_assert(br_checkpoint_load(PATH, &d), "%s", br_error_message());
    cr_assert_eq(d.step, 9007199254740993);
    cr_assert_eq(br_random_u64(), next);
    cr_assert(same(b->counts, br_full(BR_SHAPE(3), 0.5, BR_I64)));
    step(b, adam_b); /* equal only if the state was restored, too */
    cr_assert(same(a->weight, b->weight) && same(a->bias, b->bias));

    br_safetensors *file = br_safetensors_open(PATH, NULL);
    cr_assert_str_eq(br_safetensors_metadata(file, "task"), "demo");
    cr_assert_str_eq(br_safetensors_metadata(file, "brasa.parts"), "model optim rng");
    cr_assert(br_safetensors_has(file, "model/tied") && br_safetensors_has(file, "model/counts"));
    cr_assert(br_safetensors_has(file, "optim/weight.exp_avg"));
    cr_assert(br_checkpoint_verify(file));
    br_safetensors_close(file);
    br_optim_free(adam_a);
    br_optim_free(adam_b);
    br_module_free(a);
    br_module_free(b);
}

Test(checkpoint, a_list_of_all_tensors_loads_a_model)
{
    net *a = net_new(1, 2), *b = net_new(2, 2);
    br_named_list *state = br_state_dict(br_base(a));
    cr_assert(br_safetensors_save(PATH, state, 0, NULL));
    br_named_list_free(state);
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    br_scope *scope = br_scope_begin();
    br_named_list *all = br_safetensors_all(file);
    br_scope_end(scope);
    br_safetensors_close(file);
    cr_assert_eq(all->count, 4);
    cr_assert(br_load_state_dict(br_base(b), all, true, NULL), "%s", br_error_message());
    br_named_list_free(all);
    cr_assert(same(a->weight, b->weight) && same(a->bias, b->bias));
    check_fails(br_safetensors_all(NULL), "file is NULL");
    br_module_free(a);
    br_module_free(b);
}

/* ---- Changed bits ---------------------------------------------------------------------------- */

Test(checkpoint, a_flipped_bit_is_named)
{
    save_one(false);
    size_t n;
    char *bytes = files_read(PATH, &n);
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    size_t end = n;
    for (int64_t i = br_safetensors_count(file); i-- > 0;) {
        end -= br_safetensors_bytes(file, i);
        bytes[end] ^= 0x10;
        files_write(files_path("flipped"), bytes, n);
        bytes[end] ^= 0x10;
        char message[256];
        snprintf(message, sizeof message,
                 "checkpoint: %s: tensor \"%s\" does not match its checksum", files_path("flipped"),
                 br_safetensors_name(file, i));
        check_fails(br_checkpoint_load(files_path("flipped"), &(br_checkpoint){ 0 }), message);
    }
    br_safetensors_close(file);
    bytes[n - 1] ^= 1;
    bytes[n - 30] ^= 1;
    files_write(PATH, bytes, n);
    check_fails(br_checkpoint_load(PATH, &(br_checkpoint){ 0 }),
                "2 tensors do not match their checksums: \"");
    free(bytes);
}

/* Checks that loading a file with any single bit flipped fails and changes nothing. */
static void flip_bits(size_t from, size_t stride)
{
    size_t n;
    char *bytes = files_read(PATH, &n);
    net *model = net_new(3, 2);
    br_optim *optim = br_adam(br_base(model), NULL);
    br_checkpoint c = { .model = br_base(model), .optim = optim, .step = -1 };
    FILE *f = fopen(PATH, "r+b");
    for (size_t bit = from; bit < 8 * n; bit += stride) {
        size_t i = bit / 8;
        int flipped = (unsigned char)bytes[i] ^ 1 << bit % 8;
        cr_assert(fseek(f, (long)i, SEEK_SET) == 0 && fputc(flipped, f) == flipped);
        cr_assert_eq(fflush(f), 0);
        cr_assert_not(br_checkpoint_load(PATH, &c), "bit %zu of byte %zu ('%c') can be flipped",
                      bit % 8, i, bytes[i]);
        cr_assert_eq(br_error_code(), BR_ERROR_FORMAT, "%s", br_error_message());
        br_clear_error();
        cr_assert(fseek(f, (long)i, SEEK_SET) == 0 && fputc(bytes[i], f) != EOF);
    }
    fclose(f);
    free(bytes);
    cr_assert_eq(c.step, -1);
    cr_assert_eq(at(model->weight, 3), 3);
    cr_assert(br_checkpoint_load(PATH, &c), "%s", br_error_message());
    cr_assert_neq(at(model->weight, 3), 3);
    br_optim_free(optim);
    br_module_free(model);
}

Test(checkpoint, every_bit_counts)
{
    save_one(false);
    flip_bits(0, 1);
}

Test(checkpoint, every_bit_counts_with_a_generator)
{
    save_one(true);
    flip_bits(3, 37);
}

/* ---- Intact files that do not match ---------------------------------------------------------- */

/* Saves the file again with one metadata value changed (NULL: removed) and a correct checksum of
 * the metadata, which io/checkpoint.c defines. */
static void change_metadata(const char *key, const char *value)
{
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    br_named_list *tensors = br_safetensors_all(file);
    br_metadata metadata[64];
    int64_t n = 0;
    uint64_t sum = 0;
    for (int64_t i = 0; i < br_safetensors_metadata_count(file); i++) { /* sorted by key */
        const char *k = br_safetensors_metadata_key(file, i);
        const char *v = strcmp(k, key) == 0 ? value : br_safetensors_metadata(file, k);
        if (!v || strcmp(k, "brasa.xxh3") == 0)
            continue;
        metadata[n++] = (br_metadata){ k, v };
        sum = XXH3_64bits_withSeed(k, strlen(k) + 1, sum);
        sum = XXH3_64bits_withSeed(v, strlen(v) + 1, sum);
    }
    char digits[17];
    snprintf(digits, sizeof digits, "%016llx", (unsigned long long)sum);
    metadata[n++] = (br_metadata){ "brasa.xxh3", digits };
    cr_assert(br_safetensors_save(PATH, tensors, n, metadata));
    br_named_list_free(tensors);
    br_safetensors_close(file);
}

Test(checkpoint, mismatched_files_change_nothing)
{
    save_one(true);
    net *model = net_new(3, 2), *other = net_new(3, 4);
    br_optim *adam = br_adam(br_base(model), NULL), *sgd = br_sgd(br_base(model), NULL);
    br_manual_seed(1);
    uint64_t next = br_random_u64();
    br_manual_seed(1);

    br_checkpoint c = { .model = br_base(other), .rng = true, .step = -1 };
    check_fails(br_checkpoint_load(PATH, &c), "mismatched in shape or dtype: weight");
    c = (br_checkpoint){ .model = br_base(model), .optim = sgd, .rng = true, .step = -1 };
    check_fails(br_checkpoint_load(PATH, &c), "param_groups.0.momentum is missing, but sgd has");
    c.optim = adam;
    change_metadata("brasa.step", "12x");
    check_fails(br_checkpoint_load(PATH, &c), "\"brasa.step\" is not an integer");
    change_metadata("brasa.step", "9223372036854775808");
    check_fails(br_checkpoint_load(PATH, &c), "\"brasa.step\" is not an integer");
    change_metadata("brasa.step", "7");
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    char rng[8 * BR_RNG_STATE_WORDS + 1];
    strcpy(rng, br_safetensors_metadata(file, "brasa.rng"));
    br_safetensors_close(file);
    change_metadata("brasa.rng", rng + 1);
    check_fails(br_checkpoint_load(PATH, &c), "\"brasa.rng\" is not a generator state");
    char bad[sizeof rng];
    memset(bad, 'f', sizeof bad - 1);
    bad[sizeof bad - 1] = 0;
    change_metadata("brasa.rng", bad);
    check_fails(br_checkpoint_load(PATH, &c), "set_rng_state");
    change_metadata("brasa.rng", rng);

    cr_assert_eq(c.step, -1);
    cr_assert_eq(at(model->weight, 0), 3);
    cr_assert_eq(br_random_u64(), next);
    cr_assert(br_checkpoint_load(PATH, &c), "%s", br_error_message());
    cr_assert_eq(c.step, 7);
    br_optim_free(adam);
    br_optim_free(sgd);
    br_module_free(model);
    br_module_free(other);
}

Test(checkpoint, parts)
{
    net *model = net_new(3, 2);
    br_optim *adam = br_adam(br_base(model), NULL);
    br_checkpoint c = { .model = br_base(model), .step = 1 };
    cr_assert(br_checkpoint_save(PATH, &c));
    c.optim = adam;
    check_fails(br_checkpoint_load(PATH, &c), "was saved without optim");
    c.optim = NULL;
    c.rng = true;
    check_fails(br_checkpoint_load(PATH, &c), "was saved without the generator's state");
    c = (br_checkpoint){ .optim = adam }; /* before its first step, when it has no tensors */
    cr_assert(br_checkpoint_save(PATH, &c));
    cr_assert(br_checkpoint_load(PATH, &c), "%s", br_error_message());
    c.model = br_base(model);
    check_fails(br_checkpoint_load(PATH, &c), "was saved without model");
    cr_assert(br_checkpoint_save(PATH, &(br_checkpoint){ .step = -5 }));
    c = (br_checkpoint){ 0 };
    cr_assert(br_checkpoint_load(PATH, &c));
    cr_assert_eq(c.step, -5);
    br_optim_free(adam);
    br_module_free(model);
}

Test(checkpoint, checksums_and_tensors_must_agree)
{
    save_one(false);
    br_safetensors *file = br_safetensors_open(PATH, NULL);
    char sum[17];
    strcpy(sum, br_safetensors_metadata(file, "brasa.xxh3/model/bias"));
    br_safetensors_close(file);
    change_metadata("brasa.xxh3/model/bias", NULL);
    check_fails(br_checkpoint_load(PATH, &(br_checkpoint){ 0 }),
                "tensor \"model/bias\" has no checksum");
    save_one(false);
    change_metadata("brasa.xxh3/model/bias", "0000000000000000");
    check_fails(br_checkpoint_load(PATH, &(br_checkpoint){ 0 }),
                "tensor \"model/bias\" does not match its checksum");

    br_tensor *x = br_ones(BR_SHAPE(1), BR_F32);
    cr_assert(
        br_safetensors_save(PATH, &(br_named_list){ 1, &(br_named_tensor){ "x", x } }, 0, NULL));
    check_fails(br_checkpoint_load(PATH, &(br_checkpoint){ 0 }),
                "has no checksums: br_checkpoint_save() did not write it");
    file = br_safetensors_open(PATH, NULL);
    check_fails(br_checkpoint_verify(file), "has no checksums");
    check_fails(br_checkpoint_verify(NULL), "file is NULL");
    br_safetensors_close(file);

    /* Checksums without tensors: only the metadata's is correct. */
    cr_assert(
        br_safetensors_save(PATH, &(br_named_list){ 0 }, 2,
                            (br_metadata[]){ { "brasa.xxh3", "0" }, { "brasa.xxh3/x", "0" } }));
    change_metadata("", NULL);
    check_fails(br_checkpoint_load(PATH, &(br_checkpoint){ 0 }), "of tensors that are missing");
    br_scope *scope = br_scope_begin();
    br_named_list one = { 1, &(br_named_tensor){ "x", br_ones(BR_SHAPE(2), BR_F32) } };
    cr_assert(br_safetensors_save(PATH, &one, 3,
                                  (br_metadata[]){ { "brasa.xxh3", "0" },
                                                   { "brasa.xxh3/x", "0" },
                                                   { "brasa.xxh3/y", "0" } }));
    br_scope_end(scope);
    change_metadata("", NULL);
    check_fails(br_checkpoint_load(PATH, &(br_checkpoint){ 0 }), "of tensors that are missing");
    cr_assert(br_safetensors_save(PATH, &(br_named_list){ 0 }, 1,
                                  &(br_metadata){ "brasa.xxh3", "0000000000000000" }));
    check_fails(br_checkpoint_load(PATH, &(br_checkpoint){ 0 }), "is not a checkpoint");
    save_one(false);
    change_metadata("brasa.checkpoint", "2");
    check_fails(br_checkpoint_load(PATH, &(br_checkpoint){ 0 }),
                "with an unsupported layout version");
}

Test(checkpoint, what_is_refused)
{
    br_checkpoint c = { .rng = true };
    check_fails(br_checkpoint_save(NULL, &c), "path is NULL");
    check_fails(br_checkpoint_save(PATH, NULL), "checkpoint is NULL");
    check_fails(br_checkpoint_load(NULL, &c), "path is NULL");
    check_fails(br_checkpoint_load(PATH, NULL), "checkpoint is NULL");
    check_fails(br_checkpoint_load(PATH, &c), "cannot be opened: No such file");
    c.n_metadata = 1;
    check_fails(br_checkpoint_save(PATH, &c),
                "n_metadata is 1 and metadata is NULL: n_metadata must be");
    c.metadata = &(br_metadata){ "brasa.step", "1" };
    check_fails(br_checkpoint_save(PATH, &c), "keys that begin with \"brasa.\" are reserved");
    c.metadata = &(br_metadata){ NULL, "1" };
    check_fails(br_checkpoint_save(PATH, &c), "metadata 0 has no key");
    c.n_metadata = 0;
    br_raise(BR_ERROR_STATE, "before");
    cr_assert_not(br_checkpoint_save(PATH, &c));
    cr_assert_not(br_checkpoint_load(PATH, &c));
    cr_assert_str_eq(br_error_message(), "before");
    br_clear_error();
    cr_assert_eq(files_count(), 0);
}
