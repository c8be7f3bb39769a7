/* train/run_settings.c - the settings of a training run: the values of the preset or the
 * checkpoint, and then those of the command line. */
#include "io/json.h"
#include "train/trainer.h"

#include <inttypes.h>
#include <string.h>

static const char *const matmul_precisions[] = { "highest", "high", "medium", NULL };

static const char *const amps[] = { "off", "bf16", NULL };

static const char *const dtypes[] = { "f32", "f64", "bf16", "f16", "quantized", NULL };

static const char *const half_updates[] = { "master", "stochastic", NULL };

br_dtype train_dtype(const train_options *options)
{
    br_dtype dtype = BR_F32;
    br_dtype_named(dtypes[options->dtype.index], &dtype);
    return dtype;
}

br_dtype trainer_dtype(const trainer *t)
{
    return train_dtype(&t->options);
}

/* Returns the precision of the process, which the environment may set. */
static setting_choice current_matmul_precision(void)
{
    setting_choice choice = { .names = matmul_precisions };
    while (strcmp(matmul_precisions[choice.index], br_get_float32_matmul_precision()) != 0)
        choice.index++;
    return choice;
}

static void add_settings(trainer *t)
{
    train_options *o = &t->options;
    o->matmul_precision = current_matmul_precision();
    o->amp.names = amps;
    o->dtype = (setting_choice){ .names = dtypes, .is_optional = true };
    o->half_update = (setting_choice){ .names = half_updates, .is_optional = true };
    settings_add(&t->settings, (setting){ "steps", SETTING_INTEGER, &o->steps, 0, 1e9, true,
                                          "total number of steps" });
    settings_add(&t->settings, (setting){ "seed", SETTING_INTEGER, &o->seed, 0, 0x1p53, false,
                                          "seed of the initial weights and the data" });
    settings_add(&t->settings, (setting){ "matmul_precision", SETTING_CHOICE, &o->matmul_precision,
                                          0, 0, false, "highest, high or medium" });
    settings_add(&t->settings,
                 (setting){ "amp", SETTING_CHOICE, &o->amp, 0, 0, false,
                            "off, or bf16: mixed precision in the forward pass of a step" });
    settings_add(&t->settings, (setting){ "dtype", SETTING_CHOICE, &o->dtype, 0, 0, false,
                                          "of the parameters: f32, f64, bf16 or f16" });
    settings_add(&t->settings,
                 (setting){ "half_update", SETTING_CHOICE, &o->half_update, 0, 0, false,
                            "of bf16 and f16 parameters: master keeps copies in f32, "
                            "stochastic rounds up or down at random" });
    schedule_add_settings(&o->schedule, &t->settings, t->recipe->evaluate != NULL);
    if (o->accumulate == 0)
        o->accumulate = t->ranks.size;
    settings_add(&t->settings,
                 (setting){ "accumulate", SETTING_INTEGER, &o->accumulate, 1, 1 << 20, false,
                            "batches per step; their gradients are averaged; with several ranks, "
                            "by default one for each" });
    settings_add(
        &t->settings,
        (setting){ "zero_stage", SETTING_INTEGER, &o->zero_stage, ZERO_NOTHING, ZERO_GRADIENTS,
                   true,
                   "with several ranks: 1 divides the optimizer's state among them, 2 also "
                   "the gradients" });
    settings_add(&t->settings, (setting){ "clip", SETTING_NUMBER, &o->clip, 0, 1e6, false,
                                          "largest norm of the gradients; 0: no limit" });
    settings_add(&t->settings, (setting){ "workers", SETTING_INTEGER, &o->workers, 0, 256, true,
                                          "threads that prefetch batches" });
    if (t->recipe->evaluate) {
        settings_add(&t->settings, (setting){ "eval_every", SETTING_INTEGER, &o->eval_every, 1, 1e9,
                                              false, "steps between evaluations" });
        settings_add(
            &t->settings,
            (setting){ "patience", SETTING_INTEGER, &o->patience, 0, 1e9, true,
                       "stop after this many evaluations without a smaller loss; 0: never" });
    }
    settings_add(&t->settings,
                 (setting){ "show_every", SETTING_INTEGER, &o->show_every, 0, 1e9, true,
                            "steps between printed predictions; 0: only at the end" });
    settings_add(&t->settings,
                 (setting){ "histograms", SETTING_INTEGER, &o->histograms, 0, 1e9, true,
                            "steps between distributions of parameters and gradients for "
                            "TensorBoard; 0: none" });
    settings_add(&t->settings, (setting){ "checkpoint_every", SETTING_INTEGER, &o->checkpoint_every,
                                          1, 1e9, true, "steps between checkpoints" });
    t->recipe->settings(t->self, &t->settings);
}

json_t *trainer_checkpoint_settings(const trainer *t)
{
    br_safetensors *file = br_safetensors_open(t->checkpoint, NULL);
    const char *name = file ? br_safetensors_metadata(file, "recipe") : NULL;
    const char *text = file ? br_safetensors_metadata(file, "settings") : NULL;
    json_t *json = text ? br__json_parse("train", t->checkpoint, text, strlen(text), NULL) : NULL;
    if (file && (!name || !json))
        br_raise(BR_ERROR_FORMAT, "%s: not a checkpoint written by 'brasa train'", t->checkpoint);
    else if (file && strcmp(name, t->recipe->name) != 0)
        br_raise(BR_ERROR_ARGUMENT, "%s: this is a checkpoint of %s, not of %s", t->checkpoint,
                 name, t->recipe->name);
    br_safetensors_close(file);
    return json;
}

/* Reads the preset's name from the checkpoint; returns false with an error if the command line
 * names a different preset. */
static bool resume_preset(trainer *t, const char *preset)
{
    br_safetensors *file = br_safetensors_open(t->checkpoint, NULL);
    const char *before = file ? br_safetensors_metadata(file, "preset") : NULL;
    snprintf(t->preset, sizeof t->preset, "%s", before ? before : "");
    br_safetensors_close(file);
    if (preset && !br_failed() && strcmp(t->preset, preset) != 0)
        br_raise(BR_ERROR_ARGUMENT, "preset is %s, but the checkpoint was made with %s", preset,
                 *t->preset ? t->preset : "an unknown one");
    return !br_failed();
}

static bool assign_all(trainer *t, const train_request *request)
{
    for (int i = 0; i < request->n_assignments; i++) {
        const assignment *a = &request->assignments[i];
        if (!(a->key ? settings_set(&t->settings, a->key, a->value)
                     : settings_assign(&t->settings, a->value)))
            return false;
    }
    return true;
}

/* Checks that the settings of the command line have the checkpoint's values, except for settings
 * that may change. With decay_steps=0, the checkpoint's value is used. */
static bool resume_settings(trainer *t, const train_request *request, const json_t *before)
{
    int64_t decay_steps = t->options.schedule.decay_steps;
    if (!resume_preset(t, request->preset) || !assign_all(t, request) ||
        (request->as_written && !settings_set(&t->settings, "as_written", "true")))
        return false;
    if (t->options.schedule.decay_steps == 0)
        t->options.schedule.decay_steps = decay_steps;
    return settings_agree(&t->settings, before);
}

void trainer_begin_settings(trainer *t, const train_request *request)
{
    snprintf(t->preset, sizeof t->preset, "%s",
             request->preset ? request->preset : t->recipe->presets[0]);
    t->recipe->preset(t->self, t->preset, request->as_written, &t->options);
    add_settings(t);
}

/* Refuses a request for a notebook's variant of a recipe that has none. */
static bool check_variant(const trainer *t, const train_request *request)
{
    for (int i = 0; i < t->settings.count; i++)
        if (strcmp(t->settings.items[i].name, "as_written") == 0)
            return true;
    if (request->as_written)
        br_raise(BR_ERROR_ARGUMENT, "%s is not of a notebook, so it has no variant as written",
                 t->recipe->name);
    return !request->as_written;
}

/* Checks values that exclude each other; returns false with an error. */
static bool check_combinations(const trainer *t)
{
    const train_options *o = &t->options;
    const char *dtype = dtypes[o->dtype.index];
    const bool is_half = br_dtype_size(trainer_dtype(t)) == 2;
    if (o->schedule.decay.index == SCHEDULE_PLATEAU && !t->recipe->evaluate)
        br_raise(BR_ERROR_ARGUMENT, "schedule=plateau needs a recipe with metrics, but %s has none",
                 t->recipe->name);
    else if (o->accumulate % t->ranks.size != 0)
        br_raise(BR_ERROR_ARGUMENT,
                 "accumulate is %" PRId64 ", must be a multiple of the number of ranks, %d",
                 o->accumulate, t->ranks.size);
    else if (trainer_dtype(t) == BR_QUANTIZED && !t->recipe->loads_dtype)
        br_raise(
            BR_ERROR_ARGUMENT,
            "dtype is quantized, which only brasa finetune with a GGUF file has: use dtype=f32");
    else if (o->amp.index != AMP_OFF && br_dtype_size(trainer_dtype(t)) == 8)
        br_raise(BR_ERROR_ARGUMENT,
                 "amp is %s, but mixed precision does not convert operands of f64: use dtype=f32, "
                 "or amp=off",
                 amps[o->amp.index]);
    else if (is_half && t->ranks.size > 1 && o->zero_stage != ZERO_NOTHING)
        br_raise(BR_ERROR_ARGUMENT,
                 "zero_stage is %" PRId64 ", must be 0 with dtype=%s, because an optimizer whose "
                 "state is divided keeps no f32 copies of the parameters; dtype=f32 with amp=bf16 "
                 "supports it",
                 o->zero_stage, dtype);
    return !br_failed();
}

train_outcome trainer_choose_settings(trainer *t, const train_request *request)
{
    trainer_begin_settings(t, request);
    json_t *before = request->resume ? trainer_checkpoint_settings(t) : NULL;
    if (before)
        settings_from_json(&t->settings, before);
    train_outcome outcome = br_failed() ? TRAIN_FAILED : TRAIN_DONE;
    if (outcome == TRAIN_DONE &&
        (!(before ? resume_settings(t, request, before) : assign_all(t, request)) ||
         !check_variant(t, request) || !check_combinations(t)))
        outcome = TRAIN_REFUSED;
    if (t->options.steps > 0 || !t->recipe->default_batches)
        schedule_settle(&t->options.schedule, t->options.steps);
    if (outcome == TRAIN_DONE)
        br_set_float32_matmul_precision(matmul_precisions[t->options.matmul_precision.index]);
    json_decref(before);
    return outcome;
}
