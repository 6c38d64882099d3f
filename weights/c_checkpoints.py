"""The files of llama2.c and llm.c: a few numbers, and the weights in a fixed order.

Both are read into the names of Hugging Face's models, so that what runs those runs these. The orders are those of llama2.c's `export.py` and
`runq.c` (versions 0, 1 and 2) and of llm.c's `train_gpt2` (versions 3 and 5)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..tensor import Tensor
from .checkpoint import Checkpoint, StoredTensor
from .mapped_file import FLOATS, MappedFile
from .packed import Packed8

LLAMA2C, GPT2C = 0x616B3432, 20240326
"""The first numbers of a file of llama2.c from version 1 on, and of one of llm.c."""
MOST = 1 << 24
"""Larger sizes are damage."""
HEADER = 256
"""Bytes of a header of llama2.c, and numbers of one of llm.c."""

Place = tuple[str, tuple[int, ...]]
"""A tensor's name and shape, in the order of a file."""


def _sized(file: MappedFile, sizes: dict[str, int]) -> None:
    for name, n in sizes.items():
        if not 0 < n <= MOST:
            file.wrong(f"its {name} is {n}: this is no file of this kind, or a damaged one")


def _consecutive_tensors(file: MappedFile, places: Iterator[Place], dtype: Any) -> dict[str, StoredTensor]:
    """Tensors one behind the other from where the file stands."""
    stored = {}
    kind = np.dtype(dtype)
    for name, shape in places:
        nbytes = prod(shape) * kind.itemsize
        file.array(kind, shape)  # inside, or said
        stored[name] = StoredTensor(shape, str(kind), nbytes, partial(_tensor, file, kind, shape, file.at - nbytes))
    return stored


def _tensor(file: MappedFile, dtype: Any, shape: tuple[int, ...], at: int) -> Tensor:
    return Tensor(file.array(dtype, shape, at))


def read_llama2c(path: str | os.PathLike[str]) -> Checkpoint:
    """A Llama of llama2.c: float32, or int8 in groups. `metadata` is a config as Hugging Face's, with `rope_interleaved`. Raises UsageError."""
    file = MappedFile(path)
    version = 0
    if file.size >= 4 and file.number("<I") == LLAMA2C:
        version = file.number("<i")
        if version not in (1, 2):
            file.wrong(f"it is of version {version} of llama2.c; versions 0, 1 and 2 are read")
    else:
        file.at = 0
    sizes = dict(zip(("width", "hidden width", "number of layers", "number of heads", "number of key heads"), file.numbers("<5i")))
    vocabulary, context = file.numbers("<2i")
    shared, group = vocabulary > 0, 0
    if version:
        shared = bool(file.number("<B"))
        group = file.number("<i") if version == 2 else 0
        file.at = HEADER
    _sized(file, sizes | {"vocabulary": abs(vocabulary), "context": context} | ({"group": group} if version == 2 else {}))
    width, hidden, layers, heads, kv = sizes.values()
    if width % heads or heads % kv or (group and (width % group or hidden % group)):
        file.wrong(
            f"a width of {width} and {hidden}, {heads} heads, {kv} key heads and groups of {group} do not fit together: it is damaged"
        )
    shapes = (width, hidden, layers, width // heads * kv, abs(vocabulary))
    stored: dict[str, StoredTensor] = {}
    if version == 0:
        stored = _consecutive_tensors(file, _llama_legacy(*shapes), np.float32)
        file.at += 4 * context * (width // heads)  # the angles' cosines and sines
        if not shared:
            stored |= _consecutive_tensors(file, iter([("lm_head.weight", (abs(vocabulary), width))]), np.float32)
    else:
        stored = _consecutive_tensors(file, _llama_norms(width, layers), np.float32)
        matrices = _llama_matrices(*shapes, shared)
        stored |= _consecutive_tensors(file, matrices, np.float32) if version == 1 else _groups(file, matrices, group)
    if file.at != file.size:
        file.wrong(f"it should have {file.at} bytes and has {file.size}: this is no file of llama2.c, or a damaged one")
    config = {
        "model_type": "llama", "hidden_size": width, "intermediate_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv, "vocab_size": abs(vocabulary), "max_position_embeddings": context, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "rope_interleaved": True, "tie_word_embeddings": shared, "bos_token_id": 1, "eos_token_id": 2,
    }  # fmt: skip
    return Checkpoint(file.path, stored, config)


def _llama_layers(layers: int, name: str, *shape: int) -> Iterator[Place]:
    return ((f"model.layers.{i}.{name}.weight", shape) for i in range(layers))


def _llama_norms(width: int, layers: int) -> Iterator[Place]:
    yield from _llama_layers(layers, "input_layernorm", width)
    yield from _llama_layers(layers, "post_attention_layernorm", width)
    yield "model.norm.weight", (width,)


def _llama_attention(width: int, layers: int, kv: int) -> Iterator[Place]:
    for name, outputs in (("q", width), ("k", kv), ("v", kv), ("o", width)):
        yield from _llama_layers(layers, f"self_attn.{name}_proj", outputs, width)


def _llama_mlp(width: int, hidden: int, layers: int) -> Iterator[Place]:
    for name, shape in (("gate", (hidden, width)), ("down", (width, hidden)), ("up", (hidden, width))):
        yield from _llama_layers(layers, f"mlp.{name}_proj", *shape)


def _llama_legacy(width: int, hidden: int, layers: int, kv: int, vocabulary: int) -> Iterator[Place]:
    yield "model.embed_tokens.weight", (vocabulary, width)
    yield from _llama_layers(layers, "input_layernorm", width)
    yield from _llama_attention(width, layers, kv)
    yield from _llama_layers(layers, "post_attention_layernorm", width)
    yield from _llama_mlp(width, hidden, layers)
    yield "model.norm.weight", (width,)


def _llama_matrices(width: int, hidden: int, layers: int, kv: int, vocabulary: int, shared: bool) -> Iterator[Place]:
    yield "model.embed_tokens.weight", (vocabulary, width)
    yield from _llama_attention(width, layers, kv)
    yield from _llama_mlp(width, hidden, layers)
    if not shared:
        yield "lm_head.weight", (vocabulary, width)


def _groups(file: MappedFile, places: Iterator[Place], group: int) -> dict[str, StoredTensor]:
    """Matrices of int8, each with its scales behind it."""
    stored = {}
    for name, (outputs, inputs) in places:
        begin = file.at
        q, d = (outputs, inputs // group, group), (outputs, inputs // group)
        file.array(np.int8, q)
        file.array(np.float32, d)
        stored[name] = StoredTensor((outputs, inputs), "int8", file.at - begin, partial(_packed, file, begin, q, d))
    return stored


def _packed(file: MappedFile, at: int, q: tuple[int, ...], d: tuple[int, ...]) -> Packed8:
    return Packed8(_tensor(file, np.float32, d, at + prod(q)), _tensor(file, np.int8, q, at))


def read_llmc(path: str | os.PathLike[str]) -> Checkpoint:
    """A GPT-2 of llm.c, float32 or bfloat16. `metadata` is a config as Hugging Face's; matrices are (outputs, inputs), where Hugging Face's GPT-2
    has them the other way, and get the names of those with `.T` behind. Raises UsageError."""
    file = MappedFile(path)
    if file.size < 4 * HEADER or file.number("<i") != GPT2C:
        file.wrong("it does not begin as a checkpoint of llm.c")
    version = file.number("<i")
    if version not in (3, 5):
        file.wrong(f"it is of version {version} of llm.c; versions 3 (float32) and 5 (bfloat16) are read")
    sizes = dict(zip(("context", "vocabulary", "number of layers", "number of heads", "width", "padded vocabulary"), file.numbers("<6i")))
    _sized(file, sizes)
    context, vocabulary, layers, heads, width, padded = sizes.values()
    if width % heads or padded < vocabulary:
        file.wrong(f"a width of {width}, {heads} heads, and {vocabulary} tokens padded to {padded} do not fit together: it is damaged")
    file.at = 4 * HEADER
    stored = _consecutive_tensors(file, _gpt2_places(context, layers, width, padded), np.float32 if version == 3 else FLOATS["bfloat16"])
    if file.at != file.size:
        file.wrong(f"it should have {file.at} bytes and has {file.size}: this is no file of llm.c, or a damaged one")
    config = {
        "model_type": "gpt2", "n_embd": width, "n_layer": layers, "n_head": heads, "n_positions": context, "vocab_size": vocabulary,
        "layer_norm_epsilon": 1e-5, "bos_token_id": 50256, "eos_token_id": 50256,
    }  # fmt: skip
    return Checkpoint(file.path, stored, config)


def _gpt2_places(context: int, layers: int, width: int, padded: int) -> Iterator[Place]:
    yield "transformer.wte.weight", (padded, width)
    yield "transformer.wpe.weight", (context, width)
    for name, shape in (
        ("ln_1.weight", (width,)), ("ln_1.bias", (width,)), ("attn.c_attn.weight.T", (3 * width, width)), ("attn.c_attn.bias", (3 * width,)),
        ("attn.c_proj.weight.T", (width, width)), ("attn.c_proj.bias", (width,)), ("ln_2.weight", (width,)), ("ln_2.bias", (width,)),
        ("mlp.c_fc.weight.T", (4 * width, width)), ("mlp.c_fc.bias", (4 * width,)), ("mlp.c_proj.weight.T", (width, 4 * width)),
        ("mlp.c_proj.bias", (width,)),
    ):  # fmt: skip
        yield from ((f"transformer.h.{i}.{name}", shape) for i in range(layers))
    yield "transformer.ln_f.weight", (width,)
    yield "transformer.ln_f.bias", (width,)
