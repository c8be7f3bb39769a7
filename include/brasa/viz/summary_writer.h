/* brasa/viz/summary_writer.h - event files for TensorBoard: PyTorch's SummaryWriter.
 *
 *     br_summary_writer *writer = br_summary_writer_new("runs/first", NULL);
 *     br_summary_writer_add_scalar(writer, "loss", br_item(loss), step);
 *     br_summary_writer_add_histogram(writer, "fc1.weight", fc1->weight, step, NULL);
 *     br_summary_writer_free(writer);
 *
 * Then run `tensorboard --logdir runs`. The events are those that PyTorch's class writes. Each is
 * written to the file at once, so TensorBoard shows it while the program runs, and a program that
 * is killed loses none. A tag is UTF-8; TensorBoard groups tags by the part before a slash. Steps
 * are at least 0. A function returns false, with an error, if nothing was written. */
#ifndef BRASA_VIZ_SUMMARY_WRITER_H
#define BRASA_VIZ_SUMMARY_WRITER_H

#include <brasa/nn.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct br_summary_writer br_summary_writer;

typedef struct br_summary_writer_options {
    size_t struct_size;
    int64_t purge_step; /* TensorBoard discards this step and later ones of the folder's earlier
                           files, as a run needs that begins again there; BR_NONE: none */
    const char *filename_suffix; /* the end of the file's name; NULL: none */
} br_summary_writer_options;
#define br_summary_writer_default_fields \
    .struct_size = sizeof(br_summary_writer_options), .purge_step = BR_NONE
BR_API br_summary_writer_options br_summary_writer_defaults(void);

/* Creates the folder, unless it exists, and a new event file in it. Returns NULL on error.
 * `options` may be NULL. */
BR_API br_summary_writer *br_summary_writer_new(const char *log_dir,
                                                const br_summary_writer_options *options);
/* Closes the file. NULL is ignored. */
BR_API void br_summary_writer_free(br_summary_writer *self);
/* Returns the path of the event file. It is valid until br_summary_writer_free(). */
BR_API const char *br_summary_writer_path(const br_summary_writer *self);

/* Adds a point of a curve. It is stored as f32; NaN and infinity are stored as they are. */
BR_API bool br_summary_writer_add_scalar(br_summary_writer *self, const char *tag, double value,
                                         int64_t step);

/* Adds a text in Markdown. It is UTF-8. */
BR_API bool br_summary_writer_add_text(br_summary_writer *self, const char *tag, const char *text,
                                       int64_t step);

typedef struct br_summary_histogram_options {
    size_t struct_size;
    int64_t bins; /* the number of bins of equal width between the smallest and the largest value;
                     BR_NONE: "tensorflow", whose bins grow by 10 % from 1e-12 to 1e20 */
    int64_t max_bins; /* joins adjacent bins if there are more; BR_NONE: all bins */
} br_summary_histogram_options;
#define br_summary_histogram_default_fields \
    .struct_size = sizeof(br_summary_histogram_options), .bins = BR_NONE, .max_bins = BR_NONE
BR_API br_summary_histogram_options br_summary_histogram_defaults(void);

/* Adds the distribution of the elements of `values`, which has any shape and any dtype but
 * BR_QUANTIZED. NaN and values beyond 1e20 are in no bin; it is an error if no value is in a bin,
 * or if `bins` is set and a value is not finite. `options` may be NULL. */
BR_API bool br_summary_writer_add_histogram(br_summary_writer *self, const char *tag,
                                            br_tensor *values, int64_t step,
                                            const br_summary_histogram_options *options);

typedef struct br_summary_image_options {
    size_t struct_size;
    const char *dataformats; /* the meaning of the dimensions: the letters C, H and W (channels,
                                height, width) in their order; HW for one channel; also with N for
                                several images, which are put into rows of eight */
} br_summary_image_options;
#define br_summary_image_default_fields \
    .struct_size = sizeof(br_summary_image_options), .dataformats = "CHW"
BR_API br_summary_image_options br_summary_image_defaults(void);

/* Adds an image of 1 (grey), 3 (red, green, blue) or 4 (and alpha) channels; several images (N)
 * have 1 or 3. u8 has values in 0 .. 255, any other dtype in 0 .. 1; values outside are clipped.
 * `options` may be NULL. */
BR_API bool br_summary_writer_add_image(br_summary_writer *self, const char *tag, br_tensor *image,
                                        int64_t step, const br_summary_image_options *options);

/* A hyper-parameter of a run: a text, or a number if `text` is NULL. */
typedef struct br_hparam {
    const char *name;
    double number;
    const char *text;
} br_hparam;

/* A result of a run. */
typedef struct br_metric {
    const char *name;
    double value;
} br_metric;

/* Adds the hyper-parameters of a run and its results for TensorBoard's tab HPARAMS. They are a run
 * of their own in the sub-folder `run_name`; if it is NULL, the name is the time in seconds. */
BR_API bool br_summary_writer_add_hparams(br_summary_writer *self, const char *run_name,
                                          int64_t n_hparams, const br_hparam *hparams,
                                          int64_t n_metrics, const br_metric *metrics);

typedef struct br_summary_embedding_options {
    size_t struct_size;
    const char *tag; /* the name of the embedding */
    int64_t step;
    const char *const *metadata; /* a label for each row; NULL: none. With a header, the columns of
                                    a row are separated by tabs. Line breaks, and tabs without a
                                    header, are written as \n and \t. */
    const char *metadata_header; /* the names of the columns, separated by tabs; NULL: none */
    br_tensor *label_img;        /* an image for each row, [n, channels, height, width] with 1 or 3
                                    channels and values in 0 .. 1; NULL: none */
} br_summary_embedding_options;
#define br_summary_embedding_default_fields \
    .struct_size = sizeof(br_summary_embedding_options), .tag = "default"
BR_API br_summary_embedding_options br_summary_embedding_defaults(void);

/* Adds the rows of `matrix` [n, size] as points for TensorBoard's projector. They are files in a
 * sub-folder STEP/TAG, which the file projector_config.pbtxt names. `options` may be NULL. */
BR_API bool br_summary_writer_add_embedding(br_summary_writer *self, br_tensor *matrix,
                                            const br_summary_embedding_options *options);

#ifdef __cplusplus
}
#endif

#endif
