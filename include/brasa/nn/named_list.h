/* brasa/nn/named_list.h - lists of named tensors: parameters, state dicts, contents of files. */
#ifndef BRASA_NN_NAMED_LIST_H
#define BRASA_NN_NAMED_LIST_H

#include <brasa/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A named tensor, for instance a parameter or buffer of a module under its dotted name. */
typedef struct br_named_tensor {
    const char *name;
    br_tensor *tensor;
} br_named_tensor;
typedef struct br_named_list {
    int64_t count;
    br_named_tensor *items;
} br_named_list;

/* Returns an empty list, for example for an optimizer of some of the parameters,
 * br_load_state_dict() or br_safetensors_save(). The caller frees it. */
BR_API br_named_list *br_named_list_new(void);
/* Appends a tensor under a copy of the name. A list from br_named_list_new() holds a reference to
 * the tensor; a list from another function borrows or holds the tensor as it does its other
 * tensors. Returns false and sets an error if the list already has the name. */
BR_API bool br_named_list_add(br_named_list *list, const char *name, br_tensor *tensor);
/* Returns the item after `item`, or the first item if `item` is NULL. Returns NULL at the end, or
 * if the list is NULL. Typical loop:
 * for (const br_named_tensor *p = NULL; (p = br_named_list_next(list, p));) */
BR_API const br_named_tensor *br_named_list_next(const br_named_list *list,
                                                 const br_named_tensor *item);
/* Returns the tensor of that name, or NULL, without an error, if there is none. */
BR_API br_tensor *br_named_list_get(const br_named_list *list, const char *name);
/* Returns a list of the tensors of `all` whose names match (fnmatch) any of the globs or, with
 * `invert`, none of them: for example, to exclude "*.bias" and norms from weight decay. Warns of a
 * glob that matches nothing but is similar to a name. The caller frees the list. */
BR_API br_named_list *br_named_list_filter(const br_named_list *all, int n_globs,
                                           const char *const *globs, bool invert);
BR_API void br_named_list_free(br_named_list *list);

#ifdef __cplusplus
}
#endif
#endif
