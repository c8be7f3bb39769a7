/* train/tensorboard.h - what a run writes to event files for TensorBoard. */
#ifndef BRASA_TRAIN_TENSORBOARD_H
#define BRASA_TRAIN_TENSORBOARD_H

#include <brasa/brasa.h>

/* Creates an event file in the folder. If `done` steps were done before, TensorBoard discards the
 * later steps of earlier files; if `done` is 0, earlier files are deleted. Returns NULL with an
 * error on failure. */
br_summary_writer *tensorboard_open(const char *folder, int64_t done);
/* Writes the values of a step; NaN values are skipped. */
bool tensorboard_add(br_summary_writer *writer, int64_t step, int n, const char *const *tags,
                     const double *values);
/* Writes the distributions of the parameters that require grad, and of their gradients; those
 * without a finite value are skipped. */
bool tensorboard_add_histograms(br_summary_writer *writer, int64_t step,
                                const br_named_list *parameters);

#endif
