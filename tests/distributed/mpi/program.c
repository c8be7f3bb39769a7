/* tests/distributed/mpi/program.c - a program that initializes and finalizes MPI itself, and uses
 * it beside Brasa, twice:
 *
 *     mpirun -n N brasa_program_openmpi single|multiple
 *
 * With `single`, its MPI allows one thread only, and Brasa has no progress thread. Rank 0 prints
 * the sum of the ranks' numbers, computed by MPI and by Brasa. */
#include <brasa/brasa.h>
#include <mpi.h>
#include <string.h>

static void add_numbers(const br_dist_options *options)
{
    int rank = -1, sum = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    br_dist_init(options);
    br_scope *scope = br_scope_begin();
    br_tensor *t = br_scalar(br_dist_rank(NULL), BR_I64);
    br_dist_all_reduce(t, BR_DIST_SUM, NULL);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && !br_failed())
        printf("%d ranks: %d, %d\n", br_dist_size(NULL), sum, (int)br_item_i64(t));
    br_scope_end(scope);
    br_dist_finalize();
}

int main(int argc, char **argv)
{
    int level, finalized = 1;
    bool single = argc > 1 && strcmp(argv[1], "single") == 0;
    MPI_Init_thread(&argc, &argv, single ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
    br_dist_options options = br_dist_defaults();
    if (single && !br_dist_init(&options) &&
        !strstr(br_error_message(), "does not allow a progress thread"))
        return br_report(stderr);
    br_clear_error();
    options.progress_thread = !single;
    add_numbers(&options);
    add_numbers(&options);
    MPI_Finalized(&finalized);
    if (finalized)
        fprintf(stderr, "br_dist_finalize() has finalized the program's MPI\n");
    else
        MPI_Finalize();
    return br_report(stderr) || finalized;
}
