/* tests/train/test_each_setting.c - every setting of every recipe of `brasa train` changes the
 * results, or its value is refused with a message that names the setting. The help texts list the
 * settings. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(each_setting, .init = program_begin, .fini = program_end);

typedef struct recipe_run {
    const char *name, *options; /* of every run */
} recipe_run;
static const recipe_run recipes[] = {
    { "bert-scratch", "--set warmup=0" },
    { "copy-task", "--set warmup=0 --set eval_every=1 --set batch=8" },
    { "vanilla", "--set warmup=0 --set eval_every=1 --set samples=1000 --set batch=8 "
                 "--set held_out=16" },
    { "classifier", "--set warmup=0 --set eval_every=1 --data $OUT/texts" },
    { "gpt", "--set warmup=0 --set eval_every=1 --set length=16 --data $OUT/texts" },
};
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

/* Settings whose value is not simply increased. `with`: options of both runs, without which the
 * setting has no effect. `recipe`: NULL for all. */
typedef struct special {
    const char *recipe, *key, *value, *with;
    bool same; /* the setting must not change the results */
} special;
#define PLATEAU "--steps 9 --lr 0.3 --set schedule=plateau"

static const special specials[] = {
    { NULL, "steps", "4", "", false },
    { NULL, "matmul_precision", "best", "", false }, /* the others need a processor with bf16 */
    { NULL, "amp", "bf16", "", false },
    { NULL, "dtype", "bf16", "", false },
    /* A loss of bf16 takes some steps to differ. */
    { "gpt", "half_update", "stochastic", "--set dtype=bf16 --steps 30", false },
    { NULL, "half_update", "stochastic", "--set dtype=bf16", false },
    { NULL, "lr", "0.0001", "", false },
    { NULL, "warmup", "2", "", false },
    { NULL, "schedule", "linear", "", false },
    { NULL, "decay_steps", "5", "--set schedule=linear", false },
    { NULL, "plateau_factor", "0.5", PLATEAU, false },
    { NULL, "plateau_patience", "3", PLATEAU, false },
    { NULL, "clip", "0.001", "", false },
    { NULL, "eval_every", "2", "", false },
    { NULL, "patience", "1", "--lr 1e-12", false },
    { NULL, "dropout", "0.6", "", false },
    { "vanilla", "held_out", "18", "", false },
    { "classifier", "held_out", "0.4", "", false },
    { "classifier", "min_count", "100", "", false },
    { "gpt", "held_out", "0.4", "", false },
    { "gpt", "model", "gpt2", "", false },
    { "gpt", "hidden_size", "32", "", false },
    { "gpt", "vocab_size", "257", "", false },
    { "gpt", "heads", "4", "", false },
    { "classifier", "model", "vanilla", "", false },
    /* Every batch of bert-scratch is the same, so the mean of the gradients is, too. */
    { "bert-scratch", "accumulate", "2", "", true },
    /* With one process, nothing is divided. */
    { NULL, "zero_stage", "1", "", true },
    /* Threads that prefetch do not change the batches. */
    { NULL, "workers", "1", "", true },
    /* Only when checkpoints are written, not what a run computes. */
    { NULL, "checkpoint_every", "2", "", true },
    { NULL, "show_every", "2", "", false },
    /* Only the event files; tests/train/test_tensorboard.c reads them. */
    { NULL, "histograms", "2", "", true },
};
enum { N_SPECIALS = sizeof specials / sizeof *specials, SIZE = 1 << 16 };

/* Trains with these options, which replace those before them. Returns what the run prints, its
 * losses and metrics, or only the message if it is refused; to be freed. */
static char *results_of(const recipe_run *recipe, const char *options)
{
    char line[1024], *results = malloc(SIZE);
    cr_assert_not_null(results);
    snprintf(line, sizeof line,
             "train %s --preset small --threads 1 --steps 3 %s %s --overwrite --out $OUT/run "
             ">$OUT/printed 2>$OUT/errors && cat $OUT/printed && " PROGRAM_LOSSES
             " $OUT/run/log.jsonl || grep '^brasa train: ' $OUT/errors",
             recipe->name, recipe->options, options);
    program_run(line, results, SIZE);
    cr_assert(*results && strlen(results) < SIZE - 1, "%s", line);
    return results;
}

static const special *find_special(const char *recipe, const char *key)
{
    for (int i = 0; i < N_SPECIALS; i++)
        if (strcmp(specials[i].key, key) == 0 &&
            (!specials[i].recipe || strcmp(specials[i].recipe, recipe) == 0))
            return &specials[i];
    return NULL;
}

/* Writes another value: the next integer, or the other bool. */
static void change(const char *value, char *changed, size_t size)
{
    if (isdigit((unsigned char)*value))
        snprintf(changed, size, "%lld", strtoll(value, NULL, 10) + 1);
    else
        snprintf(changed, size, "%s", strcmp(value, "true") == 0 ? "false" : "true");
}

/* `usual`: the results of a run without options. */
static void check_setting(const recipe_run *recipe, const char *key, const char *value,
                          const char *usual)
{
    const special *s = find_special(recipe->name, key);
    const char *with = s ? s->with : "";
    char changed[64], options[256];
    change(value, changed, sizeof changed);
    char *other = *with ? results_of(recipe, with) : NULL;
    const char *without = other ? other : usual;
    snprintf(options, sizeof options, "%s --set %s=%s", with, key, s ? s->value : changed);
    char *results = results_of(recipe, options);
    bool refused = strncmp(results, "brasa train: ", 13) == 0;
    cr_expect_neq(strncmp(without, "brasa train: ", 13), 0, "%s %s: %s", recipe->name, with,
                  without);
    if (refused)
        cr_expect(strstr(results, key), "%s %s: %s", recipe->name, options, results);
    else
        cr_expect_eq(strcmp(without, results) == 0, s && s->same, "%s %s: %s", recipe->name,
                     options, strcmp(without, results) == 0 ? "no effect" : "another result");
    free(other);
    free(results);
}

/* Calls check_setting() for each setting that is listed in `help`, and returns their number. Lines
 * that continue a setting's description begin with more spaces. */
static int check_settings(const recipe_run *recipe, const char *help)
{
    int n = 0;
    char *usual = results_of(recipe, "");
    for (const char *line = help; line && *line; line = strchr(line, '\n')) {
        char key[64], value[64];
        line += *line == '\n';
        if (strncmp(line, "  ", 2) == 0 && line[2] != ' ' &&
            sscanf(line, " %63s %63s", key, value) == 2) {
            check_setting(recipe, key, value, usual);
            n++;
        }
    }
    free(usual);
    return n;
}

/* Returns the part of a recipe's help that lists the settings of a preset; to be freed. */
static char *settings_of(const char *recipe, const char *preset)
{
    char line[128], *help = malloc(SIZE);
    cr_assert_not_null(help);
    snprintf(line, sizeof line, "train %s --preset %s --help", recipe, preset);
    cr_assert_eq(program_run(line, help, SIZE), 0);
    char *list = strstr(help, "\nSettings of ");
    cr_assert(list && strchr(list + 1, '\n'), "%s", line);
    list = strchr(list + 1, '\n');
    memmove(help, list, strlen(list) + 1);
    return help;
}

/* 90 texts of three topics. */
static void write_texts(void)
{
    program_shell("for i in $(seq 90); do printf 't%d\\tA%d w%d b%d.\\n' $((i % 3)) $((i % 7)) "
                  "$((i % 12)) $((i % 5)); done >$OUT/texts");
}

Test(each_setting, has_an_effect, .timeout = 300)
{
    write_texts();
    for (int i = 0; i < N_RECIPES; i++) {
        char *settings = settings_of(recipes[i].name, "small");
        cr_expect_geq(check_settings(&recipes[i], settings), 20, "%s", recipes[i].name);
        free(settings);
    }
}

Test(each_setting, presets_differ)
{
    static const char *const first[N_RECIPES] = { "notebook", "notebook", "dates", "fortunes",
                                                  "base" };
    for (int i = 0; i < N_RECIPES; i++) {
        char *other = settings_of(recipes[i].name, first[i]);
        char *small = settings_of(recipes[i].name, "small");
        cr_expect_str_neq(other, small, "%s", recipes[i].name);
        free(other);
        free(small);
    }
}

/* ---- Resumed runs ---------------------------------------------------------------------------- */

static bool may_change(const char *key)
{
    static const char *const keys[] = { "steps",      "workers",    "patience",        "zero_stage",
                                        "show_every", "histograms", "checkpoint_every" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* Resumes the run in $OUT/run with another value of a setting. */
static void check_resumed(const recipe_run *recipe, const char *key, const char *value)
{
    const special *s = find_special(recipe->name, key);
    const char *data = strstr(recipe->options, "--data");
    char changed[64], line[256], wanted[128], output[1024];
    change(value, changed, sizeof changed);
    if (s)
        snprintf(changed, sizeof changed, "%s", s->value);
    if (strcmp(key, "matmul_precision") == 0)
        snprintf(changed, sizeof changed, "high");
    snprintf(line, sizeof line, "train --resume %s --out $OUT/run --set %s=%s 2>&1 >$OUT/printed",
             data ? data : "", key, changed);
    const int status = program_run(line, output, sizeof output);
    snprintf(wanted, sizeof wanted, "brasa train: %s is %s, but the checkpoint was made with ", key,
             changed);
    if (may_change(key))
        cr_expect_eq(status, 0, "%s %s: %s", recipe->name, key, output);
    else
        cr_expect(status == 2 && strncmp(output, wanted, strlen(wanted)) == 0, "%s %s: %s",
                  recipe->name, key, output);
}

Test(each_setting, changes_no_result_of_a_resumed_run)
{
    write_texts();
    for (int i = 0; i < N_RECIPES; i++) {
        free(results_of(&recipes[i], "--steps 1"));
        program_shell("cp -r $OUT/run $OUT/first");
        char *settings = settings_of(recipes[i].name, "small");
        for (const char *line = settings; line && *line; line = strchr(line, '\n')) {
            char key[64], value[64];
            line += *line == '\n';
            if (strncmp(line, "  ", 2) == 0 && line[2] != ' ' &&
                sscanf(line, " %63s %63s", key, value) == 2) {
                check_resumed(&recipes[i], key, value);
                program_shell("rm -r $OUT/run && cp -r $OUT/first $OUT/run");
            }
        }
        free(settings);
        program_shell("rm -r $OUT/first");
    }
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

/* The values that a numeric setting may have. `recipe`: NULL for all. Other settings are sizes from
 * 1 to 2^20. */
static const struct {
    const char *recipe, *key, *range;
} ranges[] = {
    { NULL, "steps", "an integer in 0 .. 1000000000" },
    { NULL, "seed", "an integer in 0 .. 9.00719925474099e+15" },
    { NULL, "lr", "a number in 1e-12 .. 1000000" },
    { NULL, "warmup", "an integer in 0 .. 1000000000" },
    { NULL, "decay_steps", "an integer in 0 .. 1000000000" },
    { NULL, "plateau_factor", "a number in 1e-12 .. 0.999" },
    { NULL, "plateau_patience", "an integer in 0 .. 1000000000" },
    { NULL, "zero_stage", "an integer in 0 .. 2" },
    { NULL, "clip", "a number in 0 .. 1000000" },
    { NULL, "workers", "an integer in 0 .. 256" },
    { NULL, "eval_every", "an integer in 1 .. 1000000000" },
    { NULL, "patience", "an integer in 0 .. 1000000000" },
    { NULL, "checkpoint_every", "an integer in 1 .. 1000000000" },
    { NULL, "show_every", "an integer in 0 .. 1000000000" },
    { NULL, "histograms", "an integer in 0 .. 1000000000" },
    { "gpt", "layers", "an integer in 1 .. 256" },
    { NULL, "layers", "an integer in 1 .. 1024" },
    { NULL, "length", "an integer in 2 .. 16384" },
    { NULL, "dropout", "a number in 0 .. 1" },
    { NULL, "n_segments", "an integer in 2 .. 1048576" },
    { NULL, "batch_size", "an integer in 2 .. 1048576" },
    { NULL, "vocab", "an integer in 2 .. 1048576" },
    { NULL, "samples", "an integer in 1 .. 1073741824" },
    { NULL, "forms", "an integer in 1 .. 32" },
    { NULL, "min_count", "an integer in 1 .. 1073741824" },
    { "vanilla", "held_out", "an integer in 1 .. 36524" },
    { "classifier", "held_out", "a number in 0 .. 1" },
    { "gpt", "held_out", "a number in 0 .. 0.9" },
    { NULL, "vocab_size", "an integer in 257 .. 1048576" },
    { NULL, NULL, "an integer in 1 .. 1048576" },
};

static const char *range_of(const char *recipe, const char *key)
{
    size_t i = 0;
    while (ranges[i].key && (strcmp(ranges[i].key, key) != 0 ||
                             (ranges[i].recipe && strcmp(ranges[i].recipe, recipe) != 0)))
        i++;
    return ranges[i].range;
}

/* Checks that a value is refused, and that the message has the setting and its range. */
static void check_range(const recipe_run *recipe, const char *key, const char *value)
{
    char options[128], expected[256];
    snprintf(options, sizeof options, "--set %s=%s", key, value);
    snprintf(expected, sizeof expected, "brasa train: %s is '%s', must be %s\n", key, value,
             range_of(recipe->name, key));
    char *results = results_of(recipe, options);
    cr_expect_str_eq(results, expected, "%s", recipe->name);
    free(results);
}

Test(each_setting, has_a_range)
{
    write_texts();
    for (int i = 0; i < N_RECIPES; i++) {
        char *settings = settings_of(recipes[i].name, "small");
        for (const char *line = settings; line && *line; line = strchr(line, '\n')) {
            char key[64], value[64];
            line += *line == '\n';
            if (strncmp(line, "  ", 2) != 0 || line[2] == ' ' ||
                sscanf(line, " %63s %63s", key, value) != 2 || !isdigit((unsigned char)*value))
                continue;
            check_range(&recipes[i], key, "-7");
            check_range(&recipes[i], key, "1e30");
        }
        free(settings);
    }
}

/* No setting has the value "other". A bool or a choice lists its values. */
Test(each_setting, refuses_other_texts)
{
    write_texts();
    for (int i = 0; i < N_RECIPES; i++) {
        char *settings = settings_of(recipes[i].name, "small");
        for (const char *line = settings; line && *line; line = strchr(line, '\n')) {
            char key[64], value[64], options[128], wanted[128];
            line += *line == '\n';
            if (strncmp(line, "  ", 2) != 0 || line[2] == ' ' ||
                sscanf(line, " %63s %63s", key, value) != 2)
                continue;
            const bool is_bool = strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
            snprintf(options, sizeof options, "--set %s=other", key);
            snprintf(wanted, sizeof wanted, "brasa train: %s is 'other', must be %s", key,
                     is_bool                          ? "true or false\n"
                     : isdigit((unsigned char)*value) ? range_of(recipes[i].name, key)
                                                      : "one of ");
            char *results = results_of(&recipes[i], options);
            cr_expect_eq(strncmp(results, wanted, strlen(wanted)), 0, "%s: %s", recipes[i].name,
                         results);
            free(results);
        }
        free(settings);
    }
}
