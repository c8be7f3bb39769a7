/* viz/attention_figure.c - the parts of figures of attention: tokens, colours, the frame. */
#include "viz/attention_figure.h"

#include "tensor/min_max.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <utf8proc.h>

enum { TITLE = 32, TITLE_LETTER = 9 };

/* ---- Colours --------------------------------------------------------------------------------- */

static int channel_of(double hue, double saturation, double lightness, double shift)
{
    double k = fmod(shift + hue / 30, 12), a = saturation * fmin(lightness, 1 - lightness);
    return (int)lrint(255 * (lightness - a * fmax(-1, fmin(fmin(k - 3, 9 - k), 1))));
}

const char *br__figure_colour(int64_t n, br_colour_text text)
{
    static const char palette[][8] = { "#2f7de1", "#ef7f1a", "#2fa046", "#d93a3f",
                                       "#8f5fd0", "#93604a", "#e264b5", "#12a5a5",
                                       "#a3a122", "#3a4fb0", "#6fbf2e", "#d9a514",
                                       "#96305f", "#66788f", "#45b3ea", "#f0857a" };
    enum { CHOSEN = sizeof palette / sizeof *palette };
    if (n < CHOSEN)
        return palette[n];
    /* Further hues are far apart. */
    double hue = fmod(floor((double)n * 137.508 + 0.5), 360);
    double lightness = (45 + (double)(n % 3) * 8) / 100;
    unsigned rgb = 0;
    for (int i = 0; i < 3; i++)
        rgb = rgb << 8 | (unsigned)channel_of(hue, 0.6, lightness, (double[]){ 0, 8, 4 }[i]);
    snprintf(text, sizeof(br_colour_text), "#%06x", rgb & 0xffffff);
    return text;
}

static bool is_dark(const br_figure *f)
{
    return f->view->display_mode == BR_DISPLAY_DARK;
}

const char *br__figure_ink(const br_figure *f)
{
    return is_dark(f) ? "#e9ebee" : "#1d2127";
}

const char *br__figure_soft(const br_figure *f)
{
    return is_dark(f) ? "#a2aab5" : "#5d6570";
}

const char *br__figure_ground(const br_figure *f)
{
    return is_dark(f) ? "#1e2126" : "#ffffff";
}

const char *br__figure_mark(const br_figure *f)
{
    return is_dark(f) ? "#3a404a" : "#dfe3e9";
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static const char space_marks[][5] = { "\xc4\xa0", "\xe2\x96\x81", "</w>" }; /* Ġ, ▁ */
enum { MARKS = sizeof space_marks / sizeof *space_marks };

/* Returns the length of the tokenizer's marker of a space at the beginning of the text, or 0. */
static size_t marker_at(const char *text)
{
    for (int i = 0; i < MARKS; i++)
        if (strncmp(text, space_marks[i], strlen(space_marks[i])) == 0)
            return strlen(space_marks[i]);
    return 0;
}

/* Returns whether the token is a space, or several. */
static bool is_space(const char *token)
{
    for (; *token; token++) {
        size_t n = marker_at(token);
        if (n == 0 && *token != ' ')
            return false;
        token += n ? n - 1 : 0;
    }
    return true;
}

/* Reads the next character that is shown, or returns 0 at the end. A marker becomes a space, which
 * is visible if the token has no letters. */
static int32_t next_shown(const br_figure *f, const char **text, bool space)
{
    for (;;) {
        size_t n = f->view->raw_tokens ? 0 : marker_at(*text);
        bool ends_word = n > 0 && **text == '<';
        *text += n;
        if (n > 0 && !ends_word)
            return space ? 0x2423 : ' ';
        if (n == 0)
            break;
    }
    if (!**text)
        return 0;
    int32_t c = br__xml_character(text);
    return c == '\n' ? 0x21b5 : c == '\t' ? 0x21e5 : c == ' ' && space ? 0x2423 : c;
}

/* Writes at most `most` columns of a token, unless `out` is NULL. Returns its columns. */
static int put_token(const br_figure *f, br_writer *out, const char *token, int most)
{
    bool space = is_space(token);
    int columns = 0;
    for (int32_t c; (c = next_shown(f, &token, space)) != 0;) {
        char bytes[5] = "";
        if (columns + utf8proc_charwidth(c) > most)
            return most + 1;
        columns += utf8proc_charwidth(c);
        utf8proc_encode_char(c, (utf8proc_uint8_t *)bytes);
        if (out)
            br__write_xml(out, bytes);
    }
    return columns;
}

int br__figure_columns(const br_figure *f, const char *token)
{
    return br__min(put_token(f, NULL, token, BR_MAX_TOKEN_COLUMNS), (int)BR_MAX_TOKEN_COLUMNS);
}

void br__figure_token(const br_figure *f, const char *token)
{
    bool cut = put_token(f, NULL, token, BR_MAX_TOKEN_COLUMNS) > BR_MAX_TOKEN_COLUMNS;
    put_token(f, f->out, token, BR_MAX_TOKEN_COLUMNS - cut);
    if (cut)
        br__write(f->out, "\xe2\x80\xa6");
}

/* ---- Frame ----------------------------------------------------------------------------------- */

double br__figure_title_height(const br_figure *f)
{
    return f->title ? TITLE : 0;
}

double br__figure_begin(br_figure *f, double width, double height)
{
    br_writer *w = f->out;
    br__write(w,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
              "viewBox=\"0 0 %.0f %.0f\" font-family=\"Helvetica, Arial, sans-serif\" "
              "font-size=\"14\" fill=\"%s\">\n",
              width, height, width, height, br__figure_ink(f));
    br__write(w, "<rect width=\"100%%\" height=\"100%%\" fill=\"%s\"/>\n", br__figure_ground(f));
    if (!f->title)
        return 0;
    /* A title that is wider than the figure is cut. */
    const char *rest = f->title;
    br__write(w, "<text x=\"%.1f\" y=\"21\" text-anchor=\"middle\" font-size=\"16\">", width / 2);
    int most = (int)(width / TITLE_LETTER);
    for (int n = 0; *rest && n < most; n++) {
        char bytes[5] = "";
        utf8proc_encode_char(br__xml_character(&rest), (utf8proc_uint8_t *)bytes);
        br__write_xml(w, bytes);
    }
    br__write(w, "%s</text>\n", *rest ? "\xe2\x80\xa6" : "");
    return TITLE;
}

void br__figure_note_bad(const br_figure *f, double x, double y)
{
    if (f->bad > 0)
        br__write(f->out,
                  "<text x=\"%.1f\" y=\"%.1f\" font-size=\"12\" fill=\"%s\">%" PRId64
                  " weights are not finite and are missing</text>\n",
                  x, y, is_dark(f) ? "#ff8a80" : "#b3261e", f->bad);
}

const br_map *br__figure_map(const br_figure *f, int64_t layer)
{
    const br_attention *a = f->view->attention;
    const br_map *first = NULL;
    for (int64_t i = 0; i < a->n_maps; i++) {
        const br_map *m = &a->maps[i];
        if (m->part != f->part || m->kind != f->view->map || !br__shows(f->view, m))
            continue;
        if (m->layer == layer)
            return m;
        first = first ? first : m;
    }
    return first;
}

void br__figure_scale(br_figure *f, const br_map *m)
{
    const float *w = br_data_f32(m->weights);
    float largest = 0;
    for (int64_t i = 0; m->kind == BR_MAP_GRADIENT && i < br_numel(m->weights); i++)
        largest = isfinite(w[i]) && w[i] > largest ? w[i] : largest;
    f->scale = largest > 0 ? 1 / (double)largest : 1;
}

void br__figure_layer(const br_figure *f, const br_map *m)
{
    static const char *const names[] = { "", "rollout, ", "gradient \xc3\x97 attention, " };
    br__write(f->out, "%slayer %" PRId64, names[m->kind], m->layer);
}
