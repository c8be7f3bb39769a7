/* models/hf_bert_heads.c - BERT's pretraining heads and classifier. */
#include "models/hf_bert_internal.h"
#include "models/models_internal.h"

/* ---- cls ------------------------------------------------------------------------------------- */

static br_hf_bert_transform *new_transform(const br_hf_bert *bert)
{
    br_hf_bert_config c = bert->config;
    br_hf_bert_transform *self = br_module_create(sizeof *self, "BertPredictionHeadTransform");
    self->dense = br_child(self, "dense", br_linear_new(c.hidden_size, c.hidden_size, true));
    self->LayerNorm = br_child(
        self, "LayerNorm",
        br_layer_norm_new(c.hidden_size, BR_OPTIONS(br_layer_norm, .eps = c.layer_norm_eps)));
    self->activation = br_find_activation(c.hidden_act);
    return self;
}

static br_tensor *transform(br_hf_bert_transform *self, br_tensor *x)
{
    br_enter(self);
    x = self->activation(br_linear_forward(self->dense, x));
    return br_leave(self, br_layer_norm_forward(self->LayerNorm, x));
}

/* Ties decoder.weight to the word embeddings, and decoder.bias to the head's bias. */
static void tie(br_hf_bert_predictions *self, const br_hf_bert *bert)
{
    br_module *decoder = br_base(self->decoder);
    self->decoder->weight =
        br_module_replace_parameter(decoder, "weight", bert->embeddings->word_embeddings->weight);
    self->decoder->bias = br_module_replace_parameter(decoder, "bias", self->bias);
}

static br_hf_bert_predictions *new_predictions(const br_hf_bert *bert)
{
    br_hf_bert_config c = bert->config;
    br_hf_bert_predictions *self = br_module_create(sizeof *self, "BertLMPredictionHead");
    br_scope *scope = br_scope_begin();
    self->bias = br_parameter(self, "bias", br_zeros(BR_SHAPE(c.vocab_size), BR_F32));
    br_scope_end(scope);
    self->transform = br_child(self, "transform", new_transform(bert));
    self->decoder = br_child(self, "decoder", br_linear_new(c.hidden_size, c.vocab_size, true));
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
    br_hf_bert_heads *self = br_module_create(sizeof *self, "BertPreTrainingHeads");
    if (predictions)
        self->predictions = br_child(self, "predictions", new_predictions(bert));
    if (relationship)
        self->seq_relationship =
            br_child(self, "seq_relationship", br_linear_new(bert->config.hidden_size, 2, true));
    return self;
}

/* ---- BertForPreTraining, BertForMaskedLM, BertForNextSentencePrediction ---------------------- */

const char zoo_bert_pretraining[] = "BertForPreTraining", zoo_bert_masked_lm[] = "BertForMaskedLM",
           zoo_bert_next_sentence[] = "BertForNextSentencePrediction",
           zoo_bert_classification[] = "BertForSequenceClassification";

br_hf_bert_pretraining *zoo_hf_bert_make_pretraining(br_hf_bert_config c, const char *name)
{
    bool predictions = name != zoo_bert_next_sentence, relationship = name != zoo_bert_masked_lm;
    br_hf_bert_pretraining *self = br_module_create(sizeof *self, name);
    self->bert = br_child(self, "bert", zoo_hf_bert_make(c, relationship));
    if (!br_error_pending())
        self->cls = br_child(self, "cls", new_heads(self->bert, predictions, relationship));
    return self;
}

static br_hf_bert_pretraining *new_pretraining(const br_hf_bert_config *config, const char *name)
{
    br_hf_bert_config c = zoo_hf_bert_checked(config);
    bool before = br_skip_init(true);
    br_hf_bert_pretraining *self = zoo_hf_bert_make_pretraining(c, name);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_hf_bert_init, &c);
}

br_hf_bert_pretraining *br_hf_bert_for_pretraining_new(const br_hf_bert_config *config)
{
    return new_pretraining(config, zoo_bert_pretraining);
}

br_hf_bert_pretraining *br_hf_bert_for_masked_lm_new(const br_hf_bert_config *config)
{
    return new_pretraining(config, zoo_bert_masked_lm);
}

br_hf_bert_pretraining *br_hf_bert_for_next_sentence_new(const br_hf_bert_config *config)
{
    return new_pretraining(config, zoo_bert_next_sentence);
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
        next =
            br_scope_return(NULL, br_linear_forward(self->cls->seq_relationship, *o.pooler_output));
    if (prediction && !br_error_pending())
        *prediction = logits;
    if (relationship && !br_error_pending())
        *relationship = next;
    zoo_hf_bert_store_outputs(self->bert, &o);
    br_leave(self, NULL);
    return !br_error_pending();
}

/* ---- BertForSequenceClassification ----------------------------------------------------------- */

br_hf_bert_classifier *zoo_hf_bert_make_classifier(br_hf_bert_config c)
{
    br_hf_bert_classifier *self = br_module_create(sizeof *self, zoo_bert_classification);
    self->bert = br_child(self, "bert", zoo_hf_bert_make(c, true));
    self->dropout = br_child(self, "dropout", br_dropout_new(c.classifier_dropout));
    self->classifier =
        br_child(self, "classifier", br_linear_new(c.hidden_size, c.num_labels, true));
    return self;
}

br_hf_bert_classifier *br_hf_bert_for_sequence_classification_new(const br_hf_bert_config *config)
{
    br_hf_bert_config c = zoo_hf_bert_checked(config);
    bool before = br_skip_init(true);
    br_hf_bert_classifier *self = zoo_hf_bert_make_classifier(c);
    br_skip_init(before);
    return zoo_init_module(br_base(self), zoo_hf_bert_init, &c);
}

br_tensor *br_hf_bert_classifier_forward(br_hf_bert_classifier *self, br_tensor *input_ids,
                                         const br_hf_bert_options *options)
{
    br_enter(self);
    br_tensor *pooled = NULL;
    br_hf_bert_options o = with_pooled(options, &pooled);
    br_hf_bert_forward(self->bert, input_ids, &o);
    br_tensor *x = br_dropout_forward(self->dropout, *o.pooler_output);
    br_tensor *logits = br_linear_forward(self->classifier, x);
    zoo_hf_bert_store_outputs(self->bert, &o);
    return br_leave(self, logits);
}
