/* tests/fuzz/fuzz_side_files.c - any bytes as a side file of a tokenizer: tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json or config.json. If the folder loads, looks up each
 * token and encodes a text.
 *
 * The first byte chooses the side file and the kind of tokenizer. */
#include "tests/fuzz/encoding.h"
#include "tests/fuzz/folder.h"

static const char *const sides[] = { "tokenizer_config.json", "special_tokens_map.json",
                                     "added_tokens.json", "config.json" };
enum { N_SIDES = sizeof sides / sizeof *sides, N_TOKENIZERS = 4 };

#define UNKNOWN       "\x0a\x0c\x0a\x03<u>\x15\0\0\0\0\x18\x02"
#define PIECE(letter) "\x0a\x0a\x0a\x01" letter "\x15\0\0\x80\xbf\x18\x01"

/* Adds the files of one of four tokenizers: WordPiece, byte-level BPE, SentencePiece, and
 * tokenizer.json. */
static void add_tokenizer(fuzz_folder *f, int kind)
{
    static const fuzz_seed files[] = {
        SEED("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##a\n##b\n"),
        SEED("{\"a\":0,\"b\":1,\"ab\":2,\"\\u0120\":3,\"<|endoftext|>\":4}"),
        SEED(UNKNOWN PIECE("a") PIECE("b") PIECE("\xe2\x96\x81")),
        SEED("{\"added_tokens\":[{\"id\":0,\"content\":\"[PAD]\",\"special\":true}],\"normalizer\":"
             "{\"type\":\"BertNormalizer\",\"lowercase\":true},\"pre_tokenizer\":{\"type\":"
             "\"BertPreTokenizer\"},\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
             "\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"[SEP]\":3,\"a\":4,\"##b\":5}}}"),
    };
    static const char *const names[] = { "vocab.txt", "vocab.json", "spiece.model",
                                         "tokenizer.json" };
    fuzz_folder_add(f, names[kind], files[kind].bytes, files[kind].n);
    if (kind == 1)
        fuzz_folder_add(f, "merges.txt", "#version: 0.2\na b\n", strlen("#version: 0.2\na b\n"));
}

/* Each seed is tried for one tokenizer: its first byte is the side file plus 4 times the kind. */
static const fuzz_seed seeds[] = {
    SEED("\0{\"do_lower_case\":false,\"cls_token\":\"a\",\"model_max_length\":4,\"added_tokens_"
         "decoder\":{\"3\":{\"content\":\"[SEP]\",\"special\":true},\"9\":{\"content\":\"new\","
         "\"lstrip\":true,\"special\":false}}}"),
    SEED("\4{\"add_prefix_space\":true,\"eos_token\":{\"__type\":\"AddedToken\",\"content\":\"b\","
         "\"normalized\":false},\"errors\":\"replace\",\"add_bos_token\":true}"),
    SEED("\x08{\"extra_ids\":2,\"legacy\":true,\"unk_token\":\"<u>\",\"additional_special_tokens\":"
         "[\"<x>\",{\"content\":\"<y>\",\"rstrip\":true}],\"sp_model_kwargs\":{}}"),
    SEED("\x0c{\"tokenizer_class\":\"BertTokenizer\",\"strip_accents\":null,\"extra_special_"
         "tokens\":{\"image_token\":\"<i>\"},\"padding_side\":\"left\",\"chat_template\":\"x\"}"),
    SEED("\1{\"sep_token\":\"b\",\"mask_token\":{\"content\":\"<m>\",\"lstrip\":true,\"special\":"
         "true,\"single_word\":false}}"),
    SEED("\x0d{\"unk_token\":\"[UNK]\",\"additional_special_tokens\":[\"b\",\"b\"]}"),
    SEED("\2{\"new\":9,\"[MASK]\":4,\"other\":10}"),
    SEED("\x06{\"<x>\":5,\"b\":1}"),
    SEED("\3{\"model_type\":\"bert\",\"tokenizer_class\":\"BertTokenizerFast\"}"),
    SEED("\x0f{\"model_type\":\"gpt2\",\"tokenizer_class\":null}"),
};

/* Looks up each token. As in transformers, a token that is matched after normalization has its
 * normalized text, which need not be a token: "[mask]" for "[MASK]". */
static void look_up_tokens(const br_tokenizer *t)
{
    for (int64_t id = -1; id <= br_tokenizer_size(t) && id < 300; id++) {
        const char *token = br_tokenizer_token(t, id);
        require_answer(token);
        if (token)
            require_answer(br_tokenizer_id(t, token, -1) >= 0);
    }
}

static void try_bytes(const uint8_t *bytes, size_t n)
{
    if (n == 0)
        return;
    br_set_memory_limit(16 << 20);
    fuzz_folder f = fuzz_folder_new();
    add_tokenizer(&f, bytes[0] / N_SIDES % N_TOKENIZERS);
    fuzz_folder_add(&f, sides[bytes[0] % N_SIDES], bytes + 1, n - 1);
    br_auto_tokenizer_options options = *BR_OPTIONS(
        br_auto_tokenizer, .do_lower_case = bytes[0] & 64 ? BR_SETTING_OFF : BR_SETTING_AUTO,
        .extra_ids = bytes[0] & 128 ? 2 : -1);
    br_tokenizer *t = br_auto_tokenizer_load(f.path, bytes[0] & 192 ? &options : NULL);
    require_answer(t);
    if (t) {
        static const char text[] = "Ab a [MASK] new<x>b <|endoftext|> \xc3\xa9";
        look_up_tokens(t);
        fuzz_encode_if_known(t, &(br_text){ text, sizeof text - 1 });
        br_tokenizer_free(t);
    }
    fuzz_folder_free(&f);
}

FUZZ_TARGET(side_files)
