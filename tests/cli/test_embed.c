/* tests/cli/test_embed.c - brasa embed, run as a program. */
#include "tests/cli/program.h"
#include "tests/support.h"

#include <brasa/brasa.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

TestSuite(cli_embed, .init = program_begin, .fini = program_end);

/* Creates a folder with the recorded model and a vocabulary of its 40 tokens: "a", "aa", ... */
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
    /* [MASK], which only the tokenizer's class names, has no row in the model: no warning. */
    program_shell("\"$BRASA\" embed -m $OUT/model a 2>&1 >$OUT/c | cmp - /dev/null");
}

/* Reads the program's JSON output for n texts from a file. */
static void read_lines(const char *name, int n, json_t *lines[])
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", program_directory, name);
    FILE *file = fopen(path, "r");
    cr_assert(file);
    for (int i = 0; i < n; i++) {
        lines[i] = json_loadf(file, JSON_DISABLE_EOF_CHECK, NULL);
        cr_assert(lines[i], "%s ends before line %d", name, i + 1);
    }
    cr_assert_eq(fgetc(file), '\n');
    cr_assert_eq(fgetc(file), EOF);
    fclose(file);
}

static double value(const json_t *line, size_t i)
{
    return json_real_value(json_array_get(json_object_get(line, "embedding"), i));
}

/* Texts of different lengths have the same embeddings in batches and alone, in the order of the
 * texts. */
Test(cli_embed, batches)
{
    enum { N = 5, SIZE = 16 };
    static const char *const texts[N] = { "aa a aaa a", "a", "", "aaaa aa aa", "aa" };
    json_t *alone[N], *batch[N];
    make_model();
    program_shell("printf 'aa a aaa a\\na\\n\\naaaa aa aa\\naa' >$OUT/texts && "
                  "\"$BRASA\" embed -m $OUT/model --json -b 1 -f $OUT/texts >$OUT/1 && "
                  "\"$BRASA\" embed -m $OUT/model --json -b 2 -f $OUT/texts >$OUT/2");
    read_lines("1", N, alone);
    read_lines("2", N, batch);
    for (int i = 0; i < N; i++) {
        double squares = 0;
        cr_assert_str_eq(json_string_value(json_object_get(batch[i], "text")), texts[i]);
        cr_assert_eq(json_array_size(json_object_get(batch[i], "embedding")), SIZE);
        for (size_t k = 0; k < SIZE; k++) {
            double printed = value(batch[i], k); /* nine digits, which identify a float */
            cr_assert(fabs(printed - (double)(float)printed) <= 5.1e-9 * fabs(printed));
            check_close(value(alone[i], k), value(batch[i], k), 1e-6);
            squares += value(batch[i], k) * value(batch[i], k);
        }
        check_close(squares, 1, 1e-6);
        json_decref(alone[i]);
        json_decref(batch[i]);
    }
}

Test(cli_embed, refused)
{
    make_model();
    program_check("embed --help", 0, "Usage: brasa embed");
    program_check("embed a", 2, "--model is required");
    program_check("embed -m $OUT/model", 2, "either texts or --file");
    program_check("embed -m $OUT/model -b 0 a", 2, "--batch-size is '0'");
    program_check("embed -m $OUT/model -l 2 a", 2, "--max-length is '2'");
    program_check("embed -m $OUT/none a", 1, "but there is no such folder");
    program_check("embed -m $OUT/model -f $OUT/none", 1, "none");
    program_check(
        "embed -m $OUT/model 'a a a a a a a a a a a a a'", 1,
        "15 tokens, more than the model's limit of 12; the option max_seq_length = 12 (brasa "
        "embed: --max-length 12) truncates it");
    program_check("embed -m $OUT/model -l 12 'a a a a a a a a a a a a a'", 0, "1.0000");
    program_shell("printf 'a\\377' >$OUT/texts; yes a | head -n 101 >$OUT/many");
    program_check("embed -m $OUT/model -j -f $OUT/texts", 1, "text 1 is not UTF-8");
    program_check("embed -m $OUT/model -f $OUT/many", 1, "at most 100 texts, got 101");
    program_shell(
        "sed -i 1d $OUT/many && \"$BRASA\" embed -m $OUT/model -f $OUT/many >$OUT/table && "
        "test $(wc -l <$OUT/table) = 100");
    program_shell("seq 9 >>$OUT/model/vocab.txt");
    program_check("embed -m $OUT/model a 2>&1", 0,
                  "the tokenizer has 49 tokens, but the model's vocab_size is only 40");
    program_check("embed -m $OUT/model 'a 9'", 1,
                  "texts[0] has the token '9' with id 48, but vocab_size is only 40 in ");
    program_shell("sed -i '41,$d' $OUT/model/vocab.txt");
    program_shell("truncate -s 5000 $OUT/model/model.safetensors");
    program_check("embed -m $OUT/model a", 1, "model.safetensors: ");
}

/* Embeds a text, and checks the first elements of its embedding. */
static void check_embedding(const char *options, const double expected[3])
{
    char command[256];
    json_t *line;
    snprintf(command, sizeof command,
             "\"$BRASA\" embed -m $OUT/model --json %s 'aa a aaa A aa' >$OUT/row", options);
    program_shell(command);
    read_lines("row", 1, &line);
    for (size_t k = 0; k < 3; k++)
        check_close(value(line, k), expected[k], 2e-6);
    json_decref(line);
}

/* The embeddings follow modules.json and the options; tests/pretrained/test_sentence_files.c has
 * the same numbers and all the other files. */
Test(cli_embed, options)
{
    static const double mean[] = { 1.7078792, -0.1780641, 0.4236845 },
                        cls[] = { 2.2896025, -0.1537120, 0.0542144 },
                        cased[] = { 1.6854870, -0.1682978, 0.4959869 },
                        five[] = { 2.0265632, -0.2247563, 0.2453330 };
    make_model();
    program_shell("mkdir $OUT/model/1_Pooling && echo {} >$OUT/model/1_Pooling/config.json && "
                  "cat >$OUT/model/modules.json <<END\n"
                  "[{\"path\":\"\",\"type\":\"sentence_transformers.models.Transformer\"},"
                  "{\"path\":\"1_Pooling\",\"type\":\"sentence_transformers.models.Pooling\"}]\n"
                  "END");
    check_embedding("", mean);
    check_embedding("--pooling cls", cls);
    check_embedding("--pooling mean", mean);
    check_embedding("--cased", cased);
    check_embedding("--max-length 5", five);
    program_check("embed -m $OUT/model -p median a", 2,
                  "--pooling is 'median', must be cls, max, mean, mean_sqrt_len, weightedmean or "
                  "lasttoken");
    program_check("embed -m $OUT/model aa aa", 0, " 1.0000  1.0000  aa");
    program_shell("echo '{\"pooling_mode\": \"median\"}' >$OUT/model/1_Pooling/config.json");
    program_check("embed -m $OUT/model a", 1,
                  "1_Pooling/config.json: pooling_mode is \"median\", must be one of");
    program_check("embed -m $OUT/model a", 1,
                  "the option pooling (brasa embed: --pooling MODE) overrides it");
}

/* A line may end with CR LF, and the file may begin with a byte-order mark. */
Test(cli_embed, windows_files)
{
    make_model();
    program_shell("printf '\\357\\273\\277aa a\\r\\n\\r\\naaa\\r' >$OUT/windows && "
                  "printf 'aa a\\n\\naaa' >$OUT/unix && cd $OUT && for f in windows unix; do "
                  "\"$BRASA\" embed -m model -j -f $f >$f.json && "
                  "\"$BRASA\" tokenize --model model -j -f $f >$f.tokens || exit 1; done && "
                  "cmp windows.json unix.json && cmp windows.tokens unix.tokens && "
                  "printf '\\357\\273\\277a\\r\\na\\r\\0a\\r' >null && "
                  "\"$BRASA\" tokenize --model model -j -0 -f null >null.tokens && "
                  "test $(wc -l <null.tokens) = 2 && grep -q '\"bytes\":.*\\[3,4\\],\\[6,7\\]' "
                  "null.tokens");
}

/* The benchmark reads the same lines and sorts them by length; a mark in the first line would move
 * it to the second batch. */
Test(cli_embed, windows_file_of_benchmark)
{
    make_model();
    program_shell("cd $OUT && (echo a; yes aa | head -n 31; yes aaa | head -n 32) >unix && "
                  "(printf '\\357\\273\\277'; sed 's/$/\\r/' unix) >windows && "
                  "for f in windows unix; do echo | \"$BRASA\" bench embed --model model "
                  "--file $f --filter embed-lines --serve >$f.sum || exit 1; "
                  "cut -d' ' -f1 $f.sum >$f.first; done && test -s unix.first && "
                  "cmp windows.first unix.first");
}

/* transformers and its tokenizer give 0.3317, -0.0875, 0.0998. */
Test(cli_embed, real_cosines)
{
    if (!getenv("BRASA_MINILM")) {
        program_end(); /* Criterion does not call it for a skipped test */
        cr_skip_test("BRASA_MINILM is not set");
    }
    program_check(
        "embed -m \"$BRASA_MINILM\" 'time flies like an arrow' 'fruit flies like a banana' "
        "'A man is eating a piece of bread.'",
        0,
        " 1.0000  0.3317 -0.0875  time flies like an arrow\n"
        " 0.3317  1.0000  0.0998  fruit flies like a banana\n");
}

/* A decoder's tokens see no later ones, so the last one has the most to say. Texts of unlike length
 * are packed. */
Test(cli_embed, decoders_embed_sentences)
{
    enum { N = 3 };
    static const char *const texts[N] = { "cmd", "abcabc", "a" };
    char path[TEMPORARY_PATH + 8];
    json_t *lines[N];
    program_make_gpt2();
    program_shell("\"$BRASA\" embed -m $OUT/gpt2 --json -p lasttoken cmd abcabc a >$OUT/lines");
    read_lines("lines", N, lines);
    snprintf(path, sizeof path, "%s/gpt2", program_directory);
    br_gpt2 *model =
        br_auto_model_load(path, BR_OPTIONS(br_auto_model, .class_name = "GPT2Model"), NULL);
    br_tokenizer *tokenizer = br_auto_tokenizer_load(path, NULL);
    for (int i = 0; i < N; i++) {
        br_token_batch batch;
        cr_assert(br_tokenizer_encode_batch(tokenizer, 1, &(br_text){ texts[i], -1 }, NULL, NULL,
                                            &batch));
        br_tensor *last = br_select(br_gpt2_forward(model, batch.ids, NULL), 1, -1);
        last = br_normalize(last, 2, 1, 1e-12);
        for (int64_t k = 0; k < br_size(last, 1); k++) {
            double want = br_at(last, 2, (int64_t[]){ 0, k }), have = value(lines[i], (size_t)k);
            cr_assert(fabs(have - want) < 1e-6, "%s: %g, not %g", texts[i], have, want);
        }
        json_decref(lines[i]);
    }
    br_tokenizer_free(tokenizer);
    br_module_free(br_base(model));
}
