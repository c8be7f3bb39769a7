/* tokenizers/tokenizer_config_keys.c - the keys of a tokenizer's side files, and the classes of
 * tokenizers. */
#include "tokenizers/tokenizer_config.h"

#include <string.h>

bool br__key_ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* ---- Keys ------------------------------------------------------------------------------------ */

typedef struct key_effect {
    const char *key;
    br_key_effect effect;
} key_effect;

/* All keys that transformers 5, and the versions before it, write for these tokenizers. */
static const key_effect keys[] = {
    { "tokenizer_class", BR_KEY_HONOURED },
    { "do_lower_case", BR_KEY_HONOURED },
    { "keep_accents", BR_KEY_HONOURED },
    { "strip_accents", BR_KEY_HONOURED },
    { "tokenize_chinese_chars", BR_KEY_HONOURED },
    { "add_prefix_space", BR_KEY_HONOURED },
    { "add_bos_token", BR_KEY_HONOURED },
    { "add_eos_token", BR_KEY_HONOURED },
    { "extra_ids", BR_KEY_HONOURED },
    { "bos_token", BR_KEY_HONOURED },
    { "eos_token", BR_KEY_HONOURED },
    { "unk_token", BR_KEY_HONOURED },
    { "sep_token", BR_KEY_HONOURED },
    { "pad_token", BR_KEY_HONOURED },
    { "cls_token", BR_KEY_HONOURED },
    { "mask_token", BR_KEY_HONOURED },
    { "additional_special_tokens", BR_KEY_HONOURED },
    { "extra_special_tokens", BR_KEY_HONOURED },
    { "model_specific_special_tokens", BR_KEY_HONOURED },
    { "added_tokens_decoder", BR_KEY_HONOURED },
    { "split_special_tokens", BR_KEY_HONOURED },
    { "clean_up_tokenization_spaces", BR_KEY_HONOURED },
    { "auto_map", BR_KEY_CHECKED },
    { "word_tokenizer_type", BR_KEY_CHECKED },
    { "subword_tokenizer_type", BR_KEY_CHECKED },
    { "init_inputs", BR_KEY_CHECKED },
    { "fast_tokenizer_files", BR_KEY_CHECKED },
    { "backend", BR_KEY_HARMLESS },
    { "chat_template", BR_KEY_HARMLESS },
    { "do_basic_tokenize", BR_KEY_HARMLESS },
    { "errors", BR_KEY_HARMLESS },
    { "files_loaded", BR_KEY_HARMLESS },
    { "is_local", BR_KEY_HARMLESS },
    { "legacy", BR_KEY_HARMLESS },
    { "local_files_only", BR_KEY_HARMLESS },
    { "max_len", BR_KEY_HARMLESS },
    { "max_length", BR_KEY_HARMLESS },
    { "merges_file", BR_KEY_HARMLESS },
    { "model_input_names", BR_KEY_HONOURED },
    { "model_max_length", BR_KEY_HARMLESS },
    { "name_or_path", BR_KEY_HARMLESS },
    { "never_split", BR_KEY_HARMLESS },
    { "pad_to_multiple_of", BR_KEY_HARMLESS },
    { "pad_token_type_id", BR_KEY_HARMLESS },
    { "padding_side", BR_KEY_HARMLESS },
    { "processor_class", BR_KEY_HARMLESS },
    { "response_schema", BR_KEY_HARMLESS },
    { "response_template", BR_KEY_HARMLESS },
    { "sp_model_kwargs", BR_KEY_HARMLESS },
    { "special_tokens_map_file", BR_KEY_HARMLESS },
    { "stride", BR_KEY_HARMLESS },
    { "tokenizer_file", BR_KEY_HARMLESS },
    { "transformers_version", BR_KEY_HARMLESS },
    { "trim_offsets", BR_KEY_HARMLESS },
    { "truncation_side", BR_KEY_HARMLESS },
    { "truncation_strategy", BR_KEY_HARMLESS },
    { "unk_id", BR_KEY_HARMLESS },
    { "use_fast", BR_KEY_HARMLESS },
    { "verbose", BR_KEY_HARMLESS },
    { "vocab_file", BR_KEY_HARMLESS },
};

br_key_effect br__tokenizer_key_effect(const char *key)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].key, key) == 0)
            return keys[i].effect;
    return br__key_ends_with(key, "_token") ? BR_KEY_HONOURED : BR_KEY_UNKNOWN;
}

/* ---- Classes --------------------------------------------------------------------------------- */

typedef struct named_family {
    const char *name;
    br_tokenizer_family family;
} named_family;

/* The classes without "Fast" at the end. All others of transformers that read a tokenizer.json
 * follow it here. */
static const named_family classes[] = {
    { "BertTokenizer", BR_FAMILY_WORDS },       { "ConvBertTokenizer", BR_FAMILY_WORDS },
    { "DistilBertTokenizer", BR_FAMILY_WORDS }, { "ElectraTokenizer", BR_FAMILY_WORDS },
    { "LayoutLMTokenizer", BR_FAMILY_WORDS },   { "LxmertTokenizer", BR_FAMILY_WORDS },
    { "MobileBertTokenizer", BR_FAMILY_WORDS }, { "SqueezeBertTokenizer", BR_FAMILY_WORDS },
    { "GPT2Tokenizer", BR_FAMILY_BYTES },       { "T5Tokenizer", BR_FAMILY_PIECES },
    { "PreTrainedTokenizer", BR_FAMILY_FILE },  { "TokenizersBackend", BR_FAMILY_FILE },
    { "AlbertTokenizer", BR_FAMILY_FILE },      { "BartTokenizer", BR_FAMILY_FILE },
    { "CamembertTokenizer", BR_FAMILY_FILE },   { "DebertaTokenizer", BR_FAMILY_FILE },
    { "DebertaV2Tokenizer", BR_FAMILY_FILE },   { "FunnelTokenizer", BR_FAMILY_FILE },
    { "MPNetTokenizer", BR_FAMILY_FILE },       { "MT5Tokenizer", BR_FAMILY_FILE },
    { "RetriBertTokenizer", BR_FAMILY_FILE },   { "RobertaTokenizer", BR_FAMILY_FILE },
    { "XLMRobertaTokenizer", BR_FAMILY_FILE },  { "Qwen2Tokenizer", BR_FAMILY_FILE },
    { "GPTNeoXTokenizer", BR_FAMILY_FILE },     { "LlamaTokenizer", BR_FAMILY_FILE },
    { "GemmaTokenizer", BR_FAMILY_FILE },
};

/* The model_types of transformers that no family of models (pretrained/) has. */
static const named_family model_types[] = {
    { "convbert", BR_FAMILY_WORDS },    { "distilbert", BR_FAMILY_WORDS },
    { "electra", BR_FAMILY_WORDS },     { "ernie", BR_FAMILY_WORDS },
    { "layoutlm", BR_FAMILY_WORDS },    { "megatron-bert", BR_FAMILY_WORDS },
    { "mobilebert", BR_FAMILY_WORDS },  { "nomic_bert", BR_FAMILY_WORDS },
    { "squeezebert", BR_FAMILY_WORDS }, { "codegen", BR_FAMILY_BYTES },
    { "gpt_neo", BR_FAMILY_BYTES },     { "gptj", BR_FAMILY_BYTES },
    { "mt5", BR_FAMILY_PIECES },        { "switch_transformers", BR_FAMILY_PIECES },
};

static bool find_family(const named_family *list, size_t n, const char *name, size_t length,
                        br_tokenizer_family *family)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(list[i].name) == length && strncmp(list[i].name, name, length) == 0) {
            *family = list[i].family;
            return true;
        }
    return false;
}

bool br__tokenizer_class_family(const char *name, br_tokenizer_family *family)
{
    size_t length = strlen(name) - (br__key_ends_with(name, "Fast") ? strlen("Fast") : 0);
    return find_family(classes, sizeof classes / sizeof *classes, name, length, family);
}

bool br__tokenizer_model_family(const char *type, br_tokenizer_family *family)
{
    const char *class = br__tokenizer_class_of_type(type);
    return class ? br__tokenizer_class_family(class, family)
                 : find_family(model_types, sizeof model_types / sizeof *model_types, type,
                               strlen(type), family);
}
