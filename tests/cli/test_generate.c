/* tests/cli/test_generate.c - brasa generate and brasa fill-mask, run as a program. */
#include "tests/cli/program.h"
#include "tests/support.h"

TestSuite(cli_generate, .init = program_begin, .fini = program_end);

/* A folder with the recorded model, and a vocabulary of its 40 tokens: letters, a space, ... */
static void make_gpt2(void)
{
    program_shell("mkdir $OUT/model && cp tests/models/gpt2/lm/* $OUT/model && "
                  "(printf '{'; i=0; for w in a b c d e f g h i j k l m n o p q r s t u v w x y z "
                  "0 1 2 3 4 5 6 7 8 9 th he; do printf '\"%s\": %d, ' $w $i; i=$((i + 1)); done; "
                  "printf '\"\\304\\240\": 38, \"<|endoftext|>\": 39}') >$OUT/model/vocab.json && "
                  "printf '#version: 0.2\\nt h\\nh e\\n' >$OUT/model/merges.txt");
}

/* The tokens that transformers takes: a, a, a and r, which is the configuration's end. */
Test(cli_generate, likeliest_tokens)
{
    make_gpt2();
    program_check("generate -m $OUT/model cmd", 0, "cmdaaar\n");
    program_check("generate -m $OUT/model -n 2 cmd", 0, "cmdaa\n");
}

Test(cli_generate, drawn_tokens)
{
    make_gpt2();
    program_shell(
        "for s in 1 2 1; do \"$BRASA\" generate -m $OUT/model -s $s -T 3 -k 30 -p 0.9 "
        "-r 1.2 cmd; done >$OUT/t && test \"$(sed -n 1p $OUT/t)\" = \"$(sed -n 3p $OUT/t)\""
        " && test \"$(sed -n 1p $OUT/t)\" != \"$(sed -n 2p $OUT/t)\"");
}

Test(cli_generate, bad_arguments)
{
    make_gpt2();
    program_check("generate 2>&1", 2, "--model is wanted");
    program_check("generate -m $OUT/model 2>&1", 2, "one prompt is wanted");
    program_check("generate -m $OUT/model '' 2>&1", 2, "the prompt is empty");
    program_check("generate -m $OUT/model -T 0 a 2>&1", 2, "--temperature is '0'");
    program_check("generate -m $OUT/model -k x a 2>&1", 2, "--top-k is 'x'");
    program_check("generate -m $OUT/model -p 2 a 2>&1", 2, "--top-p is '2'");
    program_check("generate -m $OUT/model -n 0 a 2>&1", 2, "--max-new-tokens is '0'");
    program_check("generate -m $OUT/model ?! 2>&1", 1, "no token for the byte 0x3f");
    program_check("generate -m $OUT/none a 2>&1", 1, "there is no tokenizer.json");
    program_check("generate -m $OUT/model abcdefghijklmnopqrstuvwxy 2>&1", 1, "no room for more");
    program_check("generate -m tests/models/hf_bert/pretraining a 2>&1", 1, "vocab.txt");
    program_check("generate --help", 0, "--max-new-tokens");
}

static void make_bert(void)
{
    program_shell("mkdir $OUT/model && cp tests/models/hf_bert/pretraining/* $OUT/model && "
                  "(printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n[MASK]\\n'; w=; for i in $(seq 35); do "
                  "w=a$w; echo $w; done) >$OUT/model/vocab.txt");
}

/* Three masks: three lists, of falling probabilities, which sum to 1 where all are shown. */
Test(cli_generate, masks_are_filled)
{
    make_bert();
    program_shell("\"$BRASA\" fill-mask -m $OUT/model -k 99 'a [MASK] aa [MASK][MASK]' >$OUT/m && "
                  "awk 'BEGIN { last = 1 } NF == 0 { n++; if (s < 0.997 || s > 1.003) exit 1; s = "
                  "0; last = 1 } "
                  "NF == 2 { if ($1 > last) exit 1; last = $1; s += $1 } "
                  "END { exit !(n == 2 && NR == 122) }' $OUT/m");
    program_check("fill-mask -m $OUT/model --json -k 1 'a [MASK]'", 0, "{\"mask\":0,\"token\":\"");
    program_check("fill-mask -m $OUT/model a 2>&1", 1, "the text has no [MASK]");
    program_check("fill-mask -m $OUT/model 2>&1", 2, "one text is wanted");
    program_check("fill-mask -m $OUT/model -k 0 a 2>&1", 2, "--top-k is '0'");
    program_shell("cp tests/models/hf_bert/classifier/* $OUT/model");
    program_check("fill-mask -m $OUT/model 'a [MASK]' 2>&1", 1, "without the head");
}
