/* tokenizers/gguf_tokenizer.c - reads the tokenizer in the metadata of a GGUF file:
 * "tokenizer.ggml.model" is "llama" (BPE over characters, from SentencePiece) or "gpt2" (BPE over
 * bytes).
 *
 * The ids of texts are those of the model's own tokenizer.json. Where transformers makes another
 * tokenizer of a GGUF file, a comment says so.
 *
 * The file may be hostile: its layout is checked (io/gguf_read.c), its values are checked here. */
#include "tokenizers/gguf_tokenizer.h"

#include "io/io_internal.h"
#include "tokenizers/bpe_internal.h"

#include <inttypes.h>
#include <string.h>

static const char op[] = "auto_tokenizer";
static const char tokens_key[] = "tokenizer.ggml.tokens", types_key[] = "tokenizer.ggml.token_type",
                  scores_key[] = "tokenizer.ggml.scores", merges_key[] = "tokenizer.ggml.merges";

/* Types of tokens that are not read by the merges alone. */
enum { CONTROL = 3, USER_DEFINED = 4 };

static bool has(const br_gguf_vocabulary *v, const char *key)
{
    return br_gguf_metadata_type(v->file, key) != NULL;
}

/* Returns a boolean, `otherwise` if the file does not have the key. */
static bool read_bool(const br_gguf_vocabulary *v, const char *key, bool otherwise)
{
    return has(v, key) ? br_gguf_bool(v->file, key) : otherwise;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* Returns the type of a token; 0 if the file does not have types. */
static int64_t type_of(const br_gguf_vocabulary *v, int64_t id)
{
    return has(v, types_key) ? br_gguf_list_integer(v->file, types_key, id) : 0;
}

/* Checks that a list, if it exists, has an element for each token. */
static bool check_length(const br_gguf_vocabulary *v, const char *key)
{
    if (!has(v, key))
        return true;
    int64_t n = br_gguf_list_size(v->file, key);
    return n == v->n || br__failed() ||
           br__gguf_tokenizer_refuse(
               v, "%s has %" PRId64 " elements, must have %" PRId64 ", one for each of %s", key, n,
               v->n, tokens_key);
}

static bool is_spaces(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] != ' ')
            return false;
    return length > 0;
}

/* Returns the token with a sign for each byte. */
static char *spell_bytes(const char *text, size_t length, size_t *spelled)
{
    char *out = br_malloc(2 * length + 1), *p = out;
    for (size_t i = 0; out && i < length; i++)
        p += br__char_write(br__bpe_char((unsigned char)text[i]), p);
    *spelled = (size_t)(p - out);
    return out;
}

static char *spell_spaces(size_t length, size_t *spelled)
{
    char *out = br_malloc(4 * length + 1), *p = out;
    for (size_t i = 0; out && i < length; i++)
        p += br__char_write(BR_META, p);
    *spelled = (size_t)(p - out);
    return out;
}

/* Returns whether all code points of a token stand for bytes. */
static bool is_bytes(const char *text, size_t length)
{
    for (const char *p = text, *end = text + length; p < end;) {
        uint32_t c;
        bool valid;
        p += br__char_read(p, end, &c, &valid);
        if (!valid || br__bpe_byte(c) < 0)
            return false;
    }
    return true;
}

/* Returns whether a token is matched in raw text. A control token of a vocabulary of bytes with
 * other characters is a mistake of the converter. */
static bool is_added(const br_gguf_vocabulary *v, int64_t id, const char *text, size_t length)
{
    int64_t type = type_of(v, id);
    bool is_plain = v->t->kind != &br__byte_level || is_bytes(text, length);
    if (v->is_gemma && is_spaces(text, length))
        return false; /* merges of U+2581 make it */
    return length > 0 && (type == USER_DEFINED || (type == CONTROL && is_plain));
}

/* Adds a token as the merges have it: Gemma's tokens of several spaces have U+2581, and all
 * characters of tokens of bytes stand for bytes. */
static bool add_token(const br_gguf_vocabulary *v, int64_t id)
{
    size_t n;
    const char *text = br_gguf_list_string(v->file, tokens_key, id, &n);
    if (!text)
        return false;
    if (memchr(text, 0, n))
        return br__gguf_tokenizer_refuse(v, "%s[%" PRId64 "] contains a NUL", tokens_key, id);
    bool is_raw = is_added(v, id, text, n);
    char *spelled = NULL;
    if (v->is_gemma && is_spaces(text, n))
        spelled = spell_spaces(n, &n);
    else if (v->t->kind == &br__byte_level && !is_raw && !is_bytes(text, n))
        spelled = spell_bytes(text, n, &n);
    bool ok = !br__failed() && br__tokenizer_add(v->t, spelled ? spelled : text, n, id);
    br_free(spelled);
    return ok;
}

static bool read_tokens(br_gguf_vocabulary *v)
{
    v->n = br_gguf_list_size(v->file, tokens_key);
    const char *type = v->n < 0 ? NULL : br_gguf_list_type(v->file, tokens_key);
    if (!type)
        return false;
    if (strcmp(type, "string") != 0)
        return br__gguf_tokenizer_refuse(v, "%s is an array of %s, must be an array of strings",
                                         tokens_key, type);
    if (v->n > BR_MAX_TOKEN_ID)
        return br__gguf_tokenizer_refuse(v, "%s has %" PRId64 " elements, must have at most %d",
                                         tokens_key, v->n, BR_MAX_TOKEN_ID);
    if (!check_length(v, types_key) || !check_length(v, scores_key))
        return false;
    for (int64_t id = 0; id < v->n; id++)
        if (!add_token(v, id))
            return false;
    return !br__failed();
}

/* Marks the tokens that are matched in raw text. */
static bool mark_added(const br_gguf_vocabulary *v)
{
    for (int64_t id = 0; id < v->n && has(v, types_key); id++) {
        size_t n;
        const char *text = br_gguf_list_string(v->file, tokens_key, id, &n);
        if (!text)
            return false;
        if (!is_added(v, id, text, n))
            continue;
        if (v->t->n_added == BR_MAX_ADDED)
            return br__gguf_tokenizer_refuse(
                v, "%s has more than %d tokens that are control or user-defined", types_key,
                BR_MAX_ADDED);
        if (!br__tokenizer_add_special(v->t, text, n, type_of(v, id) == CONTROL))
            return false;
    }
    return !br__failed();
}

/* ---- "llama": BPE over characters ------------------------------------------------------------ */

/* With add_space_prefix, each text begins with U+2581, also after a special token. That is what
 * SentencePiece, llama.cpp and the tokenizer.json of Llama 2 do. transformers adds none to a text
 * that begins with a space or follows a special token, and ignores add_space_prefix. */
static void set_spaces(const br_gguf_vocabulary *v)
{
    br_char_bpe *m = br__char_bpe_of(v->t);
    m->replaces = true;
    m->prepends = read_bool(v, "tokenizer.ggml.add_space_prefix", !v->is_gemma);
    m->decoder = (br_piece_decoder){ .bytes = true, .strips = m->prepends };
    m->split_at_spaces = v->is_gemma;
}

static bool read_characters(br_gguf_vocabulary *v)
{
    int missing;
    const char *architecture = br_gguf_string(v->file, "general.architecture", NULL);
    v->is_gemma = architecture && strncmp(architecture, "gemma", strlen("gemma")) == 0;
    v->t->kind = &br__char_bpe;
    if (br__failed() || !read_tokens(v) || !br__char_bpe_begin(v->t, &missing))
        return false;
    if (missing >= 0)
        return br__gguf_tokenizer_refuse(v,
                                         "%s has no token <0x%02X>: it must have one for each byte",
                                         tokens_key, (unsigned)missing);
    if (!has(v, scores_key) && !has(v, merges_key) && !v->is_gemma)
        return br__gguf_tokenizer_refuse(v, "there is no %s and no %s, one of them is required",
                                         scores_key, merges_key);
    set_spaces(v);
    return has(v, merges_key) ? br__gguf_listed_merges(v, br__char_bpe_add_merge)
                              : br__gguf_implied_merges(v);
}

/* ---- "gpt2": BPE over bytes ------------------------------------------------------------------ */

/* The values of tokenizer.ggml.pre: the pattern that splits a text, and what else the model's own
 * tokenizer.json has. transformers does not normalize Qwen's texts, does not look up whole words,
 * and does not split SmolLM's numbers. */
typedef struct pre_tokenizer {
    const char *name;
    bool is_gpt4;
    int most_digits;
    br_form form;
    bool ignores_merges, adds_bos;
} pre_tokenizer;

static const pre_tokenizer pre_tokenizers[] = {
    { "default", false, 0, BR_FORM_NONE, false, false },
    { "gpt-2", false, 0, BR_FORM_NONE, false, false },
    { "phi-2", false, 0, BR_FORM_NONE, false, false },
    { "smollm", false, 1, BR_FORM_NONE, false, false },
    { "refact", false, 1, BR_FORM_NONE, false, false }, /* Granite's */
    { "llama-bpe", true, 3, BR_FORM_NONE, true, true },
    { "llama3", true, 3, BR_FORM_NONE, true, true },
    { "llama-v3", true, 3, BR_FORM_NONE, true, true },
    { "falcon3", true, 3, BR_FORM_NONE, true, true },
    { "pixtral", true, 3, BR_FORM_NONE, true, true },
    { "smaug-bpe", true, 3, BR_FORM_NONE, false, false },
    { "dbrx", true, 3, BR_FORM_NONE, false, false },
    { "qwen2", true, 1, BR_FORM_NFC, false, false },
    { "deepseek-r1-qwen", true, 1, BR_FORM_NONE, false, false },
};
enum { N_PRE_TOKENIZERS = sizeof pre_tokenizers / sizeof *pre_tokenizers };

/* Returns the pre-tokenizer, that of GPT-2 if the file names none, or NULL and an error. */
static const pre_tokenizer *find_pre(const br_gguf_vocabulary *v)
{
    static const char key[] = "tokenizer.ggml.pre";
    const char *name = has(v, key) ? br_gguf_string(v->file, key, NULL) : "default";
    char known[512] = "";
    if (!name)
        return NULL;
    for (int i = 0; i < N_PRE_TOKENIZERS; i++) {
        const pre_tokenizer *p = &pre_tokenizers[i];
        if (strcmp(p->name, name) == 0)
            return p;
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s\"%s\"", i ? ", " : "", p->name);
    }
    br__gguf_tokenizer_refuse(v, "%s is \"%s\", must be one of %s", key, br_printable(name), known);
    return NULL;
}

static bool read_bytes(br_gguf_vocabulary *v, bool *adds_bos)
{
    const pre_tokenizer *pre = find_pre(v);
    v->t->kind = &br__byte_level;
    if (!pre || !read_tokens(v) || !br__bpe_begin(v->t))
        return false;
    br_bpe *bpe = br__bpe_of(v->t);
    bpe->is_gpt4 = pre->is_gpt4;
    bpe->most_digits = pre->most_digits;
    bpe->form = pre->form;
    bpe->ignores_merges = pre->ignores_merges;
    *adds_bos = pre->adds_bos;
    return br__gguf_listed_merges(v, br__bpe_add_merge);
}

/* ---- Special tokens -------------------------------------------------------------------------- */

/* Reads the id of a role's token, which is special; `otherwise` if the file does not state it. */
static bool read_role(const br_gguf_vocabulary *v, br_special_token role, const char *key,
                      int64_t otherwise)
{
    br_tokenizer *t = v->t;
    int64_t id = has(v, key) ? br_gguf_integer(v->file, key) : otherwise;
    if (br__failed())
        return false;
    if (has(v, key) && (id < 0 || id >= v->n || !t->tokens[id]))
        return br__gguf_tokenizer_refuse(
            v, "%s is %" PRId64 ", must be the id of one of %" PRId64 " tokens", key, id, v->n);
    t->roles[role] = id >= 0 && id < v->n && t->tokens[id] ? id : -1;
    return t->roles[role] < 0 ||
           br__tokenizer_add_special(t, t->tokens[id], strlen(t->tokens[id]), true);
}

/* A vocabulary of SentencePiece has <unk>, <s> and </s> as its first tokens. */
static bool read_roles(const br_gguf_vocabulary *v)
{
    bool is_piece = v->t->kind == &br__char_bpe;
    return read_role(v, BR_TOKEN_BOS, "tokenizer.ggml.bos_token_id", is_piece ? 1 : -1) &&
           read_role(v, BR_TOKEN_EOS, "tokenizer.ggml.eos_token_id", is_piece ? 2 : -1) &&
           read_role(v, BR_TOKEN_UNK, "tokenizer.ggml.unknown_token_id", is_piece ? 0 : -1) &&
           read_role(v, BR_TOKEN_PAD, "tokenizer.ggml.padding_token_id", -1) &&
           read_role(v, BR_TOKEN_MASK, "tokenizer.ggml.mask_token_id", -1);
}

/* Sets *id to the token of a role if it is put around texts: the option counts, then the file. */
static bool surround(const br_gguf_vocabulary *v, br_setting option, const char *key,
                     bool otherwise, br_special_token role, int64_t *id)
{
    bool stated = read_bool(v, key, otherwise);
    if (br__failed())
        return false;
    if (option == BR_SETTING_OFF || (option == BR_SETTING_AUTO && !stated))
        return true;
    *id = v->t->roles[role];
    return *id >= 0 ||
           br__gguf_tokenizer_refuse(
               v, "%s or the option is true, but the file does not state the id of the token", key);
}

static bool set_specials(const br_gguf_vocabulary *v, const br_auto_tokenizer_options *o,
                         bool adds_bos)
{
    br_tokenizer *t = v->t;
    if (!read_roles(v) ||
        !surround(v, o->add_bos_token, "tokenizer.ggml.add_bos_token", adds_bos, BR_TOKEN_BOS,
                  &t->classify) ||
        !surround(v, o->add_eos_token, "tokenizer.ggml.add_eos_token", false, BR_TOKEN_EOS,
                  &t->separator))
        return false;
    t->classify_both = t->classify >= 0;
    t->unknown = t->roles[BR_TOKEN_UNK];
    t->padding = t->roles[BR_TOKEN_PAD] >= 0 ? t->roles[BR_TOKEN_PAD] : t->roles[BR_TOKEN_EOS];
    return true;
}

/* ---------------------------------------------------------------------------------------------- */

static bool check_options(const br_gguf_vocabulary *v, const br_auto_tokenizer_options *o)
{
    const char *set = o->tokenizer_class          ? "tokenizer_class"
                      : o->do_lower_case          ? "do_lower_case"
                      : o->strip_accents          ? "strip_accents"
                      : o->tokenize_chinese_chars ? "tokenize_chinese_chars"
                      : o->add_prefix_space       ? "add_prefix_space"
                      : o->extra_ids >= 0         ? "extra_ids"
                      : o->ignore_added_tokens    ? "ignore_added_tokens"
                                                  : NULL;
    if (set)
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s: option %s does not apply to a GGUF file, only add_bos_token and add_eos_token "
                "do",
                br_printable(v->file->path), set);
    return !set;
}

static bool read_all(br_gguf_vocabulary *v, const br_auto_tokenizer_options *options)
{
    static const char key[] = "tokenizer.ggml.model";
    bool adds_bos = true;
    const char *model = check_options(v, options) ? br_gguf_string(v->file, key, NULL) : NULL;
    if (!model || !br__tokenizer_set_prefix(v->t, ""))
        return false;
    bool is_llama = strcmp(model, "llama") == 0;
    if (!is_llama && strcmp(model, "gpt2") != 0)
        return br__gguf_tokenizer_refuse(v, "%s is \"%s\", must be \"llama\" or \"gpt2\"", key,
                                         br_printable(model));
    return (is_llama ? read_characters(v) : read_bytes(v, &adds_bos)) && mark_added(v) &&
           br__tokenizer_index(v->t) && set_specials(v, options, adds_bos) &&
           br__tokenizer_finish_added(v->t);
}

br_tokenizer *br__tokenizer_read_gguf(const char *path, const br_auto_tokenizer_options *options)
{
    br_gguf_vocabulary v = { .file = br_gguf_open(path, NULL) };
    v.t = v.file ? br__tokenizer_new() : NULL;
    bool ok = v.t && read_all(&v, options);
    br_gguf_close(v.file);
    if (ok)
        return v.t;
    br_tokenizer_free(v.t);
    return NULL;
}
