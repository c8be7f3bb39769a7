/* tests/tokenizers/test_auto_types.c - the type ids that a model gets from its folder's tokenizer.
 */
#include "tests/io/files.h"
#include "tests/support.h"

#include <brasa/tokenizers.h>

TestSuite(auto_types, .init = files_begin, .fini = files_end);

static void put(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

/* Batches have no type ids if the model gets none; encodings keep theirs. */
Test(auto_types, type_ids_that_the_model_does_not_get)
{
    static const struct {
        const char *model, *config;
        int64_t type;
    } rows[] = {
        { "bert", "{}", 1 },
        { "bert", "{\"model_input_names\": [\"input_ids\", \"attention_mask\"]}", 0 },
        { "bert", "{\"model_input_names\": [\"input_ids\", \"token_type_ids\"]}", 1 },
        { "albert", "{\"tokenizer_class\": \"PreTrainedTokenizerFast\"}", 1 },
        { "albert", "{}", 0 },
        { "bert", "{\"tokenizer_class\": \"AlbertTokenizerFast\"}", 0 },
        { "albert", "{\"model_input_names\": [\"token_type_ids\"]}", 1 },
    };
    size_t n;
    char *json = files_read(BRASA_TEST_DIR "/tokenizers/normal/albert.json", &n);
    files_write(files_path("tokenizer.json"), json, n);
    free(json);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char config[100];
        snprintf(config, sizeof config, "{\"model_type\": \"%s\"}", rows[i].model);
        put("config.json", config);
        put("tokenizer_config.json", rows[i].config);
        br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
        cr_assert(t, "%s", br_error_message());
        br_text texts[] = { { "a", -1 }, { "a b", -1 } };
        br_scope *scope = br_scope_begin();
        br_token_batch batch;
        cr_assert(br_tokenizer_encode_batch(t, 1, texts, texts + 1, NULL, &batch));
        int64_t last = br_size(batch.type_ids, 1) - 1;
        cr_assert_eq((int64_t)br_at(batch.type_ids, BR_DIMS(0, last)), rows[i].type, "row %zu", i);
        br_encoding *e = br_tokenizer_encode(t, &texts[0], &texts[1], NULL);
        cr_assert_eq(e->type_ids[last], 1);
        br_encoding_free(e);
        br_scope_end(scope);
        br_tokenizer_free(t);
    }
}
