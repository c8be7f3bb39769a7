/* benchmarks/bench_models.c - times training steps and forward passes of whole models, and of
 * attention.
 *
 * Each entry runs in its own process, so that its peak memory can be measured. The parent starts no
 * threads. benchmarks/compare.py runs the same models in PyTorch with the same seeds and batches.
 */
#include "benchmarks/bench_models.h"
#include "train/step_profile.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 0 };

/* ---- Models ---------------------------------------------------------------------------------- */

/* A model with its batch, in a scope that stays open while it is measured. */
typedef struct workload {
    br_module *module;
    br_optim *optim;
    br_tensor *batch[BENCH_BATCH];
    double loss; /* of the last step */
} workload;

static br_module *make_bert(void)
{
    br_bert_config config = br_bert_notebook_config();
    return br_base(br_bert_new(&config));
}

/* Creates six sequences of 40 words, padded to 100, with seven words to predict in each. */
static void make_bert_batch(br_tensor **batch)
{
    enum { B = 6, S = 100, WORDS = 40, P = 7 };
    int64_t ids[B][S] = { { 0 } }, segments[B][S] = { { 0 } }, tokens[B][P], positions[B][P],
            next[B];
    for (int64_t b = 0; b < B; b++) {
        for (int64_t s = 0; s < WORDS; s++) {
            ids[b][s] = 4 + (b * 31 + s * 7) % 66;
            segments[b][s] = s >= WORDS / 2;
        }
        for (int64_t p = 0; p < P; p++) {
            tokens[b][p] = 4 + (b * 3 + p * 5) % 66;
            positions[b][p] = 1 + 5 * p;
        }
        next[b] = b % 2;
    }
    batch[0] = br_from_i64(BR_SHAPE(B, S), &ids[0][0]);
    batch[1] = br_from_i64(BR_SHAPE(B, S), &segments[0][0]);
    batch[2] = br_from_i64(BR_SHAPE(B, P), &positions[0][0]);
    batch[3] = br_from_i64(BR_SHAPE(B, P), &tokens[0][0]);
    batch[4] = br_from_i64(BR_SHAPE(B), next);
}

static br_tensor *bert_loss(br_module *module, br_tensor *const *batch)
{
    br_tensor *logits_clsf;
    br_tensor *logits_lm =
        br_bert_forward((br_bert *)(void *)module, batch[0], batch[1], batch[2], &logits_clsf);
    return br_bert_loss(logits_lm, logits_clsf, batch[3], batch[4], NULL, NULL);
}

/* The notebook's model, except that the encoder adds the output of attention, which the notebook's
 * code discards. */
static br_module *make_encoder_decoder(void)
{
    br_architecture_config config = br_architecture_notebook_config();
    config.add_attention = true;
    return br_base(br_architecture_encoder_decoder_new(&config));
}

/* Creates 64 sequences of 10 ids to copy; the targets have 9. */
static void make_copy_batch(br_tensor **batch)
{
    enum { B = 64, S = 10 };
    int64_t ids[B][S];
    for (int64_t b = 0; b < B; b++)
        for (int64_t s = 0; s < S; s++)
            ids[b][s] = s == 0 ? 1 : 1 + (b * 31 + s * 7) % 99;
    br_tensor *source = br_from_i64(BR_SHAPE(B, S), &ids[0][0]);
    batch[0] = source;
    batch[1] = br_narrow(source, 1, 0, S - 1);
    batch[2] = br_architecture_source_mask(source);
    batch[3] = br_architecture_create_mask(B, S - 1);
    batch[4] = br_flatten(br_narrow(source, 1, 1, S - 1), 0, -1);
}

static br_tensor *copy_loss(br_module *module, br_tensor *const *batch)
{
    br_tensor *out = br_architecture_encoder_decoder_forward(
        (br_architecture_encoder_decoder *)(void *)module, batch[0], batch[1], batch[2], batch[3]);
    return br_cross_entropy(br_flatten(out, 0, 1), batch[4], NULL);
}

/* ids[b][s] = first + (b row + s column) mod count, i64 [batch, length] */
static br_tensor *make_ids(int64_t batch, int64_t length, int64_t row, int64_t column,
                           int64_t first, int64_t count)
{
    br_tensor *t = br_empty(BR_SHAPE(batch, length), BR_I64);
    int64_t *ids = br_data_i64(t);
    for (int64_t i = 0; ids && i < batch * length; i++)
        ids[i] = first + (i / length * row + i % length * column) % count;
    return t;
}

/* BERT-base as a classifier, from notebook 000. */
static br_module *make_classifier(void)
{
    br_anatomy_config config = br_anatomy_notebook_config();
    return br_base(br_anatomy_classifier_new(&config));
}

static void make_texts(int64_t n, int64_t length, br_tensor **batch)
{
    batch[0] = make_ids(n, length, 7919, 104729, 0, 30522);
    batch[1] = br_flatten(make_ids(n, 1, 1, 0, 0, 2), 0, -1);
}

static void make_text_of_5(br_tensor **batch)
{
    make_texts(1, 5, batch);
}

static void make_texts_of_128(br_tensor **batch)
{
    make_texts(8, 128, batch);
}

static br_tensor *classifier_loss(br_module *module, br_tensor *const *batch)
{
    br_tensor *logits =
        br_anatomy_classifier_forward((br_anatomy_classifier *)(void *)module, batch[0]);
    return br_cross_entropy(logits, batch[1], NULL);
}

/* The Transformer of notebook 001, with the sizes of its paper. */
static br_module *make_transformer(void)
{
    br_vanilla_config config = { .embed_dim = 512,
                                 .n_heads = 8,
                                 .ff_hid_dim = 2048,
                                 .n_layers = 6,
                                 .max_length = 100,
                                 .src_vocab_size = 10000,
                                 .trg_vocab_size = 10000 };
    return br_base(br_vanilla_transformer_new(&config));
}

static void make_translations(br_tensor **batch)
{
    br_tensor *trg = make_ids(16, 32, 6007, 50021, 1, 9999);
    batch[0] = make_ids(16, 32, 7919, 104729, 1, 9999);
    batch[1] = br_narrow(trg, 1, 0, 31);
    batch[2] = br_flatten(br_narrow(trg, 1, 1, 31), 0, -1);
}

static br_tensor *transformer_loss(br_module *module, br_tensor *const *batch)
{
    br_tensor *out = br_vanilla_transformer_forward((br_vanilla_transformer *)(void *)module,
                                                    batch[0], batch[1]);
    return br_cross_entropy(br_flatten(out, 0, 1), batch[2], NULL);
}

/* GPT-2 with 124 million parameters. */
static br_module *make_gpt2(void)
{
    br_gpt2_config config = br_gpt2_config_default();
    return br_base(br_gpt2_lm_new(&config));
}

static void make_gpt2_batch(br_tensor **batch)
{
    batch[0] = make_ids(4, 64, 7919, 104729, 0, 50257);
}

static br_tensor *gpt2_loss(br_module *module, br_tensor *const *batch)
{
    br_tensor *logits = br_gpt2_lm_forward((br_gpt2_lm *)(void *)module, batch[0], NULL);
    return br_causal_lm_loss(logits, batch[0]);
}

/* A Llama of SmolLM2-135M's sizes. */
static br_module *make_smollm(void)
{
    br_llama_config config = br_llama_config_default();
    return br_base(br_llama_lm_new(&config));
}

static br_module *make_smollm_lora(void)
{
    static const char *const layers[] = { "all-linear" };
    br_module *model = make_smollm();
    br_lora_add(model, BR_OPTIONS(br_lora, .r = 8, .lora_alpha = 16, .n_target_modules = 1,
                                  .target_modules = layers));
    return model;
}

static void make_text_of_512(br_tensor **batch)
{
    batch[0] = make_ids(1, 512, 7919, 104729, 0, 49152);
}

static br_tensor *smollm_loss(br_module *module, br_tensor *const *batch)
{
    return br_llama_lm_loss((br_llama_lm *)(void *)module, batch[0], batch[0], NULL);
}

/* Attention alone, with 12 heads of size 64. */
typedef struct attention_inputs {
    br_module base;
    br_tensor *query, *key, *value;
    br_attention_options options;
} attention_inputs;

static br_module *make_attention(int64_t length, bool is_causal)
{
    attention_inputs *self = br_module_new(attention_inputs);
    const char *const names[] = { "query", "key", "value" };
    br_tensor **const inputs[] = { &self->query, &self->key, &self->value };
    for (int i = 0; i < 3; i++)
        *inputs[i] = br_parameter(self, names[i], br_randn(BR_SHAPE(1, 12, length, 64), BR_F32));
    self->options = *BR_OPTIONS(br_attention, .is_causal = is_causal);
    return br_base(self);
}

static br_module *make_attention_2048(void)
{
    return make_attention(2048, false);
}

static br_module *make_attention_2048_causal(void)
{
    return make_attention(2048, true);
}

static br_module *make_attention_8192(void)
{
    return make_attention(8192, false);
}

static void make_no_batch(br_tensor **batch)
{
    (void)batch;
}

static br_tensor *attention_loss(br_module *module, br_tensor *const *batch)
{
    (void)batch;
    const attention_inputs *self = (const attention_inputs *)(const void *)module;
    br_tensor *out =
        br_scaled_dot_product_attention(self->query, self->key, self->value, NULL, &self->options);
    return br_sum(br_mul(out, out));
}

static br_optim *adam(br_module *module)
{
    return br_adam(module, NULL);
}

static br_optim *adamw(br_module *module)
{
    return br_adamw(module, NULL);
}

static const bench_model models[] = {
    { "bert-scratch", make_bert, make_bert_batch, bert_loss, false, adam },
    { "encoder-decoder", make_encoder_decoder, make_copy_batch, copy_loss, true, adam },
    { "classifier-5", make_classifier, make_text_of_5, classifier_loss, true, adam },
    { "classifier-128", make_classifier, make_texts_of_128, classifier_loss, true, adam },
    { "transformer", make_transformer, make_translations, transformer_loss, false, adam },
    { "gpt2", make_gpt2, make_gpt2_batch, gpt2_loss, false, adamw },
    { "smollm", make_smollm, make_text_of_512, smollm_loss, false, adamw },
    { "smollm-lora", make_smollm_lora, make_text_of_512, smollm_loss, false, adamw },
    { "attention-2048", make_attention_2048, make_no_batch, attention_loss, false, NULL },
    { "attention-2048-causal", make_attention_2048_causal, make_no_batch, attention_loss, false,
      NULL },
    { "attention-8192", make_attention_8192, make_no_batch, attention_loss, false, NULL },
};

const bench_model *bench_find_model(const char *name)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].name, name) == 0)
            return &models[i];
    return NULL;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

typedef struct measured {
    const bench_model *model;
    bool amp; /* mixed precision, bf16 */
    workload w;
    int64_t held; /* minimum bytes that a step must hold */
} measured;

static int64_t parameter_bytes(br_module *module)
{
    int64_t bytes = 0;
    br_named_list *list = br_parameters(module);
    for (int64_t i = 0; list && i < list->count; i++)
        bytes += br_numel(list->items[i].tensor) *
                 (int64_t)br_dtype_size(br_dtype_of(list->items[i].tensor));
    br_named_list_free(list);
    return bytes;
}

static br_tensor *loss_of(measured *m)
{
    br_autocast *cast = br_autocast_begin(m->amp ? BR_BF16 : BR_F32);
    br_tensor *loss = m->model->loss(m->w.module, m->w.batch);
    br_autocast_end(cast);
    return loss;
}

static void train_step(void *context)
{
    measured *m = context;
    br_scope *scope = br_scope_begin();
    br_zero_grad(m->w.module);
    br_scope *forward = br_scope_begin(); /* after it, only the graph holds the model's outputs */
    br_tensor *loss = br_scope_return(forward, loss_of(m));
    br_scope_end(forward);
    /* Parameters, the optimizer's state and what backward needs are live now; gradients will be. */
    m->held = br_live_bytes() + parameter_bytes(m->w.module);
    br_backward(loss);
    if (m->w.optim)
        br_optim_step(m->w.optim);
    m->w.loss = br_item(loss);
    br_scope_end(scope);
}

static void forward_step(void *context)
{
    measured *m = context;
    br_scope *scope = br_no_grad_begin();
    br_tensor *loss = loss_of(m);
    m->held = br_live_bytes(); /* parameters, and what the model returned */
    m->w.loss = br_item(loss);
    br_scope_end(scope);
}

typedef struct phase_entry {
    const char *name;
    void (*step)(void *context);
    bool has_optimizer, drops_out;
} phase_entry;
/* Steps without dropout run in evaluation mode, so that their losses can be compared closely. */
static const phase_entry phases[] = { { "train", train_step, true, false },
                                      { "train-dropout", train_step, true, true },
                                      { "forward", forward_step, false, false } };

static double held_mib(const measured *m)
{
    return (double)m->held / (1 << 20);
}

/* Makes the model and its batch. The optimizer keeps f32 copies of bf16 and f16 parameters, as
 * `brasa train` does. */
static void begin(measured *m, const phase_entry *phase, br_dtype dtype)
{
    br_manual_seed(SEED);
    m->w.module = m->model->make();
    br_module_to(m->w.module, dtype);
    m->model->make_batch(m->w.batch);
    br_train(m->w.module, phase->drops_out);
    if (phase->has_optimizer && m->model->optimizer)
        m->w.optim = m->model->optimizer(m->w.module);
    if (m->w.optim && br_dtype_size(dtype) == 2)
        br_optim_set_half_update(m->w.optim, BR_HALF_MASTER);
}

static void end(measured *m)
{
    br_optim_free(m->w.optim);
    br_module_free(m->w.module);
}

/* Runs one step per line of standard input. Prints its loss, its time in milliseconds, and two
 * values in MiB: the peak memory of the process and the minimum that a step must hold. */
static void serve(measured *m, const phase_entry *phase)
{
    char line[64];
    while (fgets(line, sizeof line, stdin) && !br_failed()) {
        double start = clock_seconds();
        phase->step(m);
        double ms = (clock_seconds() - start) * 1e3;
        printf("%.9g %.6f %.1f %.1f\n", m->w.loss, ms, bench_peak_mib(), held_mib(m));
        fflush(stdout);
    }
}

static br_dtype dtype_of(const bench_options *o)
{
    return o->dtype == BR_DTYPE_AUTO ? BR_F32 : o->dtype;
}

static void print_model(const bench_options *o, const measured *m, const phase_entry *phase,
                        bench_times t)
{
    if (!o->json) {
        printf(
            "%-22s %-13s %9.2f ms (least %.2f, of %d) %8.1f MiB (%.1f must be held)  loss %.6f\n",
            m->model->name, phase->name, t.median * 1e3, t.min * 1e3, t.count, bench_peak_mib(),
            held_mib(m), m->w.loss);
        return;
    }
    json_t *row =
        json_pack("{ss ss si ss ss ss sf sf sf sf sf}", "name", m->model->name, "phase",
                  phase->name, "threads", o->threads, "matmul_precision",
                  br_get_float32_matmul_precision(), "amp", m->amp ? "bf16" : "off", "dtype",
                  br_dtype_name(dtype_of(o)), "median_ms", t.median * 1e3, "min_ms", t.min * 1e3,
                  "peak_mib", bench_peak_mib(), "held_mib", held_mib(m), "loss", m->w.loss);
    json_dumpf(row, stdout, JSON_REAL_PRECISION(9));
    json_decref(row);
    putchar('\n');
}

static void profile(const bench_options *o, measured *m, const phase_entry *phase)
{
    step_profile s = { .steps = o->profile };
    for (int64_t i = 0; i < STEP_PROFILE_WARM_UP + o->profile && step_profile_before(&s); i++) {
        phase->step(m);
        step_profile_after(&s);
    }
    printf("%s/%s\n", m->model->name, phase->name);
    step_profile_report(&s, stdout, NULL);
    step_profile_end(&s);
}

typedef struct request {
    const bench_options *options;
    const bench_model *model;
    const phase_entry *phase;
} request;

static int run_entry(const void *context)
{
    const request *r = context;
    const bench_options *o = r->options;
    measured m = { .model = r->model, .amp = o->amp };
    br_scope *scope = br_scope_begin();
    begin(&m, r->phase, dtype_of(o));
    if (o->serve) {
        serve(&m, r->phase);
    } else if (o->profile > 0 && !br_failed()) {
        profile(o, &m, r->phase);
    } else if (!br_failed()) {
        bench_times t = bench_measure(r->phase->step, &m, o->seconds > 0 ? o->seconds : 3);
        if (!br_failed())
            print_model(o, &m, r->phase, t);
    }
    end(&m);
    br_scope_end(scope);
    return cli_report();
}

int bench_models(const bench_options *o)
{
    bench_heading(o, "%-22s %-13s %12s %32s  %s\n", "model", "phase", "median time", "memory",
                  "loss");
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        for (size_t k = 0; k < sizeof phases / sizeof *phases; k++) {
            request r = { o, &models[i], &phases[k] };
            char name[128];
            snprintf(name, sizeof name, "%s/%s", models[i].name, phases[k].name);
            if ((phases[k].drops_out && !models[i].has_dropout) ||
                !bench_selected(o, name, models[i].name))
                continue;
            int status = o->serve ? run_entry(&r) : bench_run_apart(name, run_entry, &r);
            if (status != EXIT_SUCCESS || o->serve)
                return status;
        }
    }
    return bench_done(o);
}
