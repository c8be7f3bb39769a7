/* pretrained/gguf_config.c - writes the metadata of a GGUF file as the keys of a config.json.
 *
 * The file may be hostile. br_gguf_open() has checked its layout. This file checks the types of the
 * values that it uses, and AutoConfig checks their ranges. */
#include "pretrained/gguf_config.h"

#include "io/gguf_internal.h"
#include "io/json.h"
#include "nn/nn_internal.h"
#include "pretrained/auto_model_internal.h"
#include "pretrained/family_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "auto_config";
static const char embeddings[] = "token_embd.weight";

typedef struct reading {
    br_gguf *file;
    const br_model_family *family;
    const br_gguf_format *format;
    json_t *config;
} reading;

static bool refuse(const reading *r, const char *format, ...) BR_PRINTF(2, 3);
static bool refuse(const reading *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    br__refuse_file(op, r->file->path, format, args);
    va_end(args);
    return false;
}

static bool has(const reading *r, const char *key)
{
    return br_gguf_metadata_type(r->file, key) != NULL;
}

/* ---- The architecture ------------------------------------------------------------------------ */

static const br_model_family *family_of(const char *architecture)
{
    const br_model_family *family;
    for (int i = 0; (family = br_model_family_at(i)); i++)
        if (family->gguf && strcmp(family->gguf->architecture, architecture) == 0)
            return family;
    return NULL;
}

/* Sets the error that lists the architectures. */
static bool refuse_architecture(const reading *r, const char *found)
{
    const br_model_family *family;
    br__text known = { 0 };
    for (int i = 0; (family = br_model_family_at(i)); i++)
        if (family->gguf)
            br__text_add(&known, "%s\"%s\"", known.length > 0 ? ", " : "",
                         family->gguf->architecture);
    if (!br_failed())
        refuse(r, "general.architecture is \"%s\", must be one of %s", br_printable(found),
               known.data);
    br_free(known.data);
    return false;
}

static bool find_format(reading *r)
{
    const char *name = br_gguf_string(r->file, "general.architecture", NULL);
    if (!name)
        return false;
    r->family = family_of(name);
    if (!r->family)
        return refuse_architecture(r, name);
    r->format = r->family->gguf;
    return !has(r, "split.count") || br_gguf_integer(r->file, "split.count") == 1 || br_failed() ||
           refuse(r, "split.count is %" PRId64 ", must be 1: join the parts with llama-gguf-split",
                  br_gguf_integer(r->file, "split.count"));
}

/* ---- Setting keys ---------------------------------------------------------------------------- */

static bool fail_memory(const reading *r)
{
    br__fail_file(BR_ERROR_MEMORY, op, r->file->path, "cannot allocate memory for the metadata");
    return false;
}

/* Sets a key, or the key after the dot of the object that the part before it names. Takes ownership
 * of `value`, which is NULL if its allocation failed. */
static bool set(const reading *r, const char *key, json_t *value)
{
    const char *dot = strchr(key, '.');
    char outer[64];
    if (!dot)
        return json_object_set_new(r->config, key, value) == 0 || fail_memory(r);
    snprintf(outer, sizeof outer, "%.*s", (int)(dot - key), key);
    json_t *object = json_object_get(r->config, outer);
    if (!object && json_object_set_new(r->config, outer, json_object()) == 0)
        object = json_object_get(r->config, outer);
    return json_object_set_new(object, dot + 1, value) == 0 || fail_memory(r);
}

/* Returns a value for json_decref(). Returns NULL and an error if its type is not `type` or if
 * allocation fails. */
static json_t *value_of(const reading *r, const char *key, br_gguf_type_needed type)
{
    json_t *value = NULL;
    if (type == BR_GGUF_NEEDS_INTEGER) {
        value = json_integer(br_gguf_integer(r->file, key));
    } else if (type == BR_GGUF_NEEDS_BOOL) {
        value = json_boolean(br_gguf_bool(r->file, key));
    } else if (type == BR_GGUF_NEEDS_STRING) {
        const char *text = br_gguf_string(r->file, key, NULL);
        value = text ? json_string(text) : NULL;
        if (text && !value)
            refuse(r, "metadata \"%s\" is not UTF-8", br_printable(key));
    } else {
        double x = br_gguf_number(r->file, key);
        value = json_real(x);
        if (!value && !br_failed())
            refuse(r, "metadata \"%s\" is %g, must be a finite number", br_printable(key), x);
    }
    if (!br_failed() && value)
        return value;
    json_decref(value);
    if (!br_failed())
        fail_memory(r);
    return NULL;
}

/* ---- Keys of the architecture ---------------------------------------------------------------- */

static bool is_supported(const json_t *value, const json_t *only)
{
    return json_is_number(value) ? json_number_value(value) == json_number_value(only)
                                 : json_equal(value, only);
}

/* Checks a key that has only one supported value. */
static bool check_only(const reading *r, const char *name, const br_gguf_key *k)
{
    json_error_t error;
    json_t *value = value_of(r, name, k->type);
    json_t *only =
        value ? br__json_parse(op, r->file->path, k->only, strlen(k->only), &error) : NULL;
    char *found =
        only && !is_supported(value, only) ? br__json_text(op, r->file->path, value) : NULL;
    if (found)
        refuse(r, "%s is %s, must be %s: no other value is supported for the architecture %s", name,
               br_printable(found), k->only, r->format->architecture);
    br_free(found);
    json_decref(value);
    json_decref(only);
    return !br_failed();
}

static bool read_key(const reading *r, const char *name, const br_gguf_key *k)
{
    if (!has(r, name))
        return !k->required ||
               refuse(r, "metadata \"%s\" is missing, must be the value of %s", name, k->config);
    if (k->only)
        return check_only(r, name, k);
    json_t *value = value_of(r, name, k->type);
    const char *text = json_string_value(value);
    bool is_nothing = text && k->nothing && strcmp(text, k->nothing) == 0;
    if (value && k->config && !is_nothing)
        return set(r, k->config, value);
    json_decref(value);
    return value != NULL;
}

static bool read_keys(const reading *r)
{
    bool ok = true;
    for (const br_gguf_key *k = r->format->keys; ok && k->name; k++) {
        char *name = br_format("%s.%s", r->format->architecture, k->name);
        ok = name && read_key(r, name, k);
        br_free(name);
    }
    return ok;
}

static bool is_listed(const reading *r, const char *name)
{
    for (const br_gguf_key *k = r->format->keys; k->name; k++)
        if (strcmp(k->name, name) == 0)
            return true;
    return strcmp(name, "vocab_size") == 0;
}

/* Adds the keys of the architecture that its format does not list. They may change the model's
 * numbers, so they become unknown keys of the configuration. */
static bool add_unknown(const reading *r)
{
    size_t n = strlen(r->format->architecture);
    for (int64_t i = 0; i < br_gguf_metadata_count(r->file); i++) {
        const char *key = br_gguf_metadata_key(r->file, i);
        bool is_own = strncmp(key, r->format->architecture, n) == 0 && key[n] == '.';
        if (is_own && !is_listed(r, key + n + 1) &&
            json_object_set_new(r->config, key, json_string(br_gguf_metadata_type(r->file, key))) !=
                0)
            return fail_memory(r);
    }
    return true;
}

/* ---- Keys of every architecture -------------------------------------------------------------- */

/* Sets the size of the vocabulary, which is the number of embeddings unless the file states it. */
static bool read_vocabulary(const reading *r)
{
    char *name = br_format("%s.vocab_size", r->format->architecture);
    const br_gguf_tensor *t = br__gguf_tensor(r->file, embeddings);
    json_t *size = NULL;
    if (name && has(r, name))
        size = value_of(r, name, BR_GGUF_NEEDS_INTEGER);
    else if (name && t && t->ndim == 2)
        size = json_integer(t->sizes[0]);
    else if (name)
        refuse(r, "tensor \"%s\" %s, must have two dimensions: the vocabulary, the hidden size",
               embeddings, t ? "has another number of dimensions" : "is missing");
    br_free(name);
    return !br_failed() && set(r, "vocab_size", size);
}

/* Sets the ids of special tokens. Without a padding token no row of the embeddings is special. */
static bool read_ids(const reading *r)
{
    static const struct {
        const char *key, *config;
    } ids[] = { { "tokenizer.ggml.bos_token_id", "bos_token_id" },
                { "tokenizer.ggml.eos_token_id", "eos_token_id" },
                { "tokenizer.ggml.padding_token_id", "pad_token_id" } };
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (has(r, ids[i].key) &&
            !set(r, ids[i].config, value_of(r, ids[i].key, BR_GGUF_NEEDS_INTEGER)))
            return false;
    return json_object_get(r->config, "pad_token_id") || set(r, "pad_token_id", json_null());
}

/* Adds further tokens that end a text: the ends of a turn and of a message, as in llama.cpp. */
static bool read_ends(const reading *r)
{
    static const char *const keys[] = { "tokenizer.ggml.eot_token_id",
                                        "tokenizer.ggml.eom_token_id" };
    json_t *first = json_object_get(r->config, "eos_token_id");
    for (size_t i = 0; first && i < sizeof keys / sizeof *keys; i++) {
        json_t *id = has(r, keys[i]) ? value_of(r, keys[i], BR_GGUF_NEEDS_INTEGER) : NULL;
        if (id && !json_equal(id, first)) {
            json_t *list = json_object_get(r->config, "eos_token_id");
            list = json_is_array(list) ? json_incref(list) : json_pack("[O]", first);
            if (json_array_append(list, id) != 0 || !set(r, "eos_token_id", json_incref(list)))
                fail_memory(r);
            json_decref(list);
        }
        json_decref(id);
    }
    return !br_failed();
}

/* Sets the class, and what the tensors tell. */
static bool read_tensors(const reading *r)
{
    const br_model_class *class = br_model_class_for(r->family, BR_TASK_CAUSAL_LM);
    if (!set(r, "model_type", json_string(r->family->model_type)) ||
        !set(r, "tie_word_embeddings", json_boolean(!br_gguf_has(r->file, "output.weight"))) ||
        (class && !set(r, "architectures", json_pack("[s]", class->name))))
        return false;
    for (const br_gguf_flag *f = r->format->flags; f && f->tensor; f++)
        if (!set(r, f->config, json_boolean(br_gguf_has(r->file, f->tensor))))
            return false;
    return true;
}

static bool read_more(const reading *r)
{
    if (!r->format->more)
        return true;
    json_error_t error;
    char *text = r->format->more(r->file);
    json_t *more = text ? br__json_parse(op, r->file->path, text, strlen(text), &error) : NULL;
    bool ok = more && json_object_update(r->config, more) == 0;
    br_free(text);
    json_decref(more);
    return ok || fail_memory(r);
}

static bool read_all(reading *r)
{
    r->config = json_object();
    if (!r->config)
        return fail_memory(r);
    return find_format(r) && read_tensors(r) && read_keys(r) && read_vocabulary(r) && read_ids(r) &&
           read_ends(r) && read_more(r) && add_unknown(r) && !br_failed();
}

json_t *br__gguf_config(const char *path)
{
    reading r = { .file = br_gguf_open(path, NULL) };
    if (!r.file)
        return NULL;
    if (!read_all(&r)) {
        json_decref(r.config);
        r.config = NULL;
    }
    br_gguf_close(r.file);
    return r.config;
}

const br_gguf_change *br__gguf_change_of(const br_gguf_format *format, const char *name)
{
    for (const br_gguf_change *c = format->changes; c && c->suffix; c++)
        if (br__before_end(name, c->suffix) >= 0)
            return c;
    return NULL;
}
