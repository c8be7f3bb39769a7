/* tokenizers/tokenizer_json_types.c - the type of each part of tokenizer.json. Old files do not
 * state all types, so that `tokenizers` determines them by the fields of a part, as this file does.
 */
#include "tokenizers/tokenizer_json_internal.h"

#include <string.h>

/* ---- The model ------------------------------------------------------------------------------- */

static bool is_count(const json_t *value)
{
    return json_is_integer(value) && json_integer_value(value) >= 0;
}

/* The order is that of `tokenizers`: an object that fits several models is of the first. */
static const char *model_by_fields(const json_t *model)
{
    json_t *vocab = json_object_get(model, "vocab");
    if (json_is_array(vocab))
        return "Unigram";
    if (!json_is_object(vocab))
        return NULL;
    if (json_is_array(json_object_get(model, "merges")))
        return "BPE";
    if (!json_is_string(json_object_get(model, "unk_token")))
        return NULL;
    return json_is_string(json_object_get(model, "continuing_subword_prefix")) &&
                   is_count(json_object_get(model, "max_input_chars_per_word"))
               ? "WordPiece"
               : "WordLevel";
}

/* ---- The post-processor ---------------------------------------------------------------------- */

/* `tokenizers` tells these two apart by their fields, whatever type is stated. */
static const char *ends_by_fields(const json_t *processor)
{
    if (!json_object_get(processor, "sep") || !json_object_get(processor, "cls"))
        return NULL;
    bool trims = json_is_boolean(json_object_get(processor, "trim_offsets")) &&
                 json_is_boolean(json_object_get(processor, "add_prefix_space"));
    return trims ? "RobertaProcessing" : "BertProcessing";
}

/* ---- Other parts ----------------------------------------------------------------------------- */

/* A type, and the fields by which a part without a type is recognized. */
typedef struct part_type {
    const char *part, *type;
    const char *fields[4]; /* the last is NULL */
} part_type;

/* Types that are not listed must be stated, for example those of pre-tokenizers. */
static const part_type types[] = {
    { "normalizer", "BertNormalizer", { "clean_text", "handle_chinese_chars", "lowercase" } },
    { "normalizer", "Strip", { "strip_left", "strip_right" } },
    { "normalizer", "Sequence", { "normalizers" } },
    { "normalizer", "Replace", { "pattern", "content" } },
    { "post_processor", "TemplateProcessing", { "single", "pair", "special_tokens" } },
    { "decoder", "WordPiece", { "prefix", "cleanup" } },
};

static const char *type_by_fields(const char *part, const json_t *object)
{
    for (const part_type *t = types; t < types + sizeof types / sizeof *types; t++) {
        bool has_all = strcmp(t->part, part) == 0;
        for (int i = 0; t->fields[i]; i++)
            has_all = has_all && json_object_get(object, t->fields[i]);
        if (has_all)
            return t->type;
    }
    return NULL;
}

/* ---------------------------------------------------------------------------------------------- */

const char *br__tokenizer_json_type(const char *part, const json_t *object)
{
    const json_t *stated = json_object_get(object, "type");
    const char *type = strcmp(part, "post_processor") == 0 ? ends_by_fields(object) : NULL;
    if (type || json_is_string(stated))
        return type ? type : json_string_value(stated);
    if (strcmp(part, "model") == 0)
        return stated ? NULL : model_by_fields(object);
    return type_by_fields(part, object);
}
