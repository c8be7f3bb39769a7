/* Fine-tuning from a Hugging Face folder: loads tokenizer and weights, trains BERT with a new
 * classifier on a few sentences, and saves the model as a folder, "fine_tuned" in the first one,
 * which transformers can load. Without an argument the program makes a folder with an untrained
 * BERT; with one, such as bert-base-uncased, it uses that folder. */
#include <brasa/brasa.h>
#include <stdio.h>
#include <stdlib.h>

enum { FOOD, WEATHER, TRAIN = 8, TEST = 4, STEPS = 200 };
static const char *const names[] = { "food", "weather" };
static const br_text texts[TRAIN + TEST] = {
    { "the soup is hot", -1 },
    { "it rains all day", -1 },
    { "bread and soup", -1 },
    { "cold wind today", -1 },
    { "we eat bread and cheese", -1 },
    { "snow and rain in the north", -1 },
    { "i eat cheese today", -1 },
    { "it snows in the cold wind", -1 },
    { "soup and cheese", -1 },
    { "cold rain today", -1 }, /* from here on not trained on */
    { "we eat bread", -1 },
    { "the snow and the wind", -1 },
};
static const int64_t labels[TRAIN + TEST] = { FOOD, WEATHER, FOOD, WEATHER, FOOD, WEATHER,
                                              FOOD, WEATHER, FOOD, WEATHER, FOOD, WEATHER };

static const char *const vocabulary[] = {
    "[PAD]", "[UNK]", "[CLS]", "[SEP]",  "[MASK]", "the", "soup",  "is",    "hot",
    "it",    "rain",  "##s",   "all",    "day",    "we",  "eat",   "bread", "and",
    "wind",  "cold",  "today", "cheese", "snow",   "in",  "north", "i",
};
static const char *const configuration =
    "{ \"model_type\": \"bert\", \"architectures\": [\"BertModel\"], \"vocab_size\": 26,\n"
    "  \"hidden_size\": 32, \"num_hidden_layers\": 2, \"num_attention_heads\": 4,\n"
    "  \"intermediate_size\": 64, \"max_position_embeddings\": 32 }";

static const char *path_in(const char *folder, const char *file)
{
    static char path[1024];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return path;
}

static bool write_lines(const char *folder, const char *name, size_t n, const char *const *lines)
{
    FILE *file = fopen(path_in(folder, name), "w");
    for (size_t i = 0; file && i < n; i++)
        fprintf(file, "%s\n", lines[i]);
    return file && fclose(file) == 0;
}

/* Writes the three files that a model folder needs: the vocabulary, the configuration, the weights.
 */
static bool make_folder(const char *folder)
{
    const size_t words = sizeof vocabulary / sizeof *vocabulary;
    if (!write_lines(folder, "vocab.txt", words, vocabulary) ||
        !write_lines(folder, "config.json", 1, &configuration))
        return false;
    br_auto_config *config = br_auto_config_load(folder);
    br_hf_bert_config sizes = br_hf_bert_config_from(config);
    br_hf_bert *bert = br_hf_bert_new(&sizes);
    bool ok = br_model_save(path_in(folder, "model.safetensors"), br_base(bert), 0, NULL);
    br_module_free(bert);
    br_auto_config_free(config);
    return ok;
}

/* Returns logits [n, 2] of n texts. */
static br_tensor *classify(br_hf_bert_classifier *model, const br_tokenizer *tokenizer, int64_t n,
                           const br_text *of)
{
    br_token_batch batch;
    if (!br_tokenizer_encode_batch(tokenizer, n, of, NULL, NULL, &batch))
        return NULL;
    return br_hf_bert_classifier_forward(
        model, batch.ids, BR_OPTIONS(br_hf_bert, .attention_mask = batch.attention_mask));
}

static void train(br_hf_bert_classifier *model, const br_tokenizer *tokenizer)
{
    br_optim *optim = br_adamw(br_base(model), BR_OPTIONS(br_adamw, .lr = 2e-3));
    br_train(br_base(model), true); /* dropout on: a loaded model is in evaluation mode */
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *loss = br_cross_entropy(classify(model, tokenizer, TRAIN, texts),
                                           br_from_i64(BR_DIMS(TRAIN), labels), NULL);
        br_optim_zero_grad(optim);
        br_backward(loss);
        br_optim_step(optim);
        if (step % 100 == 0)
            printf("step %d: the loss is %s\n", step, br_item(loss) < 0.1 ? "below 0.1" : "higher");
        br_scope_end(scope);
    }
    br_optim_free(optim);
    br_eval(br_base(model));
}

/* Prints the classes of the texts that were not trained on; returns the number of right ones. */
static int test(br_hf_bert_classifier *model, const br_tokenizer *tokenizer)
{
    int right = 0;
    br_scope *scope = br_no_grad_begin();
    br_tensor *found = br_argmax(classify(model, tokenizer, TEST, texts + TRAIN), -1, false);
    const int64_t *classes = found ? br_data_i64(found) : NULL;
    for (int i = 0; classes && i < TEST; i++) {
        printf("%-22s %s\n", texts[TRAIN + i].data, names[classes[i]]);
        right += classes[i] == labels[TRAIN + i];
    }
    br_scope_end(scope);
    return right;
}

int main(int argc, char **argv)
{
    char own[] = "/tmp/brasa-XXXXXX";
    br_manual_seed(1);
    const char *folder = argc > 1 ? argv[1] : mkdtemp(own);
    if (!folder || (argc == 1 && !make_folder(folder)))
        return br_report(stderr) || EXIT_FAILURE;
    br_tokenizer *tokenizer = br_auto_tokenizer_load(folder, NULL);
    br_auto_model_report report = { 0 };
    br_hf_bert_classifier *model = br_auto_model_load(
        folder, BR_OPTIONS(br_auto_model, .class_name = "BertForSequenceClassification"), &report);
    if (model)
        printf("new weights: %s\n", report.missing_names);
    br_auto_model_report_clear(&report);
    train(model, tokenizer);
    int right = test(model, tokenizer);
    br_auto_model_save(path_in(folder, "fine_tuned"), br_base(model),
                       BR_OPTIONS(br_auto_model_save, .from = folder));
    br_module_free(model);
    br_tokenizer_free(tokenizer);
    static const char *const files[] = { "fine_tuned/vocab.txt",
                                         "fine_tuned/config.json",
                                         "fine_tuned/model.safetensors",
                                         "fine_tuned",
                                         "vocab.txt",
                                         "config.json",
                                         "model.safetensors",
                                         "" };
    for (int i = 0; argc == 1 && i < 8; i++)
        remove(path_in(folder, files[i])); /* at last, the folder itself */
    br_thread_cleanup();
    return br_report(stderr) || right < TEST;
}
