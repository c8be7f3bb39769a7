/* tests/distributed/test_sharded.c - sharded optimizers, compared with ordinary ones of one
 * process: parameters, gradients, norms, states and checkpoints have the same bits. */
#include "tests/distributed/test.h"
#include "tests/same_bits.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- A module of parameters of many shapes --------------------------------------------------- */

enum { TABLE, WEIGHT, BIAS, SCALAR, EMPTY, WIDE, RARE, NEVER, N_PARAMS };
static const struct {
    const char *name;
    int ndim;
    int64_t sizes[2];
    br_dtype dtype;
} shapes[N_PARAMS] = {
    { "table", 2, { 123, 37 }, BR_F32 }, { "weight", 2, { 20, 30 }, BR_F32 },
    { "bias", 1, { 7 }, BR_F32 },        { "scalar", 0, { 0 }, BR_F32 },
    { "empty", 2, { 0, 3 }, BR_F32 },    { "wide", 2, { 5, 33 }, BR_F64 },
    { "rare", 1, { 300 }, BR_F32 },      { "never", 1, { 9 }, BR_F32 },
};

typedef struct bag {
    br_module base;
    br_tensor *params[N_PARAMS];
} bag;

static bag *bag_new(uint64_t seed)
{
    br_manual_seed(seed);
    bag *self = br_module_new(bag);
    for (int i = 0; i < N_PARAMS; i++)
        self->params[i] = br_parameter(self, shapes[i].name,
                                       br_randn(shapes[i].ndim, shapes[i].sizes, shapes[i].dtype));
    return self;
}

/* A pass adds to the gradients of all parameters but `never` and, without with_rare, `rare`. */
static void pass(bag *self, int batch, bool with_rare)
{
    br_scope *scope = br_scope_begin();
    br_tensor *loss = br_scalar(0, BR_F64);
    for (int i = 0; i < NEVER; i++) {
        if (i == RARE && !with_rare)
            continue;
        br_tensor *y = br_sin(br_mul_scalar(self->params[i], 1 + 0.1 * batch + 0.3 * i));
        loss = br_add(loss, br_to(br_sum(y), BR_F64));
    }
    check(br_backward(loss));
    br_scope_end(scope);
}

static void check_parameters(const bag *a, const bag *b, bool gradients)
{
    for (int i = 0; i < N_PARAMS; i++) {
        const br_tensor *p = a->params[i], *q = b->params[i];
        if (!check(same_bits(p, q)))
            fprintf(stderr, "rank %d: %s differs\n", rank, shapes[i].name);
        check(!gradients || same_bits(br_grad_of(p), br_grad_of(q)));
    }
}

/* Checks that the lists have the same names in the same order, and the same tensors. */
static void check_state(const br_named_list *a, const br_named_list *b)
{
    if (!check(a && b && a->count == b->count))
        return;
    for (int64_t i = 0; i < a->count; i++) {
        bool same = strcmp(a->items[i].name, b->items[i].name) == 0 &&
                    same_bits(a->items[i].tensor, b->items[i].tensor);
        if (!check(same))
            fprintf(stderr, "rank %d: state %s differs\n", rank, b->items[i].name);
    }
}

/* ---- Kinds of optimizers --------------------------------------------------------------------- */

/* Signs of the gradients' running mean, updated by tensor operations. */
typedef struct sign_options {
    size_t struct_size;
    double lr;
} sign_options;
static const sign_options sign_defaults = { sizeof(sign_options), 0.01 };

static bool sign_step(br_optim_work *work)
{
    const sign_options *o = work->options;
    work->new_state[0] = br_add(br_mul_scalar(work->state[0], 0.9), work->grad);
    work->new_param = br_sub(work->param, br_mul_scalar(br_sign(work->new_state[0]), o->lr));
    return !br_failed();
}

static const br_optim_kind sign_kind = {
    .name = "sign", .defaults = &sign_defaults, .states = { { .name = "mean" } }, .step = sign_step
};

/* Returns an optimizer of some of the parameters: the matrices, or all others. */
static br_optim *of_some(bag *self, bool matrices)
{
    static const char *const names[] = { "table", "weight", "wide", "empty" };
    br_named_list *all = br_parameters(br_base(self));
    br_named_list *some = br_named_list_filter(all, 4, names, !matrices);
    br_optim *optim = matrices ? br_muon_new(some, NULL) : br_adamw_new(some, NULL);
    br_named_list_free(some);
    br_named_list_free(all);
    return optim;
}

enum { N_KINDS = 11 };

/* Creates optimizer number `kind` of all parameters; the last two are of some parameters each. */
static br_optim *optim_new(bag *self, int kind)
{
    br_module *m = br_base(self);
    switch (kind) {
    case 0:
        return br_adam(m, NULL);
    case 1:
        return br_adam(m, BR_OPTIONS(br_adam, .amsgrad = true, .weight_decay = 0.1));
    case 2:
        return br_adamw(m, BR_OPTIONS(br_adamw, .maximize = true));
    case 3:
        return br_sgd(m, BR_OPTIONS(br_sgd, .lr = 0.1));
    case 4:
        return br_sgd(m, BR_OPTIONS(br_sgd, .lr = 0.1, .momentum = 0.9, .nesterov = true));
    case 5:
        return br_rmsprop(m, NULL);
    case 6:
        return br_rmsprop(m, BR_OPTIONS(br_rmsprop, .momentum = 0.5, .centered = true));
    case 7:
        return br_adagrad(m, BR_OPTIONS(br_adagrad, .initial_accumulator_value = 0.1));
    case 8:
        return br_optim_for(&sign_kind, m, NULL);
    case 9:
        return of_some(self, true);
    default:
        return of_some(self, false);
    }
}

/* ---- Equality with one process --------------------------------------------------------------- */

static br_data_parallel *parallel_new(bag *self, bool scatter, double megabytes,
                                      br_dist_group *group)
{
    br_data_parallel *p = br_data_parallel_new(
        br_base(self),
        BR_OPTIONS(br_data_parallel, .reduction = BR_DIST_SUM, .scatter = scatter, .group = group,
                   .bucket_cap_mb = megabytes, .first_bucket_cap_mb = megabytes));
    check(p != NULL);
    return p;
}

/* Each rank's passes on its own module, and the same passes on a module of one process. */
typedef struct pair {
    bag *own, *alone;
    br_data_parallel *parallel;
    br_dist_group *group;
    int n_optims;
    br_optim *ordinary[2], *other[2]; /* of `own` and of `alone` */
    br_sharded_optim *sharded[2];
} pair;

static pair pair_new(int kind, bool scatter, double megabytes, br_dist_group *group)
{
    pair p = { .own = bag_new(3), .alone = bag_new(3), .group = group };
    p.parallel = parallel_new(p.own, scatter, megabytes, group);
    p.n_optims = kind == 9 ? 2 : 1;
    for (int i = 0; i < p.n_optims; i++) {
        p.ordinary[i] = optim_new(p.own, kind + i);
        p.other[i] = optim_new(p.alone, kind + i);
        p.sharded[i] = br_sharded_optim_new(p.parallel, p.ordinary[i]);
        check(p.sharded[i] != NULL);
    }
    return p;
}

static void pair_free(pair *p)
{
    for (int i = 0; i < p->n_optims; i++) {
        br_sharded_optim_free(p->sharded[i]);
        br_optim_free(p->ordinary[i]);
        br_optim_free(p->other[i]);
    }
    br_data_parallel_free(p->parallel);
    br_module_free(p->own);
    br_module_free(p->alone);
}

/* Whether a rank's pass of a step reaches `rare`. */
static bool reaches_rare(int step, int r, int n)
{
    return step != 1 && (step != 2 || r == n - 1);
}

/* Step 3 adds to the gradients of step 2. */
static void pair_step(pair *p, int step)
{
    int n = br_dist_size(p->group), r = br_dist_rank(p->group);
    for (int i = 0; i < p->n_optims && step != 3; i++) {
        br_sharded_optim_zero_grad(p->sharded[i]);
        br_optim_zero_grad(p->other[i]);
    }
    pass(p->own, step * n + r, reaches_rare(step, r, n));
    for (int k = 0; k < n; k++)
        pass(p->alone, step * n + k, reaches_rare(step, k, n));
    double norm = br_data_parallel_clip_grad_norm_(p->parallel, 0.5, 2, true);
    check(norm > 0.5 && norm == br_module_clip_grad_norm_(br_base(p->alone), 0.5, 2, true));
    for (int i = 0; i < p->n_optims; i++) {
        uint64_t version = br_tensor_version(p->own->params[TABLE]);
        check(br_sharded_optim_step(p->sharded[i]));
        check(br_optim_step(p->other[i]));
        check(i > 0 || br_tensor_version(p->own->params[TABLE]) != version);
    }
}

static void check_pair(const pair *p, bool gradients, int destination)
{
    check_parameters(p->own, p->alone, gradients);
    for (int i = 0; i < p->n_optims; i++) {
        br_named_list *state = br_sharded_optim_state_dict(p->sharded[i], destination);
        br_named_list *other = br_optim_state_dict(p->other[i]);
        if (br_dist_rank(p->group) == destination)
            check_state(state, other);
        else
            check(state && state->count == 0);
        br_named_list_free(state);
        br_named_list_free(other);
    }
}

static void compare_with_one_process(bool scatter)
{
    static const double caps[] = { 25, 0.001, 1e-9 };
    for (int kind = 0; kind < N_KINDS - 1; kind++) {
        int n_caps = kind == 0 || kind == 9 ? 3 : 2; /* few kinds with many buckets */
        for (int k = 0; k < n_caps; k++) {
            pair p = pair_new(kind, scatter, caps[k], NULL);
            for (int step = 0; step < 5; step++)
                pair_step(&p, step);
            check_pair(&p, !scatter || size == 1, (kind + k) % size);
            check(!scatter || size == 1 || br_grad_of(p.own->params[TABLE]) == NULL);
            pair_free(&p);
        }
    }
}

void test_sharded_equals_one_process(void)
{
    compare_with_one_process(false);
}

void test_scattered_equals_one_process(void)
{
    compare_with_one_process(true);
}

/* Two groups with options of their own, whose rates and momenta a scheduler changes. */
static br_optim *grouped(bag *self)
{
    static const char *const matrices[] = { "table", "wide", "weight" };
    br_named_list *all = br_parameters(br_base(self));
    br_named_list *first = br_named_list_filter(all, 3, matrices, false);
    br_named_list *second = br_named_list_filter(all, 3, matrices, true);
    br_optim *optim = br_adamw_new(first, NULL);
    br_optim_add_group(optim, second, BR_OPTIONS(br_adamw, .lr = 0.1, .weight_decay = 0));
    br_named_list_free(all);
    br_named_list_free(first);
    br_named_list_free(second);
    return optim;
}

void test_groups_and_schedulers(void)
{
    bag *own = bag_new(3), *alone = bag_new(3);
    br_data_parallel *parallel = parallel_new(own, false, 0.001, NULL);
    br_optim *optim = grouped(own), *other = grouped(alone);
    br_scheduler *s =
        br_one_cycle_lr(optim, BR_OPTIONS(br_one_cycle, .max_lr = 0.3, .total_steps = 8));
    br_scheduler *t =
        br_one_cycle_lr(other, BR_OPTIONS(br_one_cycle, .max_lr = 0.3, .total_steps = 8));
    br_sharded_optim *sharded = br_sharded_optim_new(parallel, optim);
    for (int step = 0; step < 5; step++) {
        br_sharded_optim_zero_grad(sharded);
        br_optim_zero_grad(other);
        pass(own, step * size + rank, true);
        for (int r = 0; r < size; r++)
            pass(alone, step * size + r, true);
        check(br_sharded_optim_step(sharded) && br_optim_step(other));
        check(br_scheduler_step(s) && br_scheduler_step(t));
    }
    check_parameters(own, alone, true);
    if (size > 1) {
        br_named_list *more = br_named_list_new();
        br_optim_add_group(optim, more, NULL);
        br_named_list_free(more);
        check_fails(br_sharded_optim_step(sharded), "the optimizer has 3 groups, but had 2");
    }
    br_scheduler_free(s);
    br_scheduler_free(t);
    br_sharded_optim_free(sharded);
    br_optim_free(optim);
    br_optim_free(other);
    br_data_parallel_free(parallel);
    br_module_free(own);
    br_module_free(alone);
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

/* Returns true if the files have the same bytes. */
static bool same_files(const char *a, const char *b)
{
    FILE *f = fopen(a, "rb"), *g = fopen(b, "rb");
    bool same = f && g;
    for (int c = 0; same && c != EOF;) {
        c = getc(f);
        same = c == getc(g);
    }
    if (f)
        fclose(f);
    if (g)
        fclose(g);
    return same;
}

/* Saves the state of both sides on rank 0 and compares the files. */
static void save(pair *p, const char *path, const char *other)
{
    br_named_list *state = br_sharded_optim_state_dict(p->sharded[0], 0);
    if (rank == 0) {
        check(br_optim_load_state_dict(p->ordinary[0], state));
        check(br_checkpoint_save(
            path, &(br_checkpoint){
                      .model = br_base(p->own), .optim = p->ordinary[0], .step = 4, .rng = true }));
        check(br_checkpoint_save(
            other, &(br_checkpoint){
                       .model = br_base(p->alone), .optim = p->other[0], .step = 4, .rng = true }));
        check(same_files(path, other));
    }
    br_named_list_free(state);
    br_dist_barrier(NULL);
}

/* Resumes on the ranks of a group. */
static void resume(int kind, bool scatter, const char *path, br_dist_group *group)
{
    pair p = { .own = bag_new(9), .alone = bag_new(10), .group = group, .n_optims = 1 };
    p.ordinary[0] = optim_new(p.own, kind);
    p.other[0] = optim_new(p.alone, kind);
    br_checkpoint file = { .model = br_base(p.own), .optim = p.ordinary[0] };
    check(br_checkpoint_load(path, &file));
    file = (br_checkpoint){ .model = br_base(p.alone), .optim = p.other[0] };
    check(br_checkpoint_load(path, &file));
    p.parallel = parallel_new(p.own, scatter, 0.002, group);
    p.sharded[0] = br_sharded_optim_new(p.parallel, p.ordinary[0]); /* takes the state */
    br_named_list *left = br_optim_state_dict(p.ordinary[0]);
    const br_named_tensor *first = br_named_list_next(left, NULL); /* only options are left */
    check(strcmp(first->name, "param_groups.0.lr") == 0 || br_dist_size(group) == 1);
    br_named_list_free(left);
    for (int step = 4; step < 7; step++)
        pair_step(&p, step);
    check_pair(&p, false, br_dist_size(group) - 1);
    pair_free(&p);
}

void test_checkpoints_and_other_numbers_of_ranks(void)
{
    static const int kinds[] = { 1, 7, 8 };
    char path[64], other[64];
    br_tensor *process = br_scalar(getpid(), BR_I64);
    check(br_dist_broadcast(process, 0, NULL));
    snprintf(path, sizeof path, "/tmp/brasa_sharded_%d", (int)br_item_i64(process));
    snprintf(other, sizeof other, "/tmp/brasa_whole_%d", (int)br_item_i64(process));
    br_dist_group *half = br_dist_split(NULL, rank % 2, rank);
    br_dist_group *single = br_dist_split(NULL, rank, 0);
    for (int k = 0; k < 3; k++) {
        pair p = pair_new(kinds[k], k == 0, 0.001, NULL);
        for (int step = 0; step < 4; step++)
            pair_step(&p, step);
        save(&p, path, other);
        pair_free(&p);
        resume(kinds[k], k == 1, path, NULL);
        resume(kinds[k], k == 0, path, half);
        resume(kinds[k], false, path, single);
        br_dist_barrier(NULL);
    }
    br_dist_group_free(half);
    br_dist_group_free(single);
    if (rank == 0)
        check(remove(path) == 0 && remove(other) == 0);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

typedef struct large {
    br_module base;
    br_embedding *embedding;
    br_linear *hidden;
    br_layer_norm *norm;
} large;

static large *large_new(void)
{
    large *self = br_module_new(large);
    self->embedding = br_child(self, "embedding", br_embedding_new(20000, 32, -1));
    self->hidden = br_child(self, "hidden", br_linear_new(32, 32, true));
    self->norm = br_child(self, "norm", br_layer_norm_new(32, NULL));
    return self;
}

static void large_pass(large *self)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_embedding_forward(self->embedding, br_from_i64(BR_SHAPE(1), &(int64_t){ 7 }));
    x = br_layer_norm_forward(self->norm, br_linear_forward(self->hidden, x));
    check(br_backward(br_sum(br_mul(x, x))));
    br_scope_end(scope);
}

/* A rank has at most 1/N + 5 % of the bytes that one process needs. */
static bool is_share(int64_t bytes, int64_t whole)
{
    return (double)bytes <= ((size > 1 ? 0.05 : 0) + 1.0 / size) * (double)whole;
}

static void check_memory(bool scatter)
{
    large *own = large_new(), *alone = large_new();
    br_optim *optim = br_adam(br_base(own), NULL), *other = br_adam(br_base(alone), NULL);
    int64_t before = br_live_bytes();
    large_pass(alone);
    int64_t gradients = br_live_bytes() - before;
    check(br_optim_step(other));
    int64_t state = br_live_bytes() - before - gradients;
    br_data_parallel *parallel = br_data_parallel_new(
        br_base(own), BR_OPTIONS(br_data_parallel, .scatter = scatter, .bucket_cap_mb = 1));
    br_sharded_optim *sharded = br_sharded_optim_new(parallel, optim);
    before = br_live_bytes();
    for (int i = 0; i < 2; i++) {
        large_pass(own);
        int64_t now = br_live_bytes();
        check(!scatter || i > 0 || is_share(now - before, gradients));
        check(br_sharded_optim_step(sharded));
        check(i > 0 || is_share(br_live_bytes() - now, state));
        check(i == 0 || br_live_bytes() == now);
        if (scatter && i == 0 && rank == 0 && getenv("BRASA_TEST_VERBOSE"))
            printf("bytes of a rank: gradients %lld of %lld, state %lld of %lld\n",
                   (long long)(now - before), (long long)gradients,
                   (long long)(br_live_bytes() - now), (long long)state);
    }
    br_sharded_optim_free(sharded);
    br_optim_free(optim);
    br_optim_free(other);
    br_data_parallel_free(parallel);
    br_module_free(own);
    br_module_free(alone);
}

void test_memory_is_shared_out(void)
{
    check_memory(false);
    check_memory(true);
}

/* Whole matrices are shared out evenly, too. */
void test_whole_parameters_are_shared_out(void)
{
    void *layers[24];
    for (int i = 0; i < 24; i++)
        layers[i] = br_linear_new(64, 64, false);
    br_sequential *model = br_sequential_new(24, layers);
    br_optim *optim = br_muon(br_base(model), NULL);
    br_data_parallel *parallel =
        br_data_parallel_new(br_base(model), BR_OPTIONS(br_data_parallel, .bucket_cap_mb = 0.05,
                                                        .first_bucket_cap_mb = 0.01));
    br_sharded_optim *sharded = br_sharded_optim_new(parallel, optim);
    br_scope *scope = br_scope_begin();
    check(br_backward(br_sum(br_forward(br_base(model), br_ones(BR_SHAPE(1, 64), BR_F32)))));
    br_scope_end(scope);
    int64_t before = br_live_bytes();
    check(br_sharded_optim_step(sharded));
    check(is_share(br_live_bytes() - before, 24 * 64 * 64 * 4));
    br_sharded_optim_free(sharded);
    br_optim_free(optim);
    br_data_parallel_free(parallel);
    br_module_free(model);
}
