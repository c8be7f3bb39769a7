/* brasa/tensor/autocast.h - mixed precision: operations that gain by it compute in bf16 or f16.
 *
 *     br_autocast *cast = br_autocast_begin(BR_BF16);
 *     br_tensor *loss = br_cross_entropy(br_forward(model, x), target, NULL);
 *     br_autocast_end(cast);
 *     br_backward(loss);
 *
 * As torch.autocast("cpu") does, a region converts the operands of these operations:
 *
 * - to the region's dtype: br_f_linear(), br_matmul(), br_mm(), br_bmm(), br_addmm(), br_baddbmm(),
 *   br_addbmm(), br_einsum(), convolutions, br_f_prelu(), br_scaled_dot_product_attention();
 * - to f32: losses, br_prod(), padding by reflection or replication.
 *
 * All other operations follow their operands. Tensors of f64, integers and bool are not converted.
 * Parameters stay f32, and so do their gradients; backward computes in the dtypes of the forward
 * pass, and is best called outside of the region. */
#ifndef BRASA_TENSOR_AUTOCAST_H
#define BRASA_TENSOR_AUTOCAST_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_autocast br_autocast;

/* Begins a region of this thread. Regions nest: the innermost one counts. `dtype` is BR_BF16 or
 * BR_F16; BR_F32 begins a region in which nothing is converted. The region ends with
 * br_autocast_end(), or with the scope in which it began. A parameter that several operations use
 * is converted once; the copies stay until the outermost region ends. Returns NULL with an error
 * for another dtype, or if memory runs out. */
BR_API br_autocast *br_autocast_begin(br_dtype dtype);
/* Ends the innermost region of this thread. Returns false with an error if `cast` is not that
 * region. NULL is valid: nothing ends, and the result is true. */
BR_API bool br_autocast_end(br_autocast *cast);
/* Returns the dtype of the thread's innermost region, BR_F32 if there is none. */
BR_API br_dtype br_autocast_dtype(void);

#ifdef __cplusplus
}
#endif

#endif
