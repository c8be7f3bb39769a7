/* tests/io/test_allocations.c - runs every file reader with each allocation of the process failing
 * in turn, including those of jansson and the C library. The reader must read the file correctly or
 * report an error.
 *
 * A new reader needs a function that adds what it read to a digest, and a line in `readers`. */
#include "tests/allocations.h"

#include "tests/io/digests.h"
#include "tests/io/files.h"

#include <brasa/brasa.h>
#include <brasa/check.h>
#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>
#include <utf8proc.h>
#include <xxhash.h>

TestSuite(allocations, .init = files_begin, .fini = files_end);

/* ---- Files of tensors ------------------------------------------------------------------------ */

/* Names and numbers longer than jansson's initial buffers. */
static const char header[] =
    "{\"__metadata__\":{\"a name of more than sixteen bytes\":\"and its value, of which there are "
    "more than sixty-four bytes, \\u00e9 being one of two\"},"
    "\"bert.encoder.layer.0.attention.self.query.weight\":{\"dtype\":\"F32\",\"shape\":["
    "2],\"data_offsets\":[0,8],\"unknown\":[0.12345678901234567890123456789012345678,1e-300]},"
    "\"h\":{\"dtype\":\"BF16\",\"shape\":[1,1,2],\"data_offsets\":[8,12]},"
    "\"z\":{\"dtype\":\"F64\",\"shape\":[0,100000000000000007],\"data_offsets\":[12,12]}}";

static bool read_safetensors(uint64_t *digest, bool copy)
{
    br_scope *scope = br_scope_begin();
    br_safetensors *file =
        br_safetensors_open(files_path("a.safetensors"), BR_OPTIONS(br_safetensors, .copy = copy));
    bool ok = file;
    for (int64_t i = 0; ok && i < br_safetensors_count(file); i++) {
        add_text(digest, br_safetensors_name(file, i));
        ok = add_tensor(digest, br_safetensors_get(file, br_safetensors_name(file, i)));
    }
    for (int64_t i = 0; ok && i < br_safetensors_metadata_count(file); i++) {
        const char *key = br_safetensors_metadata_key(file, i);
        add_text(digest, key);
        add_text(digest, br_safetensors_metadata(file, key));
    }
    br_safetensors_close(file);
    br_scope_end(scope);
    return ok;
}

static bool safetensors_mapped(uint64_t *digest)
{
    return read_safetensors(digest, false);
}

static bool safetensors_copied(uint64_t *digest)
{
    return read_safetensors(digest, true);
}

static bool gguf(uint64_t *digest)
{
    br_scope *scope = br_scope_begin();
    br_gguf *file = br_gguf_open(BRASA_TEST_DIR "/io/recorded.gguf", NULL);
    const char *text = br_gguf_string(file, "general.architecture", NULL);
    bool ok = text && add_tensor(digest, br_gguf_get(file, "q4_k", BR_F32)) &&
              add_tensor(digest, br_gguf_get(file, "float16", BR_F64));
    add_text(digest, text);
    br_gguf_close(file);
    br_scope_end(scope);
    return ok;
}

static br_module *new_model(void)
{
    br_manual_seed(7);
    br_linear *model = br_linear_new(3, 2, true);
    return model ? br_base(model) : NULL;
}

/* The reader writes the model file first, which must be complete or not exist. */
static bool model_file(uint64_t *digest)
{
    br_scope *scope = br_scope_begin();
    br_module *saved = new_model(), *loaded = new_model();
    bool ok = saved && loaded &&
              br_model_save(files_path("m.safetensors"), saved, 1,
                            (br_metadata[]){ { "a key of some length", "a value" } }) &&
              br_model_load(files_path("m.safetensors"), loaded, true, NULL) &&
              add_module(digest, loaded);
    br_module_free(saved);
    br_module_free(loaded);
    br_scope_end(scope);
    return ok;
}

static bool checkpoint(uint64_t *digest)
{
    br_scope *scope = br_scope_begin();
    br_module *model = new_model();
    br_optim *optim = model ? br_sgd(model, BR_OPTIONS(br_sgd, .lr = 0.1, .momentum = 0.9)) : NULL;
    br_checkpoint c = { .model = model, .optim = optim, .step = 3, .rng = true };
    bool ok = optim && br_checkpoint_save(files_path("c.safetensors"), &c) &&
              br_checkpoint_load(files_path("c.safetensors"), &c) && add_module(digest, model);
    add(digest, &c.step, sizeof c.step);
    br_optim_free(optim);
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

/* ---- Models ---------------------------------------------------------------------------------- */

static const char config_json[] =
    "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"hidden_size\":12,"
    "\"layer_norm_epsilon\":0.000012345678901234567890,\"activation_function\":\"gelu_new\","
    "\"id2label\":{\"0\":\"a label of more than sixteen bytes\",\"1\":\"b\"}}";

static bool config(uint64_t *digest)
{
    br_auto_config *c = br_auto_config_load(files_path("config.json"));
    br_generation_config *g = br_generation_config_load(files_path(""), "{\"max_length\":12345}");
    char *label = br_auto_config_label(c, 0);
    int64_t size = br_auto_config_size(c, "hidden_size");
    double epsilon = br_auto_config_number(c, "layer_norm_epsilon");
    const char *class = br_auto_config_list_string(c, "architectures", 0);
    char *file = br_auto_config_file_json(c), *defaults = br_auto_config_default_json(c);
    bool ok = label && class && file && defaults && g;
    add_text(digest, file);
    add_text(digest, defaults);
    br_free(file);
    br_free(defaults);
    add_text(digest, label);
    add_text(digest, class);
    add(digest, &size, sizeof size);
    add(digest, &epsilon, sizeof epsilon);
    br_free(label);
    br_generation_config_free(g);
    br_auto_config_free(c);
    return ok;
}

static const char bert_json[] =
    "{\"model_type\":\"bert\",\"vocab_size\":3,\"hidden_size\":2,\"num_hidden_layers\":1,"
    "\"num_attention_heads\":1,\"intermediate_size\":1,\"max_position_embeddings\":4,"
    "\"type_vocab_size\":1,\"pad_token_id\":0,\"hidden_act\":\"gelu\",\"architectures\":[\"Bert"
    "Model\"]}";
static const char index_json[] =
    "{\"metadata\":{},\"weight_map\":{\"embeddings.LayerNorm.bias\":\"shard1.safetensors\","
    "\"bert.pooler.dense.bias\":\"shard2.safetensors\"}}";
static const char shard1[] =
    "{\"embeddings.LayerNorm.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
static const char shard2[] =
    "{\"bert.pooler.dense.bias\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,4]}}";

static bool model_folder(uint64_t *digest)
{
    br_scope *scope = br_scope_begin();
    br_auto_model_report report;
    br_manual_seed(7);
    br_hf_bert *model = br_auto_model_load(
        files_path("folder"), BR_OPTIONS(br_auto_model, .allow_missing_keys = true), &report);
    bool ok = model && add_module(digest, br_base(model));
    br_auto_model_report_clear(&report);
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

/* Saves the model as another folder. The reader then loads that. */
static bool saved_folder(uint64_t *digest)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(7);
    char to[300];
    snprintf(to, sizeof to, "%s", files_path("saved"));
    br_hf_bert *model = br_auto_model_load(
        files_path("folder"), BR_OPTIONS(br_auto_model, .allow_missing_keys = true), NULL);
    bool ok =
        model && br_auto_model_save(to, br_base(model),
                                    BR_OPTIONS(br_auto_model_save, .from = files_path("folder")));
    br_module_free(model);
    model = ok ? br_auto_model_load(to, NULL, NULL) : NULL;
    ok = model && add_module(digest, br_base(model));
    br_module_free(model);
    br_scope_end(scope);
    return ok;
}

/* ---- Tokenizers ------------------------------------------------------------------------------ */

/* Adds the ids, word ids and decoded text of an encoding to the digest; frees the tokenizer. */
static bool use_for(uint64_t *digest, br_tokenizer *t, const char *text)
{
    br_encoding *e = t ? br_tokenizer_encode(t, &(br_text){ text, -1 }, NULL, NULL) : NULL;
    char *decoded = e ? br_tokenizer_decode(t, e->length, e->ids, false) : NULL;
    bool ok = decoded;
    if (ok) {
        add(digest, e->ids, (size_t)e->length * sizeof *e->ids);
        add(digest, e->word_ids, (size_t)e->length * sizeof *e->word_ids);
        add_text(digest, decoded);
    }
    br_free(decoded);
    br_encoding_free(e);
    br_tokenizer_free(t);
    return ok;
}

static bool use(uint64_t *digest, br_tokenizer *t)
{
    return use_for(digest, t, "time flies \xc3\xa9 the license");
}

static const char word_pieces_json[] =
    "{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":true,\"strip_accents\":null},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},\"post_processor\":{"
    "\"type\":\"TemplateProcessing\",\"single\":["
    "{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
    "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],\"pair\":["
    "{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
    "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},"
    "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":1}}],"
    "\"special_tokens\":{\"[CLS]\":{\"ids\":[1]},\"[SEP]\":{\"ids\":[2]}}},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
    "\"added_tokens\":[{\"id\":2,\"content\":\"[SEP]\",\"lstrip\":false,\"special\":true},"
    "{\"id\":9,\"content\":\"<a new token of some length>\",\"special\":false}],"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"vocab\":{\"[UNK]\":0,"
    "\"[CLS]\":1,\"[SEP]\":2,\"time\":3,\"fli\":4,\"##es\":5,\"the\":6,\"\\u00e9\":7,"
    "\"anuncommonlylongword\":8}}}";

static const char bpe_json[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<|e|>\",\"special\":true}],\"normalizer\":null,"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
    "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
    "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
    "\"vocab\":{\"<|e|>\":0,\"t\":1,\"i\":2,\"ti\":3},\"merges\":[[\"t\",\"i\"]]}}";

static const char unigram_json[] =
    "{\"added_tokens\":[{\"id\":0,\"content\":\"<u>\",\"special\":true,\"lstrip\":true}],"
    "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Precompiled\","
    "\"precompiled_charsmap\":\"BAAAAAAAAABhAA==\"},{\"type\":\"Strip\",\"strip_left\":true},"
    "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"x\"}]},"
    "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"split\":true},"
    "\"post_processor\":null,\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
    "{\"type\":\"ByteFallback\"},{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"}]},"
    "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,"
    "\"vocab\":[[\"<u>\",0],[\"t\",-1.2345678901234567890],[\"<0x41>\",-2.0],[\"ti\",-3]]}}";

static const char side_json[] =
    "{\"do_lower_case\":false,\"mask_token\":{\"content\":\"<m>\",\"lstrip\":true},"
    "\"model_max_length\":1000000000000000019884624838656}";

static bool tokenizer_json(uint64_t *digest)
{
    return use(digest, br_tokenizer_from_json(files_path("tokenizer.json")));
}

static bool tokenizer_json_bpe(uint64_t *digest)
{
    return use_for(digest, br_tokenizer_from_json(files_path("bpe.json")), "titit");
}

static bool tokenizer_json_unigram(uint64_t *digest)
{
    return use(digest, br_tokenizer_from_json(files_path("unigram.json")));
}

static bool word_pieces(uint64_t *digest)
{
    return use(digest,
               br_tokenizer_from_vocab(BRASA_TEST_DIR "/tokenizers/tokenizer_vocab.txt", NULL));
}

static bool bpe(uint64_t *digest)
{
    return use(digest, br_tokenizer_from_bpe(BRASA_TEST_DIR "/tokenizers/bpe/vocab.json",
                                             BRASA_TEST_DIR "/tokenizers/bpe/merges.txt", NULL));
}

static bool sentencepiece(uint64_t *digest)
{
    return use(digest,
               br_tokenizer_from_sentencepiece(BRASA_TEST_DIR "/tokenizers/unigram/spiece.model",
                                               BR_OPTIONS(br_sentencepiece, .extra_ids = 2)));
}

static bool tokenizer_folder(uint64_t *digest)
{
    return use(digest, br_auto_tokenizer_load(BRASA_TEST_DIR "/tokenizers/bpe", NULL));
}

static bool tokenizer_side_files(uint64_t *digest)
{
    return use(digest, br_auto_tokenizer_load(files_path("folder"), NULL));
}

/* ---- Files recorded from PyTorch ------------------------------------------------------------- */

typedef struct classifier {
    br_module base;
    br_linear *fc1, *fc2;
} classifier;

static classifier *classifier_new(void)
{
    classifier *self = br_module_new(classifier);
    self->fc1 = br_child(self, "fc1", br_linear_new(5, 8, true));
    self->fc2 = br_child(self, "fc2", br_linear_new(8, 3, true));
    return self;
}

static void classify(br_check *check, void *module)
{
    classifier *self = module;
    br_tensor *hidden = br_tanh(br_linear_forward(self->fc1, br_check_input(check, "x")));
    br_check_output(check, "0", br_linear_forward(self->fc2, hidden));
}

static bool recorded(uint64_t *digest)
{
    br_check_result result;
    classifier *self = classifier_new();
    bool ok = br_check_file(BRASA_TEST_DIR "/../examples/09_recorded_model.safetensors", self,
                            classify, &result);
    if (ok) {
        add(digest, &result.excess, sizeof result.excess);
        add_text(digest, result.where);
    }
    br_module_free(self);
    return ok;
}

/* ---- Data ------------------------------------------------------------------------------------ */

static bool token_file(uint64_t *digest)
{
    br_scope *scope = br_scope_begin();
    br_dataset *parts = br_token_file_dataset_new(
        files_path("tokens"), BR_OPTIONS(br_token_file, .length = 2, .vocab_size = 10));
    br_tensor *fields[2];
    bool ok = parts && br_dataset_get(parts, 1, fields) && add_tensor(digest, fields[0]) &&
              add_tensor(digest, fields[1]);
    br_dataset_free(parts);
    br_scope_end(scope);
    return ok;
}

/* ---- All readers ----------------------------------------------------------------------------- */

static void write_files(void)
{
    char path[512];
    files_write_safetensors(files_path("a.safetensors"), header, sizeof header - 1, 12);
    files_write(files_path("config.json"), config_json, sizeof config_json - 1);
    files_write(files_path("tokenizer.json"), word_pieces_json, sizeof word_pieces_json - 1);
    files_write(files_path("bpe.json"), bpe_json, sizeof bpe_json - 1);
    files_write(files_path("unigram.json"), unigram_json, sizeof unigram_json - 1);
    cr_assert(br_token_file_save(files_path("tokens"), 6, (int64_t[]){ 1, 2, 3, 4, 5, 6 }, 2));
    snprintf(path, sizeof path, "%s", files_path("folder"));
    cr_assert_eq(mkdir(path, 0777), 0);
    files_write(files_path("folder/config.json"), bert_json, sizeof bert_json - 1);
    files_write(files_path("folder/model.safetensors.index.json"), index_json,
                sizeof index_json - 1);
    files_write(files_path("folder/vocab.txt"), "[UNK]\nt\n", 8);
    files_write(files_path("folder/tokenizer_config.json"), side_json, sizeof side_json - 1);
    files_write(files_path("folder/added_tokens.json"), "{\"time\":2}", 10);
    files_write_safetensors(files_path("folder/shard1.safetensors"), shard1, sizeof shard1 - 1, 8);
    files_write_safetensors(files_path("folder/shard2.safetensors"), shard2, sizeof shard2 - 1, 4);
}

static void remove_folder(void)
{
    static const char *const names[] = { "config.json",        "model.safetensors.index.json",
                                         "shard1.safetensors", "shard2.safetensors",
                                         "vocab.txt",          "tokenizer_config.json",
                                         "added_tokens.json",  "" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[100];
        snprintf(name, sizeof name, "folder/%s", names[i]);
        cr_assert_eq(remove(files_path(name)), 0);
    }
}

#define READER(name) \
    {                \
#        name, name  \
    }
static const struct {
    const char *name;
    allocations_task task;
} readers[] = {
    READER(safetensors_mapped),
    READER(safetensors_copied),
    READER(gguf),
    READER(model_file),
    READER(checkpoint),
    READER(config),
    READER(model_folder),
    READER(saved_folder),
    READER(tokenizer_json),
    READER(tokenizer_json_bpe),
    READER(tokenizer_json_unigram),
    READER(word_pieces),
    READER(bpe),
    READER(sentencepiece),
    READER(tokenizer_folder),
    READER(tokenizer_side_files),
    READER(recorded),
    READER(token_file),
};

Test(allocations, readers)
{
    if (!allocations_can_fail())
        cr_skip_test("the sanitizer replaces the allocator");
    write_files();
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
        allocations_fail_in_turn(readers[i].task, readers[i].name);
    remove_folder();
}

/* ---- Allocations of libraries ---------------------------------------------------------------- */

static bool json(void)
{
    json_t *value = json_loads(config_json, 0, NULL);
    json_decref(value);
    return value;
}

static bool normal_form(void)
{
    utf8proc_uint8_t *text = utf8proc_NFC((const utf8proc_uint8_t *)"e\xcc\x81");
    free(text);
    return text;
}

static bool hash_state(void)
{
    XXH3_state_t *state = XXH3_createState();
    XXH3_freeState(state);
    return state;
}

static bool open_file(void)
{
    FILE *file = fopen(BRASA_TEST_DIR "/tokenizers/tokenizer_vocab.txt", "r");
    if (file)
        fclose(file);
    return file;
}

static bool open_folder(void)
{
    DIR *folder = opendir(BRASA_TEST_DIR "/data");
    if (folder)
        closedir(folder);
    return folder;
}

static FILE *words; /* has a buffer of its own, since without one getline() does not fail */

static bool read_line(void)
{
    char *text = NULL;
    size_t size = 0;
    rewind(words);
    bool ok = getline(&text, &size, words) > 0;
    free(text);
    return ok;
}

static bool full_path(void)
{
    char *resolved = realpath(BRASA_TEST_DIR "/../tests", NULL);
    free(resolved);
    return resolved;
}

static const struct {
    const char *name;
    bool (*call)(void);
    int least; /* the number of its allocations is at least this */
} calls[] = {
    { "jansson: json_loads", json, 20 },           { "utf8proc: utf8proc_NFC", normal_form, 1 },
    { "xxhash: XXH3_createState", hash_state, 1 }, { "C library: fopen", open_file, 1 },
    { "C library: opendir", open_folder, 1 },      { "C library: getline", read_line, 1 },
    { "C library: realpath", full_path, 1 },
};

/* Shared libraries call the replaced functions. Otherwise no allocation would fail here, and the
 * readers would not be tested with failures in libraries. jansson ignores some failures. */
Test(allocations, libraries)
{
    if (!allocations_can_fail())
        cr_skip_test("the sanitizer replaces the allocator");
    static char buffer[4096];
    words = fopen(BRASA_TEST_DIR "/tokenizers/tokenizer_vocab.txt", "r");
    cr_assert(words && setvbuf(words, buffer, _IOFBF, sizeof buffer) == 0);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        bool failed = true;
        int n = 0;
        for (; failed; n++) {
            allocations_begin(n, false);
            bool ok = calls[i].call();
            int64_t more = allocations_end(&failed);
            cr_assert(n == 0 ? failed && !ok : failed || ok, "%s: %s when allocation %d %s",
                      calls[i].name, ok ? "succeeds" : "fails", n,
                      failed ? "fails" : "does not fail");
            cr_assert_eq(more, 0, "%s: %lld blocks leak when allocation %d fails", calls[i].name,
                         (long long)more, n);
        }
        cr_assert_geq(n - 1, calls[i].least, "%s: only %d allocations fail", calls[i].name, n - 1);
    }
    fclose(words);
}

static int64_t jansson_failures;

static void *counted_malloc(size_t size)
{
    void *block = malloc(size);
    jansson_failures += !block;
    return block;
}

/* The allocations that fail in a reader include those of jansson. */
Test(allocations, jansson_in_readers)
{
    if (!allocations_can_fail())
        cr_skip_test("the sanitizer replaces the allocator");
    files_write(files_path("config.json"), config_json, sizeof config_json - 1);
    json_set_alloc_funcs(counted_malloc, free);
    allocations_fail_in_turn(config, "config");
    cr_assert_geq(jansson_failures, 20);
    json_set_alloc_funcs(malloc, free);
}

/* ---- A program's own allocation functions ---------------------------------------------------- */

static int64_t own_blocks, own_calls;

static void *own_malloc(size_t size)
{
    own_blocks++;
    own_calls++;
    return malloc(size);
}

static void own_free(void *block)
{
    own_blocks -= block != NULL;
    free(block);
}

/* jansson keeps using the allocation functions that a program has set, before and after a file is
 * read. */
Test(allocations, jansson_keeps_the_functions_of_a_program)
{
    files_write(files_path("config.json"), config_json, sizeof config_json - 1);
    for (int i = 0; i < 2; i++) {
        uint64_t digest = 0;
        json_set_alloc_funcs(own_malloc, own_free);
        own_calls = 0;
        cr_assert(config(&digest), "%s", br_error_message());
        cr_assert_gt(own_calls, 0);
        own_calls = 0;
        json_t *json = json_loads("[1, {\"a\": 2}]", 0, NULL);
        cr_assert(json && own_calls > 0);
        json_decref(json);
        cr_assert_eq(own_blocks, 0);
    }
    json_set_alloc_funcs(malloc, free);
}
