/* tests/train/test_scratch_bert.c - `brasa fill-mask -c`: the tokens and segments that a text gives
 * to the model of a run of bert-scratch. */
#include "tests/cli/program.h"
#include "train/scratch_bert.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static scratch_bert bert;

static void begin(void)
{
    char path[TEMPORARY_PATH + 32];
    program_begin();
    program_check("train bert-scratch --preset small --steps 0 --out $OUT/run", 0, "Wrote ");
    snprintf(path, sizeof path, "%s/run/checkpoint.safetensors", program_directory);
    cr_assert(scratch_bert_open(&bert, path, BR_DTYPE_AUTO), "%s", br_error_message());
}

static void end(void)
{
    scratch_bert_close(&bert);
    program_end();
}

TestSuite(scratch_bert, .init = begin, .fini = end);

/* The tokens of the text, of which the first n_first are the first segment. */
static void check(const char *text, const char *tokens, int64_t n_first)
{
    int64_t ids[32], segments[32], masks[32], n = 0, n_masks = 0;
    for (const char *p = tokens; *p; p += strspn(p, " ")) {
        const size_t length = strcspn(p, " ");
        ids[n] = br_vocab_find(bert.vocab, p, length);
        cr_assert(ids[n] > 0, "%s", p);
        if (strncmp(p, "[MASK]", 6) == 0)
            masks[n_masks++] = n;
        segments[n] = n >= n_first;
        n++;
        p += length;
    }
    br_scope *scope = br_no_grad_begin();
    br_tensor *follows;
    br_tensor *wanted = br_bert_forward(bert.model, br_from_i64(BR_SHAPE(1, n), ids),
                                        br_from_i64(BR_SHAPE(1, n), segments),
                                        br_from_i64(BR_SHAPE(1, n_masks), masks), &follows);
    br_tensor *found = scratch_bert_fill(&bert, text);
    cr_assert(found && wanted, "%s: %s", text, br_error_message());
    cr_expect(br_equal(found, br_select(wanted, 0, 0)), "%s", text);
    br_scope_end(scope);
}

Test(scratch_bert, tokens_and_segments)
{
    check("[MASK]", "[CLS] [MASK] [SEP]", 3);
    check(" como [MASK]\tmeu ", "[CLS] como [MASK] meu [SEP]", 5);
    check("[MASK] [MASK]", "[CLS] [MASK] [MASK] [SEP]", 4);
    check("como [MASK] [SEP] meu", "[CLS] como [MASK] [SEP] meu [SEP]", 4);
    check("como[SEP]meu [MASK] comer[SEP]", "[CLS] como [SEP] meu [MASK] comer [SEP]", 3);
    check("[SEP][MASK]", "[CLS] [SEP] [MASK] [SEP]", 2);
}

Test(scratch_bert, refused)
{
    static const char *const wrong[][2] = {
        { "", "fill-mask: the text has no [MASK]" },
        { "como [SEP] meu", "fill-mask: the text has no [MASK]" },
        { "[MASK] zzz", "zzz" },
    };
    br_scope *scope = br_no_grad_begin();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        cr_expect_null(scratch_bert_fill(&bert, wrong[i][0]));
        cr_expect(strstr(br_error_message(), wrong[i][1]), "%s", br_error_message());
        br_clear_error();
    }
    br_scope_end(scope);
}

Test(scratch_bert, other_checkpoints)
{
    static const char *const changes[] = { "s/\\[MASK\\]/[MOSK]/",
                                           "s/\"bert-scratch\"/\"bert-screech\"/",
                                           "s/\\\\\"maxlen\\\\\"/\\\\\"minlen\\\\\"/" };
    char path[TEMPORARY_PATH + 32], line[256];
    snprintf(path, sizeof path, "%s/other", program_directory);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        snprintf(line, sizeof line,
                 "sed '%s' $OUT/run/checkpoint.safetensors >$OUT/other && ! cmp -s $OUT/other "
                 "$OUT/run/checkpoint.safetensors",
                 changes[i]);
        program_shell(line);
        scratch_bert other;
        cr_expect_not(scratch_bert_open(&other, path, BR_DTYPE_AUTO), "%s", changes[i]);
        cr_expect(
            strstr(
                br_error_message(),
                "/other: not a checkpoint written by 'brasa train bert-scratch' with a vocabulary"),
            "%s: %s", changes[i], br_error_message());
        br_clear_error();
        scratch_bert_close(&other);
    }
}

/* The longest text has as many tokens as the model has positions. */
Test(scratch_bert, limit)
{
    char text[2048] = "";
    const int64_t most = bert.model->config.maxlen;
    cr_assert(most * 7 < (int64_t)sizeof text);
    for (int64_t i = 0; i < most - 2; i++)
        strcat(text, "[MASK] ");
    br_scope *scope = br_no_grad_begin();
    br_tensor *logits = scratch_bert_fill(&bert, text);
    cr_assert(logits && br_size(logits, 0) == most - 2, "%s", br_error_message());
    strcat(text, "[MASK]");
    char message[128];
    snprintf(message, sizeof message, "more tokens than the model's limit of %d", (int)most);
    cr_expect_null(scratch_bert_fill(&bert, text));
    cr_expect(strstr(br_error_message(), message), "%s", br_error_message());
    br_clear_error();
    br_scope_end(scope);
}
