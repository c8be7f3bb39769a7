/* Failing allocations, from reading the text to the end of a training step. */
#include "tests/memory.h"

#include <brasa/brasa.h>

TestSuite(bert_memory, .init = check_begin, .fini = check_end);

static bool as_written;

static bool train_a_step(void)
{
    br_bert_config c = { .vocab_size = 12,
                         .d_model = 4,
                         .n_layers = 2,
                         .n_heads = 2,
                         .d_ff = 4,
                         .d_k = 2,
                         .d_v = 2,
                         .maxlen = 9,
                         .n_segments = 2,
                         .max_pred = 2,
                         .as_written = as_written };
    static const char text[] = "Um dois.\nTrês, dois?\nQuatro";
    br_scope *scope = br_scope_begin();
    br_manual_seed(1);
    br_bert_corpus *corpus = br_bert_corpus_new(text, strlen(text));
    br_python_random *random = br_python_random_new(1);
    br_bert *bert = br_bert_new(&c);
    br_optim *adam = br_adam(br_base(bert), NULL);
    br_bert_batch b = { 0 };
    br_bert_make_batch(corpus, &c, 2, random, &b);
    br_python_random_free(random);
    br_tensor *clsf = NULL;
    br_tensor *lm = br_bert_forward(bert, b.input_ids, b.segment_ids, b.masked_pos, &clsf);
    br_backward(br_bert_loss(lm, clsf, b.masked_tokens, b.is_next, NULL, NULL));
    bool ok = br_optim_step(adam);
    br_optim_free(adam);
    br_module_free(bert);
    br_bert_corpus_free(corpus);
    br_scope_end(scope);
    return ok;
}

Test(bert_memory, runs_out_everywhere)
{
    fail_in_turn(train_a_step, "a step");
}

Test(bert_memory, runs_out_everywhere_as_written)
{
    as_written = true;
    fail_in_turn(train_a_step, "a step as written");
}
