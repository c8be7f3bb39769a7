/* tests/optim/test_refused_parts.c - functions that take lists of modules, schedulers, indices,
 * series, views, texts or words, and files with several entries: one item of them is wrong. */
#include "tests/io/files.h"
#include "tests/optim/refused_lists.h"

#include <unistd.h>

TestSuite(refused_parts, .init = check_begin, .fini = check_end);

/* ---- Modules and optimizers ------------------------------------------------------------------ */

/* Fails, and frees the modules, if one of them is NULL or the child of another module. */
static bool sequential_of(const world *w, void *wrong)
{
    void *modules[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        modules[i] = i == w->bad ? wrong : br_batch_norm1d_new(2, NULL);
    br_sequential *s = br_sequential_new(ITEMS, modules);
    const bool ok = !br_failed();
    br_module_free(s);
    return ok;
}

static bool sequential(world *w)
{
    return sequential_of(w, NULL);
}

static bool sequential_with_child(world *w)
{
    return sequential_of(w, br_module_child_at(br_base(w->model), 0));
}

/* Step schedulers that leave the rate as it is. */
static bool sequential_of_schedulers(const world *w, br_scheduler *wrong, const int64_t *milestones)
{
    br_scheduler *parts[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        parts[i] = i == w->bad && !milestones ? wrong : br_step_lr(w->optim, 100, 1);
    br_scheduler *s =
        br_sequential_lr(w->optim, ITEMS, parts, milestones ? milestones : (int64_t[]){ 2, 4 });
    const bool ok = s != NULL;
    br_scheduler_free(s);
    return ok;
}

static bool sequential_lr(world *w)
{
    return sequential_of_schedulers(w, NULL, NULL);
}

static bool sequential_lr_of_another_optim(world *w)
{
    br_optim *other = br_sgd_new(w->parameters, NULL);
    const bool ok =
        sequential_of_schedulers(w, w->bad == RIGHT ? NULL : br_step_lr(other, 1, 1), NULL);
    br_optim_free(other);
    return ok;
}

static bool sequential_lr_milestones(world *w)
{
    const int64_t falling[] = { w->bad == 0 ? -1 : 2, w->bad > 0 ? 1 : 4 };
    return sequential_of_schedulers(w, NULL, falling);
}

static bool add_group(world *w)
{
    br_sgd_options options = br_sgd_defaults();
    br_optim *optim = br_sgd_new(w->parameters, &options);
    br_named_list *more = br_named_list_new();
    for (int i = 0; i < ITEMS; i++) { /* one is in the optimizer already */
        br_tensor *t = i == w->bad ? w->parameters->items[i].tensor
                                   : br_set_requires_grad(br_ones(BR_SHAPE(2), BR_F32), true);
        br_named_list_add(more, w->parameters->items[i].name, t);
    }
    const bool ok = br_optim_add_group(optim, more, NULL) == 1;
    cr_expect_eq(br_optim_num_groups(optim), ok ? 2 : 1, "%s", br_error_message());
    br_named_list_free(more);
    br_optim_free(optim);
    return ok;
}

static bool add_group_of_items(world *w)
{
    return br_optim_add_group(w->optim, &w->list, NULL) >= 0;
}

static double half(int64_t epoch, int group, void *context)
{
    (void)epoch;
    (void)group;
    (void)context;
    return 0.5;
}

/* A scheduler that is refused must not store the groups' rates as initial rates. */
static bool first_scheduler(world *w)
{
    br_optim *optim = br_sgd_new(w->parameters, BR_OPTIONS(br_sgd, .lr = 1));
    br_scheduler *refused = br_multi_step_lr(optim, ITEMS, w->numbers, 0.5);
    const bool ok = refused != NULL;
    if (!ok) {
        char message[256];
        snprintf(message, sizeof message, "%s", br_error_message());
        br_clear_error();
        br_optim_set_lr(optim, 0, 3);
        br_scheduler *right = br_lambda_lr(optim, half, NULL); /* half of the initial rate */
        cr_expect_eq(br_scheduler_last_lr(right, 0), 1.5);
        br_scheduler_free(right);
        br_raise(BR_ERROR_ARGUMENT, "%s", message);
    }
    br_scheduler_free(refused);
    br_optim_free(optim);
    return ok;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

static br_tensor *cube(void)
{
    return br_ones(BR_SHAPE(2, 2, 2), BR_F32);
}

static bool index_of_items(world *w)
{
    return br_index(cube(), ITEMS, w->items) != NULL;
}

static bool index_put(world *w)
{
    br_tensor *x = cube();
    const bool ok = br_index_put(x, ITEMS, w->items, br_zeros(BR_SCALAR, BR_F32), false) != NULL;
    cr_expect_eq(br_tensor_version(x), 0);
    return ok;
}

static bool getitem(world *w)
{
    return br_getitem(cube(), "?, ?, ?", ITEMS, w->items) != NULL;
}

static br_tensor *sum_of_squares(br_tensor *const *x, int n, void *context)
{
    (void)context;
    br_tensor *sum = br_sum(br_mul(x[0], x[0]));
    for (int i = 1; i < n; i++)
        sum = br_add(sum, br_sum(br_mul(x[i], x[i])));
    return sum;
}

static bool gradcheck(world *w)
{
    return br_gradcheck(sum_of_squares, NULL, ITEMS, w->items, NULL);
}

static bool gradgradcheck(world *w)
{
    return br_gradgradcheck(sum_of_squares, NULL, ITEMS, w->items, NULL);
}

static bool hvp(world *w)
{
    br_tensor *products[ITEMS] = { NULL };
    const bool ok = br_hvp(sum_of_squares, NULL, ITEMS, w->items, w->items, products, NULL) != NULL;
    for (int i = 0; i < ITEMS && !ok; i++)
        cr_expect_null(products[i]);
    return ok;
}

static bool loss(world *w)
{
    br_loss *triplet = br_triplet_margin_loss_new(NULL, BR_REDUCTION_MEAN);
    const bool ok = br_loss_forward(triplet, ITEMS, w->items) != NULL;
    br_module_free(triplet);
    return ok;
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Removes the file that a call has written. A refused call must write none. */
static bool written(const char *path, bool ok)
{
    cr_expect_eq(access(path, F_OK) == 0, ok, "a refused list is written: %s", br_error_message());
    unlink(path);
    return ok;
}

static bool plot(world *w)
{
    static const double x[] = { 0, 1 }, y[] = { 2, 3 };
    br_series series[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        series[i] = (br_series){ "loss", 2, x, i == w->bad ? NULL : y };
    const char *path = files_path("plot.svg");
    return written(path, br_plot_svg(path, ITEMS, series, NULL));
}

static br_attention *attention_with(const char *last)
{
    const char *tokens[] = { "a", last };
    br_attention *attention =
        br_attention_new(&(br_attention_text){ .n_tokens = 2, .tokens = tokens });
    if (attention)
        br_attention_add(attention, BR_ATTENTION_SELF, "0",
                         br_full(BR_SHAPE(1, 1, 2, 2), 0.5, BR_F32), NULL, NULL);
    return attention;
}

static bool attention_views(world *w)
{
    br_attention *attention = attention_with("b");
    br_attention_view views[ITEMS] = { { 0 } };
    for (int i = 0; i < ITEMS; i++)
        views[i] = (br_attention_view){ .attention = i == w->bad ? NULL : attention };
    const char *path = files_path("view.html");
    const bool ok = br_attention_html(path, ITEMS, views, NULL) > 0;
    br_attention_free(attention);
    return written(path, ok);
}

static bool attention_tokens(world *w)
{
    br_attention *attention = attention_with(w->bad == RIGHT ? "b" : NULL);
    br_attention_free(attention);
    return attention != NULL;
}

static bool metadata(world *w)
{
    br_metadata entries[ITEMS] = { { "a", "1" }, { "b", "2" }, { "c", "3" } };
    if (w->bad != RIGHT)
        entries[w->bad].value = NULL;
    const char *path = files_path("metadata.safetensors");
    return written(path, br_model_save(path, br_base(w->model), ITEMS, entries));
}

static bool tokens(world *w)
{
    const char *path = files_path("tokens.bin");
    return written(path, br_token_file_save(path, ITEMS, w->numbers, 2));
}

/* Saves a checkpoint of a model whose layer `bad` has another size, or whose optimizer is of
 * another kind, and loads it. */
static bool load_checkpoint(world *w)
{
    const char *path = files_path("checkpoint.safetensors");
    br_rng_state before;
    br_get_rng_state(&before);
    const bool first = w->bad == 0, second = w->bad == 1, other_optim = w->bad == 2;
    br_sequential *model =
        br_sequential_new(2, (void *[]){ br_linear_new(3, first ? 4 : 3, true),
                                         br_linear_new(3, second ? 4 : 2, false) });
    br_optim *optim =
        other_optim ? br_adagrad(br_base(model), NULL) : br_adam(br_base(model), NULL);
    br_checkpoint saved = { .model = br_base(model), .optim = optim, .rng = true, .step = 3 };
    cr_expect(br_checkpoint_save(path, &saved), "%s", br_error_message());
    br_set_rng_state(&before);
    br_checkpoint loaded = {
        .model = br_base(w->model), .optim = w->optim, .rng = true, .step = 5
    };
    const bool ok = br_checkpoint_load(path, &loaded);
    cr_expect_eq(loaded.step, ok ? 3 : 5);
    br_optim_free(optim);
    br_module_free(model);
    unlink(path);
    return ok;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

static bool encode_batch(world *w)
{
    static const char vocab[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n";
    const char *path = files_path("vocab.txt");
    files_write(path, vocab, sizeof vocab - 1);
    br_tokenizer *tokenizer = br_tokenizer_from_vocab(path, NULL);
    br_text texts[ITEMS];
    for (int i = 0; i < ITEMS; i++)
        texts[i] = (br_text){ i == w->bad ? NULL : "a", 1 };
    br_token_batch batch = { NULL, NULL, NULL };
    const bool ok = br_tokenizer_encode_batch(tokenizer, ITEMS, texts, NULL, NULL, &batch);
    cr_expect_eq(ok, batch.ids && batch.type_ids && batch.attention_mask);
    cr_expect(ok || (!batch.ids && !batch.type_ids && !batch.attention_mask));
    br_tokenizer_free(tokenizer);
    unlink(path);
    return ok;
}

static bool words(world *w)
{
    const char *given[ITEMS] = { "hi", "you", "me" };
    if (w->bad != RIGHT)
        given[w->bad] = NULL;
    static const char text[] = "hi you\nyou hi\nhi me";
    br_bert_corpus *corpus = br_bert_corpus_new_with_words(text, sizeof text - 1, ITEMS, given);
    br_bert_corpus_free(corpus);
    return corpus != NULL;
}

/* ---- The lists ------------------------------------------------------------------------------- */

static const subject parts[] = {
    { .name = "sequential_new", .call = sequential, .source = OWN, .changes = true },
    { .name = "sequential_new, a child",
      .call = sequential_with_child,
      .source = OWN,
      .changes = true },
    { .name = "sequential_lr", .call = sequential_lr, .source = OWN, .changes = true },
    { .name = "sequential_lr, another optimizer",
      .call = sequential_lr_of_another_optim,
      .source = OWN,
      .changes = true },
    { .name = "sequential_lr, milestones",
      .call = sequential_lr_milestones,
      .source = OWN,
      .changes = true },
    { .name = "optim_add_group, a parameter twice", .call = add_group, .source = OWN },
    { .name = "optim_add_group",
      .call = add_group_of_items,
      .source = MODEL,
      .any_dtype = true,
      .own = true,
      .never = true },
    { .name = "multi_step_lr, initial rates",
      .call = first_scheduler,
      .source = NUMBERS,
      .right = 2,
      .wrong = -2 },
    { .name = "index", .call = index_of_items, .source = INDICES, .optional = true },
    { .name = "index_put", .call = index_put, .source = INDICES, .optional = true },
    { .name = "getitem", .call = getitem, .source = INDICES },
    { .name = "gradcheck", .call = gradcheck, .source = LEAVES, .any_dtype = true },
    { .name = "gradgradcheck", .call = gradgradcheck, .source = LEAVES, .any_dtype = true },
    { .name = "hvp", .call = hvp, .source = LEAVES, .any_dtype = true },
    { .name = "loss_forward", .call = loss, .source = DENSE },
    { .name = "plot_svg", .call = plot, .source = OWN },
    { .name = "attention_html", .call = attention_views, .source = OWN },
    { .name = "attention_new", .call = attention_tokens, .source = OWN },
    { .name = "model_save, metadata", .call = metadata, .source = OWN },
    { .name = "token_file_save", .call = tokens, .source = NUMBERS, .right = 2, .wrong = 65536 },
    { .name = "checkpoint_load", .call = load_checkpoint, .source = OWN, .changes = true },
    { .name = "tokenizer_encode_batch", .call = encode_batch, .source = OWN },
    { .name = "bert_corpus_new_with_words", .call = words, .source = OWN },
};

Test(refused_parts, nothing_changes)
{
    check_subjects(parts, sizeof parts / sizeof *parts);
}
