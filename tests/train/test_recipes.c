/* The recipes of `brasa train`: what they learn, and that a resumed run has the same results as an
 * uninterrupted one. */
#include "tests/cli/program.h"

#include <brasa/data.h>
#include <criterion/criterion.h>
#include <stdio.h>

TestSuite(recipes, .init = program_begin, .fini = program_end);

/* Compares a run of `steps` steps with one that is stopped after `first` steps and resumed. `data`
 * is empty or the option --data. */
static void check_resuming(const char *recipe, const char *data, const char *options, int first,
                           int steps)
{
    char text[512];
    snprintf(text, sizeof text,
             "train %s %s --threads 1 %s --steps %d --overwrite --out $OUT/whole", recipe, data,
             options, steps);
    program_check(text, 0, "loss.svg.\n");
    snprintf(text, sizeof text, "train %s %s --threads 1 %s --steps %d --overwrite --out $OUT/part",
             recipe, data, options, first);
    program_check(text, 0, "loss.svg.\n");
    snprintf(text, sizeof text, "train %s %s --threads 2 --resume --steps %d --out $OUT/part",
             recipe, data, steps);
    program_check(text, 0, "loss.svg.\n");
    program_shell(PROGRAM_LOSSES " $OUT/whole/log.jsonl >$OUT/a; " PROGRAM_LOSSES
                                 " $OUT/part/log.jsonl >$OUT/b; cmp $OUT/a $OUT/b");
    program_shell("cmp $OUT/whole/checkpoint.safetensors $OUT/part/checkpoint.safetensors");
}

/* ---- copy-task ------------------------------------------------------------------------------- */

/* Kernels for different processors round differently, so occasionally one token in several hundred
 * is wrong. */
Test(recipes, copy_task_copies_new_sequences)
{
    program_check("train copy-task --preset small --out $OUT", 0,
                  " of 64 new sequences copied without a mistake");
    program_shell("grep -c new_accuracy $OUT/log.jsonl | grep -qx 4");
    program_shell("tail -n 1 $OUT/log.jsonl | grep -Eq '\"new_accuracy\": (1\\.0|0\\.99)'");
    program_shell("tail -n 1 $OUT/log.jsonl | grep -Eq '\"loss\": 0\\.0[0-4]'");
    program_shell("grep -q new_accuracy $OUT/metrics.svg && ! grep -q new_accuracy $OUT/loss.svg");
    program_shell("grep -q '>loss<' $OUT/metrics.svg && grep -qF '>accuracy (fraction)<' "
                  "$OUT/metrics.svg");
}

Test(recipes, copy_task_as_written_stays_at_chance)
{
    program_check("train copy-task --preset small --as-written --steps 100 --out $OUT", 0,
                  "0 of 64 new sequences copied");
    program_shell("tail -n 1 $OUT/log.jsonl | grep -Eq '\"new_loss\": 4\\.[5-9]'");
}

/* A character that is two columns wide takes the place of two narrow characters. */
Test(recipes, bert_pads_words_by_columns)
{
    program_shell("for w in ab cd ef gh ij kl; do printf '%s \\345\\271\\264 \\346\\234\\210 "
                  "\\345\\244\\251%s\\n' $w $w; done >$OUT/words");
    static char output[1 << 15];
    cr_assert_eq(program_run("train bert-scratch --preset small --steps 1 --data $OUT/words --out "
                             "$OUT/bert",
                             output, sizeof output),
                 0, "%s", output);
    int wide = 0, others = 0;
    for (const char *at = output; (at = strstr(at, " is ")); at++) {
        const char *model = strstr(at, " model: ");
        cr_assert(model, "%s", at);
        int here = 0; /* wide characters, which have three bytes and two columns */
        for (const char *p = at; p < model; p++)
            here += (*p & 0xf0) == 0xe0;
        cr_expect_eq(model - at, 4 + 14 + here, "%.60s", at);
        wide += here > 0;
        others += here == 0;
    }
    cr_assert(wide > 0 && others > 0, "%s", output);
}

Test(recipes, copy_task_resumes)
{
    check_resuming("copy-task", "", "--preset small --set num_samples=3 --set eval_every=2", 5, 8);
}

Test(recipes, copy_task_refuses_invalid_settings)
{
    program_check("train copy-task --data /dev/null", 2, "does not take --data");
    program_check("train copy-task --set heads=7 --out $OUT", 1,
                  "d_model 512 is not divisible by heads 7");
    program_check("train copy-task --set dropout=2 --out $OUT", 2, "dropout is '2'");
    program_check("train copy-task --set length=1 --out $OUT", 2, "length is '1'");
}

/* ---- vanilla --------------------------------------------------------------------------------- */

Test(recipes, vanilla_reads_held_out_dates)
{
    program_check("train vanilla --preset small --steps 450 --out $OUT", 0,
                  " of 128 held-out dates converted without a mistake");
    program_shell("grep -c exact_match $OUT/log.jsonl | grep -qx 3");
    program_shell("tail -n 1 $OUT/log.jsonl | grep -Eq '\"exact_match\": (1\\.0|0\\.9)'");
}

Test(recipes, vanilla_shows_mistakes)
{
    program_check("train vanilla --preset small --steps 40 --out $OUT", 0, "wrong: it is ");
    program_check("train vanilla --preset small --steps 40 --as-written --overwrite --out $OUT", 0,
                  "wrong: it is ");
}

Test(recipes, vanilla_resumes)
{
    const char *small = "--preset small --set samples=200 --set eval_every=2 --set warmup=2 "
                        "--set dropout=0.1 ";
    char options[256];
    for (int i = 0; i < 2; i++) {
        snprintf(options, sizeof options, "%s%s", small, i ? "--as-written" : "");
        check_resuming("vanilla", "", options, 5, 8);
    }
}

Test(recipes, vanilla_refuses_invalid_settings)
{
    program_check("train vanilla --data /dev/null", 2, "does not take --data");
    program_check("train vanilla --set heads=5 --out $OUT", 1,
                  "embed_dim 64 is not divisible by n_heads 5");
    program_check("train vanilla --set held_out=36525 --out $OUT", 2, "held_out is '36525'");
    program_check("train vanilla --set forms=0 --out $OUT", 2, "forms is '0'");
    program_check("train vanilla --set samples=63 --out $OUT", 1,
                  "a batch has 64 items, but the dataset has only 63");
}

/* ---- classifier ------------------------------------------------------------------------------ */

/* Writes texts whose second word, one of twelve, determines the topic; the other words do not. */
static void write_texts(void)
{
    static const char *const topics[] = { "air", "sea", "soil" };
    char path[64];
    snprintf(path, sizeof path, "%s/texts", program_directory);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    br_python_random *random = br_python_random_new(1);
    for (int i = 0; i < 400; i++) {
        /* Separate statements, because compilers evaluate a call's arguments in different orders.
         */
        int64_t topic = br_python_random_randrange(random, 3);
        int64_t word = br_python_random_randrange(random, 4);
        int64_t first = br_python_random_randrange(random, 9);
        fprintf(file, "%s\tA%d %s%d", topics[topic], (int)first, topics[topic], (int)word);
        for (int64_t n = br_python_random_randrange(random, 6); n > 0; n--)
            fprintf(file, " b%d", (int)br_python_random_randrange(random, 9));
        fprintf(file, ".\n");
    }
    br_python_random_free(random);
    cr_assert_eq(fclose(file), 0);
}

#define TEXTS \
    "train classifier --preset small --data $OUT/texts --overwrite --out $OUT --set batch=16 "

#define LEARNED "tail -n 1 $OUT/log.jsonl | grep -Eq '\"held_out_accuracy\": (1\\.0|0\\.9)'"

static const char *const classifiers[] = { "anatomy", "vanilla", "architecture" };

Test(recipes, classifiers_learn_topics)
{
    write_texts();
    for (int i = 0; i < 3; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, TEXTS "--set model=%s", classifiers[i]);
        program_check(arguments, 0, "always sea                  27 of    80 right   33.8 %");
        program_shell(LEARNED);
    }
}

/* Only the texts to train with decide which topic is the most frequent. Here 6 of these 7 have it,
 * and no held-out text has it. */
Test(recipes, classifiers_most_frequent_topic)
{
    program_shell("for i in 1 2 3 4 5 6; do printf 'sea\\tfish boat %d\\n' $i; done >$OUT/texts; "
                  "for i in 1 2 3 4 5; do printf 'sky\\tbird wind %d\\n' $i; done >>$OUT/texts");
    program_check(TEXTS "--set batch=4 --set held_out=0.4 --seed 1 --steps 1", 0,
                  "always sea                   0 of     4 right    0.0 %");
}

/* Notebook 004's classifier as written sees only the first word, which says nothing about the
 * topic. */
Test(recipes, classifiers_as_written)
{
    write_texts();
    program_check(TEXTS "--as-written", 0, "all held-out texts");
    program_shell(LEARNED);
    program_check(TEXTS "--as-written --set model=vanilla", 0, "all held-out texts");
    program_shell(LEARNED);
    program_check(TEXTS "--as-written --set model=architecture", 0, "wrong: it is ");
    program_shell("tail -n 1 $OUT/log.jsonl | grep -Eq '\"held_out_accuracy\": 0\\.[2-4]'");
}

Test(recipes, classifiers_resume)
{
    write_texts();
    for (int i = 0; i < 6; i++) {
        char options[256];
        snprintf(options, sizeof options,
                 "--preset small --set batch=100 --set eval_every=2 "
                 "--set model=%s%s",
                 classifiers[i % 3], i < 3 ? "" : " --as-written");
        check_resuming("classifier", "--data $OUT/texts", options, 4, 7);
    }
    program_check("train classifier --resume --data $OUT/texts --set model=vanilla --out $OUT/part",
                  2, "model is vanilla, but the checkpoint was made with architecture");
    program_shell("sed 's/b1/b2/' $OUT/texts >$OUT/others");
    program_check("train classifier --resume --data $OUT/others --out $OUT/part", 1,
                  "a different text");
}

Test(recipes, classifier_refuses_invalid_settings)
{
    write_texts();
    program_check("train classifier --out $OUT", 2,
                  "needs --data FILE: a file with lines LABEL<tab>");
    program_check("train classifier --out $OUT --data $OUT/none", 1,
                  "'./run classifier' makes one");
    program_check(TEXTS "--set model=bert", 2,
                  "model is 'bert', must be one of anatomy, vanilla, architecture");
    program_check(TEXTS "--set held_out=1", 1, "holds out 400 of 400 texts");
    program_check(TEXTS "--set held_out=0", 1, "holds out 0 of 400 texts");
    program_check(TEXTS "--set heads=3", 1, "num_attention_heads");
    program_shell("echo 'sea fish' >>$OUT/texts");
    program_check(TEXTS, 1, "line 401 of the texts has no tab");
    program_check("train classifier --help", 0, "model             anatomy ");
}
