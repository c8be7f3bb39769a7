/* Answers to questions, compared with those of transformers 4. record_answers.py wrote
 * answers.json.
 */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/models/recorded.h"

#include <jansson.h>

static json_t *recorded;

/* ---- The folder ------------------------------------------------------------------------------ */

#define MODEL BRASA_TEST_DIR "/models/encoders/bert2"

static void write_words(void)
{
    char text[1000] = "";
    size_t i;
    json_t *word;
    json_array_foreach(json_object_get(recorded, "words"), i, word)
    {
        strcat(strcat(text, json_string_value(word)), "\n");
    }
    files_write(files_path("vocab.txt"), text, strlen(text));
}

static void begin(void)
{
    files_begin();
    recorded = json_load_file(BRASA_TEST_DIR "/pretrained/answers.json", 0, NULL);
    cr_assert(recorded);
    write_words();
    size_t n;
    char *weights = files_read(MODEL "/model.safetensors", &n);
    files_write(files_path("model.safetensors"), weights, n);
    free(weights);
    json_t *config = json_load_file(MODEL "/config.json", 0, NULL);
    json_object_del(config, "id2label");
    json_object_del(config, "label2id");
    cr_assert_eq(json_dump_file(config, files_path("config.json"), 0), 0);
    json_decref(config);
}

static void end(void)
{
    json_decref(recorded);
    files_end();
}

TestSuite(answers, .init = begin, .fini = end);

static br_pipeline *load(void)
{
    br_pipeline *p = br_pipeline_load(files_path("."), BR_TASK_QUESTION_ANSWERING, NULL, NULL);
    cr_assert(p, "%s", br_error_message());
    return p;
}

/* ---- Recorded answers ------------------------------------------------------------------------ */

static void set_integer(const json_t *settings, const char *key, int64_t *value)
{
    const json_t *given = json_object_get(settings, key);
    if (given)
        *value = json_integer_value(given);
}

static br_answer_options options_of(const json_t *settings)
{
    br_answer_options o = br_answer_defaults();
    set_integer(settings, "top_k", &o.top_k);
    set_integer(settings, "max_answer_len", &o.max_answer_len);
    set_integer(settings, "max_seq_len", &o.max_seq_len);
    set_integer(settings, "doc_stride", &o.doc_stride);
    o.handle_impossible_answer =
        json_is_true(json_object_get(settings, "handle_impossible_answer"));
    o.align_to_words = !json_is_false(json_object_get(settings, "align_to_words"));
    return o;
}

static void check_answer(size_t at, const char *context, const br_answer *a, const json_t *wanted)
{
    double score = json_real_value(json_array_get(wanted, 0));
    const char *text = json_string_value(json_array_get(wanted, 3));
    cr_assert(fabs(a->score - score) < 2e-6, "case %zu: %.9g, not %.9g", at, a->score, score);
    cr_assert_eq(a->chars.begin, json_integer_value(json_array_get(wanted, 1)), "case %zu", at);
    cr_assert_eq(a->chars.end, json_integer_value(json_array_get(wanted, 2)), "case %zu", at);
    size_t n = (size_t)(a->bytes.end - a->bytes.begin);
    cr_assert(n == strlen(text) && strncmp(context + a->bytes.begin, text, n) == 0,
              "case %zu: '%.*s', not '%s'", at, (int)n, context + a->bytes.begin, text);
}

static const char *text_at(const char *list, const json_t *index)
{
    return json_string_value(
        json_array_get(json_object_get(recorded, list), (size_t)json_integer_value(index)));
}

static void check_case(br_pipeline *p, size_t at, const json_t *c)
{
    br_text question = { text_at("questions", json_object_get(c, "question")), -1 };
    br_text context = { text_at("contexts", json_object_get(c, "context")), -1 };
    br_answer_options o = options_of(json_object_get(c, "settings"));
    br_answers *all = br_pipeline_answer(p, &question, &context, &o);
    const json_t *wanted = json_object_get(c, "answers");
    cr_assert(all, "case %zu: %s", at, br_error_message());
    cr_assert_eq((size_t)all->count, json_array_size(wanted), "case %zu", at);
    for (int64_t i = 0; i < all->count; i++)
        check_answer(at, context.data, &all->items[i], json_array_get(wanted, (size_t)i));
    br_answers_free(all);
}

Test(answers, equal_those_of_transformers)
{
    br_pipeline *p = load();
    size_t i;
    json_t *c;
    cr_assert_gt(json_array_size(json_object_get(recorded, "cases")), 50);
    json_array_foreach(json_object_get(recorded, "cases"), i, c)
    {
        check_case(p, i, c);
    }
    br_pipeline_free(p);
}

/* By default a part has as many tokens as the model takes, and parts share half of them. */
Test(answers, standard_options)
{
    br_pipeline *p = load();
    br_text question = { "john", -1 }, context = { "ada met john in london , in london", -1 };
    br_answer_options o = br_answer_defaults();
    br_answers *a = br_pipeline_answer(p, &question, &context, NULL);
    o.max_seq_len = 14, o.doc_stride = 7;
    br_answers *b = br_pipeline_answer(p, &question, &context, &o);
    cr_assert(a && b, "%s", br_error_message());
    cr_assert_eq(a->count, 1);
    cr_assert_eq(a->items[0].score, b->items[0].score);
    br_answers_free(a);
    br_answers_free(b);
    br_pipeline_free(p);
    br_answers_free(NULL);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void check_option(br_pipeline *p, const br_answer_options *o, const char *message)
{
    br_text question = { "john", -1 }, context = { "ada met john", -1 };
    check_fails(br_pipeline_answer(p, &question, &context, o), message);
}

Test(answers, errors)
{
    br_pipeline *p = load();
    br_text question = { "john", -1 }, context = { "ada met john", -1 }, empty = { "", 0 };
    check_fails(br_pipeline_answer(NULL, &question, &context, NULL), "self is NULL");
    check_fails(br_pipeline_answer(p, NULL, &context, NULL), "question is NULL");
    check_fails(br_pipeline_answer(p, &question, NULL, NULL), "context is NULL");
    check_fails(br_pipeline_answer(p, &empty, &context, NULL), "question is empty, must be text");
    check_fails(br_pipeline_answer(p, &question, &empty, NULL), "context is empty, must be text");
    check_option(p, BR_OPTIONS(br_answer, .top_k = 0), "option top_k is 0, must be at least 1");
    check_option(p, BR_OPTIONS(br_answer, .top_k = 1 << 21), "top_k is 2097152, must be at most");
    check_option(p, BR_OPTIONS(br_answer, .max_answer_len = 0), "max_answer_len is 0, must be");
    check_option(p, BR_OPTIONS(br_answer, .max_seq_len = -1), "max_seq_len is -1, must be at");
    check_option(p, BR_OPTIONS(br_answer, .max_seq_len = 15),
                 "max_seq_len is 15, must be at most the model's 14 tokens");
    check_option(p, BR_OPTIONS(br_answer, .doc_stride = -2), "doc_stride is -2, must be at least");
    br_text long_question = { "john john john john john john john john john john john john", -1 };
    check_fails(br_pipeline_answer(p, &long_question, &context, NULL), "only");
    check_fails(br_pipeline_classify(p, 1, &context, NULL, NULL),
                "must be loaded with the task BR_TASK_SEQUENCE_CLASSIFICATION");
    br_pipeline_free(p);
    check_fails(br_pipeline_load(files_path("."), BR_TASK_MASKED_LM, NULL, NULL),
                "must be BR_TASK_SEQUENCE_CLASSIFICATION, BR_TASK_TOKEN_CLASSIFICATION or "
                "BR_TASK_QUESTION_ANSWERING");
}
