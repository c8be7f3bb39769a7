/* tests/cli/test_classify.c - brasa classify and brasa tag, run as programs. test_pipeline.c
 * compares their numbers with those of transformers. */
#include "tests/cli/program.h"
#include "tests/support.h"

#include <brasa/brasa.h>
#include <stdio.h>

TestSuite(cli_classify, .init = program_begin, .fini = program_end);

/* Creates a folder with a recorded model of three labels and a vocabulary of its 22 tokens: "a",
 * "aa", ... */
static void make_model(void)
{
    program_shell("mkdir $OUT/model && cp tests/models/encoders/bert2/* $OUT/model && "
                  "(printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n'; w=; for i in $(seq 18); do w=a$w; "
                  "echo $w; done) >$OUT/model/vocab.txt");
}

/* The scores of three labels sum to 1, and the best label comes first. */
Test(cli_classify, labels_of_texts)
{
    make_model();
    program_shell(
        "\"$BRASA\" classify -m $OUT/model 'a aa' 'aaa' >$OUT/c && "
        "test $(wc -l <$OUT/c) = 2 && grep -Eq '^0[.][0-9]{4}  LABEL_[012]  a aa$' $OUT/c");
    program_shell("\"$BRASA\" classify -m $OUT/model -k 9 'a aa' | tail -n 3 | "
                  "awk '$1 > last && NR > 1 { exit 1 } { last = $1; sum += $1 } "
                  "END { exit !(sum > 0.999 && sum < 1.001 && NR == 3) }'");
    program_shell("\"$BRASA\" classify -m $OUT/model -k 3 --scores logits a | tail -n 3 | "
                  "awk '{ sum += $1 } END { exit sum > 0.999 && sum < 1.001 }'");
    program_check("classify -m $OUT/model --json a", 0,
                  "{\"text\":\"a\",\"labels\":[{\"label\":\"LABEL_");
    program_check("classify -m $OUT/model --json -p a 'aa a'", 0,
                  "{\"text\":\"a\",\"pair\":\"aa a\",\"labels\":[{");
}

/* Lines of a file give the same as arguments, and so do pairs. */
Test(cli_classify, texts_of_a_file)
{
    make_model();
    program_shell(
        "printf 'a aa\\taaa\\naaaa\\ta\\n' >$OUT/pairs && cut -f1 $OUT/pairs >$OUT/texts && "
        "\"$BRASA\" classify -j -m $OUT/model -f $OUT/texts >$OUT/1 && "
        "\"$BRASA\" classify -j -m $OUT/model 'a aa' aaaa | cmp - $OUT/1 && "
        "\"$BRASA\" classify -j -m $OUT/model -p -f $OUT/pairs >$OUT/2 && "
        "\"$BRASA\" classify -j -m $OUT/model -p 'a aa' aaa aaaa a | cmp - $OUT/2 && "
        "! cmp -s $OUT/1 $OUT/2");
    program_check("classify -m $OUT/model -p -f $OUT/texts", 1,
                  "line 1 has no tab, which must be between the texts of a pair");
}

/* Without ignored labels and groups, each token is an entity. */
Test(cli_classify, entities)
{
    make_model();
    program_shell("\"$BRASA\" tag -m $OUT/model -g none 'a aa' aaa >$OUT/t && "
                  "test $(grep -c '^0[.][0-9]*  LABEL_[012]  a' $OUT/t) = 3");
    program_shell("\"$BRASA\" tag -m $OUT/model -g none -j 'a aa' | "
                  "grep -q '\"text\":\"aa\",\"start\":2,\"end\":4}]}$'");
    program_shell(
        "label=$(\"$BRASA\" tag -m $OUT/model -g none a | tail -n 1 | cut -d' ' -f3) && "
        "\"$BRASA\" tag -m $OUT/model --ignore $label a >$OUT/t && echo a | cmp - $OUT/t");
    program_shell("\"$BRASA\" tag -m $OUT/model -g none -l 4 'a a a a' | wc -l | grep -qx 3");
    program_shell("\"$BRASA\" tag -m $OUT/model -l 4 --stride 0 'a a a a' >$OUT/t");
    program_shell("printf 'aaa a aa a\\naa\\na aaa a\\n' >$OUT/texts && "
                  "\"$BRASA\" tag -m $OUT/model -g none -j -f $OUT/texts >$OUT/t && "
                  "\"$BRASA\" tag -m $OUT/model -g none -j -b 1 -f $OUT/texts | cmp - $OUT/t && "
                  "\"$BRASA\" tag -m $OUT/model -g none -j 'aaa a aa a' aa 'a aaa a' | "
                  "cmp - $OUT/t && test $(wc -l <$OUT/t) = 3");
}

/* The model of the other tests has three labels, so a model that answers has none of them. */
static void make_answerer(void)
{
    make_model();
    program_shell("sed -i 's/\"id2label\"/\"unused\"/; s/\"label2id\"/\"unused2\"/' "
                  "$OUT/model/config.json");
}

Test(cli_classify, answers)
{
    make_answerer();
    program_shell("\"$BRASA\" answer -m $OUT/model -q a 'a aa aaa' aa >$OUT/t && "
                  "test $(grep -Ec '^0[.][0-9]{4}  a' $OUT/t) = 2");
    program_shell(
        "\"$BRASA\" answer -m $OUT/model -q a -k 3 --impossible -j 'a aa aaa' | "
        "grep -Eq '^.\"text\":\"a aa aaa\",\"answers\":.*\"start\":[0-9]+,\"end\":[0-9]+}]}$'");
    program_shell("printf 'a aa aaa\naa\n' >$OUT/texts && "
                  "\"$BRASA\" answer -m $OUT/model -q a -f $OUT/texts | cmp - $OUT/t");
    program_shell("\"$BRASA\" answer -m $OUT/model -q a -l 8 --stride 1 --max-answer 2 "
                  "--split-words 'a aa aaa a aa aaa a' | grep -q '^0'");
    program_check("answer -m $OUT/model a", 2, "--question is required");
    program_check("answer -q a", 2, "--model is required");
    program_check("answer -m $OUT/model -q a", 2, "either texts or --file is required");
    program_check("answer -m $OUT/model -q a -k 0 a", 2, "--top-k is '0', must be at least 1");
    program_check("answer -m $OUT/model -q a --stride x a", 2,
                  "--stride is 'x', must be at least 0");
    program_check("answer -m $OUT/model -q a -l 99 a", 1,
                  "max_seq_len is 99, must be at most the model's 14 tokens");
}

/* The last token of the vocabulary becomes a part of words. */
Test(cli_classify, answers_within_words)
{
    make_answerer();
    program_shell("sed -i '$s/.*/##b/' $OUT/model/vocab.txt && "
                  "\"$BRASA\" answer -m $OUT/model -q a -k 9 -j 'ab aab' >$OUT/t && "
                  "! grep -Eq '\"answer\":\"(a|aa|b)\"' $OUT/t && "
                  "\"$BRASA\" answer -m $OUT/model -q a -k 9 -j --split-words 'ab aab' | "
                  "grep -q '\"answer\":\"a\",\"start\":0,'");
}

Test(cli_classify, refused)
{
    make_model();
    program_check("classify a", 2, "--model is required");
    program_check("classify -m $OUT/model", 2, "either texts or --file is required");
    program_check("classify -m $OUT/model -p a", 2, "--pair needs an even number of texts, got 1");
    program_check("classify -m $OUT/model -k 0 a", 2, "--top-k is '0', must be 1 .. 2147483647");
    program_check("classify -m $OUT/model -l 0 a", 2, "--max-length is '0'");
    program_check("classify -m $OUT/model -b 0 a", 2, "--batch-size is '0', must be 1 .. 65536");
    program_check("classify -m $OUT/model --scores best a", 2,
                  "--scores is 'best', must be auto, softmax, sigmoid or logits");
    program_check("classify -m $OUT/model 'a a a a a a a a a a a a a'", 1,
                  "texts[0] has 15 tokens, more than the model's limit of 14");
    program_check("classify -m tests/models/hf_bert/pretraining a", 1, "vocab.txt");
    program_shell("printf 'a\\377\\n' >$OUT/texts");
    program_check("classify -m $OUT/model -j -f $OUT/texts", 1, "text 1 is not UTF-8");
    program_check("tag a", 2, "--model is required");
    program_check("tag -m $OUT/model", 2, "either texts or --file is required");
    program_check("tag -m $OUT/model -g words a", 2,
                  "--group is 'words', must be simple, first, average, max or none");
    program_check("tag -m $OUT/model -l 2 a", 2, "--max-length is '2', must be at least 3");
    program_check("tag -m $OUT/model -b 0 a", 2, "--batch-size is '0', must be 1 .. 65536");
    program_check("tag -m $OUT/model --stride -1 a", 2, "--stride is '-1', must be at least 0");
    program_check("tag -m $OUT/model --stride 2 -g none a", 2,
                  "--stride needs a --group other than none");
    program_check("tag -m $OUT/model -l 4 --stride 4 a", 1,
                  "stride is 4, must be less than the 4 tokens of a part");
}

/* Leaves the first label of the model. */
static void make_ranker(void)
{
    char path[300];
    make_model();
    snprintf(path, sizeof path, "%s/model/model.safetensors", program_directory);
    br_scope *scope = br_scope_begin();
    br_safetensors *file =
        br_safetensors_open(BRASA_TEST_DIR "/models/encoders/bert2/model.safetensors", NULL);
    br_named_list *all = br_safetensors_all(file);
    cr_assert(all, "%s", br_error_message());
    br_named_tensor items[100];
    br_named_list one = { all->count, items };
    for (int64_t i = 0; i < all->count; i++) {
        items[i] = all->items[i];
        if (strncmp(items[i].name, "classifier.", 11) == 0)
            items[i].tensor = br_contiguous(br_narrow(items[i].tensor, 0, 0, 1));
    }
    cr_assert(br_safetensors_save(path, &one, 0, NULL), "%s", br_error_message());
    br_named_list_free(all);
    br_safetensors_close(file);
    br_scope_end(scope);
    program_shell(
        "tr -d '\\n' <$OUT/model/config.json | sed 's/\"id2label\": {[^}]*}/\"id2label\": "
        "{\"0\": \"fit\"}/; s/\"label2id\": {[^}]*}/\"label2id\": {\"fit\": 0}/' >$OUT/c && "
        "mv $OUT/c $OUT/model/config.json");
}

/* The best text comes first; JSON has the places of the texts. Lines of a file give the same as
 * arguments. */
Test(cli_classify, ranks_of_texts)
{
    make_ranker();
    program_shell("\"$BRASA\" rerank -m $OUT/model a 'aa a' aaa aaaa >$OUT/r && "
                  "grep -Ec '^ 0[.][0-9]{4}  (aa a|aaa|aaaa)$' $OUT/r | grep -qx 3 && "
                  "sort -c -r -n $OUT/r");
    program_shell("\"$BRASA\" rerank -m $OUT/model -j a 'aa a' aaa aaaa >$OUT/j && "
                  "sed 's/.*\"text\":\"\\(.*\\)\"}$/\\1/' $OUT/j >$OUT/1 && "
                  "sed 's/^ *[0-9.]*  //' $OUT/r | cmp - $OUT/1 && "
                  "grep -o 'corpus_id\":[0-9]' $OUT/j | sort | tr -dc 0-9 | grep -qx 012 && "
                  "grep -q '{\"corpus_id\":0,\"score\":0[.][0-9]*,\"text\":\"aa a\"}' $OUT/j");
    program_shell("\"$BRASA\" rerank -m $OUT/model -k 2 -j a 'aa a' aaa aaaa >$OUT/k && "
                  "head -n 2 $OUT/j | cmp - $OUT/k");
    program_shell("printf 'aa a\\naaa\\r\\naaaa\\n' >$OUT/texts && "
                  "\"$BRASA\" rerank -m $OUT/model -f $OUT/texts -j a | cmp - $OUT/j");
    program_shell("\"$BRASA\" rerank -m $OUT/model --scores logits a 'aa a' aaa aaaa | "
                  "sed 's/^ *[-0-9.]*  //' | cmp - $OUT/1");
    program_check("rerank -m $OUT/model -l 4 a aa", 0, "  aa");
    program_check("rerank -m $OUT/model -l 3 a aa", 2, "--max-length is '3', must be 4 ..");
    program_check("rerank -m $OUT/model -f $OUT/texts a aa", 2, "either texts or --file");
    program_check("rerank -m $OUT/model a", 2, "either texts or --file is required");
}

/* A prompt of the folder precedes the query. */
Test(cli_classify, ranks_with_prompts)
{
    make_ranker();
    program_shell(
        "echo '{\"prompts\": {\"q\": \"aaaaa \", \"none\": null}, "
        "\"default_prompt_name\": \"q\"}' >$OUT/model/config_sentence_transformers.json && "
        "\"$BRASA\" rerank -m $OUT/model -j a aa aaa >$OUT/0 && "
        "\"$BRASA\" rerank -m $OUT/model -j 'aaaaa a' aa aaa >$OUT/1 && "
        "! cmp -s $OUT/0 $OUT/1 && echo '[]' >$OUT/model/modules.json && "
        "\"$BRASA\" rerank -m $OUT/model -j a aa aaa | cmp - $OUT/1 && "
        "\"$BRASA\" rerank -m $OUT/model -j --prompt-name none a aa aaa | cmp - $OUT/0");
    program_check("rerank -m $OUT/model --prompt-name p a aa", 1,
                  "the option prompt_name is \"p\", must be the name of one of the prompts in");
}

Test(cli_classify, ranks_that_are_refused)
{
    make_model();
    program_check("rerank -m $OUT/model a aa", 1, "the model has 3 labels, must have 1");
    program_check("rerank -m $OUT/model", 2, "a query is missing");
    program_check("rerank -m $OUT/model --top-k 0 a aa", 2, "--top-k is '0', must be 1 .. ");
}

/* An adapter changes the scores; one for another model is refused. */
Test(cli_classify, adapters)
{
    program_shell("mkdir $OUT/model && cp tests/models/encoders/distilbert0/* $OUT/model && "
                  "printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\na\\naa\\n' >$OUT/model/vocab.txt");
    program_shell("A=tests/pretrained/adapters && "
                  "\"$BRASA\" classify -j -m $OUT/model a >$OUT/1 && "
                  "\"$BRASA\" classify -j -m $OUT/model --adapter $A/distilbert a >$OUT/2 && "
                  "grep -q LABEL $OUT/2 && ! cmp -s $OUT/1 $OUT/2");
    program_check(
        "classify -m $OUT/model --adapter tests/pretrained/adapters/gpt2 a", 1,
        "adapter_model.safetensors: key \"base_model.model.transformer.h.0.attn.c_attn."
        "lora_A.weight\" belongs to no module of the DistilBertForSequenceClassification");
    program_check("classify -m $OUT/model --adapter $OUT/none a", 1, "adapter_config.json");
    program_check("fill-mask -c $OUT/x --adapter $OUT/none a", 2, "--adapter requires --model");
    program_check("attention -c $OUT/x --adapter $OUT/none a", 2, "--adapter requires --model");
}
