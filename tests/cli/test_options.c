/* tests/cli/test_options.c - every option of the commands changes what the command prints, or
 * refuses a wrong value. Options without an effect on the results are listed as such. The help
 * texts list the options. */
#include "tests/cli/program.h"
#include "tests/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(cli_options, .init = program_begin, .fini = program_end);

/* Two calls of a command, without and with the option. `same`: their output is equal. */
typedef struct pair {
    const char *command, *option, *without, *with;
    bool same;
} pair;

#define WORDS    "--model $OUT/bert"
#define ON_PAGE  "-o $OUT/page.html"
#define SHOW     " && cat $OUT/page.html"
#define BAD_UNIT "--matmul-precision best"

/* A short run into $OUT/NAME, whose printed times are left out. */
#define TRAIN(name, options)                                                                 \
    "copy-task --preset small --steps 2 --set warmup=0 --set num_samples=2 --out $OUT/" name \
    " " options " 2>&1 | sed 's/  [0-9.]* steps.*//'"
#define AGAIN(options) TRAIN("run", "--overwrite " options)
#define TUNE(name, options)                                                                  \
    "--data $OUT/texts --set held_out=0 --overwrite --steps 2 --lr 0.01 -m $OUT/gpt2 --out " \
    "$OUT/" name " " options " 2>&1 | sed 's/  [0-9.]* tokens.*//'"
#define RETUNE(options)      TUNE("tuned", options)
#define LEARN(text, options) "--data $OUT/" text " --out $OUT/learned --overwrite " options " 2>&1"
/* Counts the lines of a measurement that match. */
#define TIMED(part, options, pattern) \
    part " --seconds 1e-6 " options " </dev/null 2>&1 | grep -c '" pattern "'"
#define EMBED "--model $OUT/bert --filter embed-lines"
#define RANKS "scale --filter ranks --threads 1 --seconds 1e-6"

static const pair pairs[] = {
    { "tokenize", "vocab", "-v $OUT/bert/vocab.txt 'a aa'", "-v $OUT/other.txt 'a aa'", false },
    { "tokenize", "merges", "-v $OUT/v.json --merges $OUT/none.txt ab",
      "-v $OUT/v.json --merges $OUT/ab.txt ab", false },
    { "tokenize", "tokenizer", "-t tests/tokenizers/bpe/tokenizer.json a",
      "-t tests/tokenizers/unigram/tokenizer.json a", false },
    { "tokenize", "model", WORDS " a", "--model $OUT/t5 a", false },
    { "tokenize", "cased", WORDS " A", WORDS " --cased A", false },
    { "tokenize", "file", WORDS " -f $OUT/one", WORDS " -f $OUT/two", false },
    { "tokenize", "null", WORDS " -f $OUT/two", WORDS " -0 -f $OUT/two", false },
    { "tokenize", "pair", WORDS " a aa", WORDS " --pair a aa", false },
    { "tokenize", "max-length", WORDS " 'a aa aaa'", WORDS " -m 4 'a aa aaa'", false },
    { "tokenize", "truncate-left", WORDS " -m 4 'a aa aaa'",
      WORDS " -m 4 --truncate-left 'a aa aaa'", false },
    { "tokenize", "stride", WORDS " -m 4 'a aa aaa'", WORDS " -m 4 --stride 0 'a aa aaa'", false },
    { "tokenize", "ids", WORDS " 'a aa'", WORDS " --ids 'a aa'", false },
    { "tokenize", "split-special", WORDS " '[SEP]'", WORDS " --split-special '[SEP]'", false },
    { "tokenize", "strict", WORDS " -f $OUT/bytes", WORDS " --strict -f $OUT/bytes", false },
    { "tokenize", "json", WORDS " a", WORDS " --json a", false },

    { "train-tokenizer", "data", LEARN("two", ""), LEARN("ab.txt", ""), false },
    { "train-tokenizer", "out", LEARN("two", ""), LEARN("two", "--out $OUT/b"), false },
    { "train-tokenizer", "vocab-size", LEARN("texts", ""), LEARN("texts", "--vocab-size 258"),
      false },
    { "train-tokenizer", "min-frequency", LEARN("texts", ""), LEARN("texts", "--min-frequency 9"),
      false },
    { "train-tokenizer", "special", LEARN("two", ""), LEARN("two", "--special x --special y"),
      false },
    { "train-tokenizer", "overwrite", LEARN("two", ""), "--data $OUT/two --out $OUT/learned 2>&1",
      false },

    { "embed", "model", "-m $OUT/bert a aa", "-m $OUT/none a aa", false },
    { "embed", "cased", "-m $OUT/bert A aa", "-m $OUT/bert --cased A aa", false },
    { "embed", "file", "-m $OUT/bert -f $OUT/one", "-m $OUT/bert -f $OUT/two", false },
    { "embed", "max-length", "-m $OUT/bert 'a aa' aa", "-m $OUT/bert -l 3 'a aa' aa", false },
    { "embed", "pooling", "-m $OUT/bert a aa", "-m $OUT/bert -p max a aa", false },
    { "embed", "prompt-name", "-m $OUT/bert -j a", "-m $OUT/bert -j --prompt-name none a", false },
    { "embed", "truncate-dim", "-m $OUT/bert -j a", "-m $OUT/bert -j --truncate-dim 3 a", false },
    { "embed", "batch-size", "-m $OUT/bert a aa", "-m $OUT/bert -b 1 a aa", true },
    { "embed", "matmul-precision", "-m $OUT/bert a aa", "-m $OUT/bert " BAD_UNIT " a aa", false },
    { "embed", "dtype", "-m $OUT/bert -j a", "-m $OUT/bert --dtype bf16 -j a", false },
    { "embed", "amp", "-m $OUT/bert -j a", "-m $OUT/bert --amp bf16 -j a", false },
    { "embed", "adapter", "-m $OUT/bert a aa", "-m $OUT/bert --adapter $OUT/none a aa", false },
    { "embed", "json", "-m $OUT/bert a aa", "-m $OUT/bert -j a aa", false },

    { "attention", "model", "-m $OUT/bert a " ON_PAGE SHOW, "-m $OUT/cls a " ON_PAGE SHOW, false },
    { "attention", "checkpoint", "-m $OUT/bert a " ON_PAGE, "-c $OUT/none " ON_PAGE, false },
    { "attention", "out", "-m $OUT/bert a " ON_PAGE, "-m $OUT/bert a -o $OUT/b.html", false },
    { "attention", "view", "-m $OUT/bert a " ON_PAGE SHOW, "-m $OUT/bert a -v model " ON_PAGE SHOW,
      false },
    { "attention", "layer", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --layer 1 " ON_PAGE SHOW, false },
    { "attention", "head", "-m $OUT/bert a " ON_PAGE SHOW, "-m $OUT/bert a --head 1 " ON_PAGE SHOW,
      false },
    { "attention", "heads", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --heads 1 " ON_PAGE SHOW, false },
    { "attention", "include-layers", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --include-layers 1 " ON_PAGE SHOW, false },
    { "attention", "include-heads", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --include-heads 1 " ON_PAGE SHOW, false },
    { "attention", "display-mode", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --display-mode dark " ON_PAGE SHOW, false },
    { "attention", "expanded", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --expanded " ON_PAGE SHOW, false },
    { "attention", "raw-tokens", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --raw-tokens " ON_PAGE SHOW, false },
    { "attention", "precision", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --precision u8 " ON_PAGE SHOW, false },
    { "attention", "file", "-m $OUT/bert -f $OUT/one " ON_PAGE SHOW,
      "-m $OUT/bert -f $OUT/two " ON_PAGE SHOW, false },
    { "attention", "beside", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert --beside $OUT/cls a " ON_PAGE SHOW, false },
    { "attention", "map", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --map rollout " ON_PAGE SHOW, false },
    { "attention", "token", "-m $OUT/bert a -o $OUT/a.svg && cat $OUT/a.svg",
      "-m $OUT/bert a -o $OUT/a.svg --token 1 && cat $OUT/a.svg", false },
    { "attention", "part", "-m $OUT/t5 a a -o $OUT/a.svg && cat $OUT/a.svg",
      "-m $OUT/t5 a a -o $OUT/a.svg --part cross && cat $OUT/a.svg", false },
    { "attention", "cased", "-m $OUT/bert A " ON_PAGE SHOW, "-m $OUT/bert A --cased " ON_PAGE SHOW,
      false },
    { "attention", "matmul-precision", "-m $OUT/bert a " ON_PAGE,
      "-m $OUT/bert a " BAD_UNIT " " ON_PAGE, false },

    { "attention", "dtype", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --dtype bf16 " ON_PAGE SHOW, false },
    { "attention", "adapter", "-m $OUT/bert a " ON_PAGE SHOW,
      "-m $OUT/bert a --adapter $OUT/none " ON_PAGE SHOW, false },
    { "attention", "amp", "-m $OUT/bert a " ON_PAGE SHOW, "-m $OUT/bert a --amp bf16 " ON_PAGE SHOW,
      false },

    { "generate", "model", "-m $OUT/gpt2 cmd", "-m $OUT/t5 cmd", false },
    { "generate", "max-new-tokens", "-m $OUT/gpt2 cmd", "-m $OUT/gpt2 -n 1 cmd", false },
    { "generate", "temperature", "-m $OUT/gpt2 -s 1 -n 9 cmd", "-m $OUT/gpt2 -s 1 -T 9 -n 9 cmd",
      false },
    { "generate", "top-k", "-m $OUT/gpt2 -s 1 -T 9 -n 9 cmd",
      "-m $OUT/gpt2 -s 1 -T 9 -k 2 -n 9 cmd", false },
    { "generate", "top-p", "-m $OUT/gpt2 -s 1 -T 9 -n 9 cmd",
      "-m $OUT/gpt2 -s 1 -T 9 -p 0.1 -n 9 cmd", false },
    { "generate", "seed", "-m $OUT/gpt2 -n 9 cmd", "-m $OUT/gpt2 -s 0 -n 9 cmd", false },
    { "generate", "repetition-penalty", "-m $OUT/gpt2 -n 9 cmd", "-m $OUT/gpt2 -r 9 -n 9 cmd",
      false },
    { "generate", "no-special-tokens", "-m $OUT/t5 -s 3 -k 8 ab",
      "-m $OUT/t5 -s 3 -k 8 --no-special-tokens ab", false },
    { "generate", "set", "-m $OUT/gpt2 -n 9 cmd",
      "-m $OUT/gpt2 -n 9 --set no_repeat_ngram_size=1 cmd", false },
    { "generate", "stop", "-m $OUT/gpt2 -n 9 cmd", "-m $OUT/gpt2 -n 9 --stop aa cmd", false },
    { "generate", "chat", "-m $OUT/gpt2 cmd", "-m $OUT/gpt2 --chat cmd", false },
    { "generate", "system", "-m $OUT/gpt2 -n 9 --chat d", "-m $OUT/gpt2 -n 9 --chat --system cm d",
      false },
    { "generate", "chat-variables", "-m $OUT/gpt2 -n 9 --chat cm",
      "-m $OUT/gpt2 -n 9 --chat --chat-variables '{\"end\": \"d\"}' cm", false },
    { "generate", "matmul-precision", "-m $OUT/gpt2 cmd", "-m $OUT/gpt2 " BAD_UNIT " cmd", false },

    { "generate", "dtype", "-m $OUT/gpt2 cmd", "-m $OUT/gpt2 --dtype i64 cmd", false },
    { "generate", "adapter", "-m $OUT/gpt2 cmd",
      "-m $OUT/gpt2 --adapter tests/pretrained/adapters/gpt2 cmd", false },
    { "generate", "amp", "-m $OUT/gpt2 cmd", "-m $OUT/gpt2 --amp f16 cmd", false },

    { "fill-mask", "model", "-m $OUT/bert '[MASK]'", "-m $OUT/cls '[MASK]'", false },
    { "fill-mask", "checkpoint", "-m $OUT/bert '[MASK]'", "-c $OUT/none '[MASK]'", false },
    { "fill-mask", "cased", "-m $OUT/bert 'A [MASK]'", "-m $OUT/bert --cased 'A [MASK]'", false },
    { "fill-mask", "top-k", "-m $OUT/bert '[MASK]'", "-m $OUT/bert -k 1 '[MASK]'", false },
    { "fill-mask", "matmul-precision", "-m $OUT/bert '[MASK]'",
      "-m $OUT/bert " BAD_UNIT " '[MASK]'", false },
    { "fill-mask", "dtype", "-m $OUT/bert -j '[MASK]'", "-m $OUT/bert --dtype bf16 -j '[MASK]'",
      false },
    { "fill-mask", "amp", "-m $OUT/bert -j '[MASK]'", "-m $OUT/bert --amp bf16 -j '[MASK]'",
      false },
    { "fill-mask", "adapter", "-m $OUT/bert '[MASK]'", "-m $OUT/bert --adapter $OUT/none '[MASK]'",
      false },
    { "fill-mask", "json", "-m $OUT/bert '[MASK]'", "-m $OUT/bert -j '[MASK]'", false },

    { "info", "json", "$OUT/bert", "$OUT/bert --json", false },

    { "check", "threads", "$GOLDEN/bert.gelu.safetensors", "-t 1 $GOLDEN/bert.gelu.safetensors",
      true },
    { "check", "dtype", "$GOLDEN/bert.gelu.safetensors",
      "--dtype bf16 $GOLDEN/bert.gelu.safetensors", false },
    { "check", "amp", "$GOLDEN/bert.BERT.safetensors", "--amp bf16 $GOLDEN/bert.BERT.safetensors",
      false },
    { "check", "json", "$GOLDEN/bert.gelu.safetensors", "--json $GOLDEN/bert.gelu.safetensors",
      false },
    { "check", "list-ops", "$GOLDEN/bert.gelu.safetensors",
      "--list-ops $GOLDEN/bert.gelu.safetensors", false },

    { "train", "preset", AGAIN(""), AGAIN("--preset smal"), false },
    { "train", "as-written", AGAIN(""), AGAIN("--as-written"), false },
    { "train", "steps", AGAIN(""), AGAIN("--steps 1"), false },
    { "train", "seed", AGAIN(""), AGAIN("--seed 1"), false },
    { "train", "threads", AGAIN(""), AGAIN("--threads 1"), true },
    { "train", "amp", AGAIN(""), AGAIN("--amp bf16"), false },
    { "train", "dtype", AGAIN(""), AGAIN("--dtype bf16"), false },
    { "train", "matmul-precision", AGAIN(""), AGAIN(BAD_UNIT), false },
    { "train", "lr", AGAIN(""), AGAIN("--lr 0.1"), false },
    { "train", "set", AGAIN(""), AGAIN("--set batch=8"), false },
    { "train", "out", AGAIN(""), TRAIN("other", ""), false },
    { "train", "resume", TRAIN("run", ""), "copy-task --resume --out $OUT/run", false },
    { "train", "overwrite", TRAIN("run", ""), AGAIN(""), false },
    { "train", "data", AGAIN(""), AGAIN("--data $OUT/one"), false },
    { "train", "histograms", AGAIN(""), AGAIN("--histograms -1"), false },
    { "train", "profile", AGAIN(""), AGAIN("--profile=0"), false },

    { "finetune", "model", RETUNE(""), RETUNE("-m $OUT/t5"), false },
    { "finetune", "objective", RETUNE(""), RETUNE("--objective classify"), false },
    { "finetune", "data", RETUNE(""), RETUNE("--data $OUT/one"), false },
    { "finetune", "preset", RETUNE(""), RETUNE("--preset full"), false },
    { "finetune", "steps", RETUNE(""), RETUNE("--steps 1"), false },
    { "finetune", "seed", RETUNE("--set batch=1"), RETUNE("--set batch=1 --seed 1"), false },
    { "finetune", "threads", RETUNE(""), RETUNE("--threads 1"), true },
    { "finetune", "amp", RETUNE(""), RETUNE("--amp bf16"), false },
    { "finetune", "dtype", RETUNE(""), RETUNE("--dtype bf16"), false },
    { "finetune", "matmul-precision", RETUNE(""), RETUNE(BAD_UNIT), false },
    { "finetune", "lr", RETUNE(""), RETUNE("--lr 0.1"), false },
    { "finetune", "set", RETUNE(""), RETUNE("--set length=2"), false },
    { "finetune", "out", RETUNE(""), TUNE("other", ""), false },
    { "finetune", "resume", RETUNE(""), "--resume --data $OUT/texts --out $OUT/tuned", false },
    { "finetune", "overwrite", RETUNE(""), "-m $OUT/gpt2 --data $OUT/texts --out $OUT/tuned",
      false },
    { "finetune", "histograms", RETUNE(""), RETUNE("--histograms -1"), false },
    { "finetune", "profile", RETUNE(""), RETUNE("--profile=0"), false },

    /* Options that affect only times are tested with a value that is refused. */
    { "bench", "threads", "small --list", "small --list --threads 0", false },
    { "bench", "matmul-precision", "small --list", "small --list " BAD_UNIT, false },
    { "bench", "amp", "models --list", "models --list --amp f32", false },
    { "bench", "dtype", "models --list", "models --list --dtype i8", false },
    { "bench", "tokens", "pretrained --list", "pretrained --list --tokens 0", false },
    { "bench", "batch", "pretrained --list", "pretrained --list --batch 0", false },
    { "bench", "filter", "small --list", "small --list --filter add", false },
    { "bench", "list", TIMED("small", "--filter add", "ns$"),
      TIMED("small", "--filter add --list", "ns$"), false },
    { "bench", "seconds", "small --list", "small --list --seconds 0", false },
    { "bench", "json", TIMED("small", "--filter add", "^{"),
      TIMED("small", "--filter add --json", "^{"), false },
    { "bench", "model", "embed", "embed --model $OUT/none", false },
    { "bench", "file", TIMED("embed", EMBED, "nothing matches"),
      TIMED("embed", EMBED " --file $OUT/one", "nothing matches"), false },
    { "bench", "serve", TIMED("small", "--filter add", "ns$"),
      TIMED("small", "--filter add --serve", "ns$"), false },
    { "bench", "accumulate", "ranks --list", "ranks --list --accumulate 0", false },
    { "bench", "plot", RANKS " >$OUT/printed; ls $OUT/plots",
      RANKS " --plot $OUT/plots >$OUT/printed; ls $OUT/plots", false },
    { "bench", "profile", "models --list", "models --list --profile=0", false },
};
enum { N_PAIRS = sizeof pairs / sizeof *pairs };

/* Creates the models bert, cls, gpt2 and t5, and texts. */
static void make_files(void)
{
    program_make_gpt2();
    program_shell("echo \"{{ messages | map(attribute='content') | join }}{{ end }}\" >"
                  "$OUT/gpt2/chat_template.jinja");
    program_make_t5();
    program_shell("mkdir $OUT/bert $OUT/cls && cp tests/models/hf_bert/pretraining/* $OUT/bert && "
                  "cp tests/models/hf_bert/classifier/* $OUT/cls && cd $OUT && "
                  "(printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n[MASK]\\n'; w=; for i in $(seq 35); do "
                  "w=a$w; echo $w; done) >bert/vocab.txt && cp bert/vocab.txt cls && "
                  "sed 's/^aa$/b/' bert/vocab.txt >other.txt");
    program_shell("cd $OUT && echo '{\"a\":0,\"b\":1,\"ab\":2}' >v.json && : >none.txt && "
                  "echo 'a b' >ab.txt && echo 'a aa' >one && printf 'a\\naa\\n' >two && "
                  "printf 'a\\377\\n' >bytes && "
                  "for t in abc cab the 123; do echo '{\"text\": \"'$t'\"}'; done >texts");
}

/* Runs the program; returns what it prints, to be freed. */
static char *output_of(const char *command, const char *arguments)
{
    enum { SIZE = 1 << 21 };
    char line[1024], *output = malloc(SIZE);
    snprintf(line, sizeof line, "%s %s", command, arguments);
    program_run(line, output, SIZE);
    cr_assert_lt(strlen(output), SIZE - 1, "%s", line);
    return output;
}

Test(cli_options, each_has_an_effect, .timeout = 120)
{
    make_files();
    for (int i = 0; i < N_PAIRS; i++) {
        const pair *p = &pairs[i];
        char *without = output_of(p->command, p->without), *with = output_of(p->command, p->with);
        cr_expect((strcmp(without, with) == 0) == p->same, "brasa %s %s\nbrasa %s %s\n%.300s%.300s",
                  p->command, p->without, p->command, p->with, without, with);
        free(without);
        free(with);
    }
}

/* Without an option, a command does what it does with the default that the help text states. */
Test(cli_options, defaults_are_those_of_the_help_texts)
{
    static const char *const calls[][3] = {
        { "generate", "-m $OUT/t5 --set eos_token_id=null ab", "--max-new-tokens 50" },
        { "generate", "-m $OUT/gpt2 -p 0.9 -n 9 cmd", "--seed 0" },
        { "generate", "-m $OUT/gpt2 -s 1 -n 9 cmd", "--temperature 1 --top-p 1" },
        { "generate", "-m $OUT/gpt2 -s 1 -n 9 cmd", "--top-k 50 --repetition-penalty 1" },
        { "fill-mask", "-m $OUT/bert '[MASK]'", "--top-k 5" },
        { "attention", "-m $OUT/bert a " ON_PAGE SHOW, "--view head --layer 0" },
        { "attention", "-m $OUT/bert a " ON_PAGE SHOW, "--precision auto --display-mode auto" },
    };
    make_files();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char stated[512];
        snprintf(stated, sizeof stated, "%s %s", calls[i][2], calls[i][1]);
        char *without = output_of(calls[i][0], calls[i][1]), *with = output_of(calls[i][0], stated);
        cr_expect_str_eq(with, without, "brasa %s %s", calls[i][0], stated);
        free(without);
        free(with);
    }
}

/* Special tokens that were added have no word, no characters and no bytes. */
Test(cli_options, json_of_tokens)
{
    make_files();
    program_check("tokenize " WORDS " -j -m 4 --stride 0 'a aa aaa'", 0,
                  "{\"ids\":[2,5,6,3],\"type_ids\":[0,0,0,0],\"word_ids\":[null,0,1,null],"
                  "\"special_mask\":[1,0,0,1],\"chars\":[[0,0],[0,1],[2,4],[0,0]],"
                  "\"bytes\":[[0,0],[0,1],[2,4],[0,0]],"
                  "\"tokens\":[\"[CLS]\",\"a\",\"aa\",\"[SEP]\"],"
                  "\"overflow\":[{\"ids\":[2,7,3],\"type_ids\":[0,0,0],"
                  "\"word_ids\":[null,2,null],\"special_mask\":[1,0,1],"
                  "\"chars\":[[0,0],[5,8],[0,0]],\"bytes\":[[0,0],[5,8],[0,0]],"
                  "\"tokens\":[\"[CLS]\",\"aaa\",\"[SEP]\"]}]}\n");
}

Test(cli_options, ids_of_tokens)
{
    make_files();
    program_check("tokenize " WORDS " --ids 'a aa aaa' aa", 0, "2 5 6 7 3\n2 6 3\n");
    program_check("tokenize " WORDS " --ids --json a", 2, "--ids cannot be used with --json");
    program_check("tokenize " WORDS " -i -m 4 --stride 0 a", 2, "--ids cannot be used with");
}

/* Prints the tokens of both ways to encode, which are equal in number. */
Test(cli_options, bench_of_tokenizers)
{
    make_files();
    program_shell("mkdir -p $OUT/words && printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n[MASK]\\na\\n' "
                  ">$OUT/words/vocab.txt && printf 'a b\\n\\na\\n' >$OUT/lines");
    const char *const filters[] = { "ids-lines", "offsets-lines" };
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++) {
        char command[256];
        snprintf(command, sizeof command,
                 "bench tokenizers --model $OUT/words --file $OUT/lines --json --seconds 0.01 "
                 "--filter %s | grep -o '\"tokens\": [0-9]*'",
                 filters[i]);
        program_check(command, 0, "\"tokens\": 9\n"); /* 3 of text, and 2 for each line */
    }
    program_check("bench tokenizers --model $OUT/words", 2, "needs --model DIR and --file FILE");
    program_shell(": >$OUT/empty");
    program_check("bench tokenizers --model $OUT/words --file $OUT/empty", 1, "is empty");
}

/* Every option that the help texts list is in the table above. */
Test(cli_options, all_are_tested)
{
    char options[PROGRAM_OPTIONS][PROGRAM_OPTION_SIZE];
    const char *last = "";
    for (int i = 0; i < N_PAIRS; i++) {
        const char *command = pairs[i].command;
        if (strcmp(command, last) == 0)
            continue;
        last = command;
        int n = program_options(command, options);
        for (int o = 0; o < n; o++) {
            bool found = false;
            for (int k = 0; k < N_PAIRS; k++)
                found |= strcmp(pairs[k].command, command) == 0 &&
                         strcmp(pairs[k].option, options[o] + strlen("--")) == 0;
            cr_expect(found, "brasa %s %s is not tested", command, options[o]);
        }
    }
}

/* A byte-order mark at the beginning of a file is left out, but with --null it belongs to the first
 * text. */
Test(cli_options, null_keeps_every_byte)
{
    make_files();
    program_shell(
        "printf '\\357\\273\\277aa\\n' >$OUT/lines && printf '\\357\\273\\277aa\\0' >$OUT/nuls");
    program_check("tokenize " WORDS " -j -f $OUT/lines", 0, "\"chars\":[[0,0],[0,2],[0,0]]");
    program_check("tokenize " WORDS " -j -0 -f $OUT/nuls", 0, "\"chars\":[[0,0],[1,3],[0,0]]");
}

/* Tensors in bf16 have half the bytes of those in f32. */
Test(cli_options, bench_models_in_bf16)
{
    program_shell(
        "for d in f32 bf16; do \"$BRASA\" bench models --filter attention-2048-causal/forward "
        "--seconds 1e-6 --json --dtype $d >$OUT/$d || exit; done; "
        "grep -q '\"dtype\": \"bf16\"' $OUT/bf16 && cat $OUT/f32 $OUT/bf16 | "
        "sed 's/.*held_mib\": //; s/, .*//' | "
        "awk 'NR == 1 { f32 = $1 } END { exit !($1 / f32 < 0.52) }'");
}

/* A part of `brasa bench` refuses the options of other parts, which it would ignore. */
Test(cli_options, bench_refuses_options_of_other_parts)
{
    program_check("bench kernels --list --model $OUT", 2, "bench: kernels does not take --model");
    program_check("bench models --list --file $OUT", 2, "bench: models does not take --file");
    program_check("bench scale --list --serve", 2, "bench: scale does not take --serve");
    program_check("bench embed --list --plot $OUT", 2, "bench: embed does not take --plot");
    program_check("bench sweep --list --profile=2", 2, "bench: sweep does not take --profile");
    program_check("bench kernels --list --amp bf16", 2, "bench: kernels does not take --amp");
    program_check("bench kernels --list --dtype f64", 2, "bench: kernels does not take --dtype");
    program_check("bench models --list --dtype f64 --amp bf16", 2,
                  "bench: --amp does not convert operands of f64: leave out --amp or --dtype");
    program_check("bench small --list --accumulate 2", 2,
                  "bench: small does not take --accumulate");
}
