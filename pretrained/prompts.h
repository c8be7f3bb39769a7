/* pretrained/prompts.h - the prompts of sentence-transformers, which precede texts. */
#ifndef BR_PROMPTS_H
#define BR_PROMPTS_H

#include <brasa/tokenizers.h>
#include <jansson.h>

/* The prompts of a folder. */
typedef struct br_prompts {
    const char *op;       /* begins the messages of errors */
    char *folder, *path;  /* the folder, and its config_sentence_transformers.json */
    json_t *all;          /* the object of prompts by name, or NULL */
    const char *standard; /* precedes each text by default; owned by `all`; NULL: none */
    /* Prompts of the names "query" and "document" are empty where the file lacks them. */
    bool has_usual;
} br_prompts;

/* Reads the prompts of a folder, whose file may be missing. Returns false with an error that names
 * the file, the key and the value on failure. Call br__prompts_free() in either case. */
bool br__prompts_read(br_prompts *prompts, const char *op, const char *dir, bool has_usual);
void br__prompts_free(br_prompts *prompts);
/* Sets *chosen to `prompt`, or to the prompt of that name if `prompt` is NULL, or to the default
 * prompt if both are NULL; "" if there is none. The prompts own it. Returns false with an error if
 * there is no prompt of that name. */
bool br__prompts_choose(const br_prompts *prompts, const char *prompt, const char *prompt_name,
                        const char **chosen);
/* Replaces n texts by texts that begin with the prompt. Returns their memory for br_free(), or NULL
 * and an error. */
char *br__add_prompt(const char *prompt, int64_t n, br_text *texts);

#endif
