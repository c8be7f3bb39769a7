/* A custom optimizer: Lion, which steps by the sign of a momentum (Chen et al., 2023). It consists
 * of a descriptor and a function of tensors, and works with parameter groups, schedulers, clipping
 * and checkpoints like the library's own optimizers. The program compares it with Adam on a
 * classification of the points of two spirals. */
#include <brasa/brasa.h>
#include <math.h>
#include <stddef.h>

enum { POINTS = 400, HIDDEN = 48, STEPS = 400 };

typedef struct lion_options {
    size_t struct_size; /* struct_size and lr must come first */
    double lr;
    double beta1, beta2, weight_decay;
} lion_options;
#define lion_default_fields \
    .struct_size = sizeof(lion_options), .lr = 1e-4, .beta1 = 0.9, .beta2 = 0.99
static const lion_options lion_defaults = { lion_default_fields };

/* p = (1 - lr weight_decay) p - lr sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g
 */
static bool lion_step(br_optim_work *work)
{
    const lion_options *o = work->options;
    br_tensor *p = work->param, *g = work->grad, *m = work->state[0];
    br_tensor *direction = br_sign(br_lerp_scalar(g, m, o->beta1));
    work->new_param =
        br_sub(br_mul_scalar(p, 1 - o->lr * o->weight_decay), br_mul_scalar(direction, o->lr));
    work->new_state[0] = br_lerp_scalar(g, m, o->beta2);
    return !br_failed();
}

static const br_optim_kind lion = {
    .name = "lion",
    .defaults = &lion_defaults,
    .momentum = offsetof(lion_options, beta1),
    .states = { { .name = "exp_avg" } },
    .step = lion_step,
};

/* Creates two intertwined spirals; the class of a point is its spiral. */
static br_tensor *make_spirals(br_tensor **arms)
{
    br_tensor *points = br_zeros(BR_SHAPE(POINTS, 2), BR_F32);
    *arms = br_zeros(BR_SHAPE(POINTS), BR_I64);
    for (int i = 0; i < POINTS && !br_failed(); i++) {
        int arm = i % 2;
        double t = (double)i / POINTS, angle = 9 * t + arm * 3.14159265;
        br_data_f32(points)[2 * i] = (float)(t * cos(angle));
        br_data_f32(points)[2 * i + 1] = (float)(t * sin(angle));
        br_data_i64(*arms)[i] = arm;
    }
    return points;
}

static br_sequential *make_model(void)
{
    br_manual_seed(3);
    return br_sequential_new(BR_MODULES(br_linear_new(2, HIDDEN, true), br_silu_new(),
                                        br_linear_new(HIDDEN, HIDDEN, true), br_silu_new(),
                                        br_linear_new(HIDDEN, 2, true)));
}

/* Trains with a linearly decreasing rate; returns the fraction of points classified correctly. */
static double train(br_sequential *model, br_optim *optim, br_tensor *points, br_tensor *arms)
{
    br_scheduler *scheduler = br_linear_lr(optim, 1, 1e-3, STEPS);
    double right = 0;
    for (int step = 0; step < STEPS && !br_failed(); step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *scores = br_sequential_forward(model, points);
        br_optim_zero_grad(optim);
        br_backward(br_cross_entropy(scores, arms, NULL));
        br_module_clip_grad_norm_(br_base(model), 1, 2, false);
        br_optim_step(optim);
        br_scheduler_step(scheduler);
        br_tensor *found = br_eq(br_argmax(scores, -1, false), arms);
        right = br_item(br_mean(br_to(found, BR_F32)));
        br_scope_end(scope);
    }
    br_scheduler_free(scheduler);
    br_optim_free(optim);
    return right;
}

int main(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *arms, *points = make_spirals(&arms);
    br_sequential *first = make_model(), *second = make_model();
    br_optim *own = br_optim_for(&lion, br_base(first), BR_OPTIONS(lion, .lr = 0.005));
    br_optim *adam = br_adam(br_base(second), BR_OPTIONS(br_adam, .lr = 0.01));
    double by_lion = train(first, own, points, arms), by_adam = train(second, adam, points, arms);
    printf("two spirals, %d steps: accuracy %.1f %% with Lion, %.1f %% with Adam\n", STEPS,
           100 * by_lion, 100 * by_adam);
    br_module_free(first);
    br_module_free(second);
    br_scope_end(scope);
    br_thread_cleanup();
    return br_report(stderr) || !(by_lion > 0.97);
}
