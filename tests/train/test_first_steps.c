/* tests/train/test_first_steps.c - losses and metrics of the first steps of every recipe and
 * preset.
 *
 * The numbers are those of runs whose results tests/train/test_recipes.c and test_gpt.c judge. They
 * show that data, batches, initial weights, rates and metrics stay as they are. After a change that
 * changes them on purpose, copy the log that the failing test prints. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 90 texts of three topics. */
static void begin(void)
{
    program_begin();
    program_shell("for i in $(seq 90); do printf 't%d\\tA%d w%d b%d.\\n' $((i % 3)) $((i % 7)) "
                  "$((i % 12)) $((i % 5)); done >$OUT/texts");
}

TestSuite(first_steps, .init = begin, .fini = program_end);

/* The lines that a run prints about its model, its data and all predictions. */
#define SUMMARY "' parameters|^[0-9a-z].* of |vocabulary'"

/* Options of a run, its log without quotes, braces and times, and its summary; or options of a
 * preset, and its settings. */
typedef struct recorded_run {
    const char *options, *log;
} recorded_run;

static const recorded_run runs[] = {
    { "bert-scratch --steps 3 --preset small --set warmup=0",
      "step: 1, loss: 17.0580826, loss_lm: 16.3600559, loss_clsf: 0.698025823\n"
      "step: 2, loss: 10.3761311, loss_lm: 9.68279457, loss_clsf: 0.693336964\n"
      "step: 3, loss: 6.14142609, loss_lm: 5.44848108, loss_clsf: 0.692944884\n"
      "bert-scratch: 47976 parameters, steps 1 to 3\n"
      "1 of 15 masked words right, 3 of 6 next-sentence answers right\n" },
    { "bert-scratch --steps 3 --preset small --as-written",
      "step: 1, loss: 11.5948019, loss_lm: 10.903451, loss_clsf: 0.691351295\n"
      "step: 2, loss: 4.81229877, loss_lm: 4.11956644, loss_clsf: 0.692732155\n"
      "step: 3, loss: 4.54846287, loss_lm: 3.85633445, loss_clsf: 0.69212836\n"
      "bert-scratch: 42888 parameters, steps 1 to 3\n"
      "3 of 15 masked words right, 3 of 6 next-sentence answers right\n" },
    { "copy-task --steps 3 --preset small --set warmup=0 --set eval_every=2",
      "step: 1, loss: 4.9292779\n"
      "step: 2, loss: 4.85576773, new_loss: 4.81318617, new_accuracy: 0.0173611111\n"
      "step: 3, loss: 4.839499\n"
      "copy-task: 318820 parameters, steps 1 to 3\n"
      "0 of 64 new sequences copied without a mistake\n" },
    { "copy-task --steps 3 --preset small --as-written --set eval_every=3",
      "step: 1, loss: 4.76495457\n"
      "step: 2, loss: 4.78735399\n"
      "step: 3, loss: 4.76036978, new_loss: 4.73648739, new_accuracy: 0.0138888889\n"
      "copy-task: 318564 parameters, steps 1 to 3\n"
      "0 of 64 new sequences copied without a mistake\n" },
    { "vanilla --steps 3 --preset small --set warmup=0 --set held_out=16 --set eval_every=2",
      "step: 1, loss: 2.87100339\n"
      "step: 2, loss: 2.3214345, held_out_loss: 2.14538169, exact_match: 0.0\n"
      "step: 3, loss: 2.15445304\n"
      "vanilla: 130253 parameters, steps 1 to 3\n"
      "0 of 16 held-out dates converted without a mistake (0.0 %)\n" },
    { "vanilla --steps 3 --preset small --as-written --set held_out=8 --set eval_every=3",
      "step: 1, loss: 2.87670779\n"
      "step: 2, loss: 2.89175105\n"
      "step: 3, loss: 2.88522315, held_out_loss: 2.85411358, exact_match: 0.0\n"
      "vanilla: 130253 parameters, steps 1 to 3\n"
      "0 of 8 held-out dates converted without a mistake (0.0 %)\n" },
    { "vanilla --preset dates --set held_out=8 --steps 1",
      "step: 1, loss: 2.73683214\n"
      "vanilla: 246989 parameters, steps 1 to 1\n"
      "eighteenth of november 1977\n"
      "0 of 8 held-out dates converted without a mistake (0.0 %)\n" },
    { "classifier --steps 3 --preset small --set warmup=0 --set eval_every=2 --data $OUT/texts",
      "step: 1, loss: 1.18939149\n"
      "step: 2, loss: 1.27688837, held_out_loss: 1.19845104, held_out_accuracy: 0.277777778\n"
      "step: 3, loss: 1.26923072\n"
      "classifier: 10691 parameters, steps 1 to 3\n"
      "t0                           0 of     7 right    0.0 %\n"
      "t1                           5 of     5 right  100.0 %\n"
      "t2                           0 of     6 right    0.0 %\n"
      "all held-out texts           5 of    18 right   27.8 %\n"
      "always t1                    5 of    18 right   27.8 %\n" },
    { "classifier --steps 3 --preset small --set model=vanilla --set eval_every=3 --data "
      "$OUT/texts",
      "step: 1, loss: 1.36523104\n"
      "step: 2, loss: 1.6265527\n"
      "step: 3, loss: 1.61612761, held_out_loss: 1.37439263, held_out_accuracy: 0.222222222\n"
      "classifier: 10563 parameters, steps 1 to 3\n"
      "t0                           0 of     7 right    0.0 %\n"
      "t1                           4 of     5 right   80.0 %\n"
      "t2                           0 of     6 right    0.0 %\n"
      "all held-out texts           4 of    18 right   22.2 %\n"
      "always t1                    5 of    18 right   27.8 %\n" },
    { "classifier --steps 3 --preset small --as-written --set eval_every=3 --data $OUT/texts",
      "step: 1, loss: 1.35888994\n"
      "step: 2, loss: 1.27071333\n"
      "step: 3, loss: 1.65525866, held_out_loss: 1.23640335, held_out_accuracy: 0.277777778\n"
      "classifier: 10627 parameters, steps 1 to 3\n"
      "t0                           0 of     7 right    0.0 %\n"
      "t1                           5 of     5 right  100.0 %\n"
      "t2                           0 of     6 right    0.0 %\n"
      "all held-out texts           5 of    18 right   27.8 %\n"
      "always t1                    5 of    18 right   27.8 %\n" },
    { "classifier --preset fortunes --steps 2 --data $OUT/texts",
      "step: 1, loss: 1.26269138\n"
      "step: 2, loss: 1.16893339\n"
      "classifier: 73283 parameters, steps 1 to 2\n"
      "t0                           0 of     7 right    0.0 %\n"
      "t1                           5 of     5 right  100.0 %\n"
      "t2                           0 of     6 right    0.0 %\n"
      "all held-out texts           5 of    18 right   27.8 %\n"
      "always t1                    5 of    18 right   27.8 %\n" },
    { "gpt --steps 3 --preset small --set warmup=0 --set eval_every=2 --data $OUT/texts",
      "step: 1, loss: 5.66475677\n"
      "step: 2, loss: 5.36090279, eval_loss: 5.21440077\n"
      "step: 3, loss: 5.21641397\n"
      "gpt: 123520 parameters, steps 1 to 3\n"
      "261 tokens in the vocabulary, 990 in the text (1.20 bytes each), the last 64 held out\n" },
    { "gpt --steps 3 --preset small --set model=gpt2 --set eval_every=3 --data $OUT/texts",
      "step: 1, loss: 5.61081219\n"
      "step: 2, loss: 5.60986185\n"
      "step: 3, loss: 5.60665369, eval_loss: 5.59789896\n"
      "gpt: 120896 parameters, steps 1 to 3\n"
      "261 tokens in the vocabulary, 990 in the text (1.20 bytes each), the last 64 held out\n" },
    { "gpt --preset base --steps 1 --data $OUT/texts",
      "step: 1, loss: 5.68562222\n"
      "gpt: 3280384 parameters, steps 1 to 1\n"
      "261 tokens in the vocabulary, 990 in the text (1.20 bytes each), the last 0 held out\n" },
};
enum { N_RUNS = sizeof runs / sizeof *runs };

/* Returns whether two logs have the same words, and numbers that differ by the rounding of f32 in
 * three steps, which depends on the instruction set. */
static bool are_close(const char *log, const char *wanted)
{
    while (*log && *wanted) {
        char *log_end, *wanted_end;
        const double x = strtod(log, &log_end), y = strtod(wanted, &wanted_end);
        const bool is_number = log_end != log && wanted_end != wanted;
        if (is_number ? !(fabs(x - y) <= 1e-5 * (0.01 + fabs(y))) : *log != *wanted)
            return false;
        log = is_number ? log_end : log + 1;
        wanted = is_number ? wanted_end : wanted + 1;
    }
    return *log == *wanted;
}

Test(first_steps, equal_the_recorded_ones)
{
    static char line[512], log[4096];
    for (int i = 0; i < N_RUNS; i++) {
        snprintf(
            line, sizeof line,
            "train %s --threads 1 --overwrite --out $OUT/run >$OUT/printed 2>&1 && " PROGRAM_LOSSES
            " $OUT/run/log.jsonl | tr -d '{}\"'; grep -E " SUMMARY " $OUT/printed",
            runs[i].options);
        cr_expect_eq(program_run(line, log, sizeof log), 0, "%s: %s", runs[i].options, log);
        cr_expect(are_close(log, runs[i].log), "%s:\n%swanted:\n%s", runs[i].options, log,
                  runs[i].log);
    }
}

/* The values of all settings in each preset. */
static const recorded_run presets[] = {
    { "bert-scratch --preset notebook",
      "steps=80 seed=123 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.0001 warmup=0 schedule=constant decay_steps=0 accumulate=1 zero_stage=0 "
      "clip=0 workers=0 show_every=0 histograms=0 checkpoint_every=50 d_model=768 "
      "n_layers=6 n_heads=12 d_ff=3072 d_k=64 d_v=64 maxlen=100 n_segments=2 "
      "max_pred=7 batch_size=6 as_written=false " },
    { "bert-scratch --preset small",
      "steps=80 seed=123 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.001 warmup=0 schedule=constant decay_steps=0 accumulate=1 zero_stage=0 "
      "clip=0 workers=0 show_every=0 histograms=0 checkpoint_every=50 d_model=48 "
      "n_layers=2 n_heads=4 d_ff=96 d_k=12 d_v=12 maxlen=32 n_segments=2 max_pred=7 "
      "batch_size=6 as_written=false " },
    { "copy-task --preset notebook",
      "steps=200 seed=0 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.0003 warmup=100 schedule=constant decay_steps=0 plateau_factor=0.1 "
      "plateau_patience=0 accumulate=1 zero_stage=0 clip=0 workers=0 eval_every=50 "
      "patience=0 show_every=0 histograms=0 checkpoint_every=100 d_model=512 d_ff=2048 "
      "heads=8 layers=6 vocab=100 length=10 batch=64 num_samples=1000 dropout=0.1 "
      "as_written=false " },
    { "copy-task --preset small",
      "steps=200 seed=0 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.003 warmup=100 schedule=constant decay_steps=0 plateau_factor=0.1 "
      "plateau_patience=0 accumulate=1 zero_stage=0 clip=0 workers=0 eval_every=50 "
      "patience=0 show_every=0 histograms=0 checkpoint_every=100 d_model=64 d_ff=256 "
      "heads=4 layers=2 vocab=100 length=10 batch=64 num_samples=1000 dropout=0.1 "
      "as_written=false " },
    { "vanilla --preset dates",
      "steps=2000 seed=0 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.003 warmup=100 schedule=inverse_root decay_steps=0 plateau_factor=0.1 "
      "plateau_patience=0 accumulate=1 zero_stage=0 clip=0 workers=0 eval_every=250 "
      "patience=0 show_every=0 histograms=0 checkpoint_every=500 embed_dim=64 "
      "ff_hid_dim=256 heads=4 layers=2 dropout=0 batch=64 samples=131072 held_out=512 "
      "forms=32 as_written=false " },
    { "vanilla --preset small",
      "steps=600 seed=0 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.003 warmup=100 schedule=inverse_root decay_steps=0 plateau_factor=0.1 "
      "plateau_patience=0 accumulate=1 zero_stage=0 clip=0 workers=0 eval_every=150 "
      "patience=0 show_every=0 histograms=0 checkpoint_every=500 embed_dim=64 "
      "ff_hid_dim=256 heads=4 layers=1 dropout=0 batch=64 samples=131072 held_out=128 "
      "forms=8 as_written=false " },
    { "classifier --preset fortunes",
      "steps=1500 seed=0 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.001 warmup=100 schedule=constant decay_steps=0 plateau_factor=0.1 "
      "plateau_patience=0 accumulate=1 zero_stage=0 clip=0 workers=0 eval_every=100 "
      "patience=0 show_every=0 histograms=0 checkpoint_every=500 model=anatomy "
      "hidden_size=64 intermediate_size=128 heads=4 layers=2 dropout=0.3 length=64 "
      "min_count=2 held_out=0.2 batch=32 as_written=false " },
    { "classifier --preset small",
      "steps=400 seed=0 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.003 warmup=100 schedule=constant decay_steps=0 plateau_factor=0.1 "
      "plateau_patience=0 accumulate=1 zero_stage=0 clip=0 workers=0 eval_every=100 "
      "patience=0 show_every=0 histograms=0 checkpoint_every=500 model=anatomy "
      "hidden_size=32 intermediate_size=64 heads=2 layers=1 dropout=0.3 length=32 "
      "min_count=2 held_out=0.2 batch=32 as_written=false " },
    { "gpt --preset base",
      "steps=1000 seed=0 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.001 warmup=100 schedule=cosine decay_steps=0 plateau_factor=0.1 "
      "plateau_patience=0 accumulate=1 zero_stage=0 clip=1 workers=0 eval_every=100 "
      "patience=0 show_every=0 histograms=0 checkpoint_every=250 model=llama "
      "vocab_size=4096 hidden_size=256 layers=4 heads=4 length=128 batch=16 "
      "held_out=0.05 " },
    { "gpt --preset small",
      "steps=200 seed=0 matmul_precision=highest amp=off dtype=f32 half_update=master "
      "lr=0.001 warmup=100 schedule=cosine decay_steps=0 plateau_factor=0.1 "
      "plateau_patience=0 accumulate=1 zero_stage=0 clip=1 workers=0 eval_every=100 "
      "patience=0 show_every=0 histograms=0 checkpoint_every=250 model=llama "
      "vocab_size=512 hidden_size=64 layers=2 heads=2 length=64 batch=8 held_out=0.05 " },
};
enum { N_PRESETS = sizeof presets / sizeof *presets };

Test(first_steps, presets_have_the_recorded_values)
{
    static char line[512], values[4096];
    for (int i = 0; i < N_PRESETS; i++) {
        snprintf(line, sizeof line,
                 "train %s --help | sed -n '/^Settings of /,$p' | "
                 "awk '/^  [a-z]/ { printf \"%%s=%%s \", $1, $2 }'",
                 presets[i].options);
        cr_expect_eq(program_run(line, values, sizeof values), 0, "%s", values);
        cr_expect_str_eq(values, presets[i].log, "%s", presets[i].options);
    }
}
