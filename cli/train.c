/* cli/train.c - `brasa train RECIPE` and `brasa finetune`: the command line and the progress bar.
 */
#include "train/train.h"
#include "cli/cli.h"
#include "cli/pretrained.h"
#include "cli/progress.h"
#include "cli/rank_parent.h"
#include "cli/stop_signal.h"
#include "cli/train_command.h"
#include "train/ranks.h"
#include "train/step_profile.h"

#include <brasa/distributed.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help_head[] = "Usage: brasa train RECIPE [OPTION]...\n"
                                "       brasa train [RECIPE] --resume [OPTION]...\n"
                                "\n"
                                "Trains a model and shows its predictions.\n"
                                "\n";

static const char help_options[] =
    "Options:\n"
    "      --preset NAME    set of default values\n"
    "      --as-written     use the notebook's code as written, including its\n"
    "                       mistakes\n"
    "      --steps N        total number of steps\n"
    "      --seed S         seed of the initial weights and the data\n"
    "      --threads N      number of threads; it does not change the results\n"
    "      --matmul-precision P\n"
    "                       precision of f32 matrix products: highest (default), high\n"
    "                       or medium, which rounds their operands to bf16\n"
    "      --amp P          mixed precision of the forward pass: off (default) or bf16,\n"
    "                       in which products, convolutions and attention compute\n"
    "      --dtype D        dtype of the parameters: f32 (default), f64, bf16 or f16; for\n"
    "                       bf16 and f16 the optimizer keeps copies in f32, or rounds at\n"
    "                       random with --set half_update=stochastic\n"
    "      --lr X           learning rate\n"
    "      --set KEY=VALUE  change a setting; may be repeated\n"
    "      --out DIR        directory of the results (default: out/RECIPE):\n"
    "                       checkpoint.safetensors; log.jsonl, one line per step with\n"
    "                       the losses before the update and the step's time in\n"
    "                       seconds; loss.svg; metrics.svg if the recipe evaluates\n"
    "                       the model; event files for TensorBoard\n"
    "      --resume         continue the run in DIR; the results are the same as\n"
    "                       without the interruption. Recipe and settings are read\n"
    "                       from the checkpoint. Those given on the command line must\n"
    "                       match it, except settings that may change, such as steps\n"
    "      --overwrite      replace the run in DIR\n"
    "      --data FILE      text to train on; replaces the recipe's own text if it\n"
    "                       has one\n"
    "      --profile[=N]    profile N steps (default: 3) after some warm-up steps:\n"
    "                       print tables of time, FLOPs and bytes by operation and by\n"
    "                       module, and write trace.json for chrome://tracing\n"
    "      --histograms N   every N steps, write the distributions of the parameters and\n"
    "                       of their gradients for TensorBoard\n"
    "  -h, --help           show this help; with RECIPE, also its settings\n"
    "\n"
    "Ctrl-C stops the run after the current step and writes a checkpoint to resume\n"
    "from. The exit status is then 130.\n";

static const char *recipe_names(void)
{
    static char text[128];
    *text = 0;
    for (int i = 0; i < train_num_recipes; i++)
        names_add(text, sizeof text, train_recipes[i]->name);
    return text;
}

static const char *preset_names(const recipe *r)
{
    static char text[128];
    *text = 0;
    for (int i = 0; r->presets[i]; i++)
        names_add(text, sizeof text, r->presets[i]);
    return text;
}

/* Prints the help of `brasa train`. */
static void print_help(void)
{
    char line[256];
    cli_print_wrapped(stdout, help_head);
    printf("Recipes:\n");
    for (int i = 0; i < train_num_recipes; i++) {
        snprintf(line, sizeof line, "  %-14s  %s; presets %s", train_recipes[i]->name,
                 train_recipes[i]->summary, preset_names(train_recipes[i]));
        cli_print_wrapped(stdout, line);
    }
    printf("\n");
    cli_print_wrapped(stdout, help_options);
}

static int help(const train_command *command, const train_request *request)
{
    if (command->help)
        cli_print_wrapped(stdout, command->help);
    else
        print_help();
    if (request->recipe)
        train_describe(request, stdout, cli_print_wrapped);
    return cli_report();
}

static const struct option options[] = {
    { "as-written", no_argument, NULL, AS_WRITTEN },
    TRAIN_OPTIONS,
};

static void assign(train_request *request, const char *key, const char *value)
{
    request->assignments[request->n_assignments++] = (assignment){ key, value };
}

/* Returns the recipe of an objective, or NULL. */
static const recipe *find_objective(const char *name)
{
    const train_objective *o = train_objectives;
    while (o->name && strcmp(o->name, name) != 0)
        o++;
    return o->recipe;
}

static const char *objective_names(void)
{
    static char text[128];
    *text = 0;
    for (const train_objective *o = train_objectives; o->name; o++)
        names_add(text, sizeof text, o->name);
    return text;
}

/* Handles one option; returns 0 or the exit status of a usage error. */
static int parse_option(train_request *request, int option, const char *value)
{
    int64_t threads;
    switch (option) {
    case PRESET:
        request->preset = value;
        return 0;
    case AS_WRITTEN:
        request->as_written = true;
        return 0;
    case 'm':
        assign(request, "model", value);
        return 0;
    case STEPS:
        assign(request, "steps", value);
        return 0;
    case SEED:
        assign(request, "seed", value);
        return 0;
    case CLI_MATMUL_PRECISION:
        assign(request, "matmul_precision", value);
        return 0;
    case AMP:
        assign(request, "amp", value);
        return 0;
    case DTYPE:
        assign(request, "dtype", value);
        return 0;
    case HISTOGRAMS:
        assign(request, "histograms", value);
        return 0;
    case LR:
        assign(request, "lr", value);
        return 0;
    case SET:
        assign(request, NULL, value);
        return 0;
    case OUT:
        request->out = value;
        return *value ? 0 : cli_usage(cli_command, "--out is empty");
    case RESUME:
        request->resume = true;
        return 0;
    case OVERWRITE:
        request->overwrite = true;
        return 0;
    case DATA:
        request->data = value;
        return 0;
    case PROFILE:
        request->profile = STEP_PROFILE_DEFAULT;
        if (value && !text_to_integer(value, 1, 1000, &request->profile))
            return cli_usage(cli_command, "--profile is '%s', must be 1 .. 1000", value);
        return 0;
    case OBJECTIVE:
        request->recipe = find_objective(value);
        return request->recipe
                   ? 0
                   : cli_usage(cli_command, "--objective is '%s', must be one of %s%s", value,
                               objective_names(), names_suggestion(value, objective_names()));
    case THREADS:
        if (!text_to_integer(value, 1, 1024, &threads))
            return cli_usage(cli_command, "--threads is '%s', must be 1 .. 1024", value);
        br_set_num_threads((int)threads);
        return 0;
    default:
        return cli_bad_option(cli_command);
    }
}

/* Finds the recipe by `name`, or the recipe of the run to resume; returns 0 or the exit status. */
static int set_recipe(train_request *request, const char *name)
{
    if (name) {
        request->recipe = train_find_recipe(name);
        return request->recipe
                   ? 0
                   : cli_usage(cli_command, "unknown recipe '%s', must be one of %s%s", name,
                               recipe_names(), names_suggestion(name, recipe_names()));
    }
    if (!request->resume)
        return cli_usage(cli_command, "no recipe given; choose one of %s", recipe_names());
    if (!request->out)
        return cli_usage(cli_command,
                         "--resume needs a recipe, or the directory of the run as --out DIR");
    request->recipe = train_recipe_of_run(request->out);
    return cli_report();
}

/* Checks that the options can be combined; returns 0 or the exit status of a usage error. */
static int check(const train_request *request)
{
    const recipe *r = request->recipe;
    if (request->resume && request->overwrite)
        return cli_usage(cli_command,
                         "--resume continues a run, --overwrite replaces it: use only one of them");
    if (request->preset && !train_has_preset(r, request->preset))
        return cli_usage(cli_command, "%s has no preset '%s', must be one of %s%s", r->name,
                         request->preset, preset_names(r),
                         names_suggestion(request->preset, preset_names(r)));
    if (request->data && !r->data && !r->needs_data)
        return cli_usage(cli_command, "%s generates its own data and does not take --data",
                         r->name);
    return 0;
}

/* ---- Training -------------------------------------------------------------------------------- */

static void begin_progress(void *bar, int64_t step, int64_t steps)
{
    *(progress *)bar = progress_begin(step, steps);
}

static void update_progress(void *bar, int64_t step, const char *text)
{
    progress_update(bar, step, text);
}

static void end_progress(void *bar)
{
    progress_end(bar);
}

/* Ends this rank because another one has died. exit() is not safe: MPI would wait for the rank. */
static void end_without(const char *dead, int rank)
{
    fflush(stdout);
    fprintf(stderr,
            "brasa %s: %s; rank %d ends. --resume continues the run from its last checkpoint\n",
            cli_command, dead, rank);
    fflush(stderr);
    _exit(CLI_RANK_DIED);
}

/* Returns the exit status of a run that ended. Of several ranks, the first reports what all know.
 */
static int status_of(train_outcome outcome, int64_t step, int stop_signal, bool first)
{
    switch (outcome) {
    case TRAIN_REFUSED:
        if (first)
            cli_usage(cli_command, "%s", br_error_message());
        br_clear_error();
        return CLI_USAGE;
    case TRAIN_STOPPED:
        if (first)
            fprintf(stderr,
                    "brasa %s: stopped after step %" PRId64 "; --resume continues the run\n",
                    cli_command, step);
        return 128 + (stop_signal ? stop_signal : SIGTERM);
    default:
        return cli_report();
    }
}

/* Trains; returns the exit status. Of several ranks, the first alone writes to the terminal. */
static int train(train_request *request)
{
    if (!cli_dist_init())
        return cli_report();
    const bool first = br_dist_rank(NULL) == 0;
    progress bar = { 0 };
    int64_t step;
    if (first) {
        request->report = stdout;
        request->begin = begin_progress;
        request->progress = update_progress;
        request->end = end_progress;
        request->context = &bar;
    }
    request->stop = cli_catch_stop_signals();
    train_outcome outcome = train_run(request, &step);
    if (ranks_dead())
        end_without(ranks_dead(), br_dist_rank(NULL));
    br_dist_finalize(); /* tells the other ranks of an error */
    return status_of(outcome, step, *request->stop, first);
}

/* Parses the options; returns 0 or the exit status of a usage error. */
static int parse(const train_command *command, train_request *request, int argc, char **argv,
                 bool *help_requested)
{
    int status = 0;
    for (int c; (c = getopt_long(argc, argv, command->letters, command->options, NULL)) != -1 &&
                status == 0;) {
        *help_requested |= c == 'h';
        if (c != 'h')
            status = parse_option(request, c, optarg);
    }
    if (status == 0 && argc - optind > (command->objectives ? 0 : 1))
        status = cli_usage(cli_command, "unexpected argument '%s'", argv[argc - 1]);
    return status;
}

/* Returns the value that an option gives a setting, or NULL. */
static const char *assigned(const train_request *request, const char *key)
{
    for (int i = 0; i < request->n_assignments; i++)
        if (request->assignments[i].key && strcmp(request->assignments[i].key, key) == 0)
            return request->assignments[i].value;
    return NULL;
}

/* Checks that a new run has what it needs; returns 0 or the exit status of a usage error. */
static int check_needs(const train_command *command, const train_request *request)
{
    const recipe *r = request->recipe;
    if (command->needs && !request->resume && !assigned(request, command->needs))
        return cli_usage(cli_command, "--%s is required", command->needs);
    if (r->needs_data && !request->data)
        return cli_usage(cli_command, "%s needs --data FILE: %s", r->name, r->needs_data);
    return 0;
}

/* Sets the recipe if no option did: that of the run to resume, or the default. */
static int settle_objective(const train_command *command, train_request *request)
{
    if (!request->recipe && request->resume && request->out)
        request->recipe = train_recipe_of_run(request->out);
    else if (!request->recipe)
        request->recipe = command->objectives->recipe;
    return cli_report();
}

/* Checks the folder of --model of a new run before anything is written. */
static int check_model(const train_request *request)
{
    const char *model = request->resume ? NULL : assigned(request, "model");
    int status = model ? pretrained_check_folder("--model", model) : CLI_CONTINUE;
    return status == CLI_CONTINUE ? 0 : status;
}

static int run(const train_command *command, train_request *request, int argc, char **argv)
{
    bool help_requested = false;
    int status = parse(command, request, argc, argv, &help_requested);
    if (status == 0 && command->objectives)
        status = settle_objective(command, request);
    else if (status == 0 && !(help_requested && optind == argc))
        status = set_recipe(request, optind < argc ? argv[optind] : NULL);
    if (status == 0 && request->recipe)
        status = check(request);
    if (status == 0 && help_requested)
        return help(command, request);
    if (status == 0)
        status = check_needs(command, request);
    if (status == 0)
        status = check_model(request);
    return status ? status : train(request);
}

int train_command_run(const train_command *command, int argc, char **argv)
{
    int parent_status = cli_fork_rank();
    if (parent_status != CLI_CONTINUE)
        return parent_status;
    train_request request = { .assignments = calloc((size_t)argc, sizeof *request.assignments) };
    int status = EXIT_FAILURE;
    if (request.assignments)
        status = run(command, &request, argc, argv);
    else
        fprintf(stderr, "brasa %s: cannot allocate memory\n", cli_command);
    free(request.assignments);
    return status;
}

int cli_train(int argc, char **argv)
{
    static const train_command command = { .letters = "h", .options = options };
    return train_command_run(&command, argc, argv);
}
