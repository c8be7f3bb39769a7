/* optim/strong_wolfe.c - a line search by cubic interpolation for the strong Wolfe conditions:
 * Nocedal and Wright, 2006, algorithms 3.5 and 3.6. The trial points are those of PyTorch. */
#include "optim/lbfgs.h"

#include <math.h>

typedef struct line {
    lbfgs *s;
    br_tensor *from, *direction;
    const line_point *start;
    int64_t iterations, most;
} line;

static line_point point_at(const line *l, double t)
{
    line_point p = { .t = t };
    br__lbfgs_move(l->s, l->from, l->direction, t);
    p.loss = br__lbfgs_evaluate(l->s, &p.grad);
    p.slope = p.grad ? br__lbfgs_dot(p.grad, l->direction) : NAN;
    return p;
}

/* The first Wolfe condition fails: the loss has not decreased enough for the step. */
static bool is_high(const line *l, const line_point *p)
{
    const double c1 = 1e-4;
    return p->loss > l->start->loss + c1 * p->t * l->start->slope;
}

/* The second Wolfe condition holds: the slope is flat enough. */
static bool is_flat(const line *l, const line_point *p)
{
    const double c2 = 0.9;
    return fabs(p->slope) <= -c2 * l->start->slope;
}

/* Returns where the cubic through two points is least, within bounds. */
static double cubic_minimum(const line_point *p, const line_point *q, double least, double most)
{
    const line_point *a = p->t <= q->t ? p : q, *b = p->t <= q->t ? q : p;
    const double d1 = p->slope + q->slope - 3 * (p->loss - q->loss) / (p->t - q->t);
    const double square = d1 * d1 - p->slope * q->slope;
    if (!(square >= 0))
        return (least + most) / 2;
    const double d2 = sqrt(square);
    const double t = b->t - (b->t - a->t) * ((b->slope + d2 - d1) / (b->slope - a->slope + 2 * d2));
    return fmin(fmax(t, least), most);
}

/* Finds two points with a good one between them, or a single good one. Returns their number. */
static int find_bracket(line *l, double t, line_point *bracket)
{
    line_point before = *l->start, now = point_at(l, t);
    for (; l->iterations < l->most && !br_failed(); l->iterations++) {
        const bool rises = l->iterations > 1 && now.loss >= before.loss;
        const bool high = is_high(l, &now) || rises;
        bracket[0] = before;
        bracket[1] = now;
        if (!high && is_flat(l, &now)) {
            bracket[0] = now;
            return 1;
        }
        if (high || now.slope >= 0)
            return 2;
        t = cubic_minimum(&before, &now, now.t + 0.01 * (now.t - before.t), now.t * 10);
        before = now;
        now = point_at(l, t);
    }
    bracket[0] = *l->start;
    bracket[1] = now;
    return 2;
}

/* Returns the next step size to try between two points. An interpolation close to an end makes too
 * little progress: the second one, or one at the end itself, moves by a tenth of the distance. */
static double between(const line_point *bracket, bool *is_close)
{
    const double least = fmin(bracket[0].t, bracket[1].t), most = fmax(bracket[0].t, bracket[1].t);
    const double margin = 0.1 * (most - least);
    const double t = cubic_minimum(&bracket[0], &bracket[1], least, most);
    const bool was_close = *is_close;
    *is_close = fmin(most - t, t - least) < margin;
    if (!*is_close || (!was_close && t < most && t > least))
        return t;
    *is_close = false;
    return fabs(t - most) < fabs(t - least) ? most - margin : least + margin;
}

/* Shrinks the bracket until a point satisfies both conditions. Returns the best point. */
static line_point zoom(line *l, line_point *bracket, double smallest)
{
    int low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
    bool is_close = false, done = false;
    while (!done && l->iterations < l->most && !br_failed() &&
           !(fabs(bracket[1].t - bracket[0].t) < smallest)) {
        const line_point now = point_at(l, between(bracket, &is_close));
        line_point *high = &bracket[1 - low];
        l->iterations++;
        if (is_high(l, &now) || now.loss >= bracket[low].loss) {
            *high = now;
            low = bracket[0].loss <= bracket[1].loss ? 0 : 1;
            continue;
        }
        done = is_flat(l, &now);
        if (!done && now.slope * (high->t - bracket[low].t) >= 0)
            *high = bracket[low];
        bracket[low] = now;
    }
    return bracket[low];
}

line_point br__strong_wolfe(lbfgs *s, br_tensor *from, br_tensor *direction,
                            const line_point *start, double t, int64_t most)
{
    line l = { .s = s, .from = from, .direction = direction, .start = start, .most = most };
    line_point bracket[2];
    if (find_bracket(&l, t, bracket) == 1)
        return bracket[0];
    return zoom(&l, bracket, s->options->tolerance_change / br_item(br_max(br_abs(direction))));
}
