/* Differentially private training, DP-SGD (Abadi et al., 2016): the gradient of each sample is
 * clipped to a norm, the sum of all gets noise, and so no sample can change the model much. The
 * gradients of all samples come from one backward pass, br_per_sample_grad(). */
#include <brasa/brasa.h>
#include <stdio.h>

enum { SAMPLES = 512, BATCH = 64, STEPS = 200 };
static const double clip = 1, noise = 1; /* largest norm, and deviation of the noise in norms */

/* Two classes of points: inside and outside of a circle. */
static void make_points(br_tensor **points, br_tensor **labels)
{
    *points = br_mul_scalar(br_randn(BR_SHAPE(SAMPLES, 2), BR_F32), 1.2);
    br_tensor *radius = br_norm_dim(*points, 2, BR_DIMS(1), false);
    *labels = br_to(br_gt_scalar(radius, 1.4), BR_I64);
}

static br_tensor *loss_of(br_tensor *const *inputs, int n, void *model)
{
    (void)n;
    return br_cross_entropy(br_forward(model, inputs[0]), inputs[1], NULL);
}

/* Returns the norms [batch] of the samples' gradients, each over all parameters. */
static br_tensor *norms_of(const br_named_list *grads)
{
    br_tensor *squares = NULL;
    for (int64_t i = 0; i < grads->count; i++) {
        br_tensor *flat = br_flatten(grads->items[i].tensor, 1, -1);
        br_tensor *sum = br_sum_dim(br_square(flat), BR_DIMS(1), false);
        squares = squares ? br_add(squares, sum) : sum;
    }
    return br_sqrt(squares);
}

/* Sets the parameters' gradients to the noisy mean of the clipped gradients. */
static void set_private_gradients(br_module *model, const br_named_list *grads)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *factors = br_clamp(br_rdiv_scalar(norms_of(grads), clip), 0, 1);
    for (int64_t i = 0; i < grads->count; i++) {
        br_tensor *parameter = br_module_get(model, grads->items[i].name);
        br_tensor *flat = br_flatten(grads->items[i].tensor, 1, -1);
        br_tensor *sum = br_mv(br_t(flat), factors);
        br_tensor *random = br_mul_scalar(br_randn_like(sum), clip * noise);
        br_tensor *mean = br_div_scalar(br_add(sum, random), BATCH);
        br_set_grad(parameter, br_reshape(mean, br_ndim(parameter), br_sizes(parameter)));
    }
    br_scope_end(scope);
}

/* One step with samples that are drawn at random. */
static void step(void *model, br_optim *optim, br_tensor *points, br_tensor *labels)
{
    br_scope *scope = br_scope_begin();
    br_tensor *drawn = br_narrow(br_randperm(SAMPLES), 0, 0, BATCH);
    br_tensor *batch[] = { br_index_select(points, 0, drawn), br_index_select(labels, 0, drawn) };
    br_named_list *grads =
        br_per_sample_grad(model, loss_of, model, 2, batch,
                           BR_OPTIONS(br_per_sample, .loss_reduction = BR_REDUCTION_MEAN));
    if (grads)
        set_private_gradients(model, grads);
    br_optim_step(optim);
    br_named_list_free(grads);
    br_scope_end(scope);
}

static double accuracy(void *model, br_tensor *points, br_tensor *labels)
{
    br_scope *scope = br_no_grad_begin();
    br_tensor *right = br_eq(br_argmax(br_forward(model, points), -1, false), labels);
    double mean = br_item(br_mean(br_to(right, BR_F32)));
    br_scope_end(scope);
    return mean;
}

int main(void)
{
    br_scope *scope = br_scope_begin();
    br_manual_seed(1);
    br_tensor *points, *labels;
    make_points(&points, &labels);
    br_sequential *model = br_sequential_new(
        BR_MODULES(br_linear_new(2, 16, true), br_tanh_new(), br_linear_new(16, 2, true)));
    br_optim *optim = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 0.02));
    for (int i = 0; i < STEPS && !br_failed(); i++)
        step(model, optim, points, labels);
    double share = accuracy(model, points, labels);
    printf("accuracy with private gradients: %s\n", share > 0.9 ? "over 90 %" : "too low");
    br_optim_free(optim);
    br_module_free(model);
    br_scope_end(scope);
    if (br_failed())
        fprintf(stderr, "%s\n", br_error_message());
    return br_failed() ? 1 : 0;
}
