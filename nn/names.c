/* nn/names.c - similar names: see names.h. */
#include "nn/names.h"
#include "tensor/min_max.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

static int least(int a, int b, int c)
{
    int smaller = br__min(a, b);
    return br__min(smaller, c);
}

static bool same_letter(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

int br__edit_distance(const char *a, size_t n, const char *b, size_t m)
{
    unsigned char d[BR_LONGEST_NAME + 1][BR_LONGEST_NAME + 1];
    if (n > BR_LONGEST_NAME || m > BR_LONGEST_NAME)
        return INT_MAX;
    for (size_t i = 0; i <= n; i++)
        for (size_t k = 0; k <= m; k++) {
            bool any = i > 0 && a[i - 1] == '*';
            int removed = i > 0 ? d[i - 1][k] + !any : INT_MAX;
            int inserted = k > 0 ? d[i][k - 1] + !any : INT_MAX;
            int replaced =
                i > 0 && k > 0 ? d[i - 1][k - 1] + !same_letter(a[i - 1], b[k - 1]) : INT_MAX;
            int best = i + k == 0 ? 0 : least(removed, inserted, replaced);
            if (i > 1 && k > 1 && same_letter(a[i - 1], b[k - 2]) &&
                same_letter(a[i - 2], b[k - 1]))
                best = least(best, d[i - 2][k - 2] + 1, INT_MAX);
            d[i][k] = (unsigned char)best;
        }
    return d[n][m];
}

/* Returns the number of letters that are not '*'. */
static int letters_of(const char *given)
{
    int n = 0;
    for (; *given; given++)
        n += *given != '*';
    return n;
}

const char *br__nearest_name(const br_named_list *list, const char *given, bool near)
{
    int letters = letters_of(given), most = letters > 3 ? letters / 3 : 1, nearest = INT_MAX;
    const char *found = list->count > 0 ? list->items[0].name : NULL;
    for (int64_t i = 0; i < list->count; i++) {
        const char *name = list->items[i].name;
        int distance = br__edit_distance(given, strlen(given), name, strlen(name));
        if (distance >= nearest)
            continue;
        nearest = distance;
        found = name;
    }
    return near && nearest > most ? NULL : found;
}
