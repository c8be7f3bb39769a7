/* tests/cpp/test_cpp.cpp - uses the headers from C++17: lists, options, a custom module, and
 * brasa.hpp. Exits with 0, or prints the failed condition. */
#include <brasa/brasa.hpp>
#include <cmath>
#include <cstdio>
#include <vector>

#define require(condition)                                                          \
    do {                                                                            \
        if (!(condition)) {                                                         \
            std::fprintf(stderr, "%s:%d: %s\n%s\n", __FILE__, __LINE__, #condition, \
                         br_error_message());                                       \
            return false;                                                           \
        }                                                                           \
    } while (0)

/* ---- Lists and options ------------------------------------------------------------------------
 */

static int calls;

static br_tensor *counted(br_tensor *t)
{
    calls++;
    return t;
}

static bool lists()
{
    brasa::scope scope;
    int rows = 2;
    std::vector<float> values(6, 1.5f);
    br_tensor *x = br_from_f32(BR_SHAPE(rows, values.size() / 2), values.data());
    require(br_ndim(x) == 2 && br_size(x, 0) == 2 && br_size(x, 1) == 3);
    br_tensor *both = br_cat(BR_INPUTS(counted(x), x, counted(x)), 0);
    require(calls == 2); /* each argument is evaluated once */
    require(br_size(both, 0) == 6 && br_item(br_sum(both)) == 27);
    require(br_ndim(br_permute(both, BR_DIMS(1, 0))) == 2);
    require(br_ndim(br_zeros(BR_SCALAR, BR_F64)) == 0);
    return true;
}

static bool options()
{
    auto linear = brasa::own(br_linear_new(2, 1, true));
    auto adam = brasa::own(br_adam(br_base(linear), BR_OPTIONS(br_adam, .lr = 0.25, .eps = 0)));
    require(br_optim_get_lr(adam.get(), 0) == 0.25);
    adam = brasa::own(
        br_adam(br_base(linear), brasa::options(br_adam_defaults()).set(&br_adam_options::lr, 2)));
    require(br_optim_get_lr(adam.get(), 0) == 2);
    brasa::scope scope;
    br_tensor *x = br_ones(BR_SHAPE(1, 1, 4, 4), BR_F32);
    br_tensor *y = br_f_max_pool2d(
        x, BR_OPTIONS(br_pool, .kernel_size = BR_PAIR(2, 4), .stride = BR_PAIR(1, 1)), nullptr);
    require(br_size(y, 2) == 3 && br_size(y, 3) == 1);
    br_sgd_options bare{};
    require(!br_sgd(br_base(linear), &bare));
    require(br_failed());
    br_clear_error();
    return true;
}

/* ---- A custom module --------------------------------------------------------------------------
 */

struct mlp {
    br_module base;
    br_linear *fc1, *fc2;
    br_tensor *scale;
};

static br_tensor *mlp_forward(void *module, br_tensor *x)
{
    auto *self = static_cast<mlp *>(module);
    br_enter(self);
    br_tensor *h = br_relu(br_linear_forward(self->fc1, x));
    return br_leave(self, br_mul(br_linear_forward(self->fc2, h), self->scale));
}

static mlp *mlp_new(int64_t in, int64_t hidden)
{
    mlp *self = br_module_new(mlp);
    br_module_set_forward(br_base(self), mlp_forward);
    self->fc1 = br_child(self, "fc1", br_linear_new(in, hidden, true));
    self->fc2 = br_child(self, "fc2", br_linear_new(hidden, 1, true));
    brasa::scope scope;
    self->scale = br_parameter(self, "scale", br_ones(BR_SHAPE(1), BR_F32));
    return self;
}

static bool modules()
{
    br_manual_seed(0);
    auto model = brasa::own(br_sequential_new(BR_MODULES(mlp_new(3, 8), br_tanh_new())));
    auto sgd = brasa::own(
        br_sgd(br_base(model), BR_OPTIONS(br_sgd, .lr = 0.1, .momentum = 0.9, .nesterov = true)));
    brasa::scope data;
    br_tensor *x = br_randn(BR_SHAPE(16, 3), BR_F32);
    br_tensor *target = br_tanh(br_sum_dim(x, BR_DIMS(1), true));
    double first = 0, last = 0;
    for (int step = 0; step < 60; step++) {
        brasa::scope scope;
        br_tensor *loss =
            brasa::check(br_mse_loss(br_forward(model.get(), x), target, BR_REDUCTION_MEAN));
        br_optim_zero_grad(sgd.get());
        br_backward(loss);
        br_optim_step(sgd.get());
        last = br_item(loss);
        first = step == 0 ? last : first;
    }
    require(last < 0.2 * first);
    brasa::no_grad constant;
    require(!br_requires_grad(br_forward(model.get(), x)));
    return true;
}

/* ---- Owners and exceptions --------------------------------------------------------------------
 */

static bool owners()
{
    int64_t before = br_live_tensors();
    {
        brasa::tensor kept;
        {
            brasa::scope scope;
            kept = brasa::tensor(br_full(BR_SHAPE(2), 3, BR_F32));
        }
        brasa::tensor copy = kept;
        kept = brasa::tensor();
        require(br_item(br_sum(copy)) == 6);
        br_thread_cleanup();
        require(br_live_tensors() == before + 1);
    }
    require(br_live_tensors() == before);
    try {
        brasa::scope scope;
        brasa::check(br_add(br_ones(BR_SHAPE(2), BR_F32), br_ones(BR_SHAPE(3), BR_F32)));
        require(false); /* check() must throw */
    } catch (const brasa::error &e) {
        require(e.code() == BR_ERROR_SHAPE);
        require(std::string(e.what()).find("[2]") != std::string::npos);
    }
    require(!br_failed());
    return true;
}

/* ---- Operators ------------------------------------------------------------------------------- */

static bool equals(br_tensor *t, double first, double second)
{
    return br_numel(t) == 2 && br_item(br_select(t, 0, 0)) == first &&
           br_item(br_select(t, 0, 1)) == second;
}

static bool operators()
{
    brasa::scope scope;
    const float three_four[] = { 3, 4 }, two_eight[] = { 2, 8 };
    const brasa::tensor a(br_from_f32(BR_SHAPE(2), three_four));
    const brasa::tensor b(br_from_f32(BR_SHAPE(2), two_eight));
    require(equals(a + b, 5, 12) && equals(a - b, 1, -4) && equals(a * b, 6, 32));
    require(equals(a / b, 1.5, 0.5) && equals(-a, -3, -4));
    require(equals(a + 1, 4, 5) && equals(a - 1L, 2, 3) && equals(a * 2.0f, 6, 8));
    require(equals(a / 2, 1.5, 2) && equals(1 + a, 4, 5) && equals(1 - a, -2, -3));
    require(equals(2 * a, 6, 8) && equals(1.0 / b, 0.5, 0.125));
    require(a[0].item() == 3 && a[std::int64_t{ -1 }].item() == 4);

    brasa::tensor c(br_clone(a));
    br_tensor *elements = c;
    c += b;
    require(equals(c, 5, 12));
    c -= a;
    c *= a;
    require(equals(c, 6, 32));
    c /= b;
    c += 1;
    c *= 2;
    c -= 2;
    c /= 2;
    require(equals(c, 3, 4) && elements == c); /* changed in place */

    brasa::tensor x(br_set_requires_grad(br_clone(a), true));
    brasa::check(br_backward(br_sum(x * x / 2 - x)));
    require(equals(br_grad_of(x), 2, 3));
    try {
        brasa::tensor sum = a + brasa::tensor(br_ones(BR_SHAPE(3), BR_F32));
        require(false); /* the operator must throw */
    } catch (const brasa::error &e) {
        require(e.code() == BR_ERROR_SHAPE);
    }
    try {
        x += 1;
        require(false); /* a leaf that requires grad */
    } catch (const brasa::error &e) {
        require(e.code() == BR_ERROR_STATE);
    }
    return true;
}

/* ---- Large integers, and numbers that are no integers ---------------------------------------- */

template <class T, class I, class = void> struct has_element : std::false_type {
};
template <class T, class I>
struct has_element<T, I, std::void_t<decltype(std::declval<const T &>()[std::declval<I>()])>>
    : std::true_type {
};
static_assert(has_element<brasa::tensor, int>::value && has_element<brasa::tensor, short>::value);
static_assert(has_element<brasa::tensor, std::size_t>::value);
static_assert(!has_element<brasa::tensor, double>::value, "a[1.7] must not compile");
static_assert(!has_element<brasa::tensor, float>::value &&
              !has_element<brasa::tensor, bool>::value);

/* Calls f, which must throw an error of an argument. */
template <class F> static bool refuses(F f)
{
    try {
        f();
    } catch (const brasa::error &e) {
        return e.code() == BR_ERROR_ARGUMENT || e.code() == BR_ERROR_DTYPE;
    }
    return false;
}

static bool large_integers()
{
    brasa::scope scope;
    const long long large = 9007199254740993; /* 2^53 + 1, which no double holds */
    const std::int64_t one = 1;
    const brasa::tensor a(br_from_i64(BR_SCALAR, &one));
    require((a + large).item_i64() == large + 1 && (large + a).item_i64() == large + 1);
    require((a - large).item_i64() == 1 - large && (large - a).item_i64() == large - 1);
    require((a * large).item_i64() == large && (large * a).item_i64() == large);
    require((a + (-large)).item_i64() == 1 - large && (a + 2).item() == 3);
    require((a + static_cast<unsigned long long>(large)).item_i64() == large + 1);
    require(br_dtype_of(a / large) == BR_F32 && (large / a).item() == 9007199254740992.0);
    brasa::tensor b(br_clone(a));
    b += large;
    require(b.item_i64() == large + 1);
    b -= large;
    b *= large;
    require(b.item_i64() == large && refuses([&] { b.item(); }));
    require((a * INT64_MAX).item_i64() == INT64_MAX && (a * (1LL << 60)).item() == 0x1p60);
    require(refuses([&] { a + UINT64_MAX; }) && br_dtype_of(a + 0.5) == BR_F32);
    const brasa::tensor f(br_ones(BR_SHAPE(2), BR_F64));
    require((f + large)[0].item() == 9007199254740992.0);
    require(refuses([&] { f[SIZE_MAX]; }));
    return true;
}

static bool integer_options()
{
    brasa::option_builder<br_generate_options> o(br_generate_defaults());
    o.set(&br_generate_options::max_new_tokens, 2u).set(&br_generate_options::top_p, 1);
    o.set(&br_generate_options::do_sample, 1).set(&br_generate_options::attention_mask, nullptr);
    const br_generate_options *made = o;
    require(made->max_new_tokens == 2 && made->top_p == 1 && made->do_sample);
    require(refuses([&] { o.set(&br_generate_options::max_new_tokens, UINT64_MAX); }));
    require(refuses([&] { o.set(&br_generate_options::do_sample, 2); }));
    require(made->max_new_tokens == 2 && made->do_sample);
    return true;
}

int main()
{
    bool ok = lists() && options() && modules() && owners() && operators() && large_integers() &&
              integer_options();
    br_thread_cleanup();
    return ok ? br_report(stderr) : 1;
}
