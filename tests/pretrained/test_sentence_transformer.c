/* tests/pretrained/test_sentence_transformer.c - sentence embeddings: br_sentence_transformer and
 * its options. test_sentence_files.c compares values with sentence-transformers. */
#include "pretrained/pooling.h"
#include "tensor/tensor_internal.h"
#include "tests/backends/guarded.h"
#include "tests/pretrained/sentence_model.h"

TestSuite(sentence_transformer, .init = files_begin, .fini = files_end);

enum { SIZE = 16 };

static br_sentence_transformer *opened(const char *pooling)
{
    make_sentence_model(MODULES, pooling);
    br_sentence_transformer *model = open_model(NULL);
    cr_assert(model, "%s", br_error_message());
    return model;
}

static br_tensor *encode(br_sentence_transformer *model, const char *text,
                         const br_sentence_encode_options *options)
{
    return br_sentence_transformer_encode(model, 1, &TEXT(text), options);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Texts of unlike length have the same embeddings together and alone, in the order of the texts. */
Test(sentence_transformer, many_texts_equal_one_at_a_time)
{
    static const br_text texts[] = {
        { "aa a aaa a", -1 }, { "a", -1 },     { "", -1 },       { NULL, 0 },
        { "aaaa aa aa", -1 }, { "aa aaa", 2 }, { "A aa A", -1 }, { "a a a a a a a a a", -1 },
    };
    enum { N = sizeof texts / sizeof *texts };
    br_sentence_transformer *model = opened("{}");
    br_scope *scope = br_scope_begin();
    cr_assert_eq(br_sentence_transformer_dimension(model), SIZE);
    for (int64_t batch_size = 1; batch_size <= N + 1; batch_size++) {
        br_tensor *rows =
            br_sentence_transformer_encode(model, N, texts, ENCODE(.batch_size = batch_size));
        cr_assert(rows, "%s", br_error_message());
        cr_assert(br_size(rows, 0) == N && br_size(rows, 1) == SIZE && !br_requires_grad(rows));
        for (int64_t i = 0; i < N; i++) {
            br_tensor *alone = br_sentence_transformer_encode(model, 1, texts + i, NULL);
            double d = difference(br_select(rows, 0, i), br_select(alone, 0, 0));
            cr_assert(d == 0, "text %d in batches of %d is off by %g", (int)i, (int)batch_size, d);
        }
    }
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

Test(sentence_transformer, no_texts)
{
    br_sentence_transformer *model = opened("{\"pooling_mode\": [\"cls\", \"max\"]}");
    br_scope *scope = br_scope_begin();
    br_tensor *rows = br_sentence_transformer_encode(model, 0, NULL, NULL);
    cr_assert(rows && br_size(rows, 0) == 0 && br_size(rows, 1) == 2 * SIZE);
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

Test(sentence_transformer, normalize_embeddings)
{
    br_sentence_transformer *model = opened("{}");
    br_scope *scope = br_scope_begin();
    const float *raw = br_data_f32(encode(model, "aa a", NULL));
    const float *unit = br_data_f32(encode(model, "aa a", ENCODE(.normalize_embeddings = true)));
    double squares = 0;
    for (int i = 0; i < SIZE; i++)
        squares += (double)raw[i] * raw[i];
    cr_assert(fabs(squares - 1) > 0.1);
    for (int i = 0; i < SIZE; i++)
        check_close(unit[i], raw[i] / sqrt(squares), 1e-6);
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

/* The first elements are kept, and then normalized. */
Test(sentence_transformer, truncate_dim)
{
    br_sentence_transformer *model = opened("{}");
    br_scope *scope = br_scope_begin();
    br_tensor *all = encode(model, "aa a", NULL);
    br_tensor *some = encode(model, "aa a", ENCODE(.truncate_dim = 5));
    cr_assert(br_equal(some, br_narrow(all, 1, 0, 5)));
    cr_assert(br_equal(all, encode(model, "aa a", ENCODE(.truncate_dim = SIZE + 1))));
    br_tensor *unit =
        encode(model, "aa a", ENCODE(.truncate_dim = 5, .normalize_embeddings = true));
    check_close(br_item(br_sum(br_mul(unit, unit))), 1, 1e-6);
    check_fails(encode(model, "a", ENCODE(.truncate_dim = -1)),
                "the option truncate_dim is -1, must be at least 0");
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

/* ---- Prompts --------------------------------------------------------------------------------- */

static void write_prompts(void)
{
    write_file("config_sentence_transformers.json",
               "{\"prompts\": {\"p\": \"aaaa \", \"q\": \"a aaa: \", \"bad\": 1, \"none\": null}, "
               "\"default_prompt_name\": \"q\"}");
}

static void check_same(br_tensor *a, br_tensor *b)
{
    cr_assert(a && b, "%s", br_error_message());
    const br_device cpu = { BR_CPU, 0 };
    cr_assert_lt(difference(br_to_device(a, cpu), br_to_device(b, cpu)), 1e-6);
}

/* A prompt precedes the text. It replaces the prompt of prompt_name, which replaces the default. */
Test(sentence_transformer, prompts)
{
    br_sentence_transformer *plain = opened("{}");
    write_prompts();
    br_sentence_transformer *model = open_model(NULL);
    br_scope *scope = br_scope_begin();
    check_same(encode(model, "aa", NULL), encode(plain, "a aaa: aa", NULL));
    check_same(encode(model, "aa", ENCODE(.prompt = "")), encode(plain, "aa", NULL));
    check_same(encode(model, "aa", ENCODE(.prompt = "aaa ")), encode(plain, "aaa aa", NULL));
    check_same(encode(model, "aa", ENCODE(.prompt_name = "p")), encode(plain, "aaaa aa", NULL));
    check_same(encode(model, "aa", ENCODE(.prompt = "aaa ", .prompt_name = "other")),
               encode(plain, "aaa aa", NULL));
    check_same(encode(plain, "aa", ENCODE(.prompt = "aaa ")), encode(plain, "aaa aa", NULL));
    static const char *const empty[] = { "none", "query", "document" };
    for (int i = 0; i < 3; i++)
        check_same(encode(model, "aa", ENCODE(.prompt_name = empty[i])), encode(plain, "aa", NULL));
    check_fails(encode(model, "aa", ENCODE(.prompt_name = "other")),
                "the option prompt_name is \"other\", must be the name of one of the prompts in ");
    check_fails(encode(model, "aa", ENCODE(.prompt_name = "bad")),
                "config_sentence_transformers.json: the prompt \"bad\" is not a string");
    check_fails(encode(plain, "aa", ENCODE(.prompt_name = "p")),
                "the option prompt_name is \"p\", but no prompts are in ");
    br_scope_end(scope);
    br_sentence_transformer_free(plain);
    br_sentence_transformer_free(model);
}

/* include_prompt applies to a prompt of a call: sentence-transformers gave these numbers. */
Test(sentence_transformer, a_prompt_that_is_not_pooled)
{
    static const double expected[] = { 1.6336998, -0.0916716, 0.7524330 };
    br_sentence_transformer *model = opened("{\"include_prompt\": false}");
    br_scope *scope = br_scope_begin();
    const float *row = br_data_f32(encode(model, "aa a aaa A aa", ENCODE(.prompt = "a aaa: ")));
    for (int i = 0; i < 3; i++)
        check_close(row[i], expected[i], 2e-6);
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

/* ---- Calls of the program's function --------------------------------------------------------- */

static struct {
    int calls, stop_after;
    int64_t done[8];
} noted;

static bool note_batch(void *context, int64_t done, int64_t total)
{
    cr_assert_eq(context, &noted);
    cr_assert_eq(total, 5);
    noted.done[noted.calls++] = done;
    return noted.calls != noted.stop_after;
}

Test(sentence_transformer, on_batch)
{
    static const br_text texts[5] = {
        { "aaa a", -1 }, { "a", -1 }, { "aa", -1 }, { "a a a", -1 }, { "", -1 },
    };
    br_sentence_transformer *model = opened("{}");
    br_scope *scope = br_scope_begin();
    const br_sentence_encode_options o =
        *ENCODE(.batch_size = 2, .on_batch = note_batch, .context = &noted);
    cr_assert(br_sentence_transformer_encode(model, 5, texts, &o));
    cr_assert(noted.calls == 3 && noted.done[0] == 2 && noted.done[1] == 4 && noted.done[2] == 5);
    noted.calls = 0;
    noted.stop_after = 2;
    check_fails(br_sentence_transformer_encode(model, 5, texts, &o),
                "sentence_transformer: on_batch returned false after 4 of 5 texts");
    cr_assert_eq(noted.calls, 2);
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

/* ---- Parts and training ---------------------------------------------------------------------- */

/* The forward of a batch gives encode()'s embeddings, records gradients, and keeps the mode. */
Test(sentence_transformer, forward)
{
    br_text texts[] = { TEXT("aa a aaa"), TEXT("a") };
    br_sentence_transformer *model =
        opened("{\"pooling_mode\": [\"cls\", \"max\", \"mean\", \"weightedmean\"]}");
    cr_assert_str_eq(br_sentence_transformer_folder(model), folder());
    br_scope *scope = br_scope_begin();
    br_module *bert = br_sentence_transformer_module(model);
    cr_assert_str_eq(br_module_class(bert), "BertModel");
    br_token_batch batch;
    cr_assert(br_tokenizer_encode_batch(br_sentence_transformer_tokenizer(model), 2, texts, NULL,
                                        NULL, &batch));
    br_tensor *rows = br_sentence_transformer_forward(model, &batch);
    check_same(rows, br_sentence_transformer_encode(model, 2, texts, NULL));
    cr_assert(br_requires_grad(rows));
    cr_assert(br_backward(br_sum(br_mul(rows, rows))));
    br_tensor *words = ((br_hf_bert *)bert)->embeddings->word_embeddings->weight;
    cr_assert_gt(br_item(br_max(br_abs(br_grad_of(words)))), 0);
    batch.type_ids = NULL;
    check_same(br_sentence_transformer_forward(model, &batch), rows);
    br_train(bert, true);
    br_sentence_transformer_forward(model, &batch);
    cr_assert(br_is_training(bert));
    check_same(br_sentence_transformer_encode(model, 2, texts, NULL), rows);
    cr_assert(!br_is_training(bert));
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

/* A model on a device encodes texts and batches from the host's memory. */
Test(sentence_transformer, on_a_device)
{
    static const br_text texts[] = { { "aa a aaa", -1 }, { "a", -1 } };
    br_sentence_transformer *model =
        opened("{\"pooling_mode\": [\"max\", \"mean\", \"lasttoken\"]}");
    br_scope *scope = br_scope_begin();
    br_module *bert = br_sentence_transformer_module(model);
    br_tensor *here = br_sentence_transformer_encode(model, 2, texts, NULL);
    const br_device device = guarded_device(1);
    cr_assert(br_module_to_device(bert, device));
    cr_assert_eq(br_module_device(bert).index, 1);
    br_tensor *rows = br_sentence_transformer_encode(model, 2, texts, NULL);
    check_same(rows, here);
    cr_assert_eq(br_device_of(rows).type, BR_CPU);
    br_token_batch batch;
    cr_assert(br_tokenizer_encode_batch(br_sentence_transformer_tokenizer(model), 2, texts, NULL,
                                        NULL, &batch));
    rows = br_sentence_transformer_forward(model, &batch);
    check_same(rows, here);
    cr_assert_eq(br_device_of(rows).type, device.type);
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

Test(sentence_transformer, bad_batches)
{
    br_sentence_transformer *model = opened("{}");
    br_scope *scope = br_scope_begin();
    br_tensor *ids = br_zeros(BR_SHAPE(2, 3), BR_I64);
    check_fails(br_sentence_transformer_forward(NULL, &(br_token_batch){ 0 }), "self is NULL");
    check_fails(br_sentence_transformer_forward(model, NULL), "batch is NULL");
    check_fails(br_sentence_transformer_forward(model, &(br_token_batch){ 0 }),
                "batch->ids is NULL");
    check_fails(br_sentence_transformer_forward(model, &(br_token_batch){ .ids = ids }),
                "batch->attention_mask is NULL");
    br_token_batch unlike = { .ids = ids, .attention_mask = br_ones(BR_SHAPE(2, 2), BR_I64) };
    check_fails(br_sentence_transformer_forward(model, &unlike),
                "batch->ids [2, 3] and batch->attention_mask [2, 2] must have the same shape");
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

/* ---- Bad calls ------------------------------------------------------------------------------- */

Test(sentence_transformer, bad_texts)
{
    br_sentence_transformer *model = opened("{}");
    br_scope *scope = br_scope_begin();
    check_fails(encode(NULL, "a", NULL), "self is NULL");
    check_fails(br_sentence_transformer_encode(model, 1, NULL, NULL), "texts is NULL");
    check_fails(br_sentence_transformer_encode(model, -1, &TEXT("a"), NULL),
                "n is -1, must be at least 0");
    check_fails(
        br_sentence_transformer_encode(model, 2, (br_text[]){ TEXT("a"), { "a", -2 } }, NULL),
        "texts[1] has length -2, must be at least 0, or -1 for text that ends with a NUL");
    check_fails(br_sentence_transformer_encode(model, 1, &(br_text){ NULL, -1 }, NULL),
                "texts[0] is NULL");
    check_fails(encode(model, "a", ENCODE(.batch_size = 0)),
                "the option batch_size is 0, must be at least 1");
    check_fails(encode(model, "a", &(br_sentence_encode_options){ .batch_size = 1 }),
                "br_sentence_encode_defaults");
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

/* The message names the text by its place in the call, not in its batch. */
Test(sentence_transformer, texts_that_the_model_cannot_embed)
{
    make_model();
    write_vocab(49);
    char last[] = "a aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    br_sentence_transformer *model = open_model(NULL);
    br_scope *scope = br_scope_begin();
    check_fails(
        br_sentence_transformer_encode(model, 3, (br_text[]){ TEXT("a"), TEXT(last), TEXT("") },
                                       NULL),
        "texts[1] has the token 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa' with id 48, "
        "but vocab_size is only 40 in ");
    check_fails(br_sentence_transformer_encode(
                    model, 2, (br_text[]){ TEXT("a a a a a a a a a a a"), TEXT("a") }, NULL),
                "texts[0] has 13 tokens, more than the model's limit of 12; the option "
                "max_seq_length = 12 (brasa embed: --max-length 12) truncates it");
    cr_assert(encode(model, "a a a a a a a a a a", NULL), "%s", br_error_message());
    br_scope_end(scope);
    br_sentence_transformer_free(model);
}

Test(sentence_transformer, bad_options)
{
    make_model();
    check_fails(br_sentence_transformer_load(NULL, NULL, NULL), "dir is NULL");
    check_fails(open_model(LOAD(.pooling = (br_pooling)7)),
                "the option pooling is 7, must be one of br_pooling");
    check_fails(open_model(LOAD(.max_seq_length = 2)),
                "the option max_seq_length is 2, must be 3 .. 2147483647, or 0");
    check_fails(open_model(LOAD(.max_seq_length = -1)), "the option max_seq_length is -1");
    check_fails(open_model(LOAD(.max_seq_length = INT64_C(1) << 31)), "max_seq_length is 2147");
    check_fails(open_model(LOAD(.do_lower_case = (br_setting)3)), "do_lower_case is 3, must be");
    check_fails(open_model(&(br_sentence_transformer_options){ 0 }),
                "br_sentence_transformer_defaults");
    check_fails(br_sentence_transformer_dimension(NULL), "self is NULL");
    check_fails(br_sentence_transformer_folder(NULL), "self is NULL");
    check_fails(br_sentence_transformer_tokenizer(NULL), "self is NULL");
    check_fails(br_sentence_transformer_module(NULL), "self is NULL");
    br_sentence_transformer_free(NULL);
}

Test(sentence_transformer, a_freed_model_is_an_error)
{
    if (!br__caches_objects())
        cr_skip_test("AddressSanitizer reports the use of freed memory");
    br_sentence_transformer *model = opened("{}");
    br_sentence_transformer_free(model);
    check_fails(encode(model, "a", NULL), "a sentence transformer");
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* The message names the model's type and the types that work. */
Test(sentence_transformer, other_models)
{
    make_model();
    write_file("config.json", "{\"model_type\": \"t5\"}");
    check_fails(open_model(NULL), "/config.json: model_type is \"t5\", but sentence embeddings "
                                  "are supported only for \"bert\"");
    write_file("config.json", "{\"model_type\": \"mamba\"}");
    check_fails(open_model(NULL), "model_type is \"mamba\", but sentence");
    write_file("config.json", "{}");
    check_fails(open_model(NULL), "model_type is missing, but sentence");
}

Test(sentence_transformer, lower_case_of_another_tokenizer)
{
    make_sentence_model(MODULES, "{}");
    cr_assert_eq(remove(files_path("vocab.txt")), 0);
    write_file("vocab.json", "{\"a\": 0, \"b\": 1, \"ab\": 2}");
    write_file("merges.txt", "a b\n");
    write_file("tokenizer_config.json", "{\"tokenizer_class\": \"GPT2Tokenizer\"}");
    check_fails(open_model(LOAD(.do_lower_case = BR_SETTING_ON)),
                ": do_lower_case is true, but this is supported only for WordPiece tokenizers");
    write_file("sentence_bert_config.json", "{\"do_lower_case\": true}");
    check_fails(open_model(NULL), "/sentence_bert_config.json: do_lower_case is true, but this");
    check_fails(open_model(LOAD(.do_lower_case = BR_SETTING_OFF)), "do_lower_case");
}

/* The report is br_auto_model_load()'s. If loading fails, the report can still be cleared. */
Test(sentence_transformer, report)
{
    make_model();
    br_auto_model_report report;
    br_sentence_transformer *model = br_sentence_transformer_load(folder(), NULL, &report);
    cr_assert(model && report.matched > 0, "%s", br_error_message());
    br_auto_model_report_clear(&report);
    br_sentence_transformer_free(model);
    write_file("model.safetensors", "");
    check_fails(br_sentence_transformer_load(folder(), NULL, &report), "model.safetensors");
    br_auto_model_report_clear(&report);
}

static bool load_and_encode(void)
{
    br_text texts[] = { TEXT("aa a"), TEXT("a") };
    br_sentence_transformer *model = open_model(NULL);
    br_scope *scope = br_scope_begin();
    bool ok =
        model && br_sentence_transformer_encode(
                     model, 2, texts,
                     ENCODE(.batch_size = 1, .normalize_embeddings = true, .prompt_name = "p"));
    br_scope_end(scope);
    br_sentence_transformer_free(model);
    return ok;
}

/* Wherever memory runs out, the load or the call fails and frees all that it made. */
Test(sentence_transformer, failed_allocations)
{
    make_sentence_model(MODULES, "{\"include_prompt\": false}");
    write_prompts();
    fail_in_turn(load_and_encode, "load_and_encode");
}

/* The states of padding are not the largest ones, even if all others are negative. */
Test(sentence_transformer, maxima_of_negative_states)
{
    br_scope *scope = br_scope_begin();
    br_tensor *states = br_from_f32(BR_SHAPE(1, 3, 2), (float[]){ -3, -1, -2, -5, 7, 8 });
    br_tensor *mask = br_from_i64(BR_SHAPE(1, 3), (int64_t[]){ 1, 1, 0 });
    br_tensor *pooled = br__pool(BR_POOLING_MAX, states, br_to(mask, BR_F32));
    cr_assert(br_equal(pooled, br_from_f32(BR_SHAPE(1, 2), (float[]){ -2, -1 })), "%s",
              br_error_message());
    br_scope_end(scope);
}
