/* tests/cli/test_embed.c - brasa embed, run as a program. */
#include "tests/cli/program.h"
#include "tests/support.h"

#include <jansson.h>
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
    program_check("embed -m $OUT/model 'a a a a a a a a a a a a a'", 1,
                  "15 tokens, more than the model's limit of 12; --max-length 12 truncates it");
    program_check("embed -m $OUT/model -l 12 'a a a a a a a a a a a a a'", 0, "1.0000");
    program_shell("printf 'a\\377' >$OUT/texts; yes a | head -n 101 >$OUT/many");
    program_check("embed -m $OUT/model -j -f $OUT/texts", 1, "text 1 is not UTF-8");
    program_check("embed -m $OUT/model -f $OUT/many", 1, "at most 100 texts, got 101");
    program_shell(
        "sed -i 1d $OUT/many && \"$BRASA\" embed -m $OUT/model -f $OUT/many >$OUT/table && "
        "test $(wc -l <$OUT/table) = 100");
    program_shell("seq 9 >>$OUT/model/vocab.txt");
    program_check("embed -m $OUT/model a 2>&1", 0,
                  "the tokenizer has 49 tokens, but config.json's vocab_size is only 40");
    program_check("embed -m $OUT/model 'a 9'", 1,
                  "the text has the token '9' with id 48, but config.json's vocab_size is only 40");
    program_shell("sed -i '41,$d' $OUT/model/vocab.txt");
    program_shell("truncate -s 5000 $OUT/model/model.safetensors");
    program_check("embed -m $OUT/model a", 1, "model.safetensors: ");
}

/* ---- Files of sentence-transformers ---------------------------------------------------------- */

#define MODULE(path, type)                       \
    "{\"idx\":0,\"name\":\"0\",\"path\":\"" path \
    "\",\"type\":\"sentence_transformers.models." type "\"}"
#define TRANSFORMER MODULE("", "Transformer")
#define POOLING     MODULE("1_Pooling", "Pooling")
#define MODULES     "[" TRANSFORMER "," POOLING "]"

/* Writes a file of the model's folder. */
static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/model/%s", program_directory, name);
    FILE *file = fopen(path, "w");
    cr_assert(file, "%s", path);
    fputs(text, file);
    cr_assert_eq(fclose(file), 0);
}

static void make_sentence_model(const char *modules, const char *pooling)
{
    make_model();
    program_shell("mkdir $OUT/model/1_Pooling $OUT/model/2_Normalize");
    write_file("modules.json", modules);
    write_file("1_Pooling/config.json", pooling);
}

/* Embeds two texts of different lengths in one batch, and checks the size and the first elements of
 * their embeddings from element `from` on. */
static void check_embeddings(const char *options, size_t from, size_t size,
                             const double expected[2][3])
{
    char command[512];
    json_t *lines[2];
    snprintf(command, sizeof command,
             "\"$BRASA\" embed -m $OUT/model --json %s 'aa a aaa A aa' aaaa >$OUT/rows", options);
    program_shell(command);
    read_lines("rows", 2, lines);
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(json_array_size(json_object_get(lines[i], "embedding")), size);
        for (size_t k = 0; k < 3; k++)
            check_close(value(lines[i], from + k), expected[i][k], 2e-6);
        json_decref(lines[i]);
    }
}

/* The numbers here and below were written by record_embed.py. */
static const struct {
    const char *name, *flag, *option;
    double expected[2][3];
} modes[] = {
    { "cls",
      "pooling_mode_cls_token",
      "cls",
      { { 2.2896025, -0.1537120, 0.0542144 }, { 2.1223304, -0.0807847, 0.2702182 } } },
    { "max",
      "pooling_mode_max_tokens",
      "max",
      { { 2.2896025, 0.2424791, 0.7492226 }, { 2.1223304, 0.4777443, 1.0972506 } } },
    { "mean",
      "pooling_mode_mean_tokens",
      "mean",
      { { 1.7078792, -0.1780641, 0.4236845 }, { 1.7190676, 0.0460429, 0.5552539 } } },
    { "mean_sqrt_len_tokens",
      "pooling_mode_mean_sqrt_len_tokens",
      "mean_sqrt_len",
      { { 4.5186238, -0.4711133, 1.1209638 }, { 2.9775124, 0.0797487, 0.9617280 } } },
    { "weightedmean",
      "pooling_mode_weightedmean_tokens",
      "weightedmean",
      { { 1.6548302, -0.1753162, 0.5264731 }, { 1.6576381, 0.1391311, 0.6930926 } } },
    { "lasttoken",
      "pooling_mode_lasttoken",
      "lasttoken",
      { { 1.8254552, -0.0654420, 0.6451443 }, { 1.7537535, 0.4777443, 1.0972506 } } },
};
enum { MODES = sizeof modes / sizeof *modes, MEAN = 2, LAST = 5 };

/* Each mode is chosen by a flag, by pooling_mode, and by the option. */
Test(cli_embed, pooling)
{
    make_sentence_model(MODULES, "{\"word_embedding_dimension\": 16}");
    check_embeddings("", 0, 16, modes[MEAN].expected);
    for (int i = 0; i < MODES; i++) {
        char text[256], option[64];
        snprintf(text, sizeof text, "{\"%s\": true, \"include_prompt\": true}", modes[i].flag);
        write_file("1_Pooling/config.json", text);
        check_embeddings("", 0, 16, modes[i].expected);
        snprintf(text, sizeof text, "{\"pooling_mode\": \"%s\", \"pooling_mode_cls_token\": true}",
                 modes[i].name);
        write_file("1_Pooling/config.json", text);
        check_embeddings("", 0, 16, modes[i].expected);
        snprintf(option, sizeof option, "--pooling %s", modes[i].option);
        write_file("1_Pooling/config.json", "{\"pooling_mode\": \"unknown\"}");
        check_embeddings(option, 0, 16, modes[i].expected);
    }
}

/* The results of several modes are concatenated: flags in a fixed order, a list in its own. */
Test(cli_embed, several_modes)
{
    make_sentence_model(MODULES, "{\"pooling_mode\": [\"lasttoken\", \"mean\"]}");
    check_embeddings("", 0, 32, modes[LAST].expected);
    check_embeddings("", 16, 32, modes[MEAN].expected);
    write_file("1_Pooling/config.json",
               "{\"pooling_mode_lasttoken\": true, \"pooling_mode_mean_tokens\": true, "
               "\"pooling_mode_weightedmean_tokens\": true, \"pooling_mode_max_tokens\": true, "
               "\"pooling_mode_mean_sqrt_len_tokens\": true, \"pooling_mode_cls_token\": true}");
    for (size_t i = 0; i < MODES; i++)
        check_embeddings("", 16 * i, 16 * MODES, modes[i].expected);
    program_check("embed -m $OUT/model aa aa", 0, " 1.0000  1.0000  aa");
}

/* The vectors are normalized only if modules.json lists Normalize. The model may be in a
 * subfolder. */
Test(cli_embed, normalize_module)
{
    static const double expected[2][3] = { { 0.5032523, -0.0524693, 0.1248450 },
                                           { 0.5393050, 0.0144446, 0.1741940 } };
    make_sentence_model("[" MODULE("0_Transformer", "Transformer") "," POOLING "," MODULE(
                            "2_Normalize", "Normalize") "]",
                        "{\"pooling_mode\": \"mean\"}");
    program_shell("cd $OUT/model && mkdir 0_Transformer && "
                  "mv config.json model.safetensors vocab.txt 0_Transformer");
    check_embeddings("", 0, 16, expected);
    program_check("embed -m $OUT/model a a", 0, " 1.0000  1.0000  a");
    write_file("0_Transformer/sentence_bert_config.json", "{\"max_seq_length\": 1}");
    program_check("embed -m $OUT/model a", 1,
                  "model/0_Transformer/sentence_bert_config.json: max_seq_length is 1, must be");
}

/* Without modules.json, the other files are not read, and the mean is normalized. */
Test(cli_embed, no_modules)
{
    static const double expected[2][3] = { { 0.5032523, -0.0524693, 0.1248450 },
                                           { 0.5393050, 0.0144446, 0.1741940 } };
    make_sentence_model(MODULES, "{\"pooling_mode\": \"cls\"}");
    program_shell("rm $OUT/model/modules.json");
    write_file("sentence_bert_config.json", "{\"max_seq_length\": 4}");
    check_embeddings("", 0, 16, expected);
}

Test(cli_embed, prompts)
{
    static const struct {
        const char *mode;
        double expected[2][3];
    } rows[] = {
        { "cls", { { 1.6969713, 0.2751304, 0.6269616 }, { 1.6241757, -0.1108125, 0.2812940 } } },
        { "max", { { 1.9805286, 0.2751304, 1.8362609 }, { 1.6241757, 0.0745672, 1.6442055 } } },
        { "mean", { { 1.6336998, -0.0916716, 0.7524330 }, { 1.6127696, -0.0181226, 0.9627497 } } },
        { "weightedmean",
          { { 1.6157527, -0.0987556, 0.7207236 }, { 1.6117328, -0.0096963, 1.0247003 } } },
        { "lasttoken",
          { { 1.5422283, 0.2044926, 1.1578993 }, { 1.6013637, 0.0745672, 1.6442055 } } },
    };
    static const double included[2][3] = { { 1.7210197, -0.1069918, 0.7373567 },
                                           { 1.7404013, -0.2690571, 0.6534579 } };
    make_sentence_model(MODULES, "{}");
    write_file("config_sentence_transformers.json",
               "{\"prompts\": {\"p\": \"aaaa\", \"q\": \"a aaa: \"}, "
               "\"default_prompt_name\": \"q\"}");
    check_embeddings("", 0, 16, included);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        /* null counts as false */
        snprintf(text, sizeof text, "{\"pooling_mode\": \"%s\", \"include_prompt\": %s}",
                 rows[i].mode, i % 2 ? "null" : "false");
        write_file("1_Pooling/config.json", text);
        check_embeddings("", 0, 16, rows[i].expected);
    }
    write_file("config_sentence_transformers.json",
               "{\"prompts\": {\"q\": null}, \"default_prompt_name\": \"q\"}");
    check_embeddings("-p mean", 0, 16, modes[MEAN].expected);
    write_file("config_sentence_transformers.json",
               "{\"prompts\": {\"q\": \"a aaa: \"}, \"default_prompt_name\": null}");
    write_file("1_Pooling/config.json", "{\"include_prompt\": false}");
    check_embeddings("", 0, 16, modes[MEAN].expected);
    write_file("config_sentence_transformers.json", "{\"default_prompt_name\": \"query\"}");
    check_embeddings("", 0, 16, modes[MEAN].expected);
    write_file("config_sentence_transformers.json",
               "{\"prompts\": {\"q\": \"\"}, \"default_prompt_name\": \"q\"}");
    check_embeddings("", 0, 16, modes[MEAN].expected);
}

/* Texts are truncated to max_seq_length, or else to the tokenizer's or the model's limit. */
Test(cli_embed, truncation)
{
    static const double five[2][3] = { { 2.0265632, -0.2247563, 0.2453330 },
                                       { 1.7190676, 0.0460429, 0.5552539 } },
                        four[2][3] = { { 1.8543850, -0.3413035, 0.4449418 },
                                       { 1.7190676, 0.0460429, 0.5552539 } };
    make_sentence_model(MODULES, "{}");
    program_check("embed -m $OUT/model 'a a a a a a a a a a a a a'", 0, "1.0000");
    write_file("tokenizer_config.json", "{\"model_max_length\": 4}");
    check_embeddings("", 0, 16, four);
    check_embeddings("--max-length 12", 0, 16, modes[MEAN].expected);
    write_file("sentence_bert_config.json", "{\"max_seq_length\": 5}");
    check_embeddings("", 0, 16, five);
    check_embeddings("--max-length 4", 0, 16, four);
    write_file("sentence_bert_config.json", "{\"max_seq_length\": null}");
    check_embeddings("", 0, 16, four);
    static const double left[2][3] = { { 1.8179086, -0.3759633, 0.3957933 },
                                       { 1.7190676, 0.0460429, 0.5552539 } };
    write_file("tokenizer_config.json", "{\"model_max_length\": 4, \"truncation_side\": \"left\"}");
    check_embeddings("", 0, 16, left);
    /* transformers writes 1e30 as an integer. */
    write_file("tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656}");
    check_embeddings("", 0, 16, modes[MEAN].expected);
    write_file("sentence_bert_config.json", "{\"max_seq_length\": 512}");
    program_check("embed -m $OUT/model 'a a a a a a a a a a a a a'", 1,
                  "15 tokens, more than the model's limit of 12; --max-length 12 truncates it");
}

/* A limit of the tokenizer counts if it is one token below the model's limit of 12. */
Test(cli_embed, the_lower_limit_counts)
{
    make_sentence_model(MODULES, "{}");
    program_shell("\"$BRASA\" embed -m $OUT/model --json --max-length 11 'a a a a a a a a a a a a "
                  "a' >$OUT/1");
    program_shell("\"$BRASA\" embed -m $OUT/model --json --max-length 12 'a a a a a a a a a a a a "
                  "a' >$OUT/2");
    program_shell("! cmp -s $OUT/1 $OUT/2");
    for (int limit = 11; limit <= 13; limit++) {
        char text[64], command[200];
        snprintf(text, sizeof text, "{\"model_max_length\": %d}", limit);
        write_file("tokenizer_config.json", text);
        snprintf(command, sizeof command,
                 "\"$BRASA\" embed -m $OUT/model --json 'a a a a a a a a a a a a a' >$OUT/3 && cmp "
                 "$OUT/%d $OUT/3",
                 limit == 11 ? 1 : 2);
        program_shell(command);
    }
}

/* The first of the files that is not empty counts. */
Test(cli_embed, older_names_of_the_settings)
{
    static const double four[2][3] = { { 1.8543850, -0.3413035, 0.4449418 },
                                       { 1.7190676, 0.0460429, 0.5552539 } };
    static const char *const names[] = { "roberta", "distilbert",  "camembert",
                                         "albert",  "xlm-roberta", "xlnet" };
    make_sentence_model(MODULES, "{}");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "sentence_%s_config.json", names[i]);
        write_file(name, "{\"max_seq_length\": 4}");
        check_embeddings("", 0, 16, four);
        write_file(name, i % 2 ? "null" : "{}");
        check_embeddings("", 0, 16, modes[MEAN].expected);
    }
    write_file("sentence_xlnet_config.json", "{\"max_seq_length\": 12}");
    write_file("sentence_albert_config.json", "{\"max_seq_length\": 4}");
    check_embeddings("", 0, 16, four);
    write_file("sentence_bert_config.json", "{\"max_seq_length\": 12}");
    check_embeddings("", 0, 16, modes[MEAN].expected);
    write_file("sentence_bert_config.json", "{}");
    write_file("sentence_albert_config.json", "[]");
    program_check("embed -m $OUT/model a", 1,
                  "sentence_albert_config.json: the file's value is [], must be an object");
}

/* do_lower_case makes a tokenizer that keeps the case lower-case its text. */
Test(cli_embed, lower_case)
{
    static const double cased[2][3] = { { 1.6854870, -0.1682978, 0.4959869 },
                                        { 1.7190676, 0.0460429, 0.5552539 } };
    make_sentence_model(MODULES, "{}");
    check_embeddings("--cased", 0, 16, cased);
    write_file("tokenizer.json",
               "{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":false,"
               "\"strip_accents\":null},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
               "\"post_processor\":{\"type\":\"TemplateProcessing\","
               "\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"
               "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\","
               "\"type_id\":0}}],\"pair\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"
               "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\","
               "\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},"
               "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":1}}],"
               "\"special_tokens\":{\"[CLS]\":{\"ids\":[2]},\"[SEP]\":{\"ids\":[3]}}},"
               "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
               "\"added_tokens\":[],\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
               "\"max_input_chars_per_word\":100,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,"
               "\"[SEP]\":3,\"a\":4,\"aa\":5,\"aaa\":6,\"aaaa\":7}}}");
    check_embeddings("", 0, 16, cased);
    write_file("sentence_bert_config.json", "{\"do_lower_case\": true}");
    check_embeddings("", 0, 16, modes[MEAN].expected);
    check_embeddings("--cased", 0, 16, cased);
}

/* do_lower_case applies to an added token that is matched in the normalized text. */
Test(cli_embed, lower_case_of_added_tokens)
{
    make_sentence_model(MODULES, "{}");
    write_file("tokenizer_config.json", "{\"do_lower_case\": false}");
    program_shell("sed -i '$d' $OUT/model/vocab.txt"); /* the model has 40 embeddings */
    write_file("added_tokens.json", "{\"B\": 39}");
    write_file("sentence_bert_config.json", "{\"do_lower_case\": true}");
    program_shell("\"$BRASA\" embed -m $OUT/model 'a B' 'a b' 'a c' >$OUT/cosines && "
                  "grep -q '^ 1.0000  1.0000  0' $OUT/cosines");
}

/* A side file that is wrong. */
Test(cli_embed, bad_files)
{
    static const struct {
        const char *file, *text, *message;
    } rows[] = {
        { "modules.json", "[" TRANSFORMER,
          "model/modules.json: line 1, column 81: ']' expected near end of file" },
        { "modules.json", "{\"a\": 1}",
          "model/modules.json: the file's value is {\"a\":1}, must be a list" },
        { "modules.json", "[1]", "modules.json: module 0 must have a type and a path" },
        { "modules.json", "[{\"type\": \"a\", \"type\": \"b\"}]",
          "modules.json: line 1, column 21: duplicate object key near '\"type\"'" },
        { "modules.json", "[" TRANSFORMER "," POOLING "," MODULE("2_Dense", "Dense") "]",
          "model/modules.json: module 2 is sentence_transformers.models.Dense, but 'brasa embed' "
          "supports only Transformer, Pooling and Normalize" },
        { "modules.json", "[{\"path\": \"\", \"type\": \"own.Transformer\"}]",
          "modules.json: module 0 is own.Transformer, but" },
        { "modules.json", "[" POOLING "," TRANSFORMER "]",
          "modules.json: module 0 is sentence_transformers.models.Pooling, but the order must be" },
        { "modules.json", "[" TRANSFORMER "," TRANSFORMER "]", "modules.json: module 1 is" },
        { "modules.json", "[" MODULE("../x", "Transformer") "]",
          "modules.json: the path of module 0 is \"../x\", must be a folder in the model's" },
        { "modules.json", "[]", "modules.json: the list has no Transformer module" },
        { "modules.json", "[" TRANSFORMER "]",
          "modules.json: the list has no Pooling module; --pooling MODE chooses a mode" },
        { "1_Pooling/config.json", "", "model/1_Pooling/config.json: line 1, column 0: " },
        { "1_Pooling/config.json", "[]", "1_Pooling/config.json: the file's value is [], must be" },
        { "1_Pooling/config.json", "{\"pooling_mode\": \"median\"}",
          "1_Pooling/config.json: pooling_mode is \"median\", must be one of \"cls\", \"max\", "
          "\"mean\", \"mean_sqrt_len_tokens\", \"weightedmean\", \"lasttoken\", or a list of them; "
          "--pooling MODE overrides it" },
        { "1_Pooling/config.json", "{\"pooling_mode\": []}", "pooling_mode is an empty list" },
        { "1_Pooling/config.json", "{\"pooling_mode\": [\"cls\", 1]}",
          "pooling_mode is 1, must be" },
        { "1_Pooling/config.json", "{\"pooling_mode_median\": true}",
          "pooling_mode_median is not a known pooling mode; --pooling MODE overrides it" },
        { "1_Pooling/config.json", "{\"pooling_mode_cls_token\": \"yes\"}",
          "config.json: pooling_mode_cls_token is \"yes\", must be true or false" },
        { "1_Pooling/config.json", "{\"include_prompt\": 1}",
          "config.json: include_prompt is 1, must be true or false" },
        { "1_Pooling/config.json", "{\"word_embedding_dimension\": 384}",
          "1_Pooling/config.json: word_embedding_dimension is 384, but hidden_size is 16 in " },
        { "1_Pooling/config.json", "{\"word_embedding_dimension\": null}",
          "config.json: word_embedding_dimension is null, must be an integer" },
        { "1_Pooling/config.json", "{\"pooling_mode\": null}",
          "config.json: pooling_mode is null, must be one of" },
        { "config_sentence_transformers.json", "{\"prompts\": null}",
          "prompts is null, must be an object" },
        { "1_Pooling/config.json", "{\"embedding_dimension\": 16.5}",
          "config.json: embedding_dimension is 16.5, must be an integer" },
        { "2_Normalize/config.json", "{\"module_input_name\": \"token_embeddings\"}",
          "2_Normalize/config.json: module_input_name is \"token_embeddings\", must be" },
        { "sentence_bert_config.json", "{\"max_seq_length\": \"128\"}",
          "sentence_bert_config.json: max_seq_length is \"128\", must be an integer in 3 .. "
          "2147483647; --max-length N overrides it" },
        { "sentence_bert_config.json", "{\"do_lower_case\": 0}", "do_lower_case is 0, must be" },
        { "tokenizer_config.json", "{\"model_max_length\": -1}",
          "tokenizer_config.json: model_max_length is -1.0, must be an integer of at least 3; "
          "--max-length N overrides it" },
        { "tokenizer_config.json", "{\"model_max_length\": 128.5}",
          "tokenizer_config.json: model_max_length is 128.5, must be an integer of at least 3" },
        { "tokenizer_config.json", "{\"truncation_side\": \"up\"}",
          "tokenizer_config.json: truncation_side is \"up\", must be \"left\" or \"right\"" },
        { "config_sentence_transformers.json", "{\"default_prompt_name\": \"q\"}",
          "config_sentence_transformers.json: default_prompt_name is \"q\", must be the name of" },
        { "config_sentence_transformers.json", "{\"default_prompt_name\": 1}",
          "default_prompt_name is 1, must be a string" },
        { "config_sentence_transformers.json",
          "{\"default_prompt_name\": \"q\", \"prompts\": [\"q\"]}",
          "prompts is [\"q\"], must be an object" },
        { "config_sentence_transformers.json",
          "{\"default_prompt_name\": \"q\", \"prompts\": {\"q\": 1}}",
          "the prompt \"q\" is not a string" },
    };
    static const char all[] =
        "[" TRANSFORMER "," POOLING "," MODULE("2_Normalize", "Normalize") "]";
    make_sentence_model(all, "{}");
    program_check("embed -m $OUT/model a", 0, "1.0000");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file(rows[i].file, rows[i].text);
        program_check("embed -m $OUT/model a", 1, rows[i].message);
        write_file(rows[i].file, strcmp(rows[i].file, "modules.json") == 0 ? all : "{}");
    }
    program_shell("sed -i 's/\"bert\"/\"mpnet\"/' $OUT/model/config.json");
    program_check("embed -m $OUT/model a", 1, "mpnet");
    program_shell("sed -i 's/\"mpnet\"/\"bert\"/' $OUT/model/config.json");
    program_shell("rm $OUT/model/1_Pooling/config.json");
    program_check("embed -m $OUT/model a", 1, "model/1_Pooling/config.json: cannot be opened");
    program_check("embed -m $OUT/model -p cls a", 0, "1.0000");
    program_check("embed -m $OUT/model -p median a", 2,
                  "--pooling is 'median', must be cls, max, mean, mean_sqrt_len, weightedmean or "
                  "lasttoken");
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
