/* The XOR network: the result is 1 if exactly one of the two inputs is 1. A single linear layer
 * cannot learn this function; two with a tanh between them can. Modules own the parameters, and an
 * optimizer updates them. */
#include <brasa/brasa.h>

enum { HIDDEN = 8, STEPS = 300 };

static const float pairs[4][2] = { { 0, 0 }, { 0, 1 }, { 1, 0 }, { 1, 1 } };
static const float answers[4] = { 0, 1, 1, 0 };

int main(void)
{
    br_manual_seed(0);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_from_f32(BR_SHAPE(4, 2), pairs[0]);
    br_tensor *y = br_from_f32(BR_SHAPE(4, 1), answers);
    br_sequential *model = br_sequential_new(
        BR_MODULES(br_linear_new(2, HIDDEN, true), br_tanh_new(), br_linear_new(HIDDEN, 1, true)));
    br_optim *adam = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 0.05));
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *inner = br_scope_begin();
        br_tensor *logits = br_sequential_forward(model, x);
        br_tensor *loss =
            br_binary_cross_entropy_with_logits(logits, y, NULL, BR_REDUCTION_MEAN, NULL);
        br_optim_zero_grad(adam);
        br_backward(loss);
        br_optim_step(adam);
        if (step % 100 == 0)
            printf("step %3d: loss %.4f\n", step, br_item(loss));
        br_scope_end(inner);
    }
    br_scope *unrecorded = br_no_grad_begin();
    br_tensor *found = br_gt_scalar(br_sequential_forward(model, x), 0);
    int right = 0;
    for (int i = 0; i < 4 && !br_failed(); i++) {
        bool is = br_at(found, BR_SHAPE(i, 0)) != 0;
        right += is == (answers[i] != 0);
        printf("%g xor %g = %d\n", pairs[i][0], pairs[i][1], is);
    }
    br_scope_end(unrecorded);
    br_optim_free(adam);
    br_module_free(model);
    br_scope_end(scope);
    return br_report(stderr) || right != 4;
}
