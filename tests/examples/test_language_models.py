"""Language models from their files: logits are those that transformers computes (recorded, and compared again where it is installed), however
a prompt is read, whatever the weights are stored in. `python tests/examples/test_language_models.py` records."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tilewright as tw
from tilewright import weights
from tilewright.cli import main
from tilewright.examples import generate, gpt2, gpt2_text, language, llama, made_text

RECORDED = Path(__file__).parent / "logits.json"
IDS = np.random.default_rng(0).integers(0, 200, 40)
SHAPES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 200,
    "max_position_embeddings": 64, "rms_norm_eps": 1e-5,
}  # fmt: skip
LONG = {
    "rope_type": "llama3",
    "rope_theta": 5e5,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
LINEAR = {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0}
CASES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", **SHAPES},
    "llama3": {"model_type": "llama", **SHAPES, "tie_word_embeddings": True, "rope_parameters": LONG},
    "biases": {"model_type": "llama", **SHAPES, "attention_bias": True, "mlp_bias": True, "rope_parameters": LINEAR},
    "mistral": {"model_type": "mistral", **SHAPES, "sliding_window": 8},
    "qwen2": {"model_type": "qwen2", **SHAPES, "use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    "qwen3": {"model_type": "qwen3", **SHAPES, "head_dim": 32},
    "gpt2": {
        "model_type": "gpt2",
        "n_embd": 64,
        "n_layer": 2,
        "n_head": 4,
        "vocab_size": 200,
        "n_positions": 64,
        "n_inner": 96,
        "scale_attn_by_inverse_layer_idx": True,
    },
}


def tensors(said: dict[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    """Random weights by Hugging Face's names."""
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray[Any, Any]:
        return (rng.standard_normal(shape) * (0.25 if len(shape) > 1 else 0.2) + (0 if len(shape) > 1 else 1)).astype("float32")

    if said["model_type"] == "gpt2":
        d, found = (
            said["n_embd"],
            {"wte.weight": normal(200, 64), "wpe.weight": normal(64, 64), "ln_f.weight": normal(64), "ln_f.bias": normal(64) - 1},
        )
        for i in range(said["n_layer"]):
            for name, shape in (("attn.c_attn", (d, 3 * d)), ("attn.c_proj", (d, d)), ("mlp.c_fc", (d, 96)), ("mlp.c_proj", (96, d))):
                found |= {f"h.{i}.{name}.weight": normal(*shape), f"h.{i}.{name}.bias": normal(shape[1]) - 1}
            found |= {f"h.{i}.{n}.{k}": normal(d) - (k == "bias") for n in ("ln_1", "ln_2") for k in ("weight", "bias")}
        return {f"transformer.{n}": x.astype("float32") for n, x in found.items()}
    d, hidden, head = said["hidden_size"], said["intermediate_size"], said.get("head_dim", 16)
    q, kv = 4 * head, 2 * head
    shapes = {"q": (q, d), "k": (kv, d), "v": (kv, d), "o": (d, q), "gate": (hidden, d), "up": (hidden, d), "down": (d, hidden)}
    found = {"model.embed_tokens.weight": normal(200, d), "model.norm.weight": normal(d)}
    if not said.get("tie_word_embeddings"):
        found["lm_head.weight"] = normal(200, d)
    for i in range(said["num_hidden_layers"]):
        at = f"model.layers.{i}."
        for n, shape in shapes.items():
            room = "mlp" if n in ("gate", "up", "down") else "self_attn"
            found[f"{at}{room}.{n}_proj.weight"] = normal(*shape)
            if said.get(f"{room.removeprefix('self_').replace('attn', 'attention')}_bias") or (
                said["model_type"] == "qwen2" and n in "qkv"
            ):
                found[f"{at}{room}.{n}_proj.bias"] = (normal(shape[0]) - 1).astype("float32")
        found |= {f"{at}{n}_layernorm.weight": normal(d) for n in ("input", "post_attention")}
        if said["model_type"] == "qwen3":
            found |= {f"{at}self_attn.{n}_norm.weight": normal(head) for n in "qk"}
    return found


def folder(path: Path, said: dict[str, Any], form: str | None = None) -> Path:
    """A model as Hugging Face's folders have it. `form`: its matrices are rounded to what a packed form can hold."""
    path.mkdir(exist_ok=True)
    (path / "config.json").write_text(json.dumps(said))
    found = tensors(said)
    if form is not None:
        found = {n: weights.quantize(x, form).decoded().numpy() if x.ndim == 2 else x for n, x in found.items()}
    weights.save(path / "model.safetensors", found, {"format": "pt"})
    return path


def module(said: dict[str, Any]) -> Any:
    return gpt2_text if said["model_type"] == "gpt2" else llama


def decoder(path: Path, said: dict[str, Any], form: str | None = None, **options: Any) -> generate.Decoder:
    m = module(said)
    params, config, _ = generate.loaded(path, m.config_of, m.params_of, form=form)
    return generate.Decoder(m.model, params, config, **options)


def close(got: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max()


def theirs(path: Path) -> np.ndarray[Any, Any]:
    """What transformers computes: logits of every place."""
    import torch
    import transformers

    m = transformers.AutoModelForCausalLM.from_pretrained(path, attn_implementation="eager", dtype=torch.float32).eval()
    with torch.no_grad():
        found: np.ndarray[Any, Any] = m(torch.tensor(IDS)[None]).logits[0].numpy()
    return found


@pytest.mark.many
@pytest.mark.parametrize("case", CASES)
def test_logits(case: str, tmp_path: Path) -> None:
    said, recorded = CASES[case], np.array(json.loads(RECORDED.read_text())[case])
    d = decoder(folder(tmp_path / "m", said), said)
    close(d.feed(IDS)[:20], recorded[-1])
    d.forget(13)
    d.feed(IDS[13:21])
    close(d.feed(IDS[21:])[:20], recorded[-1])  # in parts
    if case in ("llama3", "mistral", "gpt2"):
        d.forget()
        close([d.feed([t])[:20] for t in IDS], recorded)  # token by token


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="transformers is not installed")
@pytest.mark.parametrize("case", CASES)
def test_logits_are_transformers(case: str, tmp_path: Path) -> None:
    close(theirs(folder(tmp_path / "m", CASES[case]))[:, :20], json.loads(RECORDED.read_text())[case])


def as_gguf(path: Path, said: dict[str, Any], form: str) -> Path:
    """The model as llama.cpp's converter writes it: rows of queries and keys in another order for Llama."""
    gguf = pytest.importorskip("gguf")
    kind = said["model_type"]
    writer = gguf.GGUFWriter(path, kind)
    for key, value in (("block_count", 2), ("embedding_length", 64), ("feed_forward_length", 96), ("attention.head_count", 4),
                       ("attention.head_count_kv", 2), ("context_length", 64), ("attention.key_length", said.get("head_dim", 16))):  # fmt: skip
        writer.add_uint32(f"{kind}.{key}", value)
    writer.add_float32(f"{kind}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32(f"{kind}.rope.freq_base", 1e4)
    names = {v: k for k, v in weights.model_files.LLAMA.items()} | {"embed_tokens": "token_embd", "norm": "output_norm"}
    for name, x in tensors(said).items():
        parts = name.removeprefix("model.").removesuffix(".weight").removesuffix(".bias").split(".")
        own = (
            f"blk.{parts[1]}.{names['.'.join(parts[2:])]}"
            if parts[0] == "layers"
            else "output"
            if name == "lm_head.weight"
            else names[parts[0]]
        )
        if kind == "llama" and own.endswith(("attn_q", "attn_k")):
            heads = 4 if own.endswith("q") else 2
            x = x.reshape(heads, 2, x.shape[0] // heads // 2, *x.shape[1:]).swapaxes(1, 2).reshape(x.shape)
        suffix = name.rpartition(".")[2]
        if form != "F32" and x.ndim == 2 and x.shape[1] % 32 == 0:
            packed = weights.to_blocks(form, weights.quantize(x, form))
            writer.add_tensor(f"{own}.{suffix}", packed, raw_dtype=getattr(gguf.GGMLQuantizationType, form))
        else:
            writer.add_tensor(f"{own}.{suffix}", x)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    return path


@pytest.mark.slow
@pytest.mark.parametrize(("case", "form"), [("llama", "F32"), ("llama", "Q8_0"), ("qwen2", "Q4_0")])
def test_gguf(case: str, form: str, tmp_path: Path) -> None:
    said = CASES[case] | {"use_sliding_window": False}
    wanted = decoder(folder(tmp_path / "m", said, None if form == "F32" else form), said).feed(IDS)
    close(decoder(as_gguf(tmp_path / "m.gguf", said, form), said).feed(IDS), wanted)


@pytest.mark.slow
def test_llama2c(tmp_path: Path) -> None:
    """The same numbers in llama2.c's order are the same model."""
    said = {"model_type": "llama", **SHAPES}
    t = tensors(said)
    turned = {
        n: x.reshape(-1, 2, 8, 64).swapaxes(1, 2).reshape(x.shape) if n.endswith(("q_proj.weight", "k_proj.weight")) else x
        for n, x in t.items()
    }
    order = [f"model.layers.{i}.{n}_layernorm.weight" for n in ("input", "post_attention") for i in range(2)] + [
        "model.norm.weight",
        "model.embed_tokens.weight",
    ]
    order += [f"model.layers.{i}.self_attn.{n}_proj.weight" for n in "qkvo" for i in range(2)]
    order += [f"model.layers.{i}.mlp.{n}_proj.weight" for n in ("gate", "down", "up") for i in range(2)] + ["lm_head.weight"]
    head = (struct.pack("<Ii", 0x616B3432, 1) + struct.pack("<7i", 64, 96, 2, 4, 2, 200, 64) + b"\0").ljust(256, b"\0")
    (tmp_path / "m.bin").write_bytes(head + b"".join(turned[n].tobytes() for n in order))
    close(decoder(tmp_path / "m.bin", said).feed(IDS), decoder(folder(tmp_path / "m", said), said).feed(IDS))


@pytest.mark.slow
def test_packed_weights_and_small_caches(tmp_path: Path) -> None:
    """A small cache is nearly as good; packing rounded numbers changes nothing."""
    said = CASES["llama"]
    path = folder(tmp_path / "m", said, "q8_0")
    wanted = decoder(path, said).feed(IDS)
    for form, kv, tolerance in (("q8_0", "float32", 1e-4), ("bfloat16", "int8", 0.1)):
        d = decoder(path, said, form, kv=kv)
        close(d.feed(IDS), wanted, tolerance)
        d.forget(39)
        close(d.feed(IDS[39:]), wanted, tolerance)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_keys_and_values_are_written_where_they_lie(dtype: str) -> None:
    """A copy of what is kept would take all of its memory at once."""
    kept = language.Kept.empty(2, 512, 64, dtype)
    before = [x.node.data.address for x in kept]
    new = [tw.Tensor(np.full((2, 3, 64), n, "float32")) for n in (1, 2)]
    tw.jit(lambda kept, k, v: kept.write(4, k, v))(kept, *new)
    assert [x.node.data.address for x in kept] == before
    for x, n in zip(kept, (1, 2)):
        values = x.numpy().astype("float32")
        assert (values[:, 4:7] == n).all() and values.sum() == n * 2 * 3 * 64


def test_a_matrix_that_has_no_such_form_is_named() -> None:
    params = llama.init(llama.Config(layers=1, width=48, heads=3, head=16, hidden=64))
    with pytest.raises(tw.UsageError, match=r"the model's embed: .*row of \[256, 48\].* leave --quant out"):
        generate.repacked(params, "q8_0")
    params["embed"] = params["head"] = tw.Tensor(np.ones((256, 64), "float32"))
    with pytest.raises(tw.UsageError, match=r"the model's layers\[0\]'s q: .*int8 has a scale for each row"):
        generate.repacked(params, "q8_0")


@pytest.mark.slow
def test_activations_of_eight_bits_are_near(tmp_path: Path) -> None:
    """A prompt in floats, rounded or not, and the last token in products of bytes."""
    said = CASES["llama"]
    path = folder(tmp_path / "m", said, "q8_0")
    params, config, _ = generate.loaded(path, llama.config_of, llama.params_of, form="q8_0")
    wanted = decoder(path, said, "q8_0").feed(IDS)
    d = generate.Decoder(llama.model, params, dataclasses.replace(config, act="int8"))
    d.feed(IDS[:-1])
    error = d.feed(IDS[-1:]) - wanted
    assert 0 < (error**2).mean() < 0.1**2 * (wanted**2).mean()  # (random weights pass every rounding on)


@pytest.mark.slow
def test_a_new_length_compiles_nothing(tmp_path: Path) -> None:
    d = decoder(folder(tmp_path / "m", CASES["llama"]), CASES["llama"])
    for ids in (IDS[:7], IDS[:1], IDS[:11], IDS[3:4], IDS):
        d.feed(ids)
    assert [len(f.programs) for f in (d.read, d.step)] == [1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["gpt2", "mistral"])
def test_sequences_at_once_are_as_each_alone(case: str, tmp_path: Path) -> None:
    """Prompts of different lengths in fewer slots than there are prompts: where one ends, the next begins, and nothing new is compiled."""
    said = CASES[case]
    d = decoder(folder(tmp_path / "m", said), said)
    how = generate.Sampling(temperature=1.0)
    prompts = [IDS[:5], IDS[7:8], IDS[3:30], IDS[11:14]]
    alone = []
    for p in prompts:
        d.forget()
        alone.append(list(generate.tokens_after(d, p, 9, how)))
    batch = generate.Batch(module(said).model, d.params, d.config, 2)
    assert generate.texts_after(batch, prompts, 9, how) == alone and len({*map(tuple, alone)}) == len(alone)
    assert [len(f.programs) for f in (batch.read, batch.step)] == [1, 1]
    found = batch.feed({1: IDS[:4], 0: IDS[2:20]})
    d.forget()
    close(found[0], d.feed(IDS[2:20]))
    with pytest.raises(tw.UsageError, match="do not fit the context"):
        batch.feed({0: np.tile(IDS, 9)})
    with pytest.raises(tw.UsageError, match="in float32 or bfloat16, not in int8"):
        generate.Batch(module(said).model, d.params, d.config, 2, kv="int8")


@pytest.mark.slow
def test_choosing() -> None:
    logits = np.log(np.array([0.1, 0.4, 0.3, 0.15, 0.05]))

    def counts(**how: Any) -> list[int]:
        chooser = generate.Chooser(generate.Sampling(**how))
        return np.bincount([chooser.choose(logits, i) for i in range(4000)], minlength=5).tolist()

    assert counts() == [0, 4000, 0, 0, 0]
    np.testing.assert_allclose(np.array(counts(temperature=1.0)) / 4000, np.exp(logits), atol=0.03)
    np.testing.assert_allclose(np.array(counts(temperature=1.0, top_k=2)) / 4000, [0, 4 / 7, 3 / 7, 0, 0], atol=0.03)
    np.testing.assert_allclose(np.array(counts(temperature=1.0, top_p=0.75)) / 4000, np.array([0, 40, 30, 15, 0]) / 85, atol=0.03)
    hot = np.exp(logits / 2)
    np.testing.assert_allclose(np.array(counts(temperature=2.0)) / 4000, hot / hot.sum(), atol=0.03)
    assert counts(temperature=1.0, seed=1) != counts(temperature=1.0) == counts(temperature=1.0)
    assert counts(temperature=1.0, top_p=0.0) == counts(temperature=1e-300) == [0, 4000, 0, 0, 0]
    for wrong in ({"temperature": -1.0}, {"temperature": np.nan}, {"top_k": -1}, {"top_p": 1.5}):
        with pytest.raises(tw.UsageError, match="none is below 0, and top-p at most 1"):
            generate.Sampling(**wrong)
    with pytest.raises(tw.UsageError, match="NaN or infinite"):
        generate.Chooser(generate.Sampling()).choose(logits * np.nan, 0)


@pytest.mark.slow
def test_options_may_stand_between_the_model_and_the_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the guide has it: MODEL --chat "What is a kernel?"."""
    monkeypatch.setattr("sys.argv", ["llama", "nowhere.gguf", "--chat", "What is a kernel?", "--top-p", "0.95"])
    with pytest.raises(SystemExit, match=r"there is no file nowhere\.gguf"):
        generate.main("", llama.config_of, llama.params_of, llama.init, llama.model, llama.SIZES)
    monkeypatch.setattr("sys.argv", ["llama", "--random", "tiny", "--tokens", "0"])
    with pytest.raises(SystemExit, match="--tokens 0: give at least one"):
        generate.main("", llama.config_of, llama.params_of, llama.init, llama.model, llama.SIZES)


def test_a_short_context_is_timed_with_fewer_tokens(tmp_path: Path) -> None:
    d = decoder(folder(tmp_path / "m", CASES["llama"]), CASES["llama"])
    d.feed = lambda ids: setattr(d, "length", d.length + len(ids)) or np.zeros(200)  # type: ignore[method-assign, func-returns-value]
    length, _, steps = generate.bench(d)
    assert (length, len(steps)) == (32, 31)


def test_windows_begin_behind_the_layers_that_see_all() -> None:
    said = CASES["qwen2"] | {"num_hidden_layers": 30}
    del said["max_window_layers"]
    assert llama.config_of(said).windows == (None,) * 28 + (8, 8)


def test_what_cannot_run_is_said(tmp_path: Path) -> None:
    said = CASES["llama"]
    path = folder(tmp_path / "m", said)
    d = decoder(path, said)
    for ids, match in (
        ([], "no tokens"),
        (np.zeros(65), "65 tokens do not fit the context of 64"),
        ([200], "token 200 is none of the model's 200"),
    ):
        with pytest.raises(tw.UsageError, match=match):
            d.feed(ids)
    assert len([*generate.tokens_after(d, IDS, 100)]) == 64 - 40 + 1, "until the context is full"
    d.forget()
    first = next(generate.tokens_after(d, IDS, 5))
    d.forget()
    assert [*generate.tokens_after(d, IDS, 5, ends={first})] == [first]
    with (path / "model.safetensors").open("wb") as f:  # most of it is a hole, which takes no room on the disk
        text = json.dumps({"model.embed_tokens.weight": {"dtype": "F32", "shape": [1 << 34, 16], "data_offsets": [0, 1 << 40]}}).encode()
        f.write(len(text).to_bytes(8, "little") + text)
        f.truncate(8 + len(text) + (1 << 40))
    with pytest.raises(
        tw.UsageError, match=r"as it is stored, needs 1,024 GiB of memory, and .* can be had here: take a file of fewer bits"
    ):
        decoder(path, said)
    folder(path, said)
    for change, match in (
        ({"model_type": "mamba"}, "the architecture is 'mamba'; this program runs llama, mistral, qwen2, qwen3"),
        ({"hidden_size": -1}, "hidden_size is -1"), ({"num_key_value_heads": 3}, "do not fit together"), ({"intermediate_size": 97}, "'gate' has the shape"),
        ({"rope_parameters": {"rope_type": "longrope"}}, r"m: the angles are scaled as 'longrope'"), ({"hidden_act": "gelu"}, "the activation is 'gelu'"),
        ({"max_position_embeddings": "x"}, "max_position_embeddings is x"), ({"rms_norm_eps": [1]}, "rms_norm_eps is"),
        ({"rope_parameters": [1]}, "rope_parameters is"), ({"rope_parameters": {"rope_type": "llama3", "factor": 2.0}}, "low_freq_factor is None"),
        ({"rope_parameters": LONG | {"low_freq_factor": 4.0}}, "high_freq_factor is not above"), ({"layer_types": ["mamba"] * 2}, "layer_types is"),
        ({"num_hidden_layers": 3}, r"has no tensor 'model\.layers\.2"),
    ):  # fmt: skip
        (path / "config.json").write_text(json.dumps(said | change))
        with pytest.raises(tw.UsageError, match=match):
            decoder(path, said)
    path = folder(tmp_path / "untied", {"model_type": "llama", **SHAPES, "tie_word_embeddings": True})
    (path / "config.json").write_text(json.dumps({"model_type": "llama", **SHAPES, "tie_word_embeddings": False}))
    with pytest.raises(tw.UsageError, match="no lm_head"):
        decoder(path, {"model_type": "llama"})


@pytest.mark.slow
def test_perplexity_of_packed_weights() -> None:
    """A small model, once it is trained, is as good in Q8_0 within a part in a hundred."""
    size, text = gpt2.Size(1, 2, 32, 32, 128), gpt2.encode(made_text.text())
    config = gpt2_text.Config(size.layers, size.heads, size.width, size.tokens, size.context)
    gradient = tw.value_and_grad(lambda p, x, y: gpt2.loss_of(p, x, y, size))

    @tw.jit
    def step(p: Any, x: tw.Tensor, y: tw.Tensor) -> Any:
        loss, slopes = gradient(p, x, y)
        return loss, tw.tree_map(lambda w, slope: w - 0.5 * slope, p, slopes)

    trained: Any = tw.tree_map(tw.Tensor, gpt2.weights(size))
    for x, y in gpt2.batches(text, 150, 8, size.context):
        _, trained = step(trained, tw.Tensor(x), tw.Tensor(y))
    logits = tw.jit(lambda p, caches, x: gpt2_text.model(p, caches, x, 0, config, slice(None)))

    def perplexity(form: str) -> float:
        pack = generate.packing(form)
        (b,), embed = trained["blocks"], pack(trained["tokens"])
        dense = {n: {"wT": pack(tw.Tensor(b[n]["w"].numpy().T.copy())), "b": b[n]["b"]} for n in ("qkv", "out", "up", "down")}
        p = {"embed": embed, "head": embed, "places": trained["places"], "layers": [{"ln1": b["ln1"], "ln2": b["ln2"], **dense}]}
        losses = []
        for x, y in gpt2.batches(text, 20, 1, size.context, seed=2):
            z = logits(p | {"ln": trained["ln"]}, [language.Kept.empty(2, size.context, 16)], tw.Tensor(x[0])).numpy()
            losses.append(np.log(np.exp(z).sum(-1)) - z[np.arange(size.context), y[0]])
        return float(np.exp(np.mean(losses)))

    floats, packed = perplexity("float32"), perplexity("q8_0")
    assert 0 < abs(packed / floats - 1) < 0.01 and floats < 13  # (10.2; before training it is 128)


TWO_SEARCHES = """
import sys
from tilewright import search
from tilewright.examples import tune_process
from tilewright.ir.errors import OutOfTimeError
from tilewright.search import tune
asked = []
def tune_two(kernel, **how):
    asked.append(how["budget"])
    if len(asked) > 2:
        raise OutOfTimeError("two are enough")
    return tune(kernel, **how | {"budget": 100, "trials": 2})
search.tune = tune_two
sys.exit(tune_process.main(sys.argv[1:]))
"""
"""The model's process, where two searches have the time they need, on any machine, and the others none."""


@pytest.mark.slow
def test_tune_model_tunes_its_kernels(
    tmp_path: Path, known_limits: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    popen = subprocess.Popen

    def process(command: list[str], **how: Any) -> Any:
        own = command[1:3] == ["-m", "tilewright.examples.tune_process"]
        return popen([sys.executable, "-c", TWO_SEARCHES, *command[3:]] if own else command, **how)

    monkeypatch.setattr(subprocess, "Popen", process)
    path = folder(tmp_path / "m", CASES["gpt2"] | {"n_layer": 1})
    out = tmp_path / "out.json"
    assert main(["model", str(path), "--budget", "1s", "--threads", "1", "--cache", str(tmp_path / "c.db"), "--json", str(out)]) == 0
    found = json.loads(out.read_text())
    assert found["kernels"] >= 10 and 1 <= found["tuned"] <= 2 and found["after_s"] > 0
    capsys.readouterr()
    for _ in range(2):  # the second process finds the functions where the first kept them
        assert main(["report", "--tokens", str(path), "--threads", "1", "--cache", str(tmp_path / "c.db"), "--format", "json"]) == 0
        token = json.loads(capsys.readouterr().out)
        matrices = sum(x.nbytes for n, x in tensors(CASES["gpt2"] | {"n_layer": 1}).items() if x.ndim == 2 and "wpe" not in n)
        assert token["nbytes"] > matrices and token["seconds"] > 0 and sum(k["calls"] for k in token["kernels"]) >= 10
    (path / "config.json").write_text('{"model_type": "mamba"}')
    for arguments, match in (
        ([str(path)], "the architecture is 'mamba'"), ([str(path / "no.gguf")], "there is no file"), ([str(path), "--training"], "are for PyTorch"),
    ):  # fmt: skip
        assert main(["model", *arguments]) == 2 and match in capsys.readouterr().err


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        made = {c: theirs(folder(Path(temporary) / c, said))[:, :20].round(5).tolist() for c, said in CASES.items()}
    RECORDED.write_text(json.dumps(made, separators=(",", ":")) + "\n")
