/* tests/cli/test_attention.c - brasa attention, run as a program. */
#include "tests/cli/program.h"
#include "tests/support.h"

TestSuite(cli_attention, .init = program_begin, .fini = program_end);

/* Creates a folder with the recorded model and a vocabulary of its 40 tokens: "a", "aa", ... */
static void make_model(void)
{
    program_shell("mkdir $OUT/model && cp tests/models/hf_bert/pretraining/* $OUT/model && "
                  "(printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n'; w=; for i in $(seq 36); do w=a$w; "
                  "echo $w; done) >$OUT/model/vocab.txt");
}

/* Creates a folder with the recorded model and a vocab.json and merges.txt of its 40 tokens. */
static void make_gpt2(void)
{
    program_shell("mkdir $OUT/gpt2 && cp tests/models/gpt2/lm/* $OUT/gpt2 && "
                  "(printf '{'; i=0; for w in a b c d e f g h i j k l m n o p q r s t u v w x y z "
                  "0 1 2 3 4 5 6 7 8 9 + -; do printf '\"%s\": %d, ' $w $i; i=$((i + 1)); done; "
                  "printf '\"\304\240\": 38, \"he\": 39}') >$OUT/gpt2/vocab.json && "
                  "printf '#version: 0.2\nh e\n' >$OUT/gpt2/merges.txt");
}

Test(cli_attention, model)
{
    make_model();
    program_check("attention -m $OUT/model --view head,neuron --layer 1 --head 2 --heads 0,3 "
                  "--display-mode dark 'a aa' 'aaa a' -o $OUT/view.html",
                  0, " kB\n");
    program_shell("grep -q '\"kind\":\"head\",\"data\":0,\"layer\":1,\"head\":2,\"heads\":.0,3.' "
                  "$OUT/view.html && grep -q '\"kind\":\"neuron\"' $OUT/view.html && "
                  "grep -q '\"mode\":\"dark\"' $OUT/view.html && "
                  "grep -q '\"sentenceB\":4' $OUT/view.html && "
                  "grep -q '<title>a aa . aaa a</title>' $OUT/view.html && "
                  "! grep -Eq 'https?://|src=|@import' $OUT/view.html");
}

/* A name that ends in .svg makes a figure. */
Test(cli_attention, figures)
{
    make_model();
    static const char *const views[] = { "head", "model", "heatmap" };
    for (int i = 0; i < 3; i++) {
        char command[256];
        snprintf(command, sizeof command,
                 "attention -m $OUT/model -v %s 'a aa' 'aaa a' -o $OUT/view.svg", views[i]);
        program_check(command, 0, " kB\n");
        program_shell(
            "head -c 5 $OUT/view.svg | grep -q '<svg ' && grep -q '</svg>' $OUT/view.svg");
    }
    program_check("attention -m $OUT/model -v neuron a -o $OUT/no.svg", 2,
                  "a figure shows one view");
    program_check("attention -m $OUT/model -v head,model a -o $OUT/no.svg", 2,
                  "a figure shows one view");
    program_check("attention -m $OUT/model --token 1 a -o $OUT/no.html", 2,
                  "--token and --part require --out");
    program_check("attention -m $OUT/model --token 9 a -o $OUT/no.svg", 1, "token is 9");
    program_check("attention -m $OUT/model --part cross a -o $OUT/no.svg", 1, "part is cross");
    program_check("attention -m $OUT/model --part all a -o $OUT/no.svg", 2, "--part is 'all'");
    program_shell("! test -e $OUT/no.svg && ! test -e $OUT/no.html");
}

/* The first map is shown first. The page has the weights, too, and what was asked for. */
Test(cli_attention, maps)
{
    make_model();
    program_check(
        "attention -m $OUT/model -v heatmap,neuron --head mean --map rollout,gradient 'a aa' "
        "-o $OUT/view.html",
        0, " kB\n");
    program_shell("grep -q '\"kind\":\"heatmap\",\"data\":0,\"layer\":0,\"head\":-1,' "
                  "$OUT/view.html && grep -q '\"map\":\"rollout\"' $OUT/view.html && "
                  "grep -q '\"kind\":\"weights\"' $OUT/view.html && "
                  "grep -q '\"kind\":\"rollout\"' $OUT/view.html && "
                  "grep -q '\"kind\":\"gradient\"' $OUT/view.html");
    program_check("attention -m $OUT/model -v model --map rollout a -o $OUT/view.html", 0, " kB\n");
    program_check("attention -m $OUT/model --map flow a", 2, "--map is 'flow', must be weights");
    program_check("attention -m $OUT/model --head most a", 2, "--head is 'most'");
    program_check("attention -c $OUT/x --map gradient", 2, "--map gradient requires --model");
}

/* The page of a file has the views of each line. Those of two texts or of two models are next to
 * each other. */
Test(cli_attention, several_texts_and_models)
{
    make_model();
    program_shell("printf 'a aa\\naaa\\ta aa\\n' >$OUT/lines && cp -r $OUT/model $OUT/other");
    program_check("attention -m $OUT/model -v head,heatmap -f $OUT/lines -o $OUT/view.html", 0,
                  "Wrote ");
    program_shell("grep -o '\"kind\":\"h[a-z]*\",\"data\":[0-9]\\|\"title\":\"[^\"]*\"' "
                  "$OUT/view.html | tr '\\n' ' ' >$OUT/views && grep -qF '"
                  "\"kind\":\"head\",\"data\":0 \"title\":\"a aa\" "
                  "\"kind\":\"head\",\"data\":1 \"title\":\"aaa\" "
                  "\"kind\":\"heatmap\",\"data\":0 \"title\":\"a aa\" "
                  "\"kind\":\"heatmap\",\"data\":1 \"title\":\"aaa\"' $OUT/views && "
                  "grep -q '\"columns\":2' $OUT/view.html && "
                  "grep -q '\"sentenceB\":3' $OUT/view.html");
    program_check("attention -m $OUT/model --beside $OUT/other -f $OUT/lines -o $OUT/view.html", 0,
                  "Wrote ");
    program_shell("grep -o '\"title\":\"[^\"]*\"' $OUT/view.html | tr '\\n' ' ' >$OUT/views && "
                  "grep -q 'model · a aa\" .*other · a aa\" .*model · aaa\" .*other · aaa\" $' "
                  "$OUT/views");
    program_check("attention -m $OUT/model -f $OUT/lines a", 2, "--file is given, so no text");
    program_check("attention -m $OUT/model -f $OUT/lines -o $OUT/no.svg", 2,
                  "a figure shows one view of one text");
    program_check("attention -m $OUT/model --beside $OUT/none a", 1, "--beside is");
    program_check("attention -c $OUT/x --beside $OUT/model", 2, "require --model");
    program_shell("yes a | head -n 33 >$OUT/lines");
    program_check("attention -m $OUT/model -f $OUT/lines", 1, "has 33 texts, must have 1 .. 32");
    program_check("attention -m $OUT/model -f /dev/null", 1, "has 0 texts, must have 1 .. 32");
}

/* A tokenizer that adds special tokens makes tokens of an empty text. A text that is too long is an
 * error, not a part of it. */
Test(cli_attention, empty_and_long_texts)
{
    make_model();
    make_gpt2();
    program_check("attention -m $OUT/model '' -o $OUT/empty.html", 0, "Wrote ");
    program_shell("grep -q '\"tokens\":.\"\\[CLS\\]\",\"\\[SEP\\]\"' $OUT/empty.html");
    program_check("attention -m $OUT/gpt2 '' -o $OUT/no.html", 1,
                  "the text has no tokens; give one that is not empty");
    program_check("attention -m $OUT/gpt2 a -v head,heatmap,model,neuron --map rollout,gradient "
                  "-o $OUT/one.html",
                  0, "Wrote ");
    program_check("attention -m $OUT/gpt2 abcdefghijklmnopqrstuvwxyz -o $OUT/no.html", 1,
                  "[1, 26] after 0 cached tokens exceed the model's 24 positions");
    program_shell("! test -e $OUT/no.html");
}

/* A list that is given again replaces the earlier one. */
Test(cli_attention, the_last_list_counts)
{
    make_model();
    program_check("attention -m $OUT/model --heads 0,3 --heads 1,2 'a aa' -o $OUT/view.html", 0,
                  " kB\n");
    program_shell("grep -q '\"heads\":.1,2.' $OUT/view.html");
}

/* The tokens are decoded to text, and the attention is causal. */
Test(cli_attention, gpt2)
{
    make_gpt2();
    program_check("attention -m $OUT/gpt2 --map gradient '1+2- he' -o $OUT/view.html", 0, "Wrote ");
    for (int whole = 0; whole < 2; whole++) {
        if (whole)
            program_shell(
                "(printf '{\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"ByteLevel\","
                "\"add_prefix_space\":false},\"post_processor\":null,\"added_tokens\":[],"
                "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
                "\"merges\":[\"h e\"],\"vocab\":'; cat $OUT/gpt2/vocab.json; printf '}}') "
                ">$OUT/gpt2/tokenizer.json && rm $OUT/gpt2/vocab.json");
        program_check("attention -m $OUT/gpt2 --view neuron --expanded '1+2- he' -o $OUT/view.html",
                      0, "Wrote ");
        program_shell(
            "grep -q '\"tokens\":.\"1\",\"+\",\"2\",\"-\",\" \",\"he\".' $OUT/view.html && "
            "grep -q '\"causal\":true' $OUT/view.html && "
            "grep -q '\"name\":\"h.1.attn\"' $OUT/view.html");
    }
}

/* A tokenizer with more tokens than the model has embeddings is a warning, and an error if the text
 * has one of the other tokens. */
Test(cli_attention, tokenizer_of_another_model)
{
    program_shell("mkdir $OUT/gpt2 && cp tests/models/gpt2/lm/* $OUT/gpt2 && "
                  "cp tests/tokenizers/bpe/tokenizer.json $OUT/gpt2");
    program_check("attention -m $OUT/gpt2 'a' -o $OUT/no.html 2>&1", 1,
                  "the text has the token 'a' with id 65, but the model's vocab_size is only 40");
    program_shell("test ! -e $OUT/no.html");
    program_check("attention -m $OUT/gpt2 '1+2' -o $OUT/yes.html 2>&1", 0,
                  "/gpt2: the tokenizer has 316 tokens, but the model's vocab_size is only 40");
}

/* The page has the tokens of both texts, that of the encoder and that of the decoder. */
Test(cli_attention, t5)
{
    program_shell("mkdir $OUT/t5 && cp tests/models/t5/relu/* $OUT/t5 && "
                  "(printf '{\"<pad>\":0,\"a\":2,\"b\":3,\"</s>\":1,\"c\":4,\"d\":5}') "
                  ">$OUT/t5/vocab.json && "
                  "printf '' >$OUT/t5/merges.txt");
    program_check("attention -m $OUT/t5 'ab' 'cdc' -v head,neuron -o $OUT/view.html", 0, "Wrote ");
    program_shell("grep -q '\"tokens\":.\"a\",\"b\".' $OUT/view.html && "
                  "grep -q '\"decoderTokens\":.\"[^,]*\",\"c\",\"d\".' $OUT/view.html && "
                  "grep -q '\"part\":\"encoder\"' $OUT/view.html && "
                  "grep -q '\"part\":\"cross\"' $OUT/view.html && "
                  "grep -q '\"part\":\"decoder\"' $OUT/view.html");
    program_check("attention -m $OUT/t5 'ab' 'cdc' --part cross --token 1 -o $OUT/view.svg", 0,
                  "Wrote ");
    program_shell("grep -q 'font-weight=\"bold\">c<' $OUT/view.svg && grep -q '>b<' $OUT/view.svg");
    program_check("attention -m $OUT/t5 'ab' 'cdc' --map gradient,rollout -o $OUT/view.html", 0,
                  "Wrote ");
    program_shell("grep -q '\"kind\":\"gradient\",\"part\":\"cross\"' $OUT/view.html && "
                  "! grep -q '\"kind\":\"rollout\",\"part\":\"cross\"' $OUT/view.html");
}

/* Without a second text, the output ends at the configuration's end token, as in
 * `brasa generate`. */
Test(cli_attention, output_of_t5)
{
    program_make_t5();
    program_check("generate -m $OUT/t5 'time flies'", 0, "qq\n");
    program_check("attention -m $OUT/t5 'time flies' -o $OUT/view.html", 0, "Wrote ");
    program_shell("grep -q '\"decoderTokens\":.\"[^,]*\",\"q\",\"q\"\\]' $OUT/view.html");
}

Test(cli_attention, runs_of_train)
{
    program_shell("\"$BRASA\" train copy-task --preset small --steps 1 --set d_model=16 "
                  "--set batch=4 --set num_samples=2 --out $OUT/copy >$OUT/log");
    program_check("attention -c $OUT/copy/checkpoint.safetensors '3 5 7' -o $OUT/view.html", 0,
                  "Wrote ");
    program_shell("grep -q '\"tokens\":.\"1\",\"3\",\"5\",\"7\".' $OUT/view.html && "
                  "grep -q '\"part\":\"cross\"' $OUT/view.html && "
                  "grep -q '\"part\":\"decoder\"' $OUT/view.html");
    program_check("attention -c $OUT/copy/checkpoint.safetensors -o $OUT/own.html", 0, "Wrote ");
    program_check("attention -c $OUT/copy/checkpoint.safetensors 'x'", 1, "copy-task takes");
    program_check("attention -c $OUT/none", 1, "none");
    program_shell(
        "\"$BRASA\" train bert-scratch --preset small --steps 1 --out $OUT/bert >$OUT/log");
    program_check("attention -c $OUT/bert/checkpoint.safetensors -v model -o $OUT/bert.html", 0,
                  "Wrote ");
    program_shell("\"$BRASA\" train vanilla --preset small --steps 1 --out $OUT/dates >$OUT/log");
    program_check("attention -c $OUT/dates/checkpoint.safetensors '7 may 2020' -o $OUT/dates.html",
                  0, "Wrote ");
    program_shell("grep -q '\"decoderTokens\":.\"(begin)\"' $OUT/dates.html");
    program_check("attention -c $OUT/dates/checkpoint.safetensors 'May!'", 1, "vanilla takes");
}

Test(cli_attention, refused)
{
    make_model();
    program_check("attention --help", 0, "Usage: brasa attention");
    program_check("attention a", 2, "either --model or --checkpoint");
    program_check("attention -m $OUT/model", 2, "expected one or two texts, got 0");
    program_check("attention -m $OUT/model --view tree a", 2, "--view is 'tree'");
    program_check("attention -m $OUT/model --view hea a", 2, "--view is 'hea'");
    program_check("attention -m $OUT/model --view headed a", 2, "--view is 'headed'");
    program_check("attention -m $OUT/model --display-mode dar a", 2, "--display-mode is 'dar'");
    program_check("attention -m $OUT/model --precision f a", 2, "--precision is 'f'");
    program_check("attention -m $OUT/model --heads 1,x a", 2, "--heads is '1,x'");
    program_check("attention -m $OUT/model --layer -1 a", 2, "--layer is '-1'");
    program_check("attention -m $OUT/model --display-mode red a", 2, "--display-mode is 'red'");
    program_check("attention -m $OUT/model --layer 9 -o $OUT/no.html a", 1, "layer is 9");
    program_check("attention -m $OUT/model --heads 7 -o $OUT/no.html a", 1, "heads contains 7");
    program_check("attention -m $OUT/model -o $OUT/none/x.html a", 1, "none/x.html");
    program_shell("! test -e $OUT/no.html");
}
