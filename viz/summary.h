/* viz/summary.h - shared by the files of the summary writer. */
#ifndef BR_VIZ_SUMMARY_H
#define BR_VIZ_SUMMARY_H

#include "tensor/growing_text.h"
#include "viz/message.h"

#include <brasa/viz/summary_writer.h>

struct br_summary_writer {
    char *folder;
    br_event_file events;
    br__text projector; /* the text of projector_config.pbtxt */
};

/* Checks the writer, a text that must be UTF-8, which the error calls `name`, and the step. */
bool br__good_summary(const char *op, br_summary_writer *self, const char *name, const char *tag,
                      int64_t step);
bool br__good_utf8(const char *op, const char *name, const char *text);
/* Write an event with one value of a summary: `field` of the Value is `part`, which is freed. */
bool br__summary_add(br_summary_writer *self, const char *tag, int64_t step, unsigned field,
                     br_message *part);

/* An image of 8-bit channels, row by row. */
typedef struct br_image {
    int64_t height, width, channels;
    unsigned char *pixels;
} br_image;

/* Converts the tensor, whose dimensions `formats` names, to an image of 3 or 4 channels: several
 * images are put into rows of `per_row`, and after the last image the row is black. Returns false
 * and an error on failure; the caller frees the pixels with br_free(). */
bool br__image_of(const char *op, const char *name, br_tensor *t, const char *formats,
                  int64_t per_row, br_image *image);
/* Appends the image as a PNG file. */
void br__png_append(br_message *m, const br_image *image);

#endif
