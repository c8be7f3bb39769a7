/* backends/cpu/gemm/gemm_precision.c - the precision of f32 products:
 * br_set_float32_matmul_precision() and BRASA_FLOAT32_MATMUL_PRECISION. */
#include "backends/cpu/gemm/gemm_kernels.h"
#include "tensor/tensor_internal.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define CHOICES "highest, high or medium"

static const char *const names[] = { "highest", "high", "medium" };
enum { NOT_READ = -1 };

static atomic_int precision = NOT_READ;

/* Returns the precision of that name, or NOT_READ. */
static int find(const char *name)
{
    for (int i = 0; i < BR_MATMUL_PRECISIONS; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    return NOT_READ;
}

/* Reads the environment variable. A wrong value fails the first product, since it would otherwise
 * go unnoticed; later products have the highest precision. */
static __attribute__((noinline, cold)) int read_environment(void)
{
    const char *name = getenv("BRASA_FLOAT32_MATMUL_PRECISION");
    int found = name && *name ? find(name) : BR_MATMUL_HIGHEST;
    if (found == NOT_READ) {
        br_fail(BR_ERROR_ARGUMENT, NULL,
                "BRASA_FLOAT32_MATMUL_PRECISION is '%.40s', must be " CHOICES, name);
        found = BR_MATMUL_HIGHEST;
    }
    int before = NOT_READ; /* a setting that another thread has made meanwhile stays */
    return atomic_compare_exchange_strong(&precision, &before, found) ? found : before;
}

br_matmul_precision br__matmul_precision(void)
{
    const int now = atomic_load_explicit(&precision, memory_order_relaxed);
    return (br_matmul_precision)(__builtin_expect(now == NOT_READ, 0) ? read_environment() : now);
}

bool br__round_to_bf16(bool rounds)
{
    const bool before = br__thread.rounds_to_bf16;
    br__thread.rounds_to_bf16 = rounds;
    return before;
}

br_matmul_precision br__matmul_precision_of(br_dtype dtype)
{
    if (dtype != BR_F32)
        return dtype == BR_BF16 ? BR_MATMUL_MEDIUM : BR_MATMUL_HIGHEST;
    return br__thread.rounds_to_bf16 ? BR_MATMUL_MEDIUM : br__matmul_precision();
}

bool br_set_float32_matmul_precision(const char *name)
{
    const char *op = "set_float32_matmul_precision";
    const int found = name ? find(name) : NOT_READ;
    if (found == NOT_READ) {
        br_fail(BR_ERROR_ARGUMENT, op, "precision is %s%.40s%s, must be " CHOICES, name ? "'" : "",
                name ? name : "NULL", name ? "'" : "");
        return false;
    }
    atomic_store_explicit(&precision, found, memory_order_relaxed);
    return true;
}

const char *br_get_float32_matmul_precision(void)
{
    return names[br__matmul_precision()];
}

const char *br__matmul_unit(br_matmul_precision of)
{
    const br_gemm_kernels *kernels = br__gemm_bf16_kernels(of);
    return kernels ? kernels->unit : "f32";
}

const char *br_get_float32_matmul_unit(void)
{
    return br__matmul_unit(BR_MATMUL_MEDIUM);
}
