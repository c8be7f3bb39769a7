/* tests/cli/program.c - runs the program in a temporary directory. */
#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char program_directory[TEMPORARY_PATH];

void program_begin(void)
{
    cr_assert(temporary_folder("cli", program_directory));
    cr_assert_eq(chdir(BRASA_TEST_DIR "/.."), 0);
    unsetenv("BRASA_ERRORS"); /* the commands must print their errors themselves, once */
    setenv("OUT", program_directory, 1);
    setenv("GOLDEN", BRASA_TEST_DIR "/golden", 1);
    setenv("BRASA", BRASA_PROGRAM, 1);
}

void program_end(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", program_directory);
    cr_assert_eq(system(command), 0);
}

void program_begin_with_shim(void)
{
    program_begin();
    const char *options = getenv("ASAN_OPTIONS");
    char text[512];
    /* Without this option, the sanitizer requires that its own library is loaded first. */
    snprintf(text, sizeof text, "%s:verify_asan_link_order=0", options ? options : "");
    setenv("ASAN_OPTIONS", text, 1);
    setenv("SHIM", BRASA_CALLS_SHIM, 1);
}

int program_run(const char *arguments, char *output, size_t size)
{
    char command[2048];
    snprintf(command, sizeof command, "{ \"$BRASA\" %s; } 2>&1", arguments);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    size_t n = fread(output, 1, size - 1, pipe);
    output[n] = 0;
    int status = pclose(pipe);
    cr_assert(WIFEXITED(status), "%s: killed", command);
    return WEXITSTATUS(status);
}

void program_check(const char *arguments, int status, const char *part)
{
    static char output[1 << 16];
    int got = program_run(arguments, output, sizeof output);
    cr_assert_eq(got, status, "brasa %s: exit status %d, not %d:\n%s", arguments, got, status,
                 output);
    cr_assert(strstr(output, part), "brasa %s: no \"%s\" in\n%s", arguments, part, output);
}

int program_options(const char *command, char options[PROGRAM_OPTIONS][PROGRAM_OPTION_SIZE])
{
    static char help[1 << 16];
    char arguments[64];
    snprintf(arguments, sizeof arguments, "%s --help", command);
    cr_assert_eq(program_run(arguments, help, sizeof help), 0, "%s", help);
    int n = 0;
    for (char *line = strtok(help, "\n"); line; line = strtok(NULL, "\n")) {
        const char *start = strstr(line, "--");
        /* The line of an option begins with it, or with its letter: "  -j, --json". */
        if (!start || start - line > 6 || line[strspn(line, " ")] != '-' ||
            strncmp(start, "--help", strlen("--help")) == 0)
            continue;
        cr_assert(n < PROGRAM_OPTIONS);
        snprintf(options[n++], PROGRAM_OPTION_SIZE, "%.*s", (int)strcspn(start, " ["), start);
    }
    cr_assert(n > 0, "%s", command);
    return n;
}

void program_shell(const char *command)
{
    cr_assert_eq(system(command), 0, "%s", command);
}

void program_make_gpt2(void)
{
    program_shell("mkdir $OUT/gpt2 && cp tests/models/gpt2/lm/* $OUT/gpt2 && "
                  "(printf '{'; i=0; for w in a b c d e f g h i j k l m n o p q r s t u v w x y z "
                  "0 1 2 3 4 5 6 7 8 9 th he; do printf '\"%s\": %d, ' $w $i; i=$((i + 1)); done; "
                  "printf '\"\\304\\240\": 38, \"<|endoftext|>\": 39}') >$OUT/gpt2/vocab.json && "
                  "printf '#version: 0.2\\nt h\\nh e\\n' >$OUT/gpt2/merges.txt");
}

void program_make_t5(void)
{
    program_shell(
        "mkdir $OUT/t5 && cp tests/models/t5/relu/* $OUT/t5 && sign='\"type\":\"Metaspace\","
        "\"replacement\":\"\\u2581\"' && a='{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}' && "
        "b='{\"Sequence\":{\"id\":\"B\",\"type_id\":0}}' && "
        "end='{\"SpecialToken\":{\"id\":\"</s>\",\"type_id\":0}}' && "
        "(printf '{\"added_tokens\":[{\"id\":0,\"content\":\"<pad>\",\"special\":true},"
        "{\"id\":1,\"content\":\"</s>\",\"special\":true}],\"pre_tokenizer\":{'; "
        "echo \"$sign},\\\"decoder\\\":{$sign},\"; "
        "printf '\"post_processor\":{\"type\":\"TemplateProcessing\",\"special_tokens\":"
        "{\"</s>\":{\"ids\":[1]}},'; echo "
        "\"\\\"single\\\":[$a,$end],\\\"pair\\\":[$a,$end,$b,$end]},\"; "
        "printf '\"model\":{\"type\":\"Unigram\",\"unk_id\":2,\"vocab\":[[\"<pad>\",0],"
        "[\"</s>\",0],[\"<unk>\",0],[\"\\342\\226\\201\",-1]'; "
        "for w in a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9; do "
        "printf ',[\"%s\",-2]' $w; done; printf ']}}') >$OUT/t5/tokenizer.json");
}
