/* viz/plot.h - pictures of several plots, and the axes of a plot. */
#ifndef BR_VIZ_PLOT_H
#define BR_VIZ_PLOT_H

#include <brasa/viz.h>

/* ---- Panels ---------------------------------------------------------------------------------- */

/* A plot of one quantity: it has a y axis and a legend of its own. Everything is borrowed. */
typedef struct br_plot_panel {
    const char *y_label; /* UTF-8, NULL: none */
    bool log_y;
    double floor_y; /* as in br_plot_options */
    int n_series;
    const br_series *series;
} br_plot_panel;

enum { BR_MAX_PANELS = 8 };

/* Draws 1 .. BR_MAX_PANELS panels one below the other, which share their x axis and the height of
 * the picture, into a self-contained SVG file. Ignores the options' y_label, log_y and floor_y. */
bool br__plot_panels(const char *path, int n_panels, const br_plot_panel *panels,
                     const br_plot_options *options);

/* ---- Axes ------------------------------------------------------------------------------------ */

/* A picture of 20,000 pixels has 286 ticks and one at each end; eight decades have 9 ticks each. */
enum { BR_MAX_TICKS = 300 };

typedef struct br_tick {
    double at, value; /* at: the value or, on a logarithmic axis, its logarithm */
    bool labelled;
} br_tick;

/* One axis: values low .. high, or their logarithms, are drawn at pixels from .. to. */
typedef struct br_axis {
    double low, high, from, to;
    bool log;             /* base 10 */
    double step, largest; /* distance between ticks, and the largest size; step 0: powers of ten */
    int n_ticks;
    br_tick ticks[BR_MAX_TICKS];
} br_axis;

typedef char br_tick_text[40];

/* Returns an axis without a value. */
br_axis br__new_axis(bool log);
void br__axis_widen(br_axis *a, double value);
/* Rounds the range outwards, and places about `count` ticks with labels. An axis of few decades has
 * ticks without labels, too, at 2 .. 9 of each decade. */
void br__axis_place_ticks(br_axis *a, double count);
/* Return the pixel of a value, and that of a tick. */
double br__axis_position(const br_axis *a, double value);
double br__axis_tick(const br_axis *a, int tick);
void br__axis_label(const br_axis *a, int tick, br_tick_text text);
/* Returns the number of bytes of the longest label. */
int br__axis_longest_label(const br_axis *a);

#endif
