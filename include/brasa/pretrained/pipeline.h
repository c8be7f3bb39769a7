/* brasa/pretrained/pipeline.h - pretrained models that classify texts, tag their tokens or answer
 * questions, like transformers' pipelines "text-classification", "token-classification" and
 * "question-answering".
 *
 *     br_pipeline *sentiment =
 *         br_pipeline_load("distilbert-sst2", BR_TASK_SEQUENCE_CLASSIFICATION, NULL, NULL);
 *     br_text text = { "a gorgeous film", -1 };
 *     br_tensor *scores = br_pipeline_classify(sentiment, 1, &text, NULL, NULL);
 *     int64_t best = (int64_t)br_item(br_argmax(scores));
 *     printf("%s\n", br_pipeline_label(sentiment, best));
 *     br_pipeline_free(sentiment);
 *
 * A pipeline is for one thread at a time. */
#ifndef BRASA_PRETRAINED_PIPELINE_H
#define BRASA_PRETRAINED_PIPELINE_H

#include <brasa/pretrained/auto_model.h>
#include <brasa/pretrained/family.h>
#include <brasa/tokenizers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models ---------------------------------------------------------------------------------- */

/* A model with its tokenizer and the names of its labels. */
typedef struct br_pipeline br_pipeline;

typedef struct br_pipeline_options {
    size_t struct_size;
    br_setting do_lower_case; /* of a WordPiece tokenizer, instead of what its files say */
    br_dtype dtype;           /* of the model, as in br_auto_model_options */
    const char *adapter; /* a folder with an adapter, as in br_auto_model_options; NULL: none */
} br_pipeline_options;
#define br_pipeline_default_fields \
    .struct_size = sizeof(br_pipeline_options), .dtype = BR_DTYPE_AUTO
BR_API br_pipeline_options br_pipeline_defaults(void);

/* Loads the class of the folder's family for a task: BR_TASK_SEQUENCE_CLASSIFICATION,
 * BR_TASK_TOKEN_CLASSIFICATION or BR_TASK_QUESTION_ANSWERING. Returns NULL and an error on failure;
 * it is an error if the files lack weights of the head. `options` and `report` may be NULL;
 * `report` is that of br_auto_model_load(), which the caller frees with
 * br_auto_model_report_clear(). */
BR_API br_pipeline *br_pipeline_load(const char *dir, br_model_task task,
                                     const br_pipeline_options *options,
                                     br_auto_model_report *report);
/* Frees a pipeline. NULL is ignored. */
BR_API void br_pipeline_free(br_pipeline *self);
/* Returns the number of labels. */
BR_API int64_t br_pipeline_labels(const br_pipeline *self);
/* Returns the name of a label, from id2label of config.json; NULL and an error if there is none. */
BR_API const char *br_pipeline_label(const br_pipeline *self, int64_t id);
/* Return the tokenizer and the module, such as a br_hf_bert_classifier, which the pipeline owns. */
BR_API const br_tokenizer *br_pipeline_tokenizer(const br_pipeline *self);
BR_API br_module *br_pipeline_module(const br_pipeline *self);

/* ---- Classification of texts ----------------------------------------------------------------- */

/* How logits become scores. */
typedef enum br_scores {
    /* BR_SCORES_LOGITS if problem_type of config.json is "regression"; BR_SCORES_SIGMOID if it is
     * "multi_label_classification", or if there is one label; else BR_SCORES_SOFTMAX. */
    BR_SCORES_AUTO,
    BR_SCORES_SOFTMAX,
    BR_SCORES_SIGMOID,
    BR_SCORES_LOGITS,
} br_scores;

typedef struct br_classify_options {
    size_t struct_size;
    int64_t batch_size; /* number of texts that the model reads together */
    int64_t max_length; /* truncate texts to this number of tokens; 0: do not truncate */
    br_scores scores;
    /* Called after each batch with the number of texts classified so far, and of all texts. If it
     * returns false, the classification stops with an error. */
    bool (*on_batch)(void *context, int64_t done, int64_t total);
    void *context;
} br_classify_options;
#define br_classify_default_fields .struct_size = sizeof(br_classify_options), .batch_size = 32
BR_API br_classify_options br_classify_defaults(void);

/* Returns the scores of n texts, or of pairs if `pairs` is not NULL: f32 [n, labels] in the host's
 * memory, in the order of the texts. Texts of similar length share a batch. The module is put into
 * evaluation mode, and no gradient is recorded. A text with more tokens than the model has
 * positions is an error unless it is truncated. `options` may be NULL. */
BR_API br_tensor *br_pipeline_classify(br_pipeline *self, int64_t n, const br_text *texts,
                                       const br_text *pairs, const br_classify_options *options);

/* ---- Cross-encoders -------------------------------------------------------------------------- */

typedef struct br_rerank_options {
    size_t struct_size;
    int64_t batch_size; /* number of texts that the model reads together */
    /* Truncate a pair to this number of tokens; 0: as the folder's files say, and at most the
     * model's limit. */
    int64_t max_length;
    /* BR_SCORES_AUTO: the activation that the folder's files name, a sigmoid if they name none. */
    br_scores scores;
    /* Called after each batch with the number of texts scored so far, and of all texts. If it
     * returns false, scoring stops with an error. */
    bool (*on_batch)(void *context, int64_t done, int64_t total);
    void *context;
    const char *prompt; /* precedes the query; "": none; NULL: the one of prompt_name */
    /* The name of one of the prompts in config_sentence_transformers.json, which counts in a folder
     * with modules.json; NULL: the default prompt of that file, if there is one. */
    const char *prompt_name;
} br_rerank_options;
#define br_rerank_default_fields .struct_size = sizeof(br_rerank_options), .batch_size = 32
BR_API br_rerank_options br_rerank_defaults(void);

/* Returns how well each of n texts fits the query, f32 [n] in the host's memory, in the order of
 * the texts: the scores of sentence-transformers' CrossEncoder, whose model has one label and reads
 * the query and a text as a pair. br_argsort() ranks the texts. The pipeline was loaded with the
 * task BR_TASK_SEQUENCE_CLASSIFICATION. The module is put into evaluation mode, and no gradient is
 * recorded. `options` may be NULL. */
BR_API br_tensor *br_pipeline_rerank(br_pipeline *self, const br_text *query, int64_t n,
                                     const br_text *texts, const br_rerank_options *options);

/* ---- Tags of tokens -------------------------------------------------------------------------- */

/* How tokens become entities: transformers' aggregation_strategy. Tokens of a word are a token and
 * the following tokens that continue it. */
typedef enum br_aggregation {
    BR_AGGREGATE_NONE, /* each token is an entity */
    /* Consecutive tokens with the same tag are one entity. A tag "B-PER" begins a new entity of
     * "PER", and "I-PER" continues it. */
    BR_AGGREGATE_SIMPLE,
    /* Like BR_AGGREGATE_SIMPLE, but first all tokens of a word get the same tag: the tag of the
     * first token; the tag with the highest mean probability; the tag of the most certain token. */
    BR_AGGREGATE_FIRST,
    BR_AGGREGATE_AVERAGE,
    BR_AGGREGATE_MAX,
} br_aggregation;

typedef struct br_tag_options {
    size_t struct_size;
    br_aggregation aggregation;
    const char *ignored_label; /* entities with this label are left out; "": none */
    int64_t max_length;        /* of a text in tokens, or of its parts; 0: the model's limit */
    /* Number of tokens that consecutive parts of a text share. A longer text is read in parts, and
     * of overlapping entities the longest is kept. -1: the rest of a longer text is left out. */
    int64_t stride;
    int64_t batch_size; /* number of texts, or parts of texts, that the model reads together */
    /* Called by br_pipeline_tag_batch() after each batch with the number of texts tagged so far,
     * and of all texts. If it returns false, tagging stops with an error. */
    bool (*on_batch)(void *context, int64_t done, int64_t total);
    void *context;
} br_tag_options;
#define br_tag_default_fields \
    .struct_size = sizeof(br_tag_options), .ignored_label = "O", .stride = -1, .batch_size = 32
BR_API br_tag_options br_tag_defaults(void);

typedef struct br_entity {
    char *label;          /* without "B-" and "I-" unless the entity is a token */
    double score;         /* the mean of the tokens' probabilities */
    br_span bytes, chars; /* offsets in the text, in bytes and in code points */
} br_entity;

typedef struct br_entities {
    int64_t count;
    br_entity *items;
} br_entities;

/* Returns the entities of a text in their order, for br_entities_free(); NULL and an error on
 * failure. Parts of a text need an aggregation other than BR_AGGREGATE_NONE. `options` may be NULL.
 */
BR_API br_entities *br_pipeline_tag(br_pipeline *self, const br_text *text,
                                    const br_tag_options *options);
/* Sets entities[0] .. entities[n - 1] to the entities of n texts, each for br_entities_free().
 * Texts of similar length share a batch. In f32 the entities of a text are those of
 * br_pipeline_tag(), to the bit, if the model's family takes packed batches; else they may differ
 * by rounding. Returns false and an error on failure; then all are NULL. `options` may be NULL. */
BR_API bool br_pipeline_tag_batch(br_pipeline *self, int64_t n, const br_text *texts,
                                  const br_tag_options *options, br_entities **entities);
/* Frees entities. NULL is ignored. */
BR_API void br_entities_free(br_entities *entities);

/* ---- Answers to questions -------------------------------------------------------------------- */

/* The names are those of transformers 4. */
typedef struct br_answer_options {
    size_t struct_size;
    int64_t top_k;          /* at most this many answers */
    int64_t max_answer_len; /* of an answer, in tokens, before it is extended to whole words */
    int64_t max_seq_len;    /* of the question and a part of the context, in tokens; 0: 384, or the
                               model's limit if that is less */
    int64_t doc_stride; /* number of tokens that consecutive parts of the context share; -1: half
                           of max_seq_len, at most 128 */
    bool handle_impossible_answer; /* an empty answer may be the best */
    bool align_to_words;           /* extend answers to whole words */
} br_answer_options;
#define br_answer_default_fields                                                                  \
    .struct_size = sizeof(br_answer_options), .top_k = 1, .max_answer_len = 15, .doc_stride = -1, \
    .align_to_words = true
BR_API br_answer_options br_answer_defaults(void);

typedef struct br_answer {
    double score;         /* the probability; the sum of those of equal answers */
    br_span bytes, chars; /* offsets in the context, in bytes and in code points; the empty answer
                             is at 0 */
} br_answer;

typedef struct br_answers {
    int64_t count;
    br_answer *items;
} br_answers;

/* Returns the answers to a question that are parts of the context, the best first, for
 * br_answers_free(); NULL and an error on failure. A longer context is read in parts. Answers that
 * differ only in case are one answer. There is no answer of probability 0, so there may be none at
 * all. `options` may be NULL. */
BR_API br_answers *br_pipeline_answer(br_pipeline *self, const br_text *question,
                                      const br_text *context, const br_answer_options *options);
/* Frees answers. NULL is ignored. */
BR_API void br_answers_free(br_answers *answers);

#ifdef __cplusplus
}
#endif
#endif
