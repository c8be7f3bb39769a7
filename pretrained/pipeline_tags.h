/* pretrained/pipeline_tags.h - the entities of a text, from the probabilities of its tokens'
 * labels, as in transformers' pipeline "token-classification". */
#ifndef BR_PIPELINE_TAGS_H
#define BR_PIPELINE_TAGS_H

#include "pretrained/pipeline_internal.h"

/* A text, or a part of one, after the model has read it. */
typedef struct br_tagged_part {
    const br_pipeline *self;
    const br_tag_options *o;
    br_text text; /* the whole text */
    const br_encoding *encoding;
    const float *probabilities; /* [tokens, labels] */
} br_tagged_part;

/* Entities that become more. */
typedef struct br_entity_list {
    br_entities *entities;
    int64_t capacity;
} br_entity_list;

/* Appends the entities of a part. Returns false and an error if memory runs out. */
bool br__tag_part(const br_tagged_part *part, br_entity_list *list);
/* Sorts the entities of overlapping parts. Of entities that overlap, keeps the best. */
void br__keep_best_entities(br_entities *all);

#endif
