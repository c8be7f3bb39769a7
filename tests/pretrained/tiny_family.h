/* tests/pretrained/tiny_family.h - a family of models as a program would add it: a base model and a
 * masked language model, whose files have other names and one transposed weight. */
#ifndef BR_TESTS_PRETRAINED_TINY_FAMILY_H
#define BR_TESTS_PRETRAINED_TINY_FAMILY_H

#include <brasa/pretrained.h>

/* ---- The models ------------------------------------------------------------------------------ */

typedef struct tiny {
    br_module base;
    br_embedding *words;
    br_linear *dense, *out, *pooler;
    bool doubles; /* twice the result */
} tiny;

typedef struct tiny_lm {
    br_module base;
    tiny *tiny;
    br_linear *head; /* its weight is tied to words' */
} tiny_lm;

static inline void *tiny_make(const br_auto_config *config)
{
    int64_t hidden = br_auto_config_size(config, "hidden_size");
    int64_t inner = br_auto_config_size(config, "inner_size");
    if (!br_auto_config_expect(config, "tiny"))
        return NULL;
    tiny *self = br_module_create(sizeof *self, "TinyModel");
    int64_t n = br_auto_config_size(config, "vocab_size");
    self->words = br_child(self, "words", br_embedding_new(n, hidden, -1));
    self->dense = br_child(self, "dense", br_linear_new(hidden, inner, true));
    self->out = br_child(self, "out", br_linear_new(inner, hidden, false));
    self->pooler = br_child(self, "pooler", br_linear_new(hidden, hidden, false));
    self->doubles = br_auto_config_bool(config, "doubles");
    return self;
}

static inline void *tiny_make_lm(const br_auto_config *config)
{
    tiny_lm *self = br_module_create(sizeof *self, "TinyForMaskedLM");
    self->tiny = br_child(self, "tiny", tiny_make(config));
    int64_t hidden = br_auto_config_size(config, "hidden_size");
    int64_t n = br_auto_config_size(config, "vocab_size");
    self->head = br_child(self, "head", br_linear_new(hidden, n, false));
    if (!br_failed())
        self->head->weight =
            br_module_replace_parameter(br_base(self->head), "weight", self->tiny->words->weight);
    return self;
}

static inline br_tensor *tiny_run(br_module *model, const br_model_input *input)
{
    tiny *self = (tiny *)model;
    br_enter(self);
    br_tensor *x = br_embedding_forward(self->words, input->batch.ids);
    x = br_linear_forward(self->out, br_linear_forward(self->dense, x));
    return br_leave(self, self->doubles ? br_mul_scalar(x, 2) : x);
}

static inline br_tensor *tiny_run_lm(br_module *model, const br_model_input *input)
{
    tiny_lm *self = (tiny_lm *)model;
    br_enter(self);
    br_tensor *x = tiny_run(br_base(self->tiny), input);
    return br_leave(self, br_linear_forward(self->head, x));
}

/* ---- The family ------------------------------------------------------------------------------ */

static const br_config_default tiny_defaults[] = {
    { "vocab_size", "5" },  { "hidden_size", "2" }, { "inner_size", "=hidden_size" },
    { "doubles", "false" }, { "n_positions", "6" }, { NULL, NULL },
};
static const br_config_alias tiny_aliases[] = { { "intermediate_size", "inner_size" },
                                                { NULL, NULL } };
static const br_config_limit tiny_limits[] = { { "rope", "false", false }, { NULL, NULL, false } };
static const char *const tiny_harmless[] = { "color", NULL };

/* The first two positions are not for tokens. */
static inline int64_t tiny_max_tokens(const br_auto_config *config)
{
    return br_auto_config_size(config, "n_positions") - 2;
}

static inline bool tiny_init(const br_auto_config *config, const char *name, br_tensor *weight)
{
    (void)config;
    (void)name;
    return br_init_constant_(weight, 7);
}

static inline const char *tiny_differing_key(br_module *a, br_module *b)
{
    bool is_base = strcmp(br_module_class(a), "TinyModel") == 0;
    const tiny *x = is_base ? (tiny *)a : ((tiny_lm *)a)->tiny;
    const tiny *y = is_base ? (tiny *)b : ((tiny_lm *)b)->tiny;
    return x->doubles != y->doubles ? "doubles" : NULL;
}

static const br_model_class tiny_classes[] = {
    { .name = "TinyModel",
      .task = BR_TASK_BASE,
      .make = tiny_make,
      .forward = tiny_run,
      .embeds_sentences = true },
    { .name = "TinyForMaskedLM",
      .task = BR_TASK_MASKED_LM,
      .make = tiny_make_lm,
      .forward = tiny_run_lm },
    { .name = NULL },
};

static const br_key_rename tiny_renames[] = {
    { "del", "no", false }, /* "model" contains it, but no component of a key equals it */
    { "model", "tiny", false },   { "encoder", "tiny", true },  { "embed_tokens", "words", false },
    { "mlp.fc", "dense", false }, { "lm_head", "head", false }, { NULL, NULL, false },
};
static const char *const tiny_ignored[] = { "inv_freq", NULL };
static const char *const tiny_transposed[] = { "dense.weight", NULL };
static const char *const tiny_heads[] = { "head.", NULL };
static const br_config_rows tiny_rows[] = { { "vocab_size", "words.weight" }, { NULL, NULL } };
static const char *const tiny_types[] = { "tiny_text", NULL };

static const br_model_family tiny_family = {
    .model_type = "tiny",
    .other_types = tiny_types,
    .config = { .defaults = tiny_defaults,
                .aliases = tiny_aliases,
                .limits = tiny_limits,
                .harmless = tiny_harmless },
    .classes = tiny_classes,
    .tokenizer_class = "BertTokenizer",
    .max_tokens = tiny_max_tokens,
    .keys = { .prefix = "tiny.",
              .renames = tiny_renames,
              .ignored = tiny_ignored,
              .transposed = tiny_transposed },
    .heads = tiny_heads,
    .pooler = "pooler.",
    .init = tiny_init,
    .rows = tiny_rows,
    .differing_key = tiny_differing_key,
};

#endif
