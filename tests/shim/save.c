/* tests/shim/save.c - a program that replaces one file, for tests that make its system calls fail:
 *
 *     brasa_save KIND PATH SEED    writes a file whose content depends on SEED
 *     brasa_save load PATH SEED    loads a safetensors file, and checks its content
 *
 * Prints the error and returns 1 on failure. */
#include <brasa/brasa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns a module with 40,000 parameters. */
static br_module *model_of(int seed)
{
    br_manual_seed((uint64_t)seed);
    return br_base(br_linear_new(200, 200, false));
}

static void save_safetensors(const char *path, int seed)
{
    br_module *model = model_of(seed);
    br_model_save(path, model, 0, NULL);
    br_module_free(model);
}

static void save_checkpoint(const char *path, int seed)
{
    br_checkpoint c = { .model = model_of(seed), .step = seed };
    br_checkpoint_save(path, &c);
    br_module_free(c.model);
}

static void save_plot(const char *path, int seed)
{
    double x[] = { 0, 1, 2 }, y[] = { 0, seed, 1 };
    br_series series = { "loss", 3, x, y };
    br_plot_svg(path, 1, &series, NULL);
}

static void save_tokens(const char *path, int seed)
{
    int64_t tokens[1000];
    for (int i = 0; i < 1000; i++)
        tokens[i] = i % (seed + 1);
    br_token_file_save(path, 1000, tokens, 2);
}

static void load(const char *path, int seed)
{
    br_module *model = model_of(seed), *loaded = model_of(seed + 1);
    br_model_load(path, loaded, true, NULL);
    if (!br_failed() && !br_equal(br_module_get(model, "weight"), br_module_get(loaded, "weight")))
        br_raise(BR_ERROR_FORMAT, "the loaded weights differ");
    br_module_free(model);
    br_module_free(loaded);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(const char *path, int seed);
    } kinds[] = { { "safetensors", save_safetensors },
                  { "checkpoint", save_checkpoint },
                  { "plot", save_plot },
                  { "tokens", save_tokens },
                  { "load", load } };
    for (size_t i = 0; argc == 4 && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(argv[1], kinds[i].name) == 0) {
            kinds[i].run(argv[2], atoi(argv[3]));
            return br_report(stdout);
        }
    return 2;
}
