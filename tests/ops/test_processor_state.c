/* tests/ops/test_processor_state.c - operations clear the upper halves of vector registers
 * (vzeroupper).
 *
 * While the upper halves are in use, SSE instructions are slow. Most code of libm and of other
 * programs uses SSE instructions: for example, glibc's exp() takes twenty times as long. Compilers
 * clear the upper halves at the end of functions, but not with all options. */
#include "tests/ops/cases.h"

#include "backends/cpu/kernels.h"

TestSuite(processor_state, .init = check_begin, .fini = check_end);

/* Without optimization GCC emits no vzeroupper. */
#if defined(__x86_64__) && defined(__GNUC__) && defined(__OPTIMIZE__)
#    include <cpuid.h>

/* Returns whether XGETBV with ECX = 1 can report which state components are in use. */
static bool reports_use(void)
{
    unsigned a, b, c, d;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_AVX))
        return false;
    return __get_cpuid_count(0xd, 1, &a, &b, &c, &d) && (a & 1u << 2);
}

static bool upper_halves_in_use(void)
{
    enum { UPPER_OF_256 = 1 << 2, UPPER_OF_512 = 1 << 6 };
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low & (UPPER_OF_256 | UPPER_OF_512);
}

static void check_case(const op_case *c, const letter_sizes *letters, br_dtype dtype,
                       const char *kernels)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x[MAX_CASE_INPUTS];
    make_inputs(c, letters, dtype, x);
    require_gradients(c, x);
    br_tensor *y = call(c, x);
    cr_expect(!upper_halves_in_use(), "%s of %s with the kernels of %s", c->label,
              br_dtype_name(dtype), kernels);
    if (!c->no_gradient) {
        br_backward(br_sum(y));
        cr_expect(!upper_halves_in_use(), "the gradient of %s of %s with the kernels of %s",
                  c->label, br_dtype_name(dtype), kernels);
    }
    cr_expect(!br_failed(), "%s: %s", c->label, br_error_message());
    br_scope_end(scope);
}

Test(processor_state, upper_halves_are_cleared)
{
    static const char *const kernels[] = { "avx512", "avx2", "baseline" };
    if (!reports_use())
        return;
    br_set_num_threads(1);
    for (size_t k = 0; k < sizeof kernels / sizeof *kernels; k++) {
        if (!br__force_kernels(kernels[k]))
            continue;
        for_each_case(c)
        {
            letter_sizes letters = default_letter_sizes();
            for (br_dtype dtype = BR_F32; dtype <= BR_F64; dtype++)
                check_case(c, &letters, dtype, kernels[k]);
        }
    }
    br__force_kernels(NULL);
}

/* Tests the check itself. */
Test(processor_state, upper_halves_in_use_are_detected)
{
    if (!reports_use())
        return;
    __asm__ volatile("vpcmpeqb %%xmm0, %%xmm0, %%xmm0\n\tvinsertf128 $1, %%xmm0, %%ymm0, %%ymm0"
                     :
                     :
                     : "xmm0");
    cr_expect(upper_halves_in_use());
    __asm__ volatile("vzeroupper");
    cr_expect(!upper_halves_in_use());
}
#endif
