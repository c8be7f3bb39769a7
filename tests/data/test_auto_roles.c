/* tests/data/test_auto_roles.c - what a token of a model folder becomes by its name in a side file.
 */
#include "tests/io/files.h"
#include "tests/support.h"

#include <brasa/data.h>
#include <string.h>

TestSuite(auto_roles, .init = files_begin, .fini = files_end);

static void put(const char *name, const char *text)
{
    files_write(files_path(name), text, strlen(text));
}

/* A token with a name, such as eos_token, is special even if its entry says otherwise. */
Test(auto_roles, named_tokens_are_special)
{
    put("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n");
    put("tokenizer_config.json", "{\"eos_token\":{\"__type\":\"AddedToken\",\"content\":\"a\","
                                 "\"special\":false,\"normalized\":false}}");
    br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
    cr_assert(t, "%s", br_error_message());
    int64_t id = br_tokenizer_id(t, "a", -1);
    for (int skip = 0; skip < 2; skip++) {
        char *text = br_tokenizer_decode(t, 1, &id, skip);
        cr_assert_str_eq(text, skip ? "" : "a");
        br_free(text);
    }
    br_tokenizer_free(t);
}

/* GPT-2's tokenizer pads with eos_token, unless there is a pad_token. */
Test(auto_roles, padding_of_gpt2)
{
    put("vocab.json", "{\"a\":0,\"b\":1,\"c\":2}");
    put("merges.txt", "#version: 0.2\n");
    for (int pad = 0; pad < 2; pad++) {
        put("tokenizer_config.json",
            pad ? "{\"eos_token\":\"b\",\"pad_token\":\"c\"}" : "{\"eos_token\":\"b\"}");
        br_tokenizer *t = br_auto_tokenizer_load(files_path(""), NULL);
        cr_assert(t, "%s", br_error_message());
        br_text text = { "a", -1 };
        br_encoding *e = br_tokenizer_encode(
            t, &text, NULL, BR_OPTIONS(br_encode, .max_length = 2, .padding = BR_PAD_MAX_LENGTH));
        cr_assert(e && e->length == 2, "%s", br_error_message());
        cr_assert_eq(e->ids[1], br_tokenizer_id(t, pad ? "c" : "b", -1));
        br_encoding_free(e);
        br_tokenizer_free(t);
    }
}
