/* viz/plot_axis.c - the range, the ticks and the labels of an axis. */
#include "viz/plot.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* On an axis of more decades, ticks at 2 .. 9 of each would be too dense. */
static const double few_decades = 8;
/* On an axis of fewer decades, ticks are round numbers at equal distances. */
static const double part_of_decade = 0.3;
/* Smaller ranges would underflow the arithmetic of ticks. */
static const double narrowest = 1e-300;

br_axis br__new_axis(bool log)
{
    return (br_axis){ .low = INFINITY, .high = -INFINITY, .log = log };
}

void br__axis_widen(br_axis *a, double value)
{
    double v = a->log ? log10(value) : value;
    a->low = fmin(a->low, v);
    a->high = fmax(a->high, v);
}

static double pixel(const br_axis *a, double v)
{
    return a->from + (v - a->low) / (a->high - a->low) * (a->to - a->from);
}

double br__axis_position(const br_axis *a, double value)
{
    return pixel(a, a->log ? log10(value) : value);
}

double br__axis_tick(const br_axis *a, int tick)
{
    return pixel(a, a->ticks[tick].at);
}

/* ---- Ticks ----------------------------------------------------------------------------------- */

static void add_tick(br_axis *a, double at, double value, bool labelled)
{
    if (a->n_ticks < BR_MAX_TICKS)
        a->ticks[a->n_ticks++] = (br_tick){ at, value, labelled };
}

/* Returns 1, 2 or 5 times a power of ten that divides the range into about `count` steps. */
static double nice_step(double range, double count)
{
    double rough = range / count, power = pow(10, floor(log10(rough)));
    double digit = rough / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

/* Places ticks at equal distances, and widens low .. high to the first and the last of them. */
static void place_round_numbers(br_axis *a, double count, double *low, double *high)
{
    double step = a->step = nice_step(*high - *low, count);
    *low = floor(*low / step + 1e-9) * step;
    *high = ceil(*high / step - 1e-9) * step;
    a->largest = fmax(fabs(*low), fabs(*high));
    int64_t n = llround((*high - *low) / step);
    for (int64_t i = 0; i <= n; i++) {
        double tick = *low + (double)i * step;
        tick = fabs(tick) < step / 2 ? 0 : tick;
        add_tick(a, a->log ? log10(tick) : tick, tick, true);
    }
}

/* Places ticks at equal distances on a logarithmic axis that is a small part of a decade. */
static void place_part_of_decade(br_axis *a, double count)
{
    double low = pow(10, a->low), high = pow(10, a->high);
    place_round_numbers(a, count, &low, &high);
    a->low = log10(low);
    a->high = log10(high);
}

/* Rounds the logarithm of a value to that of a digit times a power of ten, downwards or upwards. */
static double round_digit(double v, bool up)
{
    double power = floor(v), digit = pow(10, v - power);
    return power + log10(up ? ceil(digit - 1e-9) : floor(digit + 1e-9));
}

/* Places ticks at digits 1 .. 9 of each decade, and labels those up to `most` of 1, 2 and 5. */
static void place_digits(br_axis *a, int most)
{
    for (double power = floor(a->low); power <= a->high; power++)
        for (int digit = 1; digit <= 9; digit++) {
            double v = power + log10(digit);
            if (v >= a->low - 1e-9 && v <= a->high + 1e-9)
                add_tick(a, v, digit * pow(10, power), digit <= most && (digit <= 2 || digit == 5));
        }
}

static void place_powers(br_axis *a, double step)
{
    int64_t n = llround((a->high - a->low) / step);
    for (int64_t i = 0; i <= n; i++) {
        double power = a->low + (double)i * step;
        add_tick(a, power, pow(10, power), true);
    }
}

static void place_logarithmic(br_axis *a, double count)
{
    double decades = a->high - a->low, step = fmax(1, ceil(nice_step(decades, count)));
    if (decades < part_of_decade && a->low > log10(narrowest)) {
        place_part_of_decade(a, count);
    } else if (3 * decades <= count) { /* there is room for three labels per decade */
        a->low = round_digit(a->low, false);
        a->high = round_digit(a->high, true);
        place_digits(a, 5);
    } else {
        a->low = floor(a->low / step + 1e-9) * step;
        a->high = ceil(a->high / step - 1e-9) * step;
        if (step == 1 && a->high - a->low <= few_decades)
            place_digits(a, 1);
        else
            place_powers(a, step);
    }
}

void br__axis_place_ticks(br_axis *a, double count)
{
    if (!(a->low <= a->high)) { /* nothing to draw */
        a->low = 0;
        a->high = 1;
    }
    double min_range = fmax(1e-9 * fmax(fabs(a->low), fabs(a->high)), narrowest);
    if (a->high - a->low <= min_range) { /* all values are equal */
        double pad = a->low == 0 || a->log ? 0.5 : fabs(a->low) / 2;
        a->low -= pad;
        a->high += pad;
    }
    a->n_ticks = 0;
    a->step = 0;
    if (a->log)
        place_logarithmic(a, count);
    else
        place_round_numbers(a, count, &a->low, &a->high);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

/* Equal distances determine the digits: a label has as many as distinguish it from the next one. */
void br__axis_label(const br_axis *a, int tick, br_tick_text text)
{
    double value = a->ticks[tick].value;
    int decimals = a->step > 0 ? (int)fmax(0, -floor(log10(a->step) + 1e-9)) : 0;
    int digits = a->step > 0 ? (int)fmin(log10(a->largest / a->step) + 2, 15) : 6;
    if (a->step > 0 && decimals <= 6 && a->largest < 1e7)
        snprintf(text, sizeof(br_tick_text), "%.*f", decimals, value);
    else
        snprintf(text, sizeof(br_tick_text), "%.*g", digits > 3 ? digits : 3, value);
}

int br__axis_longest_label(const br_axis *a)
{
    size_t longest = 0;
    br_tick_text text;
    for (int i = 0; i < a->n_ticks; i++) {
        if (!a->ticks[i].labelled)
            continue;
        br__axis_label(a, i, text);
        longest = strlen(text) > longest ? strlen(text) : longest;
    }
    return (int)longest;
}
