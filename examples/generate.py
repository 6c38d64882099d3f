"""Text from a language model: two captured functions, one that reads a chunk of tokens and one that makes the next, and how a token is chosen.

`Decoder` keeps keys and values; `choose` takes a token by its logits; `main` is the command line of the models beside this file."""

import argparse
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import ml_dtypes
import numpy as np
import tilewright as tw
from tilewright import Tensor, io, nn
from tilewright.targets.free_memory import require_room

from .language import CHUNK, Kept, KeptInt8, KeptTogether, Places, bytes_of


def checked(tokens, before, config):
    """Tokens after `before` others as an array. Raises UsageError where they are none, or do not fit."""
    ids = np.asarray(tokens, "int64").reshape(-1)
    if not len(ids):
        raise tw.UsageError("there are no tokens to read: give a prompt")
    if before + len(ids) > config.context:
        raise tw.UsageError(
            f"{before + len(ids)} tokens do not fit the context of {config.context}: give a shorter prompt, or a longer --context"
        )
    if ids.min() < 0 or ids.max() >= config.tokens:
        raise tw.UsageError(f"token {ids.max() if ids.min() >= 0 else ids.min()} is none of the model's {config.tokens}")
    return ids


class Decoder:
    """A model that has read some tokens. `model`: (params, caches, tokens (n,), place) → logits of the last token. Lengths and places are symbols:
    a prompt of any length, at any place, compiles nothing new."""

    def __init__(self, model, params, config, kv="float32", **options):
        self.params, self.config, self.length = params, config, 0
        heads, head = (config.kv_heads, config.head)
        empty = KeptInt8.empty if kv == "int8" else partial(Kept.empty, dtype=kv)
        self.caches = [empty(heads, config.context, head) for _ in range(config.layers)]
        at = tw.Var("at", 0, config.context - 1)
        n = tw.Var("n", 2, max(2, min(CHUNK, config.context)))
        self.read = tw.jit(
            lambda params, caches, tokens, at: model(params, caches, tokens, at, config), symbols={"tokens": {0: n}, "at": at}, **options
        )
        self.step = tw.jit(lambda params, caches, token, at: model(params, caches, token, at, config), symbols={"at": at}, **options)

    def feed(self, tokens):
        """Read tokens; the logits of the one that comes next, a NumPy array. Raises UsageError where they do not fit the context."""
        ids = checked(tokens, self.length, self.config)
        chunks = np.split(ids, range(CHUNK, len(ids), CHUNK))
        for chunk in chunks:
            function = self.step if len(chunk) == 1 else self.read
            logits = function(self.params, self.caches, Tensor(chunk), self.length)
            self.length += len(chunk)
        return logits.numpy()[0]

    def forget(self, length=0):
        """Keep the first tokens only."""
        self.length = min(self.length, length)


class Batch:
    """Several sequences of different lengths at once, each in a slot: one call reads tokens of any of them, prompts and single tokens together.
    `model` is as for `Decoder`. The numbers of tokens and the lengths are symbols."""

    def __init__(self, model, params, config, slots, kv="float32", **options):
        if kv not in ("float32", "bfloat16"):
            raise tw.UsageError(f"keys and values of several sequences are kept in float32 or bfloat16, not in {kv}")
        self.params, self.config, self.lengths = params, config, [0] * slots
        self.caches = [KeptTogether.empty(slots, config.kv_heads, config.context, config.head, kv) for _ in range(config.layers)]

        def logits(params, caches, tokens, slot, place, last, end):
            return model(params, caches, tokens, Places(slot, place, end), config, last)

        def captured(most):  # steps of one token each, and prompts among them
            n, b = tw.Var("n", 1, max(2, most)), tw.Var("b", 1, max(2, slots))
            symbols = {"tokens": {0: n}, "slot": {0: n}, "place": {0: n}, "last": {0: b}, "end": tw.Var("end", 1, config.context)}
            return tw.jit(logits, symbols=symbols, **options)

        self.step, self.read = captured(slots), captured(CHUNK)

    def feed(self, tokens):
        """Read tokens, a dict of lists by slot; the logits of the one that comes next in each, by slot. Raises UsageError where they do not fit
        the context."""
        rows = []  # (token, slot, place, whether it is its slot's last)
        for slot, ids in tokens.items():
            checked(ids, self.lengths[slot], self.config)
            rows += [(t, slot, self.lengths[slot] + i, i == len(ids) - 1) for i, t in enumerate(ids)]
        found = {}
        for first in range(0, len(rows), CHUNK):
            token, slot, place, ends = map(np.array, zip(*rows[first : first + CHUNK]))
            last = np.flatnonzero(ends) if ends.any() else np.array([0])
            function = self.step if len(token) <= len(self.lengths) else self.read
            y = function(self.params, self.caches, *map(Tensor, (token, slot, place, last)), int(place.max()) + 1).numpy()
            found |= {int(slot[i]): row for i, row in zip(last, y) if ends[i]}
        for slot, ids in tokens.items():
            self.lengths[slot] += len(ids)
        return found

    def forget(self, slot):
        """Free a slot for another sequence."""
        self.lengths[slot] = 0


@dataclass(frozen=True)
class Sampling:
    """How a token is chosen: the likeliest at temperature 0; else one of the `top_k` likeliest, and of the likeliest that together have `top_p`. The
    draws are functions of the seed and the token's place."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self):
        if not (0 <= self.temperature < float("inf") and self.top_k >= 0 and 0 <= self.top_p <= 1):
            raise tw.UsageError(
                f"temperature {self.temperature:g}, top-k {self.top_k} and top-p {self.top_p:g}: none is below 0, and top-p at most 1"
            )


DRAWS = 256
"""Random numbers that are made at once."""


class Chooser:
    """Chooses tokens by their logits."""

    def __init__(self, how):
        self.how, self._draws, self._block = how, None, -1

    def draw(self, place):
        """A number of [0, 1) for a place."""
        if place // DRAWS != self._block:
            self._block = place // DRAWS
            self._draws = nn.uniform((DRAWS,), (self.how.seed, self._block)).numpy()
        return float(self._draws[place % DRAWS])

    def choose(self, logits, place):
        """The token. Raises UsageError where the logits are no numbers."""
        best = int(logits.argmax())
        if not np.isfinite(logits[best]):
            raise tw.UsageError("the model's logits are NaN or infinite: its weights are damaged, or too large for their type")
        if self.how.temperature == 0:
            return best
        k = self.how.top_k
        among = np.argpartition(logits, -k)[-k:] if 0 < k < len(logits) else np.arange(len(logits))
        scaled = (logits[among].astype("float64") - logits[best]) / self.how.temperature
        order = np.argsort(-scaled, kind="stable")
        p = np.exp(scaled[order])
        total = np.cumsum(p / p.sum())
        kept = int(np.searchsorted(total, self.how.top_p)) + 1 if self.how.top_p < 1 else len(total)
        at = np.searchsorted(total[:kept], self.draw(place) * total[min(kept, len(total)) - 1], side="right")
        return int(among[order[min(at, len(total) - 1)]])


def tokens_after(decoder, prompt, most, how=Sampling(), ends=frozenset(), times=None):
    """Tokens one by one, until one that ends the text, `most`, or the end of the context. `times`: a dict that gets the seconds of the prompt and of
    each token."""
    chooser = Chooser(how)
    begin = time.perf_counter()
    logits = decoder.feed(prompt)
    for i in range(most):
        token = chooser.choose(logits, decoder.length)
        now = time.perf_counter()
        if times is not None:
            times.setdefault("prompt" if i == 0 else "tokens", []).append(now - begin)
        begin = now
        yield token
        if token in ends or decoder.length >= decoder.config.context or i == most - 1:
            return
        logits = decoder.feed([token])


def texts_after(batch, prompts, most, how=Sampling(), ends=frozenset()):
    """What `tokens_after` makes of each prompt, a list of lists: as many at once as there are slots, and the next prompt begins where one ends."""
    made, chooser = [[] for _ in prompts], Chooser(how)
    waiting, free, running = list(enumerate(prompts))[::-1], list(range(len(batch.lengths))), {}  # slot → prompt
    fed = {}
    while waiting or running:
        while waiting and free:
            which, prompt = waiting.pop()
            running[slot := free.pop()] = which
            fed[slot] = list(prompt)
        logits, fed = batch.feed(fed), {}
        for slot, row in logits.items():
            token = chooser.choose(row, batch.lengths[slot])
            text = made[running[slot]]
            text.append(token)
            if token in ends or batch.lengths[slot] >= batch.config.context or len(text) == most:
                batch.forget(slot)
                free.append(slot)
                del running[slot]
            else:
                fed[slot] = [token]
    return made


def bench(decoder, prompt=CHUNK, tokens=64):
    """(tokens of a prompt, the seconds of reading it, the seconds of each of `tokens` after it), once everything is compiled. There are fewer tokens
    where the context is short."""
    tokens = min(tokens, (decoder.config.context - 1) // 2)
    prompt = min(prompt, decoder.config.context - tokens - 1)
    if not tokens:
        raise tw.UsageError(f"a context of {decoder.config.context} places is too short to time: keep at least three")
    ids = np.random.default_rng(0).integers(0, decoder.config.tokens, prompt)
    for _ in range(2):
        times = {}
        decoder.forget()
        for _ in tokens_after(decoder, ids, tokens + 1, times=times):
            pass
    return prompt, times["prompt"][0], times["tokens"]


FORMS = ("float32", "bfloat16", "float16", "q8_0", "q4_0", "q4_k", "q6_k", "int8", "int4")


def packing(form):
    """What makes a matrix of a form out of one of float32."""
    if form == "float32":
        return lambda w: w
    if form in ("bfloat16", "float16"):
        return lambda w: Tensor(np.asarray(w).astype(ml_dtypes.bfloat16 if form == "bfloat16" else "float16"))
    return lambda w: tw.quantize(w, form)


def repacked(params, form, at="the model"):
    """The matrices of a tree of parameters in another form; `at`: what errors call the tree. Raises UsageError where a matrix has no such form."""
    if io.is_packed(params):
        return params
    if isinstance(params, dict):
        same = params.get("head") is params.get("embed")
        made = {k: v if k in ("cos", "sin") else repacked(v, form, f"{at}'s {k}") for k, v in params.items() if not (same and k == "head")}
        return made | ({"head": made["embed"]} if "head" in params and same else {})
    if isinstance(params, list):
        return [repacked(p, form, f"{at}[{i}]") for i, p in enumerate(params)]
    if params.ndim != 2:
        return params
    try:
        return packing(form)(params.numpy().astype("float32"))
    except tw.UsageError as e:
        raise tw.UsageError(f"{at}: {e}; leave --quant out, or take another form") from e


def arguments(about, shapes):
    """The command line."""
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", nargs="?", help="a Hugging Face folder, a GGUF file, or a .bin file of llama2.c or llm.c")
    p.add_argument("prompt", nargs="?", help="the text that is continued")
    p.add_argument("--random", choices=shapes, help="no file: random weights of a known shape")
    p.add_argument("--quant", choices=FORMS, help="pack the matrices first; as they are by default")
    p.add_argument("--tokens", type=int, default=200, help="the most tokens that are written (200)")
    p.add_argument("--chat", action="store_true", help="the prompt is a question: the model's chat template stands around it")
    p.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest token (default)")
    p.add_argument("--top-k", type=int, default=0, help="of so many likeliest tokens; 0 is all")
    p.add_argument("--top-p", type=float, default=1.0, help="of the likeliest tokens that have so much of the probability together")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--context", type=int, help="the most tokens that are kept; the model's own by default, at most 4096")
    p.add_argument("--kv", choices=("float32", "bfloat16", "int8"), default="float32", help="how keys and values are kept")
    p.add_argument(
        "--act",
        choices=("int8", "bfloat16"),
        help="allow rounded activations: of a token to 8 bits beside packed matrices, and of a prompt to bfloat16; or the latter alone",
    )
    p.add_argument("--threads", type=int)
    p.add_argument("--bench", action="store_true", help="time a prompt of 512 tokens and 64 tokens after it")
    return p


def loaded(path, config_of, params_of, context=4096, form=None):
    """(params, config, the model's file). Raises UsageError with the file's name where it is no such model, or does not fit into memory."""
    file = io.open_model(path)
    try:
        return *_loaded(file, config_of, params_of, context, form), file
    except tw.UsageError as e:
        if file.path in str(e):
            raise
        raise tw.UsageError(f"{file.path}: {e}") from e


def _loaded(file, config_of, params_of, context, form):
    path, config = file.path, config_of(file.config, context)
    if file.config.get("tie_word_embeddings") is False and "lm_head.weight" not in file.tensors:
        raise tw.UsageError(f"{path} has no lm_head.weight, and its config.json says that the embedding is not used in its place")
    require_room(file.tensors.nbytes, f"{path}, as it is stored,", "take a file of fewer bits a weight, such as a GGUF file of Q4_0")
    params = params_of(file.tensors, config)
    return repacked(params, form) if form else params, config


def main(about, config_of, params_of, init, model, shapes):
    """The command line of a model: write text, or time it."""
    given = arguments(about, shapes).parse_intermixed_args()  # (options may stand between the model and the prompt)
    try:
        _run(given, config_of, params_of, init, model, shapes)
    except tw.TilewrightError as e:
        sys.exit(f"error: {e}")


def _run(given, config_of, params_of, init, model, shapes):
    begin = time.perf_counter()
    for name, n in (("--context", given.context), ("--tokens", given.tokens), ("--threads", given.threads)):
        if n is not None and n < 1:
            raise tw.UsageError(f"{name} {n}: give at least one")
    if given.random:
        config, file = replace(shapes[given.random], **({"context": given.context} if given.context else {})), None
        params = init(config, given.seed, packing(given.quant or "float32"))
    elif given.model:
        params, config, file = loaded(given.model, config_of, params_of, given.context or 4096, given.quant)
    else:
        raise tw.UsageError("name a model's folder or file, or --random SIZE; --help says more")
    config = replace(config, act=given.act)
    decoder = Decoder(model, params, config, given.kv, **({"threads": given.threads} if given.threads else {}))
    if given.bench:
        nbytes = bytes_of(params)
        length, prompt, steps = bench(decoder)
        step = float(np.median(steps))
        print(f"{nbytes / 1e9:.3f} GB of weights; a prompt {length / prompt:,.1f} tokens/s, then {1 / step:,.1f} tokens/s "
              f"({nbytes / step / 1e9:.1f} GB/s)")  # fmt: skip
        return
    tokenizer = file.tokenizer() if file else None
    if given.prompt is None:
        raise tw.UsageError("give a prompt behind the model, or --bench")
    if tokenizer is None:
        raise tw.UsageError("random weights know no words: use --bench")
    text = tokenizer.chat([{"role": "user", "content": given.prompt}]) if given.chat else given.prompt
    ids = tokenizer.encode(text, begin=not given.chat)
    times, written = {}, count()
    how = Sampling(given.temperature, given.top_k, given.top_p, given.seed)

    def counted():
        for token in tokens_after(decoder, ids, given.tokens, how, tokenizer.ends, times):
            next(written)
            yield token

    for part in tokenizer.stream(counted()):
        print(part, end="", flush=True)
    total = time.perf_counter() - begin
    steps = times.get("tokens", [])
    rate = f"{1 / np.median(steps):,.1f} tokens/s (the median)" if steps else "none after the first"  # the first of a machine is compiled
    print(
        f"\n\n{len(ids)} tokens of prompt, {len(ids) / times['prompt'][0]:,.1f} tokens/s; {next(written)} written, {rate}; {total:.1f} s in all",
        file=sys.stderr,
    )
