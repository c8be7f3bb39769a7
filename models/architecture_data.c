/* models/architecture_data.c - the masks and the random sequences of Transformers Architecture.
 *
 * Sequences are drawn as NumPy draws them, from this thread's generator: the same stream of 32-bit
 * numbers gives the notebook's samples. */
#include "tensor/tensor_internal.h"

#include <brasa/models/architecture.h>
#include <inttypes.h>

/* ---- Masks ----------------------------------------------------------------------------------- */

br_tensor *br_architecture_create_mask(int64_t batch_size, int64_t seq_length)
{
    br_scope *scope = br_scope_begin();
    br_tensor *mask = br_tril(br_ones(BR_SHAPE(seq_length, seq_length), BR_F32), 0);
    mask = br_expand(br_unsqueeze(mask, 0), BR_SHAPE(batch_size, seq_length, seq_length));
    br_scope_return(scope, mask);
    br_scope_end(scope);
    return mask;
}

br_tensor *br_architecture_subsequent_mask(int64_t size)
{
    br_scope *scope = br_scope_begin();
    br_tensor *later = br_triu(br_ones(BR_SHAPE(size, size), BR_BOOL), 1);
    br_tensor *mask = br_scope_return(scope, br_logical_not(later));
    br_scope_end(scope);
    return mask;
}

br_tensor *br_architecture_make_std_mask(br_tensor *target, int64_t pad)
{
    br_scope *scope = br_scope_begin();
    br_tensor *target_mask = br_ne_scalar(target, (double)pad);
    target_mask = br_logical_and(target_mask, br_architecture_subsequent_mask(br_size(target, -1)));
    br_scope_return(scope, target_mask);
    br_scope_end(scope);
    return target_mask;
}

br_tensor *br_architecture_source_mask(br_tensor *source)
{
    br_scope *scope = br_scope_begin();
    br_tensor *mask = br_scope_return(scope, br_unsqueeze(br_ne_scalar(source, 0), -2));
    br_scope_end(scope);
    return mask;
}

/* ---- RandomDataset --------------------------------------------------------------------------- */

typedef struct random_dataset {
    br_tensor *samples; /* held, [samples, L] */
    bool mask_target;
} random_dataset;

static bool get_sample(void *context, int64_t i, br_tensor **fields)
{
    const random_dataset *d = context;
    br_tensor *source = br_select(d->samples, 0, i);
    int64_t last = br_size(source, 0) - 1;
    br_tensor *target = br_narrow(source, 0, 0, last), *target_y = br_narrow(source, 0, 1, last);
    fields[BR_ARCHITECTURE_SOURCE] = source;
    fields[BR_ARCHITECTURE_TARGET] = target;
    fields[BR_ARCHITECTURE_TARGET_Y] = target_y;
    fields[BR_ARCHITECTURE_SOURCE_MASK] = br_architecture_source_mask(source);
    fields[BR_ARCHITECTURE_TARGET_MASK] =
        br_architecture_make_std_mask(d->mask_target ? target : source, 0);
    fields[BR_ARCHITECTURE_TOKENS_COUNT] = br_sum(br_ne_scalar(target_y, 0));
    return !br_failed();
}

static void free_dataset(void *context)
{
    random_dataset *d = context;
    br_release(d->samples);
    br_free(d);
}

/* np.random.randint(1, high): masked words of 32 bits until one is in the range; none is drawn
 * where there is no choice. */
static int64_t randint(int64_t high)
{
    uint32_t largest = (uint32_t)(high - 2), mask = largest, r;
    for (int shift = 1; shift < 32; shift *= 2)
        mask |= mask >> shift;
    if (largest == 0)
        return 1;
    do
        r = br_random_u32() & mask;
    while (r > largest);
    return 1 + (int64_t)r;
}

/* [n, length]; NULL on error. */
static br_tensor *draw_samples(int64_t vocabulary_size, int64_t n, int64_t length)
{
    br_tensor *samples = br_empty(BR_SHAPE(n, length), BR_I64);
    int64_t *ids = br_data_i64(samples);
    for (int64_t i = 0; ids && i < n * length; i++)
        ids[i] = randint(vocabulary_size);
    for (int64_t i = 0; ids && i < n; i++)
        ids[i * length] = 1;
    return samples;
}

/* Then the number of ids cannot overflow before memory refuses them. */
static bool good_request(int64_t vocabulary_size, int64_t batch_size, int64_t num_samples,
                         int64_t sample_length)
{
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = { { "vocabulary_size", vocabulary_size, 2 },
                  { "batch_size", batch_size, 1 },
                  { "num_samples", num_samples, 1 },
                  { "sample_length", sample_length, 2 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !br_failed(); i++)
        if (sizes[i].value < sizes[i].least || sizes[i].value > INT32_MAX)
            br__fail(BR_ERROR_ARGUMENT, "architecture_random_dataset",
                     "%s is %" PRId64 ", must be %" PRId64 " .. %d", sizes[i].name, sizes[i].value,
                     sizes[i].least, INT32_MAX);
    return !br_failed();
}

br_dataset *br_architecture_random_dataset_new(int64_t vocabulary_size, int64_t batch_size,
                                               int64_t num_samples, int64_t sample_length,
                                               bool mask_target)
{
    if (!good_request(vocabulary_size, batch_size, num_samples, sample_length))
        return NULL;
    random_dataset *d = br__calloc(1, sizeof *d);
    if (!d)
        return NULL;
    br_scope *scope = br_scope_begin();
    int64_t n = batch_size * num_samples;
    d->samples = br_retain(draw_samples(vocabulary_size, n, sample_length));
    d->mask_target = mask_target;
    br_scope_end(scope);
    br_dataset *dataset = br_dataset_new(n, BR_ARCHITECTURE_FIELDS, get_sample, d, free_dataset);
    if (!dataset)
        free_dataset(d);
    return dataset;
}
