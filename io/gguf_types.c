/* io/gguf_types.c - the tables of the types of tensors and metadata in GGUF files. */
#include "io/gguf_internal.h"

/* The index is the number in the file. Numbers without a name belonged to types that the format no
 * longer has. */
static const br_gguf_kind types[] = {
    [0] = { "F32", 1, 4 },         [1] = { "F16", 1, 2 },         [2] = { "Q4_0", 32, 18 },
    [3] = { "Q4_1", 32, 20 },      [6] = { "Q5_0", 32, 22 },      [7] = { "Q5_1", 32, 24 },
    [8] = { "Q8_0", 32, 34 },      [9] = { "Q8_1", 32, 40 },      [10] = { "Q2_K", 256, 84 },
    [11] = { "Q3_K", 256, 110 },   [12] = { "Q4_K", 256, 144 },   [13] = { "Q5_K", 256, 176 },
    [14] = { "Q6_K", 256, 210 },   [15] = { "Q8_K", 256, 292 },   [16] = { "IQ2_XXS", 256, 66 },
    [17] = { "IQ2_XS", 256, 74 },  [18] = { "IQ3_XXS", 256, 98 }, [19] = { "IQ1_S", 256, 50 },
    [20] = { "IQ4_NL", 32, 18 },   [21] = { "IQ3_S", 256, 110 },  [22] = { "IQ2_S", 256, 82 },
    [23] = { "IQ4_XS", 256, 136 }, [24] = { "I8", 1, 1 },         [25] = { "I16", 1, 2 },
    [26] = { "I32", 1, 4 },        [27] = { "I64", 1, 8 },        [28] = { "F64", 1, 8 },
    [29] = { "IQ1_M", 256, 56 },   [30] = { "BF16", 1, 2 },       [34] = { "TQ1_0", 256, 54 },
    [35] = { "TQ2_0", 256, 66 },   [39] = { "MXFP4", 32, 17 },    [40] = { "NVFP4", 64, 36 },
    [41] = { "Q1_0", 128, 18 },
};

const br_gguf_kind *br__gguf_kind(uint32_t number)
{
    return number < sizeof types / sizeof *types && types[number].name ? &types[number] : NULL;
}

static const struct {
    const char *name;
    size_t size;
} values[BR_GGUF_VALUES] = {
    [BR_GGUF_UINT8] = { "uint8", 1 },     [BR_GGUF_INT8] = { "int8", 1 },
    [BR_GGUF_UINT16] = { "uint16", 2 },   [BR_GGUF_INT16] = { "int16", 2 },
    [BR_GGUF_UINT32] = { "uint32", 4 },   [BR_GGUF_INT32] = { "int32", 4 },
    [BR_GGUF_FLOAT32] = { "float32", 4 }, [BR_GGUF_BOOL] = { "bool", 1 },
    [BR_GGUF_STRING] = { "string", 0 },   [BR_GGUF_ARRAY] = { "array", 0 },
    [BR_GGUF_UINT64] = { "uint64", 8 },   [BR_GGUF_INT64] = { "int64", 8 },
    [BR_GGUF_FLOAT64] = { "float64", 8 },
};

const char *br__gguf_value_name(br_gguf_value type)
{
    return values[type].name;
}

size_t br__gguf_value_size(br_gguf_value type)
{
    return values[type].size;
}
