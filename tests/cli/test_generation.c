/* tests/cli/test_generation.c - `brasa generate` with a generation_config.json: every key, options
 * that override it, messages, and the text of tokenizers whose tokens depend on each other.
 */
#include "tests/cli/program.h"
#include "tests/support.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

TestSuite(cli_generation, .init = program_begin, .fini = program_end);

/* Creates the folders gpt2 and t5 with recorded models of 40 tokens: letters, digits, ... */
static void make_models(void)
{
    program_make_gpt2();
    program_make_t5();
}

/* Writes a file below the folder of the test. */
static void write_file(const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", program_directory, name);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Writes generation_config.json, or the recorded config.json with these keys. */
static void write_keys(const char *model, const char *file, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s/generation_config.json", program_directory, model);
    remove(path);
    snprintf(path, sizeof path, "%s/%s/%s", BRASA_TEST_DIR "/models", model,
             strcmp(model, "gpt2") == 0 ? "lm/config.json" : "relu/config.json");
    json_t *config = json_load_file(path, 0, NULL), *keys = json_loads(text, 0, NULL);
    cr_assert(config && keys, "%s", text);
    char *all = NULL;
    if (strcmp(file, "config.json") == 0) {
        json_object_update(config, keys);
        all = json_dumps(config, JSON_REAL_PRECISION(15));
    }
    snprintf(path, sizeof path, "%s/%s", model, file);
    write_file(path, all ? all : text);
    free(all);
    json_decref(config);
    json_decref(keys);
}

/* Checks that the command prints exactly this text and a line end. */
static void check_text(const char *arguments, const char *text, const char *message)
{
    static char command[1024], output[1024];
    snprintf(command, sizeof command, "\"$BRASA\" generate %s 2>/dev/null", arguments);
    FILE *pipe = popen(command, "r");
    size_t n = fread(output, 1, sizeof output - 1, pipe);
    output[n] = 0;
    cr_assert_eq(pclose(pipe), 0, "%s", message);
    cr_assert(n > 0 && output[n - 1] == '\n');
    output[n - 1] = 0;
    cr_assert_str_eq(output, text, "%s: \"%s\", not \"%s\"", message, output, text);
}

/* Replaces "\\n" by the newline that it stands for. */
static void unescape(char *text)
{
    for (char *at; (at = strstr(text, "\\n"));) {
        *at = '\n';
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
}

/* Checks one row of the file: model, file, its keys, options, what happens, and the text. */
static void check_row(char *line)
{
    char *rest = line, *field[6], arguments[512], message[1024];
    for (int i = 0; i < 6; i++)
        cr_assert(field[i] = strsep(&rest, "\t"), "%s", line);
    snprintf(message, sizeof message, "%s %s %s %s", field[0], field[1], field[2], field[3]);
    write_keys(field[0], field[1], field[2]);
    snprintf(arguments, sizeof arguments, "-m $OUT/%s %s '%s'", field[0], field[3],
             strcmp(field[0], "gpt2") == 0 ? "cmd" : "x y z 9");
    if (strcmp(field[4], "refused") != 0) {
        unescape(field[5]);
        check_text(arguments, field[5], message);
        return;
    }
    char command[600];
    snprintf(command, sizeof command, "generate %s", arguments);
    program_check(command, 1, field[5]);
    program_check(command, 1, "=VALUE)");
}

/* Every key that transformers writes, from the recorded file; and keys in a config.json. */
Test(cli_generation, every_key, .timeout = 120)
{
    char line[1024];
    int n = 0;
    make_models();
    FILE *file = fopen(BRASA_TEST_DIR "/cli/generation_cases.tsv", "r");
    cr_assert(file);
    for (; fgets(line, sizeof line, file); n++) {
        line[strcspn(line, "\n")] = 0;
        check_row(line);
    }
    fclose(file);
    cr_assert(n > 150);
}

/* Errors and warnings name the file, and errors say how to mend the value with an option. */
Test(cli_generation, messages)
{
    make_models();
    write_file("gpt2/generation_config.json", "{\"do_sample\": 1}");
    program_check("generate -m $OUT/gpt2 cmd", 1,
                  "gpt2/generation_config.json: do_sample is 1, must be true, false or null; give "
                  "another value for do_sample (brasa generate: --set do_sample=VALUE)");
    write_file("gpt2/generation_config.json", "{\"max_length\": 3}");
    program_check(
        "generate -m $OUT/gpt2 cmd", 1,
        "gpt2/generation_config.json: max_length is 3, but the prompt has 3 tokens, which "
        "leaves no room for new ones; give another value for max_new_tokens (brasa "
        "generate: --set max_new_tokens=VALUE)");
    write_file("gpt2/generation_config.json", "{\"eos_token_id\": 17, \"\\u001bx\": 2}");
    program_check("generate -m $OUT/gpt2 cmd 2>&1", 0,
                  "gpt2/generation_config.json: results may differ from those of transformers, "
                  "because these keys are unknown: \\u001bx\n");
}

Test(cli_generation, set)
{
    make_models();
    check_text("-m $OUT/gpt2 --set max_length=5 cmd", "cmdaa", "--set");
    write_file("gpt2/generation_config.json",
               "{\"max_new_tokens\": 1, \"eos_token_id\": 17, \"x\": null}");
    check_text("-m $OUT/gpt2 cmd", "cmda", "the file");
    check_text("-m $OUT/gpt2 --set max_new_tokens=null cmd", "cmdaaar",
               "null replaces the file's value");
    program_shell("\"$BRASA\" generate -m $OUT/gpt2 cmd 2>&1 >$OUT/text | cmp - /dev/null");
    program_shell("rm $OUT/gpt2/generation_config.json");
    program_check("generate -m $OUT/gpt2 --set top_q=1 cmd", 2,
                  "--set top_q: generation_config.json has no such key; did you mean 'top_");
    program_check("generate -m $OUT/gpt2 --set top_k cmd", 2,
                  "--set is 'top_k', must be KEY=VALUE");
    program_check("generate -m $OUT/gpt2 --set top_k=x cmd", 2, "the value 'x' is not JSON");
    program_check(
        "generate -m $OUT/gpt2 --set guidance_scale=3 cmd", 1,
        "the given guidance_scale is 3, must be 1 or null: other values are not supported");
}

/* The prompt is printed only when the first token is known. */
Test(cli_generation, nothing_is_printed_before_an_error)
{
    make_models();
    program_shell("! \"$BRASA\" generate -m $OUT/gpt2 abcdefghijklmnopqrstuvwxy >$OUT/text 2>&1 && "
                  "! grep -q '^abc' $OUT/text && test \"$(wc -l <$OUT/text)\" = 1");
}

/* A byte-level token may be U+0000, which a C string cannot contain. */
Test(cli_generation, a_generated_nul)
{
    make_models();
    program_shell("sed -i 's/\"a\"/\"\\\\u0100\"/' $OUT/gpt2/vocab.json && "
                  "\"$BRASA\" generate -m $OUT/gpt2 cmd >$OUT/text && "
                  "printf 'cmd\\0\\0\\0r\\n' | cmp - $OUT/text");
}

/* WordPiece: "##" joins a token to the word before it, and other tokens begin with a space. With
 * its special tokens, the prompt ends with [SEP]. */
Test(cli_generation, word_pieces)
{
    make_models();
    program_shell("rm $OUT/gpt2/vocab.json $OUT/gpt2/merges.txt && "
                  "(printf '##a\\n[UNK]\\nc\\n[PAD]\\n[CLS]\\n[SEP]\\n[MASK]\\nh\\ni\\nJ\\n'; "
                  "for i in $(seq 10 39); do echo w$i; done) >$OUT/gpt2/vocab.txt");
    write_file("gpt2/generation_config.json", "{\"max_new_tokens\": 5, \"eos_token_id\": 39}");
    check_text("-m $OUT/gpt2 --no-special-tokens 'c w12'", "c w12a w34aa w17", "WordPiece");
    check_text("-m $OUT/gpt2 'c w12'", "c w12a w39", "WordPiece with [SEP]");
}

/* With clean_up_tokenization_spaces, a token can remove the space before the one before it. */
Test(cli_generation, clean_up_tokenization_spaces)
{
    make_models();
    program_shell("rm $OUT/gpt2/vocab.json $OUT/gpt2/merges.txt && "
                  "(printf '##m\\n[UNK]\\nc\\n[PAD]\\n[CLS]\\n[SEP]\\n[MASK]\\nh\\ni\\nJ\\n'; "
                  "for i in $(seq 10 33); do echo w$i; done; echo \"'\"; "
                  "for i in $(seq 35 39); do echo w$i; done) >$OUT/gpt2/vocab.txt");
    write_file("gpt2/generation_config.json", "{\"max_new_tokens\": 5, \"eos_token_id\": 39}");
    check_text("-m $OUT/gpt2 --no-special-tokens 'c w12'", "c w12m 'mm w17", "without");
    write_file("gpt2/tokenizer_config.json", "{\"clean_up_tokenization_spaces\": true}");
    check_text("-m $OUT/gpt2 --no-special-tokens 'c w12'", "c w12m'mm w17", "with");
}

/* Keys that old versions of transformers write to config.json are known. */
Test(cli_generation, no_warning_about_keys_of_generation)
{
    make_models();
    write_keys("gpt2", "config.json",
               "{\"max_new_tokens\": 4, \"min_new_tokens\": 2, \"min_p\": 0.1}");
    program_shell("\"$BRASA\" generate -m $OUT/gpt2 cmd 2>$OUT/warnings && "
                  "! grep unknown $OUT/warnings");
}

/* The head of an untied model without lm_head.weight is random. */
Test(cli_generation, missing_weights_are_named)
{
    make_models();
    program_shell("sed -i 's/\"tie_word_embeddings\": true/\"tie_word_embeddings\": false/' "
                  "$OUT/gpt2/config.json");
    program_check("generate -m $OUT/gpt2 cmd", 0,
                  "gpt2: the files do not have these weights, which have random values now: "
                  "lm_head.weight\n");
}
