/* tests/train/test_trainer.c - features of `brasa train` for every recipe: learning-rate schedules,
 * gradient accumulation, clipping, prefetching threads, early stopping. */
#include "tests/cli/program.h"
#include "train/schedule.h"

#include <brasa/tensor.h>
#include <criterion/criterion.h>
#include <math.h>

TestSuite(trainer, .init = program_begin, .fini = program_end);

#define COPY            "train copy-task --preset small --set dropout=0 "
#define BERT            "train bert-scratch --preset small "
#define CLEAN(from, to) PROGRAM_LOSSES " $OUT/" from "/log.jsonl >$OUT/" to "; "

/* ---- The learning rate ----------------------------------------------------------------------- */

static void check_rate(const schedule *s, int64_t step, double rate)
{
    double is = schedule_rate(s, step);
    cr_assert(fabs(is - rate) <= 1e-15, "step %d: %.17g, not %.17g", (int)step, is, rate);
}

/* lr = 8 after three warm-up steps. */
Test(trainer, schedules)
{
    schedule s = { .lr = 8, .warmup = 3 };
    for (s.decay.index = 0; schedule_names[s.decay.index]; s.decay.index++) {
        schedule_settle(&s, 11);
        for (int64_t step = 0; step <= 3; step++)
            check_rate(&s, step, 2.0 * (double)(step + 1));
    }
    cr_assert_eq(s.decay_steps, 8);
    s.decay.index = SCHEDULE_CONSTANT;
    check_rate(&s, 1000, 8);
    s.decay.index = SCHEDULE_INVERSE_ROOT;
    check_rate(&s, 15, 4);
    s.decay.index = SCHEDULE_LINEAR;
    check_rate(&s, 5, 6);
    check_rate(&s, 10, 1);
    check_rate(&s, 11, 0);
    check_rate(&s, 1000, 0);
    s.decay.index = SCHEDULE_COSINE;
    check_rate(&s, 7, 4);
    check_rate(&s, 5, 4 + 4 * sqrt(0.5));
    check_rate(&s, 12, 0);
}

/* A checkpoint holds a number with 15 digits if they are enough, otherwise with 17. */
Test(trainer, numbers_are_restored_exactly)
{
    static const double numbers[] = {
        0.1, 0.1 + 0.2, 1.0 / 3, 1e-300, 5e-324, 123456789.123456789
    };
    double value = 0;
    settings s = { 0 };
    settings_add(&s, (setting){ "x", SETTING_NUMBER, &value, 0, 1e9, false, "" });
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        value = numbers[i];
        json_t *json = settings_to_json(&s);
        value = 0;
        cr_assert(settings_from_json(&s, json), "%s", br_error_message());
        cr_assert_eq(value, numbers[i], "%.17g, not %.17g", value, numbers[i]);
        cr_assert(settings_agree(&s, json));
        value = nextafter(value, 1e9);
        cr_assert_not(settings_agree(&s, json), "%.17g", value);
        br_clear_error();
        json_decref(json);
    }
}

Test(trainer, schedule_is_a_setting)
{
    program_check(COPY "--set schedule=steps --out $OUT", 2,
                  "schedule is 'steps', must be one of constant, inverse_root, linear, cosine, "
                  "plateau");
    program_check(COPY "--set warmup=0 --set schedule=linear --steps 3 --out $OUT/a", 0, "Wrote ");
    program_check(COPY
                  "--set warmup=0 --set schedule=linear --set decay_steps=3 --steps 2 --out $OUT/b",
                  0, "Wrote ");
    program_check("train copy-task --resume --steps 3 --out $OUT/b", 0, "Wrote ");
    program_shell(CLEAN("a", "x") CLEAN("b", "y") "cmp $OUT/x $OUT/y");
    program_check("train copy-task --resume --steps 4 --out $OUT/b", 0, "Wrote ");
    /* 0 means the checkpoint's number, not the rest of the longer run */
    program_check("train copy-task --resume --steps 5 --set decay_steps=0 --out $OUT/b", 0,
                  "Wrote ");
    program_check("train copy-task --resume --steps 6 --set decay_steps=6 --out $OUT/b", 2,
                  "decay_steps is 6, but the checkpoint was made with 3");
}

/* The checkpoint stores the precision, since a run that is resumed in another one would not have
 * the results of an uninterrupted run. */
Test(trainer, matmul_precision_is_a_setting)
{
    program_check(COPY "--matmul-precision medum --out $OUT", 2,
                  "matmul_precision is 'medum', must be one of highest, high, medium");
    program_check(COPY "--steps 3 --matmul-precision medium --out $OUT/a", 0, "Wrote ");
    program_check(COPY "--steps 2 --matmul-precision medium --out $OUT/b", 0, "Wrote ");
    program_check("train copy-task --resume --matmul-precision high --out $OUT/b", 2,
                  "matmul_precision is high, but the checkpoint was made with medium");
    program_check("train copy-task --resume --steps 3 --out $OUT/b", 0, "Wrote ");
    program_shell(CLEAN("a", "x") CLEAN("b", "y") "cmp $OUT/x $OUT/y");
    program_shell("BRASA_FLOAT32_MATMUL_PRECISION=medium \"$BRASA\" " COPY
                  "--steps 3 --out $OUT/c >$OUT/out && " CLEAN("c", "z") "cmp $OUT/x $OUT/z");
    program_check(COPY "--steps 3 --out $OUT/d", 0, "Wrote ");
    program_shell(CLEAN("d", "f32") "test -z \"$(\"$BRASA\" info | grep bf16)\" || "
                                    "! cmp -s $OUT/x $OUT/f32");
}

#define CHECKPOINT(run) "$OUT/" run "/checkpoint.safetensors"

/* Compares a run in $DTYPE with one that is resumed. Its parameters have the dtype; for bf16 and
 * f16 the optimizer has f32 copies of them. */
static void check_dtype(const char *dtype)
{
    setenv("DTYPE", dtype, 1);
    program_check(COPY "--dtype $DTYPE --steps 3 --out $OUT/$DTYPE", 0, "Wrote ");
    program_check(COPY "--dtype $DTYPE --steps 2 --out $OUT/part", 0, "Wrote ");
    program_check("train copy-task --resume --steps 3 --out $OUT/part", 0, "Wrote ");
    program_shell("cmp " CHECKPOINT("$DTYPE") " " CHECKPOINT("part") " && rm -r $OUT/part");
    program_shell("\"$BRASA\" info " CHECKPOINT(
        "$DTYPE") " | grep model/ >$OUT/list && "
                  "grep -qi \" $DTYPE \" $OUT/list && ! grep -vi \" $DTYPE \" $OUT/list");
    program_shell("grep -qa '\\.master\"' " CHECKPOINT(
        "$DTYPE") "; "
                  "case $DTYPE in *16) test $? = 0;; *) test $? = 1;; esac");
}

/* A checkpoint in f32 does not store the dtype, so that older checkpoints can be resumed. */
Test(trainer, dtype_is_a_setting)
{
    program_check(COPY "--dtype i32 --out $OUT", 2,
                  "dtype is 'i32', must be one of f32, f64, bf16, f16");
    check_dtype("f32");
    check_dtype("f64");
    check_dtype("bf16");
    check_dtype("f16");
    program_shell("! grep -a '\\\\\"dtype\\\\\":' " CHECKPOINT("f32"));
    program_check("train copy-task --resume --dtype f32 --steps 4 --out $OUT/f32", 0, "Wrote ");
    program_check("train copy-task --resume --dtype bf16 --out $OUT/f32", 2,
                  "dtype is bf16, but the checkpoint was made with f32");
    program_check("train copy-task --resume --dtype f32 --out $OUT/bf16", 2,
                  "dtype is f32, but the checkpoint was made with bf16");
}

/* Without copies in f32; the random numbers of the rounding continue in a resumed run. */
Test(trainer, updates_are_rounded_at_random)
{
    const char *run = COPY "--dtype bf16 --set half_update=stochastic ";
    char text[512];
    snprintf(text, sizeof text, "%s --steps 3 --out $OUT/whole", run);
    program_check(text, 0, "Wrote ");
    snprintf(text, sizeof text, "%s --steps 2 --out $OUT/part", run);
    program_check(text, 0, "Wrote ");
    program_check("train copy-task --resume --steps 3 --out $OUT/part", 0, "Wrote ");
    program_shell("cmp " CHECKPOINT("whole") " " CHECKPOINT("part"));
    program_shell("! grep -qa '\\.master\"' " CHECKPOINT("whole"));
    program_check("train copy-task --resume --set half_update=master --out $OUT/part", 2,
                  "half_update is master, but the checkpoint was made with stochastic");
}

Test(trainer, dtypes_that_do_not_work)
{
    program_check(COPY "--dtype f64 --amp bf16 --out $OUT", 2,
                  "amp is bf16, but mixed precision does not convert operands of f64: use "
                  "dtype=f32, or amp=off");
    program_check(BERT "--dtype f16 --out $OUT", 1,
                  "-1e+09 cannot be represented as f16, whose largest number is 65504: use a "
                  "smaller number, or one of: f32, f64, bf16");
}

/* The commands that read checkpoints run the model in the dtype of the run, or in another one. */
Test(trainer, checkpoints_are_read_in_any_dtype)
{
    static const char fill[] = "fill-mask -j -c " CHECKPOINT("bert") " '[MASK]' ";
    char shell[512];
    program_check(BERT "--dtype bf16 --steps 3 --out $OUT/bert", 0, "Wrote ");
    snprintf(shell, sizeof shell,
             "\"$BRASA\" %s >$OUT/a && \"$BRASA\" %s --dtype bf16 >$OUT/b && "
             "\"$BRASA\" %s --dtype f32 >$OUT/c && cmp $OUT/a $OUT/b && ! cmp -s $OUT/a $OUT/c",
             fill, fill, fill);
    program_shell(shell);
    program_check("attention --precision f32 -c " CHECKPOINT("bert") " -o $OUT/a.html", 0,
                  "Wrote ");
    program_check("attention --precision f32 -c " CHECKPOINT("bert") " --dtype f64 -o $OUT/b.html",
                  0, "Wrote ");
    program_shell("! cmp -s $OUT/a.html $OUT/b.html");
}

#define PLATEAU                                                                            \
    "train copy-task --preset small --lr 0.3 --set warmup=1 --set schedule=plateau --set " \
    "plateau_factor=1e-9 --set eval_every=1 "

/* At this learning rate the first evaluations show no progress. After the rate is multiplied by
 * 1e-9, the loss no longer changes, in a resumed run as well. */
Test(trainer, plateau_lowers_the_rate)
{
    program_check(PLATEAU "--steps 14 --out $OUT/whole", 0, "Wrote ");
    program_check(PLATEAU "--steps 8 --out $OUT/part", 0, "Wrote ");
    program_check("train copy-task --resume --steps 14 --out $OUT/part", 0, "Wrote ");
    program_shell("grep -qa '\"scheduler/' $OUT/whole/checkpoint.safetensors");
    program_shell(CLEAN("whole", "x") CLEAN("part", "y") "cmp $OUT/x $OUT/y");
    program_shell("tail -n 2 $OUT/whole/log.jsonl | sed 's/.*\"new_loss\": //; s/,.*//' | "
                  "awk '{ d = $1 - last; last = $1 } END { exit !(d < 1e-5 && d > -1e-5) }'");
    program_check(BERT "--set schedule=plateau --out $OUT", 2,
                  "schedule=plateau needs a recipe with metrics, but bert-scratch has none");
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* The loss in the last line of a run's log. */
#define LAST_LOSS(run) "$(tail -n 1 $OUT/" run "/log.jsonl | sed 's/.*\"loss\": //; s/,.*//')"

/* The same batch twice equals the batch once, except for the order in which gradients are summed.
 */
Test(trainer, batches_of_a_step_are_averaged)
{
    program_check(BERT "--steps 4 --set warmup=0 --out $OUT/once", 0, "Wrote ");
    program_check(BERT "--steps 4 --set warmup=0 --set accumulate=2 --out $OUT/twice", 0, "Wrote ");
    program_shell("awk -v a=" LAST_LOSS("once") " -v b=" LAST_LOSS(
        "twice") " 'BEGIN { d = a / b - 1; exit !(d < 1e-5 && d > -1e-5) }'");
    program_check(BERT "--set accumulate=0 --out $OUT/once", 2, "accumulate is '0'");
}

/* Gradients far below Adam's eps do not change the parameters. */
Test(trainer, gradients_are_clipped)
{
    program_check(BERT "--steps 3 --set warmup=0 --out $OUT/free", 0, "Wrote ");
    program_check(BERT "--steps 3 --set warmup=0 --set clip=1e-14 --out $OUT/clipped", 0, "Wrote ");
    program_shell("awk -v a=" LAST_LOSS("free") " -v b=" LAST_LOSS(
        "clipped") " 'BEGIN { exit !(a < b - 0.01) }'");
    program_check(BERT "--set clip=-1 --out $OUT/free", 2, "clip is '-1'");
}

/* ---- Data ------------------------------------------------------------------------------------ */

Test(trainer, workers_change_nothing)
{
    program_check("train vanilla --preset small --steps 5 --out $OUT/a", 0, "Wrote ");
    program_check("train vanilla --preset small --steps 5 --set workers=3 --out $OUT/b", 0,
                  "Wrote ");
    program_shell(CLEAN("a", "x") CLEAN("b", "y") "cmp $OUT/x $OUT/y");
}

/* ---- Stopping -------------------------------------------------------------------------------- */

/* At this rate nothing is learned, so the first evaluation has the smallest loss. */
Test(trainer, stops_early)
{
    program_check(COPY "--lr 1e-12 --set eval_every=2 --set patience=2 --steps 50 --out $OUT", 0,
                  "Stopped after step 6: new_loss has not improved for 2 evaluations");
    program_shell("test $(wc -l <$OUT/log.jsonl) = 6");
    program_check("train copy-task --resume --out $OUT", 0, "Stopped after step 6");
    program_check("train copy-task --resume --steps 7 --set patience=0 --out $OUT", 0, "Wrote ");
    program_shell("test $(wc -l <$OUT/log.jsonl) = 7");
}

Test(trainer, a_stopped_run_names_its_last_step)
{
    program_shell(
        "\"$BRASA\" " COPY "--steps 100000 --out $OUT/run >$OUT/printed 2>$OUT/errors & "
        "until test -s $OUT/run/log.jsonl; do sleep 0.02; done; kill -INT $!; wait $!; "
        "grep -q \"stopped after step $(wc -l <$OUT/run/log.jsonl); --resume continues the "
        "run\" $OUT/errors");
}
