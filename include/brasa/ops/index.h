/* brasa/ops/index.h - reading and writing at indices; part of brasa/ops.h. Any dtype. Indices are
 * i64 and, unless stated otherwise, at least 0. Except in br_take(), br_take_along_dim(),
 * br_index_copy() and br_index_fill(), they may also be i32. A 0-d tensor is treated as 1-d of size
 * 1. Implemented in ops/index/. */
#ifndef BRASA_OPS_INDEX_H
#define BRASA_OPS_INDEX_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Reading (ops/index/gather_embedding.c, masked_select.c, getitem.c) ---------------------- */

/* Returns the slices of x along dim at the indices in `index` (1-d). */
BR_API br_tensor *br_index_select(br_tensor *x, int64_t dim, br_tensor *index);
/* Returns the elements of x at the indices along dim: for dim = 1, out[i][j][k] =
 * x[i][index[i][j][k]][k]. index must have as many dimensions as x and must not be larger than x,
 * except in dim. The result has index's shape. */
BR_API br_tensor *br_gather(br_tensor *x, int64_t dim, br_tensor *index);
/* The same, but x and index broadcast except in dim, and negative indices count from the end. If
 * dim is BR_ALL, both are flattened. */
BR_API br_tensor *br_take_along_dim(br_tensor *x, br_tensor *index, int64_t dim);
/* Returns elements of the flattened x, in index's shape. Negative indices count from the end. */
BR_API br_tensor *br_take(br_tensor *x, br_tensor *index);
/* Returns x[i0, i1, ...] with an index for each of the first dimensions; NULL selects a whole
 * dimension, as in BR_INPUTS(i0, NULL, i2). The indices broadcast. Their shape replaces the indexed
 * dimensions, or comes first if these are not adjacent. Negative indices count from the end. A bool
 * tensor selects the positions where it is true. */
BR_API br_tensor *br_index(br_tensor *x, int n, br_tensor *const *indices);
/* Returns x[items], where `items` is the text between Python's brackets and "?" stands for a
 * tensor: br_getitem(x, "0:3, ..., None, ?, -1", BR_INPUTS(index)). Steps must be at least 1.
 * Without tensors the result is a view. */
BR_API br_tensor *br_getitem(br_tensor *x, const char *items, int n, br_tensor *const *indices);
/* Returns the elements for which the bool tensor `mask` is true, as a 1-d tensor; x and mask
 * broadcast. */
BR_API br_tensor *br_masked_select(br_tensor *x, br_tensor *mask);
/* Returns the positions at which x is not 0: [n, number of dimensions], i64. */
BR_API br_tensor *br_nonzero(br_tensor *x);

/* ---- Writing (ops/index/scatter.c, scatter_reduce.c, masked_select.c) ------------------------ */

/* Returns x with elements of src written to the positions that br_gather() reads: for dim = 1,
 * out[i][index[i][j][k]][k] = src[i][j][k]. If indices are equal, the last value is kept. src must
 * be at least as large as index in every dimension. */
BR_API br_tensor *br_scatter(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src);
BR_API br_tensor *br_scatter_scalar(br_tensor *x, int64_t dim, br_tensor *index, double value);
/* The same, but adds to x; for bool, logical or. */
BR_API br_tensor *br_scatter_add(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src);

typedef enum br_scatter_reduction {
    BR_SCATTER_SUM,
    BR_SCATTER_PROD,
    BR_SCATTER_MEAN,
    BR_SCATTER_AMAX,
    BR_SCATTER_AMIN,
} br_scatter_reduction;
/* The same, but reduces all elements of src that have the same position in x and, if include_self,
 * x's element. BR_SCATTER_MEAN requires a floating-point dtype. */
BR_API br_tensor *br_scatter_reduce(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *src,
                                    br_scatter_reduction reduce, bool include_self);

/* Returns x with its slices along dim at `index` (1-d) replaced by the slices of source. If indices
 * are equal, the last slice is kept. */
BR_API br_tensor *br_index_copy(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source);
/* The same, but adds alpha times source to x; for bool, logical or. */
BR_API br_tensor *br_index_add(br_tensor *x, int64_t dim, br_tensor *index, br_tensor *source,
                               double alpha);
/* Return x with its slices along dim at `index` filled with `value`, a number or a 0-d tensor of
 * x's dtype. Negative indices count from the end. */
BR_API br_tensor *br_index_fill(br_tensor *x, int64_t dim, br_tensor *index, double value);
BR_API br_tensor *br_index_fill_tensor(br_tensor *x, int64_t dim, br_tensor *index,
                                       br_tensor *value);
/* Returns x with values written to the positions that br_index() reads or, if `accumulate`, added
 * there. values broadcasts to the shape of br_index()'s result. */
BR_API br_tensor *br_index_put(br_tensor *x, int n, br_tensor *const *indices, br_tensor *values,
                               bool accumulate);
/* Returns x with the elements of source, in order, where the bool tensor `mask` is true; x and mask
 * broadcast. */
BR_API br_tensor *br_masked_scatter(br_tensor *x, br_tensor *mask, br_tensor *source);

/* Returns the rows of weight [n, d] at the indices: [*, d] for an index [*]. Row padding_idx gets
 * no gradient; -1 means that there is no such row. */
BR_API br_tensor *br_f_embedding(br_tensor *weight, br_tensor *index, int64_t padding_idx);
/* Scales each row of weight [n, d] that is in index [*] and whose norm is larger than max_norm down
 * to it, without recording, as F.embedding() with max_norm does before the lookup. norm_type is the
 * p of the norm; PyTorch's default is 2. Changes weight, also if it requires grad, and returns
 * it. */
BR_API br_tensor *br_embedding_renorm_(br_tensor *weight, br_tensor *index, double max_norm,
                                       double norm_type);
/* Returns rows [*, d], which br_f_embedding() has looked up by index [*]. Their gradient is divided
 * by the number of times that their index occurs, as F.embedding() with scale_grad_by_freq does. */
BR_API br_tensor *br_scale_grad_by_freq(br_tensor *rows, br_tensor *index);

typedef enum br_bag_mode { BR_BAG_SUM, BR_BAG_MEAN, BR_BAG_MAX } br_bag_mode;
typedef struct br_embedding_bag_options {
    size_t struct_size;
    br_bag_mode mode;
    br_tensor *per_sample_weights; /* for sums, of index's shape, or NULL */
    bool include_last_offset;      /* the last offset is the end of the last bag */
    int64_t padding_idx;           /* this row is not counted; -1: there is none */
    double max_norm, norm_type;    /* br_embedding_renorm_() before the lookup; max_norm 0: none */
    bool scale_grad_by_freq;       /* as br_scale_grad_by_freq() does; not for BR_BAG_MAX */
} br_embedding_bag_options;
#define br_embedding_bag_default_fields                                                      \
    .struct_size = sizeof(br_embedding_bag_options), .mode = BR_BAG_MEAN, .padding_idx = -1, \
    .norm_type = 2
BR_API br_embedding_bag_options br_embedding_bag_defaults(void);
/* Returns the sum, the mean or the largest elements of the rows of weight [n, d] in each bag:
 * [bags, d]. Either index is [bags, length] and offsets NULL, or index is 1-d and offsets [bags]
 * has the index at which each bag begins. An empty bag gives 0. */
BR_API br_tensor *br_f_embedding_bag(br_tensor *weight, br_tensor *index, br_tensor *offsets,
                                     const br_embedding_bag_options *options);

/* ---- Triangular matrices (ops/index/triangle.c) ---------------------------------------------- */

/* Return the elements on and below (above) diagonal `diagonal` of the last two dimensions; the
 * others are 0. */
BR_API br_tensor *br_tril(br_tensor *x, int64_t diagonal);
BR_API br_tensor *br_triu(br_tensor *x, int64_t diagonal);

#ifdef __cplusplus
}
#endif

#endif
