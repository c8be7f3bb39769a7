/* tests/cli/test_bench.c - brasa bench pretrained, run as a program, against the model's functions.
 */
#include "tests/cli/program.h"
#include "tests/support.h"

#include <brasa/brasa.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cli_bench, .init = program_begin, .fini = program_end);

enum { TOKENS = 5, TEXTS = 2, VOCABULARY = 40 };

/* Returns the path of a model in $OUT. */
static const char *model_path(const char *name)
{
    static char path[TEMPORARY_PATH + 16];
    snprintf(path, sizeof path, "%s/%s", program_directory, name);
    return path;
}

/* Returns the texts of the benchmark, with n more tokens: the first ones again. */
static br_tensor *texts(int n)
{
    br_tensor *ids = br_empty(BR_SHAPE(TEXTS, TOKENS), BR_I64);
    for (int i = 0; i < TEXTS * TOKENS; i++)
        br_data_i64(ids)[i] = (int64_t)i * 104729 % VOCABULARY;
    return br_cat(2, (br_tensor *[]){ ids, br_narrow(ids, 1, 0, n) }, 1);
}

static double mean_square(br_tensor *t)
{
    return br_item(br_mean(br_mul(t, t)));
}

/* Returns the logits of a T5 whose decoder has written the given tokens. */
static br_tensor *t5_logits(br_t5 *model, br_tensor *written)
{
    br_tensor *memory = br_t5_encode(model, texts(0), NULL);
    return br_t5_logits(model, br_t5_decode(model, written, memory, NULL));
}

static double mean_square_of_last(br_tensor *logits)
{
    return mean_square(br_select(logits, 1, -1));
}

/* Runs n steps of an entry and stores their values. */
static void run_steps(const char *model, const char *entry, const char *options, int n,
                      double *values)
{
    char command[512], output[1024], *at = output;
    snprintf(command, sizeof command, "yes '' | head -n %d >$OUT/steps", n);
    program_shell(command);
    snprintf(command, sizeof command,
             "bench pretrained --model $OUT/%s --serve --filter %s --tokens 5 --batch 2 %s "
             "<$OUT/steps",
             model, entry, options);
    cr_assert_eq(program_run(command, output, sizeof output), 0, "%s", output);
    for (int i = 0; i < n; i++) {
        values[i] = strtod(at, NULL);
        at = strchr(at, '\n');
        cr_assert_not_null(at, "%s", output);
        at++;
    }
    cr_assert_eq(*at, '\0', "%s", output);
}

#define check_near(a, b) cr_assert(fabs((a) - (b)) <= 1e-5 * fabs(b), "%.9g, not %.9g", a, b)

/* A token has the same logits in each step, because the cache has the prompt alone again. */
Test(cli_bench, values_of_a_decoder)
{
    program_make_gpt2();
    br_gpt2_lm *model = br_auto_model_load(model_path("gpt2"), NULL, NULL);
    br_tensor *logits = br_gpt2_lm_forward(model, texts(0), NULL);
    double values[3];
    run_steps("gpt2", "forward", "", 2, values);
    check_near(values[0], mean_square(logits));
    check_near(values[1], values[0]);
    run_steps("gpt2", "prompt", "", 2, values);
    check_near(values[0], mean_square_of_last(logits));
    check_near(values[1], values[0]);
    run_steps("gpt2", "token", "", 3, values);
    check_near(values[0], mean_square_of_last(br_gpt2_lm_forward(model, texts(1), NULL)));
    check_near(values[1], values[0]);
    check_near(values[2], values[0]);
    br_module_free(br_base(model));
}

Test(cli_bench, training_steps)
{
    program_make_gpt2();
    br_gpt2_lm *model = br_auto_model_load(model_path("gpt2"), NULL, NULL);
    br_optim *optim = br_adamw(br_base(model), NULL);
    double values[3];
    run_steps("gpt2", "train", "", 3, values);
    for (int i = 0; i < 3; i++) {
        br_zero_grad(br_base(model));
        br_tensor *loss = br_causal_lm_loss(br_gpt2_lm_forward(model, texts(0), NULL), texts(0));
        cr_assert(br_backward(loss) && br_optim_step(optim));
        check_near(values[i], br_item(loss));
    }
    run_steps("gpt2", "train", "--dtype bf16", 1, values + 1);
    cr_assert(values[1] != values[0] && fabs(values[1] - values[0]) < 0.02 * values[0]);
    br_optim_free(optim);
    br_module_free(br_base(model));
}

/* The decoder of an encoder-decoder continues its own text. */
Test(cli_bench, values_of_an_encoder_decoder)
{
    program_make_t5();
    br_t5 *model = br_auto_model_load(model_path("t5"), NULL, NULL);
    double values[2];
    run_steps("t5", "forward", "", 1, values);
    br_tensor *logits = t5_logits(model, texts(0));
    check_near(values[0], mean_square(logits));
    run_steps("t5", "train", "", 1, values);
    check_near(values[0], br_item(br_cross_entropy(br_flatten(logits, 0, 1),
                                                   br_flatten(texts(0), 0, 1), NULL)));
    run_steps("t5", "prompt", "", 2, values);
    br_tensor *starts = br_t5_start(model, TEXTS);
    check_near(values[0], mean_square_of_last(t5_logits(model, starts)));
    check_near(values[1], values[0]);
    run_steps("t5", "token", "", 2, values);
    br_tensor *first = br_narrow(texts(0), 1, 0, 1);
    br_tensor *written = br_cat(2, (br_tensor *[]){ starts, first }, 1);
    check_near(values[0], mean_square_of_last(t5_logits(model, written)));
    written = br_cat(3, (br_tensor *[]){ starts, first, first }, 1);
    check_near(values[1], mean_square_of_last(t5_logits(model, written)));
    br_module_free(br_base(model));
}

Test(cli_bench, entries_in_a_table_and_as_json)
{
    program_make_gpt2();
    program_check("bench pretrained --model $OUT/gpt2 --seconds 1e-6 --tokens 5 | "
                  "awk '{ print $1, NF }'",
                  0, "entry 3\nload 9\nforward 11\ntrain 11\nprompt 11\ntoken 11\n");
    program_check("bench pretrained --model $OUT/gpt2 --seconds 1e-6 --tokens 5 --batch 2 --json | "
                  "sed 's/ *\"[a-z_]*_\\(ms\\|mib\\)\": [^,]*,//g; s/\"value.*//'",
                  0, "{\"name\": \"forward\", \"class\": \"GPT2LMHeadModel\", \"threads\": ");
}

Test(cli_bench, pretrained_refuses)
{
    program_make_gpt2();
    program_shell("sed -i 's/GPT2LMHeadModel/GPT2Model/' $OUT/gpt2/config.json");
    program_check("bench pretrained --model $OUT/gpt2 --seconds 1e-6 --tokens 5 | tail -1", 0,
                  "token      GPT2Model does not generate\n");
    program_check("bench pretrained --model $OUT/gpt2 --serve --filter token </dev/null", 1,
                  "gpt2: the model has no entry token");
    program_check("bench pretrained", 2, "bench: pretrained needs --model DIR");
    program_check("bench pretrained --model $OUT/none", 1, "there is no such folder");
    program_check("bench pretrained --model $OUT/gpt2 --filter tokens", 2,
                  "nothing matches 'tokens'");
    program_check("bench pretrained --list --tokens 0", 2, "--tokens is '0', must be 1 .. 1048576");
    program_check("bench pretrained --list --batch x", 2, "--batch is 'x', must be 1 .. 1048576");
    program_check("bench models --list --dtype quantized", 2,
                  "bench: models does not take --dtype quantized");
    program_check("bench models --list --tokens 3", 2, "bench: models does not take --tokens");
    program_check("bench models --list --batch 3", 2, "bench: models does not take --batch");
}
