"""`tune report --tokens`: what a token of a language model reads, and which of its kernels are not at the speed of memory."""

from __future__ import annotations

import json
from argparse import Namespace
from typing import Any

from ...ir.errors import UsageError
from ..terminal.style import bytes_text, console, duration, rate, soft_wrapped, table

NEAR = 0.9
"""Share of the bandwidth from which on a kernel counts as being at it."""


def run(args: Namespace) -> int:
    """Run the model in a process of its own, and print a line for each kernel of a token. Raises UsageError."""
    from ..tuning.model import events, is_files

    if not is_files(args.tokens):
        raise UsageError(f"--tokens {args.tokens} is no language model: give a Hugging Face folder, a GGUF file, or a .bin file")
    if args.html or args.format not in ("table", "json"):
        raise UsageError("--tokens prints a table, or --format json")
    threads = {} if args.threads is None else {"threads": args.threads}
    (found,) = events("examples", [args.tokens, json.dumps({"token": True, "cache": args.cache, **threads})])
    if found.pop("event") == "failed":
        raise UsageError(found["error"])
    token = facts(found)
    if args.format == "json":
        print(json.dumps(token, indent=1))
    else:
        _print(args, token)
    return 0


def facts(found: dict[str, Any]) -> dict[str, Any]:
    """The same, with bytes and bandwidths of the whole. `share`: of the bytes a second that this machine reads, None where its limits are not
    known; `slow`: seconds that a kernel takes beyond those of its bytes."""
    from ...devices import get

    kernels, seconds = found["kernels"], found["seconds"]
    limits = get("cpu").limits()
    threads = max((k["threads"] for k in kernels), default=1)
    reads = None if limits is None else limits.bandwidth(threads, writes=False)
    for k in kernels:
        k["share"] = k["nbytes"] / k["seconds"] / reads if reads else None
        k["slow"] = k["seconds"] - k["nbytes"] / reads if reads else None
    nbytes = sum(k["nbytes"] for k in kernels)
    share = nbytes / seconds / reads if reads else None
    between = max(0.0, seconds - sum(k["seconds"] for k in kernels))
    return found | {"nbytes": nbytes, "reads_s": reads, "share": share, "between_s": between, "threads": threads}


def _print(args: Namespace, token: dict[str, Any]) -> None:
    out = console(wide=args.wide)
    t = table(f"a token of {args.tokens}", "kernel", ">runs?1", ">time", ">bytes?2", ">GB/s?3", ">of memory", "schedule?4")

    def share(of: float | None) -> str:
        return "-" if not of else f"{100 * of:.0f} %" if of <= 1 else "in cache"

    shown = token["kernels"][: args.limit or len(token["kernels"])]
    for k in shown:
        figures = bytes_text(round(k["nbytes"])), rate(k["gbytes_s"], ""), share(k["share"])
        t.add_row(k["name"], f"{k['calls']:g}", duration(k["seconds"]), *figures, k["origin"])
    out.print(t)
    whole = f"{duration(token['seconds'])} a token with {token['threads']} threads, {bytes_text(round(token['nbytes']))} moved"
    of = f", {share(token['share'])} of the {token['reads_s'] / 1e9:.3g} GB/s that memory gives" if token["reads_s"] else ""
    line = f"{whole}: {token['nbytes'] / token['seconds'] / 1e9:.3g} GB/s{of}; {duration(token['between_s'])} between kernels"
    out.print(line, soft_wrap=soft_wrapped(out))
    if token["reads_s"] is None:
        out.print("this machine's limits are not known: `tune devices --probe` measures them, for shares of the bandwidth", style="dim")
        return
    slow = sorted((k for k in token["kernels"] if k["share"] < NEAR), key=lambda k: -k["slow"])
    for k in slow[:3]:
        text = f"{k['name']} takes {duration(k['slow'])} more than its bytes, {100 * k['slow'] / token['seconds']:.0f} % of a token"
        out.print(text, soft_wrap=soft_wrapped(out))
