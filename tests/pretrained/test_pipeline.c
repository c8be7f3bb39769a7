/* Pipelines: scores of texts and entities, compared with those of transformers. record_pipelines.py
 * wrote pipelines.json. */
#include "tests/io/files.h"
#include "tests/memory.h"
#include "tests/models/recorded.h"

#include <jansson.h>

static json_t *recorded;

static void begin(void)
{
    files_begin();
    recorded = json_load_file(BRASA_TEST_DIR "/pretrained/pipelines.json", 0, NULL);
    cr_assert(recorded);
}

static void end(void)
{
    json_decref(recorded);
    files_end();
}

TestSuite(pipeline, .init = begin, .fini = end);

#define MODEL BRASA_TEST_DIR "/models/encoders/bert2"

static const double TOLERANCE = 2e-6;

/* ---- The folder ------------------------------------------------------------------------------ */

static json_t *get(const char *key)
{
    json_t *value = json_object_get(recorded, key);
    cr_assert(value, "%s", key);
    return value;
}

/* Writes config.json with the labels, and with `changes` (JSON) where that is not NULL. */
static void write_config(const char *changes)
{
    json_t *config = json_load_file(MODEL "/config.json", 0, NULL), *labels = json_object(), *label;
    size_t i;
    json_array_foreach(get("labels"), i, label)
    {
        char id[24];
        snprintf(id, sizeof id, "%zu", i);
        json_object_set(labels, id, label);
    }
    json_object_set_new(config, "id2label", labels);
    json_object_del(config, "label2id");
    json_t *others = changes ? json_loads(changes, 0, NULL) : json_object();
    cr_assert(config && others);
    json_object_update(config, others);
    json_decref(others);
    cr_assert_eq(json_dump_file(config, files_path("config.json"), 0), 0);
    json_decref(config);
}

static void write_weights(bool has_head)
{
    br_scope *scope = br_scope_begin();
    br_safetensors *file = open_recorded(MODEL "/model.safetensors");
    br_named_list *all = br_safetensors_all(file);
    br_named_tensor items[100];
    br_named_list some = { 0, items };
    for (int64_t i = 0; i < all->count; i++) {
        br_named_tensor item = all->items[i];
        if (strcmp(item.name, "classifier.bias") == 0)
            item.tensor = br_from_f32(BR_SHAPE(3), (float[]){ -0.5F, 0.3F, 0.5F });
        else if (strcmp(item.name, "classifier.weight") == 0)
            item.tensor = br_mul_scalar(item.tensor, 2);
        if (has_head || strncmp(item.name, "classifier.", 11) != 0)
            items[some.count++] = item;
    }
    cr_assert(br_safetensors_save(files_path("model.safetensors"), &some, 0, NULL));
    br_named_list_free(all);
    br_safetensors_close(file);
    br_scope_end(scope);
}

static void make_folder(const char *changes)
{
    char text[1000] = "";
    size_t i;
    json_t *word;
    json_array_foreach(get("words"), i, word)
    {
        strcat(strcat(text, json_string_value(word)), "\n");
    }
    files_write(files_path("vocab.txt"), text, strlen(text));
    write_config(changes);
    write_weights(true);
}

static br_pipeline *load(br_model_task task, const char *changes)
{
    make_folder(changes);
    br_auto_model_report report;
    br_pipeline *p = br_pipeline_load(files_path("."), task, NULL, &report);
    cr_assert(p, "%s", br_error_message());
    cr_assert_eq(report.missing, 0);
    br_auto_model_report_clear(&report);
    return p;
}

static br_text text_of(const json_t *value)
{
    return (br_text){ json_string_value(value), (int64_t)json_string_length(value) };
}

enum { MAX_TEXTS = 20 };

static int64_t read_texts(br_text *texts)
{
    int64_t n = (int64_t)json_array_size(get("texts"));
    cr_assert(n > 10 && n <= MAX_TEXTS);
    for (int64_t i = 0; i < n; i++)
        texts[i] = text_of(json_array_get(get("texts"), (size_t)i));
    return n;
}

/* ---- Classification -------------------------------------------------------------------------- */

static void check_scores(br_tensor *scores, const json_t *expected)
{
    cr_assert(scores, "%s", br_error_message());
    int64_t n = br_size(scores, 0), labels = br_size(scores, 1);
    cr_assert_eq(n, json_array_size(expected));
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < labels; k++) {
            const json_t *row = json_array_get(expected, (size_t)i);
            double wanted = json_real_value(json_array_get(row, (size_t)k));
            double found = br_at(scores, BR_DIMS(i, k));
            cr_assert(fabs(found - wanted) <= TOLERANCE, "text %d: %.9g, not %.9g", (int)i, found,
                      wanted);
        }
}

/* problem_type decides how logits become scores; batches of any size give the same. */
Test(pipeline, scores_equal_transformers)
{
    br_text texts[MAX_TEXTS];
    int64_t n = read_texts(texts);
    const char *type;
    json_t *expected;
    json_object_foreach(get("scores"), type, expected)
    {
        char changes[80];
        bool none = strcmp(type, "None") == 0;
        snprintf(changes, sizeof changes, "{\"problem_type\": %s%s%s}", none ? "" : "\"",
                 none ? "null" : type, none ? "" : "\"");
        br_pipeline *p = load(BR_TASK_SEQUENCE_CLASSIFICATION, changes);
        br_scope *scope = br_scope_begin();
        check_scores(br_pipeline_classify(p, n, texts, NULL, NULL), expected);
        br_classify_options o = *BR_OPTIONS(br_classify, .batch_size = 4);
        check_scores(br_pipeline_classify(p, n, texts, NULL, &o), expected);
        br_scope_end(scope);
        br_pipeline_free(p);
    }
}

Test(pipeline, scores_of_pairs_equal_transformers)
{
    br_pipeline *p = load(BR_TASK_SEQUENCE_CLASSIFICATION, "{\"problem_type\": \"regression\"}");
    br_scope *scope = br_scope_begin();
    br_text first[3], second[3];
    for (size_t i = 0; i < 3; i++) {
        const json_t *pair = json_array_get(get("pairs"), i);
        first[i] = text_of(json_array_get(pair, 0));
        second[i] = text_of(json_array_get(pair, 1));
    }
    check_scores(br_pipeline_classify(p, 3, first, second, NULL), get("pair_scores"));
    br_scope_end(scope);
    br_pipeline_free(p);
}

/* The option overrides problem_type, and one label gets a sigmoid. */
Test(pipeline, choice_of_scores)
{
    br_pipeline *p = load(BR_TASK_SEQUENCE_CLASSIFICATION, "{\"problem_type\": \"regression\"}");
    br_scope *scope = br_scope_begin();
    br_text texts[MAX_TEXTS];
    int64_t n = read_texts(texts);
    static const char *const names[] = { "regression", "single_label_classification",
                                         "multi_label_classification", "regression" };
    for (br_scores s = BR_SCORES_AUTO; s <= BR_SCORES_LOGITS; s++)
        check_scores(br_pipeline_classify(p, n, texts, NULL, BR_OPTIONS(br_classify, .scores = s)),
                     json_object_get(get("scores"), names[s]));
    br_scope_end(scope);
    br_pipeline_free(p);
}

static bool stop_after_8(void *context, int64_t done, int64_t total)
{
    cr_assert(done <= total);
    *(int64_t *)context = done;
    return done < 8;
}

Test(pipeline, progress_and_no_texts)
{
    br_pipeline *p = load(BR_TASK_SEQUENCE_CLASSIFICATION, NULL);
    br_scope *scope = br_scope_begin();
    br_text texts[MAX_TEXTS];
    int64_t n = read_texts(texts), done = 0;
    br_classify_options o =
        *BR_OPTIONS(br_classify, .batch_size = 4, .on_batch = stop_after_8, .context = &done);
    check_fails(br_pipeline_classify(p, n, texts, NULL, &o), "on_batch returned false after 8 of");
    cr_assert_eq(done, 8);
    br_tensor *none = br_pipeline_classify(p, 0, NULL, NULL, NULL);
    cr_assert(none && br_size(none, 0) == 0 && br_size(none, 1) == 3);
    br_scope_end(scope);
    br_pipeline_free(p);
}

/* ---- Cross-encoders -------------------------------------------------------------------------- */

/* Leaves the first label of the folder's model. */
static br_pipeline *load_ranker(const char *changes)
{
    make_folder("{\"id2label\": {\"0\": \"LABEL_0\"}}");
    json_t *config = json_load_file(files_path("config.json"), 0, NULL);
    json_t *others = json_loads(changes, 0, NULL);
    cr_assert(config && others && json_object_update(config, others) == 0);
    cr_assert_eq(json_dump_file(config, files_path("config.json"), 0), 0);
    json_decref(config);
    json_decref(others);
    br_scope *scope = br_scope_begin();
    br_safetensors *file = open_recorded(files_path("model.safetensors"));
    br_named_list *all = br_safetensors_all(file);
    br_named_tensor items[100];
    br_named_list one = { all->count, items };
    for (int64_t i = 0; i < all->count; i++) {
        items[i] = all->items[i];
        if (strncmp(items[i].name, "classifier.", 11) == 0)
            items[i].tensor = br_clone(br_narrow(items[i].tensor, 0, 0, 1));
    }
    cr_assert(br_safetensors_save(files_path("one.safetensors"), &one, 0, NULL));
    br_named_list_free(all);
    br_safetensors_close(file);
    br_scope_end(scope);
    cr_assert_eq(rename(files_path("one.safetensors"), files_path("model.safetensors")), 0);
    br_pipeline *p = br_pipeline_load(files_path("."), BR_TASK_SEQUENCE_CLASSIFICATION, NULL, NULL);
    cr_assert(p, "%s", br_error_message());
    return p;
}

static void check_ranks(const char *changes, const char *name, const br_rerank_options *o)
{
    br_pipeline *p = load_ranker(changes);
    br_scope *scope = br_scope_begin();
    br_text texts[MAX_TEXTS], query = text_of(get("query"));
    const int64_t n = read_texts(texts);
    br_tensor *scores = br_pipeline_rerank(p, &query, n, texts, o);
    cr_assert(scores && br_ndim(scores) == 1 && br_size(scores, 0) == n, "%s", br_error_message());
    for (int64_t i = 0; i < n; i++) {
        const json_t *row = json_array_get(json_object_get(get("ranks"), name), (size_t)i);
        check_close(br_at(scores, BR_DIMS(i)), json_real_value(row), TOLERANCE);
    }
    br_scope_end(scope);
    br_pipeline_free(p);
}

#define IDENTITY "\"torch.nn.modules.linear.Identity\""

static void write_side(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

Test(pipeline, ranks_equal_sentence_transformers)
{
    static const char newer[] = "{\"sentence_transformers\": {\"activation_fn\": " IDENTITY "}}";
    static const char older[] = "{\"sbert_ce_default_activation_function\": " IDENTITY "}";
    check_ranks("{}", "plain", NULL);
    check_ranks(newer, "new", NULL);
    check_ranks(older, "old", NULL);
    check_ranks("{}", "old", BR_OPTIONS(br_rerank, .scores = BR_SCORES_LOGITS));
    check_ranks(newer, "plain", BR_OPTIONS(br_rerank, .scores = BR_SCORES_SIGMOID));
    check_ranks("{}", "short", BR_OPTIONS(br_rerank, .max_length = 9, .batch_size = 2));
    write_side("tokenizer_config.json", "{\"model_max_length\": 9}");
    check_ranks("{}", "short", NULL);
    write_side("sentence_bert_config.json", "{\"max_seq_length\": 14}");
    check_ranks("{}", "plain", NULL);
    write_side("config_sentence_transformers.json",
               "{\"activation_fn\": \"torch.nn.modules.activation.Sigmoid\"}");
    check_ranks(newer, "plain", NULL);
}

/* Prompts precede the query. They count in folders that sentence-transformers has saved. */
Test(pipeline, ranks_with_prompts)
{
    write_side("config_sentence_transformers.json",
               "{\"prompts\": {\"a\": \"in london \", \"b\": \"ada , \"}, "
               "\"default_prompt_name\": \"a\"}");
    check_ranks("{}", "plain", NULL);
    check_ranks("{}", "other prompt", BR_OPTIONS(br_rerank, .prompt = "ada , "));
    write_side("modules.json", "[]");
    check_ranks("{}", "prompt", NULL);
    check_ranks("{}", "other prompt", BR_OPTIONS(br_rerank, .prompt_name = "b"));
    check_ranks("{}", "plain", BR_OPTIONS(br_rerank, .prompt = "", .prompt_name = "b"));
    br_pipeline *p = load_ranker("{}");
    const br_text text = { "ada", -1 };
    check_fails(
        br_pipeline_rerank(p, &text, 1, &text, BR_OPTIONS(br_rerank, .prompt_name = "query")),
        "pipeline_rerank: the option prompt_name is \"query\", must be the name of one of the "
        "prompts in ");
    remove(files_path("modules.json"));
    check_fails(br_pipeline_rerank(p, &text, 1, &text, BR_OPTIONS(br_rerank, .prompt_name = "b")),
                "the option prompt_name is \"b\", but no prompts are in ");
    br_pipeline_free(p);
}

Test(pipeline, ranks_that_are_refused)
{
    const br_text text = { "ada", -1 };
    br_pipeline *p = load_ranker("{\"sentence_transformers\": {\"activation_fn\": \"own.Fn\"}}");
    check_fails(br_pipeline_rerank(p, &text, 1, &text, NULL),
                "config.json: sentence_transformers.activation_fn is \"own.Fn\", must be");
    check_fails(br_pipeline_rerank(p, NULL, 1, &text, NULL), "query");
    check_fails(
        br_pipeline_rerank(p, &text, 1, &text, BR_OPTIONS(br_rerank, .scores = BR_SCORES_SOFTMAX)),
        "the option scores is BR_SCORES_SOFTMAX");
    br_scope *scope = br_scope_begin();
    br_tensor *none =
        br_pipeline_rerank(p, &text, 0, NULL, BR_OPTIONS(br_rerank, .scores = BR_SCORES_LOGITS));
    cr_assert(none && br_numel(none) == 0, "%s", br_error_message());
    br_scope_end(scope);
    br_pipeline_free(p);
    p = load(BR_TASK_SEQUENCE_CLASSIFICATION, NULL);
    check_fails(br_pipeline_rerank(p, &text, 1, &text, NULL),
                "the model has 3 labels, must have 1");
    br_pipeline_free(p);
}

/* ---- Tags ------------------------------------------------------------------------------------ */

static void check_entities(const char *what, br_entities *found, const json_t *expected)
{
    cr_assert(found, "%s", br_error_message());
    cr_assert_eq(found->count, json_array_size(expected), "%s: %d entities", what,
                 (int)found->count);
    for (int64_t i = 0; i < found->count; i++) {
        const br_entity *e = &found->items[i];
        const json_t *row = json_array_get(expected, (size_t)i);
        cr_assert_str_eq(e->label, json_string_value(json_array_get(row, 0)), "%s", what);
        double wanted = json_real_value(json_array_get(row, 1));
        cr_assert(fabs(e->score - wanted) <= TOLERANCE, "%s: %g, not %g", what, e->score, wanted);
        cr_assert_eq(e->chars.begin, json_integer_value(json_array_get(row, 2)), "%s", what);
        cr_assert_eq(e->chars.end, json_integer_value(json_array_get(row, 3)), "%s", what);
    }
    br_entities_free(found);
}

Test(pipeline, entities_equal_transformers)
{
    static const char *const names[] = { "none", "simple", "first", "average", "max" };
    br_pipeline *p = load(BR_TASK_TOKEN_CLASSIFICATION, NULL);
    br_text texts[MAX_TEXTS];
    int64_t n = read_texts(texts);
    for (br_aggregation a = BR_AGGREGATE_NONE; a <= BR_AGGREGATE_MAX; a++)
        for (int64_t i = 0; i < n; i++)
            check_entities(names[a],
                           br_pipeline_tag(p, &texts[i], BR_OPTIONS(br_tag, .aggregation = a)),
                           json_array_get(json_object_get(get("entities"), names[a]), (size_t)i));
    br_tag_options o =
        *BR_OPTIONS(br_tag, .aggregation = BR_AGGREGATE_FIRST, .max_length = 8, .stride = 2);
    br_text longer = text_of(get("long"));
    check_entities("parts", br_pipeline_tag(p, &longer, &o), get("parts"));
    o.ignored_label = "";
    check_entities("all", br_pipeline_tag(p, &texts[0], &o), get("all"));
    br_pipeline_free(p);
}

static void check_same(br_entities *found, br_entities *wanted, int64_t i, double tolerance)
{
    cr_assert(found && wanted, "%s", br_error_message());
    cr_assert_eq(found->count, wanted->count, "text %d", (int)i);
    for (int64_t k = 0; k < found->count; k++) {
        const br_entity *a = &found->items[k], *b = &wanted->items[k];
        cr_assert_str_eq(a->label, b->label);
        cr_assert(fabs(a->score - b->score) <= tolerance, "text %d: %.17g, not %.17g", (int)i,
                  a->score, b->score);
        cr_assert(a->bytes.begin == b->bytes.begin && a->bytes.end == b->bytes.end);
        cr_assert(a->chars.begin == b->chars.begin && a->chars.end == b->chars.end);
    }
    br_entities_free(found);
    br_entities_free(wanted);
}

/* Many texts, also in parts and in batches of any size, have the entities of each text, to the bit.
 */
Test(pipeline, entities_of_many_texts)
{
    br_pipeline *p = load(BR_TASK_TOKEN_CLASSIFICATION, NULL);
    br_text texts[MAX_TEXTS + 1];
    int64_t n = read_texts(texts);
    texts[n++] = text_of(get("long"));
    static const struct {
        br_aggregation aggregation;
        int64_t max_length, stride, batch_size;
    } rows[] = {
        { BR_AGGREGATE_NONE, 0, -1, 32 },   { BR_AGGREGATE_SIMPLE, 9, -1, 1 },
        { BR_AGGREGATE_FIRST, 8, 2, 3 },    { BR_AGGREGATE_AVERAGE, 5, 0, 7 },
        { BR_AGGREGATE_MAX, 0, -1, 65536 },
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        br_entities *found[MAX_TEXTS + 1];
        br_tag_options o = *BR_OPTIONS(br_tag, .aggregation = rows[r].aggregation,
                                       .ignored_label = "", .max_length = rows[r].max_length,
                                       .stride = rows[r].stride, .batch_size = rows[r].batch_size);
        cr_assert(br_pipeline_tag_batch(p, n, texts, &o, found), "%s", br_error_message());
        for (int64_t i = 0; i < n; i++)
            check_same(found[i], br_pipeline_tag(p, &texts[i], &o), i, 0);
    }
    br_pipeline_free(p);
}

/* Batches that are padded, here because a recorder is open, differ from single texts by rounding.
 */
Test(pipeline, entities_of_padded_batches)
{
    br_pipeline *p = load(BR_TASK_TOKEN_CLASSIFICATION, NULL);
    br_text texts[MAX_TEXTS];
    br_entities *found[MAX_TEXTS];
    int64_t n = read_texts(texts);
    br_tag_options o = *BR_OPTIONS(br_tag, .ignored_label = "", .batch_size = 6);
    br_recorder *recorder = br_recorder_begin();
    cr_assert(br_pipeline_tag_batch(p, n, texts, &o, found), "%s", br_error_message());
    br_recorder_end(recorder);
    for (int64_t i = 0; i < n; i++)
        check_same(found[i], br_pipeline_tag(p, &texts[i], &o), i, TOLERANCE);
    br_pipeline_free(p);
}

/* The rows of a batch are sorted by length; an error has the number of the text. */
Test(pipeline, tagging_names_the_text)
{
    make_folder(NULL);
    FILE *words = fopen(files_path("vocab.txt"), "a");
    cr_assert(words && fputs("zebra\n", words) >= 0 && fclose(words) == 0);
    br_pipeline *p = br_pipeline_load(files_path("."), BR_TASK_TOKEN_CLASSIFICATION, NULL, NULL);
    cr_assert(p, "%s", br_error_message());
    const br_text bad = { "zebra in ada", -1 };
    br_entities *found[3];
    for (int i = 0; i < 3; i++) {
        br_text texts[] = { { "in", -1 }, { "ada in ada in ada", -1 }, { "ada in ada in", -1 } };
        texts[i] = bad;
        char part[60];
        snprintf(part, sizeof part, "texts[%d] has the token 'zebra'", i);
        check_fails(br_pipeline_tag_batch(p, 3, texts, NULL, found), part);
    }
    br_pipeline_free(p);
}

/* Progress is told, and a failure leaves no entities. */
Test(pipeline, tagging_that_stops)
{
    br_pipeline *p = load(BR_TASK_TOKEN_CLASSIFICATION, NULL);
    br_text texts[MAX_TEXTS];
    br_entities *found[MAX_TEXTS];
    int64_t n = read_texts(texts), done = 0;
    br_tag_options o =
        *BR_OPTIONS(br_tag, .batch_size = 4, .on_batch = stop_after_8, .context = &done);
    found[0] = found[n - 1] = (br_entities *)texts;
    check_fails(br_pipeline_tag_batch(p, n, texts, &o, found),
                "on_batch returned false after 8 of");
    cr_assert(done == 8 && !found[0] && !found[n - 1]);
    check_fails(br_pipeline_tag_batch(p, n, texts, NULL, NULL), "entities is NULL");
    check_fails(br_pipeline_tag_batch(p, 1, NULL, NULL, found), "texts is NULL");
    check_fails(br_pipeline_tag_batch(p, -1, texts, NULL, found), "n is -1, must be at least 0");
    check_fails(br_pipeline_tag_batch(NULL, 1, texts, NULL, found), "self is NULL");
    check_fails(br_pipeline_tag(p, texts, BR_OPTIONS(br_tag, .batch_size = 0)), "batch_size is 0");
    cr_assert(br_pipeline_tag_batch(p, 0, NULL, NULL, NULL), "%s", br_error_message());
    br_pipeline_free(p);
}

/* Offsets in bytes follow those in code points. */
Test(pipeline, offsets_in_bytes)
{
    br_pipeline *p = load(BR_TASK_TOKEN_CLASSIFICATION, NULL);
    br_text text = { "\u00c4da in \u00c4da", -1 };
    br_entities *all = br_pipeline_tag(p, &text, BR_OPTIONS(br_tag, .ignored_label = ""));
    cr_assert(all && all->count == 3);
    cr_assert_eq(all->items[2].chars.begin, 7);
    cr_assert_eq(all->items[2].bytes.begin, 8);
    cr_assert_eq(all->items[2].bytes.end, 12);
    br_entities_free(all);
    br_pipeline_free(p);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static void check_load(br_model_task task, const char *message)
{
    check_fails(br_pipeline_load(files_path("."), task, NULL, NULL), message);
}

Test(pipeline, folders_that_do_not_fit)
{
    const br_model_task texts = BR_TASK_SEQUENCE_CLASSIFICATION;
    check_fails(br_pipeline_load(NULL, texts, NULL, NULL), "dir is NULL");
    check_load(texts, "config.json: cannot be opened");
    make_folder("{\"id2label\": {\"0\": \"a\", \"1\": \"b\"}}");
    check_load(texts, "key \"classifier.bias\" is F32 [3], must be");
    make_folder("{\"id2label\": {\"0\": \"a\", \"1\": \"b\", \"3\": \"c\"}}");
    check_load(texts, "id2label");
    make_folder("{\"problem_type\": \"ranking\"}");
    check_load(texts, "problem_type is \"ranking\", must be");
    make_folder("{\"model_type\": \"gpt2\"}");
    check_load(texts,
               "model_type is \"gpt2\", but classes of texts are supported only for \"bert\"");
    check_load(BR_TASK_TOKEN_CLASSIFICATION, "but tags of tokens are supported only for \"bert\"");
    check_load(BR_TASK_BASE, "task is 1, must be BR_TASK_SEQUENCE_CLASSIFICATION, ");
    make_folder(NULL);
    write_weights(false);
    check_load(texts, "the files lack weights of a BertForSequenceClassification, which would have "
                      "random values: classifier.");
}

Test(pipeline, calls_that_do_not_fit)
{
    br_pipeline *p = load(BR_TASK_SEQUENCE_CLASSIFICATION, NULL);
    br_text text = { "ada in in in in in in in in in in in in in", -1 };
    br_scope *scope = br_scope_begin();
    check_fails(br_pipeline_tag(p, &text, NULL),
                "self has a BertForSequenceClassification, must be loaded with the task "
                "BR_TASK_TOKEN_CLASSIFICATION");
    check_fails(br_pipeline_classify(p, 1, &text, NULL, NULL),
                "texts[0] has 16 tokens, more than the model's limit of 14; the option max_length "
                "= 14 (brasa classify: --max-length 14) truncates it");
    br_text both[] = { text, { "ada", -1 }, { "in", -1 } };
    check_fails(br_pipeline_classify(p, 3, both, NULL, NULL), "texts[0] has 16 tokens");
    both[0] = both[1], both[1] = text;
    check_fails(br_pipeline_classify(p, 3, both, NULL, NULL), "texts[1] has 16 tokens");
    cr_assert(br_pipeline_classify(p, 1, &text, NULL, BR_OPTIONS(br_classify, .max_length = 14)));
    check_fails(br_pipeline_classify(p, 1, NULL, NULL, NULL), "texts is NULL");
    check_fails(br_pipeline_classify(p, -1, &text, NULL, NULL), "n is -1, must be at least 0");
    check_fails(br_pipeline_classify(p, 1, &text, &(br_text){ "a", -2 }, NULL),
                "pairs[0] has length -2");
    check_fails(br_pipeline_classify(p, 1, &text, NULL, BR_OPTIONS(br_classify, .batch_size = 0)),
                "batch_size is 0");
    check_fails(br_pipeline_classify(p, 1, &text, NULL, BR_OPTIONS(br_classify, .max_length = -1)),
                "max_length is -1");
    check_fails(
        br_pipeline_classify(p, 1, &text, NULL, BR_OPTIONS(br_classify, .scores = (br_scores)9)),
        "scores is 9");
    check_fails(br_pipeline_label(p, 3), "id is 3, must be 0 .. 2");
    cr_assert_str_eq(br_pipeline_label(p, 2), "I-PER");
    cr_assert_eq(br_pipeline_labels(p), 3);
    cr_assert_str_eq(br_tokenizer_model(br_pipeline_tokenizer(p)), "WordPiece");
    cr_assert_str_eq(br_module_class(br_pipeline_module(p)), "BertForSequenceClassification");
    br_pipeline_free(p);
    p = load(BR_TASK_TOKEN_CLASSIFICATION, NULL);
    check_fails(br_pipeline_classify(p, 1, &text, NULL, NULL), "self has a BertForTokenClass");
    check_fails(br_pipeline_tag(p, NULL, NULL), "text is NULL");
    check_fails(br_pipeline_tag(p, &text, BR_OPTIONS(br_tag, .stride = 2)),
                "stride is 2, but parts of a text need an aggregation other than");
    check_fails(br_pipeline_tag(p, &text, BR_OPTIONS(br_tag, .stride = -2)), "stride is -2");
    check_fails(br_pipeline_tag(p, &text, BR_OPTIONS(br_tag, .max_length = -1)), "max_length is");
    check_fails(br_pipeline_tag(p, &text, BR_OPTIONS(br_tag, .ignored_label = NULL)),
                "ignored_label is NULL");
    check_fails(br_pipeline_tag(p, &text, BR_OPTIONS(br_tag, .aggregation = (br_aggregation)7)),
                "aggregation is 7");
    br_pipeline_free(p);
    br_pipeline_free(NULL);
    br_entities_free(NULL);
    br_scope_end(scope);
}
