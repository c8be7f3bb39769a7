/* tests/cli/test_trainer.c - what `brasa train` does with every recipe: the learning rate's course,
 * gradients of several batches, clipping, threads that read ahead, stopping early. */
#include "cli/schedule.h"
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

TestSuite(trainer, .init = program_begin, .fini = program_end, .timeout = 240);

#define COPY            "train copy-task --preset small --set dropout=0 "
#define BERT            "train bert-scratch --preset small "
#define CLEAN(from, to) PROGRAM_LOSSES " $OUT/" from "/log.jsonl >$OUT/" to "; "

/* ---- The learning rate ----------------------------------------------------------------------- */

static void check_rate(const schedule *s, int64_t step, double rate)
{
    double is = schedule_rate(s, step);
    cr_assert(fabs(is - rate) <= 1e-15, "step %d: %.17g, not %.17g", (int)step, is, rate);
}

/* From lr = 8 after three steps of warm-up. */
Test(trainer, schedules)
{
    schedule s = { .lr = 8, .warmup = 3 };
    for (s.course.index = 0; schedule_names[s.course.index]; s.course.index++) {
        schedule_settle(&s, 11);
        for (int64_t step = 0; step <= 3; step++)
            check_rate(&s, step, 2.0 * (double)(step + 1));
    }
    cr_assert_eq(s.decay_steps, 8);
    s.course.index = SCHEDULE_CONSTANT;
    check_rate(&s, 1000, 8);
    s.course.index = SCHEDULE_INVERSE_ROOT;
    check_rate(&s, 15, 4);
    s.course.index = SCHEDULE_LINEAR;
    check_rate(&s, 5, 6);
    check_rate(&s, 10, 1);
    check_rate(&s, 11, 0);
    check_rate(&s, 1000, 0);
    s.course.index = SCHEDULE_COSINE;
    check_rate(&s, 7, 4);
    check_rate(&s, 5, 4 + 4 * sqrt(0.5));
    check_rate(&s, 12, 0);
}

Test(trainer, schedule_is_a_setting)
{
    program_check(COPY "--set schedule=steps --out $OUT", 2,
                  "schedule is 'steps', must be one of constant, inverse_root, linear, cosine, "
                  "plateau");
    program_check(COPY "--set warmup=0 --set schedule=linear --steps 3 --out $OUT/a", 0, "written");
    program_check(COPY
                  "--set warmup=0 --set schedule=linear --set decay_steps=3 --steps 2 --out $OUT/b",
                  0, "written");
    program_check("train copy-task --resume --steps 3 --out $OUT/b", 0, "written");
    program_shell(CLEAN("a", "x") CLEAN("b", "y") "cmp $OUT/x $OUT/y");
    program_check("train copy-task --resume --steps 4 --out $OUT/b", 0, "written");
}

#define PLATEAU                                                                            \
    "train copy-task --preset small --lr 0.3 --set warmup=1 --set schedule=plateau --set " \
    "plateau_factor=1e-9 --set eval_every=1 "

/* At such a rate the first evaluations tell no progress; at 1e-9 of it nothing changes any more,
 * and a run that goes on knows that. */
Test(trainer, plateau_lowers_the_rate)
{
    program_check(PLATEAU "--steps 14 --out $OUT/whole", 0, "written");
    program_check(PLATEAU "--steps 8 --out $OUT/part", 0, "written");
    program_check("train copy-task --resume --steps 14 --out $OUT/part", 0, "written");
    program_shell("grep -qa '\"scheduler/' $OUT/whole/checkpoint.safetensors");
    program_shell(CLEAN("whole", "x") CLEAN("part", "y") "cmp $OUT/x $OUT/y");
    program_shell("tail -n 2 $OUT/whole/log.jsonl | sed 's/.*\"new_loss\": //; s/,.*//' | "
                  "awk '{ d = $1 - last; last = $1 } END { exit !(d < 1e-5 && d > -1e-5) }'");
    program_check(BERT "--set schedule=plateau --out $OUT", 2, "bert-scratch measures nothing");
}

/* ---- Gradients ------------------------------------------------------------------------------- */

/* Of the last line of a run's log. */
#define LAST_LOSS(run) "$(tail -n 1 $OUT/" run "/log.jsonl | sed 's/.*\"loss\": //; s/,.*//')"

/* The same batch twice is the batch once, but for the order in which gradients are summed up. */
Test(trainer, batches_of_a_step_are_averaged)
{
    program_check(BERT "--steps 4 --set warmup=0 --out $OUT/once", 0, "written");
    program_check(BERT "--steps 4 --set warmup=0 --set accumulate=2 --out $OUT/twice", 0,
                  "written");
    program_shell("awk -v a=" LAST_LOSS("once") " -v b=" LAST_LOSS(
        "twice") " 'BEGIN { d = a / b - 1; exit !(d < 1e-5 && d > -1e-5) }'");
    program_check(BERT "--set accumulate=0 --out $OUT/once", 2, "accumulate is '0'");
}

/* Gradients far below Adam's eps move nothing. */
Test(trainer, gradients_are_clipped)
{
    program_check(BERT "--steps 3 --set warmup=0 --out $OUT/free", 0, "written");
    program_check(BERT "--steps 3 --set warmup=0 --set clip=1e-14 --out $OUT/clipped", 0,
                  "written");
    program_shell("awk -v a=" LAST_LOSS("free") " -v b=" LAST_LOSS(
        "clipped") " 'BEGIN { exit !(a < b - 0.01) }'");
    program_check(BERT "--set clip=-1 --out $OUT/free", 2, "clip is '-1'");
}

/* ---- Data ------------------------------------------------------------------------------------ */

Test(trainer, workers_change_nothing)
{
    program_check("train vanilla --preset small --steps 5 --out $OUT/a", 0, "written");
    program_check("train vanilla --preset small --steps 5 --set workers=3 --out $OUT/b", 0,
                  "written");
    program_shell(CLEAN("a", "x") CLEAN("b", "y") "cmp $OUT/x $OUT/y");
}

/* ---- Stopping -------------------------------------------------------------------------------- */

/* At this rate nothing is learned, and the loss does not fall after the first evaluation. */
Test(trainer, stops_early)
{
    program_check(COPY "--lr 1e-12 --set eval_every=2 --set patience=2 --steps 50 --out $OUT", 0,
                  "Stopped after step 6: new_loss has had no smaller value for 2 evaluations");
    program_shell("test $(wc -l <$OUT/log.jsonl) = 6");
    program_check("train copy-task --resume --out $OUT", 0, "Stopped after step 6");
    program_check("train copy-task --resume --steps 7 --set patience=0 --out $OUT", 0, "written");
    program_shell("test $(wc -l <$OUT/log.jsonl) = 7");
}
