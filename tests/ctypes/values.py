"""Reads the values of tensors, modules and other objects, so that a test can see whether a call has changed them."""

import ctypes


def shape_of(br, t):
    return [br.br_size(t, i) for i in range(br.br_ndim(t))]


def tensor_value(br, t):
    if not t:
        return None
    size = br.br_numel(t) * br.br_dtype_size(br.br_dtype_of(t))
    elements = ctypes.create_string_buffer(size)
    br.br_copy_out(t, elements, size)
    return shape_of(br, t), br.br_dtype_of(t), br.br_requires_grad(t), elements.raw[:size]


def tensor_state(br, t):
    gradient = br.br_grad_of(t) if br.br_requires_grad(t) else None
    return br.br_tensor_version(t), tensor_value(br, t), tensor_value(br, gradient)


def list_value(br, items, value=tensor_value):
    found, item = [], br.br_named_list_next(items, None)
    while item:
        named = br.br_named_tensor.from_address(item)
        found.append((named.name, value(br, named.tensor)))
        item = br.br_named_list_next(items, item)
    return found


def freed_list(br, items, value=tensor_value):
    """Returns the value of a list, which it frees."""
    found = list_value(br, items, value) if items else br.br_error_message()
    br.br_clear_error()
    br.br_named_list_free(items)
    return found


def module_value(br, module):
    return freed_list(br, br.br_state_dict(module)), br.br_is_training(module), br.br_module_num_children(module)


def module_state(br, module):
    return module_value(br, module), freed_list(br, br.br_parameters(module), tensor_state)


def optim_state(br, optim):
    groups = range(br.br_optim_num_groups(optim))
    return ([(br.br_optim_get_lr(optim, i), freed_list(br, br.br_optim_group_parameters(optim, i), tensor_state))
             for i in groups],
            freed_list(br, br.br_optim_state_dict(optim)))


def scheduler_state(br, scheduler):
    return br.br_scheduler_last_epoch(scheduler), freed_list(br, br.br_scheduler_state_dict(scheduler))


# For each type of handle, a function that returns all that a call could change.
STATES = {
    "br_tensor": tensor_state,
    "br_module": module_state,
    "br_named_list": lambda br, items: list_value(br, items, tensor_state),
    "br_optim": optim_state,
    "br_scheduler": scheduler_state,
    "br_averaged_model": lambda br, averaged: freed_list(br, br.br_averaged_model_state_dict(averaged)),
    "br_grad_scaler": lambda br, scaler: freed_list(br, br.br_grad_scaler_state_dict(scaler)),
    "br_vocab": lambda br, vocab: [br.br_vocab_word(vocab, i) for i in range(br.br_vocab_size(vocab))],
    "br_dataset": lambda br, dataset: br.br_dataset_size(dataset),
    "br_loader": lambda br, loader: br.br_loader_size(loader),
    "br_cache": lambda br, cache: br.br_cache_length(cache),
    "br_tokenizer": lambda br, tokenizer: br.br_tokenizer_size(tokenizer),
    "br_profile": lambda br, profile: br.br_profile_count(profile),
}


def state(br, kind, handle):
    """Returns all that a call could change; None for a type without an entry in STATES, and if the object is freed."""
    found = STATES[kind](br, handle) if handle and kind in STATES else None
    br.br_clear_error()
    return found
