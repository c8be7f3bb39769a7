/* tokenizers/char_table.h - tables of the properties of code points. make_*_chars.py packs them,
 * and the first look-up unpacks them. Threads may share a table. */
#ifndef BR_CHAR_TABLE_H
#define BR_CHAR_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { BR_CHARS = 0x110000, BR_CHAR_KINDS = 16, BR_CHAR_PAGE = 256 };

/* The index of each code point's kind, in pages of BR_CHAR_PAGE code points. Page i of the first
 * BR_CHAR_KINDS pages has kind i everywhere; all uniform pages share these. */
typedef struct br_char_pages {
    atomic_bool ready;
    uint8_t page[BR_CHARS / BR_CHAR_PAGE];
    uint8_t numbers[256][BR_CHAR_PAGE];
} br_char_pages;

typedef struct br_char_table {
    /* The run-length encoded kinds of all code points. A run's first byte has the index of the kind
     * in its low 4 bits and the run's length in its high 4 bits. If the high bits are 0, the length
     * follows as a LEB128 varint. If that is 0 too, the next byte is a count: the two bytes before
     * this run are repeated that many times. */
    const uint8_t *runs;
    const uint16_t *kinds; /* the property bits of each kind */
    br_char_pages *pages;  /* zeroed */
} br_char_table;

void br__char_table_unpack(const br_char_table *table);

/* Returns the indices of the kinds of all code points in the page of c. */
static inline const uint8_t *br__page_of_char(const br_char_table *table, uint32_t c)
{
    const br_char_pages *p = table->pages;
    if (!atomic_load_explicit(&p->ready, memory_order_acquire))
        br__char_table_unpack(table);
    return p->numbers[p->page[c / BR_CHAR_PAGE]];
}

/* Returns the property bits of a code point. */
static inline unsigned br__bits_of_char(const br_char_table *table, uint32_t c)
{
    return table->kinds[br__page_of_char(table, c)[c % BR_CHAR_PAGE]];
}

#endif
