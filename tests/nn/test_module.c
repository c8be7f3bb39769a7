/* tests/nn/test_module.c - the module tree: registration, paths, scopes of forward passes,
 * traversal, conversion, and ownership of parameters. */
#include "tests/support.h"

#include <brasa/nn.h>

TestSuite(module, .init = check_begin, .fini = check_end);

typedef struct {
    br_module base;
    br_linear *q, *k;
} head;

static head *head_new(void)
{
    head *self = br_module_new(head);
    self->q = br_child(self, "q", br_linear_new(4, 3, true));
    self->k = br_child(self, "k", br_linear_new(4, 3, true));
    return self;
}

static br_tensor *head_forward(head *self, br_tensor *x)
{
    br_enter(self);
    br_tensor *q = br_linear_forward(self->q, x);
    br_tensor *k = br_linear_forward(self->k, x);
    return br_leave(self, br_bmm(q, k));
}

typedef struct {
    br_module base;
    br_module_list *layers;
    br_tensor *scale;
} encoder;

static encoder *encoder_new(void)
{
    encoder *self = br_module_new(encoder);
    self->layers = br_child(self, "layers", br_module_list_new());
    br_module_list_append(self->layers, head_new());
    br_module_list_append(self->layers, head_new());
    br_scope *scope = br_scope_begin();
    self->scale = br_parameter(self, "scale", br_ones(BR_SHAPE(2), BR_F32));
    br_buffer(self, "count", br_zeros(BR_SCALAR, BR_I64));
    br_module_add_buffer(br_base(self), "cache", br_zeros(BR_SHAPE(3), BR_F32), false);
    br_scope_end(scope);
    return self;
}

typedef struct {
    br_module base;
    encoder *encoder;
} model;

static model *model_new(void)
{
    model *self = br_module_new(model);
    self->encoder = br_child(self, "encoder", encoder_new());
    return self;
}

static void check_names(br_named_list *list, const char *joined)
{
    char text[1024] = "";
    for (int64_t i = 0; i < list->count; i++) {
        strcat(text, i ? " " : "");
        strcat(text, list->items[i].name);
    }
    cr_assert_str_eq(text, joined);
    br_named_list_free(list);
}

Test(module, lists_are_in_pytorchs_order)
{
    encoder *e = encoder_new();
    check_ok();
    check_names(br_parameters(br_base(e)),
                "scale layers.0.q.weight layers.0.q.bias layers.0.k.weight layers.0.k.bias "
                "layers.1.q.weight layers.1.q.bias layers.1.k.weight layers.1.k.bias");
    check_names(br_state_dict(br_base(e)),
                "scale count layers.0.q.weight layers.0.q.bias layers.0.k.weight layers.0.k.bias "
                "layers.1.q.weight layers.1.q.bias layers.1.k.weight layers.1.k.bias");
    cr_assert_eq(br_count_parameters(br_base(e), false), 2 + 4 * 15);
    br_module_free(e);
}

Test(module, constructors_leave_nothing_in_the_scope)
{
    int64_t before = br_live_tensors();
    br_scope *scope = br_scope_begin();
    encoder *e = encoder_new();
    int64_t owned = br_live_tensors() - before;
    cr_assert_eq(owned, 3 + 8);
    br_scope_end(scope);
    cr_assert_eq(br_live_tensors() - before, owned);
    br_module_free(e);
    cr_assert_eq(br_live_tensors(), before);
}

Test(module, names_are_checked)
{
    head *h = head_new();
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_zeros(BR_SHAPE(2), BR_F32);
    check_fails(br_parameter(h, "", t), "a parameter, buffer or child of head has an empty name");
    check_fails(br_parameter(h, NULL, t), "a parameter, buffer or child of head has an empty name");
    check_fails(br_buffer(h, "a.b", t), "'a.b' in head contains a dot");
    check_fails(br_parameter(h, "q", t), "head already has a parameter, buffer or child named 'q'");
    check_fails(br_child(h, "k", br_relu_new()),
                "head already has a parameter, buffer or child named 'k'");
    check_fails(br_child(h, "x", NULL), "module is NULL");
    check_fails(br_module_add_child(NULL, "x", br_relu_new()), "module is NULL");
    cr_assert_null(br_parameter(h, "absent", NULL));
    check_ok();
    br_scope_end(scope);
    br_module_free(h);
}

Test(module, a_child_has_one_parent_and_no_cycles)
{
    head *a = head_new(), *b = head_new();
    check_fails(br_child(a, "other", b->q), "already has a parent");
    check_fails(br_child(a, "itself", a), "would be its own ancestor");
    check_fails(br_child(a->q, "up", a), "would be its own ancestor");
    cr_assert_eq(br_module_num_children(br_base(b)), 2);
    br_module_free(b->q); /* removes it from its parent */
    cr_assert_eq(br_module_num_children(br_base(b)), 1);
    cr_assert_eq((void *)br_module_child_at(br_base(b), 0), (void *)b->k);
    check_fails(br_module_child_at(br_base(b), 1), "index 1 is out of range: head has 1 children");
    br_module_free(a);
    br_module_free(b);
}

Test(module, paths_find_modules_and_tensors)
{
    model *m = model_new();
    char path[64];
    head *h = br_module_list_at(m->encoder->layers, -1);
    cr_assert_str_eq(br_module_path(br_base(h->k), path, sizeof path), "encoder.layers.1.k");
    cr_assert_str_eq(br_module_path(br_base(h->k), path, 10), "encoder.l");
    cr_assert_str_eq(br_module_path(br_base(m), path, sizeof path), "");
    cr_assert_str_eq(br_module_name(br_base(h)), "1");
    cr_assert_str_eq(br_module_name(br_base(m)), "");
    cr_assert_str_eq(br_module_class(br_base(h)), "head");
    cr_assert_eq(br_module_find(br_base(m), "encoder.layers.1.k"), br_base(h->k));
    cr_assert_eq(br_module_find(br_base(m), ""), br_base(m));
    cr_assert_eq(br_module_get(br_base(m), "encoder.layers.1.k.weight"), h->k->weight);
    cr_assert_eq(br_module_get(br_base(m), "encoder.scale"), m->encoder->scale);
    check_fails(br_module_find(br_base(m), "encoder.layer.1"),
                "encoder has no child named 'layer'");
    check_fails(br_module_get(br_base(m), "encoder.layers.1.weight"),
                "head has no parameter or buffer named 'weight'");
    cr_assert_eq(br_module_list_at(m->encoder->layers, -2),
                 br_module_list_at(m->encoder->layers, 0));
    check_fails(br_module_list_at(m->encoder->layers, -3), "index -3 is out of range");
    check_fails(br_module_list_at(m->encoder->layers, 2), "index 2 is out of range for 2 modules");
    br_module_free(m);
}

Test(module, errors_contain_the_path_of_the_module)
{
    model *m = model_new();
    br_scope *scope = br_scope_begin();
    cr_assert(br_module_enter(br_base(m)));
    cr_assert(br_module_enter(br_base(m->encoder)));
    head *h = br_module_list_at(m->encoder->layers, 0);
    br_tensor *x = br_zeros(BR_SHAPE(2, 5, 4), BR_F32);
    br_tensor *y = head_forward(h, x);
    cr_assert_null(br_leave(m->encoder, y));
    cr_assert_null(br_leave(m, y));
    cr_assert_eq(strncmp(br_error_message(), "encoder.layers.0: bmm: ", 23), 0, "%s",
                 br_error_message());
    br_clear_error();
    cr_assert_null(br_linear_forward(h->q, br_zeros(BR_SHAPE(2, 7), BR_F32)));
    cr_assert_eq(strncmp(br_error_message(), "encoder.layers.0.q: linear: ", 28), 0, "%s",
                 br_error_message());
    br_clear_error();
    br_scope_end(scope);
    br_module_free(m);
}

Test(module, forward_frees_its_temporaries)
{
    head *h = head_new();
    br_scope *scope = br_scope_begin();
    int64_t before = br_live_tensors();
    cr_assert(br_module_enter(br_base(h)));
    br_tensor *kept = br_zeros(BR_SHAPE(2), BR_F32);
    br_scope_begin(); /* left open: br_leave() ends it */
    br_zeros(BR_SHAPE(3), BR_F32);
    br_tensor *result = br_ones(BR_SHAPE(4), BR_F32);
    cr_assert_eq(br_leave(h, result), result);
    cr_assert_eq(br_live_tensors(), before + 1);
    cr_assert_eq(br_item(br_sum(result)), 4);
    (void)kept;
    br_scope_end(scope);
    br_module_free(h);
}

/* A module is left once, by the module that was entered. */
Test(module, leaving_a_module_that_was_not_entered_is_an_error)
{
    head *h = head_new();
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(2), BR_F32);
    cr_assert(br_module_enter(br_base(h)));
    check_fails(br_leave(h->q, x), "leave: Linear was not entered, or was left before");
    cr_assert_eq(br_leave(h, x), x);
    check_fails(br_leave(h, x), "leave: head was not entered, or was left before");
    br_scope_end(scope);
    br_module_free(h);
}

static int visits;

static void count_visit(br_module *module, void *context)
{
    visits++;
    if (strcmp(br_module_class(module), "encoder") == 0)
        *(int *)context = visits;
}

Test(module, apply_visits_children_first)
{
    encoder *e = encoder_new();
    int root_was = 0;
    visits = 0;
    br_module_apply(br_base(e), count_visit, &root_was);
    cr_assert_eq(visits, 1 + 1 + 2 + 4);
    cr_assert_eq(root_was, visits);
    br_module_free(e);
}

Test(module, training_mode_applies_to_the_whole_subtree)
{
    encoder *e = encoder_new();
    head *h = br_module_list_at(e->layers, 0);
    cr_assert(br_is_training(br_base(h->q)));
    br_eval(br_base(e));
    cr_assert(!br_is_training(br_base(h->q)));
    br_train(br_base(h), true);
    cr_assert(br_is_training(br_base(h->q)));
    cr_assert(!br_is_training(br_base(e)));
    br_module_free(e);
}

static int destroyed;

static void on_destroy(void *self)
{
    cr_assert_eq(((head *)self)->base.state != NULL, true);
    destroyed++;
}

Test(module, destroy_is_called)
{
    head *h = head_new();
    br_module_set_destroy(br_base(h), on_destroy);
    destroyed = 0;
    br_module_free(h);
    cr_assert_eq(destroyed, 1);
    head *none = NULL;
    br_module_free(none);
}

/* ---- Tied parameters, freezing, conversion --------------------------------------------------- */

typedef struct {
    br_module base;
    br_embedding *embedding;
    br_linear *decoder;
    br_tensor *tied;
} tied_model;

static tied_model *tied_new(void)
{
    tied_model *self = br_module_new(tied_model);
    self->embedding = br_child(self, "embedding", br_embedding_new(5, 3, -1));
    self->decoder = br_child(self, "decoder", br_linear_new(3, 5, true));
    self->tied = br_parameter(self, "tied", self->embedding->weight);
    return self;
}

Test(module, tied_parameters_count_once)
{
    tied_model *m = tied_new();
    check_ok();
    cr_assert_eq(br_count_parameters(br_base(m), false), 15 + 15 + 5);
    check_names(br_parameters(br_base(m)), "tied decoder.weight decoder.bias");
    check_names(br_state_dict(br_base(m)), "tied embedding.weight decoder.weight decoder.bias");
    br_module_free(m);
}

Test(module, a_parameter_can_be_replaced)
{
    tied_model *m = tied_new();
    int64_t before = br_live_tensors();
    m->decoder->weight =
        br_module_replace_parameter(br_base(m->decoder), "weight", m->embedding->weight);
    check_ok();
    cr_assert_eq(br_live_tensors(), before - 1);
    cr_assert_eq(m->decoder->weight, m->tied);
    check_names(br_parameters(br_base(m)), "tied decoder.bias");
    check_fails(br_module_replace_parameter(br_base(m->embedding), "bias", m->tied),
                "Embedding has no parameter 'bias'");
    br_buffer(m->embedding, "table", br_ones(BR_SHAPE(2), BR_F32));
    check_fails(br_module_replace_parameter(br_base(m->embedding), "table", m->tied),
                "Embedding has no parameter 'table'");
    check_fails(br_module_replace_parameter(br_base(m->embedding), NULL, m->tied),
                "Embedding has no parameter ''");
    check_fails(br_module_replace_parameter(br_base(m->embedding), "weight", NULL), "t is NULL");
    br_activation *empty = br_relu_new(); /* has no list of parameters */
    check_fails(br_module_replace_parameter(br_base(empty), "weight", m->tied),
                "ReLU has no parameter 'weight'");
    br_module_free(empty);
    check_fails(br_embedding_forward(m->embedding, NULL),
                "Embedding is incomplete: its constructor failed");
    br_module_free(m);
}

/* Backward would give a computed tensor no gradient. */
Test(module, a_parameter_must_be_a_leaf)
{
    br_scope *scope = br_scope_begin();
    br_linear *linear = br_linear_new(2, 2, false);
    head *h = head_new();
    br_tensor *half = br_mul_scalar(linear->weight, 0.5);
    check_fails(br_module_replace_parameter(br_base(linear), "weight", half),
                "replace_parameter: parameter 'weight' of Linear was computed by mul_scalar");
    check_fails(br_parameter(h, "half", half),
                "add_parameter: parameter 'half' of head was computed by mul_scalar");
    br_module_free(h);
    h = head_new();
    cr_assert_not_null(br_parameter(h, "half", br_detach(half)));
    check_ok();
    br_module_free(h);
    br_module_free(linear);
    br_scope_end(scope);
}

Test(module, freeze_by_name)
{
    tied_model *m = tied_new();
    cr_assert_eq(br_freeze(br_base(m), "*.weight"), 2);
    cr_assert_eq(br_count_parameters(br_base(m), true), 5);
    cr_assert_not(br_requires_grad(m->tied), "tied is embedding.weight");
    cr_assert_eq(br_module_requires_grad(br_base(m), "*", true), 3);
    cr_assert_eq(br_count_parameters(br_base(m), true), 35);
    cr_assert_eq(br_freeze(br_base(m), "encoder.*"), 0);
    cr_assert_eq(br_freeze(br_base(m), NULL), -1);
    br_clear_error();
    br_module_free(m);
}

Test(module, conversion_keeps_objects_and_ties)
{
    tied_model *m = tied_new();
    br_tensor *weight = m->embedding->weight;
    double first = br_at(weight, 2, (int64_t[]){ 0, 0 });
    uint64_t version = br_tensor_version(weight);
    br_scope *scope = br_scope_begin();
    br_set_grad(weight, br_ones_like(weight));
    cr_assert(br_module_to(br_base(m), BR_F64));
    cr_assert_eq(br_dtype_of(weight), BR_F64);
    cr_assert_eq(br_dtype_of(m->decoder->bias), BR_F64);
    cr_assert_eq(m->tied, m->embedding->weight);
    cr_assert_eq(br_at(weight, 2, (int64_t[]){ 0, 0 }), first);
    cr_assert_gt(br_tensor_version(weight), version);
    cr_assert_null(br_grad_of(weight));
    cr_assert(br_requires_grad(weight));
    check_fails(br_module_to(br_base(m), BR_I64), "must be a floating-point dtype");
    br_tensor *view = br_detach(weight);
    check_fails(br_module_to(br_base(m), BR_F32), "tied [5, 3] shares its memory with a view");
    cr_assert_eq(br_dtype_of(m->decoder->bias), BR_F64);
    cr_assert_eq(br_dtype_of(view), BR_F64);
    br_scope_end(scope);
    br_module_free(m);
}

Test(module, zero_grad_removes_gradients)
{
    tied_model *m = tied_new();
    br_scope *scope = br_scope_begin();
    br_set_grad(m->tied, br_ones_like(m->tied));
    br_zero_grad(br_base(m));
    cr_assert_null(br_grad_of(m->tied));
    br_scope_end(scope);
    br_module_free(m);
}

/* ---- Containers and forward functions -------------------------------------------------------- */

Test(module, sequential_runs_its_modules_in_order)
{
    br_sequential *s =
        br_sequential_new(BR_MODULES(br_linear_new(4, 2, true), br_relu_new(), br_dropout_new(0)));
    br_scope *scope = br_scope_begin();
    br_linear *linear = (br_linear *)br_module_child_at(br_base(s), 0);
    br_tensor *x = br_arange(0, 12, 1, BR_F32);
    x = br_reshape(x, BR_SHAPE(3, 4));
    br_tensor *want = br_relu(br_f_linear(x, linear->weight, linear->bias));
    cr_assert(br_equal(br_forward(s, x), want));
    check_ok();
    br_scope_end(scope);
    br_module_free(s);
}

Test(module, sequential_requires_forward_functions)
{
    br_sequential *s = br_sequential_new(BR_MODULES(br_relu_new(), head_new()));
    cr_assert(strstr(br_error_message(), "module 1, head, has no forward function"));
    br_clear_error();
    br_scope *scope = br_scope_begin();
    check_fails(br_forward(s, br_zeros(BR_SHAPE(2), BR_F32)),
                "sequential_forward: Sequential is incomplete: its constructor failed");
    br_scope_end(scope);
    br_module_free(s);
    head *h = head_new();
    check_fails(br_forward(h, NULL), "head has no forward function of one tensor: set one");
    check_fails(br_forward(NULL, NULL), "module is NULL");
    br_module_free(h);
}

static br_tensor *run_nothing(void *self, br_tensor *const *inputs, const void *args)
{
    (void)self;
    (void)args;
    return inputs[0];
}

Test(module, null_arguments_are_named)
{
    br_sequential *s = NULL;
    check_fails((s = br_sequential_new(BR_MODULES(br_relu_new(), NULL)), false),
                "sequential: module 1 is NULL, but it is required");
    check_fails(br_sequential_forward(s, br_ones(BR_SHAPE(2), BR_F32)),
                "is incomplete: its constructor failed");
    br_module_free(s);
    br_module_list *list = br_module_list_new();
    check_fails(br_module_list_append(list, NULL), "module_list_append: module 0 is NULL");
    br_module_free(list);
    br_linear *linear = br_linear_new(2, 2, true);
    br_tensor *x = br_ones(BR_SHAPE(2), BR_F32);
    check_fails(br_linear_forward(NULL, x), "linear_forward: module is NULL");
    check_fails(br_module_run(NULL, NULL, 0, NULL, NULL, 0), "forward: module is NULL");
    check_fails(br_module_run(NULL, run_nothing, BR_INPUTS(x), NULL, 0), "forward: module is NULL");
    check_fails(br_module_run(linear, NULL, BR_INPUTS(x), NULL, 0), "module_run: forward is NULL");
    check_fails(br_module_run(linear, run_nothing, 1, NULL, NULL, 0), "module_run: inputs is NULL");
    check_fails((br_module_apply(br_base(linear), NULL, NULL), false), "apply: fn is NULL");
    check_fails(br_record(NULL, x, BR_INPUTS(x), NULL, 0), "record: op is NULL");
    check_fails(br_record_in_place(&(br_op){ .name = "own" }, x, 1, NULL, NULL, 0),
                "record_in_place: inputs is NULL");
    cr_assert_eq(br_module_run(linear, run_nothing, BR_INPUTS(x), NULL, 0), x);
    br_module_free(linear);
}

/* Modules that return their input would return NULL without an error. */
Test(module, null_inputs_are_refused_by_modules_that_compute_nothing)
{
    br_activation *identity = br_identity_new();
    check_fails(br_forward(identity, NULL), "identity: x is NULL");
    br_module_free(identity);
    br_sequential *empty = br_sequential_new(0, NULL);
    check_fails(br_forward(empty, NULL), "sequential: x is NULL");
    br_module_free(empty);
}

/* ---- Ownership of tensors -------------------------------------------------------------------- */

/* A constructor that opens no scope leaves no tensors outside the module, whether or not the caller
 * has a scope. */
Test(module, parameters_and_buffers_belong_to_the_module)
{
    typedef struct {
        br_module base;
        br_tensor *w, *mean;
    } layer;
    int64_t before = br_live_tensors();
    for (int in_scope = 0; in_scope < 2; in_scope++) {
        br_scope *outer = in_scope ? br_scope_begin() : NULL;
        layer *self = br_module_new(layer);
        self->w = br_parameter(self, "w", br_ones(BR_SHAPE(2), BR_F32));
        br_scope *inner = br_scope_begin();
        self->mean = br_buffer(self, "mean", br_zeros(BR_SHAPE(2), BR_F32));
        br_scope_end(inner);
        cr_assert_eq(br_live_tensors(), before + 2);
        br_tensor *by = br_zeros(BR_SHAPE(2), BR_F32);
        self->w = br_module_replace_parameter(br_base(self), "w", by);
        cr_assert_eq(br_live_tensors(), before + 2);
        br_scope_end(outer);
        br_scope *reading = br_scope_begin();
        cr_assert_eq(br_item(br_sum(self->w)), 0);
        br_scope_end(reading);
        br_module_free(self);
        cr_assert_eq(br_live_tensors(), before);
    }
}

/* A shared parameter is freed with its last owner, which may be a module or the caller. */
Test(module, shared_parameters_are_freed_with_their_last_owner)
{
    int64_t before = br_live_tensors();
    br_module *first = br_module_create(sizeof *first, "A"),
              *second = br_module_create(sizeof *first, "B");
    br_tensor *w = br_module_add_parameter(first, "w", br_ones(BR_SHAPE(2), BR_F32));
    br_module_add_parameter(second, "w", w);
    br_module_free(first);
    cr_assert_eq(br_live_tensors(), before + 1);
    br_retain(w);
    br_module_free(second);
    cr_assert_eq(br_live_tensors(), before + 1);
    br_release(w);
    cr_assert_eq(br_live_tensors(), before);
}

/* A loss does not take over its weight, so several losses can share one. */
Test(module, losses_share_their_weights)
{
    br_tensor *weight = br_ones(BR_SHAPE(3), BR_F32);
    for (int i = 0; i < 2; i++)
        br_module_free(br_cross_entropy_loss_new(BR_OPTIONS(br_cross_entropy, .weight = weight)));
    cr_assert_eq(br_item(br_sum(weight)), 3);
}

/* ---- br_leave() ------------------------------------------------------------------------------ */

typedef struct hasty {
    br_module base;
    struct hasty *inner;
} hasty;

static br_tensor *without_leave(hasty *self, br_tensor *x)
{
    br_enter(self);
    return br_mul_scalar(x, 2);
}

static br_tensor *hasty_forward(hasty *self, br_tensor *x)
{
    br_enter(self);
    return br_leave(self, without_leave(self->inner, x));
}

Test(module, a_forgotten_leave_is_an_error)
{
    br_scope *scope = br_scope_begin();
    hasty *outer = br_module_new(hasty);
    outer->inner = br_child(outer, "inner", br_module_new(hasty));
    hasty_forward(outer, br_ones(BR_SHAPE(2), BR_F32));
    check_fails(!br_failed(), "the forward of hasty inner was entered by br_enter(), but not");
    br_scope *step = br_scope_begin();
    without_leave(outer, br_ones(BR_SHAPE(2), BR_F32));
    br_scope_end(step);
    check_fails(!br_failed(), "the forward of hasty was entered by br_enter()");
    br_raise(BR_ERROR_STATE, "earlier"); /* after an error, an early return is allowed */
    step = br_scope_begin();
    without_leave(outer, NULL);
    br_scope_end(step);
    cr_assert_str_eq(br_error_message(), "earlier");
    br_clear_error();
    br_module_free(outer);
    br_scope_end(scope);
}

/* Without a scope around the forward, the end of the module is the first chance to see it. */
Test(module, the_end_of_a_module_reports_a_forgotten_leave)
{
    hasty *outer = br_module_new(hasty);
    outer->inner = br_child(outer, "inner", br_module_new(hasty));
    without_leave(outer->inner, br_ones(BR_SHAPE(2), BR_F32));
    br_module_free(outer);
    check_fails(!br_failed(), "module_free: the forward of hasty was entered by br_enter(), but");
    br_raise(BR_ERROR_STATE, "no module is running");
    cr_assert_str_eq(br_error_message(), "no module is running");
    br_clear_error();
    br_scope_end(br_scope_current());
}
