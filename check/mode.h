/* check/mode.h - the dtypes in which a golden-1 file is checked. */
#ifndef BR_CHECK_MODE_H
#define BR_CHECK_MODE_H

#include <brasa/tensor.h>

/* {0}: the dtypes of the file. */
typedef struct br_check_mode {
    bool converts; /* floating-point parameters and inputs are converted to `dtype` */
    br_dtype dtype;
    bool amp; /* the forward pass runs in mixed precision, bf16 */
} br_check_mode;

#endif
