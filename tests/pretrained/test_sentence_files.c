/* tests/pretrained/test_sentence_files.c - the files of sentence-transformers in a model folder.
 * record_sentence.py wrote the expected numbers. */
#include "tests/pretrained/sentence_model.h"

#include <errno.h>
#include <unistd.h>

TestSuite(sentence_files, .init = files_begin, .fini = files_end);

/* 15 tokens with [CLS] and [SEP]; the model has 12 positions. */
#define LONG "a a a a a a a a a a a a a"

/* Embeds two texts of different lengths in one batch, and checks the size and the first elements of
 * their embeddings from element `from` on. */
static void check_embeddings(const br_sentence_transformer_options *options, size_t from,
                             size_t size, const double expected[2][3])
{
    br_scope *scope = br_scope_begin();
    br_tensor *rows = embed(options, 2, (br_text[]){ TEXT("aa a aaa A aa"), TEXT("aaaa") });
    cr_assert(rows, "%s", br_error_message());
    cr_assert_eq(br_size(rows, 1), (int64_t)size);
    const float *values = br_data_f32(rows);
    for (size_t i = 0; i < 2; i++)
        for (size_t k = 0; k < 3; k++)
            check_close(values[i * size + from + k], expected[i][k], 2e-6);
    br_scope_end(scope);
}

/* Checks that loading the folder fails with this message. */
static void check_refused(const br_sentence_transformer_options *options, const char *message)
{
    check_fails(open_model(options), message);
}

/* The numbers here and below were written by record_sentence.py. */
static const struct {
    const char *name, *flag;
    br_pooling pooling;
    double expected[2][3];
} modes[] = {
    { "cls",
      "pooling_mode_cls_token",
      BR_POOLING_CLS,
      { { 2.2896025, -0.1537120, 0.0542144 }, { 2.1223304, -0.0807847, 0.2702182 } } },
    { "max",
      "pooling_mode_max_tokens",
      BR_POOLING_MAX,
      { { 2.2896025, 0.2424791, 0.7492226 }, { 2.1223304, 0.4777443, 1.0972506 } } },
    { "mean",
      "pooling_mode_mean_tokens",
      BR_POOLING_MEAN,
      { { 1.7078792, -0.1780641, 0.4236845 }, { 1.7190676, 0.0460429, 0.5552539 } } },
    { "mean_sqrt_len_tokens",
      "pooling_mode_mean_sqrt_len_tokens",
      BR_POOLING_MEAN_SQRT_LEN,
      { { 4.5186238, -0.4711133, 1.1209638 }, { 2.9775124, 0.0797487, 0.9617280 } } },
    { "weightedmean",
      "pooling_mode_weightedmean_tokens",
      BR_POOLING_WEIGHTEDMEAN,
      { { 1.6548302, -0.1753162, 0.5264731 }, { 1.6576381, 0.1391311, 0.6930926 } } },
    { "lasttoken",
      "pooling_mode_lasttoken",
      BR_POOLING_LASTTOKEN,
      { { 1.8254552, -0.0654420, 0.6451443 }, { 1.7537535, 0.4777443, 1.0972506 } } },
};
enum { MODES = sizeof modes / sizeof *modes, MEAN = 2, LAST = 5 };

/* Each mode is chosen by a flag, by pooling_mode, and by the option. */
Test(sentence_files, pooling)
{
    make_sentence_model(MODULES, "{\"word_embedding_dimension\": 16}");
    check_embeddings(NULL, 0, 16, modes[MEAN].expected);
    for (int i = 0; i < MODES; i++) {
        char text[256];
        snprintf(text, sizeof text, "{\"%s\": true, \"include_prompt\": true}", modes[i].flag);
        write_file("1_Pooling/config.json", text);
        check_embeddings(NULL, 0, 16, modes[i].expected);
        snprintf(text, sizeof text, "{\"pooling_mode\": \"%s\", \"pooling_mode_cls_token\": true}",
                 modes[i].name);
        write_file("1_Pooling/config.json", text);
        check_embeddings(NULL, 0, 16, modes[i].expected);
        write_file("1_Pooling/config.json", "{\"pooling_mode\": \"unknown\"}");
        check_embeddings(LOAD(.pooling = modes[i].pooling), 0, 16, modes[i].expected);
    }
}

/* The results of several modes are concatenated: flags in a fixed order, a list in its own. */
Test(sentence_files, several_modes)
{
    make_sentence_model(MODULES, "{\"pooling_mode\": [\"lasttoken\", \"mean\"]}");
    check_embeddings(NULL, 0, 32, modes[LAST].expected);
    check_embeddings(NULL, 16, 32, modes[MEAN].expected);
    write_file("1_Pooling/config.json",
               "{\"pooling_mode_lasttoken\": true, \"pooling_mode_mean_tokens\": true, "
               "\"pooling_mode_weightedmean_tokens\": true, \"pooling_mode_max_tokens\": true, "
               "\"pooling_mode_mean_sqrt_len_tokens\": true, \"pooling_mode_cls_token\": true}");
    for (size_t i = 0; i < MODES; i++)
        check_embeddings(NULL, 16 * i, 16 * MODES, modes[i].expected);
}

/* The vectors are normalized only if modules.json lists Normalize. The model may be in a
 * subfolder. */
Test(sentence_files, normalize_module)
{
    static const double expected[2][3] = { { 0.5032523, -0.0524693, 0.1248450 },
                                           { 0.5393050, 0.0144446, 0.1741940 } };
    make_sentence_model("[" MODULE("0_Transformer", "Transformer") "," POOLING "," MODULE(
                            "2_Normalize", "Normalize") "]",
                        "{\"pooling_mode\": \"mean\"}");
    static const char *const names[] = { "config.json", "model.safetensors", "vocab.txt" };
    cr_assert_eq(mkdir(files_path("0_Transformer"), 0777), 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char to[64];
        snprintf(to, sizeof to, "0_Transformer/%s", names[i]);
        cr_assert_eq(rename(files_path(names[i]), files_path(to)), 0);
    }
    check_embeddings(NULL, 0, 16, expected);
    br_sentence_transformer *model = open_model(NULL);
    cr_assert_str_eq(br_sentence_transformer_folder(model), files_path("0_Transformer"));
    br_sentence_transformer_free(model);
    write_file("0_Transformer/sentence_bert_config.json", "{\"max_seq_length\": 1}");
    check_refused(NULL, "/0_Transformer/sentence_bert_config.json: max_seq_length is 1, must be");
}

/* ---- Modules after the pooling --------------------------------------------------------------- */

#define NAMED(number, type) MODULE(number "_Head", type)
#define HEADS(list)         "[" TRANSFORMER "," POOLING "," list "]"

/* Writes the weights cos(0), cos(1), ... times 0.3, as record_sentence.py does. */
static void write_head(const char *number, const char *config, int n, const char *const *names,
                       const int64_t (*sizes)[2])
{
    char path[64];
    snprintf(path, sizeof path, "%s_Head", number);
    if (mkdir(files_path(path), 0777) == 0)
        errno = 0;
    snprintf(path, sizeof path, "%s_Head/config.json", number);
    write_file(path, config);
    br_named_tensor items[3];
    br_scope *scope = br_scope_begin();
    for (int i = 0; i < n; i++) {
        const int64_t rows = sizes[i][0], columns = sizes[i][1];
        br_tensor *w = br_cos(br_arange(0, (double)(rows * (columns ? columns : 1)), 1, BR_F64));
        w = br_to(br_mul_scalar(w, 0.3), BR_F32);
        items[i] = (br_named_tensor){ .name = (char *)(uintptr_t)names[i] };
        items[i].tensor = columns ? br_reshape(w, BR_SHAPE(rows, columns)) : w;
    }
    br_named_list list = { n, items };
    snprintf(path, sizeof path, "%s_Head/model.safetensors", number);
    cr_assert(n == 0 || br_safetensors_save(files_path(path), &list, 0, NULL));
    br_scope_end(scope);
}

static const char *const dense_names[] = { "linear.weight", "linear.bias", "residual.weight" };
static const char *const norm_names[] = { "norm.weight", "norm.bias" };

#define DENSE(in, out, more) "{\"in_features\": " #in ", \"out_features\": " #out more "}"
#define ACTIVATION(name)     ", \"activation_function\": \"torch.nn.modules." name "\""

Test(sentence_files, dense_modules)
{
    static const double plain[2][3] = { { -0.1407955, 0.6705126, -0.7293166 },
                                        { -0.0550354, 0.5782217, -0.6187644 } };
    static const double gelu[2][3] = { { -0.1454816, 0.4820032, -0.1694350 },
                                       { -0.1282804, 0.3437345, -0.1644139 } };
    static const double residual[2][3] = { { 1.5661422, 0.6336097, -0.5035815 },
                                           { 1.6639764, 0.7058300, -0.1677464 } };
    static const double projected[2][3] = { { -0.2295976, 0.5202985, -0.6037147 },
                                            { -0.2110213, 0.5535896, -0.6261393 } };
    make_sentence_model(HEADS(NAMED("3", "Dense")), "{\"pooling_mode\": \"mean\"}");
    write_head("3", DENSE(16, 5, ""), 2, dense_names, (int64_t[][2]){ { 5, 16 }, { 5, 0 } });
    check_embeddings(NULL, 0, 5, plain);
    write_head("3", DENSE(16, 16, ", \"bias\": false" ACTIVATION("activation.GELU")), 1,
               dense_names, (int64_t[][2]){ { 16, 16 } });
    check_embeddings(NULL, 0, 16, gelu);
    write_head("3", DENSE(16, 16, ", \"use_residual\": true" ACTIVATION("linear.Identity")), 2,
               dense_names, (int64_t[][2]){ { 16, 16 }, { 16, 0 } });
    check_embeddings(NULL, 0, 16, residual);
    write_file("modules.json", HEADS(NAMED("3", "Dense") "," NAMED("4", "Normalize")));
    write_head("3", DENSE(16, 4, ", \"use_residual\": true"), 3, dense_names,
               (int64_t[][2]){ { 4, 16 }, { 4, 0 }, { 4, 16 } });
    check_embeddings(NULL, 0, 4, projected);
}

Test(sentence_files, layer_norm_and_dropout_modules)
{
    static const double expected[2][3] = { { 0.7283563, 0.3648188, 0.6367705 },
                                           { 0.7302217, 0.3642058, 0.6357569 } };
    make_sentence_model(
        HEADS(NAMED("3", "LayerNorm") "," NAMED("4", "Dropout") "," NAMED("5", "Dense")),
        "{\"pooling_mode\": \"mean\"}");
    write_head("3", "{\"dimension\": 16}", 2, norm_names, (int64_t[][2]){ { 16, 0 }, { 16, 0 } });
    write_head("4", "{\"dropout\": 0.5}", 0, NULL, NULL);
    write_head("5", DENSE(16, 3, ACTIVATION("activation.Sigmoid")), 2, dense_names,
               (int64_t[][2]){ { 3, 16 }, { 3, 0 } });
    check_embeddings(NULL, 0, 3, expected);
}

Test(sentence_files, bad_modules)
{
    make_sentence_model(HEADS(NAMED("3", "Dense")), "{\"pooling_mode\": \"mean\"}");
    static const int64_t sizes[][2] = { { 5, 16 }, { 5, 0 } };
    write_head("3", DENSE(8, 5, ""), 2, dense_names, sizes);
    check_refused(NULL,
                  "3_Head/config.json: in_features is 8, but the embeddings before this module "
                  "have 16 elements");
    write_file("3_Head/config.json", "{\"in_features\": 16}");
    check_refused(NULL, "3_Head/config.json: out_features is missing, must be an integer");
    write_file("3_Head/config.json", DENSE(16, 0, ""));
    check_refused(NULL, "out_features is 0, must be an integer in 1 .. 2147483647");
    write_file("3_Head/config.json", DENSE(16, 6, ""));
    check_refused(NULL, "its model.safetensors has linear.weight [5, 16], must be [6, 16]");
    write_file("3_Head/config.json", DENSE(16, 5, ACTIVATION("activation.PReLU")));
    check_refused(NULL, "activation_function is \"torch.nn.modules.activation.PReLU\", must be");
    write_file("3_Head/config.json", DENSE(16, 5, ", \"module_input_name\": \"token_embeddings\""));
    check_refused(NULL, "module_input_name is \"token_embeddings\", must be");
    write_file("3_Head/config.json", DENSE(16, 5, ", \"use_residual\": true"));
    check_refused(NULL, "residual.weight");
}

/* Without modules.json, the other files are not read, and the mean is normalized. */
Test(sentence_files, no_modules)
{
    static const double expected[2][3] = { { 0.5032523, -0.0524693, 0.1248450 },
                                           { 0.5393050, 0.0144446, 0.1741940 } };
    make_sentence_model(MODULES, "{\"pooling_mode\": \"cls\"}");
    cr_assert_eq(unlink(files_path("modules.json")), 0);
    write_file("sentence_bert_config.json", "{\"max_seq_length\": 4}");
    check_embeddings(NULL, 0, 16, expected);
}

Test(sentence_files, prompts)
{
    static const struct {
        const char *mode;
        double expected[2][3];
    } rows[] = {
        { "cls", { { 1.6969713, 0.2751304, 0.6269616 }, { 1.6241757, -0.1108125, 0.2812940 } } },
        { "max", { { 1.9805286, 0.2751304, 1.8362609 }, { 1.6241757, 0.0745672, 1.6442055 } } },
        { "mean", { { 1.6336998, -0.0916716, 0.7524330 }, { 1.6127696, -0.0181226, 0.9627497 } } },
        { "weightedmean",
          { { 1.6157527, -0.0987556, 0.7207236 }, { 1.6117328, -0.0096963, 1.0247003 } } },
        { "lasttoken",
          { { 1.5422283, 0.2044926, 1.1578993 }, { 1.6013637, 0.0745672, 1.6442055 } } },
    };
    static const double included[2][3] = { { 1.7210197, -0.1069918, 0.7373567 },
                                           { 1.7404013, -0.2690571, 0.6534579 } };
    make_sentence_model(MODULES, "{}");
    write_file("config_sentence_transformers.json",
               "{\"prompts\": {\"p\": \"aaaa\", \"q\": \"a aaa: \"}, "
               "\"default_prompt_name\": \"q\"}");
    check_embeddings(NULL, 0, 16, included);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[128];
        /* null counts as false */
        snprintf(text, sizeof text, "{\"pooling_mode\": \"%s\", \"include_prompt\": %s}",
                 rows[i].mode, i % 2 ? "null" : "false");
        write_file("1_Pooling/config.json", text);
        check_embeddings(NULL, 0, 16, rows[i].expected);
    }
    write_file("config_sentence_transformers.json",
               "{\"prompts\": {\"q\": null}, \"default_prompt_name\": \"q\"}");
    check_embeddings(LOAD(.pooling = BR_POOLING_MEAN), 0, 16, modes[MEAN].expected);
    write_file("config_sentence_transformers.json",
               "{\"prompts\": {\"q\": \"a aaa: \"}, \"default_prompt_name\": null}");
    write_file("1_Pooling/config.json", "{\"include_prompt\": false}");
    check_embeddings(NULL, 0, 16, modes[MEAN].expected);
    write_file("config_sentence_transformers.json", "{\"default_prompt_name\": \"query\"}");
    check_embeddings(NULL, 0, 16, modes[MEAN].expected);
    write_file("config_sentence_transformers.json",
               "{\"prompts\": {\"q\": \"\"}, \"default_prompt_name\": \"q\"}");
    check_embeddings(NULL, 0, 16, modes[MEAN].expected);
}

/* Texts are truncated to max_seq_length, or else to the tokenizer's or the model's limit. */
Test(sentence_files, truncation)
{
    static const double five[2][3] = { { 2.0265632, -0.2247563, 0.2453330 },
                                       { 1.7190676, 0.0460429, 0.5552539 } },
                        four[2][3] = { { 1.8543850, -0.3413035, 0.4449418 },
                                       { 1.7190676, 0.0460429, 0.5552539 } };
    make_sentence_model(MODULES, "{}");
    br_scope *long_scope = br_scope_begin();
    cr_assert(embed(NULL, 1, &TEXT(LONG)), "%s", br_error_message());
    br_scope_end(long_scope);
    write_file("tokenizer_config.json", "{\"model_max_length\": 4}");
    check_embeddings(NULL, 0, 16, four);
    check_embeddings(LOAD(.max_seq_length = 12), 0, 16, modes[MEAN].expected);
    write_file("sentence_bert_config.json", "{\"max_seq_length\": 5}");
    check_embeddings(NULL, 0, 16, five);
    check_embeddings(LOAD(.max_seq_length = 4), 0, 16, four);
    write_file("sentence_bert_config.json", "{\"max_seq_length\": null}");
    check_embeddings(NULL, 0, 16, four);
    static const double left[2][3] = { { 1.8179086, -0.3759633, 0.3957933 },
                                       { 1.7190676, 0.0460429, 0.5552539 } };
    write_file("tokenizer_config.json", "{\"model_max_length\": 4, \"truncation_side\": \"left\"}");
    check_embeddings(NULL, 0, 16, left);
    /* transformers writes 1e30 as an integer. */
    write_file("tokenizer_config.json", "{\"model_max_length\": 1000000000000000019884624838656}");
    check_embeddings(NULL, 0, 16, modes[MEAN].expected);
    write_file("sentence_bert_config.json", "{\"max_seq_length\": 512}");
    br_scope *scope = br_scope_begin();
    check_fails(embed(NULL, 1, &TEXT(LONG)),
                "texts[0] has 15 tokens, more than the model's limit of 12; the option "
                "max_seq_length = 12 (brasa embed: --max-length 12) truncates it");
    br_scope_end(scope);
}

/* A limit of the tokenizer counts if it is one token below the model's limit of 12. */
Test(sentence_files, the_lower_limit_counts)
{
    make_sentence_model(MODULES, "{}");
    br_scope *scope = br_scope_begin();
    br_text text = TEXT(LONG);
    br_tensor *eleven = embed(LOAD(.max_seq_length = 11), 1, &text);
    br_tensor *twelve = embed(LOAD(.max_seq_length = 12), 1, &text);
    cr_assert(!br_equal(eleven, twelve));
    for (int limit = 11; limit <= 13; limit++) {
        char settings[64];
        snprintf(settings, sizeof settings, "{\"model_max_length\": %d}", limit);
        write_file("tokenizer_config.json", settings);
        cr_assert(br_equal(embed(NULL, 1, &text), limit == 11 ? eleven : twelve));
    }
    br_scope_end(scope);
}

/* The first of the files that is not empty counts. */
Test(sentence_files, older_names_of_the_settings)
{
    static const double four[2][3] = { { 1.8543850, -0.3413035, 0.4449418 },
                                       { 1.7190676, 0.0460429, 0.5552539 } };
    static const char *const names[] = { "roberta", "distilbert",  "camembert",
                                         "albert",  "xlm-roberta", "xlnet" };
    make_sentence_model(MODULES, "{}");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char name[64];
        snprintf(name, sizeof name, "sentence_%s_config.json", names[i]);
        write_file(name, "{\"max_seq_length\": 4}");
        check_embeddings(NULL, 0, 16, four);
        write_file(name, i % 2 ? "null" : "{}");
        check_embeddings(NULL, 0, 16, modes[MEAN].expected);
    }
    write_file("sentence_xlnet_config.json", "{\"max_seq_length\": 12}");
    write_file("sentence_albert_config.json", "{\"max_seq_length\": 4}");
    check_embeddings(NULL, 0, 16, four);
    write_file("sentence_bert_config.json", "{\"max_seq_length\": 12}");
    check_embeddings(NULL, 0, 16, modes[MEAN].expected);
    write_file("sentence_bert_config.json", "{}");
    write_file("sentence_albert_config.json", "[]");
    check_refused(NULL, "sentence_albert_config.json: the file's value is [], must be an object");
}

/* do_lower_case makes a tokenizer that keeps the case lower-case its text. */
Test(sentence_files, lower_case)
{
    static const double cased[2][3] = { { 1.6854870, -0.1682978, 0.4959869 },
                                        { 1.7190676, 0.0460429, 0.5552539 } };
    make_sentence_model(MODULES, "{}");
    check_embeddings(LOAD(.do_lower_case = BR_SETTING_OFF), 0, 16, cased);
    write_file("tokenizer.json",
               "{\"normalizer\":{\"type\":\"BertNormalizer\",\"lowercase\":false,"
               "\"strip_accents\":null},\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
               "\"post_processor\":{\"type\":\"TemplateProcessing\","
               "\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"
               "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\","
               "\"type_id\":0}}],\"pair\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"
               "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},{\"SpecialToken\":{\"id\":\"[SEP]\","
               "\"type_id\":0}},{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},"
               "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":1}}],"
               "\"special_tokens\":{\"[CLS]\":{\"ids\":[2]},\"[SEP]\":{\"ids\":[3]}}},"
               "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
               "\"added_tokens\":[],\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
               "\"max_input_chars_per_word\":100,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,"
               "\"[SEP]\":3,\"a\":4,\"aa\":5,\"aaa\":6,\"aaaa\":7}}}");
    check_embeddings(NULL, 0, 16, cased);
    check_embeddings(LOAD(.do_lower_case = BR_SETTING_ON), 0, 16, modes[MEAN].expected);
    write_file("sentence_bert_config.json", "{\"do_lower_case\": true}");
    check_embeddings(NULL, 0, 16, modes[MEAN].expected);
    check_embeddings(LOAD(.do_lower_case = BR_SETTING_OFF), 0, 16, cased);
}

/* do_lower_case applies to an added token that is matched in the normalized text. */
Test(sentence_files, lower_case_of_added_tokens)
{
    make_sentence_model(MODULES, "{}");
    write_file("tokenizer_config.json", "{\"do_lower_case\": false}");
    write_vocab(39); /* the model has 40 embeddings */
    write_file("added_tokens.json", "{\"B\": 39}");
    write_file("sentence_bert_config.json", "{\"do_lower_case\": true}");
    br_scope *scope = br_scope_begin();
    br_tensor *rows = embed(NULL, 3, (br_text[]){ TEXT("a B"), TEXT("a b"), TEXT("a c") });
    cr_assert_lt(difference(br_select(rows, 0, 0), br_select(rows, 0, 1)), 1e-6);
    cr_assert_gt(difference(br_select(rows, 0, 0), br_select(rows, 0, 2)), 1e-3);
    br_scope_end(scope);
}

/* A side file that is wrong. */
Test(sentence_files, bad_files)
{
    static const struct {
        const char *file, *text, *message;
    } rows[] = {
        { "modules.json", "[" TRANSFORMER,
          "/modules.json: line 1, column 81: ']' expected near end of file" },
        { "modules.json", "{\"a\": 1}",
          "/modules.json: the file's value is {\"a\":1}, must be a list" },
        { "modules.json", "[1]", "modules.json: module 0 must have a type and a path" },
        { "modules.json", "[{\"type\": \"a\", \"type\": \"b\"}]",
          "modules.json: line 1, column 21: duplicate object key near '\"type\"'" },
        { "modules.json", "[" TRANSFORMER "," POOLING "," MODULE("2_CNN", "CNN") "]",
          "/modules.json: module 2 is sentence_transformers.models.CNN, but only Transformer, "
          "Pooling, Normalize, Dense, LayerNorm and Dropout of sentence_transformers are" },
        { "modules.json", "[{\"path\": \"\", \"type\": \"own.Transformer\"}]",
          "modules.json: module 0 is own.Transformer, but" },
        { "modules.json", "[" POOLING "," TRANSFORMER "]",
          "modules.json: module 0 is sentence_transformers.models.Pooling, but the order must be" },
        { "modules.json", "[" TRANSFORMER "," TRANSFORMER "]", "modules.json: module 1 is" },
        { "modules.json", "[" MODULE("../x", "Transformer") "]",
          "modules.json: the path of module 0 is \"../x\", must be a folder in the model's" },
        { "modules.json", "[]", "modules.json: the list has no Transformer module" },
        { "modules.json", "[" TRANSFORMER "]",
          "modules.json: the list has no Pooling module; the option pooling (brasa embed: "
          "--pooling MODE) chooses a mode" },
        { "1_Pooling/config.json", "", "/1_Pooling/config.json: line 1, column 0: " },
        { "1_Pooling/config.json", "[]", "1_Pooling/config.json: the file's value is [], must be" },
        { "1_Pooling/config.json", "{\"pooling_mode\": \"median\"}",
          "1_Pooling/config.json: pooling_mode is \"median\", must be one of \"cls\", \"max\", "
          "\"mean\", \"mean_sqrt_len_tokens\", \"weightedmean\", \"lasttoken\", or a list of them; "
          "the option pooling (brasa embed: --pooling MODE) overrides it" },
        { "1_Pooling/config.json", "{\"pooling_mode\": []}", "pooling_mode is an empty list" },
        { "1_Pooling/config.json", "{\"pooling_mode\": [\"cls\", 1]}",
          "pooling_mode is 1, must be" },
        { "1_Pooling/config.json", "{\"pooling_mode_median\": true}",
          "pooling_mode_median is not a known pooling mode; the option pooling (brasa embed: "
          "--pooling MODE) overrides it" },
        { "1_Pooling/config.json", "{\"pooling_mode_cls_token\": \"yes\"}",
          "config.json: pooling_mode_cls_token is \"yes\", must be true or false" },
        { "1_Pooling/config.json", "{\"include_prompt\": 1}",
          "config.json: include_prompt is 1, must be true or false" },
        { "1_Pooling/config.json", "{\"word_embedding_dimension\": 384}",
          "1_Pooling/config.json: word_embedding_dimension is 384, but hidden_size is 16 in " },
        { "1_Pooling/config.json", "{\"word_embedding_dimension\": null}",
          "config.json: word_embedding_dimension is null, must be an integer" },
        { "1_Pooling/config.json", "{\"pooling_mode\": null}",
          "config.json: pooling_mode is null, must be one of" },
        { "config_sentence_transformers.json", "{\"prompts\": null}",
          "prompts is null, must be an object" },
        { "1_Pooling/config.json", "{\"embedding_dimension\": 16.5}",
          "config.json: embedding_dimension is 16.5, must be an integer" },
        { "2_Normalize/config.json", "{\"module_input_name\": \"token_embeddings\"}",
          "2_Normalize/config.json: module_input_name is \"token_embeddings\", must be" },
        { "sentence_bert_config.json", "{\"max_seq_length\": \"128\"}",
          "sentence_bert_config.json: max_seq_length is \"128\", must be an integer in 3 .. "
          "2147483647; the option max_seq_length (brasa embed: "
          "--max-length N) overrides it" },
        { "sentence_bert_config.json", "{\"do_lower_case\": 0}", "do_lower_case is 0, must be" },
        { "tokenizer_config.json", "{\"model_max_length\": -1}",
          "tokenizer_config.json: model_max_length is -1.0, must be an integer of at least 3; "
          "the option max_seq_length (brasa embed: --max-length N) overrides it" },
        { "tokenizer_config.json", "{\"model_max_length\": 128.5}",
          "tokenizer_config.json: model_max_length is 128.5, must be an integer of at least 3" },
        { "tokenizer_config.json", "{\"truncation_side\": \"up\"}",
          "tokenizer_config.json: truncation_side is \"up\", must be \"left\" or \"right\"" },
        { "config_sentence_transformers.json", "{\"default_prompt_name\": \"q\"}",
          "config_sentence_transformers.json: default_prompt_name is \"q\", must be the name of" },
        { "config_sentence_transformers.json", "{\"default_prompt_name\": 1}",
          "default_prompt_name is 1, must be a string" },
        { "config_sentence_transformers.json",
          "{\"default_prompt_name\": \"q\", \"prompts\": [\"q\"]}",
          "prompts is [\"q\"], must be an object" },
        { "config_sentence_transformers.json",
          "{\"default_prompt_name\": \"q\", \"prompts\": {\"q\": 1}}",
          "the prompt \"q\" is not a string" },
        { "sentence_bert_config.json", "{\n\"a\": 1,,}",
          "sentence_bert_config.json: line 2, column 8: string or '}' expected" },
    };
    static const char all[] =
        "[" TRANSFORMER "," POOLING "," MODULE("2_Normalize", "Normalize") "]";
    make_sentence_model(all, "{}");
    br_sentence_transformer_free(open_model(NULL));
    check_ok();
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_file(rows[i].file, rows[i].text);
        check_refused(NULL, rows[i].message);
        write_file(rows[i].file, strcmp(rows[i].file, "modules.json") == 0 ? all : "{}");
    }
    cr_assert_eq(unlink(files_path("1_Pooling/config.json")), 0);
    check_refused(NULL, "/1_Pooling/config.json: cannot be opened");
    br_sentence_transformer_free(open_model(LOAD(.pooling = BR_POOLING_CLS)));
    check_ok();
}
