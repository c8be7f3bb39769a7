/* brasa/models.h - models composed of ops and nn only. */
#ifndef BRASA_MODELS_H
#define BRASA_MODELS_H

#include <brasa/models/anatomy.h>
#include <brasa/models/architecture.h>
#include <brasa/models/bert.h>
#include <brasa/models/causal_lm.h>
#include <brasa/models/gpt2.h>
#include <brasa/models/gpt_neox.h>
#include <brasa/models/hf_bert.h>
#include <brasa/models/llama.h>
#include <brasa/models/modernbert.h>
#include <brasa/models/scratch.h>
#include <brasa/models/t5.h>
#include <brasa/models/vanilla.h>

#endif
