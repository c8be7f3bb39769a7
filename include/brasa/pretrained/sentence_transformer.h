/* brasa/pretrained/sentence_transformer.h - SentenceTransformer: embeddings of texts by a
 * pretrained model, as the folder's files describe them.
 *
 *     br_sentence_transformer *model = br_sentence_transformer_load("MiniLM", NULL, NULL);
 *     br_text texts[] = { { "time flies like an arrow", -1 }, { "fruit flies", -1 } };
 *     br_tensor *rows = br_sentence_transformer_encode(model, 2, texts, NULL);
 *
 * `rows` is f32 [2, 384]. The folder has the files of AutoModel and AutoTokenizer, and those of
 * sentence-transformers: modules.json, sentence_bert_config.json, 1_Pooling/config.json and
 * config_sentence_transformers.json. Without modules.json, an embedding is the mean of the hidden
 * states of a text's tokens, normalized to length 1, and texts are not truncated. A GGUF file names
 * its pooling ("qwen3.pooling_type"). */
#ifndef BRASA_PRETRAINED_SENTENCE_TRANSFORMER_H
#define BRASA_PRETRAINED_SENTENCE_TRANSFORMER_H

#include <brasa/nn.h>
#include <brasa/pretrained/auto_model.h>
#include <brasa/tokenizers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models ---------------------------------------------------------------------------------- */

/* A model with its tokenizer and settings. */
typedef struct br_sentence_transformer br_sentence_transformer;

/* How the hidden states of a text's tokens are combined. */
typedef enum br_pooling {
    BR_POOLING_AUTO,          /* what the files say; they may concatenate several */
    BR_POOLING_CLS,           /* the first token's */
    BR_POOLING_MAX,           /* the maximum of each element */
    BR_POOLING_MEAN,          /* the mean */
    BR_POOLING_MEAN_SQRT_LEN, /* the sum, divided by the square root of the number of tokens */
    BR_POOLING_WEIGHTEDMEAN,  /* the mean, weighted by the position, which is 1 for the first */
    BR_POOLING_LASTTOKEN,     /* the last token's */
} br_pooling;

/* Options of br_sentence_transformer_load(). Each overrides what the folder's files say. */
typedef struct br_sentence_transformer_options {
    size_t struct_size;
    br_pooling pooling;
    int64_t max_seq_length; /* truncate texts to this number of tokens; 0: what the files say */
    /* Lower-case the texts (WordPiece only). BR_SETTING_OFF keeps upper case, even if the
     * tokenizer's files say otherwise. */
    br_setting do_lower_case;
    br_dtype dtype;      /* of the model, as in br_auto_model_options */
    const char *adapter; /* a folder with an adapter, as in br_auto_model_options; NULL: none */
} br_sentence_transformer_options;
#define br_sentence_transformer_default_fields \
    .struct_size = sizeof(br_sentence_transformer_options), .dtype = BR_DTYPE_AUTO
BR_API br_sentence_transformer_options br_sentence_transformer_defaults(void);

/* Loads a model folder. The model's family must embed sentences, as BERT does. Returns NULL and an
 * error that names the file, the key and the value on failure. `options` and `report` may be NULL;
 * `report` is that of br_auto_model_load(), which the caller frees with
 * br_auto_model_report_clear(). */
BR_API br_sentence_transformer *br_sentence_transformer_load(
    const char *dir, const br_sentence_transformer_options *options, br_auto_model_report *report);
/* Frees a model. NULL is ignored. */
BR_API void br_sentence_transformer_free(br_sentence_transformer *self);
/* Returns the number of elements of an embedding. */
BR_API int64_t br_sentence_transformer_dimension(const br_sentence_transformer *self);
/* Returns the number of tokens to which texts are truncated: that of the options or the files, but
 * at most what the model takes; INT32_MAX if there is no limit. */
BR_API int64_t br_sentence_transformer_max_seq_length(const br_sentence_transformer *self);
/* Returns the folder of config.json, the weights and the tokenizer: the one that was loaded, or a
 * subfolder that modules.json names. */
BR_API const char *br_sentence_transformer_folder(const br_sentence_transformer *self);
/* Return the tokenizer and the module, such as a br_hf_bert, which the model owns. */
BR_API const br_tokenizer *br_sentence_transformer_tokenizer(const br_sentence_transformer *self);
BR_API br_module *br_sentence_transformer_module(const br_sentence_transformer *self);

/* ---- Embeddings ------------------------------------------------------------------------------ */

typedef struct br_sentence_encode_options {
    size_t struct_size;
    int64_t batch_size;        /* number of texts that the model embeds together */
    bool normalize_embeddings; /* to length 1 */
    const char *prompt;        /* precedes each text; "": none; NULL: the one of prompt_name */
    /* The name of one of the prompts in config_sentence_transformers.json, such as "query"; NULL:
     * the default prompt of that file, if there is one. */
    const char *prompt_name;
    /* Called after each batch with the number of texts embedded so far, and of all texts. If it
     * returns false, encoding stops with an error. */
    bool (*on_batch)(void *context, int64_t done, int64_t total);
    void *context;
    /* Keep this number of first elements of each embedding, for a model that was trained with
     * Matryoshka losses. normalize_embeddings normalizes what is kept. 0, or more than the
     * dimension: all. */
    int64_t truncate_dim;
} br_sentence_encode_options;
#define br_sentence_encode_default_fields \
    .struct_size = sizeof(br_sentence_encode_options), .batch_size = 32
BR_API br_sentence_encode_options br_sentence_encode_defaults(void);

/* Returns the embeddings of n texts, f32 [n, dimension] in the host's memory, in the order of the
 * texts. The model runs on its module's device. Texts of
 * similar length share a batch. If the model's family takes packed batches, batches have no
 * padding, and in f32 an embedding does not depend on the other texts, to the bit. The module is
 * put into evaluation mode, and no gradient is recorded. A text that has more tokens than the model
 * has positions after it was truncated is an error, and so is a token whose id is not below
 * vocab_size. `options` may be NULL. */
BR_API br_tensor *br_sentence_transformer_encode(br_sentence_transformer *self, int64_t n,
                                                 const br_text *texts,
                                                 const br_sentence_encode_options *options);
/* Returns the embeddings [n, dimension], in the module's dtype and on its device, of a batch that
 * the tokenizer has encoded, without a prompt. Records gradients and leaves the module's mode, for
 * training. The batch may be on any device. batch->type_ids may be NULL. */
BR_API br_tensor *br_sentence_transformer_forward(br_sentence_transformer *self,
                                                  const br_token_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
