/* brasa/ops/shape.h - views, splitting, joining, rearranging and padding; part of brasa/ops.h. Any
 * dtype. Implemented in ops/shape/. */
#ifndef BRASA_OPS_SHAPE_H
#define BRASA_OPS_SHAPE_H

#include <brasa/autograd.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Shapes and views (ops/shape/view.c, slice.c, diagonal.c) -------------------------------- */

/* Returns a view if strides allow it, else a copy. One size may be -1: it is inferred. */
BR_API br_tensor *br_reshape(br_tensor *x, int ndim, const int64_t *sizes);
/* The same, but fails if a copy would be needed. */
BR_API br_tensor *br_view(br_tensor *x, int ndim, const int64_t *sizes);
/* Merges dimensions start .. end, both included, into one. */
BR_API br_tensor *br_flatten(br_tensor *x, int64_t start, int64_t end);
/* Replaces dimension dim by several, the inverse of br_flatten(). One size may be -1. */
BR_API br_tensor *br_unflatten(br_tensor *x, int64_t dim, int ndim, const int64_t *sizes);
BR_API br_tensor *br_unsqueeze(br_tensor *x, int64_t dim);
/* Removes dimension dim if its size is 1; if dim is BR_ALL, all dimensions of size 1. */
BR_API br_tensor *br_squeeze(br_tensor *x, int64_t dim);
/* Removes those of the given dimensions that have size 1. */
BR_API br_tensor *br_squeeze_dims(br_tensor *x, int ndims, const int64_t *dims);
BR_API br_tensor *br_transpose(br_tensor *x, int64_t dim0, int64_t dim1);
/* Transposes a matrix; a tensor with fewer than 2 dimensions stays as it is. */
BR_API br_tensor *br_t(br_tensor *x);
BR_API br_tensor *br_permute(br_tensor *x, int ndims, const int64_t *dims);
/* Moves dimension source[i] to position destination[i]; the others keep their order. */
BR_API br_tensor *br_movedim(br_tensor *x, int nsource, const int64_t *source, int ndestination,
                             const int64_t *destination);
/* Broadcasts dimensions of size 1 to larger sizes without copying. -1 keeps a size; new dimensions
 * are added in front. */
BR_API br_tensor *br_expand(br_tensor *x, int ndim, const int64_t *sizes);
BR_API br_tensor *br_expand_as(br_tensor *x, br_tensor *other);
/* Returns elements start, start + step, ... before `end` of a dimension. Negative start and end
 * count from the end, and both are clipped to the dimension. BR_ALL is the end of the dimension.
 * step must be at least 1. */
BR_API br_tensor *br_slice(br_tensor *x, int64_t dim, int64_t start, int64_t end, int64_t step);
/* Returns the slice at `index` and removes the dimension. */
BR_API br_tensor *br_select(br_tensor *x, int64_t dim, int64_t index);
BR_API br_tensor *br_narrow(br_tensor *x, int64_t dim, int64_t start, int64_t length);
/* Returns all slices of `size` elements of a dimension, each `step` after the previous one
 * (Tensor.unfold). Dimension dim of the result indexes the slices; a new last dimension indexes the
 * elements of a slice. */
BR_API br_tensor *br_unfold(br_tensor *x, int64_t dim, int64_t size, int64_t step);
/* Returns a view of x's storage with these sizes and strides, in elements, whose first element is
 * number storage_offset of the storage; BR_NONE: the first element of x (ops/shape/as_strided.c).
 * Elements may be shown several times, and need not belong to x: those have no gradient. */
BR_API br_tensor *br_as_strided(br_tensor *x, int ndim, const int64_t *sizes,
                                const int64_t *strides, int64_t storage_offset);
/* Changes the sizes of x, which must not require grad, and returns x: it is contiguous afterwards,
 * and shows its storage from its first element on. Elements that are new are not initialized. Fails
 * if more memory is needed and x is not the only tensor of its storage. A view stays a view of its
 * base, but elements outside of the base cannot change while gradients are recorded. */
BR_API br_tensor *br_resize_(br_tensor *x, int ndim, const int64_t *sizes);
/* Returns elements (i, i + offset) of dim1 and dim2 as one dimension, the last (PyTorch's defaults
 * are 0, 0 and 1). */
BR_API br_tensor *br_diagonal(br_tensor *x, int64_t offset, int64_t dim1, int64_t dim2);
/* Returns x itself if it is contiguous, else a contiguous copy. */
BR_API br_tensor *br_contiguous(br_tensor *x);
BR_API br_tensor *br_clone(br_tensor *x);

/* ---- Splitting (ops/shape/split.c) ----------------------------------------------------------- */

/* These write views to parts[0 .. capacity - 1], set the entries after the last view to NULL, and
 * return the number of views. On error, including when there are more than `capacity` parts, they
 * return -1 and set all entries to NULL. BR_PARTS() passes the length of an array and the array. */
#define BR_PARTS(array) (int)(sizeof(array) / sizeof(br_tensor *)), (array)

/* Splits into parts of split_size; the last one may be smaller. */
BR_API int br_split(br_tensor *x, int64_t split_size, int64_t dim, int capacity, br_tensor **parts);
/* Splits into parts of the given sizes, whose sum must be the size of dim. `parts` must have n
 * entries. */
BR_API int br_split_with_sizes(br_tensor *x, int n, const int64_t *sizes, int64_t dim,
                               br_tensor **parts);
/* Splits into at most `chunks` parts of equal size, except for the last. */
BR_API int br_chunk(br_tensor *x, int64_t chunks, int64_t dim, int capacity, br_tensor **parts);
/* Returns all slices along dim, without that dimension. */
BR_API int br_unbind(br_tensor *x, int64_t dim, int capacity, br_tensor **parts);

/* Splits into `sections` parts, of which the first ones are one longer if they cannot be equal. */
BR_API int br_tensor_split(br_tensor *x, int64_t sections, int64_t dim, int capacity,
                           br_tensor **parts);
/* Splits into n + 1 parts: elements 0 .. indices[0] - 1, indices[0] .. indices[1] - 1, and so on.
 * Indices count as in br_slice(); a part that would end before its start is empty. `parts` must
 * have n + 1 entries. */
BR_API int br_tensor_split_indices(br_tensor *x, int n, const int64_t *indices, int64_t dim,
                                   br_tensor **parts);
/* Split like the two functions above along dimension 1, or 0 if x is 1-d (br_hsplit()), along
 * dimension 0 of a tensor of at least two dimensions (br_vsplit()), or along dimension 2
 * (br_dsplit()). `sections` must divide the size of the dimension. */
BR_API int br_hsplit(br_tensor *x, int64_t sections, int capacity, br_tensor **parts);
BR_API int br_vsplit(br_tensor *x, int64_t sections, int capacity, br_tensor **parts);
BR_API int br_dsplit(br_tensor *x, int64_t sections, int capacity, br_tensor **parts);
BR_API int br_hsplit_indices(br_tensor *x, int n, const int64_t *indices, br_tensor **parts);
BR_API int br_vsplit_indices(br_tensor *x, int n, const int64_t *indices, br_tensor **parts);
BR_API int br_dsplit_indices(br_tensor *x, int n, const int64_t *indices, br_tensor **parts);

/* ---- Joining (ops/shape/cat_stack_repeat.c) -------------------------------------------------- */

/* Concatenates tensors, whose sizes must be equal except in dimension dim. BR_INPUTS(a, b) passes n
 * and tensors. A tensor of shape [0] may be combined with any others and adds nothing. */
BR_API br_tensor *br_cat(int n, br_tensor *const *tensors, int64_t dim);
/* Joins tensors of equal shapes along a new dimension. */
BR_API br_tensor *br_stack(int n, br_tensor *const *tensors, int64_t dim);
/* Concatenate tensors along dimension 1, or 0 if the first is 1-d (br_hstack()), along dimension 0
 * of tensors of at least two dimensions (br_vstack()), or along dimension 2 of tensors of at least
 * three (br_dstack()). A tensor with fewer dimensions gets new ones of size 1: [n] becomes [1, n]
 * or [1, n, 1]. */
BR_API br_tensor *br_hstack(int n, br_tensor *const *tensors);
BR_API br_tensor *br_vstack(int n, br_tensor *const *tensors);
BR_API br_tensor *br_dstack(int n, br_tensor *const *tensors);
/* Return x with at least one, two or three dimensions: [n] becomes [1, n] or [1, n, 1], and [n, m]
 * becomes [n, m, 1]. A tensor with enough dimensions is returned itself. */
BR_API br_tensor *br_atleast_1d(br_tensor *x);
BR_API br_tensor *br_atleast_2d(br_tensor *x);
BR_API br_tensor *br_atleast_3d(br_tensor *x);
/* Returns a matrix that has the tensors, with at most two dimensions, along its diagonal, and zeros
 * elsewhere. [n] and [] count as [1, n] and [1, 1]. Without tensors, it is f32 and has the shape
 * [1, 0]. */
BR_API br_tensor *br_block_diag(int n, br_tensor *const *tensors);
/* Write the n tensors, expanded to their common shape, to results[0 .. n - 1], as views. Return n;
 * on error, -1 and NULL in all entries. */
BR_API int br_broadcast_tensors(int n, br_tensor *const *tensors, br_tensor **results);
typedef enum br_meshgrid_indexing {
    BR_INDEXING_IJ, /* result i varies along dimension i */
    BR_INDEXING_XY, /* the same, with the first two dimensions swapped */
} br_meshgrid_indexing;
/* The same for n tensors, 0-d or 1-d, which become the coordinates of a grid: each is expanded to
 * the shape of all sizes. */
BR_API int br_meshgrid(int n, br_tensor *const *tensors, br_meshgrid_indexing indexing,
                       br_tensor **results);

/* Returns all combinations of an element of each of the n 1-d tensors, n <= 7, in the rows of a
 * matrix [product of sizes, n]; the last tensor varies fastest. One tensor is returned itself. */
BR_API br_tensor *br_cartesian_prod(int n, br_tensor *const *tensors);

/* ---- Rearranging and padding (ops/shape/flip_roll_tile.c, diagonal.c, pad.c) ----------------- */

/* Reverses the order of elements along the dimensions. */
BR_API br_tensor *br_flip(br_tensor *x, int ndims, const int64_t *dims);
/* Shifts elements by shifts[i] along dims[i], with wraparound. Without dims, shifts the flattened x
 * by shifts[0]. */
BR_API br_tensor *br_roll(br_tensor *x, int nshifts, const int64_t *shifts, int ndims,
                          const int64_t *dims);
/* Rotates the plane of two dimensions by 90 degrees k times, from the first towards the second;
 * a negative k rotates back (PyTorch's defaults are 1 and BR_DIMS(0, 1)). */
BR_API br_tensor *br_rot90(br_tensor *x, int64_t k, int ndims, const int64_t *dims);
/* Rearranges x [*, C r^2, H, W] to [*, C, H r, W r] with r = upscale_factor, and back. */
BR_API br_tensor *br_pixel_shuffle(br_tensor *x, int64_t upscale_factor);
BR_API br_tensor *br_pixel_unshuffle(br_tensor *x, int64_t downscale_factor);
/* Return x with the part that br_select() or br_slice() returns replaced by src, of that part's
 * shape. */
BR_API br_tensor *br_select_scatter(br_tensor *x, br_tensor *src, int64_t dim, int64_t index);
BR_API br_tensor *br_slice_scatter(br_tensor *x, br_tensor *src, int64_t dim, int64_t start,
                                   int64_t end, int64_t step);
/* Repeats x counts[i] times along dimension i; new dimensions are added in front. */
BR_API br_tensor *br_repeat(br_tensor *x, int ndim, const int64_t *counts);
/* The same, but if there are fewer counts than dimensions, they apply to the last ones. */
BR_API br_tensor *br_tile(br_tensor *x, int ndim, const int64_t *counts);
/* Repeats each element along dim; if dim is BR_ALL, x is flattened first. `repeats` is a
 * tensor of integers with one count for all elements, or with one count for each. */
BR_API br_tensor *br_repeat_interleave(br_tensor *x, br_tensor *repeats, int64_t dim);
BR_API br_tensor *br_repeat_interleave_scalar(br_tensor *x, int64_t repeats, int64_t dim);
/* Returns a tensor of zeros except for the diagonal of dim1 and dim2, which is x's last dimension
 * (PyTorch's defaults are 0, -2 and -1). */
BR_API br_tensor *br_diag_embed(br_tensor *x, int64_t offset, int64_t dim1, int64_t dim2);
/* Returns a matrix with a vector as its diagonal, or a copy of a matrix's diagonal as a vector. */
BR_API br_tensor *br_diag(br_tensor *x, int64_t diagonal);
/* Returns a matrix with the flattened x as its diagonal. */
BR_API br_tensor *br_diagflat(br_tensor *x, int64_t offset);
BR_API br_tensor *br_trace(br_tensor *x); /* the sum of a matrix's diagonal */
/* Return the row and column indices, i64 [2, n], of the elements on and below (above) a diagonal of
 * a row x col matrix. */
BR_API br_tensor *br_tril_indices(int64_t row, int64_t col, int64_t offset);
BR_API br_tensor *br_triu_indices(int64_t row, int64_t col, int64_t offset);

typedef enum br_pad_mode {
    BR_PAD_CONSTANT,  /* `value` */
    BR_PAD_REFLECT,   /* c b | a b c | b a */
    BR_PAD_REPLICATE, /* a a | a b c | c c */
    BR_PAD_CIRCULAR,  /* b c | a b c | a b */
} br_pad_mode;
/* Pads x: pad[0] and pad[1] elements before and after the last dimension, pad[2] and pad[3] for the
 * one before it, and so on, as in F.pad. Negative numbers remove elements. BR_DIMS(1, 1) passes n
 * and pad. */
BR_API br_tensor *br_pad(br_tensor *x, int n, const int64_t *pad, br_pad_mode mode, double value);

#ifdef __cplusplus
}
#endif

#endif
