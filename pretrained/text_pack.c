/* pretrained/text_pack.c - see text_pack.h. */
#include "pretrained/text_pack.h"

#include "nn/nn_internal.h"
#include "pretrained/auto_config_internal.h"
#include "tensor/device.h"
#include "tensor/host.h"
#include "tensor/min_max.h"
#include "tensor/tensor_internal.h"

enum {
    /* A pack's hidden states should stay in the caches, and its products should have many rows. */
    PACK_TOKENS = 1024,
    /* With fewer rows, products may sum in another order (gemm_choice.c). Such a pack ends with
     * tokens of padding, each a text, so that a text's result does not depend on the other texts.
     */
    PACK_ROWS = 16,
};

/* The tokens of a batch in the host's memory. */
typedef struct tokens {
    int64_t n, length;
    const int64_t *ids, *mask, *types; /* [n, length]; types may be NULL */
} tokens;

static bool read_tokens(const br_token_batch *batch, tokens *t)
{
    *t = (tokens){ .n = br_size(batch->ids, 0), .length = br_size(batch->ids, 1) };
    t->ids = br_data_i64(batch->ids);
    t->mask = br_data_i64(batch->attention_mask);
    t->types = batch->type_ids ? br_data_i64(batch->type_ids) : NULL;
    return !br_failed() && t->ids && t->mask;
}

static int64_t count(const tokens *t, int64_t text)
{
    int64_t n = 0;
    for (int64_t i = text * t->length; i < (text + 1) * t->length; i++)
        n += t->mask[i] != 0;
    return n;
}

bool br__packs(const br_auto_config *config, const br_token_batch *batch)
{
    tokens t;
    if (!config->family->packs || br_recorder_is_open() || !read_tokens(batch, &t))
        return false;
    for (int64_t i = 0; i < t.n; i++)
        if (count(&t, i) == 0)
            return false;
    return true;
}

/* Copies the values of the tokens of a pack. */
static void copy_tokens(const tokens *t, const br_text_pack *pack, const int64_t *from, int64_t *to)
{
    for (int64_t i = pack->from * t->length; i < (pack->from + pack->n) * t->length; i++)
        if (t->mask[i] != 0)
            *to++ = from[i];
}

/* Returns the values of the tokens, and zeros for padding, as i64 [1, size] on the device. */
static br_tensor *new_row(const char *op, const tokens *t, const br_text_pack *pack,
                          const int64_t *from, int64_t size, br_device device)
{
    int64_t *to;
    br_tensor *row = from ? br__new_host_i64(op, BR_SHAPE(1, size), &to) : NULL;
    if (!row)
        return NULL;
    copy_tokens(t, pack, from, to);
    for (int64_t i = pack->starts[pack->n]; i < size; i++)
        to[i] = 0;
    return br_to_device(row, device);
}

/* Chooses the texts of the pack that begins with text pack->from, and sets their starts. */
static void choose_texts(const tokens *t, br_text_pack *pack, int64_t *starts)
{
    starts[0] = pack->n = 0;
    for (int64_t i = pack->from; i < t->n; i++) {
        const int64_t end = starts[pack->n] + count(t, i);
        if (pack->n > 0 && end > PACK_TOKENS)
            break;
        starts[++pack->n] = end;
    }
    pack->starts = starts;
}

/* Makes the model's input. `starts` has room for PACK_ROWS texts more. */
static bool make_input(const char *op, const tokens *t, br_text_pack *pack, int64_t *starts,
                       br_device device)
{
    const int64_t size = br__max(starts[pack->n], PACK_ROWS);
    int64_t texts = pack->n;
    for (; starts[texts] < size; texts++)
        starts[texts + 1] = starts[texts] + 1;
    pack->input.cu_seqlens = br_from_i64(BR_SHAPE(texts + 1), starts);
    pack->input.batch.ids = new_row(op, t, pack, t->ids, size, device);
    pack->input.batch.type_ids = new_row(op, t, pack, t->types, size, device);
    return !br_failed();
}

bool br__run_packs(const char *op, const br_token_batch *batch, br_device device,
                   bool (*run)(const void *of, const br_text_pack *pack), const void *of)
{
    tokens t;
    if (!read_tokens(batch, &t))
        return false;
    int64_t *starts = br_calloc((size_t)t.n + PACK_ROWS + 1, sizeof *starts);
    bool ok = starts;
    br_text_pack pack = { .n = 0 };
    for (; ok && pack.from < t.n; pack.from += pack.n) {
        br_scope *scope = br_scope_begin();
        choose_texts(&t, &pack, starts);
        ok = make_input(op, &t, &pack, starts, device) && run(of, &pack);
        br_scope_end(scope);
    }
    br_free(starts);
    return ok && !br_failed();
}
