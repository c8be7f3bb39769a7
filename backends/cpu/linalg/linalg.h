/* backends/cpu/linalg/linalg.h - linear algebra by LAPACK, a library that is opened when it is
 * first needed. */
#ifndef BR_CPU_LINALG_H
#define BR_CPU_LINALG_H

#include "backends/linalg.h"

#include <stddef.h>

/* LAPACK's routines for one dtype. Arguments are addresses, as in Fortran; the lengths of texts
 * come last. Integers have 32 bits. */
typedef struct br_lapack {
    void (*getrf)(const int *m, const int *n, void *a, const int *lda, int *ipiv, int *info);
    void (*getrs)(const char *trans, const int *n, const int *nrhs, const void *a, const int *lda,
                  const int *ipiv, void *b, const int *ldb, int *info, size_t);
    void (*potrf)(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t);
    void (*trsm)(const char *side, const char *uplo, const char *trans, const char *diag,
                 const int *m, const int *n, const void *alpha, const void *a, const int *lda,
                 void *b, const int *ldb, size_t, size_t, size_t, size_t);
    /* The routines below need memory: `work` of `lwork` numbers, and some `iwork` of integers. If
     * lwork is -1, they only write the number that is needed to work[0], and to iwork[0]. */
    void (*geqrf)(const int *m, const int *n, void *a, const int *lda, void *tau, void *work,
                  const int *lwork, int *info);
    void (*orgqr)(const int *m, const int *n, const int *k, void *a, const int *lda,
                  const void *tau, void *work, const int *lwork, int *info);
    void (*syevd)(const char *jobz, const char *uplo, const int *n, void *a, const int *lda,
                  void *w, void *work, const int *lwork, int *iwork, const int *liwork, int *info,
                  size_t, size_t);
    void (*gesdd)(const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s,
                  void *u, const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork,
                  int *iwork, int *info, size_t);
    void (*gels)(const char *trans, const int *m, const int *n, const int *nrhs, void *a,
                 const int *lda, void *b, const int *ldb, void *work, const int *lwork, int *info,
                 size_t);
    void (*gelsy)(const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b,
                  const int *ldb, int *jpvt, const void *rcond, int *rank, void *work,
                  const int *lwork, int *info);
    void (*gelsd)(const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b,
                  const int *ldb, void *s, const void *rcond, int *rank, void *work,
                  const int *lwork, int *iwork, int *info);
    void (*gelss)(const int *m, const int *n, const int *nrhs, void *a, const int *lda, void *b,
                  const int *ldb, void *s, const void *rcond, int *rank, void *work,
                  const int *lwork, int *info);
} br_lapack;

/* Opens LAPACK unless it is open. Returns its routines for a dtype, f32 or f64, or NULL with an
 * error that names the package. */
const br_lapack *br__lapack(const char *op, br_dtype dtype);

bool br__cpu_linalg(const char *op, const br_linalg_work *work);

#endif
