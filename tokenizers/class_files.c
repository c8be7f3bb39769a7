/* tokenizers/class_files.c - the tokenizers of classes that follow tokenizer.json, in folders
 * without that file: RoBERTa, XLM-RoBERTa, CamemBERT, ALBERT and MPNet. Each becomes what
 * transformers 5 makes of the other files, and would write to a tokenizer.json. */
#include "tokenizers/auto_tokenizer_internal.h"
#include "tokenizers/bpe_internal.h"
#include "tokenizers/unigram_internal.h"

#include <string.h>
#include <unistd.h>

enum { N_ROLES = BR_TOKEN_MASK + 1 };

typedef struct class_files {
    const char *class, *file;
    br_tokenizer *(*read)(const br_tokenizer_loader *l, const char *path);
    const char *roles[N_ROLES]; /* the special tokens, in the order of br_special_token */
    bool strips_before_mask;    /* the mask includes the white space before it */
    bool trims;                 /* offsets exclude spaces */
    bool is_one_type;           /* and "separator separator" is between the texts of a pair */
} class_files;

/* ---- The vocabulary -------------------------------------------------------------------------- */

/* Returns a setting of tokenizer_config.json, or the standard one. */
static bool setting(br_setting stated, bool standard)
{
    return stated == BR_SETTING_AUTO ? standard : stated == BR_SETTING_ON;
}

static br_tokenizer *read_roberta(const br_tokenizer_loader *l, const char *path)
{
    char *merges = br_format("%s/merges.txt", l->files.dir);
    br_tokenizer *t = merges ? br__tokenizer_read_bytes(path, merges) : NULL;
    br_free(merges);
    if (t)
        br__bpe_of(t)->prefix_space = setting(l->files.add_prefix_space, false);
    return t;
}

static br_tokenizer *read_mpnet(const br_tokenizer_loader *l, const char *path)
{
    const br_side_files *s = &l->files;
    br_tokenizer *t =
        br__tokenizer_read_words(path, BR_OPTIONS(br_tokenizer, .max_input_chars_per_word = 100));
    if (!t)
        return NULL;
    t->lowercase = setting(s->do_lower_case, true);
    t->spread_chinese = setting(s->tokenize_chinese_chars, true);
    t->auto_accents = s->auto_accents || s->strip_accents == BR_SETTING_AUTO;
    t->strip_accents = t->auto_accents ? t->lowercase : s->strip_accents == BR_SETTING_ON;
    if (br__tokenizer_set_unknown(t, "[UNK]"))
        return t;
    br_tokenizer_free(t);
    return NULL;
}

/* Reads a SentencePiece model with the frame of the class around its pieces. */
static br_tokenizer *read_pieces(const br_tokenizer_loader *l, const char *path,
                                 const br_piece_frame *frame)
{
    br_tokenizer *t = br__tokenizer_read_pieces(path, frame, 0);
    if (t && !setting(l->files.add_prefix_space, true))
        br__unigram_of(t)->prepend = BR_PREPEND_NEVER;
    return t;
}

static br_tokenizer *read_xlm_roberta(const br_tokenizer_loader *l, const char *path)
{
    static const br_piece_frame frame = {
        .first = { "<s>", "<pad>", "</s>", "<unk>" }, .n_skipped = 3, .last = "<mask>", .unknown = 3
    };
    return read_pieces(l, path, &frame);
}

static br_tokenizer *read_camembert(const br_tokenizer_loader *l, const char *path)
{
    static const br_piece_frame frame = { .first = { "<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>",
                                                     "<unk>NOTUSED" },
                                          .n_skipped = 1,
                                          .last = "<mask>",
                                          .unknown = 3 };
    return read_pieces(l, path, &frame);
}

static bool add_replacement(br_unigram *u, const char *pattern, const char *content)
{
    br_step *s = &u->steps[u->n_steps++];
    *s = (br_step){ .kind = BR_STEP_REPLACE,
                    .pattern = br_strdup(pattern),
                    .content = br_strdup(content) };
    return s->pattern && s->content;
}

static void add_step(br_unigram *u, br_step_kind kind, br_form form)
{
    u->steps[u->n_steps++] = (br_step){ .kind = kind, .form = form };
}

static br_tokenizer *read_albert(const br_tokenizer_loader *l, const char *path)
{
    static const br_piece_frame frame = { .unknown = 1 };
    br_tokenizer *t = read_pieces(l, path, &frame);
    if (!t)
        return NULL;
    br_unigram *u = br__unigram_of(t);
    u->n_steps = 0; /* the map is the last step */
    bool ok = add_replacement(u, "``", "\"") && add_replacement(u, "''", "\"");
    if (!json_is_true(json_object_get(l->files.config, "keep_accents"))) {
        add_step(u, BR_STEP_FORM, BR_FORM_NFKD);
        add_step(u, BR_STEP_STRIP_ACCENTS, BR_FORM_NONE);
    }
    if (setting(l->files.do_lower_case, true))
        add_step(u, BR_STEP_LOWERCASE, BR_FORM_NONE);
    if (u->charsmap.n > 0)
        add_step(u, BR_STEP_CHARSMAP, BR_FORM_NONE);
    if (ok)
        return t;
    br_tokenizer_free(t);
    return NULL;
}

#define FAIRSEQ(unknown)                                         \
    {                                                            \
        "<s>", "</s>", unknown, "</s>", "<pad>", "<s>", "<mask>" \
    }

static const class_files classes[] = {
    { .class = "RobertaTokenizer",
      .file = "vocab.json",
      .read = read_roberta,
      .roles = FAIRSEQ("<unk>"),
      .trims = true,
      .is_one_type = true },
    { .class = "XLMRobertaTokenizer",
      .file = "sentencepiece.bpe.model",
      .read = read_xlm_roberta,
      .roles = FAIRSEQ("<unk>"),
      .is_one_type = true },
    { .class = "CamembertTokenizer",
      .file = "sentencepiece.bpe.model",
      .read = read_camembert,
      .roles = FAIRSEQ("<unk>"),
      .strips_before_mask = true,
      .is_one_type = true },
    { .class = "AlbertTokenizer",
      .file = "spiece.model",
      .read = read_albert,
      .roles = { "[CLS]", "[SEP]", "<unk>", "[SEP]", "<pad>", "[CLS]", "[MASK]" } },
    { .class = "MPNetTokenizer",
      .file = "vocab.txt",
      .read = read_mpnet,
      .roles = FAIRSEQ("[UNK]"),
      .strips_before_mask = true,
      .trims = true,
      .is_one_type = true },
};

/* ---- The special tokens ---------------------------------------------------------------------- */

/* Refuses side files that state another token for a role than the class. */
static bool check_roles(const br_side_files *s, const class_files *c)
{
    static const char *const keys[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token" };
    for (int64_t i = 0; i < s->named.count; i++) {
        const br_side_token *t = &s->named.items[i];
        if (t->role >= 0 && strcmp(t->text, c->roles[t->role]) != 0)
            return br__side_refuse(
                s, t->file,
                "%s is '%s', but without a tokenizer.json only '%s' is supported for %s; write a "
                "tokenizer.json with AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                keys[t->role], br_printable(t->text), c->roles[t->role], c->class);
    }
    return true;
}

static bool add_role(br_tokenizer *t, const char *text, int role)
{
    size_t length = strlen(text);
    int64_t id = br__word_id(&t->all, text, length);
    if (id < 0) {
        id = br__tokenizer_next_id(t);
        if (!br__tokenizer_add(t, text, length, id))
            return false;
    }
    t->roles[role] = id;
    return br__tokenizer_add_special(t, text, length, true);
}

static bool add_roles(br_tokenizer *t, const class_files *c)
{
    for (int role = 0; role < N_ROLES; role++)
        if (!add_role(t, c->roles[role], role))
            return false;
    br__tokenizer_added(t, t->roles[BR_TOKEN_MASK])->lstrip = c->strips_before_mask;
    t->classify = t->roles[BR_TOKEN_CLS];
    t->separator = t->roles[BR_TOKEN_SEP];
    t->pairs = BR_PAIR_FRAMED;
    t->one_type = t->separate_twice = c->is_one_type;
    t->trim_offsets = t->trim_first = c->trims;
    return br__tokenizer_index(t) && (t->kind != &br__unigram || br__unigram_finish(t));
}

/* ---------------------------------------------------------------------------------------------- */

bool br__class_is(const br_side_files *s, const char *class)
{
    bool by_type = s->class_key && strcmp(s->class_key, "model_type") == 0;
    const char *name = by_type ? br__tokenizer_class_of_type(s->class_name) : s->class_name;
    size_t n = strlen(class);
    return name && strncmp(name, class, n) == 0 && (!name[n] || strcmp(name + n, "Fast") == 0);
}

/* Returns the class of the files (br__class_is()); NULL: the class has no files here. */
static const class_files *find_class(const br_side_files *s)
{
    for (const class_files *c = classes; c < classes + sizeof classes / sizeof *classes; c++)
        if (br__class_is(s, c->class))
            return c;
    return NULL;
}

const char *br__class_file(const br_side_files *s)
{
    const class_files *c = find_class(s);
    return c ? c->file : NULL;
}

bool br__loader_read_class(br_tokenizer_loader *l, bool *exists)
{
    const class_files *c = find_class(&l->files);
    char *path = c ? br_format("%s/%s", l->files.dir, c->file) : NULL;
    *exists = path && access(path, F_OK) == 0;
    bool ok = *exists && check_roles(&l->files, c) && (l->t = c->read(l, path));
    br_free(path);
    l->file = c ? c->file : NULL;
    l->from_json = true; /* the side files count as beside a tokenizer.json */
    return ok && add_roles(l->t, c);
}
