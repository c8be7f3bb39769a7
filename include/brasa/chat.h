/* brasa/chat.h - chat templates: a conversation as the text that a chat model continues.
 *
 *     br_tokenizer *tokenizer = br_auto_tokenizer_load("Qwen3-0.6B", NULL);
 *     br_chat_template *chat = br_chat_template_load("Qwen3-0.6B", NULL, tokenizer);
 *     br_chat_message message = { "user", "What is a tensor?" };
 *     char *prompt = br_chat_template_render(chat, 1, &message,
 *                                            BR_OPTIONS(br_chat, .add_generation_prompt = true));
 *     puts(prompt);
 *     br_free(prompt);
 *     br_chat_template_free(chat);
 *     br_tokenizer_free(tokenizer);
 *
 * Encode the prompt without adding special tokens, because the template writes them.
 *
 * A template is a program in the language Jinja. Brasa has an interpreter for the part of Jinja
 * that chat templates use, which docs/chat_templates.md describes; the rest is an error. A template
 * can only make text, and its memory and its steps are limited. It runs only on request.
 * A template is for one thread at a time. */
#ifndef BRASA_CHAT_H
#define BRASA_CHAT_H

#include <brasa/tokenizers.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_chat_template br_chat_template;

/* Reads a template from its text, UTF-8. The template knows the texts of the tokenizer's special
 * tokens, such as bos_token; without a tokenizer (NULL), they are undefined. Returns NULL and an
 * error on failure. */
BR_API br_chat_template *br_chat_template_parse(const char *text, const br_tokenizer *tokenizer);
/* Reads the template of a model folder: chat_template.jinja, or "chat_template" of
 * tokenizer_config.json. `name` chooses one of several templates, such as "tool_use"; NULL is
 * "default", or the only one. A template of another name may also be the file
 * additional_chat_templates/NAME.jinja. `dir` may also be a GGUF file. Returns NULL and an error on
 * failure, which includes a folder that has no template. */
BR_API br_chat_template *br_chat_template_load(const char *dir, const char *name,
                                               const br_tokenizer *tokenizer);
/* Frees a template. NULL is ignored. */
BR_API void br_chat_template_free(br_chat_template *self);

/* A message of a conversation. The role is usually "system", "user" or "assistant". */
typedef struct br_chat_message {
    const char *role, *content;
} br_chat_message;

typedef struct br_chat_options {
    size_t struct_size;
    bool add_generation_prompt; /* end with the beginning of the assistant's answer */
    /* A JSON object of further variables, such as "{\"enable_thinking\": false}", or NULL. The keys
     * "tools" and "documents" are lists, as in transformers. The key "messages" is the conversation
     * if there are no messages, and may have what br_chat_message lacks. */
    const char *variables;
    int64_t time; /* what strftime_now() takes as now, in seconds since 1970; BR_NONE: the clock */
} br_chat_options;
#define br_chat_default_fields .struct_size = sizeof(br_chat_options), .time = BR_NONE
BR_API br_chat_options br_chat_defaults(void);

/* Returns the text of a conversation of n messages, as tokenizer.apply_chat_template(...,
 * tokenize=False) of transformers does; the caller frees it with br_free(). Returns NULL and an
 * error on failure, such as a message that the template refuses. `options` may be NULL. */
BR_API char *br_chat_template_render(const br_chat_template *self, int64_t n,
                                     const br_chat_message *messages,
                                     const br_chat_options *options);

#ifdef __cplusplus
}
#endif

#endif
