/* tests/cli/test_generate.c - brasa generate and brasa fill-mask, run as a program. */
#include "tests/cli/program.h"
#include "tests/support.h"

#include <brasa/brasa.h>
#include <string.h>

TestSuite(cli_generate, .init = program_begin, .fini = program_end);

/* Creates $OUT/model with the recorded GPT-2. */
static void make_gpt2(void)
{
    program_make_gpt2();
    program_shell("mv $OUT/gpt2 $OUT/model");
}

/* transformers generates a, a, a and r, which is the configuration's end-of-text id. */
Test(cli_generate, likeliest_tokens)
{
    make_gpt2();
    program_check("generate -m $OUT/model cmd", 0, "cmdaaar\n");
    program_check("generate -m $OUT/model -n 2 cmd", 0, "cmdaa\n");
}

/* Ids without a token have no text: the unused id 0, and the start token of a model that has more
 * embeddings than the tokenizer has tokens. */
Test(cli_generate, ids_without_tokens)
{
    make_gpt2();
    program_shell("sed -i 's/\"a\": 0, //' $OUT/model/vocab.json");
    program_check("generate -m $OUT/model cmd", 0, "cmdr\n");
    program_make_t5();
    program_shell("sed -i 's/,\\[\"9\",-2\\]//' $OUT/t5/tokenizer.json && "
                  "! grep -q '\"9\"' $OUT/t5/tokenizer.json && "
                  "printf '{\"decoder_start_token_id\": 39}' >$OUT/t5/generation_config.json");
    program_check("generate -m $OUT/t5 -n 4 'time flies' 2>&1", 0, "\n");
}

/* Any token may be the decoder's first: each setting of generation_config.json, 0 included, counts
 * instead of config.json's. */
Test(cli_generate, the_first_token_of_the_decoder)
{
    program_make_t5();
    char expected[256], got[256];
    for (int first = 0; first < 4; first++) {
        char line[512];
        snprintf(line, sizeof line,
                 "sed -i 's/\"decoder_start_token_id\": [0-9]*/\"decoder_start_token_id\": %d/' "
                 "$OUT/t5/config.json && printf '{}' >$OUT/t5/generation_config.json",
                 first);
        program_shell(line);
        program_run("generate -m $OUT/t5 -n 4 'time flies' 2>&1", expected, sizeof expected);
        program_shell(
            "sed -i 's/\"decoder_start_token_id\": [0-9]*/\"decoder_start_token_id\": 9/' "
            "$OUT/t5/config.json");
        program_run("generate -m $OUT/t5 -n 4 'time flies' 2>&1", got, sizeof got);
        cr_assert_str_neq(got, expected, "%d", first);
        snprintf(line, sizeof line,
                 "printf '{\"decoder_start_token_id\": %d}' >$OUT/t5/generation_config.json",
                 first);
        program_shell(line);
        program_run("generate -m $OUT/t5 -n 4 'time flies' 2>&1", got, sizeof got);
        cr_assert_str_eq(got, expected, "%d", first);
    }
}

/* Unknown keys may change the results, so they cause a warning. The warning shows them escaped. */
Test(cli_generate, warnings)
{
    make_gpt2();
    program_shell("sed -i 's/^{/{\"residual\\\\u001b\": 2,/' $OUT/model/config.json");
    program_check("generate -m $OUT/model cmd", 0,
                  "model/config.json: results may differ from those of transformers, because "
                  "these keys are unknown: residual\\u001b\n");
}

Test(cli_generate, sampled_tokens)
{
    make_gpt2();
    program_shell(
        "for s in 1 2 1; do \"$BRASA\" generate -m $OUT/model -s $s -T 3 -k 30 -p 0.9 "
        "-r 1.2 cmd; done >$OUT/t && test \"$(sed -n 1p $OUT/t)\" = \"$(sed -n 3p $OUT/t)\""
        " && test \"$(sed -n 1p $OUT/t)\" != \"$(sed -n 2p $OUT/t)\"");
}

/* The expected texts are those of transformers, greedy and sampled. SentencePiece's file has more
 * pieces than the model, which is an error. */
Test(cli_generate, texts_of_t5)
{
    program_make_t5();
    program_check("generate -m $OUT/t5 'time flies'", 0, "qq\n");
    program_check("generate -m $OUT/t5 'x y z 9'", 0, "q\n");
    program_check("generate -m $OUT/t5 -s 3 -k 8 -n 12 'time flies'", 0, "fzwwhdfffwf\n");
    program_check("generate -m $OUT/t5 -s 3 -k 8 -n 12 'x y z 9'", 0, "1wzn1mdfffmr\n");
    program_check("tokenize --model $OUT/t5 'ab c'", 0, "3 4 5 3 6 1\n");
    program_check("tokenize --model $OUT/t5 -t x 'ab c'", 2,
                  "only one of --vocab, --tokenizer and --model can be used");
    program_shell("printf 'ab c\\tab\\nc\\t\\n' >$OUT/pairs && printf 'c\\ta\\nab\\n' >$OUT/bad");
    program_check("tokenize --model $OUT/t5 --pair --file $OUT/pairs", 0,
                  "3 4 5 3 6 1 3 4 5 1\n\342\226\201 c </s> </s>\n3 6 1 1\n");
    program_check("tokenize --model $OUT/t5 --pair --file $OUT/bad", 1,
                  "bad: text 2 has no tab between two texts");
    program_check("info $OUT/t5", 0, "model type t5");
    program_shell("sed 's/\"b\",-2/\"a\",-2/' $OUT/t5/tokenizer.json >$OUT/equal.json && "
                  "for o in '' --json; do \"$BRASA\" tokenize -t $OUT/equal.json $o 'ab a' || "
                  "exit 1; done >$OUT/equal && ! grep -q '(null)' $OUT/equal && "
                  "grep -q '\"tokens\":.\"\342\226\201\",\"a\",\"<unk>\"' $OUT/equal");
    program_shell("rm $OUT/t5/tokenizer.json && cp tests/tokenizers/unigram/spiece.model $OUT/t5");
    program_check("tokenize --model $OUT/t5 'a</s>'", 0, "</s> </s>\n");
    program_check("tokenize -t $OUT/t5/spiece.model 'a'", 0, "</s>\n");
    program_check("generate -m $OUT/t5 the 2>&1", 1,
                  "t5: the tokenizer has 800 tokens, but the model's vocab_size is only 40");
    program_check("generate -m $OUT/t5 the", 1,
                  "with id 311, but the model's vocab_size is only 40");
    program_check("generate -m tests/models/hf_bert/pretraining a 2>&1", 1,
                  "'brasa generate' does not support models of type bert");
}

/* The template gives the model the same text as the prompt of likeliest_tokens. */
Test(cli_generate, chats)
{
    make_gpt2();
    program_shell("echo \"{{ messages | map(attribute='content') | join }}{{ end if "
                  "add_generation_prompt }}\" > $OUT/model/chat_template.jinja");
    program_check("generate -m $OUT/model --chat cmd", 0, "aaar\n");
    program_check("generate -m $OUT/model --chat --system c md", 0, "aaar\n");
    program_check("generate -m $OUT/model --chat --chat-variables '{\"end\": \"d\"}' cm", 0,
                  "aaar\n");
    program_check("generate -m $OUT/model --system c md 2>&1", 2, "--system needs --chat");
    program_check("generate -m $OUT/model --chat-variables {} md 2>&1", 2,
                  "--chat-variables needs --chat");
    program_check("generate -m $OUT/model --chat --chat-variables [] md 2>&1", 1,
                  "variables is no JSON object");
}

Test(cli_generate, bad_arguments)
{
    make_gpt2();
    program_check("generate 2>&1", 2, "--model is required");
    program_check("generate -m $OUT/model 2>&1", 2, "expected one prompt, got 0");
    program_check("generate -m $OUT/model '' 2>&1", 2, "the prompt is empty");
    program_check("generate -m $OUT/model -T 0 a 2>&1", 2, "--temperature is '0'");
    program_check("generate -m $OUT/model -k x a 2>&1", 2, "--top-k is 'x'");
    program_check("generate -m $OUT/model -p 2 a 2>&1", 2, "--top-p is '2'");
    program_check("generate -m $OUT/model -n 0 a 2>&1", 2, "--max-new-tokens is '0'");
    program_check("generate -m $OUT/model -s 9223372036854775808 a 2>&1", 2,
                  "--seed is '9223372036854775808', must be 0 .. 9223372036854775807");
    program_check("generate -m $OUT/model ?! 2>&1", 1, "no token for the byte 0x3f");
    program_check("generate -m $OUT/none a 2>&1", 1, "there is no such folder");
    program_check("generate -m $OUT/model abcdefghijklmnopqrstuvwxy 2>&1", 1,
                  "no room for new tokens");
    program_check("generate --help", 0, "--max-new-tokens");
}

static void make_bert(void)
{
    program_shell("mkdir $OUT/model && cp tests/models/hf_bert/pretraining/* $OUT/model && "
                  "(printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n[MASK]\\n'; w=; for i in $(seq 35); do "
                  "w=a$w; echo $w; done) >$OUT/model/vocab.txt");
}

/* Each of the three masks has a list of decreasing probabilities; with all tokens they sum to 1. */
Test(cli_generate, masks_are_filled)
{
    make_bert();
    program_shell("\"$BRASA\" fill-mask -m $OUT/model -k 99 'a [MASK] aa [MASK][MASK]' >$OUT/m && "
                  "awk 'BEGIN { last = 1 } NF == 0 { n++; if (s < 0.997 || s > 1.003) exit 1; s = "
                  "0; last = 1 } "
                  "NF == 2 { if ($1 > last) exit 1; last = $1; s += $1 } "
                  "END { exit !(n == 2 && NR == 122) }' $OUT/m");
    program_check("fill-mask -m $OUT/model --json -k 1 'a [MASK]'", 0, "{\"mask\":0,\"token\":\"");
    program_check("fill-mask -m $OUT/model --json -k 1 '[MASK] a [MASK]'", 0,
                  "{\"mask\":1,\"token\":\"");
    program_shell("\"$BRASA\" fill-mask -m $OUT/model -j -k 1 '[MASK] a [MASK]' >$OUT/j && "
                  "test $(wc -l <$OUT/j) = 2 && ! grep -qv '^{.*}$' $OUT/j");
    program_check("fill-mask -m $OUT/model a 2>&1", 1, "the text has no [MASK]");
    program_check("fill-mask -m $OUT/model 2>&1", 2, "expected one text, got 0");
    program_check("fill-mask -m $OUT/model -k 0 a 2>&1", 2, "--top-k is '0'");
    program_shell("cp tests/models/hf_bert/classifier/* $OUT/model");
    program_check("fill-mask -m $OUT/model 'a [MASK]' 2>&1", 1,
                  "no weights for the masked-language-model head");
}

/* The pooler's weights, which no command uses, may be missing. */
Test(cli_generate, models_without_a_pooler)
{
    char path[256];
    make_bert();
    snprintf(path, sizeof path, "%s/model/model.safetensors", program_directory);
    br_safetensors *file = br_safetensors_open(path, BR_OPTIONS(br_safetensors, .copy = true));
    br_named_list *all = br_safetensors_all(file);
    br_named_tensor items[100];
    br_named_list some = { 0, items };
    for (int64_t i = 0; i < all->count; i++)
        if (!strstr(all->items[i].name, "pooler."))
            items[some.count++] = all->items[i];
    cr_assert_eq(some.count, all->count - 2);
    cr_assert(br_safetensors_save(path, &some, 0, NULL));
    br_named_list_free(all);
    br_safetensors_close(file);
    program_shell("\"$BRASA\" fill-mask -m $OUT/model '[MASK]' 2>&1 >$OUT/m | cmp - /dev/null");
    program_shell("\"$BRASA\" embed -m $OUT/model a 2>&1 >$OUT/m | cmp - /dev/null");
}

/* The mask is found by its role, and a model may have more rows than its tokenizer has tokens. */
Test(cli_generate, mask_by_its_role)
{
    make_bert();
    program_shell("printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n<mask>\\na\\n' >$OUT/model/vocab.txt && "
                  "echo '{\"mask_token\": \"<mask>\"}' >$OUT/model/tokenizer_config.json && "
                  "\"$BRASA\" fill-mask -m $OUT/model -k 99 'a <mask>' >$OUT/m && "
                  "test $(wc -l <$OUT/m) = 40 && grep -q '(id 39, without a token)' $OUT/m && "
                  "\"$BRASA\" fill-mask -m $OUT/model -k 99 -j 'a <mask>' >$OUT/m && "
                  "grep -q '\"token\":null,\"id\":39,' $OUT/m");
    program_check("fill-mask -m $OUT/model 'a [MASK]'", 1, "the text has no <mask>");
    program_shell("echo '{\"mask_token\": null}' >$OUT/model/tokenizer_config.json");
    program_check("fill-mask -m $OUT/model 'a [MASK]'", 1, "has no mask token");
    program_shell("rm $OUT/model/tokenizer_config.json; "
                  "(printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n'; seq 36) >$OUT/model/vocab.txt");
    program_check("fill-mask -m $OUT/model '1 [MASK]'", 1,
                  "the text has the token '[MASK]' with id 40, but the model's vocab_size is only "
                  "40");
}

/* A message names an option of the command, and none that only a function of the library has. */
Test(cli_generate, options_in_messages)
{
    make_bert();
    program_shell("echo '{\"do_lower_case\": null}' >$OUT/model/tokenizer_config.json");
    program_check("tokenize --model $OUT/model a", 1,
                  "tokenizer_config.json: do_lower_case is null, must be true or false\n");
    program_shell(
        "echo '{\"tokenizer_class\": \"OtherTokenizer\"}' >$OUT/model/tokenizer_config.json");
    program_check("tokenize --model $OUT/model a", 1, "OtherTokenizer', which is not supported");
    program_shell(
        "\"$BRASA\" tokenize --model $OUT/model a 2>$OUT/e; ! grep -q 'set the option' $OUT/e");
    program_shell("rm $OUT/model/tokenizer_config.json $OUT/model/vocab.txt && "
                  "cp tests/tokenizers/bpe/tokenizer.json $OUT/model");
    program_check("tokenize --cased --model $OUT/model a", 1,
                  "--cased does not apply to the tokenizer of tokenizer.json");
}

/* A trained run fills in masked words of its eleven sentences; the vocabulary comes from the
 * checkpoint. */
Test(cli_generate, masks_are_filled_by_a_run)
{
    program_shell(
        "\"$BRASA\" train bert-scratch --preset small --steps 150 --out $OUT/run >$OUT/log");
    program_shell("mv $OUT/run/checkpoint.safetensors $OUT/run.safetensors");
    program_check(
        "fill-mask -c $OUT/run.safetensors \"'Ol\u00e1, [MASK] vai? Eu sou a Ana.\\n'\" -k 1", 0,
        "  como\n");
    program_check("fill-mask -c $OUT/run.safetensors -k 1 -j 'como [MASK] [SEP] [MASK]'", 0,
                  "{\"mask\":1,\"token\":\"");
    program_check("fill-mask -c $OUT/run.safetensors 'como vai'", 1, "the text has no [MASK]");
    program_check("fill-mask -c $OUT/run.safetensors '[MASK] xyz'", 1, "xyz");
    program_shell("for i in $(seq 40); do printf '[MASK] '; done >$OUT/text");
    program_check("fill-mask -c $OUT/run.safetensors \"$(cat $OUT/text)\"", 1,
                  "more tokens than the model's limit of ");
    program_check("fill-mask -c $OUT/none a", 1, "none");
    program_check("fill-mask -c tests/models/gpt2/lm/model.safetensors a", 1,
                  "not a checkpoint written by 'brasa train bert-scratch'");
    program_check("fill-mask -c x -m y a", 2, "either --model or --checkpoint");
}

/* An adapter of GPT-2 changes the text, and that of another model is refused. */
Test(cli_generate, adapters)
{
    make_gpt2();
    program_shell("A=tests/pretrained/adapters && M=$OUT/model && "
                  "\"$BRASA\" generate -m $M -n 8 a >$OUT/1 && "
                  "\"$BRASA\" generate -m $M -n 8 --adapter $A/gpt2 a >$OUT/2 && "
                  "! cmp -s $OUT/1 $OUT/2");
    program_check("generate -m $OUT/model --adapter tests/pretrained/adapters/lora a", 1,
                  "belongs to no module of the GPT2LMHeadModel");
}
