"""Makes the tokenizers of the random folders of random_folders.py: files of every kind that a model type has, with
random settings, special tokens and added tokens."""
import functools
import json
import pathlib
import sys
import tempfile

import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path += [str(TESTS / "tokenizers"), str(TESTS / "cli")]
import compare_bpe  # noqa: E402
import compare_bpe_characters  # noqa: E402
import compare_bpe_families  # noqa: E402
from compare_auto import TOKENS, random_folder, write  # noqa: E402
from record_classes import WORDS, roberta_files  # noqa: E402

DOCUMENTS = sorted((TESTS.parent / "docs").glob("*.md"))
# The kind of compare_auto.py whose files a model type has.
FILES_OF = {"bert": "bert", "distilbert": "bert", "electra": "bert", "gpt2": "gpt2", "t5": "t5"}
TRAINED = {"roberta": "RobertaTokenizer", "xlm-roberta": "XLMRobertaTokenizer", "camembert": "CamembertTokenizer",
           "albert": "AlbertTokenizer", "mpnet": "MPNetTokenizer"}
# The families of compare_bpe_families.py and compare_bpe_characters.py whose files a decoder has, and others.
BYTE_LEVEL = {"llama": "Llama 3", "smollm3": "SmolLM", "granite": "SmolLM", "qwen2": "Qwen", "qwen3": "Qwen", "qwen3_moe": "Qwen", "gpt_neox": "GPT-NeoX"}
CHARACTERS = {"llama": "Llama 2", "mistral": "Mistral", "phi3": "Llama 2", "gemma2": "Gemma", "gemma3_text": "Gemma"}
# Keys of tokenizer_config.json beside those of compare_auto.py, none of which changes ids.
TOKENIZER_KEYS = {
    "model_max_length": lambda rng: rng.randint(6, 60), "padding_side": lambda rng: "left", "truncation_side": lambda rng: "left",
    "clean_up_tokenization_spaces": lambda rng: True, "chat_template": lambda rng: "{{ messages }}", "errors": lambda rng: "ignore",
    "model_input_names": lambda rng: ["input_ids", "attention_mask"], "never_split": lambda rng: ["the"],
    "do_basic_tokenize": lambda rng: False, "name_or_path": lambda rng: "x", "legacy": lambda rng: False, "use_fast": lambda rng: False,
    "verbose": lambda rng: False, "sp_model_kwargs": lambda rng: {"alpha": 0.1}, "trim_offsets": lambda rng: False,
    "special_tokens_map_file": lambda rng: "x.json", "truncation_strategy": lambda rng: "only_first", "stride": lambda rng: 2,
    "pad_to_multiple_of": lambda rng: 8, "pad_token_type_id": lambda rng: 1, "max_length": lambda rng: rng.randint(6, 60),
    "transformers_version": lambda rng: "4.20.0", "processor_class": lambda rng: "XProcessor",
}


# ---- Trained tokenizers ---------------------------------------------------------------------------


@functools.cache
def lines():
    return [line for path in DOCUMENTS for line in path.read_text("utf-8").split("\n")]


@functools.cache
def byte_level_parts():
    return compare_bpe.trained(DOCUMENTS, 900)


@functools.cache
def character_parts():
    return compare_bpe_characters.trained(lines(), 900)


@functools.cache
def trained(kind):
    """Returns a tokenizer of the model type's class, trained on the project's documents."""
    return getattr(transformers, TRAINED[kind])().train_new_from_iterator(lines(), 600)


@functools.cache
def modernbert_parts():
    """Trains a byte-level BPE of ModernBERT's kind: texts are NFC, and some added tokens are matched in them."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer, tokenizer.decoder = normalizers.NFC(), decoders.ByteLevel()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    specials = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    tokenizer.train_from_iterator(lines(), trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                               special_tokens=specials, show_progress=False))
    tokenizer.add_tokens([AddedToken("  ", normalized=True)])
    ids = [(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids)
    return tokenizer


def modernbert():
    named = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "cls", "sep", "pad", "mask")}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=modernbert_parts(), model_input_names=["input_ids", "attention_mask"], **named)


def decoder(rng, kind):
    """Returns a tokenizer of a decoder's kind, or of another decoder's kind."""
    name = rng.choice([family[kind] for family in (BYTE_LEVEL, CHARACTERS) if kind in family])
    if kind != "qwen2" and rng.random() < 0.2:  # docs/tokenizer.md: transformers always gives a qwen2 Qwen's tokenizer
        name = rng.choice([*compare_bpe_families.FAMILIES, *compare_bpe_characters.FAMILIES])
    if name in compare_bpe_families.FAMILIES:
        tokenizer = compare_bpe_families.of_family(byte_level_parts(), *compare_bpe_families.FAMILIES[name])
        named = {"eos_token": "<|endoftext|>", "pad_token": rng.choice([None, "<|end|>"])}
    else:
        family = compare_bpe_characters.FAMILIES[name]
        tokenizer = compare_bpe_characters.of_family(character_parts(), *family, template=not family[3])
        named = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": rng.choice([None, "</s>"])}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{k: v for k, v in named.items() if v})


# ---- Files of a class -----------------------------------------------------------------------------


def class_files(rng, kind):
    """Returns the files of a class without tokenizer.json, and their settings."""
    normal, config = TESTS / "tokenizers" / "normal", {}
    if kind == "roberta":
        return roberta_files(), {"add_prefix_space": rng.random() < 0.5}
    if kind in ("xlm-roberta", "camembert"):
        return {"sentencepiece.bpe.model": normal / "fairseq.model"}, {"add_prefix_space": rng.random() < 0.5}
    if kind == "albert":
        return {"spiece.model": normal / "albert.model"}, {key: rng.random() < 0.5 for key in ("do_lower_case", "keep_accents")}
    for key in "do_lower_case", "strip_accents", "tokenize_chinese_chars":
        if rng.random() < 0.6:
            config[key] = rng.random() < 0.5
    return {"vocab.txt": WORDS + "<mask>\n" * (rng.random() < 0.7)}, config


def vary(rng, tokenizer):
    """Adds tokens, and gives roles other tokens."""
    flags = ("single_word", "lstrip", "rstrip")
    for text in rng.sample(TOKENS, rng.choice([0, 0, 1, 3])):
        tokenizer.add_tokens([AddedToken(text, normalized=rng.random() < 0.5, **{flag: rng.random() < 0.2 for flag in flags})],
                             special_tokens=rng.random() < 0.3)
    roles = [role for role in ("mask_token", "pad_token", "eos_token", "sep_token") if getattr(tokenizer, role, None)]
    if roles and rng.random() < 0.3:
        tokenizer.add_special_tokens({rng.choice(roles): rng.choice(["<|BOS|>", "<x>"])})
    if rng.random() < 0.2:
        tokenizer.add_special_tokens({"additional_special_tokens": rng.sample(TOKENS, 2)})


def saved_files(tokenizer):
    """Returns the files that save_pretrained() writes, and tokenizer_config.json."""
    with tempfile.TemporaryDirectory() as folder:
        tokenizer.save_pretrained(folder)
        files = {path.name: path.read_text("utf-8") for path in pathlib.Path(folder).iterdir()}
    return files, json.loads(files.pop("tokenizer_config.json"))


def family_files(rng, kind):
    """Returns the files of a tokenizer of one of the model types that compare_auto.py does not make."""
    if kind == "modernbert" or kind not in TRAINED:
        tokenizer = modernbert() if kind == "modernbert" else decoder(rng, kind)
        vary(rng, tokenizer)
        files, config = saved_files(tokenizer)
        if json.loads(files["tokenizer.json"])["model"].get("byte_fallback") and rng.random() < 0.6:
            config["tokenizer_class"] = rng.choice(["LlamaTokenizer", "GemmaTokenizer"]) + rng.choice(["", "Fast"])
            more = {"legacy": rng.random() < 0.5, "add_prefix_space": rng.choice([False, True, None]), "add_bos_token": rng.random() < 0.5}
            config |= {key: value for key, value in more.items() if rng.random() < 0.5}
        return files, config
    files, config = class_files(rng, kind)
    if rng.random() < 0.4:
        return files, config
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder) / "model"
        write(folder, files | {"config.json": json.dumps({"model_type": kind}), "tokenizer_config.json": json.dumps(config)})
        if rng.random() < 0.5:
            trained(kind).save_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder)
    vary(rng, tokenizer)
    return saved_files(tokenizer)


def tokenizer_files(rng, kind):
    """Returns the files of a tokenizer. It is of the model's kind, or any if the files name its class."""
    if kind not in FILES_OF:
        return family_files(rng, kind)
    while True:
        made, files = random_folder(rng)
        config = json.loads(files.get("tokenizer_config.json", "{}"))
        if made == FILES_OF[kind] or "tokenizer_class" in config and rng.random() < 0.2:
            return files, config


def write_tokenizer(rng, folder, hand):
    """Writes a random tokenizer and returns it with a class that config.json must name, if any."""
    while True:
        files, config = tokenizer_files(rng, folder.kind)
        folder.keys["tokenizer_config.json"] = {key: TOKENIZER_KEYS[key](rng) for key in hand}
        config |= folder.keys["tokenizer_config.json"]
        if rng.random() < 0.3:
            config["clean_up_tokenization_spaces"] = True
        moved = config.pop("tokenizer_class", None) if rng.random() < 0.2 else None
        named = {"tokenizer_class": moved} if moved else {}
        files["config.json"] = json.dumps({"model_type": folder.kind, **named})
        files["tokenizer_config.json"] = json.dumps(config)
        write(folder.model, files)
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder.model)
        except Exception:  # some random files are contradictory
            continue
        if tokenizer.pad_token or not folder.sentence:  # sentence-transformers always pads
            break
    if not moved and rng.random() < 0.3:  # as the current transformers writes it
        for name in files.keys() - {"config.json"}:
            (folder.model / name).unlink()
        tokenizer.save_pretrained(folder.model)
        tokenizer = AutoTokenizer.from_pretrained(folder.model)
    return tokenizer, named
