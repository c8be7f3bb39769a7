/* tests/models/hf_bert.h - recorded models and results of Hugging Face's BERT, written by
 * record_hf_bert.py. */
#ifndef BR_TESTS_MODELS_HF_BERT_H
#define BR_TESTS_MODELS_HF_BERT_H

#include "tests/models/recorded.h"

#define HF_BERT BRASA_TEST_DIR "/models/hf_bert"

#endif
