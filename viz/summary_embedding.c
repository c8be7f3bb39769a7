/* viz/summary_embedding.c - points for TensorBoard's projector: tab-separated files of vectors and
 * of labels, an image of all labels' images, and projector_config.pbtxt, which names them. */
#include "io/io_internal.h"
#include "viz/summary.h"
#include "viz/viz_internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

BR_DEFINE_DEFAULTS(br_summary_embedding)

static const char op[] = "summary_writer_add_embedding";

/* ---- Checks ---------------------------------------------------------------------------------- */

static int64_t count_columns(const char *text)
{
    int64_t n = 1;
    for (const char *p = text; *p; p++)
        n += *p == '\t';
    return n;
}

static bool good_metadata(const br_summary_embedding_options *o, int64_t n)
{
    const char *header = o->metadata_header;
    if (header && !o->metadata)
        br_fail(BR_ERROR_ARGUMENT, op, "metadata_header is set, but metadata is not");
    else if (header && !br__good_utf8(op, "metadata_header", header))
        return false;
    for (int64_t i = 0; o->metadata && i < n && !br_failed(); i++) {
        const char *label = o->metadata[i];
        if (!label)
            br_fail(BR_ERROR_ARGUMENT, op, "metadata[%" PRId64 "] is NULL, but it is required", i);
        else if (br__good_utf8(op, "metadata", label) && header &&
                 count_columns(label) != count_columns(header))
            br_fail(BR_ERROR_ARGUMENT, op,
                    "metadata[%" PRId64 "] \"%s\" has %" PRId64 " columns, but metadata_header has "
                    "%" PRId64,
                    i, br_printable(label), count_columns(label), count_columns(header));
    }
    return !br_failed();
}

static bool good_images(const br_tensor *images, int64_t n)
{
    if (!images || br_failed())
        return !br_failed();
    if (!br__required(op, "label_img", images))
        return false;
    const int64_t *size = images->sizes;
    if (images->ndim != 4 || size[0] != n || (size[1] != 1 && size[1] != 3) || images->numel == 0)
        br_fail(BR_ERROR_SHAPE, op,
                "label_img is %s, must be [%" PRId64 ", channels, height, width] with 1 or 3 "
                "channels",
                br__shape(images), n);
    return !br_failed();
}

static bool good_arguments(br_summary_writer *self, const br_tensor *matrix,
                           const br_summary_embedding_options *o)
{
    if (!br__good_summary(op, self, "tag", o->tag, o->step) || !br__required(op, "matrix", matrix))
        return false;
    if (matrix->ndim != 2)
        br_fail(BR_ERROR_SHAPE, op, "matrix is %s, must be [n, size]", br__shape(matrix));
    else if (matrix->numel == 0)
        br_fail(BR_ERROR_SHAPE, op, "matrix is %s, which has no elements", br__shape(matrix));
    return !br_failed() && good_metadata(o, matrix->sizes[0]) &&
           good_images(o->label_img, matrix->sizes[0]);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* Opens a file of the folder. Returns NULL and an error on failure. */
static br_writer *open_file(const char *folder, const char *name)
{
    char *path = br_format("%s/%s", folder, name);
    br_writer *w = path ? br__writer_open(op, path) : NULL;
    br_free(path);
    return w;
}

static bool write_vectors(const char *folder, br_tensor *matrix)
{
    const double *values = br_data_f64(matrix);
    br_writer *w = values ? open_file(folder, "tensors.tsv") : NULL;
    int64_t columns = w ? matrix->sizes[1] : 1;
    /* Nine digits determine an f32, as which the projector reads them. */
    for (int64_t i = 0; w && i < matrix->numel; i++)
        br__write(w, "%.9g%s", values[i], i % columns == columns - 1 ? "\n" : "\t");
    return w && br__writer_close(w) >= 0;
}

/* Writes a label as one line, and as one column unless the labels have columns. */
static void write_label(br_writer *w, const char *label, bool has_columns)
{
    for (const char *p = label; *p; p++)
        if (*p == '\n' || *p == '\r' || (*p == '\t' && !has_columns))
            br__write(w, "\\%c", *p == '\n' ? 'n' : *p == '\r' ? 'r' : 't');
        else
            br__write_bytes(w, p, 1);
    br__write_bytes(w, "\n", 1);
}

static bool write_labels(const char *folder, const br_summary_embedding_options *o, int64_t n)
{
    br_writer *w = open_file(folder, "metadata.tsv");
    if (w && o->metadata_header)
        write_label(w, o->metadata_header, true);
    for (int64_t i = 0; w && i < n; i++)
        write_label(w, o->metadata[i], o->metadata_header);
    return w && br__writer_close(w) >= 0;
}

/* Appends black rows until the image is at least as high as it is wide. */
static bool make_square(br_image *image)
{
    int64_t row = image->width * image->channels, height = br__max(image->height, image->width);
    unsigned char *pixels = br_calloc((size_t)height, (size_t)row);
    if (!pixels)
        return false;
    memcpy(pixels, image->pixels, (size_t)(image->height * row));
    br_free(image->pixels);
    image->pixels = pixels;
    image->height = height;
    return true;
}

/* Writes all images as one square, as the projector expects them: rows of ceil(sqrt(n)) images. */
static bool write_sprite(const char *folder, br_tensor *images)
{
    br_image image = { 0 };
    br_message png = { 0 };
    int64_t per_row = (int64_t)ceil(sqrt((double)images->sizes[0]));
    bool ok = br__image_of(op, "label_img", images, "NCHW", per_row, &image) && make_square(&image);
    br_writer *w = NULL;
    if (ok) {
        br__png_append(&png, &image);
        w = open_file(folder, "sprite.png");
    }
    if (w)
        br__write_bytes(w, png.data, png.length);
    br__message_free(&png);
    br_free(image.pixels);
    return w && br__writer_close(w) >= 0;
}

/* ---- Configuration --------------------------------------------------------------------------- */

/* Adds a line with a string of a text message. */
static void add_string(br__text *config, int indent, const char *name, const char *a, const char *b)
{
    br__text_add(config, "%*s%s: \"", indent, "", name);
    for (const char *parts[] = { a, b }, **part = parts; part < parts + 2; part++)
        for (const char *p = *part; *p; p++)
            if (*p == '"' || *p == '\\')
                br__text_add(config, "\\%c", *p);
            else if ((unsigned char)*p < ' ')
                br__text_add(config, "\\%03o", (unsigned)*p);
            else
                br__text_append(config, p, 1);
    br__text_add(config, "\"\n");
}

/* Adds an EmbeddingInfo of TensorBoard's projector_config.proto. */
static void describe(br__text *config, const char *sub_folder,
                     const br_summary_embedding_options *o)
{
    char *step = br_format(":%05" PRId64, o->step);
    br__text_add(config, "embeddings {\n");
    add_string(config, 2, "tensor_name", o->tag, step ? step : "");
    if (o->metadata)
        add_string(config, 2, "metadata_path", sub_folder, "/metadata.tsv");
    if (o->label_img) {
        br__text_add(config, "  sprite {\n");
        add_string(config, 4, "image_path", sub_folder, "/sprite.png");
        br__text_add(config,
                     "    single_image_dim: %" PRId64 "\n    single_image_dim: %" PRId64 "\n  }\n",
                     o->label_img->sizes[3], o->label_img->sizes[2]);
    }
    add_string(config, 2, "tensor_path", sub_folder, "/tensors.tsv");
    br__text_add(config, "}\n");
    br_free(step);
}

/* Adds the embedding to the writer's configuration and writes it. On failure, the configuration is
 * what it was. */
static bool write_config(br_summary_writer *self, const char *sub_folder,
                         const br_summary_embedding_options *o)
{
    size_t before = self->projector.length;
    describe(&self->projector, sub_folder, o);
    br_writer *w = br_failed() ? NULL : open_file(self->folder, "projector_config.pbtxt");
    if (w)
        br__write_bytes(w, self->projector.data, self->projector.length);
    bool ok = w && br__writer_close(w) >= 0;
    if (!ok)
        br__text_truncate(&self->projector, before);
    return ok;
}

/* Returns STEP/TAG, in which a slash of the tag is escaped as PyTorch does. The caller frees it. */
static char *make_sub_folder(const br_summary_embedding_options *o)
{
    br__text name = { 0 };
    br__text_add(&name, "%05" PRId64 "/", o->step);
    for (const char *p = o->tag; *p; p++)
        br__text_add(&name, strchr("%/\\", *p) ? "%%%02x" : "%c", (unsigned)(unsigned char)*p);
    return br__text_take(&name);
}

static bool write_files(br_summary_writer *self, const char *sub_folder, br_tensor *matrix,
                        const br_summary_embedding_options *o)
{
    char *folder = br_format("%s/%s", self->folder, sub_folder);
    bool ok =
        folder && br__make_directory(op, folder, NULL, NULL) && write_vectors(folder, matrix) &&
        (!o->metadata || write_labels(folder, o, matrix->sizes[0])) &&
        (!o->label_img || write_sprite(folder, o->label_img)) && write_config(self, sub_folder, o);
    br_free(folder);
    return ok;
}

bool br_summary_writer_add_embedding(br_summary_writer *self, br_tensor *matrix,
                                     const br_summary_embedding_options *options)
{
    const br_summary_embedding_options *o = BR_OPTIONS_OF(op, br_summary_embedding, options);
    if (!good_arguments(self, matrix, o))
        return false;
    br_scope *scope = br_no_grad_begin();
    br_tensor *values =
        br_contiguous(br_to(br_to_device(matrix, (br_device){ BR_CPU, 0 }), BR_F64));
    char *sub_folder = values ? make_sub_folder(o) : NULL;
    bool ok = sub_folder && write_files(self, sub_folder, values, o);
    br_free(sub_folder);
    br_scope_end(scope);
    return ok;
}
