/* brasa/pretrained.h - pretrained models in Hugging Face's folders. Includes every header of
 * brasa/pretrained/. */
#ifndef BRASA_PRETRAINED_H
#define BRASA_PRETRAINED_H

#include <brasa/pretrained/auto_config.h>
#include <brasa/pretrained/auto_model.h>
#include <brasa/pretrained/family.h>
#include <brasa/pretrained/generate.h>
#include <brasa/pretrained/generation_config.h>
#include <brasa/pretrained/lora_folder.h>
#include <brasa/pretrained/pipeline.h>
#include <brasa/pretrained/sentence_transformer.h>

#endif
