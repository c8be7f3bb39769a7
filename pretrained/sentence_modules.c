/* pretrained/sentence_modules.c - see sentence_modules.h. Meanings and defaults are those of
 * sentence-transformers 6. */
#include "pretrained/sentence_modules.h"

#include "nn/nn_internal.h"
#include "pretrained/pooling.h"

#include <inttypes.h>
#include <string.h>

/* Products of fewer rows may sum in another order (gemm_choice.c). */
enum { ENOUGH_ROWS = 16 };

static const char op[] = "sentence_transformer";

br_sentence_kind br__sentence_kind(const char *name)
{
    static const char *const names[] = { "Normalize", "Dense", "LayerNorm", "Dropout" };
    br_sentence_kind kind = BR_SENTENCE_NORMALIZE;
    while (kind < BR_SENTENCE_KINDS && strcmp(names[kind], name) != 0)
        kind++;
    return kind;
}

/* ---- Settings -------------------------------------------------------------------------------- */

/* The keys that name what a module reads and writes must name the embedding. */
static bool check_names(const br_model_json *f)
{
    static const char *const keys[] = { "module_input_name", "module_output_name" };
    for (int i = 0; i < 2; i++) {
        json_t *value = br__model_json_get(f, keys[i]);
        const char *name = json_string_value(value);
        if (value && (!name || strcmp(name, "sentence_embedding") != 0))
            return br__model_json_refuse_value(f, keys[i], value, "\"sentence_embedding\"");
    }
    return true;
}

static bool read_size(const br_model_json *f, const char *key, int64_t *size)
{
    const json_t *value = json_object_get(f->value, key);
    *size = json_integer_value(value);
    if (!value)
        return br__model_json_refuse(f, "%s is missing, must be an integer of at least 1", key);
    return (*size >= 1 && *size <= INT32_MAX) ||
           br__model_json_refuse_value(f, key, value, "an integer in 1 .. 2147483647");
}

/* Reads the size of the embeddings before a module. */
static bool read_input_size(const br_model_json *f, const char *key, int64_t dimension)
{
    int64_t size;
    if (!read_size(f, key, &size))
        return false;
    return size == dimension ||
           br__model_json_refuse(f,
                                 "%s is %" PRId64 ", but the embeddings before this module have "
                                 "%" PRId64 " elements",
                                 key, size, dimension);
}

/* Reads the activation, which is the path of a class of PyTorch; Tanh if there is none. */
static bool read_activation(const br_model_json *f, br_unary_fn *activation)
{
    static const struct {
        const char *name, *function; /* as br_find_activation() names it */
    } known[] = {
        { "Tanh", "tanh" },
        { "Identity", "linear" },
        { "ReLU", "relu" },
        { "GELU", "gelu" },
        { "SiLU", "silu" },
        { "Sigmoid", "sigmoid" },
        { "LeakyReLU", "leaky_relu" },
        { "ReLU6", "relu6" },
        { "Mish", "mish" },
    };
    static const char key[] = "activation_function";
    const json_t *value = json_object_get(f->value, key);
    const char *path = value ? json_string_value(value) : "torch.nn.Tanh";
    const char *dot = path && strncmp(path, "torch.", 6) == 0 ? strrchr(path, '.') : NULL;
    for (size_t i = 0; dot && i < sizeof known / sizeof *known; i++)
        if (strcmp(dot + 1, known[i].name) == 0)
            *activation = br_find_activation(known[i].function);
    return *activation ||
           br__model_json_refuse_value(f, key, value,
                                       "torch.nn.Tanh, Identity, ReLU, GELU, SiLU, Sigmoid, "
                                       "LeakyReLU, ReLU6 or Mish");
}

/* ---- Weights --------------------------------------------------------------------------------- */

/* Copies the weight of that name from the file. */
static bool copy_weight(const br_model_json *f, br_safetensors *file, const char *name,
                        br_tensor *to)
{
    br_tensor *from = to ? br_safetensors_get(file, name) : NULL;
    if (!from)
        return false;
    if (!br_same_shape(from, to))
        return br__model_json_refuse(f, "its model.safetensors has %s %s, must be %s", name,
                                     br_shape_text(from), br_shape_text(to));
    br_copy_(to, from);
    return !br_failed();
}

static bool copy_weights(const br_model_json *f, br_safetensors *file, const br_sentence_module *m)
{
    if (m->norm)
        return copy_weight(f, file, "norm.weight", m->norm->weight) &&
               copy_weight(f, file, "norm.bias", m->norm->bias);
    return copy_weight(f, file, "linear.weight", m->linear->weight) &&
           (!m->linear->bias || copy_weight(f, file, "linear.bias", m->linear->bias)) &&
           (!m->residual || copy_weight(f, file, "residual.weight", m->residual->weight));
}

static bool load_weights(const br_model_json *f, const char *folder, const br_sentence_module *m)
{
    char *path = br_format("%s/model.safetensors", folder);
    br_scope *scope = br_no_grad_begin();
    br_safetensors *file = path ? br_safetensors_open(path, NULL) : NULL;
    const bool ok = file && copy_weights(f, file, m);
    br_safetensors_close(file);
    br_scope_end(scope);
    br_free(path);
    return ok;
}

/* ---- Modules --------------------------------------------------------------------------------- */

static bool make_dense(br_sentence_module *m, const br_model_json *f, int64_t *dimension)
{
    int64_t in = *dimension, out;
    bool bias = true;
    if (!read_input_size(f, "in_features", in) || !read_size(f, "out_features", &out) ||
        !br__model_json_flag(f, "bias", &bias) || !read_activation(f, &m->activation) ||
        !br__model_json_flag(f, "use_residual", &m->adds_input))
        return false;
    m->linear = br_linear_new(in, out, bias);
    if (m->adds_input && in != out)
        m->residual = br_linear_new(in, out, false);
    *dimension = out;
    return !br_failed();
}

static bool make_layer_norm(br_sentence_module *m, const br_model_json *f, int64_t dimension)
{
    if (!read_input_size(f, "dimension", dimension))
        return false;
    m->norm = br_layer_norm_new(dimension, NULL);
    return !br_failed();
}

static bool make(br_sentence_module *m, const br_model_json *f, const char *folder,
                 int64_t *dimension)
{
    if (m->kind != BR_SENTENCE_DENSE && m->kind != BR_SENTENCE_LAYER_NORM)
        return true;
    const bool before = br_skip_init(true);
    bool ok = m->kind == BR_SENTENCE_DENSE ? make_dense(m, f, dimension)
                                           : make_layer_norm(m, f, *dimension);
    br_skip_init(before);
    return ok && load_weights(f, folder, m);
}

bool br__sentence_module_read(br_sentence_module *m, br_sentence_kind kind, const char *folder,
                              int64_t *dimension)
{
    *m = (br_sentence_module){ .kind = kind };
    const bool required = kind == BR_SENTENCE_DENSE || kind == BR_SENTENCE_LAYER_NORM;
    br_model_json f;
    const bool ok = br__model_json_open(op, &f, folder, "config.json", JSON_OBJECT, required) &&
                    check_names(&f) && make(m, &f, folder, dimension);
    br__model_json_close(&f);
    return ok;
}

void br__sentence_module_free(br_sentence_module *m)
{
    if (m->linear)
        br_module_free(m->linear);
    if (m->residual)
        br_module_free(m->residual);
    if (m->norm)
        br_module_free(m->norm);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Returns a weight in the dtype and on the device of x; NULL for NULL. */
static br_tensor *like(br_tensor *weight, const br_tensor *x)
{
    return weight ? br_to_device(br_to(weight, br_dtype_of(x)), br_device_of(x)) : NULL;
}

static br_tensor *linear(const br_linear *self, br_tensor *x)
{
    return br_f_linear(x, like(self->weight, x), like(self->bias, x));
}

static br_tensor *dense(const br_sentence_module *m, br_tensor *x)
{
    br_tensor *y = m->activation(linear(m->linear, x));
    if (!m->adds_input)
        return y;
    return br_add(y, m->residual ? linear(m->residual, x) : x);
}

/* Computes Dense with enough rows for products that do not depend on the number of rows. */
static br_tensor *dense_rows(const br_sentence_module *m, br_tensor *x)
{
    const int64_t n = br_size(x, 0);
    if (br_failed() || n == 0 || n >= ENOUGH_ROWS)
        return dense(m, x);
    br_tensor *rest = br_new_zeros(x, BR_SHAPE(ENOUGH_ROWS - n, br_size(x, 1)), br_dtype_of(x));
    return br_narrow(dense(m, br_cat(2, (br_tensor *[]){ x, rest }, 0)), 0, 0, n);
}

br_tensor *br__sentence_module_run(const br_sentence_module *m, br_tensor *rows)
{
    if (br_failed())
        return NULL;
    switch (m->kind) {
    case BR_SENTENCE_NORMALIZE:
        return br__normalize_rows(rows);
    case BR_SENTENCE_DENSE:
        return dense_rows(m, rows);
    case BR_SENTENCE_LAYER_NORM:
        return br_f_layer_norm(rows, BR_DIMS(br_size(rows, 1)), like(m->norm->weight, rows),
                               like(m->norm->bias, rows), m->norm->eps);
    default:
        return rows;
    }
}
