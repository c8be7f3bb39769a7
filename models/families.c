/* models/families.c - the families of models that AutoModel knows. */
#include "models/models_internal.h"

const br_model_family *const br_model_families[] = {
    &zoo_hf_bert_family,     &zoo_roberta_family,
    &zoo_xlm_roberta_family, &zoo_camembert_family,
    &zoo_distilbert_family,  &zoo_electra_family,
    &zoo_albert_family,      &zoo_mpnet_family,
    &zoo_modernbert_family,  &zoo_gpt2_family,
    &zoo_gpt_neox_family,    &zoo_t5_family,
    &zoo_llama_family,       &zoo_mistral_family,
    &zoo_smollm3_family,     &zoo_phi3_family,
    &zoo_qwen2_family,       &zoo_qwen3_family,
    &zoo_qwen3_moe_family,   &zoo_gemma2_family,
    &zoo_gemma3_family,      NULL,
};
