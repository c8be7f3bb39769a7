/* train/loading.h - warnings about a model that was loaded from files. */
#ifndef BRASA_TRAIN_LOADING_H
#define BRASA_TRAIN_LOADING_H

#include <brasa/pretrained.h>
#include <stdio.h>

/* Writes what the report says about the results of the model in the folder or GGUF file `dir`. */
void loading_warn(FILE *out, const char *dir, const br_auto_model_report *report);

#endif
