/* tests/train/test_gpt.c - the recipe gpt: it learns, its folder works, it resumes, and invalid
 * settings. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <stdio.h>

/* A text of 600 lines, in which a word decides the next one. */
static void begin(void)
{
    program_begin();
    program_shell("for i in $(seq 600); do case $((i * i % 7 % 3)) in 0) echo the cat sat on it;; "
                  "1) echo one dog ran home;; *) echo my fish swam by;; esac; done >$OUT/text");
}

TestSuite(gpt, .init = begin, .fini = program_end);

#define GPT                                                                                      \
    "train gpt --preset small --data $OUT/text --out $OUT/run --overwrite --set vocab_size=280 " \
    "--set length=24 --set hidden_size=32 --set layers=1 "

/* After 150 steps, the model knows which word follows which: a line has at most log 3 nats in its
 * five or six tokens. */
Test(gpt, learns)
{
    static const char *const models[] = { "llama", "gpt2" };
    for (int i = 0; i < 2; i++) {
        char options[300];
        snprintf(options, sizeof options,
                 GPT "--steps 150 --lr 0.01 --set warmup=10 --set eval_every=50 --set model=%s",
                 models[i]);
        program_check(options, 0, "run/model. Try it: brasa generate --model ");
        program_shell("tail -n 1 $OUT/run/log.jsonl | awk -F 'eval_loss\": ' "
                      "'{ exit !($2 > 0 && $2 + 0 < 0.6) }'");
        program_check("generate --model $OUT/run/model -n 4 'one dog'", 0, "one dog ran home\n");
        program_check("info $OUT/run/model", 0, i ? "gpt2" : "llama");
    }
}

/* The held-out text is the end, here digits that nothing predicts: log 10 nats are 2.3. */
Test(gpt, holds_out_the_end)
{
    program_shell("for i in $(seq 200); do echo $((i * 7919 % 99991)); done >>$OUT/text");
    program_check(GPT "--steps 100 --lr 0.01 --set warmup=10 --set eval_every=100", 0, "Wrote ");
    program_shell("tail -n 1 $OUT/run/log.jsonl | awk -F 'eval_loss\": ' "
                  "'{ exit !($2 + 0 > 1.6) }'");
}

Test(gpt, shows_the_text)
{
    program_check(GPT "--steps 2", 0, "280 tokens in the vocabulary, ");
    program_check(GPT "--steps 2 --set held_out=0", 0, ", the last 0 held out\nprompt: ");
}

/* Predictions between steps use random numbers of their own. */
Test(gpt, resumes)
{
    program_check(GPT "--steps 7 --threads 1", 0, "Wrote ");
    program_shell("mv $OUT/run $OUT/whole");
    program_check(GPT "--steps 3 --set decay_steps=7 --set show_every=1", 0, "After step 2:\n");
    program_check("train gpt --data $OUT/text --out $OUT/run --resume --steps 7 --threads 2", 0,
                  "Wrote ");
    program_shell("cmp $OUT/whole/model/model.safetensors $OUT/run/model/model.safetensors && "
                  "cmp $OUT/whole/model/tokenizer.json $OUT/run/model/tokenizer.json");
}

Test(gpt, refused)
{
    program_check("train gpt --out $OUT/run", 2, "gpt needs --data FILE: a text in UTF-8");
    program_check(GPT "--as-written", 2, "gpt is not of a notebook, so it has no variant");
    program_check(GPT "--set heads=3", 1, "hidden_size");
    program_check(GPT "--set vocab_size=256", 2, "vocab_size is '256', must be an integer in 257");
    program_check(GPT "--set length=16384", 1, "it is too short, or length is too large");
    program_shell("printf 'a\\377' >$OUT/text");
    program_check(GPT, 1, "byte 1 of a text is not UTF-8");
    program_shell(": >$OUT/text");
    program_check(GPT, 1, "the text has 0 tokens");
}
