/* tokenizers/class_parts.c - the parts of tokenizer.json that transformers 5 replaces by those of
 * the class LlamaTokenizer or GemmaTokenizer. */
#include "tokenizers/auto_tokenizer_internal.h"

#include <jansson.h>
#include <string.h>

static const char op[] = "auto_tokenizer";

/* The decoder of both classes, without its end: U+2581 becomes a space, and byte tokens become
 * characters. STRIP also removes the space that was put before the text. */
#define DECODER                                                                     \
    "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [{\"type\": \"Replace\", " \
    "\"pattern\": {\"String\": \"\xe2\x96\x81\"}, \"content\": \" \"}, "            \
    "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}"
#define STRIP ", {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}"
#define LLAMA(scheme)                                                         \
    "{\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Metaspace\", "    \
    "\"replacement\": \"\xe2\x96\x81\", \"prepend_scheme\": \"" scheme "\", " \
    "\"split\": false}, " DECODER

static const char gemma[] = "{\"normalizer\": {\"type\": \"Replace\", \"pattern\": "
                            "{\"String\": \" \"}, \"content\": \"\xe2\x96\x81\"}, "
                            "\"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": "
                            "{\"String\": \" \"}, \"behavior\": \"MergedWithPrevious\", "
                            "\"invert\": false}, " DECODER "]}}";

/* Returns the parts of LlamaTokenizer, which depend on tokenizer_config.json. */
static const char *llama_parts(const br_side_files *s)
{
    if (json_is_false(json_object_get(s->config, "add_prefix_space")))
        return LLAMA("never") "]}}";
    return json_is_true(json_object_get(s->config, "legacy")) ? LLAMA("always") STRIP "]}}"
                                                              : LLAMA("first") STRIP "]}}";
}

/* With these model types, transformers follows tokenizer.json whatever the class is. */
static bool follows_file(const br_side_files *s)
{
    static const char *const types[] = { "mistral", "phi3", "granite", "modernbert" };
    const char *type = json_string_value(json_object_get(s->model, "model_type"));
    for (size_t i = 0; type && i < sizeof types / sizeof *types; i++)
        if (strcmp(type, types[i]) == 0)
            return true;
    return false;
}

/* Other models than BPE with byte fallback, such as the byte-level ones of Llama 3 and DeepSeek,
 * are read as they are, too. */
static bool falls_back_to_bytes(const json_t *root)
{
    return json_is_true(json_object_get(json_object_get(root, "model"), "byte_fallback"));
}

bool br__class_change_parts(json_t *root, void *loader)
{
    static const char *const llama_tokens[] = { "<s>", "</s>", "<unk>", NULL, NULL, NULL, NULL };
    static const char *const gemma_tokens[] = { "<bos>", "<eos>", "<unk>", NULL,
                                                "<pad>", NULL,    "<mask>" };
    br_tokenizer_loader *l = loader;
    const br_side_files *s = &l->files;
    const bool is_llama = br__class_is(s, "LlamaTokenizer");
    if (!(is_llama || br__class_is(s, "GemmaTokenizer")) || follows_file(s) ||
        !falls_back_to_bytes(root))
        return true;
    l->own_tokens = is_llama ? llama_tokens : gemma_tokens;
    json_t *parts = json_loads(is_llama ? llama_parts(s) : gemma, 0, NULL);
    const bool ok = parts && json_object_update(root, parts) == 0;
    json_decref(parts);
    return ok || br_fail(BR_ERROR_MEMORY, op, "cannot allocate memory for tokenizer.json");
}
