/* tests/io/test_half.c - F16 and BF16 in files keep their dtype and are converted to F32: every
 * value is compared with its definition, and some with torch's (tests/io/record_half.py). */
#include "tests/io/files.h"
#include "tests/io/half_values.h"

TestSuite(half, .init = files_begin, .fini = files_end);

enum { ALL = 65536 };

/* Format and recorded values of a dtype. */
typedef struct kind {
    const char *dtype;
    int exponent_bits, fraction_bits;
    const struct half_value *values;
    size_t n_values;
    uint64_t sum;
} kind;

static const kind kinds[] = {
    { "F16", 5, 10, f16_values, sizeof f16_values / sizeof *f16_values, f16_sum },
    { "BF16", 8, 7, bf16_values, sizeof bf16_values / sizeof *bf16_values, bf16_sum },
};

/* Reads a file with all values of the dtype in a scope. A bool before them makes the values
 * unaligned. */
static br_tensor *read_all(const char *dtype)
{
    char header[300], *bytes;
    int n = snprintf(header, sizeof header,
                     "{\"b\":{\"dtype\":\"BOOL\",\"shape\":[1],\"data_offsets\":[0,1]},"
                     "\"x\":{\"dtype\":\"%s\",\"shape\":[256,256],\"data_offsets\":[1,131073]}}",
                     dtype);
    size_t size = 8 + (size_t)n + 1 + 2 * ALL;
    cr_assert(bytes = calloc(1, size));
    bytes[0] = (char)n;
    memcpy(bytes + 8, header, (size_t)n);
    for (int i = 0; i < ALL; i++)
        memcpy(bytes + 9 + n + 2 * i, &(uint16_t){ (uint16_t)i }, 2);
    files_write(files_path("a.safetensors"), bytes, size);
    free(bytes);
    br_safetensors *file = br_safetensors_open(files_path("a.safetensors"), NULL);
    cr_assert(file, "%s", br_error_message());
    br_tensor *x = br_safetensors_get(file, "x");
    cr_assert_str_eq(br_safetensors_dtype(file, 1), dtype);
    cr_assert_eq(br_safetensors_bytes(file, 1), 2 * ALL);
    br_safetensors_close(file);
    return x;
}

static uint64_t fnv1a(const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t value = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++)
        value = (value ^ p[i]) * 0x100000001b3;
    return value;
}

/* Returns the value that IEEE 754 defines for this format; it may be NAN. */
static double defined(const kind *k, int half)
{
    int fraction = half & ((1 << k->fraction_bits) - 1), most = (1 << k->exponent_bits) - 1;
    int exponent = half >> k->fraction_bits & most, bias = most / 2;
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == most)
        return fraction ? NAN : sign * INFINITY;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - bias - k->fraction_bits);
    return sign * ldexp(fraction + (1 << k->fraction_bits), exponent - bias - k->fraction_bits);
}

static void check_kind(const kind *k)
{
    br_scope *scope = br_scope_begin();
    br_tensor *x = read_all(k->dtype);
    cr_assert_eq(br_dtype_of(x), strcmp(k->dtype, "F16") == 0 ? BR_F16 : BR_BF16);
    const float *values = br_data_f32(br_to(x, BR_F32));
    cr_assert(values, "%s", br_error_message());
    for (int i = 0; i < ALL; i++) {
        double want = defined(k, i), y = (double)values[i];
        cr_assert(isnan(want) ? isnan(y) : want == y, "%s %04x is %g, not %g", k->dtype, i, y,
                  want);
        cr_assert_eq(!!signbit(values[i]), i >> 15, "%s %04x has the wrong sign", k->dtype, i);
    }
    for (size_t i = 0; i < k->n_values; i++) {
        uint32_t bits;
        memcpy(&bits, &values[k->values[i].half], sizeof bits);
        cr_assert_eq(bits, k->values[i].f32, "%s %04x is %08x, not %08x", k->dtype,
                     k->values[i].half, bits, k->values[i].f32);
    }
    cr_assert_eq(fnv1a(values, ALL * sizeof *values), k->sum);
    br_scope_end(scope);
}

Test(half, every_value_is_torch_s)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        check_kind(&kinds[i]);
}

/* Tensors of different shapes, also by br_safetensors_all(). */
Test(half, shapes)
{
    static const char header[] =
        "{\"e\":{\"dtype\":\"F16\",\"shape\":[0,3],\"data_offsets\":[0,0]},"
        "\"s\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\":[0,2]},"
        "\"v\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[2,8]}}";
    files_write_safetensors(files_path("a.safetensors"), header, sizeof header - 1, 8);
    br_scope *scope = br_scope_begin();
    br_safetensors *file = br_safetensors_open(files_path("a.safetensors"), NULL);
    br_named_list *all = br_safetensors_all(file);
    cr_assert(all, "%s", br_error_message());
    for (int64_t i = 0; i < 3; i++)
        cr_assert_eq(br_dtype_of(all->items[i].tensor), i == 1 ? BR_BF16 : BR_F16);
    br_tensor *s = br_safetensors_get(file, "s"), *v = br_safetensors_get(file, "v");
    cr_assert_eq(br_size(br_safetensors_get(file, "e"), 1), 3);
    cr_assert_eq(br_ndim(s), 0);
    cr_assert_eq(br_item(s), ldexp(1, 2 - 127));                          /* 0x0100 */
    cr_assert_eq(br_at(v, BR_DIMS(2)), ldexp(1024 + 0x306, 1 - 15 - 10)); /* 0x0706 */
    br_named_list_free(all);
    br_safetensors_close(file);
    br_scope_end(scope);
}
