/* tests/fuzz/fuzz_model_folder.c - any bytes as one file of a model folder whose other files are
 * valid: config.json, the index of the shards, or a shard. If the folder loads, the model is run.
 *
 * The first byte chooses the file, and how the folder is loaded. */
#include "tests/fuzz/folder.h"

#include <brasa/models.h>
#include <brasa/pretrained.h>

enum { CONFIG, INDEX, SHARD, N_KINDS };

/* ---- The folder ------------------------------------------------------------------------------ */

#define BERT                                                                                     \
    "{\"model_type\":\"bert\",\"vocab_size\":3,\"hidden_size\":2,\"num_hidden_layers\":1,"       \
    "\"num_attention_heads\":1,\"intermediate_size\":1,\"max_position_embeddings\":4,"           \
    "\"type_vocab_size\":1,\"pad_token_id\":0,\"hidden_act\":\"gelu\",\"architectures\":[\"Bert" \
    "Model\"]}"
#define HERE  "\":\"a.safetensors\""
#define THERE "\":\"b.safetensors\""
#define LISTED                                                          \
    "{\"metadata\":{},\"weight_map\":{\"embeddings.LayerNorm.bias" HERE \
    ",\"embeddings.LayerNorm.gamma" HERE ",\"bert.pooler.dense.bias" THERE "}}"
#define HALF                                                                                  \
    "        {\"bert.pooler.dense.bias\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[" \
    "0,4]}}"
#define DOUBLE                                                                                \
    "        {\"bert.pooler.dense.bias\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[" \
    "0,16]}}"
#define WHOLE                                                                                   \
    "        "                                                                                  \
    "{\"embeddings.LayerNorm.bias\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"  \
    "\"embeddings.LayerNorm.gamma\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}" \
    "0123456701234567"

static const fuzz_seed seeds[] = {
    SEED("\0" BERT),
    SEED("\3" BERT),
    SEED("\1" LISTED),
    SEED("\7" LISTED),
    SEED("\1{\"weight_map\":{\"embeddings.LayerNorm.bias\":\"../a\",\"x\":3}}"),
    SEED("\1{\"weight_map\":{\"embeddings.LayerNorm.bias\":\"./a.safetensors\",\"x\":\"././b."
         "safetensors\",\"pooler.dense.bias\":\"x/b.safetensors\"}}"),
    SEED("\2" HALF "abcd"),
    SEED("\2" DOUBLE "abcdefghijklmnop"),
    SEED("\5" HALF "abcd"),
};

static const char *const names[] = { "config.json", "model.safetensors.index.json", "b.safetensors",
                                     "a.safetensors" };
enum { N_FILES = sizeof names / sizeof *names };

/* Writes the header's length so that the header ends with the last brace. */
static void set_length(int fd, const uint8_t *bytes, size_t n)
{
    const uint8_t *brace = n > 8 ? memrchr(bytes + 8, '}', n - 8) : NULL;
    uint64_t length = brace ? (uint64_t)(brace - bytes) - 7 : 0;
    require(!brace || pwrite(fd, &length, sizeof length, 0) == (ssize_t)sizeof length);
}

static fuzz_folder make_folder(int kind, const uint8_t *bytes, size_t n)
{
    static const fuzz_seed sound[] = { SEED(BERT), SEED(LISTED), SEED(HALF "abcd"), SEED(WHOLE) };
    fuzz_folder f = fuzz_folder_new();
    for (int i = 0; i < N_FILES; i++) {
        const void *content = i == kind ? (const void *)bytes : sound[i].bytes;
        size_t size = i == kind ? n : sound[i].n;
        int fd = fuzz_folder_add(&f, names[i], content, size);
        if (i >= SHARD)
            set_length(fd, content, size);
    }
    return f;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Runs the model on id 0, which every model has. */
static void run(br_hf_bert *bert)
{
    br_scope *scope = br_scope_begin();
    br_tensor *ids = br_zeros(BR_SHAPE(1, 1), BR_I64);
    require_answer(br_hf_bert_forward(bert, ids, NULL));
    br_scope_end(scope);
}

/* Returns whether the folder's model is small enough to be created without its weights. */
static bool is_small(const char *path)
{
    br_auto_config *config = br_auto_config_load(path);
    int64_t layers = br_auto_config_size(config, "num_hidden_layers");
    bool small = !br_failed() && layers <= 16;
    br_clear_error();
    br_auto_config_free(config);
    return small;
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    if (n == 0)
        return;
    fuzz_folder f = make_folder(bytes[0] % N_KINDS, bytes + 1, n - 1);
    br_set_memory_limit(16 << 20);
    br_auto_model_options options = *BR_OPTIONS(
        br_auto_model, .class_name = bytes[0] & 64 ? NULL : "BertModel", .copy = bytes[0] & 128,
        .allow_missing_keys = !(bytes[0] & 4) && is_small(f.path));
    br_auto_model_report report;
    br_hf_bert *bert = br_auto_model_load(f.path, &options, &report);
    require_answer(bert);
    require(report.matched >= report.renamed && report.matched >= report.converted);
    if (bert && strcmp(br_module_class(br_base(bert)), "BertModel") == 0)
        run(bert);
    br_module_free(bert);
    br_auto_model_report_clear(&report);
    fuzz_folder_free(&f);
    require(br_live_tensors() == 0);
}

FUZZ_TARGET(model_folder)
