/* benchmarks/bench_embed.c - times sentence embeddings of one text, of 32 lines of a file, and of
 * all its lines, with pretrained weights. benchmarks/compare_embed.py compares them with PyTorch
 * and ONNX Runtime. */
#include "benchmarks/bench.h"
#include "cli/pretrained.h"
#include "train/step_profile.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum {
    BATCH = 32,  /* lines per step */
    STRIDE = 89, /* batches from one step to the next, so that a few steps cover all lengths */
};

typedef struct workload {
    br_sentence_transformer *model;
    br_token_batch tokens; /* of one text */
    char *memory;          /* of the lines */
    br_text *lines;        /* sorted by length; NULL: one text is embedded */
    int64_t n, batch;
    bool all;   /* all lines are embedded, with the default options */
    double sum; /* of the values of the last embeddings */
} workload;

/* ---- The workload ---------------------------------------------------------------------------- */

/* Creates a text with tokens from all parts of the vocabulary. */
static void make_text(workload *w, int64_t tokens)
{
    int64_t size = pretrained_rows(br_sentence_transformer_folder(w->model));
    w->tokens.ids = br_empty(BR_SHAPE(1, tokens), BR_I64);
    int64_t *ids = br_data_i64(w->tokens.ids);
    for (int64_t i = 0; ids && i < tokens; i++)
        ids[i] = i * 104729 % size;
    w->tokens.attention_mask = br_ones_like(w->tokens.ids);
    w->tokens.type_ids = br_zeros_like(w->tokens.ids);
}

/* Compares two lines by length, and equally long ones by their place in the file. */
static int by_length(const void *a, const void *b)
{
    const br_text *x = a, *y = b;
    return x->length != y->length ? (x->length > y->length) - (x->length < y->length)
                                  : (x->data > y->data) - (x->data < y->data);
}

/* Reads the lines of the file, and sorts them by length unless all are embedded. */
static void read_lines(workload *w, const char *path)
{
    size_t length;
    w->memory = file_read(path, &length);
    if (!w->memory)
        return;
    w->lines = malloc((length + 1) * sizeof *w->lines);
    const char *end = w->memory + length, *at = text_first_line(w->memory, end);
    while (w->lines && text_next_line(&at, end, '\n', &w->lines[w->n]))
        w->n++;
    if (!w->lines || w->n < BATCH)
        br_raise(BR_ERROR_ARGUMENT, "%s: fewer than %d lines, or not enough memory for them", path,
                 BATCH);
    else
        qsort(w->lines, w->all ? 0 : (size_t)w->n, sizeof *w->lines, by_length);
}

static void step(void *context)
{
    workload *w = context;
    br_scope *scope = br_no_grad_begin();
    br_tensor *all;
    if (w->all) {
        all = br_sentence_transformer_encode(w->model, w->n, w->lines, NULL);
    } else if (w->lines) {
        all = br_sentence_transformer_encode(w->model, BATCH, w->lines + w->batch * BATCH,
                                             BR_OPTIONS(br_sentence_encode, .batch_size = BATCH));
        w->batch = (w->batch + STRIDE) % (w->n / BATCH);
    } else {
        all = br_sentence_transformer_forward(w->model, &w->tokens);
    }
    w->sum = br_item(br_sum(all));
    br_scope_end(scope);
}

/* ---- The entries ----------------------------------------------------------------------------- */

static const struct entry {
    const char *name;
    int64_t tokens; /* 0: lines of a file */
    bool all;
} entries[] = {
    { "embed-8", 8, false },     { "embed-128", 128, false }, { "embed-512", 512, false },
    { "embed-lines", 0, false }, { "embed-texts", 0, true },
};

/* Runs one step per line of standard input, and prints the sum and the milliseconds. */
static void serve(workload *w)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) && !br_failed()) {
        double start = clock_seconds();
        step(w);
        printf("%.9g %.6f\n", w->sum, (clock_seconds() - start) * 1e3);
        fflush(stdout);
    }
}

static void profile(workload *w, const char *name, int64_t steps)
{
    step_profile s = { .steps = steps };
    for (int64_t i = 0; i < STEP_PROFILE_WARM_UP + steps && step_profile_before(&s); i++) {
        step(w);
        step_profile_after(&s);
    }
    printf("%s\n", name);
    step_profile_report(&s, stdout, NULL);
    step_profile_end(&s);
}

static void measure(const bench_options *o, workload *w, const struct entry *e)
{
    bench_times t = bench_measure(step, w, o->seconds > 0 ? o->seconds : 1);
    if (!o->json) {
        printf("%-12s %9.2f ms (least %.2f, of %d)\n", e->name, t.median * 1e3, t.min * 1e3,
               t.count);
        return;
    }
    json_t *row = json_pack("{ss si sf sf}", "name", e->name, "threads", o->threads, "median_ms",
                            t.median * 1e3, "min_ms", t.min * 1e3);
    json_dumpf(row, stdout, JSON_REAL_PRECISION(9));
    json_decref(row);
    putchar('\n');
}

static void run_entry(const bench_options *o, workload *w, const struct entry *e)
{
    if (e->tokens > 0)
        make_text(w, e->tokens);
    else
        read_lines(w, o->file);
    if (br_failed())
        return;
    if (o->serve)
        serve(w);
    else if (o->profile > 0)
        profile(w, e->name, o->profile);
    else
        measure(o, w, e);
}

static int run(const bench_options *o, const struct entry *e)
{
    workload w = { .all = e->all };
    br_scope *scope = br_scope_begin();
    /* Texts are not truncated, because compare_embed.py does not truncate them either. */
    w.model = br_sentence_transformer_load(
        o->model, BR_OPTIONS(br_sentence_transformer, .max_seq_length = INT32_MAX), NULL);
    if (w.model)
        run_entry(o, &w, e);
    br_sentence_transformer_free(w.model);
    free(w.lines);
    free(w.memory);
    br_scope_end(scope);
    return cli_report();
}

int bench_embed(const bench_options *o)
{
    if (!o->model && !o->list)
        return cli_usage("bench", "embed needs --model DIR");
    int status = o->model ? pretrained_check_folder("--model", o->model) : CLI_CONTINUE;
    if (status != CLI_CONTINUE)
        return status;
    bench_heading(o, "%-12s %12s\n", "entry", "median time");
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        const struct entry *e = &entries[i];
        if ((!e->tokens && !o->file && !o->list) || !bench_selected(o, e->name, NULL))
            continue;
        status = run(o, e);
        if (status != EXIT_SUCCESS || o->serve)
            return status;
    }
    return bench_done(o);
}
