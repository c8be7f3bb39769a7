/* tests/nn/test_taps.c - taps and recorders. */
#include "tests/support.h"

#include <brasa/nn.h>

TestSuite(taps, .init = check_begin, .fini = check_end);

typedef struct {
    br_module base;
} block;

static br_tensor *block_forward(void *module, br_tensor *x)
{
    block *self = module;
    br_enter(self);
    br_tensor *y = br_tap("doubled", br_mul_scalar(x, 2));
    return br_leave(self, br_tap("more", br_add_scalar(y, 1)));
}

static block *block_new(void)
{
    block *self = br_module_new(block);
    br_module_set_forward(br_base(self), block_forward);
    return self;
}

Test(taps, are_recorded_under_the_module_path)
{
    br_sequential *s = br_sequential_new(BR_MODULES(block_new(), block_new()));
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(2), BR_F32);
    cr_assert_eq(br_tap("x", x), x);
    br_recorder *recorder = br_recorder_begin();
    br_forward(s, x);
    br_forward(br_module_child_at(br_base(s), 1), x);
    cr_assert_eq(br_tap("x", x), x);
    check_ok();
    const char *names[] = { "0.doubled",   "0.more",   "1.doubled", "1.more",
                            "1.doubled#1", "1.more#1", "x" };
    cr_assert_eq(br_recorder_count(recorder), 7);
    for (int i = 0; i < 7; i++)
        cr_assert_str_eq(br_recorder_name(recorder, i), names[i]);
    br_scope_end(scope); /* the recorder holds its tensors */
    cr_assert_eq(br_at(br_recorder_get(recorder, "1.doubled"), 1, (int64_t[]){ 0 }), 6);
    cr_assert_eq(br_at(br_recorder_get(recorder, "1.doubled#1"), 1, (int64_t[]){ 0 }), 2);
    cr_assert_null(br_recorder_get(recorder, "2.doubled"));
    check_fails(br_recorder_name(recorder, 7), "index 7 is out of range for 7 taps");
    check_fails(br_recorder_tensor(recorder, -1), "index -1 is out of range for 7 taps");
    br_recorder_end(recorder);
    br_module_free(s);
}

Test(taps, only_the_innermost_recorder_records)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = br_ones(BR_SHAPE(2), BR_F32);
    br_recorder *outer = br_recorder_begin(), *inner = br_recorder_begin();
    br_tap("a", x);
    br_recorder_end(outer); /* ended out of order */
    br_tap("b", x);
    cr_assert_eq(br_recorder_count(inner), 2);
    br_recorder_end(inner);
    br_tap("c", x);
    br_recorder_end(NULL);
    cr_assert_null(br_tap("nothing", NULL));
    br_scope_end(scope);
}
