/* viz/summary_image.c - images for TensorBoard: Image of summary.proto has 1 int32 height, 2 width,
 * 3 colorspace, which is the number of channels, and 4 bytes encoded_image_string, a PNG file. */
#include "tensor/min_max.h"
#include "viz/summary.h"

#include <ctype.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_summary_image)

enum { IMAGE = 4 };             /* of a Value */
enum { PER_ROW = 8 };           /* images */
enum { MOST_PIXELS = 1 << 28 }; /* a PNG's chunk has at most 2^31 - 1 bytes */

/* Returns the place of an upper-case letter in `formats`, which may be lower case, or -1. */
static int64_t place_of(const char *formats, char letter)
{
    for (int64_t i = 0; formats[i]; i++)
        if (toupper((unsigned char)formats[i]) == letter)
            return i;
    return -1;
}

/* Returns whether `formats` has each of the letters once, and no other. */
static bool names_all(const char *formats, const char *letters)
{
    bool ok = strlen(formats) == strlen(letters);
    for (const char *l = letters; ok && *l; l++)
        ok = place_of(formats, *l) >= 0;
    return ok;
}

/* Returns the tensor as [n, channels, height, width], or NULL and an error. */
static br_tensor *as_nchw(const char *op, const char *name, br_tensor *t, const char *formats)
{
    const char *letters = names_all(formats, "NCHW")  ? "NCHW"
                          : names_all(formats, "CHW") ? "CHW"
                          : names_all(formats, "HW")  ? "HW"
                                                      : NULL;
    if (!letters)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "dataformats is \"%s\", must have the letters CHW, HW or NCHW, in any order",
                       br_printable(formats));
    int n = (int)strlen(letters);
    if (t->ndim != n)
        return br_fail(BR_ERROR_SHAPE, op, "%s is %s, must have the %d dimensions %s", name,
                       br__shape(t), n, formats);
    int64_t dims[4];
    for (int i = 0; i < n; i++)
        dims[i] = place_of(formats, letters[i]);
    t = br_permute(t, n, dims);
    for (; n < 4; n++)
        t = br_unsqueeze(t, 0);
    return t;
}

static bool good_size(const char *op, const char *name, const br_tensor *t, const char *formats)
{
    const int64_t *size = t->sizes;
    bool several = size[0] != 1 || strlen(formats) == 4;
    bool good_channels = size[1] == 1 || size[1] == 3 || (size[1] == 4 && !several);
    if (!good_channels)
        br_fail(BR_ERROR_SHAPE, op, "%s has %lld channels, must have 1, 3%s", name,
                (long long)size[1], several ? "" : ", or 4");
    else if (t->numel == 0)
        br_fail(BR_ERROR_SHAPE, op, "%s has no elements", name);
    else if (t->numel > MOST_PIXELS)
        br_fail(BR_ERROR_SHAPE, op, "%s has %lld elements, must have at most %d", name,
                (long long)t->numel, MOST_PIXELS);
    return !br_failed();
}

/* Converts 0 .. scale to 0 .. 255, rounded down, as PyTorch does; NaN is 0. */
static unsigned char to_byte(float value, float scale)
{
    value *= scale;
    return value >= 255 ? 255 : value > 0 ? (unsigned char)value : 0;
}

/* Copies image i of t, which is f32 [n, channels, height, width], to its place. */
static void copy_image(br_image *image, const br_tensor *t, int64_t i, int64_t per_row, float scale)
{
    int64_t channels = t->sizes[1], height = t->sizes[2], width = t->sizes[3];
    const float *from = br_data_f32(t) + i * channels * height * width;
    int64_t top = i / per_row * height, left = i % per_row * width;
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++)
            for (int64_t c = 0; c < image->channels; c++)
                image->pixels[((top + y) * image->width + left + x) * image->channels + c] =
                    to_byte(from[((channels == 1 ? 0 : c) * height + y) * width + x], scale);
}

bool br__image_of(const char *op, const char *name, br_tensor *t, const char *formats,
                  int64_t per_row, br_image *image)
{
    br_scope *scope = br_no_grad_begin();
    float scale = br_dtype_of(t) == BR_U8 ? 1 : 255;
    t = as_nchw(op, name, br_to(br_to_device(t, (br_device){ BR_CPU, 0 }), BR_F32), formats);
    t = br_contiguous(t);
    if (t && good_size(op, name, t, formats)) {
        per_row = br__min(per_row, t->sizes[0]);
        image->channels = t->sizes[1] == 4 ? 4 : 3;
        image->height = (t->sizes[0] + per_row - 1) / per_row * t->sizes[2];
        image->width = per_row * t->sizes[3];
        image->pixels = br_calloc((size_t)(image->height * image->width), (size_t)image->channels);
        for (int64_t i = 0; image->pixels && i < t->sizes[0]; i++)
            copy_image(image, t, i, per_row, scale);
    }
    br_scope_end(scope);
    return !br_failed();
}

bool br_summary_writer_add_image(br_summary_writer *self, const char *tag, br_tensor *image,
                                 int64_t step, const br_summary_image_options *options)
{
    static const char op[] = "summary_writer_add_image";
    const br_summary_image_options *o = BR_OPTIONS_OF(op, br_summary_image, options);
    br_image pixels = { 0 };
    if (!br__good_summary(op, self, "tag", tag, step) || !br__required(op, "image", image) ||
        !br__required(op, "dataformats", o->dataformats) ||
        !br__image_of(op, "image", image, o->dataformats, PER_ROW, &pixels))
        return false;
    self->events.op = op;
    br_message message = { 0 }, png = { 0 };
    br__message_integer(&message, 1, pixels.height);
    br__message_integer(&message, 2, pixels.width);
    br__message_integer(&message, 3, pixels.channels);
    br__png_append(&png, &pixels);
    br__message_part(&message, 4, &png);
    br_free(pixels.pixels);
    return br__summary_add(self, tag, step, IMAGE, &message);
}
