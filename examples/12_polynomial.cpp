/* Fits sin(x) by a polynomial of the third degree in C++17, with operators on tensors, and errors
 * as exceptions. The parameters are tensors of their own, without a module. */
#include <brasa/brasa.hpp>
#include <cmath>
#include <cstdio>
#include <cstdlib>

using brasa::tensor;

/* Returns a + b x + c x^2 + d x^3 for w = [a, b, c, d]. */
static tensor polynomial(const tensor &w, const tensor &x)
{
    return w[0] + x * (w[1] + x * (w[2] + x * w[3]));
}

static tensor mean_square(const tensor &error)
{
    return tensor(br_mean(error * error));
}

static double fit()
{
    br_manual_seed(0);
    brasa::scope scope;
    tensor x(br_linspace(-3, 3, 200, BR_F32)), y(br_sin(x));
    tensor w(br_set_requires_grad(br_zeros(BR_SHAPE(4), BR_F32), true));
    for (int step = 0; step < 2000; step++) {
        brasa::scope step_scope;
        brasa::check(br_backward(mean_square(polynomial(w, x) - y)));
        {
            brasa::no_grad none;
            w -= 0.002 * tensor(br_grad_of(w));
        }
        br_zero_(br_grad_of(w));
    }
    brasa::no_grad none;
    std::printf("sin(x) = %.3f + %.3f x + %.3f x^2 + %.3f x^3\n", w[0].item(), w[1].item(),
                w[2].item(), w[3].item());
    return mean_square(polynomial(w, x) - y).item();
}

int main()
{
    try {
        double loss = fit();
        std::printf("mean square error %.4f\n", loss);
        return loss < 0.01 ? EXIT_SUCCESS : EXIT_FAILURE;
    } catch (const brasa::error &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return EXIT_FAILURE;
    }
}
