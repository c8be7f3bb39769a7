/* tokenizers/sentencepiece.c - reads a Unigram tokenizer from SentencePiece's own file,
 * spiece.model.
 *
 * The file is a protocol buffers message. Each field has a number and a type; unknown fields are
 * skipped. The contents are not trusted. */
#include "io/io_internal.h"
#include "tokenizers/unigram_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_sentencepiece)

static const char op[] = "tokenizer_from_sentencepiece";

enum { MAX_EXTRA_IDS = 100000, STANDARD_EXTRA_IDS = 100 };

/* ---- Messages -------------------------------------------------------------------------------- */

typedef struct message {
    const uint8_t *p, *end;
} message;

typedef struct field {
    uint64_t number, value; /* value: a varint, or the bits of a 32-bit or 64-bit number */
    message bytes;          /* the contents of a text or message */
} field;

static bool read_varint(message *m, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift < 64 && m->p < m->end; shift += 7) {
        uint8_t byte = *m->p++;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return true;
    }
    return false;
}

static bool read_fixed(message *m, int bytes, uint64_t *value)
{
    *value = 0;
    if (m->end - m->p < bytes)
        return false;
    for (int i = 0; i < bytes; i++)
        *value |= (uint64_t)*m->p++ << 8 * i;
    return true;
}

static bool read_bytes(message *m, message *bytes)
{
    uint64_t n;
    if (!read_varint(m, &n) || n > (uint64_t)(m->end - m->p))
        return false;
    *bytes = (message){ m->p, m->p + n };
    m->p += n;
    return true;
}

/* Reads the next field. Returns false at the end, where m->p == m->end, or at a malformed field,
 * where m->p is before the end. */
static bool next_field(message *m, field *f)
{
    const uint8_t *before = m->p;
    uint64_t key;
    bool ok = m->p < m->end && read_varint(m, &key);
    if (ok) {
        f->number = key >> 3;
        f->bytes = (message){ 0 };
        f->value = 0;
        int type = (int)(key & 7);
        ok = type == 0   ? read_varint(m, &f->value)
             : type == 1 ? read_fixed(m, 8, &f->value)
             : type == 2 ? read_bytes(m, &f->bytes)
             : type == 5 ? read_fixed(m, 4, &f->value)
                         : false;
    }
    if (!ok)
        m->p = before;
    return ok;
}

/* ---- The file -------------------------------------------------------------------------------- */

/* The numbers of the fields that are read. */
enum { PIECES = 1, TRAINER = 2, NORMALIZER = 3, DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_TYPE = 3 };
enum { MODEL_TYPE = 3, SPACE_AS_SUFFIX = 24, BYTE_FALLBACK = 35, END_PIECE = 47, PAD_PIECE = 48 };
enum { CHARSMAP = 2, DUMMY_PREFIX = 3, REMOVE_SPACES = 4, ESCAPE_SPACES = 5 };
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };
enum { UNIGRAM = 1 };

typedef struct reader {
    br_tokenizer *t;
    const char *path;
    char end[64], pad[64]; /* pieces */
    uint64_t model_type;
    bool space_as_suffix, keep_escapes, denormalizes;
    bool fast;                   /* for the fast tokenizer */
    const br_piece_frame *frame; /* NULL: none */
    int64_t n_seen;              /* number of pieces in the file so far */
} reader;

static bool refuse(const reader *r, const char *what)
{
    br__fail_file(BR_ERROR_FORMAT, op, r->path, "%s", what);
    return false;
}

static bool refuse_piece(const reader *r, const char *what)
{
    br__fail_file(BR_ERROR_FORMAT, op, r->path, "piece %" PRId64 " %s", br__unigram_of(r->t)->size,
                  what);
    return false;
}

/* Returns a description of the mistake in a piece's text, or NULL. */
static const char *bad_text(const br_tokenizer *t, message text)
{
    const char *p = (const char *)text.p;
    size_t n = (size_t)(text.end - text.p);
    return n == 0                                  ? "is empty"
           : memchr(p, 0, n) || !br__is_utf8(p, n) ? "is not valid UTF-8, or contains a NUL"
           : br__word_id(&t->all, p, n) >= 0       ? "is a duplicate"
                                                   : NULL;
}

static bool add_piece(reader *r, message text, float score, uint64_t type)
{
    if (r->n_seen++ < (r->frame ? r->frame->n_skipped : 0))
        return true;
    const char *bytes = (const char *)text.p;
    size_t n = (size_t)(text.end - text.p);
    int64_t id = br__unigram_of(r->t)->size;
    const char *what = bad_text(r->t, text);
    if (what)
        return refuse_piece(r, what);
    if (type < NORMAL || type > BYTE || !isfinite(score) || id >= BR_MAX_TOKEN_ID)
        return refuse_piece(r, "has an unknown type or a score that is not finite, or exceeds the "
                               "limit of 16777216 pieces");
    if (type == UNKNOWN && r->t->unknown >= 0 && !r->frame)
        return refuse_piece(r, "is a second unknown piece");
    br_piece_kind kind = type == NORMAL || r->fast ? BR_PIECE_NORMAL
                         : type == USER_DEFINED    ? BR_PIECE_USER
                                                   : BR_PIECE_SPECIAL;
    if (!br__unigram_add(r->t, bytes, n, (double)score, kind))
        return false;
    if (type == UNKNOWN && !r->frame)
        r->t->unknown = id;
    bool special = type == CONTROL || (type == UNKNOWN && !r->fast);
    bool added = special || (type == USER_DEFINED && r->fast);
    return !added || br__tokenizer_add_special(r->t, bytes, n, special);
}

static bool read_piece(reader *r, message m)
{
    field f;
    message text = { 0 };
    float score = 0;
    uint64_t type = NORMAL;
    while (next_field(&m, &f)) {
        if (f.number == PIECE_TEXT) {
            text = f.bytes;
        } else if (f.number == PIECE_SCORE) {
            uint32_t bits = (uint32_t)f.value;
            memcpy(&score, &bits, sizeof score);
        } else if (f.number == PIECE_TYPE) {
            type = f.value;
        }
    }
    return m.p == m.end ? add_piece(r, text, score, type) : refuse_piece(r, "is malformed");
}

/* Copies a piece's text. A piece that is too long is stored as "", which matches no piece. */
static void copy_text(char *to, size_t capacity, message text)
{
    size_t n = (size_t)(text.end - text.p);
    snprintf(to, capacity, "%.*s", n < capacity ? (int)n : 0, n ? (const char *)text.p : "");
}

static bool read_trainer(reader *r, message m)
{
    field f;
    while (next_field(&m, &f)) {
        if (f.number == MODEL_TYPE)
            r->model_type = f.value;
        else if (f.number == SPACE_AS_SUFFIX)
            r->space_as_suffix = f.value;
        else if (f.number == BYTE_FALLBACK)
            br__unigram_of(r->t)->byte_fallback = f.value;
        else if (f.number == END_PIECE)
            copy_text(r->end, sizeof r->end, f.bytes);
        else if (f.number == PAD_PIECE)
            copy_text(r->pad, sizeof r->pad, f.bytes);
    }
    return m.p == m.end || refuse(r, "trainer_spec is malformed");
}

static bool read_charsmap(reader *r, message bytes)
{
    br_unigram *u = br__unigram_of(r->t);
    const char *what;
    br__charsmap_free(&u->charsmap); /* the last one wins */
    if (!br__charsmap_read(&u->charsmap, bytes.p, (size_t)(bytes.end - bytes.p), &what))
        return false;
    if (what)
        br__fail_file(BR_ERROR_FORMAT, op, r->path, "precompiled_charsmap %s", what);
    return !what;
}

static bool read_normalizer(reader *r, message m)
{
    br_unigram *u = br__unigram_of(r->t);
    field f;
    while (next_field(&m, &f)) {
        if (f.number == CHARSMAP && !read_charsmap(r, f.bytes))
            return false;
        if (f.number == DUMMY_PREFIX)
            u->no_dummy_prefix = !f.value;
        else if (f.number == REMOVE_SPACES)
            u->keep_spaces = !f.value;
        else if (f.number == ESCAPE_SPACES)
            r->keep_escapes = !f.value;
    }
    return m.p == m.end || refuse(r, "normalizer_spec is malformed");
}

/* Notes whether the denormalizer has a map, which would change decoded text. */
static bool read_denormalizer(reader *r, message m)
{
    field f;
    while (next_field(&m, &f))
        r->denormalizes |= f.number == CHARSMAP && f.bytes.p < f.bytes.end;
    return m.p == m.end || refuse(r, "denormalizer_spec is malformed");
}

static bool read_model(reader *r, message m)
{
    field f;
    while (next_field(&m, &f)) {
        bool ok = f.number == PIECES         ? read_piece(r, f.bytes)
                  : f.number == TRAINER      ? read_trainer(r, f.bytes)
                  : f.number == NORMALIZER   ? read_normalizer(r, f.bytes)
                  : f.number == DENORMALIZER ? read_denormalizer(r, f.bytes)
                                             : true;
        if (!ok)
            return false;
    }
    return m.p == m.end || refuse(r, "the file is truncated, or not a SentencePiece model");
}

static bool check_model(const reader *r)
{
    const char *what = r->model_type != UNIGRAM ? "the model's type is not Unigram"
                       : r->t->unknown < 0      ? "there is no unknown piece"
                       : r->space_as_suffix     ? "treat_whitespace_as_suffix is not supported"
                       : r->keep_escapes        ? "escape_whitespaces = false is not supported"
                       : r->denormalizes        ? "a denormalizer is not supported"
                                                : NULL;
    return !what || refuse(r, what);
}

/* Checks that every byte has a piece if byte_fallback is set. */
static bool check_bytes(const reader *r)
{
    const br_unigram *u = br__unigram_of(r->t);
    for (int byte = 0; u->byte_fallback && byte < 256; byte++)
        if (u->byte_ids[byte] < 0)
            return refuse(r, "byte_fallback is true, but not every byte has a piece");
    return true;
}

/* ---- Special tokens -------------------------------------------------------------------------- */

/* Adds T5's <extra_id_N> after the pieces, in descending order of N. Those that are pieces already
 * keep their ids. */
static bool add_extra_ids(br_tokenizer *t, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        char token[32];
        size_t length = (size_t)snprintf(token, sizeof token, "<extra_id_%" PRId64 ">", i);
        bool there = br__word_id(&t->all, token, length) >= 0;
        if ((!there && !br__tokenizer_add(t, token, length, t->size)) ||
            !br__tokenizer_add_special(t, token, length, true))
            return false;
    }
    return true;
}

/* Sets the padding token and, with add_eos, the end token, if they are pieces. */
static void set_specials(reader *r, bool add_eos)
{
    br_tokenizer *t = r->t;
    br_unigram *u = br__unigram_of(t);
    t->padding = br__word_id(&t->all, r->pad, strlen(r->pad));
    t->roles[BR_TOKEN_PAD] = t->padding;
    t->roles[BR_TOKEN_EOS] = br__word_id(&t->all, r->end, strlen(r->end));
    br__tokenizer_default_roles(t);
    t->separator = add_eos ? br__word_id(&t->all, r->end, strlen(r->end)) : -1;
    u->decode_bytes = u->byte_fallback;
    u->drop_front = !(u->no_dummy_prefix && u->keep_spaces);
}

static bool read_file(reader *r, const br_sentencepiece_options *o)
{
    int64_t extra = o->extra_ids;
    size_t n;
    if (extra > MAX_EXTRA_IDS)
        return br_fail(BR_ERROR_ARGUMENT, op, "extra_ids is %" PRId64 ", must be at most %d",
                       o->extra_ids, MAX_EXTRA_IDS);
    br_unigram *u = br__unigram_begin(r->t);
    char *text = u ? br__read_text(op, r->path, UINT64_MAX, &n) : NULL;
    if (!text)
        return false;
    u->sentencepiece = true;
    const uint8_t *bytes = (const uint8_t *)text;
    bool ok = read_model(r, (message){ bytes, bytes + n }) && check_model(r) &&
              add_extra_ids(r->t, extra) && br__tokenizer_index(r->t) && br__unigram_finish(r->t) &&
              br__tokenizer_finish_added(r->t) && check_bytes(r);
    br_free(text);
    if (ok)
        set_specials(r, o->add_eos);
    return ok;
}

br_tokenizer *br_tokenizer_from_sentencepiece(const char *path,
                                              const br_sentencepiece_options *options)
{
    options = BR_OPTIONS_OF(op, br_sentencepiece, options);
    reader r = {
        .t = br__tokenizer_new(), .path = path, .end = "</s>", .pad = "<pad>", .model_type = UNIGRAM
    };
    if (r.t && read_file(&r, options))
        return r.t;
    br_tokenizer_free(r.t);
    return NULL;
}

/* ---- For the fast tokenizer ------------------------------------------------------------------ */

/* Adds pieces <extra_id_N> in descending order of N. Of equal pieces, the last one counts. */
static bool add_extra_pieces(br_tokenizer *t, int64_t n)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        char token[32];
        size_t length = (size_t)snprintf(token, sizeof token, "<extra_id_%" PRId64 ">", i);
        if (!br__unigram_add(t, token, length, 0, BR_PIECE_NORMAL))
            return false;
    }
    return true;
}

/* Sets what transformers 5 uses for every spiece.model of T5: the map, words at white space, U+2581
 * before each, and no byte fallback. */
static void set_steps(br_unigram *u)
{
    if (u->charsmap.n > 0)
        u->steps[u->n_steps++] = (br_step){ .kind = BR_STEP_CHARSMAP };
    u->split_at_spaces = u->split_at_meta = u->drop_front = true;
    u->prepend = BR_PREPEND_ALWAYS;
    u->byte_fallback = false;
}

static bool add_class_piece(br_tokenizer *t, const char *text)
{
    /* transformers makes this piece of CamemBERT less likely than any other. */
    double score = strcmp(text, "<unk>NOTUSED") == 0 ? -100 : 0;
    return br__unigram_add(t, text, strlen(text), score, BR_PIECE_NORMAL);
}

/* Adds the pieces of a class before the pieces of the model. */
static bool begin_frame(reader *r)
{
    if (!r->frame)
        return true;
    for (int i = 0; r->frame->first[i]; i++)
        if (!add_class_piece(r->t, r->frame->first[i]))
            return false;
    r->t->unknown = r->frame->unknown;
    return true;
}

static bool end_frame(reader *r)
{
    if (!r->frame)
        return true;
    if (r->frame->unknown >= br__unigram_of(r->t)->size)
        return refuse(r, "there are too few pieces");
    return !r->frame->last || add_class_piece(r->t, r->frame->last);
}

br_tokenizer *br__tokenizer_read_pieces(const char *path, const br_piece_frame *frame,
                                        int64_t extra_ids)
{
    reader r = { .t = br__tokenizer_new(),
                 .path = path,
                 .end = "</s>",
                 .pad = "<pad>",
                 .model_type = UNIGRAM,
                 .fast = true,
                 .frame = frame };
    br_unigram *u = r.t ? br__unigram_begin(r.t) : NULL;
    size_t n;
    char *text = u ? br__read_text(op, path, UINT64_MAX, &n) : NULL;
    const uint8_t *bytes = (const uint8_t *)text;
    bool ok = text && begin_frame(&r) && read_model(&r, (message){ bytes, bytes + n }) &&
              check_model(&r) && end_frame(&r) && add_extra_pieces(r.t, extra_ids);
    br_free(text);
    if (ok) {
        set_steps(u);
        r.t->model_size = u->size;
        return r.t;
    }
    br_tokenizer_free(r.t);
    return NULL;
}
