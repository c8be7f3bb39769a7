/* tests/fuzz/fuzz_settings.c - any bytes as a file of settings: generation_config.json for
 * `brasa generate`; and for sentence embeddings modules.json, sentence_bert_config.json, the
 * configuration of a module, config_sentence_transformers.json and tokenizer_config.json.
 *
 * The first byte chooses the file. */
#include "pretrained/sentence_files.h"
#include "tests/fuzz/folder.h"

#include <brasa/pretrained.h>

static const char *const names[] = { "generation_config.json", "config.json",
                                     "modules.json",           "sentence_bert_config.json",
                                     "1_Pooling/config.json",  "config_sentence_transformers.json",
                                     "tokenizer_config.json" };
enum { MODULES_FILE = 2, POOLING_FILE = 4, N_NAMES = sizeof names / sizeof *names };

#define MODULES                                                                                  \
    "[{\"idx\":0,\"name\":\"0\",\"path\":\"\",\"type\":\"sentence_transformers.models."          \
    "Transformer\"},{\"idx\":1,\"name\":\"1\",\"path\":\"1_Pooling\",\"type\":\"sentence_transf" \
    "ormers.models.Pooling\"},{\"idx\":2,\"name\":\"2\",\"path\":\"2_Normalize\",\"type\":\"sen" \
    "tence_transformers.models.Normalize\"}]"
#define POOLING "{\"word_embedding_dimension\":4,\"pooling_mode_mean_tokens\":true}"

static const fuzz_seed seeds[] = {
    SEED("\0{\"max_length\":9,\"do_sample\":true,\"top_k\":3,\"top_p\":0.5,\"temperature\":2,"
         "\"eos_token_id\":[1,2],\"suppress_tokens\":[3],\"bos_token_id\":null}"),
    SEED("\0{\"max_new_tokens\":5,\"min_length\":1,\"no_repeat_ngram_size\":2,\"repetition_penalty"
         "\":1.5,\"num_beams\":1,\"unknown\":0}"),
    SEED("\1{\"model_type\":\"bert\",\"max_position_embeddings\":12,\"max_length\":20}"),
    SEED("\2" MODULES),
    SEED("\3{\"max_seq_length\":8,\"do_lower_case\":false}"),
    SEED("\4" POOLING),
    SEED("\4{\"word_embedding_dimension\":4,\"pooling_mode_cls_token\":true,\"pooling_mode_"
         "weightedmean_tokens\":true,\"include_prompt\":false}"),
    SEED("\5{\"prompts\":{\"query\":\"q: \"},\"default_prompt_name\":\"query\",\"similarity_fn_name"
         "\":\"cosine\"}"),
    SEED("\6{\"model_max_length\":1e30,\"truncation_side\":\"left\"}"),
};

static void read_generation(const char *path)
{
    br_generate_options o = br_generate_defaults();
    br_generation_config *config = br_generation_config_load(path, NULL);
    require_answer(config);
    if (config) {
        bool ok = br_generation_config_apply(config, 3, &o);
        require_answer(ok);
        require(!ok || (o.n_eos >= 0 && o.temperature > 0 && o.max_new_tokens > 0));
        require(br_generation_config_unknown(config) != NULL);
    }
    br_generation_config_free(config);
}

static void read_sentence(const char *path)
{
    br_sentence_settings s;
    const char *prompt;
    br_sentence_transformer_options o = br_sentence_transformer_defaults();
    bool ok = br__sentence_read(&s, path, &o);
    require_answer(ok);
    require(!ok || (s.n_modes > 0 && s.n_modes <= BR_MAX_POOLINGS && s.max_length >= 0));
    if (ok)
        require_answer(br__prompts_choose(&s.prompts, NULL, "query", &prompt));
    br__sentence_free(&s);
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    if (n == 0)
        return;
    static const fuzz_seed sound[N_NAMES] = {
        [MODULES_FILE] = SEED(MODULES), [POOLING_FILE] = SEED(POOLING)
    };
    int chosen = bytes[0] % N_NAMES;
    br_set_memory_limit(16 << 20);
    fuzz_folder f = fuzz_folder_new();
    for (int i = MODULES_FILE; chosen >= MODULES_FILE && i <= POOLING_FILE; i++)
        if (i != chosen && sound[i].n > 0)
            fuzz_folder_add(&f, names[i], sound[i].bytes, sound[i].n);
    fuzz_folder_add(&f, names[chosen], bytes + 1, n - 1);
    if (chosen < MODULES_FILE)
        read_generation(f.path);
    if (chosen > 0)
        read_sentence(f.path);
    fuzz_folder_free(&f);
}

FUZZ_TARGET(settings)
