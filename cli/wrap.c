/* cli/wrap.c - prints help texts at the width of the terminal. */
#include "cli/cli.h"

#include <sys/ioctl.h>

enum { NARROWEST = 40, WIDEST = 80, NARROWEST_TEXT = 20, SHORT_INDENT = 6 };

int cli_columns(FILE *stream)
{
    struct winsize size;
    int width = WIDEST;
    if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        width = size.ws_col;
    return width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : width;
}

/* A line that is being printed. */
typedef struct wrapping {
    FILE *stream;
    int width, column;
    int indent; /* of the next lines, if the text does not fit */
} wrapping;

static void end_line(wrapping *w)
{
    fputc('\n', w->stream);
    w->column = 0;
}

/* Prints words, separated by one space, and begins a new line before a word that does not fit. */
static void put_words(wrapping *w, const char *text, const char *end)
{
    while (text < end) {
        text += strspn(text, " ");
        const int length = (int)strcspn(text, " \n");
        if (length == 0)
            return;
        if (w->column > w->indent && w->column + 1 + length > w->width)
            end_line(w);
        if (w->column > w->indent) {
            fputc(' ', w->stream);
            w->column++;
        }
        if (w->column < w->indent)
            w->column += fprintf(w->stream, "%*s", w->indent - w->column, "");
        w->column += fprintf(w->stream, "%.*s", length, text);
        text += length;
    }
}

/* Returns the position in the line after its last gap of two or more spaces, where the description
 * of an option begins, or `first`, that of its first letter. */
static int description(const char *line, int length, int first)
{
    int found = first;
    for (int i = first + 2; i < length; i++)
        if (line[i] != ' ' && line[i - 1] == ' ' && line[i - 2] == ' ')
            found = i;
    return found;
}

/* Prints the part before the description as it is. The description follows it, or stands below it
 * if the width left for it is too small. */
static void begin_entry(wrapping *w, const char *line, int first, int text)
{
    w->indent = text;
    if (text == first)
        return;
    int head = text;
    while (line[head - 1] == ' ')
        head--;
    w->column = fprintf(w->stream, "%.*s", head, line);
    if (w->width - text < NARROWEST_TEXT) {
        end_line(w);
        w->indent = SHORT_INDENT;
    }
}

void cli_print_wrapped(FILE *stream, const char *text)
{
    wrapping w = { .stream = stream, .width = cli_columns(stream) };
    int continues_at = -1; /* a line with this indent continues the line before it */
    for (const char *line = text; *line;) {
        const int length = (int)strcspn(line, "\n"), first = (int)strspn(line, " ");
        if (first < length && first != continues_at) {
            if (continues_at >= 0)
                end_line(&w);
            continues_at = description(line, length, first);
            begin_entry(&w, line, first, continues_at);
            put_words(&w, line + continues_at, line + length);
        } else if (first < length) {
            put_words(&w, line + first, line + length);
        } else {
            end_line(&w);
            if (continues_at >= 0) {
                continues_at = -1;
                end_line(&w);
            }
        }
        line += length + (line[length] == '\n');
    }
    if (continues_at >= 0)
        end_line(&w);
}
