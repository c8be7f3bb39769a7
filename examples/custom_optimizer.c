/* An optimizer of one's own: Lion, which steps by the sign of a momentum, of tensors and operations
 * alone; beside Adam on the same data it learns where points lie on two spirals. Chen et al., 2023.
 */
#include <brasa/brasa.h>
#include <math.h>
#include <stdlib.h>

enum { POINTS = 400, HIDDEN = 48, STEPS = 400 };

typedef struct lion {
    br_named_list *parameters;
    br_tensor **momentum; /* one a parameter, held */
    double beta1, beta2;
} lion;

static lion lion_new(br_module *model)
{
    lion self = { .parameters = br_parameters(model), .beta1 = 0.9, .beta2 = 0.99 };
    int64_t n = self.parameters ? self.parameters->count : 0;
    self.momentum = calloc((size_t)n + 1, sizeof *self.momentum);
    br_scope *scope = br_scope_begin();
    for (int64_t i = 0; self.momentum && i < n; i++)
        self.momentum[i] = br_retain(br_zeros_like(self.parameters->items[i].tensor));
    br_scope_end(scope);
    return self;
}

static void lion_free(lion *self)
{
    for (int64_t i = 0; self->momentum && self->parameters && i < self->parameters->count; i++)
        br_release(self->momentum[i]);
    free(self->momentum);
    br_named_list_free(self->parameters);
}

/* p -= lr sign(beta1 m + (1 - beta1) g), then m = beta2 m + (1 - beta2) g */
static void lion_step(lion *self, double lr)
{
    br_scope *scope = br_no_grad_begin();
    for (int64_t i = 0; !br_failed() && i < self->parameters->count; i++) {
        br_tensor *p = self->parameters->items[i].tensor, *m = self->momentum[i];
        br_tensor *g = br_grad_of(p);
        if (!g)
            continue;
        br_tensor *direction = br_sign(br_lerp_scalar(g, m, self->beta1));
        br_add_(p, br_mul_scalar(direction, -lr));
        br_copy_(m, br_lerp_scalar(g, m, self->beta2));
    }
    br_scope_end(scope);
}

/* Two arms that wind around each other; the class of a point is its arm. */
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

/* Trains by Lion, or by Adam where it is NULL; returns the part of points whose arm is found. */
static double train(br_sequential *model, lion *own, br_tensor *points, br_tensor *arms)
{
    br_optim *adam = own ? NULL : br_adam(br_base(model), &(br_adam_options){ .lr = 0.01 });
    double right = 0;
    for (int step = 0; step < STEPS && !br_failed(); step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *scores = br_sequential_forward(model, points);
        br_zero_grad(br_base(model));
        br_backward(br_cross_entropy(scores, arms, NULL));
        if (adam)
            br_optim_step(adam);
        else
            lion_step(own, 0.005 * (1 - (double)step / STEPS));
        br_tensor *found = br_eq(br_argmax(scores, -1, false), arms);
        right = br_item(br_mean(br_to(found, BR_F32)));
        br_scope_end(scope);
    }
    br_optim_free(adam);
    return right;
}

int main(void)
{
    br_scope *scope = br_scope_begin();
    br_tensor *arms, *points = make_spirals(&arms);
    br_sequential *first = make_model(), *second = make_model();
    lion own = lion_new(br_base(first));
    double by_lion = train(first, &own, points, arms), by_adam = train(second, NULL, points, arms);
    printf("two spirals, %d steps: Lion finds %.1f %% of the points' arms, Adam %.1f %%\n", STEPS,
           100 * by_lion, 100 * by_adam);
    lion_free(&own);
    br_free_module(first);
    br_free_module(second);
    br_scope_end(scope);
    br_thread_cleanup();
    return br_report(stderr) || !(by_lion > 0.97);
}
