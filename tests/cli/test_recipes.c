/* The recipes of `brasa train`: what they learn, and that a run which goes on has the numbers of
 * one that never stopped. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(recipes, .init = program_begin, .fini = program_end, .timeout = 240);

/* Runs `steps` steps at once, and `first` of them and then the others. */
static void check_resuming(const char *recipe, const char *options, int first, int steps)
{
    char text[512];
    snprintf(text, sizeof text, "train %s --threads 1 %s --steps %d --out $OUT/whole", recipe,
             options, steps);
    program_check(text, 0, "loss.svg are written");
    snprintf(text, sizeof text, "train %s --threads 1 %s --steps %d --out $OUT/part", recipe,
             options, first);
    program_check(text, 0, "loss.svg are written");
    snprintf(text, sizeof text, "train %s --threads 2 --resume --steps %d --out $OUT/part", recipe,
             steps);
    program_check(text, 0, "loss.svg are written");
    program_shell(PROGRAM_LOSSES " $OUT/whole/log.jsonl >$OUT/a; " PROGRAM_LOSSES
                                 " $OUT/part/log.jsonl >$OUT/b; cmp $OUT/a $OUT/b");
    program_shell("cmp $OUT/whole/checkpoint.safetensors $OUT/part/checkpoint.safetensors");
}

/* ---- copy-task ------------------------------------------------------------------------------- */

Test(recipes, copy_task_copies_new_sequences)
{
    program_check("train copy-task --preset small --out $OUT", 0,
                  "64 of 64 new sequences copied without a mistake");
    program_shell("grep -c new_accuracy $OUT/log.jsonl | grep -qx 4");
    program_shell("tail -n 1 $OUT/log.jsonl | grep -Eq '\"loss\": 0\\.0[0-4]'");
    program_shell("grep -q new_accuracy $OUT/metrics.svg && ! grep -q new_accuracy $OUT/loss.svg");
}

Test(recipes, copy_task_as_written_stays_at_chance)
{
    program_check("train copy-task --preset small --as-written --steps 100 --out $OUT", 0,
                  "0 of 64 new sequences copied");
    program_shell("tail -n 1 $OUT/log.jsonl | grep -Eq '\"new_loss\": 4\\.[5-9]'");
}

Test(recipes, copy_task_goes_on)
{
    check_resuming("copy-task", "--preset small --set num_samples=3 --set eval_every=2", 5, 8);
}

Test(recipes, copy_task_refuses_what_makes_no_sense)
{
    program_check("train copy-task --data /dev/null", 2, "there is no --data");
    program_check("train copy-task --set heads=7 --out $OUT", 1, "num_attention_heads");
    program_check("train copy-task --set dropout=2 --out $OUT", 2, "dropout is '2'");
    program_check("train copy-task --set length=1 --out $OUT", 2, "length is '1'");
}

/* ---- vanilla --------------------------------------------------------------------------------- */

Test(recipes, vanilla_reads_held_out_dates)
{
    program_check("train vanilla --preset small --out $OUT", 0,
                  " of 128 held-out dates read without a mistake");
    program_shell("grep -c exact_match $OUT/log.jsonl | grep -qx 4");
    program_shell("tail -n 1 $OUT/log.jsonl | grep -Eq '\"exact_match\": (1\\.0|0\\.9[5-9])'");
}

Test(recipes, vanilla_shows_mistakes)
{
    program_check("train vanilla --preset small --steps 40 --out $OUT", 0, "wrong: it is ");
    program_check("train vanilla --preset small --steps 40 --as-written --out $OUT", 0,
                  "wrong: it is ");
}

Test(recipes, vanilla_goes_on)
{
    const char *small = "--preset small --set samples=200 --set eval_every=2 --set warmup=2 "
                        "--set dropout=0.1 ";
    char options[256];
    for (int i = 0; i < 2; i++) {
        snprintf(options, sizeof options, "%s%s", small, i ? "--as-written" : "");
        check_resuming("vanilla", options, 5, 8);
    }
}

Test(recipes, vanilla_refuses_what_makes_no_sense)
{
    program_check("train vanilla --data /dev/null", 2, "there is no --data");
    program_check("train vanilla --set heads=5 --out $OUT", 1,
                  "embed_dim 64 is no multiple of n_heads 5");
    program_check("train vanilla --set held_out=36525 --out $OUT", 2, "held_out is '36525'");
    program_check("train vanilla --set forms=0 --out $OUT", 2, "forms is '0'");
    program_check("train vanilla --set samples=63 --out $OUT", 1, "a batch has 64 items");
}
