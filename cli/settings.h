/* cli/settings.h - named values of a training run: those of `--set KEY=VALUE`, which a checkpoint
 * keeps so that the run can go on. */
#ifndef BRASA_CLI_SETTINGS_H
#define BRASA_CLI_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum setting_kind {
    SETTING_INTEGER, /* *value is an int64_t within low .. high */
    SETTING_NUMBER,  /* a double within low .. high */
    SETTING_TRUTH,   /* a bool */
    SETTING_CHOICE,  /* a setting_choice */
} setting_kind;

/* One of several names, which end with NULL. */
typedef struct setting_choice {
    const char *const *names;
    int64_t index;
} setting_choice;

typedef struct setting {
    const char *name;
    setting_kind kind;
    void *value;
    double low, high;
    bool may_change; /* a resumed run may have another value than its checkpoint */
    const char *help;
} setting;

enum { MAX_SETTINGS = 32 };

typedef struct settings {
    int count;
    setting items[MAX_SETTINGS];
} settings;

void settings_add(settings *s, setting item);
/* Sets "KEY=VALUE", or a key to a value; false with an error that says what there is instead. */
bool settings_assign(settings *s, const char *assignment);
bool settings_set(settings *s, const char *key, const char *value);
/* All values as a JSON object, for the caller to json_decref(); NULL and an error. */
json_t *settings_to_json(const settings *s);
/* Takes values from such an object; every setting must be there, and be good. */
bool settings_from_json(settings *s, const json_t *json);
/* False and an error if a value that may not change differs from that in the object. */
bool settings_agree(const settings *s, const json_t *json);
/* One line a setting: its name, value and help. */
void settings_print(const settings *s, FILE *stream);

#endif
