/* tokenizers/tokenizer_roles.c - the ids of the special tokens of each role. */
#include "tokenizers/tokenizer_internal.h"

#include <string.h>

void br__tokenizer_default_roles(br_tokenizer *t)
{
    static const char end[] = "<|endoftext|>";
    static const char *const names[][BR_TOKEN_MASK + 1] = {
        { NULL, NULL, "[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]" },
        { end, end, end, NULL, NULL, NULL, NULL },
        { NULL, "</s>", "<unk>", NULL, "<pad>", NULL, NULL },
        { "<s>", "</s>", "<unk>", NULL, "<pad>", NULL, NULL },
    };
    int kind = t->kind == &br__word_pieces  ? 0
               : t->kind == &br__byte_level ? 1
               : t->kind == &br__unigram    ? 2
                                            : 3;
    if (t->roles[BR_TOKEN_CLS] < 0 && kind != 3)
        t->roles[BR_TOKEN_CLS] = t->classify;
    if (t->roles[BR_TOKEN_SEP] < 0)
        t->roles[BR_TOKEN_SEP] = kind >= 2 ? -1 : t->separator;
    if (t->roles[BR_TOKEN_UNK] < 0)
        t->roles[BR_TOKEN_UNK] = t->unknown;
    for (int role = 0; role <= BR_TOKEN_MASK; role++)
        if (t->roles[role] < 0 && names[kind][role])
            t->roles[role] = br__word_id(&t->all, names[kind][role], strlen(names[kind][role]));
}

int64_t br_tokenizer_special_id(const br_tokenizer *t, br_special_token role)
{
    if (!br__required("tokenizer_special_id", "tokenizer", t))
        return -1;
    if ((unsigned)role <= BR_TOKEN_MASK)
        return t->roles[role];
    br_fail(BR_ERROR_ARGUMENT, "tokenizer_special_id",
            "role is %d, must be one of br_special_token", (int)role);
    return -1;
}
