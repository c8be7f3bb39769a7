/* tests/fuzz/api_modules.c - actions of the fuzz target api: constructors of modules, trees, names,
 * devices, parametrizations, and the end of modules. */
#include "tests/fuzz/api.h"

#include <string.h>

enum { ROOTS = 4 };
static br_module *roots[ROOTS]; /* modules without a parent, or NULL */

static br_module **place(uint8_t which)
{
    return &roots[which % ROOTS];
}

br_module *api_root(uint8_t which)
{
    return *place(which);
}

br_module *api_module(const api_args *a)
{
    br_module *module = api_root(a->which[0]);
    for (int depth = a->which[0] / ROOTS % 3; module && depth > 0; depth--) {
        int64_t n = br_module_num_children(module);
        if (n > 0)
            module = br_module_child_at(module, a->which[1] % n);
    }
    return module;
}

const char *api_glob(uint8_t which)
{
    static const char *const globs[] = { "*",   "weight", "*bias", "0.*", "layers.*",
                                         "[a-", "",       "none",  NULL };
    return API_CHOOSE(globs, which);
}

/* ---- Constructors ---------------------------------------------------------------------------- */

#define ON(i) (a->on[i])
#define N(i)  (a->n[i])
#define X(i)  (a->x[i])

static const br_conv_options *conv_options(const api_args *a)
{
    static br_conv_options options;
    options = br_conv_defaults();
    if (a->which[1] % 2)
        options.stride = options.dilation = (br_pair){ N(2), N(3) };
    if (a->which[1] / 2 % 2)
        options.padding = (br_pair){ N(2), N(3) };
    options.groups = ON(1) ? N(3) : 1;
    options.same = ON(2);
    return &options;
}

static const br_pool_options *pool_options(const api_args *a)
{
    static br_pool_options options;
    options = br_pool_defaults();
    options.kernel_size = (br_pair){ N(0), N(1) };
    if (ON(0))
        options.stride = (br_pair){ N(2), N(3) };
    options.ceil_mode = ON(1);
    options.count_include_pad = ON(2);
    options.divisor_override = ON(3) ? N(2) : 0;
    return &options;
}

static const br_rnn_options *rnn_options(const api_args *a)
{
    static br_rnn_options options;
    options = br_rnn_defaults();
    options.num_layers = N(2);
    options.bias = !ON(0);
    options.batch_first = ON(1);
    options.bidirectional = ON(2);
    options.relu = ON(3);
    options.proj_size = ON(3) ? N(3) : 0;
    options.dropout = X(0);
    return &options;
}

static const br_transformer_options *transformer_options(const api_args *a)
{
    static br_transformer_options options;
    options = br_transformer_defaults();
    options.dim_feedforward = N(2);
    options.dropout = X(0);
    options.gelu = ON(0);
    options.batch_first = ON(1);
    options.norm_first = ON(2);
    options.bias = !ON(3);
    return &options;
}

/* The container takes ownership of both modules, which may be the same or NULL. */
static br_sequential *sequential(const api_args *a)
{
    br_module **first = place(a->which[1]), **second = place(a->which[1] / ROOTS);
    br_sequential *made = br_sequential_new(2, (void *[]){ *first, *second });
    *first = *second = NULL;
    return made;
}

/* An activation that overwrites its input. */
static br_activation *overwriting(const api_args *a)
{
    br_activation *made = ON(0) ? br_relu_new() : br_gelu_new(BR_GELU_TANH);
    if (made)
        made->inplace = true;
    return made;
}

static br_embedding *limited_embedding(const api_args *a)
{
    br_embedding *made = br_embedding_new(N(0), N(1), ON(0) ? N(2) : -1);
    if (made && ON(1))
        made->max_norm = X(0);
    return made;
}

#define REDUCTION ((br_reduction)(a->which[1] % 3))

#define MODULES(M)                                                                                \
    M(linear, br_linear_new(N(0), N(1), ON(0)))                                                   \
    M(square_linear, br_linear_new(2, 2, ON(0)))                                                  \
    M(embedding, limited_embedding(a))                                                            \
    M(dropout, br_dropout_new(X(0)))                                                              \
    M(relu, br_relu_new())                                                                        \
    M(overwriting, overwriting(a))                                                                \
    M(leaky_relu, br_leaky_relu_new(X(0)))                                                        \
    M(softplus, br_softplus_new(X(0), X(1)))                                                      \
    M(softmax, br_softmax_new(N(0)))                                                              \
    M(flatten, br_flatten_new(N(0), -1))                                                          \
    M(prelu, br_prelu_new(N(0), X(0)))                                                            \
    M(hardtanh, br_hardtanh_new(X(0), X(1)))                                                      \
    M(glu, br_glu_new(N(0)))                                                                      \
    M(pixel_shuffle, br_pixel_shuffle_new(N(0)))                                                  \
    M(identity, br_identity_new())                                                                \
    M(layer_norm, br_layer_norm_new(N(0), BR_OPTIONS(br_layer_norm, .elementwise_affine = ON(0),  \
                                                     .bias = ON(1))))                             \
    M(rms_norm, br_rms_norm_new(N(0), BR_OPTIONS(br_rms_norm, .elementwise_affine = ON(0))))      \
    M(batch_norm1d,                                                                               \
      br_batch_norm1d_new(N(0), BR_OPTIONS(br_batch_norm, .affine = ON(0),                        \
                                           .track_running_stats = ON(1), .momentum = X(0))))      \
    M(batch_norm2d, br_batch_norm2d_new(N(0), NULL))                                              \
    M(instance_norm1d, br_instance_norm1d_new(N(0), BR_OPTIONS(br_instance_norm, .affine = ON(0), \
                                                               .track_running_stats = ON(1))))    \
    M(reflection_pad, br_reflection_pad_new(BR_DIMS(N(0), N(1))))                                 \
    M(gru_cell, br_gru_cell_new(N(0), N(1), ON(0)))                                               \
    M(lstm_cell, br_lstm_cell_new(N(0), N(1), ON(0)))                                             \
    M(group_norm, br_group_norm_new(N(0), N(1), NULL))                                            \
    M(conv1d, br_conv1d_new(N(0), N(1), N(2), ON(0), conv_options(a)))                            \
    M(conv2d, br_conv2d_new(N(0), N(1), N(2), N(3), ON(0), conv_options(a)))                      \
    M(conv_transpose1d, br_conv_transpose1d_new(N(0), N(1), N(2), ON(0), conv_options(a)))        \
    M(conv_transpose2d, br_conv_transpose2d_new(N(0), N(1), N(2), N(3), ON(0), conv_options(a)))  \
    M(max_pool1d, br_max_pool1d_new(pool_options(a)))                                             \
    M(max_pool2d, br_max_pool2d_new(pool_options(a)))                                             \
    M(avg_pool1d, br_avg_pool1d_new(pool_options(a)))                                             \
    M(avg_pool2d, br_avg_pool2d_new(pool_options(a)))                                             \
    M(adaptive_pool, br_adaptive_avg_pool1d_new(N(0)))                                            \
    M(rnn, br_rnn_new(N(0), N(1), rnn_options(a)))                                                \
    M(lstm, br_lstm_new(N(0), N(1), rnn_options(a)))                                              \
    M(gru, br_gru_new(N(0), N(1), rnn_options(a)))                                                \
    M(positions, br_sinusoidal_positional_encoding_new(N(0), N(1), X(0)))                         \
    M(rotary, br_rotary_embedding_new(N(0), N(1), X(0), ON(0)))                                   \
    M(attention, br_multihead_attention_new(N(0), N(1), NULL))                                    \
    M(encoder_layer, br_transformer_encoder_layer_new(N(0), N(1), transformer_options(a)))        \
    M(encoder, br_transformer_encoder_new(N(0), N(1), N(3), ON(0), transformer_options(a)))       \
    M(decoder_layer, br_transformer_decoder_layer_new(N(0), N(1), transformer_options(a)))        \
    M(mse_loss, br_mse_loss_new(REDUCTION))                                                       \
    M(huber_loss, br_huber_loss_new(REDUCTION, X(0)))                                             \
    M(bce_loss, br_bce_loss_new(a->t[0], REDUCTION))                                              \
    M(cross_entropy_loss,                                                                         \
      br_cross_entropy_loss_new(BR_OPTIONS(br_cross_entropy, .weight = a->t[0],                   \
                                           .reduction = REDUCTION, .label_smoothing = X(0))))     \
    M(module_list, br_module_list_new())                                                          \
    M(sequential, sequential(a))

#define CONSTRUCTOR(name, expression)          \
    static void *new_##name(const api_args *a) \
    {                                          \
        (void)a;                               \
        return (expression);                   \
    }
MODULES(CONSTRUCTOR)

/* A constructor that fails may return an incomplete module, which must be freed. */
static void make(const api_args *a)
{
#define ROW(name, expression) new_##name,
    static void *(*const constructors[])(const api_args *) = { MODULES(ROW) };
#undef ROW
    br_module *made = API_CHOOSE(constructors, a->which[2])(a);
    api_answer(made && !br_failed());
    br_module **at = place(a->which[0]);
    br_module_free(*at);
    *at = made;
}

/* Two square layers, so that short programs have modules that work. */
static void make_network(const api_args *a)
{
    br_sequential *made = br_sequential_new(
        BR_MODULES(br_linear_new(2, 3, true), br_tanh_new(), br_linear_new(3, 2, ON(0))));
    br_module **at = place(a->which[0]);
    br_module_free(*at);
    *at = br_base(made);
}

/* ---- Trees ----------------------------------------------------------------------------------- */

static const char *name_of(uint8_t which)
{
    static const char *const names[] = { "weight", "bias", "0", "layers", "a.b", "", NULL };
    return API_CHOOSE(names, which);
}

/* On success the parent owns the child. On failure the child is freed, unless the parent is in the
 * child's own tree. */
static void add_child(const api_args *a)
{
    br_module **child = place(a->which[2]), **above = place(a->which[0]);
    void *added = br_module_add_child(api_module(a), name_of(a->which[1]), *child);
    api_answer(added != NULL);
    if (child != above)
        *child = NULL;
}

/* Like add_child(), for a ModuleList. */
static void append(const api_args *a)
{
    br_module **child = place(a->which[2]), *list = api_root(a->which[0]);
    if (!list || strcmp(br_module_class(list), "ModuleList") != 0 || *child == list)
        return;
    api_answer(br_module_list_append((br_module_list *)list, *child) != NULL);
    *child = NULL;
}

static void read_list(const api_args *a)
{
    br_module *list = api_root(a->which[0]);
    if (!list || strcmp(br_module_class(list), "ModuleList") != 0)
        return;
    int64_t i = N(0) - 2, n = br_module_list_size((br_module_list *)list);
    api_answer(br_module_list_at((br_module_list *)list, i) || i < -n || i >= n);
}

/* Frees a module and everything below it; its parent forgets it. */
static void free_module(const api_args *a)
{
    br_module *module = api_module(a);
    br_module_free(module);
    if (module == api_root(a->which[0]))
        *place(a->which[0]) = NULL;
}

static void find(const api_args *a)
{
    api_answer(br_module_find(api_module(a), name_of(a->which[2])) != NULL);
}

static void get(const api_args *a)
{
    api_result(br_module_get(api_module(a), name_of(a->which[2])));
}

/* Takes a parameter or buffer by its number, which the program can then change. */
static void take_tensor(const api_args *a)
{
    br_named_list *list = ON(0) ? br_buffers(api_module(a)) : br_parameters(api_module(a));
    if (list && list->count > 0)
        api_result(list->items[a->which[2] % list->count].tensor);
    br_named_list_free(list);
}

static void count_visit(br_module *module, void *context)
{
    char path[20];
    br_module_path(module, path, sizeof path);
    *(int *)context += strlen(path) < sizeof path;
}

static void describe(const api_args *a)
{
    br_module *module = api_module(a);
    int visits = 0;
    br_module_apply(module, count_visit, &visits);
    char *summary = br_summary(module);
    api_answer(summary && visits > 0 && br_count_parameters(module, ON(0)) >= 0);
    br_free(summary);
    br_module_is_usable("api", module);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* Returns the address of the field of the parameter `weight`, or NULL for other modules. */
static br_tensor **weight_field(br_module *module)
{
    const char *class = module ? br_module_class(module) : "";
    if (strcmp(class, "Linear") == 0)
        return &((br_linear *)module)->weight;
    if (strcmp(class, "Embedding") == 0)
        return &((br_embedding *)module)->weight;
    if (strncmp(class, "Conv", 4) == 0)
        return &((br_conv *)module)->weight;
    return NULL;
}

static void add_parameter(const api_args *a)
{
    br_module *module = api_module(a);
    const char *name = name_of(a->which[2]);
    if (ON(0))
        api_answer(br_module_add_buffer(module, name, a->t[0], ON(1)) || !a->t[0]);
    else
        api_answer(br_module_add_parameter(module, name, a->t[0]) || !a->t[0]);
}

/* The caller must store the result in the module's field. */
static void replace_weight(const api_args *a)
{
    br_tensor **field = weight_field(api_module(a));
    if (!field)
        return;
    br_tensor *replaced = br_module_replace_parameter(api_module(a), "weight", a->t[0]);
    api_answer(replaced != NULL);
    if (replaced)
        *field = replaced;
}

static void tie_weights(const api_args *a)
{
    br_tensor **from = weight_field(api_root(a->which[2])), **to = weight_field(api_module(a));
    if (!from || !to || !*from)
        return;
    br_tensor *tied = br_module_replace_parameter(api_module(a), "weight", *from);
    api_answer(tied != NULL);
    if (tied)
        *to = tied;
}

static void parametrize(const api_args *a)
{
    br_module *module = api_module(a);
    br_tensor **field = weight_field(module);
    if (!field)
        return;
    switch (a->which[2] % 3) {
    case 0:
        api_answer(br_weight_norm(module, "weight", field, N(0) - 1));
        break;
    case 1:
        api_answer(br_spectral_norm(module, "weight", field,
                                    BR_OPTIONS(br_spectral_norm, .n_power_iterations = N(0),
                                               .dim = ON(0) ? N(1) : BR_NONE)));
        break;
    default:
        api_answer(br_register_parametrization(
            module, "weight", field, ON(0) ? (void *)br_tanh_new() : br_softmax_new(N(0)), NULL));
    }
}

static void parametrized_value(const api_args *a)
{
    br_module *module = api_module(a);
    if (br_is_parametrized(module, "weight"))
        api_result(br_parametrized_value(module, "weight"));
}

static void remove_parametrizations(const api_args *a)
{
    api_answer(br_remove_parametrizations(api_module(a), name_of(a->which[2]), ON(0)));
}

/* ---- State ----------------------------------------------------------------------------------- */

static void load_state(const api_args *a)
{
    br_named_list *state = br_state_dict(api_root(a->which[2]));
    br_load_report report = { 0 };
    bool loaded = br_load_state_dict(api_module(a), state, ON(0), ON(1) ? &report : NULL);
    api_answer(loaded);
    br_load_report_clear(&report);
    br_named_list_free(state);
}

/* Loads from a list that holds its tensors, after the list that borrowed them is freed. */
static void load_copied_state(const api_args *a)
{
    br_named_list *kept = br_named_list_new(), *state = br_state_dict(api_module(a));
    for (const br_named_tensor *p = NULL; kept && (p = br_named_list_next(state, p));)
        br_named_list_add(kept, p->name, p->tensor);
    br_named_list_free(state);
    if (ON(1))
        free_module(a);
    api_answer(br_load_state_dict(api_root(a->which[2]), kept, ON(2), NULL));
    br_named_list_free(kept);
}

static void convert(const api_args *a)
{
    api_answer(br_module_to(api_module(a), (br_dtype)(a->which[2] % 5)));
}

static void move(const api_args *a)
{
    br_module *module = api_module(a);
    br_device device = ON(0) ? br_module_device(module)
                             : (br_device){ (br_device_type)(a->which[2] % 3), (int)N(0) };
    api_answer(br_module_to_device(module, device));
}

static const api_action actions[] = {
    make,
    make_network,
    add_child,
    append,
    read_list,
    free_module,
    find,
    get,
    take_tensor,
    describe,
    add_parameter,
    replace_weight,
    tie_weights,
    parametrize,
    parametrized_value,
    remove_parametrizations,
    load_state,
    load_copied_state,
    convert,
    move,
};

static void free_all(void)
{
    for (int i = 0; i < ROOTS; i++) {
        br_module_free(roots[i]);
        roots[i] = NULL;
    }
}

const api_part api_modules = { actions, API_COUNT(actions), free_all };
