/* cli/info_text.c - sizes, columns and values in the output of `brasa info`. */
#include "cli/info.h"

#include <brasa/io.h>
#include <brasa/tensor.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <utf8proc.h>

int64_t info_file_size(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* Opening a file has checked that the product of the sizes other than 0 does not overflow. */
static int64_t product(int n, const int64_t *sizes)
{
    for (int d = 0; d < n; d++)
        if (sizes[d] == 0)
            return 0;
    int64_t all = 1;
    for (int d = 0; d < n; d++)
        all *= sizes[d];
    return all;
}

int64_t info_elements(const br_safetensors *file, int64_t i)
{
    const int64_t *sizes;
    int n = br_safetensors_shape(file, i, &sizes);
    return product(n, sizes);
}

int64_t info_gguf_elements(const br_gguf *file, int64_t i)
{
    const int64_t *sizes;
    int n = br_gguf_shape(file, i, &sizes);
    return product(n, sizes);
}

const char *info_size(double bytes, char *text, size_t size)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    size_t unit = 0;
    for (; bytes >= 1024 && unit < 6; unit++)
        bytes /= 1024;
    snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
    return text;
}

/* Returns the width of a printable text in terminal columns. */
static int width_of(const char *text)
{
    int width = 0;
    const utf8proc_uint8_t *p = (const utf8proc_uint8_t *)text;
    while (*p) {
        utf8proc_int32_t c;
        utf8proc_ssize_t n = utf8proc_iterate(p, -1, &c);
        width += n > 0 ? utf8proc_charwidth(c) : 1;
        p += n > 0 ? n : 1;
    }
    return width;
}

void info_padded(const char *text, int width)
{
    int pad = width - width_of(text);
    printf("%s%*s", text, pad > 0 ? pad : 0, "");
}

int info_widen(int width, const char *text)
{
    enum { MAX_WIDTH = 48 };
    int needed = width_of(text);
    return needed > width && needed <= MAX_WIDTH ? needed : width;
}

void info_value(const char *value)
{
    enum { SHOWN = 60 };
    char start[SHOWN + 1];
    size_t cut = strnlen(value, SHOWN);
    while (value[cut] && cut > 0 && ((unsigned char)value[cut] & 0xc0) == 0x80)
        cut--; /* do not cut inside a code point */
    memcpy(start, value, cut);
    start[cut] = 0;
    printf("%s", br_printable(start));
    if (value[cut])
        printf("... (%zu bytes)", strlen(value));
}

json_t *info_text_object(const char *text)
{
    json_t *string = json_string(text);
    return string ? string : json_string(br_printable(text));
}
