/* tests/fuzz/fuzz_tokenizer.c - any bytes as text: encoded alone and as a pair, with any options.
 */
#include "tests/fuzz/encoding.h"

static const fuzz_seed seeds[] = {
    SEED("\0\0\0\0time flies like an arrow"),
    SEED("\6\2\1\4fruit flies [SEP] like a [MASK]ana[UNK"),
    SEED("\x85\x2a\4\xf0"
         "A\xcc\x81\xcc\xa3"
         "b\xc3\x85\xe4\xb8\xad\xe6\x96\x87\xf0\x9f\x98\x80\n\t\0 x"),
    SEED("\3\x14\x38\2\xff\xc3\xe2\x82 \xed\xa0\x80 [CLS][CLS]..!?"),
    SEED("\4\1\0\x10"
         "a a a a a a a a a, a a a a a a a a a"),
};

/* Words, pieces of words, punctuation, and characters of other scripts. */
static const uint8_t vocabulary[] =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ntime\nflies\nlike\nan\narrow\nfruit\na\nb\naa\n##a\n##b\n"
    "##ana\nx\n.\n,\n[\n]\n!\n?\n#\n##row\n\xe4\xb8\xad\n\xe6\x96\x87\n\xc3\xa9\n\xc3\xa5\n";

static br_tokenizer *open_tokenizer(bool cased)
{
    char path[64];
    int fd = fuzz_file(vocabulary, sizeof vocabulary - 1, path);
    br_tokenizer *t =
        br_tokenizer_from_vocab(path, BR_OPTIONS(br_tokenizer, .do_lower_case = !cased));
    close(fd);
    require(t != NULL);
    return t;
}

/* The fourth byte chooses the tokenizer, and where the text ends and its pair begins. */
static void try_bytes(const uint8_t *bytes, size_t n)
{
    static br_tokenizer *tokenizers[2];
    if (n < 4)
        return;
    br_tokenizer **t = &tokenizers[bytes[3] & 1];
    if (!*t)
        *t = open_tokenizer(bytes[3] & 1);
    br_encode_options options = fuzz_encode_options(bytes);
    int64_t length = (int64_t)n - 4, first = bytes[3] / 2 % (length + 1);
    br_text whole = { (const char *)bytes + 4, length }, text = { whole.data, first },
            pair = { whole.data + first, length - first };
    fuzz_encode(*t, &whole, NULL, NULL);
    fuzz_encode(*t, &text, &pair, NULL);
    fuzz_encode(*t, &text, bytes[3] & 2 ? &pair : NULL, &options);
}

FUZZ_TARGET(tokenizer)
