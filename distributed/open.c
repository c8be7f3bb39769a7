/* distributed/open.c - loads the transport of the MPI that started this process.
 *
 * The library is linked with no MPI. One plug-in per MPI, libbrasa_mpi_<name>.so, fills the table
 * of a transport. An MPI library in a process that another MPI's mpirun started believes that it
 * is alone, so the right one must be chosen, and the number of ranks is compared. */
#include "distributed/distributed_internal.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char plugin_variable[] = "BRASA_MPI_PLUGIN";

/* Variables that launchers set. The first ones hold the number of ranks. `rank` is the variable
 * with the process's rank. */
static const struct launcher {
    const char *variable, *mpi;
    bool has_size;
    const char *rank;
} launchers[] = {
    { "OMPI_COMM_WORLD_SIZE", "openmpi", true, "OMPI_COMM_WORLD_RANK" },
    { "PMI_SIZE", "mpich", true, "PMI_RANK" },
    { "PMI_RANK", "mpich", false, "PMI_RANK" },
    { "MPI_LOCALNRANKS", "mpich", false, "PMI_RANK" },
    { "PMIX_RANK", "openmpi", false, "PMIX_RANK" }, /* srun --mpi=pmix */
};

/* The names under which programs load the MPI libraries. */
static const struct library {
    const char *file, *mpi;
} libraries[] = {
    { "libmpi.so.40", "openmpi" },
    { "libmpich.so.12", "mpich" },
    { "libmpi.so.12", "mpich" }, /* where Debian's name is not used */
};

static const struct launcher *find_launcher(void)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++)
        if (getenv(launchers[i].variable))
            return &launchers[i];
    return NULL;
}

bool br__dist_is_launched(int *rank)
{
    const struct launcher *launcher = find_launcher();
    const char *value = launcher ? getenv(launcher->rank) : NULL;
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

/* Notes in *found whether the program has a dynamic linker. The program is the first object. */
static int look_for_linker(struct dl_phdr_info *program, size_t size, void *found)
{
    (void)size;
    for (int i = 0; i < program->dlpi_phnum; i++)
        *(bool *)found |= program->dlpi_phdr[i].p_type == PT_INTERP;
    return 1; /* look at no other object */
}

/* Returns true if the program was linked with -static. glibc's dlopen() then loads a second C
 * library, in which MPI crashes. */
static bool is_static(void)
{
    bool found = false;
    dl_iterate_phdr(look_for_linker, &found);
    return !found;
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
    path[n > 0 ? n : 0] = '\0';
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

/* Loads the plug-in. Records an error and returns NULL if there is none. `why` states why it is
 * needed. */
static void *load(const char *mpi, const char *why)
{
    char file[64], path[PATH_MAX], folder[2][PATH_MAX] = { "", "" };
    const char *given = getenv(plugin_variable);
    bool there = given && *given;
    snprintf(file, sizeof file, "libbrasa_mpi_%s.so", mpi);
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
                 "%s to the path of the file",
                 why, file, folder[0], mpi, plugin_variable);
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

/* Compares the number of ranks with the launcher's. */
static bool right_size(br_comm *comm, const struct launcher *launcher)
{
    int size = launcher && launcher->has_size ? atoi(getenv(launcher->variable)) : comm->size;
    if (size == comm->size)
        return true;
    br_raise(BR_ERROR_STATE,
             "dist_init: mpirun started %d ranks (%s), but %s sees %d (MPI_Comm_size): the program "
             "uses another MPI than mpirun; use the mpirun that belongs to %s",
             size, launcher->variable, comm->library, comm->size, comm->library);
    comm->finalize(comm, true);
    return false;
}

bool br__dist_open(br_comm *comm, bool *connected)
{
    const struct launcher *launcher = find_launcher();
    const char *initialized = find_initialized();
    char why[128];
    *connected = launcher || initialized;
    if (!*connected)
        return true;
    if (is_static()) {
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
    return plugin && open_plugin(plugin, comm) && right_size(comm, launcher);
}
