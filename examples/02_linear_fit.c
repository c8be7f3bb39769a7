/* A linear fit: gradient descent finds the slope and the intercept of a line from noisy points. The
 * parameters are plain tensors, and the update is written out, without module and optimizer. */
#include <brasa/brasa.h>
#include <math.h>

enum { POINTS = 200, STEPS = 100 };

/* p -= rate * p.grad, without recording; then the gradient is cleared. */
static void descend(br_tensor *p, double rate)
{
    br_scope *scope = br_no_grad_begin();
    br_sub_(p, br_mul_scalar(br_grad_of(p), rate));
    br_zero_(br_grad_of(p));
    br_scope_end(scope);
}

int main(void)
{
    br_manual_seed(0);
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_linspace(-1, 1, POINTS, BR_F32);
    br_tensor *noise = br_mul_scalar(br_randn(BR_SHAPE(POINTS), BR_F32), 0.1);
    br_tensor *y = br_add(br_add_scalar(br_mul_scalar(x, 2), 1), noise); /* y = 2 x + 1 + noise */
    br_tensor *slope = br_set_requires_grad(br_scalar(0, BR_F32), true);
    br_tensor *intercept = br_set_requires_grad(br_scalar(0, BR_F32), true);
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *inner = br_scope_begin(); /* frees the tensors of this step when it ends */
        br_tensor *error = br_sub(br_add(br_mul(x, slope), intercept), y);
        br_tensor *loss = br_mean(br_square(error));
        br_backward(loss);
        if (step == 1 || step % 25 == 0)
            printf("step %3d: loss %.4f\n", step, br_item(loss));
        descend(slope, 0.2);
        descend(intercept, 0.2);
        br_scope_end(inner);
    }
    double a = br_item(slope), b = br_item(intercept);
    printf("y = %.2f x + %.2f\n", a, b);
    br_scope_end(scope);
    return br_report(stderr) || !(fabs(a - 2) < 0.05 && fabs(b - 1) < 0.05);
}
