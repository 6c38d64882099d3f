"""A language model's files: a Hugging Face folder, a GGUF file, or a checkpoint of llama2.c or llm.c.

All are read into one form: a config in the words of Hugging Face's config.json, tensors by the names of its models, and a tokenizer."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..ir.errors import UsageError
from .c_checkpoints import GPT2C, read_llama2c, read_llmc
from .checkpoint import Checkpoint, StoredTensor
from .gguf_file import read_gguf
from .mapped_file import MappedFile, shown
from .safetensors_file import read_safetensors
from .tokens import Tokenizer, from_folder, from_gguf, from_llama2c, read_object

SIZES = {
    "hidden_size": "embedding_length", "intermediate_size": "feed_forward_length", "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count", "num_key_value_heads": "attention.head_count_kv", "head_dim": "attention.key_length",
    "max_position_embeddings": "context_length", "rms_norm_eps": "attention.layer_norm_rms_epsilon", "rope_theta": "rope.freq_base",
    "sliding_window": "attention.sliding_window", "layer_norm_epsilon": "attention.layer_norm_epsilon",
}  # fmt: skip
"""Hugging Face's words → GGUF's, which stand behind the architecture's name."""
SCALING = {
    "rope_type": "type", "factor": "factor", "original_max_position_embeddings": "original_context_length", "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow", "attn_factor": "attn_factor", "yarn_attn_factor": "yarn_attn_factor", "yarn_ext_factor": "yarn_ext_factor",
    "yarn_log_multiplier": "yarn_log_multiplier",
}  # fmt: skip
"""The same of how the angles of places are scaled."""
LLAMA = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj", "attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}  # fmt: skip
GPT2 = {
    "attn_norm": "ln_1",
    "attn_qkv": "attn.c_attn",
    "attn_output": "attn.c_proj",
    "ffn_norm": "ln_2",
    "ffn_up": "mlp.c_fc",
    "ffn_down": "mlp.c_proj",
}
WHOLE = {
    "llama": {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight", "output.weight": "lm_head.weight"},
    "gpt2": {
        "token_embd.weight": "transformer.wte.weight", "position_embd.weight": "transformer.wpe.weight", "output.weight": "lm_head.weight",
        "output_norm.weight": "transformer.ln_f.weight", "output_norm.bias": "transformer.ln_f.bias",
    },
}  # fmt: skip
"""Names of GGUF's tensors → Hugging Face's."""
ARCHITECTURES = {"llama": "llama", "qwen2": "llama", "qwen3": "llama", "mistral": "llama", "gpt2": "gpt2"}
"""GGUF's architectures that are read, and whose names they have."""


@dataclass(frozen=True)
class ModelFile:
    """A model on disk. `config`: in the words of Hugging Face's config.json, with `rope_interleaved` where turned pairs of numbers lie side by side
    and not half a head apart; `tensors`: by Hugging Face's names. A matrix whose name ends with `.T` is stored as (outputs, inputs) where Hugging
    Face has it the other way round."""

    path: str
    config: Mapping[str, Any]
    tensors: Checkpoint
    _tokenizer: partial[Tokenizer]

    def tokenizer(self) -> Tokenizer:
        """What turns text into this model's tokens. Raises UsageError where the files have none."""
        return self._tokenizer()


def open_model(path: str | os.PathLike[str]) -> ModelFile:
    """A model's files: a folder as Hugging Face's models have it, a GGUF file, or a .bin file of llama2.c (with tokenizer.bin beside it) or
    llm.c. No weight is read. Raises UsageError where something is missing or damaged."""
    at = Path(path)
    if at.is_dir():
        return _folder(at)
    file = MappedFile(at)
    first = bytes(file.memory[:4])
    if first == b"GGUF":
        return _gguf(read_gguf(at))
    if first == GPT2C.to_bytes(4, "little"):
        found = read_llmc(at)
        return ModelFile(found.path, found.metadata, found, partial(_no_tokenizer, found.path))
    if at.suffix == ".bin":
        found = read_llama2c(at)
        return ModelFile(
            found.path, found.metadata, found, partial(from_llama2c, at.with_name("tokenizer.bin"), found.metadata["vocab_size"])
        )
    raise UsageError(f"{at} is no model: give a folder with a config.json, a GGUF file, or a .bin file of llama2.c or llm.c")


def _no_tokenizer(path: str) -> Tokenizer:
    raise UsageError(f"{path} has no tokenizer: give tokens")


def _folder(folder: Path) -> ModelFile:
    if not (folder / "config.json").is_file():
        raise UsageError(f"{folder} has no config.json: give a folder as Hugging Face's models have it")
    config = read_object(folder / "config.json")
    if how := config.get("quantization_config"):
        how = how.get("quant_method") if isinstance(how, dict) else how
        raise UsageError(
            f"{folder}: its matrices are packed as {shown(how)}, which is not read: take the model's own floats, or a GGUF file of it"
        )
    return ModelFile(str(folder), config, sharded(folder), partial(from_folder, folder, config))


def sharded(folder: str | os.PathLike[str]) -> Checkpoint:
    """The tensors of a folder: those of model.safetensors.index.json, else of all its safetensors files. Raises UsageError where a file that the
    index names is not there, or lacks a tensor."""
    at = Path(folder)
    index = at / "model.safetensors.index.json"
    if index.is_file():
        places = read_object(index).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(f, str) and f and f == os.path.basename(f) for f in places.values()):
            raise UsageError(f"{index} has no weight_map from names of tensors to files beside it")
        files = sorted({*places.values()})
        missing = [f for f in files if not (at / f).is_file()]
        if missing:
            raise UsageError(f"{at} lacks {len(missing)} of the {len(files)} files that its index names: {', '.join(missing[:5])}")
    else:
        places, files = None, sorted(f.name for f in at.glob("*.safetensors"))
        if not files:
            more = (
                ": save it as safetensors (its .bin files are pickles, and reading one runs what is in it)" if [*at.glob("*.bin")] else ""
            )
            raise UsageError(f"{at} has no safetensors file{more}")
    shards = {f: read_safetensors(at / f) for f in files}
    stored: dict[str, StoredTensor] = {}
    for f, shard in shards.items():
        for name, entry in shard.stored.items():
            if places is not None and places.get(name) != f:
                continue
            if name in stored:
                raise UsageError(f"{at} has the tensor {shown(name)} in two files")
            stored[name] = entry
    absent = [n for n in places or () if n not in stored]
    if places is not None and absent:
        raise UsageError(
            f"{at}: its index names {len(absent)} tensors that are not in their files, such as {shown(absent[0])} in {places[absent[0]]}"
        )
    return Checkpoint(str(at), stored, {})


def _gguf(found: Checkpoint) -> ModelFile:
    data = found.metadata
    kind = data.get("general.architecture")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise UsageError(f"{found.path}: its architecture is {shown(kind)}; {', '.join(ARCHITECTURES)} are read")
    family = ARCHITECTURES[kind]
    config: dict[str, Any] = {hf: data[f"{kind}.{ours}"] for hf, ours in SIZES.items() if f"{kind}.{ours}" in data}
    config |= {"model_type": kind, "rope_interleaved": kind in ("llama", "mistral"), "tie_word_embeddings": "output.weight" not in found}
    heads, width, turned = (data.get(f"{kind}.{n}") for n in ("attention.head_count", "embedding_length", "rope.dimension_count"))
    if turned and type(heads) is type(width) is int and heads > 0 and turned != config.get("head_dim", width // heads):
        raise UsageError(f"{found.path}: {shown(turned)} numbers of each head are turned by their place; models that turn all are read")
    if scaling := _scaling(found.path, {k: data[n] for k, name in SCALING.items() if (n := f"{kind}.rope.scaling.{name}") in data}):
        config["rope_scaling"] = scaling
    if "token_embd.weight" in found:
        config["vocab_size"] = found.stored["token_embd.weight"].shape[0]
    for name in ("bos", "eos"):
        if f"tokenizer.ggml.{name}_token_id" in data:
            config[f"{name}_token_id"] = data[f"tokenizer.ggml.{name}_token_id"]
    if "rope_freqs.weight" in found:
        config["rope_factors"] = found["rope_freqs.weight"].tolist()
    if family == "gpt2":
        config |= {
            "n_embd": config.get("hidden_size"),
            "n_layer": config.get("num_hidden_layers"),
            "n_head": config.get("num_attention_heads"),
        }
        config["n_positions"] = config.get("max_position_embeddings")
    tensors = found.renamed({_renamed(found.path, family, n): n for n in found if n != "rope_freqs.weight"}, config)
    return ModelFile(found.path, config, tensors, partial(_gguf_tokenizer, found.path))


def _gguf_tokenizer(path: str) -> Tokenizer:
    """Made of metadata that is read again: the texts of all tokens take a tenth of a small model's memory, and most of its life nobody needs
    them."""
    return from_gguf(path, read_gguf(path).metadata)


def _scaling(path: str, said: dict[str, Any]) -> dict[str, Any]:
    """How angles are scaled, in Hugging Face's words; nothing where they are not."""
    kind = said.setdefault("rope_type", "linear" if "factor" in said else "none")
    if kind == "none":
        return {}
    if kind not in ("linear", "yarn"):
        raise UsageError(f"{path}: its angles are scaled as {shown(kind)}; linear, yarn, and the factors of Llama 3, are read")
    own = [n for n in ("attn_factor", "yarn_attn_factor", "yarn_ext_factor", "yarn_log_multiplier") if n in said and said[n] != 1]
    if own and kind == "yarn":
        raise UsageError(f"{path}: its angles are scaled as yarn with {own[0]} {shown(said[own[0]])}; the usual one, 1, is read")
    return {"factor": 1.0} | said


def _renamed(path: str, family: str, name: str) -> str:
    if name in WHOLE[family]:
        return WHOLE[family][name]
    parts = name.split(".")
    table = LLAMA if family == "llama" else GPT2
    if len(parts) != 4 or parts[0] != "blk" or not parts[1].isdigit() or parts[2] not in table or parts[3] not in ("weight", "bias"):
        raise UsageError(f"{path} has the tensor {shown(name)}, which no {family} model has")
    if family == "llama":
        return f"model.layers.{parts[1]}.{table[parts[2]]}.{parts[3]}"
    turned = ".T" if parts[3] == "weight" and parts[2] in ("attn_qkv", "attn_output", "ffn_up", "ffn_down") else ""
    return f"transformer.h.{parts[1]}.{table[parts[2]]}.{parts[3]}{turned}"
