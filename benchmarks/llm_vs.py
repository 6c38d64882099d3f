"""A Llama of random weights beside llama.cpp and PyTorch (eager, through transformers): tokens/s of a prompt of 512 tokens, and of tokens after 128.

    python benchmarks/record.py benchmarks/llm_vs.py [--sizes 110M 0.5B 1.1B] [--forms float32 bfloat16 q8_0 q4_0] [--threads 1 2] [--rounds 5] [--add] [--first]

Each program is a process that holds its model and answers with the seconds of a burst; they are asked in turns, and medians count. Ours and llama.cpp
read one GGUF file. A ratio is our tokens/s over the other's. `read_share`: bytes of weights a token over what one sum of 512 MB reads a second here,
in the same turns. PyTorch takes part in float32 and bfloat16. llama.cpp is its Python package (llama-cpp-python, built from source with the gcc that
is here), where it is installed: set LLAMA_CPP to the folder that holds it. A size that needs more than `--memory` GB is said and left out.
`ours_int8`: ours with tokens of 8 bits, which is what llama.cpp computes with beside packed weights; keys that end in `_int8` compare it.
`ours_bfloat16`: the same of prompts rounded to bfloat16 beside such weights (`io.linear`). With --first, rows say how long a process takes that reads a GGUF file
and makes one token, its kernels being in the cache, and its peak memory."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

CONTEXT, PROMPT, BEFORE, TOKENS = 1024, 512, 128, 16
BITS = {"float32": 32, "bfloat16": 16, "q8_0": 8.5, "q4_0": 4.5}


def config_of(size: str) -> Any:
    from tilewright.examples import llama

    return llama.SIZES[size]


def matrices_of(size: str) -> float:
    """Numbers of all matrices that a token reads."""
    from tilewright.examples import llama

    c = config_of(size)
    return float(c.layers * sum(a * b for a, b in llama.matrices(c).values()) + c.tokens * c.width)


def ours(size: str, form: str, threads: int, act: str | None = None) -> tuple[Callable[[], None], Callable[[], None]]:
    from tilewright.examples import generate, llama

    params, config, _ = generate.loaded(Path(os.environ["LLM_VS"]) / f"{size}-{form}.gguf", llama.config_of, llama.params_of)
    d = generate.Decoder(llama.model, params, dataclasses.replace(config, act=act), threads=threads)
    ids = np.random.default_rng(0).integers(0, config.tokens, PROMPT)

    def prompt() -> None:
        d.forget()
        d.feed(ids)

    def tokens() -> None:
        d.forget(BEFORE)
        for _ in range(TOKENS):
            d.feed([5])

    return prompt, tokens


def pytorch(size: str, form: str, threads: int) -> tuple[Callable[[], None], Callable[[], None]]:
    import torch
    from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

    torch.set_num_threads(threads)
    c = config_of(size)
    said = LlamaConfig(
        hidden_size=c.width, intermediate_size=c.hidden, num_hidden_layers=c.layers, num_attention_heads=c.heads, num_key_value_heads=c.kv_heads,
        vocab_size=c.tokens, max_position_embeddings=CONTEXT, tie_word_embeddings=True,
    )  # fmt: skip
    kind = getattr(torch, form)
    torch.set_default_dtype(kind)
    model = LlamaForCausalLM(said).eval()
    ids = torch.randint(0, c.tokens, (1, PROMPT))
    one = torch.tensor([[5]])
    cache: Any = None

    def prompt() -> None:
        with torch.inference_mode():
            model(ids, use_cache=True, past_key_values=DynamicCache(), logits_to_keep=1)

    def tokens() -> None:
        nonlocal cache
        with torch.inference_mode():
            if cache is None:
                cache = DynamicCache()
                model(ids[:, :BEFORE], use_cache=True, past_key_values=cache, logits_to_keep=1)
            for _ in range(TOKENS):
                model(one, use_cache=True, past_key_values=cache, logits_to_keep=1)
            cache.crop(-TOKENS)

    return prompt, tokens


def gguf_of(size: str, form: str, path: Path) -> None:
    """The model as llama.cpp reads it, with words that mean nothing."""
    import gguf
    from tilewright import weights
    from tilewright.examples import llama

    c = config_of(size)
    w = gguf.GGUFWriter(path, "llama")
    w.add_block_count(c.layers)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(c.width)
    w.add_feed_forward_length(c.hidden)
    w.add_head_count(c.heads)
    w.add_head_count_kv(c.kv_heads)
    w.add_layer_norm_rms_eps(c.eps)
    w.add_rope_dimension_count(c.head)
    w.add_vocab_size(c.tokens)
    w.add_tokenizer_model("llama")
    w.add_token_list(["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *(f"t{i}" for i in range(259, c.tokens))])
    w.add_token_scores([0.0] * c.tokens)
    w.add_token_types([2, 3, 3, *[6] * 256, *[1] * (c.tokens - 259)])
    rng = np.random.default_rng(0)

    def matrix(name: str, shape: tuple[int, ...]) -> None:
        x = rng.standard_normal(shape, dtype=np.float32)
        x *= 0.02
        if form == "float32":
            w.add_tensor(name, x)
            return
        kind = getattr(gguf.GGMLQuantizationType, "BF16" if form == "bfloat16" else form.upper())
        raw = gguf.quants.quantize(x, kind) if form == "bfloat16" else weights.to_blocks(form.upper(), weights.quantize(x, form))
        w.add_tensor(name, raw, raw_dtype=kind)

    matrix("token_embd.weight", (c.tokens, c.width))
    names = {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}
    for i in range(c.layers):
        for name, shape in llama.matrices(c).items():
            matrix(f"blk.{i}.{names[name]}.weight", shape)
        for name in ("attn_norm", "ffn_norm"):
            w.add_tensor(f"blk.{i}.{name}.weight", np.ones(c.width, np.float32))
    w.add_tensor("output_norm.weight", np.ones(c.width, np.float32))
    for step in (w.write_header_to_file, w.write_kv_data_to_file, w.write_tensors_to_file, w.close):
        step()


def llamacpp(size: str, form: str, threads: int) -> tuple[Callable[[], None], Callable[[], None]]:
    sys.path.append(os.environ["LLAMA_CPP"])
    import llama_cpp

    folder = Path(os.environ["LLM_VS"])
    model = llama_cpp.Llama(
        str(folder / f"{size}-{form}.gguf"),
        n_ctx=CONTEXT,
        n_threads=threads,
        n_threads_batch=threads,
        n_batch=PROMPT,
        n_ubatch=PROMPT,
        verbose=False,
    )
    ids = np.random.default_rng(0).integers(0, config_of(size).tokens, PROMPT).tolist()

    def prompt() -> None:
        model.reset()
        model.eval(ids)

    def tokens() -> None:
        model.n_tokens = BEFORE  # `eval` drops what is kept behind it
        for _ in range(TOKENS):
            model.eval([5])

    return prompt, tokens


def bandwidth(size: str, form: str, threads: int) -> tuple[Callable[[], None], Callable[[], None]]:
    """What is read in a second: a sum of 512 MB."""
    import tilewright as tw

    x = tw.Tensor(np.ones(1 << 27, np.float32))
    f = tw.jit(lambda x: x.sum(), threads=threads)

    def read() -> None:
        f(x).numpy()

    return read, read


OURS = {"ours": ours, "ours_int8": partial(ours, act="int8"), "ours_bfloat16": partial(ours, act="bfloat16")}
PLAYERS = {**OURS, "llamacpp": llamacpp, "pytorch": pytorch, "bandwidth": bandwidth}


def play(name: str, size: str, form: str, threads: int) -> None:
    """Answer each line of standard input with the seconds of a prompt, or of a burst of tokens."""
    prompt, tokens = PLAYERS[name](size, form, threads)
    for f in (prompt, tokens) * 2:
        f()
    print("ready", flush=True)
    for line in sys.stdin:
        begin = time.perf_counter()
        (prompt if line.strip() == "prompt" else tokens)()
        print(time.perf_counter() - begin, flush=True)


def compared(size: str, form: str, threads: int, rounds: int, names: list[str]) -> dict[str, Any]:
    """A row: every player in turns."""
    players = {
        n: subprocess.Popen(
            [sys.executable, __file__, "--play", n, size, form, str(threads)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for n in names
    }
    for n, p in players.items():
        assert p.stdout is not None
        if (said := p.stdout.readline()) != "ready\n":
            raise SystemExit(f"{n} did not begin: {said!r}")
    times: dict[tuple[str, str], list[float]] = {}
    for what in ("tokens", "prompt"):
        for _ in range(rounds):
            for n, p in players.items():
                assert p.stdin is not None and p.stdout is not None
                print(what, file=p.stdin, flush=True)
                times.setdefault((n, what), []).append(float(p.stdout.readline()))
    for p in players.values():
        p.communicate()
    middle = {k: statistics.median(v) for k, v in times.items()}
    row: dict[str, Any] = {"size": size, "form": form, "threads": threads}
    for n in players:
        if n != "bandwidth":
            row |= {f"{n}_tokens_s": TOKENS / middle[n, "tokens"], f"{n}_prompt_s": PROMPT / middle[n, "prompt"]}
    for n in players:
        if n not in (*OURS, "bandwidth"):
            for mine in (m for m in OURS if m in players):
                row |= {f"{what}_over_{n}{mine[4:]}": middle[n, what] / middle[mine, what] for what in ("tokens", "prompt")}
    reads = 4 * (1 << 27) / middle["bandwidth", "tokens"]
    row["read_gb_s"] = reads / 1e9
    for mine in (m for m in OURS if m in players):
        row[f"read_share{mine[4:]}"] = matrices_of(size) * BITS[form] / 8 * TOKENS / middle[mine, "tokens"] / reads
    return {k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()}


FIRST = """
import sys, time
begin = time.perf_counter()
import numpy as np
from tilewright.examples import generate, llama
imported = time.perf_counter()

def peak():
    return next(int(l.split()[1]) / 1024 for l in open("/proc/self/status") if l.startswith("VmHWM"))

peaks = [peak()]
params, config, _ = generate.loaded(sys.argv[1], llama.config_of, llama.params_of)
d = generate.Decoder(llama.model, params, config)
loaded = time.perf_counter()
d.feed([5])
first = time.perf_counter()
peaks.append(peak())
d.forget()
d.feed(np.arange(min(512, config.context - 1)))
peaks.append(peak())
kept = (generate.bytes_of(params) + generate.bytes_of(d.caches)) / 2**20
print(imported - begin, loaded - imported, first - loaded, *peaks, kept)
"""
"""What a process does until its first token, and how much memory it takes."""


def first_token(size: str, form: str, path: Path, rounds: int) -> dict[str, Any]:
    """A row of processes that read a GGUF file: seconds until the first token, and peak memory after it and after a prompt, over the bytes of
    weights and cache; `model_over_kept`: without what the process has once the package is imported. The kernels are in the cache: one process
    more runs before."""
    said = [
        subprocess.run([sys.executable, "-c", FIRST, str(path)], capture_output=True, text=True, check=True).stdout
        for _ in range(1 + rounds)
    ]
    imports, load, token, python, peak, prompt, kept = (
        statistics.median(x) for x in zip(*[[float(v) for v in s.split()] for s in said[1:]])
    )
    row = {"imports_s": imports, "load_s": load, "token_s": token, "first_token_s": imports + load + token}
    row |= {"peak_mb": peak, "peak_over_kept": peak / kept, "prompt_peak_over_kept": prompt / kept, "imports_mb": python}
    row["model_over_kept"] = (prompt - python) / kept
    return {"size": size, "form": form, "what": "first token"} | {k: round(v, 3) for k, v in row.items()}


def recorded(sizes: list[str], forms: list[str], threads: list[int | None]) -> list[dict[str, Any]]:
    """The rows of this processor that are recorded and not measured now, with the date of each."""
    from tilewright.devices import get

    path = Path(__file__).resolve().parent.parent / "results" / "llm_vs.json"
    kept = json.loads(path.read_text()) if path.exists() else {"rows": [], "device": {}}
    if kept["device"].get("target") != get("cpu").fingerprint()["target"]:
        return []
    now = {(s, f, n) for s in sizes for f in forms for n in threads}
    counts = ((r, r.get("threads", None if "what" in r else threads[0])) for r in kept["rows"])
    return [{"date": kept["date"], **r} for r, n in counts if (r["size"], r["form"], n) not in now]


def main() -> int:
    """Compare every size, form and number of threads."""
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--sizes", nargs="+", default=["110M"])
    p.add_argument("--forms", nargs="+", default=[*BITS])
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--memory", type=float, default=4.0, help="GB that all programs together may take")
    p.add_argument("--add", action="store_true", help="print recorded rows of this processor again that are not measured now")
    p.add_argument("--first", action="store_true", help="the time of the first token and the memory of a process instead")
    p.add_argument("--play", nargs=4, metavar=("NAME", "SIZE", "FORM", "THREADS"))
    a = p.parse_args()
    if a.play:
        play(a.play[0], a.play[1], a.play[2], int(a.play[3]))
        return 0
    for row in recorded(a.sizes, a.forms, [None] if a.first else a.threads) if a.add else ():
        print(json.dumps(row), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LLM_VS"] = folder
        for size in a.sizes:
            for form in a.forms:
                if a.first:
                    gguf_of(size, form, path := Path(folder) / f"{size}-{form}.gguf")
                    print(json.dumps(first_token(size, form, path, a.rounds)), flush=True)
                    path.unlink()
                    continue
                names = [
                    "ours",
                    *(["ours_int8"] if BITS[form] < 16 else ["ours_bfloat16"] if form == "bfloat16" else []),
                    *(["llamacpp"] if "LLAMA_CPP" in os.environ else []),
                    *(["pytorch"] if BITS[form] >= 16 else []),
                    "bandwidth",
                ]
                needs = matrices_of(size) * BITS[form] / 8e9 * (len(names) - 1) + 0.6
                if needs > a.memory:
                    print(
                        json.dumps({"size": size, "form": form, "left_out": f"needs {needs:.1f} GB, and {a.memory:g} are allowed"}),
                        flush=True,
                    )
                    continue
                path = Path(folder) / f"{size}-{form}.gguf"
                gguf_of(size, form, path)
                for threads in a.threads:
                    print(json.dumps(compared(size, form, threads, a.rounds, names)), flush=True)
                path.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
