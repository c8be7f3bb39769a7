/* tests/distributed/mpi/program.c - a program that initializes and finalizes MPI itself, and uses
 * it beside Brasa. Prints the sum of the ranks' numbers, computed by each. */
#include <brasa/brasa.h>
#include <mpi.h>

int main(int argc, char **argv)
{
    int level, finalized = 1, rank = -1, sum = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    br_dist_init(NULL);
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_scalar(br_dist_rank(NULL), BR_I64);
    br_dist_all_reduce(t, BR_DIST_SUM, NULL);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && !br_failed())
        printf("%d ranks: %d, %d\n", br_dist_size(NULL), sum, (int)br_item_i64(t));
    br_scope_end(scope);
    br_dist_finalize();
    MPI_Finalized(&finalized);
    if (finalized)
        fprintf(stderr, "br_dist_finalize() has finalized the program's MPI\n");
    else
        MPI_Finalize();
    return br_report(stderr) || finalized;
}
