/* tests/distributed/test_early.c - gradients that are sent before they are complete, compared with
 * passes that one process makes one after the other. */
#include "distributed/data_parallel.h"
#include "tests/distributed/test.h"
#include "tests/same_bits.h"

/* An embedding, a hidden layer, and an output layer that uses the embedding's weight. */
typedef struct net {
    br_module base;
    br_embedding *embedding;
    br_linear *hidden;
} net;

enum { WORDS = 20, WIDTH = 16, BATCH = 5 };
enum { LOOKUP = 1, OUTPUT = 2, BOTH = LOOKUP | OUTPUT }; /* uses of the weight in a pass */

static net *net_new(void)
{
    br_manual_seed(1);
    net *self = br_module_new(net);
    self->embedding = br_child(self, "embedding", br_embedding_new(WORDS, WIDTH, -1));
    self->hidden = br_child(self, "hidden", br_linear_new(WIDTH, WIDTH, true));
    return self;
}

static br_data_parallel *parallel_new(net *self, br_dist_reduction reduction)
{
    br_data_parallel *p = br_data_parallel_new(
        br_base(self), BR_OPTIONS(br_data_parallel, .reduction = reduction, .bucket_cap_mb = 1e-6,
                                  .first_bucket_cap_mb = 1e-6));
    check(p != NULL);
    return p;
}

/* Backward of batch number `batch`, whose ids are BATCH different rows. Returns whether it
 * succeeded. */
static bool pass(net *self, int batch, int uses)
{
    br_scope *scope = br_scope_begin();
    int64_t ids[BATCH], targets[BATCH];
    for (int i = 0; i < BATCH; i++) {
        ids[i] = (4 * batch + i) % WORDS;
        targets[i] = (3 * batch + 7 * i) % WORDS;
    }
    br_tensor *x = br_full(BR_SHAPE(BATCH, WIDTH), 0.1 * (batch + 1), BR_F32);
    if (uses & LOOKUP)
        x = br_embedding_forward(self->embedding, br_from_i64(BR_SHAPE(BATCH), ids));
    x = br_tanh(br_linear_forward(self->hidden, x));
    br_tensor *loss = br_mean(br_square(x));
    if (uses & OUTPUT) {
        br_tensor *logits = br_matmul(x, br_transpose(self->embedding->weight, 0, 1));
        loss = br_cross_entropy(logits, br_from_i64(BR_SHAPE(BATCH), targets), NULL);
    }
    bool ok = br_backward(loss);
    br_scope_end(scope);
    return ok;
}

static br_tensor *unchanged(br_tensor *grad, void *context)
{
    (void)grad;
    (void)context;
    return NULL;
}

/* Makes one process add the gradients of passes as wholes, as br_data_parallel_new() does. */
static net *alone_new(void)
{
    net *self = net_new();
    br_register_hook(self->embedding->weight, unchanged, NULL);
    br_register_hook(self->hidden->weight, unchanged, NULL);
    br_register_hook(self->hidden->bias, unchanged, NULL);
    return self;
}

static void check_same(net *a, net *b)
{
    check(same_bits(br_grad_of(a->embedding->weight), br_grad_of(b->embedding->weight)));
    check(same_bits(br_grad_of(a->hidden->weight), br_grad_of(b->hidden->weight)));
    check(same_bits(br_grad_of(a->hidden->bias), br_grad_of(b->hidden->bias)));
}

static void zero(net *a, net *b)
{
    br_zero_grad(br_base(a));
    br_zero_grad(br_base(b));
}

/* Returns the bucket of the embedding's weight. */
static br_bucket *bucket_of_weight(br_data_parallel *p)
{
    for (int i = 0; i < p->n_params; i++)
        if (strcmp(p->params[i].name, "embedding.weight") == 0)
            return p->params[i].bucket;
    return NULL;
}

/* Returns how many rows this rank has sent again in the last pass. */
static int rows_sent_again(const br_early *e)
{
    const uint8_t *set = e->changed + (size_t)rank * e->bytes;
    int n = 0;
    for (int i = 0; i < WORDS; i++)
        n += br__dist_get_bit(set, i);
    return n;
}

/* ---- The order of events --------------------------------------------------------------------- */

typedef struct observed {
    br_data_parallel *parallel;
    bool early; /* the weight's bucket must have been reduced already */
    int calls;
} observed;

/* Called during backward, before the lookup's gradient is computed. */
static br_tensor *on_hidden(br_tensor *grad, void *context)
{
    observed *o = context;
    br_bucket *b = bucket_of_weight(o->parallel);
    (void)grad;
    o->calls++;
    check(b && (b->state == BR_BUCKET_SENT) == o->early);
    if (o->early && b)
        check(b->number == 0 && br__dist_join(&b->job));
    return NULL;
}

void test_tied_weights_are_sent_early(void)
{
    if (size == 1)
        return;
    net *own = net_new(), *alone = alone_new();
    br_data_parallel *p = parallel_new(own, BR_DIST_SUM);
    observed o = { .parallel = p };
    br_register_hook(own->hidden->weight, on_hidden, &o);
    for (int step = 0; step < 3; step++) {
        o.early = step > 0; /* the first pass finds out the order of arrival */
        check(pass(own, step * size + rank, BOTH));
        for (int r = 0; r < size; r++)
            check(pass(alone, step * size + r, BOTH));
        check_same(own, alone);
        check(!o.early || rows_sent_again(bucket_of_weight(p)->early) == BATCH);
        zero(own, alone);
    }
    check(o.calls == 3);
    br_data_parallel_free(p);
    br_module_free(own);
    br_module_free(alone);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Adds the gradients of `from`, divided by the number of ranks, to those of `to`. */
static void add_mean(net *to, net *from)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *sums[] = { to->embedding->weight, to->hidden->weight, to->hidden->bias };
    br_tensor *parts[] = { from->embedding->weight, from->hidden->weight, from->hidden->bias };
    for (int i = 0; i < 3; i++) {
        br_tensor *mean = br_div(br_grad_of(parts[i]), br_full(BR_SHAPE(1), size, BR_F32));
        if (br_grad_of(sums[i]))
            br_add_(br_grad_of(sums[i]), mean);
        else
            br_set_grad(sums[i], mean);
    }
    br_scope_end(scope);
}

/* While gradients of earlier passes are kept, only complete gradients are sent. */
static void check_accumulation(br_dist_reduction reduction)
{
    net *own = net_new(), *alone = alone_new();
    br_data_parallel *p = parallel_new(own, reduction);
    for (int step = 0; step < 5; step++) {
        check(pass(own, step * size + rank, BOTH));
        net *one = reduction == BR_DIST_MEAN ? alone_new() : alone;
        for (int r = 0; r < size; r++)
            check(pass(one, step * size + r, BOTH));
        if (one != alone) {
            add_mean(alone, one);
            br_module_free(one);
        }
        check_same(own, alone);
        if (step == 1 || step == 3)
            zero(own, alone);
    }
    br_data_parallel_free(p);
    br_module_free(own);
    br_module_free(alone);
}

void test_early_gradients_and_accumulation(void)
{
    check_accumulation(BR_DIST_SUM);
    check_accumulation(BR_DIST_MEAN);
}

static br_tensor *doubled(br_tensor *grad, void *context)
{
    (void)context;
    return br_mul_scalar(grad, 2);
}

/* A hook of the program changes all rows after they were sent. */
void test_early_gradients_that_hooks_change(void)
{
    net *own = net_new(), *alone = alone_new();
    br_data_parallel *p = parallel_new(own, BR_DIST_SUM);
    for (int step = 0; step < 3; step++) {
        check(pass(own, step * size + rank, BOTH));
        for (int r = 0; r < size; r++)
            check(pass(alone, step * size + r, BOTH));
        check_same(own, alone);
        zero(own, alone);
        if (step == 1 && size > 1)
            check(rows_sent_again(bucket_of_weight(p)->early) == BATCH);
        if (step == 1) {
            br_register_hook(own->embedding->weight, doubled, NULL);
            br_register_hook(alone->embedding->weight, doubled, NULL);
        }
    }
    if (size > 1)
        check(rows_sent_again(bucket_of_weight(p)->early) == WORDS);
    br_data_parallel_free(p);
    br_module_free(own);
    br_module_free(alone);
}

/* The ranks use the weight in different ways, so not all of them send it early. */
void test_early_gradients_of_some_ranks(void)
{
    static const int patterns[][4] = { { BOTH, OUTPUT, LOOKUP, 0 }, { BOTH, 0, BOTH, OUTPUT } };
    for (int k = 0; k < 4; k++) {
        const int *uses = patterns[k / 2];
        bool drop = k % 2 == 1;
        net *own = net_new(), *alone = alone_new();
        br_data_parallel *p = parallel_new(own, BR_DIST_SUM);
        for (int step = 0; step < 5; step++) {
            check(pass(own, step * size + rank, step ? uses[(rank + step) % 4] : BOTH));
            for (int r = 0; r < size; r++)
                check(pass(alone, step * size + r, step ? uses[(r + step) % 4] : BOTH));
            check_same(own, alone);
            const br_early *early = size > 1 ? bucket_of_weight(p)->early : NULL;
            if (early && early->sent_by_any && step && uses[(rank + step) % 4] == 0)
                check(rows_sent_again(early) == 0); /* nothing is left of an earlier pass */
            if (drop)
                zero(own, alone);
        }
        br_data_parallel_free(p);
        br_module_free(own);
        br_module_free(alone);
    }
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static br_tensor *failing(br_tensor *grad, void *context)
{
    const bool *fails = context;
    return *fails ? br_matmul(grad, br_zeros(BR_SHAPE(1, 1), BR_F32)) : NULL;
}

int fail_after_sending(void)
{
    net *own = net_new();
    br_data_parallel *p = parallel_new(own, BR_DIST_SUM);
    bool fails = false;
    br_register_hook(own->hidden->weight, failing, &fails);
    for (int step = 0; step < 3; step++) {
        fails = step == 2 && rank == size - 1;
        pass(own, step * size + rank, BOTH);
        br_zero_grad(br_base(own));
    }
    br_data_parallel_free(p);
    br_module_free(own);
    return br_report(stderr);
}
