/* train/recipes.c - the table of recipes. */
#include "train/train.h"

#include <string.h>

const recipe *const train_recipes[] = { &recipe_bert_scratch, &recipe_copy_task, &recipe_vanilla,
                                        &recipe_classifier, &recipe_gpt };
const int train_num_recipes = (int)(sizeof train_recipes / sizeof *train_recipes);

const train_objective train_objectives[] = {
    { "text", &recipe_finetune_text },
    { "classify", &recipe_finetune_labels },
    { "contrastive", &recipe_finetune_pairs },
    { "preference", &recipe_finetune_preference },
    { NULL },
};

const recipe *train_find_recipe(const char *name)
{
    for (int i = 0; i < train_num_recipes; i++)
        if (strcmp(train_recipes[i]->name, name) == 0)
            return train_recipes[i];
    for (const train_objective *o = train_objectives; o->name; o++)
        if (strcmp(o->recipe->name, name) == 0)
            return o->recipe;
    return NULL;
}

bool train_has_preset(const recipe *r, const char *name)
{
    for (int i = 0; r->presets[i]; i++)
        if (strcmp(r->presets[i], name) == 0)
            return true;
    return false;
}
