/* tests/ops/matmul/amx_emulation.h - the six tile instructions of AMX in plain C.
 *
 * The kernel backends/cpu/isa/gemm_amx.c is compiled a second time with this header in front: the
 * macros below then replace the compiler's intrinsics. An instruction that would raise an exception
 * on a processor, and a configuration that was not released before the next one, end the test. */
#ifndef BR_TESTS_AMX_EMULATION_H
#define BR_TESTS_AMX_EMULATION_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

enum { EMULATED_TILES = 8, MAX_TILE_ROWS = 16, MAX_ROW_BYTES = 64 };

/* What LDTILECFG has read. */
typedef struct emulated_configuration {
    uint8_t palette, start_row;
    uint16_t row_bytes[EMULATED_TILES];
    uint8_t rows[EMULATED_TILES];
} emulated_configuration;

void emulated_loadconfig(const void *configuration);
void emulated_release(void);
void emulated_zero(int tile);
void emulated_loadd(int tile, const void *base, int64_t stride);
void emulated_stored(int tile, void *base, int64_t stride);
void emulated_dpbf16ps(int sums, int a, int b);

/* Returns the last configuration of the calling thread, which may have been released. */
emulated_configuration emulated_last_configuration(void);
/* Returns whether the calling thread has tiles that are not released. */
bool emulated_is_configured(void);
/* Return the numbers of configurations and of releases in all threads. */
int64_t emulated_configurations(void);
int64_t emulated_releases(void);

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig(configuration)  emulated_loadconfig(configuration)
#define _tile_release()                  emulated_release()
#define _tile_zero(tile)                 emulated_zero(tile)
#define _tile_loadd(tile, base, stride)  emulated_loadd(tile, base, stride)
#define _tile_stored(tile, base, stride) emulated_stored(tile, base, stride)
#define _tile_dpbf16ps(sums, a, b)       emulated_dpbf16ps(sums, a, b)

#endif
