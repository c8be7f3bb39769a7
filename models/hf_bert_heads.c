/* models/hf_bert_heads.c - the pretraining heads and classifiers of BERT and its relatives. */
#include "models/hf_bert_internal.h"
#include "models/packed.h"

#include <inttypes.h>

/* ---- Models with a head ---------------------------------------------------------------------- */

/* Adds the base model to a model with a head, and returns it. */
static br_hf_bert *add_base(br_module *self, br_hf_bert_config c, bool pooler)
{
    return br_module_add_child(self, zoo_bert_kind_of(c.model_type)->base,
                               zoo_hf_bert_make(c, pooler));
}

/* Initializes a model that `make` made under br_skip_init(). */
static void *initialized(void *model, const br_hf_bert_config *c)
{
    return zoo_init_module(model, zoo_hf_bert_init, c);
}

/* ---- cls ------------------------------------------------------------------------------------- */

static br_hf_bert_transform *new_transform(const br_hf_bert *bert)
{
    br_hf_bert_config c = bert->config;
    const zoo_bert_kind *kind = zoo_bert_kind_of(c.model_type);
    int64_t size = c.embedding_size ? c.embedding_size : c.hidden_size;
    br_hf_bert_transform *self = br_module_create(sizeof *self, "BertPredictionHeadTransform");
    self->dense = br_child(self, "dense", br_linear_new(c.hidden_size, size, true));
    self->LayerNorm =
        br_child(self, "LayerNorm",
                 br_layer_norm_new(size, BR_OPTIONS(br_layer_norm, .eps = c.layer_norm_eps)));
    self->activation = br_find_activation(kind->predicts_with_gelu ? "gelu" : c.hidden_act);
    return self;
}

static br_tensor *transform(br_hf_bert_transform *self, br_tensor *x)
{
    br_enter(self);
    x = self->activation(br_linear_forward(self->dense, x));
    return br_leave(self, br_layer_norm_forward(self->LayerNorm, x));
}

/* Ties decoder.weight to the word embeddings, and decoder.bias to the head's bias if it has one. */
static void tie(br_hf_bert_predictions *self, const br_hf_bert *bert)
{
    br_module *decoder = br_base(self->decoder);
    self->decoder->weight =
        br_module_replace_parameter(decoder, "weight", bert->embeddings->word_embeddings->weight);
    if (self->bias)
        self->decoder->bias = br_module_replace_parameter(decoder, "bias", self->bias);
}

static br_hf_bert_predictions *new_predictions(const br_hf_bert *bert)
{
    br_hf_bert_config c = bert->config;
    br_hf_bert_predictions *self = br_module_create(sizeof *self, "BertLMPredictionHead");
    br_scope *scope = br_scope_begin();
    if (!zoo_bert_kind_of(c.model_type)->decoder_has_bias)
        self->bias = br_parameter(self, "bias", br_zeros(BR_SHAPE(c.vocab_size), BR_F32));
    br_scope_end(scope);
    int64_t size = c.embedding_size ? c.embedding_size : c.hidden_size;
    self->transform = br_child(self, "transform", new_transform(bert));
    self->decoder = br_child(self, "decoder", br_linear_new(size, c.vocab_size, true));
    if (!c.untied && !br_error_pending())
        tie(self, bert);
    return self;
}

static br_tensor *predict(br_hf_bert_predictions *self, br_tensor *x)
{
    br_enter(self);
    return br_leave(self, br_linear_forward(self->decoder, transform(self->transform, x)));
}

static br_hf_bert_heads *new_heads(const br_hf_bert *bert, bool predictions, bool relationship)
{
    const br_hf_bert_config *c = &bert->config;
    br_hf_bert_heads *self = br_module_create(sizeof *self, "BertPreTrainingHeads");
    if (predictions)
        self->predictions = br_child(self, "predictions", new_predictions(bert));
    if (!relationship)
        return self;
    bool is_albert = zoo_bert_kind_of(c->model_type)->shares_layers;
    if (is_albert)
        self->dropout = br_child(self, "dropout", br_dropout_new(c->classifier_dropout));
    self->seq_relationship =
        br_child(self, "seq_relationship",
                 br_linear_new(c->hidden_size, is_albert ? c->num_labels : 2, true));
    return self;
}

static br_tensor *relate(br_hf_bert_heads *self, br_tensor *pooled)
{
    if (self->dropout)
        pooled = br_dropout_forward(self->dropout, pooled);
    return br_linear_forward(self->seq_relationship, pooled);
}

/* ---- BertForPreTraining, BertForMaskedLM, BertForNextSentencePrediction ---------------------- */

static br_hf_bert_pretraining *make_heads(br_hf_bert_config c, const char *class, bool predictions,
                                          bool relationship)
{
    br_hf_bert_pretraining *self = br_module_create(sizeof *self, class);
    self->bert = add_base(br_base(self), c, relationship);
    if (!br_error_pending())
        self->cls = br_child(self, "cls", new_heads(self->bert, predictions, relationship));
    return self;
}

br_hf_bert_pretraining *zoo_hf_bert_make_pretraining(br_hf_bert_config c)
{
    const zoo_bert_kind *kind = zoo_bert_kind_of(c.model_type);
    if (!kind->pretraining && !br_error_pending())
        br_raise(BR_ERROR_ARGUMENT,
                 "hf_bert: models of type %s have no class with both pretraining heads, only those "
                 "of type bert and albert have one",
                 c.model_type);
    return make_heads(c, kind->pretraining ? kind->pretraining : "", true, true);
}

br_hf_bert_pretraining *zoo_hf_bert_make_masked_lm(br_hf_bert_config c)
{
    return make_heads(c, zoo_bert_class(&c, BR_TASK_MASKED_LM), true, false);
}

br_hf_bert_pretraining *zoo_hf_bert_make_next_sentence(br_hf_bert_config c)
{
    return make_heads(c, zoo_bert_class(&c, BR_TASK_NEXT_SENTENCE), false, true);
}

static br_hf_bert_pretraining *new_pretraining(
    const br_hf_bert_config *config, br_hf_bert_pretraining *(*make)(br_hf_bert_config config))
{
    br_hf_bert_config c = zoo_hf_bert_checked(config);
    bool before = br_skip_init(true);
    br_hf_bert_pretraining *self = make(c);
    br_skip_init(before);
    return initialized(self, &c);
}

br_hf_bert_pretraining *br_hf_bert_for_pretraining_new(const br_hf_bert_config *config)
{
    return new_pretraining(config, zoo_hf_bert_make_pretraining);
}

br_hf_bert_pretraining *br_hf_bert_for_masked_lm_new(const br_hf_bert_config *config)
{
    return new_pretraining(config, zoo_hf_bert_make_masked_lm);
}

br_hf_bert_pretraining *br_hf_bert_for_next_sentence_new(const br_hf_bert_config *config)
{
    return new_pretraining(config, zoo_hf_bert_make_next_sentence);
}

/* Returns the options with pooler_output set: to the caller's pointer, or to `pooled`. */
static br_hf_bert_options with_pooled(const br_hf_bert_options *options, br_tensor **pooled)
{
    br_hf_bert_options o = *BR_OPTIONS_OF("hf_bert", br_hf_bert, options);
    if (!o.pooler_output)
        o.pooler_output = pooled;
    return o;
}

bool br_hf_bert_pretraining_forward(br_hf_bert_pretraining *self, br_tensor *input_ids,
                                    const br_hf_bert_options *options, br_tensor **prediction,
                                    br_tensor **relationship)
{
    br_tensor *pooled = NULL, *logits = NULL, *next = NULL;
    if (prediction)
        *prediction = NULL;
    if (relationship)
        *relationship = NULL;
    if (!br_module_enter(self ? br_base(self) : NULL))
        return false;
    br_hf_bert_options o = with_pooled(options, &pooled);
    br_tensor *x = br_hf_bert_forward(self->bert, input_ids, &o);
    if (prediction && self->cls->predictions)
        logits = br_scope_return(NULL, predict(self->cls->predictions, x));
    if (relationship && self->cls->seq_relationship)
        next = br_scope_return(NULL, relate(self->cls, *o.pooler_output));
    if (prediction && !br_error_pending())
        *prediction = logits;
    if (relationship && !br_error_pending())
        *relationship = next;
    zoo_hf_bert_store_outputs(self->bert, &o);
    br_leave(self, NULL);
    return !br_error_pending();
}

/* ---- Classification heads -------------------------------------------------------------------- */

/* Makes a head whose last layer has that name. */
static br_hf_bert_classification_head *new_head(br_hf_bert_config c, const char *class,
                                                const char *last, int64_t labels)
{
    br_hf_bert_classification_head *self = br_module_create(sizeof *self, class);
    self->dense = br_child(self, "dense", br_linear_new(c.hidden_size, c.hidden_size, true));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.classifier_dropout));
    self->out_proj = br_child(self, last, br_linear_new(c.hidden_size, labels, true));
    return self;
}

static br_tensor *run_head(br_hf_bert_classification_head *self, br_tensor *x)
{
    br_enter(self);
    x = self->activation(br_linear_forward(self->dense, br_dropout_forward(self->dropout, x)));
    return br_leave(self, br_linear_forward(self->out_proj, br_dropout_forward(self->dropout, x)));
}

/* ---- Classifiers ----------------------------------------------------------------------------- */

/* Adds the layers between the base model and the logits of sequences. */
static void add_sequence_head(br_hf_bert_classifier *self, const br_hf_bert_config *c,
                              const zoo_bert_kind *kind)
{
    if (kind->head) {
        self->head =
            br_child(self, "classifier", new_head(*c, kind->head, "out_proj", c->num_labels));
        if (self->head)
            self->head->activation = br_find_activation(kind->head_activation);
        return;
    }
    if (kind->has_no_pooler)
        self->pre_classifier =
            br_child(self, "pre_classifier", br_linear_new(c->hidden_size, c->hidden_size, true));
    self->dropout = br_child(self, "dropout", br_dropout_new(c->classifier_dropout));
    self->classifier =
        br_child(self, "classifier", br_linear_new(c->hidden_size, c->num_labels, true));
}

static void add_token_head(br_hf_bert_classifier *self, const br_hf_bert_config *c,
                           const zoo_bert_kind *kind)
{
    double p = kind->tokens_have_hidden_dropout ? c->hidden_dropout_prob : c->classifier_dropout;
    self->dropout = br_child(self, "dropout", br_dropout_new(p));
    self->classifier =
        br_child(self, "classifier", br_linear_new(c->hidden_size, c->num_labels, true));
}

static void add_question_head(br_hf_bert_classifier *self, const br_hf_bert_config *c)
{
    if (c->num_labels != 2 && !br_error_pending())
        br_raise(BR_ERROR_ARGUMENT,
                 "hf_bert: num_labels is %" PRId64
                 ", but a model that answers questions has 2: the "
                 "first and the last token of an answer",
                 c->num_labels);
    self->dropout = br_child(self, "dropout", br_dropout_new(c->qa_dropout));
    self->classifier = br_child(self, "qa_outputs", br_linear_new(c->hidden_size, 2, true));
}

br_hf_bert_classifier *zoo_hf_bert_make_classifier(br_hf_bert_config c, br_model_task task)
{
    const zoo_bert_kind *kind = zoo_bert_kind_of(c.model_type);
    bool pools = task == BR_TASK_SEQUENCE_CLASSIFICATION && !kind->head;
    br_hf_bert_classifier *self = br_module_create(sizeof *self, zoo_bert_class(&c, task));
    self->task = task;
    self->bert = add_base(br_base(self), c, pools);
    if (task == BR_TASK_SEQUENCE_CLASSIFICATION)
        add_sequence_head(self, &c, kind);
    else if (task == BR_TASK_TOKEN_CLASSIFICATION)
        add_token_head(self, &c, kind);
    else
        add_question_head(self, &c);
    return self;
}

br_hf_bert_classifier *zoo_hf_bert_make_discriminator(br_hf_bert_config c)
{
    if (!zoo_bert_kind_of(c.model_type)->has_discriminator && !br_error_pending())
        br_raise(BR_ERROR_ARGUMENT,
                 "hf_bert: models of type %s have no discriminator, only those of type electra "
                 "have one",
                 c.model_type ? c.model_type : "bert");
    br_hf_bert_classifier *self = br_module_create(sizeof *self, "ElectraForPreTraining");
    self->bert = add_base(br_base(self), c, false);
    self->head = br_child(self, "discriminator_predictions",
                          new_head(c, "ElectraDiscriminatorPredictions", "dense_prediction", 1));
    if (!self->head)
        return self;
    self->head->activation = br_find_activation(c.hidden_act);
    self->head->dropout->p = 0;
    return self;
}

static br_hf_bert_classifier *new_classifier(const br_hf_bert_config *config, br_model_task task)
{
    br_hf_bert_config c = zoo_hf_bert_checked(config);
    bool before = br_skip_init(true);
    br_hf_bert_classifier *self = zoo_hf_bert_make_classifier(c, task);
    br_skip_init(before);
    return initialized(self, &c);
}

br_hf_bert_classifier *br_hf_bert_for_sequence_classification_new(const br_hf_bert_config *config)
{
    return new_classifier(config, BR_TASK_SEQUENCE_CLASSIFICATION);
}

br_hf_bert_classifier *br_hf_bert_for_token_classification_new(const br_hf_bert_config *config)
{
    return new_classifier(config, BR_TASK_TOKEN_CLASSIFICATION);
}

br_hf_bert_classifier *br_hf_bert_for_question_answering_new(const br_hf_bert_config *config)
{
    return new_classifier(config, BR_TASK_QUESTION_ANSWERING);
}

br_hf_bert_classifier *br_hf_bert_discriminator_new(const br_hf_bert_config *config)
{
    br_hf_bert_config c = zoo_hf_bert_checked(config);
    bool before = br_skip_init(true);
    br_hf_bert_classifier *self = zoo_hf_bert_make_discriminator(c);
    br_skip_init(before);
    return initialized(self, &c);
}

/* Returns the logits of the last hidden state, or of the pooled one if the model has a pooler. */
static br_tensor *classify(br_hf_bert_classifier *self, br_tensor *x)
{
    if (self->pre_classifier)
        x = br_relu(br_linear_forward(self->pre_classifier, x));
    if (!self->head)
        return br_linear_forward(self->classifier, br_dropout_forward(self->dropout, x));
    x = run_head(self->head, x);
    return self->task == BR_TASK_OTHER ? br_squeeze(x, -1) : x;
}

/* Returns the logits of texts, whose pooled states are NULL if the model has no pooler, or of
 * tokens. */
static br_tensor *classify_states(br_hf_bert_classifier *self, br_tensor *x, br_tensor *pooled,
                                  br_tensor *starts)
{
    if (br_error_pending())
        return NULL;
    if (self->task != BR_TASK_SEQUENCE_CLASSIFICATION)
        return classify(self, x);
    br_tensor *rows = pooled ? pooled : zoo_first_tokens(x, starts);
    return zoo_own_rows(classify(self, zoo_enough_rows(rows, starts)), starts);
}

br_tensor *br_hf_bert_classifier_forward(br_hf_bert_classifier *self, br_tensor *input_ids,
                                         const br_hf_bert_options *options)
{
    br_enter(self);
    br_tensor *pooled = NULL;
    br_hf_bert_options o = with_pooled(options, &pooled);
    br_tensor *x = br_hf_bert_forward(self->bert, input_ids, &o);
    br_tensor *logits = classify_states(self, x, *o.pooler_output, o.cu_seqlens);
    zoo_hf_bert_store_outputs(self->bert, &o);
    return br_leave(self, logits);
}
