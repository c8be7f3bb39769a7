/* tests/distributed/test_overlap.c - communication while backward runs: the order of events, never
 * their times. */
#include "distributed/data_parallel.h"
#include "tests/distributed/test.h"

#include <brasa/profile.h>

enum { LAYERS = 3, WIDTH = 16 };

typedef struct observed {
    br_data_parallel *parallel;
    int calls;
} observed;

static br_sequential *model_new(void)
{
    void *layers[LAYERS];
    for (int i = 0; i < LAYERS; i++)
        layers[i] = br_linear_new(WIDTH, WIDTH, false);
    return br_sequential_new(LAYERS, layers);
}

/* Puts each gradient into a bucket of its own. */
static br_data_parallel *parallel_new(br_sequential *model)
{
    return br_data_parallel_new(br_base(model), BR_OPTIONS(br_data_parallel, .bucket_cap_mb = 1e-6,
                                                           .first_bucket_cap_mb = 1e-6));
}

static void pass(br_sequential *model)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(2, WIDTH), BR_F32);
    check(br_backward(br_sum(br_forward(br_base(model), x))));
    br_scope_end(scope);
}

/* Called during backward, with the last gradient. The buckets of the other gradients have been
 * launched, and their communication ends although no rank has come to the end of backward. */
static br_tensor *on_last_gradient(br_tensor *grad, void *context)
{
    observed *o = context;
    br_data_parallel *p = o->parallel;
    (void)grad;
    o->calls++;
    if (check(p->n_buckets == LAYERS && p->started == LAYERS - 1))
        for (int k = 0; k < p->started; k++)
            check(br__dist_join(&p->buckets[k].job));
    return NULL;
}

void test_buckets_are_sent_during_backward(void)
{
    br_manual_seed(1);
    br_sequential *model = model_new();
    br_data_parallel *parallel = parallel_new(model);
    observed o = { .parallel = parallel };
    br_named_list *list = br_parameters(br_base(model));
    if (size > 1)
        br_register_hook(list->items[0].tensor, on_last_gradient, &o);
    br_named_list_free(list);
    for (int i = 0; i < 2; i++) /* before and after the buckets are ordered by arrival */
        pass(model);
    check(o.calls == (size > 1 ? 2 : 0));
    br_data_parallel_free(parallel);
    br_module_free(model);
}

/* The profile shows the wait that communication causes as the last event of backward. */
void test_profile_shows_the_wait(void)
{
    br_manual_seed(1);
    br_sequential *model = model_new();
    br_data_parallel *parallel = parallel_new(model);
    pass(model); /* after this pass the buckets are ordered by arrival, which is work of its own */
    br_profile *profile = br_profile_begin();
    pass(model);
    check(br_profile_end(profile));
    int64_t found = -1, last = -1;
    for (int64_t i = 1; i < br_profile_count(profile); i++) {
        const br_profile_event *e = br_profile_event_at(profile, i);
        const char *parent = br_profile_event_at(profile, e->parent)->name;
        if (strcmp(parent, "backward") != 0)
            continue;
        last = i;
        if (strcmp(e->name, "data_parallel: wait for buckets") == 0)
            found = i;
    }
    check(size > 1 ? found >= 0 && found == last : found < 0);
    br_profile_free(profile);
    br_data_parallel_free(parallel);
    br_module_free(model);
}
