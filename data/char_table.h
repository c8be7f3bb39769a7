/* data/char_table.h - what is known of each code point: tables that make_*_chars.py pack, and that
 * are unpacked when one is first asked. Several threads may ask. */
#ifndef BR_CHAR_TABLE_H
#define BR_CHAR_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { BR_CHARS = 0x110000, BR_CHAR_KINDS = 16, BR_CHAR_PAGE = 256 };

/* Numbers of kinds, of so many code points a page. The first pages have one kind each, and stand
 * for all that have no other. */
typedef struct br_char_pages {
    atomic_bool ready;
    uint8_t page[BR_CHARS / BR_CHAR_PAGE];
    uint8_t numbers[256][BR_CHAR_PAGE];
} br_char_pages;

typedef struct br_char_table {
    /* Code points in a row that are of one kind: a byte has its number and, times 16, how many they
     * are; or 0, and the bytes behind it have that, seven bits each, the lowest first, and 128 in
     * all but the last. If that is 0, the two bytes before come again, as often as the next says.
     */
    const uint8_t *runs;
    const uint16_t *kinds; /* the bits that each number stands for */
    br_char_pages *pages;  /* zeroed */
} br_char_table;

void br__char_table_unpack(const br_char_table *table);

/* The bits of a code point. */
static inline unsigned br__bits_of_char(const br_char_table *table, uint32_t c)
{
    const br_char_pages *p = table->pages;
    if (!atomic_load_explicit(&p->ready, memory_order_acquire))
        br__char_table_unpack(table);
    return table->kinds[p->numbers[p->page[c / BR_CHAR_PAGE]][c % BR_CHAR_PAGE]];
}

#endif
