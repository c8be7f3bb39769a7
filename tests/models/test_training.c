/* tests/models/test_training.c - 20 steps of Adam in training mode, with dropout, against the
 * losses that PyTorch computes from the same seed. The seed determines the initial values, the data
 * and the dropout. */
#include "tests/models/training_losses.h"
#include "tests/support.h"

#include <brasa/models/anatomy.h>
#include <brasa/models/architecture.h>
#include <brasa/models/bert.h>
#include <brasa/optim.h>

TestSuite(training, .init = check_begin, .fini = check_end);

enum { MAX_FIELDS = 5 };

/* How a model is made and used. Every model's struct begins with its br_module. */
typedef struct training {
    void *(*make)(bool intended);
    void (*draw_batch)(br_tensor **batch);
    br_tensor *(*loss)(void *model, br_tensor *const *batch);
} training;

static void check_losses(const training *t, bool intended, const double *want)
{
    br_scope *outer = br_scope_begin();
    br_manual_seed(SEED);
    void *model = t->make(intended);
    br_tensor *batch[MAX_FIELDS];
    t->draw_batch(batch);
    br_optim *adam = br_adam(model, BR_OPTIONS(br_adam, .lr = 1e-3));
    for (int step = 0; step < STEPS; step++) {
        br_scope *scope = br_scope_begin();
        br_optim_zero_grad(adam);
        br_tensor *loss = t->loss(model, batch);
        br_backward(loss);
        br_optim_step(adam);
        cr_expect(fabs(br_item(br_detach(loss)) - want[step]) < 1e-5,
                  "step %d, intended %d: %.8g, want %.8g", step, intended, br_item(br_detach(loss)),
                  want[step]);
        br_scope_end(scope);
        check_ok();
    }
    br_optim_free(adam);
    br_module_free(model);
    br_scope_end(outer);
}

static br_tensor *ids(void)
{
    return br_randint(1, VOCABULARY, BR_SHAPE(BATCH, LENGTH));
}

/* ---- Classifiers ----------------------------------------------------------------------------- */

static void labelled_ids(br_tensor **batch)
{
    batch[0] = ids();
    batch[1] = br_randint(0, LABELS, BR_SHAPE(BATCH));
}

static void *new_anatomy(bool intended)
{
    return br_anatomy_classifier_new(&(br_anatomy_config){ .vocab_size = VOCABULARY,
                                                           .hidden_size = WIDTH,
                                                           .num_hidden_layers = LAYERS,
                                                           .num_attention_heads = HEADS,
                                                           .intermediate_size = INNER,
                                                           .max_position_embeddings = LENGTH,
                                                           .num_labels = LABELS,
                                                           .hidden_dropout_prob = 0.1,
                                                           .mask_padding = intended,
                                                           .attention_dropout = intended,
                                                           .final_norm = intended,
                                                           .small_eps = intended });
}

static br_tensor *anatomy_loss(void *model, br_tensor *const *batch)
{
    return br_cross_entropy(br_anatomy_classifier_forward(model, batch[0]), batch[1], NULL);
}

static br_architecture_config architecture_config(bool intended)
{
    return (br_architecture_config){ .vocab_size = VOCABULARY,
                                     .hidden_size = WIDTH,
                                     .num_hidden_layers = LAYERS,
                                     .num_attention_heads = HEADS,
                                     .intermediate_size = INNER,
                                     .max_position_embeddings = LENGTH,
                                     .num_labels = LABELS,
                                     .hidden_dropout_prob = 0.1,
                                     .add_attention = intended,
                                     .pre_norm = intended,
                                     .mask_source = intended,
                                     .mask_padding = intended,
                                     .dropout_once = intended,
                                     .embedding_dropout = intended,
                                     .small_eps = intended };
}

static void *new_architecture(bool intended)
{
    const br_architecture_config config = architecture_config(intended);
    return br_architecture_classifier_new(&config);
}

static br_tensor *architecture_loss(void *model, br_tensor *const *batch)
{
    return br_cross_entropy(br_architecture_classifier_forward(model, batch[0]), batch[1], NULL);
}

Test(training, classifiers)
{
    const training anatomy = { new_anatomy, labelled_ids, anatomy_loss };
    check_losses(&anatomy, false, anatomy_as_written);
    check_losses(&anatomy, true, anatomy_intended);
    const training architecture = { new_architecture, labelled_ids, architecture_loss };
    check_losses(&architecture, false, architecture_as_written);
    check_losses(&architecture, true, architecture_intended);
}

/* ---- The encoder-decoder --------------------------------------------------------------------- */

static void *new_encoder_decoder(bool intended)
{
    const br_architecture_config config = architecture_config(intended);
    return br_architecture_encoder_decoder_new(&config);
}

static void source_ids(br_tensor **batch)
{
    batch[0] = ids();
}

/* Returns the loss of copying the ids, which have no padding. */
static br_tensor *copy_loss(void *model, br_tensor *const *batch)
{
    br_tensor *target = br_narrow(batch[0], 1, 0, LENGTH - 1);
    br_tensor *want = br_narrow(batch[0], 1, 1, LENGTH - 1);
    br_tensor *logits = br_architecture_encoder_decoder_forward(
        model, batch[0], target, br_architecture_source_mask(batch[0]),
        br_architecture_create_mask(BATCH, LENGTH - 1));
    return br_cross_entropy(br_flatten(logits, 0, 1), br_flatten(want, 0, -1), NULL);
}

Test(training, encoder_decoder)
{
    const training encoder_decoder = { new_encoder_decoder, source_ids, copy_loss };
    check_losses(&encoder_decoder, false, encoder_decoder_as_written);
    check_losses(&encoder_decoder, true, encoder_decoder_intended);
}

/* ---- BERT ------------------------------------------------------------------------------------ */

static void *new_bert(bool intended)
{
    return br_bert_new(&(br_bert_config){ .vocab_size = VOCABULARY,
                                          .d_model = WIDTH,
                                          .n_layers = LAYERS,
                                          .n_heads = HEADS,
                                          .d_ff = INNER,
                                          .d_k = WIDTH / HEADS,
                                          .d_v = WIDTH / HEADS,
                                          .maxlen = LENGTH,
                                          .n_segments = 2,
                                          .max_pred = 3,
                                          .as_written = !intended });
}

enum { IDS, SEGMENTS, POSITIONS, TOKENS, IS_NEXT };

static void bert_batch(br_tensor **batch)
{
    batch[IDS] = ids();
    batch[SEGMENTS] = br_randint(0, 2, BR_SHAPE(BATCH, LENGTH));
    batch[POSITIONS] = br_randint(0, LENGTH, BR_SHAPE(BATCH, 3));
    batch[TOKENS] = br_randint(1, VOCABULARY, BR_SHAPE(BATCH, 3));
    batch[IS_NEXT] = br_randint(0, 2, BR_SHAPE(BATCH));
}

static br_tensor *bert_loss(void *model, br_tensor *const *batch)
{
    br_tensor *next,
        *logits = br_bert_forward(model, batch[IDS], batch[SEGMENTS], batch[POSITIONS], &next);
    return br_bert_loss(logits, next, batch[TOKENS], batch[IS_NEXT], NULL, NULL);
}

Test(training, bert)
{
    const training bert = { new_bert, bert_batch, bert_loss };
    check_losses(&bert, false, bert_as_written);
    check_losses(&bert, true, bert_intended);
}
