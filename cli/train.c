/* cli/train.c - `brasa train RECIPE`: the table of recipes and the command line. */
#include "cli/train.h"
#include "cli/step_profile.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const recipe *const recipes[] = { &recipe_bert_scratch, &recipe_copy_task, &recipe_vanilla,
                                         &recipe_classifier };
enum { N_RECIPES = sizeof recipes / sizeof *recipes };

static const char help_head[] = "Usage: brasa train RECIPE [OPTION]...\n"
                                "\n"
                                "Trains a model and shows what it has learned.\n"
                                "\n";

static const char help_options[] =
    "Options:\n"
    "      --preset NAME    values to begin with\n"
    "      --as-written     the notebook to the letter, its mistakes included\n"
    "      --steps N        steps in all\n"
    "      --seed S         of the initial weights and the batch\n"
    "      --threads N      threads to use; results do not depend on it\n"
    "      --lr X           learning rate\n"
    "      --set KEY=VALUE  any setting; may be given again\n"
    "      --out DIR        where results go (out/RECIPE): checkpoint.safetensors, log.jsonl with "
    "a\n"
    "                       line a step (its losses before the update, and the seconds it took),\n"
    "                       loss.svg and, where something is measured, metrics.svg, and events\n"
    "                       for TensorBoard. A new run replaces an earlier one's.\n"
    "      --resume         go on with the run in DIR, with the same numbers as if it had not "
    "stopped;\n"
    "                       its settings are those of the checkpoint\n"
    "      --data FILE      the text to train on, or another than the recipe's own\n"
    "      --profile[=N]    profile N steps (3) after a few to warm up: tables of time, FLOPs and "
    "bytes\n"
    "                       by operation and by module at the end, and trace.json, a time line "
    "for\n"
    "                       chrome://tracing\n"
    "  -h, --help           this text; after a RECIPE also its settings\n"
    "\n"
    "Ctrl-C ends the run after the step it is at, with a checkpoint to resume from; exit status "
    "130.\n";

static int help(const train_request *request)
{
    fputs(help_head, stdout);
    printf("Recipes:\n");
    for (int i = 0; i < N_RECIPES; i++) {
        printf("  %-14s %s; presets", recipes[i]->name, recipes[i]->summary);
        for (int k = 0; recipes[i]->presets[k]; k++)
            printf("%s %s", k ? "," : "", recipes[i]->presets[k]);
        printf("\n");
    }
    printf("\n%s", help_options);
    return request->recipe ? train_describe(request) : 0;
}

const recipe *train_find_recipe(const char *name)
{
    for (int i = 0; i < N_RECIPES; i++)
        if (strcmp(recipes[i]->name, name) == 0)
            return recipes[i];
    return NULL;
}

static bool has_preset(const recipe *r, const char *name)
{
    for (int i = 0; r->presets[i]; i++)
        if (strcmp(r->presets[i], name) == 0)
            return true;
    return false;
}

enum { PRESET = 256, AS_WRITTEN, STEPS, SEED, THREADS, LR, SET, OUT, RESUME, DATA, PROFILE };
static const struct option options[] = {
    { "preset", required_argument, NULL, PRESET },
    { "as-written", no_argument, NULL, AS_WRITTEN },
    { "steps", required_argument, NULL, STEPS },
    { "seed", required_argument, NULL, SEED },
    { "threads", required_argument, NULL, THREADS },
    { "lr", required_argument, NULL, LR },
    { "set", required_argument, NULL, SET },
    { "out", required_argument, NULL, OUT },
    { "resume", no_argument, NULL, RESUME },
    { "data", required_argument, NULL, DATA },
    { "profile", optional_argument, NULL, PROFILE },
    { "help", no_argument, NULL, 'h' },
    { 0 },
};

static void assign(train_request *request, const char *key, const char *value)
{
    request->assignments[request->n_assignments++] = (assignment){ key, value };
}

/* Takes one option; 0, or the exit status of a complaint. */
static int take(train_request *request, int option, const char *value)
{
    int64_t threads;
    switch (option) {
    case PRESET:
        request->preset = value;
        return 0;
    case AS_WRITTEN:
        request->as_written = true;
        return 0;
    case STEPS:
        assign(request, "steps", value);
        return 0;
    case SEED:
        assign(request, "seed", value);
        return 0;
    case LR:
        assign(request, "lr", value);
        return 0;
    case SET:
        assign(request, NULL, value);
        return 0;
    case OUT:
        request->out = value;
        return *value ? 0 : cli_usage("train", "--out is empty");
    case RESUME:
        request->resume = true;
        return 0;
    case DATA:
        request->data = value;
        return 0;
    case PROFILE:
        request->profile = STEP_PROFILE_DEFAULT;
        if (value && !cli_integer(value, 1, 1000, &request->profile))
            return cli_usage("train", "--profile is '%s', must be 1 .. 1000", value);
        return 0;
    case THREADS:
        if (!cli_integer(value, 1, 1024, &threads))
            return cli_usage("train", "--threads is '%s', must be 1 .. 1024", value);
        br_set_num_threads((int)threads);
        return 0;
    default:
        return cli_bad_option("train");
    }
}

/* Reads the recipe behind the options; 0, or the exit status of a complaint. */
static int take_recipe(train_request *request, int argc, char **argv)
{
    if (argc == 0)
        return cli_usage("train", "which recipe?");
    if (argc > 1)
        return cli_usage("train", "'%s' is one argument too many", argv[1]);
    request->recipe = train_find_recipe(argv[0]);
    if (!request->recipe)
        return cli_usage("train", "there is no recipe '%s'", argv[0]);
    if (request->resume && (request->preset || request->as_written))
        return cli_usage("train", "--resume takes its settings from the checkpoint, not from %s",
                         request->preset ? "--preset" : "--as-written");
    if (!request->preset)
        request->preset = request->recipe->presets[0];
    if (!has_preset(request->recipe, request->preset))
        return cli_usage("train", "%s has no preset '%s'", request->recipe->name, request->preset);
    const recipe *r = request->recipe;
    if (request->data && !r->data && !r->wants_data)
        return cli_usage("train", "%s makes its data up: there is no --data", r->name);
    return 0;
}

static int run(train_request *request, int argc, char **argv)
{
    int status = 0;
    bool wants_help = false;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1 && status == 0;) {
        wants_help |= c == 'h';
        if (c != 'h')
            status = take(request, c, optarg);
    }
    if (status == 0 && !(wants_help && optind == argc))
        status = take_recipe(request, argc - optind, argv + optind);
    if (status != 0)
        return status;
    if (wants_help)
        return help(request);
    const recipe *r = request->recipe;
    if (r->wants_data && !request->data)
        return cli_usage("train", "%s wants --data FILE: %s", r->name, r->wants_data);
    return train_run(request);
}

int cli_train(int argc, char **argv)
{
    train_request request = { .assignments = calloc((size_t)argc, sizeof *request.assignments) };
    int status = EXIT_FAILURE;
    if (request.assignments)
        status = run(&request, argc, argv);
    else
        fprintf(stderr, "brasa train: no memory\n");
    free(request.assignments);
    return status;
}
