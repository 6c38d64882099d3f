"""Files of weights: what the formats' own packages write is read to the bit, what we write they read, and damage is said."""

from __future__ import annotations

import json
import random
import struct
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
import tilewright as tw
from thorough import amount
from tilewright import Tensor, weights

RNG = np.random.default_rng(3)
X = RNG.standard_normal((3, 512)).astype("float32")


class State(NamedTuple):
    """An optimiser's state."""

    step: Any
    mean: Any


def tree() -> Any:
    """Parameters and a state, with a packed matrix."""
    layers = [{"q": Tensor(X + i), "s": weights.quantize(X, "q8_0"), "none": None} for i in range(2)]
    return {
        "layers": layers,
        "state": State(np.int64(3), Tensor(X[0])),
        "flags": np.array([True, False]),
        "empty": np.zeros((0, 4), np.int16),
        "last": Layer(Tensor(X * 2), Tensor(X[0] * 3)),
    }


@dataclass
class Layer:
    """A layer, with a setting."""

    w: Any
    b: Any
    kind: str = "full"


def same(a: Any, b: Any) -> None:
    """Trees of equal arrays."""
    tw.tree_map(lambda x, y: np.testing.assert_array_equal(np.asarray(x), np.asarray(y)), a, b)


def test_trees_come_back(tmp_path: Path) -> None:
    given = tree()
    for name in ("a.npz", "a.safetensors"):
        weights.save(tmp_path / name, given)
        back = weights.load(tmp_path / name, like=given)
        same(given, back)
        assert isinstance(back["layers"][1]["s"], weights.Packed8) and isinstance(back["state"], State)
    assert {"layers.1.s.d", "state.step", "flags", "last.w", "last.b"} < {*weights.load(tmp_path / "a.npz")}
    with np.load(tmp_path / "a.npz") as theirs:
        same({**theirs}, weights.load(tmp_path / "a.npz"))


def test_small_floats_and_the_package(tmp_path: Path) -> None:
    given = {
        "a": X.astype(ml_dtypes.bfloat16),
        "b": X.astype(ml_dtypes.float8_e4m3fn),
        "c": X.astype(ml_dtypes.float8_e5m2),
        "n": np.uint8(1),
    }
    weights.save(tmp_path / "a.safetensors", given, {"made by": "a test"})
    back = weights.checkpoint(tmp_path / "a.safetensors")
    same(given, dict(back))
    assert back.metadata == {"made by": "a test"} and [s.dtype for s in back.stored.values()] == ["BF16", "F8_E4M3", "F8_E5M2", "U8"]
    with pytest.raises(tw.UsageError, match=r"NumPy's files have no bfloat16 \('a'\)"):
        weights.save(tmp_path / "a.npz", given)
    theirs = pytest.importorskip("safetensors.numpy")
    with pytest.importorskip("safetensors").safe_open(tmp_path / "a.safetensors", "np") as f:
        same((f.get_tensor("n"), {*f.keys()}), (given["n"], {*given}))
    theirs.save_file({"x": X, "i": np.arange(5)}, tmp_path / "b.safetensors")
    same(weights.load(tmp_path / "b.safetensors"), {"x": X, "i": np.arange(5)})


def test_arrays_are_mapped_and_files_stay_as_they_are(tmp_path: Path) -> None:
    big = np.zeros(1 << 20, np.float32)
    for name in ("a.safetensors", "a.npy"):
        weights.save(tmp_path / name, {"": big} if name.endswith("y") else {"x": big})
        before = (tmp_path / name).read_bytes()
        found = weights.load(tmp_path / name)
        t = found if isinstance(found, Tensor) else found["x"]
        assert not t.numpy().flags.owndata
        tw.jit(lambda t=t: t.assign(t + 1.0))()
        assert t.numpy().sum() == big.size and (tmp_path / name).read_bytes() == before


def test_npz_and_npy_as_numpy_writes_them(tmp_path: Path) -> None:
    given = {"a": X, "f": np.asfortranarray(X), "s": np.float64(2), "h": X.astype("float16")}
    np.savez_compressed(tmp_path / "a.npz", **given)
    same(weights.load(tmp_path / "a.npz"), given)
    np.save(tmp_path / "f.npy", np.asfortranarray(X))
    same(weights.load(tmp_path / "f.npy"), X)
    np.save(tmp_path / "o.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(tw.UsageError, match="arrays of integers, floats and bools are read"):
        weights.load(tmp_path / "o.npy")


@pytest.mark.parametrize("form", ["Q8_0", "Q4_0", "Q4_K", "Q6_K"])
def test_packed_numbers_have_the_format_s_bits(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tilewright.weights.packed.PART", 5)  # several threads, and a part that is shorter
    quants = pytest.importorskip("gguf.quants")
    kind = getattr(pytest.importorskip("gguf").GGMLQuantizationType, form)
    packed = weights.quantize(X, form)
    raw = weights.to_blocks(form, packed)
    if form in ("Q8_0", "Q4_0"):
        np.testing.assert_array_equal(raw, quants.quantize(X, kind))
    wild = RNG.integers(0, 256, raw.shape).astype("uint8")
    for data in (raw, wild):
        with np.errstate(invalid="ignore"):
            theirs = quants.dequantize(data, kind)
        np.testing.assert_array_equal(weights.from_blocks(form, data, X.shape).decoded().numpy(), theirs)
    assert np.abs(packed.decoded().numpy() - X).mean() < {"Q8_0": 0.006, "Q4_0": 0.08, "Q4_K": 0.075, "Q6_K": 0.02}[form]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["q8_0", "q4_0", "q4_k", "q6_k", "int8", "int4"])
def test_compiled_products_read_packed_bytes(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_SMALL", "0")
    w = weights.quantize(RNG.standard_normal((96, 512)).astype("float32"), form)
    y = tw.jit(lambda x, w: weights.linear(x, w))(Tensor(X), w).numpy()
    np.testing.assert_allclose(y, X.astype("float64") @ w.decoded().numpy().T.astype("float64"), rtol=2e-5, atol=2e-4)
    some = tw.jit(lambda w, at: weights.rows(w, at))(w, Tensor(np.array([5, 0, 95]))).numpy()
    np.testing.assert_array_equal(some, w.decoded().numpy()[[5, 0, 95]])


def test_packed_matrices_lie_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one block, where the system has huge pages for them; small ones are by themselves."""
    room = weights.mapped_file.Room()
    monkeypatch.setattr(weights.packed, "_ROOM", room)
    x = RNG.standard_normal((256, 1024)).astype("float32")
    first, second = (weights.quantize(y, "q8_0").q.numpy() for y in (x, -x))
    assert second.ctypes.data - first.ctypes.data == first.nbytes and first.ctypes.data % 64 == 0
    np.testing.assert_array_equal(first, -second)
    assert np.shares_memory(room.copied(x[0]), x)


def test_what_cannot_be_packed_is_said() -> None:
    for x, form, match in (
        (X[:, :40], "q8_0", "groups of 32"), (X, "q5_1", "no format 'q5_1'"), (X * np.float32(np.nan), "q4_0", "1536 of 1536 numbers are NaN"),
        (X, "int4", None),
    ):  # fmt: skip
        if match is None:
            assert weights.quantize(x, form, group=128).d.shape == (3, 4)
            continue
        with pytest.raises(tw.UsageError, match=match):
            weights.quantize(x, form)


def gguf_file(path: Path) -> Path:
    """A file of every type that is read, by the format's own writer."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_array("some.texts", ["a", "b ü"])
    writer.add_array("some.numbers", [1, 2, 3])
    writer.add_float32("llama.rope.freq_base", 1e4)
    writer.add_tensor("plain", X)
    writer.add_tensor("half", X.astype("float16"))
    for form in weights.BLOCKS:
        raw = weights.to_blocks(form, weights.quantize(X, form))
        writer.add_tensor(form, raw, raw_dtype=getattr(gguf.GGMLQuantizationType, form))
    writer.add_tensor("bf", X.astype(ml_dtypes.bfloat16).view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    return path


def test_gguf(tmp_path: Path) -> None:
    found = weights.checkpoint(gguf_file(tmp_path / "a.gguf"))
    assert found.metadata["some.texts"] == ["a", "b ü"] and found.metadata["some.numbers"] == [1, 2, 3]
    same({n: found[n] for n in ("plain", "half", "bf")}, {"plain": X, "half": X.astype("float16"), "bf": X.astype(ml_dtypes.bfloat16)})
    for form in weights.BLOCKS:
        same(found[form], weights.quantize(X, form))
    with pytest.raises(KeyError, match="has no tensor 'plan' among its 7; near it are plain"):
        found["plan"]


def llama2c_file(path: Path, version: int, group: int = 8) -> Path:
    """llama2.c's formats, written as its `export.py` does, with numbers that say where they are."""
    width, hidden, layers, heads, kv, vocabulary, context = 16, 24, 2, 4, 2, 10, 6
    sizes = struct.pack("<7i", width, hidden, layers, heads, kv, -vocabulary if version == 0 else vocabulary, context)
    shapes = {"q": (16, 16), "k": (8, 16), "v": (8, 16), "o": (16, 16), "gate": (24, 16), "down": (16, 24), "up": (24, 16)}
    rng = np.random.default_rng(0)

    def f(*shape: int) -> bytes:
        return rng.standard_normal(shape).astype("<f4").tobytes()

    def groups(*shape: int) -> bytes:
        return rng.integers(-127, 128, shape).astype("i1").tobytes() + f(shape[0], shape[1] // group)

    if version == 0:
        blocks = [f(10, 16), f(2, 16), *(f(2, *shapes[n]) for n in "qkvo"), f(2, 16), *(f(2, *shapes[n]) for n in ("gate", "down", "up"))]
        path.write_bytes(sizes + b"".join([*blocks, f(16), f(6, 2), f(6, 2), f(10, 16)]))
        return path
    head = (struct.pack("<Ii", 0x616B3432, version) + sizes + struct.pack("<Bi", 0, group if version == 2 else 0)).ljust(256, b"\0")
    one = f if version == 1 else groups
    matrices = [one(10, 16), *(one(*s) for s in shapes.values() for _ in range(2)), one(10, 16)]
    path.write_bytes(head + b"".join([f(2, 16), f(2, 16), f(16), *matrices]))
    return path


def llmc_file(path: Path, version: int = 3) -> Path:
    """llm.c's checkpoint: a header of 256 numbers, and the parameters one behind the other."""
    context, vocabulary, layers, heads, width, padded = 8, 30, 2, 2, 16, 32
    count = padded * width + context * width + layers * (12 * width * width + 13 * width) + 2 * width
    numbers = np.arange(count).astype("<f4" if version == 3 else ml_dtypes.bfloat16)
    header = struct.pack("<8i", 20240326, version, context, vocabulary, layers, heads, width, padded).ljust(1024, b"\0")
    path.write_bytes(header + numbers.tobytes())
    return path


def test_checkpoints_of_c_programs(tmp_path: Path) -> None:
    for version in (0, 1, 2):
        found = weights.open_model(llama2c_file(tmp_path / f"{version}.bin", version))
        assert (found.config["hidden_size"], found.config["num_key_value_heads"], found.config["tie_word_embeddings"]) == (16, 2, False)
        k = found.tensors["model.layers.1.self_attn.k_proj.weight"]
        assert tuple(k.shape) == (8, 16) and weights.is_packed(k) == (version == 2) and len(found.tensors) == 2 * 9 + 3
    for version in (3, 5):
        found = weights.open_model(llmc_file(tmp_path / f"g{version}.bin", version))
        assert found.config["n_layer"] == 2 and tuple(found.tensors["transformer.h.1.attn.c_attn.weight.T"].shape) == (48, 16)
        assert str(found.tensors["transformer.ln_f.bias"].dtype) == ("float32" if version == 3 else "bfloat16")


def test_angles_of_gguf_are_those_that_the_file_says(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")

    def opened(architecture: Any = "llama", **values: Any) -> Any:
        writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
        writer.add_key_value("general.architecture", architecture, writer_type(architecture))
        for key, value in {"attention.head_count": 4, "embedding_length": 64, **values}.items():
            writer.add_key_value(f"llama.{key}", value, writer_type(value))
        for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
            step()
        return weights.open_model(tmp_path / "a.gguf").config

    def writer_type(value: Any) -> Any:
        return {str: gguf.GGUFValueType.STRING, float: gguf.GGUFValueType.FLOAT32, int: gguf.GGUFValueType.UINT32}[type(value)]

    assert opened(**{"rope.scaling.factor": 4.0, "rope.dimension_count": 16})["rope_scaling"] == {"rope_type": "linear", "factor": 4.0}
    yarn = {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 128}
    said = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
    assert opened(**yarn)["rope_scaling"] == said and opened(**yarn, **{"rope.scaling.attn_factor": 1.0})["rope_scaling"]["factor"] == 4.0
    assert "rope_scaling" not in opened()
    with pytest.raises(tw.UsageError, match=r"scaled as yarn with yarn_ext_factor 0.5; the usual one, 1, is read"):
        opened(**yarn, **{"rope.scaling.yarn_ext_factor": 0.5})
    with pytest.raises(tw.UsageError, match="scaled as 'longrope'; linear, yarn, and"):
        opened(**{"rope.scaling.type": "longrope"})
    with pytest.raises(tw.UsageError, match="8 numbers of each head are turned by their place; models that turn all are read"):
        opened(**{"rope.dimension_count": 8})
    with pytest.raises(tw.UsageError, match="its architecture is 7"):
        opened(7)


def whole(path: Path) -> None:
    """Read all that is in a file."""
    found = weights.load(path)
    for t in [found] if isinstance(found, Tensor) else found.values():
        for part in [t] if isinstance(t, Tensor) else t:
            part.numpy()


def npz_file(path: Path) -> Path:
    np.savez_compressed(path, a=X)
    with zipfile.ZipFile(path, "a") as archive, archive.open("b.npy", "w") as member:
        np.lib.format.write_array(member, X)
    return path


def npy_file(path: Path) -> Path:
    np.save(path, X)
    return path


def safetensors_file(path: Path) -> Path:
    weights.save(path, {"a": X, "b": X.astype("float16"), "c": np.array([True])}, {"m": "n"})
    return path


FILES: dict[str, Callable[[Path], Path]] = {
    "a.npy": npy_file,
    "a.npz": npz_file,
    "a.safetensors": safetensors_file,
    "a.gguf": gguf_file,
    "0.bin": lambda p: llama2c_file(p, 0),
    "2.bin": lambda p: llama2c_file(p, 2),
    "g.bin": llmc_file,
}
EVIL = [0, 1, 7, 255, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 40, (1 << 62) + 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]


def damaged(data: bytes, rng: random.Random) -> bytes:
    """A file that was cut, changed, shifted or lied to, most of it in its first bytes, where sizes and places stand."""
    out = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(min(len(out), rng.choice([32, 128, 1024, 1 << 20])) or 1)
        match rng.randrange(6):
            case 0:
                del out[at:]
            case 1:
                out[at : at + 1] = bytes([rng.randrange(256)])
            case 2:
                size = rng.choice([4, 8])
                out[at : at + size] = (rng.choice(EVIL) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            case 3:
                del out[at : at + rng.randint(1, 9)]
            case 4:
                out[at:at] = out[at : at + rng.randint(1, 64)]
            case _:
                out[at : at + 1] = rng.choice(b'0123456789[]{}",:-').to_bytes(1, "little")
    return bytes(out)


@pytest.mark.many
@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_errors(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Each is read, or a UsageError that names the file; in bounded time, and nothing else happens."""
    data = FILES[name](tmp_path / name).read_bytes()
    whole(tmp_path / name)
    said = 0
    for seed in range(amount(request, 100, 2000)):
        path = tmp_path / f"damaged{Path(name).suffix}"
        path.write_bytes(damaged(data, random.Random(seed)))
        begin = time.monotonic()
        try:
            with np.errstate(all="ignore"):
                whole(path)
        except tw.UsageError as e:
            said += 1
            assert str(path) in str(e) and len(str(e)) < 1000, e
        assert time.monotonic() - begin < 200, f"seed {seed}"
    assert said > 20


def test_lies_of_safetensors(tmp_path: Path) -> None:
    def file(header: Any, data: bytes = bytes(16)) -> Path:
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        (tmp_path / "x.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
        return tmp_path / "x.safetensors"

    def entry(begin: int, end: int, shape: list[int], kind: str = "F32") -> dict[str, Any]:
        return {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}

    for header, match in (
        ({"a": entry(0, 8, [2]), "b": entry(4, 16, [3])}, "should begin at 8"),
        ({"a": entry(0, 8, [2])}, "8 bytes, and 16 follow"),
        ({"a": entry(0, 16, [1 << 61, 1 << 61])}, "its own size"),
        ({"a": entry(0, 16, [-4])}, "it needs a dtype"),
        (b'{"a": 1, "a": 2}', "a name twice"),
        (b"{" * 5000, "no JSON"),
        (b'{"a":' * 100_000, "no JSON"),
        ({"a": entry(0, 16, [16], "F4")}, "has the type F4; the types that are read are F64"),
    ):
        with pytest.raises(tw.UsageError, match=match):
            weights.load(file(header))


def test_a_zip_file_whose_members_begin_before_it_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X)
    data = bytearray((tmp_path / "a.npz").read_bytes())
    end = data.rindex(b"PK\5\6")
    data[end + 16 : end + 20] = (int.from_bytes(data[end + 16 : end + 20], "little") + 28).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(tw.UsageError, match=r"a.npz: .* should follow byte -2"):
        weights.load(tmp_path / "a.npz")


def test_a_small_file_that_inflates_beyond_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(20 << 20, np.float32))
    monkeypatch.setattr("tilewright.targets.free_memory.free_memory", lambda: 70 << 20)
    with pytest.raises(tw.UsageError, match=r"a\.npz: array 'x' needs 0\.1 GiB of memory"):
        weights.load(tmp_path / "a.npz")


def test_other_files_say_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.pt").write_bytes(b"\x80\x02" + bytes(30))
    with pytest.raises(tw.UsageError, match="PyTorch's pickled files are not"):
        weights.load(tmp_path / "a.pt")
    for path, match in ((tmp_path / "no", "cannot read"), (tmp_path, "cannot read")):
        with pytest.raises(tw.UsageError, match=match):
            weights.load(path)
    weights.save(tmp_path / "a.npz", {"x": X})
    for like, match in (
        ({"y": X}, "lacks 'y' and has 'x'"),
        ({"x": X[0]}, r"has 'x' as float32\[3, 512\], and the tree has float32\[512\]"),
    ):
        with pytest.raises(tw.UsageError, match=match):
            weights.load(tmp_path / "a.npz", like=like)


def test_shards(tmp_path: Path) -> None:
    parts = {"one.safetensors": {"a": X}, "two.safetensors": {"b": X + 1}}
    for name, part in parts.items():
        weights.save(tmp_path / name, part)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}))
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    model = weights.open_model(tmp_path)
    same(dict(model.tensors), {"a": X, "b": X + 1})
    with pytest.raises(tw.UsageError, match=r"has no tokenizer\.json"):
        model.tokenizer()
    (tmp_path / "config.json").write_text('{"quantization_config": {"quant_method": "fp8"}}')
    with pytest.raises(tw.UsageError, match="its matrices are packed as 'fp8'"):
        weights.open_model(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    index.write_text(json.dumps({"weight_map": {"a": "../one.safetensors"}}))
    with pytest.raises(tw.UsageError, match="no weight_map from names of tensors to files beside it"):
        weights.open_model(tmp_path)
    index.write_text(json.dumps({"weight_map": {"a": "one.safetensors", "c": "three.safetensors"}}))
    with pytest.raises(tw.UsageError, match=r"lacks 1 of the 2 files that its index names: three\.safetensors"):
        weights.open_model(tmp_path)
    index.write_text(json.dumps({"weight_map": {"c": "one.safetensors"}}))
    with pytest.raises(tw.UsageError, match="1 tensors that are not in their files, such as 'c'"):
        weights.open_model(tmp_path)
