/* chat/chat_template.c - chat templates: where a folder keeps them, and the variables that they
 * see.
 */
#include <brasa/chat.h>

#include "chat/jinja.h"
#include "io/json.h"
#include "nn/nn_internal.h"
#include "tensor/handles.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

BR_DEFINE_DEFAULTS(br_chat)

static const char op[] = "chat_template";

enum { MAX_BYTES = 1 << 24, MAX_MEMORY = 1 << 28, MAX_STEPS = 10 * 1000 * 1000 };

static const char *const token_names[] = {
    [BR_TOKEN_BOS] = "bos_token",  [BR_TOKEN_EOS] = "eos_token", [BR_TOKEN_UNK] = "unk_token",
    [BR_TOKEN_SEP] = "sep_token",  [BR_TOKEN_PAD] = "pad_token", [BR_TOKEN_CLS] = "cls_token",
    [BR_TOKEN_MASK] = "mask_token"
};
enum { N_TOKENS = sizeof token_names / sizeof *token_names };

struct br_chat_template {
    char *name; /* for messages */
    br_arena arena;
    jinja_node *list;
    char *tokens[N_TOKENS]; /* NULL: the tokenizer has none */
};

/* ---- Loading --------------------------------------------------------------------------------- */

static bool copy_tokens(br_chat_template *self, const br_tokenizer *tokenizer)
{
    for (int i = 0; tokenizer && i < N_TOKENS; i++) {
        int64_t id = br_tokenizer_special_id(tokenizer, (br_special_token)i);
        if (id < 0)
            continue;
        self->tokens[i] = br_format("%s", br_tokenizer_token(tokenizer, id));
        if (!self->tokens[i])
            return false;
    }
    return true;
}

static br_chat_template *parse(const char *name, const char *text, size_t n,
                               const br_tokenizer *tokenizer)
{
    br_chat_template *self = BR_NEW(br_chat_template);
    if (!self)
        return NULL;
    self->name = br_format("%s", name);
    if (self->name && copy_tokens(self, tokenizer) &&
        br__jinja_parse(&self->arena, self->name, text, n, &self->list))
        return self;
    br_chat_template_free(self);
    return NULL;
}

br_chat_template *br_chat_template_parse(const char *text, const br_tokenizer *tokenizer)
{
    return br__required(op, "text", text) ? parse("template", text, strlen(text), tokenizer) : NULL;
}

static bool is_default(const char *name)
{
    return !name || strcmp(name, "default") == 0;
}

/* Reads the file of a template. Sets *exists to whether there is one. */
static br_chat_template *from_file(const char *dir, const char *file, const br_tokenizer *tokenizer,
                                   bool *exists)
{
    br_chat_template *self = NULL;
    size_t n;
    char *path = br_format("%s/%s", dir, file);
    *exists = !path || access(path, F_OK) == 0;
    char *text = path && *exists ? br__read_text(op, path, MAX_BYTES, &n) : NULL;
    if (text)
        self = parse(path, text, n, tokenizer);
    br_free(text);
    br_free(path);
    return self;
}

/* Returns the text of a template in the value of "chat_template", or NULL. `names` lists the
 * templates that there are. */
static const json_t *choose(const json_t *value, const char *name, br__text *names)
{
    if (json_is_string(value))
        return is_default(name) ? value : NULL;
    size_t n = json_is_array(value) ? json_array_size(value) : 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(value, i);
        const char *own = json_string_value(json_object_get(entry, "name"));
        const json_t *text = json_object_get(entry, "template");
        if (!own || !json_is_string(text))
            continue;
        if (strcmp(own, name ? name : "default") == 0 || (!name && n == 1))
            return text;
        if (!br__text_add(names, "%s%s", names->length > 0 ? ", " : "", br_printable(own)))
            return NULL;
    }
    return NULL;
}

static br_chat_template *from_value(const char *path, const json_t *value, const char *name,
                                    const br_tokenizer *tokenizer)
{
    br_chat_template *self = NULL;
    br__text names = { 0 };
    const json_t *text = choose(value, name, &names);
    if (text)
        self = parse(path, json_string_value(text), json_string_length(text), tokenizer);
    else if (!br__failed() && names.length > 0)
        br_fail(BR_ERROR_ARGUMENT, op, "%s: there is no template '%s'; choose one of: %s",
                br_printable(path), br_printable(name ? name : "default"), names.data);
    else if (!br__failed() && value && !json_is_string(value))
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s: chat_template must be a string, or a list of objects with name and template",
                br_printable(path));
    else if (!br__failed())
        br_fail(BR_ERROR_ARGUMENT, op, "%s: there is no chat template%s%s%s", br_printable(path),
                name ? " '" : "", name ? br_printable(name) : "", name ? "'" : "");
    br_free(names.data);
    return self;
}

/* Reads "chat_template" of tokenizer_config.json. */
static br_chat_template *from_config(const char *dir, const char *name,
                                     const br_tokenizer *tokenizer)
{
    br_chat_template *self = NULL;
    char *path = br_format("%s/tokenizer_config.json", dir);
    if (!path)
        return NULL;
    if (access(path, F_OK) != 0) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s: there is neither chat_template.jinja nor tokenizer_config.json",
                br_printable(dir));
    } else {
        json_t *config = br__json_read_file(op, path, MAX_BYTES, true);
        const json_t *value = json_object_get(config, "chat_template");
        if (config)
            self = from_value(path, json_is_null(value) ? NULL : value, name, tokenizer);
        json_decref(config);
    }
    br_free(path);
    return self;
}

/* Reads the template of a GGUF file, whose metadata has one under a key for each name. */
static br_chat_template *from_gguf(const char *path, const char *name,
                                   const br_tokenizer *tokenizer)
{
    br_chat_template *self = NULL;
    br_gguf *file = br_gguf_open(path, NULL);
    char *key = is_default(name) ? br_format("tokenizer.chat_template")
                                 : br_format("tokenizer.chat_template.%s", name);
    size_t n;
    bool exists = file && key && br_gguf_metadata_type(file, key);
    const char *text = exists ? br_gguf_string(file, key, &n) : NULL;
    if (text)
        self = parse(path, text, n, tokenizer);
    else if (file && key && !exists)
        br_fail(BR_ERROR_ARGUMENT, op, "%s: there is no chat template: the metadata lacks %s",
                br_printable(path), br_printable(key));
    br_free(key);
    br_gguf_close(file);
    return self;
}

br_chat_template *br_chat_template_load(const char *dir, const char *name,
                                        const br_tokenizer *tokenizer)
{
    bool exists;
    if (!br__required(op, "dir", dir))
        return NULL;
    if (br_gguf_is_file(dir))
        return from_gguf(dir, name, tokenizer);
    if (!is_default(name) && strchr(name, '/'))
        return br_fail(BR_ERROR_ARGUMENT, op, "name is '%s', which contains '/'",
                       br_printable(name));
    char *file = is_default(name) ? br_format("chat_template.jinja")
                                  : br_format("additional_chat_templates/%s.jinja", name);
    if (!file)
        return NULL;
    br_chat_template *self = from_file(dir, file, tokenizer, &exists);
    br_free(file);
    return exists ? self : from_config(dir, name, tokenizer);
}

void br_chat_template_free(br_chat_template *self)
{
    if (!BR_END("chat_template_free", self))
        return;
    for (int i = 0; i < N_TOKENS; i++)
        br_free(self->tokens[i]);
    br__arena_free(&self->arena);
    br_free(self->name);
    BR_FREE(self);
}

/* ---- Variables ------------------------------------------------------------------------------- */

static jinja_value key_of(const char *name)
{
    return jinja_string(jinja_text_of(name));
}

static bool copy_text(jinja_run *run, const char *what, const char *text, jinja_value *out)
{
    size_t n = strlen(text);
    if (!br__is_utf8(text, n)) {
        br_fail(BR_ERROR_ARGUMENT, op, "%s is not UTF-8", what);
        return false;
    }
    return br__jinja_copy(run, text, n, out);
}

static bool add_messages(jinja_run *run, jinja_dict *variables, int64_t n,
                         const br_chat_message *messages)
{
    jinja_value list;
    if (!br__jinja_new_sequence(run, JINJA_LIST, &list))
        return false;
    for (int64_t i = 0; i < n; i++) {
        jinja_value message = br__jinja_new_dict(run), role, content;
        if (!messages[i].role || !messages[i].content) {
            br_fail(BR_ERROR_ARGUMENT, op, "messages[%" PRId64 "].%s is NULL", i,
                    messages[i].role ? "content" : "role");
            return false;
        }
        if (!message.dict || !copy_text(run, "a role", messages[i].role, &role) ||
            !copy_text(run, "the content of a message", messages[i].content, &content) ||
            !br__jinja_put(run, message.dict, key_of("role"), role) ||
            !br__jinja_put(run, message.dict, key_of("content"), content) ||
            !br__jinja_append(run, list.sequence, message))
            return false;
    }
    return br__jinja_put(run, variables, key_of("messages"), list);
}

/* Gives a message with thoughts the names of them that templates read, as transformers does. */
static bool name_thoughts(jinja_run *run, jinja_value *message)
{
    static const char *const names[] = { "reasoning_content", "thinking", "reasoning" };
    const jinja_value *thoughts = NULL;
    for (int i = 0; i < 3 && !thoughts; i++) {
        thoughts = br__jinja_find_text(message->dict, names[i]);
        thoughts = thoughts && thoughts->kind == JINJA_NULL ? NULL : thoughts;
    }
    if (!thoughts)
        return true;
    jinja_value copy = br__jinja_new_dict(run), text = *thoughts;
    if (!copy.dict || !br__jinja_put(run, copy.dict, key_of("thinking"), text))
        return false;
    for (size_t i = 0; i < message->dict->n; i++) {
        const jinja_pair *pair = &message->dict->pairs[i];
        if (!br__jinja_put(run, copy.dict, pair->key, pair->value))
            return false;
    }
    *message = copy;
    return br__jinja_put(run, copy.dict, key_of("reasoning_content"), text);
}

/* Checks a list of objects, such as messages. */
static bool check_list(const jinja_dict *variables, const char *name, bool required)
{
    const jinja_value *list = br__jinja_find_text(variables, name);
    if (list && list->kind == JINJA_NULL && !required)
        return true;
    bool ok = list && list->kind == JINJA_SEQUENCE;
    for (size_t i = 0; ok && i < list->sequence->n; i++)
        ok = list->sequence->items[i].kind == JINJA_DICT;
    if (!ok)
        br_fail(BR_ERROR_ARGUMENT, op, "%s must be a list of JSON objects", name);
    return ok;
}

static bool prepare_messages(jinja_run *run, const jinja_dict *variables)
{
    if (!check_list(variables, "messages", true) || !check_list(variables, "tools", false) ||
        !check_list(variables, "documents", false))
        return false;
    jinja_sequence *messages = br__jinja_find_text(variables, "messages")->sequence;
    for (size_t i = 0; i < messages->n; i++) {
        if (!name_thoughts(run, &messages->items[i]))
            return false;
    }
    return true;
}

/* Adds the members of the JSON object. */
static bool add_json(jinja_run *run, jinja_dict *variables, const char *text)
{
    json_error_t error;
    jinja_value given;
    if (!text)
        return true;
    json_t *json = br__json_parse(op, "variables", text, strlen(text), &error);
    if (!json_is_object(json)) {
        if (!json && !br__failed())
            br_fail(BR_ERROR_ARGUMENT, op, "variables: line %d: %s", error.line,
                    br_printable(error.text));
        else if (json)
            br_fail(BR_ERROR_ARGUMENT, op, "variables is no JSON object");
        json_decref(json);
        return false;
    }
    bool ok = br__jinja_from_json(run, json, &given);
    json_decref(json);
    for (size_t i = 0; ok && i < given.dict->n; i++)
        ok = br__jinja_put(run, variables, given.dict->pairs[i].key, given.dict->pairs[i].value);
    return ok;
}

/* Collects what a template sees: special tokens, the caller's variables, and the conversation. */
static bool add_variables(jinja_run *run, const br_chat_template *self, int64_t n,
                          const br_chat_message *messages, const br_chat_options *o,
                          jinja_dict *variables)
{
    static const jinja_value none = { JINJA_NULL, { 0 } };
    for (int i = 0; i < N_TOKENS; i++) {
        if (self->tokens[i] &&
            !br__jinja_put(run, variables, key_of(token_names[i]), key_of(self->tokens[i])))
            return false;
    }
    return br__jinja_put(run, variables, key_of("tools"), none) &&
           br__jinja_put(run, variables, key_of("documents"), none) &&
           br__jinja_put(run, variables, key_of("add_generation_prompt"),
                         jinja_bool(o->add_generation_prompt)) &&
           add_json(run, variables, o->variables) &&
           (n == 0 && br__jinja_find_text(variables, "messages")
                ? true
                : add_messages(run, variables, n, messages)) &&
           prepare_messages(run, variables);
}

/* ---- Rendering ------------------------------------------------------------------------------- */

char *br_chat_template_render(const br_chat_template *self, int64_t n,
                              const br_chat_message *messages, const br_chat_options *options)
{
    static const char each[] = "chat_template_render";
    const br_chat_options *o = BR_OPTIONS_OF(each, br_chat, options);
    if (!br__required(each, "self", self))
        return NULL;
    if (n < 0 || (n > 0 && !messages))
        return br_fail(BR_ERROR_ARGUMENT, each,
                       n < 0 ? "n is %" PRId64 ", must be 0 or more"
                             : "messages is NULL, but n is %" PRId64,
                       n);
    br__text output = { 0 };
    jinja_dict variables = { 0 };
    jinja_run run = { .place = { self->name, 1 },
                      .variables = &variables,
                      .output = &output,
                      .time = o->time == BR_NONE ? (int64_t)time(NULL) : o->time,
                      .memory = MAX_MEMORY,
                      .steps = MAX_STEPS };
    jinja_scope scope = { 0 };
    run.scope = &scope;
    bool ok = add_variables(&run, self, n, messages, o, &variables) &&
              br__jinja_execute(&run, self->list);
    br__arena_free(&run.arena);
    if (ok)
        return br__text_take(&output);
    br_free(output.data);
    return NULL;
}
