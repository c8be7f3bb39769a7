/* train/learned_tokenizer.c - see learned_tokenizer.h. */
#include "train/learned_tokenizer.h"
#include "common/file.h"
#include "common/text.h"
#include "io/json.h"

#include <stdlib.h>
#include <string.h>

char *tokenizer_learn(const char *text, size_t length, const br_bpe_train_options *options)
{
    const char *end = text + length, *at = text_first_line(text, end);
    int64_t n = 0;
    for (const char *p = at; p < end; p++)
        n += *p == '\n';
    br_text *lines = malloc((size_t)(n + 1) * sizeof *lines);
    if (!lines) {
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for the lines of the text");
        return NULL;
    }
    for (n = 0; at < end; n++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        const char *next = stop ? stop + 1 : end;
        lines[n] = (br_text){ at, next - at };
        at = next;
    }
    char *json = br_bpe_train(n, lines, options);
    free(lines);
    return json;
}

/* Returns tokenizer_config.json for br_free(); NULL with an error on failure. */
static char *config_text(const char *end)
{
    json_t *config = json_pack("{s:b, s:s, s:b}", "add_prefix_space", 0, "tokenizer_class",
                               "PreTrainedTokenizerFast", "clean_up_tokenization_spaces", 0);
    static const char *const roles[] = { "bos_token", "eos_token", "unk_token" };
    bool ok = config != NULL;
    for (int i = 0; ok && end && i < 3; i++)
        ok = json_object_set_new(config, roles[i], json_string(end)) == 0;
    char *text = ok ? br__json_text("tokenizer", "tokenizer_config.json", config) : NULL;
    if (!ok)
        br_raise(BR_ERROR_MEMORY, "cannot allocate memory for tokenizer_config.json");
    json_decref(config);
    return text;
}

bool tokenizer_write(const char *folder, const char *json, const char *end)
{
    char *config = config_text(end);
    bool ok = config && file_make_directory(folder) &&
              file_write(folder, "tokenizer_config.json", config) &&
              file_write(folder, "tokenizer.json", json);
    br_free(config);
    return ok;
}
