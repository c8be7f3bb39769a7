/* benchmarks/bench_tokenizers.c - times the encoding of a text file by the tokenizer of a model
 * folder. benchmarks/compare_tokenizers.py compares it with other libraries. */
#include "benchmarks/bench.h"
#include "cli/pretrained.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct workload {
    br_tokenizer *tokenizer;
    char *memory;   /* of the texts */
    br_text *texts; /* the lines of the file, or the file */
    int64_t n, bytes, tokens;
} workload;

/* ---- The workload ---------------------------------------------------------------------------- */

static void encode_ids(void *context)
{
    workload *w = context;
    br_token_ids *ids = br_tokenizer_encode_ids(w->tokenizer, w->n, w->texts, NULL, NULL);
    w->tokens = ids ? ids->starts[w->n] : 0;
    br_token_ids_free(ids);
}

/* Encodes to ids, offsets, words and masks. */
static void encode_all(void *context)
{
    workload *w = context;
    w->tokens = 0;
    for (int64_t i = 0; i < w->n && !br_failed(); i++) {
        br_encoding *e = br_tokenizer_encode(w->tokenizer, &w->texts[i], NULL, NULL);
        w->tokens += e ? e->length : 0;
        br_encoding_free(e);
    }
}

static const struct entry {
    const char *name;
    void (*run)(void *workload);
    bool lines; /* each line is a text; otherwise the file is a single text */
} entries[] = {
    { "ids-file", encode_ids, false },
    { "ids-lines", encode_ids, true },
    { "offsets-file", encode_all, false },
    { "offsets-lines", encode_all, true },
};

/* Reads the file as one text, or as one text for each line. */
static void read_texts(workload *w, const char *path, bool lines)
{
    size_t length;
    w->memory = file_read(path, &length);
    w->texts = w->memory ? malloc((length + 1) * sizeof *w->texts) : NULL;
    if (!w->texts) {
        if (w->memory)
            br_raise(BR_ERROR_MEMORY, "%s: not enough memory for its lines", path);
        return;
    }
    const char *end = w->memory + length, *at = text_first_line(w->memory, end);
    if (!lines)
        w->texts[w->n++] = (br_text){ at, end - at };
    while (lines && text_next_line(&at, end, '\n', &w->texts[w->n]))
        w->n++;
    for (int64_t i = 0; i < w->n; i++)
        w->bytes += w->texts[i].length;
    if (w->bytes == 0)
        br_raise(BR_ERROR_ARGUMENT, "%s is empty: expected a text to encode", path);
}

/* ---- Measurement ----------------------------------------------------------------------------- */

/* Encodes the texts once for each line of standard input. Prints the number of tokens and the
 * milliseconds of processor time. */
static void serve(const struct entry *e, workload *w)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) && !br_failed()) {
        clock_t start = clock();
        e->run(w);
        printf("%" PRId64 " %.6f\n", w->tokens, (double)(clock() - start) * 1e3 / CLOCKS_PER_SEC);
        fflush(stdout);
    }
}

static void measure(const bench_options *o, const struct entry *e, workload *w)
{
    bench_times t = bench_measure(e->run, w, o->seconds > 0 ? o->seconds : 1);
    double mib = (double)w->bytes / (1 << 20) / t.median, tokens = (double)w->tokens / t.median;
    if (br_failed())
        return;
    if (!o->json) {
        printf("%-14s %9.2f MiB/s %9.2f million tokens/s  %9.2f ms (least %.2f, of %d)\n", e->name,
               mib, tokens / 1e6, t.median * 1e3, t.min * 1e3, t.count);
        return;
    }
    json_t *row = json_pack("{ss sf sf sI sf sf}", "name", e->name, "mib_per_s", mib,
                            "tokens_per_s", tokens, "tokens", (json_int_t)w->tokens, "median_ms",
                            t.median * 1e3, "min_ms", t.min * 1e3);
    json_dumpf(row, stdout, JSON_REAL_PRECISION(9));
    json_decref(row);
    putchar('\n');
}

static int run(const bench_options *o, const struct entry *e)
{
    workload w = { .tokenizer = br_auto_tokenizer_load(o->model, NULL) };
    if (w.tokenizer)
        read_texts(&w, o->file, e->lines);
    if (!br_failed()) {
        if (o->serve)
            serve(e, &w);
        else
            measure(o, e, &w);
    }
    br_tokenizer_free(w.tokenizer);
    free(w.texts);
    free(w.memory);
    return cli_report();
}

int bench_tokenizers(const bench_options *o)
{
    if ((!o->model || !o->file) && !o->list)
        return cli_usage("bench", "tokenizers needs --model DIR and --file FILE");
    bench_heading(o, "%-14s %s\n", "entry", "at the median time");
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (!bench_selected(o, entries[i].name, NULL))
            continue;
        int status = run(o, &entries[i]);
        if (status != EXIT_SUCCESS || o->serve)
            return status;
    }
    return bench_done(o);
}
