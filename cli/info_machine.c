/* cli/info_machine.c - `brasa info` without a file: shows the kernels and settings that the library
 * uses on this machine. */
#include "cli/cli.h"
#include "cli/info.h"

static void print_lines(void)
{
    printf("Version                       %s\n", br_version());
    printf("Kernels                       %s\n", br_get_cpu_capability());
    printf("Threads                       %d\n", br_get_num_threads());
    printf("Precision of f32 products     %s\n", br_get_float32_matmul_precision());
    printf("Unit for \"medium\" precision   %s\n", br_get_float32_matmul_unit());
}

static void print_object(void)
{
    json_t *object = json_pack(
        "{s:s, s:s, s:i, s:s, s:s}", "version", br_version(), "cpu_capability",
        br_get_cpu_capability(), "threads", br_get_num_threads(), "float32_matmul_precision",
        br_get_float32_matmul_precision(), "float32_matmul_unit", br_get_float32_matmul_unit());
    if (!object || json_dumpf(object, stdout, JSON_COMPACT) != 0)
        br_raise(BR_ERROR_MEMORY, "info: cannot write the JSON object");
    printf("\n");
    json_decref(object);
}

void info_machine(bool json)
{
    if (json)
        print_object();
    else
        print_lines();
}
