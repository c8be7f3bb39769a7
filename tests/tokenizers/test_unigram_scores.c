/* tests/tokenizers/test_unigram_scores.c - the last bits of scores, which decide between equally
 * good segmentations. */
#include "tests/io/files.h"
#include "tests/tokenizers/encodings.h"

TestSuite(unigram_scores, .init = files_begin, .fini = files_end);

/* The sums of "--", "---" and "---", "--" are equal but for rounding. `tokenizers` reads the last
 * score one bit lower than it is, and returns these ids. */
Test(unigram_scores, are_read_as_tokenizers_reads_them)
{
    static const char scores[] =
        "{\"added_tokens\":[],\"normalizer\":null,\"pre_tokenizer\":{\"type\":\"Metaspace\","
        "\"replacement\":\"\u2581\",\"prepend_scheme\":\"always\",\"split\":true},"
        "\"post_processor\":null,\"decoder\":{\"type\":\"Metaspace\",\"replacement\":\"\u2581\","
        "\"prepend_scheme\":\"always\",\"split\":true},\"model\":{\"type\":\"Unigram\","
        "\"unk_id\":3,\"vocab\":[[\"\u2581\",-3.9104011058807373],[\"--\",-7.846359708741092],"
        "[\"---\",-6.8188065201826555],[\"<unk>\",-20.0]],\"byte_fallback\":false}}";
    files_write(files_path("tokenizer.json"), scores, strlen(scores));
    br_tokenizer *t = br_tokenizer_from_json(files_path("tokenizer.json"));
    br_encoding *e = br_tokenizer_encode(t, &(br_text){ "-----", -1 }, NULL, NULL);
    check_ok();
    cr_assert_eq(e->length, 3);
    cr_assert_eq(e->ids[1], 1);
    cr_assert_eq(e->ids[2], 2);
    br_encoding_free(e);
    br_tokenizer_free(t);
}
