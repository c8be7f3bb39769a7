/* backends/cpu/fft/fftw.c - opens FFTW, and keeps its plans.
 *
 * FFTW has one library for each precision. A plan is the way in which FFTW computes a transform. It
 * is estimated rather than measured (FFTW_ESTIMATE), so that a transform is computed in the same
 * way in every run. Planning takes as long as some transforms, so the latest plans are kept.
 * Making and destroying plans is not thread-safe in FFTW, but executing them is. */
#include "backends/cpu/fft/fft.h"

#include "backends/cpu/library.h"
#include "tensor/tensor_internal.h"

#include <pthread.h>
#include <stdlib.h>

/* Values of fftw3.h. */
enum { FFTW_FORWARD = -1, FFTW_BACKWARD = 1, FFTW_ESTIMATE = 1 << 6 };

/* A library. Pointers to arrays of either precision are pointers to void here. */
typedef struct fftw {
    br_library library;
    const char *prefix; /* of its functions */
    bool is_open;
    void *(*plan_many_dft)(int rank, const int *n, int howmany, void *in, const int *inembed,
                           int istride, int idist, void *out, const int *onembed, int ostride,
                           int odist, int sign, unsigned flags);
    void *(*plan_many_dft_r2c)(int rank, const int *n, int howmany, void *in, const int *inembed,
                               int istride, int idist, void *out, const int *onembed, int ostride,
                               int odist, unsigned flags);
    void *(*plan_many_dft_c2r)(int rank, const int *n, int howmany, void *in, const int *inembed,
                               int istride, int idist, void *out, const int *onembed, int ostride,
                               int odist, unsigned flags);
    void (*execute_dft)(void *plan, void *in, void *out);
    void (*execute_dft_r2c)(void *plan, void *in, void *out);
    void (*execute_dft_c2r)(void *plan, void *in, void *out);
    void (*destroy_plan)(void *plan);
    int (*alignment_of)(void *address);
} fftw;

static const br_library_function functions[] = {
    { "plan_many_dft", offsetof(fftw, plan_many_dft) },
    { "plan_many_dft_r2c", offsetof(fftw, plan_many_dft_r2c) },
    { "plan_many_dft_c2r", offsetof(fftw, plan_many_dft_c2r) },
    { "execute_dft", offsetof(fftw, execute_dft) },
    { "execute_dft_r2c", offsetof(fftw, execute_dft_r2c) },
    { "execute_dft_c2r", offsetof(fftw, execute_dft_c2r) },
    { "destroy_plan", offsetof(fftw, destroy_plan) },
    { "alignment_of", offsetof(fftw, alignment_of) },
};

/* A plan in the table. */
typedef struct slot {
    br_fft_plan plan;
    int users;     /* calls that execute it */
    uint64_t used; /* when it was used last */
} slot;

enum { SLOTS = 64 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all that follows */
static fftw single = { .library = { "FFTW", "libfftw3f.so.3", "BRASA_FFTW_SINGLE",
                                    "libfftw3-single3" },
                       .prefix = "fftwf_" };
static fftw twice = { .library = { "FFTW", "libfftw3.so.3", "BRASA_FFTW", "libfftw3-double3" },
                      .prefix = "fftw_" };
static slot slots[SLOTS];
static uint64_t now;

static fftw *library_of(br_dtype dtype)
{
    return dtype == BR_F64 ? &twice : &single;
}

static bool open_library(const char *op, fftw *f)
{
    void *handle = f->is_open ? NULL : br__library_open(op, &f->library);
    if (handle)
        f->is_open = br__library_find(op, &f->library, handle, f->prefix,
                                      sizeof functions / sizeof *functions, functions, f);
    return f->is_open;
}

/* Makes a plan. FFTW reads and writes no element while it estimates, but it looks at the alignment
 * of the arrays. */
static bool make_plan(const char *op, const fftw *f, const br_fft_shape *s, br_fft_plan *plan)
{
    static _Alignas(64) char in[64], out[64];
    const int n[1] = { (int)s->n }, many = (int)s->many, half = n[0] / 2 + 1;
    *plan = (br_fft_plan){ .shape = *s, .alignment_of = f->alignment_of, .slot = -1 };
    switch (s->kind) {
    case BR_FFT_C2C:
        plan->execute = f->execute_dft;
        plan->plan = f->plan_many_dft(1, n, many, in, NULL, 1, n[0], out, NULL, 1, n[0],
                                      s->forward ? FFTW_FORWARD : FFTW_BACKWARD, FFTW_ESTIMATE);
        break;
    case BR_FFT_R2C:
        plan->execute = f->execute_dft_r2c;
        plan->plan =
            f->plan_many_dft_r2c(1, n, many, in, NULL, 1, n[0], out, NULL, 1, half, FFTW_ESTIMATE);
        break;
    case BR_FFT_C2R:
        plan->execute = f->execute_dft_c2r;
        plan->plan =
            f->plan_many_dft_c2r(1, n, many, in, NULL, 1, half, out, NULL, 1, n[0], FFTW_ESTIMATE);
        break;
    }
    if (!plan->plan)
        br_fail(BR_ERROR_STATE, op, "%s cannot plan a transform of %d elements", f->library.file,
                n[0]);
    return plan->plan;
}

static bool same_shape(const br_fft_shape *a, const br_fft_shape *b)
{
    return a->kind == b->kind && a->forward == b->forward && a->dtype == b->dtype && a->n == b->n &&
           a->many == b->many;
}

/* Returns the slot with a plan of this shape, or else the slot without users that was used least
 * recently; NULL if all slots have users. */
static slot *find_slot(const br_fft_shape *shape)
{
    slot *oldest = NULL;
    for (slot *s = slots; s < slots + SLOTS; s++) {
        if (s->plan.plan && same_shape(&s->plan.shape, shape))
            return s;
        if (s->users == 0 && (!oldest || s->used < oldest->used))
            oldest = s;
    }
    return oldest;
}

static bool get_plan(const char *op, const br_fft_shape *shape, br_fft_plan *plan)
{
    fftw *f = library_of(shape->dtype);
    if (!open_library(op, f))
        return false;
    slot *s = find_slot(shape);
    if (!s)
        return make_plan(op, f, shape, plan);
    if (!s->plan.plan || !same_shape(&s->plan.shape, shape)) {
        if (!make_plan(op, f, shape, plan))
            return false;
        if (s->plan.plan)
            library_of(s->plan.shape.dtype)->destroy_plan(s->plan.plan);
        s->plan = *plan;
        s->plan.slot = (int)(s - slots);
    }
    s->users++;
    s->used = ++now;
    *plan = s->plan;
    return true;
}

bool br__fft_plan_begin(const char *op, const br_fft_shape *shape, br_fft_plan *plan)
{
    pthread_mutex_lock(&lock);
    const bool ok = get_plan(op, shape, plan);
    pthread_mutex_unlock(&lock);
    return ok;
}

void br__fft_plan_end(br_fft_plan *plan)
{
    pthread_mutex_lock(&lock);
    if (plan->slot >= 0)
        slots[plan->slot].users--;
    else
        library_of(plan->shape.dtype)->destroy_plan(plan->plan);
    pthread_mutex_unlock(&lock);
}
