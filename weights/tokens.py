"""Text to tokens and back: `tokenizers`, made from a tokenizer.json, from a GGUF file's metadata, or from llama2.c's tokenizer.bin; and a chat
as the model's own template writes it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from ..ir.errors import UsageError
from .mapped_file import MappedFile, shown

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLITS = {"llama-bpe": WORDS % "{1,3}", "llama3": WORDS % "{1,3}", "qwen2": WORDS % "", "gpt-2": None, "default": None}
"""How texts are cut into words before pairs are merged, by GGUF's name; None: as GPT-2 does. Facts of the models' own tokenizers."""
CONTROL, OWN = 3, 4
"""Types of tokens in GGUF: those that are no text, and those that are never cut."""


def _library(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(name)
    except ImportError as e:
        raise UsageError(f"a model's tokens need the package {name}: pip install 'tilewright[models]'") from e


@dataclass
class Tokenizer:
    """Text to tokens and back. `made`: what `tokenizers` has; `first`: a token that begins every text, or None; `ends`: those that end one;
    `template`: of a chat, or None; `texts`: names of special tokens for it."""

    made: Any
    first: int | None = None
    ends: frozenset[int] = frozenset()
    template: str | None = None
    texts: Mapping[str, str] = field(default_factory=dict)

    def encode(self, text: str, begin: bool = True) -> list[int]:
        """The tokens of a text; `begin`: with those that a text begins with. Raises UsageError where the
        text is no Unicode."""
        try:
            text.encode()
        except UnicodeEncodeError as e:
            raise UsageError(f"the text has a character that is none of Unicode: {text[e.start]!r} at {e.start}") from e
        ids: list[int] = self.made.encode(text, add_special_tokens=begin).ids
        if begin and self.first is not None and ids[:1] != [self.first]:
            ids = [self.first, *ids]
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of tokens, without those that are no text."""
        text: str = self.made.decode([int(i) for i in ids])
        return text

    def stream(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of tokens as they come: letters that take several tokens come with the last of them."""
        stream = _library("tokenizers").decoders.DecodeStream(skip_special_tokens=True)
        for i in ids:
            text = stream.step(self.made, int(i))
            if text:
                yield text

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """A conversation ({"role": "user", "content": ...}, ...) as the model was taught to read it, up to where it answers. The text has its
        first tokens in it: encode it with `begin=False`. Raises UsageError where the model has no template, or a template refuses."""
        if self.template is None:
            raise UsageError("the model's files have no chat template: give the whole text as a prompt")
        sandbox = _library("jinja2.sandbox").ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _answers()]
        )
        sandbox.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        sandbox.filters["tojson"] = partial(json.dumps, ensure_ascii=False)  # (Jinja's own sorts names, and writes < as HTML needs it)
        given = {"messages": [dict(m) for m in messages], "tools": None, "documents": None, "add_generation_prompt": True}
        try:
            text: str = sandbox.from_string(self.template).render(**given, **self.texts)
        except UsageError:
            raise
        except Exception as e:  # a template is a program
            raise UsageError(f"the model's chat template fails: {type(e).__name__}: {e}") from e
        return text


def _answers() -> type:
    """Jinja's blocks `generation`, by which templates mark what a model wrote: what is in them is text like any other."""
    extension = _library("jinja2.ext").Extension

    def parse(self: Any, parser: Any) -> Any:
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)

    return type("Answers", (extension,), {"tags": {"generation"}, "parse": parse})


def _refuse(what: str) -> None:
    raise UsageError(f"the model's chat template refuses: {what}")


def _now(form: str) -> str:
    from datetime import datetime

    return datetime.now().strftime(form)


def from_folder(folder: Path, config: Mapping[str, Any]) -> Tokenizer:
    """That of a Hugging Face folder: tokenizer.json, with what tokenizer_config.json and generation_config.json say."""
    file = folder / "tokenizer.json"
    if not file.is_file():
        raise UsageError(f"{folder} has no tokenizer.json: save the model with a fast tokenizer of transformers")
    try:
        made = _library("tokenizers").Tokenizer.from_file(str(file))
    except UsageError:
        raise
    except Exception as e:  # the library raises Exception itself
        raise UsageError(f"{file}: no tokenizer that `tokenizers` reads ({str(e)[:200]})") from e
    said = {name: read_object(folder / name) for name in ("tokenizer_config.json", "generation_config.json") if (folder / name).is_file()}
    settings, generation = said.get("tokenizer_config.json", {}), said.get("generation_config.json", {})
    template = settings.get("chat_template")
    if isinstance(template, list):
        template = next((t.get("template") for t in template if isinstance(t, dict) and t.get("name") == "default"), None)
    own = folder / "chat_template.jinja"
    if own.is_file():
        template = own.read_text(encoding="utf-8")
    texts = {}
    for name in ("bos_token", "eos_token", "unk_token", "pad_token"):
        value = settings.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            texts[name] = text
    ends = {
        i
        for said in (config.get("eos_token_id"), generation.get("eos_token_id"))
        for i in (said if isinstance(said, list) else [said])
        if type(i) is int
    }
    if "eos_token" in texts and (i := made.token_to_id(texts["eos_token"])) is not None:
        ends.add(i)
    return Tokenizer(made, None, frozenset(ends), template if isinstance(template, str) else None, texts)


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object in a file. Raises UsageError."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(found, ensure_ascii=False).encode()  # (halves of characters are no text)
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror or e}") from e
    except (ValueError, RecursionError) as e:
        raise UsageError(f"{path} is no JSON ({str(e)[:100]})") from e
    if not isinstance(found, dict):
        raise UsageError(f"{path} is no JSON object")
    return found


def from_gguf(path: str, metadata: Mapping[str, Any]) -> Tokenizer:
    """That of a GGUF file's metadata: byte pairs (gpt2) or SentencePiece's pairs by score (llama)."""
    kind, tokens = metadata.get("tokenizer.ggml.model"), metadata.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(t, str) for t in tokens):
        raise UsageError(f"{path} has no list of tokens in its metadata")
    types = metadata.get("tokenizer.ggml.token_type", [])
    if not isinstance(types, list):
        raise UsageError(f"{path}: its tokenizer.ggml.token_type is {shown(types)}, no list")
    said = {name: metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("bos", "eos", "eot")}
    ids = {name: i for name, i in said.items() if type(i) is int and 0 <= i < len(tokens)}
    if kind == "gpt2":
        merges = metadata.get("tokenizer.ggml.merges", [])
        made = _byte_pairs(path, tokens, merges, str(metadata.get("tokenizer.ggml.pre", "default")))
    elif kind == "llama":
        scores = metadata.get("tokenizer.ggml.scores", [])
        if not isinstance(scores, list) or len(scores) != len(tokens):
            raise UsageError(f"{path} has {len(tokens)} tokens and no score for each")
        made = _by_score(tokens, scores, bool(metadata.get("tokenizer.ggml.add_space_prefix", True)))
    else:
        raise UsageError(f"{path}: its tokenizer is {shown(kind)}; gpt2 and llama are read")
    _special(made, [(t, types[i]) for i, t in enumerate(tokens) if i < len(types) and types[i] in (CONTROL, OWN)])
    begins = metadata.get("tokenizer.ggml.add_bos_token", kind == "llama")
    template = metadata.get("tokenizer.chat_template")
    return Tokenizer(
        made,
        ids.get("bos") if begins else None,
        frozenset(ids[name] for name in ("eos", "eot") if name in ids),
        template if isinstance(template, str) else None,
        {f"{name}_token": tokens[ids[name]] for name in ("bos", "eos") if name in ids},
    )


def _special(made: Any, found: Sequence[tuple[str, int]]) -> None:
    added = _library("tokenizers").AddedToken
    made.add_special_tokens([added(t, normalized=False, special=True) for t, kind in found if kind == CONTROL])
    made.add_tokens([added(t, normalized=False, special=False) for t, kind in found if kind == OWN])


def _byte_pairs(path: str, tokens: Sequence[str], merges: Any, split: str) -> Any:
    t = _library("tokenizers")
    if split not in SPLITS:
        raise UsageError(f"{path}: its tokenizer cuts words as {shown(split)} does; {', '.join(SPLITS)} are known")
    pairs = [tuple(m.split(" ", 1)) for m in merges if isinstance(m, str) and " " in m] if isinstance(merges, list) else []
    try:
        made = t.Tokenizer(t.models.BPE({text: i for i, text in enumerate(tokens)}, pairs, ignore_merges=split in ("llama-bpe", "llama3")))
    except Exception as e:  # the library raises Exception itself
        raise UsageError(f"{path}: no tokenizer that `tokenizers` makes ({str(e)[:200]})") from e
    bytes_of = t.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=SPLITS[split] is None)
    cut = SPLITS[split]
    if cut is None:
        made.pre_tokenizer = bytes_of
    else:
        made.pre_tokenizer = t.pre_tokenizers.Sequence([t.pre_tokenizers.Split(t.Regex(cut), "isolated"), bytes_of])
    made.decoder = t.decoders.ByteLevel()
    return made


def _by_score(tokens: Sequence[str], scores: Sequence[float], space: bool) -> Any:
    """SentencePiece's pairs: of all that could be merged, the pair whose whole has the highest score is. As a list of merges."""
    t = _library("tokenizers")
    vocabulary = {text: i for i, text in enumerate(tokens)}
    merges = []
    for text, score in zip(tokens, scores):
        parts = [(text[:cut], text[cut:]) for cut in range(1, min(len(text), 64)) if text[:cut] in vocabulary and text[cut:] in vocabulary]
        merges += [(score, *part) for part in sorted(parts, key=lambda p: (vocabulary[p[0]], vocabulary[p[1]]))]
    merges.sort(key=lambda m: -m[0])
    unknown = tokens[0] if tokens[0] == "<unk>" else None
    made = t.Tokenizer(
        t.models.BPE(vocabulary, [m[1:] for m in merges], unk_token=unknown, fuse_unk=True, byte_fallback="<0x00>" in vocabulary)
    )
    n, d = t.normalizers, t.decoders
    made.normalizer = n.Sequence([*([n.Prepend("▁")] if space else []), n.Replace(" ", "▁")])
    made.decoder = d.Sequence([d.Replace("▁", " "), d.ByteFallback(), d.Fuse(), *([d.Strip(" ", 1, 0)] if space else [])])
    return made


def from_llama2c(path: Path, vocabulary: int) -> Tokenizer:
    """llama2.c's tokenizer.bin: a score and a text for each of `vocabulary` tokens. Tokens 0 to 2 are unknown, begin and end, and 3 to 258 bytes."""
    file = MappedFile(path)
    file.number("<I")  # the longest text
    tokens: list[str] = []
    scores: list[float] = []
    for i in range(vocabulary):
        score, length = file.numbers("<fI")
        text = file.bytes(length).decode("utf-8", "replace").replace(" ", "▁")
        tokens.append(("<unk>", "<s>", "</s>")[i] if i < 3 else f"<0x{i - 3:02X}>" if i < 259 else text)
        scores.append(score)
    made = _by_score(tokens, scores, True)
    _special(made, [(t, CONTROL) for t in tokens[:3]])
    return Tokenizer(made, 1, frozenset({2}), None, {"bos_token": "<s>", "eos_token": "</s>"})
