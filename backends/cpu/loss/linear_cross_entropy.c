/* backends/cpu/loss/linear_cross_entropy.c - cross entropy of the scores of a linear layer, for a
 * chunk of the rows at a time: a chunk's scores are overwritten by their gradient, which is
 * multiplied into the gradients of the operands, and the next chunk uses the same memory. */
#include "backends/cpu/gemm/matmul_internal.h"
#include "backends/cpu/loss/class_rows.h"
#include "backends/cpu/loss/loss_internal.h"
#include "backends/cpu/pointwise/for_each.h"
#include "backends/cpu/reduce/reduce_internal.h"
#include "backends/matmul_precision.h"
#include "tensor/min_max.h"

typedef struct job {
    const char *op;
    const br_linear_cross_entropy_tensors *t;
    br_class_rows rows;
    br_tensor *scores, *sums; /* of a chunk */
    br_tensor *bias_part;     /* sum of a chunk's gradients of scores; NULL without dbias */
} job;

/* Rows of a chunk. */
typedef struct range {
    int64_t first, n;
} range;

static br_tensor rows_of(const br_tensor *t, range r)
{
    br_tensor w = br__window(t);
    br__window_slice(&w, 0, r.first, r.n, 1);
    return w;
}

static bool add_bias_gradient(const job *j, const br_tensor *dscores)
{
    const br_reducer sum = { .kind = BR_FOLD(sum), .divisor = 1, .values = j->bias_part };
    if (!br__cpu_reduce(j->op, dscores, 1, &sum))
        return false;
    const br_tensor *dbias = j->t->dbias;
    return br__cpu_pointwise(BR_POINTWISE(add), 3,
                             (const br_tensor *[]){ dbias, dbias, j->bias_part }, NULL);
}

/* Adds the gradients with respect to the operands. The first chunk overwrites dweight. */
static bool add_gradients(const job *j, const br_tensor *dscores, range r)
{
    const br_linear_cross_entropy_tensors *t = j->t;
    const br_tensor x = rows_of(t->input, r);
    if (t->dinput) {
        const br_tensor dx = rows_of(t->dinput, r);
        if (!br__cpu_matmul(&(br_matmul_tensors){ .a = dscores, .b = t->weight, .c = &dx }))
            return false;
    }
    if (t->dweight && !br__cpu_matmul(&(br_matmul_tensors){ .a = dscores,
                                                            .b = &x,
                                                            .c = t->dweight,
                                                            .a_transposed = true,
                                                            .accumulate = r.first > 0 }))
        return false;
    return !t->dbias || add_bias_gradient(j, dscores);
}

static bool run_chunk(const job *j, range r)
{
    const br_tensor x = rows_of(j->t->input, r);
    const br_tensor scores = rows_of(j->scores, (range){ 0, r.n });
    if (!br__cpu_matmul(&(br_matmul_tensors){
            .a = &x, .b = j->t->weight, .bias = j->t->bias, .c = &scores, .b_transposed = true }))
        return false;
    br_class_rows part = br__class_rows_part(&j->rows, r.first, r.n);
    part.x = scores.data;
    part.dx = scores.data;
    part.sums = j->sums->data;
    br__class_rows_losses(&part);
    if (!part.dy)
        return true;
    br__class_rows_gradient(&part);
    return add_gradients(j, &scores, r);
}

/* Clears the gradients that chunks add to, and without rows all of them. */
static void clear_gradients(const br_linear_cross_entropy_tensors *t)
{
    const bool is_written = t->target->numel > 0;
    if (t->dinput && !is_written)
        br__set_zero(t->dinput);
    if (t->dweight && !is_written)
        br__set_zero(t->dweight);
    if (t->dbias)
        br__set_zero(t->dbias);
}

static bool run_chunks(job *j)
{
    const br_linear_cross_entropy_tensors *t = j->t;
    const br_dtype dtype = j->rows.dtype;
    j->scores = br__new_on_host(j->op, BR_SHAPE(t->chunk, j->rows.classes), dtype);
    j->sums = br__new_on_host(j->op, BR_SHAPE(t->chunk, BR_CLASS_SUMS), dtype);
    j->bias_part = t->dbias ? br__new_on_host(j->op, 1, t->dbias->sizes, dtype) : NULL;
    if (br__failed())
        return false;
    clear_gradients(t);
    bool ok = true;
    for (int64_t first = 0; ok && first < j->rows.rows; first += t->chunk) {
        const int64_t rest = j->rows.rows - first;
        ok = run_chunk(j, (range){ first, br__min(rest, t->chunk) });
    }
    return ok;
}

bool br__cpu_linear_cross_entropy(const char *op, br_class_loss *loss,
                                  const br_linear_cross_entropy_tensors *work)
{
    const br_cross_entropy_tensors rows = { .target = work->target,
                                            .class_weight = work->class_weight,
                                            .losses = work->losses,
                                            .dy = work->dy };
    job j = { .op = op, .t = work };
    j.rows = br__class_rows(loss, work->weight->sizes[0], &rows);
    br__class_rows_weigh(&j.rows, loss);
    br_scope *scope = br_scope_begin();
    const bool before = br__round_to_bf16(work->rounds_to == BR_BF16);
    const bool ok = run_chunks(&j);
    br__round_to_bf16(before);
    br_scope_end(scope);
    if (ok && work->reduced)
        br__class_rows_reduce(&j.rows, work->reduced);
    return ok;
}
