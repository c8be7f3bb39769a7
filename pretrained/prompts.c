/* pretrained/prompts.c - see prompts.h. Meanings and defaults are those of sentence-transformers 6.
 */
#include "pretrained/prompts.h"

#include "pretrained/model_json.h"

#include <string.h>

/* Sets *prompt to the prompt of that name; to "" if it is null or a usual one that is missing; else
 * to NULL if it is missing. */
static bool find(const br_prompts *p, const char *name, const char **prompt)
{
    const json_t *value = json_object_get(p->all, name);
    bool optional = p->has_usual && (strcmp(name, "query") == 0 || strcmp(name, "document") == 0);
    *prompt = json_string_value(value);
    if (json_is_null(value) || (!value && optional))
        *prompt = "";
    if (!value || *prompt)
        return true;
    const br_model_json f = { .op = p->op, .path = p->path };
    return br__model_json_refuse(&f, "the prompt \"%s\" is not a string", br_printable(name));
}

/* Keeps the prompts, and sets the one that default_prompt_name names. */
static bool keep(br_prompts *p, const br_model_json *f)
{
    json_t *name = br__model_json_get(f, "default_prompt_name"),
           *all = json_object_get(f->value, "prompts");
    if (all && !json_is_object(all))
        return br__model_json_refuse_value(f, "prompts", all, "an object");
    p->all = json_incref(all);
    if (!name)
        return true;
    if (!json_is_string(name))
        return br__model_json_refuse_value(f, "default_prompt_name", name, "a string");
    if (!find(p, json_string_value(name), &p->standard))
        return false;
    return p->standard || br__model_json_refuse_value(f, "default_prompt_name", name,
                                                      "the name of one of the prompts");
}

bool br__prompts_read(br_prompts *p, const char *op, const char *dir, bool has_usual)
{
    br_model_json f;
    *p = (br_prompts){ .op = op, .has_usual = has_usual };
    bool ok =
        br__model_json_open(op, &f, dir, "config_sentence_transformers.json", JSON_OBJECT, false);
    p->path = f.path ? br_strdup(f.path) : NULL;
    p->folder = p->path ? br_strdup(dir) : NULL;
    ok = ok && p->folder && keep(p, &f);
    br__model_json_close(&f);
    return ok;
}

void br__prompts_free(br_prompts *p)
{
    br_free(p->folder);
    br_free(p->path);
    json_decref(p->all);
}

bool br__prompts_choose(const br_prompts *p, const char *prompt, const char *prompt_name,
                        const char **chosen)
{
    *chosen = prompt ? prompt : p->standard ? p->standard : "";
    if (prompt || !prompt_name)
        return true;
    if (!find(p, prompt_name, chosen))
        return false;
    if (!*chosen)
        br_fail(BR_ERROR_ARGUMENT, p->op, "the option prompt_name is \"%s\", %s %s",
                br_printable(prompt_name),
                p->all ? "must be the name of one of the prompts in" : "but no prompts are in",
                p->all ? p->path : p->folder);
    return *chosen;
}

char *br__add_prompt(const char *prompt, int64_t n, br_text *texts)
{
    size_t length = strlen(prompt), total = 1;
    for (int64_t i = 0; i < n; i++)
        total += length + (size_t)texts[i].length;
    char *memory = br_malloc(total), *end = memory;
    for (int64_t i = 0; memory && i < n; i++) {
        br_text prompted = { end, (int64_t)length + texts[i].length };
        end = mempcpy(mempcpy(end, prompt, length), texts[i].data, (size_t)texts[i].length);
        texts[i] = prompted;
    }
    return memory;
}
