/* tests/cli/test_finetune_classify.c - `brasa finetune --objective classify`: losses of
 * transformers (record_finetune_classify.py), labels, what it writes, and invalid data. */
#include "tests/cli/finetune_checks.h"

static void begin(void)
{
    program_begin();
    make_bert();
}

TestSuite(cli_finetune_classify, .init = begin, .fini = program_end);

#define TUNE \
    "finetune -m $OUT/bert --objective classify --data $OUT/data --out $OUT/run --overwrite "

/* The losses are f32 means of a few numbers. */
static void check_losses(int n, const double *want)
{
    check_log(n, want, 2e-6);
}

#define ALL_AT_ONCE "--steps 4 --lr 0.01 --set held_out=0 "

/* The model's labels keep their order, and its head. */
Test(cli_finetune_classify, labels_of_the_model)
{
    static const double losses[] = { 1.02154016, 0.989507616, 0.953908086, 0.922634602 };
    write_data("text,text_pair,label\na aa,aaa,LABEL_0\naaa a aaaa,a,LABEL_2\naa,aa,LABEL_1\n"
               "\"aaaa aaaaa a\",aaa aa,LABEL_0\n");
    program_check(TUNE ALL_AT_ONCE, 0, "4 examples, 0 of them held out, 26 tokens\n");
    check_losses(4, losses);
    check_tokens(TUNE ALL_AT_ONCE, 4 * 8);
    program_shell("! test -e $OUT/run/adapter");
    program_check("classify -m $OUT/run/model -p 'a aa' aaa", 0, "  LABEL_0  a aa");
}

/* The data may lack labels of the model. */
Test(cli_finetune_classify, some_labels_of_the_model)
{
    write_data("text,label\na aa,LABEL_2\naaa a aaaa,LABEL_0\n");
    program_check(TUNE "--steps 1 --set held_out=0", 0, "Wrote ");
    program_shell("grep -q LABEL_1 $OUT/run/model/config.json");
}

/* A new head has the first values of transformers. */
Test(cli_finetune_classify, new_labels)
{
    static const double losses[] = { 1.38556647, 1.37706864, 1.36694372, 1.35814059 };
    write_data("text,text_pair,label\na aa,aaa,LABEL_0\naaa a aaaa,a,zz\naa,aa,m\n"
               "\"aaaa aaaaa a\",aaa aa,z\n");
    program_check(TUNE ALL_AT_ONCE "--preset full", 0,
                  "have these weights, which have random values now: classifier.weight, "
                  "classifier.bias");
    check_losses(4, losses);
    program_check("classify -m $OUT/run/model -p 'a aa' aaa -k 4", 0, "  zz\n");
}

/* If two labels of a model have one name, the sorted labels of the data are used. */
Test(cli_finetune_classify, labels_that_are_not_unique)
{
    write_data("text,label\na aa,a\naaa a aaaa,z\n");
    program_shell("sed -i 's/\"0\": \"LABEL_0\"/\"0\": \"z\"/; s/\"1\": \"LABEL_1\"/\"1\": \"z\"/; "
                  "s/\"2\": \"LABEL_2\"/\"2\": \"a\"/' $OUT/bert/config.json && "
                  "grep -q '\"1\": \"z\"' $OUT/bert/config.json");
    program_check(TUNE "--steps 1 --set held_out=0 --preset full", 0,
                  "which have random values now: classifier.weight, classifier.bias");
    program_shell("grep -q '\"0\": \"a\"' $OUT/run/model/config.json && "
                  "grep -q '\"1\": \"z\"' $OUT/run/model/config.json");
}

Test(cli_finetune_classify, several_labels_of_a_text)
{
    static const double losses[] = { 0.75594002, 0.732285917, 0.716087162, 0.705681622 };
    write_data("{\"text\":\"a aa\",\"text_pair\":\"aaa\",\"label\":[\"LABEL_0\",\"LABEL_2\"]}\n"
               "{\"text\":\"aaa a aaaa\",\"text_pair\":\"a\",\"label\":[]}\n"
               "{\"text\":\"aa\",\"text_pair\":\"aa\",\"labels\":[\"LABEL_1\"]}\n"
               "{\"text\":\"aaaa aaaaa a\",\"text_pair\":\"aaa aa\",\"label\":[\"LABEL_0\","
               "\"LABEL_1\",\"LABEL_2\"]}\n");
    program_check(TUNE ALL_AT_ONCE, 0, "expected: (no label)\n");
    check_losses(4, losses);
    program_shell("grep -q '\"problem_type\": \"multi_label_classification\"' "
                  "$OUT/run/model/config.json");
}

Test(cli_finetune_classify, numbers)
{
    static const double losses[] = { 1.53513634, 1.4727037, 1.43688965, 1.41205299 };
    write_data("label\ttext\ttext_pair\n0.5\ta aa\taaa\n-1.25\taaa a aaaa\ta\n2\taa\taa\n"
               "0.75\taaaa aaaaa a\taaa aa\n");
    program_check(TUNE ALL_AT_ONCE "--set problem_type=regression", 0, "expected: -1.25\n");
    check_losses(4, losses);
    program_check("classify -m $OUT/run/model -p 'a aa' aaa", 0, "  LABEL_0  a aa");
}

static const char twelve[] =
    "text,label\na a,x\na aa,x\na aaa,x\na aaaa,x\na aaaaa,x\na a a,x\n"
    "aa aaa,y\naaa aaa,y\naaaa aaa,y\naa aaaa,y\naaa aaaa,y\naaaa aaaa,y\n";

/* The model learns which texts begin with "a". Texts of unlike length are padded and masked. */
Test(cli_finetune_classify, learns)
{
    write_data(twelve);
    program_check(TUNE
                  "--set epochs=40 --lr 0.01 --set batch=5 --set held_out=0.25 --set eval_every=10",
                  0, "12 examples, 3 of them held out, ");
    program_shell("\"$BRASA\" classify -m $OUT/run/model 'a aaaa' 'aaa aaaa' >$OUT/c && "
                  "grep -q '  x  a aaaa' $OUT/c && grep -q '  y  aaa aaaa' $OUT/c");
    program_shell("grep accuracy $OUT/run/log.jsonl | "
                  "tail -n 1 | grep -q '\"accuracy\": 1[.]0,'");
}

/* An adapter trains the head whole, and a merged model is written beside it. */
Test(cli_finetune_classify, an_adapter)
{
    write_data(twelve);
    program_check(TUNE "--preset lora --set epochs=40 --lr 0.02 --set held_out=0", 0,
                  "run/adapter.\nWrote ");
    program_shell("grep -q '\"classifier\"' $OUT/run/adapter/adapter_config.json && "
                  "grep -q 'modules_to_save' $OUT/run/adapter/adapter_config.json");
    program_shell("\"$BRASA\" classify -m $OUT/run/model 'a aaaa' 'aaa aaaa' >$OUT/c && "
                  "grep -q '  x  a aaaa' $OUT/c && grep -q '  y  aaa aaaa' $OUT/c");
    program_check(TUNE "--preset lora --steps 1 --set target_modules=qery", 1, "query");
}

Test(cli_finetune_classify, resumes)
{
    write_data(twelve);
    program_check(TUNE "--steps 7 --set batch=4 --threads 1", 0, "Wrote ");
    program_shell("mv $OUT/run $OUT/whole");
    program_check(TUNE "--steps 3 --set batch=4 --set decay_steps=7", 0, "Wrote ");
    program_check("finetune --data $OUT/data --out $OUT/run --resume --steps 7 --threads 2", 0,
                  "Wrote ");
    program_shell("cmp $OUT/whole/model/model.safetensors $OUT/run/model/model.safetensors");
}

Test(cli_finetune_classify, shows_predictions_between_steps)
{
    write_data(twelve);
    program_check(TUNE "--steps 4 --set show_every=2", 0, "After step 2:\n12 examples");
    program_shell("\"$BRASA\" " TUNE "--steps 4 --set show_every=2 2>&1 | grep -c 12.examples | "
                  "grep -qx 2");
    program_check(TUNE "--steps 2", 0, " tokens/s");
}

Test(cli_finetune_classify, refused)
{
    write_data(twelve);
    program_make_gpt2();
    program_check("finetune -m $OUT/gpt2 --objective classify --data $OUT/data --out $OUT/run", 1,
                  "model_type \"gpt2\" has no class that classifies texts");
    program_check("finetune -m $OUT/bert --data $OUT/data --out $OUT/run", 1,
                  "no language model that predicts the next token; --objective classify");
    program_check(
        "finetune -m $OUT/bert --objective klassify --data $OUT/data", 2,
        "--objective is 'klassify', must be one of text, classify, contrastive, preference; "
        "did you mean 'classify'?");
    program_check(TUNE "--set problem_type=some", 2, "problem_type is 'some', must be one of auto");
    program_check("finetune -m $OUT/no --objective classify --data $OUT/data --out $OUT/new", 1,
                  "there is no such folder; it must be a model folder");
    program_shell("! test -e $OUT/new");
    write_data("text,label\na,x\naa,x\n");
    program_check(TUNE, 1, "all examples have the label \"x\", must have at least two labels");
    write_data("text,label\na,x\naa,y\xff\n");
    program_check(TUNE, 1, "the labels of the data are not UTF-8");
    write_data("text,label\na,x\na\xff,y\n");
    program_check(TUNE, 1, "UTF-8");
}
