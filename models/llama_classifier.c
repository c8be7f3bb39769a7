/* models/llama_classifier.c - LlamaForSequenceClassification, and the same class of the decoders
 * that are built like Llama. */
#include "models/llama_internal.h"
#include "models/packed.h"

#include <inttypes.h>

static const char op[] = "llama_classifier";

br_llama_classifier *zoo_llama_make_classifier_of(const br_llama_config *c)
{
    if (!zoo_good_size(op, "num_labels", c->num_labels))
        return NULL;
    const char *class = zoo_llama_kind_of(c->model_type)->classifier;
    br_llama_classifier *self =
        class ? br_module_create(sizeof *self, class)
              : zoo_llama_create(c, sizeof *self, "ForSequenceClassification");
    self->model = br_child(self, "model", zoo_llama_make(c));
    self->score = br_child(self, "score", br_linear_new(c->hidden_size, c->num_labels, false));
    return self;
}

br_llama_classifier *br_llama_classifier_new(const br_llama_config *config)
{
    br_llama_config c = zoo_llama_checked(config);
    bool before = br_skip_init(true);
    br_llama_classifier *self = zoo_llama_make_classifier_of(&c);
    br_skip_init(before);
    return self ? zoo_init_module(br_base(self), zoo_llama_init, &c) : NULL;
}

/* Returns for each text the place of its last token that is no padding, i64 [number of texts],
 * counted over all ids: the first token if all are padding. `starts` are those of a packed batch,
 * or NULL. */
static br_tensor *last_tokens(const br_tensor *ids, br_tensor *starts, int64_t padding)
{
    const int64_t n = starts ? br_numel(starts) - 1 : br_size(ids, 0), length = br_size(ids, 1);
    int64_t *tokens = zoo_copy_elements(ids), *at = starts ? zoo_copy_elements(starts) : NULL;
    int64_t *places = tokens && (at || !starts) ? br_calloc((size_t)n, sizeof *places) : NULL;
    for (int64_t i = 0; places && i < n; i++) {
        const int64_t first = at ? at[i] : i * length;
        places[i] = (at ? at[i + 1] : first + length) - 1;
        while (padding >= 0 && places[i] > first && tokens[places[i]] == padding)
            places[i]--;
    }
    br_tensor *result = places ? br_from_i64(BR_SHAPE(n), places) : NULL;
    br_free(tokens);
    br_free(at);
    br_free(places);
    return result;
}

br_tensor *br_llama_classifier_forward(br_llama_classifier *self, br_tensor *input_ids,
                                       const br_llama_options *options)
{
    br_enter(self);
    const br_llama_options *o = BR_OPTIONS_OF(op, br_llama, options);
    br_tensor *x = br_llama_forward(self->model, input_ids, o);
    zoo_llama_return_outputs(self->model, o);
    if (br_error_pending())
        return br_leave(self, NULL);
    const int64_t padding = self->model->config.pad_token_id;
    if (padding < 0 && !o->cu_seqlens && br_size(input_ids, 0) > 1)
        return br_leave(self, br_fail(BR_ERROR_ARGUMENT, op,
                                      "input_ids %s has %" PRId64
                                      " texts, but pad_token_id is -1 (null), which leaves unknown "
                                      "where they end: set it, or pass cu_seqlens",
                                      br_shape_text(input_ids), br_size(input_ids, 0)));
    br_tensor *places = last_tokens(input_ids, o->cu_seqlens, padding);
    x = br_index_select(br_flatten(x, 0, 1), 0, br_to_device(places, br_device_of(x)));
    return br_leave(self, br_linear_forward(self->score, x));
}
