/* The module tree: registration, paths, scopes of forward passes, walking, converting. */
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
    br_free_module(e);
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
    br_free_module(e);
    cr_assert_eq(br_live_tensors(), before);
}

Test(module, names_are_checked)
{
    head *h = head_new();
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_zeros(BR_SHAPE(2), BR_F32);
    check_fails(br_parameter(h, "", t), "name of a part of head is empty");
    check_fails(br_parameter(h, NULL, t), "name of a part of head is empty");
    check_fails(br_buffer(h, "a.b", t), "'a.b' of a part of head has a dot");
    check_fails(br_parameter(h, "q", t), "head has a part named 'q' already");
    check_fails(br_child(h, "k", br_relu_new()), "head has a part named 'k' already");
    check_fails(br_child(h, "x", NULL), "module is NULL");
    check_fails(br_module_add_child(NULL, "x", br_relu_new()), "module is NULL");
    cr_assert_null(br_parameter(h, "absent", NULL));
    check_ok();
    br_scope_end(scope);
    br_free_module(h);
}

Test(module, a_child_has_one_parent_and_no_cycles)
{
    head *a = head_new(), *b = head_new();
    check_fails(br_child(a, "other", b->q), "has a parent already");
    check_fails(br_child(a, "itself", a), "would be its own ancestor");
    check_fails(br_child(a->q, "up", a), "would be its own ancestor");
    cr_assert_eq(br_module_num_children(br_base(b)), 2);
    br_free_module(b->q); /* leaves its parent */
    cr_assert_eq(br_module_num_children(br_base(b)), 1);
    cr_assert_eq((void *)br_module_child_at(br_base(b), 0), (void *)b->k);
    check_fails(br_module_child_at(br_base(b), 1), "child 1 of head, which has 1");
    br_free_module(a);
    br_free_module(b);
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
    check_fails(br_module_list_at(m->encoder->layers, 2), "module 2 of 2");
    br_free_module(m);
}

Test(module, errors_bear_the_path_of_the_module)
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
    br_free_module(m);
}

Test(module, forward_frees_its_temporaries)
{
    head *h = head_new();
    br_scope *scope = br_scope_begin();
    int64_t before = br_live_tensors();
    cr_assert(br_module_enter(br_base(h)));
    br_tensor *kept = br_zeros(BR_SHAPE(2), BR_F32);
    br_scope_begin(); /* left open: leave closes it */
    br_zeros(BR_SHAPE(3), BR_F32);
    br_tensor *result = br_ones(BR_SHAPE(4), BR_F32);
    cr_assert_eq(br_leave(h, result), result);
    cr_assert_eq(br_live_tensors(), before + 1);
    cr_assert_eq(br_item(br_sum(result)), 4);
    (void)kept;
    br_scope_end(scope);
    br_free_module(h);
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
    br_free_module(e);
}

Test(module, training_mode_reaches_the_tree)
{
    encoder *e = encoder_new();
    head *h = br_module_list_at(e->layers, 0);
    cr_assert(br_is_training(br_base(h->q)));
    br_eval(br_base(e));
    cr_assert(!br_is_training(br_base(h->q)));
    br_train(br_base(h), true);
    cr_assert(br_is_training(br_base(h->q)));
    cr_assert(!br_is_training(br_base(e)));
    br_free_module(e);
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
    br_free_module(h);
    cr_assert_eq(destroyed, 1);
    head *none = NULL;
    br_free_module(none);
}

/* ---- Tied parameters, freezing, converting --------------------------------------------------- */

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
    br_free_module(m);
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
    check_fails(br_module_replace_parameter(br_base(m->embedding), NULL, m->tied),
                "Embedding has no parameter ''");
    check_fails(br_module_replace_parameter(br_base(m->embedding), "weight", NULL), "t is NULL");
    check_fails(br_embedding_forward(m->embedding, NULL), "Embedding lacks a part");
    br_free_module(m);
}

Test(module, freezing_goes_by_name)
{
    tied_model *m = tied_new();
    cr_assert_eq(br_freeze(br_base(m), "*.weight"), 2);
    cr_assert_eq(br_count_parameters(br_base(m), true), 5);
    cr_assert_not(br_requires_grad(m->tied), "it is embedding.weight");
    cr_assert_eq(br_module_requires_grad(br_base(m), "*", true), 3);
    cr_assert_eq(br_count_parameters(br_base(m), true), 35);
    cr_assert_eq(br_freeze(br_base(m), "encoder.*"), 0);
    cr_assert_eq(br_freeze(br_base(m), NULL), -1);
    br_clear_error();
    br_free_module(m);
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
    check_fails(br_module_to(br_base(m), BR_I64), "must be f32 or f64");
    br_tensor *view = br_detach(weight);
    check_fails(br_module_to(br_base(m), BR_F32), "tied [5, 3] is seen by a view");
    cr_assert_eq(br_dtype_of(m->decoder->bias), BR_F64);
    cr_assert_eq(br_dtype_of(view), BR_F64);
    br_scope_end(scope);
    br_free_module(m);
}

Test(module, zero_grad_drops_gradients)
{
    tied_model *m = tied_new();
    br_scope *scope = br_scope_begin();
    br_set_grad(m->tied, br_ones_like(m->tied));
    br_zero_grad(br_base(m));
    cr_assert_null(br_grad_of(m->tied));
    br_scope_end(scope);
    br_free_module(m);
}

/* ---- Containers and forward functions -------------------------------------------------------- */

Test(module, sequential_runs_one_after_the_other)
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
    br_free_module(s);
}

Test(module, sequential_wants_forward_functions)
{
    br_sequential *s = br_sequential_new(BR_MODULES(br_relu_new(), head_new()));
    cr_assert(strstr(br_error_message(), "module 1, head, has no forward function"));
    br_clear_error();
    br_scope *scope = br_scope_begin();
    check_fails(br_forward(s, br_zeros(BR_SHAPE(2), BR_F32)), "Sequential lacks a part");
    br_scope_end(scope);
    br_free_module(s);
    head *h = head_new();
    check_fails(br_forward(h, NULL), "head has no forward function");
    check_fails(br_forward(NULL, NULL), "module is NULL");
    br_free_module(h);
}
