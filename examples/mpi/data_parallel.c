/* examples/mpi/data_parallel.c - trains a small network with several processes:
 *
 *     mpirun -n 4 data_parallel
 *
 * Each rank has its own batches. All of them end with the same parameters. */
#include <brasa/brasa.h>

enum { STEPS = 200, BATCH = 16 };

/* The loss of batch number `batch`: the network learns the product of two numbers. */
static br_tensor *loss_of(br_sequential *model, int batch)
{
    br_manual_seed((uint64_t)batch);
    br_tensor *x = br_rand(BR_SHAPE(BATCH, 2), BR_F32);
    br_tensor *product = br_mul(br_slice(x, 1, 0, 1, 1), br_slice(x, 1, 1, 2, 1));
    return br_mse_loss(br_forward(model, x), product, BR_REDUCTION_MEAN);
}

int main(void)
{
    br_dist_init(NULL);
    br_manual_seed(1);
    br_sequential *model = br_sequential_new(
        BR_MODULES(br_linear_new(2, 16, true), br_tanh_new(), br_linear_new(16, 1, true)));
    br_data_parallel *parallel = br_data_parallel_new(br_base(model), NULL);
    br_optim *adam = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 0.02));
    for (int step = 0; step < STEPS; step++) {
        br_scope *scope = br_scope_begin();
        br_tensor *loss = loss_of(model, step * br_dist_size(NULL) + br_dist_rank(NULL));
        br_optim_zero_grad(adam);
        br_backward(loss); /* averages the gradients of all ranks */
        br_optim_step(adam);
        if (br_dist_rank(NULL) == 0 && step % 50 == 49)
            printf("step %d: loss %.5f\n", step + 1, br_item(loss));
        br_scope_end(scope);
    }
    br_optim_free(adam);
    br_data_parallel_free(parallel);
    br_module_free(model);
    br_dist_finalize();
    return br_report(stderr);
}
