/* tokenizers/auto_tokenizer_settings.c - what tokenizer_config.json and the options change in the
 * tokenizer of a model folder: how texts are read, and which special tokens are put around them. */
#include "tokenizers/auto_tokenizer_internal.h"
#include "tokenizers/bpe_internal.h"
#include "tokenizers/char_bpe.h"

#include <string.h>

static const char op[] = "auto_tokenizer";

/* Returns true if the class's keys take precedence over tokenizer.json, as in transformers 5. */
bool br__loader_rebuilds(const br_tokenizer_loader *l)
{
    const br_tokenizer_kind *kind = l->t->kind;
    br_tokenizer_family own = kind == &br__word_pieces  ? BR_FAMILY_WORDS
                              : kind == &br__byte_level ? BR_FAMILY_BYTES
                                                        : BR_FAMILY_PIECES;
    return !l->from_json || (l->files.family == own && kind != &br__char_bpe);
}

/* ---- Settings -------------------------------------------------------------------------------- */

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

/* Applies a setting of tokenizer_config.json or, if it is set, the option. The classes that read
 * the key do not accept null, other classes ignore it. */
static bool apply(const br_tokenizer_loader *l, const char *key, br_setting stated,
                  br_setting option, bool *value)
{
    bool before = *value;
    if (option != BR_SETTING_AUTO) {
        *value = option == BR_SETTING_ON;
        return true;
    }
    if (!br__loader_rebuilds(l))
        return true;
    if (json_is_null(json_object_get(l->files.config, key)))
        return br__side_refuse(&l->files, "tokenizer_config.json",
                               "%s is null, must be true or false; set the option %s to override "
                               "it",
                               key, key);
    if (stated == BR_SETTING_AUTO)
        return true;
    *value = stated == BR_SETTING_ON;
    if (l->from_json && *value != before)
        br_raise(BR_WARNING,
                 "%s: %s: %s is %s in tokenizer_config.json, but %s in tokenizer.json; the former "
                 "counts",
                 op, br_printable(l->files.dir), key, truth(*value), truth(before));
    return true;
}

static void apply_accents(const br_tokenizer_loader *l)
{
    br_tokenizer *t = l->t;
    const br_side_files *s = &l->files;
    br_setting option = l->options->strip_accents;
    bool stated = s->auto_accents || s->strip_accents != BR_SETTING_AUTO;
    if (option == BR_SETTING_AUTO && br__loader_rebuilds(l) && stated)
        t->auto_accents = s->auto_accents;
    if (option != BR_SETTING_AUTO || (stated && br__loader_rebuilds(l) && !s->auto_accents))
        t->auto_accents = false;
    bool follows = t->strip_accents == t->lowercase;
    if (!t->auto_accents)
        apply(l, "strip_accents", s->strip_accents, option, &t->strip_accents);
    else if (!follows)
        t->strip_accents = t->lowercase;
}

static bool check_option(const br_tokenizer_loader *l, const char *name, bool set,
                         const br_tokenizer_kind *kind)
{
    if (!set || l->t->kind == kind)
        return true;
    br_fail(BR_ERROR_ARGUMENT, op, "%s: option %s does not apply to the tokenizer of %s",
            br_printable(l->files.dir), name, l->file);
    return false;
}

static bool check_options(const br_tokenizer_loader *l)
{
    const br_auto_tokenizer_options *o = l->options;
    if ((o->add_bos_token || o->add_eos_token || o->extra_ids >= 0) && l->from_json) {
        br_fail(BR_ERROR_ARGUMENT, op,
                "%s: options add_bos_token, add_eos_token and extra_ids do not apply to "
                "tokenizer.json",
                br_printable(l->files.dir));
        return false;
    }
    return check_option(l, "do_lower_case", o->do_lower_case, &br__word_pieces) &&
           check_option(l, "strip_accents", o->strip_accents, &br__word_pieces) &&
           check_option(l, "tokenize_chinese_chars", o->tokenize_chinese_chars, &br__word_pieces) &&
           check_option(l, "add_prefix_space", o->add_prefix_space, &br__byte_level) &&
           check_option(l, "add_bos_token", o->add_bos_token, &br__byte_level) &&
           check_option(l, "add_eos_token", o->add_eos_token, &br__byte_level) &&
           check_option(l, "extra_ids", o->extra_ids >= 0, &br__unigram);
}

static bool check_trimming(const br_tokenizer_loader *l, const br_bpe *bpe)
{
    return !(bpe->prefix_space && l->t->trim_offsets) ||
           br__side_refuse(&l->files, l->file,
                           "add_prefix_space and trim_offsets are both true, which is not "
                           "supported; set the option add_prefix_space to override it");
}

/* Returns whether transformers gives the model no type ids, so that all of them are 0. */
static bool hides_types(const br_side_files *s)
{
    json_t *names = json_object_get(s->config, "model_input_names"), *name;
    size_t i;
    if (!json_is_array(names))
        return br__class_is(s, "AlbertTokenizer");
    json_array_foreach(names, i, name)
    {
        if (json_is_string(name) && strcmp(json_string_value(name), "token_type_ids") == 0)
            return false;
    }
    return true;
}

bool br__loader_apply_settings(const br_tokenizer_loader *l)
{
    br_tokenizer *t = l->t;
    const br_side_files *s = &l->files;
    const br_auto_tokenizer_options *o = l->options;
    if (!check_options(l))
        return false;
    t->splits_special = s->splits_special;
    t->hides_types = hides_types(s);
    bool is_bpe = t->kind == &br__byte_level || t->kind == &br__char_bpe;
    t->cleans_up = s->cleans_up && !is_bpe; /* as in transformers */
    if (t->kind == &br__word_pieces) {
        if (!apply(l, "do_lower_case", s->do_lower_case, o->do_lower_case, &t->lowercase))
            return false;
        apply_accents(l);
        return apply(l, "tokenize_chinese_chars", s->tokenize_chinese_chars,
                     o->tokenize_chinese_chars, &t->spread_chinese);
    }
    if (t->kind != &br__byte_level)
        return true;
    br_bpe *bpe = br__bpe_of(t);
    return apply(l, "add_prefix_space", s->add_prefix_space, o->add_prefix_space,
                 &bpe->prefix_space) &&
           check_trimming(l, bpe);
}

/* ---- Special tokens around a text ------------------------------------------------------------ */

/* Sets a special token that tokenizer.json has to the one that a side file states. */
static void replace(const br_tokenizer_loader *l, int role, const char *key, int64_t *id)
{
    br_tokenizer *t = l->t;
    int64_t stated = l->files.stated[role] ? t->roles[role] : -1;
    if (stated < 0 || *id < 0 || stated == *id)
        return;
    char *before = br_strdup(br_printable(br_tokenizer_token(t, *id)));
    if (before)
        br_raise(BR_WARNING,
                 "%s: %s: %s is '%s' in the side files, but '%s' in tokenizer.json; the former "
                 "counts",
                 op, br_printable(l->files.dir), key, br_printable(br_tokenizer_token(t, stated)),
                 before);
    br_free(before);
    *id = stated;
}

/* Sets the roles that no file states to the usual tokens. A role that a file states to be null has
 * no token. */
static void default_roles(const br_tokenizer_loader *l)
{
    int64_t stated[BR_TOKEN_MASK + 1];
    memcpy(stated, l->t->roles, sizeof stated);
    br__tokenizer_default_roles(l->t);
    for (int role = 0; role <= BR_TOKEN_MASK; role++)
        if (l->files.stated[role])
            l->t->roles[role] = stated[role];
}

static bool is_on(br_setting option, br_setting stated)
{
    return (option ? option : stated) == BR_SETTING_ON;
}

/* Sets the ids of [CLS] and [SEP] that a file states to be null: transformers uses a fixed id, or
 * that of [SEP] for both if both are null. */
static void surround_with_fixed(const br_tokenizer_loader *l)
{
    br_tokenizer *t = l->t;
    enum { FIXED_CLS = 2, FIXED_SEP = 3 };
    bool no_cls = l->files.stated[BR_TOKEN_CLS] && t->roles[BR_TOKEN_CLS] < 0;
    bool no_sep = l->files.stated[BR_TOKEN_SEP] && t->roles[BR_TOKEN_SEP] < 0;
    int64_t cls = no_sep ? FIXED_SEP : FIXED_CLS;
    if (no_cls && cls < t->size)
        t->classify = cls;
    if (no_sep && FIXED_SEP < t->size)
        t->separator = FIXED_SEP;
}

static void surround_words(const br_tokenizer_loader *l)
{
    l->t->classify = l->t->roles[BR_TOKEN_CLS];
    l->t->separator = l->t->roles[BR_TOKEN_SEP];
    surround_with_fixed(l);
}

/* Sets the tokens around a text as the class does without a post-processor of tokenizer.json. */
static void surround(const br_tokenizer_loader *l)
{
    br_tokenizer *t = l->t;
    const br_auto_tokenizer_options *o = l->options;
    if (t->kind == &br__word_pieces) {
        surround_words(l);
    } else if (t->kind == &br__unigram) {
        t->separator = t->roles[BR_TOKEN_EOS];
    } else if (!l->from_json) { /* beside a tokenizer.json these keys have no effect */
        t->classify_both = is_on(o->add_bos_token, l->files.add_bos);
        if (t->classify_both)
            t->classify = t->roles[BR_TOKEN_BOS];
        if (is_on(o->add_eos_token, l->files.add_eos))
            t->separator = t->roles[BR_TOKEN_EOS];
    }
}

/* Sets the unknown token as the class does. It must be a token of the model. */
static bool set_unknown(const br_tokenizer_loader *l)
{
    enum { T5_UNKNOWN = 2 };
    br_tokenizer *t = l->t;
    if (t->kind == &br__unigram && t->unknown < 0 && t->model_size > T5_UNKNOWN)
        t->unknown = T5_UNKNOWN;
    if (t->kind != &br__word_pieces)
        return true;
    replace(l, BR_TOKEN_UNK, "unk_token", &t->unknown);
    int64_t id = l->files.stated[BR_TOKEN_UNK] ? t->roles[BR_TOKEN_UNK] : t->unknown;
    if (id >= 0)
        return br__tokenizer_set_unknown(t, t->tokens[id]);
    return br__tokenizer_set_unknown(t, l->files.stated[BR_TOKEN_UNK] ? NULL : "[UNK]");
}

/* Replaces the special tokens of tokenizer.json's post-processor. */
static void replace_ends(const br_tokenizer_loader *l)
{
    br_tokenizer *t = l->t;
    if (t->kind == &br__word_pieces) {
        replace(l, BR_TOKEN_CLS, "cls_token", &t->classify);
        replace(l, BR_TOKEN_SEP, "sep_token", &t->separator);
        surround_with_fixed(l);
    } else if (t->kind == &br__unigram) {
        replace(l, BR_TOKEN_EOS, "eos_token", &t->separator);
    }
}

/* Replaces the special tokens of tokenizer.json's post-processor for the classes that make a
 * post-processor of their own from the roles. */
static void replace_class_ends(const br_tokenizer_loader *l)
{
    static const struct {
        const char *class;
        int first, last;
    } classes[] = {
        { "RobertaTokenizer", BR_TOKEN_CLS, BR_TOKEN_SEP },
        { "MPNetTokenizer", BR_TOKEN_CLS, BR_TOKEN_SEP },
        { "XLMRobertaTokenizer", BR_TOKEN_BOS, BR_TOKEN_EOS },
        { "CamembertTokenizer", BR_TOKEN_BOS, BR_TOKEN_EOS },
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        const bool is_cls = classes[i].first == BR_TOKEN_CLS;
        if (!br__class_is(&l->files, classes[i].class))
            continue;
        replace(l, classes[i].first, is_cls ? "cls_token" : "bos_token", &l->t->classify);
        replace(l, classes[i].last, is_cls ? "sep_token" : "eos_token", &l->t->separator);
    }
}

bool br__loader_set_specials(const br_tokenizer_loader *l)
{
    br_tokenizer *t = l->t;
    if (br__loader_rebuilds(l)) {
        if (!set_unknown(l))
            return false;
        default_roles(l);
        if (!l->from_json || (t->absent & BR_NO_PROCESSOR))
            surround(l);
        else
            replace_ends(l);
    } else if (l->from_json) {
        replace_class_ends(l);
    }
    default_roles(l);
    if (t->roles[BR_TOKEN_PAD] >= 0)
        t->padding = t->roles[BR_TOKEN_PAD];
    else if (t->kind == &br__byte_level || t->kind == &br__char_bpe)
        t->padding = t->roles[BR_TOKEN_EOS];
    return !br__failed();
}
