/* tests/cli/test_finetune_pairs.c - `brasa finetune --objective contrastive` and `preference`:
 * losses of other libraries (record_finetune_pairs.py), what they write, and invalid data. */
#include "tests/cli/finetune_checks.h"

static void begin(void)
{
    program_begin();
    program_make_gpt2();
    make_bert();
}

TestSuite(cli_finetune_pairs, .init = begin, .fini = program_end);

#define RUN         "--data $OUT/data --out $OUT/run --overwrite "
#define CONTRASTIVE "finetune -m $OUT/bert --objective contrastive " RUN
#define PREFERENCE  "finetune -m $OUT/gpt2 --objective preference " RUN
#define ALL_AT_ONCE "--steps 4 --set held_out=0 "

/* The losses are f32 means of a few numbers; a cosine is the product of two more. */
static void check_losses(int n, const double *want)
{
    check_log(n, want, 4e-6);
}

/* ---- Pairs that belong together -------------------------------------------------------------- */

static const char triples[] = "anchor,positive,negative\na aa,aaa,aa\naaa a aaaa,a,aaaa\n"
                              "aa,aa a,aaaaa a\naaaa aaaaa a,aaa aa,a\n";

Test(cli_finetune_pairs, pairs)
{
    static const double losses[] = { 1.41041374, 1.39039373, 1.385952, 1.38469315 };
    write_data("{\"anchor\": \"a aa\", \"positive\": \"aaa\"}\n"
               "{\"anchor\": \"aaa a aaaa\", \"positive\": \"a\"}\n"
               "{\"anchor\": \"aa\", \"positive\": \"aa a\"}\n"
               "{\"anchor\": \"aaaa aaaaa a\", \"positive\": \"aaa aa\"}\n");
    program_check(CONTRASTIVE ALL_AT_ONCE "--lr 0.01", 0, "4 pairs, 0 of them held out, 31 tokens");
    check_losses(4, losses);
    check_tokens(CONTRASTIVE ALL_AT_ONCE, 4 * 5 + 4 * 4);
    program_shell("! test -e $OUT/run/adapter && "
                  "\"$BRASA\" embed -j -m $OUT/run/model 'a aa' >$OUT/e && "
                  "! \"$BRASA\" embed -j -m $OUT/bert 'a aa' | cmp -s - $OUT/e");
}

Test(cli_finetune_pairs, pairs_with_negatives)
{
    static const double losses[] = { 2.09912682, 2.07928467, 2.07536745, 2.07420158 };
    write_data(triples);
    program_check(CONTRASTIVE ALL_AT_ONCE "--lr 0.01", 0, "negative  aaaaa a (similarity ");
    check_losses(4, losses);
    program_check(CONTRASTIVE ALL_AT_ONCE "--preset lora", 0,
                  "run/adapter. Try it: brasa embed --model ");
    program_shell("\"$BRASA\" embed -m $OUT/bert --adapter $OUT/run/adapter 'a aa' >$OUT/e");
}

/* The scale and a second batch change the losses; held-out pairs are compared. */
Test(cli_finetune_pairs, settings_of_pairs)
{
    write_data(triples);
    program_check(CONTRASTIVE "--steps 2 --set batch=2 --set scale=1 --set held_out=0.5 --set "
                              "eval_every=1",
                  0, "4 pairs, 2 of them held out");
    program_shell("grep -c '\"accuracy\": ' $OUT/run/log.jsonl | grep -qx 2");
    program_check(CONTRASTIVE "--steps 1 --set length=3", 0, "held out, 36 tokens");
    program_check(CONTRASTIVE "--set scale=0", 2, "scale is '0', must be a number in 1e-06 ..");
    program_shell("cd $OUT/bert && mkdir 1_Pooling && "
                  "echo '{\"max_seq_length\": 3}' >sentence_bert_config.json && "
                  "echo '{\"word_embedding_dimension\": 6, \"pooling_mode_cls_token\": true, "
                  "\"pooling_mode_mean_tokens\": false}' >1_Pooling/config.json && "
                  "printf '[{\"idx\": 0, \"name\": \"0\", \"path\": \"\", \"type\": "
                  "\"sentence_transformers.models.Transformer\"}, {\"idx\": 1, \"name\": \"1\", "
                  "\"path\": \"1_Pooling\", \"type\": \"sentence_transformers.models.Pooling\"}]' "
                  ">modules.json");
    program_check(CONTRASTIVE "--steps 1", 0, "held out, 36 tokens");
    program_shell("cmp $OUT/bert/modules.json $OUT/run/model/modules.json && "
                  "cmp $OUT/bert/1_Pooling/config.json $OUT/run/model/1_Pooling/config.json");
}

/* ---- Preferences ----------------------------------------------------------------------------- */

static const char preferences[] = "prompt,chosen,rejected\nab c, de, ed\nat,he cab,x\n"
                                  "0 1 2 3, 4 5, 9\n";

Test(cli_finetune_pairs, preferences)
{
    static const double sigmoid[] = { 0.693147182, 0.671359956, 0.654894412, 0.643795669 };
    static const double hinge[] = { 1, 0.955789089, 0.921482563, 0.89789921 };
    static const double ipo[] = { 25, 23.8569489, 22.9974365, 22.4219284 };
    write_data(preferences);
    program_check(PREFERENCE ALL_AT_ONCE "--preset full --lr 0.001", 0,
                  "3 pairs, 0 of them held out, ");
    check_losses(4, sigmoid);
    program_check("generate -m $OUT/run/model -n 2 ab", 0, "ab");
    program_check(PREFERENCE ALL_AT_ONCE "--preset full --lr 0.001 --set loss_type=hinge", 0, "");
    check_losses(4, hinge);
    program_check(PREFERENCE ALL_AT_ONCE "--preset full --lr 0.001 --set loss_type=ipo", 0, "");
    check_losses(4, ipo);
}

/* The reference is the model before training, also after a pause. */
Test(cli_finetune_pairs, preferences_resume)
{
    write_data(preferences);
    program_check(PREFERENCE "--steps 6 --set batch=2 --set held_out=0 --lr 0.01 --threads 1", 0,
                  "run/adapter. Try it: brasa generate --model ");
    program_shell("mv $OUT/run $OUT/whole");
    program_check(PREFERENCE "--steps 3 --set batch=2 --set held_out=0 --lr 0.01 --set "
                             "decay_steps=6",
                  0, "Wrote ");
    program_check("finetune --data $OUT/data --out $OUT/run --resume --steps 6", 0, "Wrote ");
    program_shell("cmp $OUT/whole/adapter/adapter_model.safetensors "
                  "$OUT/run/adapter/adapter_model.safetensors");
}

Test(cli_finetune_pairs, preferences_are_evaluated)
{
    write_data(preferences);
    program_check(PREFERENCE "--steps 2 --set held_out=0.4 --set eval_every=1 --set beta=1 --set "
                             "label_smoothing=0.1",
                  0, "3 pairs, 1 of them held out, ");
    program_shell("grep -c '\"accuracy\": ' $OUT/run/log.jsonl | grep -qx 2");
    write_data("prompt,chosen,rejected\nab,d,e\nab,d,e\nab,d,e\nab,d,e\n");
    program_check(PREFERENCE "--steps 4 --lr 0.01 --set held_out=0.5 --set eval_every=4", 0, "");
    program_shell("grep -q '\"accuracy\": 1\\.0,' $OUT/run/log.jsonl");
    write_data(preferences);
    program_check(PREFERENCE "--steps 1 --set show_every=0", 0, "before ");
    check_tokens(PREFERENCE "--steps 2 --set held_out=0", 16 + 12 + 22);
}

/* Each answer is shown with its own probability. A longer answer has the smaller one. */
Test(cli_finetune_pairs, preferences_are_shown)
{
    static char output[1 << 14];
    write_data("prompt,chosen,rejected\nab c,d,e1f2g3h4i5\nat,x,9a8b7c6d5e\n");
    cr_assert_eq(
        program_run(PREFERENCE "--steps 1 --lr 1e-12 --set held_out=0", output, sizeof output), 0,
        "%s", output);
    const char *at = strstr(output, "\nchosen");
    cr_assert(at, "%s", output);
    for (int row = 0; row < 2; row++) {
        double now[2], before[2];
        for (int k = 0; k < 2; k++) {
            at = at ? strstr(at, "(log-probability ") : NULL;
            cr_assert(at &&
                          sscanf(at, "(log-probability %lf, before %lf)", &now[k], &before[k]) == 2,
                      "%s", output);
            at++;
            cr_expect(fabs(now[k] - before[k]) < 1e-3 * fabs(before[k]), "%s", output);
        }
        cr_expect(now[0] > now[1] + 10 && now[0] < 0, "row %d: %g, %g", row, now[0], now[1]);
    }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(cli_finetune_pairs, refused)
{
    static const struct {
        const char *command, *data, *message;
    } cases[] = {
        { CONTRASTIVE, "anchor,text\na,b\n", "it has no \"positive\"" },
        { CONTRASTIVE, "anchor,positive\na,\n", "line 2 of the data has an empty \"positive\"" },
        { CONTRASTIVE, "anchor,positive\na\n", "line 2 of the data has 1 fields, must have 2" },
        { CONTRASTIVE, "anchor,positive\n", "the data has no examples" },
        { CONTRASTIVE, "{\"anchor\": \"a\"}\n", "line 1 of the data has no \"positive\"" },
        { CONTRASTIVE, "{\"anchor\": \"a\", \"positive\": 1}\n", "that is no string" },
        { CONTRASTIVE,
          "{\"anchor\": \"a\", \"positive\": \"a\"}\n"
          "{\"anchor\": \"a\", \"positive\": \"a\", \"negative\": \"a\"}\n",
          "line 2 of the data has a \"negative\", unlike the first line" },
        { CONTRASTIVE, "anchor,positive\na,\xff\n", "UTF-8" },
        { PREFERENCE, "prompt,chosen\na,b\n", "it has no \"rejected\"" },
        { PREFERENCE "--set length=3 ", "prompt,chosen,rejected\na,b,c\nabcd,e,f\n",
          "line 3 of the data has a prompt of 3 tokens or more, so that none of \"chosen\" is "
          "left: "
          "set length to a larger number" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[400];
        write_data(cases[i].data);
        snprintf(command, sizeof command, "%s--steps 1", cases[i].command);
        program_check(command, 1, cases[i].message);
    }
    program_check("finetune -m $OUT/bert --objective preference " RUN, 1,
                  "no language model that predicts the next token");
}
