/* pretrained/beam_search.c - beam search with the rules and the arithmetic of transformers 5.
 *
 * For each text there are num_beams running rows, which the model continues, and num_beams of the
 * best sequences that have ended. The bookkeeping is done on the host: it is small beside a step of
 * the model. */
#include "pretrained/generate_internal.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "tensor/memory.h"

#include <math.h>
#include <string.h>

static const char op[] = "generate";

/* Takes the place of -infinity, which transformers does not use for sums of log probabilities. */
static const float WORST = -1e9F;

/* A row of tokens with its score. */
typedef struct beam {
    float score;
    bool ended;     /* among the sequences that have ended; else it only fills the place of one */
    bool hits;      /* a candidate whose last token ends it */
    int64_t from;   /* the running row that it continues */
    int64_t length; /* number of tokens */
    int64_t *ids;   /* room for g->capacity tokens */
} beam;

/* The beams of all texts. Each array has `width` or `candidates` elements for each text. */
typedef struct search {
    br_generation *g;
    int64_t texts, width, candidates;
    beam *running, *next, *ended, *best, *candidate;
    bool *improvable; /* of each text: can a running row become one of the best? */
    bool all_hit;     /* all candidates of the last step have ended */
    int64_t *ids;     /* the tokens of all beams */
    /* For choosing among beams: the beams, their values, and whether they were chosen */
    const beam **pool;
    float *values;
    bool *taken;
} search;

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Makes n beams for each text, each with room for its tokens. */
static beam *new_beams(search *s, int64_t n, int64_t **ids)
{
    beam *beams = br_calloc((size_t)(s->texts * n), sizeof *beams);
    for (int64_t i = 0; beams && i < s->texts * n; i++, *ids += s->g->capacity)
        beams[i].ids = *ids;
    return beams;
}

static bool allocate(search *s)
{
    int64_t rows = s->texts * (4 * s->width + s->candidates);
    s->ids = br_calloc((size_t)rows, (size_t)s->g->capacity * sizeof *s->ids);
    s->improvable = br_calloc((size_t)s->texts, sizeof *s->improvable);
    size_t most = (size_t)(s->width + s->candidates);
    s->pool = br_calloc(most, sizeof *s->pool);
    s->values = br_calloc(most, sizeof *s->values);
    s->taken = br_calloc(most, sizeof *s->taken);
    int64_t *ids = s->ids;
    if (!ids || !s->improvable || !s->pool || !s->values || !s->taken)
        return false;
    s->running = new_beams(s, s->width, &ids);
    s->next = new_beams(s, s->width, &ids);
    s->ended = new_beams(s, s->width, &ids);
    s->best = new_beams(s, s->width, &ids);
    s->candidate = new_beams(s, s->candidates, &ids);
    return s->running && s->next && s->ended && s->best && s->candidate;
}

static void release(search *s)
{
    br_free(s->running);
    br_free(s->next);
    br_free(s->ended);
    br_free(s->best);
    br_free(s->candidate);
    br_free(s->improvable);
    br_free(s->pool);
    br_free(s->values);
    br_free(s->taken);
    br_free(s->ids);
}

/* Copies a beam but for the place of its tokens. */
static void copy(beam *to, const beam *from)
{
    int64_t *ids = to->ids;
    memcpy(ids, from->ids, (size_t)from->length * sizeof *ids);
    *to = *from;
    to->ids = ids;
}

/* All rows of a text begin equal, so only the first of them may be continued in the first step. */
static bool begin(search *s)
{
    const br_generation *g = s->g;
    const int64_t *given = br__host_i64(br_narrow(g->ids, 1, 0, g->first));
    for (int64_t i = 0; given && i < s->texts * s->width; i++) {
        beam *b = &s->running[i];
        b->score = i % s->width == 0 ? 0 : WORST;
        b->length = g->first;
        memcpy(b->ids, given + i * g->first, (size_t)g->first * sizeof *given);
        copy(&s->ended[i], b);
        s->ended[i].score = WORST;
    }
    for (int64_t t = 0; t < s->texts; t++)
        s->improvable[t] = true;
    return given != NULL;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

/* Returns how many tokens of a row are candidates: enough that at least one token does not end the
 * row. */
static int64_t tokens_kept(const br_generation *g)
{
    return g->o.n_eos > 1 ? g->o.n_eos + 1 : 2;
}

/* Returns the log probabilities f32 [rows, V] of the next tokens. */
static br_tensor *log_probabilities(br_generation *g)
{
    br_tensor *fresh = br__fresh_tokens(g); /* before the model appends them to the cache */
    br_tensor *logits = br__generation_logits(g);
    if (br_error_pending() || !br__can_choose(g, logits))
        return NULL;
    br_tensor *scores = br_log_softmax(br_to(logits, BR_F32), -1);
    if (g->o.repetition_penalty != 1)
        scores = br__penalize(g, fresh, scores);
    scores = br__exclude(g, scores);
    if (g->o.do_sample && g->o.temperature != 1)
        scores = br_div_scalar(scores, g->o.temperature);
    if (!br__can_choose(g, scores))
        return NULL;
    return g->o.do_sample ? br__truncate_scores(g, scores, tokens_kept(g)) : scores;
}

/* Returns the n candidates of each text, whose sums of log probabilities are scores [texts, M],
 * best first, and stores their places. */
static br_tensor *choose_candidates(const br_generation *g, br_tensor *scores, int64_t n,
                                    br_tensor **places)
{
    br_tensor *order;
    if (!g->o.do_sample)
        return br_topk(scores, n, -1, true, places);
    br_tensor *sampled = br__sample_tokens(scores, n);
    br_tensor *best = br_sort(br_gather(scores, 1, sampled), -1, true, &order);
    *places = br_gather(sampled, 1, order);
    return best;
}

/* Returns whether the last token of a candidate ends it. */
static bool ends(const br_generation *g, const beam *c)
{
    for (int64_t i = 0; i < g->o.n_eos; i++)
        if (g->o.eos_token_ids[i] == c->ids[c->length - 1])
            return true;
    return c->length >= g->capacity || br__ends_in_stop_string(&g->o, c->length, c->ids);
}

/* Sets the candidates of all texts: the likeliest continuations of their rows, best first. */
static bool find_candidates(search *s)
{
    br_generation *g = s->g;
    br_tensor *scores = log_probabilities(g), *order;
    if (!scores)
        return false;
    int64_t vocab = br_size(scores, 1), n = s->texts * s->width;
    br_tensor *before = br__zeros_on_host(op, BR_SHAPE(n, 1), BR_F32);
    float *sums = br_data_f32(before);
    for (int64_t i = 0; sums && i < n; i++)
        sums[i] = s->running[i].score;
    scores = br_add(scores, br__placed(op, br__backend_of(scores), before));
    scores = br_reshape(scores, BR_SHAPE(s->texts, s->width * vocab));
    br_tensor *top = choose_candidates(g, scores, s->candidates, &order);
    const float *values = br_data_f32(br__on_host(op, top));
    const int64_t *places = br__host_i64(order);
    s->all_hit = true;
    for (int64_t i = 0; values && places && i < s->texts * s->candidates; i++) {
        beam *c = &s->candidate[i];
        int64_t row = i / s->candidates * s->width + places[i] / vocab;
        copy(c, &s->running[row]);
        c->from = row;
        c->score = values[i];
        c->ids[c->length++] = places[i] % vocab;
        c->hits = ends(g, c);
        s->all_hit = s->all_hit && c->hits;
    }
    return values && places;
}

/* ---- One step of a text ---------------------------------------------------------------------- */

/* Copies the `width` of n beams of the pool with the largest values to `to`, best first. Their
 * scores become these values. */
static void keep_best(search *s, int64_t n, beam *to)
{
    memset(s->taken, 0, (size_t)n * sizeof *s->taken);
    for (int64_t k = 0; k < s->width; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (!s->taken[i] && (best < 0 || s->values[i] > s->values[best]))
                best = i;
        s->taken[best] = true;
        copy(&to[k], s->pool[best]);
        to[k].score = s->values[best];
    }
}

/* The best candidates that have not ended are continued. */
static void choose_running(search *s, int64_t text)
{
    const beam *c = s->candidate + text * s->candidates;
    for (int64_t i = 0; i < s->candidates; i++) {
        s->pool[i] = &c[i];
        s->values[i] = c[i].score + (c[i].hits ? WORST : 0);
    }
    keep_best(s, s->candidates, s->next + text * s->width);
}

static bool all_ended(const search *s, int64_t text)
{
    for (int64_t k = 0; k < s->width; k++)
        if (!s->ended[text * s->width + k].ended)
            return false;
    return true;
}

/* Candidates that have ended, if they are among the best `width`, compete with the sequences that
 * ended before. */
static void choose_ended(search *s, int64_t text)
{
    const br_generate_options *o = &s->g->o;
    beam *ended = s->ended + text * s->width, *c = s->candidate + text * s->candidates;
    bool is_closed = o->early_stopping == BR_EARLY_STOPPING_ON && all_ended(s, text);
    float divisor = (float)pow((double)(c->length - s->g->first), o->length_penalty);
    for (int64_t k = 0; k < s->width; k++) {
        s->pool[k] = &ended[k];
        s->values[k] = ended[k].score;
    }
    for (int64_t i = 0; i < s->candidates; i++) {
        c[i].ended = c[i].hits && i < s->width;
        s->pool[s->width + i] = &c[i];
        s->values[s->width + i] = c[i].score / divisor + (is_closed ? WORST : 0) +
                                  (s->improvable[text] ? 0 : WORST) + (c[i].ended ? 0 : WORST);
    }
    keep_best(s, s->width + s->candidates, s->best + text * s->width);
}

/* Notes whether a running row may still become one of the best. */
static void update_improvable(search *s, int64_t text)
{
    const br_generation *g = s->g;
    const beam *ended = s->ended + text * s->width, *running = s->running + text * s->width;
    bool grows = g->o.early_stopping == BR_EARLY_STOPPING_NEVER && g->o.length_penalty > 0;
    int64_t length = (grows ? g->capacity : g->length) - g->first;
    float possible = running->score / (float)pow((double)length, g->o.length_penalty);
    float worst = ended->score;
    bool any = false;
    for (int64_t k = 1; k < s->width; k++)
        worst = ended[k].score < worst ? ended[k].score : worst;
    for (int64_t k = 0; k < s->width; k++)
        any = any || possible > (ended[k].ended ? worst : WORST);
    s->improvable[text] = s->improvable[text] && any;
}

/* ---- All texts ------------------------------------------------------------------------------- */

static void swap(beam **a, beam **b)
{
    beam *other = *a;
    *a = *b;
    *b = other;
}

/* Gives the rows of the model the tokens of the running beams, and all that is known of rows their
 * order. */
static void continue_rows(search *s)
{
    br_generation *g = s->g;
    int64_t rows = s->texts * s->width, *ids, *from;
    br_tensor *host = br__new_host_i64(op, BR_SHAPE(rows, g->length), &ids);
    br_tensor *order = br__new_host_i64(op, BR_SHAPE(rows), &from);
    for (int64_t i = 0; host && order && i < rows; i++) {
        memcpy(ids + i * g->length, s->running[i].ids, (size_t)g->length * sizeof *ids);
        from[i] = s->running[i].from;
    }
    const br_backend *backend = br__backend_of(g->ids);
    br_copy_(br_narrow(g->ids, 1, 0, g->length), br__placed(op, backend, host));
    order = br__placed(op, backend, order);
    if (g->seen)
        br_copy_(g->seen, br_index_select(g->seen, 0, order));
    if (g->cache)
        br_cache_reorder(g->cache, order);
}

/* Returns whether the search goes on. */
static bool step(search *s)
{
    bool open = false, improvable = false;
    if (!find_candidates(s))
        return false;
    for (int64_t t = 0; t < s->texts; t++) {
        choose_running(s, t);
        choose_ended(s, t);
    }
    swap(&s->running, &s->next);
    swap(&s->ended, &s->best);
    s->g->length++;
    for (int64_t t = 0; t < s->texts; t++) {
        update_improvable(s, t);
        improvable = improvable || s->improvable[t];
        open = open || !all_ended(s, t);
    }
    if (s->g->o.early_stopping == BR_EARLY_STOPPING_ON && !open)
        return false;
    if (!improvable || s->all_hit)
        return false;
    continue_rows(s);
    return true;
}

/* What transformers fills shorter sequences with. A padding id of 0 counts as none there. */
static int64_t filling(const br_generate_options *o)
{
    if (o->n_eos == 0)
        return -1;
    return o->pad_token_id != 0 ? o->pad_token_id : o->eos_token_ids[0];
}

/* Returns the best sequences of each text, padded to the longest. */
static br_tensor *results(const search *s)
{
    const br_generation *g = s->g;
    int64_t each = g->o.num_return_sequences, longest = g->first, *to;
    for (int64_t i = 0; i < s->texts * each; i++) {
        const beam *b = &s->ended[i / each * s->width + i % each];
        longest = b->length > longest ? b->length : longest;
    }
    br_tensor *host = br__new_host_i64(op, BR_SHAPE(s->texts * each, longest), &to);
    for (int64_t i = 0; host && i < s->texts * each; i++, to += longest) {
        const beam *b = &s->ended[i / each * s->width + i % each];
        memcpy(to, b->ids, (size_t)b->length * sizeof *to);
        for (int64_t k = b->length; k < longest; k++)
            to[k] = filling(&g->o);
    }
    return br__placed(op, br__backend_of(g->ids), host);
}

br_tensor *br__beam_search(br_generation *g)
{
    search s = { .g = g, .width = g->o.num_beams };
    s.texts = g->batch / s.width;
    s.candidates = tokens_kept(g) * s.width;
    bool ok = allocate(&s) && begin(&s), goes_on = ok && g->length < g->capacity;
    while (goes_on) {
        br_scope *scope = br_scope_begin();
        goes_on = step(&s);
        br_scope_end(scope);
    }
    br_tensor *ids = ok && !br_error_pending() ? results(&s) : NULL;
    release(&s);
    return ids;
}
