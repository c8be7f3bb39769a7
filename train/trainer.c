/* train/trainer.c - a training run: settings, steps, log, checkpoints, resuming.
 *
 * A checkpoint holds everything that the next step depends on, except the data. A resumed run
 * creates the data again from the same seed and text, and verifies the text's hash. Its results are
 * therefore those of an uninterrupted run. */
#include "train/trainer.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/text.h"
#include "io/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- Settings -------------------------------------------------------------------------------- */

static const char *const matmul_precisions[] = { "highest", "high", "medium", NULL };

static const char *const amps[] = { "off", "bf16", NULL };

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
    settings_add(&t->settings, (setting){ "steps", SETTING_INTEGER, &o->steps, 0, 1e9, true,
                                          "total number of steps" });
    settings_add(&t->settings, (setting){ "seed", SETTING_INTEGER, &o->seed, 0, 0x1p53, false,
                                          "seed of the initial weights and the data" });
    settings_add(&t->settings, (setting){ "matmul_precision", SETTING_CHOICE, &o->matmul_precision,
                                          0, 0, false, "highest, high or medium" });
    settings_add(&t->settings,
                 (setting){ "amp", SETTING_CHOICE, &o->amp, 0, 0, false,
                            "off, or bf16: mixed precision in the forward pass of a step" });
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
    settings_add(&t->settings, (setting){ "checkpoint_every", SETTING_INTEGER, &o->checkpoint_every,
                                          1, 1e9, true, "steps between checkpoints" });
    t->recipe->settings(t->self, &t->settings);
}

/* Returns the settings in the run's checkpoint; NULL with an error on failure. */
static json_t *checkpoint_settings(const trainer *t)
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

/* Checks that values of the command line equal the checkpoint's, except those that may change. With
 * decay_steps=0, the checkpoint's value is used. */
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

/* Sets the initial values of a new run. */
static void begin_settings(trainer *t, const train_request *request)
{
    snprintf(t->preset, sizeof t->preset, "%s",
             request->preset ? request->preset : t->recipe->presets[0]);
    t->recipe->preset(t->self, t->preset, request->as_written, &t->options);
    add_settings(t);
}

/* Sets the preset's or the checkpoint's values, and then those of the request. */
static train_outcome choose_settings(trainer *t, const train_request *request)
{
    begin_settings(t, request);
    json_t *before = request->resume ? checkpoint_settings(t) : NULL;
    if (before)
        settings_from_json(&t->settings, before);
    train_outcome outcome = br_failed() ? TRAIN_FAILED : TRAIN_DONE;
    if (outcome == TRAIN_DONE &&
        !(before ? resume_settings(t, request, before) : assign_all(t, request)))
        outcome = TRAIN_REFUSED;
    if (outcome == TRAIN_DONE && t->options.schedule.decay.index == SCHEDULE_PLATEAU &&
        !t->recipe->evaluate) {
        br_raise(BR_ERROR_ARGUMENT, "schedule=plateau needs a recipe with metrics, but %s has none",
                 t->recipe->name);
        outcome = TRAIN_REFUSED;
    }
    if (outcome == TRAIN_DONE && t->options.accumulate % t->ranks.size != 0) {
        br_raise(BR_ERROR_ARGUMENT,
                 "accumulate is %" PRId64 ", must be a multiple of the number of ranks, %d",
                 t->options.accumulate, t->ranks.size);
        outcome = TRAIN_REFUSED;
    }
    schedule_settle(&t->options.schedule, t->options.steps);
    if (outcome == TRAIN_DONE)
        br_set_float32_matmul_precision(matmul_precisions[t->options.matmul_precision.index]);
    json_decref(before);
    return outcome;
}

/* ---- Beginning ------------------------------------------------------------------------------- */

static bool set_paths(trainer *t, const train_request *request)
{
    const char *name = t->recipe->name;
    t->out = request->out ? text_format("%s", request->out) : text_format("out/%s", name);
    const char *out = t->out ? t->out : "";
    t->checkpoint = text_format("%s/checkpoint.safetensors", out);
    t->log_path = text_format("%s/log.jsonl", out);
    t->plot = text_format("%s/loss.svg", out);
    t->metrics_plot = text_format("%s/metrics.svg", out);
    t->trace = text_format("%s/trace.json", out);
    return !br_failed();
}

/* Creates the directory of a new run, and refuses one that contains another run. */
static train_outcome make_place(const trainer *t, const train_request *request)
{
    if (request->resume || t->ranks.rank > 0)
        return TRAIN_DONE;
    if (!request->overwrite && access(t->checkpoint, F_OK) == 0) {
        br_raise(BR_ERROR_ARGUMENT,
                 "%s already contains a run: --resume continues it, --overwrite replaces it, --out "
                 "DIR writes to another directory",
                 t->out);
        return TRAIN_REFUSED;
    }
    return file_make_directory(t->out) ? TRAIN_DONE : TRAIN_FAILED;
}

/* Returns the path of the text to train on, which the caller frees. Returns NULL without an error
 * if the recipe generates its data, and with an error on failure. */
static char *text_path(const trainer *t, const train_request *request)
{
    const recipe *r = t->recipe;
    if (!request->data)
        return r->data ? file_find_data(r->data) : NULL;
    if (!r->needs_data || access(request->data, F_OK) == 0)
        return text_format("%s", request->data);
    br_raise(BR_ERROR_IO, "%s does not exist; %s needs %s", request->data, r->name, r->needs_data);
    return NULL;
}

/* Returns the text to train on, which the caller frees; NULL in the same cases as text_path(). */
static char *read_text(const trainer *t, const train_request *request, size_t *length)
{
    char *path = text_path(t, request);
    char *text = path ? file_read(path, length) : NULL;
    free(path);
    return text;
}

/* Returns the scheduler if the schedule is plateau, otherwise NULL. */
static br_scheduler *new_plateau(const trainer *t)
{
    const schedule *s = &t->options.schedule;
    if (s->decay.index != SCHEDULE_PLATEAU)
        return NULL;
    return br_reduce_lr_on_plateau(t->optim, BR_OPTIONS(br_plateau, .factor = s->plateau_factor,
                                                        .patience = s->plateau_patience));
}

static bool prepare(trainer *t, const train_request *request)
{
    size_t length = 0;
    char *text = read_text(t, request, &length);
    if (br_failed())
        return false;
    snprintf(t->data_hash, sizeof t->data_hash, "%016" PRIx64,
             (uint64_t)XXH3_64bits(text ? text : "", length));
    br_manual_seed((uint64_t)t->options.seed);
    t->model = t->recipe->prepare(t->self, &t->options, text, length);
    if (t->model)
        t->optim = br_adam(t->model, BR_OPTIONS(br_adam, .lr = t->options.schedule.lr));
    if (t->optim) {
        t->parameters = br_parameters(t->model);
        t->plateau = new_plateau(t);
    }
    free(text);
    return !br_failed();
}

/* Checks that all ranks run the same, and connects their models. */
static bool connect(trainer *t)
{
    json_t *json = settings_to_json(&t->settings);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    bool ok = text && ranks_agree(&t->ranks, "other settings", XXH3_64bits(text, strlen(text))) &&
              ranks_agree(&t->ranks, "other data", strtoull(t->data_hash, NULL, 16)) &&
              ranks_round_alike(&t->ranks, t->options.amp.index != AMP_OFF) &&
              ranks_agree(&t->ranks, "another number of steps done", (uint64_t)t->step) &&
              ranks_begin(&t->ranks, t->model, t->optim, t->options.zero_stage);
    free(text);
    return ok;
}

static bool same_data(const trainer *t)
{
    br_safetensors *file = br_safetensors_open(t->checkpoint, NULL);
    const char *hash = file ? br_safetensors_metadata(file, "data_xxh3") : NULL;
    if (file && (!hash || strcmp(hash, t->data_hash) != 0))
        br_raise(BR_ERROR_ARGUMENT, "%s: the run was trained on a different text", t->checkpoint);
    br_safetensors_close(file);
    return !br_failed();
}

static bool load(trainer *t)
{
    if (!same_data(t))
        return false;
    br_checkpoint c = {
        .model = t->model, .optim = t->optim, .scheduler = t->plateau, .rng = true
    };
    if (!br_checkpoint_load(t->checkpoint, &c))
        return false;
    t->step = t->saved = c.step;
    return true;
}

static bool open_log(trainer *t)
{
    t->log.path = t->log_path;
    t->log.names[t->log.n_names++] = "loss";
    for (int i = 0; t->recipe->addends[i] && t->log.n_names < LOG_MAX_VALUES; i++)
        t->log.names[t->log.n_names++] = t->recipe->addends[i];
    t->log.n_losses = t->log.n_names;
    for (int i = 0; t->recipe->metrics[i] && t->log.n_names < LOG_MAX_VALUES; i++)
        t->log.names[t->log.n_names++] = t->recipe->metrics[i];
    return t->ranks.rank > 0 ||
           (train_log_open(&t->log, t->step) && event_file_open(&t->events, t->out, t->step));
}

/* ---- Training -------------------------------------------------------------------------------- */

/* Returns the recipe's vocabulary, one word per line, which the caller frees. */
static char *words_of(const trainer *t)
{
    const br_vocab *vocab = t->recipe->words ? t->recipe->words(t->self) : NULL;
    int64_t n = vocab ? br_vocab_size(vocab) : 0;
    size_t capacity = 1, length = 0;
    for (int64_t i = 0; i < n; i++)
        capacity += strlen(br_vocab_word(vocab, i)) + 1;
    char *text = malloc(capacity);
    for (int64_t i = 0; text && i < n; i++)
        length += (size_t)sprintf(text + length, "%s\n", br_vocab_word(vocab, i));
    if (text)
        text[length] = 0;
    else
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for %" PRId64 " words", n);
    return text;
}

static bool save(trainer *t)
{
    json_t *json = settings_to_json(&t->settings);
    char *text = json ? json_dumps(json, JSON_COMPACT) : NULL, *words = words_of(t);
    json_decref(json);
    const br_metadata metadata[] = { { "recipe", t->recipe->name },
                                     { "preset", t->preset },
                                     { "settings", text },
                                     { "data_xxh3", t->data_hash },
                                     { "words", words } };
    br_checkpoint c = { .model = t->model,
                        .optim = t->optim,
                        .scheduler = t->plateau,
                        .step = t->step,
                        .rng = true,
                        .n_metadata = t->recipe->words ? 5 : 4,
                        .metadata = metadata };
    bool ok = text && words && ranks_save(&t->ranks, t->checkpoint, &c);
    free(text);
    free(words);
    if (ok)
        t->saved = t->step;
    return ok;
}

static bool draw(const trainer *t)
{
    /* The floor limits the log axis, because a loss can be zero or close to it. */
    br_plot_options losses = *BR_OPTIONS(br_plot, .title = t->recipe->name, .y_label = "loss",
                                         .log_y = true, .floor_y = 1e-3);
    int n_losses = t->log.n_losses, n = t->log.n_names;
    return train_log_plot(&t->log, t->plot, 0, n_losses, losses) &&
           (n == n_losses || train_log_plot(&t->log, t->metrics_plot, n_losses, n,
                                            *BR_OPTIONS(br_plot, .title = t->recipe->name)));
}

static bool is_asked_to_stop(const train_request *request)
{
    return request->stop && *request->stop;
}

/* Several ranks stop after the same step: trainer_step() tells all of them. */
static bool is_stopped(const trainer *t, const train_request *request)
{
    return t->stopped || (t->ranks.size == 1 && is_asked_to_stop(request));
}

/* Runs a step, evaluates the model, and records the results. */
static bool train_step(trainer *t, const train_request *request, double *values, evaluation *latest)
{
    double started = clock_seconds();
    bool ok = step_profile_before(&t->profile) &&
              trainer_step(t, is_asked_to_stop(request), values) && step_profile_after(&t->profile);
    double seconds = clock_seconds() - started;
    if (!ok || !trainer_evaluate(t, values + t->log.n_losses) ||
        (t->ranks.rank == 0 && !trainer_record(t, values, seconds)))
        return false;
    trainer_report_progress(t, request, values, latest);
    return true;
}

/* Returns whether the run has had no new minimum for long enough, which only rank 0 knows. */
static bool find_exhausted(trainer *t)
{
    double exhausted = t->ranks.rank == 0 && trainer_is_exhausted(t);
    if (t->options.patience > 0 && trainer_is_evaluated(t) &&
        !ranks_broadcast(&t->ranks, 1, &exhausted))
        return false;
    t->exhausted = exhausted != 0;
    return true;
}

static bool train(trainer *t, const train_request *request)
{
    if (request->begin)
        request->begin(request->context, t->step, t->options.steps);
    double values[LOG_MAX_VALUES];
    evaluation latest = { .step = 0 };
    for (int i = 0; i < LOG_MAX_VALUES; i++)
        latest.metrics[i] = NAN;
    bool ok = find_exhausted(t);
    while (ok && t->step < t->options.steps && !t->exhausted && !is_stopped(t, request)) {
        ok = train_step(t, request, values, &latest) && find_exhausted(t);
        if (ok && t->step % t->options.checkpoint_every == 0)
            ok = save(t);
    }
    if (request->end)
        request->end(request->context);
    if (ok && t->saved != t->step)
        ok = save(t);
    return ok && (t->ranks.rank > 0 || draw(t));
}

static void show(trainer *t, FILE *out)
{
    br_eval(t->model);
    br_scope *scope = br_no_grad_begin();
    t->recipe->show(t->self, out);
    br_scope_end(scope);
    br_train(t->model, true);
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* Reports the results of a run that has done all its steps. */
static void report(trainer *t, FILE *out)
{
    if (t->exhausted)
        fprintf(out,
                "Stopped after step %" PRId64 ": %s has not improved for %" PRId64
                " evaluations.\n",
                t->step, t->log.names[t->log.n_losses], t->options.patience);
    show(t, out);
    step_profile_report(&t->profile, out, t->trace);
    if (!br_failed())
        fprintf(out, "Wrote %s, %s and %s.\n", t->checkpoint, t->log_path, t->plot);
}

static void announce(const trainer *t, FILE *out)
{
    fprintf(out, "%s: %" PRId64 " parameters, steps %" PRId64 " to %" PRId64, t->recipe->name,
            br_count_parameters(t->model, true), t->step + 1, t->options.steps);
    if (t->ranks.size > 1)
        fprintf(out, ", %" PRId64 " batches per step on %d ranks", t->options.accumulate,
                t->ranks.size);
    fprintf(out, "\n");
    fflush(out);
}

static train_outcome run(trainer *t, const train_request *request)
{
    if (!set_paths(t, request))
        return TRAIN_FAILED;
    train_outcome outcome = choose_settings(t, request);
    if (outcome == TRAIN_DONE)
        outcome = make_place(t, request);
    if (outcome != TRAIN_DONE)
        return outcome;
    /* A new run saves a checkpoint at once, so that log and checkpoint always belong to the same
     * run. */
    if (!prepare(t, request) || (request->resume && !load(t)) || !connect(t) ||
        (!request->resume && !save(t)) || !open_log(t))
        return TRAIN_FAILED;
    if (request->report)
        announce(t, request->report);
    if (!train(t, request))
        return TRAIN_FAILED;
    if (is_stopped(t, request) && t->step < t->options.steps)
        return TRAIN_STOPPED;
    if (request->report)
        report(t, request->report);
    return br_failed() ? TRAIN_FAILED : TRAIN_DONE;
}

static void end(trainer *t)
{
    ranks_end(&t->ranks);
    train_log_close(&t->log);
    event_file_close(&t->events);
    br_named_list_free(t->parameters);
    br_scheduler_free(t->plateau);
    br_optim_free(t->optim);
    if (t->self)
        t->recipe->destroy(t->self);
    free(t->self);
    free(t->out);
    free(t->checkpoint);
    free(t->log_path);
    free(t->plot);
    free(t->metrics_plot);
    free(t->trace);
    step_profile_end(&t->profile);
}

static bool begin(trainer *t, const train_request *request)
{
    *t = (trainer){ .recipe = request->recipe,
                    .saved = -1,
                    .profile.steps = request->profile,
                    .ranks = ranks_here() };
    t->self = calloc(1, request->recipe->size);
    if (!t->self)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the recipe");
    return t->self != NULL;
}

train_outcome train_run(const train_request *request, int64_t *step)
{
    trainer t;
    train_outcome outcome = begin(&t, request) ? run(&t, request) : TRAIN_FAILED;
    *step = t.step;
    end(&t);
    return outcome;
}

/* ---- Existing runs --------------------------------------------------------------------------- */

/* Returns the recipe of a checkpoint; NULL with an error on failure. */
static const recipe *recipe_of(const char *checkpoint)
{
    br_safetensors *file = br_safetensors_open(checkpoint, NULL);
    const char *name = file ? br_safetensors_metadata(file, "recipe") : NULL;
    const recipe *found = name ? train_find_recipe(name) : NULL;
    if (file && !found)
        br_raise(BR_ERROR_FORMAT, "%s: not a checkpoint written by 'brasa train'", checkpoint);
    br_safetensors_close(file);
    return found;
}

const recipe *train_recipe_of_run(const char *directory)
{
    char *checkpoint = text_format("%s/checkpoint.safetensors", directory);
    const recipe *found = checkpoint ? recipe_of(checkpoint) : NULL;
    free(checkpoint);
    return found;
}

/* Recreates the checkpoint's data and model, and loads the model. */
static bool open_run(trainer *t, const train_request *request)
{
    begin_settings(t, request);
    json_t *json = checkpoint_settings(t);
    bool ok = json && settings_from_json(&t->settings, json);
    json_decref(json);
    br_checkpoint c = { 0 };
    if (!ok || !prepare(t, request) || !same_data(t))
        return false;
    c.model = t->model;
    return br_checkpoint_load(t->checkpoint, &c);
}

br_attention *train_attend(const char *checkpoint, const char *text)
{
    train_request request = { .recipe = recipe_of(checkpoint) };
    trainer t = { 0 };
    br_attention *attention = NULL;
    if (!request.recipe)
        return NULL;
    if (!request.recipe->attend)
        br_raise(BR_ERROR_ARGUMENT, "%s: recipe %s does not support views of its attention",
                 checkpoint, request.recipe->name);
    else if (begin(&t, &request) && (t.checkpoint = text_format("%s", checkpoint)) &&
             open_run(&t, &request)) {
        br_eval(t.model);
        br_scope *scope = br_no_grad_begin();
        attention = t.recipe->attend(t.self, text);
        br_scope_end(scope);
    }
    if (t.self)
        end(&t);
    return attention;
}

bool train_describe(const train_request *request, FILE *stream, settings_print_line print)
{
    trainer t;
    if (begin(&t, request)) {
        begin_settings(&t, request);
        fprintf(stream, "\nSettings of %s, preset %s%s:\n", t.recipe->name, t.preset,
                request->as_written ? ", as written" : "");
        settings_print(&t.settings, stream, print);
    }
    end(&t);
    return !br_failed();
}
