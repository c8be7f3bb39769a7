/* tests/cli/finetune_checks.h - what the tests of `brasa finetune` share: data, a small encoder,
 * and the losses of a run in $OUT/run. */
#ifndef BRASA_TESTS_CLI_FINETUNE_CHECKS_H
#define BRASA_TESTS_CLI_FINETUNE_CHECKS_H

#include "tests/cli/program.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

/* Creates $OUT/bert: a BERT without dropout, with three labels, a vocabulary of "a", "aa", ..., and
 * no head. */
static inline void make_bert(void)
{
    program_shell("mkdir $OUT/bert && cp tests/models/encoders/bert2/* $OUT/bert && "
                  "sed -i 's/dropout_prob\": 0.1/dropout_prob\": 0/' $OUT/bert/config.json && "
                  "(printf '[PAD]\\n[UNK]\\n[CLS]\\n[SEP]\\n'; w=; for i in $(seq 18); do w=a$w; "
                  "echo $w; done) >$OUT/bert/vocab.txt");
}

/* Writes $OUT/data. */
static inline void write_data(const char *text)
{
    char path[TEMPORARY_PATH + 16];
    snprintf(path, sizeof path, "%s/data", program_directory);
    FILE *file = fopen(path, "w");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Checks the losses of the first n steps in the log, which may differ by this part of them. */
static inline void check_log(int n, const double *want, double tolerance)
{
    char path[TEMPORARY_PATH + 16];
    snprintf(path, sizeof path, "%s/run/log.jsonl", program_directory);
    FILE *file = fopen(path, "r");
    cr_assert(file);
    for (int i = 0; i < n; i++) {
        int step;
        double loss = NAN;
        cr_assert_eq(fscanf(file, " {\"step\": %d, \"loss\": %lf%*[^\n]", &step, &loss), 2);
        cr_assert_eq(step, i + 1);
        cr_assert(fabs(loss - want[i]) < tolerance * want[i], "step %d: %.9g, not %.9g", step, loss,
                  want[i]);
    }
    fclose(file);
}

/* Runs the program with these arguments. The speed that it prints for the last step must be that of
 * this many tokens in the time that the log has. */
static inline void check_tokens(const char *arguments, int tokens)
{
    char line[1024];
    snprintf(line, sizeof line,
             "\"$BRASA\" %s >$OUT/printed 2>&1 && "
             "seconds=$(sed -n '$s/.*\"seconds\": \\([^}]*\\)}/\\1/p' $OUT/run/log.jsonl) && "
             "sed -n 's|.* \\([0-9]*\\) tokens/s.*|\\1|p' $OUT/printed | tail -n 1 | "
             "awk -v seconds=$seconds '{ n = $1 * seconds } END { exit !(n > %d && n < %d) }'",
             arguments, tokens - 1, tokens + 1);
    program_shell(line);
}

#endif
