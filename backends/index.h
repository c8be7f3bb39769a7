/* backends/index.h - work that reads or writes at the positions of an index. */
#ifndef BR_BACKEND_INDEX_H
#define BR_BACKEND_INDEX_H

/* What scatter makes of an element a of x and an element b of y. NaN propagates. */
typedef enum br_combine {
    BR_COMBINE_REPLACE, /* b */
    BR_COMBINE_ADD,
    BR_COMBINE_MUL,
    BR_COMBINE_MAX,
    BR_COMBINE_MIN,
} br_combine;

#endif
