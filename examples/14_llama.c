/* A Llama in one file: rotary positions, heads that share keys and values, RMSNorm and a gated
 * feed-forward. It learns a text byte by byte and generates it. The argument is a text file;
 * without one, the program learns a poem. docs/zoo.md lists the pretrained models that are built
 * like it. */
#include <brasa/brasa.h>
#include <string.h>

enum { VOCAB = 256, WIDTH = 64, LAYERS = 2, HEADS = 4, SHARED = 2, HEAD = 16, INNER = 160 };
enum { CONTEXT = 64, BATCH = 16, STEPS = 200, PROMPT = 12, NEW = 107 };

static char text[1 << 20] = "Tyger Tyger, burning bright,\n"
                            "In the forests of the night;\n"
                            "What immortal hand or eye,\n"
                            "Could frame thy fearful symmetry?\n";

typedef struct layer {
    br_module base;
    br_rms_norm *norm_1, *norm_2;
    br_linear *q, *k, *v, *o, *gate, *up, *down;
} layer;

typedef struct llama {
    br_module base;
    br_embedding *embed;
    br_module_list *layers;
    br_rms_norm *norm;
} llama;

static layer *layer_new(void)
{
    layer *self = br_module_new(layer);
    self->norm_1 = br_child(self, "norm_1", br_rms_norm_new(WIDTH, NULL));
    self->q = br_child(self, "q", br_linear_new(WIDTH, HEADS * HEAD, false));
    self->k = br_child(self, "k", br_linear_new(WIDTH, SHARED * HEAD, false));
    self->v = br_child(self, "v", br_linear_new(WIDTH, SHARED * HEAD, false));
    self->o = br_child(self, "o", br_linear_new(HEADS * HEAD, WIDTH, false));
    self->norm_2 = br_child(self, "norm_2", br_rms_norm_new(WIDTH, NULL));
    self->gate = br_child(self, "gate", br_linear_new(WIDTH, INNER, false));
    self->up = br_child(self, "up", br_linear_new(WIDTH, INNER, false));
    self->down = br_child(self, "down", br_linear_new(INNER, WIDTH, false));
    return self;
}

static llama *llama_new(void)
{
    llama *self = br_module_new(llama);
    self->embed = br_child(self, "embed", br_embedding_new(VOCAB, WIDTH, -1));
    br_init_normal_(self->embed->weight, 0, 0.1);
    self->layers = br_child(self, "layers", br_module_list_new());
    for (int i = 0; i < LAYERS; i++)
        br_module_list_append(self->layers, layer_new());
    self->norm = br_child(self, "norm", br_rms_norm_new(WIDTH, NULL));
    return self;
}

/* Returns the heads [B, heads, S, HEAD] of x [B, S, WIDTH]. */
static br_tensor *heads(br_linear *projection, br_tensor *x)
{
    br_tensor *y = br_linear_forward(projection, x);
    return br_transpose(br_unflatten(y, -1, BR_SHAPE(-1, HEAD)), 1, 2);
}

static br_tensor *run_layer(layer *self, br_tensor *x, br_tensor *cos, br_tensor *sin)
{
    br_attention_options attention = br_attention_defaults();
    attention.is_causal = attention.enable_gqa = true;
    br_tensor *h = br_rms_norm_forward(self->norm_1, x);
    br_tensor *q = br_f_rotary_embedding(heads(self->q, h), cos, sin, false);
    br_tensor *k = br_f_rotary_embedding(heads(self->k, h), cos, sin, false);
    h = br_scaled_dot_product_attention(q, k, heads(self->v, h), NULL, &attention);
    x = br_add(x, br_linear_forward(self->o, br_flatten(br_transpose(h, 1, 2), 2, 3)));
    h = br_rms_norm_forward(self->norm_2, x);
    br_tensor *gated =
        br_mul(br_silu(br_linear_forward(self->gate, h)), br_linear_forward(self->up, h));
    return br_add(x, br_linear_forward(self->down, gated));
}

/* Returns the logits [B, S, VOCAB] of the byte after each byte of ids [B, S]. */
static br_tensor *run(llama *self, br_tensor *ids)
{
    br_tensor *x = br_embedding_forward(self->embed, ids), *cos, *sin;
    br_rope(br_arange(0, (double)br_size(ids, 1), 1, BR_I64), HEAD, BR_F32, NULL, &cos, &sin);
    for (int i = 0; i < LAYERS; i++)
        x = run_layer(br_module_list_at(self->layers, i), x, cos, sin);
    return br_f_linear(br_rms_norm_forward(self->norm, x), self->embed->weight, NULL); /* tied */
}

/* Returns the logits after the last CONTEXT bytes, for br_generate(). */
static br_tensor *next_byte(void *model, br_tensor *ids, br_tensor *mask, br_cache *cache)
{
    (void)mask, (void)cache;
    int64_t n = br_size(ids, 1) < CONTEXT ? br_size(ids, 1) : CONTEXT;
    return br_select(run(model, br_slice(ids, 1, -n, BR_ALL, 1)), 1, -1);
}

int main(int argc, char **argv)
{
    size_t n = strlen(text);
    if (argc > 1)
        n = freopen(argv[1], "rb", stdin) ? fread(text, 1, sizeof text, stdin) : 0;
    br_manual_seed(1);
    br_scope *whole = br_scope_begin();
    br_tensor *all = br_zeros(BR_SHAPE((int64_t)n), BR_I64);
    for (size_t i = 0; all && i < n; i++)
        br_data_i64(all)[i] = (unsigned char)text[i];
    llama *model = llama_new();
    br_optim *adam = br_adamw(br_base(model), BR_OPTIONS(br_adamw, .lr = 0.004));
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *first = br_randint(0, br_numel(all) - CONTEXT + 1, BR_SHAPE(BATCH, 1));
        br_tensor *ids = br_take(all, br_add(first, br_arange(0, CONTEXT, 1, BR_I64)));
        br_tensor *loss = br_causal_lm_loss(run(model, ids), ids);
        br_optim_zero_grad(adam);
        br_backward(loss);
        br_optim_step(adam);
        if (step % 50 == 0)
            printf("step %3d: loss %.2f\n", step, br_item(loss));
        br_scope_end(scope);
    }
    br_language_model lm = { .model = model, .next = next_byte, .no_cache = true };
    br_tensor *ids = br_generate(&lm, br_reshape(br_narrow(all, 0, 0, PROMPT), BR_SHAPE(1, PROMPT)),
                                 BR_OPTIONS(br_generate, .max_new_tokens = NEW));
    for (int64_t i = 0; ids && i < PROMPT + NEW; i++)
        putchar((int)br_data_i64(ids)[i]);
    br_optim_free(adam);
    br_module_free(model);
    br_scope_end(whole);
    br_thread_cleanup();
    return br_report(stderr);
}
