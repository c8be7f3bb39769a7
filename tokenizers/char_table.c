/* tokenizers/char_table.c - unpacks tables of code points. */
#include "tokenizers/char_table.h"

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

typedef struct filler {
    br_char_pages *pages;
    uint8_t n_pages;
    uint32_t c; /* the next code point */
} filler;

static void fill(filler *f, uint8_t number, uint32_t length)
{
    for (uint32_t n; length > 0; length -= n) {
        uint32_t at = f->c % BR_CHAR_PAGE, room = BR_CHAR_PAGE - at;
        uint8_t *page = &f->pages->page[f->c / BR_CHAR_PAGE];
        n = length < room ? length : room;
        if (at == 0)
            *page = n == BR_CHAR_PAGE ? number : f->n_pages++;
        if (n < BR_CHAR_PAGE)
            memset(f->pages->numbers[*page] + at, number, n);
        f->c += n;
    }
}

static void unpack(const uint8_t *runs, br_char_pages *pages)
{
    for (int i = 0; i < BR_CHAR_KINDS; i++)
        memset(pages->numbers[i], i, BR_CHAR_PAGE);
    filler f = { .pages = pages, .n_pages = BR_CHAR_KINDS };
    while (f.c < BR_CHARS) {
        const uint8_t *run = runs;
        uint32_t length = read_length(&runs);
        fill(&f, *run % BR_CHAR_KINDS, length);
        for (int times = length > 0 ? 0 : *runs++; times > 0; times--)
            for (const uint8_t *again = run - 2; again < run; again++)
                fill(&f, *again % BR_CHAR_KINDS, *again / BR_CHAR_KINDS);
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
