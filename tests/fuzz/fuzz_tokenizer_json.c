/* tests/fuzz/fuzz_tokenizer_json.c - any bytes as a tokenizer.json: loads it, looks up each token,
 * and encodes the file itself. */
#include "tests/fuzz/encoding.h"

#define WHOLE(normalizer, added, model)                                             \
    SEED("{\"normalizer\":{\"type\":\"BertNormalizer\"," normalizer "},"            \
         "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"                       \
         "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["         \
         "{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"                     \
         "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"                             \
         "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}}],\"pair\":["          \
         "{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}},"                     \
         "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"                             \
         "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":0}},"                     \
         "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}},"                             \
         "{\"SpecialToken\":{\"id\":\"[SEP]\",\"type_id\":1}}],"                    \
         "\"special_tokens\":{\"[CLS]\":{\"ids\":[1]},\"[SEP]\":{\"ids\":[2]}}},"   \
         "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true}," \
         "\"added_tokens\":[" added "],\"model\":{\"type\":\"WordPiece\"," model "}}")

static const fuzz_seed seeds[] = {
    WHOLE("\"lowercase\":true,\"strip_accents\":null",
          "{\"id\":2,\"content\":\"[SEP]\",\"lstrip\":false,\"special\":true},"
          "{\"id\":9,\"content\":\"<new>\",\"special\":false}",
          "\"unk_token\":\"[UNK]\",\"max_input_chars_per_word\":3,"
          "\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":4,\"##b\":8}"),
    WHOLE("\"clean_text\":false,\"handle_chinese_chars\":false,\"lowercase\":false,"
          "\"strip_accents\":true",
          "",
          "\"continuing_subword_prefix\":\"##\",\"unk_token\":\"[UNK]\","
          "\"vocab\":{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"\\u00e9\":3}"),
    SEED(
        "{\"added_tokens\":[{\"id\":0,\"content\":\"<|e|>\",\"special\":true}],\"normalizer\":null,"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,"
        "\"trim_offsets\":true,\"use_regex\":true},\"post_processor\":null,"
        "\"decoder\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":\"BPE\","
        "\"vocab\":{\"<|e|>\":0,\"a\":1,\"b\":2,\"ab\":3},\"merges\":[[\"a\",\"b\"],\"b a\"]}}"),
    SEED("{\"added_tokens\":[{\"id\":0,\"content\":\"<u>\",\"special\":true,\"lstrip\":true}],"
         "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Precompiled\","
         "\"precompiled_charsmap\":\"BAAAAAAAAABhAA==\"},{\"type\":\"Strip\",\"strip_left\":true},"
         "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\" {2,}\"},\"content\":\"x\"}]},"
         "\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\",\"split\":true},"
         "\"post_processor\":null,\"decoder\":{\"type\":\"Sequence\",\"decoders\":["
         "{\"type\":\"ByteFallback\"},{\"type\":\"Metaspace\",\"replacement\":\"\\u2581\"}]},"
         "\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"byte_fallback\":true,"
         "\"vocab\":[[\"<u>\",0],[\"a\",-1.5],[\"<0x41>\",-2.0],[\"ab\",-3]]}}"),
    SEED("{\"normalizer\":null,\"model\":{\"vocab\":[]}}"),
    SEED("{\"added_tokens\":[{\"id\":1,\"content\":\"\"}],\"normalizer\":{\"type\":\"Sequence\"}}"),
};

static void try_bytes(const uint8_t *bytes, size_t n)
{
    char path[64];
    int fd = fuzz_file(bytes, n, path);
    br_tokenizer *t = br_tokenizer_from_json(path);
    close(fd);
    require_answer(t);
    if (!t)
        return;
    require_tokens(t);
    fuzz_encode_if_known(t, &(br_text){ (const char *)bytes, (int64_t)n });
    br_tokenizer_free(t);
}

FUZZ_TARGET(tokenizer_json)
