/* viz/summary_writer.c - event files with scalars, texts and hyper-parameters. The numbers of the
 * fields are from TensorFlow's summary.proto and TensorBoard's api.proto and plugin_data.proto of
 * the plugin hparams:
 *
 *     Event            5 Summary summary, 7 SessionLog session_log
 *     SessionLog       1 enum status: 1 is START, which discards this and later steps of earlier
 *                      files
 *     Summary          1 Value, repeated
 *     Value            1 string tag, 2 float simple_value, 4 Image image, 5 HistogramProto histo,
 *                      8 TensorProto tensor, 9 SummaryMetadata metadata
 *     SummaryMetadata  1 PluginData: 1 string plugin_name, 2 bytes content
 *     TensorProto      1 enum dtype: 7 is a string, 2 TensorShapeProto, 8 string_val, repeated
 *     TensorShapeProto 2 Dim, repeated: 1 int64 size */
#include "io/io_internal.h"
#include "tensor/min_max.h"
#include "viz/summary.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

BR_DEFINE_DEFAULTS(br_summary_writer)

enum { SUMMARY = 5, SESSION_LOG = 7, SESSION_START = 1 }; /* of an Event and a SessionLog */
enum { VALUE = 1 };                                       /* of a Summary */
enum { TAG = 1, SIMPLE_VALUE = 2, TENSOR = 8, METADATA = 9 };
enum { DT_STRING = 7 };

/* ---- Checks ---------------------------------------------------------------------------------- */

bool br__good_utf8(const char *op, const char *name, const char *text)
{
    if (!br__required(op, name, text))
        return false;
    if (!br__is_utf8(text, strlen(text)))
        br_fail(BR_ERROR_ARGUMENT, op, "%s \"%s\" is not UTF-8", name, br_printable(text));
    return !br_failed();
}

bool br__good_summary(const char *op, br_summary_writer *self, const char *name, const char *tag,
                      int64_t step)
{
    if (!br__required(op, "self", self) || !br__good_utf8(op, name, tag))
        return false;
    if (step < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "step is %" PRId64 ", must be at least 0", step);
    return !br_failed();
}

/* ---- Files ----------------------------------------------------------------------------------- */

static bool purge(br_event_file *events, int64_t step)
{
    br_message log = { 0 };
    br__message_integer(&log, 1, SESSION_START);
    return br__event_file_add(events, step, SESSION_LOG, &log);
}

static bool good_suffix(const char *op, const char *suffix)
{
    if (strchr(suffix, '/'))
        br_fail(
            BR_ERROR_ARGUMENT, op,
            "filename_suffix \"%s\" contains a slash: it is the end of a file's name, not a path",
            br_printable(suffix));
    return !br_failed();
}

br_summary_writer *br_summary_writer_new(const char *log_dir,
                                         const br_summary_writer_options *options)
{
    static const char op[] = "summary_writer_new";
    const br_summary_writer_options *o = BR_OPTIONS_OF(op, br_summary_writer, options);
    const char *suffix = o->filename_suffix ? o->filename_suffix : "";
    if (!br__required(op, "log_dir", log_dir) || !good_suffix(op, suffix))
        return NULL;
    if (o->purge_step != BR_NONE && o->purge_step < 0)
        return br_fail(BR_ERROR_ARGUMENT, op,
                       "purge_step is %" PRId64 ", must be at least 0, or BR_NONE", o->purge_step);
    br_summary_writer *self =
        br__make_directory(op, log_dir, NULL, NULL) ? BR_NEW(br_summary_writer) : NULL;
    if (!self)
        return NULL;
    self->folder = br_strdup(log_dir);
    if (self->folder && br__event_file_open(&self->events, op, log_dir, suffix) &&
        o->purge_step != BR_NONE)
        purge(&self->events, o->purge_step);
    if (!br_failed())
        return self;
    br_summary_writer_free(self);
    return NULL;
}

void br_summary_writer_free(br_summary_writer *self)
{
    if (!BR_END("summary_writer_free", self))
        return;
    br__event_file_close(&self->events);
    br_free(self->projector.data);
    br_free(self->folder);
    BR_FREE(self);
}

const char *br_summary_writer_path(const br_summary_writer *self)
{
    return br__required("summary_writer_path", "self", self) ? self->events.path : NULL;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* Writes an event with the value, whose tag is set, and frees it. */
static bool add_value(br_event_file *events, int64_t step, br_message *value)
{
    br_message summary = { 0 };
    br__message_part(&summary, VALUE, value);
    return br__event_file_add(events, step, SUMMARY, &summary);
}

bool br__summary_add(br_summary_writer *self, const char *tag, int64_t step, unsigned field,
                     br_message *part)
{
    br_message value = { 0 };
    br__message_text(&value, TAG, tag);
    br__message_part(&value, field, part);
    return add_value(&self->events, step, &value);
}

static bool add_scalar(br_event_file *events, const char *tag, double number, int64_t step)
{
    br_message value = { 0 };
    br__message_text(&value, TAG, tag);
    br__message_float(&value, SIMPLE_VALUE, number);
    return add_value(events, step, &value);
}

bool br_summary_writer_add_scalar(br_summary_writer *self, const char *tag, double value,
                                  int64_t step)
{
    static const char op[] = "summary_writer_add_scalar";
    if (!br__good_summary(op, self, "tag", tag, step))
        return false;
    self->events.op = op;
    return add_scalar(&self->events, tag, value, step);
}

/* Adds the metadata that name a plugin and have its content, which is freed. */
static void add_plugin(br_message *value, const char *name, br_message *content)
{
    br_message plugin = { 0 }, metadata = { 0 };
    br__message_text(&plugin, 1, name);
    if (content->length > 0)
        br__message_part(&plugin, 2, content);
    br__message_part(&metadata, 1, &plugin);
    br__message_part(value, METADATA, &metadata);
}

/* Adds the text as a tensor of shape [1]. */
static void add_string_tensor(br_message *value, const char *text)
{
    br_message tensor = { 0 }, shape = { 0 }, dim = { 0 };
    br__message_integer(&tensor, 1, DT_STRING);
    br__message_integer(&dim, 1, 1);
    br__message_part(&shape, 2, &dim);
    br__message_part(&tensor, 2, &shape);
    br__message_text(&tensor, 8, text);
    br__message_part(value, TENSOR, &tensor);
}

bool br_summary_writer_add_text(br_summary_writer *self, const char *tag, const char *text,
                                int64_t step)
{
    static const char op[] = "summary_writer_add_text";
    if (!br__good_summary(op, self, "tag", tag, step) || !br__good_utf8(op, "text", text))
        return false;
    self->events.op = op;
    br_message value = { 0 };
    static const char suffix[] = "/text_summary";
    br__message_begin_bytes(&value, TAG, strlen(tag) + sizeof suffix - 1);
    br__text_append(&value, tag, strlen(tag));
    br__text_append(&value, suffix, sizeof suffix - 1);
    add_string_tensor(&value, text);
    add_plugin(&value, "text", &(br_message){ 0 });
    return add_value(&self->events, step, &value);
}

/* ---- Hyper-parameters ------------------------------------------------------------------------ */

/* The plugin's content is an HParamsPluginData with one of 2 Experiment, 3 SessionStartInfo and
 * 4 SessionEndInfo. */
enum { EXPERIMENT = 2, SESSION_START_INFO = 3, SESSION_END_INFO = 4 };
enum { TYPE_STRING = 1, TYPE_FLOAT64 = 3, STATUS_SUCCESS = 1 };

static bool good_hparams(const char *op, int64_t n_hparams, const br_hparam *hparams,
                         int64_t n_metrics, const br_metric *metrics)
{
    if (n_hparams < 0 || n_metrics < 0)
        br_fail(BR_ERROR_ARGUMENT, op, "%s is %" PRId64 ", must be at least 0",
                n_hparams < 0 ? "n_hparams" : "n_metrics", br__min(n_hparams, n_metrics));
    if (n_hparams > 0)
        br__required(op, "hparams", hparams);
    if (n_metrics > 0)
        br__required(op, "metrics", metrics);
    for (int64_t i = 0; i < n_hparams && !br_failed(); i++)
        if (br__good_utf8(op, "hparams: name", hparams[i].name) && hparams[i].text)
            br__good_utf8(op, hparams[i].name, hparams[i].text);
    for (int64_t i = 0; i < n_metrics && !br_failed(); i++)
        br__good_utf8(op, "metrics: name", metrics[i].name);
    return !br_failed();
}

/* Adds the names and types of the hyper-parameters, and the names of the results. */
static void describe(br_message *experiment, int64_t n_hparams, const br_hparam *hparams,
                     int64_t n_metrics, const br_metric *metrics)
{
    for (int64_t i = 0; i < n_hparams; i++) {
        br_message info = { 0 };
        br__message_text(&info, 1, hparams[i].name);
        br__message_integer(&info, 4, hparams[i].text ? TYPE_STRING : TYPE_FLOAT64);
        br__message_part(experiment, 4, &info);
    }
    for (int64_t i = 0; i < n_metrics; i++) {
        br_message name = { 0 }, info = { 0 };
        br__message_text(&name, 2, metrics[i].name);
        br__message_part(&info, 1, &name);
        br__message_part(experiment, 5, &info);
    }
}

/* Adds the values of the hyper-parameters: entries of a map, whose value is a Value of
 * struct.proto. */
static void add_hparam_values(br_message *info, int64_t n_hparams, const br_hparam *hparams)
{
    for (int64_t i = 0; i < n_hparams; i++) {
        br_message entry = { 0 }, value = { 0 };
        if (hparams[i].text)
            br__message_text(&value, 3, hparams[i].text);
        else
            br__message_double_of_one(&value, 2, hparams[i].number);
        br__message_text(&entry, 1, hparams[i].name);
        br__message_part(&entry, 2, &value);
        br__message_part(info, 1, &entry);
    }
}

static bool add_hparams_data(br_event_file *events, const char *tag, unsigned field,
                             br_message *part)
{
    br_message content = { 0 }, value = { 0 };
    br__message_part(&content, field, part);
    br__message_text(&value, TAG, tag);
    add_plugin(&value, "hparams", &content);
    return add_value(events, 0, &value);
}

static bool add_run(br_event_file *events, int64_t n_hparams, const br_hparam *hparams,
                    int64_t n_metrics, const br_metric *metrics)
{
    br_message experiment = { 0 }, start = { 0 }, end = { 0 };
    describe(&experiment, n_hparams, hparams, n_metrics, metrics);
    add_hparam_values(&start, n_hparams, hparams);
    br__message_integer(&end, 1, STATUS_SUCCESS);
    bool ok =
        add_hparams_data(events, "_hparams_/experiment", EXPERIMENT, &experiment) &&
        add_hparams_data(events, "_hparams_/session_start_info", SESSION_START_INFO, &start) &&
        add_hparams_data(events, "_hparams_/session_end_info", SESSION_END_INFO, &end);
    br__message_free(&experiment);
    br__message_free(&start);
    br__message_free(&end);
    for (int64_t i = 0; i < n_metrics && ok; i++)
        ok = add_scalar(events, metrics[i].name, metrics[i].value, 0);
    return ok;
}

bool br_summary_writer_add_hparams(br_summary_writer *self, const char *run_name, int64_t n_hparams,
                                   const br_hparam *hparams, int64_t n_metrics,
                                   const br_metric *metrics)
{
    static const char op[] = "summary_writer_add_hparams";
    if (!br__required(op, "self", self) ||
        !good_hparams(op, n_hparams, hparams, n_metrics, metrics))
        return false;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    char *folder = run_name
                       ? br_format("%s/%s", self->folder, run_name)
                       : br_format("%s/%lld.%09ld", self->folder, (long long)t.tv_sec, t.tv_nsec);
    br_event_file events = { 0 };
    bool ok = folder && br__make_directory(op, folder, NULL, NULL) &&
              br__event_file_open(&events, op, folder, "") &&
              add_run(&events, n_hparams, hparams, n_metrics, metrics);
    br__event_file_close(&events);
    br_free(folder);
    return ok;
}
