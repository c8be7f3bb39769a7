/* tests/train/test_memory.c - the readers of training data, packing and the tokenizer that is
 * learned, with each allocation of the process failing in turn. They must do the same as without
 * failures, or report that memory has run out, and leave nothing. */
#include "tests/allocations.h"

#include "tests/io/digests.h"
#include "tests/io/files.h"
#include "train/examples.h"
#include "train/labelled.h"
#include "train/learned_tokenizer.h"
#include "train/packs.h"
#include "train/text_rows.h"
#include "train/texts.h"

#include <string.h>

TestSuite(train_memory, .init = files_begin, .fini = files_end);

static void add_numbers(uint64_t *digest, int64_t n, const int64_t *numbers)
{
    for (int64_t i = 0; i < n; i++)
        *digest = *digest * 31 + (uint64_t)numbers[i] + 1;
}

/* ---- Examples of a language model ------------------------------------------------------------ */

static bool read_examples(uint64_t *digest, examples_format format, const char *data)
{
    br_tokenizer *tokenizer = br_auto_tokenizer_load(files_path("tokenizer"), NULL);
    const examples_source source = { .format = format, .tokenizer = tokenizer, .length = 4 };
    examples e = { 0 };
    const bool ok = tokenizer && examples_read(&e, &source, data, strlen(data));
    for (int64_t i = 0; ok && i < e.count; i++) {
        add_numbers(digest, examples_length(&e, i), examples_ids(&e, i));
        add_numbers(digest, examples_length(&e, i), examples_labels(&e, i));
    }
    examples_free(&e);
    br_tokenizer_free(tokenizer);
    return ok;
}

static bool examples_of_text(uint64_t *digest)
{
    return read_examples(digest, EXAMPLES_TEXT, "a b c a b c a b c c b a");
}

static bool examples_of_lines(uint64_t *digest)
{
    return read_examples(digest, EXAMPLES_JSONL,
                         "{\"prompt\": \"a b\", \"completion\": \" c\"}\n{\"text\": \"c b\"}\n"
                         "{\"prompt\": \"\", \"completion\": \"a a a a a\"}\n");
}

/* ---- Labelled texts and rows ----------------------------------------------------------------- */

static bool read_labelled(uint64_t *digest, labelled_problem problem, const char *data)
{
    labelled l;
    bool ok = labelled_read(&l, problem, data, strlen(data));
    br_vocab *names = ok && l.problem != LABELLED_REGRESSION ? labelled_names(&l) : NULL;
    ok = ok && (l.problem == LABELLED_REGRESSION || (names && labelled_number(&l, names)));
    for (int64_t i = 0; ok && i < l.count; i++) {
        add_text(digest, l.items[i].text);
        add_text(digest, l.items[i].pair ? l.items[i].pair : "none");
        if (names)
            add_numbers(digest, l.items[i].n_labels, l.items[i].ids);
        *digest += (uint64_t)(8 * l.items[i].number);
    }
    br_vocab_free(names);
    labelled_free(&l);
    return ok;
}

static bool labelled_csv(uint64_t *digest)
{
    return read_labelled(digest, LABELLED_AUTO,
                         "text,text_pair,label\n\"a, b\",c,two\nd,e,one\nf,\"g\nh\",two\n");
}

static bool labelled_json(uint64_t *digest)
{
    return read_labelled(
        digest, LABELLED_AUTO,
        "{\"text\": \"a\", \"label\": [\"x\", \"y\"]}\n"
        "{\"text\": \"b\", \"label\": []}\n{\"text\": \"c\", \"label\": [\"z\"]}\n");
}

static bool labelled_numbers(uint64_t *digest)
{
    return read_labelled(digest, LABELLED_REGRESSION, "text\tlabel\na\t0.5\nb\t2\n");
}

static bool read_rows(uint64_t *digest, const char *data)
{
    static const char *const names[] = { "anchor", "positive", "negative", NULL };
    text_rows r;
    const bool ok = text_rows_read(&r, names, 2, data, strlen(data));
    for (int64_t i = 0; ok && i < r.count; i++)
        for (int k = 0; k < r.n_columns; k++)
            add_text(digest, r.has[k] ? r.rows[i].texts[k] : "none");
    text_rows_free(&r);
    return ok;
}

static bool rows_csv(uint64_t *digest)
{
    return read_rows(digest, "positive,more,anchor\nb,x,a\n\"d, d\",y,c\n");
}

static bool rows_json(uint64_t *digest)
{
    return read_rows(digest, "{\"anchor\": \"a\", \"positive\": \"b\", \"negative\": \"\"}\n"
                             "{\"anchor\": \"c\", \"positive\": \"d\", \"negative\": \"e\"}\n");
}

static bool topics(uint64_t *digest)
{
    static const char data[] = "sea\tA ship, a fish\nair\tA bird\nsea\tA fish\n";
    static const int64_t numbers[] = { 0, 1, 2 };
    br_scope *scope = br_scope_begin();
    texts t;
    bool ok = texts_read(&t, data, strlen(data)) && scope;
    br_vocab *vocab = ok ? texts_vocab(&t, 3, numbers, 1) : NULL;
    ok = vocab && add_tensor(digest, texts_ids(&t, vocab, 5, true)) &&
         add_tensor(digest, texts_labels(&t));
    br_vocab_free(vocab);
    texts_free(&t);
    br_scope_end(scope);
    return ok;
}

/* ---- Packs, and a tokenizer ------------------------------------------------------------------ */

static bool packing(uint64_t *digest)
{
    packs p = { 0 };
    const bool ok = packs_make(&p, 7, (int64_t[]){ 3, 7, 2, 5, 5, 4, 1 }, 8);
    for (int64_t i = 0; ok && i < p.count; i++) {
        const int64_t *members, n = packs_members(&p, i, &members);
        add_numbers(digest, n, members);
    }
    packs_free(&p);
    return ok;
}

static bool learning(uint64_t *digest)
{
    static const char text[] = "the cat sat\non the mat\n";
    char *json = tokenizer_learn(text, strlen(text), BR_OPTIONS(br_bpe_train, .vocab_size = 260));
    if (json)
        add_text(digest, json);
    br_free(json);
    return json != NULL;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

#define TASK(name)  \
    {               \
        name, #name \
    }
static const struct {
    allocations_task run;
    const char *name;
} tasks[] = { TASK(examples_of_text), TASK(examples_of_lines),
              TASK(labelled_csv),     TASK(labelled_json),
              TASK(labelled_numbers), TASK(rows_csv),
              TASK(rows_json),        TASK(topics),
              TASK(packing),          TASK(learning) };

Test(train_memory, each_allocation_may_fail, .timeout = 120)
{
    if (!allocations_can_fail())
        cr_skip_test("the allocator cannot be replaced");
    static const char *const end = "<|endoftext|>";
    char *json = tokenizer_learn(
        "", 0, BR_OPTIONS(br_bpe_train, .n_special_tokens = 1, .special_tokens = &end));
    cr_assert(json && tokenizer_write(files_path("tokenizer"), json, end), "%s",
              br_error_message());
    br_free(json);
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++)
        allocations_fail_in_turn(tasks[i].run, tasks[i].name);
}
