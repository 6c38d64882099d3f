"""Tokens: the same text from a tokenizer.json and from GGUF's lists, SentencePiece's pairs as llama2.c merges them, chats, and streams."""

from __future__ import annotations

import json
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import tilewright as tw
from tilewright import weights

tokenizers = pytest.importorskip("tokenizers")
TEXT = ["the quick brown fox jumps over the lazy dog", "a quick dog, a brown fox: 12345 times!", "don't stop; naïve café über"] * 20
PROMPT = "the brown dog jumps 123 times, naïvely — ☃ don't!\n\n  two spaces"
TEMPLATE = "{{ bos_token }}{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"


def byte_pairs() -> Any:
    """A tokenizer as GPT-2's, of a few merges."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(TEXT, trainer)
    return made


def test_byte_pairs_from_a_folder_and_from_gguf(tmp_path: Path) -> None:
    made = byte_pairs()
    made.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": TEMPLATE, "bos_token": "<s>", "eos_token": {"content": "</s>"}})
    )
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [1, 7]}))
    mine = weights.tokens.from_folder(tmp_path, {})
    assert mine.decode(mine.encode(PROMPT)) == PROMPT and mine.ends == {1, 7}
    merges = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["merges"]
    data = {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": [made.id_to_token(i) for i in range(made.get_vocab_size())],
        "tokenizer.ggml.merges": [" ".join(m) if isinstance(m, list) else m for m in merges], "tokenizer.ggml.token_type": [3, 3],
        "tokenizer.ggml.bos_token_id": 0, "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.add_bos_token": True, "tokenizer.chat_template": TEMPLATE,
    }  # fmt: skip
    other = weights.tokens.from_gguf("a.gguf", data)
    assert other.encode(PROMPT, begin=False) == mine.encode(PROMPT) and other.encode(PROMPT)[0] == 0 and other.ends == {1}
    for t in (mine, other):
        asked = t.chat([{"role": "user", "content": "a dog?"}])
        assert asked == "<s>[user]a dog?[assistant]" and t.encode(asked, begin=False)[0] == 0
        assert "".join(t.stream(t.encode(PROMPT, begin=False))) == PROMPT, "letters of several tokens come whole"
    with pytest.raises(tw.UsageError, match="cuts words as 'mystery'"):
        weights.tokens.from_gguf("a.gguf", data | {"tokenizer.ggml.pre": "mystery"})
    with pytest.raises(tw.UsageError, match="its tokenizer is 'wordpiece'"):
        weights.tokens.from_gguf("a.gguf", data | {"tokenizer.ggml.model": "wordpiece"})


def test_texts_of_tokens_are_kept_only_in_the_tokenizer(tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list([f"t{i}" for i in range(10000)])
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    weights.open_model(tmp_path / "a.gguf")  # (what is imported by the first one stays)
    tracemalloc.start()
    try:
        model = weights.open_model(tmp_path / "a.gguf")
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 100_000 and model.tokenizer().decode([7, 9]) == "t7t9"


def test_digits_are_cut_as_the_model_was_taught() -> None:
    data = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [*"0123456789", "12", "123", "1234", "45", "Ġ"],
        "tokenizer.ggml.merges": ["1 2", "12 3", "123 4", "4 5"],
    }
    for split, wanted in (("gpt-2", ["1234", "5"]), ("llama-bpe", ["123", "45"]), ("qwen2", ["1", "2", "3", "4", "5"])):
        t = weights.tokens.from_gguf("a", data | {"tokenizer.ggml.pre": split})
        assert [data["tokenizer.ggml.tokens"][i] for i in t.encode("12345")] == wanted


def pieces() -> tuple[list[str], list[float]]:
    """SentencePiece's tokens and scores: bytes, letters, and pairs found in the text."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256))]
    letters = sorted({c for t in TEXT for c in t.replace(" ", "▁")})
    merged = [
        "▁t",
        "he",
        "▁the",
        "qu",
        "ic",
        "quic",
        "quick",
        "▁quick",
        "ox",
        "▁f",
        "▁fox",
        "do",
        "▁do",
        "▁dog",
        "g,",
        "ow",
        "row",
        "br",
        "brow",
        "▁b",
    ]
    return [*tokens, *letters, *merged], [0.0] * (259 + len(letters)) + [-float(i) for i in range(len(merged))]


def greedy(text: str, tokens: list[str], scores: list[float]) -> list[int]:
    """llama2.c's way: of neighbours whose join is a token, the join with the highest score, the first of them, until none is left."""
    place = {t: i for i, t in enumerate(tokens)}
    ids = [i for c in "▁" + text.replace(" ", "▁") for i in ([place[c]] if c in place else [3 + b for b in c.encode()])]
    while True:
        joins = [(scores[place[j]], -k, place[j]) for k in range(len(ids) - 1) if (j := tokens[ids[k]] + tokens[ids[k + 1]]) in place]
        if not joins:
            return ids
        _, k, new = max(joins)
        ids[-k : -k + 2] = [new]


def test_pairs_by_score(tmp_path: Path) -> None:
    tokens, scores = pieces()
    data = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.scores": scores, "tokenizer.ggml.token_type": [2, 3, 3],
            "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}  # fmt: skip
    t = weights.tokens.from_gguf("a.gguf", data)
    out = struct.pack("<I", 12)
    for i, (text, score) in enumerate(zip(tokens, scores)):
        raw = text.replace("▁", " ").encode() if i >= 259 else bytes([i - 3]) if i >= 3 else text.encode()
        out += struct.pack("<fI", score, len(raw)) + raw
    (tmp_path / "tokenizer.bin").write_bytes(out)
    other = weights.tokens.from_llama2c(tmp_path / "tokenizer.bin", len(tokens))
    for text in (*TEXT[:3], "☃ the fox", "  dog,  dog"):
        assert t.encode(text) == other.encode(text) == [1, *greedy(text, tokens, scores)], text
        assert t.decode(t.encode(text)) == text == "".join(t.stream(t.encode(text)))
    with pytest.raises(tw.UsageError, match="no chat template"):
        t.chat([])
    with pytest.raises(tw.UsageError, match="cut short or damaged"):
        weights.tokens.from_llama2c(tmp_path / "tokenizer.bin", len(tokens) + 1)


def test_templates_are_read_as_transformers_reads_them() -> None:
    """Objects as JSON with their own order and characters, marks of what a model wrote, and no tools."""
    template = "{% for m in messages %}{{ m | tojson }}{% endfor %}{% generation %}[{{ tools is none }}]{% endgeneration %}"
    t = weights.Tokenizer(byte_pairs(), template=template)
    assert t.chat([{"role": "user", "content": "<a> & 'é'"}]) == """{"role": "user", "content": "<a> & 'é'"}[True]"""


def test_text_that_is_none_is_said(tmp_path: Path) -> None:
    with pytest.raises(tw.UsageError, match=r"none of Unicode: '\\udcff' at 2"):
        weights.Tokenizer(byte_pairs()).encode("a \udcff")
    byte_pairs().save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "\\ud800"}')
    with pytest.raises(tw.UsageError, match=r"tokenizer_config\.json is no JSON"):
        weights.tokens.from_folder(tmp_path, {})
    with pytest.raises(tw.UsageError, match=r"token_type is 3, no list"):
        weights.tokens.from_gguf("a.gguf", {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": ["a"], "tokenizer.ggml.token_type": 3})


def test_a_template_is_no_program_of_this_process() -> None:
    t = weights.Tokenizer(byte_pairs(), template="{{ messages.__class__.__mro__ }}{{ ''.__class__.__base__.__subclasses__() }}")
    with pytest.raises(tw.UsageError, match="template fails: SecurityError"):
        t.chat([])
    for template, match in (
        ("{{ raise_exception('roles must alternate') }}", "refuses: roles must alternate"),
        ("{% for %}", "fails: TemplateSyntaxError"),
    ):
        t.template = template
        with pytest.raises(tw.UsageError, match=match):
            t.chat([])
