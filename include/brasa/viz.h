/* brasa/viz.h - plots. */
#ifndef BRASA_VIZ_H
#define BRASA_VIZ_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_series {
    const char *name;
    int64_t count;
    const double *x, *y; /* borrowed; a point that is not finite, or beyond 1e300, is left out */
} br_series;

typedef struct br_plot_options {
    const char *title, *x_label, *y_label; /* UTF-8, NULL: none */
    bool log_y;        /* values that are not positive are left out, unless there is a floor */
    bool log_x;        /* the same for x */
    double floor_y;    /* with log_y: smaller values are drawn at this one; 0: no floor */
    int width, height; /* in pixels; 0: 800 x 480 */
} br_plot_options;

/* Draws the series as lines into a self-contained SVG file. `options` may be NULL. */
BR_API bool br_plot_svg(const char *path, int n_series, const br_series *series,
                        const br_plot_options *options);

#ifdef __cplusplus
}
#endif
#endif
