/* data/char_table.c - tables of code points: unpacking. */
#include "data/char_table.h"

#include <pthread.h>
#include <string.h>

static uint32_t read_length(const uint8_t **runs)
{
    const uint8_t *p = *runs;
    uint32_t length = *p++ >> 4;
    if (length == 0)
        for (int shift = 0;; shift += 7) {
            length |= (*p & 127u) << shift;
            if (*p++ < 128)
                break;
        }
    *runs = p;
    return length;
}

static void unpack(const uint8_t *runs, br_char_pages *pages)
{
    for (int i = 0; i < BR_CHAR_KINDS; i++)
        memset(pages->numbers[i], i, BR_CHAR_PAGE);
    uint8_t n_pages = BR_CHAR_KINDS;
    for (uint32_t c = 0, end = 0; c < BR_CHARS;) {
        uint8_t number = *runs % BR_CHAR_KINDS;
        end += read_length(&runs);
        while (c < end) {
            uint32_t at = c % BR_CHAR_PAGE, room = BR_CHAR_PAGE - at;
            uint32_t n = end - c < room ? end - c : room;
            uint8_t *page = &pages->page[c / BR_CHAR_PAGE];
            if (at == 0)
                *page = n == BR_CHAR_PAGE ? number : n_pages++;
            if (n < BR_CHAR_PAGE)
                memset(pages->numbers[*page] + at, number, n);
            c += n;
        }
    }
}

void br__char_table_unpack(const br_char_table *table)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    if (!table->pages->ready)
        unpack(table->runs, table->pages);
    table->pages->ready = true;
    pthread_mutex_unlock(&mutex);
}
