/* A small vision transformer (Dosovitskiy et al., 2021): a convolution embeds the patches of an
 * image, an encoder attends over the patches and a class token, and a linear layer predicts the
 * class from that token. It learns the direction of a line in a noisy image. */
#include <brasa/brasa.h>

enum { SIZE = 16, PATCH = 4, TOKENS = SIZE / PATCH * (SIZE / PATCH), WIDTH = 32 };
enum { CLASSES = 4, BATCH = 32, STEPS = 150, IMAGES = 256 };
static const char *const names[CLASSES] = { "across", "down", "falling", "rising" };

typedef struct vit {
    br_module base;
    br_conv *patches;
    br_tensor *class_token, *positions; /* [1, 1, WIDTH] and [1, 1 + TOKENS, WIDTH] */
    br_transformer_encoder *encoder;
    br_linear *head;
} vit;

static vit *vit_new(void)
{
    vit *self = br_module_new(vit);
    br_scope *scope = br_scope_begin();
    self->patches = br_child(self, "patches",
                             br_conv2d_new(1, WIDTH, PATCH, PATCH, true,
                                           BR_OPTIONS(br_conv, .stride = BR_PAIR(PATCH, PATCH))));
    self->class_token = br_parameter(self, "class_token", br_zeros(BR_SHAPE(1, 1, WIDTH), BR_F32));
    self->positions = br_parameter(
        self, "positions", br_mul_scalar(br_randn(BR_SHAPE(1, 1 + TOKENS, WIDTH), BR_F32), 0.1));
    self->encoder =
        br_child(self, "encoder",
                 br_transformer_encoder_new(WIDTH, 4, 2, true,
                                            BR_OPTIONS(br_transformer, .dim_feedforward = 2 * WIDTH,
                                                       .gelu = true, .batch_first = true,
                                                       .norm_first = true)));
    self->head = br_child(self, "head", br_linear_new(WIDTH, CLASSES, true));
    br_scope_end(scope);
    return self;
}

/* images [N, 1, SIZE, SIZE] -> scores [N, CLASSES] */
static br_tensor *vit_forward(vit *self, br_tensor *images)
{
    br_enter(self);
    br_tensor *x = br_conv_forward(self->patches, images);
    x = br_transpose(br_flatten(x, 2, 3), 1, 2);
    br_tensor *class = br_expand(self->class_token, BR_SHAPE(br_size(x, 0), 1, WIDTH));
    x = br_add(br_cat(BR_INPUTS(class, x), 1), self->positions);
    x = br_transformer_encoder_forward(self->encoder, x, NULL, NULL, false);
    return br_leave(self, br_linear_forward(self->head, br_select(x, 1, 0)));
}

/* Creates noisy images, each with a line through a random place. */
static br_tensor *make_images(int64_t n, br_tensor **classes)
{
    br_tensor *images = br_mul_scalar(br_randn(BR_SHAPE(n, 1, SIZE, SIZE), BR_F32), 0.5);
    br_tensor *places = br_randint(0, SIZE, BR_SHAPE(n));
    *classes = br_randint(0, CLASSES, BR_SHAPE(n));
    for (int64_t i = 0; i < n && !br_failed(); i++) {
        float *image = br_data_f32(images) + i * SIZE * SIZE;
        int64_t class = br_data_i64(*classes)[i], place = br_data_i64(places)[i];
        for (int64_t k = 0; k < SIZE; k++) {
            int64_t other = (class == 2 ? place + k : place + SIZE - k) % SIZE;
            image[class == 0 ? place * SIZE + k : k * SIZE + (class == 1 ? place : other)] += 1.5f;
        }
    }
    return images;
}

static void show(br_tensor *images, int64_t i)
{
    for (int64_t y = 0; y < SIZE && !br_failed(); y++) {
        for (int64_t x = 0; x < SIZE; x++) {
            float value = br_data_f32(images)[(i * SIZE + y) * SIZE + x];
            printf("%s", value > 1 ? "##" : value > 0.5f ? "::" : "  ");
        }
        printf("\n");
    }
}

/* Returns the accuracy on new images; shows one of them. */
static double test(vit *model)
{
    br_scope *scope = br_no_grad_begin();
    br_eval(br_base(model));
    br_tensor *classes, *images = make_images(IMAGES, &classes);
    br_tensor *found = br_argmax(vit_forward(model, images), -1, false);
    double right = br_item(br_mean(br_to(br_eq(found, classes), BR_F32)));
    show(images, 0);
    if (!br_failed())
        printf("direction: %s, predicted: %s\n", names[br_data_i64(classes)[0]],
               names[br_data_i64(found)[0]]);
    br_scope_end(scope);
    return right;
}

int main(void)
{
    br_manual_seed(2);
    vit *model = vit_new();
    br_optim *adam = br_adamw(br_base(model), BR_OPTIONS(br_adamw, .lr = 3e-3));
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *classes, *images = make_images(BATCH, &classes);
        br_tensor *loss = br_cross_entropy(vit_forward(model, images), classes, NULL);
        br_optim_zero_grad(adam);
        br_backward(loss);
        br_optim_step(adam);
        if (step % 30 == 0)
            printf("step %3d: loss %.4f\n", step, br_item(loss));
        br_scope_end(scope);
    }
    double right = test(model);
    printf("accuracy on %d new images: %.1f %%\n", IMAGES, 100 * right);
    br_optim_free(adam);
    br_module_free(model);
    br_thread_cleanup();
    return br_report(stderr) || !(right > 0.9);
}
