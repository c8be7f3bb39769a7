/* cli/info_machine.c - `brasa info` without a file: shows the kernels and settings that the library
 * uses on this machine and, under mpirun, the MPI. Of several ranks, the first alone prints. */
#include "cli/cli.h"
#include "cli/info.h"

/* Returns the MPI that connects this process with others, or "none". */
static const char *transport(void)
{
    return *br_dist_library() ? br_dist_library() : "none";
}

static void print_lines(void)
{
    printf("Version                       %s\n", br_version());
    printf("Kernels                       %s\n", br_get_cpu_capability());
    printf("Threads                       %d\n", br_get_num_threads());
    printf("Precision of f32 products     %s\n", br_get_float32_matmul_precision());
    printf("Unit for \"medium\" precision   %s\n", br_get_float32_matmul_unit());
    printf("MPI                           %s\n", transport());
    printf("Ranks                         %d\n", br_dist_size(NULL));
}

static void print_object(void)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:i, s:s, s:s, s:s, s:i}", "version", br_version(), "cpu_capability",
        br_get_cpu_capability(), "threads", br_get_num_threads(), "float32_matmul_precision",
        br_get_float32_matmul_precision(), "float32_matmul_unit", br_get_float32_matmul_unit(),
        "mpi", transport(), "ranks", br_dist_size(NULL));
    if (!object || json_dumpf(object, stdout, JSON_COMPACT) != 0)
        br_raise(BR_ERROR_MEMORY, "info: cannot write the JSON object");
    printf("\n");
    json_decref(object);
}

void info_machine(bool json)
{
    if (cli_dist_init() && br_dist_rank(NULL) == 0)
        (json ? print_object : print_lines)();
    br_dist_finalize();
}
