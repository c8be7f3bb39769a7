/* tests/viz/test_summary_writer.c - event files for TensorBoard, compared with those of PyTorch's
 * SummaryWriter; tests/train/read_events.py reads files with TensorBoard's own package. */
#include "tests/memory.h"
#include "tests/viz/summary_values.h"
#include "viz/message.h"
#include "viz/summary.h"

#include <ftw.h>
#include <glob.h>
#include <math.h>
#include <string.h>

static char folder[] = "/tmp/brasa-summary-XXXXXX";

static void begin(void)
{
    check_begin();
    cr_assert_not_null(mkdtemp(folder));
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *place)
{
    (void)s, (void)kind, (void)place;
    return remove(path);
}

static void end(void)
{
    cr_assert_eq(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
    check_end();
}

TestSuite(summary_writer, .init = begin, .fini = end);

/* Test vectors of RFC 3720, B.4. */
Test(summary_writer, crc32c_is_castagnolis)
{
    unsigned char bytes[32];
    cr_assert_eq(br__crc32c("123456789", 9), 0xe3069283);
    memset(bytes, 0, sizeof bytes);
    cr_assert_eq(br__crc32c(bytes, sizeof bytes), 0x8a9136aa);
    memset(bytes, 0xff, sizeof bytes);
    cr_assert_eq(br__crc32c(bytes, sizeof bytes), 0x62a8ab43);
    for (unsigned char i = 0; i < 32; i++)
        bytes[i] = i;
    cr_assert_eq(br__crc32c(bytes, sizeof bytes), 0x46dd794e);
    cr_assert_eq(br__crc32c(bytes, 0), 0);
}

/* ---- Events ---------------------------------------------------------------------------------- */

enum { LONGEST = 1 << 16 };

static uint32_t masked(const void *bytes, size_t n)
{
    uint32_t crc = br__crc32c(bytes, n);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8;
}

/* Reads the next record without its first 9 bytes, the time; returns its length, 0 at the end. */
static size_t next_record(FILE *file, char *out)
{
    uint64_t n;
    uint32_t sum;
    if (fread(&n, sizeof n, 1, file) != 1)
        return 0;
    cr_assert_eq(fread(&sum, sizeof sum, 1, file), 1);
    cr_assert_eq(sum, masked(&n, sizeof n));
    cr_assert(n > 9 && n < LONGEST);
    cr_assert_eq(fread(out, 1, n, file), n);
    cr_assert_eq(fread(&sum, sizeof sum, 1, file), 1);
    cr_assert_eq(sum, masked(out, n));
    cr_assert_eq(out[0], 1 << 3 | 1);
    memmove(out, out + 9, n - 9);
    return n - 9;
}

/* Compares the events of the file that matches the pattern with PyTorch's events from *i on. */
static void check_events(const char *pattern, size_t *i)
{
    static char bytes[LONGEST];
    char *path = br_format("%s/%s", folder, pattern);
    glob_t found;
    cr_assert_eq(glob(path, 0, NULL, &found), 0);
    cr_assert_eq(found.gl_pathc, 1);
    FILE *file = fopen(found.gl_pathv[0], "rb");
    size_t n = next_record(file, bytes);
    cr_assert(n == 15 && memcmp(bytes,
                                "\x1a\x0d"
                                "brain.Event:2",
                                15) == 0);
    for (; (n = next_record(file, bytes)) > 0; ++*i) {
        cr_assert_eq(n, recorded[*i].n, "event %zu: %zu bytes, not %zu", *i, n, recorded[*i].n);
        if (recorded[*i].bytes)
            cr_assert_arr_eq(bytes, recorded[*i].bytes, n, "event %zu", *i);
        cr_assert_eq(br__crc32c(bytes, n), recorded[*i].crc, "event %zu", *i);
    }
    fclose(file);
    globfree(&found);
    br_free(path);
}

static br_tensor *f32(int64_t n, const float *values)
{
    return br_from_f32(1, &n, values);
}

static void add_histograms(br_summary_writer *w)
{
    br_tensor *values = f32(8, (float[]){ -2, 0, 0, 0.5, 1, 1, 0x1p-43F, 3 });
    br_summary_writer_add_histogram(w, "h", values, 3, NULL);
    br_tensor *bytes = br_to(f32(4, (float[]){ 5, 7, 7, 250 }), BR_U8);
    br_summary_writer_add_histogram(w, "i", bytes, 3, NULL);
    br_summary_writer_add_histogram(w, "inf", f32(3, (float[]){ 1, INFINITY, 2 }), 3, NULL);
    br_summary_writer_add_histogram(w, "n", values, 3, BR_OPTIONS(br_summary_histogram, .bins = 4));
    br_summary_writer_add_histogram(w, "m", values, 3,
                                    BR_OPTIONS(br_summary_histogram, .max_bins = 100));
    br_summary_writer_add_histogram(w, "k", values, 3,
                                    BR_OPTIONS(br_summary_histogram, .bins = 7, .max_bins = 3));
    br_tensor *fives =
        br_expand(br_reshape(f32(1, (float[]){ 5 }), BR_SHAPE(1, 1)), BR_SHAPE(2, 1));
    br_summary_writer_add_histogram(w, "one", fives, 3,
                                    BR_OPTIONS(br_summary_histogram, .bins = 2));
}

Test(summary_writer, events_are_pytorchs)
{
    br_scope *scope = br_scope_begin();
    br_summary_writer *w = br_summary_writer_new(
        folder, BR_OPTIONS(br_summary_writer, .purge_step = 7, .filename_suffix = ".end"));
    cr_assert_not_null(w, "%s", br_error_message());
    const char *path = br_summary_writer_path(w);
    cr_assert(path && strcmp(path + strlen(path) - 4, ".end") == 0);
    br_summary_writer_add_scalar(w, "loss", 0.5, 1);
    br_summary_writer_add_scalar(w, "a/b", 0, 0);
    br_summary_writer_add_scalar(w, "x", NAN, 300);
    br_summary_writer_add_text(w, "note", "**two** w\xc3\xb6rds", 2);
    add_histograms(w);
    br_summary_writer_add_hparams(w, "run", 1, (br_hparam[]){ { "lr", .number = 0.25 } }, 1,
                                  (br_metric[]){ { "acc", 0.5 } });
    br_summary_writer_add_hparams(w, "run2", 1, (br_hparam[]){ { "opt", .text = "adam" } }, 0,
                                  NULL);
    cr_assert_not(br_failed(), "%s", br_error_message());
    br_summary_writer_free(w);
    br_scope_end(scope);
    size_t i = 0;
    /* The files of PyTorch are in the order of their folders. */
    check_events("events.out.tfevents.*.end", &i);
    check_events("run/events.out.tfevents.*", &i);
    check_events("run2/events.out.tfevents.*", &i);
    cr_assert_eq(i, sizeof recorded / sizeof *recorded);
}

Test(summary_writer, an_event_is_in_the_file_at_once)
{
    br_summary_writer *w = br_summary_writer_new(folder, NULL);
    struct stat before, after;
    stat(br_summary_writer_path(w), &before);
    br_summary_writer_add_scalar(w, "x", 1, 1);
    stat(br_summary_writer_path(w), &after);
    cr_assert_gt(after.st_size, before.st_size);
    br_summary_writer_free(w);
}

/* ---- Images ---------------------------------------------------------------------------------- */

static uint32_t u32_at(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Reads the rows of stored blocks into `rows`; returns their number of bytes. */
static int64_t read_stored(const unsigned char *p, const unsigned char *end, unsigned char *rows)
{
    int64_t n = 0;
    cr_assert(p[0] == 0x78 && (p[0] * 256 + p[1]) % 31 == 0);
    bool last = false;
    for (p += 2; !last; n += 0) {
        unsigned some = p[1] | (unsigned)p[2] << 8, rest = p[3] | (unsigned)p[4] << 8;
        last = p[0] & 1;
        cr_assert_eq(some ^ rest, 0xffff);
        memcpy(rows + n, p + 5, some);
        n += some;
        p += 5 + some;
    }
    cr_assert_eq(end - p, 4, "the checksum is the end of the stream");
    return n;
}

static void check_png(const br_image *image, int64_t channels)
{
    br_message png = { 0 };
    br__png_append(&png, image);
    const unsigned char *p = (const unsigned char *)png.data;
    int64_t width = image->width * channels, n = (width + 1) * image->height;
    unsigned char *rows = malloc((size_t)n);
    cr_assert_arr_eq(p, "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR", 16);
    cr_assert_eq(u32_at(p + 16), image->width);
    cr_assert_eq(u32_at(p + 20), image->height);
    cr_assert_arr_eq(p + 24, channels == 4 ? "\x08\6\0\0" : "\x08\2\0\0", 4);
    uint32_t length = u32_at(p + 33);
    cr_assert_arr_eq(p + 37, "IDAT", 4);
    cr_assert_eq(read_stored(p + 41, p + 41 + length, rows), n);
    for (int64_t i = 0; i < image->height; i++) {
        cr_assert_eq(rows[i * (width + 1)], 0);
        cr_assert_arr_eq(rows + i * (width + 1) + 1, image->pixels + i * width, (size_t)width);
    }
    cr_assert_arr_eq(png.data + png.length - 12, "\0\0\0\0IEND\xae\x42\x60\x82", 12);
    free(rows);
    br__message_free(&png);
}

static void check_pixels(br_tensor *t, const char *formats, int64_t height, int64_t width,
                         int64_t channels, const char *pixels)
{
    br_image image = { 0 };
    cr_assert(br__image_of("test", "image", t, formats, 8, &image), "%s", br_error_message());
    cr_assert(image.height == height && image.width == width && image.channels == channels);
    if (pixels)
        cr_assert_arr_eq(image.pixels, pixels, (size_t)(height * width * channels));
    check_png(&image, channels);
    br_free(image.pixels);
}

Test(summary_writer, images)
{
    br_scope *scope = br_scope_begin();
    /* The same numbers as the script that recorded the pixels. */
    br_tensor *t = br_div_scalar(br_reshape(br_arange(0, 24, 1, BR_F32), BR_SHAPE(2, 3, 4)), 23);
    check_pixels(br_permute(t, 3, (int64_t[]){ 0, 2, 1 }), "HWC", 2, 4, 3, hwc_pixels);
    check_pixels(br_permute(t, 3, (int64_t[]){ 1, 0, 2 }), "chw", 2, 4, 3, hwc_pixels);
    br_tensor *grid = br_to(br_reshape(br_arange(0, 36, 1, BR_F32), BR_SHAPE(9, 1, 2, 2)), BR_U8);
    check_pixels(grid, "NCHW", 4, 16, 3, grid_pixels);
    br_scope_end(scope);
}

Test(summary_writer, alpha_numbers_outside_and_nan)
{
    br_scope *scope = br_scope_begin();
    float values[] = { 0.5, NAN, -1, 2, 1, 0, 0.999F, 0.25 };
    br_tensor *t = br_from_f32(BR_SHAPE(4, 1, 2), values);
    check_pixels(t, "CHW", 1, 2, 4, "\x7f\0\xff\xfe\0\xff\0\x3f");
    check_pixels(br_full(BR_SHAPE(300, 300), 1, BR_F64), "HW", 300, 300, 3, NULL);
    br_summary_writer *w = br_summary_writer_new(folder, NULL);
    cr_assert(br_summary_writer_add_image(w, "x", t, 1, NULL), "%s", br_error_message());
    br_summary_writer_free(w);
    br_scope_end(scope);
}

/* ---- Embeddings ------------------------------------------------------------------------------ */

static void check_file(const char *name, const char *expected)
{
    char text[1000], *path = br_format("%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    cr_assert_str_eq(text, expected);
    fclose(file);
    br_free(path);
}

/* Checks the sizes in the header of a PNG file. */
static void check_sprite(const char *name, uint32_t width, uint32_t height)
{
    unsigned char header[24];
    char *path = br_format("%s/%s", folder, name);
    FILE *file = fopen(path, "rb");
    cr_assert_eq(fread(header, 1, sizeof header, file), sizeof header);
    cr_assert(u32_at(header + 16) == width && u32_at(header + 20) == height);
    fclose(file);
    br_free(path);
}

Test(summary_writer, embeddings)
{
    br_scope *scope = br_scope_begin();
    br_summary_writer *w = br_summary_writer_new(folder, NULL);
    br_tensor *matrix =
        br_transpose(br_from_f32(BR_SHAPE(3, 2), (float[]){ 1, 0.1F, -2, 1e-20F, 3, NAN }), 0, 1);
    br_tensor *images = br_from_f64(BR_SHAPE(2, 1, 4, 5), (double[40]){ 1 });
    const br_summary_embedding_options *o =
        BR_OPTIONS(br_summary_embedding, .tag = "x/y", .step = 12,
                   .metadata = (const char *[]){ "a \"b\"", "c\nd\tx" }, .label_img = images);
    br_summary_writer_add_embedding(w, matrix, o);
    br_summary_writer_add_embedding(w, matrix, NULL);
    cr_assert_not(br_failed(), "%s", br_error_message());
    check_file("projector_config.pbtxt", projector_config);
    check_file("00012/x%2fy/tensors.tsv", "1\t-2\t3\n0.100000001\t9.99999968e-21\tnan\n");
    check_file("00012/x%2fy/metadata.tsv", "a \"b\"\nc\\nd\\tx\n");
    /* Two images of 4 rows and 5 columns, side by side, in a square of 10 columns. */
    check_sprite("00012/x%2fy/sprite.png", 10, 10);
    check_file("00000/default/tensors.tsv", "1\t-2\t3\n0.100000001\t9.99999968e-21\tnan\n");
    o = BR_OPTIONS(br_summary_embedding, .metadata = (const char *[]){ "a\t1", "b\t2" },
                   .metadata_header = "name\tnumber");
    cr_assert(br_summary_writer_add_embedding(w, matrix, o), "%s", br_error_message());
    check_file("00000/default/metadata.tsv", "name\tnumber\na\t1\nb\t2\n");
    br_summary_writer_free(w);
    br_scope_end(scope);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

Test(summary_writer, wrong_arguments)
{
    br_scope *scope = br_scope_begin();
    br_summary_writer *w = br_summary_writer_new(folder, NULL);
    br_tensor *x = br_ones(BR_SHAPE(2, 3), BR_F32), *none = br_ones(BR_SHAPE(0), BR_F32);
    const br_error wrong = BR_ERROR_ARGUMENT, shape = BR_ERROR_SHAPE;
    check_fails_with(br_summary_writer_add_scalar(w, NULL, 1, 1), wrong, "tag is NULL");
    check_fails_with(br_summary_writer_add_scalar(w, "a\xff", 1, 1), wrong,
                     "tag \"a\\xff\" is not UTF-8");
    check_fails_with(br_summary_writer_add_scalar(w, "a", 1, -1), wrong,
                     "step is -1, must be at least 0");
    check_fails_with(br_summary_writer_add_text(w, "a", "\xff", 1), wrong,
                     "text \"\\xff\" is not UTF-8");
    check_fails_with(br_summary_writer_add_histogram(w, "a", none, 1, NULL), shape,
                     "[0] has no elements");
    check_fails_with(
        br_summary_writer_add_histogram(w, "a", br_full(BR_SHAPE(2), NAN, BR_F32), 1, NULL), wrong,
        "all 2 are NaN or beyond 1e20");
    check_fails_with(br_summary_writer_add_histogram(w, "a", br_full(BR_SHAPE(2), INFINITY, BR_F32),
                                                     1,
                                                     BR_OPTIONS(br_summary_histogram, .bins = 3)),
                     wrong, "values must be finite if bins is set");
    check_fails_with(
        br_summary_writer_add_histogram(w, "a", x, 1, BR_OPTIONS(br_summary_histogram, .bins = 0)),
        wrong, "bins is 0, must be 1");
    check_fails_with(br_summary_writer_add_histogram(
                         w, "a", x, 1, BR_OPTIONS(br_summary_histogram, .max_bins = 0)),
                     wrong, "max_bins is 0, must be at least 1");
    check_fails_with(br_summary_writer_add_image(w, "a", x, 1, NULL), shape,
                     "image is [2, 3], must have the 3 dimensions CHW");
    check_fails_with(br_summary_writer_add_image(w, "a", x, 1,
                                                 BR_OPTIONS(br_summary_image, .dataformats = "HH")),
                     wrong, "dataformats is \"HH\"");
    check_fails_with(
        br_summary_writer_add_image(w, "a", br_ones(BR_SHAPE(2, 3, 3), BR_F32), 1, NULL), shape,
        "image has 2 channels, must have 1, 3, or 4");
    check_fails_with(
        br_summary_writer_add_image(w, "a", br_ones(BR_SHAPE(1, 0, 3), BR_F32), 1, NULL), shape,
        "image has no elements");
    check_fails_with(br_summary_writer_add_hparams(w, "r", 1, (br_hparam[]){ { NULL } }, 0, NULL),
                     wrong, "hparams: name is NULL");
    check_fails_with(br_summary_writer_add_hparams(w, "r", -1, NULL, 0, NULL), wrong,
                     "n_hparams is -1, must be at least 0");
    check_fails_with(br_summary_writer_add_embedding(w, none, NULL), shape,
                     "matrix is [0], must be [n, size]");
    check_fails_with(
        br_summary_writer_add_embedding(
            w, x, BR_OPTIONS(br_summary_embedding, .metadata = (const char *[]){ "a", NULL })),
        wrong, "metadata[1] is NULL");
    check_fails_with(
        br_summary_writer_add_embedding(w, x,
                                        BR_OPTIONS(br_summary_embedding,
                                                   .metadata = (const char *[]){ "a\tb", "c" },
                                                   .metadata_header = "x\ty")),
        wrong, "metadata[1] \"c\" has 1 columns, but metadata_header has 2");
    check_fails_with(
        br_summary_writer_add_embedding(
            w, x,
            BR_OPTIONS(br_summary_embedding, .label_img = br_ones(BR_SHAPE(3, 1, 2, 2), BR_F32))),
        shape, "label_img is [3, 1, 2, 2], must be [2, channels, height, width]");
    br_summary_writer_free(w);
    br_scope_end(scope);
    check_fails_with(
        br_summary_writer_new(folder, BR_OPTIONS(br_summary_writer, .filename_suffix = "a/b")),
        wrong, "filename_suffix \"a/b\" contains a slash");
    check_fails_with(br_summary_writer_new(folder, BR_OPTIONS(br_summary_writer, .purge_step = -1)),
                     wrong, "purge_step is -1, must be at least 0");
    check_fails_with(br_summary_writer_new("", NULL), BR_ERROR_IO, "cannot create the directory");
    check_fails_with(br_summary_writer_new("/dev/null/x", NULL), BR_ERROR_IO,
                     "cannot create the directory");
}

/* Adds one of each kind. */
static bool add_all(void)
{
    br_scope *scope = br_scope_begin();
    br_summary_writer *w =
        br_summary_writer_new(folder, BR_OPTIONS(br_summary_writer, .purge_step = 1));
    br_tensor *x = br_ones(BR_SHAPE(3, 2, 2), BR_F32);
    br_tensor *images = br_reshape(x, BR_SHAPE(3, 1, 2, 2));
    bool ok =
        w && x && br_summary_writer_add_scalar(w, "a", 1, 1) &&
        br_summary_writer_add_text(w, "a", "b", 1) &&
        br_summary_writer_add_histogram(w, "a", x, 1, NULL) &&
        br_summary_writer_add_image(w, "a", x, 1, NULL) &&
        br_summary_writer_add_hparams(w, NULL, 1, (br_hparam[]){ { "lr", .number = 1 } }, 1,
                                      (br_metric[]){ { "acc", 1 } }) &&
        br_summary_writer_add_embedding(w, br_reshape(x, BR_SHAPE(3, 4)),
                                        BR_OPTIONS(br_summary_embedding, .label_img = images));
    br_summary_writer_free(w);
    br_scope_end(scope);
    return ok;
}

Test(summary_writer, memory_that_runs_out)
{
    fail_in_turn(add_all, "a summary writer");
}
