"""The names of functions and arguments in error messages."""
import re

# Functions whose errors do not name them, but an inner function, the class that they create or what their argument
# describes.
COMPOSED = re.compile(
    r"br_((anatomy|architecture|bert|gpt2|gpt_neox|hf_bert|modernbert|scratch|t5|vanilla|transformer)_\w+|auto_model_load|check_(file|open)|"
    r"sentence_transformer_load|(batch|instance)_norm\dd_new|(gru|lstm)_new|init_kaiming_\w+_for_|model_(load|save)|module_(enter|enter_with|enter_from|run)|"
    r"optim_(add_group|for)|(spectral|weight)_norm|tokenizer_from_bpe|cosine_similarity|cross_entropy|"
    r"pairwise_distance|triplet_margin_loss|distillation_loss|info_nce_loss|fft_i?h?r?fft|before_in_place|raise|raise_text|fail|require(_tensor|_activation)?|module_is_usable|malloc|calloc)")


def is_named(name, message):
    """Returns whether the message begins with the function's name or a part, such as linear for linear_forward."""
    if COMPOSED.fullmatch(name):
        return True
    words = re.findall(r"\w+(?=:)", message)[:2]  # a module's path may precede it
    plain = re.sub("^br_(f_)?", "", name).strip("_")
    return any(f"_{word.strip('_')}_" in f"_{plain}_" for word in words)


def parameter(text):
    """Returns the name in a declaration such as "const char *name", "int sizes[]" or "void (*function)(void *)"."""
    return re.search(r"\(\*(\w+)\)|(\w+)(?:\[\w*\])?$", text).group(1, 2)
