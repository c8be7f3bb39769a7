/* A custom module: an attention head, softmax(q k^T / sqrt(d)) v, learns to find the marked row and
 * to copy it to every row. Its gradient is checked against finite differences. */
#include <brasa/brasa.h>
#include <math.h>

enum { BATCH = 32, ROWS = 6, WIDTH = 4, STEPS = 200 };

typedef struct head {
    br_module base;
    br_linear *q, *k, *v;
} head;

static head *head_new(int64_t embed_dim, int64_t head_dim)
{
    head *self = br_module_new(head);
    self->q = br_child(self, "q", br_linear_new(embed_dim, head_dim, true));
    self->k = br_child(self, "k", br_linear_new(embed_dim, head_dim, true));
    self->v = br_child(self, "v", br_linear_new(embed_dim, head_dim, true));
    return self;
}

static br_tensor *head_forward(head *self, br_tensor *x, br_tensor *mask)
{
    br_enter(self);
    br_tensor *q = br_linear_forward(self->q, x);
    br_tensor *k = br_linear_forward(self->k, x);
    br_tensor *v = br_linear_forward(self->v, x);
    double scale = sqrt((double)br_size(k, -1));
    br_tensor *scores = br_div_scalar(br_bmm(q, br_transpose(k, 1, 2)), scale);
    if (mask)
        scores = br_masked_fill(scores, mask, -INFINITY);
    br_tensor *weights = br_tap_attention(q, k, br_softmax(scores, -1), false);
    return br_leave(self, br_bmm(weights, v));
}

/* Creates random rows, each preceded by a mark of 0 or 1. The target is the row with mark 1. */
static br_tensor *make_batch(br_tensor **target)
{
    br_tensor *rows = br_randn(BR_SHAPE(BATCH, ROWS, WIDTH), BR_F32);
    br_tensor *place = br_randint(0, ROWS, BR_SHAPE(BATCH, 1));
    br_tensor *mark = br_to(br_eq(br_arange(0, ROWS, 1, BR_I64), place), BR_F32);
    *target = br_bmm(br_unsqueeze(mark, 1), rows);
    return br_cat(BR_INPUTS(br_unsqueeze(mark, 2), rows), 2);
}

/* The head as a function for br_gradcheck(). The parameters, inputs 1 to 6, are already in the
 * model. */
static br_tensor *as_function(br_tensor *const *inputs, int n, void *model)
{
    return n == 7 ? head_forward(model, inputs[0], NULL) : NULL;
}

int main(void)
{
    br_manual_seed(1);
    head *model = head_new(WIDTH + 1, WIDTH);
    br_optim *adam = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 0.02));
    double last = INFINITY;
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *target, *x = make_batch(&target);
        br_tensor *error = br_sub(head_forward(model, x, NULL), target);
        br_tensor *loss = br_mean(br_mul(error, error));
        br_optim_zero_grad(adam);
        br_backward(loss);
        br_optim_step(adam);
        last = br_item(loss);
        br_scope_end(scope);
    }
    printf("loss after %d steps: %.6f\n", STEPS, last);
    br_module_to(br_base(model), BR_F64); /* finite differences need double precision */
    br_linear *q = model->q, *k = model->k, *v = model->v;
    br_tensor *x = br_set_requires_grad(br_randn(BR_SHAPE(2, 3, WIDTH + 1), BR_F64), true);
    br_gradcheck(as_function, model,
                 BR_INPUTS(x, q->weight, q->bias, k->weight, k->bias, v->weight, v->bias), NULL);
    br_optim_free(adam);
    br_module_free(model);
    br_thread_cleanup();
    return br_report(stderr) || !(last < 0.002);
}
