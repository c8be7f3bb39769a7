/* tests/fuzz/fuzz_auto_config.c - any bytes as a config.json: loads it, reads values of each type,
 * and creates models' configurations from it. */
#include "tests/fuzz/fuzz.h"

#include <brasa/models.h>

static const fuzz_seed seeds[] = {
    SEED("{}"),
    SEED(
        "{\"model_type\":\"bert\",\"hidden_size\":12,\"num_attention_heads\":4,\"vocab_size\":11}"),
    SEED("{\"model_type\":\"gpt2\",\"n_embd\":12,\"hidden_size\":12,\"hidden_act\":\"relu\"}"),
    SEED("{\"model_type\":\"t5\",\"num_layers\":3,\"num_decoder_layers\":null,\"d_kv\":1e-3}"),
    SEED("{\"num_labels\":2,\"id2label\":{\"0\":\"\\u00e9\",\"1\":\"\xc3\xa9\"},\"a\":[1,\"x\","
         "null]}"),
    SEED(" {\"architectures\" : [\"A\"], \"a\":{\"b\":[[],{}]}, \"hidden_act\":\"gelu\\n\"}\n"),
};

static void ask_list(const br_auto_config *config, const char *key)
{
    int64_t n = br_auto_config_list_size(config, key);
    require_answer(n >= 0);
    for (int64_t i = 0; i < n && i < 20; i++) {
        const char *text = br_auto_config_list_string(config, key, i);
        require_answer(text);
        br_auto_config_list_integer(config, key, i);
        br_clear_error();
    }
}

static void ask(const br_auto_config *config, const char *key)
{
    require_answer(br_auto_config_size(config, key) > 0);
    require_answer(br_auto_config_string(config, key));
    require_answer(br_auto_config_choice(config, key, BR_CHOICES("gelu", "relu")) >= 0);
    double p = br_auto_config_probability(config, key);
    require_answer(p >= 0 && p <= 1);
    double number = br_auto_config_number(config, key);
    require_answer(number - number == 0);
    br_auto_config_integer(config, key);
    br_clear_error();
    br_auto_config_bool(config, key);
    br_clear_error();
    ask_list(config, key);
}

static void ask_labels(const br_auto_config *config)
{
    for (int64_t id = -1; id < 5; id++) {
        char *label = br_auto_config_label(config, id);
        require_answer(label);
        br_free(label);
    }
}

/* Checks that a model's configuration is valid, or all zero with an error. */
static void fill(const br_auto_config *config)
{
    br_anatomy_config a = br_anatomy_config_from(config);
    require(br_failed() ? a.vocab_size == 0 : a.hidden_size % a.num_attention_heads == 0);
    require(br_failed() == (a.num_labels == 0));
    br_clear_error();
    br_architecture_config b = br_architecture_config_from(config);
    require(a.hidden_size == b.hidden_size && a.num_hidden_layers == b.num_hidden_layers);
    br_clear_error();
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    static const char *const keys[] = {
        "vocab_size", "hidden_size",        "n_embd",        "num_layers", "hidden_act",
        "num_labels", "num_decoder_layers", "architectures", "id2label",   "a",
    };
    char path[64];
    int fd = fuzz_file(bytes, n, path);
    br_auto_config *config = br_auto_config_load(path);
    close(fd);
    require_answer(config);
    if (!config)
        return;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        ask(config, keys[i]);
    ask_labels(config);
    fill(config);
    br_auto_config_free(config);
}

FUZZ_TARGET(auto_config)
