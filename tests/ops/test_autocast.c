/* tests/ops/test_autocast.c - regions of mixed precision: the dtypes of results, which are
 * PyTorch's, values and gradients, the copies of parameters, nesting, and wrong uses. */
#include "tensor/tensor_internal.h"
#include "tests/ops/torch_autocast.h"
#include "tests/ops/values.h"
#include <brasa/nn.h>
#include <pthread.h>
#include <string.h>

TestSuite(autocast, .init = check_begin, .fini = check_end);

static br_tensor *row(br_tensor *t)
{
    return br_select(t, 0, 0);
}

static br_tensor *batch(br_tensor *t)
{
    return br_unsqueeze(t, 0);
}

static br_tensor *image(br_tensor *t, int64_t dim)
{
    return br_unsqueeze(br_unsqueeze(t, dim), dim);
}

static br_tensor *classes(void)
{
    return br_from_i64(BR_SHAPE(3), (int64_t[]){ 0, 1, 2 });
}

/* Calls the operation of that name as record_autocast.py does. */
static br_tensor *call(const char *name, br_tensor *a, br_tensor *b)
{
#define CALL(label, expression)   \
    if (strcmp(name, label) == 0) \
        return expression;
    CALL("linear", br_f_linear(a, b, row(b)))
    CALL("matmul", br_matmul(a, b))
    CALL("mm", br_mm(a, b))
    CALL("bmm", br_bmm(batch(a), batch(b)))
    CALL("addmm", br_addmm(a, a, b, 1, 1))
    CALL("baddbmm", br_baddbmm(batch(a), batch(a), batch(b), 1, 1))
    CALL("addbmm", br_addbmm(a, batch(a), batch(b), 1, 1))
    CALL("einsum", br_einsum("ij,jk->ik", 2, (br_tensor *[]){ a, b }))
    CALL("conv1d", br_f_conv1d(batch(a), br_unsqueeze(b, 2), NULL, NULL))
    CALL("conv2d", br_f_conv2d(br_unsqueeze(batch(a), 3), image(b, 2), NULL, NULL))
    CALL("conv_transpose2d",
         br_f_conv_transpose2d(br_unsqueeze(batch(a), 3), image(b, 2), NULL, NULL))
    CALL("prelu", br_f_prelu(a, row(b)))
    CALL("attention", br_scaled_dot_product_attention(batch(a), batch(b), batch(a), NULL, NULL))
    CALL("cross_entropy", br_cross_entropy(a, classes(), NULL))
    CALL("nll_loss", br_nll_loss(a, classes(), NULL))
    CALL("mse_loss", br_mse_loss(a, b, BR_REDUCTION_MEAN))
    CALL("l1_loss", br_l1_loss(a, b, BR_REDUCTION_MEAN))
    CALL("smooth_l1_loss", br_smooth_l1_loss(a, b, BR_REDUCTION_MEAN, 1))
    CALL("huber_loss", br_huber_loss(a, b, BR_REDUCTION_MEAN, 1))
    CALL("kl_div", br_kl_div(a, b, BR_REDUCTION_SUM, false))
    CALL("bce_logits", br_binary_cross_entropy_with_logits(a, b, NULL, BR_REDUCTION_MEAN, NULL))
    CALL("margin_ranking", br_margin_ranking_loss(a, b, b, 0, BR_REDUCTION_MEAN))
    CALL("triplet", br_triplet_margin_loss(a, b, a, NULL, BR_REDUCTION_MEAN))
    CALL("cosine_embedding",
         br_cosine_embedding_loss(a, b,
                                  br_ones(BR_SHAPE(3), br_dtype_of(a) == BR_F64 ? BR_F64 : BR_F32),
                                  0, BR_REDUCTION_MEAN))
    CALL("prod", br_prod(a))
    CALL("pad_reflect", br_pad(a, 2, (int64_t[]){ 1, 1 }, BR_PAD_REFLECT, 0))
    CALL("pad_replicate", br_pad(a, 2, (int64_t[]){ 1, 1 }, BR_PAD_REPLICATE, 0))
    CALL("pad_constant", br_pad(a, 2, (int64_t[]){ 1, 1 }, BR_PAD_CONSTANT, 0))
    CALL("softmax", br_softmax(a, -1))
    CALL("layer_norm", br_f_layer_norm(a, 1, (int64_t[]){ 3 }, NULL, NULL, 1e-5))
    CALL("gelu", br_gelu(a, BR_GELU_ERF))
    CALL("sum", br_sum(a))
    CALL("add", br_add(a, b))
    CALL("mul", br_mul(a, b))
    CALL("cat", br_cat(2, (br_tensor *[]){ a, b }, 0))
    CALL("stack", br_stack(2, (br_tensor *[]){ a, b }, 0))
    CALL("embedding", br_f_embedding(a, br_zeros(BR_SHAPE(1), BR_I64), -1))
    CALL("lt", br_lt(a, b))
    CALL("cosine_similarity", br_cosine_similarity(a, b, 1, 1e-8))
#undef CALL
    cr_assert_fail("%s is not called", name);
    return NULL;
}

static void check_dtypes(const char *name, const unsigned char *results)
{
    for (size_t i = 0; i < sizeof operands / sizeof *operands; i++) {
        enum { REFUSED = 255 };
        br_scope *scope = br_scope_begin();
        br_tensor *a = br_to(br_rand(BR_SHAPE(3, 3), BR_F64), (br_dtype)operands[i][0]);
        br_tensor *b = br_to(br_rand(BR_SHAPE(3, 3), BR_F64), (br_dtype)operands[i][1]);
        br_autocast *cast = br_autocast_begin(BR_BF16);
        br_tensor *y = call(name, a, b);
        br_autocast_end(cast);
        if (results[i] != REFUSED)
            cr_expect(y && br_dtype_of(y) == (br_dtype)results[i], "%s of %s and %s is %s: %s",
                      name, br_dtype_name(br_dtype_of(a)), br_dtype_name(br_dtype_of(b)),
                      y ? br_dtype_name(br_dtype_of(y)) : "refused", br_error_message());
        br_clear_error();
        br_scope_end(scope);
    }
}

Test(autocast, dtypes_of_results_are_those_of_pytorch)
{
    for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++)
        check_dtypes(recorded[i].call, recorded[i].results);
}

/* A result is that of operands that were converted before. Parameters stay f32, and so do their
 * gradients. */
Test(autocast, values_and_gradients)
{
    br_tensor *x = values(BR_SHAPE(4, 6), 1, BR_F32);
    br_tensor *w = br_set_requires_grad(values(BR_SHAPE(5, 6), 2, BR_F32), true);
    br_tensor *v = br_set_requires_grad(values(BR_SHAPE(5, 6), 2, BR_F32), true);
    br_autocast *cast = br_autocast_begin(BR_BF16);
    br_tensor *y = br_f_linear(x, w, NULL);
    br_tensor *loss = br_mse_loss(y, br_zeros_like(y), BR_REDUCTION_SUM);
    cr_assert(br_autocast_end(cast));
    br_tensor *z = br_f_linear(br_to(x, BR_BF16), br_to(v, BR_BF16), NULL);
    cr_assert(br_equal(y, z));
    br_tensor *z32 = br_to(z, BR_F32);
    cr_assert(br_equal(loss, br_sum(br_mul(z32, z32))));
    br_backward(loss);
    br_backward(br_sum(br_mul(z32, z32)));
    check_ok();
    cr_assert_eq(br_dtype_of(br_grad_of(w)), BR_F32);
    cr_assert(br_equal(br_grad_of(w), br_grad_of(v)));
}

/* A parameter that is used twice is converted once: its copy is saved by both nodes. A change of
 * the parameter makes a new copy. */
Test(autocast, a_parameter_is_converted_once)
{
    br_tensor *w = br_set_requires_grad(br_ones(BR_SHAPE(64, 64), BR_F32), true);
    br_tensor *x = br_ones(BR_SHAPE(1, 64), BR_F32);
    br_autocast *outer = br_autocast_begin(BR_BF16), *inner = br_autocast_begin(BR_BF16);
    br_f_linear(x, w, NULL);
    const int64_t before = br_live_tensors();
    cr_assert(br_autocast_end(inner));
    br_f_linear(x, w, NULL);
    cr_assert_leq(br_live_tensors(), before + 2, "the result, and the copy of x");
    br_scope *scope = br_no_grad_begin();
    br_fill_(w, 2);
    cr_assert_eq(br_at(br_f_linear(x, w, NULL), BR_DIMS(0, 0)), 128);
    br_scope_end(scope);
    cr_assert(br_requires_grad(br_f_linear(x, w, NULL)), "a copy without a gradient is not reused");
    cr_assert(br_autocast_end(outer));
}

Test(autocast, nesting)
{
    br_tensor *x = br_ones(BR_SHAPE(2, 2), BR_F32);
    cr_assert_eq(br_autocast_dtype(), BR_F32);
    br_autocast *outer = br_autocast_begin(BR_BF16), *off = br_autocast_begin(BR_F32);
    cr_assert_eq(br_dtype_of(br_mm(x, x)), BR_F32);
    br_autocast *half = br_autocast_begin(BR_F16);
    cr_assert_eq(br_dtype_of(br_mm(x, x)), BR_F16);
    cr_assert_eq(br_autocast_dtype(), BR_F16);
    cr_assert(br_autocast_end(half) && br_autocast_end(off));
    cr_assert_eq(br_dtype_of(br_mm(x, x)), BR_BF16);
    cr_assert(br_autocast_end(outer) && br_autocast_end(NULL));
    cr_assert_eq(br_dtype_of(br_mm(x, x)), BR_F32);
}

/* After an error, the scope ends, and with it the regions that began in it. */
Test(autocast, a_region_ends_with_its_scope)
{
    br_tensor *w = br_set_requires_grad(br_ones(BR_SHAPE(2, 2), BR_F32), true);
    br_scope *scope = br_scope_begin();
    br_autocast *cast = br_autocast_begin(BR_BF16);
    br_mm(w, w);
    br_autocast_begin(BR_F16);
    br_scope_end(scope);
    cr_assert_eq(br_autocast_dtype(), BR_F32);
    if (br__caches_objects()) /* AddressSanitizer reports the use */
        check_fails(br_autocast_end(cast), "autocast_end: cast");
}

static void *end_elsewhere(void *cast)
{
    const bool ended = br_autocast_end(cast);
    const bool named = strstr(br_error_message(), "not the innermost region of this thread");
    br_clear_error();
    return !ended && named ? cast : NULL;
}

Test(autocast, wrong_uses)
{
    check_fails(br_autocast_begin(BR_F64),
                "autocast_begin: dtype is f64, must be bf16, f16, or f32");
    check_fails(br_autocast_begin(BR_I64), "autocast_begin: dtype is i64");
    check_fails(br_autocast_begin((br_dtype)77), "autocast_begin: dtype is (invalid dtype)");
    br_autocast *outer = br_autocast_begin(BR_BF16), *inner = br_autocast_begin(BR_F16);
    check_fails(br_autocast_end(outer), "autocast_end: cast is not the innermost region");
    pthread_t thread;
    void *seen;
    cr_assert_eq(pthread_create(&thread, NULL, end_elsewhere, inner), 0);
    pthread_join(thread, &seen);
    cr_assert_eq(seen, inner);
    cr_assert(br_autocast_end(inner) && br_autocast_end(outer));
    if (br__caches_objects())
        check_fails(br_autocast_end(outer), "autocast_end: cast");
}

static br_tensor *twice(br_tensor *const *x, int n, void *context)
{
    (void)n;
    (void)context;
    return br_matmul(br_matmul(x[0], x[1]), x[1]);
}

/* The second run of a checkpoint has the mixed precision of the first one, although the region has
 * ended. */
Test(autocast, checkpoints)
{
    br_tensor *x = values(BR_SHAPE(3, 3), 1, BR_F32);
    br_tensor *w[2];
    for (int i = 0; i < 2; i++) {
        w[i] = br_set_requires_grad(values(BR_SHAPE(3, 3), 2, BR_F32), true);
        br_autocast *cast = br_autocast_begin(BR_BF16);
        br_tensor *y = i ? br_activation_checkpoint(twice, NULL, BR_INPUTS(x, w[i]), NULL)
                         : twice((br_tensor *[]){ x, w[i] }, 2, NULL);
        br_tensor *loss = br_sum(br_to(y, BR_F32));
        br_autocast_end(cast);
        br_backward(loss);
        check_ok();
    }
    cr_assert(br_equal(br_grad_of(w[0]), br_grad_of(w[1])));
}

/* Backward in a region computes in the dtypes of the forward pass. */
Test(autocast, backward_in_a_region)
{
    br_tensor *w = br_set_requires_grad(values(BR_SHAPE(3, 3), 2, BR_F32), true);
    br_tensor *loss = br_sum(br_exp(br_mm(w, w)));
    br_autocast *cast = br_autocast_begin(BR_BF16);
    br_backward(loss);
    br_autocast_end(cast);
    br_tensor *v = br_set_requires_grad(values(BR_SHAPE(3, 3), 2, BR_F32), true);
    br_backward(br_sum(br_exp(br_mm(v, v))));
    cr_assert(br_equal(br_grad_of(w), br_grad_of(v)));
}
