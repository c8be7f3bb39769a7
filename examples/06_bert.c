/* BERT from scratch (Devlin et al., 2018). Words, positions and segments are embedded and go
 * through a Transformer encoder. One head predicts masked words, the other one whether the second
 * sentence follows the first. The model learns a short conversation. */
#include <brasa/brasa.h>
#include <string.h>

enum { SENTENCES = 8, LENGTH = 20, WIDTH = 64, HEADS = 4, LAYERS = 2, STEPS = 300 };
enum { PAIRS = 2 * (SENTENCES - 1), IGNORED = -100 };
enum { PAD, CLS, SEP, MASK };
static const char *const specials[] = { "[PAD]", "[CLS]", "[SEP]", "[MASK]" };
static const char *const sentences[SENTENCES] = {
    "hello how are you i am ana",        "hello ana my name is carlos",
    "nice to meet you carlos",           "how was your day today",
    "great my team won the cup",         "wow congratulations carlos",
    "shall we eat a pizza to celebrate", "sure do you know a good restaurant",
};

typedef struct bert {
    br_module base;
    br_embedding *words, *positions, *segments;
    br_layer_norm *norm;
    br_transformer_encoder *encoder;
    br_linear *pooler, *next, *transform;
} bert;

static bert *bert_new(int64_t vocab_size)
{
    bert *self = br_module_new(bert);
    self->words = br_child(self, "words", br_embedding_new(vocab_size, WIDTH, PAD));
    self->positions = br_child(self, "positions", br_embedding_new(LENGTH, WIDTH, -1));
    self->segments = br_child(self, "segments", br_embedding_new(2, WIDTH, -1));
    self->norm = br_child(self, "norm", br_layer_norm_new(WIDTH, NULL));
    self->encoder =
        br_child(self, "encoder",
                 br_transformer_encoder_new(WIDTH, HEADS, LAYERS, false,
                                            BR_OPTIONS(br_transformer, .dim_feedforward = 4 * WIDTH,
                                                       .gelu = true, .batch_first = true)));
    self->pooler = br_child(self, "pooler", br_linear_new(WIDTH, WIDTH, true));
    self->next = br_child(self, "next", br_linear_new(WIDTH, 2, true));
    self->transform = br_child(self, "transform", br_linear_new(WIDTH, WIDTH, true));
    br_init_normal_(self->words->weight, 0, 0.02); /* small, as in BERT */
    br_init_normal_(self->positions->weight, 0, 0.02);
    br_init_normal_(self->segments->weight, 0, 0.02);
    return self;
}

/* ids, segments i64 [B, S] -> scores of words [B, S, vocab_size] and of the answer [B, 2] */
static br_tensor *bert_forward(bert *self, br_tensor *ids, br_tensor *segments, br_tensor **next)
{
    br_enter(self);
    br_tensor *x = br_add(br_embedding_forward(self->words, ids),
                          br_embedding_forward(self->segments, segments));
    x = br_add(x, self->positions->weight);
    x = br_layer_norm_forward(self->norm, x);
    x = br_transformer_encoder_forward(self->encoder, x, NULL, br_eq_scalar(ids, PAD), false);
    br_tensor *pooled = br_tanh(br_linear_forward(self->pooler, br_select(x, 1, 0)));
    *next = br_scope_return(br_scope_current(), br_linear_forward(self->next, pooled));
    x = br_gelu(br_linear_forward(self->transform, x), BR_GELU_ERF);
    return br_leave(self, br_f_linear(x, self->words->weight, NULL)); /* tied weights */
}

/* Writes the ids of a sentence's words and [SEP]; returns the next position. */
static int write_words(br_vocab *vocab, const char *text, int64_t *ids, int at)
{
    for (size_t n; *text; text += n + (text[n] == ' ')) {
        n = strcspn(text, " ");
        ids[at++] = br_vocab_add(vocab, text, n);
    }
    ids[at++] = SEP;
    return at;
}

typedef struct batch {
    br_tensor *ids, *segments, *words, *next; /* words: those behind the masks, else IGNORED */
} batch;

/* Makes pairs of sentences, and masks random words. In every other pair the second sentence follows
 * the first. */
static batch make_batch(br_vocab *vocab)
{
    br_tensor *zeros = br_zeros(BR_SHAPE(PAIRS, LENGTH), BR_I64);
    batch b = { zeros, br_clone(zeros), br_clone(zeros), br_zeros(BR_SHAPE(PAIRS), BR_I64) };
    for (int i = 0; i < PAIRS && !br_failed(); i++) {
        int first = i / 2, second = i % 2 ? (first + 3) % SENTENCES : first + 1;
        int64_t *ids = br_data_i64(b.ids) + i * LENGTH, *seg = br_data_i64(b.segments) + i * LENGTH;
        ids[0] = CLS;
        int middle = write_words(vocab, sentences[first], ids, 1);
        int end = write_words(vocab, sentences[second], ids, middle);
        for (int k = middle; k < end; k++)
            seg[k] = 1;
        br_data_i64(b.next)[i] = second == first + 1;
    }
    br_tensor *is_word = br_gt_scalar(b.ids, MASK);
    br_tensor *chosen = br_lt_scalar(br_rand(BR_SHAPE(PAIRS, LENGTH), BR_F32), 0.15);
    chosen = br_logical_and(chosen, is_word);
    b.words = br_where(chosen, b.ids, br_full(BR_SHAPE(PAIRS, LENGTH), IGNORED, BR_I64));
    b.ids = br_masked_fill(b.ids, chosen, MASK);
    return b;
}

/* Counts the scores whose largest is that of the target; ignored targets never are. */
static int count_right(br_tensor *scores, br_tensor *targets)
{
    return (int)br_item(br_sum(br_eq(br_argmax(scores, -1, false), targets)));
}

int main(void)
{
    br_manual_seed(0);
    br_scope *scope = br_scope_begin();
    br_vocab *vocab = br_vocab_new();
    for (int i = 0; i < 4; i++)
        br_vocab_add(vocab, specials[i], strlen(specials[i]));
    make_batch(vocab); /* adds all words to the vocabulary */
    bert *model = bert_new(br_vocab_size(vocab));
    br_optim *adam = br_adam(br_base(model), BR_OPTIONS(br_adam, .lr = 1e-3));
    for (int step = 1; step <= STEPS && !br_failed(); step++) {
        br_scope *inner = br_scope_begin();
        batch b = make_batch(vocab);
        br_tensor *next, *words = bert_forward(model, b.ids, b.segments, &next);
        br_tensor *loss =
            br_add(br_cross_entropy(br_flatten(words, 0, 1), br_flatten(b.words, 0, 1), NULL),
                   br_cross_entropy(next, b.next, NULL));
        br_optim_zero_grad(adam);
        br_backward(loss);
        br_optim_step(adam);
        if (step % 100 == 0)
            printf("step %3d: loss %.2f\n", step, br_item(loss));
        br_scope_end(inner);
    }
    br_eval(br_base(model));
    br_scope *unrecorded = br_no_grad_begin();
    batch b = make_batch(vocab);
    br_tensor *next, *words = bert_forward(model, b.ids, b.segments, &next);
    int masked = (int)br_item(br_sum(br_ne_scalar(b.words, IGNORED)));
    int right_words = count_right(words, b.words), right_next = count_right(next, b.next);
    printf("%d of %d masked words right, %d of %d next-sentence answers right\n", right_words,
           masked, right_next, PAIRS);
    br_scope_end(unrecorded);
    br_optim_free(adam);
    br_module_free(model);
    br_vocab_free(vocab);
    br_scope_end(scope);
    return br_report(stderr) || right_words < masked * 8 / 10 || right_next < PAIRS * 9 / 10;
}
