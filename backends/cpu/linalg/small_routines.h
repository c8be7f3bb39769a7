/* backends/cpu/linalg/small_routines.h - factorizations of a small matrix and triangular systems;
 * part of small.c, which defines the type REAL and NAME(). Matrices are stored by columns: element
 * (i, j) of a matrix with m rows is a[i + j * m]. Each inner loop runs down a column. */

/* x -= factor y, for n elements. */
static inline void NAME(subtract)(int n, REAL *x, const REAL *y, REAL factor)
{
    for (int i = 0; i < n; i++)
        x[i] -= factor * y[i];
}

/* Replaces the lower triangle of a [n, n] by its Cholesky factor. Returns 0, or the order of the
 * first leading minor that is not positive. */
static int NAME(cholesky)(int n, REAL *a)
{
    for (int j = 0; j < n; j++) {
        REAL *column = a + j * n;
        for (int k = 0; k < j; k++)
            NAME(subtract)(n - j, column + j, a + k * n + j, a[k * n + j]);
        if (!(column[j] > 0))
            return j + 1;
        column[j] = ROOT(column[j]);
        for (int i = j + 1; i < n; i++)
            column[i] /= column[j];
    }
    return 0;
}

/* Replaces a [m, n] by its factors L and U. Row j is exchanged with row pivots[j] - 1, which has
 * the largest element of column j. Returns 0, or the first j + 1 for which U[j, j] is 0. */
static int NAME(lu)(int m, int n, REAL *a, int *pivots)
{
    int info = 0;
    for (int j = 0; j < m && j < n; j++) {
        REAL *column = a + j * m;
        int best = j;
        for (int i = j + 1; i < m; i++)
            best = MAGNITUDE(column[i]) > MAGNITUDE(column[best]) ? i : best;
        pivots[j] = best + 1;
        if (column[best] == 0) {
            info = info ? info : j + 1;
            continue;
        }
        for (int c = 0; c < n; c++) {
            const REAL other = a[c * m + best];
            a[c * m + best] = a[c * m + j];
            a[c * m + j] = other;
        }
        for (int i = j + 1; i < m; i++)
            column[i] /= column[j];
        for (int c = j + 1; c < n; c++)
            NAME(subtract)(m - j - 1, a + c * m + j + 1, column + j + 1, a[c * m + j]);
    }
    return info;
}

/* Replaces b [n] by the solution of a triangle of a [n, n], whose diagonal counts as ones if
 * `unit`. */
static void NAME(triangular_solve)(int n, const REAL *a, REAL *b, bool upper, bool unit)
{
    for (int t = 0; t < n; t++) {
        const int j = upper ? n - 1 - t : t, first = upper ? 0 : j + 1,
                  count = upper ? j : n - j - 1;
        b[j] = unit ? b[j] : b[j] / a[j * n + j];
        NAME(subtract)(count, b + first, a + j * n + first, b[j]);
    }
}

static int NAME(run)(const br_linalg_work *w, REAL *a, REAL *b, int *pivots)
{
    const int m = (int)w->m, n = (int)w->n, k = (int)w->k;
    int info = 0;
    if (w->routine == BR_LINALG_CHOLESKY)
        return NAME(cholesky)(n, a);
    if (w->routine != BR_LINALG_TRIANGULAR_SOLVE)
        info = NAME(lu)(m, n, a, pivots);
    if (w->routine == BR_LINALG_LU || info)
        return info;
    for (int c = 0; c < k; c++) {
        REAL *x = b + c * n;
        for (int i = 0; w->routine == BR_LINALG_SOLVE && i < n; i++) {
            const REAL other = x[pivots[i] - 1];
            x[pivots[i] - 1] = x[i];
            x[i] = other;
        }
        if (w->routine == BR_LINALG_SOLVE)
            NAME(triangular_solve)(n, a, x, false, true);
        NAME(triangular_solve)
        (n, a, x, w->routine == BR_LINALG_SOLVE || w->upper,
         w->routine == BR_LINALG_TRIANGULAR_SOLVE && w->unit);
    }
    return 0;
}

#undef REAL
#undef NAME
#undef ROOT
#undef MAGNITUDE
