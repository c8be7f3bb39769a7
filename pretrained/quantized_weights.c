/* pretrained/quantized_weights.c - weights of GGUF files that stay quantized. */
#include "pretrained/quantized_weights.h"
#include "tensor/tensor_internal.h"

#include <string.h>

bool br__may_be_quantized(br_module *module, const char *name, const br_tensor *weight)
{
    char *path = br_strdup(name), *dot = path ? strrchr(path, '.') : NULL;
    bool ok = dot && strcmp(dot + 1, "weight") == 0 && weight->ndim == 2;
    if (ok) {
        *dot = '\0';
        const br_module *layer = br_module_find(module, path);
        const char *class = layer ? br_module_class(layer) : "";
        ok = strcmp(class, "Linear") == 0 || strcmp(class, "Embedding") == 0;
    }
    br_free(path);
    return ok;
}

br_tensor *br__undo_of_rows(const br_gguf_change *change, const br_auto_config *config,
                            br_tensor *quantized)
{
    br_tensor *bytes = br__bytes_of_quantized(quantized);
    br_tensor *moved = bytes ? br_contiguous(change->undo(config, bytes)) : NULL;
    if (moved && moved->is_view)
        moved = br_clone(moved);
    return br__as_quantized(moved, (br_block_type)quantized->block_type, quantized->ndim,
                            quantized->sizes);
}

bool br__equal_weights(br_tensor *a, br_tensor *b)
{
    if (!a || !b)
        return false;
    if (br__is_quantized(a) && br__is_quantized(b) && a->block_type == b->block_type)
        return br__same_shape(a, b) &&
               br_equal(br__bytes_of_quantized(a), br__bytes_of_quantized(b));
    if (br__is_quantized(a) || br__is_quantized(b)) {
        a = br_to(a, br__computed(a->dtype));
        b = br_to(b, br__computed(b->dtype));
    }
    return br_equal(a, b);
}
