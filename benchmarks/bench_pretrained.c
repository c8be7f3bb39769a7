/* benchmarks/bench_pretrained.c - times the model of a folder or a GGUF file: loading, a forward
 * pass, a training step, a prompt, and one token at a time. benchmarks/compare_zoo.py compares it
 * with transformers. */
#include "benchmarks/bench.h"
#include "cli/pretrained.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct workload {
    const char *path;
    br_dtype dtype; /* BR_DTYPE_AUTO: the file's */
    br_module *model;
    const br_model_class *class;
    br_model_input input;
    br_optim *optim;
    br_model_source source;
    br_language_model lm;
    br_cache *cache;
    br_tensor *last; /* ids [B, 1] of the token after the prompt */
    double value;    /* of the last step, by which results can be compared */
} workload;

/* ---- The workload ---------------------------------------------------------------------------- */

static br_module *load(const workload *w)
{
    return br_auto_model_load(w->path, BR_OPTIONS(br_auto_model, .dtype = w->dtype), NULL);
}

static const br_model_class *class_named(const char *name)
{
    const br_model_family *family;
    for (int i = 0; (family = br_model_family_at(i)); i++)
        for (const br_model_class *c = family->classes; c->name; c++)
            if (strcmp(c->name, name) == 0)
                return c;
    return NULL;
}

/* Sets the input to texts with tokens from all parts of the vocabulary. */
static void make_texts(workload *w, int64_t batch, int64_t tokens)
{
    int64_t size = pretrained_rows(w->path);
    br_tensor *t = br_empty(BR_SHAPE(batch, tokens), BR_I64);
    int64_t *ids = br_data_i64(t);
    for (int64_t i = 0; ids && i < batch * tokens; i++)
        ids[i] = i * 104729 % size;
    w->input.batch.ids = t;
    if (w->class->encoder_decoder)
        w->input.decoder_ids = t;
}

/* Reads the prompt into a new cache. The decoder of an encoder-decoder starts from the encoded
 * prompt. Returns the logits of the next token. */
static br_tensor *read_prompt(workload *w)
{
    const br_encoder_decoder *parts = w->class->encoder_decoder;
    const br_token_batch *texts = &w->input.batch;
    br_cache_free(w->cache);
    w->cache = br_cache_new();
    w->source.model = w->model;
    w->source.memory = parts ? parts->encode(w->model, texts) : NULL;
    w->lm = w->class->language_model(&w->source);
    br_tensor *first = parts ? parts->start(w->model, br_size(texts->ids, 0)) : texts->ids;
    return w->lm.next(w->lm.model, first, NULL, w->cache);
}

static void begin_tokens(workload *w)
{
    read_prompt(w);
    w->last = br_narrow(w->input.batch.ids, 1, 0, 1);
}

static void begin_training(workload *w)
{
    w->optim = br_adamw(w->model, NULL);
    br_optim_set_half_update(w->optim, BR_HALF_MASTER);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Returns the mean of the squares, in f64. */
static double mean_square(br_tensor *t)
{
    br_tensor *x = br_to(t, BR_F64);
    return br_item(br_mean(br_mul(x, x)));
}

static void load_step(void *context)
{
    br_module_free(load(context));
}

static void forward_step(void *context)
{
    workload *w = context;
    w->value = mean_square(w->class->forward(w->model, &w->input));
}

/* The loss of a language model, with the ids as the labels; of other models the mean square of the
 * result. */
static br_tensor *loss_of(const workload *w)
{
    br_tensor *ids = w->input.batch.ids;
    if (w->class->loss)
        return w->class->loss(w->model, &w->input, ids);
    br_tensor *result = w->class->forward(w->model, &w->input);
    if (w->class->task == BR_TASK_CAUSAL_LM)
        return br_causal_lm_loss(result, ids);
    if (w->class->task == BR_TASK_MASKED_LM || w->class->task == BR_TASK_SEQ2SEQ_LM)
        return br_cross_entropy(br_flatten(result, 0, 1), br_flatten(ids, 0, 1), NULL);
    return br_mean(br_mul(result, result));
}

static void train_step(void *context)
{
    workload *w = context;
    br_zero_grad(w->model);
    br_scope *forward = br_scope_begin(); /* after it, only the graph holds the model's outputs */
    br_tensor *loss = br_scope_return(forward, loss_of(w));
    br_scope_end(forward);
    br_backward(loss);
    br_optim_step(w->optim);
    w->value = br_item(loss);
}

static void prompt_step(void *context)
{
    workload *w = context;
    w->value = mean_square(read_prompt(w));
}

/* The token after the prompt, of which the cache is left. A decoder beside an encoder continues
 * its own text, because its cache also has the keys of the encoder. */
static void token_step(void *context)
{
    workload *w = context;
    if (!w->class->encoder_decoder)
        br_cache_crop(w->cache, INT64_MAX, br_size(w->input.batch.ids, 1));
    w->value = mean_square(w->lm.next(w->lm.model, w->last, NULL, w->cache));
}

static const struct entry {
    const char *name;
    void (*begin)(workload *w); /* NULL: nothing to do before the first step */
    void (*step)(void *context);
    bool loads; /* the step itself loads the model */
    bool generates, records_gradients;
} entries[] = {
    { "load", NULL, load_step, true, false, false },
    { "forward", NULL, forward_step, false, false, false },
    { "train", begin_training, train_step, false, false, true },
    { "prompt", NULL, prompt_step, false, true, false },
    { "token", begin_tokens, token_step, false, true, false },
};

typedef struct timed {
    workload w;
    const struct entry *entry;
} timed;

static void step(void *context)
{
    timed *t = context;
    br_scope *scope = br_scope_begin();
    t->entry->step(&t->w);
    br_scope_end(scope);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Runs one step per line of standard input. Prints its value, its time in milliseconds, and the
 * peak memory of the process in MiB. */
static void serve(timed *t)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) && !br_failed()) {
        double start = clock_seconds();
        step(t);
        printf("%.9g %.6f %.1f\n", t->w.value, (clock_seconds() - start) * 1e3, bench_peak_mib());
        fflush(stdout);
    }
}

/* Returns the tokens of a step, or 0. */
static int64_t tokens_of(const timed *t)
{
    const br_tensor *ids = t->w.input.batch.ids;
    if (t->entry->loads)
        return 0;
    return br_size(ids, 0) * (t->entry->begin == begin_tokens ? 1 : br_size(ids, 1));
}

static void print_times(const bench_options *o, const timed *t, bench_times times)
{
    double rate = (double)tokens_of(t) / times.median;
    if (!o->json) {
        printf("%-10s %10.2f ms (least %.2f, of %d) %8.1f MiB", t->entry->name, times.median * 1e3,
               times.min * 1e3, times.count, bench_peak_mib());
        if (rate > 0)
            printf(" %10.1f tokens/s", rate);
        putchar('\n');
        return;
    }
    json_t *row =
        json_pack("{ss ss* si sf sf sf sf sf}", "name", t->entry->name, "class",
                  t->w.class ? t->w.class->name : NULL, "threads", o->threads, "median_ms",
                  times.median * 1e3, "min_ms", times.min * 1e3, "tokens_per_s", rate, "peak_mib",
                  bench_peak_mib(), "value", t->w.value);
    json_dumpf(row, stdout, JSON_REAL_PRECISION(9));
    json_decref(row);
    putchar('\n');
}

/* Loads the model and makes the texts. Returns false if that failed, or if the model cannot do what
 * the entry measures. */
static bool begin(const bench_options *o, timed *t)
{
    workload *w = &t->w;
    if (t->entry->loads)
        return true;
    w->model = load(w);
    w->class = w->model ? class_named(br_module_class(w->model)) : NULL;
    if (!w->class)
        return false;
    if (t->entry->generates ? !w->class->language_model : !w->class->forward) {
        bench_heading(o, "%-10s %s does not %s\n", t->entry->name, w->class->name,
                      t->entry->generates ? "generate" : "take a batch of texts");
        return false;
    }
    make_texts(w, o->batch, o->tokens);
    if (t->entry->begin)
        t->entry->begin(w);
    return !br_failed();
}

typedef struct request {
    const bench_options *options;
    const struct entry *entry;
} request;

static int run(const void *context)
{
    const request *r = context;
    const bench_options *o = r->options;
    timed t = { .entry = r->entry, .w = { .path = o->model, .dtype = o->dtype } };
    br_scope *scope = r->entry->records_gradients ? br_scope_begin() : br_no_grad_begin();
    if (!begin(o, &t)) {
        if (o->serve && !br_failed())
            br_raise(BR_ERROR_ARGUMENT, "%s: the model has no entry %s", o->model, r->entry->name);
    } else if (o->serve) {
        serve(&t);
    } else {
        bench_times times = bench_measure(step, &t, o->seconds > 0 ? o->seconds : 1);
        if (!br_failed())
            print_times(o, &t, times);
    }
    br_cache_free(t.w.cache);
    br_optim_free(t.w.optim);
    br_module_free(t.w.model);
    br_scope_end(scope);
    return cli_report();
}

int bench_pretrained(const bench_options *o)
{
    if (!o->model && !o->list)
        return cli_usage("bench", "pretrained needs --model DIR");
    int status = o->model ? pretrained_check_folder("--model", o->model) : CLI_CONTINUE;
    if (status != CLI_CONTINUE)
        return status;
    bench_heading(o, "%-10s %13s\n", "entry", "median time");
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (!bench_selected(o, entries[i].name, NULL))
            continue;
        request r = { o, &entries[i] };
        status = o->serve ? run(&r) : bench_run_apart(entries[i].name, run, &r);
        if (status != EXIT_SUCCESS || o->serve)
            return status;
    }
    return bench_done(o);
}
