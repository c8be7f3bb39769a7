/* tests/backends/test_device.c - tensors and modules on a device whose memory the host cannot
 * read. */
#include "tensor/tensor_internal.h"
#include "tests/backends/guarded.h"
#include "tests/memory.h"

#include <brasa/brasa.h>
#include <signal.h>

TestSuite(device, .init = check_begin, .fini = check_end);

static const br_device cpu = { BR_CPU, 0 };

static br_tensor *on(int index, br_tensor *t)
{
    return br_to_device(t, guarded_device(index));
}

static bool is_on(const br_tensor *t, br_device device)
{
    const br_device of = br_device_of(t);
    return of.type == device.type && of.index == device.index;
}

static br_tensor *numbers(void)
{
    return br_from_f32(BR_SHAPE(2, 2), (const float[]){ 1, 2, 3, 4 });
}

/* ---- The device itself ----------------------------------------------------------------------- */

/* The table of entries, from the first one after `device` on, is an array of functions. */
Test(device, the_guarded_device_has_an_entry_of_its_own_for_each_of_the_processors)
{
    br_backend guarded;
    guarded_copy(&guarded, "copy");
    enum { FIRST = offsetof(br_backend, upload), SIZE = sizeof(void (*)(void)) };
    for (size_t at = FIRST; at < sizeof guarded; at += SIZE) {
        void *own, *host;
        memcpy(&own, (const char *)&guarded + at, SIZE);
        memcpy(&host, (const char *)&br__cpu_backend + at, SIZE);
        cr_expect(own && own != host, "entry %zu", (at - FIRST) / SIZE);
    }
}

/* AddressSanitizer reports the access itself, and ends the process without a signal. */
#ifdef __SANITIZE_ADDRESS__
#    define LEFT_TO_THE_SANITIZER true
#else
#    define LEFT_TO_THE_SANITIZER false
#endif

Test(device, its_memory_cannot_be_read, .signal = SIGSEGV, .disabled = LEFT_TO_THE_SANITIZER)
{
    br_scope_begin();
    br_tensor *x = on(0, numbers());
    cr_assert_eq(br_at(x, BR_DIMS(1, 0)), 3);
    fprintf(stderr, "%g\n", br__get(x->dtype, x->data));
}

Test(device, names_and_counts)
{
    guarded_device(0);
    cr_assert_eq(br_device_count(BR_CPU), 1);
    cr_assert_eq(br_device_count(BR_PRIVATE), 2);
    cr_assert_str_eq(br_device_name(cpu), "cpu");
    cr_assert_str_eq(br_device_name(guarded_device(1)), "guarded:1");
    check_fails(br_device_name((br_device){ BR_CPU, 1 }),
                "device_name: there is no device 1 of type 0 (BR_CPU): this process has 1");
    check_fails(br_device_name((br_device){ BR_PRIVATE, -1 }), "there is no device -1 of type 1");
    check_fails(br_device_name((br_device){ (br_device_type)7, 0 }), "of type 7 (an unknown type)");
    cr_assert(br_synchronize(cpu) && br_synchronize(guarded_device(0)));
    check_fails(br_synchronize((br_device){ BR_PRIVATE, 9 }), "synchronize: there is no device 9");
    static br_backend taken;
    guarded_copy(&taken, "taken");
    check_fails(br__register_backend(&taken), "taken has type 1 and index 2");
    cr_assert(is_on(NULL, cpu));
}

/* ---- Tensors --------------------------------------------------------------------------------- */

Test(device, copies_have_gradients)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_set_requires_grad(numbers(), true);
    br_tensor *there = on(1, on(0, x));
    cr_assert(is_on(there, guarded_device(1)) && is_on(x, cpu));
    cr_assert_eq(on(1, there), there);
    br_tensor *y = br_to_device(br_sum(br_mul(there, there)), cpu);
    cr_assert_eq(br_item(y), 30);
    cr_assert(br_backward(y), "%s", br_error_message());
    cr_assert(is_on(br_grad_of(x), cpu));
    cr_assert(br_equal(br_grad_of(x), br_mul_scalar(br_detach(x), 2)));
    br_scope_end(scope);
}

/* Views, other dtypes, and no elements. */
Test(device, copies_of_every_layout)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_arange(0, 24, 1, BR_F64), *cube = br_reshape(x, BR_SHAPE(2, 3, 4));
    br_tensor *views[] = { cube,
                           br_transpose(cube, 0, 2),
                           br_slice(cube, 2, 1, 4, 2),
                           br_expand(br_narrow(cube, 0, 1, 1), BR_SHAPE(2, 3, 4)),
                           br_to(cube, BR_I64),
                           br_gt_scalar(cube, 7),
                           br_zeros(BR_SHAPE(0, 3), BR_F32),
                           br_scalar(5, BR_F32) };
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        br_tensor *there = on(0, views[i]);
        cr_expect(br_equal(br_to_device(there, cpu), views[i]), "view %zu", i);
        cr_expect(br_equal(br_to_device(br_to_device(there, guarded_device(1)), cpu), views[i]));
        cr_expect(br_is_contiguous(there));
    }
    br_tensor *turned = br_transpose(on(0, cube), 0, 1);
    cr_assert(br_equal(br_to_device(turned, cpu), br_transpose(cube, 0, 1)));
    br_scope_end(scope);
}

Test(device, elements_are_read_by_copies)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_t(on(0, numbers()));
    float out[4];
    cr_assert(br_copy_out(x, out, sizeof out));
    cr_assert(out[0] == 1 && out[1] == 3 && out[2] == 2 && out[3] == 4);
    cr_assert_eq(br_at(x, BR_DIMS(0, 1)), 3);
    cr_assert_eq(br_item(br_select(br_select(x, 0, 1), 0, 1)), 4);
    cr_assert_eq(br_item_i64(br_max(x)), 4);
    check_fails(br_data(x), "data: t [2, 2] is on guarded:0, whose memory the host cannot read: "
                            "copy it to the CPU with br_to_device()");
    check_fails(br_data_f32(br_contiguous(x)), "data_f32: t [2, 2] is on guarded:0");
    br_scope_end(scope);
}

Test(device, printing_names_a_device_that_is_not_the_default)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = on(1, br_from_f64(BR_SHAPE(2), (const double[]){ 1, 2 }));
    char *text = br_to_string(x);
    cr_assert_str_eq(text, "tensor([1., 2.], device='guarded:1', dtype=f64)");
    br_free(text);
    const br_device before = br_set_default_device(guarded_device(1));
    text = br_to_string(x);
    cr_assert_str_eq(text, "tensor([1., 2.], dtype=f64)");
    br_free(text);
    br_set_default_device(before);
    br_scope_end(scope);
}

/* Calls each function that creates a tensor from nothing but numbers. */
static void create_all(br_tensor **all)
{
    int n = 0;
    br_manual_seed(3);
    all[n++] = br_zeros(BR_SHAPE(3), BR_F32);
    all[n++] = br_ones(BR_SHAPE(2, 2), BR_I64);
    all[n++] = br_full(BR_SHAPE(100), 7, BR_F64);
    all[n++] = br_scalar(2.5, BR_F32);
    all[n++] = br_arange(0, 10, 3, BR_I64);
    all[n++] = br_linspace(0, 1, 5, BR_F32);
    all[n++] = br_eye(2, 3, BR_F64);
    all[n++] = br_from_f32(BR_SHAPE(2), (const float[]){ 1, 2 });
    all[n++] = br_from_bool(BR_SHAPE(2), (const bool[]){ true, false });
    all[n++] = br_rand(BR_SHAPE(5), BR_F32);
    all[n++] = br_randn(BR_SHAPE(40), BR_F64);
    all[n++] = br_randint(0, 9, BR_SHAPE(6));
    all[n++] = br_randperm(8);
    all[n++] = br_tril_indices(3, 3, 0);
    all[n++] = br_init_normal_(br_t(br_zeros(BR_SHAPE(4, 5), BR_F32)), 0, 1);
    all[n++] = br_init_trunc_normal_(br_zeros(BR_SHAPE(4, 5), BR_F32), 0, 1, -1, 1);
    all[n++] = br_init_orthogonal_(br_zeros(BR_SHAPE(4, 5), BR_F32), 1);
    all[n++] = br_f_dropout(br_ones(BR_SHAPE(30), BR_F32), 0.5, true);
    all[n] = NULL;
}

Test(device, the_default_device_has_the_same_values)
{
    br_scope *scope = br_scope_begin();
    br_tensor *here[32], *there[32];
    create_all(here);
    const br_device before = br_set_default_device(guarded_device(1));
    cr_assert(is_on(br_zeros(BR_SCALAR, BR_F32), br_get_default_device()));
    create_all(there);
    br_set_default_device(before);
    for (int i = 0; here[i] || there[i]; i++) {
        cr_expect(is_on(there[i], guarded_device(1)), "%d: %s", i, br_error_message());
        cr_expect(br_equal(br_to_device(there[i], cpu), here[i]), "%d: %s", i, br_error_message());
    }
    br_set_default_device((br_device){ BR_PRIVATE, 15 });
    check_fails(0, "set_default_device: there is no device 15");
    cr_assert_eq(br_get_default_device().type, before.type);
    br_scope_end(scope);
}

Test(device, tensors_beside_another_one)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = on(1, numbers());
    br_tensor *all[] = { br_new_empty(x, BR_SHAPE(2), BR_I64),
                         br_new_zeros(x, BR_SHAPE(2), BR_I64),
                         br_new_ones(x, BR_SHAPE(2), BR_I64),
                         br_new_full(x, BR_SHAPE(2), 3, BR_I64),
                         br_new_arange(x, 0, 2, 1, BR_I64),
                         br_empty_like(x),
                         br_zeros_like(x),
                         br_ones_like(x) };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cr_expect(is_on(all[i], guarded_device(1)), "%zu", i);
    for (int i = 1; i <= 3; i++)
        cr_expect_eq(br_item(br_sum(all[i])), 2 * (double)(i - 1) + (i == 3 ? 2 : 0));
    cr_assert_eq(br_at(all[4], 1, (const int64_t[]){ 1 }), 1);
    check_fails(br_new_zeros(NULL, BR_SHAPE(2), BR_F32), "new_zeros: t is NULL");
    check_fails(br_new_full(x, BR_SHAPE(2), 1e30, BR_I64), "new_full: 1e+30 cannot be represented");
    check_fails(br_new_arange(x, 0, 1, 0, BR_F32), "new_arange: start 0, end 1, step 0");
    br_scope_end(scope);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(device, operands_on_two_devices)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = numbers(), *there = on(0, x), *index = br_zeros(BR_SHAPE(2, 2), BR_I64);
    br_tensor *mask = br_gt_scalar(x, 2), *ids = br_select(index, 0, 0);
    check_fails(br_add(x, there), "add: a [2, 2] is on cpu and b [2, 2] is on guarded:0: operands "
                                  "must be on one device (copy one with br_to_device())");
    check_fails(br_add(on(1, x), there), "is on guarded:1 and b [2, 2] is on guarded:0");
    check_fails(br_add_(there, x), "add_: ");
    check_fails(br_where(mask, there, there), "is on ");
    check_fails(br_masked_fill(there, mask, 0), "mask [2, 2] is on cpu");
    check_fails(br_matmul(x, there), "is on ");
    check_fails(br_f_linear(there, x, NULL), "is on ");
    check_fails(br_cat(BR_INPUTS(there, x), 0), "is on ");
    check_fails(br_stack(BR_INPUTS(there, x), 0), "is on ");
    check_fails(br_gather(there, 0, index), "is on ");
    check_fails(br_index_select(there, 0, ids), "is on ");
    check_fails(br_f_embedding(there, ids, -1), "is on ");
    check_fails(br_take(there, ids), "is on ");
    check_fails(br_scatter(there, 0, index, there), "is on ");
    check_fails(br_scatter_add(there, 0, index, there), "is on ");
    check_fails(br_index_add(there, 0, ids, there, 1), "is on ");
    check_fails(br_index_put(there, BR_INPUTS(ids), there, false), "is on ");
    check_fails(br_index(there, BR_INPUTS(ids)), "is on ");
    check_fails(br_masked_select(there, mask), "is on ");
    check_fails(br_cross_entropy(there, ids, NULL), "is on ");
    check_fails(br_nll_loss(there, ids, NULL), "is on ");
    check_fails(br_mse_loss(there, x, BR_REDUCTION_MEAN), "is on ");
    check_fails(br_equal(there, x), "equal: a [2, 2] is on guarded:0 and b [2, 2] is on cpu");
    check_fails(br_allclose(there, x, 0, 0), "allclose: ");
    check_fails(br_set_grad(there, x), "set_grad: t [2, 2] is on guarded:0");
    check_fails(br_repeat_interleave(there, ids, 0), "is on ");
    check_fails(br_bincount(ids, on(0, br_ones(BR_SHAPE(2), BR_F32)), 0), "is on ");
    br_scope_end(scope);
}

/* Operands of two dtypes are converted only after their devices have been compared. */
Test(device, operands_of_two_dtypes_on_two_devices)
{
    static const struct {
        const char *name;
        br_tensor *(*function)(br_tensor *a, br_tensor *b);
    } cases[] = {
        { "eq", br_eq },           { "ne", br_ne },   { "lt", br_lt },   { "le", br_le },
        { "gt", br_gt },           { "ge", br_ge },   { "add", br_add }, { "sub", br_sub },
        { "mul", br_mul },         { "div", br_div }, { "pow", br_pow }, { "maximum", br_maximum },
        { "minimum", br_minimum },
    };
    br_tensor *x = numbers(), *y = on(0, br_to(numbers(), BR_F64));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect_null(cases[i].function(x, y), "%s", cases[i].name);
        cr_expect_eq(strncmp(br_error_message(), cases[i].name, strlen(cases[i].name)), 0, "%s: %s",
                     cases[i].name, br_error_message());
        cr_expect(strstr(br_error_message(), ": a [2, 2] is on cpu"), "%s", br_error_message());
        br_clear_error();
    }
}

Test(device, a_copy_in_place_may_cross_devices)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = numbers(), *there = br_zeros_like(on(0, x));
    cr_assert_not_null(br_copy_(br_t(there), x));
    cr_assert(br_equal(br_to_device(there, cpu), br_contiguous(br_t(x))));
    cr_assert_not_null(br_copy_(x, there), "%s", br_error_message());
    cr_assert_eq(br_at(x, BR_DIMS(0, 1)), 3);
    br_scope_end(scope);
}

Test(device, an_operation_without_an_entry)
{
    br_scope *scope = br_scope_begin();
    static br_backend elsewhere;
    guarded_copy(&elsewhere, "elsewhere");
    elsewhere.softmax = NULL;
    br_tensor *x = br_to_device(numbers(), elsewhere.device);
    check_fails(br_softmax(x, 0), "softmax: has no kernel on elsewhere");
    cr_assert_not_null(br_exp(x));
    br_scope_end(scope);
}

/* ---- Modules and files ----------------------------------------------------------------------- */

static br_sequential *model_new(void)
{
    br_manual_seed(1);
    return br_sequential_new(BR_MODULES(br_linear_new(2, 3, true), br_batch_norm1d_new(3, NULL),
                                        br_linear_new(3, 2, true)));
}

static br_tensor *loss_of(br_sequential *model, br_tensor *x)
{
    br_tensor *y = br_forward(br_base(model), x);
    return br_sum(br_mul(y, y));
}

Test(device, a_module_moves_with_its_gradients)
{
    br_scope *scope = br_scope_begin();
    br_sequential *here = model_new(), *there = model_new();
    br_tensor *x = br_from_f32(BR_SHAPE(3, 2), (const float[]){ 1, 2, 3, 4, 5, 7 });
    cr_assert(br_backward(loss_of(here, x)) && br_backward(loss_of(there, x)));
    br_tensor *weight = br_module_get(br_base(there), "0.weight");
    cr_assert(br_module_to_device(br_base(there), guarded_device(1)), "%s", br_error_message());
    cr_assert_eq(br_module_get(br_base(there), "0.weight"), weight);
    cr_assert(is_on(weight, guarded_device(1)) && is_on(br_grad_of(weight), guarded_device(1)));
    cr_assert(br_requires_grad(weight));
    /* Gradients are added to those that have moved, and the step is the same. */
    br_optim *a = br_adam(br_base(here), NULL), *b = br_adam(br_base(there), NULL);
    for (int t = 0; t < 3; t++) {
        cr_assert(br_backward(loss_of(here, x)));
        cr_assert(br_backward(loss_of(there, on(1, x))), "%s", br_error_message());
        cr_assert_geq(br_module_clip_grad_norm_(br_base(there), 1, 2, true), 0);
        br_module_clip_grad_norm_(br_base(here), 1, 2, true);
        cr_assert(br_optim_step(a) && br_optim_step(b), "%s", br_error_message());
    }
    check_fails(br_forward(br_base(there), x), "0: linear: ");
    cr_assert(br_module_to_device(br_base(there), cpu));
    br_named_list *p = br_state_dict(br_base(here)), *q = br_state_dict(br_base(there));
    for (int64_t i = 0; i < p->count; i++)
        cr_expect(br_equal(p->items[i].tensor, q->items[i].tensor), "%s", p->items[i].name);
    check_fails(br_optim_step(b), "is on cpu, but its state was created when it was on guarded:1");
    br_named_list_free(p);
    br_named_list_free(q);
    br_optim_free(a);
    br_optim_free(b);
    br_module_free(here);
    br_module_free(there);
    br_scope_end(scope);
}

/* The buffer is computed on the default device. */
Test(device, a_computed_buffer_is_converted_where_it_is)
{
    br_scope *scope = br_scope_begin();
    br_sinusoidal_positional_encoding *here = br_sinusoidal_positional_encoding_new(8, 5, 0);
    br_sinusoidal_positional_encoding *there = br_sinusoidal_positional_encoding_new(8, 5, 0);
    cr_assert(br_module_to_device(br_base(there), guarded_device(1)));
    cr_assert(br_module_to(br_base(here), BR_F64));
    cr_assert(br_module_to(br_base(there), BR_F64), "%s", br_error_message());
    cr_assert(is_on(there->pe, guarded_device(1)));
    cr_assert(br_equal(br_to_device(there->pe, cpu), here->pe));
    br_module_free(here);
    br_module_free(there);
    br_scope_end(scope);
}

Test(device, a_module_that_cannot_move_stays)
{
    br_scope *scope = br_scope_begin();
    br_sequential *model = model_new();
    br_tensor *weight = br_module_get(br_base(model), "2.weight");
    br_tensor *view = br_detach(weight);
    check_fails(br_module_to_device(br_base(model), guarded_device(0)),
                "module_to_device: 2.weight [2, 3] shares its memory with a view or a saved value");
    cr_assert(is_on(br_module_get(br_base(model), "0.weight"), cpu) && is_on(view, cpu));
    check_fails(br_module_to_device(br_base(model), (br_device){ BR_PRIVATE, 14 }),
                "module_to_device: there is no device 14");
    check_fails(br_module_to_device(NULL, cpu), "module_to_device: ");
    br_module_free(model);
    br_scope_end(scope);
}

Test(device, state_is_saved_and_loaded_across_devices)
{
    br_scope *scope = br_scope_begin();
    const char *path = "device.safetensors";
    br_sequential *model = model_new(), *other = model_new();
    cr_assert(br_module_to_device(br_base(model), guarded_device(0)));
    br_init_normal_(br_module_get(br_base(model), "0.weight"), 0, 1);
    cr_assert(br_model_save(path, br_base(model), 0, NULL), "%s", br_error_message());
    cr_assert(br_model_load(path, br_base(other), true, NULL), "%s", br_error_message());
    cr_assert(br_equal(br_module_get(br_base(other), "0.weight"),
                       br_to_device(br_module_get(br_base(model), "0.weight"), cpu)));
    br_init_normal_(br_module_get(br_base(other), "0.weight"), 0, 1);
    br_named_list *state = br_state_dict(br_base(other));
    cr_assert(br_load_state_dict(br_base(model), state, true, NULL), "%s", br_error_message());
    cr_assert(br_equal(br_module_get(br_base(other), "0.weight"),
                       br_to_device(br_module_get(br_base(model), "0.weight"), cpu)));
    remove(path);
    br_named_list_free(state);
    br_module_free(model);
    br_module_free(other);
    br_scope_end(scope);
}

/* Every allocation of a move fails once. */
static bool move_there_and_back(void)
{
    br_scope *scope = br_scope_begin();
    br_linear *model = br_linear_new(2, 3, true);
    const bool moved = br_module_to_device(br_base(model), guarded_device(0));
    if (model)
        cr_assert_eq(is_on(model->weight, guarded_device(0)), moved);
    const bool back = moved && br_module_to_device(br_base(model), cpu);
    br_module_free(model);
    br_scope_end(scope);
    return back;
}

Test(device, memory_runs_out_during_a_move)
{
    guarded_device(0);
    fail_in_turn(move_there_and_back, "a move");
}
