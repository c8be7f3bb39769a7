/* train/settings.h - named values of a training run. They are set by `--set KEY=VALUE` and stored
 * in the checkpoint, so that the run can be resumed. */
#ifndef BRASA_TRAIN_SETTINGS_H
#define BRASA_TRAIN_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

typedef enum setting_kind {
    SETTING_INTEGER, /* *value is an int64_t in low .. high */
    SETTING_NUMBER,  /* a double in low .. high */
    SETTING_BOOL,    /* a bool */
    SETTING_CHOICE,  /* a setting_choice */
    SETTING_TEXT,    /* a setting_text */
} setting_kind;

/* A text, such as a path. */
typedef struct setting_text {
    char text[1024];
} setting_text;

/* One of the names in a list that ends with NULL. */
typedef struct setting_choice {
    const char *const *names;
    int64_t index;
    bool is_optional; /* checkpoints do not store the first name, so that older ones have it */
} setting_choice;

typedef struct setting {
    const char *name;
    setting_kind kind;
    void *value;
    double low, high;
    bool may_change; /* a resumed run may change the checkpoint's value */
    const char *help;
} setting;

enum { MAX_SETTINGS = 40 };

typedef struct settings {
    int count;
    setting items[MAX_SETTINGS];
} settings;

void settings_add(settings *s, setting item);
/* Set a value from "KEY=VALUE", or from a key and a value. On failure, return false and an error
 * that lists the valid keys or values. */
bool settings_assign(settings *s, const char *assignment);
bool settings_set(settings *s, const char *key, const char *value);
/* Returns all values as a JSON object, which the caller frees with json_decref(); NULL with an
 * error on failure. */
json_t *settings_to_json(const settings *s);
/* Sets all values from such an object. Returns false with an error if a setting is invalid, or
 * missing without may_change. */
bool settings_from_json(settings *s, const json_t *json);
/* Returns false with an error if a value without may_change differs from the object's. */
bool settings_agree(const settings *s, const json_t *json);
/* Prints one line per setting by calling `print`: name, value and help. */
typedef void (*settings_print_line)(FILE *stream, const char *line);
void settings_print(const settings *s, FILE *stream, settings_print_line print);

#endif
