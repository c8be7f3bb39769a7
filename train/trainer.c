/* train/trainer.c - a training run: steps, log, checkpoints, resuming.
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

/* Updates of bf16 and f16 parameters are often too small for their dtype, so that the optimizer
 * keeps f32 copies or rounds at random. */
static br_optim *new_adam(const trainer *t)
{
    static const br_half_update updates[] = {
        [HALF_MASTER] = BR_HALF_MASTER, [HALF_STOCHASTIC] = BR_HALF_STOCHASTIC
    };
    br_optim *adam = br_adam(t->model, BR_OPTIONS(br_adam, .lr = t->options.schedule.lr));
    if (adam && br_dtype_size(trainer_dtype(t)) == 2)
        br_optim_set_half_update(adam, updates[t->options.half_update.index]);
    return adam;
}

/* Sets the number of steps by the data, if the recipe does that. */
static void choose_steps(trainer *t)
{
    train_options *o = &t->options;
    if (o->steps > 0 || !t->recipe->default_batches || br_failed())
        return;
    int64_t batches = t->recipe->default_batches(t->self);
    o->steps = (batches + o->accumulate - 1) / o->accumulate;
    schedule_settle(&o->schedule, o->steps);
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
    if (t->model && (t->recipe->loads_dtype || br_module_to(t->model, trainer_dtype(t))))
        t->optim = new_adam(t);
    choose_steps(t);
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
              ranks_round_alike(&t->ranks,
                                t->options.amp.index != AMP_OFF || trainer_dtype(t) == BR_BF16) &&
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
        .model = t->model,
        .optim = t->optim,
        .scheduler = t->plateau,
        .rng = true,
        .trainable_only = t->recipe->saves_trainable,
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
    if (t->ranks.rank > 0)
        return true;
    if (train_log_open(&t->log, t->step))
        t->events = tensorboard_open(t->out, t->step);
    return t->events != NULL;
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
                        .trainable_only = t->recipe->saves_trainable,
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
    const char *title = t->recipe->name;
    int n_losses = t->log.n_losses, n = t->log.n_names;
    return train_log_plot(&t->log, t->plot, title, 0, n_losses) &&
           (n == n_losses || train_log_plot(&t->log, t->metrics_plot, title, n_losses, n));
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

static void show(trainer *t, FILE *out)
{
    br_eval(t->model);
    br_scope *scope = br_no_grad_begin();
    t->recipe->show(t->self, out);
    br_scope_end(scope);
    br_train(t->model, true);
}

/* Prints predictions after every show_every steps but the last, after which report() does. */
static bool show_between(trainer *t, const train_request *request)
{
    int64_t each = t->options.show_every;
    if (!request->report || each == 0 || t->step % each != 0 || t->step == t->options.steps)
        return true;
    if (request->end)
        request->end(request->context);
    fprintf(request->report, "After step %" PRId64 ":\n", t->step);
    show(t, request->report);
    fflush(request->report);
    return !br_failed();
}

/* Runs a step, evaluates the model, and records the results. */
static bool train_step(trainer *t, const train_request *request, double *values, evaluation *latest)
{
    double started = clock_seconds();
    int64_t tokens = t->recipe->tokens ? t->recipe->tokens(t->self) : 0;
    bool ok = step_profile_before(&t->profile) &&
              trainer_step(t, is_asked_to_stop(request), values) && step_profile_after(&t->profile);
    double seconds = clock_seconds() - started;
    if (!ok || !trainer_evaluate(t, values + t->log.n_losses) ||
        (t->ranks.rank == 0 && !trainer_record(t, values, seconds)))
        return false;
    if (t->recipe->tokens && t->ranks.size == 1)
        latest->tokens_per_second =
            (double)(t->recipe->tokens(t->self) - tokens) / (seconds > 0 ? seconds : 1);
    trainer_report_progress(t, request, values, latest);
    return show_between(t, request);
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
    if (t->recipe->describe)
        t->recipe->describe(t->self, out);
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
    train_outcome outcome = trainer_choose_settings(t, request);
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
    if (t->ranks.rank == 0 && t->recipe->finish && !br_failed())
        t->recipe->finish(t->self, t->out, request->report);
    return br_failed() ? TRAIN_FAILED : TRAIN_DONE;
}

static void end(trainer *t)
{
    ranks_end(&t->ranks);
    train_log_close(&t->log);
    br_summary_writer_free(t->events);
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
    trainer_begin_settings(t, request);
    json_t *json = trainer_checkpoint_settings(t);
    bool ok = json && settings_from_json(&t->settings, json);
    json_decref(json);
    br_checkpoint c = { 0 };
    if (!ok || !prepare(t, request) || !same_data(t))
        return false;
    c.model = t->model;
    c.trainable_only = t->recipe->saves_trainable;
    return br_checkpoint_load(t->checkpoint, &c);
}

br_attention *train_attend(const char *checkpoint, br_dtype dtype, const char *text)
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
             open_run(&t, &request) && (dtype == BR_DTYPE_AUTO || br_module_to(t.model, dtype))) {
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
        trainer_begin_settings(&t, request);
        fprintf(stream, "\nSettings of %s, preset %s%s:\n", t.recipe->name, t.preset,
                request->as_written ? ", as written" : "");
        settings_print(&t.settings, stream, print);
    }
    end(&t);
    return !br_failed();
}
