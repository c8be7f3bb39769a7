/* tests/optim/refused_lists.h - calls functions with lists whose first, middle or last item is
 * refused. Such a call must fail and change nothing: no version, gradient, state or option, and no
 * tensor may leak. The next right call must succeed. */
#ifndef BR_TESTS_REFUSED_LISTS_H
#define BR_TESTS_REFUSED_LISTS_H

#include "tensor/tensor_internal.h"
#include "tests/support.h"

#include <brasa/brasa.h>

enum { ITEMS = 3, RIGHT = -1 };

/* How an item is wrong. */
typedef enum fault { ABSENT, FREED, OTHER_DTYPE, FAULTS } fault;
static const char *const fault_names[] = { "NULL", "freed", "of another dtype" };

/* ---- The objects that a call could change ---------------------------------------------------- */

/* A module with three parameters, which have gradients; an optimizer, a scheduler and an averaged
 * model of it, all with state; and the items of the list that is passed. */
typedef struct world {
    br_sequential *model;
    br_named_list *parameters, *state, *averages;
    br_optim *optim;
    br_scheduler *scheduler;
    br_averaged_model *averaged;
    br_dataset *dataset;
    br_tensor *items[ITEMS]; /* one may be wrong */
    int64_t numbers[ITEMS];  /* likewise */
    const char *texts[ITEMS];
    int bad; /* the number of the wrong item, or RIGHT */
    br_named_tensor named[64];
    br_named_list list; /* of `named` */
} world;

static inline world make_world(void)
{
    world w = { 0 };
    w.model =
        br_sequential_new(2, (void *[]){ br_linear_new(3, 3, true), br_linear_new(3, 2, false) });
    w.parameters = br_parameters(br_base(w.model));
    w.optim = br_adam_new(w.parameters, NULL);
    w.scheduler = br_exponential_lr(w.optim, 0.5);
    w.averaged = br_averaged_model_new(br_base(w.model), 0.5);
    for (int i = 0; i < 2; i++) {
        cr_assert(br_backward(br_sum(br_forward(w.model, br_ones(BR_SHAPE(2, 3), BR_F32)))));
        cr_assert(br_optim_step(w.optim) && br_scheduler_step(w.scheduler) &&
                  br_averaged_model_update(w.averaged));
    }
    w.dataset = br_tensor_dataset_new(1, (br_tensor *[]){ br_zeros(BR_SHAPE(6), BR_F32) });
    return w;
}

static inline void free_world(world *w)
{
    br_dataset_free(w->dataset);
    br_averaged_model_free(w->averaged);
    br_scheduler_free(w->scheduler);
    br_optim_free(w->optim);
    br_named_list_free(w->parameters);
    br_module_free(w->model);
}

/* Adds bytes to an FNV-1a hash. */
static inline void add(uint64_t *hash, const void *data, size_t n)
{
    for (const unsigned char *p = data, *end = p + n; p < end; p++)
        *hash = (*hash ^ *p) * 0x100000001b3;
}

/* Adds a tensor's elements; with its version if the tensor is not a copy. */
static inline void add_tensor(uint64_t *hash, const br_tensor *t, bool versions)
{
    uint64_t version = t && versions ? br_tensor_version(t) : 0;
    add(hash, &t, versions ? sizeof t : 0);
    add(hash, &version, sizeof version);
    if (t)
        add(hash, br_data(t), (size_t)br_numel(t) * br_dtype_size(br_dtype_of(t)));
}

static inline void add_list(uint64_t *hash, br_named_list *list, bool versions)
{
    for (const br_named_tensor *p = NULL; (p = br_named_list_next(list, p));) {
        add(hash, p->name, strlen(p->name));
        add_tensor(hash, p->tensor, versions);
        if (versions)
            add_tensor(hash, br_grad_of(p->tensor), true);
    }
    br_named_list_free(list);
}

/* Returns a hash of all that a call could change. */
static inline uint64_t fingerprint(const world *w)
{
    br_scope *scope = br_scope_begin();
    uint64_t hash = 0xcbf29ce484222325;
    const int64_t numbers[] = { br_optim_num_groups(w->optim),
                                br_module_num_children(br_base(w->model)), br_live_tensors(),
                                br_live_bytes(), br_dataset_size(w->dataset) };
    add(&hash, numbers, sizeof numbers);
    add_list(&hash, br_state_dict(br_base(w->model)), true);
    add_list(&hash, br_averaged_model_state_dict(w->averaged), true);
    add_list(&hash, br_optim_state_dict(w->optim), false);
    add_list(&hash, br_scheduler_state_dict(w->scheduler), false);
    br_rng_state rng;
    br_get_rng_state(&rng);
    add(&hash, &rng, sizeof rng);
    br_scope_end(scope);
    return hash;
}

/* ---- The lists ------------------------------------------------------------------------------- */

typedef enum source {
    DENSE,
    SCALARS,
    PARAMETERS,
    NUMBERS,
    TEXTS,
    MODEL,
    OPTIM,
    SCHEDULER,
    AVERAGED,
    INDICES,
    LEAVES,
    OWN /* the call makes its items, and looks which is bad */
} source;

typedef struct subject {
    const char *name;
    bool (*call)(world *w);
    source source;
    bool any_dtype; /* dtypes may differ */
    bool optional;  /* items may be NULL */
    bool changes;   /* a call that succeeds changes something */
    bool own;       /* the items of the list are the module's parameters, not copies */
    bool never;     /* no call succeeds */
    int64_t right, wrong;
} subject;

static inline br_tensor *ended(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_ones(BR_SHAPE(2, 2), BR_F32);
    br_scope_end(scope);
    return t;
}

static inline br_tensor *spoil(br_tensor *t, fault f)
{
    br_dtype other = br_dtype_of(t) == BR_I64 ? BR_F64 : BR_I64;
    return f == ABSENT ? NULL : f == FREED ? ended() : br_ones(br_ndim(t), br_sizes(t), other);
}

/* Copies a list, which it frees, into the world's. Its number of items is at least ITEMS. */
static inline void fill_list(world *w, br_named_list *list)
{
    w->list = (br_named_list){ 0, w->named };
    for (const br_named_tensor *p = NULL; (p = br_named_list_next(list, p));) {
        char *name = br_strdup(p->name);
        w->named[w->list.count++] = (br_named_tensor){ name, br_clone(p->tensor) };
    }
    br_named_list_free(list);
}

static inline void free_names(world *w)
{
    for (int64_t i = 0; i < w->list.count; i++)
        br_free((char *)w->named[i].name);
    w->list.count = 0;
}

/* Makes the items of a call. Item `bad` of ITEMS is wrong; RIGHT: none is. */
static inline void make_items(world *w, const subject *s, int bad, fault f)
{
    w->bad = bad;
    for (int i = 0; i < ITEMS; i++) {
        w->items[i] = s->source == SCALARS      ? br_scalar(1, BR_F32)
                      : s->source == PARAMETERS ? w->parameters->items[i].tensor
                      : s->source == INDICES    ? br_zeros(BR_SHAPE(2), BR_I64)
                      : s->source == LEAVES
                          ? br_set_requires_grad(br_ones(BR_SHAPE(2, 2), BR_F64), true)
                          : br_ones(BR_SHAPE(2, 2), BR_F32);
        if (i == bad)
            w->items[i] = spoil(w->items[i], f);
        w->numbers[i] = i == bad ? s->wrong : s->right;
        w->texts[i] = i == bad ? NULL : "*";
    }
    if (s->source == MODEL)
        fill_list(w, br_state_dict(br_base(w->model)));
    else if (s->source == OPTIM)
        fill_list(w, br_optim_state_dict(w->optim));
    else if (s->source == SCHEDULER)
        fill_list(w, br_scheduler_state_dict(w->scheduler));
    else if (s->source == AVERAGED)
        fill_list(w, br_averaged_model_state_dict(w->averaged));
    if (s->own)
        for (int64_t i = 0; i < w->list.count; i++)
            w->named[i].tensor = w->parameters->items[i].tensor;
    const int64_t last = w->list.count - 1, at = bad <= 0 ? 0 : bad == 1 ? last / 2 : last;
    if (last > 0 && bad != RIGHT)
        w->named[at].tensor = spoil(w->named[at].tensor, f);
}

/* Makes a call in a scope of its own. */
static inline bool try(world *w, const subject *s, int bad, fault f)
{
    br_scope *scope = br_scope_begin();
    make_items(w, s, bad, f);
    br_clear_error(); /* of the copies */
    bool ok = s->call(w);
    free_names(w);
    br_scope_end(scope);
    return ok;
}

static inline void check_refusal(world *w, const subject *s, int bad, fault f)
{
    uint64_t before = fingerprint(w);
    cr_expect_not(try(w, s, bad, f), "%s: item %d is %s, but the call succeeds", s->name, bad,
                  fault_names[f]);
    cr_expect(br_failed(), "%s: item %d is %s: no error", s->name, bad, fault_names[f]);
    br_clear_error();
    cr_expect_eq(fingerprint(w), before, "%s: item %d is %s: something has changed", s->name, bad,
                 fault_names[f]);
}

/* Passes lists with a wrong item, and then the right list, to each of n functions. */
static inline void check_subjects(const subject *subjects, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        const subject *s = &subjects[k];
        br_scope *scope = br_scope_begin();
        world w = make_world();
        for (int bad = 0; bad < ITEMS; bad++)
            for (int f = 0; f < FAULTS; f++) {
                const bool applies =
                    s->source == NUMBERS || s->source == TEXTS || s->source == OWN ? f == ABSENT
                    : f == OTHER_DTYPE                                             ? !s->any_dtype
                    : f == ABSENT                                                  ? !s->optional
                                  : br__caches_objects(); /* AddressSanitizer reports the use */
                if (applies)
                    check_refusal(&w, s, bad, (fault)f);
            }
        uint64_t before = fingerprint(&w);
        bool ok = try(&w, s, RIGHT, ABSENT);
        cr_expect(ok || s->never, "%s: the right call fails: %s", s->name, br_error_message());
        br_clear_error();
        cr_expect(s->changes || fingerprint(&w) == before, "%s changes something", s->name);
        free_world(&w);
        br_scope_end(scope);
    }
}

#endif
