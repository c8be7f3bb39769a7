/* tests/cli/test_finetune.c - `brasa finetune`: losses of transformers (record_finetune.py), what
 * it writes, resuming, and invalid data. */
#include "tests/cli/finetune_checks.h"

#include <string.h>

static void begin(void)
{
    program_begin();
    program_make_gpt2();
}

TestSuite(cli_finetune, .init = begin, .fini = program_end);

static const char pairs[] = "{\"prompt\": \"ab c\", \"completion\": \" de\"}\n"
                            "{\"prompt\": \"at\", \"completion\": \"he cab\"}\n"
                            "\n"
                            "{\"prompt\": \"\", \"completion\": \"face\"}\n"
                            "{\"prompt\": \"0 1 2 3\", \"completion\": \" 4 5 6 7\"}\n"
                            "{\"prompt\": \"x\", \"completion\": \"y\"}\n";

#define TUNE "finetune -m $OUT/gpt2 --data $OUT/data --out $OUT/run "
#define RUN  TUNE "--preset full "

/* The losses are f32 means of a few numbers. */
static void check_losses(int n, const double *want)
{
    check_log(n, want, 2e-6);
}

Test(cli_finetune, has_the_losses_of_transformers)
{
    static const double losses[] = { 3.75988722, 3.01415634, 2.59459925,
                                     2.35296702, 2.14820695, 2.00352168 };
    write_data(pairs);
    program_check(RUN "--set length=9 --lr 0.01 --steps 6 --set held_out=0", 0,
                  "5 examples, 0 of them held out, 33 tokens; 1 longer than 9 tokens were cut");
    check_losses(6, losses);
    program_check("generate -m $OUT/run/model -n 3 x", 0, "xy");
    check_tokens(RUN "--set length=9 --steps 3 --set held_out=0 --overwrite", 5 * 9);
    program_check(RUN "--set length=9 --lr 0.01 --steps 6 --set held_out=0 --overwrite "
                      "--set checkpoint_layers=true",
                  0, "Wrote ");
    check_losses(6, losses);
}

/* The models are trained with the dropout of their configuration. */
Test(cli_finetune, trains_with_dropout)
{
    write_data(pairs);
    program_check(RUN "--lr 0.01 --steps 1 --set held_out=0", 0, "Wrote ");
    program_shell("sed 's/.*\"loss\": \\([^,}]*\\).*/\\1/' $OUT/run/log.jsonl >$OUT/without && "
                  "test -s $OUT/without && "
                  "sed -i 's/pdrop\": 0.0/pdrop\": 0.5/' $OUT/gpt2/config.json");
    program_check(RUN "--lr 0.01 --steps 1 --set held_out=0 --overwrite", 0, "Wrote ");
    program_shell("sed 's/.*\"loss\": \\([^,}]*\\).*/\\1/' $OUT/run/log.jsonl >$OUT/with && "
                  "test -s $OUT/with && ! cmp -s $OUT/with $OUT/without");
}

/* All examples are one batch, whose mean loss does not depend on how they are arranged. */
Test(cli_finetune, packing_has_the_losses_of_transformers)
{
    static const double losses[] = { 3.75988722, 3.01415634, 2.59459925,
                                     2.35296702, 2.14820695, 2.00352168 };
    write_data(pairs);
    program_check(RUN "--set length=9 --lr 0.01 --steps 6 --set held_out=0 --set packing=true", 0,
                  "5 examples in 4 packs, 0 of them held out, 33 tokens; 1 longer");
    check_losses(6, losses);
    program_check(RUN "--set length=9 --lr 0.01 --steps 6 --set held_out=0.5 --set packing=true "
                      "--set eval_every=1 --set checkpoint_layers=true --overwrite",
                  0, "5 examples in 4 packs, 2 of them held out");
    program_shell("test $(grep -c 'eval_loss\": [0-9]' $OUT/run/log.jsonl) = 6");
}

/* The first values of an adapter are those of peft for the same seed. */
Test(cli_finetune, adapters_have_the_losses_of_peft)
{
    static const double lora[] = { 3.75988722, 3.22861814, 2.91129375,
                                   2.6810894,  2.52657747, 2.40875077 };
    static const double dora[] = { 3.75988722, 3.53870583, 3.33558488,
                                   3.17606878, 3.06554723, 2.99564028 };
    write_data(pairs);
    program_check(TUNE "--set length=9 --lr 0.01 --steps 6 --set held_out=0", 0,
                  "run/adapter. Try it: brasa generate --model ");
    check_losses(6, lora);
    program_shell("test -f $OUT/run/adapter/adapter_config.json && ! test -e $OUT/run/model");
    program_check(TUNE "--set length=9 --lr 0.01 --steps 6 --set held_out=0 --set r=4 "
                       "--set lora_alpha=8 --set target_modules=c_attn,c_fc --set use_dora=true "
                       "--set use_rslora=true --set merge=true --overwrite",
                  0, "run/model. Try it: brasa generate --model ");
    check_losses(6, dora);
    program_shell("\"$BRASA\" generate -m $OUT/gpt2 --adapter $OUT/run/adapter -n 6 x >$OUT/a && "
                  "\"$BRASA\" generate -m $OUT/run/model -n 6 x >$OUT/b && cmp $OUT/a $OUT/b");
    program_check(TUNE "--set target_modules=c_atn --overwrite", 1, "c_attn");
    program_check(TUNE "--set target_modules=, --overwrite", 1, "target_modules");
}

/* Three passes over 8 examples of 10, in batches of 3 whose gradients are summed in pairs. */
Test(cli_finetune, passes_over_the_data)
{
    write_data(
        "{\"text\": \"abc\"}\n{\"text\": \"cab\"}\n{\"text\": \"bca\"}\n{\"text\": \"def\"}\n"
        "{\"text\": \"fed\"}\n{\"text\": \"efd\"}\n{\"text\": \"ghi\"}\n{\"text\": \"hig\"}\n"
        "{\"text\": \"igh\"}\n{\"text\": \"jkl\"}\n");
    program_check(RUN "--set batch=3 --set held_out=0.2 --set eval_every=2 --set accumulate=2", 0,
                  "10 examples, 2 of them held out, 40 tokens\n");
    program_shell("wc -l <$OUT/run/log.jsonl | grep -qx 5");
    program_shell("grep -c eval_loss $OUT/run/log.jsonl | grep -qx 2");
}

/* One example is always left to train with. */
Test(cli_finetune, holds_out_all_but_one)
{
    write_data("{\"text\": \"abc\"}\n{\"text\": \"cab\"}\n{\"text\": \"bca\"}\n");
    program_check(RUN "--set held_out=0.9 --steps 1", 0, "3 examples, 2 of them held out, ");
}

/* The model takes 24 tokens. */
Test(cli_finetune, cuts_what_the_model_cannot_take)
{
    write_data("{\"text\": \"abcdefghijabcdefghijabcdefghij\"}\n");
    program_check(RUN "--steps 1 --set held_out=0", 0,
                  "24 tokens; 1 longer than 24 tokens were cut");
}

Test(cli_finetune, divides_a_text)
{
    write_data("abcdefghij");
    program_check(RUN "--set length=4 --steps 1 --set held_out=0", 0,
                  "3 examples, 0 of them held out, 10 tokens\n");
    program_check(RUN "--set length=3 --steps 1 --set held_out=0 --overwrite", 0,
                  "3 examples, 0 of them held out, 9 tokens; 1 without a token to predict");
    write_data("{ab}");
    program_check(RUN "--steps 1 --overwrite", 1, "line 1 of the data is not JSON: column 3");
    program_check(RUN "--steps 1 --set format=text --overwrite", 1, "no token for the byte 0x7b");
}

/* The prompts count only if all tokens do. */
Test(cli_finetune, loss_on_all_tokens)
{
    write_data("{\"prompt\": \"abcdefgh\", \"completion\": \"i\"}\n");
    program_check(RUN "--steps 1 --set held_out=0", 0, "prompt:   abcdefgh\nexpected: i\n");
    program_check(RUN "--steps 1 --set held_out=0 --set loss_on=all --overwrite", 0,
                  "prompt:   abcde\nexpected: fghi\n");
}

Test(cli_finetune, resumes)
{
    write_data(pairs);
    program_check(RUN "--steps 7 --set batch=2 --set accumulate=2 --threads 1", 0, "Wrote ");
    program_shell("mv $OUT/run $OUT/whole");
    program_check(RUN "--steps 3 --set batch=2 --set accumulate=2 --set decay_steps=7", 0,
                  "Wrote ");
    program_check("finetune --data $OUT/data --out $OUT/run --resume --steps 7 --threads 2", 0,
                  "Wrote ");
    program_shell("cmp $OUT/whole/model/model.safetensors $OUT/run/model/model.safetensors");
    program_check("finetune --data $OUT/data --out $OUT/run --resume --set length=8", 2,
                  "length is 8, but the checkpoint was made with 512");
    program_check("finetune -m $OUT/t5 --data $OUT/data --out $OUT/run --resume", 2,
                  "but the checkpoint was made with");
}

/* Checkpoints have the adapter alone. */
Test(cli_finetune, resumes_an_adapter)
{
    write_data(pairs);
    program_check(TUNE "--steps 7 --set batch=2 --set lora_dropout=0.3 --threads 1", 0, "Wrote ");
    program_shell("mv $OUT/run $OUT/whole");
    program_check(TUNE "--steps 3 --set batch=2 --set lora_dropout=0.3 --set decay_steps=7", 0,
                  "Wrote ");
    program_check("finetune --data $OUT/data --out $OUT/run --resume --steps 7", 0, "Wrote ");
    program_shell("cmp $OUT/whole/adapter/adapter_model.safetensors "
                  "$OUT/run/adapter/adapter_model.safetensors");
    program_shell("! grep -q wte $OUT/run/checkpoint.safetensors");
}

Test(cli_finetune, reads_conversations)
{
    program_shell(
        "printf '%s' '{% for m in messages %}{% if m.role == \"user\" %}u{% else %}a"
        "{% endif %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}a{% endif %}'"
        " >$OUT/gpt2/chat_template.jinja");
    write_data("{\"messages\": [{\"role\": \"user\", \"content\": \"1234\"}, {\"role\": "
               "\"assistant\", \"content\": \"345\"}]}\n");
    program_check(RUN "--steps 1", 0, "prompt:   u1234a\nexpected: 345\n");
    program_check(RUN "--steps 1 --overwrite --set loss_on=all", 0,
                  "prompt:   u1234\nexpected: a345\n");
    program_shell("printf '%s' '{{ messages | length }}{% for m in messages %}{{ m.content }}"
                  "{% endfor %}' >$OUT/gpt2/chat_template.jinja");
    program_check(RUN "--steps 1 --overwrite", 1,
                  "line 1 of the data has messages whose text depends on later ones in the chat "
                  "template, so that message 2 has no text of its own: set loss_on=all");
}

Test(cli_finetune, refuses_invalid_data)
{
    static const struct {
        const char *data, *message;
    } cases[] = {
        { "{\"text\": \"a b\"}\n{\"text\": \"a\"\n", "line 2 of the data is not JSON: column " },
        { "{\"text\": \"a b\"}\n[1]\n", "line 2 of the data is not a JSON object" },
        { "\n{\"prompt\": \"a b\"}\n", "line 2 of the data has no \"completion\"" },
        { "{\"completion\": \"a b\"}\n", "line 1 of the data has no \"prompt\"" },
        { "{\"prompt\": 1, \"completion\": \"a\"}\n",
          "line 1 of the data has a \"prompt\" that is no string" },
        { "{\"text\": null}\n", "line 1 of the data has a \"text\" that is no string" },
        { "{\"txt\": \"a\"}\n", "line 1 of the data must have \"text\", \"prompt\" and" },
        { "{\"messages\": []}\n", "has \"messages\" that are not a list of messages" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}]}\n", "chat_template" },
        { "a", "the data has no example with a token to predict" },
        { "", "the data has no example with a token to predict" },
        { "ab\xff", "UTF-8" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_data(cases[i].data);
        program_check(RUN "--steps 1", 1, cases[i].message);
    }
}

Test(cli_finetune, refuses_invalid_arguments)
{
    program_make_t5();
    write_data("abc");
    program_check("finetune --data $OUT/data", 2, "--model is required");
    program_check("finetune -m $OUT/gpt2", 2, "finetune needs --data FILE: a text, or lines of");
    program_check("finetune -m $OUT/gpt2 --data $OUT/no", 1, "/no does not exist; finetune needs");
    program_check("finetune -m $OUT/gpt2 --data $OUT/data more", 2, "unexpected argument 'more'");
    program_check("finetune -m $OUT/t5 --data $OUT/data --out $OUT/run", 1,
                  "model_type \"t5\" has no language model that predicts the next token");
    program_check("finetune -m $OUT/no --data $OUT/data --out $OUT/run", 1, "/no");
    program_check(RUN "--set length=1", 2, "length is '1', must be an integer in 2 ..");
    program_check(TUNE "--preset small", 2, "finetune has no preset 'small', must be one of lora");
    program_check(RUN "--set loss_on=some", 2, "loss_on is 'some', must be one of completions");
    program_check(RUN "--steps 1", 0, "Wrote ");
    program_check(RUN "--steps 1", 2, "already contains a run");
}
