/* tests/models/hf_bert.h - the recorded models and numbers of Hugging Face's BERT;
 * record_hf_bert.py writes them. */
#ifndef BR_TESTS_MODELS_HF_BERT_H
#define BR_TESTS_MODELS_HF_BERT_H

#include "tests/models/recorded.h"

#define HF_BERT BRASA_TEST_DIR "/models/hf_bert"

#endif
