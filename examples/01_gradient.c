/* A gradient: y = x0^2 x1 + sin(x1) at x0 = 3, x1 = 1. Backward computes the derivatives, which the
 * program compares with those found by hand, and with finite differences. */
#include <brasa/brasa.h>
#include <math.h>

static br_tensor *f(br_tensor *const *x, int n, void *context)
{
    (void)context;
    return n == 2 ? br_add(br_mul(br_square(x[0]), x[1]), br_sin(x[1])) : NULL;
}

int main(void)
{
    br_scope *scope = br_scope_begin(); /* owns the tensors that are created until it ends */
    br_tensor *x0 = br_set_requires_grad(br_scalar(3, BR_F64), true);
    br_tensor *x1 = br_set_requires_grad(br_scalar(1, BR_F64), true);
    br_tensor *x[] = { x0, x1 };
    br_tensor *y = f(x, 2, NULL);
    br_backward(y);
    double d0 = br_item(br_grad_of(x0)), d1 = br_item(br_grad_of(x1));
    printf("y      = %.4f\n", br_item(y));
    printf("dy/dx0 = %.4f, by hand 2 x0 x1       = %.4f\n", d0, 2 * 3 * 1.0);
    printf("dy/dx1 = %.4f, by hand x0^2 + cos x1 = %.4f\n", d1, 9 + cos(1));
    bool good = br_gradcheck(f, NULL, 2, x, NULL);
    printf("gradients and finite differences %s\n", good ? "agree" : "differ");
    br_scope_end(scope);
    return br_report(stderr) || !good;
}
