/* tests/cli/test_embed.c - brasa embed, run as a program. */
#include "tests/cli/program.h"
#include "tests/support.h"

TestSuite(cli_embed, .init = program_begin, .fini = program_end);

/* A folder with the recorded model, and a vocabulary of its 40 tokens: "a", "aa", ... */
static void make_model(void)
{
    program_shell("mkdir $OUT/model && cp tests/models/hf_bert/pretraining/* $OUT/model && "
                  "(printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n'; w=; for i in $(seq 36); do w=a$w; "
                  "echo $w; done) >$OUT/model/vocab.txt");
}

Test(cli_embed, cosines)
{
    make_model();
    program_shell("\"$BRASA\" embed -m $OUT/model 'a aa' 'aaa aa a' 'A  aa' >$OUT/c && "
                  "awk 'NR == 1 { exit !($1 == 1 && $3 == 1 && $2 < 0.999 && $5 == \"aa\") } ' "
                  "$OUT/c && awk 'NR == 2 { exit $2 != 1 }' $OUT/c && test $(wc -l <$OUT/c) = 3");
}

/* Texts of all lengths, in batches and alone: the same embeddings, in the order of the texts. */
Test(cli_embed, batches)
{
    make_model();
    program_shell("printf 'aa a aaa a\\na\\n\\naaaa aa aa\\naa' >$OUT/texts && for b in 1 2 32; "
                  "do "
                  "\"$BRASA\""
                  " embed -m $OUT/model --json -b $b -f $OUT/texts >$OUT/$b; done && "
                  "test $(wc -l <$OUT/1) = 5 && python3 -c '\n"
                  "import json, sys\n"
                  "a, b, c = ([json.loads(l) for l in open(f)] for f in sys.argv[2:])\n"
                  "assert [x[\"text\"] for x in a] == open(sys.argv[1]).read().split(\"\\n\")\n"
                  "for x, y, z in zip(a, b, c):\n"
                  "    assert abs(sum(v * v for v in x[\"embedding\"]) - 1) < 1e-6\n"
                  "    for u, v, w in zip(*(t[\"embedding\"] for t in (x, y, z))):\n"
                  "        assert abs(u - v) < 1e-6 and abs(u - w) < 1e-6\n"
                  "' $OUT/texts $OUT/1 $OUT/2 $OUT/32");
}

Test(cli_embed, refused)
{
    make_model();
    program_check("embed --help", 0, "Usage: brasa embed");
    program_check("embed a", 2, "--model is wanted");
    program_check("embed -m $OUT/model", 2, "either texts or --file");
    program_check("embed -m $OUT/model -b 0 a", 2, "--batch-size is '0'");
    program_check("embed -m $OUT/model -l 2 a", 2, "--max-length is '2'");
    program_check("embed -m $OUT/none a", 1, "vocab.txt");
    program_check("embed -m $OUT/model -f $OUT/none", 1, "none");
    program_check("embed -m $OUT/model 'a a a a a a a a a a a a a'", 1,
                  "15 tokens, more than the model's 12; --max-length 12 cuts it");
    program_check("embed -m $OUT/model -l 12 'a a a a a a a a a a a a a'", 0, "1.0000");
    program_shell("printf 'a\\377' >$OUT/texts; yes a | head -n 101 >$OUT/many");
    program_check("embed -m $OUT/model -j -f $OUT/texts", 1, "text 1 is not UTF-8");
    program_check("embed -m $OUT/model -f $OUT/many", 1, "at most 100 texts, there are 101");
    program_shell("truncate -s 5000 $OUT/model/model.safetensors");
    program_check("embed -m $OUT/model a", 1, "model.safetensors: ");
}

/* transformers and its tokenizer have 0.3317, -0.0875, 0.0998. */
Test(cli_embed, real_cosines)
{
    if (!getenv("BRASA_MINILM"))
        cr_skip_test("BRASA_MINILM names no folder");
    program_check(
        "embed -m \"$BRASA_MINILM\" 'time flies like an arrow' 'fruit flies like a banana' "
        "'A man is eating a piece of bread.'",
        0,
        " 1.0000  0.3317 -0.0875  time flies like an arrow\n"
        " 0.3317  1.0000  0.0998  fruit flies like a banana\n");
}
