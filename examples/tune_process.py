"""The process in which `tune model FOLDER_OR_GGUF` tunes a language model, and `tune report --tokens` runs it:
`python -m tilewright.examples.tune_process PATH OPTIONS`.

OPTIONS is a JSON object. What happens is written to standard output, a JSON object a line."""

import json
import os
import sys
import time
from dataclasses import asdict, replace

import numpy as np
import tilewright as tw
from tilewright import io
from tilewright.bridges.model_tuning import EventLines, accept, search
from tilewright.cli.functions.profile import Profile
from tilewright.search import parse_seconds
from tilewright.tensor.capture.jit_options import JitOptions
from tilewright.tensor.running.observers import observing

from . import generate, gpt2_text, llama

PROMPT, TOKENS, FIRST = 128, 16, 0.7
"""Tokens of the prompt that is timed, tokens that are made after it, and the share of the budget for kernels that make tokens: they run most."""


def read(path):
    """(model, params, config) of a model's files. Raises UsageError."""
    module = gpt2_text if io.open_model(path).config.get("model_type") == "gpt2" else llama
    params, config, _ = generate.loaded(path, module.config_of, module.params_of)
    return module.model, params, config


def token(path, **options):
    """What a token of a model's files does: its seconds, those of each of its kernels, and bytes. A dict for JSON. Raises UsageError."""
    decoder = generate.Decoder(*read(path), **options)

    def burst():
        decoder.forget()
        return [(time.perf_counter(), decoder.feed([0]))[0] for _ in range(min(TOKENS, decoder.config.context))] + [time.perf_counter()]

    burst()
    whole, profile, events, times = np.median([np.median(np.diff(burst())) for _ in range(3)]), Profile(), [], {}
    with observing(events.append):
        runs = len(burst()) - 1
    for e in events:
        times.setdefault((e.name, id(e.subject)), []).append(e.seconds)
    for e in events:  # (a call that another program interrupted takes many times as long)
        profile.told(replace(e, seconds=float(np.median(times[e.name, id(e.subject)]))))
    kernels = [
        asdict(r) | {"calls": r.calls / runs, "seconds": r.seconds / runs, "nbytes": r.nbytes * r.calls / runs, "gbytes_s": r.gbytes_s}
        for r in profile.rows()
    ]
    return {"seconds": float(whole), "weights": generate.bytes_of(decoder.params), "kernels": kernels}


def tune(path, budget="60s", watcher=None, **options):
    """Tune the kernels of a model's files, those of a token first. Returns a TunedModel; its times are of a prompt and some tokens. Raises UsageError."""
    model, params, config = read(path)
    prompt = np.arange(min(PROMPT, config.context // 2)) % config.tokens
    tokens = min(TOKENS, config.context - len(prompt) - 1)

    def timed(decoder):
        begin = time.perf_counter()
        decoder.forget()
        for _ in generate.tokens_after(decoder, prompt, tokens):
            pass
        return time.perf_counter() - begin

    before = generate.Decoder(model, params, config, **options, tune="list")
    timed(before)
    whole = parse_seconds(budget)
    parts = [
        search(f.programs, JitOptions(**options, budget=share * whole), watcher)
        for f, share in ((before.step, FIRST), (before.read, 1 - FIRST))
    ]
    return accept(parts, lambda: timed(before), watcher)


def main(arguments):
    """Tune, or say what a token does; 0, or 2 where the model or what is asked of it is not as it must be."""
    path, text = arguments
    lines = EventLines(os.fdopen(os.dup(1), "w"))
    os.dup2(2, 1)
    options = json.loads(text)
    try:
        if options.pop("token", False):
            lines.say("token", **token(path, **options))
        else:
            lines.say("tuned", **asdict(tune(path, watcher=lines, **options)), fallbacks=[])
    except tw.TilewrightError as e:
        lines.say("failed", error=str(e))
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
