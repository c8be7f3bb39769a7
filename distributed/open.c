/* distributed/open.c - loads the transport of the MPI that started this process.
 *
 * The library is linked with no MPI. One plug-in per MPI, libbrasa_mpi_<name>.so, fills the table
 * of a transport. An MPI library in a process that another MPI's mpirun started believes that it
 * is alone, so the right one must be chosen, and the number of ranks is compared. */
#include "distributed/distributed_internal.h"
#include "tensor/linked.h"
#include "tensor/min_max.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char plugin_variable[] = "BRASA_MPI_PLUGIN";

static const char slurm_tasks[] = "SLURM_STEP_NUM_TASKS"; /* that srun started */

/* Variables that launchers set. The first one that is set counts: mpirun may itself use srun.
 * `holds` is what the variable tells, `rank` the variable with the process's rank. */
static const struct launcher {
    const char *variable, *mpi;
    enum { SIZE, LOCAL_SIZE, RANK } holds;
    const char *rank;
} launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", "openmpi", SIZE, "OMPI_COMM_WORLD_RANK" },
    { "PMI_SIZE", "mpich", SIZE, "PMI_RANK" },
    { "PMI_RANK", "mpich", RANK, "PMI_RANK" },
    { "MPI_LOCALNRANKS", "mpich", LOCAL_SIZE, "PMI_RANK" },
    { "PMIX_RANK", "openmpi", RANK, "PMIX_RANK" }, /* srun --mpi=pmix */
    { slurm_tasks, NULL, SIZE, "SLURM_PROCID" },   /* srun without PMI: no MPI is connected */
};

/* The names under which programs load the MPI libraries. */
static const struct library {
    const char *file, *mpi;
} libraries[] = {
    { "libmpi.so.40", "openmpi" },
    { "libmpich.so.12", "mpich" },
    { "libmpi.so.12", "mpich" }, /* where Debian's name is not used */
};

/* Returns the number that a variable holds; 0 if it is not set. */
static int number_in(const char *variable)
{
    const char *value = getenv(variable);
    return value ? atoi(value) : 0;
}

static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *l = &launchers[i];
        if (getenv(l->variable) && (l->mpi || number_in(l->variable) > 1))
            return l;
    }
    return NULL;
}

bool br_dist_is_launched(int *rank)
{
    const struct launcher *launcher = find_launcher();
    const char *value = launcher ? getenv(launcher->rank) : NULL;
    if (rank)
        *rank = value ? atoi(value) : -1;
    return launcher != NULL;
}

/* Returns the name of the MPI that the program itself has initialized, or NULL. */
static const char *find_initialized(void)
{
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i].file, RTLD_LAZY | RTLD_NOLOAD);
        if (!library)
            continue;
        int yes = 0;
        union {
            void *symbol;
            int (*call)(int *);
        } initialized = { dlsym(library, "MPI_Initialized") };
        if (initialized.symbol)
            initialized.call(&yes);
        dlclose(library);
        if (yes)
            return libraries[i].mpi;
    }
    return NULL;
}

/* ---- The plug-in ----------------------------------------------------------------------------- */

/* Stores the folder of a path, without the last "/". Returns false if the path names none. */
static bool folder_of(const char *path, char *folder)
{
    const char *end = path ? strrchr(path, '/') : NULL;
    if (!end || end - path >= PATH_MAX)
        return false;
    memcpy(folder, path, (size_t)(end - path));
    folder[end - path] = '\0';
    return true;
}

/* Stores the folder of the library that contains this function, or with `program` that of the
 * program. They are the same if the program contains the library. */
static bool find_folder(bool program, char *folder)
{
    char path[PATH_MAX];
    Dl_info info;
    if (!program)
        return dladdr(launchers, &info) != 0 && folder_of(info.dli_fname, folder);
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[br__max(n, 0)] = '\0';
    return folder_of(path, folder);
}

/* Stores the path of the plug-in if it is in the folder, or in the folder of libraries that belongs
 * to this folder of programs. */
static bool is_in(const char *folder, const char *file, char *path)
{
    static const char *const below[] = { ".", BRASA_LIB_FROM_PROGRAM };
    for (size_t i = 0; i < sizeof below / sizeof *below; i++) {
        int n = snprintf(path, PATH_MAX, "%s/%s/%s", folder, below[i], file);
        if (n < PATH_MAX && access(path, F_OK) == 0)
            return true;
    }
    return false;
}

/* Returns the plug-in that the user has chosen, or NULL. */
static const char *given_plugin(void)
{
    const char *given = getenv(plugin_variable);
    return given && *given ? given : NULL;
}

/* Returns a hint if the plug-in of another MPI is in one of the folders; otherwise "". */
static const char *hint_at_other(const char *mpi, char folder[2][PATH_MAX])
{
    char path[PATH_MAX];
    bool is_mpich = strcmp(mpi, "mpich") == 0;
    const char *other = is_mpich ? "libbrasa_mpi_openmpi.so" : "libbrasa_mpi_mpich.so";
    if (!is_in(folder[0], other, path) && !is_in(folder[1], other, path))
        return "";
    return is_mpich ? ", or use mpirun of Open MPI, whose plug-in is there"
                    : ", or use mpirun of MPICH, whose plug-in is there";
}

/* Loads the plug-in. Records an error and returns NULL if there is none. `why` states why it is
 * needed. `mpi` may be NULL if the user has chosen one. */
static void *load(const char *mpi, const char *why)
{
    char file[64], path[PATH_MAX], folder[2][PATH_MAX] = { "", "" };
    const char *given = given_plugin();
    bool there = given != NULL;
    snprintf(file, sizeof file, "libbrasa_mpi_%s.so", mpi ? mpi : "");
    if (there)
        snprintf(path, sizeof path, "%s", given);
    for (int i = 0; i < 2 && !there; i++)
        there = find_folder(i == 1, folder[i]) && is_in(folder[i], file, path);
    void *plugin = dlopen(there ? path : file, RTLD_NOW | RTLD_LOCAL);
    if (plugin)
        return plugin;
    if (there)
        br_raise(BR_ERROR_IO, "dist_init: cannot load the plug-in for MPI: %s", dlerror());
    else
        br_raise(BR_ERROR_IO,
                 "dist_init: %s, but there is no %s in %s: build brasa with -DBRASA_MPI=%s, or set "
                 "%s to the path of the file%s",
                 why, file, folder[0], mpi, plugin_variable, hint_at_other(mpi, folder));
    return NULL;
}

static bool open_plugin(void *plugin, br_comm *comm)
{
    char error[BR_COMM_TEXT] = "";
    union {
        void *symbol;
        br_comm_open_function call;
    } open = { dlsym(plugin, "br_comm_open") };
    *comm = (br_comm){ .struct_size = sizeof *comm };
    if (!open.symbol)
        br_raise(BR_ERROR_STATE, "dist_init: the plug-in for MPI has no function br_comm_open: %s",
                 dlerror());
    else if (!open.call(comm, error))
        br_raise(BR_ERROR_STATE, "dist_init: %s", error);
    return !br_failed();
}

/* What a variable tells about the number of ranks. */
typedef struct expected {
    const char *variable;
    int size;
    bool exact; /* or there may be more */
} expected;

/* MPI may change the variables when it starts alone, so this is called before. */
static expected expect(const struct launcher *launcher)
{
    if (!launcher)
        return (expected){ .size = 0 };
    return (expected){ launcher->variable,
                       number_in(launcher->variable) + (launcher->holds == RANK),
                       launcher->holds == SIZE };
}

/* Compares the number of ranks with the launcher's. */
static bool right_size(br_comm *comm, expected e)
{
    /* Rank 0 alone cannot know the others from its rank. Not so for more ranks: mpirun may have
     * used srun, which then started something else than ranks. */
    if (e.size > 0 && !e.exact && comm->size == 1 && number_in(slurm_tasks) > e.size)
        e = (expected){ slurm_tasks, number_in(slurm_tasks), false };
    if (e.exact ? comm->size == e.size : comm->size >= e.size)
        return true;
    br_raise(BR_ERROR_STATE,
             "dist_init: the launcher started %s%d ranks (%s), but %s sees %d (MPI_Comm_size): the "
             "program uses another MPI than the launcher; use the mpirun, or the option --mpi of "
             "srun, that belongs to %s",
             e.exact ? "" : "at least ", e.size, e.variable, comm->library, comm->size,
             comm->library);
    comm->finalize(comm, true);
    return false;
}

/* Fails because srun has started several processes that cannot find each other. */
static bool fail_without_pmi(void)
{
    br_raise(BR_ERROR_STATE,
             "dist_init: srun started this process as one of %d tasks (%s), but without PMI, so it "
             "cannot reach the others: use srun --mpi=pmix with Open MPI, srun --mpi=pmi2 with "
             "MPICH, or mpirun; unset %s if each task is to run alone",
             number_in(slurm_tasks), slurm_tasks, slurm_tasks);
    return false;
}

/* Warns if SLURM has allocated several tasks, but none of its launchers started this process. */
static void look_for_allocation(void)
{
    int tasks = number_in("SLURM_NTASKS");
    if (tasks > 1)
        br_raise(BR_WARNING,
                 "dist_init: SLURM has allocated %d tasks (SLURM_NTASKS), but this process is the "
                 "only rank, because neither srun nor mpirun started it: use srun --mpi=pmix with "
                 "Open MPI, srun --mpi=pmi2 with MPICH, or mpirun",
                 tasks);
}

bool br__dist_open(br_comm *comm, bool *connected)
{
    const struct launcher *launcher = find_launcher();
    const expected e = expect(launcher);
    const char *initialized = find_initialized();
    char why[128];
    *connected = launcher || initialized;
    if (!*connected) {
        look_for_allocation();
        return true;
    }
    if (!initialized && !launcher->mpi && !given_plugin())
        return fail_without_pmi();
    if (br__is_static()) {
        br_raise(BR_ERROR_STATE,
                 "dist_init: this process was started by mpirun, but the program was linked with "
                 "-static, and cannot load MPI: link it without -static");
        return false;
    }
    if (initialized)
        snprintf(why, sizeof why, "the program has initialized MPI (%s)", initialized);
    else
        snprintf(why, sizeof why, "this process was started by mpirun (%s is set)",
                 launcher->variable);
    /* The plug-in stays loaded: MPI libraries cannot be unloaded. */
    void *plugin = load(initialized ? initialized : launcher->mpi, why);
    return plugin && open_plugin(plugin, comm) && right_size(comm, e);
}
