/* train/settings.c - converts settings to and from text and JSON. */
#include "train/settings.h"

#include "common/text.h"

#include <stdlib.h>
#include <string.h>

/* Room for the text of any value. */
enum { VALUE_SIZE = sizeof(setting_text) };

/* ---- One setting ----------------------------------------------------------------------------- */

static json_t *to_json(const setting *item)
{
    switch (item->kind) {
    case SETTING_INTEGER:
        return json_integer(*(const int64_t *)item->value);
    case SETTING_NUMBER:
        return json_real(*(const double *)item->value);
    case SETTING_BOOL:
        return json_boolean(*(const bool *)item->value);
    case SETTING_TEXT:
        return json_string(((const setting_text *)item->value)->text);
    default: {
        const setting_choice *choice = item->value;
        return json_string(choice->names[choice->index]);
    }
    }
}

static void fail_choice(const setting *item, const char *given)
{
    const setting_choice *choice = item->value;
    char names[256] = "";
    for (int i = 0; choice->names[i]; i++)
        names_add(names, sizeof names, choice->names[i]);
    br_raise(BR_ERROR_ARGUMENT, "%s is '%s', must be one of %s%s", item->name, given, names,
             names_suggestion(given, names));
}

static bool fail_setting(const setting *item, const char *given)
{
    if (item->kind == SETTING_BOOL)
        br_raise(BR_ERROR_ARGUMENT, "%s is '%s', must be true or false", item->name, given);
    else if (item->kind == SETTING_CHOICE)
        fail_choice(item, given);
    else if (item->kind == SETTING_TEXT)
        br_raise(BR_ERROR_ARGUMENT, "%s has %zu bytes or is not UTF-8, must be UTF-8 of at most %d",
                 item->name, strlen(given), VALUE_SIZE - 1);
    else
        br_raise(BR_ERROR_ARGUMENT, "%s is '%s', must be %s in %.15g .. %.15g", item->name, given,
                 item->kind == SETTING_INTEGER ? "an integer" : "a number", item->low, item->high);
    return false;
}

static bool choose(setting_choice *choice, const char *text)
{
    for (int64_t i = 0; choice->names[i]; i++)
        if (strcmp(choice->names[i], text) == 0) {
            choice->index = i;
            return true;
        }
    return false;
}

/* Sets a text, which must be UTF-8 because checkpoints store it as JSON. */
static bool set_text(setting_text *value, const char *text)
{
    json_t *json = json_string(text);
    bool ok = json && strlen(text) < sizeof value->text;
    if (ok)
        snprintf(value->text, sizeof value->text, "%s", text);
    json_decref(json);
    return ok;
}

static bool from_text(const setting *item, const char *text)
{
    bool ok;
    switch (item->kind) {
    case SETTING_INTEGER:
        ok = text_to_integer(text, (int64_t)item->low, (int64_t)item->high, item->value);
        break;
    case SETTING_NUMBER:
        ok = text_to_number(text, item->low, item->high, item->value);
        break;
    case SETTING_CHOICE:
        ok = choose(item->value, text);
        break;
    case SETTING_TEXT:
        ok = set_text(item->value, text);
        break;
    default:
        ok = strcmp(text, "true") == 0 || strcmp(text, "false") == 0;
        if (ok)
            *(bool *)item->value = strcmp(text, "true") == 0;
    }
    return ok || fail_setting(item, text);
}

/* ---- All of them ----------------------------------------------------------------------------- */

void settings_add(settings *s, setting item)
{
    if (s->count < MAX_SETTINGS)
        s->items[s->count++] = item;
    else
        br_raise(BR_ERROR_STATE, "more than %d settings", MAX_SETTINGS);
}

static void unknown_key(const settings *s, const char *key)
{
    char names[1024] = "";
    for (int i = 0; i < s->count; i++)
        names_add(names, sizeof names, s->items[i].name);
    br_raise(BR_ERROR_ARGUMENT, "unknown setting '%s', must be one of %s%s", key, names,
             names_suggestion(key, names));
}

bool settings_set(settings *s, const char *key, const char *value)
{
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->items[i].name, key) == 0)
            return from_text(&s->items[i], value);
    unknown_key(s, key);
    return false;
}

bool settings_assign(settings *s, const char *assignment)
{
    const char *equals = strchr(assignment, '=');
    if (!equals) {
        br_raise(BR_ERROR_ARGUMENT, "'%s' must be KEY=VALUE", assignment);
        return false;
    }
    char *key = text_format("%.*s", (int)(equals - assignment), assignment);
    bool ok = key && settings_set(s, key, equals + 1);
    free(key);
    return ok;
}

/* Returns the choice whose first name is not stored; NULL for other settings. */
static setting_choice *optional_choice(const setting *item)
{
    setting_choice *choice = item->kind == SETTING_CHOICE ? item->value : NULL;
    return choice && choice->is_optional ? choice : NULL;
}

static bool is_stored(const setting *item)
{
    const setting_choice *choice = optional_choice(item);
    return !choice || choice->index > 0;
}

json_t *settings_to_json(const settings *s)
{
    json_t *json = json_object();
    bool ok = json != NULL;
    for (int i = 0; ok && i < s->count; i++)
        if (is_stored(&s->items[i]))
            ok = json_object_set_new(json, s->items[i].name, to_json(&s->items[i])) == 0;
    if (ok)
        return json;
    br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the settings");
    json_decref(json);
    return NULL;
}

/* Writes a number with 15 digits, or 17 if 15 do not round-trip. */
static void number_text(double value, char *text, size_t size)
{
    snprintf(text, size, "%.15g", value);
    if (strtod(text, NULL) != value)
        snprintf(text, size, "%.17g", value);
}

/* Writes a value as text that from_text() accepts; returns false for other types of JSON. */
static bool json_text(const json_t *value, char *text, size_t size)
{
    if (json_is_integer(value))
        snprintf(text, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        number_text(json_real_value(value), text, size);
    else if (json_is_boolean(value))
        snprintf(text, size, "%s", json_is_true(value) ? "true" : "false");
    else if (json_is_string(value))
        snprintf(text, size, "%s", json_string_value(value));
    else
        return false;
    return true;
}

bool settings_from_json(settings *s, const json_t *json)
{
    for (int i = 0; i < s->count && !br_failed(); i++) {
        char text[VALUE_SIZE];
        const json_t *value = json_object_get(json, s->items[i].name);
        setting_choice *optional = optional_choice(&s->items[i]);
        if (!value && optional)
            optional->index = 0;
        else if (!value && s->items[i].may_change)
            continue; /* the checkpoint is older than the setting */
        else if (json_text(value, text, sizeof text))
            from_text(&s->items[i], text);
        else
            br_raise(BR_ERROR_FORMAT, "the checkpoint's settings have no valid '%s'",
                     s->items[i].name);
    }
    return !br_failed();
}

/* Writes the value that a checkpoint has; returns false if it has none. */
static bool stored_text(const setting *item, const json_t *json, char *text, size_t size)
{
    const json_t *value = json_object_get(json, item->name);
    const setting_choice *optional = optional_choice(item);
    if (!value && optional)
        return snprintf(text, size, "%s", optional->names[0]) > 0;
    return json_text(value, text, size);
}

bool settings_agree(const settings *s, const json_t *json)
{
    for (int i = 0; i < s->count && !br_failed(); i++) {
        json_t *now = to_json(&s->items[i]);
        char was[VALUE_SIZE] = "", is[VALUE_SIZE] = "";
        if (!s->items[i].may_change && stored_text(&s->items[i], json, was, sizeof was) &&
            json_text(now, is, sizeof is) && strcmp(was, is) != 0)
            br_raise(BR_ERROR_ARGUMENT, "%s is %s, but the checkpoint was made with %s",
                     s->items[i].name, is, was);
        json_decref(now);
    }
    return !br_failed();
}

void settings_print(const settings *s, FILE *stream, settings_print_line print)
{
    for (int i = 0; i < s->count; i++) {
        char text[VALUE_SIZE] = "";
        json_t *value = to_json(&s->items[i]);
        json_text(value, text, sizeof text);
        json_decref(value);
        char line[256 + VALUE_SIZE];
        snprintf(line, sizeof line, "  %-16s  %-12s  %s", s->items[i].name, text, s->items[i].help);
        print(stream, line);
    }
}
