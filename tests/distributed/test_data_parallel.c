/* tests/distributed/test_data_parallel.c - data-parallel modules, compared with passes that one
 * process makes one after the other. */
#include "tests/distributed/test.h"
#include "tests/same_bits.h"

#include <stdio.h>

/* An embedding whose weight is also the output layer's, a layer norm, a hidden layer, and a layer
 * that only some calls use. */
typedef struct net {
    br_module base;
    br_embedding *embedding;
    br_linear *hidden, *extra, *never;
    br_layer_norm *norm;
} net;

enum { WORDS = 11, WIDTH = 24, BATCH = 6 };

static net *net_new(uint64_t seed)
{
    br_manual_seed(seed);
    net *self = br_module_new(net);
    self->embedding = br_child(self, "embedding", br_embedding_new(WORDS, WIDTH, -1));
    self->norm = br_child(self, "norm", br_layer_norm_new(WIDTH, NULL));
    self->hidden = br_child(self, "hidden", br_linear_new(WIDTH, WIDTH, true));
    self->extra = br_child(self, "extra", br_linear_new(WIDTH, WIDTH, true));
    self->never = br_child(self, "never", br_linear_new(3, 2, true));
    return self;
}

/* The loss of batch number `batch`. */
static br_tensor *net_loss(net *self, int batch, bool with_extra)
{
    br_enter(self);
    int64_t ids[BATCH], targets[BATCH];
    for (int i = 0; i < BATCH; i++) {
        ids[i] = (7 * batch + 3 * i + 1) % WORDS;
        targets[i] = (5 * batch + i) % WORDS;
    }
    br_tensor *x = br_embedding_forward(self->embedding, br_from_i64(BR_SHAPE(BATCH), ids));
    x = br_tanh(br_linear_forward(self->hidden, br_layer_norm_forward(self->norm, x)));
    if (with_extra)
        x = br_add(x, br_linear_forward(self->extra, x));
    br_tensor *logits = br_matmul(x, br_transpose(self->embedding->weight, 0, 1));
    br_tensor *loss = br_cross_entropy(logits, br_from_i64(BR_SHAPE(BATCH), targets), NULL);
    return br_leave(self, br_mul_scalar(loss, 1 / 3.0));
}

static void pass(net *self, int batch, bool with_extra)
{
    br_scope *scope = br_scope_begin();
    check(br_backward(net_loss(self, batch, with_extra)));
    br_scope_end(scope);
}

static br_tensor *keep(br_tensor *grad, void *context)
{
    (void)grad;
    (void)context;
    return NULL;
}

/* Makes one process add the gradients of passes as wholes, as br_data_parallel_new() does. */
static void add_wholes(net *self)
{
    br_named_list *list = br_parameters(br_base(self));
    for (const br_named_tensor *p = NULL; (p = br_named_list_next(list, p));)
        br_register_hook(p->tensor, keep, NULL);
    br_named_list_free(list);
}

/* Checks that parameters and gradients have the same bits. */
static void check_same(net *a, net *b)
{
    br_named_list *all = br_parameters(br_base(a)), *others = br_parameters(br_base(b));
    for (int64_t i = 0; i < all->count; i++) {
        const br_tensor *p = all->items[i].tensor, *q = others->items[i].tensor;
        if (!same_bits(p, q) || !same_bits(br_grad_of(p), br_grad_of(q)))
            fprintf(stderr, "rank %d: %s differs\n", rank, all->items[i].name);
        check(same_bits(p, q));
        check(same_bits(br_grad_of(p), br_grad_of(q)));
    }
    br_named_list_free(all);
    br_named_list_free(others);
}

static br_data_parallel *parallel_new(net *self, br_dist_reduction reduction, double megabytes)
{
    br_data_parallel *p = br_data_parallel_new(
        br_base(self), BR_OPTIONS(br_data_parallel, .reduction = reduction,
                                  .bucket_cap_mb = megabytes, .first_bucket_cap_mb = megabytes));
    check(p != NULL);
    return p;
}

/* With few and many buckets, over several passes whose gradients accumulate. */
void test_passes_equal_one_process(void)
{
    static const double caps[] = { 25, 0.001, 1e-9 };
    for (int k = 0; k < 3; k++) {
        net *own = net_new((uint64_t)rank + 1),
            *alone = net_new(1); /* rank 0's parameters are copied */
        br_data_parallel *p = parallel_new(own, BR_DIST_SUM, caps[k]);
        add_wholes(alone);
        for (int step = 0; step < 4; step++) {
            bool with_extra = step != 1;
            pass(own, step * size + rank, with_extra);
            for (int r = 0; r < size; r++)
                pass(alone, step * size + r, with_extra);
            check_same(own, alone);
            if (step == 2) {
                br_zero_grad(br_base(own));
                br_zero_grad(br_base(alone));
            }
        }
        br_data_parallel_free(p);
        br_module_free(own);
        br_module_free(alone);
    }
}

/* Turns sums over the ranks into means. */
static void divide_by_size(net *self)
{
    br_scope *scope = br_no_grad_begin();
    br_named_list *list = br_parameters(br_base(self));
    for (const br_named_tensor *q = NULL; (q = br_named_list_next(list, q));)
        if (br_grad_of(q->tensor) && size > 1)
            br_div_(br_grad_of(q->tensor), br_full(BR_SHAPE(1), size, BR_F32));
    br_named_list_free(list);
    br_scope_end(scope);
}

void test_mean(void)
{
    net *own = net_new(1), *alone = net_new(1);
    br_data_parallel *p = parallel_new(own, BR_DIST_MEAN, 0.001);
    add_wholes(alone);
    pass(own, rank, true);
    for (int r = 0; r < size; r++)
        pass(alone, r, true);
    divide_by_size(alone);
    check_same(own, alone);
    br_data_parallel_free(p);
    br_module_free(own);
    br_module_free(alone);
}

/* Adds the gradients of `from` to those of `to`. */
static void add_gradients(net *to, net *from)
{
    br_scope *scope = br_no_grad_begin();
    br_named_list *sums = br_parameters(br_base(to)), *parts = br_parameters(br_base(from));
    for (int64_t i = 0; i < sums->count; i++) {
        br_tensor *part = br_grad_of(parts->items[i].tensor), *sum = sums->items[i].tensor;
        if (part && br_grad_of(sum))
            br_add_(br_grad_of(sum), part);
        else if (part)
            br_set_grad(sum, br_clone(part));
    }
    br_named_list_free(sums);
    br_named_list_free(parts);
    br_scope_end(scope);
}

/* Passes without reduction add to this rank's own gradients; the next pass reduces the sums. */
void test_sync_can_be_turned_off(void)
{
    net *own = net_new(1), *alone = net_new(1), *part = net_new(1);
    br_data_parallel *p = parallel_new(own, BR_DIST_SUM, 0.001);
    add_wholes(part);
    for (int step = 0; step < 2; step++) {
        br_data_parallel_set_sync(p, false);
        pass(own, rank, true);
        br_data_parallel_set_sync(p, true);
        pass(own, size + rank, false); /* does not reach `extra`, whose gradient is reduced, too */
        for (int r = 0; r < size; r++) {
            pass(part, r, true);
            pass(part, size + r, false);
            add_gradients(alone, part);
            br_zero_grad(br_base(part));
        }
        check_same(own, alone);
        br_zero_grad(br_base(alone));
        br_zero_grad(br_base(own));
        pass(own, rank, true); /* reaches `extra` */
        br_zero_grad(br_base(own));
    }
    br_data_parallel_free(p);
    br_module_free(own);
    br_module_free(alone);
    br_module_free(part);
}

/* A parameter that only one rank's pass reaches gets that rank's gradient on all of them; one that
 * no pass reaches keeps what it has. */
void test_unused_parameters(void)
{
    net *own = net_new(1), *alone = net_new(1);
    br_data_parallel *p = parallel_new(own, BR_DIST_SUM, 0.001);
    add_wholes(alone);
    for (int step = 0; step < 2; step++) {
        pass(own, rank, rank == size - 1);
        for (int r = 0; r < size; r++)
            pass(alone, r, r == size - 1);
    }
    check(br_grad_of(own->never->weight) == NULL);
    check(br_grad_of(own->extra->weight) != NULL);
    check_same(own, alone);
    br_data_parallel_free(p);
    br_module_free(own);
    br_module_free(alone);
}

void test_dtypes_in_buckets(void)
{
    net *own = net_new(1), *alone = net_new(1);
    br_module_to(br_base(own->hidden), BR_F64);
    br_module_to(br_base(alone->hidden), BR_F64);
    br_data_parallel *p = parallel_new(own, BR_DIST_SUM, 25);
    add_wholes(alone);
    br_tensor *x = br_full(BR_SHAPE(1, WIDTH), 0.3 + rank, BR_F64);
    check(br_backward(br_sum(br_linear_forward(own->hidden, x))));
    for (int r = 0; r < size; r++) {
        x = br_full(BR_SHAPE(1, WIDTH), 0.3 + r, BR_F64);
        check(br_backward(br_sum(br_linear_forward(alone->hidden, x))));
    }
    check_same(own, alone);
    br_data_parallel_free(p);
    br_module_free(own);
    br_module_free(alone);
}

void test_gradients_are_views_of_buckets(void)
{
    if (size == 1)
        return;
    net *own = net_new(1);
    br_data_parallel *p = parallel_new(own, BR_DIST_MEAN, 25);
    pass(own, rank, true);
    check(br_shares_storage(br_grad_of(own->hidden->weight), br_grad_of(own->norm->weight)));
    /* The buckets have been made again, in the order of arrival, and have the gradients. */
    const void *data = br_data(br_grad_of(own->norm->weight));
    uint64_t version = br_tensor_version(br_grad_of(own->norm->weight));
    pass(own, rank, true);
    check(br_data(br_grad_of(own->norm->weight)) == data);
    check(br_tensor_version(br_grad_of(own->norm->weight)) != version);
    br_scope *scope = br_scope_begin(); /* a gradient of the program's own is added to */
    br_tensor *bias = own->hidden->bias, *twice = br_clone(br_grad_of(bias));
    check(br_set_grad(bias, br_full(BR_SHAPE(WIDTH), 8, BR_F32)));
    pass(own, rank, true);
    br_tensor *want = br_add_scalar(br_mul_scalar(twice, 0.5), 8);
    check(br_allclose(br_grad_of(bias), want, 1e-5, 1e-6));
    check(br_shares_storage(br_grad_of(bias), br_grad_of(own->norm->weight)));
    br_scope_end(scope);
    br_data_parallel_free(p);
    check(br_grad_of(own->hidden->weight) != NULL); /* the gradients keep the memory */
    br_module_free(own);
}

void test_buffers(void)
{
    br_module *norm = &br_batch_norm1d_new(4, NULL)->base;
    br_tensor *mean = br_module_get(norm, "running_mean");
    br_data_f32(mean)[0] = (float)(10 + rank);
    br_data_parallel *p = br_data_parallel_new(norm, NULL);
    check(br_at(mean, BR_SHAPE(0)) == 10);
    br_tensor *x = br_full(BR_SHAPE(3, 4), rank, BR_F32);
    for (int i = 0; i < 2; i++) { /* each rank's forward changes the buffers; the next one copies */
        br_forward(norm, x);
        br_data_f32(mean)[1] = (float)rank;
    }
    br_forward(norm, x);
    check(br_at(mean, BR_SHAPE(1)) == 0.1f * (float)rank); /* 0.9 * rank 0's + 0.1 * this batch's */
    br_data_parallel_free(p);
    br_module_free(norm);
}

/* Rank r has data for r + 1 passes. */
void test_join(void)
{
    net *own = net_new(1);
    br_optim *sgd = br_sgd(br_base(own), BR_OPTIONS(br_sgd, .lr = 0.1));
    br_data_parallel *p = parallel_new(own, BR_DIST_MEAN, 0.001);
    for (int step = 0; step <= rank; step++) {
        br_optim_zero_grad(sgd);
        pass(own, step * size + rank, true);
        check(br_optim_step(sgd));
    }
    check(br_data_parallel_join(p));
    net *alone = net_new(1);
    br_optim *other = br_sgd(br_base(alone), BR_OPTIONS(br_sgd, .lr = 0.1));
    add_wholes(alone);
    for (int step = 0; step < size; step++) {
        br_optim_zero_grad(other);
        for (int r = step; r < size; r++)
            pass(alone, step * size + r, true);
        divide_by_size(alone);
        check(br_optim_step(other));
    }
    br_zero_grad(br_base(own));
    br_zero_grad(br_base(alone));
    check_same(own, alone);
    br_optim_free(sgd);
    br_optim_free(other);
    br_data_parallel_free(p);
    br_module_free(own);
    br_module_free(alone);
}

void test_different_modules(void)
{
    if (size == 1)
        return;
    br_module *m = &br_linear_new(4, rank == size - 1 ? 3 : 2, true)->base;
    check_fails(br_data_parallel_new(m, NULL), "parameter weight: rank");
    br_module_free(m);
    m = &br_linear_new(4, 2, rank != size - 1)->base;
    char want[80];
    snprintf(want, sizeof want, "the module has 1 parameters on rank %d, but 2 on rank 0",
             size - 1);
    check_fails(br_data_parallel_new(m, NULL), want);
    br_module_free(m);
    check_fails(br_data_parallel_new(NULL, NULL), rank >= 0 ? "module is NULL" : "");
}

/* Ten steps of AdamW on N ranks and in one process. */
void test_training_reaches_the_same_parameters(void)
{
    net *own = net_new(5), *alone = net_new(5);
    br_data_parallel *p = parallel_new(own, BR_DIST_SUM, 0.001);
    br_optim *optim = br_adamw(br_base(own), NULL), *other = br_adamw(br_base(alone), NULL);
    add_wholes(alone);
    for (int step = 0; step < 10; step++) {
        br_optim_zero_grad(optim);
        br_optim_zero_grad(other);
        pass(own, step * size + rank, true);
        for (int r = 0; r < size; r++)
            pass(alone, step * size + r, true);
        check(br_module_clip_grad_norm_(br_base(own), 0.5, 2, true) ==
              br_module_clip_grad_norm_(br_base(alone), 0.5, 2, true));
        check(br_optim_step(optim) && br_optim_step(other));
    }
    check_same(own, alone);
    br_optim_free(optim);
    br_optim_free(other);
    br_data_parallel_free(p);
    br_module_free(own);
    br_module_free(alone);
}
