/* Made by record_split.py with PyTorch 2.15.0. */
/* clang-format off */
#include <stdint.h>

static const int64_t lengths_sizes[] = { 7, 0, 3 };
static const int64_t lengths_items[] = {
    2, 6, 1, 8, 4, 5, 0, 9, 3, 7
};
static const double after_lengths = 0.065487459180128;
static const int64_t fractions_sizes[] = { 12, 7, 4 };
static const int64_t fractions_items[] = {
    12, 9, 0, 10, 6, 17, 3, 2, 1, 16, 15, 14, 13, 22, 11, 20, 7, 5, 18, 19, 4, 8, 21
};
static const double after_fractions = 0.5944401994573114;
static const int64_t thirds_sizes[] = { 4, 4, 3 };
static const int64_t thirds_items[] = {
    4, 9, 2, 8, 3, 7, 0, 1, 5, 10, 6
};
static const double after_thirds = 0.6081652055841489;
