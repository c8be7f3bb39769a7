/* tests/optim/test_refused_lists.c - functions that take lists of tensors, numbers or texts, called
 * with a wrong item in the list. */
#include "tests/optim/refused_lists.h"

#include <inttypes.h>
#include <unistd.h>

TestSuite(refused_lists, .init = check_begin, .fini = check_end);

/* ---- The calls ------------------------------------------------------------------------------- */

static br_tensor *sum_of(br_tensor *const *x, int n, void *context)
{
    (void)context;
    br_tensor *y = br_mul(x[0], x[0]);
    for (int i = 1; i < n; i++)
        y = br_add(y, br_mul(x[i], x[i]));
    return br_sum(y);
}

/* Each function makes a call with the items of the world, and frees what it returns. */
static bool cat(world *w)
{
    return br_cat(ITEMS, w->items, 0) != NULL;
}

static bool stack(world *w)
{
    return br_stack(ITEMS, w->items, 0) != NULL;
}

static bool einsum(world *w)
{
    return br_einsum("ij,ij,ij->i", ITEMS, w->items) != NULL;
}

static bool total_norm(world *w)
{
    return br_get_total_norm(ITEMS, w->items, 2, false) >= 0;
}

static bool backward_all(world *w)
{
    br_tensor *y[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        y[i] = br_sum(br_forward(w->model, br_ones(BR_SHAPE(1, 3), BR_F32)));
    br_tensor *const gradients[] = { w->items[0], w->items[1], w->items[2] };
    return br_backward_all(ITEMS, y, gradients, NULL);
}

static bool backward_of_items(world *w)
{
    return br_backward_all(ITEMS, w->items, NULL, NULL);
}

static bool grad(world *w)
{
    br_tensor *y = br_sum(br_forward(w->model, br_ones(BR_SHAPE(1, 3), BR_F32))), *g[ITEMS];
    return br_grad(1, &y, ITEMS, w->items, g, NULL);
}

static bool backward_to_items(world *w)
{
    br_tensor *y = br_sum(br_forward(w->model, br_ones(BR_SHAPE(1, 3), BR_F32)));
    return br_backward_with(y, BR_OPTIONS(br_backward, .n_inputs = ITEMS, .inputs = w->items));
}

static bool vjp(world *w)
{
    br_tensor *products[ITEMS];
    return br_vjp(sum_of, NULL, ITEMS, w->items, NULL, products, NULL) != NULL;
}

static bool jvp(world *w)
{
    br_tensor *product, *x[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        x[i] = br_ones(BR_SHAPE(2, 2), BR_F32);
    return br_jvp(sum_of, NULL, ITEMS, x, w->items, &product, NULL) != NULL;
}

static bool hessian(world *w)
{
    br_tensor *matrices[ITEMS * ITEMS];
    return br_hessian(sum_of, NULL, ITEMS, w->items, matrices, NULL) != NULL;
}

static bool tensor_dataset(world *w)
{
    br_dataset *dataset = br_tensor_dataset_new(ITEMS, w->items);
    br_dataset_free(dataset);
    return dataset != NULL;
}

static bool subset(world *w)
{
    br_dataset *dataset = br_subset_new(w->dataset, ITEMS, w->numbers);
    br_dataset_free(dataset);
    return dataset != NULL;
}

static bool random_split(world *w)
{
    br_dataset *parts[ITEMS] = { NULL };
    br_rng_state rng;
    br_get_rng_state(&rng);
    bool ok = br_random_split(w->dataset, ITEMS, w->numbers, parts);
    for (int i = 0; i < ITEMS; i++)
        br_dataset_free(parts[i]);
    if (ok)
        br_set_rng_state(&rng);
    return ok;
}

static bool multi_step(world *w)
{
    br_scheduler *s = br_multi_step_lr(w->optim, ITEMS, w->numbers, 1);
    br_scheduler_free(s);
    return s != NULL;
}

static bool filter(world *w)
{
    br_named_list *list = br_named_list_filter(w->parameters, ITEMS, w->texts, false);
    br_named_list_free(list);
    return list != NULL;
}

static bool clip_norm(world *w)
{
    return br_clip_grad_norm_(&w->list, 1e-3, 2, false) >= 0;
}

static bool clip_value(world *w)
{
    return br_clip_grad_value_(&w->list, 1e-3);
}

static bool new_optim(world *w)
{
    br_optim *optim = br_sgd_new(&w->list, NULL);
    br_optim_free(optim);
    return optim != NULL;
}

static bool load_model(world *w)
{
    return br_load_state_dict(br_base(w->model), &w->list, true, NULL);
}

static bool load_optim(world *w)
{
    return br_optim_load_state_dict(w->optim, &w->list);
}

static bool load_scheduler(world *w)
{
    return br_scheduler_load_state_dict(w->scheduler, &w->list);
}

static bool load_averaged(world *w)
{
    return br_averaged_model_load_state_dict(w->averaged, &w->list);
}

static bool save(world *w)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/brasa-test-list-%d", (int)getpid());
    bool ok = br_safetensors_save(path, &w->list, 0, NULL);
    cr_expect_eq(access(path, F_OK) == 0, ok, "a refused list is written");
    unlink(path);
    return ok;
}

static const subject subjects[] = {
    { .name = "cat", .call = cat, .source = DENSE, .any_dtype = true },
    { .name = "stack", .call = stack, .source = DENSE, .any_dtype = true },
    { .name = "einsum", .call = einsum, .source = DENSE },
    { .name = "get_total_norm", .call = total_norm, .source = DENSE, .any_dtype = true },
    { .name = "backward_all, gradients",
      .call = backward_all,
      .source = SCALARS,
      .optional = true,
      .changes = true },
    { .name = "backward_all, tensors",
      .call = backward_of_items,
      .source = PARAMETERS,
      .never = true },
    { .name = "grad", .call = grad, .source = PARAMETERS, .any_dtype = true },
    { .name = "backward, inputs",
      .call = backward_to_items,
      .source = PARAMETERS,
      .any_dtype = true,
      .changes = true },
    { .name = "vjp", .call = vjp, .source = DENSE, .any_dtype = true },
    { .name = "jvp", .call = jvp, .source = DENSE },
    { .name = "hessian", .call = hessian, .source = DENSE, .any_dtype = true },
    { .name = "tensor_dataset_new", .call = tensor_dataset, .source = DENSE, .any_dtype = true },
    { .name = "subset_new", .call = subset, .source = NUMBERS, .right = 2, .wrong = 6 },
    { .name = "random_split", .call = random_split, .source = NUMBERS, .right = 2, .wrong = -2 },
    { .name = "multi_step_lr",
      .call = multi_step,
      .source = NUMBERS,
      .right = 2,
      .wrong = -2,
      .changes = true },
    { .name = "named_list_filter", .call = filter, .source = TEXTS },
    { .name = "clip_grad_norm_",
      .call = clip_norm,
      .source = MODEL,
      .own = true,
      .any_dtype = true,
      .changes = true },
    { .name = "clip_grad_value_",
      .call = clip_value,
      .source = MODEL,
      .own = true,
      .any_dtype = true,
      .changes = true },
    { .name = "sgd_new", .call = new_optim, .source = MODEL, .own = true, .any_dtype = true },
    { .name = "load_state_dict", .call = load_model, .source = MODEL, .changes = true },
    { .name = "optim_load_state_dict", .call = load_optim, .source = OPTIM, .changes = true },
    { .name = "scheduler_load_state_dict",
      .call = load_scheduler,
      .source = SCHEDULER,
      .changes = true },
    { .name = "averaged_model_load_state_dict",
      .call = load_averaged,
      .source = AVERAGED,
      .changes = true },
    { .name = "safetensors_save", .call = save, .source = MODEL, .any_dtype = true },
};

Test(refused_lists, nothing_changes)
{
    check_subjects(subjects, sizeof subjects / sizeof *subjects);
}

/* ---- Wrong counts ---------------------------------------------------------------------------- */

/* Each function makes a call with n items. */
static bool cat_n(world *w, int n)
{
    return br_cat(n, w->items, 0) != NULL;
}

static bool stack_n(world *w, int n)
{
    return br_stack(n, w->items, 0) != NULL;
}

static bool index_n(world *w, int n)
{
    return br_index(w->items[0], n, w->items) != NULL;
}

static bool index_put_n(world *w, int n)
{
    return br_index_put(w->items[0], n, w->items, w->items[1], false) != NULL;
}

static bool getitem_n(world *w, int n)
{
    return br_getitem(w->items[0], "?", n, w->items) != NULL;
}

static bool backward_all_n(world *w, int n)
{
    return br_backward_all(n, w->items, NULL, NULL);
}

static bool dataset_n(world *w, int n)
{
    return br_tensor_dataset_new(n, w->items) != NULL;
}

static bool total_norm_n(world *w, int n)
{
    return br_get_total_norm(n, w->items, 2, false) >= 0;
}

/* A message about a negative count shows the count. */
Test(refused_lists, negative_counts)
{
    static bool (*const calls[])(world * w, int n) = { cat_n,       stack_n,     index_n,
                                                       index_put_n, getitem_n,   backward_all_n,
                                                       dataset_n,   total_norm_n };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        world w = make_world();
        for (int k = 0; k < ITEMS; k++)
            w.items[k] = br_ones(BR_SHAPE(2, 2), BR_F32);
        for (int n = -2; n < 0; n++) {
            char expected[8];
            snprintf(expected, sizeof expected, "%d", n);
            check_fails(calls[i](&w, n), expected);
        }
        free_world(&w);
    }
}
